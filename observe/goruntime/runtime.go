// Package goruntime observes the run time of a Go program: goroutines, heap, garbage
// collection and the scheduler, by what the program tells of itself.
//
// It takes the first source that answers:
//
//   - Prometheus metrics, as client_golang's Go collector exports them. They come
//     from runtime/metrics, which stops nothing, so that asking costs the program
//     only the time to write its metrics, about a millisecond of one CPU. Pauses,
//     the CPU time of the collector and the scheduler's latency are there if the
//     program exports them: collectors.WithGoCollectorRuntimeMetrics.
//   - The profiles of net/http/pprof, which tell the number of goroutines and nothing
//     else. It is on their index, which only counts; where there is no index, the
//     goroutine profile is asked for, which stops all goroutines and looks at the
//     stack of each.
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
)

const leastEvery = 50 * time.Millisecond

// A Config says where a Go program publishes its figures.
type Config struct {
	Name string // prefix of the columns; default "target"

	// Pprof is the URL of the profiles, such as http://127.0.0.1:6060/debug/pprof.
	// Metrics is Prometheus' page. By default it is /metrics at the same address.
	Pprof, Metrics string

	Every  time.Duration // between readings; default 1 s, at least 50 ms
	Remote bool          // the program may be on another machine, because the target is
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var errs []error
	if c.Pprof == "" && c.Metrics == "" {
		errs = append(errs, errors.New("pprof, metrics: both empty; want a URL in one of them at least"))
	}
	for _, f := range []struct{ field, url string }{{"pprof", c.Pprof}, {"metrics", c.Metrics}} {
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
	u, err := url.Parse(c.Pprof)
	if err != nil || c.Metrics != "" {
		return c
	}
	if root, ok := strings.CutSuffix(strings.TrimRight(u.Path, "/"), "/debug/pprof"); ok {
		c.Metrics = (&url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host, Path: root + "/metrics"}).String()
	}
	return c
}

// A Runtime observes a Go program.
type Runtime struct {
	*poll.Poller
	name    string
	source  *scrape.Source
	columns []observe.Column
}

// New finds out which source answers, for at most a second each, and begins to observe.
func New(ctx context.Context, cfg Config) (*Runtime, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("go runtime: %w", err)
	}
	cfg = cfg.withDefaults()
	var errs []error
	for _, s := range []struct {
		url   string
		begin func(context.Context, Config) (*Runtime, error)
	}{{cfg.Metrics, fromMetrics}, {cfg.Pprof, fromProfiles}} {
		if s.url == "" {
			continue
		}
		r, err := s.begin(ctx, cfg)
		if err == nil {
			return r, nil
		}
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	return nil, &observe.Unavailable{Observer: cfg.Name, Reason: texts.New("unavailable.runtime", "error", strings.ReplaceAll(err.Error(), "\n", "; ")),
		Remedy: texts.New("help.runtime"), Err: err}
}

// begin makes one row of values from each page. The first page decides which columns there
// are: those for which it has a value.
func begin(ctx context.Context, cfg Config, source *scrape.Source, columns []column, get func(context.Context) ([]float64, error)) (*Runtime, error) {
	first, cancel := context.WithTimeout(ctx, scrape.Timeout)
	defer cancel()
	values, err := get(first)
	if err != nil {
		source.Close()
		return nil, err
	}
	r := &Runtime{name: cfg.Name, source: source}
	var which []int
	for i, c := range columns {
		if !math.IsNaN(values[i]) || c.later {
			which = append(which, i)
			r.columns = append(r.columns, c.Column)
		}
	}
	if len(which) == 0 {
		source.Close()
		return nil, fmt.Errorf("%s: nothing of a Go runtime", source.URL())
	}
	r.columns = append(r.columns, poll.Column("runtime_"))
	r.Poller = poll.Start(len(which), cfg.Every, scrape.Timeout, func(ctx context.Context, row []float64) error {
		values, err := get(ctx)
		if err != nil {
			return err
		}
		for to, from := range which {
			row[to] = values[from]
		}
		return nil
	})
	return r, nil
}

// Name returns the name given.
func (r *Runtime) Name() string { return r.name }

// Columns returns the columns that the source has.
func (r *Runtime) Columns() []observe.Column { return r.columns }

// Close stops the readings and waits until they have ended.
func (r *Runtime) Close() error {
	err := r.Poller.Close()
	r.source.Close()
	return err
}
