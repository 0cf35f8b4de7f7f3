package checks

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/verdict/recording"
	"dyno/load/wire"
	"dyno/results/rundir"
)

// Silence is the worst result, not a missing one. The checks below look for targets that
// did not answer, in whole or in part. They make no figure wrong: a window without
// answers has a throughput of zero. So these checks do not make a trial invalid. They
// break it: they say that the target did not do what was asked of it.

// The limits on silence.
const (
	// A target has stalled if it answered nothing under live load for the longest of three
	// times: StallFloor, StallFactor times the p99 of its answers, and StallArrivals times
	// the mean time between two requests.
	StallFloor    = 1.0 // seconds
	StallFactor   = 100
	StallArrivals = 10
	// A request counts as unanswered if it timed out, or was unfinished at the end, after
	// StallFloor. If UnansweredFactor times the p99 of the answers is more, that is the
	// limit.
	UnansweredFactor = 10
	// A target has ended if it no longer answered when the measurement ended: at least
	// FailingRow requests in a row failed, for FailingFloor or FailingFactor times the
	// median of its answers. With FailingShare of all requests it has ended however slow its
	// answers were.
	FailingRow    = 10
	FailingFloor  = 0.1 // seconds
	FailingFactor = 10
	FailingShare  = 0.1
	// Subscribers had gone silent when the window ended if they heard nothing for
	// QuietFloor. If QuietFactor times the longest time between two earlier events is more,
	// that is the limit.
	QuietFloor  = 0.25 // seconds
	QuietFactor = 3
	// A subscriber to events that the target makes itself is found silent when others
	// received QuietEvents of them each.
	QuietEvents = 10
	// A generator may have had no CPU for more than AwayGenerator of the window. It then
	// cannot tell whether a target answered too late or it read too late.
	AwayGenerator = 0.5
)

// checkSilence looks for a target that did not answer.
func (x *examination) checkSilence() {
	x.resources()
	x.limits()
	if !x.OnlySubscribers() {
		x.answers()
		x.stalled()
		x.served()
	}
	if x.Trial.Streams != nil {
		x.events()
		x.quiet()
		x.subscribed()
	}
}

// breaks records a finding about the target, or that there is no finding.
func (x *examination) breaks(kind string, measured, limit float64, found bool, what *rundir.Message) {
	c := rundir.Check{Kind: kind, Measured: &measured, Limit: &limit, Outcome: rundir.CheckOK}
	if found {
		c.Outcome, c.Detail = rundir.CheckBroken, what
	}
	x.add(c)
}

// away is the share of the window in which the generator could not run. It waited for a CPU,
// the hypervisor had it, or a sleeper on the CPU noticed a standstill. Answers that it did not
// read then look like missing answers. A generator that shares its target's CPUs waits for the
// target, and the target is the cause. In a window of a handful of requests this share means
// nothing.
func (x *examination) away() (share float64) {
	g := x.Trial.Generator
	if x.SharesCPUs() || x.Trial.WindowSeconds < ShortestBusy.Seconds() {
		return 0
	}
	if g.RunQueueWaitShare != nil {
		share = *g.RunQueueWaitShare
	}
	stalledShare := 0.0
	for _, stall := range x.Stalls {
		if !stall.Target && x.StallInWindow(stall) {
			stalledShare += x.Delayed(stall) * stall.Late.Seconds() / x.Trial.WindowSeconds
		}
	}
	return min(max(share, recording.StolenShare(x.Trial, g.StealShare), stalledShare), 1)
}

// attributable tells whether a finding is the target's doing however late the generator was: its
// process ended, or it answered most of what was due, and all of that badly.
func (x *examination) attributable(kind string) bool {
	c := &x.Trial.Counts
	return kind == FlagIncomplete || (kind == FlagNoAnswers || kind == FlagStalled) && 2*(c.ByKind[wire.Status.String()]+c.ByKind[wire.Assertion.String()]) > c.Due()
}

// checkAttributable judges whether missing answers can be attributed to the target.
func (x *examination) checkAttributable() {
	if len(x.unattributed) == 0 {
		return
	}
	var checks []rundir.Message
	for _, kind := range x.unattributed {
		checks = append(checks, texts.New("cause", "cause", kind))
	}
	found := texts.New("found.generator_starved", "share", units.Percent(x.away())).With("checks", texts.Once(checks...)...)
	x.compare(FlagGeneratorStarved, x.away(), AwayGenerator, rundir.CheckDisturbed, &found)
}

