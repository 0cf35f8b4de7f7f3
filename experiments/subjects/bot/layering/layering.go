// Package layering puts layers around handlers in forms that report R2 compares with the gateway's: once more for each
// request, and with layers that a route does not need.
package layering

import (
	"fmt"
	"net/http"

	"dyno/services/bot/middleware"
)

// A Form is a way to put layers around a handler.
type Form string

// The forms.
const (
	// Composed has each layer enclose the next in a function, once. It is the gateway's own.
	Composed Form = "composed"
	// PerRequest does so for each request, and layers end by defer: with status 0 if the handler panics.
	PerRequest Form = "per-request"
)

// Validate says what would be right.
func (f Form) Validate() error {
	if f != Composed && f != PerRequest {
		return fmt.Errorf("middleware %q: must be composed or per-request", string(f))
	}
	return nil
}

// Around puts layers around the handler of a route, the first outermost. Unmatched leaves
// in those that are not meant for it: each asks with every request whether it is.
func (f Form) Around(unmatched bool, layers []middleware.Layer, method, path string, h middleware.Handler) middleware.Handler {
	if f == Composed && !unmatched {
		return middleware.Around(layers, method, path, h)
	}
	var in []middleware.Layer
	for _, l := range layers {
		if unmatched || matches(&l, method, path) {
			in = append(in, l)
		}
	}
	if f == Composed {
		for i := len(in) - 1; i >= 0; i-- {
			h = asking(&in[i], h)
		}
		return h
	}
	return func(w http.ResponseWriter, r *http.Request) int {
		next := h
		for i := len(in) - 1; i >= 0; i-- {
			next = deferred(&in[i], unmatched, next)
		}
		return next(w, r)
	}
}

func matches(l *middleware.Layer, method, path string) bool {
	return l.Matches == nil || l.Matches(method, path)
}

// asking puts one layer around a handler, for the requests that it is meant for.
func asking(l *middleware.Layer, h middleware.Handler) middleware.Handler {
	enclosed := middleware.Around([]middleware.Layer{{Enter: l.Enter, Leave: l.Leave}}, "", "", h)
	return func(w http.ResponseWriter, r *http.Request) int {
		if !matches(l, r.Method, r.URL.Path) {
			return h(w, r)
		}
		return enclosed(w, r)
	}
}

// deferred puts one layer around a handler, for one request: the layer is left by defer.
func deferred(l *middleware.Layer, unmatched bool, h middleware.Handler) middleware.Handler {
	return func(w http.ResponseWriter, r *http.Request) (status int) {
		if unmatched && !matches(l, r.Method, r.URL.Path) {
			return h(w, r)
		}
		var m middleware.Mark
		if l.Enter != nil {
			r, m = l.Enter(w, r)
		}
		defer func() {
			seen := status
			if status == middleware.Panicked {
				seen = http.StatusInternalServerError
			}
			if l.Leave != nil {
				l.Leave(r, m, seen)
			}
		}()
		return h(w, r)
	}
}
