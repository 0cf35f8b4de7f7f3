package explain

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	pprof "github.com/google/pprof/profile"

	"dyno/internal/texts"
	"dyno/observe/profile"
	"dyno/results/rundir"
)

// A kind is a profile that can be divided by requests.
type kind struct {
	name  string      // in trial.json
	value string      // in the profile
	unit  rundir.Unit // of the table
	scale float64     // from the profile's unit to the table's
}

const (
	cpuKind  = "cpu"
	waitKind = "off_cpu"
)

// kinds are in the order of their tables.
func kinds() []kind {
	const fromNanoseconds = 1e-9
	return []kind{
		{cpuKind, "cpu", rundir.Seconds, fromNanoseconds},
		{waitKind, "off_cpu", rundir.Seconds, fromNanoseconds},
		{"allocs", "alloc_space", rundir.Bytes, 1},
		{"mutex", "delay", rundir.Seconds, fromNanoseconds},
		{"block", "delay", rundir.Seconds, fromNanoseconds},
	}
}

// A usage is one trial's costs per request.
type usage struct {
	functions, groups cost
	callers           map[string]cost // of each function, by caller; "" is that of none
	covered           float64         // of CPU time: the share of the accounted time that the samples saw
}

// tabulate ranks what one kind of profile shows in all rounds.
func tabulate(k kind, trials []pair) (*Table, map[string]float64, error) {
	var functions, groups []round
	covered := map[string]float64{}
	label := map[string]string{} // the group of a function
	changes := map[string]cost{} // of a function in all rounds, by caller
	for _, p := range trials {
		base, err := read(k, p.base, label)
		if err != nil {
			return nil, nil, err
		}
		variant, err := read(k, p.variant, label)
		if err != nil {
			return nil, nil, err
		}
		functions = append(functions, round{base.functions, variant.functions})
		groups = append(groups, round{base.groups, variant.groups})
		add(changes, base.callers, -1)
		add(changes, variant.callers, 1)
		covered[p.base.Variant] += base.covered / float64(len(trials))
		covered[p.variant.Variant] += variant.covered / float64(len(trials))
	}
	t := &Table{Kind: k.name, Unit: k.unit}
	var err error
	if t.Functions, err = rank(functions); err != nil {
		return nil, nil, fmt.Errorf("%s: functions: %w", k.name, err)
	}
	if t.Groups, err = rank(groups); err != nil {
		return nil, nil, fmt.Errorf("%s: groups: %w", k.name, err)
	}
	if len(t.Functions) == 0 {
		return nil, nil, lacks("unexplained.empty", "profile", k.name)
	}
	for i := range t.Functions {
		f := &t.Functions[i]
		f.Group, f.Caller = label[f.Name], mainCaller(changes[f.Name])
	}
	return t, covered, nil
}

// add adds the costs of functions by caller, times a factor.
func add(to, costs map[string]cost, factor float64) {
	for name, callers := range costs {
		if to[name] == nil {
			to[name] = cost{}
		}
		for caller, v := range callers {
			to[name][caller] += factor * v
		}
	}
}

// mainCaller is the one to whom more than half of a function's changes belong; empty if there is none.
func mainCaller(changes cost) string {
	all := 0.0
	for _, v := range changes {
		all += math.Abs(v)
	}
	for caller, v := range changes {
		if 2*math.Abs(v) > all {
			return caller
		}
	}
	return ""
}

// filed returns a trial's profile of a kind, or nil.
func filed(t *rundir.TrialFolder, kind string) *rundir.Profile {
	i := slices.IndexFunc(t.Profiles, func(p rundir.Profile) bool { return p.Kind == kind })
	if i < 0 {
		return nil
	}
	return &t.Profiles[i]
}

