package upstream

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"dyno/services/bot/openai"
)

// models makes upstreams of one model each, by the names of the models.
func models(names ...string) (list []Upstream) {
	for _, name := range names {
		list = append(list, Upstream{Models: map[string]string{name: name}})
	}
	return list
}

// askFor asks for a model, and returns what answered, or the failure.
func (b *bed) askFor(model string, of *Tenant) (by string, e *Error) {
	r := ask(b.t, false)
	r.Model = model
	a, err := b.Ask(b.t.Context(), r, of)
	if errors.As(err, &e) {
		return "", e
	}
	return a.Model + " of " + a.Upstream, nil
}

// says makes each server answer with a status and a body, and records who was asked.
func (b *bed) says(asked *[]string, say map[string]struct {
	status int
	body   string
}) {
	for name, s := range b.servers {
		s.handler = func(w http.ResponseWriter, _ *http.Request) {
			*asked = append(*asked, name)
			response, ok := say[name]
			if !ok {
				response.status, response.body = http.StatusOK, `{"choices":[{"message":{"content":"x"}}]}`
			}
			w.WriteHeader(response.status)
			_, _ = io.WriteString(w, response.body)
		}
	}
}

type response = struct {
	status int
	body   string
}

// TestFallbacks: another model is asked by the cause of the failure, in order, if the key may use it.
func TestFallbacks(t *testing.T) {
	inBubble(t, models("big", "long", "cheap", "alone"), func(c *Config) {
		c.Attempts, c.Failures = 1, 1000
		c.Fallbacks = []Fallback{{Model: "big", To: []string{"long", "cheap"}, On: []Cause{Context, Filtered}}, {Model: "big", To: []string{"cheap"}}, {Model: "*", To: []string{"cheap"}, On: []Cause{Down}}}
	}, nil, func(t *testing.T, b *bed) {
		var asked []string
		for _, c := range []struct {
			name, model string
			say         map[string]response
			by          string
			asked       string
		}{
			{"well", "big", nil, "big of a", "a"},
			{"down", "big", map[string]response{"a": {500, ""}}, "cheap of c", "ac"},
			{"limited", "big", map[string]response{"a": {429, ""}}, "cheap of c", "ac"},
			{"too long, by code", "big", map[string]response{"a": {400, `{"error":{"message":"no","code":"context_length_exceeded"}}`}}, "long of b", "ab"},
			{"too long, by text", "big", map[string]response{"a": {400, `{"error":{"message":"This model's maximum context length is 10 tokens"}}`}}, "long of b", "ab"},
			{"filtered", "big", map[string]response{"a": {400, `{"error":{"message":"no","code":"content_filter"}}`}}, "long of b", "ab"},
			{"too long for the next one, too", "big", map[string]response{"a": {400, `{"error":{"message":"prompt is too long: 9 tokens"}}`}, "b": {400, `{"error":{"message":"prompt is too long"}}`}}, "cheap of c", "abc"},
			{"the client's fault", "big", map[string]response{"a": {400, `{"error":{"message":"no"}}`}}, "", "a"},
			{"all down", "big", map[string]response{"a": {500, ""}, "c": {503, ""}}, "", "ac"},
			{"a fallback of all", "alone", map[string]response{"d": {502, ""}}, "cheap of c", "dc"},
			{"a fallback of all, for another cause", "alone", map[string]response{"d": {429, ""}}, "", "d"},
		} {
			asked = nil
			b.says(&asked, c.say)
			by, e := b.askFor(c.model, nil)
			if by != c.by || strings.Join(asked, "") != c.asked || e != nil && (e.Attempts != len(asked) || e.Upstream != asked[len(asked)-1]) {
				t.Errorf("%s: %q, %v, asked %q", c.name, by, e, asked)
			}
		}
		asked = nil
		b.says(&asked, map[string]response{"a": {500, ""}})
		if by, e := b.askFor("big", b.NewTenant(nil, func(model string) bool { return model != "cheap" }, nil)); e == nil || !slices.Equal(asked, []string{"a"}) {
			t.Errorf("a model that the key may not use: %s, %q", by, asked)
		}
	})
	inBubble(t, models("big", "cheap"), func(c *Config) {
		c.Upstreams[0].Price, c.Upstreams[1].Price = Prices{{Prompt: 1, Completion: 1}}, Prices{{Prompt: 5}}
		c.Upstreams[0].MaxTokens, c.Upstreams[1].MaxTokens = 10, 20
		c.Fallbacks = []Fallback{{Model: "big", To: []string{"cheap"}}}
	}, nil, func(t *testing.T, b *bed) {
		if p := b.Reserve("big", time.Now()); p != (Price{Prompt: 5, Completion: 1}) || b.MaxTokens("big") != 20 || b.Longest() != 2*time.Duration(b.cfg.Attempts)*b.cfg.Total {
			t.Errorf("%+v, %d, %v: not that of all models that may answer", p, b.MaxTokens("big"), b.Longest())
		}
	})
	c := Defaults()
	c.Policy = loopback
	u := DefaultUpstream()
	u.Name, u.URL, u.Models = "u", "http://127.0.0.1/v1", map[string]string{"m": "m"}
	c.Upstreams, c.Fallbacks = []Upstream{u}, []Fallback{{Model: "x", To: []string{"m", "y"}}, {Model: "m", To: []string{"m"}}}
	err := c.Validate()
	for _, want := range []string{`fallbacks[0].model: no deployment has "x"`, `fallbacks[0].to[1]: "y" cannot`, `fallbacks[1].to[0]: "m" cannot`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestQuotas: a deployment gets as many requests and tokens of a minute as its quotas have; others get the rest. What is
// reserved is replaced by what was used.
func TestQuotas(t *testing.T) {
	upstreams := models("m", "m")
	upstreams[0].Requests, upstreams[1].Priority = 3, 1
	inBubble(t, upstreams, nil, nil, func(t *testing.T, b *bed) {
		var asked []string
		b.says(&asked, nil)
		for range 5 {
			_, _ = b.askFor("m", nil)
		}
		<-time.After(20 * time.Second)
		for range 2 {
			_, _ = b.askFor("m", nil)
		}
		if got := strings.Join(asked, ""); got != "aaabbab" {
			t.Error(got)
		}
	})
	upstreams = models("m")
	upstreams[0].Tokens = 600
	inBubble(t, upstreams, nil, nil, func(t *testing.T, b *bed) {
		used := 200
		b.servers["a"].handler = func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.ReplaceAll(`{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":N,"completion_tokens":0}}`, "N", map[int]string{200: "200", 1: "1"}[used]))
		}
		ask := func() *Error {
			r, err := openai.Standard().Parse(openai.Chat, []byte(`{"model":"m","messages":[{}],"max_tokens":300}`))
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.Ask(t.Context(), r, nil)
			var e *Error
			errors.As(err, &e)
			return e
		}
		for range 2 { // 600 are left, then 400, then 200
			if e := ask(); e != nil {
				t.Fatal(e)
			}
		}
		if e := ask(); e == nil || e.Status != http.StatusTooManyRequests || e.RetryAfter < 10*time.Second || e.RetryAfter > 11*time.Second {
			t.Errorf("%+v", e)
		}
		used = 1
		<-time.After(11 * time.Second)
		for range 5 {
			if e := ask(); e != nil {
				t.Error(e)
			}
		}
	})
}

// TestBalance: the least busy one, and the fastest one, get more requests.
func TestBalance(t *testing.T) {
	for _, balance := range []Balance{Least, Latency} {
		inBubble(t, models("m", "m", "m"), func(c *Config) {
			c.Balance = balance
			c.Upstreams[2].Priority = 1
		}, nil, func(t *testing.T, b *bed) {
			counts := map[string]int{}
			for name, s := range b.servers {
				s.handler = func(w http.ResponseWriter, _ *http.Request) {
					if name == "a" {
						<-time.After(time.Second)
					}
					_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"x"}}]}`)
				}
			}
			if balance == Least { // one call of a is under way
				place := b.targets[0].places.Grant(nil)
				place.Hold(1)
				defer place.Keep(0)
			}
			for range 200 {
				by, e := b.askFor("m", nil)
				if e != nil {
					t.Fatal(e)
				}
				counts[strings.TrimPrefix(by, "m of ")]++
			}
			if counts["b"] < 120 || counts["c"] > 0 {
				t.Errorf("%s: %v", balance, counts)
			}
		})
	}
}
