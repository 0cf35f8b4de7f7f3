package dataset

import (
	"cmp"
	"reflect"
	"slices"

	"dyno/judge/stat"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/recording"
	"dyno/results/rundir"
)

// ofTrial makes the figures of one complete trial. Without its times, those in trial.json
// are used.
func ofTrial(t *rundir.Trial, log recording.Times) *Stats {
	f := summarize(t.Variant, []*rundir.Trial{t}, log)
	if t.Duet != nil {
		f.Seat = t.Duet.CPUSet
	}
	if log == nil {
		for _, c := range rundir.Clocks() {
			*f.Times(c.Tag) = *t.Times(c.Tag)
		}
		f.Ends, f.Streams, f.Steps, f.Tokens = t.Ends, t.Streams, t.Steps, t.Tokens
	}
	return f
}

// summarize makes one variant's figures of its trials and of their merged times,
// without intervals.
func summarize(name string, trials []*rundir.Trial, t recording.Times) *Stats {
	f := &Stats{Histograms: t, Variant: rundir.Variant{
		Name:      name,
		Trials:    len(trials),
		Ends:      endings(trials, t),
		Counts:    counts(trials),
		Streams:   streams(trials),
		Tokens:    tokensOf(trials, t, "", func(t *rundir.Trial) *rundir.Tokens { return t.Tokens }),
		Messages:  messages(trials),
		Loaded:    loaded(trials),
		Steps:     scenarioSteps(trials, t),
		Users:     users(trials),
		Target:    target(trials),
		Generator: generator(trials),
		Agents:    agents(trials),
		Placed:    placed(trials),
	}}
	for _, c := range rundir.Clocks() {
		*f.Times(c.Tag) = rundir.QuantilesOf(t[c.Tag])
	}
	f.Throughput = rundir.Estimate{
		Estimate: known(trials, func(t *rundir.Trial) *float64 { return t.Throughput }),
		Interval: rundir.NoInterval,
	}
	f.Errors = checks.Failures(f.Counts)
	f.Availability = known(trials, checks.Availability)
	if share := known(trials, func(t *rundir.Trial) *float64 { v := checks.Omitted(t); return &v }); share != nil {
		f.Omitted = *share
	}
	if len(trials) == 1 {
		f.Lost, f.Waited = trials[0].Lost(), max(trials[0].WindowSeconds, trials[0].PlannedSeconds)
	}
	f.connections = connections{
		requested:  count(trials, func(t *rundir.Trial) int64 { return t.Connections.Requested }),
		opened:     count(trials, func(t *rundir.Trial) int64 { return t.Connections.Opened }),
		failed:     count(trials, func(t *rundir.Trial) int64 { return t.Connections.Failed }),
		peak:       count(trials, func(t *rundir.Trial) int64 { return t.Connections.Peak }),
		served:     count(trials, func(t *rundir.Trial) int64 { return t.Connections.Served }),
		unanswered: count(trials, func(t *rundir.Trial) int64 { return t.Connections.Unanswered }),
	}
	f.measures = typicalByName(trials, func(t *rundir.Trial) map[string]float64 { return t.Measures })
	f.observed = typicalByName(trials, func(t *rundir.Trial) map[string]float64 { return t.Observed })
	return f
}

