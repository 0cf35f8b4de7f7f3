package record

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Silence is how long the target said nothing while load was live: requests were due and unanswered, or
// had failed since the last good response. It covers all workers together. With subscribers, whatever
// reached one of them counts as a response, and subscribers that have a stream as live load.
type Silence struct {
	// Longest is the longest stretch of it within the window. From is when that began, on the time
	// line. Stretches shorter than Resolution cannot be detected.
	Longest    time.Duration
	From       time.Duration
	Resolution time.Duration

	// Last is when the last good response came, the drain included, on the time line. It means
	// nothing unless Answered.
	Last     time.Duration
	Answered bool
	// Ending is how long the target had been silent when the measurement ended, the
	// drain included; 0 without live load. It may have begun before the window.
	Ending time.Duration
	// Failing counts the requests that had failed since each worker's last good response.
	Failing uint64
}

// A silence is a stretch in which one worker had no good response. Within it load was live
// from a time on.
type silence struct{ from, live, to int64 }

// Bounds of a worker's memory. When there is no room, the shorter stretches are forgotten, and no such
// short one is noted again. At the beginning those count that last for the window's leastSilence-th
// part: without a floor, every response would be noted.
const (
	maxSilences  = 512
	leastSilence = 2048
)

// Silences are a worker's stretches without a good response. Noting one allocates nothing.
type Silences struct {
	last    int64 // the last good response; never before the beginning of the load
	live    int64 // since when load has been live after it; never without
	failing uint64
	any     bool  // there was a good response
	least   int64 // shorter stretches are not noted
	noted   []silence
}

// NewSilences returns the silences of a worker whose window has the given length.
func NewSilences(window time.Duration) Silences {
	least := max(window/leastSilence, time.Millisecond)
	return Silences{live: math.MaxInt64, least: int64(least), noted: make([]silence, 0, maxSilences)}
}

// Begin sets the beginning of the load.
func (h *Silences) Begin(now int64) { h.last = now }

// Due notes that a request is due, where none else was unanswered.
func (h *Silences) Due(now int64) {
	if h.live == math.MaxInt64 {
		h.live = now
	}
}

// Answered notes a good response. It ends a stretch, which is noted as far as it lies
// in the window; others says that requests are still unanswered.
func (h *Silences) Answered(now int64, window *Window, others bool) {
	if now-h.last >= h.least {
		h.Note(now, window)
	}
	h.last, h.any, h.failing = now, true, 0
	h.live = math.MaxInt64
	if others {
		h.live = now
	}
}

// Note notes the stretch from the last good response until now, as far as it lies in
// the window.
func (h *Silences) Note(now int64, window *Window) {
	s := silence{from: max(h.last, window.Start), live: max(h.live, window.Start), to: min(now, window.End)}
	if s.to-s.from < h.least || s.to <= s.from {
		return
	}
	if len(h.noted) == cap(h.noted) {
		h.forget()
		if s.to-s.from < h.least {
			return
		}
	}
	h.noted = append(h.noted, s)
}

// forget makes room: it keeps the longer half.
func (h *Silences) forget() {
	byTime := func(a, b silence) int { return cmp.Compare(a.from, b.from) }
	slices.SortFunc(h.noted, func(a, b silence) int { return cmp.Compare(b.to-b.from, a.to-a.from) })
	half := len(h.noted) / 2
	h.least = h.noted[half].to - h.noted[half].from + 1
	for half > 0 && h.noted[half-1].to-h.noted[half-1].from < h.least {
		half-- // as long as one that is forgotten
	}
	h.noted = h.noted[:half]
	slices.SortFunc(h.noted, byTime)
}

// SilenceOf merges what workers noted: the target was silent where all of them had no good
// response and one had live load. The end is when the measurement ended, on the
// engine's clock, the origin the zero of the time line.
func SilenceOf(all []*Silences, origin, end int64) Silence {
	var s Silence
	if len(all) == 0 {
		return s
	}
	common := all[0].noted
	last, live := all[0].last, int64(math.MaxInt64)
	for _, h := range all[1:] {
		common = overlaps(common, h.noted)
	}
	for _, h := range all {
		last, live = max(last, h.last), min(live, h.live)
		s.Answered = s.Answered || h.any
		s.Failing += h.failing
		s.Resolution = max(s.Resolution, time.Duration(h.least))
	}
	for _, c := range common {
		if since := max(c.from, c.live); c.live != math.MaxInt64 && time.Duration(c.to-since) > s.Longest {
			s.Longest, s.From = time.Duration(c.to-since), time.Duration(since-origin)
		}
	}
	s.Last = time.Duration(last - origin)
	if live != math.MaxInt64 {
		s.Ending = max(0, time.Duration(end-max(last, live)))
	}
	return s
}

// overlaps returns the stretches in which both were silent, each in the order of time. Load
// was live as soon as one had some.
func overlaps(a, b []silence) []silence {
	var both []silence
	for len(a) > 0 && len(b) > 0 {
		x, y := a[0], b[0]
		o := silence{from: max(x.from, y.from), live: min(x.live, y.live), to: min(x.to, y.to)}
		if o.from < o.to {
			both = append(both, o)
		}
		if x.to < y.to {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return both
}

// merge makes the silence of two engines of each one's: at most as long as either.
func (s *Silence) merge(o *Silence) {
	if o.Longest < s.Longest {
		s.Longest, s.From = o.Longest, o.From
	}
	s.Resolution = max(s.Resolution, o.Resolution)
	s.Last = max(s.Last, o.Last)
	s.Answered = s.Answered || o.Answered
	s.Ending = min(s.Ending, o.Ending)
	s.Failing += o.Failing
}

// failingRow is the number of consecutive failures after which a target may count as no longer
// answering.
const failingRow = 10

// Omit adds the time that users of a closed loop waited in vain for a silent target.
func (r *Result) Omit(users int) {
	if s := &r.Silence; s.Answered && s.Failing >= failingRow {
		vain := r.WindowStart + r.Window - max(s.Last, r.WindowStart)
		r.Connections.Omitted = max(r.Connections.Omitted, vain*time.Duration(users))
	}
}
