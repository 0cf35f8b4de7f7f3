package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/results/rundir"
)

// mostReasons is how many reasons for being incomplete are listed.
const mostReasons = 8

// validity writes, before any figure, whether the figures may be trusted. It also says
// how the run chose its warm-up and its number of rounds.
func (p *page) validity() {
	p.incomplete()
	p.section("what the figures stand on")
	p.states()
	if len(p.run.Flags) == 0 {
		p.line("no flags")
	}
	p.flags()
	if p.run.Stopped != "" {
		p.line("stopped after %s: %s", plural(p.run.Rounds, "round"), p.run.Stopped)
	}
	p.pilot()
	p.dependence()
}

// states lists the figures that are not as printed, by state.
func (p *page) states() {
	t := table{left: []int{1, 2}, prose: true}
	listed := 0
	for _, state := range []struct{ name, says string }{
		{rundir.StateNotIdentified, "?"}, {rundir.StateRelative, "ratios only"}, {rundir.StateBounded, "bounded"},
	} {
		for _, v := range wholeFirst(p.run.Validity) {
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
			if r := strings.TrimPrefix(remedied(v), "; "); r != "" {
				mark += " " + p.footnote(r)
			}
			t.add(mark, v.Figure, of, because(v).In(texts.English))
		}
	}
	p.table(t)
	if listed > mostStates {
		p.line("and %d more, in run.json", listed-mostStates)
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
	if p.folder.Complete() {
		return
	}
	measured := 0
	for _, t := range p.folder.Trials {
		if t.Complete && !p.examined(t.Number).Replaced {
			measured++
		}
	}
	if n := p.run.TrialsPlanned; n > 0 {
		p.section(fmt.Sprintf("INCOMPLETE: %d of %s measured", measured, plural(n, "planned trial")))
	} else {
		p.section(fmt.Sprintf("INCOMPLETE: %s measured", plural(measured, "trial")))
	}
	reasons := append(p.interrupted(), Incomplete(p.folder)...)
	for i, reason := range reasons {
		if i == mostReasons {
			p.line("and %d more", len(reasons)-i)
			break
		}
		p.line("%s", reason)
	}
}

// examined returns the findings about a trial; empty for a run that was judged before
// trials were listed.
func (p *page) examined(trial int) rundir.Examined {
	for _, e := range p.run.Trials {
		if e.Number == trial {
			return e
		}
	}
	return rundir.Examined{}
}

// Incomplete returns why a folder is not complete, in the first line of each message: the
// output of a process that died is in its log. A reason that repeats an earlier one is
// left out: that of a trial is often that of the run.
func Incomplete(f *rundir.Folder) (reasons []texts.Message) {
	var lines []string
	for _, m := range f.Incomplete {
		m = firstLines(m)
		line := m.In(texts.English)
		if !slices.ContainsFunc(lines, func(earlier string) bool { return strings.Contains(earlier, line) || strings.Contains(line, earlier) }) {
			lines, reasons = append(lines, line), append(reasons, m)
		}
	}
	return reasons
}

// firstLines returns a message with only the first line of each value, and without the
// hint that the last output is on the lines below.
func firstLines(m texts.Message) texts.Message {
	m.Values = maps.Clone(m.Values)
	for name, v := range m.Values {
		if first, _, more := strings.Cut(v, "\n"); more {
			m.Values[name] = strings.TrimSuffix(first, "; last output:")
		}
	}
	for name, parts := range m.Parts {
		var cut []texts.Message
		for _, part := range parts {
			cut = append(cut, firstLines(part))
		}
		m = m.With(name, cut...)
	}
	return m
}

// A flagGroup is the flags of a kind, of one trial or of several.
type flagGroup struct {
	first  rundir.Flag
	trials []string
}

// detail describes the first of the group, and names its trial if there are others.
func (g *flagGroup) detail() string {
	if len(g.trials) > 1 {
		return "trial " + g.trials[0] + ": " + g.first.Detail
	}
	return g.first.Detail
}

// flagGroups brings flags of a kind together, the most serious first. Those of the whole run stay
// apart, and so do those of different targets that did not do what was asked.
func (p *page) flagGroups() []*flagGroup {
	var groups []*flagGroup
	for _, f := range p.run.Flags {
		i := slices.IndexFunc(groups, func(g *flagGroup) bool {
			return g.first.Kind == f.Kind && g.first.Spoils == f.Spoils && f.Trial != 0 && g.first.Trial != 0 && (g.first.Variant == f.Variant || !f.Breaks)
		})
		if i < 0 {
			i = len(groups)
			groups = append(groups, &flagGroup{first: f})
		}
		if f.Trial != 0 {
			groups[i].trials = append(groups[i].trials, strconv.Itoa(f.Trial))
		}
	}
	slices.SortStableFunc(groups, func(a, b *flagGroup) int { return cmp.Compare(rank(a.first), rank(b.first)) })
	return groups
}

// flags writes one line for each kind, however many trials have it.
func (p *page) flags() {
	t := table{left: []int{1, 2, 3}, prose: true}
	for _, g := range p.flagGroups() {
		kind := g.first.Kind
		r := remedyKind(kind)
		if badly(g.first) {
			r = "remedy.no_good_answers"
		}
		if r != "" && kind != controlDiffers && p.remediable(r) { // the control's own lines say it
			kind += " " + p.footnote(texts.Say(texts.English, r, nil))
		}
		t.add(severity(g.first), kind, where(g.first, g.trials), g.detail())
	}
	p.table(t)
}

// severity says how serious a flag is.
func severity(f rundir.Flag) string {
	switch {
	case f.Breaks:
		return "broken"
	case f.Spoils:
		return "spoilt"
	}
	return "warning"
}

// rank orders flags. The flag of a control that differs comes first.
func rank(f rundir.Flag) int {
	switch {
	case f.Kind == controlDiffers:
		return 0
	case f.Breaks:
		return 1
	case f.Spoils:
		return 2
	}
	return 3
}

// where names the trials of a flag, the first ones when there are many.
func where(first rundir.Flag, trials []string) string {
	switch {
	case len(trials) == 0:
		return "run"
	case len(trials) == 1:
		return "trial " + trials[0] + " (" + first.Variant + ")"
	case len(trials) > 6:
		return fmt.Sprintf("%d trials: %s …", len(trials), strings.Join(trials[:6], " "))
	}
	return "trials " + strings.Join(trials, " ")
}

// controlDiffers is the kind of the flag that the A/A control raises.
const controlDiffers = "control_differs"

// remedyKind is the sentence that says how to help against a flag; empty if there is no
// advice.
func remedyKind(kind string) string { return texts.Remedy(kind) }

// remedy says how to help against a flag, by its kind in run.json.
func remedy(kind string) string {
	if r := remedyKind(kind); r != "" {
		return texts.Say(texts.English, r, nil)
	}
	return ""
}

// pilot writes the results of the pilots.
func (p *page) pilot() {
	if p.run.Pilot == nil {
		return
	}
	p.line("warm-up %s for all variants, one and a half times the longest of the pilots:", Seconds(p.run.Pilot.WarmupSeconds))
	t := table{left: []int{1, 2, 3}, prose: true}
	for _, v := range p.run.Pilot.Variants {
		found := "steady after " + Seconds(v.SteadySeconds)
		if !v.Steady {
			found = "NOT STEADY"
		}
		by := ""
		if v.Series != "" {
			by = "by " + v.Series
		}
		t.add(v.Variant, found, by, v.Detail)
	}
	p.table(t)
}

// dependence writes the trial with the strongest dependence between neighbouring bins, if
// its effective sample size is half its bins or less.
func (p *page) dependence() {
	worst, most := rundir.Examined{}, 0.5
	for _, e := range p.run.Trials {
		d := e.Dependence
		if d == nil || d.Bins == 0 {
			continue
		}
		if worth := d.EffectiveSize / float64(d.Bins); worth < most {
			worst, most = e, worth
		}
	}
	if d := worst.Dependence; d != nil {
		p.line("dependence: strongest in trial %d (%s), whose %d bins of %s have an effective sample size of %s (lag-1 %s)",
			worst.Number, worst.Variant, d.Bins, Seconds(d.BinSeconds), units.Figure(d.EffectiveSize), units.Figure(d.Lag1))
	}
}
