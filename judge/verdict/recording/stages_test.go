package recording

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dyno/load/hist"
	"dyno/results/rundir"
)

// Each request counts in one stage, that in which it ended; what comes after the last counts in none. A
// stage whose users always have a request in flight has as many in flight as users (Little's law).
func TestStagesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const interval = 100 * time.Millisecond
		warmup := rapid.IntRange(0, 20).Draw(t, "warm-up")
		plan := rundir.PlanVariant{}
		var log []hist.Interval
		var users []int
		at, total := time.Duration(warmup)*interval, 0
		for range rapid.IntRange(1, 4).Draw(t, "stages") {
			intervals, n := rapid.IntRange(1, 30).Draw(t, "intervals"), rapid.IntRange(1, 20).Draw(t, "users")
			plan.Stages = append(plan.Stages, rundir.PlanStage{Seconds: float64(intervals) / 10, From: float64(n), To: float64(n)})
			users = append(users, n)
			for range intervals {
				for tag, each := range map[string]int{rundir.TagResponse: 8, rundir.TagFailed: 2, rundir.TagGivenUp: 1} {
					h := hist.New()
					for range n * each {
						h.Record(int64(interval / 10))
					}
					log = append(log, hist.Interval{Tag: tag, Start: at, Length: interval, Hist: h})
				}
				at += interval
				total += 10 * n
			}
		}
		late := hist.New()
		late.Record(1)
		log = append(log, hist.Interval{Tag: rundir.TagResponse, Start: at, Length: interval, Hist: late})
		window := (at - time.Duration(warmup)*interval).Seconds()
		for n, s := range staged(log, plan, &rundir.Trial{WarmupSeconds: float64(warmup) / 10, WindowSeconds: window}) {
			f := s.Figures()
			want := int64(users[n]) * int64(math.Round(s.Seconds*10))
			if f.OK != 7*want || f.Failed != 3*want {
				t.Fatalf("stage %d: %d good and %d failed, want %d and %d", n, f.OK, f.Failed, 7*want, 3*want)
			}
			if math.Abs(*f.InFlight/float64(users[n])-1) > 0.02 {
				t.Fatalf("stage %d: %v in flight by %d users", n, *f.InFlight, users[n])
			}
			total -= int(f.OK + f.Failed)
		}
		if total != 0 {
			t.Fatalf("%d requests are in no stage, or in two", total)
		}
	})
}

// Of an interrupted trial, a stage is as long as it was measured.
func TestStagesOfInterruptedTrial(t *testing.T) {
	plan := rundir.PlanVariant{Stages: []rundir.PlanStage{{Seconds: 2}, {Seconds: 2}, {Seconds: 2}}}
	for n, want := range []float64{2, 1, 0} {
		s := staged(nil, plan, &rundir.Trial{WindowSeconds: 3})[n]
		if s.Measured != want || (s.Figures().Throughput == nil) != (want == 0) {
			t.Errorf("stage %d: %v", n, s.Measured)
		}
	}
}
