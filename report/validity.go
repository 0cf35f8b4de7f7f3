package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/verdict/checks"
	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/report/layout"
	"dyno/results/rundir"
)

// validity writes, before any figure, whether the figures may be trusted. It also says
// how the run chose its warm-up and its number of rounds.
func (p *page) validity() {
	p.incomplete()
	p.Section("what the figures stand on")
	p.states()
	if len(p.Run.Flags) == 0 {
		p.Line("no flags")
	}
	p.flags()
	if p.Run.Stopped != nil {
		p.Line("stopped after %s: %s", figure.Plural(p.Run.Rounds, "round"), p.Run.Stopped.English())
	}
	p.pilot()
	p.dependence()
}

// states lists the figures that are not as printed, by state.
func (p *page) states() {
	t := layout.Table{Left: []int{1, 2}, Prose: true}
	listed := 0
	for _, state := range []struct{ name, says string }{
		{rundir.StateNotIdentified, "?"}, {rundir.StateRelative, "ratios only"}, {rundir.StateBounded, "bounded"},
	} {
		for _, v := range wholeFirst(p.Run.Validity) {
			if v.State != state.name {
				continue
			}
			if listed++; listed > mostStates {
				continue
			}
			of := v.Variant
			if v.Base != "" {
				of += " / " + v.Base
			}
			mark := state.says
			if r := strings.TrimPrefix(judged.Remedied(v), "; "); r != "" {
				mark += " " + p.Footnote(r)
			}
			t.Add(mark, v.Figure, of, judged.Because(v).In(texts.English))
		}
	}
	p.Table(t)
	if listed > mostStates {
		p.Line("and %d more, in run.json", listed-mostStates)
	}
}

// wholeFirst brings the figures of all requests before those of steps.
func wholeFirst(list []rundir.Validity) []rundir.Validity {
	ofStep := func(v rundir.Validity) int {
		if _, step := rundir.SplitStep(v.Figure); step != "" {
			return 1
		}
		return 0
	}
	return slices.SortedStableFunc(slices.Values(list), func(a, b rundir.Validity) int { return cmp.Compare(ofStep(a), ofStep(b)) })
}

// mostStates is how many figures that are not as printed are listed.
const mostStates = 24

func (p *page) incomplete() {
	if p.Folder.Complete() {
		return
	}
	measured := 0
	for _, t := range p.Folder.Trials {
		if t.Complete && !p.Examined(t.Number).Replaced {
			measured++
		}
	}
	if n := p.Run.TrialsPlanned; n > 0 {
		p.Section(fmt.Sprintf("INCOMPLETE: %d of %s measured", measured, figure.Plural(n, "planned trial")))
	} else {
		p.Section(fmt.Sprintf("INCOMPLETE: %s measured", figure.Plural(measured, "trial")))
	}
	reasons := append(p.Interrupted(), judged.Incomplete(p.Folder)...)
	for i, reason := range reasons {
		if i == mostReasons {
			p.Line("and %d more", len(reasons)-i)
			break
		}
		p.Line("%s", reason)
	}
}

// flags writes one line for each kind, however many trials have it.
func (p *page) flags() {
	t := layout.Table{Left: []int{1, 2, 3}, Prose: true}
	for _, g := range p.FlagGroups() {
		kind := g.First.Kind
		r := checks.Of(kind).Remedy
		if judged.HasNoGoodAnswers(g.First) {
			r = "remedy.no_good_answers"
		}
		if r != "" && kind != checks.FlagControlDiffers && p.Remediable(r) { // the control's own lines say it
			kind += " " + p.Footnote(texts.Say(texts.English, r, nil))
		}
		t.Add(judged.Severity(g.First), kind, judged.Where(g.First, g.Trials), g.Detail())
	}
	p.Table(t)
}

// pilot writes the results of the pilots.
func (p *page) pilot() {
	if p.Run.Pilot == nil {
		return
	}
	p.Line("warm-up %s for all variants, one and a half times the longest of the pilots:", figure.Seconds(p.Run.Pilot.WarmupSeconds))
	t := layout.Table{Left: []int{1, 2, 3}, Prose: true}
	for _, v := range p.Run.Pilot.Variants {
		found := "steady after " + figure.Seconds(v.SteadySeconds)
		if !v.Steady {
			found = "NOT STEADY"
		}
		by := ""
		if v.Series != "" {
			by = "by " + v.Series
		}
		t.Add(v.Variant, found, by, v.Detail.English())
	}
	p.Table(t)
}

// dependence writes the trial with the strongest dependence between neighbouring bins. It
// writes nothing if no effective sample size is below half the bins.
func (p *page) dependence() {
	worst, most := rundir.Examined{}, 0.5
	for _, e := range p.Run.Trials {
		d := e.Dependence
		if d == nil || d.Bins == 0 {
			continue
		}
		if worth := d.EffectiveSize / float64(d.Bins); worth < most {
			worst, most = e, worth
		}
	}
	if d := worst.Dependence; d != nil {
		p.Line("dependence: strongest in trial %d (%s), whose %d bins of %s have an effective sample size of %s (lag-1 %s)",
			worst.Number, worst.Variant, d.Bins, figure.Seconds(d.BinSeconds), units.Figure(d.EffectiveSize), units.Figure(d.Lag1))
	}
}
