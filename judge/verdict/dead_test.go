package verdict

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"dyno/load/hist"
	"dyno/results/rundir"
)

// What is about the target breaks, and spoils no figure; what is about the generator spoils
// them, and is none of the target's errors.
func TestDeadTargets(t *testing.T) {
	dead := func(s *subject) { // since the second before the window
		s.log = nil
		s.trial.Counts = rundir.Counts{Carried: rundir.Carried{Scheduled: 16, Unfinished: 16}}
		s.trial.Connections = rundir.Connections{Requested: 16, Opened: 16, Peak: 16, Unanswered: 16}
		s.trial.Silence = rundir.Silence{Longest: 10, From: 2, Last: new(1.0), Ending: 13}
	}
	for _, c := range []struct {
		name   string
		sound  func() subject
		change func(s *subject)
		breaks string // kinds
		ratio  float64
		served float64 // availability
		says   string
	}{
		{"sound", soundClosed, func(*subject) {}, "", 0, 1, ""},
		{"dead before the window", soundClosed, dead, "no_answers stalled connections", 1, 0,
			"the target answered nothing in the window of 10s, in which requests were due: 16; its last good response came 1s before"},
		{"silent in the end", soundClosed, func(s *subject) {
			s.trial.Counts.Scheduled, s.trial.Counts.Sent, s.trial.Counts.Unfinished = 10_016, 10_016, 16
			s.trial.Silence = rundir.Silence{Longest: 2.1, From: 9.9, Last: new(9.9), Ending: 4.1}
			s.trial.Connections = rundir.Connections{Requested: 40, Opened: 40, Peak: 40, Served: 20, Unanswered: 20}
		}, "stalled connections", 16. / 10_016, 10_000. / 10_016, "the target answered nothing for the last 2.1s of the window, and for 2s after it"},
		{"a stall", soundClosed, func(s *subject) {
			s.trial.Silence = rundir.Silence{Longest: 1.1, From: 5, Last: new(12.)}
		}, "stalled", 0, 1, "the target answered nothing for 1.1s, from 3s into the window on"},
		{"a pause", soundClosed, func(s *subject) { s.trial.Silence = rundir.Silence{Longest: 0.9, From: 5, Last: new(12.)} }, "", 0, 1, ""},
		{"a pause of a slow target", soundClosed, func(s *subject) {
			s.slow(rundir.TagService, 20, 30e6)
			s.trial.Silence = rundir.Silence{Longest: 2.9, From: 5, Last: new(12.)}
		}, "", 0, 1, ""},
		{"a pause between rare requests", soundOpen, func(s *subject) {
			s.plan.Rate, s.log = new(1.), nil
			s.trial.Counts = rundir.Counts{Scheduled: 10, Sent: 10, OK: 10, CompletedInWindow: 10}
			s.trial.Silence = rundir.Silence{Longest: 9, From: 2, Last: new(11.)}
		}, "", 0, 1, ""},
		{"refused in the last half second", soundClosed, func(s *subject) {
			s.trial.Counts.Scheduled, s.trial.Counts.Sent, s.trial.Counts.Errors = 10_040, 10_040, 40
			s.trial.Silence = rundir.Silence{Longest: 0.5, From: 11.5, Last: new(11.5), Ending: 0.5, Failing: 40}
		}, "stalled", 40. / 10_040, 10_000. / 10_040, "40 requests in a row failed"},
		{"refused by a slow target in the end", soundClosed, func(s *subject) {
			s.slow(rundir.TagService, 900, 300e6)
			s.trial.Counts.Scheduled, s.trial.Counts.Sent, s.trial.Counts.Errors = 12_000, 12_000, 2000
			s.trial.Silence = rundir.Silence{Longest: 0.9, From: 11.1, Last: new(11.1), Ending: 0.9, Failing: 2000}
		}, "stalled", 2000. / 12_000, 10_000. / 12_000, "2000 requests in a row failed"},
		{"a slow target that refused few in the end", soundClosed, func(s *subject) {
			s.slow(rundir.TagService, 900, 300e6)
			s.trial.Counts.Scheduled, s.trial.Counts.Sent, s.trial.Counts.Errors = 10_040, 10_040, 40
			s.trial.Silence = rundir.Silence{Longest: 0.9, From: 11.1, Last: new(11.1), Ending: 0.9, Failing: 40}
		}, "", 40. / 10_040, 10_000. / 10_040, ""},
		{"some drops", soundOpen, func(s *subject) { s.trial.Counts.Sent, s.trial.Counts.Dropped, s.trial.Counts.OK = 9_000, 1000, 9_000 },
			"drops", 0.1, 0.9, "1000 of 10000 requests were dropped"},
		{"statuses", soundClosed, func(s *subject) {
			s.trial.Counts = rundir.Counts{Scheduled: 100, Sent: 100, Errors: 100, ByKind: map[string]int64{"status": 100}}
		}, "no_answers", 1, 0, "the target gave no good response"},
		{"one status", soundClosed, func(s *subject) {
			s.trial.Counts = rundir.Counts{Scheduled: 62_225, Sent: 62_225, Errors: 62_225, ByKind: map[string]int64{"status": 62_225}, ByStatus: map[string]int64{"404": 62_225}}
			s.trial.Failures = map[string]int64{"status: status 404": 62_225}
		}, "no_answers", 1, 0, "no good answers: 404 × 62,225"},
		{"statuses with a reason", soundClosed, func(s *subject) {
			s.trial.Counts = rundir.Counts{Scheduled: 50, Sent: 50, Errors: 50, ByKind: map[string]int64{"status": 50}, ByStatus: map[string]int64{"503": 30, "400": 20}}
			s.trial.Failures = map[string]int64{"status: status 400: no such model": 20, "status: status 503": 30}
		}, "no_answers", 1, 0, "no good answers: 503 × 30, 400 × 20 (no such model)"},
		{"answers without a status", soundClosed, func(s *subject) {
			s.trial.Counts = rundir.Counts{Scheduled: 50, Sent: 50, Errors: 50, ByKind: map[string]int64{"assertion": 50}}
			s.trial.Failures = map[string]int64{"assertion: the echo differs from what was sent": 50}
		}, "no_answers", 1, 0, "no good answers: the echo differs from what was sent"},
		{"the generator's own want", soundOpen, func(s *subject) {
			s.trial.Counts = rundir.Counts{Scheduled: 10_000, Sent: 9_900, Dropped: 100, Unsent: 100, OK: 9_700, Generator: 200, CompletedInWindow: 9_700}
			s.trial.Connections = rundir.Connections{Failed: 5, Generator: 5, Unanswered: 3}
			s.trial.Failures = map[string]int64{"generator: too many open files": 200}
		}, "", 0, 1, ""},
		{"ended by itself", soundClosed, func(s *subject) {
			s.trial.Complete, s.trial.Fault, s.trial.Error = false, rundir.FaultTarget, "target x: exited"
			s.trial.Counts.Missed = 10_000
		}, "incomplete", 0.5, 0.5, "target x: exited"},
	} {
		s := c.sound()
		c.change(&s)
		s.times = merged(s.log)
		checks, flags, _ := examine(s)
		var breaks, said []string
		for _, f := range flags {
			if f.Breaks {
				breaks, said = append(breaks, f.Kind), append(said, f.Detail)
				if f.Spoils || f.About != rundir.AboutTarget {
					t.Errorf("%s: %+v", c.name, f)
				}
			}
		}
		if got := strings.Join(breaks, " "); got != c.breaks {
			t.Errorf("%s: breaks %q, want %q", c.name, got, c.breaks)
		}
		if text := strings.Join(said, "; "); !strings.Contains(text, c.says) {
			t.Errorf("%s: %q says nothing of %q", c.name, text, c.says)
		}
		own := slices.ContainsFunc(flags, func(f rundir.Flag) bool {
			return f.Kind == FlagGeneratorResources && f.Spoils && f.About == rundir.AboutGenerator && strings.Contains(f.Detail, "too many open files")
		})
		if own != (lacking(s.trial) > 0) {
			t.Errorf("%s: checks %+v", c.name, checks)
		}
		e, a := failures(s.trial.Counts), availability(s.trial)
		if e.Ratio == nil || math.Abs(*e.Ratio-c.ratio) > 1e-12 || a == nil || math.Abs(*a-c.served) > 1e-12 {
			t.Errorf("%s: errors.ratio %v of %d, availability %v; want %v and %v", c.name, *e.Ratio, e.Due, *a, c.ratio, c.served)
		}
	}
}

