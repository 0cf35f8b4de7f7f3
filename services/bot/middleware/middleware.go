// Package middleware puts layers around handlers: once, when routes are made, and only those that a route needs.
package middleware

import (
	"net/http"
	"time"
)

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
// nil.
type Layer struct {
	// Matches tells whether the layer is meant for a method and the path of a route's pattern; nil is always.
	Matches func(method, path string) bool
	// Enter may return another request for the layers within.
	Enter func(w http.ResponseWriter, r *http.Request) (*http.Request, Mark)
	Leave func(r *http.Request, m Mark, status int)
}

// Around puts the layers that are meant for a route around its handler, the first outermost.
func Around(layers []Layer, method, path string, h Handler) Handler {
	for i := len(layers) - 1; i >= 0; i-- {
		if l := layers[i]; l.Matches == nil || l.Matches(method, path) {
			h = enclose(l, h)
		}
	}
	return h
}

// enclose puts one layer around a handler.
func enclose(l Layer, h Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) int {
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
