package checks

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"dyno/judge/verdict/recording"
	"dyno/load/hist"
	"dyno/results/rundir"
	"dyno/results/rundir/series"
)

// What is about the target breaks, and disturbs no figure; what is about the generator disturbs
// them, and is none of the target's errors.
func TestDeadTargets(t *testing.T) {
	dead := func(s *recording.Recording) { // since the second before the window
		s.Log = nil
		s.Trial.Counts = rundir.Counts{Carried: rundir.Carried{Scheduled: 16, Unfinished: 16}}
		s.Trial.Connections = rundir.Connections{Requested: 16, Opened: 16, Peak: 16, Unanswered: 16}
		s.Trial.Silence = rundir.Silence{Longest: 10, From: 2, Last: new(1.0), Ending: 13}
	}
	for _, c := range []struct {
		name   string
		sound  func() recording.Recording
		change func(s *recording.Recording)
		breaks string // kinds
		ratio  float64
		served float64 // availability
		says   string
	}{
		{"sound", soundClosed, func(*recording.Recording) {}, "", 0, 1, ""},
		{"dead before the window", soundClosed, dead, "no_answers stalled connections", 1, 0,
			"the target answered nothing in the window of 10 s, in which requests were due: 16; its last good response came 1 s before"},
		{"silent in the end", soundClosed, func(s *recording.Recording) {
			s.Trial.Counts.Scheduled, s.Trial.Counts.Sent, s.Trial.Counts.Unfinished = 10_016, 10_016, 16
			s.Trial.Silence = rundir.Silence{Longest: 2.1, From: 9.9, Last: new(9.9), Ending: 4.1}
			s.Trial.Connections = rundir.Connections{Requested: 40, Opened: 40, Peak: 40, Served: 20, Unanswered: 20}
		}, "stalled connections", 16. / 10_016, 10_000. / 10_016, "the target answered nothing for the last 2.1 s of the window, and for 2 s after it"},
		{"a stall", soundClosed, func(s *recording.Recording) {
			s.Trial.Silence = rundir.Silence{Longest: 1.1, From: 5, Last: new(12.)}
		}, "stalled", 0, 1, "the target answered nothing for 1.1 s, from 3 s into the window on"},
		{"a pause", soundClosed, func(s *recording.Recording) { s.Trial.Silence = rundir.Silence{Longest: 0.9, From: 5, Last: new(12.)} }, "", 0, 1, ""},
		{"a pause of a slow target", soundClosed, func(s *recording.Recording) {
			slow(s, rundir.TagService, 20, 30e6)
			s.Trial.Silence = rundir.Silence{Longest: 2.9, From: 5, Last: new(12.)}
		}, "", 0, 1, ""},
		{"a pause between rare requests", soundOpen, func(s *recording.Recording) {
			s.Plan.Rate, s.Log = new(1.), nil
			s.Trial.Counts = rundir.Counts{Scheduled: 10, Sent: 10, OK: 10, CompletedInWindow: 10}
			s.Trial.Silence = rundir.Silence{Longest: 9, From: 2, Last: new(11.)}
		}, "", 0, 1, ""},
		{"refused in the last half second", soundClosed, func(s *recording.Recording) {
			s.Trial.Counts.Scheduled, s.Trial.Counts.Sent, s.Trial.Counts.Errors = 10_040, 10_040, 40
			s.Trial.Silence = rundir.Silence{Longest: 0.5, From: 11.5, Last: new(11.5), Ending: 0.5, Failing: 40}
		}, "stalled", 40. / 10_040, 10_000. / 10_040, "40 requests in a row failed"},
		{"refused by a slow target in the end", soundClosed, func(s *recording.Recording) {
			slow(s, rundir.TagService, 900, 300e6)
			s.Trial.Counts.Scheduled, s.Trial.Counts.Sent, s.Trial.Counts.Errors = 12_000, 12_000, 2000
			s.Trial.Silence = rundir.Silence{Longest: 0.9, From: 11.1, Last: new(11.1), Ending: 0.9, Failing: 2000}
		}, "stalled", 2000. / 12_000, 10_000. / 12_000, "2000 requests in a row failed"},
		{"a slow target that refused few in the end", soundClosed, func(s *recording.Recording) {
			slow(s, rundir.TagService, 900, 300e6)
			s.Trial.Counts.Scheduled, s.Trial.Counts.Sent, s.Trial.Counts.Errors = 10_040, 10_040, 40
			s.Trial.Silence = rundir.Silence{Longest: 0.9, From: 11.1, Last: new(11.1), Ending: 0.9, Failing: 40}
		}, "", 40. / 10_040, 10_000. / 10_040, ""},
		{"some drops", soundOpen, func(s *recording.Recording) {
			s.Trial.Counts.Sent, s.Trial.Counts.Dropped, s.Trial.Counts.OK = 9_000, 1000, 9_000
		},
			"drops", 0.1, 0.9, "1000 of 10000 requests were dropped"},
		{"statuses", soundClosed, func(s *recording.Recording) {
			s.Trial.Counts = rundir.Counts{Scheduled: 100, Sent: 100, Errors: 100, ByKind: map[string]int64{"status": 100}}
		}, "no_answers", 1, 0, "the target gave no good response"},
		{"one status", soundClosed, func(s *recording.Recording) {
			s.Trial.Counts = rundir.Counts{Scheduled: 62_225, Sent: 62_225, Errors: 62_225, ByKind: map[string]int64{"status": 62_225}, ByStatus: map[string]int64{"404": 62_225}}
			s.Trial.Failures = map[string]int64{"status: status 404": 62_225}
		}, "no_answers", 1, 0, "no good answers: 404 × 62,225"},
		{"statuses with a reason", soundClosed, func(s *recording.Recording) {
			s.Trial.Counts = rundir.Counts{Scheduled: 50, Sent: 50, Errors: 50, ByKind: map[string]int64{"status": 50}, ByStatus: map[string]int64{"503": 30, "400": 20}}
			s.Trial.Failures = map[string]int64{"status: status 400: no such model": 20, "status: status 503": 30}
		}, "no_answers", 1, 0, "no good answers: 503 × 30, 400 × 20 (no such model)"},
		{"answers without a status", soundClosed, func(s *recording.Recording) {
			s.Trial.Counts = rundir.Counts{Scheduled: 50, Sent: 50, Errors: 50, ByKind: map[string]int64{"assertion": 50}}
			s.Trial.Failures = map[string]int64{"assertion: the echo differs from what was sent": 50}
		}, "no_answers", 1, 0, "no good answers: the echo differs from what was sent"},
		{"the generator's own want", soundOpen, func(s *recording.Recording) {
			s.Trial.Counts = rundir.Counts{Scheduled: 10_000, Sent: 9_900, Dropped: 100, Unsent: 100, OK: 9_700, Generator: 200, CompletedInWindow: 9_700}
			s.Trial.Connections = rundir.Connections{Failed: 5, Generator: 5, Unanswered: 3}
			s.Trial.Failures = map[string]int64{"generator: too many open files": 200}
		}, "", 0, 1, ""},
		{"ended by itself", soundClosed, func(s *recording.Recording) {
			s.Trial.Complete, s.Trial.Fault, s.Trial.Error = false, rundir.FaultTarget, "target x: exited"
			s.Trial.Counts.Missed = 10_000
		}, "incomplete", 0.5, 0.5, "target x: exited"},
	} {
		s := c.sound()
		c.change(&s)
		s.Times = recording.Merged(s.Log)
		checks, flags, _ := Examine(s)
		var breaks, said []string
		for _, f := range flags {
			if f.Breaks {
				breaks, said = append(breaks, f.Kind), append(said, f.Detail.English())
				if f.Disturbs || f.About != rundir.AboutTarget {
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
			return f.Kind == FlagGeneratorResources && f.Disturbs && f.About == rundir.AboutGenerator && strings.Contains(f.Detail.English(), "too many open files")
		})
		if own != (exhausted(s.Trial) > 0) {
			t.Errorf("%s: checks %+v", c.name, checks)
		}
		_, ratio := s.Trial.Counts.Failures()
		a := Availability(s.Trial)
		if ratio == nil || math.Abs(*ratio-c.ratio) > 1e-12 || a == nil || math.Abs(*a-c.served) > 1e-12 {
			t.Errorf("%s: errors.ratio %v of %d, availability %v; want %v and %v", c.name, *ratio, s.Trial.Counts.Due(), *a, c.ratio, c.served)
		}
	}
}

func TestDeadStreams(t *testing.T) {
	base := func() recording.Recording {
		s := soundOpen()
		s.Trial.Streams = &rundir.Streams{
			Requested: 10, Opened: 10, Peak: 10, Delivered: 1000, AllDelivered: 1200, Served: 10, Subscribed: 100,
			Silence: rundir.Silence{Last: new(12.)},
		}
		for i := range 10 {
			s.Log = append(s.Log, hist.Interval{Tag: rundir.TagEventGap, Start: time.Duration(2+i) * time.Second, Length: time.Second, Hist: many(100, 100*time.Millisecond)})
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
			s.Plan.Loop, s.Plan.Rate, s.Trial.Counts = "stream", nil, rundir.Counts{}
		}
		c.change(s.Trial.Streams)
		s.Times = recording.Merged(s.Log)
		_, flags, _ := Examine(s)
		var breaks []string
		for _, f := range flags {
			if f.Breaks {
				breaks = append(breaks, f.Kind)
			}
		}
		if got := strings.Join(breaks, " "); got != c.breaks {
			t.Errorf("%s: breaks %q, want %q: %+v", c.name, got, c.breaks, flags)
		}
		if a := Availability(s.Trial); a == nil || math.Abs(*a-c.served) > 1e-9 {
			t.Errorf("%s: availability %v, want %v", c.name, *a, c.served)
		}
	}
}

// A generator without a CPU cannot tell who was late, and does not blame the target; nor
// does it call the figures good.
func TestStarvedGeneratorFindsNoFault(t *testing.T) {
	late := func(length time.Duration, target bool) []series.Stall {
		return []series.Stall{{Due: 3 * time.Second, Late: length, Target: target}}
	}
	for _, c := range []struct {
		name            string
		change          func(s *recording.Recording)
		isTargetAtFault bool
	}{
		{"a generator with a CPU", func(s *recording.Recording) { s.Trial.Generator.RunQueueWaitShare = new(0.5) }, true},
		{"one that waits for it", func(s *recording.Recording) { s.Trial.Generator.RunQueueWaitShare = new(0.51) }, false},
		{"one whose CPU the host took", func(s *recording.Recording) { s.Trial.Generator.StealShare = new(0.6) }, false},
		{"one that waits, in a handful of requests", func(s *recording.Recording) {
			s.Trial.Generator.RunQueueWaitShare, s.Trial.WindowSeconds = new(0.51), 0.049
		}, true},
		{"one that was stopped", func(s *recording.Recording) { s.Stalls = late(6*time.Second, false) }, false},
		{"one that was stopped for a while", func(s *recording.Recording) { s.Stalls = late(4*time.Second, false) }, true},
		{"a target that was stopped", func(s *recording.Recording) { s.Stalls = late(6*time.Second, true) }, true},
	} {
		s := soundOpen()
		s.Trial.Counts.Sent, s.Trial.Counts.Dropped, s.Trial.Counts.OK = 9_000, 1000, 9_000
		c.change(&s)
		checks, flags, _ := Examine(s)
		var disturbed, broken []string
		for _, f := range flags {
			switch {
			case f.Breaks:
				broken = append(broken, f.Kind)
			case f.Disturbs && slices.Contains(f.Biases, BiasAll):
				disturbed = append(disturbed, f.Kind)
			}
		}
		outcome := checks[slices.IndexFunc(checks, func(k rundir.Check) bool { return k.Kind == FlagDrops })].Outcome
		if c.isTargetAtFault && (!slices.Equal(broken, []string{FlagDrops}) || disturbed != nil || outcome != rundir.CheckBroken) {
			t.Errorf("%s: %v, %v, %s", c.name, broken, disturbed, outcome)
		}
		if !c.isTargetAtFault && (broken != nil || !slices.Equal(disturbed, []string{FlagGeneratorStarved}) || outcome != rundir.CheckUnknown) {
			t.Errorf("%s: %v, %v, %s", c.name, broken, disturbed, outcome)
		}
	}
	// What was answered badly was read.
	for bad, attributable := range map[int64]bool{10_000: true, 5_000: false} {
		s := soundOpen()
		s.Trial.Counts.Sent, s.Trial.Counts.OK, s.Trial.Counts.CompletedInWindow = 10_000, 0, 0
		s.Trial.Counts.Errors, s.Trial.Counts.ByKind = 10_000, map[string]int64{"status": bad, "read": 10_000 - bad}
		s.Trial.Silence = rundir.Silence{Longest: 10, From: 2, Ending: 10}
		s.Trial.Generator.RunQueueWaitShare = new(0.9)
		_, flags, _ := Examine(s)
		kinds := map[string]bool{}
		for _, f := range flags {
			kinds[f.Kind] = true
		}
		if kinds[FlagNoAnswers] != attributable || kinds[FlagStalled] != attributable || kinds[FlagGeneratorStarved] == attributable {
			t.Errorf("%d answered badly: %v", bad, kinds)
		}
	}
	// That its process ended is known without reading its answers.
	s := soundOpen()
	s.Trial.Complete, s.Trial.Fault, s.Trial.Error = false, rundir.FaultTarget, "it ended"
	s.Trial.Generator.RunQueueWaitShare = new(0.9)
	if _, flags, _ := Examine(s); len(flags) != 1 || !flags[0].Breaks {
		t.Errorf("a target that ended: %+v", flags)
	}
}

// A response that is larger than the generator takes is an answer: the target is found neither
// silent nor hung, its round is not lost, and the figures are worth nothing.
func TestOwnLimit(t *testing.T) {
	s := soundClosed()
	s.Trial.Counts = rundir.Counts{Scheduled: 20, Sent: 20, Errors: 20, ByKind: map[string]int64{"limit": 20}}
	s.Trial.Failures = map[string]int64{"limit: message of 5000000 bytes": 20}
	s.Trial.Silence = rundir.Silence{Longest: 10, From: 2, Ending: 10, Failing: 20}
	s.Trial.Connections = rundir.Connections{Requested: 2, Opened: 2, Peak: 2, Hung: 2, HungSeconds: 20}
	_, flags, _ := Examine(s)
	var found []string
	for _, f := range flags {
		if f.Breaks || f.Disturbs && slices.Contains(f.Biases, BiasAll) {
			found = append(found, f.Kind+": "+f.Detail.English())
		}
	}
	if want := []string{"own_limit: answers were larger than dyno takes (20): message of 5000000 bytes"}; !slices.Equal(found, want) {
		t.Errorf("%q, want %q", found, want)
	}
	if s.Trial.Lost() {
		t.Error("its round is lost")
	}
	if n := limited(&rundir.Trial{Failures: map[string]int64{"subscriber: limit: line longer than the limit": 3}}); n != 3 {
		t.Errorf("%d responses to subscribers", n)
	}
}

// A load that sends nothing is not late with it. Its evenness is that of the events.
func TestEventsOfTheTargetsOwn(t *testing.T) {
	s := soundClosed()
	s.Plan.Loop, s.Plan.Connections, s.Plan.Subscribers = "stream", 0, 100
	s.Trial.Counts = rundir.Counts{}
	s.Trial.Streams = &rundir.Streams{Requested: 100, Peak: 100}
	for i := range s.Log {
		if s.Log[i].Tag == rundir.TagResponse {
			s.Log[i].Tag = rundir.TagEventGap
		}
	}
	s.Times = recording.Merged(s.Log)
	checks, flags, _ := Examine(s)
	if len(flags) > 0 {
		t.Errorf("flags %s", raised(flags))
	}
	for _, c := range checks {
		switch c.Kind {
		case FlagGeneratorLagTail, FlagUnfinished:
			t.Errorf("%s was checked: %+v", c.Kind, c)
		case FlagNotSteady:
			if c.Outcome != rundir.CheckOK {
				t.Errorf("%+v", c)
			}
		}
	}
}

// A generator on its target's CPUs waits for the target, which says nothing about the machine.
func TestSharedCPUsAreNoSign(t *testing.T) {
	s := soundClosed()
	s.Trial.Generator.RunQueueWaitShare, s.Trial.Generator.CPUShare = new(0.7), new(0.3)
	s.Trial.Machine.LateWakeupShare = new(0.3)
	if _, flags, _ := Examine(s); len(flags) == 0 {
		t.Fatal("alone, a starved generator is no finding")
	}
	s.Trial.Duet = &rundir.Duet{Peer: "b", Shared: true}
	if _, flags, _ := Examine(s); len(flags) > 0 {
		t.Errorf("%+v", flags)
	}
}
