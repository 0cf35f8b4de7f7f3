package html

import (
	"fmt"
	"runtime"
	"slices"

	pprof "github.com/google/pprof/profile"
	"golang.org/x/sync/errgroup"

	"dyno/judge/explain"
	"dyno/observe/profile"
	"dyno/results/rundir"
)

const (
	leastShare = 0.001 // of the whole: smaller parts are drawn as one box
	mostNodes  = 60_000
	mostPairs  = 8
	mostItems  = 20 // of an explanation's tables; ranked ones beyond
)

// pairs are the variants that are compared with each other: each with the base, and each
// step of a ladder with the one before.
func pairs(run *rundir.Run) [][2]string {
	var list [][2]string
	add := func(base, variant string) {
		if p := [2]string{base, variant}; base != "" && base != variant && !slices.Contains(list, p) && len(list) < mostPairs {
			list = append(list, p)
		}
	}
	for _, role := range []string{"", rundir.RoleStep, rundir.RoleControl} {
		for _, c := range run.Comparisons {
			if c.Role == role {
				add(c.Base, c.Variant)
			}
		}
	}
	return list
}

// explain adds the causes of differences, where there are profiles. Pairs are explained
// at the same time: most of the time goes into reading profiles.
func (d *Document) explain(f *rundir.Folder) {
	if f.Run.Plan.Profile == nil {
		return
	}
	list := pairs(&f.Run)
	found, faults := make([]*explain.Explanation, len(list)), make([]error, len(list))
	sideBySide(len(list), func(i int) { found[i], faults[i] = explain.Explain(f, list[i][0], list[i][1]) })
	for i, e := range found {
		if faults[i] != nil {
			d.Unreadable = append(d.Unreadable, fmt.Sprintf("explanation of %s and %s: %v", list[i][0], list[i][1], faults[i]))
			continue
		}
		e.Resources = nil // the page shows them as dimensions
		for j := range e.Tables {
			t := &e.Tables[j]
			t.Functions, t.Groups = trimmed(t.Functions), trimmed(t.Groups)
		}
		d.Explanations = append(d.Explanations, *e)
	}
}

// trimmed keeps the items that matter, without their values by round.
func trimmed(items []explain.Item) []explain.Item {
	var kept []explain.Item
	for i, item := range items {
		if i < mostItems || item.Ranked && i < 5*mostItems {
			item.Change.Values = nil
			kept = append(kept, item)
		}
	}
	return kept
}

// A sum adds up the profiles of one kind and one variant. They are divided by its requests.
type sum struct {
	profile  *pprof.Profile
	requests float64
}

