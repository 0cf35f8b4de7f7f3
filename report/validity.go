package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dyno/rundir"
)

// mostReasons is how many reasons for being incomplete are listed.
const mostReasons = 8

// validity says, before any figure, whether the figures may be trusted; and how
// the run came to its warm-up and its number of rounds.
func (p *page) validity() {
	p.incomplete()
	switch {
	case !p.run.Valid:
		p.section("INVALID: " + p.run.Reason)
	case len(p.run.Flags) > 0:
		p.section("valid, with warnings")
	default:
		p.section("valid: no flags")
	}
	p.flags()
	if p.run.Stopped != "" {
		p.line("stopped after %s: %s", plural(p.run.Rounds, "round"), p.run.Stopped)
	}
	p.pilot()
	p.dependence()
}

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
	reasons := firstLines(p.folder.Incomplete)
	for i, reason := range reasons {
		if i == mostReasons {
			p.line("and %d more", len(reasons)-i)
			break
		}
		p.line("%s", reason)
	}
}

// examined returns what was found about a trial, or nothing of a run that was
// judged before trials were listed.
func (p *page) examined(trial int) rundir.Examined {
	for _, e := range p.run.Trials {
		if e.Number == trial {
			return e
		}
	}
	return rundir.Examined{}
}

// firstLines returns the first line of each text, without those that an earlier
// one contains: what a process had printed when it died is in its log, and the
// reason of a trial is often the reason of the run.
func firstLines(texts []string) []string {
	var lines []string
	for _, text := range texts {
		line, _, _ := strings.Cut(text, "\n")
		if !slices.ContainsFunc(lines, func(earlier string) bool { return strings.Contains(earlier, line) || strings.Contains(line, earlier) }) {
			lines = append(lines, line)
		}
	}
	return lines
}

// flags writes one line for each kind, however many trials have it.
func (p *page) flags() {
	type group struct {
		first  rundir.Flag
		trials []string
	}
	var groups []*group
	for _, f := range p.run.Flags {
		i := slices.IndexFunc(groups, func(g *group) bool {
			return g.first.Kind == f.Kind && g.first.Spoils == f.Spoils && f.Trial != 0 && g.first.Trial != 0
		})
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{first: f})
		}
		if f.Trial != 0 {
			groups[i].trials = append(groups[i].trials, strconv.Itoa(f.Trial))
		}
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return cmp.Compare(rank(a.first), rank(b.first)) })
	t := table{left: []int{1, 2, 3}, prose: true}
	for _, g := range groups {
		severity := severity(g.first)
		kind := g.first.Kind
		if r := remedy(kind); r != "" && kind != controlDiffers { // the control's own lines say it
			kind += " " + p.footnote(r)
		}
		detail := g.first.Detail
		if len(g.trials) > 1 {
			detail = "trial " + g.trials[0] + ": " + detail
		}
		t.add(severity, kind, where(g.first, g.trials), detail)
	}
	p.table(t)
}

// severity says how much a flag weighs.
func severity(f rundir.Flag) string {
	switch {
	case f.Breaks:
		return "broken"
	case f.Spoils:
		return "spoilt"
	}
	return "warning"
}

// rank orders flags: that the control differs comes before anything else.
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

// remedy says what to do about a flag, by its kind in run.json.
func remedy(kind string) string {
	switch kind {
	case "generator_lag", "generator_lag_tail", "generator_cpu", "run_queue_wait":
		return "give the generator CPUs of its own (load.cpus), or more of them, or a lower rate"
	case "generator_limit", "plateau":
		return "the generator, not the target, was the limit: more CPUs for it (load.cpus), fewer for the target (target.cpus), or an open load below the limit"
	case "achieved_rate", "drops", "connection_limit":
		return "the target was too slow for this rate with these connections: a lower rate, or more (load.open.max_connections)"
	case "no_answers", "stalled", "connections", "subscribers":
		return "the target did not answer: see its log, in the trial's folder if dyno started it; a lower load, if it answers then"
	case "generator_resources":
		return "dyno itself had too little: raise the limit on descriptors (ulimit -n) or the range of local ports (net.ipv4.ip_local_port_range), or ask for fewer connections"
	case "steal":
		return "the host took the CPUs: keep them from halting (awake: true, or --awake), measure at a quieter time, or on a machine of your own"
	case "late_wakeups":
		return "the generator's CPUs woke threads late: keep other work off them (load.cpus), or measure on a quieter machine"
	case "foreign_cpu":
		return "other programs of this machine took CPU time: stop them"
	case "memory_pressure":
		return "the machine was short of memory: stop other programs, or load less at once"
	case "io_pressure":
		return "tasks waited for disks: stop what writes or reads there, or let target and run folder use other ones"
	case "unfinished":
		return "requests were still under way at the end and count as at least so long, so the tail is a lower bound: a shorter load.timeout, or a longer load.window"
	case "not_steady":
		return "a longer load.warmup, if the target was still warming up; a longer load.window, if it has phases"
	case "pilot_not_steady":
		return "the warm-up may be too short: a longer design.pilot, or load.warmup set by hand"
	case "dependent":
		return "neighbouring bins of the window resemble each other, so that it holds less than its length says: a longer load.window; intervals are over trials and allow for it"
	case controlDiffers:
		return "one control in twenty differs by chance: measure again with another seed; if it differs again, look for what changes between trials (temperature, other programs, files left over)"
	case "conservation":
		return "requests were lost count of, which is a fault in dyno: please report it"
	case "incomplete", "no_complete_trial":
		return "the output of the target is in the trial's folder"
	case "lag_not_checked":
		return "a longer load.window"
	}
	return ""
}

// pilot writes what the pilots found.
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

// dependence writes the trial whose bins resembled each other most, where that
// halves its worth or more.
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
		p.line("dependence: strongest in trial %d (%s), whose %d bins of %s are worth %s independent ones (lag-1 %s)",
			worst.Number, worst.Variant, d.Bins, Seconds(d.BinSeconds), figure(d.EffectiveSize), figure(d.Lag1))
	}
}
