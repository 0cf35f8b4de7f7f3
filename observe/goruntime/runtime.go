// Package goruntime observes the run time of a Go program: goroutines, heap, garbage
// collection and the scheduler, by what the program tells of itself.
//
// It takes the first source that answers, cheapest first:
//
//   - Prometheus metrics, as client_golang's Go collector exports them. They come
//     from runtime/metrics, which stops nothing, so that asking costs the program
//     only the time to write its metrics, about a millisecond of one CPU. Pauses,
//     the CPU time of the collector and the scheduler's latency are there if the
//     program exports them: collectors.WithGoCollectorRuntimeMetrics.
//   - expvar's memstats. Making them stops all goroutines for some tens of
//     microseconds (runtime.ReadMemStats).
//   - The profiles of net/http/pprof. The number of goroutines is on their index,
//     which only counts; where there is no index, the goroutine profile is asked
//     for, which stops all goroutines and looks at the stack of each. Heap and
//     garbage collection are at the end of the heap profile, which stops all for
//     ReadMemStats and takes milliseconds of a CPU to be written. So that is asked
//     for every ten seconds only, and when a Refresh demands it.
//
// Of expvar's source, the number of goroutines comes from the profiles.
package goruntime

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"dyno/internal/texts"
	"dyno/observe"
	"dyno/observe/poll"
	"dyno/observe/scrape"
)

// Defaults for the empty fields of a Config.
const (
	DefaultName  = "target"
	DefaultEvery = time.Second
	// HeapEvery is the least time between two heap profiles.
	HeapEvery = 10 * time.Second
)

const leastEvery = 50 * time.Millisecond

// A Config says where a Go program publishes its figures.
type Config struct {
	Name string // prefix of the columns; default "target"

	// Pprof is the URL of the profiles, such as http://127.0.0.1:6060/debug/pprof.
	// Metrics and Vars are the pages of Prometheus and of expvar. By default they are at
	// /metrics and /debug/vars beside it.
	Pprof, Metrics, Vars string

	Every  time.Duration // between readings; default 1 s, at least 50 ms
	Remote bool          // the program may be on another machine, because the target is
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var errs []error
	if c.Pprof == "" && c.Metrics == "" && c.Vars == "" {
		errs = append(errs, errors.New("pprof, metrics, vars: all empty; want a URL in one of them at least"))
	}
	for _, f := range []struct{ field, url string }{{"pprof", c.Pprof}, {"metrics", c.Metrics}, {"vars", c.Vars}} {
		if f.url == "" {
			continue
		}
		if source, err := scrape.NewSource(f.url, c.Remote); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.field, err))
		} else {
			source.Close()
		}
	}
	if c.Every != 0 && c.Every < leastEvery {
		errs = append(errs, fmt.Errorf("every: %v; want at least %v, or 0 for %v", c.Every, leastEvery, DefaultEvery))
	}
	return errors.Join(errs...)
}

// withDefaults fills in what is empty.
func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = DefaultName
	}
	if c.Every == 0 {
		c.Every = DefaultEvery
	}
	const profiles = "/debug/pprof"
	u, err := url.Parse(c.Pprof)
	if err != nil || c.Pprof == "" {
		return c
	}
	if root, ok := strings.CutSuffix(strings.TrimRight(u.Path, "/"), profiles); ok {
		beside := func(path string) string {
			return (&url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host, Path: root + path}).String()
		}
		if c.Metrics == "" {
			c.Metrics = beside("/metrics")
		}
		if c.Vars == "" {
			c.Vars = beside("/debug/vars")
		}
	}
	return c
}

// A Runtime observes a Go program.
type Runtime struct {
	name  string
	parts []*part
}

// A part holds the values of one page.
type part struct {
	poller  *poll.Poller
	columns []observe.Column
	source  *scrape.Source
}

// New finds out which source answers, for at most a second each, and begins to observe.
func New(ctx context.Context, cfg Config) (*Runtime, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("go runtime: %w", err)
	}
	cfg = cfg.withDefaults()
	r := &Runtime{name: cfg.Name}
	var errs []error
	try := func(begin func(context.Context, Config) (*part, error), url string) bool {
		if url == "" {
			return false
		}
		p, err := begin(ctx, cfg)
		if err != nil {
			errs = append(errs, err)
			return false
		}
		r.parts = append(r.parts, p)
		return true
	}
	if !try(fromMetrics, cfg.Metrics) {
		try(goroutines, cfg.Pprof)
		if !try(fromVars, cfg.Vars) {
			try(fromHeapProfile, cfg.Pprof)
		}
	}
	if len(r.parts) == 0 {
		err := errors.Join(errs...)
		return nil, &observe.Unavailable{Observer: cfg.Name, Reason: texts.New("unavailable.runtime", "error", strings.ReplaceAll(err.Error(), "\n", "; ")),
			Remedy: texts.New("help.runtime"), Err: err}
	}
	return r, nil
}

// begin starts a part that makes one row of values from each page. The first page decides
// which columns there are: those for which it has a value.
func begin(ctx context.Context, source *scrape.Source, every time.Duration, prefix string,
	columns []column, get func(context.Context) ([]float64, error)) (*part, error) {
	first, cancel := context.WithTimeout(ctx, scrape.Timeout)
	defer cancel()
	values, err := get(first)
	if err != nil {
		source.Close()
		return nil, err
	}
	p := &part{source: source}
	var which []int
	for i, c := range columns {
		if !math.IsNaN(values[i]) || c.later {
			which = append(which, i)
			p.columns = append(p.columns, c.Column)
		}
	}
	if len(which) == 0 {
		source.Close()
		return nil, fmt.Errorf("%s: nothing of a Go runtime", source.URL())
	}
	p.columns = append(p.columns, poll.Column(prefix))
	p.poller = poll.Start(len(which), every, scrape.Timeout, func(ctx context.Context, row []float64) error {
		values, err := get(ctx)
		if err != nil {
			return err
		}
		for to, from := range which {
			row[to] = values[from]
		}
		return nil
	})
	return p, nil
}

// Name returns the name given.
func (r *Runtime) Name() string { return r.name }

// Columns returns the columns that the source has.
func (r *Runtime) Columns() []observe.Column {
	var columns []observe.Column
	for _, p := range r.parts {
		columns = append(columns, p.columns...)
	}
	return columns
}

// Sources returns the pages that are asked.
func (r *Runtime) Sources() []string {
	var urls []string
	for _, p := range r.parts {
		urls = append(urls, p.source.URL())
	}
	return urls
}

// Observe returns the newest reading. It does not wait for one.
func (r *Runtime) Observe(row []float64) error {
	var errs []error
	for _, p := range r.parts {
		n := len(p.columns)
		errs = append(errs, p.poller.Observe(row[:n]))
		row = row[n:]
	}
	return errors.Join(errs...)
}

// Refresh asks all pages now, and waits until they have answered or ctx has ended.
func (r *Runtime) Refresh(ctx context.Context) error {
	var errs []error
	for _, p := range r.parts {
		errs = append(errs, p.poller.Refresh(ctx))
	}
	return errors.Join(errs...)
}

// CPUSeconds returns the CPU time that the readings so far have used, without that
// of net/http's own goroutines.
func (r *Runtime) CPUSeconds() float64 {
	s := 0.0
	for _, p := range r.parts {
		s += p.poller.CPUSeconds()
	}
	return s
}

// Close stops the readings and waits until they have ended.
func (r *Runtime) Close() error {
	var errs []error
	for _, p := range r.parts {
		errs = append(errs, p.poller.Close())
		p.source.Close()
	}
	return errors.Join(errs...)
}
