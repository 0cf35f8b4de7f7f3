package rest

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"dyno/services/control/plane"
	"dyno/services/control/push"
	"dyno/services/control/resource"
	"dyno/services/control/store"
)

// benched is an API that waits for the disk, without a socket before it.
func benched(b *testing.B) *API {
	b.Helper()
	sc := store.Defaults()
	sc.Dir = b.TempDir()
	s, err := store.Open(b.Context(), sc)
	if err != nil {
		b.Fatal(err)
	}
	p, err := plane.Open(b.Context(), s, plane.Defaults())
	if err != nil {
		b.Fatal(err)
	}
	c := Defaults()
	c.Plane = p
	a, err := New(c)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		a.Close()
		p.Close()
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return a
}

func ask(a *API, method, path, body string) int {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "localhost"
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w.Code
}

// BenchmarkCreate makes policies, by 256 clients at a time.
func BenchmarkCreate(b *testing.B) {
	a := benched(b)
	var n atomic.Int64
	b.SetParallelism(128) // for each of GOMAXPROCS
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if status := ask(a, http.MethodPost, "/v1/policies", fmt.Sprintf(`{"name":"p%d","rules":`+rules+`}`, n.Add(1))); status != http.StatusCreated {
				b.Errorf("status %d", status)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
}

// BenchmarkGet reads one of 100 policies, linearizably and not.
func BenchmarkGet(b *testing.B) {
	a := benched(b)
	for i := range 100 {
		if status := ask(a, http.MethodPost, "/v1/policies", fmt.Sprintf(`{"name":"p%d","rules":`+rules+`}`, i)); status != http.StatusCreated {
			b.Fatalf("status %d", status)
		}
	}
	for _, query := range []string{"", "?stale=true"} {
		b.Run("read"+query, func(b *testing.B) {
			var n atomic.Int64
			b.SetParallelism(128)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if status := ask(a, http.MethodGet, fmt.Sprintf("/v1/policies/p%d%s", n.Add(1)%100, query), ""); status != http.StatusOK {
						b.Errorf("status %d", status)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reads/s")
		})
	}
}

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

// BenchmarkTell writes a change as an event, as each watcher is told it.
func BenchmarkTell(b *testing.B) {
	c := push.Change{
		Ref: resource.Ref{Kind: resource.Policies, Namespace: "default", Name: "p1"}, Revision: 1234, Version: 12,
		Body: []byte(`{"namespace":"default","name":"p1",` + `"rules":` + rules + `}`),
	}
	w := &watcher{watch: &plane.Watch{}}
	var to bytes.Buffer
	b.ReportAllocs()
	for b.Loop() {
		to.Reset()
		if _, err := w.append(&to, []push.Change{c}, true); err != nil {
			b.Fatal(err)
		}
	}
}