// tokensOf sums up answers of language models, those of one step, or of all with none; nil without.
func tokensOf(trials []*rundir.Trial, t recording.Times, step string, get func(*rundir.Trial) *rundir.Tokens) (sum *rundir.Tokens) {
	first, each := rundir.TagFirstToken, rundir.TagTokenTime
	if step != "" {
		first, each = rundir.StepTag(first, step), rundir.StepTag(each, step)
	}
	for _, trial := range trials {
		of := get(trial)
		if of == nil {
			continue
		}
		if sum == nil {
			sum = &rundir.Tokens{FirstToken: rundir.QuantilesOf(t[first]), TokenTime: rundir.QuantilesOf(t[each])}
		}
		sum.Count += of.Count
		sum.Within += of.Within
	}
	if sum != nil {
		rate := func(of func(*rundir.Tokens) *float64) *float64 {
			return known(trials, func(t *rundir.Trial) *float64 {
				if tokens := get(t); tokens != nil {
					return of(tokens)
				}
				return nil
			})
		}
		sum.PerSecond = rate(func(t *rundir.Tokens) *float64 { return t.PerSecond })
		sum.PromptPerSecond = rate(func(t *rundir.Tokens) *float64 { return t.PromptPerSecond })
		sum.Goodput = rate(func(t *rundir.Tokens) *float64 { return t.Goodput })
	}
	return sum
}

