// Package middleware puts layers around handlers, in one of several forms that do the
// same: composed once, when routes are made, or gone through anew for each request; with
// only the layers that a route needs, or with all, each of which looks whether it is
// meant. Report R2 measures what the forms cost.
package middleware

import (
	"fmt"
	"net/http"
	"time"
)

// A Form is how layers come to be around a handler.
type Form string

// The forms.
const (
	// Composed has each layer enclose the next in a function, once.
	Composed Form = "composed"
	// PerRequest does so anew for each request, and layers end by defer.
	PerRequest Form = "per-request"
)

// Validate says what would be right.
func (f Form) Validate() error {
	if f != Composed && f != PerRequest {
		return fmt.Errorf("middleware %q: must be composed or per-request", string(f))
	}
	return nil
}

// Panicked is what a Handler returns that has recovered from a panic. To layers it is the status 500, and the connection is
// to be cut once they have been left.
const Panicked = -1

// A Handler serves a request, and returns the status of its answer, or Panicked.
type Handler func(w http.ResponseWriter, r *http.Request) int

// A Mark is what a layer remembers of a request until it is left.
type Mark struct {
	Time  time.Time
	Value any
}

// A Layer does something before a request is served, and after. Enter and Leave may be
// nil. In a chain of its own for each request, Leave is called also when the handler
// panics, with status 0.
type Layer struct {
	// Matches tells whether the layer is meant for a method and a path; nil is always. Of a
	// route it is asked with the pattern's path.
	Matches func(method, path string) bool
	// Enter may return another request for the layers within.
	Enter func(w http.ResponseWriter, r *http.Request) (*http.Request, Mark)
	Leave func(r *http.Request, m Mark, status int)
}

func (l *Layer) matches(method, path string) bool { return l.Matches == nil || l.Matches(method, path) }

// Around puts layers around the handler of a route, the first outermost. Unmatched leaves
// in those that are not meant for it: each asks with every request whether it is.
func Around(f Form, unmatched bool, layers []Layer, method, path string, h Handler) Handler {
	var in []Layer
	for _, l := range layers {
		if unmatched || l.matches(method, path) {
			in = append(in, l)
		}
	}
	if f == PerRequest {
		return func(w http.ResponseWriter, r *http.Request) int {
			next := h
			for i := len(in) - 1; i >= 0; i-- {
				next = deferred(&in[i], unmatched, next)
			}
			return next(w, r)
		}
	}
	for i := len(in) - 1; i >= 0; i-- {
		h = enclose(in[i], unmatched, h)
	}
	return h
}

// enclose puts one layer around a handler.
func enclose(l Layer, unmatched bool, h Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) int {
		if unmatched && !l.matches(r.Method, r.URL.Path) {
			return h(w, r)
		}
		var m Mark
		if l.Enter != nil {
			r, m = l.Enter(w, r)
		}
		status := h(w, r)
		if l.Leave != nil {
			l.Leave(r, m, seen(status))
		}
		return status
	}
}

// seen is the status that layers see.
func seen(status int) int {
	if status == Panicked {
		return http.StatusInternalServerError
	}
	return status
}

// deferred is enclose for one request: the layer is left by defer.
func deferred(l *Layer, unmatched bool, h Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) (status int) {
		if unmatched && !l.matches(r.Method, r.URL.Path) {
			return h(w, r)
		}
		var m Mark
		if l.Enter != nil {
			r, m = l.Enter(w, r)
		}
		defer func() {
			if l.Leave != nil {
				l.Leave(r, m, seen(status))
			}
		}()
		return h(w, r)
	}
}
