package checks

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/internal/texts"
	"dyno/judge/verdict/recording"
	"dyno/load/hist"
	"dyno/results/rundir"
)

const µs = time.Microsecond

// many returns a histogram of n equal values.
func many(n int64, v time.Duration) *hist.Histogram {
	h := hist.New()
	h.RecordN(int64(v), n)
	return h
}

// soundOpen is a trial that raises no flag: open at 1,000/s for 10 s after a
// warm-up of 2 s, with responses in 2 ms.
func soundOpen() recording.Recording {
	s := recording.Recording{
		Plan: rundir.PlanVariant{Name: "v", Loop: "open", Rate: new(1000.), WarmupSeconds: 2, WindowSeconds: 10},
		Trial: &rundir.Trial{
			Number: 1, Round: 1, Variant: "v", Complete: true, WarmupSeconds: 2, WindowSeconds: 10,
			Throughput:   new(1000.),
			Conservation: rundir.Conservation{OK: true},
			Counts:       rundir.Counts{Scheduled: 10000, Sent: 10000, OK: 10000, CompletedInWindow: 10000},
			Target:       rundir.Target{CPUShare: new(0.6)},
			Generator:    rundir.Generator{CPUShare: new(0.3), RunQueueWaitShare: new(0.002)},
			Machine: rundir.Machine{
				StealShare: new(0.001), ForeignShare: new(0.01), LateWakeupShare: new(0.0004),
				MemoryStall: new(0.), IOStall: new(0.002),
			},
		},
	}
	for i := range 10 {
		at := time.Duration(2+i) * time.Second
		for tag, v := range map[string]time.Duration{
			rundir.TagResponse: 2 * time.Millisecond, rundir.TagService: 2 * time.Millisecond, rundir.TagSendLag: 10 * µs, rundir.TagGeneratorLag: 10 * µs,
		} {
			s.Log = append(s.Log, hist.Interval{Tag: tag, Start: at, Length: time.Second, Hist: many(1000, v)})
		}
	}
	return s
}

// soundClosed is the same in a closed loop.
func soundClosed() recording.Recording {
	s := soundOpen()
	s.Plan.Loop, s.Plan.Rate, s.Plan.Connections = "closed", nil, 16
	return s
}

// slow gives every interval of a tag a number of slow values of its 1,000.
func slow(s *recording.Recording, tag string, n int64, v time.Duration) {
	for i := range s.Log {
		if s.Log[i].Tag == tag {
			s.Log[i].Hist = many(1000-n, 10*µs)
			s.Log[i].Hist.RecordN(int64(v), n)
		}
	}
}

// countResponses replaces the responses of the intervals that begin at or after a second.
func countResponses(s *recording.Recording, from, n int64) {
	for i := range s.Log {
		if s.Log[i].Tag == rundir.TagResponse && s.Log[i].Start >= time.Duration(from)*time.Second {
			s.Log[i].Hist = many(n, 2*time.Millisecond)
		}
	}
}

// raised names the flags, with ! for those that disturb.
func raised(flags []rundir.Flag) string {
	var kinds []string
	for _, f := range flags {
		kind := f.Kind
		if f.Disturbs {
			kind += "!"
		}
		kinds = append(kinds, kind)
	}
	return strings.Join(kinds, " ")
}

// measured says of a check what was found: outcome, measured figure and limit.
type measured struct {
	Outcome         string
	Measured, Limit float64
}

