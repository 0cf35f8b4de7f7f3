package observation

import (
	"errors"
	"math"
	"slices"
	"time"

	"dyno/host/proc"
	"dyno/host/target"
	"dyno/observe"
)

// upstreamsDue is how long after the beginning of a load the target's upstreams are looked for: a proxy connects to
// them with its first requests.
const upstreamsDue = 100 * time.Millisecond

// upstreams observes the servers on this machine that the target has connected to, as a proxy to its backends. They
// are a part of what is measured, and no disturbance of it. It finds them once.
type upstreams struct {
	known    []*observe.Tree // whose processes are observed already; the target's first
	startCPU map[int]float64 // CPU time of each process of the machine at the beginning
	due      time.Time
	found    bool
	trees    []*observe.Tree
	base     []float64 // CPU time of each at the beginning
	used     float64   // by all since then
}

// newUpstreams observes those of a target, but for the processes of others.
func newUpstreams(target *observe.Tree, others ...*observe.Tree) *upstreams {
	u := &upstreams{known: append([]*observe.Tree{target}, others...), startCPU: map[int]float64{}, due: time.Now().Add(upstreamsDue)}
	pids, _ := proc.PIDs() // without them, what upstreams use counts from when they are found
	for _, pid := range pids {
		if used, err := observe.ProcessSeconds(pid); err == nil {
			u.startCPU[pid] = used
		}
	}
	return u
}

// Name returns "upstreams".
func (u *upstreams) Name() string { return "upstreams" }

// Columns returns the only column.
func (u *upstreams) Columns() []observe.Column {
	return []observe.Column{{Name: "cpu_seconds", Kind: observe.Counter, Help: "CPU time of the servers on this machine that the target has connected to, since the load began"}}
}

// CPUSeconds returns the CPU time of the last reading.
func (u *upstreams) CPUSeconds() float64 { return u.used }

// Observe reads the upstreams.
func (u *upstreams) Observe(row []float64) error {
	var err error
	if !u.found && time.Now().After(u.due) {
		u.found = true
		err = u.find()
	}
	used := 0.0
	for i, tree := range u.trees {
		err = errors.Join(err, tree.Observe(make([]float64, len(tree.Columns()))))
		used += tree.CPUSeconds() - u.base[i]
	}
	if !math.IsNaN(used) {
		u.used = used
	}
	row[0] = u.used
	return err
}

func (u *upstreams) find() (err error) {
	var known []int
	for _, tree := range u.known {
		known = append(known, tree.PIDs()...)
	}
	for _, l := range target.ServersOf(u.known[0].PIDs()) {
		if slices.Contains(known, l.PID) || isAncestor(l.PID) {
			continue
		}
		tree, failure := observe.NewTree(u.Name(), l.PID)
		if failure != nil {
			continue // it has ended
		}
		err = errors.Join(err, tree.Observe(make([]float64, len(tree.Columns()))))
		base := tree.CPUSeconds()
		for _, pid := range tree.PIDs() {
			if now, failure := observe.ProcessSeconds(pid); failure == nil && len(u.startCPU) > 0 {
				base -= now - u.startCPU[pid]
			}
		}
		u.trees, u.base = append(u.trees, tree), append(u.base, base)
	}
	return err
}

// Close closes all that it has found.
func (u *upstreams) Close() (err error) {
	for _, tree := range u.trees {
		err = errors.Join(err, tree.Close())
	}
	return err
}
