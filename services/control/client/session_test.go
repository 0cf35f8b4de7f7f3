package client

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// coordinator answers as a control plane does with session s of 9 s. answer may answer instead.
func coordinator(answer func(n int, r *http.Request) *http.Response) *fake {
	return &fake{answer: func(n int, r *http.Request) *http.Response {
		if got := answer(n, r); got != nil {
			return got
		}
		switch {
		case r.Method == http.MethodPost && r.URL.Path == "/v1/sessions":
			return status(201, `{"id":"s","ttl_seconds":9}`)
		case r.Method == http.MethodPut:
			return status(200, `{"name":"l","token":7}`)
		}
		return status(204, "")
	}}
}

func beginSession(t *testing.T, c *Client) *Session {
	t.Helper()
	s, err := c.Begin(t.Context(), "me", 9*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSession: it is renewed, and lost when nothing was answered for its time, or the control plane says so. Its lock is
// lost with it.
func TestSession(t *testing.T) {
	for name, c := range map[string]struct {
		refused *http.Response // nil is no answer
		least   time.Duration
		most    time.Duration
	}{
		"no answer":    {nil, 30*time.Second + 6*time.Second, 30*time.Second + 9*time.Second},
		"refused":      {status(503, `{"title":"busy"}`), 30*time.Second + 6*time.Second, 30*time.Second + 9*time.Second},
		"it has ended": {status(404, `{"title":"gone"}`), 30 * time.Second, 30*time.Second + 3*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				f := coordinator(func(_ int, r *http.Request) *http.Response {
					if strings.HasSuffix(r.URL.Path, "/renew") && time.Since(start) > 30*time.Second {
						if c.refused == nil {
							<-r.Context().Done()
							return status(500, "")
						}
						return status(c.refused.StatusCode, `{"title":"refused"}`)
					}
					return nil
				})
				client := newClient(t, f, func(cfg *Config) { cfg.Servers = []string{"http://a", "http://b"} })
				s := beginSession(t, client)
				lock, err := s.Lock(t.Context(), "l", "v")
				if err != nil || lock.Token != 7 {
					t.Fatalf("%+v, %v", lock, err)
				}
				<-lock.Context().Done()
				if took := time.Since(start); !errors.Is(context.Cause(lock.Context()), ErrLost) || s.Context().Err() == nil || took < c.least || took > c.most {
					t.Errorf("%v after %v", context.Cause(lock.Context()), took)
				}
				if _, err := s.Lock(t.Context(), "l", ""); !errors.Is(err, ErrLost) {
					t.Errorf("a lock of a lost session: %v", err)
				}
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestLocking: a lock is asked for until it is there, at another server if need be, and never longer than the caller
// wants.
func TestLocking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, free := 0, 6
		f := coordinator(func(_ int, r *http.Request) *http.Response {
			switch {
			case r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/locks/"):
				if r.URL.Query().Get("session") != "s" || r.URL.Query().Get("namespace") != "default" {
					t.Errorf("released by %s", r.URL)
				}
				return status(404, `{"title":"it is free already"}`)
			case r.Method != http.MethodPut:
				return nil
			}
			if tries++; tries < free {
				time.Sleep(time.Second)
				return status([]int{409, 504, 503}[tries%3], `{"title":"wait"}`)
			}
			return nil
		})
		client := newClient(t, f, func(cfg *Config) { cfg.Servers = []string{"http://a", "http://b"} })
		s := beginSession(t, client)
		lock, err := s.Lock(t.Context(), "a b", "v")
		if err != nil || tries != free {
			t.Fatalf("%v after %d tries", err, tries)
		}
		asked, _, bodies := f.record()
		servers := map[string]bool{}
		for i, one := range asked {
			if strings.HasPrefix(one, "PUT ") {
				servers[strings.Fields(one)[1]] = true
				if !strings.HasSuffix(one, "/v1/locks/a b") || bodies[i] != `{"session":"s","value":"v","wait_seconds":5}` {
					t.Errorf("%s %s", one, bodies[i])
				}
			}
		}
		if len(servers) != 2 {
			t.Errorf("servers %v", servers)
		}
		if err := lock.Unlock(t.Context()); err != nil || lock.Context().Err() == nil || s.Context().Err() != nil {
			t.Errorf("released: %v", err)
		}
		tries, free = 0, 1000
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err := s.Lock(ctx, "l", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after its time: %v", err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestLockRefused: what is refused for good is not repeated.
func TestLockRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		code := 403
		client := newClient(t, coordinator(func(_ int, r *http.Request) *http.Response {
			if r.Method == http.MethodPut || code == 201 {
				return status(code, `{"title":"no"}`)
			}
			return nil
		}), nil)
		s := beginSession(t, client)
		var p *Problem
		if _, err := s.Lock(t.Context(), "l", ""); !errors.As(err, &p) || p.Status != 403 {
			t.Errorf("%v", err)
		}
		code = 200
		if _, err := s.Lock(t.Context(), "l", ""); err == nil {
			t.Error("an answer without a token is a lock")
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		code = 201
		if _, err := client.Begin(t.Context(), "me", 9*time.Second); err == nil {
			t.Error("an answer without an ID is a session")
		}
		client.Close()
		code = 403
		if _, err := client.Begin(t.Context(), "me", 9*time.Second); !errors.Is(err, ErrClosed) {
			t.Errorf("of a closed client: %v", err)
		}
	})
}
