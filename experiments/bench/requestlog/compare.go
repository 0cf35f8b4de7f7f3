package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// compare holds the requests of several generators against those of one that carried the load alone.
//
// The start of a load and a request's number tell when the request is due. So the two arrivals of a request
// differ by the difference of the starts, plus the time to send. Sending takes little time for most requests:
// the start is where the differences are densest.
func compare(_ context.Context, o options, files []string, stdout io.Writer) error {
	if len(files) != 2 {
		return errors.New("compare: want two files")
	}
	alone, repeatedAlone, othersAlone, err := read(files[0])
	if err != nil {
		return err
	}
	shared, repeated, others, err := read(files[1])
	if err != nil {
		return err
	}
	t := &table{to: stdout}
	missing, different := 0, 0
	apart := map[string][]float64{} // ms, by generator
	for n, want := range alone {
		got, there := shared[n]
		switch {
		case !there:
			missing++
		case got.bytes != want.bytes:
			different++
		}
		if there {
			apart[got.from] = append(apart[got.from], float64(got.at-want.at)/1e6)
		}
	}
	more := 0
	for n := range shared {
		if _, there := alone[n]; !there {
			more++
		}
	}
	t.row("requests of one generator, of several", "%d, %d", len(alone), len(shared))
	t.equal("that only one has sent", missing)
	t.equal("that only several have sent", more)
	t.equal("sent twice", repeatedAlone+repeated)
	t.equal("with other bytes", different)
	t.row("without a number, not compared", "%d, %d", othersAlone, others)
	if len(apart) == 0 {
		return errors.New("there is nothing to compare")
	}
	var starts, late []float64
	first := math.Inf(1)
	for _, all := range apart {
		slices.Sort(all)
		starts = append(starts, densest(all))
		first = min(first, densest(all))
	}
	for _, from := range slices.Sorted(maps.Keys(apart)) {
		all := apart[from]
		start := densest(all)
		t.row("from "+from+": requests, start after the first, ms", "%d, %.3f", len(all), start-first)
		for _, of := range all {
			late = append(late, math.Abs(of-start))
		}
	}
	slices.Sort(late)
	skew := slices.Max(starts) - slices.Min(starts)
	t.row("starts apart, ms", "%.3f", skew)
	t.row("arrivals apart from each other's schedule, ms: p50 p90 p99", "%.3f %.3f %.3f", quantile(late, 0.5), quantile(late, 0.9), quantile(late, 0.99))
	t.result("requests", "%d", len(shared))
	t.result("differences", "%d", t.differences)
	t.result("start_skew_ms", "%.3f", skew)
	t.result("schedule_p50_ms", "%.3f", quantile(late, 0.5))
	t.result("schedule_p99_ms", "%.3f", quantile(late, 0.99))
	err = t.end()
	if limit := o.skew.Seconds() * 1e3; skew > limit {
		err = errors.Join(err, fmt.Errorf("the starts are %.3f ms apart: want at most %v", skew, o.skew))
	}
	return err
}

// densest is the middle of the shortest interval that has a tenth of the values.
func densest(sorted []float64) (middle float64) {
	n := len(sorted) / 10
	least := math.Inf(1)
	for i := range len(sorted) - n {
		if length := sorted[i+n] - sorted[i]; length < least {
			least, middle = length, (sorted[i]+sorted[i+n])/2
		}
	}
	return middle
}

// quantile is the smallest value that a share q of all do not exceed.
func quantile(sorted []float64, q float64) float64 {
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

// A bucket is one of the histogram that a log's intervals of a tag have together: from a value on.
type bucket struct {
	tag   string
	value int64
}

// merged holds a merged log against the logs of the parts: each bucket has the sum of theirs.
func merged(_ context.Context, _ options, files []string, stdout io.Writer) error {
	if len(files) < 2 {
		return errors.New("merged: want a log and what parts have reported")
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return err
	}
	got, want := map[bucket]int64{}, map[bucket]int64{}
	if err := add(got, text); err != nil {
		return fmt.Errorf("%s: %w", files[0], err)
	}
	for _, name := range files[1:] {
		reported, err := os.ReadFile(name)
		if err == nil {
			text, err = logIn(reported)
		}
		if err == nil {
			err = add(want, text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	t := &table{to: stdout}
	values, differ := map[string]int64{}, 0
	for p, n := range got {
		values[p.tag] += n
		if want[p] != n {
			differ++
		}
	}
	for p := range want {
		if _, there := got[p]; !there {
			differ++
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(values)) {
		t.row("values of "+tag, "%d", values[tag])
	}
	t.row("parts, buckets with values", "%d, %d", len(files)-1, len(got))
	t.equal("buckets that are not the sum of the parts'", differ)
	t.result("buckets", "%d", len(got))
	t.result("buckets_unequal", "%d", differ)
	return t.end()
}

// logIn finds the log in what a part has reported: after the line that says how long it is.
func logIn(reported []byte) ([]byte, error) {
	in := bufio.NewReader(bytes.NewReader(reported))
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil, errors.New("there is no result in it")
		}
		if !bytes.HasPrefix(line, []byte(`{"result":`)) {
			continue
		}
		var of struct {
			Log int64 `json:"log"`
		}
		if err := json.Unmarshal(line, &of); err != nil {
			return nil, err
		}
		text := make([]byte, of.Log)
		_, err = io.ReadFull(in, text)
		return text, err
	}
}

// add adds the histograms of a log.
func add(counts map[bucket]int64, text []byte) error {
	r := hdr.NewHistogramLogReader(bytes.NewReader(text))
	for n := 0; ; n++ {
		h, err := r.NextIntervalHistogram()
		switch {
		case err != nil:
			return err
		case h == nil && n == 0:
			return errors.New("there is no histogram in it")
		case h == nil:
			return nil
		}
		for _, bar := range h.Distribution() {
			if bar.Count > 0 {
				counts[bucket{h.Tag(), bar.From}] += bar.Count
			}
		}
	}
}
