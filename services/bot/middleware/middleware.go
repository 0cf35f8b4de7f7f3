// Package middleware puts layers around handlers, once, when routes are made. Each route gets only the layers that it
// needs.
package middleware

import (
	"net/http"
	"time"
)

// Panicked is the result of a Handler that has recovered from a panic. Layers see the status 500; the connection is
// cut after them.
const Panicked = -1

// A Handler serves a request, and returns the status of its answer, or Panicked.
type Handler func(w http.ResponseWriter, r *http.Request) int

// A Mark is a layer's state of a request, from Enter to Leave.
type Mark struct {
	Time  time.Time
	Value any
}

// A Layer does something before a request is served, and after. Enter and Leave may be
// nil.
type Layer struct {
	// Matches reports whether the layer applies to a method and the path of a route's pattern; nil applies always.
	Matches func(method, path string) bool
	// Enter may return another request for the layers within.
	Enter func(w http.ResponseWriter, r *http.Request) (*http.Request, Mark)
	Leave func(r *http.Request, m Mark, status int)
}

// Around puts a route's layers around its handler, the first outermost.
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
