package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dyno/experiments/subjects/measurement"
	"dyno/internal/fields"
)

// A Filter sends requests to a server on a schedule and applies a jitter filter to their times. The filter drops
// a time that differs by more than Sigmas standard deviations from the mean of the Last times. The result has
// the filtered and the raw times. A filter of this kind cannot tell the generator's jitter from the server's own
// stalls.
//
// Times run from when a request was due, and follow one another in this order. A body is sent by
// POST; without one it is a GET. Requests that fail have no times; there must be fewer than one in a
// hundred.
//
// Figures: raw_p50_seconds, raw_p99_seconds, raw_p999_seconds, raw_max_seconds, the same of filtered; dropped, the
// share that was left out; requests.
type Filter struct {
	URL      string        `yaml:"url,required" doc:"what is asked"`
	Body     string        `yaml:"body" otherwise:"it is a GET" doc:"what is sent by POST"`
	Bearer   string        `yaml:"bearer" doc:"the token or key that is sent in Authorization"`
	Rate     float64       `yaml:"rate" range:"1..20000" default:"500" doc:"requests a second, evenly spaced"`
	Last     int           `yaml:"last" range:"2..10000" default:"30" doc:"how many times before each one it is held against"`
	Sigmas   float64       `yaml:"sigmas" range:"0.001..100" default:"2.5" doc:"how many standard deviations from their mean are too many"`
	Duration time.Duration `yaml:"duration" range:"1us..10m" default:"5s" doc:"how long to measure"`
}

const maxFilterInFlight = 1024 // requests; one that finds no place waits, its clock running

// Check reports an address that is none of a plain HTTP server.
func (f Filter) Check(r *fields.Report) {
	u, err := url.Parse(f.URL)
	r.Check(err == nil && u.Scheme == "http" && u.Host != "", "url", fmt.Sprintf("%q is no address of HTTP", f.URL), "such as http://127.0.0.1:8000/")
}

// Run measures for the duration.
func (f Filter) Run(ctx context.Context) (measurement.Result, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: maxFilterInFlight}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	var (
		times    = make([]float64, int(f.Rate*f.Duration.Seconds()))
		places   = make(chan struct{}, maxFilterInFlight)
		requests sync.WaitGroup
		failed   atomic.Int64
		began    = time.Now()
		timer    = time.NewTimer(0)
	)
	defer timer.Stop()
	for i := range times {
		due := began.Add(time.Duration(float64(i) / f.Rate * float64(time.Second)))
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			requests.Wait()
			return nil, interrupted(ctx)
		}
		places <- struct{}{}
		requests.Go(func() {
			defer func() { <-places }()
			times[i] = math.NaN()
			if err := f.ask(ctx, client); err != nil {
				failed.Add(1)
				return
			}
			times[i] = time.Since(due).Seconds()
		})
	}
	requests.Wait()
	if n := failed.Load(); len(times) == 0 || 100*n >= int64(len(times)) {
		return nil, fmt.Errorf("%d of %d requests failed: want fewer than one in a hundred", n, len(times))
	}
	times = slices.DeleteFunc(times, math.IsNaN)
	left := withoutJitter(times, f.Last, f.Sigmas)
	r := measurement.Result{"requests": float64(len(times)), "dropped": 1 - float64(len(left))/float64(len(times))}
	for name, values := range map[string][]float64{"raw": times, "filtered": left} {
		slices.Sort(values)
		for of, q := range map[string]float64{"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1} {
			r[name+"_"+of+"_seconds"] = values[max(0, int(math.Ceil(q*float64(len(values))))-1)]
		}
	}
	return r, nil
}

// ask sends a request and reads its answer.
func (f Filter) ask(ctx context.Context, client *http.Client) error {
	method, body := http.MethodGet, io.Reader(nil)
	if f.Body != "" {
		method, body = http.MethodPost, strings.NewReader(f.Body)
	}
	r, err := http.NewRequestWithContext(ctx, method, f.URL, body)
	if err != nil {
		return err
	}
	if f.Body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if f.Bearer != "" {
		r.Header.Set("Authorization", "Bearer "+f.Bearer)
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // it is read to its end
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}

// withoutJitter returns the values that the filter leaves, in their order. The first ones, before
// which there are fewer than last, stay.
func withoutJitter(values []float64, last int, sigmas float64) (left []float64) {
	for i, v := range values {
		if i >= last {
			var mean, squares float64
			for _, w := range values[i-last : i] {
				mean += w / float64(last)
			}
			for _, w := range values[i-last : i] {
				squares += (w - mean) * (w - mean)
			}
			if math.Abs(v-mean) > sigmas*math.Sqrt(squares/float64(last-1)) {
				continue
			}
		}
		left = append(left, v)
	}
	return left
}
