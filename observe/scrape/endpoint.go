// Package scrape observes figures that programs publish: metrics in Prometheus' format,
// the variables of Go's expvar, and the output of a user's command.
//
// A reading costs the program that answers the time to write all its metrics, not only
// those that are recorded. A second between readings is often enough.
package scrape

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"dyno/internal/texts"
	"dyno/observe"
	"dyno/observe/poll"
)

// DefaultEvery is the time between readings if a Config gives none.
const DefaultEvery = time.Second

// Bounds of a reading.
const (
	// Timeout is how long a page may take.
	Timeout    = time.Second
	leastEvery = 50 * time.Millisecond
)

// A Format is how an endpoint writes numbers.
type Format uint8

// The formats.
const (
	PrometheusText Format = iota // text format 0.0.4
	Expvar                       // a JSON object, such as Go's /debug/vars
)

// A Config says which numbers of an endpoint to record.
type Config struct {
	Name   string // prefix of the columns
	URL    string
	Format Format
	Every  time.Duration // between readings; default 1 s, at least 50 ms

	// Metrics selects the columns: names, regular expressions that match whole names, and
	// conditions on labels after either, such as http_requests_total{code=~"5.."}. For a
	// histogram or a summary, sum and count are recorded. Without selectors, all numbers
	// are.
	Metrics []string

	MaxColumns int  // default 64
	Remote     bool // the endpoint may be on another machine, because the target is
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var errs []error
	if c.Name == "" {
		errs = append(errs, errors.New("name: empty; want the prefix of the columns"))
	}
	if err := checkURL(c.URL); err != nil {
		errs = append(errs, fmt.Errorf("url: %w", err))
	}
	if c.Format > Expvar {
		errs = append(errs, fmt.Errorf("format: %d; want prometheus text or expvar", c.Format))
	}
	if c.Every != 0 && c.Every < leastEvery {
		errs = append(errs, fmt.Errorf("every: %v; want at least %v, or 0 for %v", c.Every, leastEvery, DefaultEvery))
	}
	if c.MaxColumns < 0 {
		errs = append(errs, fmt.Errorf("max_columns: %d; want more than none, or 0 for %d", c.MaxColumns, DefaultMaxColumns))
	}
	if _, err := c.selectors(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c Config) selectors() (selectors []selector, err error) {
	var errs []error
	for i, text := range c.Metrics {
		s, err := parseSelector(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("metrics[%d]: %w", i, err))
		}
		selectors = append(selectors, s)
	}
	return selectors, errors.Join(errs...)
}

// An Endpoint observes the numbers of an HTTP endpoint. The first answer gives its columns. Numbers
// that appear later are left out, and those that disappear are not known.
type Endpoint struct {
	*poll.Poller
	name   string
	table  table
	source *Source
	decode func([]byte) (Reading, error)

	mu         sync.Mutex // guards histograms
	histograms map[string]Histogram
}

// NewEndpoint reads the endpoint for the first time, for at most a second, and keeps
// reading it.
func NewEndpoint(ctx context.Context, cfg Config) (*Endpoint, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("scrape: %w", err)
	}
	unavailable := func(err error) error {
		return &observe.Unavailable{Observer: cfg.Name, Reason: texts.Verbatim(err.Error()), Err: err}
	}
	selectors, err := cfg.selectors()
	if err != nil {
		return nil, err
	}
	source, err := NewSource(cfg.URL, cfg.Remote)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{name: cfg.Name, source: source, decode: Prometheus}
	if cfg.Format == Expvar {
		e.decode = Vars
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	first, err := e.get(ctx)
	if err != nil {
		source.Close()
		return nil, unavailable(err)
	}
	most := cfg.MaxColumns
	if most == 0 {
		most = DefaultMaxColumns
	}
	chosen, err := choose(first.Samples, selectors, most)
	if err != nil {
		source.Close()
		return nil, unavailable(fmt.Errorf("%s: %w", cfg.URL, err))
	}
	e.table = newTable(chosen)
	every := cfg.Every
	if every == 0 {
		every = DefaultEvery
	}
	e.Poller = poll.Start(len(chosen), every, Timeout, e.read)
	return e, nil
}

func (e *Endpoint) get(ctx context.Context) (Reading, error) {
	text, err := e.source.Get(ctx)
	if err != nil {
		return Reading{}, err
	}
	r, err := e.decode(text)
	if err != nil {
		return Reading{}, fmt.Errorf("%s: %w", e.source.URL(), err)
	}
	return r, nil
}

func (e *Endpoint) read(ctx context.Context, row []float64) error {
	r, err := e.get(ctx)
	e.mu.Lock()
	e.histograms = r.Histograms
	e.mu.Unlock()
	e.table.fill(row, r.Samples)
	return err
}

// Histogram returns the newest reading of a histogram by its series, such as
// http_request_duration_seconds{code="200"}. Two of them give the quantiles of the
// time between: see Histogram.Since.
func (e *Endpoint) Histogram(series string) (Histogram, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h, ok := e.histograms[series]
	return h, ok
}

// Name returns the name given.
func (e *Endpoint) Name() string { return e.name }

// Columns returns a column for each number.
func (e *Endpoint) Columns() []observe.Column {
	return append(append([]observe.Column(nil), e.table.columns...), poll.Column(""))
}

// Close stops the readings and waits until they have ended.
func (e *Endpoint) Close() error {
	err := e.Poller.Close()
	e.source.Close()
	return err
}
