package rest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"dyno/services/control/plane"
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
	close(ended)
	w.running.Wait()
	if err := w.do(nil, func(*request) error { return want }); !errors.Is(err, want) {
		t.Errorf("after the end: %v", err)
	}
}

// TestPanic: an operation that panics has failed: it is answered and counted, also by a worker. One that has begun to answer
// ends with its connection.
func TestPanic(t *testing.T) {
	for _, n := range []int{0, 1} {
		b := newBed(t, func(c *Config, _ *plane.Config) { c.Workers = n })
		panics := func(begun bool) http.HandlerFunc {
			return b.api.answer(route{id: "fails", context: "administration", method: http.MethodGet, path: "/", handle: func(q *request) error {
				q.begun = begun
				panic("on purpose")
			}})
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = "localhost"
		w := httptest.NewRecorder()
		if panics(false)(w, r); w.Code != http.StatusInternalServerError {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		func() {
			defer func() {
				if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // a panic's value is the very one
					t.Errorf("recovered from %v", p)
				}
			}()
			panics(true)(httptest.NewRecorder(), r)
		}()
		var m dto.Metric
		if err := b.api.requests.WithLabelValues("administration", "fails", "internal").(prometheus.Metric).Write(&m); err != nil || m.GetHistogram().GetSampleCount() != 2 {
			t.Errorf("%d workers: %v, %v", n, &m, err)
		}
	}
}
