package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dyno/services/bot/openai"
)

// several are two tenants of three, by which others are there.
func several(c *Config) { c.Tenants, c.Attempts, c.Failures = 3, 1, 3 }

// saying is a request that says something.
func saying(t *testing.T, text string, stream bool) *openai.Request {
	t.Helper()
	r, err := openai.Standard().NewChat("m", []openai.Message{{Role: "user", Content: text}}, stream, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// picky has a server fail requests that say "bad", and answer others.
func picky(b *bed, fail func(http.ResponseWriter)) {
	s := b.servers["a"]
	s.handler = func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			b.t.Error(err)
		}
		if bytes.Contains(body, []byte("bad")) {
			fail(w)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.Handler().ServeHTTP(w, r)
	}
}

// TestOneTenantsFailures: one tenant's failures, of every kind, make the upstream cool down for that tenant, and for
// no other.
func TestOneTenantsFailures(t *testing.T) {
	for name, fail := range map[string]func(http.ResponseWriter){
		"500": func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"404": func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) },
		"retry after": func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		},
		"malformed": func(w http.ResponseWriter) { _, _ = io.WriteString(w, "data: hello\n\n") },
		"cut":       func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(name, stream), func(t *testing.T) {
				inBubble(t, make([]Upstream, 1), several, nil, func(t *testing.T, b *bed) {
					picky(b, fail)
					bad, good := b.NewTenant(nil, nil, nil), b.NewTenant(nil, nil, nil)
					for i := range 200 {
						if a, err := b.Ask(t.Context(), saying(t, "bad", stream), bad); err == nil {
							t.Fatalf("%+v", a)
						}
						if i%5 == 0 {
							a, err := b.Ask(t.Context(), saying(t, "hello", stream), good)
							if err != nil {
								t.Fatalf("%d: %v", i, err)
							}
							if stream {
								if _, err := read(a.Stream); !errors.Is(err, io.EOF) {
									t.Error(err)
								}
							}
						}
						<-time.After(100 * ms)
					}
					if s := b.States()[0]; !s.Ready || s.Asked > 40+20 {
						t.Errorf("%+v", s)
					}
					var e *Error
					if _, err := b.Ask(t.Context(), saying(t, "hello", stream), bad); name == "retry after" && (!errors.As(err, &e) || e.RetryAfter < 50*time.Minute) {
						t.Errorf("%v: it was told to come back later", err)
					}
				})
			})
		}
	}
}

// TestTwoTenantsFailures: failures of two tenants make the upstream cool down for all. One request finds out when it
// has recovered.
func TestTwoTenantsFailures(t *testing.T) {
	for name, c := range map[string]struct {
		fail  func(http.ResponseWriter)
		asked int           // before nobody is any more
		time  time.Duration // that it cools down for
	}{
		"500": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, 3, time.Second},
		"retry after": {func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, 2, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, make([]Upstream, 1), several, nil, func(t *testing.T, b *bed) {
				picky(b, c.fail)
				one, two, third := b.NewTenant(nil, nil, nil), b.NewTenant(nil, nil, nil), b.NewTenant(nil, nil, nil)
				for _, of := range []*Tenant{one, two, one} {
					_, _ = b.Ask(t.Context(), saying(t, "bad", false), of)
				}
				if s := b.States()[0]; s.Ready || s.Asked != uint64(c.asked) {
					t.Errorf("%+v", s)
				}
				var e *Error
				if _, err := b.Ask(t.Context(), saying(t, "hello", false), third); !errors.As(err, &e) || e.RetryAfter != c.time {
					t.Errorf("a third tenant: %v", err)
				}
				<-time.After(c.time)
				for _, of := range []*Tenant{third, one, two} {
					if _, err := b.Ask(t.Context(), saying(t, "hello", false), of); err != nil {
						t.Errorf("afterwards: %v", err)
					}
				}
				if s := b.States()[0]; !s.Ready {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// TestTriesCountOnce: one request does not have an upstream cool down, however often it is tried there.
func TestTriesCountOnce(t *testing.T) {
	inBubble(t, make([]Upstream, 1), func(c *Config) { c.Attempts, c.Failures = 3, 3 }, nil, func(t *testing.T, b *bed) {
		picky(b, func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) })
		for i, ready := range []bool{true, true, false} {
			_, _ = b.Ask(t.Context(), saying(t, "bad", false), nil)
			if s := b.States()[0]; s.Ready != ready || s.Asked != uint64(3*i+3) && ready {
				t.Errorf("after %d: %+v", i+1, s)
			}
		}
	})
}

// TestOwnRetries: who uses up its retries leaves others theirs.
func TestOwnRetries(t *testing.T) {
	inBubble(t, []Upstream{{}, {Terms: Terms{Priority: 1}}}, func(c *Config) { c.Tenants, c.Attempts, c.RetryRatio, c.RetryBurst = 2, 2, 0, 2 }, nil, func(t *testing.T, b *bed) {
		b.servers["a"].set("408")
		one, two := b.NewTenant(nil, nil, nil), b.NewTenant(nil, nil, nil)
		for i := range 3 {
			if _, err := b.Ask(t.Context(), ask(t, false), one); (err == nil) != (i < 2) {
				t.Errorf("%d: %v", i, err)
			}
		}
		if _, err := b.Ask(t.Context(), ask(t, false), two); err != nil {
			t.Error(err)
		}
	})
}

// TestOneTenantsFailuresAtOnce: nor do requests of one tenant that are under way together, however many fail.
func TestOneTenantsFailuresAtOnce(t *testing.T) {
	inBubble(t, make([]Upstream, 1), several, nil, func(t *testing.T, b *bed) {
		proceed := make(chan struct{})
		picky(b, func(w http.ResponseWriter) {
			<-proceed
			w.WriteHeader(http.StatusInternalServerError)
		})
		bad := b.NewTenant(nil, nil, nil)
		var all sync.WaitGroup
		for range 50 {
			r := saying(t, "bad", false)
			all.Go(func() { _, _ = b.Ask(t.Context(), r, bad) })
		}
		synctest.Wait()
		close(proceed)
		all.Wait()
		if s := b.States()[0]; s.Asked != 50 || s.Failures != 50 {
			t.Errorf("%+v", s)
		}
		if _, err := b.Ask(t.Context(), saying(t, "hello", false), b.NewTenant(nil, nil, nil)); err != nil {
			t.Error(err)
		}
	})
}
