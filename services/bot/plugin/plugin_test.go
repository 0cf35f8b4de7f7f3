package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/internal/leak"
	"dyno/services/bot/outward"
)

func TestMain(m *testing.M) { leak.Main(m) }

// run is a plugin of one function.
type run func(ctx context.Context, c Call) (string, error)

func (f run) Run(ctx context.Context, c Call) (string, error) { return f(ctx, c) }

// after answers after a while, or fails when it is told to end.
func after(d time.Duration, text string) run {
	return func(ctx context.Context, _ Call) (string, error) {
		select {
		case <-time.After(d):
			return text, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

func fails(context.Context, Call) (string, error) { return "", errors.New("broken") }

func spec(name string, p Plugin, change func(*Spec)) Spec {
	s := Defaults()
	s.Name, s.Plugin = name, p
	if change != nil {
		change(&s)
	}
	return s
}

func newScheduler(t testing.TB, budget time.Duration, specs ...Spec) *Scheduler {
	t.Helper()
	return New(budget, specs, 1)
}

// brief is what tests compare of a result.
type brief struct {
	Name    string
	Outcome Outcome
	Text    string
	Took    time.Duration
}

func briefs(results []Result) (list []brief) {
	for _, r := range results {
		list = append(list, brief{r.Name, r.Outcome, r.Text, r.Took})
	}
	return list
}

// TestParallel: all are asked at once, and what is not there in time is stated.
func TestParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stubborn := run(func(context.Context, Call) (string, error) {
			time.Sleep(10 * time.Second)
			return "too late", nil
		})
		s := newScheduler(t, 2*time.Second,
			spec("a", after(time.Second, "A"), func(s *Spec) { s.Timeout = time.Minute }),
			spec("b", after(1500*time.Millisecond, "B"), func(s *Spec) { s.Timeout = time.Minute }),
			spec("slow", after(time.Hour, ""), func(s *Spec) { s.Timeout = time.Minute }),
			spec("short", after(time.Hour, ""), func(s *Spec) { s.Timeout = 100 * time.Millisecond }),
			spec("broken", run(fails), nil),
			spec("panics", run(func(context.Context, Call) (string, error) { panic("oh") }), nil),
			spec("stubborn", stubborn, func(s *Spec) { s.MaxConcurrent = 1 }),
			spec("other", after(0, "X"), func(s *Spec) { s.Intents = []string{"other"} }),
		)
		began := time.Now()
		got := briefs(s.Run(t.Context(), Call{Intent: "weather"}))
		if d := time.Since(began); d != 2*time.Second {
			t.Errorf("took %v", d)
		}
		want := []brief{
			{"a", OK, "A", time.Second}, {"b", OK, "B", 1500 * time.Millisecond}, {"slow", Late, "", 2 * time.Second}, {"short", Late, "", 100 * time.Millisecond},
			{"broken", Failed, "", 0}, {"panics", Failed, "", 0}, {"stubborn", Late, "", 2 * time.Second},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		// It does not end when it is told to, and keeps its place.
		if r := s.Run(t.Context(), Call{Intent: "other"}); r[6].Outcome != Busy || r[7].Outcome != OK {
			t.Errorf("%+v", r)
		}
		s.Wait()
		if d := time.Since(began); d != 10*time.Second {
			t.Errorf("all had ended after %v", d)
		}
	})
}

// TestNothingToSay: users whose questions do not concern a plugin open no circuit, and close
// one as well as an answer does.
func TestNothingToSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		p := run(func(context.Context, Call) (string, error) {
			if calls++; calls == 4 {
				return "", errors.New("broken")
			}
			return "not told", ErrNothing
		})
		s := newScheduler(t, time.Minute, spec("p", p, func(s *Spec) { s.Failures, s.Cooldown = 1, time.Minute }))
		for i, want := range []Outcome{None, None, None, Failed, Open, None, None} {
			if r := s.Run(t.Context(), Call{})[0]; r.Outcome != want || r.Text != "" || (r.Err != nil) != (want == Failed) {
				t.Errorf("call %d: %+v, want %s", i+1, r, want)
			}
			if want == Open {
				time.Sleep(time.Minute)
			}
		}
	})
}

// TestOneDecides: after the cool-down one call is made, however many come at once, and
// one whose client has gone decides nothing.
func TestOneDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		p := run(func(ctx context.Context, _ Call) (string, error) {
			calls++
			if calls == 1 {
				return "", errors.New("broken")
			}
			return after(time.Second, "x")(ctx, Call{})
		})
		s := newScheduler(t, time.Minute, spec("p", p, func(s *Spec) { s.Failures, s.Timeout = 1, time.Minute }))
		s.Run(t.Context(), Call{})
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan []Result)
		go func() { gone <- s.Run(ctx, Call{}) }()
		synctest.Wait()
		if r := s.Run(t.Context(), Call{}); r[0].Outcome != Open {
			t.Errorf("a second: %+v", r)
		}
		cancel()
		if r := <-gone; r[0].Outcome != Late {
			t.Errorf("without a client: %+v", r)
		}
		s.Wait()
		if r := s.Run(t.Context(), Call{}); r[0].Outcome != OK || calls != 3 {
			t.Errorf("the next, after %d calls: %+v", calls, r)
		}
	})
}