// read turns one trial's profile into costs per request.
func read(k kind, t *rundir.TrialFolder, label map[string]string) (usage, error) {
	p := filed(t, k.name)
	if p == nil {
		number := strconv.Itoa(t.Number)
		if why := why(t, k.name); why != nil {
			return usage{}, &missingError{texts.New("unexplained.missing.why", "trial", number, "profile", k.name).With("why", *why)}
		}
		return usage{}, lacks("unexplained.missing", "trial", number, "profile", k.name)
	}
	content, err := open(t, p.File)
	if err != nil {
		return usage{}, err
	}
	table, divide := profile.Table, profile.Calls
	if k.name == waitKind {
		table, divide = profile.Waits, profile.WaitCalls
	}
	costs, err := table(content, k.value)
	if err != nil {
		return usage{}, fmt.Errorf("%s: %s: %w", t.Name, p.File, err)
	}
	calls, err := divide(content, k.value, p.Module)
	if err != nil {
		return usage{}, fmt.Errorf("%s: %s: %w", t.Name, p.File, err)
	}
	u := usage{functions: cost{}, groups: cost{}, callers: map[string]cost{}}
	scale := 0.0
	switch requests := float64(t.Work()); {
	case k.name == cpuKind:
		// The costs are shares of the time that the kernel accounted, so they add up to
		// it.
		perRequest, all := t.Target.CPUSecondsPerRequest, t.Target.CPUSeconds
		if perRequest == nil || all == nil || costs.Total <= 0 {
			return usage{}, lacks("unexplained.cpu", "trial", strconv.Itoa(t.Number))
		}
		scale = *perRequest / costs.Total
		u.covered = costs.Total * k.scale / *all
	case requests <= 0 || p.Seconds <= 0 || t.WindowSeconds <= 0:
		return usage{}, lacks("unexplained.requests", "trial", strconv.Itoa(t.Number), "profile", k.name)
	default:
		scale = k.scale / (requests * p.Seconds / t.WindowSeconds)
	}
	for f, v := range costs.Flat {
		name := f.String()
		u.functions[name] += v * scale
		if label[name] == "" {
			label[name] = string(profile.Classify([]profile.Function{f}))
		}
	}
	for c, v := range calls {
		name, caller := c.Function.String(), ""
		if c.Caller.Name != "" {
			caller = c.Caller.String()
		}
		if u.callers[name] == nil {
			u.callers[name] = cost{}
		}
		u.callers[name][caller] += v * scale
	}
	for g, v := range costs.Groups {
		u.groups[string(g)] += v * scale
	}
	return u, nil
}

// why returns the trial's reason for a profile that it does not have. Reasons begin with its name
// as people write it, such as off-CPU.
func why(t *rundir.TrialFolder, kind string) *rundir.Message {
	for _, m := range t.Unavailable {
		about, ok := strings.CutPrefix(strings.ReplaceAll(strings.ToLower(m.English()), "-", "_"), "profile ")
		if ok && strings.HasPrefix(about, kind) {
			return &m
		}
	}
	return nil
}

func open(t *rundir.TrialFolder, file string) (*pprof.Profile, error) {
	f, err := t.File(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	p, err := pprof.Parse(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", t.Name, file, err)
	}
	return p, nil
}

// leftover collects the stacks that the targets did not give back after the load. Only a
// stack that was there after every trial counts, so that chance variation between trials
// is left out.
func leftover(trials []pair) ([]Leftover, error) {
	type key struct{ variant, kind, where string }
	counts, seen := map[key]float64{}, map[key]int{}
	n := map[string]int{}
	add := func(k key, count float64) {
		if count > 0 {
			counts[k] += count
			seen[k]++
		}
	}
	for _, p := range trials {
		for _, t := range []*rundir.TrialFolder{p.base, p.variant} {
			n[t.Variant]++
			if left := t.Target.DescriptorsLeft; left != nil {
				add(key{t.Variant, "descriptors", ""}, float64(*left))
			}
			before, after := filed(t, "goroutine_before"), filed(t, "goroutine_after")
			if before == nil || after == nil {
				continue
			}
			b, err := open(t, before.File)
			if err != nil {
				return nil, err
			}
			a, err := open(t, after.File)
			if err != nil {
				return nil, err
			}
			stacks, err := profile.Leftover(b, a)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.Name, err)
			}
			for _, s := range stacks {
				add(key{t.Variant, "goroutines", strings.Join(s.Functions, " ← ")}, float64(s.More()))
			}
		}
	}
	var list []Leftover
	for k, count := range counts {
		if trials := n[k.variant]; seen[k] == trials {
			list = append(list, Leftover{Variant: k.variant, Kind: k.kind, Where: k.where, Count: count / float64(trials)})
		}
	}
	slices.SortFunc(list, func(a, b Leftover) int {
		if a.Variant != b.Variant {
			return strings.Compare(a.Variant, b.Variant)
		}
		if a.Count != b.Count {
			return before(a.Count > b.Count)
		}
		return strings.Compare(a.Where, b.Where)
	})
	return list, nil
}