func TestDeadStreams(t *testing.T) {
	base := func() subject {
		s := soundOpen()
		s.trial.Streams = &rundir.Streams{
			Requested: 10, Opened: 10, Peak: 10, Delivered: 1000, AllDelivered: 1200, Served: 10, Subscribed: 100,
			Silence: rundir.Silence{Last: new(12.)},
		}
		for i := range 10 {
			s.log = append(s.log, hist.Interval{Tag: rundir.TagEventGap, Start: time.Duration(2+i) * time.Second, Length: time.Second, Hist: many(100, 100*time.Millisecond)})
		}
		return s
	}
	for _, c := range []struct {
		name   string
		stream bool // without publications
		change func(x *rundir.Streams)
		breaks string
		served float64
	}{
		{"sound", true, func(*rundir.Streams) {}, "", 1},
		{"no event of many", false, func(x *rundir.Streams) { x.Delivered, x.AllDelivered, x.Served, x.Silent = 0, 0, 0, 10 }, "no_answers connections", 0},
		{"nothing in the window", true, func(x *rundir.Streams) { x.Delivered, x.Served, x.Silent = 0, 0, 10 }, "no_answers connections", 0},
		{"nothing ever", true, func(x *rundir.Streams) {
			*x = rundir.Streams{Requested: 10, Opened: 10, Peak: 10, Silent: 10, Subscribed: 100}
		}, "", 1},
		{"quiet in the end", true, func(x *rundir.Streams) { x.Silence.Ending = 5 }, "stalled", 0.5},
		{"half of them silent", true, func(x *rundir.Streams) { x.Served, x.Silent = 5, 5 }, "connections", 0.5},
		{"half of them quiet in the end", true, func(x *rundir.Streams) { x.Quiet = 5 }, "connections", 1},
		{"gone and refused", true, func(x *rundir.Streams) { x.Away, x.Subscribed = 4, 80 }, "connections", 0.8},
		{"never there", true, func(x *rundir.Streams) { x.Peak, x.Subscribed = 9, 90 }, "subscribers", 0.9},
		{"lost events", false, func(x *rundir.Streams) { x.Lost = 400 }, "", 0.75},
	} {
		s := base()
		if c.stream {
			s.plan.Loop, s.plan.Rate, s.trial.Counts = "stream", nil, rundir.Counts{}
		}
		c.change(s.trial.Streams)
		s.times = merged(s.log)
		_, flags, _ := examine(s)
		var breaks []string
		for _, f := range flags {
			if f.Breaks {
				breaks = append(breaks, f.Kind)
			}
		}
		if got := strings.Join(breaks, " "); got != c.breaks {
			t.Errorf("%s: breaks %q, want %q: %+v", c.name, got, c.breaks, flags)
		}
		if a := availability(s.trial); a == nil || math.Abs(*a-c.served) > 1e-9 {
			t.Errorf("%s: availability %v, want %v", c.name, *a, c.served)
		}
	}
}

