package short

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/report/answer"
	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/results/rundir"
)

// A found search is what a search from flags found, or an interrupted one until then.
type found struct {
	bracket   rundir.Bracket
	done      bool
	tried     []float64 // the rates, from the lowest
	loads     int       // at them
	disturbed int       // of these, repeated
	trial     *rundir.Trial
}

// found sums up the loads of the search.
func (p *page) found() (f found) {
	b := &f.bracket
	if c := p.Run.Capacities; len(c) > 0 && len(c[0].Searches) > 0 {
		*b, f.done = c[0].Searches[0], true
	}
	var low, high *float64 // as far as single loads tell
	for _, x := range p.Folder.Trials {
		t := p.Examined(x.Number)
		if t.Purpose != rundir.PurposeProbe || t.Rate == nil || t.Replaced || x.Interrupted {
			continue
		}
		f.loads++
		f.tried = append(f.tried, *t.Rate)
		switch {
		case t.Good == nil:
			f.disturbed++
		case *t.Good && (low == nil || *t.Rate > *low):
			low = t.Rate
		case !*t.Good && (high == nil || *t.Rate < *high):
			high = t.Rate
		}
	}
	slices.Sort(f.tried)
	f.tried = slices.Compact(f.tried)
	if !f.done {
		if b.High = high; low != nil && (high == nil || *low < *high) {
			b.Low = low
		}
	}
	for _, t := range p.Folder.Trials {
		if at := cmp.Or(b.Low, b.High); at != nil && t.Rate != nil && *t.Rate == *at && t.Complete {
			f.trial = &t.Trial
		}
	}
	return f
}

// searchScreen is the screen of a search from flags: the rate, what was measured there and just
// above, and how far that can be trusted.
func (p *page) searchScreen(a answer.Answer) []string {
	v, f := &p.Run.Variants[0], p.found()
	b := &f.bracket
	var r rows
	rate := "–"
	if b.Low != nil {
		rate = figure.PerSecond(*b.Low) + "/s"
		if state := p.State("capacity", v.Name, "").State; state != rundir.StateOK || b.High == nil || !f.done {
			rate = judged.Marked(judged.AtLeast, rate)
		}
	}
	r.addAligned(0, "capacity", " · ", fmt.Sprintf("%-12s  within %s", rate, figure.Printable(strings.Join(p.Run.Plan.Thresholds, ", "))))
	if b.Low != nil {
		r.addAligned(1, "kept", " · ", at(*b.Low, p.measuredAt(b.AtLow, false)))
	}
	if b.High != nil {
		broken := p.measuredAt(b.AtHigh, true)
		if len(broken) == 0 && f.done {
			broken = []string{p.limitSays(b)}
		}
		r.addAligned(0, "broken", " · ", at(*b.High, broken))
	}
	if n := len(f.tried); n > 0 {
		rates := "1 rate"
		if n > 1 {
			rates = fmt.Sprintf("%d rates from %s/s to %s/s", n, figure.PerSecond(f.tried[0]), figure.PerSecond(f.tried[n-1]))
		}
		r.add(2, "tried", rates, figure.Plural(f.loads, "load"))
	}
	if f.trial != nil {
		seen := *v
		seen.Figures = map[string]rundir.Estimate{}
		for metric, x := range f.trial.Figures() {
			seen.Figures[metric] = rundir.Estimate{Estimate: &x}
		}
		if items := p.server(&seen, f.trial); len(items) > 0 {
			r.add(2, "server", append(items, "at "+figure.PerSecond(*f.trial.Rate)+"/s")...)
		}
	}
	return p.laidOut(p.requested(v, f.trial), p.searchSetting(v, f.trial), append(r, p.agentRows(a)...), p.searchNotes(a, f))
}

