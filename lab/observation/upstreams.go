package observation

import (
	"errors"
	"math"
	"slices"
	"time"

	"dyno/host/target"
	"dyno/observe"
)

// upstreamsDue is how long after the beginning of a load the target's upstreams are looked for: a proxy connects to
// them with its first requests.
const upstreamsDue = 100 * time.Millisecond

// upstreams observes the servers on this machine that the target has connected to, as a proxy to its backends. They
// are a part of what is measured, and no disturbance of it. It finds them once.
type upstreams struct {
	known []*observe.Tree // whose processes are observed already; the target's first
	due   time.Time
	trees []*observe.Tree
	base  []float64 // CPU time of each when it was found
	used  float64   // by all since then
}

// newUpstreams observes those of a target, but for the processes of others.
func newUpstreams(target *observe.Tree, others ...*observe.Tree) *upstreams {
	return &upstreams{known: append([]*observe.Tree{target}, others...), due: time.Now().Add(upstreamsDue)}
}

// Name returns "upstreams".
func (u *upstreams) Name() string { return "upstreams" }

// Columns returns the only column.
func (u *upstreams) Columns() []observe.Column {
	return []observe.Column{{Name: "cpu_seconds", Kind: observe.Counter, Help: "CPU time of the servers on this machine that the target has connected to, since they were found"}}
}

// CPUSeconds returns the CPU time of the last reading.
func (u *upstreams) CPUSeconds() float64 { return u.used }

// Observe reads the upstreams.
func (u *upstreams) Observe(row []float64) error {
	var err error
	if !u.due.IsZero() && time.Now().After(u.due) {
		u.due = time.Time{}
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
		u.trees, u.base = append(u.trees, tree), append(u.base, tree.CPUSeconds())
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