// A variant that lost every round is worse, and one that lost some is never equivalent. No
// figure is left that JSON has no number for.
func TestLostRounds(t *testing.T) {
	for _, c := range []struct {
		name     string
		rounds   int
		lost     func(round int, variant string) bool
		verdict  string // of the throughput of b; none: there is no ratio
		estimate float64
		low      float64
		reasons  int
	}{
		{"none", 8, func(int, string) bool { return false }, rundir.Equivalent, 1, 0.99, 0},
		{"all of eight", 8, func(_ int, v string) bool { return v == "b" }, rundir.Worse, 0, 0, 1},
		{"all of three", 3, func(_ int, v string) bool { return v == "b" }, rundir.Worse, 0, 0, 1},
		{"the only one", 1, func(_ int, v string) bool { return v == "b" }, rundir.Worse, 0, 0, 1},
		{"one of eight", 8, func(r int, v string) bool { return v == "b" && r == 3 }, rundir.Inconclusive, 1, 0, 1},
		{"seven of eight", 8, func(r int, v string) bool { return v == "b" && r != 3 }, rundir.Worse, 0, 0, 1},
		{"both in one", 8, func(r int, _ string) bool { return r == 3 }, rundir.Equivalent, 1, 0.98, 0},
		{"the base in one", 8, func(r int, v string) bool { return v == "a" && r == 3 }, rundir.Inconclusive, 1, 0.98, 0},
		{"the base in all", 8, func(_ int, v string) bool { return v == "a" }, "", 0, 0, 0},
	} {
		b := newBench(c.rounds, "a", "b")
		for round := 1; round <= c.rounds; round++ {
			for i, v := range []string{"a", "b"} {
				x := b.measure(round, v, 1000+float64((round*7+i*3)%5))
				b.record(latencies(rand.New(rand.NewPCG(uint64(round), uint64(i))), 2000, 2e6)...)
				if c.lost(round, v) {
					x.Counts = rundir.Counts{Scheduled: 10, Sent: 10, Unfinished: 10}
					*x.Throughput = 0
					b.logs[x.Number] = nil
				}
			}
		}
		run := b.judge(t)
		if _, err := json.Marshal(run); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := len(LostRounds(run)); got != c.reasons {
			t.Errorf("%s: reasons %q", c.name, LostRounds(run))
		}
		at := slices.IndexFunc(run.Comparisons, func(x rundir.Comparison) bool { return x.Metric == rundir.MetricThroughput })
		if at < 0 {
			if c.verdict != "" || len(run.Notes) == 0 {
				t.Errorf("%s: no comparison, notes %q", c.name, run.Notes)
			}
			continue
		}
		x := run.Comparisons[at]
		if x.Verdict != c.verdict || math.Abs(*x.Ratio.Estimate-c.estimate) > 0.01 || x.Ratio.Low == nil || math.Abs(*x.Ratio.Low-c.low) > 0.02 {
			t.Errorf("%s: %s, %v from %v (%s); want %s, %v from %v", c.name, x.Verdict, *x.Ratio.Estimate, *x.Ratio.Low, x.Ratio.Interval, c.verdict, c.estimate, c.low)
		}
		if worse := len(Regressions(run)) > 0; worse != (c.verdict == rundir.Worse) {
			t.Errorf("%s: regressions %+v", c.name, Regressions(run))
		}
		// Of times, a lost round is one as long as the window.
		if c.name == "all of eight" {
			p99 := comparison(t, run, "b", "a", "service.p99")
			if p99.Verdict != rundir.Worse || *p99.Ratio.Estimate < 4/0.1 || p99.Ratio.High != nil {
				t.Errorf("%s: p99 %+v", c.name, p99)
			}
		}
	}
}

