package micro

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"dyno/experiments/subjects/bot/layering"
	"dyno/experiments/subjects/measurement"
	"dyno/services/bot/middleware"
)

// Middleware measures the layers around a handler that does nothing.
//
// Figures: request_seconds, allocations and allocated_bytes, of one request through all
// layers.
type Middleware struct {
	Form   layering.Form `yaml:"form" oneof:"composed per-request" default:"composed" doc:"how layers are put around the handler"`
	Layers int           `yaml:"layers" range:"0..1000" default:"5" doc:"how many layers there are"`
	// Each of these layers reads a field of the request and counts its answer.
	Matched   int           `yaml:"matched" range:"0..1000" default:"2" doc:"how many of them the route needs"`
	Unmatched bool          `yaml:"unmatched" doc:"leave in the others, which look at the path"`
	Duration  time.Duration `yaml:"duration" range:"1us..10m" default:"1s" doc:"how long to measure"`
}

// discard is a ResponseWriter without a client.
type discard struct{ h http.Header }

func (n discard) Header() http.Header         { return n.h }
func (n discard) Write(b []byte) (int, error) { return len(b), nil }
func (n discard) WriteHeader(int)             {}

// Run sends requests through the layers for some time.
func (m Middleware) Run(ctx context.Context) (measurement.Result, error) {
	answered, entered := 0, 0
	var layers []middleware.Layer
	for i := range m.Layers {
		l := middleware.Layer{
			Enter: func(_ http.ResponseWriter, r *http.Request) (*http.Request, middleware.Mark) {
				if r.Header.Get("Authorization") != "" {
					entered++
				}
				return r, middleware.Mark{}
			},
			Leave: func(_ *http.Request, _ middleware.Mark, status int) {
				if status == http.StatusOK {
					answered++
				}
			},
		}
		if i >= m.Matched {
			l.Matches = func(_, path string) bool { return strings.HasPrefix(path, "/other/") }
		}
		layers = append(layers, l)
	}
	h := m.Form.Around(m.Unmatched, layers, http.MethodPost, "/v1/bot/chat", func(http.ResponseWriter, *http.Request) int { return http.StatusOK })
	r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/v1/bot/chat"}, Header: http.Header{"Authorization": {"Bearer x"}}}
	w := discard{http.Header{}}
	requests := 0
	s, err := repeat(ctx, m.Duration, 256, func() error {
		requests++
		if status := h(w, r); status != http.StatusOK {
			return fmt.Errorf("status %d: %w", status, errWrong)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if want := requests * m.Matched; answered != want || entered != want {
		return nil, fmt.Errorf("%d entered and %d left of %d: %w", entered, answered, want, errWrong)
	}
	return s.memory(measurement.Result{"request_seconds": s.each()}), nil
}