func TestChecks(t *testing.T) {
	const ok, warning, invalid, unknown, broken = rundir.CheckOK, rundir.CheckWarning, rundir.CheckDisturbed, rundir.CheckUnknown, rundir.CheckBroken
	nan := math.NaN()
	open, closed := soundOpen, soundClosed
	for _, c := range []struct {
		name   string
		sound  func() recording.Recording
		change func(*recording.Recording)
		flags  string
		kind   string // the check looked at
		want   measured
	}{
		{"conservation", open, func(s *recording.Recording) { s.Trial.Conservation = rundir.Conservation{} }, "conservation!", FlagConservation, measured{invalid, nan, nan}},
		{"incomplete", open, func(s *recording.Recording) {
			s.Trial.Complete, s.Trial.Error = false, "the target died"
			slow(s, rundir.TagGeneratorLag, 20, time.Second)
		}, "incomplete!", FlagIncomplete, measured{invalid, nan, nan}},

		{"users who were late", closed, func(s *recording.Recording) { s.Trial.Connections.Requested, s.Trial.Connections.Unopened = 16, 3 }, "unopened", FlagUnopened, measured{warning, 3, 0}},
		{"subscribers who were late", closed, func(s *recording.Recording) {
			s.Trial.Streams = &rundir.Streams{Requested: 9, Peak: 9, Served: 9, Delivered: 9, Untried: 2}
		}, "unopened", FlagUnopened, measured{warning, 2, 0}},
		{"redirections", open, func(s *recording.Recording) {
			s.Trial.Counts.ByStatus = map[string]int64{"200": 5, "301": 20, "304": 1, "308": 4}
		}, "redirects", FlagRedirects, measured{warning, 24, 0}},
		{"conflicts", open, func(s *recording.Recording) {
			s.Trial.Counts.ByStatus = map[string]int64{"201": 1, "409": s.Trial.Counts.Sent - 1}
		}, "conflicts", FlagConflicts, measured{warning, 9999, 0}},
		{"teardown", open, func(s *recording.Recording) { s.Trial.Teardown = "it failed" }, "teardown", FlagTeardown, measured{warning, nan, nan}},
		{"deviations", open, func(s *recording.Recording) { s.Trial.Deviations = map[string]int64{"bare_lf": 20, "folded_lines": 7} }, "deviations", FlagDeviations, measured{warning, 20, 0}},

		// The median response is 2 ms, so the limit of the lag's p99 is 100 µs. The limit of its p99.9
		// is the floor, 500 µs.
		{"lag below", open, func(s *recording.Recording) { slow(s, rundir.TagGeneratorLag, 20, 98*µs) }, "", FlagGeneratorLag, measured{ok, 98e-6, 100e-6}},
		{"lag above", open, func(s *recording.Recording) { slow(s, rundir.TagGeneratorLag, 20, 102*µs) }, "generator_lag", FlagGeneratorLag, measured{warning, 102e-6, 100e-6}},
		{"lag of fast responses", open, func(s *recording.Recording) {
			slow(s, rundir.TagResponse, 20, 500*µs)
			slow(s, rundir.TagGeneratorLag, 20, 49*µs)
		}, "", FlagGeneratorLag, measured{ok, 49e-6, 50e-6}},
		{"lag tail below", open, func(s *recording.Recording) { slow(s, rundir.TagGeneratorLag, 2, 196*µs) }, "", FlagGeneratorLagTail, measured{ok, 196e-6, 500e-6}},
		{"lag tail above", open, func(s *recording.Recording) { slow(s, rundir.TagGeneratorLag, 2, 600*µs) }, "generator_lag_tail", FlagGeneratorLagTail, measured{warning, 600e-6, 500e-6}},
		{"lag tail of a slow target", open, func(s *recording.Recording) {
			slow(s, rundir.TagGeneratorLag, 2, 600*µs)
			slow(s, rundir.TagResponse, 20, 10*time.Millisecond)
		}, "", FlagGeneratorLagTail, measured{ok, 600e-6, 1e-3}},
		{"lag tail in a closed loop", closed, func(s *recording.Recording) { slow(s, rundir.TagGeneratorLag, 2, 600*µs) }, "generator_lag_tail", FlagGeneratorLagTail, measured{warning, 600e-6, 500e-6}},
		{"connections short", open, func(s *recording.Recording) { slow(s, rundir.TagSendLag, 20, time.Millisecond) }, "connection_limit", FlagConnectionLimit, measured{warning, 1e-3, 100e-6}},
		{"too few connections", open, func(s *recording.Recording) {
			s.Trial.Connections.Requested, s.Trial.Connections.Unqueued, s.Trial.Times = 1, 0.002, rundir.Times{rundir.TagService: {Mean: new(0.00201)}}
			slow(s, rundir.TagSendLag, 20, time.Millisecond)
			s.Trial.Counts.Sent, s.Trial.Counts.Dropped = 9950, 50
		}, "few_connections!", FlagFewConnections, measured{invalid, 1000, 500}},
		{"enough connections", open, func(s *recording.Recording) {
			s.Trial.Connections.Requested, s.Trial.Connections.Unqueued, s.Trial.Times = 3, 0.002, rundir.Times{rundir.TagService: {Mean: new(0.00201)}}
		}, "", FlagFewConnections, measured{ok, 1000, 1500}},
		{"too few streams that the peer allows", open, func(s *recording.Recording) {
			s.Trial.Connections.Requested, s.Trial.Connections.Streams, s.Trial.Loaded = 1, 16, &rundir.Loaded{Allowed: 1}
			s.Trial.Connections.Unqueued, s.Trial.Times = 0.002, rundir.Times{rundir.TagService: {Mean: new(0.002)}}
		}, "few_connections!", FlagFewConnections, measured{invalid, 1000, 500}},
		{"a queue in the target", open, func(s *recording.Recording) {
			s.Trial.Connections.Requested, s.Trial.Connections.Unqueued, s.Trial.Times = 1, 0.002, rundir.Times{rundir.TagService: {Mean: new(0.003)}}
			s.Trial.Counts.Sent, s.Trial.Counts.Dropped = 9950, 50
		}, "drops", FlagDrops, measured{broken, 50, 0}},
		{"late and short of connections", open, func(s *recording.Recording) {
			slow(s, rundir.TagSendLag, 20, time.Millisecond)
			slow(s, rundir.TagGeneratorLag, 20, 150*µs)
		}, "generator_lag", FlagConnectionLimit, measured{unknown, nan, nan}},
		{"a log without the generator's lag", open, func(s *recording.Recording) {
			slow(s, rundir.TagSendLag, 20, time.Millisecond)
			for i := range s.Log {
				if s.Log[i].Tag == rundir.TagGeneratorLag {
					s.Log[i].Tag = "something_else"
				}
			}
		}, "generator_lag generator_lag_tail", FlagGeneratorLag, measured{warning, 1e-3, 100e-6}},
		{"few requests", open, func(s *recording.Recording) {
			for i := range s.Log {
				s.Log[i].Hist = many(9, time.Millisecond)
			}
		}, "lag_not_checked", FlagGeneratorLag, measured{unknown, nan, nan}},
		{"few requests for a tail", open, func(s *recording.Recording) {
			for i := range s.Log {
				s.Log[i].Hist = many(90, time.Millisecond)
			}
		}, "generator_lag", FlagGeneratorLagTail, measured{unknown, nan, nan}},

		{"drops", open, func(s *recording.Recording) { s.Trial.Counts.Sent, s.Trial.Counts.Dropped = 9950, 50 }, "drops", FlagDrops, measured{broken, 50, 0}},
		{"many drops", open, func(s *recording.Recording) { s.Trial.Counts.Sent, s.Trial.Counts.Dropped = 9890, 110 }, "drops", FlagAchievedRate, measured{ok, 0, 0.03}},
		{"unsent at the limit", open, func(s *recording.Recording) { s.Trial.Counts.Sent = 9900 }, "", FlagAchievedRate, measured{ok, 0.01, 0.03}},
		{"too slow, but within chance", open, func(s *recording.Recording) { s.Trial.Counts.Scheduled, s.Trial.Counts.Sent = 9710, 9710 }, "", FlagAchievedRate, measured{ok, 0.029, 0.03}},
		{"too slow", open, func(s *recording.Recording) { s.Trial.Counts.Scheduled, s.Trial.Counts.Sent = 9690, 9690 }, "achieved_rate!", FlagAchievedRate, measured{invalid, 0.031, 0.03}},
		{"too fast", open, func(s *recording.Recording) { s.Trial.Counts.Scheduled, s.Trial.Counts.Sent = 10310, 10310 }, "achieved_rate!", FlagAchievedRate, measured{invalid, 0.031, 0.03}},
		{"iterations at the rate, with further requests", open, func(s *recording.Recording) {
			s.Trial.Counts.Scheduled, s.Trial.Counts.Sent, s.Trial.Users = 30_000, 30_000, &rundir.Users{Arrivals: 10_000}
		}, "", FlagAchievedRate, measured{ok, 0, 0.03}},
		{"too few iterations", open, func(s *recording.Recording) { s.Trial.Users = &rundir.Users{Arrivals: 9690} }, "achieved_rate!", FlagAchievedRate, measured{invalid, 0.031, 0.03}},
		{"a probe has its own rate", open, func(s *recording.Recording) { s.Trial.Rate = new(1100.) }, "achieved_rate!", FlagAchievedRate, measured{invalid, 1. / 11, chance / math.Sqrt(11000)}},
		{"stages have no rate", open, func(s *recording.Recording) {
			s.Plan.Rate = nil
			s.Trial.Counts.Scheduled, s.Trial.Counts.Sent = 5000, 5000
			countResponses(s, 7, 3000)
		}, "", FlagNotSteady, measured{unknown, nan, nan}},
		{"unfinished at the limit", open, func(s *recording.Recording) { s.Trial.Counts.Unfinished = 10 }, "", FlagUnfinished, measured{ok, 0.001, 0.001}},
		{"unfinished", closed, func(s *recording.Recording) { s.Trial.Counts.Unfinished = 11 }, "unfinished", FlagUnfinished, measured{warning, 0.0011, 0.001}},
		{"nothing sent", closed, func(s *recording.Recording) { s.Trial.Counts = rundir.Counts{} }, "", FlagUnfinished, measured{unknown, nan, nan}},

		{"generator at its limit", open, func(s *recording.Recording) { s.Trial.Generator.CPUShare = new(0.75) }, "", FlagGeneratorCPU, measured{ok, 0.75, 0.75}},
		{"busy generator", open, func(s *recording.Recording) { s.Trial.Generator.CPUShare = new(0.76) }, "generator_cpu!", FlagGeneratorCPU, measured{invalid, 0.76, 0.75}},
		{"run queue at the limit", open, func(s *recording.Recording) { s.Trial.Generator.RunQueueWaitShare = new(0.01) }, "", FlagRunQueue, measured{ok, 0.01, 0.01}},
		{"run queue", open, func(s *recording.Recording) { s.Trial.Generator.RunQueueWaitShare = new(0.011) }, "run_queue_wait", FlagRunQueue, measured{warning, 0.011, 0.01}},
		{"run queue of many wake-ups", open, func(s *recording.Recording) {
			s.Trial.Generator.RunQueueWaitShare, s.Trial.Generator.TimeslicesPerSecond = new(0.03), new(2000.0)
		}, "", FlagRunQueue, measured{ok, 0.03, 0.03}},
		{"run queue beyond what wake-ups take", open, func(s *recording.Recording) {
			s.Trial.Generator.RunQueueWaitShare, s.Trial.Generator.TimeslicesPerSecond = new(0.031), new(2000.0)
		}, "run_queue_wait", FlagRunQueue, measured{warning, 0.031, 0.03}},
		{"starved", open, func(s *recording.Recording) { s.Trial.Generator.RunQueueWaitShare = new(0.051) }, "run_queue_wait!", FlagRunQueue, measured{invalid, 0.051, 0.05}},
		{"run queue in a closed loop", closed, func(s *recording.Recording) { s.Trial.Generator.RunQueueWaitShare = new(0.05) }, "run_queue_wait", FlagRunQueue, measured{warning, 0.05, 0.01}},
		{"starved in a closed loop", closed, func(s *recording.Recording) { s.Trial.Generator.RunQueueWaitShare = new(0.051) }, "run_queue_wait!", FlagRunQueue, measured{invalid, 0.051, 0.05}},
		{"starved, but the target is saturated", closed, func(s *recording.Recording) {
			s.Trial.Generator.RunQueueWaitShare, s.Trial.Target.CPUShare = new(0.4), new(0.9)
		}, "run_queue_wait", FlagRunQueue, measured{warning, 0.4, 0.01}},
		{"starved before an unknown target", closed, func(s *recording.Recording) {
			s.Trial.Generator.RunQueueWaitShare, s.Trial.Target.CPUShare = new(0.4), nil
		}, "run_queue_wait", FlagRunQueue, measured{warning, 0.4, 0.01}},
		{"exhausted at the limit", closed, func(s *recording.Recording) {
			s.Trial.Generator.CPUShare, s.Trial.Generator.RunQueueWaitShare = new(0.945), new(0.005)
		}, "", FlagGeneratorLimit, measured{ok, 0.95, 0.95}},
		{"exhausted", closed, func(s *recording.Recording) {
			s.Trial.Generator.CPUShare, s.Trial.Generator.RunQueueWaitShare, s.Trial.Target.CPUShare = new(0.95), new(0.005), new(0.89)
		}, "generator_limit!", FlagGeneratorLimit, measured{invalid, 0.955, 0.95}},
		{"exhausted in a handful of requests", closed, func(s *recording.Recording) {
			s.Trial.Generator.CPUShare, s.Trial.WindowSeconds = new(0.99), 0.049
		}, "", FlagGeneratorLimit, measured{unknown, nan, nan}},
		{"exhausted, but the target is saturated", closed, func(s *recording.Recording) {
			s.Trial.Generator.CPUShare, s.Trial.Target.CPUShare = new(0.99), new(0.9)
		}, "", FlagGeneratorLimit, measured{ok, 0.992, 0.95}},
		{"exhausted before an unknown target", closed, func(s *recording.Recording) {
			s.Trial.Generator.CPUShare, s.Trial.Generator.RunQueueWaitShare, s.Trial.Target.CPUShare = new(0.96), nil, nil
		}, "generator_limit", FlagGeneratorLimit, measured{warning, 0.96, 0.95}},

		{"steal at the first limit", open, func(s *recording.Recording) { s.Trial.Machine.StealShare = new(0.01) }, "", FlagSteal, measured{ok, 0.01, 0.01}},
		{"steal at the second", open, func(s *recording.Recording) { s.Trial.Machine.StealShare = new(0.10) }, "steal", FlagSteal, measured{warning, 0.10, 0.01}},
		{"much steal", open, func(s *recording.Recording) { s.Trial.Machine.StealShare = new(0.11) }, "steal!", FlagSteal, measured{invalid, 0.11, 0.10}},
		{"foreign CPU at the first limit", open, func(s *recording.Recording) { s.Trial.Machine.ForeignShare = new(0.05) }, "", FlagForeignCPU, measured{ok, 0.05, 0.05}},
		{"foreign CPU at the second", closed, func(s *recording.Recording) { s.Trial.Machine.ForeignShare = new(0.15) }, "foreign_cpu", FlagForeignCPU, measured{warning, 0.15, 0.05}},
		{"much foreign CPU", closed, func(s *recording.Recording) { s.Trial.Machine.ForeignShare = new(0.16) }, "foreign_cpu!", FlagForeignCPU, measured{invalid, 0.16, 0.15}},
		{"the target among the foreign", closed, func(s *recording.Recording) {
			s.Trial.Machine.ForeignShare, s.Trial.Target.CPUShare = new(0.5), nil
		}, "", FlagForeignCPU, measured{unknown, nan, nan}},
		{"late wake-ups at the first limit", open, func(s *recording.Recording) { s.Trial.Machine.LateWakeupShare = new(0.001) }, "", FlagLateWakeups, measured{ok, 0.001, 0.001}},
		{"late wake-ups", open, func(s *recording.Recording) { s.Trial.Machine.LateWakeupShare = new(0.005) }, "late_wakeups", FlagLateWakeups, measured{warning, 0.005, 0.001}},
		{"memory pressure at the first limit", open, func(s *recording.Recording) { s.Trial.Machine.MemoryStall = new(0.01) }, "", FlagMemoryPressure, measured{ok, 0.01, 0.01}},
		{"memory pressure", open, func(s *recording.Recording) { s.Trial.Machine.MemoryStall = new(0.1) }, "memory_pressure", FlagMemoryPressure, measured{warning, 0.1, 0.01}},
		{"much memory pressure", open, func(s *recording.Recording) { s.Trial.Machine.MemoryStall = new(0.11) }, "memory_pressure!", FlagMemoryPressure, measured{invalid, 0.11, 0.1}},
		{"disk pressure", open, func(s *recording.Recording) { s.Trial.Machine.IOStall = new(0.1) }, "io_pressure", FlagIOPressure, measured{warning, 0.1, 0.01}},
		{"much disk pressure", open, func(s *recording.Recording) { s.Trial.Machine.IOStall = new(0.11) }, "io_pressure!", FlagIOPressure, measured{invalid, 0.11, 0.1}},
		{"nothing known of the machine", open, func(s *recording.Recording) {
			s.Trial.Generator, s.Trial.Machine = rundir.Generator{}, rundir.Machine{}
		}, "", FlagSteal, measured{unknown, nan, nan}},
		{"nothing known of the generator", closed, func(s *recording.Recording) { s.Trial.Generator = rundir.Generator{} }, "", FlagGeneratorLimit, measured{unknown, nan, nan}},

		// Of ten intervals the first does not count: halves of four.
		{"slower in the second half", open, func(s *recording.Recording) { countResponses(s, 8, 900) }, "not_steady", FlagNotSteady, measured{warning, 4. / 38, 6 / math.Sqrt(7600)}},
		{"slightly slower, within chance", open, func(s *recording.Recording) { countResponses(s, 8, 970) }, "", FlagNotSteady, measured{ok, 6. / 197, 6 / math.Sqrt(7880)}},
		{"slightly slower in a closed loop, where arrivals are not random", closed, func(s *recording.Recording) { countResponses(s, 8, 970) }, "not_steady", FlagNotSteady,
			measured{warning, 6. / 197, 3 * math.Sqrt(2./4) * math.Sqrt(900./16) / 985}},
		{"at the tolerance in a closed loop", closed, func(s *recording.Recording) { countResponses(s, 8, 991) }, "", FlagNotSteady, measured{ok, 18. / 1991, 0.01}},
		{"the first interval lacks what was under way", closed, func(s *recording.Recording) { countResponses(s, 2, 100); countResponses(s, 3, 1000) }, "", FlagNotSteady, measured{ok, 0, 0.01}},
		{"slow responses come late", closed, func(s *recording.Recording) {
			slow(s, rundir.TagResponse, 20, 2900*time.Millisecond)
			for i := range s.Log {
				if s.Log[i].Tag == rundir.TagResponse && s.Log[i].Start < 5*time.Second {
					s.Log[i].Hist = many(700, 2*time.Millisecond)
				}
			}
		}, "", FlagNotSteady, measured{ok, 0, 0.01}},
		{"too few intervals to tell", closed, func(s *recording.Recording) {
			s.Trial.WarmupSeconds, s.Trial.WindowSeconds = 8, 4
			countResponses(s, 11, 1)
		}, "", FlagNotSteady, measured{unknown, nan, nan}},
		{"what ends after the window does not count", closed, func(s *recording.Recording) { s.Trial.WindowSeconds = 9; countResponses(s, 11, 1) }, "", FlagNotSteady, measured{ok, 0, 0.01}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.sound()
			c.change(&s)
			s.Times = recording.Merged(s.Log)
			checks, flags, _ := Examine(s)
			if got := raised(flags); got != c.flags {
				t.Errorf("flags %q, want %q", got, c.flags)
			}
			at := slices.IndexFunc(checks, func(k rundir.Check) bool { return k.Kind == c.kind })
			if at < 0 {
				t.Fatalf("no check of %s in %+v", c.kind, checks)
			}
			got := measured{checks[at].Outcome, nan, nan}
			if checks[at].Measured != nil {
				got.Measured = *checks[at].Measured
			}
			if checks[at].Limit != nil {
				got.Limit = *checks[at].Limit
			}
			near := cmp.Comparer(func(a, b float64) bool {
				return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 0.005*max(math.Abs(a), math.Abs(b)) // buckets of histograms
			})
			if diff := cmp.Diff(c.want, got, near); diff != "" {
				t.Error(diff)
			}
			for _, f := range flags {
				if f.Trial != 1 || f.Variant != "v" || f.Detail == nil || !IsKnown(f.Kind) {
					t.Errorf("flag %+v", f)
				}
			}
			for _, k := range checks {
				if k.Outcome != ok && k.Detail == nil || !IsKnown(k.Kind) {
					t.Errorf("check %+v", k)
				}
			}
		})
	}
}