// A generator without a CPU cannot tell who was late, and does not blame the target; nor
// does it call the figures good.
func TestStarvedGeneratorBlamesNobody(t *testing.T) {
	late := func(length time.Duration, target bool) []rundir.Stall {
		return []rundir.Stall{{Due: 3 * time.Second, Late: length, Target: target}}
	}
	for _, c := range []struct {
		name   string
		change func(s *subject)
		told   bool
	}{
		{"a generator with a CPU", func(s *subject) { s.trial.Generator.RunQueueWaitShare = new(0.5) }, true},
		{"one that waits for it", func(s *subject) { s.trial.Generator.RunQueueWaitShare = new(0.51) }, false},
		{"one whose CPU the host took", func(s *subject) { s.trial.Generator.StealShare = new(0.6) }, false},
		{"one that waits, in a handful of requests", func(s *subject) {
			s.trial.Generator.RunQueueWaitShare, s.trial.WindowSeconds = new(0.51), 0.049
		}, true},
		{"one that was stopped", func(s *subject) { s.stalls = late(6*time.Second, false) }, false},
		{"one that was stopped for a while", func(s *subject) { s.stalls = late(4*time.Second, false) }, true},
		{"a target that was stopped", func(s *subject) { s.stalls = late(6*time.Second, true) }, true},
	} {
		s := soundOpen()
		s.trial.Counts.Sent, s.trial.Counts.Dropped, s.trial.Counts.OK = 9_000, 1000, 9_000
		c.change(&s)
		checks, flags, _ := examine(s)
		var spoilt, broken []string
		for _, f := range flags {
			switch {
			case f.Breaks:
				broken = append(broken, f.Kind)
			case f.Spoils && slices.Contains(f.Biases, biasAll):
				spoilt = append(spoilt, f.Kind)
			}
		}
		outcome := checks[slices.IndexFunc(checks, func(k rundir.Check) bool { return k.Kind == FlagDrops })].Outcome
		if c.told && (!slices.Equal(broken, []string{FlagDrops}) || spoilt != nil || outcome != rundir.CheckBroken) {
			t.Errorf("%s: %v, %v, %s", c.name, broken, spoilt, outcome)
		}
		if !c.told && (broken != nil || !slices.Equal(spoilt, []string{FlagGeneratorStarved}) || outcome != rundir.CheckUnknown) {
			t.Errorf("%s: %v, %v, %s", c.name, broken, spoilt, outcome)
		}
	}
	// What was answered badly was read.
	for bad, certain := range map[int64]bool{10_000: true, 5_000: false} {
		s := soundOpen()
		s.trial.Counts.Sent, s.trial.Counts.OK, s.trial.Counts.CompletedInWindow = 10_000, 0, 0
		s.trial.Counts.Errors, s.trial.Counts.ByKind = 10_000, map[string]int64{"status": bad, "read": 10_000 - bad}
		s.trial.Silence = rundir.Silence{Longest: 10, From: 2, Ending: 10}
		s.trial.Generator.RunQueueWaitShare = new(0.9)
		_, flags, _ := examine(s)
		kinds := map[string]bool{}
		for _, f := range flags {
			kinds[f.Kind] = true
		}
		if kinds[FlagNoAnswers] != certain || kinds[FlagStalled] != certain || kinds[FlagGeneratorStarved] == certain {
			t.Errorf("%d answered badly: %v", bad, kinds)
		}
	}
	// That its process ended, nobody has to read.
	s := soundOpen()
	s.trial.Complete, s.trial.Fault, s.trial.Error = false, rundir.FaultTarget, "it ended"
	s.trial.Generator.RunQueueWaitShare = new(0.9)
	if _, flags, _ := examine(s); len(flags) != 1 || !flags[0].Breaks {
		t.Errorf("a target that ended: %+v", flags)
	}
}

