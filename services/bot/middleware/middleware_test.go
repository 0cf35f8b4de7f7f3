package middleware

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

type key struct{}

// TestAround: a request goes through the layers that its route needs, in order, and the status comes back through them.
func TestAround(t *testing.T) {
	var did []string
	layer := func(name string, matches func(method, path string) bool) Layer {
		return Layer{
			Matches: matches,
			Enter: func(_ http.ResponseWriter, r *http.Request) (*http.Request, Mark) {
				did = append(did, "enter "+name)
				return r.WithContext(context.WithValue(r.Context(), key{}, name)), Mark{Time: time.Unix(int64(len(name)), 0), Value: name}
			},
			Leave: func(r *http.Request, m Mark, status int) {
				if m.Value != name || m.Time.Unix() != int64(len(name)) {
					t.Errorf("%s: %+v", name, m)
				}
				did = append(did, fmt.Sprint("leave ", name, " ", status, " ", r.Context().Value(key{})))
			},
		}
	}
	layers := []Layer{
		layer("all", nil),
		layer("post", func(method, _ string) bool { return method == http.MethodPost }),
		{}, // does nothing
		layer("below", func(_, path string) bool { return strings.HasPrefix(path, "/a/") }),
	}
	for _, c := range []struct {
		method, path string
		want         []string
	}{
		{http.MethodGet, "/b", []string{"enter all", "served in all", "leave all 201 all"}},
		{http.MethodPost, "/a/x", []string{"enter all", "enter post", "enter below", "served in below", "leave below 201 below", "leave post 201 post", "leave all 201 all"}},
	} {
		did = nil
		h := Around(layers, c.method, c.path, func(_ http.ResponseWriter, r *http.Request) int {
			did = append(did, fmt.Sprint("served in ", r.Context().Value(key{})))
			return http.StatusCreated
		})
		for range 2 { // a chain begins again
			did = nil
			if status := h(httptest.NewRecorder(), httptest.NewRequest(c.method, c.path, nil)); status != http.StatusCreated || !slices.Equal(did, c.want) {
				t.Errorf("%d %q\nwant %q", status, did, c.want)
			}
		}
	}
}

// TestPanicked: to layers, a handler that has panicked has answered with 500; who has called them knows better.
func TestPanicked(t *testing.T) {
	seen := 0
	h := Around([]Layer{{Leave: func(_ *http.Request, _ Mark, status int) { seen = status }}}, http.MethodGet, "/",
		func(http.ResponseWriter, *http.Request) int { return Panicked })
	if got := h(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)); got != Panicked || seen != http.StatusInternalServerError {
		t.Errorf("%d, and layers have seen %d", got, seen)
	}
}