// Whole trials, with figures such as recorded ones have: of a generator alone, of one
// that shares its CPU, and of one held to a fifth of it.
// The finding names the remedy: no streams where connections carry none, or where the peer allows no more.
func TestFewConnectionsNameWhatHelps(t *testing.T) {
	for name, c := range map[string]struct {
		multiplexed, streams, allowed int64
		want                          bool
	}{
		"one request at once on each": {0, 0, 0, false},
		"no limit on streams":         {1, 0, 0, true},
		"more streams are allowed":    {1, 2, 3, true},
		"as many as are allowed":      {1, 2, 2, false},
		"fewer than were asked for":   {1, 16, 1, false},
	} {
		s := soundOpen()
		s.Trial.Connections = rundir.Connections{Requested: 1, Opened: 1, Multiplexed: c.multiplexed, Streams: c.streams, Unqueued: 0.1}
		s.Trial.Times, s.Trial.Loaded = rundir.Times{rundir.TagService: {Mean: new(0.1)}}, &rundir.Loaded{Allowed: c.allowed}
		_, flags, _ := Examine(s)
		i := slices.IndexFunc(flags, func(f rundir.Flag) bool { return f.Kind == FlagFewConnections })
		if i < 0 || strings.Contains(flags[i].Detail.English(), "--streams") != c.want || !strings.Contains(flags[i].Detail.English(), "--connections") {
			t.Errorf("%s: %+v", name, flags)
		}
	}
}