// searchSetting says how requests were sent, at whatever rate.
func (p *page) searchSetting(v *rundir.Variant, trial *rundir.Trial) (items []string) {
	for _, item := range p.setting(v, trial) {
		switch {
		case item == "open loop" || strings.HasPrefix(item, "after "):
			continue
		case item == units.FormatSeconds(p.Run.Plan.Variants[0].WindowSeconds):
			item += " at each rate"
			if slices.ContainsFunc(p.Folder.Trials, func(t *rundir.TrialFolder) bool { return t.WindowSeconds > 1.05*p.Run.Plan.Variants[0].WindowSeconds }) {
				item = "at least " + item
			}
		}
		items = append(items, item)
	}
	return items
}

// at says what was measured at a rate.
func at(rate float64, measured []string) string {
	text := fmt.Sprintf("at %s/s", figure.PerSecond(rate))
	if len(measured) > 0 {
		text = fmt.Sprintf("%-12s  %s", text, figure.Printable(strings.Join(measured, ", ")))
	}
	return text
}

// measuredAt writes what a load measured of the conditions, or only of those that it broke.
func (p *page) measuredAt(decided []rundir.Threshold, broken bool) (measured []string) {
	for _, t := range decided {
		if broken && t.OK || t.Measured == nil {
			continue
		}
		mark := ""
		if t.Low != nil && t.High != nil && *t.High <= *t.Measured && *t.Low < *t.Measured {
			mark = judged.AtMost
		}
		measured = append(measured, metricOf(t.Text)+" "+judged.Marked(mark, p.Measured(rundir.Threshold{Text: t.Text, Measured: t.Measured})))
	}
	return measured
}

// metricOf is the left side of a condition.
func metricOf(condition string) string {
	if i := strings.IndexAny(condition, "<>=!"); i > 0 {
		return strings.TrimSpace(condition[:i])
	}
	return condition
}

// limitSays is what ended a search, where no condition was measured to be broken.
func (p *page) limitSays(b *rundir.Bracket) string {
	c := p.Run.Capacities[0]
	switch {
	case b.OwnLimit != nil:
		return b.OwnLimit.In(texts.English)
	case b.HighDisturbed:
		return "dyno or the machine was too busy to tell"
	case c.LimitBecause != nil:
		return c.LimitBecause.In(texts.English)
	}
	if says := p.Message("broke." + c.Limit).In(texts.English); texts.Has("broke."+c.Limit) && !strings.Contains(says, "{") {
		return says
	}
	return strings.ReplaceAll(c.Limit, "_", " ")
}

// searchNotes are the sentences below: how far the rate can be trusted, and what would help.
func (p *page) searchNotes(a answer.Answer, f found) (notes rows) {
	b := &f.bracket
	v := p.State("capacity", p.Run.Variants[0].Name, "")
	helps := func() {
		if b.OwnLimit == nil { // which says what helps
			notes.note(1, "Give dyno CPUs of its own (--cpus), or measure on a quieter machine.")
		}
	}
	switch {
	case !f.done:
	case b.Low == nil && v.State == rundir.StateNotIdentified:
		notes.note(0, "The capacity is not known: "+strings.TrimSuffix(judged.Because(v).In(texts.English), ".")+".")
		helps()
	case b.Low == nil:
		notes.note(0, "Not even the lowest rate kept to the limit: search from a lower one (--from).")
	case b.High == nil:
		notes.note(0, "Every rate kept to the limit: the server may take more (≥). Search up to a higher one (--to).")
	case v.State != rundir.StateOK:
		notes.note(0, "The server may take more (≥): "+strings.TrimSuffix(judged.Because(v).In(texts.English), ".")+".")
		helps()
	default:
		notes.note(0, fmt.Sprintf("The server itself broke the limit at %s/s: nothing else explains it.", figure.PerSecond(*b.High)))
	}
	if f.disturbed > 0 {
		notes.note(3, fmt.Sprintf("Loads repeated because dyno or the machine was too busy: %d of %d.", f.disturbed, f.loads))
	}
	if f.done && b.Low != nil && b.High != nil {
		notes.note(4, "This is one search: another one shows how much its result varies.")
	}
	if a.Rest != nil {
		notes.note(5, "Everything: "+a.Rest.In(texts.English))
	}
	return notes
}
