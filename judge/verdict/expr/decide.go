package expr

import (
	"math"
	"slices"
	"strings"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/results/rundir"
)

// BrokenAsMeasured is the kind of the detail of a threshold that is not broken for sure.
const BrokenAsMeasured = "unsure.broken"

// DecideThreshold decides a threshold: for each variant, or once when it names its
// variants. It is kept or broken when the whole interval says so. Otherwise the measured
// figures decide, and the detail says what makes them unsure: a threshold is then kept as
// measured, or broken. It is inconclusive only in three cases: a figure is missing, the text
// does not compile, or dyno itself may have broken it. No number of requests shows that
// something never happens: a limit of zero is one for the figures of the run.
func DecideThreshold(text string, names Names, ev Evidence) []rundir.Threshold {
	e, err := Compile(text, ForThreshold, names)
	if err != nil {
		why := new(texts.New("undecided.expression", "error", oneLine(err)))
		return []rundir.Threshold{{Text: text, Outcome: rundir.Undecided, Detail: why}}
	}
	variants := []string{""}
	if e.perVariant {
		variants = names.Variants
	}
	var decided []rundir.Threshold
	for _, variant := range variants {
		on := &evaluation{Evidence: ev, variant: variant, byEstimate: true}
		asMeasured := &evaluation{Evidence: estimates{ev, func(Ref) bool { return false }}, variant: variant}
		if e.bound != nil && e.bound.limit == 0 {
			on = asMeasured
		}
		r := e.holds(on)
		outcome := map[truth]string{yes: rundir.Kept, no: rundir.Broken, undecided: rundir.Undecided}[r.is]
		t := rundir.Threshold{Text: text, Variant: variant}
		if refs := e.Refs(variant); r.is == undecided {
			switch measured := e.holds(asMeasured); {
			case measured.is == yes:
				outcome, r.why = rundir.KeptAsMeasured, e.unsure(r.why, refs, ev)
			case measured.is == no && ev.Unidentified(refs) == nil:
				outcome, r.why = rundir.Broken, []rundir.Message{texts.Because(BrokenAsMeasured, e.unsure(r.why, refs, ev)...)}
			default:
				t.NotIdentified = ev.Unidentified(refs)
			}
		}
		t.Outcome, t.OK, t.Detail = outcome, outcome == rundir.Kept || outcome == rundir.KeptAsMeasured, texts.Joint(r.why)
		t.Measured, t.Low, t.High = e.value(on)
		decided = append(decided, t)
	}
	return decided
}

// unsure says why the figures decide a threshold only as they were measured: too few requests, a
// disturbance, or the reasons that the interval gives.
func (e *Expression) unsure(why []rundir.Message, refs []Ref, ev Evidence) []rundir.Message {
	if e.bound != nil {
		switch n, needed := ev.Needed(refs[0], e.bound.limit); {
		case n > 0 && needed == 0:
			return []rundir.Message{texts.New("unsure.at", "n", units.Whole(n))}
		case n < needed:
			return []rundir.Message{texts.New("unsure.few", "n", units.Whole(n), "needed", units.Whole(needed))}
		}
	}
	if doubt := ev.Doubtful(refs); doubt != nil {
		return []rundir.Message{*doubt}
	}
	return why
}

// Keeps tells whether one trial of the only variant among the names keeps the thresholds. If not, broken is the
// first threshold that it breaks. A trial has no spread. So estimates decide, except for figures that are
// bounded because something disturbed the trial. If nothing is broken, why lists the thresholds that could not
// be decided.
func Keeps(thresholds []string, names Names, ev Evidence, bounded func(Ref) bool) (ok bool, broken string, why *rundir.Message) {
	on := &evaluation{Evidence: estimates{ev, bounded}, variant: names.Variants[0]}
	var open []rundir.Message
	for _, text := range thresholds {
		e, err := Compile(text, ForThreshold, names)
		if err != nil {
			open = append(open, texts.New("undecided.expression", "error", oneLine(err)))
			continue
		}
		switch r := e.holds(on); r.is {
		case no:
			return false, text, nil
		case undecided:
			open = append(open, r.why...)
		}
	}
	return len(open) == 0, "", texts.Joint(open)
}

// estimates is evidence whose estimates count as exact, unless they are bounded.
type estimates struct {
	Evidence
	bounded func(Ref) bool
}

