package pool

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A fake is a server without sockets, so that time can be the test's. Its connections take
// as long for an answer as a request's path says.
type fake struct {
	mu     sync.Mutex // guards what follows
	opened int
	open   int
	most   int // were open at once
	refuse bool
}

func (f *fake) dial(context.Context) (connection, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse {
		return nil, errors.New("connection refused")
	}
	f.opened++
	f.open++
	f.most = max(f.most, f.open)
	return &fakeConnection{fake: f}, nil
}

// figures are how many connections are open, were at most at once, and were opened.
func (f *fake) figures() (open, most, opened int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open, f.most, f.opened
}

type fakeConnection struct {
	fake   *fake
	using  atomic.Bool
	broken atomic.Bool
	closed atomic.Bool
}

func (c *fakeConnection) RoundTrip(r *http.Request) (*http.Response, error) {
	if !c.using.CompareAndSwap(false, true) {
		return nil, errors.New("the connection is in use")
	}
	defer c.using.Store(false)
	if c.closed.Load() {
		c.broken.Store(true)
		return nil, io.ErrUnexpectedEOF
	}
	d, err := time.ParseDuration(strings.TrimPrefix(r.URL.Path, "/"))
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(d):
	case <-r.Context().Done():
		c.broken.Store(true)
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("x"))}, nil
}

func (c *fakeConnection) Err() error {
	if c.broken.Load() || c.closed.Load() {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (c *fakeConnection) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.fake.mu.Lock()
		c.fake.open--
		c.fake.mu.Unlock()
	}
	return nil
}

func newPool(t testing.TB, f *fake, policy Policy) *Pool {
	t.Helper()
	p, err := New(policy, "")
	if err != nil {
		t.Fatal(err)
	}
	p.dial = f.dial
	return p
}

// ask carries out a request that takes so long, and reads its answer.
func ask(ctx context.Context, p *Pool, method, takes string) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://server/"+takes, nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: p}).Do(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close())
}

// TestFixedPool: the pool keeps to its size, and waiting requests get connections in order. It closes
// connections that are idle for too long, the longest idle first.
func TestFixedPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		p := newPool(t, f, Fixed{Size: 2, Idle: time.Second})
		defer p.Close()
		began := time.Now()
		var order []time.Duration
		var mu sync.Mutex
		var asking sync.WaitGroup
		for range 6 {
			asking.Go(func() {
				if err := ask(t.Context(), p, "GET", "100ms"); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, time.Since(began))
			})
		}
		asking.Wait()
		for i, took := range order {
			if want := time.Duration(i/2+1) * 100 * time.Millisecond; took != want {
				t.Errorf("request %d took %v, want %v", i, took, want)
			}
		}
		got := p.Stats()
		if want := (Stats{Requests: 6, Waited: 4, Opened: 2, Open: 2, Idle: 2, Size: 2, Threshold: time.Second}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		// One of both is in use still, and the other one grows old.
		for range 3 {
			time.Sleep(400 * time.Millisecond)
			if err := ask(t.Context(), p, "GET", "0s"); err != nil {
				t.Error(err)
			}
		}
		if open, _, _ := f.figures(); open != 1 {
			t.Errorf("%d open", open)
		}
		if got := p.Stats(); got.Evicted != 1 || got.Open != 1 || got.Hits != 3 {
			t.Errorf("%+v", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if open, _, _ := f.figures(); open != 0 {
			t.Errorf("%d open", open)
		}
		if got := p.Stats(); got.Evicted != 2 || got.Open != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestAdaptivePool: with more requests than connections the pool grows and keeps idle connections for a shorter
// time. After the load it returns to its former size.
func TestAdaptivePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		policy := AsWritten()
		policy.Size, policy.MaxSize = 4, 32
		p := newPool(t, f, policy)
		defer p.Close()
		var asking sync.WaitGroup
		for range 3000 { // 1,000 a second
			asking.Go(func() {
				if err := ask(t.Context(), p, "GET", "10ms"); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Millisecond)
		}
		loaded := p.Stats()
		if loaded.Threshold != 750*time.Millisecond || loaded.Size <= 4 || loaded.Size > 32 || loaded.Waited == 0 {
			t.Errorf("under load: %+v", loaded)
		}
		asking.Wait()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		after := p.Stats()
		open, most, opened := f.figures()
		if after.Open != 0 || open != 0 || after.Evicted != uint64(opened) || after.Size != 4 || after.Threshold != 3*time.Second {
			t.Errorf("after it: %+v, %d open", after, open)
		}
		if most <= 4 || most > 32 {
			t.Errorf("%d were open at once", most)
		}
	})
}

// TestWaiting: a waiting request may be cancelled. Requests beyond the bound are refused, and all get the error
// of a connection that cannot be opened.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		p := newPool(t, f, Fixed{Size: 1, Idle: time.Minute})
		defer p.Close()
		errs, others := make(chan error, 3), make(chan error)
		first, cancelFirst := context.WithCancel(t.Context())
		go func() { errs <- ask(first, p, "POST", "1h") }()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() { errs <- ask(short, p, "GET", "0s") }()
		synctest.Wait()
		go func() { errs <- ask(t.Context(), p, "GET", "0s") }()
		synctest.Wait()
		const more = maxWaiting - 2
		left, leave := context.WithCancel(t.Context())
		for range more {
			go func() { others <- ask(left, p, "GET", "0s") }()
		}
		synctest.Wait()
		if err := ask(t.Context(), p, "GET", "0s"); !errors.Is(err, ErrBusy) {
			t.Errorf("%v, want %v", err, ErrBusy)
		}
		if got := p.Stats(); got.Waiting != maxWaiting || got.Refused != 1 {
			t.Errorf("%+v", got)
		}
		leave()
		for range more {
			if err := <-others; !errors.Is(err, context.Canceled) {
				t.Errorf("gave up: %v", err)
			}
		}
		if err := <-errs; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("gave up: %v", err)
		}
		f.mu.Lock()
		f.refuse = true
		f.mu.Unlock()
		cancelFirst() // its connection is of no use any more: the third opens one
		for range 2 {
			if err := <-errs; err == nil || !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "refused") {
				t.Errorf("%v", err)
			}
		}
		if got := p.Stats(); got.Open != 0 || got.Waiting != 0 || got.Failed != 1 || got.Lost != 1 {
			t.Errorf("%+v", got)
		}
	})
}

