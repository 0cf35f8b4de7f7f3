package checks

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"dyno/judge/verdict/recording"
	"dyno/load/hist"
	"dyno/results/rundir"
)

// A queue answers at the returned time what arrives at a time, in seconds.
type queue func(arrival float64) float64

// workers serve in the order of arrival, each request for the time that service says. They pause for pause at the
// beginning of each second.
func workers(n int, pause float64, service func() float64) queue {
	free := make([]float64, n)
	return func(arrival float64) float64 {
		i := slices.Index(free, slices.Min(free))
		for left := service(); left > 0; {
			arrival = max(arrival, free[i])
			if second, at := math.Modf(arrival); at < pause {
				arrival = second + pause
			}
			step := min(left, math.Floor(arrival)+1-arrival)
			left -= step
			free[i] = arrival + step
			arrival = free[i]
		}
		return free[i]
	}
}

// probed returns the recording of a queue that a probe asks at a rate. The probe lasts two seconds, after half a
// second of warm-up.
func probed(q queue, rate float64, between func() float64) recording.Recording {
	const warmup, window, drain = 0.5, 2.0, 2.0
	s := soundOpen()
	s.Plan.WarmupSeconds, s.Plan.WindowSeconds, s.Plan.Rate = warmup, window, nil
	x := s.Trial
	x.WarmupSeconds, x.WindowSeconds, x.Rate, x.Purpose, x.Counts = warmup, window, &rate, rundir.PurposeProbe, rundir.Counts{}
	s.Log = nil
	for i := range 45 {
		s.Log = append(s.Log, hist.Interval{Tag: rundir.TagResponse, Start: time.Duration(i) * 100 * time.Millisecond, Length: 100 * time.Millisecond, Hist: hist.New()})
	}
	for at := between() / rate; at < warmup+window; at += between() / rate {
		end := q(at)
		switch inWindow := end >= warmup && end < warmup+window; {
		case at < warmup && end < warmup:
		case at < warmup:
			x.Counts.Carried.Scheduled++
			x.Counts.Carried.OK++
			if inWindow {
				x.Counts.CompletedInWindow++
			}
		case end >= warmup+window+drain:
			x.Counts.Scheduled++
			x.Counts.Unfinished++
		default:
			x.Counts.Scheduled++
			x.Counts.OK++
			if inWindow {
				x.Counts.CompletedInWindow++
			}
			s.Log[int(end*10)].Hist.Record(int64((end - at) * 1e9))
		}
	}
	x.Counts.Sent = x.Counts.Scheduled
	s.Times = recording.Merged(s.Log)
	return s
}

// The check finds a queue that answers too slowly, although it answers everything after the window. It finds nothing
// about a queue that takes long for each request, or pauses, and keeps up.
func TestBacklogBySimulation(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	constant := func(seconds float64) func() float64 { return func() float64 { return seconds } }
	n := 0
	for _, c := range []struct {
		name     string
		capacity float64
		queue    func() queue
		keeps    []float64 // shares of the capacity
		missing  []float64
	}{
		{"one at a time", 500, func() queue { return workers(1, 0, constant(0.002)) }, []float64{0.1, 0.9, 0.96}, []float64{1.15, 1.3, 1.5, 1.8, 3}},
		{"fast", 8000, func() queue { return workers(4, 0, constant(0.0005)) }, []float64{0.1, 0.9, 0.97}, []float64{1.05, 1.3, 1.8}},
		{"at random", 2000, func() queue { return workers(1, 0, func() float64 { return rng.ExpFloat64() / 2000 }) }, []float64{0.5, 0.9}, []float64{1.2, 1.5, 1.8}},
		{"100 of a second each", 100, func() queue { return workers(100, 0, constant(1)) }, []float64{0.3, 0.9}, []float64{1.3, 1.6}},
		{"any number, a second each", 1000, func() queue { return func(at float64) float64 { return at + 1 } }, []float64{0.01, 0.1, 1, 10}, nil},
		{"any number, nearly two seconds each", 1000, func() queue { return func(at float64) float64 { return at + 1.9 } }, []float64{0.01, 0.1, 1, 10}, nil},
		{"any number, every fifth a second", 1000, func() queue {
			return func(at float64) float64 {
				if n++; n%5 == 0 {
					return at + 1
				}
				return at + 0.001
			}
		}, []float64{0.1, 1, 10}, nil},
		{"pauses", 900, func() queue { return workers(1, 0.1, constant(0.001)) }, []float64{0.5, 0.9}, []float64{1.2, 1.5}},
	} {
		for _, arrivals := range []string{"constant", "random"} {
			between := constant(1)
			if arrivals == "random" {
				between = rng.ExpFloat64
			}
			for _, want := range []bool{false, true} {
				shares := c.keeps
				if want {
					shares = c.missing
				}
				for _, share := range shares {
					found := 0
					for range 9 {
						_, flags, _ := Examine(probed(c.queue(), share*c.capacity, between))
						if slices.ContainsFunc(flags, func(f rundir.Flag) bool { return f.Kind == FlagBacklog }) {
							found++
						}
					}
					if is := found > 4; is != want || !want && found > 1 {
						t.Errorf("%s, %s arrivals at %g of the capacity: a backlog in %d of 9 probes", c.name, arrivals, share, found)
					}
				}
			}
		}
	}
}

// A probe may complete more requests than it answered: one of before the window, which was read late. All that is recorded of
// it can be written.
func TestNoCheckIsWithoutNumber(t *testing.T) {
	s := probed(workers(1, 0, func() float64 { return 0.002 }), 10, func() float64 { return 1 })
	s.Trial.Counts.CompletedInWindow++
	checks, _, _ := Examine(s)
	if _, err := json.Marshal(checks); err != nil {
		t.Error(err)
	}
	if !slices.ContainsFunc(checks, func(c rundir.Check) bool { return c.Kind == FlagBacklog && c.Outcome == rundir.CheckOK }) {
		t.Error("its backlog was not checked")
	}
	x := examination{Recording: s}
	x.compare(FlagBacklog, math.NaN(), 1, rundir.CheckWarning, nil)
	x.compare(FlagBacklog, 1, math.Inf(1), rundir.CheckWarning, nil)
	for _, c := range x.checks {
		if c.Outcome != rundir.CheckUnknown || c.Measured != nil || c.Limit != nil {
			t.Errorf("%+v", c)
		}
	}
}
