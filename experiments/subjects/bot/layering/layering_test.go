package layering

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dyno/internal/leak"
	"dyno/services/bot/middleware"
)

func TestMain(m *testing.M) { leak.Main(m) }

type around func(layers []middleware.Layer, method, path string, h middleware.Handler) middleware.Handler

// story is what happens to requests whose layers are put around their handler so.
func story(f around) (did []string) {
	layer := func(name string, matches func(method, path string) bool) middleware.Layer {
		return middleware.Layer{
			Matches: matches,
			Enter: func(_ http.ResponseWriter, r *http.Request) (*http.Request, middleware.Mark) {
				did = append(did, "enter "+name)
				r = r.Clone(r.Context())
				r.Header.Add("Layer", name)
				return r, middleware.Mark{Value: name}
			},
			Leave: func(r *http.Request, m middleware.Mark, status int) {
				did = append(did, fmt.Sprint("leave ", name, " ", status, " ", m.Value, r.Header["Layer"]))
			},
		}
	}
	layers := []middleware.Layer{
		layer("all", nil),
		layer("post", func(method, _ string) bool { return method == http.MethodPost }),
		{}, // does nothing
		layer("below", func(_, path string) bool { return strings.HasPrefix(path, "/a/") }),
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, path := range []string{"/a/x", "/b"} {
			for _, status := range []int{http.StatusCreated, middleware.Panicked} {
				h := f(layers, method, path, func(_ http.ResponseWriter, r *http.Request) int {
					did = append(did, fmt.Sprint("serve ", method, path, r.Header["Layer"]))
					return status
				})
				for range 2 { // a chain begins again
					got := h(httptest.NewRecorder(), httptest.NewRequest(method, path, nil))
					did = append(did, fmt.Sprint("status ", got))
				}
			}
		}
	}
	return did
}

// TestForms: every form does what the gateway's own does.
func TestForms(t *testing.T) {
	want := story(middleware.Around)
	for _, f := range []Form{Composed, PerRequest} {
		if err := f.Validate(); err != nil {
			t.Error(err)
		}
		for _, unmatched := range []bool{false, true} {
			got := story(func(layers []middleware.Layer, method, path string, h middleware.Handler) middleware.Handler {
				return f.Around(unmatched, layers, method, path, h)
			})
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s, unmatched %v: %s", f, unmatched, d)
			}
		}
	}
	if Form("none").Validate() == nil {
		t.Error("any form is right")
	}
}