// flames adds the flame graphs: of each pair one with both, and of a run that compares
// nothing one of each variant.
func (d *Document) flames(f *rundir.Folder) {
	if f.Run.Plan.Profile == nil {
		return
	}
	list := pairs(&f.Run)
	if len(list) == 0 {
		for i, v := range f.Run.Plan.Variants {
			if i < mostPairs {
				list = append(list, [2]string{"", v.Name})
			}
		}
	}
	var names []string
	for _, p := range list {
		for _, name := range p {
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	index := newIndex()
	for _, k := range explain.Kinds() {
		if !slices.Contains(f.Run.Plan.Profile.Kinds, k.Name) {
			continue
		}
		sums, faults := make([]*sum, len(names)), make([][]string, len(names)+len(list))
		sideBySide(len(names), func(i int) { sums[i], faults[i] = add(f, k, names[i]) })
		of := func(name string) *sum {
			if i := slices.Index(names, name); i >= 0 {
				return sums[i]
			}
			return nil
		}
		roots := make([]*profile.Node, len(list))
		sideBySide(len(list), func(i int) {
			base, variant := of(list[i][0]), of(list[i][1])
			if variant == nil || list[i][0] != "" && base == nil {
				return
			}
			var err error
			if roots[i], err = graph(k, base, variant); err != nil {
				faults[len(names)+i] = []string{fmt.Sprintf("flame graph of %s, %s: %v", list[i][1], k.Name, err)}
			}
		})
		for i, p := range list {
			if roots[i] != nil {
				index.add(Flame{Kind: k.Name, Unit: k.Unit, Base: p[0], Variant: p[1]}, roots[i])
			}
		}
		d.Unreadable = append(d.Unreadable, slices.Concat(faults...)...)
	}
	if len(index.flames.Graphs) > 0 {
		d.Flames = &index.flames
	}
}

// sideBySide calls f with every number below n, and returns when all calls have returned.
// It makes as many calls at once as there are processors.
func sideBySide(n int, f func(i int)) {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		g.Go(func() error {
			f(i)
			return nil
		})
	}
	_ = g.Wait() // they return none
}

func graph(k explain.Kind, base, variant *sum) (*profile.Node, error) {
	if base == nil {
		base = &sum{profile: &pprof.Profile{SampleType: variant.profile.SampleType}, requests: 1}
	}
	return profile.FlameDifference(base.profile, variant.profile, k.Value, base.requests, variant.requests, leastShare)
}

// add adds a variant's profiles up; nil if there are none. In profiles of CPU time the
// samples divide the time that the kernel accounted, as in explanations.
func add(f *rundir.Folder, k explain.Kind, variant string) (s *sum, faults []string) {
	var list []*pprof.Profile
	var requests, accounted, trials float64
	for _, t := range f.Trials {
		if t.Purpose != rundir.PurposeProfile || !t.Complete || t.Variant != variant {
			continue
		}
		filed := explain.Filed(t, k.Name)
		if filed == nil || t.WindowSeconds <= 0 {
			continue
		}
		p, err := explain.Open(t, filed.File)
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		list = append(list, p)
		requests += float64(t.Work()) * filed.Seconds / t.WindowSeconds
		if v := t.Target.CPUSecondsPerRequest; v != nil {
			accounted += *v
			trials++
		}
	}
	if len(list) == 0 {
		return nil, faults
	}
	all, err := profile.Merge(list)
	if err != nil {
		faults = append(faults, fmt.Sprintf("profiles of %s: %v", variant, err))
		return nil, faults
	}
	s = &sum{all, requests / k.Scale}
	if k.Name == "cpu" {
		costs, err := profile.Table(all, k.Value)
		if err != nil || accounted <= 0 || costs.Total <= 0 {
			return nil, faults
		}
		s.requests = costs.Total / (accounted / trials)
	}
	if s.requests <= 0 {
		return nil, faults
	}
	return s, faults
}

// An index gives functions and groups their numbers.
type index struct {
	flames    Flames
	functions map[profile.Function]int
	groups    map[string]int
	nodes     int // of all graphs
}

func newIndex() *index {
	return &index{functions: map[profile.Function]int{}, groups: map[string]int{}}
}

// add adds a graph's nodes to the page, unless the page holds too many already.
func (x *index) add(f Flame, root *profile.Node) {
	if len(root.Children) == 0 || x.nodes >= mostNodes {
		return
	}
	var visit func(n *profile.Node, stack []profile.Function)
	visit = func(n *profile.Node, stack []profile.Function) {
		number := -1
		if n != root {
			stack = append(stack, n.Function)
			number = x.function(n.Function, stack)
		}
		f.Functions, f.Children = append(f.Functions, number), append(f.Children, len(n.Children))
		f.Self = append(f.Self, n.Self)
		if f.Base != "" {
			f.BaseSelf = append(f.BaseSelf, n.BaseSelf)
		}
		for _, c := range n.Children {
			visit(c, stack)
		}
	}
	visit(root, nil)
	x.nodes += len(f.Functions)
	x.flames.Graphs = append(x.flames.Graphs, f)
}

// function returns a function's number. Its group is that of the stack in which it is
// met first.
func (x *index) function(f profile.Function, stack []profile.Function) int {
	if n, known := x.functions[f]; known {
		return n
	}
	leafFirst := slices.Clone(stack)
	slices.Reverse(leafFirst)
	group := string(profile.Classify(leafFirst))
	if f.Name == profile.Rest {
		group = ""
	}
	g, known := x.groups[group]
	if !known {
		g = len(x.flames.Groups)
		x.groups[group] = g
		x.flames.Groups = append(x.flames.Groups, group)
	}
	n := len(x.flames.Functions)
	x.functions[f] = n
	x.flames.Functions = append(x.flames.Functions, Function{Name: f.Name, Mapping: f.Mapping, Group: g})
	return n
}
