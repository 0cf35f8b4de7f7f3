package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"dyno/internal/units"
	"dyno/report/answer"
	"dyno/report/figure"
	"dyno/report/layout"
	"dyno/results/rundir"
)

// missing says which figures were not measured here, and why.
func (p *page) missing() {
	var lines []string
	for _, u := range p.unobserved() {
		lines = append(lines, "not observed: "+u)
	}
	for _, c := range p.Run.Claims {
		if c.Outcome == rundir.NotTestable {
			lines = append(lines, "not testable: "+c.ID+": "+c.Detail.English())
		}
	}
	if len(lines) == 0 {
		return
	}
	p.Section("not measured here")
	for _, l := range lines {
		p.Line("%s", l)
	}
}

// mostUnobserved is how many texts about missing observations are listed.
const mostUnobserved = 12

// unobserved lists the observations that were not possible, and why: first those of the
// whole run, then those of single trials.
func (p *page) unobserved() []string {
	list := answer.InEnglish(p.Run.Environment.Unavailable)
	for _, t := range p.Folder.Trials {
		for _, text := range answer.InEnglish(t.Unavailable) {
			if !slices.Contains(list, text) {
				list = append(list, text)
			}
		}
	}
	if more := len(list) - mostUnobserved; more > 1 {
		list = append(list[:mostUnobserved], fmt.Sprintf("and %d more: see the trials' unavailable", more))
	}
	return list
}

func (p *page) environment() {
	e := p.Run.Environment
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if e.Kernel != "" {
		add("%s %s %s", e.OS, e.Kernel, e.Arch)
	} else {
		add("%s %s", e.OS, e.Arch)
	}
	if e.CPUModel != "" {
		add("%s", e.CPUModel)
	}
	add("%s", figure.Plural(e.CPUs, "CPU"))
	if e.Virtualization != "" {
		add("%s", e.Virtualization)
	}
	placement := func(who string, list []int) {
		if len(list) == 0 {
			add("%s not placed", who)
		} else {
			add("%s on CPU %s", who, units.FormatCPUs(list))
		}
	}
	placement("target", e.TargetCPUs)
	if !p.IsProgram() {
		placement("generator", e.GeneratorCPUs)
	}
	if len(e.AwakeCPUs) > 0 {
		add("CPU %s kept from halting", units.FormatCPUs(e.AwakeCPUs))
	}
	p.Section("environment")
	p.Line("%s", strings.Join(parts, ", "))
}

// reproduce writes the command that makes the run again, and what that command needs.
func (p *page) reproduce() {
	r := p.Run
	if len(r.Command) == 0 {
		return
	}
	parts := []string{fmt.Sprintf("seed %d", r.Plan.Seed)}
	if r.Plan.File != "" {
		parts = append(parts, "experiment "+r.Plan.File+" (its text is in run.json)")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Plan.Set)) {
		parts = append(parts, "with "+name+"="+r.Plan.Set[name])
	}
	if r.DynoVersion != "" {
		parts = append(parts, "dyno "+r.DynoVersion)
	}
	p.Section("reproduce")
	p.Item(layout.Item{Mark: "to reproduce: ", Text: figure.CommandLine(r.Command), Verbatim: true})
	p.Line("%s", strings.Join(parts, ", "))
}
