package dataset

import (
	"cmp"
	"slices"

	"dyno/internal/sums"
	"dyno/judge/stat"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/recording"
	"dyno/load/wire"
	"dyno/results/rundir"
)

// ofTrial makes the figures of one complete trial. Without its times, those in trial.json
// are used.
func ofTrial(t *rundir.Trial, log recording.Times) *Stats {
	f := summarize(t.Variant, []*rundir.Trial{t}, log)
	f.Lost, f.Waited = t.Lost(), max(t.WindowSeconds, t.PlannedSeconds)
	if t.Duet != nil {
		f.CPUSet = t.Duet.CPUSet
	}
	if log == nil {
		f.Times = t.Times
	}
	return f
}

// summarize makes one variant's figures of its trials and of their merged times,
// without intervals.
func summarize(name string, trials []*rundir.Trial, t recording.Times) *Stats {
	f := &Stats{Histograms: t, Times: rundir.TimesOf(t), Variant: rundir.Variant{
		Name: name, Trials: len(trials), Loaded: loaded(trials), Users: users(trials), Agents: agents(trials), Placed: placed(trials),
	}}
	var omitted []float64
	for _, x := range trials {
		omitted = append(omitted, checks.Omitted(x))
		sums.Add(&f.Counts, &x.Counts)
		sums.Add(&f.Ends, &x.Ends)
		sums.Add(&f.Streams, &x.Streams)
		sums.Add(&f.Tokens, &x.Tokens)
		sums.Add(&f.Messages, &x.Messages)
		for i := range x.Steps {
			if i == len(f.Steps) {
				f.Steps = append(f.Steps, rundir.ScenarioStep{})
			}
			sums.Add(&f.Steps[i], &x.Steps[i])
		}
	}
	if f.Ends != nil {
		f.Ends.Complete()
	}
	if share := stat.Typical(omitted); share != nil {
		f.Omitted = *share
	}
	f.Values = typical(trials)
	f.fail("", f.Counts.Unanswered(), f.Counts.Due())
	for i := range f.Steps {
		// Those that dyno could not send without more resources of its own do not count.
		s := &f.Steps[i]
		n := s.Failed() - s.ByKind[wire.Generator.String()] + s.Dropped
		f.fail(s.Name, n, s.OK+n)
	}
	return f
}

// fail enters how many requests failed, of a step or of all.
func (f *Stats) fail(step string, total, due int64) {
	of := func(metric string) string {
		if step != "" {
			return rundir.StepMetric(metric, step)
		}
		return metric
	}
	if f.Trials > 0 {
		f.Values[of(rundir.MetricErrorTotal)] = float64(total)
	}
	if due > 0 {
		f.Values[of(rundir.MetricErrorRatio)] = float64(total) / float64(due)
	}
}

// typical returns the figures of trials together, each of those that have it: typical values, and sums of what is counted.
func typical(trials []*rundir.Trial) map[string]float64 {
	values := map[string][]float64{}
	for _, t := range trials {
		for name, v := range t.Figures() {
			values[name] = append(values[name], v)
		}
		if v := checks.Availability(t); v != nil {
			values[rundir.MetricAvailability] = append(values[rundir.MetricAvailability], *v)
		}
	}
	all := map[string]float64{}
	for name, of := range values {
		if rundir.MetricOf(name).Counted {
			for _, v := range of {
				all[name] += v
			}
		} else {
			all[name] = *stat.Typical(of)
		}
	}
	return all
}

// loaded sums up what of the target was loaded; nil without.
func loaded(trials []*rundir.Trial) (sum *rundir.Loaded) {
	for _, t := range trials {
		l := t.Loaded
		if l == nil {
			continue
		}
		if sum == nil {
			sum = &rundir.Loaded{Requested: l.Requested, Peak: l.Peak, Streams: l.Streams}
		}
		sums.Add(&sum.Protocols, &l.Protocols)
		sum.Peak = min(sum.Peak, l.Peak)
		if l.Allowed > 0 && (sum.Allowed == 0 || l.Allowed < sum.Allowed) {
			sum.Allowed = l.Allowed
		}
		for _, a := range l.Addresses {
			i := slices.IndexFunc(sum.Addresses, func(b rundir.Address) bool { return a.Address == b.Address })
			if i < 0 {
				sum.Addresses = append(sum.Addresses, a)
				continue
			}
			b := &sum.Addresses[i]
			b.Opened, b.Failed, b.Requests, b.Bad = b.Opened+a.Opened, b.Failed+a.Failed, b.Requests+a.Requests, b.Bad+a.Bad
			b.Unreachable = cmp.Or(b.Unreachable, a.Unreachable)
		}
	}
	return sum
}

// users sums up what became of those who carried a scenario out; nil without one.
func users(trials []*rundir.Trial) (sum *rundir.Users) {
	misses := map[rundir.Miss]int{} // places in the sum, by step and variable
	for _, trial := range trials {
		u := trial.Users
		if u == nil {
			continue
		}
		if sum == nil {
			sum = &rundir.Users{}
		}
		sums.Add(sum, u)
		for _, m := range u.Misses {
			key := rundir.Miss{Step: m.Step, Variable: m.Variable}
			at, known := misses[key]
			if !known {
				at = len(sum.Misses)
				misses[key] = at
				sum.Misses = append(sum.Misses, key)
			}
			sum.Misses[at].Count += m.Count
		}
	}
	return sum
}
