package rest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"dyno/services/control/plane"
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
