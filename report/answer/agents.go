package answer

import (
	"slices"
	"strings"

	"dyno/internal/texts"
	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/results/rundir"
)

// mostNamed is how many agents a sentence names.
const mostNamed = 8

// from says which agents the figures are from. Variants that have the same agents share a sentence.
func from(j *judged.Result) (lines []texts.Message) {
	type group struct{ variants, agents []string }
	var groups []*group
	for _, v := range j.Run.Variants {
		var agents []string
		for _, a := range v.Agents {
			agents = append(agents, a.Name)
		}
		if agents == nil {
			continue
		}
		at := slices.IndexFunc(groups, func(g *group) bool { return slices.Equal(g.agents, agents) })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &group{agents: agents})
		}
		groups[at].variants = append(groups[at].variants, v.Name)
	}
	for _, g := range groups {
		var names []texts.Message
		for i, name := range g.agents {
			if more := len(g.agents) - i; i >= mostNamed && more > 1 {
				names = append(names, texts.New("more.lines", "n", figure.Whole(int64(more))))
				break
			}
			names = append(names, texts.Verbatim(name))
		}
		said := counted("from.agents", len(g.agents)).With("agents", names...)
		if len(groups) > 1 {
			said = texts.New("from.variants", "variants", strings.Join(g.variants, ", ")).With("from", said)
		}
		lines = append(lines, said)
	}
	return lines
}

// placed says on which agents' machines targets and services ran. It names the variants where that is not so in all.
func placed(j *judged.Result) (lines []texts.Message) {
	type place struct{ process, agent string }
	var list []rundir.Placement
	variants := map[place][]string{}
	for _, v := range j.Run.Variants {
		for _, p := range v.Placed {
			at := place{p.Process, p.Agent}
			if variants[at] == nil {
				list = append(list, p)
			}
			variants[at] = append(variants[at], v.Name)
		}
	}
	for _, p := range list {
		said := texts.New("placed.service", "service", p.Process)
		if p.Process == rundir.PlacedTarget {
			said = texts.New("placed.target")
		}
		said = said.With("agent", texts.Verbatim(p.Agent)).With("address", texts.Verbatim(p.Address)).With("cpus", counted("placed.cpus", p.CPUs))
		if of := variants[place{p.Process, p.Agent}]; len(of) < len(j.Run.Variants) {
			said = texts.New("placed.variants", "variants", strings.Join(of, ", ")).With("placed", said)
		}
		lines = append(lines, said)
	}
	return lines
}