// exhausted counts what dyno could not do because it had run out of descriptors, ports or
// memory.
func exhausted(t *rundir.Trial) int64 {
	n := t.Counts.Generator + t.Counts.Unsent + t.Counts.Carried.Generator + t.Counts.Carried.Unsent + t.Connections.Generator
	if t.Streams != nil {
		n += t.Streams.Generator
	}
	return n
}

// resources judges whether the generator had the descriptors, ports and memory that it
// needed. Requests that it could not send without them are no errors of the target.
func (x *examination) resources() {
	var why []string
	for text := range x.Trial.Failures {
		if kind, what, ok := strings.Cut(text, ": "); ok && strings.TrimPrefix(kind, "subscriber: ") == "generator" {
			why = append(why, what)
		}
	}
	found := new(texts.New("found.generator_resources", "n", units.Digits(exhausted(x.Trial))))
	if len(why) > 0 {
		found.Kind, found.Values["error"] = "found.generator_resources.why", strings.Join(slices.Compact(slices.Sorted(slices.Values(why))), "; ")
	}
	x.compare(FlagGeneratorResources, float64(exhausted(x.Trial)), 0, rundir.CheckDisturbed, found)
}

// limited counts the responses that were larger than the generator takes. The target gave them.
func limited(t *rundir.Trial) int64 {
	n := t.Counts.ByKind[wire.Limit.String()]
	for text, times := range t.Failures {
		if strings.HasPrefix(text, "subscriber: "+wire.Limit.String()+": ") {
			n += times
		}
	}
	return n
}

// limits judges whether the generator took all responses, whatever their size.
func (x *examination) limits() {
	found := new(texts.New("found.own_limit", "n", units.Whole(limited(x.Trial))))
	found.Values["error"] = mostFrequent(x.Trial.Failures, wire.Limit)
	x.compare(FlagOwnLimit, float64(limited(x.Trial)), 0, rundir.CheckDisturbed, found)
}

// mostFrequent returns what the most frequent failures of some kinds say. Of a status it is what
// the target says about it, if anything.
func mostFrequent(failures map[string]int64, kinds ...wire.Kind) (said string) {
	most := int64(0)
	for text, n := range failures {
		text = strings.TrimPrefix(text, "subscriber: ")
		for _, kind := range kinds {
			what, ok := strings.CutPrefix(text, kind.String()+": ")
			if ok && kind == wire.Status {
				_, what, ok = strings.Cut(what, ": ")
			}
			if ok && (n > most || n == most && what < said) {
				said, most = what, n
			}
		}
	}
	return said
}

// answers judges whether there was any good response in the window.
func (x *examination) answers() {
	c := &x.Trial.Counts
	if c.Due() <= 0 && c.CompletedInWindow == 0 {
		x.unknown(FlagNoAnswers, new(texts.New("unchecked.no_due")))
		return
	}
	none := c.CompletedInWindow == 0 && (c.Answered() == 0 || x.Trial.Silence.Longest > x.silenceLimit())
	found := x.nothing("found.no_answers", "time", units.ShortTime(x.Trial.WindowSeconds), "due", units.Digits(c.Due()))
	if bad := x.badAnswers(); c.Answered() == 0 && bad != "" {
		found = new(texts.New("found.no_good_answers", "answers", bad))
	}
	if last := x.Trial.Silence.Last; none && last != nil && *last < x.Trial.WarmupSeconds {
		found.Kind, found.Values["before"] = "found.no_answers.before", units.ShortTime(x.Trial.WarmupSeconds-*last)
	}
	x.breaks(FlagNoAnswers, float64(c.CompletedInWindow), 1, none, found)
}

// mostStatuses is how many statuses a sentence names.
const mostStatuses = 3