func TestStarvedAndHealthy(t *testing.T) {
	type machine struct{ generator, wait, target, foreign, late float64 }
	for _, c := range []struct {
		name         string
		of           machine
		open, closed string
	}{
		{"alone", machine{0.33, 0.004, 0.97, 0.01, 0.0003}, "", ""},
		{"on a shared machine with few late wake-ups", machine{0.33, 0.008, 0.62, 0.03, 0.001}, "", ""},
		{"on a shared machine with more", machine{0.33, 0.008, 0.62, 0.03, 0.0046}, "late_wakeups", "late_wakeups"},
		{"saturating the target", machine{0.74, 0.009, 0.99, 0.01, 0.001}, "", ""},
		{"next to a busy neighbour", machine{0.27, 0.456, 0.54, 0.57, 0.05}, "run_queue_wait! foreign_cpu! late_wakeups", "run_queue_wait! foreign_cpu! late_wakeups"},
		{"a fifth by quota", machine{0.19, 0.79, 0.2, 0.01, 0.05}, "run_queue_wait! late_wakeups", "run_queue_wait! generator_limit! late_wakeups"},
		{"a fifth by stopping it", machine{0.15, 0.004, 0.2, 0.01, 0.048}, "late_wakeups", "late_wakeups"},
		{"a fifth, and no sleeper", machine{0.19, 0.79, 0.2, 0.01, math.NaN()}, "run_queue_wait!", "run_queue_wait! generator_limit!"},
		{"slower than its target", machine{0.985, 0.009, 0.45, 0.01, 0.001}, "generator_cpu!", "generator_limit!"},
	} {
		for loop, want := range map[string]string{"open": c.open, "closed": c.closed} {
			s := soundOpen()
			if loop == "closed" {
				s = soundClosed()
			}
			s.Trial.Generator = rundir.Generator{CPUShare: &c.of.generator, RunQueueWaitShare: &c.of.wait}
			s.Trial.Target.CPUShare = &c.of.target
			s.Trial.Machine.ForeignShare = &c.of.foreign
			if s.Trial.Machine.LateWakeupShare = &c.of.late; math.IsNaN(c.of.late) {
				s.Trial.Machine.LateWakeupShare = nil
			}
			s.Times = recording.Merged(s.Log)
			_, flags, _ := Examine(s)
			if got := raised(flags); got != want {
				t.Errorf("%s, %s loop: flags %q, want %q", c.name, loop, got, want)
			}
		}
	}
}

