package rest

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// TestPanic: an operation that panics has failed: it is answered and counted. One that has begun to answer
// ends with its connection.
func TestPanic(t *testing.T) {
	b := newBed(t, nil)
	panics := func(begun bool) http.HandlerFunc {
		return b.api.answer(route{id: "fails", context: "administration", method: http.MethodGet, path: "/", handle: func(q *request) error {
			q.headerWritten = begun
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
		t.Errorf("%v, %v", &m, err)
	}
}