// A response that is larger than the generator takes is an answer: the target is found neither
// silent nor hung, its round is not lost, and the figures are worth nothing.
func TestOwnLimit(t *testing.T) {
	t.Parallel()
	s := soundClosed()
	s.trial.Counts = rundir.Counts{Scheduled: 20, Sent: 20, Errors: 20, ByKind: map[string]int64{"limit": 20}}
	s.trial.Failures = map[string]int64{"limit: message of 5000000 bytes": 20}
	s.trial.Silence = rundir.Silence{Longest: 10, From: 2, Ending: 10, Failing: 20}
	s.trial.Connections = rundir.Connections{Requested: 2, Opened: 2, Peak: 2, Hung: 2, HungSeconds: 20}
	_, flags, _ := examine(s)
	var found []string
	for _, f := range flags {
		if f.Breaks || f.Spoils && slices.Contains(f.Biases, biasAll) {
			found = append(found, f.Kind+": "+f.Detail)
		}
	}
	if want := []string{"own_limit: answers were larger than dyno takes (20): message of 5000000 bytes"}; !slices.Equal(found, want) {
		t.Errorf("%q, want %q", found, want)
	}
	if s.trial.Lost() {
		t.Error("its round is lost")
	}
	if n := limited(&rundir.Trial{Failures: map[string]int64{"subscriber: limit: line longer than the limit": 3}}); n != 3 {
		t.Errorf("%d responses to subscribers", n)
	}

	b := newBench(1, "a")
	x := b.measure(1, "a", 0)
	x.Counts, x.Failures = s.trial.Counts, s.trial.Failures
	b.record(time.Millisecond)
	if run := b.judge(t); run.Valid || !strings.Contains(run.Reason, "message of 5000000 bytes") || len(Breaking(run)) > 0 {
		t.Errorf("valid %v, %q, %v", run.Valid, run.Reason, Breaking(run))
	}
}
