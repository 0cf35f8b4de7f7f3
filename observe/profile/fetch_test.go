package profile

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"dyno/observe"

	profiles "github.com/google/pprof/profile"
)

// offering is a program that offers its profiles: this one.
func offering(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + "/debug/pprof"
}

//go:noinline
func allocated(n int) (all [][]byte) {
	for range n {
		all = append(all, make([]byte, 1<<20))
	}
	return all
}

func contended() {
	var mu sync.Mutex
	var all sync.WaitGroup
	mu.Lock()
	for range 4 {
		all.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			runtime.Gosched()
		})
	}
	<-time.After(20 * time.Millisecond)
	mu.Unlock()
	all.Wait()
}

// during calls f again and again while the profile is taken.
func during(t *testing.T, url string, kind Kind, d time.Duration, f func()) *profiles.Profile {
	t.Helper()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				f()
			}
		}
	}()
	p, err := Source{URL: url}.Fetch(t.Context(), kind, d)
	close(stop)
	<-ended
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// calculated takes CPU time in registers alone: if it used memory, the race detector's functions would
// be all that a profile has.
func calculated() {
	sum := uint64(1)
	for range 1 << 16 {
		sum = sum*6364136223846793005 + 1442695040888963407
	}
	runtime.KeepAlive(sum)
}

// collected allocates what a profile has at once: it is up to two collections old.
func collected() {
	_ = allocated(4)
	runtime.GC()
	runtime.GC()
}

func TestFetch(t *testing.T) {
	url := offering(t)
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	runtime.SetBlockProfileRate(1)
	defer runtime.SetBlockProfileRate(0)
	kept := allocated(8)
	for _, c := range []struct {
		kind     Kind
		duration time.Duration
		work     func()
		value    string
		function string
	}{
		{CPU, time.Second, calculated, "cpu", "during"},
		{Allocs, 300 * time.Millisecond, collected, "alloc_space", "allocated"},
		{Heap, 0, runtime.Gosched, "alloc_space", "allocated"},
		{Goroutine, 0, runtime.Gosched, "goroutine", "during"},
		{Mutex, 300 * time.Millisecond, contended, "delay", "contended"},
		{Block, 300 * time.Millisecond, contended, "delay", "contended"},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			costs, err := Table(during(t, url, c.kind, c.duration, c.work), c.value)
			if err != nil {
				t.Fatal(err)
			}
			for f, v := range costs.Cumulative {
				if strings.Contains(f.Name, c.function) && v > 0 {
					return
				}
			}
			t.Errorf("%s is not in the profile: %v", c.function, costs.Cumulative)
		})
	}
	runtime.KeepAlive(kept)
}

// Allocations before the window are not in it.
func TestOnlyTheWindow(t *testing.T) {
	url := offering(t)
	kept := allocated(64)
	runtime.GC() // which publishes what was allocated before it
	p, err := Source{URL: url}.Fetch(t.Context(), Allocs, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	costs, err := Table(p, "alloc_space")
	if err != nil {
		t.Fatal(err)
	}
	if v := costs.Cumulative[Function{Name: "dyno/observe/profile.allocated"}]; v != 0 {
		t.Errorf("%v bytes from before", v)
	}
	if p.DurationNanos < int64(time.Millisecond) {
		t.Errorf("duration %d ns", p.DurationNanos)
	}
	runtime.KeepAlive(kept)
}

func TestFetchFaults(t *testing.T) {
	url := offering(t)
	serve := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	notThere := serve(http.NotFound)
	refused := serve(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Could not enable CPU profiling: cpu profiling already in use", http.StatusInternalServerError)
	})
	nonsense := serve(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	large := serve(func(w http.ResponseWriter, _ *http.Request) {
		b := make([]byte, 1<<20)
		for range maxProfileBytes>>20 + 1 {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	})
	// A program that has mutexes off, and an empty profile.
	off := serve(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("debug") == "1" {
			_, _ = w.Write([]byte("--- mutex:\ncycles/second=1\nsampling period=0\n"))
			return
		}
		if err := made("delay", nil).Write(w); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		name        string
		url         string
		kind        Kind
		d           time.Duration
		unavailable bool
		want        string
	}{
		{"no pprof", notThere, Heap, 0, true, "has no net/http/pprof"},
		{"refusal", refused, CPU, time.Second, false, "already in use"},
		{"nonsense", nonsense, Heap, 0, false, "heap"},
		{"too much", large, Heap, 0, false, "more than 64 MiB"},
		{"mutex is off", off, Mutex, time.Millisecond, true, "its fraction is 0"},
		{"block may be off", off, Block, time.Millisecond, true, "its rate is 0"},
		{"kind", url, "memory", 0, false, "want cpu, heap"},
		{"url", "127.0.0.1:6060", Heap, 0, false, "want http://host:port"},
		{"part of a second", url, CPU, 1500 * time.Millisecond, false, "whole seconds"},
		{"no duration", url, Allocs, 0, false, "the time to watch"},
		{"needless duration", url, Heap, time.Second, false, "want 0 for heap"},
		{"another machine", "http://192.0.2.1:6060", Heap, 0, false, "not a loopback address"},
	} {
		_, err := Source{URL: c.url}.Fetch(t.Context(), c.kind, c.d)
		var u *observe.Unavailable
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, &u) != c.unavailable {
			t.Errorf("%s: %v; want %q, unavailable %v", c.name, err, c.want, c.unavailable)
		}
	}
}

func TestFetchIsInterrupted(t *testing.T) {
	url := offering(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(50*time.Millisecond, cancel).Stop()
	if _, err := (Source{URL: url}).Fetch(ctx, Allocs, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
