package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"dyno/services/bot/openai"
)

// Events of streams.
const (
	word   = `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}` + "\n\n"
	stop   = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	used   = `data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5}}` + "\n\n"
	second = `data: {"choices":[{"index":1,"delta":{"content":"b"},"finish_reason":null}]}` + "\n\n"
	ended  = "data: [DONE]\n\n"
	ping   = ": ping\n\n"
)

// says answers with a text, and flushes it.
func says(w http.ResponseWriter, text string) {
	_, _ = io.WriteString(w, text) // the client may have gone
	_ = http.NewResponseController(w).Flush()
}

// writeEndlessly says a text once a second until the client goes.
func writeEndlessly(w http.ResponseWriter, r *http.Request, text string) {
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-tick.C:
			says(w, text)
		case <-r.Context().Done():
			tick.Stop()
			return
		}
	}
}

// TestEnds: a stream whose choices have all ended is complete, whatever follows. One whose choices have not is cut.
func TestEnds(t *testing.T) {
	three := func(choices int) *openai.Request {
		r, err := openai.Standard().Parse(openai.Chat, fmt.Appendf(nil, `{"model":"m","stream":true,"n":%d,"messages":[{}]}`, choices))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for name, c := range map[string]struct {
		text     string
		choices  int
		complete bool
		reported bool // what was used
	}{
		"all of it":                  {word + stop + used + ended, 1, true, true},
		"no end":                     {word + stop + used, 1, true, true},
		"no usage, no end":           {word + stop, 1, true, false},
		"no empty line":              {word + stop + used + "data: [DONE]\n", 1, true, true},
		"no line":                    {word + stop + strings.TrimRight(used, "\n"), 1, true, true},
		"ended by its last word":     {strings.Replace(word, "null", `"length"`, 1), 1, true, false},
		"half of an event behind":    {word + stop + used[:20], 1, true, false},
		"no event behind":            {word + stop + "data: {\n\n", 1, true, false},
		"not ended":                  {word, 1, false, false},
		"not ended, with usage":      {word + used, 1, false, true},
		"two choices, one ended":     {word + second + stop, 2, false, false},
		"two choices, one is there":  {word + stop, 2, false, false},
		"another choice than wanted": {word + second + stop, 1, false, false},
		"two choices":                {word + second + stop + strings.Replace(stop, `"index":0`, `"index":1`, 1) + used, 2, true, true},
		"an error behind":            {word + stop + `data: {"error":{"message":"x"}}` + "\n\n", 1, false, false},
	} {
		for _, how := range []string{"closed", "broken", "open", "comments"} {
			t.Run(name+", "+how, func(t *testing.T) {
				inBubble(t, make([]Upstream, 1), func(c *Config) { c.Attempts, c.Failures = 1, 1 }, nil, func(t *testing.T, b *bed) {
					b.servers["a"].handler = func(w http.ResponseWriter, r *http.Request) {
						says(w, c.text)
						switch how {
						case "broken":
							panic(http.ErrAbortHandler)
						case "open":
							<-r.Context().Done()
						case "comments":
							writeEndlessly(w, r, ping)
						}
					}
					began := time.Now()
					a, err := b.Ask(t.Context(), three(c.choices), nil)
					if err != nil {
						t.Fatal(err)
					}
					defer a.Stream.Close()
					last := ""
					for err == nil {
						if _, err = a.Stream.Next(); err == nil {
							last = string(a.Stream.Frame().Raw)
						}
					}
					if complete := errors.Is(err, io.EOF); complete != c.complete {
						t.Fatalf("%v", err)
					}
					if c.complete && last != ended {
						t.Errorf("ends with %q", last)
					}
					reported := c.reported && (name != "no line" || how == "closed" || how == "broken") // otherwise more of it may come
					if u := a.Stream.Usage(); c.complete && u.Estimated == reported || reported && u.Prompt != 7 {
						t.Errorf("%+v", u)
					}
					a.Stream.Close()
					if took := time.Since(began); c.complete && took > 2*time.Second {
						t.Errorf("after %v", took)
					}
					slow := how == "comments" && time.Since(began) == b.cfg.Total // who reads may be so, too
					if s := b.States()[0]; s.Ready != (c.complete || slow) {
						t.Errorf("%+v", s)
					}
				})
			})
		}
	}
}

// TestSignsOfLife: an upstream's comments extend the wait before and between events, up to the bound on the answer.
// Who waits is told, and nobody is asked twice.
func TestSignsOfLife(t *testing.T) {
	for _, each := range []string{ping, ":\n", "data:\n\n"} {
		inBubble(t, []Upstream{{}, {Terms: Terms{Priority: 1}}}, func(c *Config) { c.FirstByte, c.Idle, c.Total = 3*time.Second, 2*time.Second, 5*time.Minute }, nil, func(t *testing.T, b *bed) {
			b.servers["a"].handler = func(w http.ResponseWriter, _ *http.Request) {
				for _, what := range []string{word, word, stop + ended} {
					for range 50 {
						says(w, each)
						<-time.After(900 * ms)
					}
					says(w, what)
				}
			}
			alive := 0
			a, err := b.AskStream(t.Context(), ask(t, true), nil, func() { alive++ })
			if err != nil {
				t.Fatal(err)
			}
			if alive < 20 || alive > 45 || a.Upstream != "a" || a.Attempts != 1 {
				t.Errorf("%q: alive %d times, %+v", each, alive, a)
			}
			if text, err := read(a.Stream); text != "aa" || !errors.Is(err, io.EOF) || alive < 60 {
				t.Errorf("%q: %q, %v, alive %d times", each, text, err, alive)
			}
			b.servers["a"].handler = func(w http.ResponseWriter, r *http.Request) { writeEndlessly(w, r, each) }
			began := time.Now()
			a, err = b.AskStream(t.Context(), ask(t, true), nil, nil)
			if err != nil || a.Upstream != "b" || time.Since(began) != 5*time.Minute || b.servers["a"].count() != 2 {
				t.Fatalf("%q: %+v, %v after %v", each, a, err, time.Since(began))
			}
			a.Stream.Close()
		})
	}
}

// TestSilence: times are those of the upstream, or of all. An error that comes at once has a status of its own: nobody has been
// told anything before.
func TestSilence(t *testing.T) {
	const head = 2 * time.Second // until it comes
	upstreams := []Upstream{{Terms: Terms{FirstByte: time.Minute, Idle: 2 * time.Minute}}, {Terms: Terms{Priority: 1}}}
	inBubble(t, upstreams, func(c *Config) { c.FirstByte, c.Idle = 5*time.Second, 7*time.Second }, nil, func(t *testing.T, b *bed) {
		for _, first := range []bool{true, false} {
			for _, s := range b.servers {
				s.handler = func(w http.ResponseWriter, r *http.Request) {
					<-time.After(head)
					if says(w, ""); !first {
						says(w, word)
					}
					<-r.Context().Done()
				}
			}
			began := time.Now()
			a, err := b.AskStream(t.Context(), ask(t, true), nil, func() { t.Error("alive") })
			want := head + 2*time.Minute
			if first {
				want = head + time.Minute + head + 5*time.Second
			} else if err != nil {
				t.Fatal(err)
			} else {
				_, err = read(a.Stream)
			}
			var e *Error
			if !errors.As(err, &e) || e.Status != http.StatusGatewayTimeout || time.Since(began) != want {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		}
	})
	inBubble(t, make([]Upstream, 1), func(c *Config) { c.Attempts = 1 }, nil, func(t *testing.T, b *bed) {
		b.servers["a"].handler = func(w http.ResponseWriter, _ *http.Request) {
			says(w, ping)
			<-time.After(alivePause / 2)
			says(w, ping+`data: {"error":"full"}`+"\n\n")
		}
		if _, err := b.AskStream(t.Context(), ask(t, true), nil, func() { t.Error("alive") }); err == nil {
			t.Error("no error")
		}
	})
}

// TestAskedOnce: an upstream that is slow, or whose answer has an unknown form, does not get the request again.
func TestAskedOnce(t *testing.T) {
	for _, stream := range []bool{false, true} {
		inBubble(t, []Upstream{{}, {Terms: Terms{Priority: 1}}}, func(c *Config) { c.FirstByte, c.Total, c.Attempts, c.Failures = time.Second, 2*time.Second, 9, 100 }, nil, func(t *testing.T, b *bed) {
			b.servers["a"].set("hang")
			b.servers["b"].handler = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "data: 7\n\n") }
			var e *Error
			if _, err := b.Ask(t.Context(), ask(t, stream), nil); !errors.As(err, &e) || e.Attempts != 2 || e.Upstream != "b" || b.servers["a"].count() != 1 || b.servers["b"].count() != 1 {
				t.Errorf("streamed %v: %+v", stream, e)
			}
			if made, _ := b.Retries(); made != 1 || e.RetryAfter != 0 {
				t.Errorf("%d retries, %+v", made, e)
			}
		})
	}
}

