package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"dyno/services/bot/budget"
	"dyno/services/bot/openai"
	"dyno/services/bot/outward"
	"dyno/services/llm"
)

const ms = time.Millisecond

// TestFallback: whatever goes wrong before the first event, another upstream answers.
func TestFallback(t *testing.T) {
	for _, fault := range []string{"500", "503", "429;retry_after=5s", "401", "402", "403", "404", "407", "408", "409", "421", "425", "cut", "malformed", "hang", "slow;delay=10m", "refused"} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(fault, stream), func(t *testing.T) {
				change := func(c *Config) { c.FirstByte, c.Total, c.Failures = 10*time.Second, 5*time.Second, 100 }
				if stream {
					change = func(c *Config) { c.FirstByte, c.Total, c.Failures = 5*time.Second, time.Hour, 100 }
				}
				upstreams := []Upstream{{}, {Terms: Terms{Priority: 1}}}
				inBubble(t, upstreams, change, nil, func(t *testing.T, b *bed) {
					if fault == "refused" {
						b.servers["a"].refuses = true
					} else if stream && (fault == "cut" || fault == "malformed") {
						b.servers["a"].handler = func(w http.ResponseWriter, _ *http.Request) { // before any event
							if fault == "cut" {
								_ = http.NewResponseController(w).Flush()
								panic(http.ErrAbortHandler)
							}
							_, _ = io.WriteString(w, "data: {\n\n")
						}
					} else {
						b.servers["a"].set(fault)
					}
					began := time.Now()
					a, err := b.Ask(t.Context(), ask(t, stream), nil)
					if err != nil {
						t.Fatal(err)
					}
					if a.Upstream != "b" || a.Attempts != 2 {
						t.Errorf("%s after %d attempts", a.Upstream, a.Attempts)
					}
					if stream {
						if text, err := read(a.Stream); text == "" || !errors.Is(err, io.EOF) {
							t.Errorf("%q, %v", text, err)
						}
					}
					want := time.Duration(0)
					if fault == "hang" || strings.HasPrefix(fault, "slow") {
						want = 5 * time.Second
					}
					if d := time.Since(began); d != want {
						t.Errorf("after %v, want %v", d, want)
					}
					if s := b.States()[0]; s.Failures != 1 || s.Ready == strings.HasPrefix(fault, "429") {
						t.Errorf("%+v", s)
					}
					if made, _ := b.Retries(); made != 1 {
						t.Errorf("%d retries", made)
					}
				})
			})
		}
	}
}