// TestBroken: a connection that the server has closed carries nothing.
func TestBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		p := newPool(t, f, Fixed{Size: 1, Idle: time.Minute})
		defer p.Close()
		for range 2 {
			if err := ask(t.Context(), p, "GET", "0s"); err != nil {
				t.Error(err)
			}
			p.mu.Lock()
			for _, c := range p.idle {
				_ = c.Close()
			}
			p.mu.Unlock()
		}
		if open, _, opened := f.figures(); open != 0 || opened != 2 || p.Stats().Lost != 1 {
			t.Errorf("%+v, %d opened", p.Stats(), opened)
		}
	})
}

// TestClosedPool: what waits ends, what is in use is closed afterwards, and nothing begins.
func TestClosedPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		p := newPool(t, f, Fixed{Size: 1, Idle: time.Minute})
		errs := make(chan error, 2)
		go func() { errs <- ask(t.Context(), p, "GET", "1s") }()
		synctest.Wait()
		go func() { errs <- ask(t.Context(), p, "GET", "1s") }()
		synctest.Wait()
		p.Close()
		if err := <-errs; !errors.Is(err, ErrClosed) {
			t.Errorf("waited: %v", err)
		}
		if err := <-errs; err != nil {
			t.Errorf("in use: %v", err)
		}
		synctest.Wait()
		if err := ask(t.Context(), p, "GET", "0s"); !errors.Is(err, ErrClosed) {
			t.Errorf("afterwards: %v", err)
		}
		if open, _, _ := f.figures(); p.Stats().Open != 0 || open != 0 {
			t.Errorf("%+v, %d open", p.Stats(), open)
		}
	})
}

// TestPoolKeepsBooks: for any order of requests, every request ends, the pool keeps to its size, and the figures
// add up.
func TestPoolKeepsBooks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 4).Draw(rt, "size")
		gaps := rapid.SliceOfN(rapid.IntRange(0, 50), 1, 60).Draw(rt, "gaps")
		takes := rapid.SliceOfN(rapid.IntRange(0, 100), len(gaps), len(gaps)).Draw(rt, "takes")
		timeouts := rapid.SliceOfN(rapid.IntRange(1, 200), len(gaps), len(gaps)).Draw(rt, "patience")
		adaptive := rapid.Bool().Draw(rt, "adaptive")
		synctest.Test(t, func(t *testing.T) {
			f := &fake{}
			var policy Policy = Fixed{Size: size, Idle: 40 * time.Millisecond}
			most := size
			if adaptive {
				a := AsWritten()
				a.Size, a.MaxSize, a.Base, a.Window, a.Start, a.Step = size, 2*size, 40*time.Millisecond, 20*time.Millisecond, 0, 10
				policy, most = a, 2*size
			}
			p := newPool(t, f, policy)
			var ok, failed atomic.Uint64
			var asking sync.WaitGroup
			for i := range gaps {
				time.Sleep(time.Duration(gaps[i]) * time.Millisecond)
				asking.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(timeouts[i])*time.Millisecond)
					defer cancel()
					if ask(ctx, p, "POST", (time.Duration(takes[i])*time.Millisecond).String()) == nil {
						ok.Add(1)
					} else {
						failed.Add(1)
					}
				})
			}
			asking.Wait()
			time.Sleep(time.Second)
			synctest.Wait()
			s := p.Stats()
			open, highest, opened := f.figures()
			if s.Requests != uint64(len(gaps)) || ok.Load()+failed.Load() != s.Requests || s.Hits+s.Waited+s.Refused > s.Requests ||
				s.Opened != s.Evicted+s.Lost || s.Open != 0 || s.Waiting != 0 || open != 0 || highest > most || int(s.Opened) != opened {
				t.Errorf("%+v, %d ok, %d failed, at most %d open", s, ok.Load(), failed.Load(), highest)
			}
			p.Close()
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// TestRealServer: requests over sockets with bodies that are read to the end and not, and empty
// ones, share connections.
func TestRealServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
		case "/last":
			w.Header().Set("Connection", "close")
		case "/long":
			_, _ = w.Write(make([]byte, 1<<20))
		default:
			_, _ = io.Copy(w, r.Body)
		}
	}))
	defer server.Close()
	p, err := New(AsWritten(), server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	web := http.Client{Transport: p}
	for i, path := range []string{"/echo", "/empty", "/echo", "/long", "/last", "/echo"} {
		answer, err := web.Post(server.URL+path, "text/plain", strings.NewReader("hello"))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if path == "/echo" || path == "/last" {
			if text, err := io.ReadAll(answer.Body); err != nil || path == "/echo" && string(text) != "hello" {
				t.Errorf("%d: %q, %v", i, text, err)
			}
		}
		answer.Body.Close()
	}
	// The long one was not read to its end, and the last one's connection is closed by the
	// server: each costs one.
	if s := p.Stats(); s.Opened != 3 || s.Hits != 3 {
		t.Errorf("%+v", s)
	}
	if _, err := New(Fixed{}, ""); err == nil || !strings.Contains(err.Error(), "size") {
		t.Errorf("%v", err)
	}
}
