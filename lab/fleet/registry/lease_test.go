package registry

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// A lease ends when its holder has been silent for as long, even if the control plane keeps silent instances.
func TestLeases(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/v1/services/coordinators/instances" {
			http.NotFound(w, q)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"protected": true, "items": [{"id": "lives", "overdue": false}, {"id": "silent", "overdue": true}]}`)
	}))
	defer server.Close()
	r, err := Open(Config{Servers: []string{server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	leases, err := r.Leases(t.Context())
	if got := slices.Collect(maps.Keys(leases)); err != nil || !slices.Equal(got, []string{"lives"}) {
		t.Errorf("%v, %v", got, err)
	}
}