func TestHTTP(t *testing.T) {
	var (
		asked  atomic.Pointer[Call]
		answer atomic.Pointer[func(http.ResponseWriter, *http.Request)]
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c Call
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &c)
		}
		if err != nil {
			t.Error(err)
		}
		asked.Store(&c)
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		(*answer.Load())(w, r)
	}))
	defer server.Close()
	networks, err := outward.ParseNetworks([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	loopback := outward.Policy{Allow: networks}
	transport := outward.NewTransport(outward.Config{Policy: loopback, MaxIdle: 4})
	defer transport.CloseIdleConnections()
	p, err := NewHTTP(server.URL+"/weather", loopback, transport)
	if err != nil {
		t.Fatal(err)
	}
	say := func(text string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
	}
	call := Call{"", "1", "b", "u", "weather", "天气?"}
	sunny := say(`{"text":"sunny","more":1}`)
	answer.Store(&sunny)
	if text, err := p.Run(t.Context(), call); err != nil || text != "sunny" || *asked.Load() != call {
		t.Errorf("%q, %v, asked %+v", text, err, asked.Load())
	}
	nothing := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	answer.Store(&nothing)
	if text, err := p.Run(t.Context(), call); text != "" || !errors.Is(err, ErrNothing) {
		t.Errorf("no content: %q, %v", text, err)
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		want   string
	}{
		"no JSON":      {say(`<html>`), "invalid character"},
		"no text":      {say(`{"texts":"x"}`), "has no text"},
		"another text": {say(`{"text":1}`), "cannot unmarshal"},
		"long":         {say(`{"text":"` + strings.Repeat("x", 2*maxText) + `"}`), "more than"},
		"status":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, "status 418"},
		"HTML": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `{"text":"x"}`)
		}, `content type "text/html"`},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
		}, "status 302"},
		"cut": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		answer.Store(&c.answer)
		if text, err := p.Run(t.Context(), call); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v: want %q", name, text, err, c.want)
		}
	}
}

func TestBuiltin(t *testing.T) {
	p, err := Builtin("calculator")
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"12 + 30 等于多少":                   "12 + 30 = 42",
		"3×7是多少":                         "3*7 = 21",
		"8加5":                            "8+5 = 13",
		"what is 7 times 8 ?":            "7*8 = 56",
		"(3 + 4) * -2":                   "(3 + 4) * -2 = -14",
		"1/3":                            "1/3 = 0.3333333333",
		"0.1+0.2":                        "0.1+0.2 = 0.3",
		"2-3-4":                          "2-3-4 = -5",
		"on 5. of May: 2*2":              "2*2 = 4",
		"hello":                          "",
		"1/0":                            "",
		"1+":                             "",
		strings.Repeat("(", 100) + "1+1": "",
		strings.Repeat("9", 40) + "+1":   "",
		strings.Repeat("9", 30) + strings.Repeat("*"+strings.Repeat("9", 30), 32) + "+1": "",
	} {
		got, err := p.Run(t.Context(), Call{Query: query})
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v: want %q", query, got, err, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		p, err := Builtin("clock")
		if err != nil {
			t.Fatal(err)
		}
		want := time.Now().Format("Monday, 2006-01-02 15:04:05 -07:00")
		if got, err := p.Run(t.Context(), Call{}); err != nil || got != want {
			t.Errorf("%q, %v", got, err)
		}
	})
	if _, err := Builtin("shell"); err == nil {
		t.Error("a plugin that is not there")
	}
}

func FuzzCalculate(f *testing.F) {
	for _, s := range []string{"1+2*(3-4)/5", "((((", "1/0", "--1", "1..2+3", "9*9*9*9", "1+2(5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range calculations(text) {
			if v, err := calculate(c); (v == nil) == (err == nil) {
				t.Errorf("%q: %v, %v", c, v, err)
			}
		}
	})
}

// TestKeys: what one key asks leaves others half of a plugin's places, and the plugin itself when it fails.
func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		p := run(func(_ context.Context, c Call) (string, error) {
			switch c.Query {
			case "wait":
				<-proceed
			case "fail":
				return "", errors.New("broken")
			}
			return "fine", nil
		})
		s := New(time.Minute, []Spec{spec("p", p, func(s *Spec) { s.MaxConcurrent, s.Failures, s.Timeout = 4, 3, time.Minute })}, 2)
		ask := func(key, query string, want Outcome) {
			t.Helper()
			if r := s.Run(t.Context(), Call{Key: key, Query: query}); r[0].Outcome != want {
				t.Errorf("%s of %s: %+v, want %s", query, key, r[0], want)
			}
		}
		for range 2 {
			go s.Run(t.Context(), Call{Key: "one", Query: "wait"})
		}
		synctest.Wait()
		ask("one", "hello", Busy)
		ask("two", "hello", OK)
		close(proceed)
		s.Wait()
		for range 3 {
			ask("one", "fail", Failed)
		}
		ask("one", "hello", Open)
		ask("two", "hello", OK)
	})
}