// badAnswers lists the statuses of the responses if none was good, such as 404 × 62,225; empty
// without any response. It adds what the most frequent failure says.
func (x *examination) badAnswers() string {
	c := &x.Trial.Counts
	if c.ByKind[wire.Status.String()]+c.ByKind[wire.Assertion.String()] == 0 {
		return ""
	}
	statuses := slices.SortedFunc(maps.Keys(c.ByStatus), func(a, b string) int {
		return cmp.Or(-cmp.Compare(c.ByStatus[a], c.ByStatus[b]), cmp.Compare(a, b))
	})
	var parts []string
	for i, status := range statuses {
		if i == mostStatuses {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, status+" × "+units.Whole(c.ByStatus[status]))
	}
	said := mostFrequent(x.Trial.Failures, wire.Status, wire.Assertion)
	switch list := strings.Join(parts, ", "); {
	case list == "": // of a protocol without statuses
		return said
	case said == "":
		return list
	default:
		return list + " (" + said + ")"
	}
}

// nothing is a sentence about a target that gave no good response. It says what the
// target did instead.
func (x *examination) nothing(kind string, pairs ...string) *rundir.Message {
	did := texts.New("nothing")
	if k := x.Trial.Counts.ByKind; k[wire.Status.String()]+k[wire.Assertion.String()] > 0 {
		did = texts.New("nothing.well")
	}
	return new(texts.New(kind, pairs...).With("nothing", did))
}

// goodQuantile is a quantile, in seconds, of the times of good responses; 0 where there
// are none. Requests that timed out or were unfinished are recorded together with them,
// with the time that they had taken. They are assumed to be the longest.
func (x *examination) goodQuantile(q float64) float64 {
	tag := rundir.TagService
	if x.Open() {
		tag = rundir.TagResponse
	}
	h, good := x.Times[tag], x.Trial.Counts.OK
	if h == nil || h.Count() == 0 || good <= 0 {
		return 0
	}
	return recording.Seconds(float64(h.Quantile(q * min(1, float64(good)/float64(h.Count())))))
}

// silenceLimit is how long, in seconds, a target may answer nothing under live load.
func (x *examination) silenceLimit() float64 {
	limit := max(StallFloor, StallFactor*x.goodQuantile(0.99))
	if due := x.Trial.Counts.Due(); due > 0 {
		limit = max(limit, StallArrivals*x.Trial.WindowSeconds/float64(due))
	}
	return limit
}

// unanswered counts the requests that timed out, or were unfinished at the end, after
// longer than age seconds. This is the limit by StallFloor and UnansweredFactor.
func (x *examination) unanswered() (age float64, n int64) {
	tag := rundir.TagService
	if x.Open() {
		tag = rundir.TagResponse
	}
	h, given := x.Times[tag], x.Trial.Counts.Timeouts+x.Trial.Counts.Unfinished
	limit := max(StallFloor, UnansweredFactor*x.goodQuantile(0.99))
	if h == nil || given == 0 {
		return 0, 0
	}
	return limit, min(given, h.Count()-h.CountAtOrBelow(int64(min(limit, 3600)*1e9)))
}

// stalled judges the longest time without a good response, and the end of the
// measurement.
func (x *examination) stalled() {
	s, limit := x.Trial.Silence, x.silenceLimit()
	end := x.Trial.WarmupSeconds + x.Trial.WindowSeconds
	failing := FailingFloor
	if s.Failing < FailingRow || float64(s.Failing) < FailingShare*float64(x.Trial.Counts.Sent) {
		failing = max(failing, FailingFactor*x.goodQuantile(0.5))
	}
	within := x.nothing("found.stalled", "time", units.ShortTime(s.Longest), "from", units.ShortTime(max(0, s.From-x.Trial.WarmupSeconds)))
	switch {
	case s.Ending > limit && s.Last != nil && *s.Last > end-failing:
		// Requests that wait after the window, when no more is sent, are judged by
		// connections.
		x.breaks(FlagStalled, s.Longest, limit, s.Longest > limit, within)
	case s.Ending > limit && s.Last != nil:
		begun := max(x.Trial.WarmupSeconds, *s.Last)
		found := x.nothing("found.stalled.last", "time", units.ShortTime(end-begun))
		if beyond := s.Ending - (end - begun); beyond >= FailingFloor {
			found.Kind, found.Values["behind"] = "found.stalled.behind", units.ShortTime(beyond)
		}
		x.breaks(FlagStalled, s.Ending, limit, true, found)
	case s.Ending > limit:
		x.breaks(FlagStalled, s.Ending, limit, true, x.nothing("found.stalled.end", "time", units.ShortTime(s.Ending)))
	case s.Failing >= FailingRow && s.Ending > failing:
		x.breaks(FlagStalled, s.Ending, failing, true,
			x.nothing("found.stalled.failing", "time", units.ShortTime(s.Ending), "n", units.Digits(s.Failing)))
	default:
		x.breaks(FlagStalled, s.Longest, limit, s.Longest > limit, within)
	}
}