// strict refuses options of streams.
func strict(status int, refusal string) (http.HandlerFunc, *[]string) {
	asked := new([]string)
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		*asked = append(*asked, string(body))
		if strings.Contains(string(body), "stream_options") {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, refusal)
			return
		}
		_, _ = io.WriteString(w, word+stop+ended)
	}, asked
}

// TestNoStreamOptions: an upstream that does not know options of streams is asked without them, at once if that is known.
func TestNoStreamOptions(t *testing.T) {
	for _, c := range []struct {
		status  int
		refusal string
		known   bool
		options string // of the client
		calls   [2]int // of the first answer, and of the second
	}{
		{400, `{"error":{"message":"Extra inputs are not permitted: stream_options"}}`, false, "", [2]int{2, 1}},
		{422, `{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}`, false, "", [2]int{2, 1}},
		{400, "unknown field include_usage", false, `,"stream_options":{"include_usage":true}`, [2]int{2, 1}},
		{400, "unknown field stream_options", true, `,"stream_options":{"include_usage":true,"x":1}`, [2]int{1, 1}},
		{400, "unknown field stream_options", false, `,"stream_options":{"x":1}`, [2]int{-1, -1}}, // the client is at fault
		{400, "unknown field", false, "", [2]int{-1, -1}},
		{500, "unknown field stream_options", false, "", [2]int{-1, -1}},
	} {
		inBubble(t, []Upstream{{Server: Server{NoStreamOptions: c.known}}}, func(c *Config) { c.Attempts, c.RetryBurst = 1, 0 }, nil, func(t *testing.T, b *bed) {
			handler, asked := strict(c.status, c.refusal)
			b.servers["a"].handler = handler
			for _, calls := range c.calls {
				r, err := openai.Standard().Parse(openai.Chat, []byte(`{"model":"m","messages":[{}],"stream":true`+c.options+`}`))
				if err != nil {
					t.Fatal(err)
				}
				*asked = nil
				a, err := b.Ask(t.Context(), r, nil)
				if calls < 0 {
					if err == nil || len(*asked) != 1 {
						t.Errorf("%+v: asked %d times, %v", c, len(*asked), err)
					}
					continue
				}
				if err != nil || len(*asked) != calls || a.Attempts != calls {
					t.Fatalf("%+v: %v, asked %q", c, err, *asked)
				}
				if text, err := read(a.Stream); text != "a" || !errors.Is(err, io.EOF) || !a.Stream.Usage().Estimated {
					t.Errorf("%+v: %q, %v", c, text, err)
				}
			}
			if s := b.States()[0]; (s.Failures > 0) != (c.status == 500) {
				t.Errorf("%+v: %+v", c, s)
			}
		})
	}
}

