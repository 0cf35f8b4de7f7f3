package main

import (
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dyno/experiments/subjects/measurement"
)

func TestWithoutJitter(t *testing.T) {
	steady := []float64{1, 2, 1, 2, 1, 2}
	for _, c := range []struct {
		name         string
		values, want []float64
	}{
		{"too few to know", []float64{1, 9, 1}, []float64{1, 9, 1}},
		{"steady", steady, steady},
		{"a stall", append(slices.Clone(steady), 9, 1), append(slices.Clone(steady), 1)},
		// Behind a stall the spread is wide: those that follow it stay.
		{"two stalls in a row", append(slices.Clone(steady), 9, 9), append(slices.Clone(steady), 9)},
		{"whatever differs from what is always alike", []float64{1, 1, 1, 1, 1.01}, []float64{1, 1, 1, 1}},
	} {
		if got := withoutJitter(c.values, 4, 2.5); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The rare stalls of a server are what the filter hides.
func TestFilter(t *testing.T) {
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key" || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if n.Add(1)%50 == 0 {
			<-time.After(moment)
		}
	}))
	defer s.Close()
	f := Filter{URL: s.URL, Body: "{}", Bearer: "key", Rate: 1000, Last: 30, Sigmas: 2.5, Duration: 300 * time.Millisecond}
	var names []string
	for _, of := range []string{"p50_seconds", "p99_seconds", "p999_seconds", "max_seconds"} {
		names = append(names, "raw_"+of, "filtered_"+of)
	}
	r := measure(t, f, append(names, "requests", "dropped?")...)
	if r["requests"] != 300 || r["raw_max_seconds"] < moment.Seconds() || r["filtered_max_seconds"] > r["raw_max_seconds"] || math.Signbit(r["dropped"]) {
		t.Errorf("%v", r)
	}
	f.Bearer = "other"
	if _, err := f.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "300 of 300 requests failed") {
		t.Error(err)
	}
	err := measurement.Validate(Filter{URL: "x", Last: 1})
	for _, want := range []string{"url: ", "rate: 0", "last: 1", "sigmas: 0", "duration: 0s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: no %q", err, want)
		}
	}
}
