package agent

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// An agent is idle a time after its last request has ended, and not while one is in flight.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		idle := make(chan time.Duration, 1)
		timer := newIdleTimer(time.Minute, func() { idle <- time.Since(begin) })
		defer timer.Stop()
		handler := timer.watch(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			took, _ := time.ParseDuration(r.URL.Path[1:])
			time.Sleep(took)
		}))
		ask := func(took string) {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/"+took, nil))
		}
		time.Sleep(40 * time.Second)
		ask("0s")
		time.Sleep(40 * time.Second)
		go ask("10m")
		time.Sleep(40 * time.Second)
		ask("1m") // ends before the other
		time.Sleep(9 * time.Minute)
		if len(idle) > 0 {
			t.Fatalf("idle after %v", <-idle)
		}
		if got, want := <-idle, 12*time.Minute+20*time.Second; got != want {
			t.Errorf("idle after %v, want %v", got, want)
		}
	})
}

// Without a time, an agent is never idle.
func TestNeverIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newIdleTimer(0, func() { t.Error("idle") })
		timer.watch(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		time.Sleep(1000 * time.Hour)
		timer.Stop()
	})
}