// served judges whether each connection that sent a request got an answer.
func (x *examination) served() {
	c := x.Trial.Connections
	asked := c.Peak
	if !x.Open() {
		asked = c.Requested
	}
	opened := min(c.Opened, asked)
	few := opened < asked
	asked = max(asked, c.Served+c.Unanswered)
	if c.Unanswered == 0 && c.Hung > 0 && c.HungSeconds/float64(c.Hung) > x.silenceLimit() {
		x.breaks(FlagConnections, float64(c.Hung), 0, exhausted(x.Trial) == 0,
			new(texts.New("found.connections.hung", "n", units.Digits(c.Hung), "of", units.Digits(asked))))
		return
	}
	found := new(texts.New("found.connections", "n", units.Digits(c.Unanswered), "of", units.Digits(asked)))
	if few {
		found.Kind, found.Values["opened"] = "found.connections.opened", units.Digits(opened)
	}
	x.breaks(FlagConnections, float64(c.Unanswered), 0, c.Unanswered > 0 && exhausted(x.Trial) == 0, found)
}

// events judges whether anything reached the subscribers in the window.
func (x *examination) events() {
	s := x.Trial.Streams
	published := x.Trial.Counts.OK
	switch {
	case !x.OnlySubscribers():
		x.breaks(FlagNoAnswers, float64(s.Delivered), 1, s.Delivered == 0 && published > 0,
			new(texts.New("found.no_answers.events", "n", units.Digits(s.Requested), "published", units.Digits(published))))
	case s.Served == 0 && s.Silence.Last == nil:
		x.unknown(FlagNoAnswers, new(texts.New("unchecked.no_events")))
	default:
		x.breaks(FlagNoAnswers, float64(s.Served), 1, s.Served == 0,
			new(texts.New("found.no_answers.subscribers", "n", units.Digits(s.Requested), "time", units.ShortTime(x.Trial.WindowSeconds))))
	}
}

// quiet judges whether events continued to the window's end.
func (x *examination) quiet() {
	s, longest := &x.Trial.Streams.Silence, 0.0
	if h := x.Times[rundir.TagEventGap]; h != nil && h.Count() > 0 {
		longest = recording.Seconds(float64(h.Max()))
	}
	limit := max(QuietFloor, QuietFactor*longest)
	if longest == 0 {
		limit = math.Inf(1) // how often there are events is not known
	}
	if !x.OnlySubscribers() {
		limit = max(limit, x.silenceLimit()) // there is an event when one is published
	}
	if math.IsInf(limit, 1) {
		x.unknown(FlagStalled, new(texts.New("unchecked.event_gaps")))
		return
	}
	x.breaks(FlagStalled, s.Ending, limit, s.Ending > limit,
		new(texts.New("found.stalled.subscribers", "time", units.ShortTime(s.Ending))))
}

// subscribed judges whether each subscriber was served.
func (x *examination) subscribed() {
	s := x.Trial.Streams
	missing := s.Away
	if n := silent(x.Trial); n > 0 {
		missing += n
	}
	// If no subscriber hears anything any more, the target has stalled.
	if missing == 0 && s.Quiet > 0 && s.Quiet < s.Served {
		x.breaks(FlagConnections, float64(s.Quiet), 0, true,
			new(texts.New("found.connections.quiet", "n", units.Digits(s.Quiet), "of", units.Digits(s.Requested))))
		return
	}
	x.breaks(FlagConnections, float64(missing), 0, missing > 0 && exhausted(x.Trial) == 0,
		new(texts.New("found.connections.subscribers", "of", units.Digits(s.Requested), "silent", units.Digits(silent(x.Trial)), "away", units.Digits(s.Away))))
}
