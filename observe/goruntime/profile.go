package goruntime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"dyno/observe/scrape"
)

// For a page that only counts goroutines, this much is enough.
const (
	indexBytes   = 64 << 10
	profileBytes = 256 // of the first line
)

// fromProfiles begins to count goroutines by the index of the profiles, or else by the
// goroutine profile.
func fromProfiles(ctx context.Context, cfg Config) (*Runtime, error) {
	profiles, err := url.Parse(cfg.Pprof)
	if err != nil {
		return nil, err
	}
	profile := profiles.JoinPath("goroutine")
	profile.RawQuery = "debug=1"
	read := func(u *url.URL, limit int, parse func([]byte) (uint64, error)) (*Runtime, error) {
		source, err := scrape.NewSource(u.String(), cfg.Remote)
		if err != nil {
			return nil, err
		}
		return begin(ctx, cfg, source, []column{goroutineCount()}, func(ctx context.Context) ([]float64, error) {
			text, err := source.GetStart(ctx, limit)
			if err != nil {
				return nil, err
			}
			n, err := parse(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", source.URL(), err)
			}
			return []float64{float64(n)}, nil
		})
	}
	r, err := read(profiles.JoinPath("/"), indexBytes, parseIndex)
	if err == nil {
		return r, nil
	}
	r, err2 := read(profile, profileBytes, parseGoroutines)
	if err2 != nil {
		return nil, errors.Join(err, err2)
	}
	return r, nil
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
