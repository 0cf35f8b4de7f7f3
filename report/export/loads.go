package export

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"dyno/load/hist"
	"dyno/results/rundir"
)

// LoadTools names the load generators in whose forms a load of an HTTP server can be written. Programs
// that read the output of one of them read those forms.
func LoadTools() []string { return slices.Sorted(maps.Keys(loadForms)) }

var loadForms = map[string]func(io.Writer, *load) error{
	"hey": hey, "k6": k6, "oha": oha, "vegeta": vegetaText, "vegeta-json": vegetaJSON,
}

// Load writes one variant's figures as a load generator sums up a load. They are dyno's figures, by
// dyno's definitions:
//   - times are those that judge the variant: from when a request was due in an open loop, from its
//     write in a closed one. They are of good responses. Those of vegeta, and k6's http_req_duration, are of requests
//     that timed out or were unfinished, too, as long as these had taken by then
//   - a rate is that of good responses, except for vegeta's rate, which is of the requests that were due
//   - a request that was due and not answered well is a failure, whether it was sent or not
//   - bytes received are those of the connections in the window, with headers; their mean is per good
//     response that ended in the window
//
// What dyno does not measure is left out. Where no request has a time, the times are 0. A quantile that no time
// exceeds is the longest time. A form thus has the same fields, whatever the outcome of the load. The variant may be
// empty when the run has only one.
func Load(w io.Writer, f *rundir.Folder, tool, variant string) error {
	write, ok := loadForms[tool]
	if !ok {
		return fmt.Errorf("report as %s: want one of %s", tool, strings.Join(LoadTools(), ", "))
	}
	l, err := loadOf(f, variant)
	if err == nil {
		err = write(w, l)
	}
	if err != nil {
		return fmt.Errorf("report as %s: %w", tool, err)
	}
	return nil
}

// A load is one variant, over the trials that its figures use.
type load struct {
	*rundir.Variant
	times     *hist.Histogram // those that judge it; not nil
	good      *hist.Histogram // of these, those of good responses; not nil
	firstByte *hist.Histogram // not nil
	started   time.Time
	seconds   float64 // in the windows
	wait      float64 // from the windows' ends to the last responses
	users     int64   // of a closed loop; 0 of an open one
}

func loadOf(f *rundir.Folder, variant string) (*load, error) {
	if f.Run.Plan.Protocol != "http" {
		return nil, fmt.Errorf("that is for loads of HTTP, and this run's protocol is %s", f.Run.Plan.Protocol)
	}
	variant, err := variantOf(f, variant)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(f.Run.Variants, func(v rundir.Variant) bool { return v.Name == variant })
	if at < 0 || f.Run.Variants[at].Trials == 0 {
		return nil, errors.New("nothing was measured")
	}
	recorded, err := recordedOf(f, variant)
	if err != nil {
		return nil, err
	}
	plan := f.Run.Plan.Variant(variant)
	l := &load{
		Variant: &f.Run.Variants[at], times: orEmpty(recorded[plan.Latency()]), firstByte: orEmpty(recorded[rundir.TagFirstByte]),
	}
	givenUp := rundir.TagGivenService
	if plan.Latency() == rundir.TagResponse {
		givenUp = rundir.TagGivenUp
	}
	// A folder from before these times were recorded does not say which of them are of good responses.
	if h := recorded[givenUp]; h != nil || l.Counts.Timeouts+l.Counts.Unfinished == 0 {
		l.good = l.times.Without(orEmpty(h))
	} else {
		l.good = hist.New()
	}
	for _, t := range f.Measured() {
		if t.Variant != variant {
			continue
		}
		begun := t.StartedAt.Add(duration(t.WarmupSeconds))
		if l.started.IsZero() {
			l.started = begun
		}
		l.seconds += t.WindowSeconds
		if last := t.Silence.Last; last != nil {
			l.wait += max(0, *last-t.WarmupSeconds-t.WindowSeconds)
		}
		switch {
		case plan.Loop == "open":
		case t.Users != nil:
			l.users = t.Users.Count
		default:
			l.users = t.Connections.Users()
		}
	}
	return l, nil
}

// variantOf returns the name of a run's variant, which may be empty when the run has only one.
func variantOf(f *rundir.Folder, name string) (string, error) {
	var names []string
	for _, v := range f.Run.Plan.Variants {
		names = append(names, v.Name)
	}
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	if !slices.Contains(names, name) {
		return "", fmt.Errorf("variant %q: want one of %s", name, strings.Join(names, ", "))
	}
	return name, nil
}

// recordedOf returns a variant's times by their tags, merged over the trials that its figures use.
func recordedOf(f *rundir.Folder, variant string) (map[string]*hist.Histogram, error) {
	all := map[string]*hist.Histogram{}
	for _, t := range f.Measured() {
		if t.Variant != variant {
			continue
		}
		recorded, err := t.Latencies()
		if err != nil && !t.Unrecorded(err) {
			return nil, err
		}
		for tag, h := range recorded {
			if all[tag] == nil {
				all[tag] = hist.New()
			}
			all[tag].Merge(h)
		}
	}
	return all, nil
}

func orEmpty(h *hist.Histogram) *hist.Histogram {
	if h == nil {
		return hist.New()
	}
	return h
}

// buckets divides the times from the shortest to the longest into ten equal parts, as hey and oha do.
// Each of the eleven counts is that of the times between the bound before it and its own.
func buckets(h *hist.Histogram) (bounds []float64, counts []int64) {
	const parts = 10
	var below int64
	for i := range parts + 1 {
		bound := float64(h.Min()) + float64(h.Max()-h.Min())*float64(i)/parts
		n := h.CountAtOrBelow(int64(bound))
		bounds, counts = append(bounds, bound), append(counts, n-below)
		below = n
	}
	return bounds, counts
}

// statuses are the responses by status code.
func (l *load) statuses() map[string]int64 { return nonzero(l.Counts.ByStatus) }

// ratio is the share of a number of the requests that were due; 0 without any.
func (l *load) ratio(n int64) float64 { return over(float64(n), float64(l.Counts.Due())) }

// over divides; nothing over nothing is nothing.
func over(x, by float64) float64 {
	if by == 0 {
		return 0
	}
	return x / by
}

// failures are what went wrong, but for statuses: kinds of failures, and requests that were not sent or
// belong to no kind.
func (l *load) failures() map[string]int64 {
	kinds, _ := l.Counts.Failures()
	if kinds == nil {
		kinds = map[string]int64{}
	}
	rest := l.Counts.Unanswered()
	for _, n := range kinds {
		rest -= n
	}
	kinds["dropped"] = l.Counts.Dropped - l.Counts.Unsent
	kinds["unanswered"] = rest - kinds["dropped"]
	delete(kinds, "status")
	return nonzero(kinds)
}

// nonzero returns the counts that there are; never nil, so that it is written as an object.
func nonzero(counts map[string]int64) map[string]int64 {
	some := map[string]int64{}
	for name, n := range counts {
		if n > 0 {
			some[name] = n
		}
	}
	return some
}

// received returns the bytes received, and their mean. They are not known where good responses came and no bytes were
// counted.
func (l *load) received() (total int64, mean float64, known bool) {
	total, responses := l.Counts.ReceivedBytes, l.Counts.CompletedInWindow
	return total, over(float64(total), float64(responses)), total > 0 || responses == 0
}

// perSecond is the rate of good responses.
func (l *load) perSecond() float64 {
	if rate := l.Known(rundir.MetricThroughput); rate != nil {
		return *rate
	}
	return 0
}

func duration(seconds float64) time.Duration { return time.Duration(math.Round(seconds * 1e9)) }
