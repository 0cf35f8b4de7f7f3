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

// A Kind is a profile that can be divided by requests.
type Kind struct {
	Name  string      // in trial.json
	Value string      // in the profile
	Unit  rundir.Unit // of the cost of a request
	Scale float64     // from the profile's unit to that one
}

const (
	cpuKind  = "cpu"
	waitKind = "off_cpu"
)

// Kinds are in the order of their tables.
func Kinds() []Kind {
	const fromNanoseconds = 1e-9
	return []Kind{
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
	callers           map[string]cost // of each function, by caller; "" without one
	covered           float64         // of CPU time: the share of the accounted time that the samples saw
}

// tabulate ranks what one kind of profile shows in all rounds.
func tabulate(k Kind, trials []pair) (*Table, map[string]float64, error) {
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
	t := &Table{Kind: k.Name, Unit: k.Unit}
	var err error
	if t.Functions, err = rank(functions); err != nil {
		return nil, nil, fmt.Errorf("%s: functions: %w", k.Name, err)
	}
	if t.Groups, err = rank(groups); err != nil {
		return nil, nil, fmt.Errorf("%s: groups: %w", k.Name, err)
	}
	if len(t.Functions) == 0 {
		return nil, nil, newMissing("unexplained.empty", "profile", k.Name)
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

// mainCaller is the caller with more than half of a function's changes; empty if there is none.
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

// Filed returns a trial's profile of a kind, or nil.
func Filed(t *rundir.TrialFolder, kind string) *rundir.Profile {
	i := slices.IndexFunc(t.Profiles, func(p rundir.Profile) bool { return p.Kind == kind })
	if i < 0 {
		return nil
	}
	return &t.Profiles[i]
}

// read turns one trial's profile into costs per request.
func read(k Kind, t *rundir.TrialFolder, label map[string]string) (usage, error) {
	p := Filed(t, k.Name)
	if p == nil {
		number := strconv.Itoa(t.Number)
		if why := why(t, k.Name); why != nil {
			return usage{}, &missingError{texts.New("unexplained.missing.why", "trial", number, "profile", k.Name).With("why", *why)}
		}
		return usage{}, newMissing("unexplained.missing", "trial", number, "profile", k.Name)
	}
	content, err := Open(t, p.File)
	if err != nil {
		return usage{}, err
	}
	table, divide := profile.Table, profile.Calls
	if k.Name == waitKind {
		table, divide = profile.Waits, profile.WaitCalls
	}
	costs, err := table(content, k.Value)
	if err != nil {
		return usage{}, fmt.Errorf("%s: %s: %w", t.Name, p.File, err)
	}
	calls, err := divide(content, k.Value, p.Module)
	if err != nil {
		return usage{}, fmt.Errorf("%s: %s: %w", t.Name, p.File, err)
	}
	u := usage{functions: cost{}, groups: cost{}, callers: map[string]cost{}}
	scale := 0.0
	switch requests := float64(t.Work()); {
	case k.Name == cpuKind:
		// The costs are shares of the time that the kernel accounted, so they add up to
		// it.
		perRequest, all := t.Target.CPUSecondsPerRequest, t.Target.CPUSeconds
		if perRequest == nil || all == nil || costs.Total <= 0 {
			return usage{}, newMissing("unexplained.cpu", "trial", strconv.Itoa(t.Number))
		}
		scale = *perRequest / costs.Total
		u.covered = costs.Total * k.Scale / *all
	case requests <= 0 || p.Seconds <= 0 || t.WindowSeconds <= 0:
		return usage{}, newMissing("unexplained.requests", "trial", strconv.Itoa(t.Number), "profile", k.Name)
	default:
		scale = k.Scale / (requests * p.Seconds / t.WindowSeconds)
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

// Open reads a profile of a trial.
func Open(t *rundir.TrialFolder, file string) (*pprof.Profile, error) {
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
			before, after := Filed(t, "goroutine_before"), Filed(t, "goroutine_after")
			if before == nil || after == nil {
				continue
			}
			b, err := Open(t, before.File)
			if err != nil {
				return nil, err
			}
			a, err := Open(t, after.File)
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