// The declaration of each check is complete: its words in both languages, and a remedy that package texts has.
func TestChecksAreDeclaredWhole(t *testing.T) {
	for _, kind := range Kinds() {
		if c := Of(kind); c.English == "" || c.Chinese == "" || (c.Means == "") != (c.About == "") || c.Remedy != "" && !texts.Has(c.Remedy) {
			t.Errorf("%+v", c)
		}
	}
}

// tenths gives a trial a log of 100 ms bins with these counts. A bin before them does
// not count.
func tenths(s *recording.Recording, counts []float64) {
	s.Log = nil
	s.Trial.WindowSeconds = float64(len(counts)+1) / 10
	for i, n := range append([]float64{1}, counts...) {
		s.Log = append(s.Log, hist.Interval{
			Tag: rundir.TagResponse, Start: 2*time.Second + time.Duration(i)*100*time.Millisecond, Length: 100 * time.Millisecond, Hist: many(int64(n), time.Millisecond),
		})
	}
	s.Times = recording.Merged(s.Log)
}

// wander returns values around 1,000 that remember a share of the one before.
func wander(r *rand.Rand, n int, memory, deviation float64) []float64 {
	values := make([]float64, n)
	v := 0.0
	for i := range values {
		v = memory*v + deviation*r.NormFloat64()
		values[i] = math.Round(1000 + v)
	}
	return values
}