// messages sums up those of responses; nil without.
func messages(trials []*rundir.Trial) (sum *rundir.Messages) {
	for _, t := range trials {
		if t.Messages == nil {
			continue
		}
		if sum == nil {
			sum = &rundir.Messages{}
		}
		sum.Count += t.Messages.Count
	}
	if sum != nil {
		sum.PerSecond = known(trials, func(t *rundir.Trial) *float64 {
			if t.Messages == nil {
				return nil
			}
			return t.Messages.PerSecond
		})
	}
	return sum
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
		sum.Protocols = addCounts(sum.Protocols, l.Protocols)
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

// scenarioSteps sums up what became of a scenario's steps; nil without one.
func scenarioSteps(trials []*rundir.Trial, t recording.Times) (sum []rundir.ScenarioStep) {
	var throughputs [][]float64
	for _, trial := range trials {
		for i, s := range trial.Steps {
			if i == len(sum) {
				sum, throughputs = append(sum, rundir.ScenarioStep{Name: s.Name}), append(throughputs, nil)
			}
			if trial.WindowSeconds > 0 {
				throughputs[i] = append(throughputs[i], float64(s.CompletedInWindow)/trial.WindowSeconds)
			}
			to := &sum[i]
			addWholes(to, &s)
			to.ByKind = addCounts(to.ByKind, s.ByKind)
		}
	}
	for i := range sum {
		s := &sum[i]
		s.Response = rundir.QuantilesOf(t[rundir.StepTag(rundir.TagResponse, s.Name)])
		s.Service = rundir.QuantilesOf(t[rundir.StepTag(rundir.TagService, s.Name)])
		s.Throughput = stat.Typical(throughputs[i])
		s.Tokens = tokensOf(trials, t, s.Name, func(t *rundir.Trial) *rundir.Tokens {
			if i < len(t.Steps) {
				return t.Steps[i].Tokens
			}
			return nil
		})
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
		count := max(sum.Count, u.Count)
		addWholes(sum, u)
		sum.Count = count
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

// typicalByName returns the typical values of named figures, each over the trials that
// have it; nil if none has any.
func typicalByName(trials []*rundir.Trial, of func(*rundir.Trial) map[string]float64) map[string]float64 {
	var all map[string]float64
	for _, t := range trials {
		for name := range of(t) {
			if _, done := all[name]; done {
				continue
			}
			if all == nil {
				all = map[string]float64{}
			}
			all[name] = *known(trials, func(t *rundir.Trial) *float64 {
				if v, ok := of(t)[name]; ok {
					return &v
				}
				return nil
			})
		}
	}
	return all
}

func counts(trials []*rundir.Trial) rundir.Counts {
	var sum rundir.Counts
	for _, t := range trials {
		c := t.Counts
		addWholes(&sum, &c)
		addWholes(&sum.Carried, &c.Carried)
		if c.Redirects != nil {
			n := *c.Redirects
			if sum.Redirects != nil {
				n += *sum.Redirects
			}
			sum.Redirects = &n
		}
		sum.ByKind = addCounts(sum.ByKind, c.ByKind)
		sum.ByStatus = addCounts(sum.ByStatus, c.ByStatus)
	}
	return sum
}

// endings sums up what ended responses and events; nil where there were none.
func endings(trials []*rundir.Trial, t recording.Times) *rundir.Ends {
	var sum *rundir.Ends
	for _, trial := range trials {
		e := trial.Ends
		if e == nil {
			continue
		}
		if sum == nil {
			sum = &rundir.Ends{SharedBy: rundir.QuantilesOf(t[rundir.TagSharedStamp])}
		}
		addWholes(sum, e)
		sum.UncertaintySeconds = max(sum.UncertaintySeconds, e.UncertaintySeconds)
	}
	if sum != nil {
		sum.Complete()
	}
	return sum
}

// streams sums up what subscribers saw; nil where there were none.
func streams(trials []*rundir.Trial) *rundir.Streams {
	var sum *rundir.Streams
	for _, trial := range trials {
		s := trial.Streams
		if s == nil {
			continue
		}
		if sum == nil {
			sum = &rundir.Streams{}
		}
		requested, peak := max(sum.Requested, s.Requested), max(sum.Peak, s.Peak)
		addWholes(sum, s)
		sum.Requested, sum.Peak = requested, peak
		sum.Subscribed += s.Subscribed
		sum.DeliveryError = max(sum.DeliveryError, s.DeliveryError)
		if s.Slow != nil {
			if sum.Slow == nil {
				sum.Slow = &rundir.SlowStreams{}
			}
			requested := max(sum.Slow.Requested, s.Slow.Requested)
			addWholes(sum.Slow, s.Slow)
			sum.Slow.Requested = requested
		}
	}
	return sum
}

// addWholes adds the fields of a struct that are whole numbers to those of another.
func addWholes[T any](to, from *T) {
	sum, more := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for i := range sum.NumField() {
		if f := sum.Field(i); f.Kind() == reflect.Int64 {
			f.SetInt(f.Int() + more.Field(i).Int())
		}
	}
}

func addCounts(to, from map[string]int64) map[string]int64 {
	for k, n := range from {
		if to == nil {
			to = map[string]int64{}
		}
		to[k] += n
	}
	return to
}

func target(trials []*rundir.Trial) rundir.Target {
	of := func(get func(*rundir.Target) *float64) *float64 {
		return known(trials, func(t *rundir.Trial) *float64 { return get(&t.Target) })
	}
	ofWhole := func(get func(*rundir.Target) *int64) *int64 {
		return rounded(of(func(t *rundir.Target) *float64 { return whole(get(t)) }))
	}
	return rundir.Target{
		CPUSeconds:                    of(func(t *rundir.Target) *float64 { return t.CPUSeconds }),
		CPUSecondsPerRequest:          of(func(t *rundir.Target) *float64 { return t.CPUSecondsPerRequest }),
		CPUShare:                      of(func(t *rundir.Target) *float64 { return t.CPUShare }),
		BusiestThreadShare:            of(func(t *rundir.Target) *float64 { return t.BusiestThreadShare }),
		UserShare:                     of(func(t *rundir.Target) *float64 { return t.UserShare }),
		RSSBytes:                      ofWhole(func(t *rundir.Target) *int64 { return t.RSSBytes }),
		Threads:                       ofWhole(func(t *rundir.Target) *int64 { return t.Threads }),
		Descriptors:                   ofWhole(func(t *rundir.Target) *int64 { return t.Descriptors }),
		VoluntarySwitchesPerRequest:   of(func(t *rundir.Target) *float64 { return t.VoluntarySwitchesPerRequest }),
		InvoluntarySwitchesPerRequest: of(func(t *rundir.Target) *float64 { return t.InvoluntarySwitchesPerRequest }),
		RunQueueWaitSecondsPerRequest: of(func(t *rundir.Target) *float64 { return t.RunQueueWaitSecondsPerRequest }),
		RunQueueWaitP99:               of(func(t *rundir.Target) *float64 { return t.RunQueueWaitP99 }),
		SyscallsPerSecond:             of(func(t *rundir.Target) *float64 { return t.SyscallsPerSecond }),
		SyscallsPerRequest:            of(func(t *rundir.Target) *float64 { return t.SyscallsPerRequest }),
		Syscalls:                      syscalls(trials),
		ConnectionsAccepted:           ofWhole(func(t *rundir.Target) *int64 { return t.ConnectionsAccepted }),
		Retransmits:                   ofWhole(func(t *rundir.Target) *int64 { return t.Retransmits }),
		ListenOverflows:               ofWhole(func(t *rundir.Target) *int64 { return t.ListenOverflows }),
		ThrottledSeconds:              of(func(t *rundir.Target) *float64 { return t.ThrottledSeconds }),
		Goroutines:                    ofWhole(func(t *rundir.Target) *int64 { return t.Goroutines }),
		ConnectionReuseRatio:          of(func(t *rundir.Target) *float64 { return t.ConnectionReuseRatio }),
		GCPauseSeconds:                of(func(t *rundir.Target) *float64 { return t.GCPauseSeconds }),
		GCPauseSecondsPerRequest:      of(func(t *rundir.Target) *float64 { return t.GCPauseSecondsPerRequest }),
		AllocatedBytesPerRequest:      of(func(t *rundir.Target) *float64 { return t.AllocatedBytesPerRequest }),
		AllocationsPerRequest:         of(func(t *rundir.Target) *float64 { return t.AllocationsPerRequest }),
	}
}

// syscalls are the mean numbers of calls per request, by name. A call that a trial does
// not list was not made in it, unless the trial counted none at all.
func syscalls(trials []*rundir.Trial) map[string]float64 {
	counted := 0.0
	sum := map[string]float64{}
	for _, t := range trials {
		if t.Target.Syscalls == nil {
			continue
		}
		counted++
		for name, n := range t.Target.Syscalls {
			sum[name] += n
		}
	}
	for name := range sum {
		sum[name] /= counted
	}
	if counted == 0 {
		return nil
	}
	return sum
}

func generator(trials []*rundir.Trial) rundir.Generator {
	of := func(get func(*rundir.Generator) *float64) *float64 {
		return known(trials, func(t *rundir.Trial) *float64 { return get(&t.Generator) })
	}
	g := rundir.Generator{
		CPUSeconds:           of(func(g *rundir.Generator) *float64 { return g.CPUSeconds }),
		CPUSecondsPerRequest: of(func(g *rundir.Generator) *float64 { return g.CPUSecondsPerRequest }),
		CPUShare:             of(func(g *rundir.Generator) *float64 { return g.CPUShare }),
		UserShare:            of(func(g *rundir.Generator) *float64 { return g.UserShare }),
		RunQueueWaitShare:    of(func(g *rundir.Generator) *float64 { return g.RunQueueWaitShare }),
		TimeslicesPerSecond:  of(func(g *rundir.Generator) *float64 { return g.TimeslicesPerSecond }),
		RSSBytes:             rounded(of(func(g *rundir.Generator) *float64 { return whole(g.RSSBytes) })),
	}
	for _, t := range trials {
		g.Workers = max(g.Workers, t.Generator.Workers)
	}
	return g
}

// known is the typical value of the trials in which the figure is known.
func known(trials []*rundir.Trial, get func(*rundir.Trial) *float64) *float64 {
	var values []float64
	for _, t := range trials {
		if v := get(t); v != nil {
			values = append(values, *v)
		}
	}
	return stat.Typical(values)
}

func count(trials []*rundir.Trial, get func(*rundir.Trial) int64) *float64 {
	return known(trials, func(t *rundir.Trial) *float64 {
		return new(float64(get(t)))
	})
}

func rounded(v *float64) *int64 {
	if v == nil {
		return nil
	}
	return new(int64(*v + 0.5)) // sizes and counts: never negative
}