// TestReasons: what an upstream says of its failure is told, with the names that it gives it; the log has it without secrets.
func TestReasons(t *testing.T) {
	const key = "the-gateways-own-key"
	for _, c := range []struct {
		status     int
		text, want string
		kind, code string
	}{
		{429, `{"error":{"message":"used up","type":"insufficient_quota","code":"insufficient_quota"}}`, "upstream a: status 429: used up", "insufficient_quota", "insufficient_quota"},
		{429, `{"error":"slow down"}`, "upstream a: status 429: slow down", "", ""},
		{503, "loading the model", "upstream a: status 503: loading the model", "", ""},
		{500, "<html>", "upstream a: status 500", "", ""},
		{502, `{"detail":"out of memory"}`, "upstream a: status 502: out of memory", "", ""},
		{401, `{"error":{"message":"wrong key ` + key + `","type":"a","code":"invalid_api_key"}}`, "upstream a: status 401: wrong key [key]", "", ""},
		{200, `{"error":{"message":"full (33/32)","code":502}}`, "full (33/32)", "", ""},
		{200, `{"error":{"message":"full","type":"busy","code":"full"}}`, "full", "busy", "full"},
		{200, `{"choices":"` + key + `"}`, "its answer is not in a known form", "", ""},
	} {
		for _, stream := range []bool{false, true} {
			var logged bytes.Buffer
			inBubble(t, []Upstream{{Server: Server{Key: key}}}, func(config *Config) {
				config.Attempts, config.Logger = 1, slog.New(slog.NewTextHandler(&logged, nil))
				config.Mask = func(text string) string { return strings.ReplaceAll(text, "used", "[secret]") }
				config.Policy.Allow = loopback.Allow
			}, nil, func(t *testing.T, b *bed) {
				b.servers["a"].handler = func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, c.text)
				}
				_, err := b.Ask(t.Context(), ask(t, stream), nil)
				var e *Error
				if !errors.As(err, &e) || !strings.HasSuffix(e.Error(), c.want) || e.Type != c.kind || e.Code != c.code {
					t.Errorf("%s: %v, %q, %q", c.text, err, e.Type, e.Code)
				}
				for _, text := range []string{e.Error(), string(e.Body)} {
					if strings.Contains(text, key) || strings.Contains(text, "json") || strings.Contains(text, "struct") {
						t.Errorf("%s: %s", c.text, text)
					}
				}
			})
			want := strings.ReplaceAll(strings.TrimPrefix(c.want, "upstream a: "), "used", "[secret]")
			if c.want == "its answer is not in a known form" && stream {
				want = "it is no stream"
			}
			if text := logged.String(); !strings.Contains(text, want) || strings.Contains(text, key) || strings.Contains(text, "used") {
				t.Errorf("%s: logged %s", c.text, text)
			}
		}
	}
}
