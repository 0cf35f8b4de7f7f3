package html

import (
	"math"
	"slices"
	"time"

	"dyno/load/hist"
	"dyno/results/rundir"
	"dyno/results/rundir/series"
)

// load makes the lines of the generator's recordings: good responses and failures a
// second, and percentiles of a clock. While nothing ends, nothing is recorded, so a stall
// is a stretch without intervals, and its rate is 0.
func load(intervals []hist.Interval, clock string, room int) *Grid {
	s := divided(intervals, clock, room)
	if s == nil {
		return nil
	}
	g := &Grid{}
	rate, failures := newLine("throughput", rundir.PerSecond, s.n), newLine("failures", rundir.PerSecond, s.n)
	p50, p99 := newLine("latency.p50", rundir.Seconds, s.n), newLine("latency.p99", rundir.Seconds, s.n)
	merged := make([]*hist.Histogram, s.n)
	ended, failed := make([][]float64, s.n), make([]float64, s.n)
	fails := false
	for _, i := range intervals {
		at := s.of(i)
		switch {
		case i.Tag == clock && merged[at] == nil:
			merged[at] = i.Hist
		case i.Tag == clock:
			all := hist.New() // a log's own histogram stays as it is
			all.Merge(merged[at])
			all.Merge(i.Hist)
			merged[at] = all
		case i.Tag == rundir.TagFailed:
			failed[at] += float64(i.Hist.Count())
			fails = fails || i.Hist.Count() > 0
			continue
		default:
			continue
		}
		if i.Length >= s.usual/2 { // the rate of a last short interval would be noise
			ended[at] = append(ended[at], float64(i.Hist.Count())/i.Length.Seconds())
		}
	}
	for at, h := range merged {
		g.Time = append(g.Time, (s.start + s.step*time.Duration(at) + s.step/2).Seconds())
		for len(ended[at]) < s.each(at) {
			ended[at] = append(ended[at], 0)
		}
		rate.sum(ended[at])
		failures.Mean = append(failures.Mean, failed[at]/s.step.Seconds())
		p50.Mean = append(p50.Mean, quantile(h, 0.5, 2))
		p99.Mean = append(p99.Mean, quantile(h, 0.99, 100))
	}
	g.Lines = append(g.Lines, rate.tidy())
	for _, l := range []Line{p50, p99} {
		if slices.ContainsFunc(l.Mean, func(v float64) bool { return !math.IsNaN(v) }) { // else too few values for it
			g.Lines = append(g.Lines, l)
		}
	}
	if fails {
		g.Lines = append(g.Lines, failures)
	}
	return g
}

// quantile is a quantile in seconds, NaN if there are fewer values than asked for.
func quantile(h *hist.Histogram, q float64, least int64) float64 {
	if h == nil || h.Count() < least {
		return math.NaN()
	}
	return float64(h.Quantile(q)) / 1e9
}

// A division cuts the time in which a clock was recorded into slices. Each slice holds
// equally many intervals of the usual length, except perhaps the last.
type division struct {
	start, usual, step time.Duration
	n                  int
	whole              int // how many intervals there could have been
}

// divided makes at most room slices; nil when nothing was recorded.
func divided(intervals []hist.Interval, clock string, room int) *division {
	var lengths []time.Duration
	start, end := time.Duration(math.MaxInt64), time.Duration(0)
	for _, i := range intervals {
		if i.Tag == clock && i.Length > 0 {
			lengths = append(lengths, i.Length)
			start, end = min(start, i.Start), max(end, i.Start+i.Length)
		}
	}
	if len(lengths) == 0 {
		return nil
	}
	slices.Sort(lengths)
	s := &division{start: start, usual: lengths[len(lengths)/2]}
	s.whole = max(1, int(math.Round(float64(end-start)/float64(s.usual))))
	size := (s.whole + room - 1) / room
	s.step = s.usual * time.Duration(size)
	s.n = (s.whole + size - 1) / size
	return s
}

// of returns the slice that an interval's middle lies in. A part beyond the last slice
// belongs to the last.
func (s *division) of(i hist.Interval) int {
	return min(max(0, int((i.Start+i.Length/2-s.start)/s.step)), s.n-1)
}

// each returns how many intervals of the usual length a slice has.
func (s *division) each(at int) int {
	size := int(s.step / s.usual)
	return min(size, s.whole-at*size)
}

// grouped divides n neighbours into at most room groups, as from and to.
func grouped(n, room int) [][2]int {
	size := (n + room - 1) / room
	var groups [][2]int
	for from := 0; from < n; from += size {
		groups = append(groups, [2]int{from, min(from+size, n)})
	}
	return groups
}

func newLine(key string, unit rundir.Unit, points int) Line {
	return Line{Key: key, Unit: unit, Mean: make(Numbers, 0, points)}
}

// sum appends a point that sums up values; NaN is none.
func (l *Line) sum(values []float64) {
	mean, low, high, n := 0., math.Inf(1), math.Inf(-1), 0.
	for _, v := range values {
		if !math.IsNaN(v) {
			mean, low, high, n = mean+v, min(low, v), max(high, v), n+1
		}
	}
	if n == 0 {
		mean, low, high = math.NaN(), math.NaN(), math.NaN()
	} else {
		mean /= n
	}
	l.Mean, l.Low, l.High = append(l.Mean, mean), append(l.Low, low), append(l.High, high)
}

// tidy drops ends that say nothing beyond the mean.
func (l Line) tidy() Line {
	for i, v := range l.Mean {
		if i < len(l.Low) && (l.Low[i] < v || l.High[i] > v) {
			return l
		}
	}
	l.Low, l.High = nil, nil
	return l
}

