package rest

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// Workers are as many as were asked for, and answer as the others would.
func TestWorkers(t *testing.T) {
	ended := make(chan struct{})
	w := startWorkers(3, ended)
	var at, most atomic.Int64
	entered := make(chan struct{}, 10)
	release := make(chan struct{})
	want := errors.New("what it made of it")
	var callers sync.WaitGroup
	for range 10 {
		callers.Go(func() {
			if err := w.do(nil, func(*request) error {
				most.Store(max(most.Load(), at.Add(1)))
				entered <- struct{}{}
				<-release
				at.Add(-1)
				return want
			}); !errors.Is(err, want) {
				t.Errorf("%v", err)
			}
		})
	}
	for range 3 {
		<-entered
	}
	close(release)
	callers.Wait()
	if n := most.Load(); n > 3 {
		t.Errorf("%d at once, want 3", n)
	}
	func() {
		defer func() {
			if got := recover(); got != http.ErrAbortHandler { //nolint:errorlint // a panic's value is the very one
				t.Errorf("panicked with %v", got)
			}
		}()
		_ = w.do(nil, func(*request) error { panic(http.ErrAbortHandler) })
	}()
	if err := w.do(nil, func(*request) error { return nil }); err != nil {
		t.Errorf("after a panic: %v", err)
	}
	close(ended)
	w.running.Wait()
	if err := w.do(nil, func(*request) error { return want }); !errors.Is(err, want) {
		t.Errorf("after the end: %v", err)
	}
}