// TestNoFallback after the first event: nothing would know what has been said. What was
// used is counted.
func TestNoFallback(t *testing.T) {
	for fault, status := range map[string]int{"cut;after=2": http.StatusBadGateway, "malformed;after=2": http.StatusBadGateway, "stuck": http.StatusGatewayTimeout} {
		t.Run(fault, func(t *testing.T) {
			configure := func(c *llm.Config) {
				if fault == "stuck" {
					c.InterToken = llm.Delay{A: 10 * time.Minute}
				} else {
					c.InterToken = llm.Delay{A: ms} // each is sent
				}
			}
			inBubble(t, []Upstream{{}, {Terms: Terms{Priority: 1}}}, func(c *Config) { c.Idle, c.Total = 3*time.Second, time.Hour }, configure, func(t *testing.T, b *bed) {
				if fault != "stuck" {
					b.servers["a"].set(fault)
				}
				a, err := b.Ask(t.Context(), ask(t, true), nil)
				if err != nil {
					t.Fatal(err)
				}
				text, err := read(a.Stream)
				var e *Error
				if !errors.As(err, &e) || e.Status != status || e.Upstream != "a" || text == "" || errors.Is(err, errIdle) != (fault == "stuck") {
					t.Errorf("%q, %v", text, err)
				}
				want := openai.Usage{Prompt: ask(t, true).PromptTokens, Completion: len(strings.Fields(text)), Estimated: true}
				if u := a.Stream.Usage(); u.Prompt != want.Prompt || u.Completion < want.Completion || !u.Estimated || a.Stream.done {
					t.Errorf("%+v, want %+v about", u, want)
				}
				if n := b.servers["b"].count(); n != 0 {
					t.Errorf("another was asked %d times", n)
				}
				if s := b.States()[0]; s.Failures != 1 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// TestFatal: a request that is at fault is so everywhere, and its answer is the
// upstream's.
func TestFatal(t *testing.T) {
	inBubble(t, []Upstream{{}, {}}, nil, nil, func(t *testing.T, b *bed) {
		for _, s := range b.servers {
			s.set("422")
		}
		_, err := b.Ask(t.Context(), ask(t, true), nil)
		var e *Error
		if !errors.As(err, &e) || e.Status != 422 || !strings.Contains(string(e.Body), "a fault that was asked for") {
			t.Errorf("%v", err)
		}
		if n := b.servers["a"].count() + b.servers["b"].count(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		if _, err := b.Ask(t.Context(), &openai.Request{Model: "other"}, nil); !errors.As(err, &e) || e.Status != http.StatusNotFound {
			t.Errorf("another model: %v", err)
		}
	})
}

// TestFaultOfFailures: what is the gateway's own fault at an upstream has that cool down; what one client may have
// brought about does not, and is tried elsewhere all the same.
func TestFaultOfFailures(t *testing.T) {
	for status, ready := range map[string]bool{"401": false, "402": false, "404": false, "407": false, "421": false, "500": false, "403": true, "408": true, "409": true, "425": true, "400": true, "422": true} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(status, stream), func(t *testing.T) {
				inBubble(t, make([]Upstream, 1), func(c *Config) { c.Attempts, c.Failures = 1, 3 }, nil, func(t *testing.T, b *bed) {
					b.servers["a"].set(status)
					for range 3 {
						if _, err := b.Ask(t.Context(), ask(t, stream), nil); err == nil {
							t.Fatal("an answer")
						}
					}
					if s := b.States()[0]; s.Ready != ready || b.servers["a"].count() != 3 {
						t.Errorf("%+v, asked %d times", s, b.servers["a"].count())
					}
				})
			})
		}
	}
}

// TestUnclearProbe: a request that decides whether an upstream is well again decides nothing if it may be at
// fault itself.
func TestUnclearProbe(t *testing.T) {
	inBubble(t, make([]Upstream, 1), func(c *Config) { c.Attempts, c.Failures = 1, 1 }, nil, func(t *testing.T, b *bed) {
		for _, status := range []string{"500", "403", "500"} {
			b.servers["a"].set(status)
			_, _ = b.Ask(t.Context(), ask(t, false), nil)
			if status == "500" {
				<-time.After(time.Second) // the first cool-down
			}
		}
		var e *Error
		if _, err := b.Ask(t.Context(), ask(t, false), nil); !errors.As(err, &e) || e.RetryAfter != time.Second || b.servers["a"].count() != 3 {
			t.Errorf("%v, asked %d times: want the second cool-down, which has a second left of two", err, b.servers["a"].count())
		}
		<-time.After(time.Second)
		b.servers["a"].set("")
		if _, err := b.Ask(t.Context(), ask(t, false), nil); err != nil {
			t.Error(err)
		}
		if s := b.States()[0]; s.Cooled != 2 || !s.Ready {
			t.Errorf("%+v", s)
		}
	})
}

// TestNotKept: a request that names what no upstream keeps is at fault itself. Each upstream is asked once.
func TestNotKept(t *testing.T) {
	inBubble(t, []Upstream{{}, {}}, func(c *Config) { c.Failures = 1 }, nil, func(t *testing.T, b *bed) {
		for _, s := range b.servers {
			s.handler = func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, `{"error":{"message":"no such response"}}`)
			}
		}
		for i, fields := range []string{`"previous_response_id":"r"`, `"conversation":"c"`, `"conversation":{"id":"c"}`, `"previous_response_id":null`} {
			r, err := openai.Standard().Parse(openai.Responses, []byte(`{"model":"m","input":"hello",`+fields+`}`))
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.Ask(t.Context(), r, nil)
			var e *Error
			if errors.As(err, &e); i < 3 && (e.Status != http.StatusNotFound || !strings.Contains(string(e.Body), "no such response") || e.Attempts != 2) || i == 3 && e.Status != http.StatusBadGateway {
				t.Errorf("%s: %+v", fields, e)
			}
			for _, s := range b.States() {
				if i < 3 && (s.Failures != 0 || !s.Ready) {
					t.Errorf("%s: %+v", fields, s)
				}
			}
		}
	})
}

// TestKeptElsewhere: a request that continues a response goes to the upstream that made it. If that is not known, it is
// found; if it cannot be asked, the client does not hear that there is no such response.
func TestKeptElsewhere(t *testing.T) {
	inBubble(t, []Upstream{{}, {}, {}}, func(c *Config) { c.Failures, c.RetryBurst, c.RetryRatio = 1, 0, 0 }, nil, func(t *testing.T, b *bed) {
		down := ""
		for name, s := range b.servers {
			s.handler = func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				switch text := string(body); {
				case name == down:
					w.WriteHeader(http.StatusServiceUnavailable)
				case strings.Contains(text, "previous_response_id") && !strings.Contains(text, `"of-`+name):
					w.WriteHeader(http.StatusBadRequest)
					_, _ = io.WriteString(w, `{"error":{"message":"not found","code":"previous_response_not_found"}}`)
				case strings.Contains(text, `"stream":true`):
					_, _ = fmt.Fprintf(w, "data: {\"type\":\"response.created\",\"response\":{\"id\":\"of-%s-2\"}}\n\ndata: {\"type\":\"response.completed\"}\n\n", name)
				default:
					_, _ = fmt.Fprintf(w, `{"id":"of-%s-1","status":"completed","output":[]}`, name)
				}
			}
		}
		ask := func(maker, fields string) (*Answer, error) {
			r, err := openai.Standard().Parse(openai.Responses, []byte(`{"model":"m","input":"hello"`+fields+`}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Maker = maker
			a, err := b.Ask(t.Context(), r, nil)
			if err == nil && a.Stream != nil {
				_, _ = read(a.Stream)
			}
			return a, err
		}
		for range 9 {
			for i, fields := range []string{"", `,"stream":true`} {
				first, err := ask("", fields)
				if err != nil {
					t.Fatal(err)
				}
				next, err := ask(first.Upstream, fmt.Sprintf(`,"previous_response_id":"of-%s-%d"`, first.Upstream, i+1))
				if err != nil || next.Upstream != first.Upstream || next.Attempts != 1 {
					t.Errorf("made by %s, continued by %+v, %v", first.Upstream, next, err)
				}
			}
		}
		for _, name := range []string{"a", "b", "c"} {
			if a, err := ask("", `,"previous_response_id":"of-`+name+`-0"`); err != nil || a.Upstream != name {
				t.Errorf("of %s: %+v, %v", name, a, err)
			}
		}
		down = "b"
		for range 2 { // it fails, and then cools down
			var e *Error
			if _, err := ask("", `,"previous_response_id":"of-b-0"`); !errors.As(err, &e) || e.Status != http.StatusServiceUnavailable {
				t.Errorf("while it is down: %v", err)
			}
		}
		for _, s := range b.States() {
			if s.Ready == (s.Name == "b") {
				t.Errorf("%+v", s)
			}
		}
	})
}

// TestCutStreamsCool: an upstream that begins every stream and ends none cools down, however many it begins.
func TestCutStreamsCool(t *testing.T) {
	inBubble(t, make([]Upstream, 1), func(c *Config) { c.Attempts, c.Failures = 1, 3 }, func(c *llm.Config) { c.InterToken = llm.Delay{A: ms} }, func(t *testing.T, b *bed) {
		s := b.servers["a"]
		s.set("cut;after=2")
		cut := func() {
			t.Helper()
			a, err := b.Ask(t.Context(), ask(t, true), nil)
			if err != nil {
				t.Fatal(err)
			}
			if text, err := read(a.Stream); text == "" || errors.Is(err, io.EOF) {
				t.Errorf("%q, %v", text, err)
			}
		}
		cut()
		cut()
		s.set("")
		a, err := b.Ask(t.Context(), ask(t, true), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := read(a.Stream); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		s.set("cut;after=2")
		cut() // no third in a row
		cut()
		if !b.States()[0].Ready {
			t.Error("cools down although a stream came to its end in between")
		}
		cut()
		var e *Error
		if _, err := b.Ask(t.Context(), ask(t, true), nil); !errors.As(err, &e) || e.RetryAfter != time.Second || s.count() != 6 {
			t.Errorf("%v, asked %d times", err, s.count())
		}
		// The one that decides does so by its first event.
		<-time.After(time.Second)
		first, err := b.Ask(t.Context(), ask(t, true), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer first.Stream.Close()
		if !b.States()[0].Ready {
			t.Error("others wait for the end of a stream")
		}
	})
}

// TestDiscreet: what clients are told of a call that failed names no address; the log does.
func TestDiscreet(t *testing.T) {
	const inside = "10.1.2.3:4567"
	var logged bytes.Buffer
	address := &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 4567}
	broken := &net.OpError{Op: "read", Net: "tcp", Source: address, Addr: address, Err: syscall.ECONNRESET}
	for name, c := range map[string]struct {
		via  roundTrip
		want string
	}{
		"dial": {func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: address, Err: syscall.ECONNREFUSED}
		}, "upstream a: it cannot be reached"},
		"lookup": {func(*http.Request) (*http.Response, error) {
			return nil, &net.DNSError{Err: "no such host", Name: "a.internal", Server: inside}
		}, "upstream a: it cannot be reached"},
		"read": {func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(iotest.ErrReader(broken))}, nil
		}, "upstream a: its connection broke"},
	} {
		for _, stream := range []bool{false, true} {
			logged.Reset()
			config := Defaults()
			config.Transport, config.Attempts, config.Failures = c.via, 1, 1
			config.Logger = slog.New(slog.NewTextHandler(&logged, nil))
			u := DefaultUpstream()
			u.Name, u.URL, u.Models = "a", "http://a.example/v1", map[string]string{"m": "m"}
			config.Upstreams = []Upstream{u}
			p, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Ask(t.Context(), ask(t, stream), nil); err == nil || err.Error() != c.want {
				t.Errorf("%s: %v", name, err)
			}
			if !strings.Contains(logged.String(), inside) {
				t.Errorf("%s: logged %s", name, &logged)
			}
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestRest: who closes a stream that has come to its end hardly waits for the end of its body.
func TestRest(t *testing.T) {
	inBubble(t, make([]Upstream, 1), nil, nil, func(t *testing.T, b *bed) {
		b.servers["a"].handler = func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
		a, err := b.Ask(t.Context(), ask(t, true), nil)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if text, err := read(a.Stream); text != "x" || !errors.Is(err, io.EOF) {
			t.Errorf("%q, %v", text, err)
		}
		if d := time.Since(began); d > 100*ms {
			t.Errorf("after %v", d)
		}
		if s := b.States()[0]; s.Failures != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestRetrySame: a single upstream is tried again after a pause, as often as allowed.
func TestRetrySame(t *testing.T) {
	inBubble(t, make([]Upstream, 1), func(c *Config) { c.Failures = 100 }, nil, func(t *testing.T, b *bed) {
		b.servers["a"].set("500")
		began := time.Now()
		_, err := b.Ask(t.Context(), ask(t, false), nil)
		var e *Error
		if !errors.As(err, &e) || e.Status != http.StatusBadGateway || b.servers["a"].count() != 3 {
			t.Errorf("%v after %d tries", err, b.servers["a"].count())
		}
		if d := time.Since(began); d < 2*firstPause || d > 20*firstPause {
			t.Errorf("took %v", d)
		}
		b.servers["a"].set("")
		if a, err := b.Ask(t.Context(), ask(t, false), nil); err != nil || a.Attempts != 1 {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// TestRetryBudget: while everything fails, retries add a tenth to the load and no more.
func TestRetryBudget(t *testing.T) {
	inBubble(t, make([]Upstream, 2), func(c *Config) { c.Failures, c.RetryBurst = 1<<30, 10 }, nil, func(t *testing.T, b *bed) {
		for _, s := range b.servers {
			s.set("500")
		}
		const n = 1000
		for range n {
			if _, err := b.Ask(t.Context(), ask(t, false), nil); err == nil {
				t.Fatal("an answer")
			}
		}
		made, refused := b.Retries()
		if made < 100 || made > 112 || refused < n/2 {
			t.Errorf("%d retries, %d refused", made, refused)
		}
		if total := b.servers["a"].count() + b.servers["b"].count(); total != n+int(made) {
			t.Errorf("asked %d times", total)
		}
	})
}

// TestWeights: of equals each has its share; a lower priority has all.
func TestWeights(t *testing.T) {
	inBubble(t, []Upstream{{Terms: Terms{Weight: 3}}, {Terms: Terms{Weight: 1}}, {Terms: Terms{Priority: 1, Weight: 1000}}}, nil, nil, func(t *testing.T, b *bed) {
		for range 1000 {
			if _, err := b.Ask(t.Context(), ask(t, false), nil); err != nil {
				t.Fatal(err)
			}
		}
		if a, last := b.servers["a"].count(), b.servers["c"].count(); a < 690 || a > 810 || last != 0 {
			t.Errorf("%d of 1000 at a, %d at c", a, last)
		}
	})
}

// TestDeployments: a model of a provider has names, and terms of its own; a name with a wildcard is for models that no
// other deployment has.
func TestDeployments(t *testing.T) {
	inBubble(t, []Upstream{{}}, func(c *Config) {
		u := c.Upstreams[0]
		c.Upstreams = nil
		c.Providers = []Provider{{Name: "p", Server: Server{URL: u.URL, Key: "secret", Headers: map[string]string{"X-Team": "shop"}, Query: map[string]string{"api-version": "1&2"}}}}
		plain, many := DefaultDeployment(), DefaultDeployment()
		plain.Provider, plain.Model, plain.Names, plain.MaxTokens, plain.Price = "p", "big-2", []string{"big", "wide"}, 10, Prices{{Prompt: 7}}
		many.Name, many.Provider, many.Model, many.Names = "rest", "p", "own-*", []string{"vendor/*"}
		c.Deployments = []Deployment{plain, many}
	}, nil, func(t *testing.T, b *bed) {
		var query, team string
		b.servers["a"].handler = func(w http.ResponseWriter, r *http.Request) {
			var asked struct {
				Model string `json:"model"`
			}
			_ = json.NewDecoder(r.Body).Decode(&asked)
			query, team = r.URL.Query().Get("api-version"), r.Header.Get("X-Team")
			_, _ = fmt.Fprintf(w, `{"choices":[{"message":{"content":%q}}]}`, asked.Model)
		}
		for name, want := range map[string]string{"big": "big-2", "wide": "big-2", "vendor/x/y": "own-x/y", "vendor/": "", "big-2": "", "other": ""} {
			r := ask(t, false)
			r.Model = name
			a, err := b.Ask(t.Context(), r, nil)
			switch {
			case want == "":
				if err == nil || b.Has(name) {
					t.Errorf("%s is there: %+v", name, a)
				}
			case err != nil || a.Reply.Text != want || query != "1&2" || team != "shop" || (a.Upstream == "rest") != (name == "vendor/x/y") || (a.Prices.At(time.Now()) == Price{Prompt: 7}) != (want == "big-2"):
				t.Errorf("%s: %+v, %v, %q, %q", name, a, err, query, team)
			}
		}
		if list := b.Models(); !slices.Equal(list, []string{"big", "wide"}) || b.MaxTokens("wide") != 10 || b.MaxTokens("vendor/x") != 0 || b.States()[0].Name != "p/big-2" {
			t.Errorf("%q, %+v", list, b.States())
		}
	})
	for want, change := range map[string]func(*Config){
		`deployments[0].provider: "none" is no provider`:  func(c *Config) { c.Deployments[0].Provider = "none" },
		`deployments[1].name: "p/m" is there twice`:       func(c *Config) { c.Deployments = append(c.Deployments, c.Deployments[0]) },
		`deployments[0].names[0]: "x*" is not possible`:   func(c *Config) { c.Deployments[0].Names = []string{"x*"} },
		`deployments[0].names[0]: "x" is not possible`:    func(c *Config) { c.Deployments[0].Model, c.Deployments[0].Names = "*", []string{"x"} },
		`deployments[0].model: "*-*" has more than one *`: func(c *Config) { c.Deployments[0].Model, c.Deployments[0].Names = "*-*", []string{"*"} },
		`providers[1].name: "p" is there twice`:           func(c *Config) { c.Providers = append(c.Providers, c.Providers[0]) },
		`providers[0].url: is missing`:                    func(c *Config) { c.Providers[0].URL, c.Providers[0].Dialect = "", Ollama },
		`providers[0].headers.a b: is no header field`:    func(c *Config) { c.Providers[0].Headers = map[string]string{"a b": "c"} },
		`upstreams: there is none, and no deployment`:     func(c *Config) { c.Deployments = nil },
	} {
		c, d := Defaults(), DefaultDeployment()
		c.Policy = loopback
		d.Provider, d.Model = "p", "m"
		c.Providers, c.Deployments = []Provider{{Name: "p", Server: Server{URL: "http://127.0.0.1/v1"}}}, []Deployment{d}
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestLastPlace: of two that choose an upstream with one place left, one has it.
func TestLastPlace(t *testing.T) {
	inBubble(t, []Upstream{{Terms: Terms{MaxConcurrent: 1}}}, nil, nil, func(t *testing.T, b *bed) {
		first := true
		var other slot
		b.random = func(int64) int64 {
			if first {
				first = false
				var err *Error
				if other, err = b.pick(b.of("m"), nil, nil, &want{request: ask(t, false)}); err != nil { // while this one chooses
					t.Errorf("the other: %v", err)
				}
			}
			return 0
		}
		if own, err := b.pick(b.of("m"), nil, nil, &want{request: ask(t, false)}); err == nil || err.Status != http.StatusServiceUnavailable {
			t.Errorf("%v, %v: both have it", own, err)
		}
		if s := b.States()[0]; s.Active != 1 || s.Asked != 1 {
			t.Errorf("%+v", s)
		}
		other.place.Keep(0)
	})
}

// TestLate: an error has the number of attempts, and whether an upstream had the request without answering in time.
func TestLate(t *testing.T) {
	set := func(c *Config) { c.FirstByte, c.Total, c.Failures = 5*time.Second, 5*time.Second, 100 }
	for fault, want := range map[string]Error{
		"hang":    {Status: http.StatusGatewayTimeout, Attempts: 1, Late: true},
		"once":    {Status: http.StatusBadGateway, Attempts: 3, Late: true},
		"500":     {Status: http.StatusBadGateway, Attempts: 3},
		"cut":     {Status: http.StatusBadGateway, Attempts: 3, Late: true},
		"422":     {Status: http.StatusUnprocessableEntity, Attempts: 1},
		"refused": {Status: http.StatusBadGateway, Attempts: 3},
		"left":    {Attempts: 1},
	} {
		for _, stream := range []bool{false, true} {
			if (fault == "cut" || fault == "once") && stream {
				continue // nothing of it has come
			}
			t.Run(fmt.Sprint(fault, stream), func(t *testing.T) {
				inBubble(t, make([]Upstream, 1), set, nil, func(t *testing.T, b *bed) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					switch s := b.servers["a"]; fault {
					case "once":
						s.set("cut")
						time.AfterFunc(firstPause/2, func() { s.set("500") })
					case "refused":
						s.refuses = true
					case "left":
						s.set("hang")
						time.AfterFunc(time.Second, cancel)
					default:
						s.set(fault)
					}
					_, err := b.Ask(ctx, ask(t, stream), nil)
					var e *Error
					if !errors.As(err, &e) || e.Status != want.Status || e.Upstream != "a" || e.Attempts != want.Attempts || e.Late != want.Late || errors.Is(err, context.Canceled) != (fault == "left") {
						t.Errorf("%+v, want %+v", e, want)
					}
				})
			})
		}
	}
}

// TestLeft: who leaves a stream leaves nothing behind, and what was used is counted.
func TestLeft(t *testing.T) {
	inBubble(t, make([]Upstream, 1), nil, func(c *llm.Config) { c.Tokens, c.InterToken = 1000, llm.Delay{A: 10 * ms} }, func(t *testing.T, b *bed) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i, leave := range []func(*Stream){func(*Stream) { cancel() }, (*Stream).Cancel, func(s *Stream) { s.Close() }} {
			if i > 0 {
				ctx = t.Context()
			}
			a, err := b.Ask(ctx, ask(t, true), nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 11 { // the role, and ten tokens
				if _, err := a.Stream.Next(); err != nil {
					t.Fatal(err)
				}
			}
			leave(a.Stream)
			if i < 2 {
				if _, err := a.Stream.Next(); !errors.Is(err, context.Canceled) {
					t.Errorf("%d: %v", i, err)
				}
			}
			a.Stream.Close()
			if u := a.Stream.Usage(); !u.Estimated || u.Completion < 10 || u.Completion > 20 || u.Prompt == 0 {
				t.Errorf("%d: %+v", i, u)
			}
			synctest.Wait()
			if n := b.servers["a"].Stats().Active; n != 0 {
				t.Errorf("%d: the upstream goes on with %d", i, n)
			}
		}
		if s := b.States()[0]; s.Failures != 0 || !s.Ready {
			t.Errorf("%+v", s)
		}
	})
}

// TestCutRefusal: of a refusal that is too long, or no JSON, nothing is passed on: it could not be masked.
func TestCutRefusal(t *testing.T) {
	for said, want := range map[string]string{
		`{"detail":"no"}`: `{"detail":"no"}`, "no": "", `{"detail":"` + strings.Repeat("x", maxRefusal) + `"}`: "",
	} {
		inBubble(t, make([]Upstream, 1), nil, nil, func(t *testing.T, b *bed) {
			b.servers["a"].handler = func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusUnprocessableEntity)
				_, _ = io.WriteString(w, said) // the client goes
			}
			var e *Error
			if _, err := b.Ask(t.Context(), ask(t, false), nil); !errors.As(err, &e) || e.Status != http.StatusUnprocessableEntity || e.Body == nil || string(e.Body) != want || e.Sent {
				t.Errorf("%.20s: %+v", said, err)
			}
		})
	}
}

// TestBoundField: almost all servers know max_tokens; OpenAI's own know the other, and some of its models nothing else.
func TestBoundField(t *testing.T) {
	for _, c := range []struct {
		u    Upstream
		want openai.BoundField
	}{
		{Upstream{Server: Server{URL: "http://127.0.0.1:8000/v1"}}, openai.MaxTokens}, {Upstream{Server: Server{URL: "https://api.mistral.ai/v1"}}, openai.MaxTokens},
		{Upstream{Server: Server{URL: "https://api.openai.com/v1"}}, openai.MaxCompletionTokens}, {Upstream{Server: Server{URL: "https://x.openai.azure.com/openai/v1"}}, openai.MaxCompletionTokens},
		{Upstream{Server: Server{URL: "https://api.openai.com.example/v1"}}, openai.MaxTokens}, {Upstream{Server: Server{URL: "https://api.openai.com/v1"}, Terms: Terms{Bound: openai.MaxTokens}}, openai.MaxTokens},
	} {
		if got := c.u.bound(c.u.URL); got != c.want {
			t.Errorf("%+v: %s", c.u, got)
		}
	}
}

// TestLeftWhole: who leaves an answer that is no stream pays for what has come of it.
func TestLeftWhole(t *testing.T) {
	inBubble(t, make([]Upstream, 1), nil, nil, func(t *testing.T, b *bed) {
		b.servers["a"].handler = func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("word ", 800))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var e *Error
		if _, err := b.Ask(ctx, ask(t, false), nil); !errors.As(err, &e) || !errors.Is(err, context.DeadlineExceeded) || !e.Sent || !e.Late || e.Completion != 1000 {
			t.Errorf("%v: %+v", err, e)
		}
	})
}

// TestSlowReader: that a client is slow is not held against the upstream.
func TestSlowReader(t *testing.T) {
	inBubble(t, make([]Upstream, 1), func(c *Config) { c.Idle = time.Second }, nil, func(t *testing.T, b *bed) {
		a, err := b.Ask(t.Context(), ask(t, true), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Stream.Close()
		for {
			<-time.After(20 * time.Second)
			if _, err := a.Stream.Next(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if u := a.Stream.Usage(); u.Estimated || u.Completion != 4 {
			t.Errorf("%+v", u)
		}
	})
}

// TestTooLong: that a stream has taken too long is not held against the upstream, either: its reader may be slow.
func TestTooLong(t *testing.T) {
	inBubble(t, make([]Upstream, 1), func(c *Config) { c.Idle, c.Total, c.Failures = time.Minute, 10*time.Second, 1 }, func(c *llm.Config) { c.InterToken = llm.Delay{A: 8 * time.Second} }, func(t *testing.T, b *bed) {
		a, err := b.Ask(t.Context(), ask(t, true), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Stream.Close()
		for err == nil {
			_, err = a.Stream.Next()
		}
		if e := (*Error)(nil); !errors.As(err, &e) || e.Status != http.StatusGatewayTimeout {
			t.Errorf("%v", err)
		}
		again, err := b.Ask(t.Context(), ask(t, true), nil)
		if err != nil {
			t.Fatal(err)
		}
		again.Stream.Close()
	})
}

// TestNoUsage: what an upstream does not tell is counted.
func TestNoUsage(t *testing.T) {
	inBubble(t, make([]Upstream, 1), nil, nil, func(t *testing.T, b *bed) {
		b.servers["a"].set("no_usage")
		whole, err := b.Ask(t.Context(), ask(t, false), nil)
		if err != nil || !whole.Usage.Estimated || whole.Usage.Completion < 3 || whole.Usage.Prompt == 0 {
			t.Errorf("%+v, %v", whole, err)
		}
		streamed, err := b.Ask(t.Context(), ask(t, true), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := read(streamed.Stream); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		if u := streamed.Stream.Usage(); !u.Estimated || u.Completion < 4 || u.Prompt == 0 {
			t.Errorf("%+v", u)
		}
	})
}

// TestUsageOfPart: of a stream that has not ended, what has come counts where the upstream has said only how it began.
func TestUsageOfPart(t *testing.T) {
	c := &call{request: ask(t, true)}
	for _, test := range []struct {
		text int // bytes
		sent *openai.Usage
		done bool
		want openai.Usage
	}{
		{20, nil, false, openai.Usage{Prompt: c.request.PromptTokens, Completion: 5, Estimated: true}},
		{20, &openai.Usage{Prompt: 9}, false, openai.Usage{Prompt: 9, Completion: 5, Estimated: true}},
		{20, &openai.Usage{Prompt: 9, Completion: 1}, false, openai.Usage{Prompt: 9, Completion: 5, Estimated: true}},
		{12, &openai.Usage{Prompt: 9, Completion: 4}, false, openai.Usage{Prompt: 9, Completion: 4}},
		{20, &openai.Usage{}, false, openai.Usage{Prompt: c.request.PromptTokens, Completion: 5, Estimated: true}},
		{20, &openai.Usage{Prompt: 9, Completion: 4}, true, openai.Usage{Prompt: 9, Completion: 4}},
		{20, &openai.Usage{Prompt: 9}, true, openai.Usage{Prompt: 9}},
		{20, &openai.Usage{Prompt: 9, Cached: 3, Estimated: true}, true, openai.Usage{Prompt: 9, Cached: 3, Completion: 5, Estimated: true}},
		{0, &openai.Usage{Prompt: 9}, false, openai.Usage{Prompt: 9}},
	} {
		s := Stream{call: c, done: test.done}
		s.bytes.Store(int64(test.text))
		s.usage.Store(test.sent)
		if got := s.Usage(); got != test.want {
			t.Errorf("%+v, want %+v", got, test.want)
		}
	}
}

// However a text is cut into events, and wherever its stream is left, an estimate is at most what the whole text is
// estimated as. A usage that the upstream has said is what it said.
func TestPartsCostNoMoreThanTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reports := rapid.Bool().Draw(t, "reports")
		var events, all strings.Builder
		pieces := rapid.SliceOfN(rapid.StringN(0, 30, -1), 1, 30).Draw(t, "pieces")
		for _, piece := range pieces {
			text, _ := json.Marshal(piece)
			fmt.Fprintf(&events, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%s}}]}\n\n", text)
			all.WriteString(piece)
		}
		events.WriteString(stop)
		if reports {
			events.WriteString(used)
		}
		events.WriteString(ended)
		text, _ := json.Marshal(all.String())
		codec := openai.Standard()
		whole, err := codec.ParseReply(openai.Chat, fmt.Appendf(nil, `{"choices":[{"message":{"content":%s}}]}`, text))
		if err != nil {
			t.Fatal(err)
		}
		s := Stream{call: &call{pool: &Pool{cfg: Config{Codec: codec}}, request: &openai.Request{Endpoint: openai.Chat, PromptTokens: 3, Choices: 1}}, reader: openai.NewReader(strings.NewReader(events.String()))}
		for left := rapid.IntRange(0, len(pieces)+3).Draw(t, "left"); left > 0 && !s.done; left-- {
			if err := s.read(); err != nil {
				t.Fatal(err)
			}
			if u := s.Progress(); u.Completion > max(openai.EstimateTokens(whole.Bytes), 5) || s.usage.Load() == nil && (u.Completion > openai.EstimateTokens(whole.Bytes) || !u.Estimated || u.Prompt != 3) {
				t.Fatalf("%+v of a text of %d bytes", u, whole.Bytes)
			}
		}
		want := openai.Usage{Prompt: 3, Completion: openai.EstimateTokens(whole.Bytes), Estimated: true}
		if reports {
			want = openai.Usage{Prompt: 7, Completion: 5}
		}
		if u := s.Usage(); s.done && u != want {
			t.Fatalf("%+v, want %+v", u, want)
		}
	})
}

// TestPending: an answer in the background, of unknown usage, is accounted as all that was requested.
func TestPending(t *testing.T) {
	inBubble(t, make([]Upstream, 1), nil, nil, func(t *testing.T, b *bed) {
		for _, c := range []struct {
			fields, answer string
			want           openai.Usage
		}{
			{`,"max_output_tokens":100`, `{"status":"queued","output":[],"usage":null}`, openai.Usage{Prompt: 2, Completion: 100, Estimated: true}},
			{`,"max_output_tokens":1`, `{"status":"in_progress","output":[{"content":[{"text":"eight by"}]}]}`, openai.Usage{Prompt: 2, Completion: 2, Estimated: true}},
			{``, `{"status":"queued","output":[]}`, openai.Usage{Prompt: 2, Estimated: true}},
			{`,"max_output_tokens":100`, `{"status":"in_progress","output":[],"usage":{"input_tokens":3,"output_tokens":4}}`, openai.Usage{Prompt: 3, Completion: 100, Estimated: true}},
			{`,"max_output_tokens":3`, `{"status":"in_progress","output":[],"usage":{"input_tokens":0,"output_tokens":4}}`, openai.Usage{Prompt: 2, Completion: 4, Estimated: true}},
			{`,"max_output_tokens":100`, `{"status":"completed","output":[]}`, openai.Usage{Prompt: 2, Estimated: true}},
		} {
			b.servers["a"].handler = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.answer) }
			r, err := openai.Standard().Parse(openai.Responses, []byte(`{"model":"m","input":"hello","background":true`+c.fields+`}`))
			if err != nil {
				t.Fatal(err)
			}
			a, err := b.Ask(t.Context(), r, nil)
			if err != nil || a.Usage != c.want {
				t.Errorf("%s: %+v, %v, want %+v", c.answer, a, err, c.want)
			}
		}
	})
}

// TestKeyAndModel: each upstream gets its own name of the model and its own key, never the client's.
func TestKeyAndModel(t *testing.T) {
	inBubble(t, []Upstream{{Server: Server{Key: "secret"}, Models: map[string]string{"m": "own/name"}, Terms: Terms{Price: Prices{{Prompt: 1, Completion: 2}}}}}, nil, func(c *llm.Config) { c.Models = []string{"own/name"} }, func(t *testing.T, b *bed) {
		authorization := ""
		s := b.servers["a"]
		s.handler = func(w http.ResponseWriter, r *http.Request) {
			authorization = r.Header.Get("Authorization")
			s.Handler().ServeHTTP(w, r)
		}
		a, err := b.Ask(t.Context(), ask(t, false), nil)
		if err != nil || authorization != "Bearer secret" || a.Prices.At(time.Now()).Of(openai.Usage{Prompt: 10, Completion: 5}) != 20 || b.Price("m", time.Now()) != (Price{Prompt: 1, Completion: 2}) {
			t.Errorf("%+v, %v, %q", a, err, authorization)
		}
		if strings.Join(b.Models(), ",") != "m" || !b.Has("m") || b.Has("own/name") {
			t.Errorf("%v", b.Models())
		}
	})
}

// TestHolders: while answers come, nobody holds more of them than is theirs; that one is said to be large takes no
// more room before it comes than is made for it.
func TestHolders(t *testing.T) {
	room := budget.New(4*mostAhead, 2)
	inBubble(t, make([]Upstream, 1), func(c *Config) { c.Answers, c.MaxAnswerBytes, c.Attempts = room, 4*mostAhead, 1 }, nil, func(t *testing.T, b *bed) {
		begun := make(chan struct{})
		rest := make(chan struct{})
		b.servers["a"].handler = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(3*mostAhead))
			_, _ = io.WriteString(w, "{")
			_ = http.NewResponseController(w).Flush()
			begun <- struct{}{}
			<-rest
			_, _ = io.WriteString(w, strings.Repeat(" ", 3*mostAhead-2)+"}") // the client may have gone
		}
		var one budget.Tenant
		var all sync.WaitGroup
		defer all.Wait()
		for _, c := range []struct {
			of   *Tenant
			want error
		}{{b.NewTenant(&one, nil, nil), budget.ErrFull}, {nil, nil}} {
			all.Go(func() {
				if _, err := b.Ask(t.Context(), ask(t, false), c.of); !errors.Is(err, c.want) && c.want != nil || c.want == nil && errors.Is(err, budget.ErrFull) {
					t.Errorf("%v, want %v", err, c.want)
				}
			})
			<-begun
			synctest.Wait()
			if n := room.Held(); n != mostAhead {
				t.Errorf("%d are held before it comes", n)
			}
			rest <- struct{}{}
			all.Wait()
			if n := room.Held(); n != 0 {
				t.Errorf("%d are held behind it", n)
			}
		}
	})
}

// TestLargeEvent: an oversized event ends the answer. It is paid, is not retried, and does not count as the
// upstream's failure.
func TestLargeEvent(t *testing.T) {
	for _, before := range []string{"", `data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}` + "\n\n"} {
		inBubble(t, make([]Upstream, 1), func(c *Config) { c.Attempts, c.Failures, c.MaxEventBytes = 3, 1, 4096 }, nil, func(t *testing.T, b *bed) {
			b.servers["a"].handler = func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, before+"data: "+strings.Repeat("x ", 4096)) // the client goes
			}
			for range 2 {
				a, err := b.Ask(t.Context(), ask(t, true), nil)
				var tokens int
				if before != "" {
					if err != nil {
						t.Fatal(err)
					}
					if _, err = read(a.Stream); err == nil {
						t.Fatal("no error")
					}
					tokens = a.Stream.Usage().Completion - 1
				}
				var e *Error
				if !errors.As(err, &e) || !errors.Is(err, openai.ErrLarge) || !e.fatal {
					t.Fatalf("%+v", err)
				}
				if before == "" {
					if tokens = e.Completion; e.Attempts != 1 {
						t.Errorf("%d attempts", e.Attempts)
					}
				}
				if tokens < 4096/4 || tokens > 8300/4 {
					t.Errorf("%d tokens", tokens)
				}
			}
		})
	}
}

// TestKeyOverPlainHTTP: an upstream's connections are held to where its key may go, whatever its name resolves to.
func TestKeyOverPlainHTTP(t *testing.T) {
	public := netip.MustParseAddr("8.8.8.8")
	for _, c := range []struct {
		u       Upstream
		allowed bool
	}{
		{Upstream{Server: Server{URL: "http://a.example/v1", Key: "k"}}, false},
		{Upstream{Server: Server{URL: "https://a.example/v1", Key: "k"}}, true},
		{Upstream{Server: Server{URL: "http://a.example/v1"}}, true},
	} {
		if err := c.u.policy(outward.Policy{}).Check(public); (err == nil) != c.allowed {
			t.Errorf("%+v: %v", c.u, err)
		}
	}
}

// Limits and names are of single models: what one model's requests meet stops no other. What no model could be asked after
// stops all.
func TestModelsCoolByThemselves(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(*server)
		all   bool
	}{
		"429":      {func(s *server) { s.set("429;retry_after=30s") }, false},
		"404":      {func(s *server) { s.set("404") }, false},
		"500":      {func(s *server) { s.set("500") }, false},
		"cut":      {func(s *server) { s.set("cut;after=1") }, false},
		"401":      {func(s *server) { s.set("401") }, true},
		"402":      {func(s *server) { s.set("402") }, true},
		"407":      {func(s *server) { s.set("407") }, true},
		"no route": {func(s *server) { s.refuses = true }, true},
	} {
		for _, tenants := range []int{1, 3} {
			t.Run(fmt.Sprint(name, tenants), func(t *testing.T) {
				upstreams := []Upstream{{Models: map[string]string{"m": "dyno-1", "same": "dyno-1", "other": "dyno-2"}}}
				inBubble(t, upstreams, func(c *Config) { c.Attempts, c.Failures, c.Tenants = 1, 3, tenants }, func(c *llm.Config) { c.Models = []string{"dyno-1", "dyno-2"} }, func(t *testing.T, b *bed) {
					s := b.servers["a"]
					of := func(model string) *openai.Request {
						r := ask(t, false)
						r.Model = model
						return r
					}
					tenant := b.NewTenant(nil, nil, nil)
					asks := func(model string) bool {
						before := s.count()
						_, err := b.Ask(t.Context(), of(model), tenant)
						return err == nil || s.count() > before
					}
					c.fault(s)
					for range 3 {
						_, _ = b.Ask(t.Context(), of("m"), tenant)
					}
					s.set("")
					s.refuses = false
					if asks("m") || asks("same") {
						t.Error("the model is asked for")
					}
					if asks("other") == c.all {
						t.Error("the other model is asked for, or not")
					}
					if states := b.States(); tenants == 1 && (states[0].Ready || states[1].Ready == c.all) {
						t.Errorf("%+v", states)
					}
					<-time.After(31 * time.Second)
					if !asks("m") || !asks("other") {
						t.Error("it does not get well again")
					}
				})
			})
		}
	}
}

// Money is exact, by kinds of tokens. A kind without a price costs what others do.
func TestPrice(t *testing.T) {
	of := func(n int64) *int64 { return &n }
	plain := Price{Prompt: 2500, Completion: 10_000}
	cached := Price{Prompt: 2500, Cached: of(1250), Completion: 10_000}
	all := Price{Prompt: 1, Cached: of(10), CacheWrite: of(100), PromptAudio: of(1000), PromptImage: of(10_000), Completion: 2, Reasoning: of(20), CompletionAudio: of(200), CompletionImage: of(2000)}
	const most = 1 << 30
	for _, c := range []struct {
		p    Price
		u    openai.Usage
		want int64
	}{
		{plain, openai.Usage{Prompt: 1000, Completion: 100, Cached: 900}, 3_500_000},
		{cached, openai.Usage{Prompt: 1000, Completion: 100, Cached: 900}, 2_375_000},
		{cached, openai.Usage{Prompt: 1000, Completion: 100, Cached: 5000}, 2_250_000}, // no more than there are
		{Price{Prompt: 7, Cached: of(0)}, openai.Usage{Prompt: 10, Cached: 9}, 7},
		{all, openai.Usage{Prompt: 15, Cached: 2, CacheWrite: 3, PromptAudio: 4, PromptImage: 1, Completion: 10, Reasoning: 2, CompletionAudio: 3, CompletionImage: 1}, 5 + 20 + 300 + 4000 + 10_000 + 4*2 + 40 + 600 + 2000},
		{Price{Prompt: 1e9, Completion: 1e9}, openai.Usage{Prompt: most, Completion: most}, 2 * most * 1e9},
	} {
		if got := c.p.Of(c.u); got != c.want {
			t.Errorf("%+v: %d, want %d", c.u, got, c.want)
		}
		reserved := c.p.highest().Of(openai.Usage{Prompt: c.u.Prompt, Completion: c.u.Completion})
		if got := c.p.Of(c.u); got > reserved {
			t.Errorf("%+v: %d, and %d was reserved", c.u, got, reserved)
		}
	}
	half, other := cached, cached
	half.Batch, other.Batch = 0.5, 0.25
	u1 := openai.Usage{Prompt: 3, Completion: 1, Cached: 1}
	if got := [...]int64{cached.OfBatch(u1), half.OfBatch(u1), half.Of(u1), other.OfBatch(openai.Usage{Prompt: 1, Cached: 1}), half.highest().OfBatch(u1)}; got != [...]int64{16_250, 8125, 16_250, 313, 8750} {
		t.Error(got)
	}
	names := map[string]bool{}
	for _, p := range []Price{cached, half, other} {
		name, _ := p.Version()
		names[name] = true
	}
	if len(names) != 3 || !(Price{Batch: 0.5}).Free() {
		t.Error(names)
	}
	u := Upstream{Terms: Terms{Price: Prices{plain}}, Prices: map[string]Prices{"small": {{Prompt: 1}}}}
	if u.PriceOf("big")[0] != plain || u.PriceOf("small")[0] != (Price{Prompt: 1}) || (Price{}).Free() == (Price{Cached: of(1)}).Free() {
		t.Error("prices of models")
	}
}

// An answer that is too large is charged for what the upstream says that it has used.
func TestUsageOfWhatIsTooLarge(t *testing.T) {
	inBubble(t, make([]Upstream, 1), func(c *Config) { c.MaxAnswerBytes = 100_000 }, nil, func(t *testing.T, b *bed) {
		for _, c := range []struct {
			bytes int
			want  *openai.Usage
		}{{110_000, &openai.Usage{Prompt: 1000, Completion: 100}}, {700_000, &openai.Usage{Prompt: 1000, Completion: 100}}, {1_000_000, nil}} {
			b.servers["a"].handler = func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"`+strings.Repeat("A", c.bytes)+`"}}],"usage":{"prompt_tokens":1000,"completion_tokens":100}}`)
			}
			var e *Error
			if _, err := b.Ask(t.Context(), ask(t, false), nil); !errors.As(err, &e) || e.Attempts != 1 || (e.Usage == nil) != (c.want == nil) || e.Usage != nil && *e.Usage != *c.want || e.Completion > 100_100/64+10 {
				t.Errorf("%d bytes: %+v", c.bytes, err)
			}
		}
	})
}
