package sweep

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/verdict/checks"
	"dyno/results/rundir"
)

// Plateaus flags sweeps in which throughput stopped growing because the generator was at
// its limit. Along a variable that adds load, the last PlateauLevels levels are then
// flat. The generator was busy at each of them, and the target was not. A single trial
// cannot show that. Sweeps and variants must be filled in. Plateaus also returns the
// variants at the flat levels.
func Plateaus(run *rundir.Run) (flags []rundir.Flag, spent []string) {
	for _, s := range run.Sweeps {
		if s.Metric != "throughput" || len(s.Levels) < checks.PlateauLevels {
			continue
		}
		levels := slices.SortedFunc(slices.Values(s.Levels), func(a, b rundir.Level) int { return cmp.Compare(a.Value, b.Value) })
		levels = levels[len(levels)-checks.PlateauLevels:]
		if !addsLoad(run.Plan.Variants, levels) {
			continue
		}
		least, most := math.Inf(1), 0.0
		idleTarget, busyGenerator := 0.0, math.Inf(1)
		known := true
		for _, l := range levels {
			at := slices.IndexFunc(run.Variants, func(v rundir.Variant) bool { return v.Name == l.Variant })
			if known = at >= 0 && l.Figure.Estimate != nil; !known {
				break
			}
			target, generator := run.Variants[at].Known(rundir.MetricCPUShare), run.Variants[at].Known(rundir.MetricGenerator)
			if known = target != nil && generator != nil; !known {
				break
			}
			least, most = min(least, *l.Figure.Estimate), max(most, *l.Figure.Estimate)
			idleTarget = max(idleTarget, *target)
			busyGenerator = min(busyGenerator, *generator)
		}
		if !known || most-least > checks.PlateauTolerance*most || idleTarget >= checks.SaturatedTarget || busyGenerator <= checks.PlateauGenerator {
			continue
		}
		found := new(texts.New("found.plateau", "variable", s.Variable, "from", fmt.Sprintf("%g", levels[0].Value), "to", fmt.Sprintf("%g", levels[len(levels)-1].Value),
			"share", units.Percent((most-least)/most), "generator", units.Percent(busyGenerator), "target", units.Percent(idleTarget)))
		if len(s.Fixed) > 0 {
			found.Kind, found.Values["fixed"] = "found.plateau.fixed", fixed(s.Fixed)
		}
		flags = append(flags, checks.NewFlag(checks.FlagPlateau, levels[len(levels)-1].Variant, true, found))
		for _, l := range levels {
			spent = append(spent, l.Variant)
		}
	}
	return flags, spent
}

// addsLoad tells whether each level has more connections, or a higher rate, than
// the one before.
func addsLoad(plans []rundir.PlanVariant, levels []rundir.Level) bool {
	load := func(l rundir.Level) (connections, rate float64) {
		for _, p := range plans {
			if p.Name == l.Variant {
				if p.Rate != nil {
					rate = *p.Rate
				}
				return float64(p.Connections), rate
			}
		}
		return 0, 0
	}
	more, faster := true, true
	for i := range levels[1:] {
		c1, r1 := load(levels[i])
		c2, r2 := load(levels[i+1])
		more, faster = more && c2 > c1, faster && r2 > r1
	}
	return more || faster
}

// fixed names the other variables of a curve, with their values.
func fixed(variables map[string]string) string {
	var all []string
	for name, value := range variables {
		all = append(all, name+" "+value)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
