package rest

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A sink is a http.ResponseWriter that keeps the last status only.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(status int)      { s.status = status }

// TestReadAllocates bounds what a read from memory allocates, without what net/http allocates.
func TestReadAllocates(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	b := newBed(t, nil)
	b.want(http.StatusCreated, "", http.MethodPost, "/v1/policies", `{"name":"a","rules":[]}`)
	b.want(http.StatusOK, "", http.MethodGet, "/v1/policies/a", "")
	r := httptest.NewRequest(http.MethodGet, "/v1/policies/a?stale=true", http.NoBody)
	r.Host = "localhost"
	w := &sink{header: http.Header{}}
	const most = 6
	if n := testing.AllocsPerRun(2000, func() { b.api.ServeHTTP(w, r) }); n > most || w.status != http.StatusOK {
		t.Errorf("status %d with %v allocations, want %d at most", w.status, n, most)
	}
}