func (e estimates) Value(variant string, metric string) (Quantity, error) {
	f, err := e.Evidence.Value(variant, metric)
	if err != nil || e.bounded(Ref{metric, variant, ""}) {
		return f, err
	}
	return exactly(f.Estimate), nil
}

func (e estimates) Ratio(variant, base string, metric string) (Quantity, error) {
	f, err := e.Evidence.Ratio(variant, base, metric)
	return exactly(f.Estimate), err
}

func (e estimates) Slope(variant, gauge string) (Quantity, error) {
	f, err := e.Evidence.Slope(variant, gauge)
	return exactly(f.Estimate), err
}

func (e estimates) Spread(variant string, metric string) (Quantity, error) {
	f, err := e.Evidence.Spread(variant, metric)
	return exactly(f.Estimate), err
}

// DecideClaim decides a claim. One with a published size agrees, is larger, smaller, refuted or not
// settled: see against. Any other holds, is refuted, or is not settled.
//
// Something may be missing, or have no interval. A condition may straddle its limit. The claim is not
// settled then. Nor is it if the figures come from too few undisturbed rounds to speak against it, or to
// agree with a size. A claim about a variant that cannot be built is not testable here, and one about a variant that the run
// leaves out is not settled.
// A claim that is not settled because a figure is bounded has its answer, and says what
// disturbed it; a figure that is not identified gives no answer.
func DecideClaim(c rundir.PlanClaim, names Names, ev Evidence) rundir.Claim {
	r := rundir.Claim{ID: c.ID, Says: c.Says, Published: c.Published, Measures: c.Measured, Holds: c.Holds}
	if c.NotTestable != "" {
		r.Outcome, r.Detail = rundir.NotTestable, new(texts.Verbatim(c.NotTestable))
		return r
	}
	e, err := compileClaim(c, names)
	if err != nil {
		r.Outcome, r.Detail = rundir.NotSettled, new(texts.New("undecided.expression", "error", oneLine(err)))
		return r
	}
	if len(e.leftOut) > 0 {
		var why []rundir.Message
		r.Outcome = rundir.NotTestable
		for _, l := range e.leftOut {
			if l.Why == "" {
				r.Outcome = rundir.NotSettled
				why = append(why, texts.New("undecided.left_out", "variant", l.Variant))
				continue
			}
			why = append(why, texts.New("unavailable.variant", "variant", l.Variant, "why", l.Why))
		}
		r.Detail = texts.Joint(why)
		return r
	}
	on := &evaluation{Evidence: ev}
	looked := e.Refs(on.variant)
	var why []rundir.Message
	if e.effect == nil {
		is := e.holds(on)
		r.Outcome, why = map[truth]string{yes: rundir.Holds, no: rundir.Refuted, undecided: rundir.NotSettled}[is.is], is.why
	} else {
		r.Outcome, why = e.sized(on)
	}
	r.Measured, r.Low, r.High = e.value(on)
	if r.Outcome != rundir.Holds && r.Outcome != rundir.NotSettled {
		if few := ev.FewRounds(looked); few != nil {
			r.Outcome, why = rundir.NotSettled, []rundir.Message{*few}
		}
	}
	if r.Outcome == rundir.NotSettled {
		if r.NotIdentified = ev.Unidentified(looked); r.NotIdentified == nil {
			why = append(why, listed(ev.Doubtful(looked))...)
		}
	}
	r.Detail = texts.Joint(why)
	return r
}

// value returns what an expression measured, with the ends of its interval. It returns nil if the
// expression compares several figures, or one is missing. An end that the data do not bound is nil.
func (e *Expression) value(on *evaluation) (estimate, low, high *float64) {
	if e.measured.number == nil {
		return nil, nil, nil
	}
	f, err := e.measured.number(on)
	if err != nil {
		return nil, nil, nil
	}
	if f.Bounded && !math.IsInf(f.Low, 0) {
		low = &f.Low
	}
	if f.Bounded && !math.IsInf(f.High, 0) {
		high = &f.High
	}
	return &f.Estimate, low, high
}

// listed returns a message as a list, which is empty if there is none.
func listed(m *rundir.Message) []rundir.Message {
	if m == nil {
		return nil
	}
	return []rundir.Message{*m}
}

// once joins texts, without repetitions.
func once(said ...string) string {
	var different []string
	for _, s := range said {
		if !slices.Contains(different, s) {
			different = append(different, s)
		}
	}
	return strings.Join(different, "; ")
}

// oneLine puts a joined error on one line.
func oneLine(err error) string { return once(strings.Split(err.Error(), "\n")...) }