func TestDependence(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	drift := wander(r, 99, 0, 2)
	for i := range drift {
		drift[i] = math.Round(drift[i] + 2*float64(i)) // 0.2 % in 0.1 s
	}
	constant, waves := make([]float64, 99), wander(r, 99, 0, 2)
	for i := range constant {
		constant[i] = 1000
		waves[i] = math.Round(waves[i] + 50*math.Sin(math.Pi*float64(i)/25)) // two waves
	}
	for _, c := range []struct {
		name   string
		counts []float64
		flags  string
		known  bool
		trend  [2]float64 // low and high
	}{
		{"independent", wander(r, 99, 0, 50), "", true, [2]float64{-0.02, 0.02}},
		{"a memory of some bins", wander(r, 99, 0.5, 10), "", true, [2]float64{-0.02, 0.02}},
		{"slow waves", waves, "dependent", true, [2]float64{-0.02, 0.02}},
		{"drift", drift, "not_steady dependent", true, [2]float64{0.0195, 0.0205}},
		{"constant", constant, "", false, [2]float64{}},
		{"too few", wander(r, 9, 0, 2), "", false, [2]float64{}},
		{"few", wander(r, 12, 0.9, 1), "", true, [2]float64{-0.02, 0.02}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := soundClosed()
			tenths(&s, c.counts)
			_, flags, d := Examine(s)
			if got := raised(flags); got != c.flags {
				t.Errorf("flags %q, want %q: %+v", got, c.flags, flags)
			}
			if (d != nil) != c.known {
				t.Fatalf("dependence %+v", d)
			}
			if d != nil && (d.Bins != len(c.counts) || math.Abs(d.BinSeconds-0.1) > 1e-9 || d.Trend == nil || d.TrendP == nil || *d.Trend < c.trend[0] || *d.Trend > c.trend[1]) {
				t.Errorf("dependence %+v, trend %v", d, d.Trend)
			}
		})
	}
	stages := soundOpen()
	stages.Plan.Rate = nil
	tenths(&stages, wander(r, 99, 0, 50))
	if _, _, d := Examine(stages); d != nil {
		t.Errorf("dependence of a load that was meant to change: %+v", d)
	}
}

