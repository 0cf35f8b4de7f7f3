package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"dyno/internal/units"
	"dyno/results/rundir"
)

// missing says which figures were not measured here, and why.
func (p *page) missing() {
	var lines []string
	for _, u := range p.unobserved() {
		lines = append(lines, "not observed: "+u)
	}
	for _, c := range p.run.Claims {
		if c.Outcome == rundir.NotTestable {
			lines = append(lines, "not testable: "+c.ID+": "+c.Detail)
		}
	}
	if len(lines) == 0 {
		return
	}
	p.section("not measured here")
	for _, l := range lines {
		p.line("%s", l)
	}
}

// mostUnobserved is how many texts about missing observations are listed.
const mostUnobserved = 12

// unobserved lists the observations that were not possible, and why: first those of the
// whole run, then those of single trials.
func (p *page) unobserved() []string {
	list := slices.Clone(p.run.Environment.Unavailable)
	for _, t := range p.folder.Trials {
		for _, text := range t.Unavailable {
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
	e := p.run.Environment
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
	add("%s", plural(e.CPUs, "CPU"))
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
	if !p.isProgram() {
		placement("generator", e.GeneratorCPUs)
	}
	if len(e.AwakeCPUs) > 0 {
		add("CPU %s kept from halting", units.FormatCPUs(e.AwakeCPUs))
	}
	p.section("environment")
	p.line("%s", strings.Join(parts, ", "))
}

// reproduce writes the command that makes the run again, and what that command needs.
func (p *page) reproduce() {
	r := p.run
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
	p.section("reproduce")
	p.item(item{mark: "to reproduce: ", text: CommandLine(r.Command), verbatim: true})
	p.line("%s", strings.Join(parts, ", "))
}
