package observation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"dyno/host/cgroup"
	"dyno/internal/texts"
	"dyno/lab/pods"
	"dyno/observe"
	"dyno/results/rundir"
)

// Pods are a target's pods in Kubernetes, which agents on their nodes observe.
type Pods struct {
	Nodes   []Node
	Err     error        // why there are no nodes
	Changed func() error // says after the load why what was observed is not the whole target; nil if it is
}

// A Node is a machine with some of the pods.
type Node struct {
	Agent // which is on it
	Name  string
	Pods  []pods.Pod
}

// podColumns returns the beginning of a pod's columns.
func podColumns(p pods.Pod) string {
	return "pod_" + strings.NewReplacer("-", "_", ".", "_").Replace(p.Name)
}

// groupsOf returns the control groups of pods on this machine: of all, or none.
func groupsOf(all []pods.Pod) (groups []cgroup.Folders, err error) {
	for _, p := range all {
		f, err := cgroup.FindPod(p.UID)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", p.Name, err)
		}
		groups = append(groups, f)
	}
	return groups, nil
}

// openPods opens the observers of the target's pods: on all nodes, or on none.
func (w *Watch) openPods(ctx context.Context) {
	of := w.config.Pods
	if !w.available(of.Err) {
		return
	}
	var nodes []*Observed
	for _, n := range of.Nodes {
		seen, err := n.Observe(ctx, Subject{Pods: n.Pods})
		if err != nil {
			w.available(fmt.Errorf("node %s: %w", n.Name, err))
			for _, other := range nodes {
				for _, o := range other.Observers {
					w.available(o.Close())
				}
			}
			return
		}
		nodes = append(nodes, seen)
	}
	w.remote = together(nodes)
	w.targetCPUs = usable(&w.config.Variant.Target, w.remote.CPUs)
	w.take(w.remote)
}

// together returns what observes several machines as one: the columns that they have in common are added up.
func together(machines []*Observed) *Observed {
	if len(machines) == 1 {
		return machines[0]
	}
	all := &Observed{Rest: func() (stalls []observe.Stall, cost float64) {
		for _, m := range machines {
			s, c := m.Rest()
			stalls, cost = append(stalls, s...), cost+c
		}
		return stalls, cost
	}}
	sums := map[string]*sum{}
	for _, m := range machines {
		all.CPUs += m.CPUs
		all.Missing = append(all.Missing, m.Missing...)
		for _, o := range m.Observers {
			s := sums[o.Name()]
			if s == nil {
				s = &sum{Observer: o, divisor: 1}
				sums[o.Name()] = s
				all.Observers = append(all.Observers, s)
			}
			s.of = append(s.of, o)
		}
	}
	// Shares belong to the machines' mean time; the mean lag serves as well.
	if s := sums[TargetAgent]; s != nil {
		s.divisor = float64(len(machines))
	}
	return all
}

// A sum adds up what observers with the same name read on several machines. It has the columns of the first. A column
// that one of the others does not have is not known.
type sum struct {
	observe.Observer
	of      []observe.Observer
	divisor float64
}

// Observe implements observe.Observer.
func (s *sum) Observe(row []float64) (err error) {
	clear(row)
	for _, o := range s.of {
		theirs := o.Columns()
		cells := make([]float64, len(theirs))
		err = errors.Join(err, o.Observe(cells))
		for i, c := range s.Columns() {
			at := slices.IndexFunc(theirs, func(other observe.Column) bool { return other.Name == c.Name })
			if at < 0 {
				row[i] = math.NaN()
			} else {
				row[i] += cells[at] / s.divisor
			}
		}
	}
	return err
}

// Close implements observe.Observer.
func (s *sum) Close() (err error) {
	for _, o := range s.of {
		err = errors.Join(err, o.Close())
	}
	return err
}

// ofPods adds up the growth of a counter of each pod.
func (w *Watch) ofPods(window observe.Window, column string) (growth float64) {
	for _, n := range w.config.Pods.Nodes {
		for _, p := range n.Pods {
			growth += window.Delta(podColumns(p) + column)
		}
	}
	return growth
}

// recordPods records what each pod used.
func (w *Watch) recordPods(t *rundir.Trial, window observe.Window) {
	for _, n := range w.config.Pods.Nodes {
		for _, p := range n.Pods {
			name := podColumns(p)
			t.Pods = append(t.Pods, rundir.Pod{
				Name: p.Name, Node: n.Name,
				CPUSeconds: known(window.Delta(name + "_cpu_seconds")), MemoryBytes: largest(window, name+"_memory_bytes"),
			})
		}
	}
}

// PodsChanged returns the error of a target that has other pods than when its load began.
func PodsChanged(before, after []pods.Pod) error {
	if slices.Equal(before, after) {
		return nil
	}
	return texts.NewError("unavailable.pods.changed", "before", names(before), "after", names(after))
}

func names(all []pods.Pod) string {
	var list []string
	for _, p := range all {
		list = append(list, p.Name)
	}
	return strings.Join(list, ", ")
}