// An even load seldom looks unsteady or dependent, however much its bins vary. A load
// that changes by more than chance does.
func TestSteadyBySimulation(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: simulates thousands of experiments")
	}
	r := rand.New(rand.NewPCG(3, 4))
	const trials = 100
	share := func(n int, memory, step float64) (unsteady, dependent float64) {
		for range trials {
			counts := wander(r, n, memory, 50)
			for i := n / 2; i < n; i++ {
				counts[i] += step
			}
			bins := make([]bin, n)
			for i, count := range counts {
				bins[i] = bin{start: float64(i) / 10, length: 0.1, count: count}
			}
			x := examination{Recording: soundClosed()}
			x.steady(bins)
			x.dependent(measureDependence(bins, 0), n)
			for _, f := range x.flags {
				switch f.Kind {
				case FlagNotSteady:
					unsteady += 1. / trials
				case FlagDependent:
					dependent += 1. / trials
				}
			}
		}
		return unsteady, dependent
	}
	for _, n := range []int{14, 60} {
		if unsteady, dependent := share(n, 0, 0); unsteady > 0.06 || dependent > 0.02 {
			t.Errorf("%d even bins: %.3f not steady, %.3f dependent", n, unsteady, dependent)
		}
		if unsteady, _ := share(n, 0, 150); unsteady < 0.9 {
			t.Errorf("%d bins of which half are 15 %% higher: %.3f not steady", n, unsteady)
		}
	}
	if _, dependent := share(60, 0.97, 0); dependent < 0.7 {
		t.Errorf("60 bins that wander: %.3f dependent", dependent)
	}
}