// mostColumns is how finely time is divided in a heat map.
const mostColumns = 120

// heat counts latencies by time and size.
func heat(intervals []hist.Interval, clock string, columns int) *Heat {
	s := divided(intervals, clock, columns)
	if s == nil || s.n < 2 {
		return nil
	}
	counts := make([]map[int]int64, s.n)
	first, last := math.MaxInt, 0
	for _, i := range intervals {
		if i.Tag != clock {
			continue
		}
		at := s.of(i)
		if counts[at] == nil {
			counts[at] = map[int]int64{}
		}
		i.Hist.Each(func(low, high, count int64) bool {
			b := bin(low + (high-low)/2)
			counts[at][b] += count
			first, last = min(first, b), max(last, b)
			return true
		})
	}
	h := &Heat{Clock: clock, Start: s.start.Seconds(), Step: s.step.Seconds(), First: first, Columns: make([][]int64, s.n)}
	for c, bins := range counts {
		h.Columns[c] = []int64{}
		for b := first; b <= last; b++ {
			if n := bins[b]; n > 0 {
				for len(h.Columns[c]) < b-first {
					h.Columns[c] = append(h.Columns[c], 0)
				}
				h.Columns[c] = append(h.Columns[c], n)
			}
		}
	}
	if first > last {
		return nil
	}
	return h
}

// bin is the row of a heat map that a latency in ns belongs to.
func bin(ns int64) int { return int(math.Floor(BinsPerDecade * math.Log10(float64(max(ns, 1))))) }

// A drawing is a line of dyno's own columns that the page has a name for. Of counters, the
// page draws how fast they grow.
type drawing struct {
	key     string
	columns []string // which are added up; all of them must be there
}

// drawings are in the order in which they are drawn, what matters most first. Columns of
// endpoints and commands that the experiment names are all drawn, after them.
func drawings() []drawing {
	return []drawing{
		{"target.cpu", []string{"target_cpu_seconds"}},
		{"target.rss", []string{"target_rss_bytes"}},
		{"heap", []string{"target_heap_bytes"}},
		{"gc.pause", []string{"target_gc_pause_seconds"}},
		{"gc.cycles", []string{"target_gc_cycles_total"}},
		{"syscalls", []string{"kernel_syscalls_total"}},
		{"switches", []string{"target_voluntary_switches", "target_involuntary_switches"}},
		{"generator.cpu", []string{"generator_cpu_seconds"}},
		{"machine.steal", []string{"machine_cpu_steal_seconds"}},
		{"goroutines", []string{"target_goroutines"}},
		{"threads", []string{"target_threads"}},
		{"descriptors", []string{"target_descriptors"}},
		{"retransmits", []string{"kernel_retransmits_total"}},
	}
}

// observed makes the lines of the observers' readings.
func observed(s *series.Series, room int) *Grid {
	at := s.Column(series.TimeColumn)
	rows := spaced(at)
	if len(rows) < 3 {
		return nil
	}
	groups := grouped(len(rows)-1, room) // of the stretches between rows
	g := &Grid{}
	for _, group := range groups {
		g.Time = append(g.Time, (at[rows[group[0]]]+at[rows[group[1]]])/2)
	}
	add := func(l Line, values [][]float64, counter bool) {
		some := false
		for _, group := range groups {
			var points []float64
			for r := group[0]; r < group[1]; r++ {
				points = append(points, reached(values, at, rows[r], rows[r+1], counter))
			}
			l.sum(points)
			last := l.Mean[len(l.Mean)-1]
			some = some || !math.IsNaN(last) && last != 0
		}
		if some {
			g.Lines = append(g.Lines, l.tidy())
		}
	}
	for _, d := range drawings() {
		var values [][]float64
		for _, name := range d.columns {
			if column := s.Column(name); column != nil {
				values = append(values, column)
			}
		}
		if of, _ := rundir.ColumnOf(d.columns[0]); len(values) == len(d.columns) {
			add(newLine(d.key, of.Unit, len(groups)), values, of.Counter)
		}
	}
	for i, name := range s.Columns[1:] {
		of, own := rundir.ColumnOf(name)
		if own || len(g.Lines) >= mostLines {
			continue
		}
		l := newLine("", of.Unit, len(groups))
		l.Column = name
		add(l, [][]float64{s.Values[i+1]}, of.Counter)
	}
	if len(g.Lines) == 0 {
		return nil
	}
	return g
}

// spaced leaves out rows that follow another by less than half the usual time. Those were
// read at the window's ends, and a rate between them would be noise.
func spaced(at []float64) []int {
	var steps []float64
	for i := 1; i < len(at); i++ {
		steps = append(steps, at[i]-at[i-1])
	}
	if len(steps) == 0 {
		return nil
	}
	slices.Sort(steps)
	least := steps[len(steps)/2] / 2
	rows := []int{0}
	for i := 1; i < len(at); i++ {
		if at[i]-at[rows[len(rows)-1]] >= least && at[i] > at[rows[len(rows)-1]] {
			rows = append(rows, i)
		}
	}
	return rows
}

// reached returns the sum of columns at a row, or how fast that sum grew since the row
// before.
func reached(values [][]float64, at []float64, before, row int, counter bool) (sum float64) {
	for _, v := range values {
		if counter {
			sum += (v[row] - v[before]) / (at[row] - at[before])
		} else {
			sum += v[row]
		}
	}
	if counter && sum < 0 { // the program that counted has restarted
		return math.NaN()
	}
	return sum
}
