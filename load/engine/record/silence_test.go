package record

import (
	"math/rand/v2"
	"testing"
)

// silent returns the silences of a worker with good responses at some times in a window. At each of
// them another request is unanswered.
func silent(window *Window, good ...int64) *Silences {
	h := NewSilences(0)
	h.least = 1
	h.Begin(0)
	h.Due(0)
	for _, at := range good {
		h.Answered(at, window, true)
	}
	h.Note(window.End, window)
	return &h
}

func TestSilence(t *testing.T) {
	window := &Window{Start: 100, End: 1000}
	idle := NewSilences(0)
	idle.least = 1
	idle.Begin(0)
	idle.Due(50)
	idle.Answered(60, window, false)
	idle.Due(700)
	idle.Answered(720, window, false)
	idle.Note(window.End, window)
	for _, c := range []struct {
		name                  string
		workers               []*Silences
		longest, from, ending int64
		answered              bool
	}{
		{"nothing at all", []*Silences{silent(window)}, 900, 100, 1200, false},
		{"until the window", []*Silences{silent(window, 90)}, 900, 100, 1110, true},
		{"until its middle", []*Silences{silent(window, 90, 300, 500)}, 500, 500, 700, true},
		{"after the window", []*Silences{silent(window, 300, 900, 1100)}, 600, 300, 100, true},
		{"another worker answers", []*Silences{silent(window, 90), silent(window, 90, 300, 600)}, 400, 600, 600, true},
		{"two workers, no silence of one within that of the other", []*Silences{silent(window, 200, 900), silent(window, 400, 550)}, 350, 550, 300, true},
		{"without load", []*Silences{&idle}, 20, 700, 0, true},
		{"without load in one of two", []*Silences{&idle, silent(window, 100, 400)}, 320, 400, 480, true},
		{"none", nil, 0, 0, 0, false},
	} {
		got := SilenceOf(c.workers, 0, 1200)
		if int64(got.Longest) != c.longest || int64(got.From) != c.from || int64(got.Ending) != c.ending || got.Answered != c.answered {
			t.Errorf("%s: %+v; want longest %d from %d, ending %d, answered %v", c.name, got, c.longest, c.from, c.ending, c.answered)
		}
	}
}

// However many stretches there are, the longest one is known, and noting them allocates
// nothing.
func TestSilencesAreBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	h := NewSilences(0)
	h.least = 1
	h.Begin(0)
	h.Due(0)
	var now, longest int64
	for range 50_000 {
		gap := 1 + random.Int64N(1000)
		if random.Int64N(5000) == 0 {
			gap *= 20
		}
		longest = max(longest, gap)
		now += gap
		h.Answered(now, &Window{End: 1 << 60}, true)
	}
	if got := SilenceOf([]*Silences{&h}, 0, now); int64(got.Longest) != longest {
		t.Errorf("longest %d, want %d", got.Longest, longest)
	}
	if len(h.noted) > maxSilences {
		t.Errorf("%d noted", len(h.noted))
	}
}
