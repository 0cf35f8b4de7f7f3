package goruntime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"

	"dyno/observe/scrape"
)

// profile makes the source of a profile in text.
func profile(cfg Config, name string) (*scrape.Source, error) {
	u, err := url.Parse(cfg.Pprof)
	if err != nil {
		return nil, err
	}
	u = u.JoinPath(name)
	u.RawQuery = "debug=1"
	return scrape.NewSource(u.String(), cfg.Remote)
}

// For a page that only counts goroutines, this much is enough.
const (
	indexBytes   = 64 << 10
	profileBytes = 256 // of the first line
)

// goroutines begins to count goroutines by the index of the profiles, or else by the
// goroutine profile.
func goroutines(ctx context.Context, cfg Config) (*part, error) {
	u, err := url.Parse(cfg.Pprof)
	if err != nil {
		return nil, err
	}
	index, err := scrape.NewSource(u.JoinPath("/").String(), cfg.Remote)
	if err != nil {
		return nil, err
	}
	one := []column{goroutineCount()}
	count := func(source *scrape.Source, limit int, parse func([]byte) (uint64, error)) func(context.Context) ([]float64, error) {
		return func(ctx context.Context) ([]float64, error) {
			text, err := source.GetStart(ctx, limit)
			if err != nil {
				return nil, err
			}
			n, err := parse(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", source.URL(), err)
			}
			return []float64{float64(n)}, nil
		}
	}
	p, err := begin(ctx, index, cfg.Every, "runtime_", one, count(index, indexBytes, parseIndex))
	if err == nil {
		return p, nil
	}
	dump, err2 := profile(cfg, "goroutine")
	if err2 == nil {
		p, err2 = begin(ctx, dump, cfg.Every, "runtime_", one, count(dump, profileBytes, parseGoroutines))
	}
	if err2 != nil {
		return nil, errors.Join(err, err2)
	}
	return p, nil
}

var errFormat = errors.New("unexpected format")

// parseIndex finds the number of goroutines on the index of net/http/pprof: a table
// whose rows have a count and a link to the profile.
func parseIndex(b []byte) (uint64, error) {
	row, _, found := bytes.Cut(b, []byte("<a href='goroutine?"))
	if !found {
		return 0, errFormat
	}
	row = row[bytes.LastIndex(row, []byte("<tr>"))+1:]
	_, row, found = bytes.Cut(row, []byte("<td>"))
	digits, _, found2 := bytes.Cut(row, []byte("</td>"))
	if !found || !found2 {
		return 0, errFormat
	}
	return decimal(digits)
}

// parseGoroutines returns the number in the first line of a goroutine profile in
// text (runtime/pprof, debug=1).
func parseGoroutines(b []byte) (uint64, error) {
	line, _, whole := bytes.Cut(b, []byte("\n"))
	digits, found := bytes.CutPrefix(line, []byte("goroutine profile: total "))
	if !found || !whole {
		return 0, fmt.Errorf("the first line: %w", errFormat)
	}
	return decimal(digits)
}

func decimal(b []byte) (uint64, error) {
	n, err := strconv.ParseUint(string(b), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%.20q: %w", b, errFormat)
	}
	return n, nil
}

// memStats are the fields of runtime.MemStats that are used.
type memStats struct {
	HeapAlloc, HeapObjects, TotalAlloc float64
	Mallocs, NumGC, PauseTotalNs       float64
	GCCPUFraction                      float64
}

// parseVars finds the memstats that expvar publishes.
func parseVars(text []byte) (memStats, error) {
	var page struct {
		MemStats *memStats `json:"memstats"`
	}
	if err := json.Unmarshal(text, &page); err != nil {
		return memStats{}, err
	}
	if page.MemStats == nil {
		return memStats{}, errors.New("no memstats")
	}
	return *page.MemStats, nil
}

// pauses is how many of the latest pauses runtime.MemStats keeps.
const pauses = 256

// parseHeapProfile reads runtime.MemStats at the end of a heap profile in text
// (runtime/pprof, debug=1). It has no sum of all pauses, but the latest ones, that of
// collection n at (n+255) % 256.
func parseHeapProfile(text []byte) (m memStats, recent [pauses]float64, err error) {
	_, text, found := bytes.Cut(text, []byte("\n# runtime.MemStats\n"))
	if !found {
		return m, recent, errFormat
	}
	wanted := map[string]*float64{
		"HeapAlloc": &m.HeapAlloc, "HeapObjects": &m.HeapObjects, "TotalAlloc": &m.TotalAlloc,
		"Mallocs": &m.Mallocs, "NumGC": &m.NumGC, "GCCPUFraction": &m.GCCPUFraction,
	}
	missing, listed := len(wanted), false
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(bytes.TrimPrefix(bytes.TrimSpace(line), []byte("# ")), []byte(" = "))
		if string(name) == "PauseNs" {
			words := bytes.Fields(bytes.Trim(value, "[]"))
			if len(words) != pauses {
				return m, recent, fmt.Errorf("PauseNs: %w", errFormat)
			}
			for i, w := range words {
				if recent[i], err = number(w); err != nil {
					return m, recent, fmt.Errorf("PauseNs: %w", err)
				}
			}
			listed = true
		}
		to, ok := wanted[string(name)]
		if !ok {
			continue
		}
		if *to, err = number(value); err != nil {
			return m, recent, fmt.Errorf("%s: %w", name, err)
		}
		delete(wanted, string(name))
		missing--
	}
	if missing > 0 || !listed || m.NumGC > math.MaxUint32 {
		return m, recent, errFormat
	}
	return m, recent, nil
}

// number reads a number that is finite and not negative.
func number(b []byte) (float64, error) {
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil || !(v >= 0) || math.IsInf(v, 0) {
		return math.NaN(), fmt.Errorf("%.20q: %w", b, errFormat)
	}
	return v, nil
}

// A pauseSum adds up pauses since its first reading.
type pauseSum struct {
	cycles float64 // at the last reading; 0 before the first
	sum    float64 // nanoseconds; NaN once pauses were missed
	begun  bool
}

// add takes the number of collections and the latest pauses, and returns the sum. The sum
// is no longer known once there were more collections between two readings than the
// program remembers.
func (p *pauseSum) add(cycles float64, recent [pauses]float64) float64 {
	news := cycles - p.cycles
	switch {
	case !p.begun:
		news = 0
	case news < 0 || news > pauses:
		p.sum = math.NaN()
		news = 0
	}
	for n := cycles - news; n < cycles; n++ { // collection n+1 is at index n
		p.sum += recent[int(math.Mod(n, pauses))]
	}
	p.begun, p.cycles = true, cycles
	return p.sum
}
