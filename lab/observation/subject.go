package observation

import (
	"context"
	"math"
	"os"
	"runtime"
	"strings"

	"dyno/host/cgroup"
	"dyno/host/proc"
	"dyno/host/target"
	"dyno/lab/pods"
	"dyno/observe"
	"dyno/observe/sockets"
)

// A Subject is a target, as it is observed on the machine where it runs.
type Subject struct {
	Address string // as the load dials it
	Sockets bool   // the connections to it are observed
	CPUs    []int  // its own, that no generator has; empty: it has none
	// At most one of these says which processes a target has that dyno did not start.
	Listens bool       // the process that listens at its address
	PID     int        // this process
	Cgroup  string     // those in this control group
	Pods    []pods.Pod // those in these pods

	Process *target.Process `json:"-"` // that dyno has started on this machine; nil: it runs already
}

// An Agent observes a target on its machine.
type Agent interface {
	Observe(ctx context.Context, s Subject) (*Observed, error)
}

// Observed is what observes a target on its machine.
type Observed struct {
	Observers []observe.Observer
	Missing   []error
	Server    target.Listener // the target's process, where dyno did not start it and it is known
	CPUs      int             // of the machine
	Boot      string          // of the machine; empty: not known, or of several
	// Rest returns, once the observers are closed, what no reading has: when the target's CPUs were
	// away, and what it cost to observe.
	Rest func() ([]observe.Stall, float64)
}

// Open opens all observers of a target on this machine, and of the machine. They are read by somebody else, who
// also closes them.
func (s Subject) Open(ctx context.Context) *Observed {
	o := &Observed{CPUs: runtime.NumCPU(), Boot: Boot()}
	l, err := s.locate()
	o.add(nil, err)
	o.Server = l.server
	l.around(ctx, o)
	users := []observe.CPUUser{itself{}}
	if tree, err := l.tree(); tree != nil || err != nil {
		if o.add(tree, err) {
			found := newUpstreams(tree)
			o.add(found, nil)
			users = append(users, tree, found)
		}
	}
	machine, err := observe.NewMachine(users...)
	if o.add(renamed{machine, TargetMachine}, err) {
		for _, missing := range machine.Missing() {
			o.addMissing(missing)
		}
	}
	if len(s.CPUs) > 0 {
		cpus, err := observe.NewCPUs("target_cpus", s.CPUs...)
		o.add(cpus, err)
	}
	var sleeper *observe.Wakeup
	if len(s.CPUs) > 0 {
		sleeper, err = observe.NewUrgentWakeup("target_wakeup", s.CPUs...)
		o.add(sleeper, err)
	}
	o.Rest = func() (stalls []observe.Stall, cost float64) {
		if sleeper != nil {
			stalls = sleeper.Stalls()
		}
		return stalls, itself{}.CPUSeconds()
	}
	return o
}

// The columns of a target on another machine, beyond those that it has on the generator's.
const (
	TargetMachine = "target_machine" // prefix of its machine's columns
	// TargetAgent is the prefix of its agent's columns; the agent reads all these at once.
	TargetAgent = "target_agent"
	TargetTime  = TargetAgent + "_time_seconds"
)

// add adds an observer, unless there is an error, or neither.
func (o *Observed) add(of observe.Observer, err error) bool {
	switch {
	case err != nil:
		o.addMissing(err)
	case of != nil:
		o.Observers = append(o.Observers, of)
	}
	return err == nil
}

func (o *Observed) addMissing(err error) { o.Missing = append(o.Missing, err) }

// A renamed observer has columns that begin otherwise.
type renamed struct {
	observe.Observer
	name string
}

func (r renamed) Name() string { return r.name }

// itself knows the CPU time of this process.
type itself struct{}

func (itself) CPUSeconds() float64 {
	t, err := observe.ProcessTime()
	if err != nil {
		return math.NaN()
	}
	return t.Seconds()
}

// A located target is one whose processes are known, as far as they can be.
type located struct {
	Subject
	server target.Listener  // 0: not known
	group  cgroup.Folders   // that was named
	pods   []cgroup.Folders // of all pods; none: not all are known
}

// locate finds out which processes the target has.
func (s Subject) locate() (l located, err error) {
	l.Subject = s
	switch {
	case s.Process != nil:
	case runtime.GOOS != "linux":
		if s.Cgroup != "" || s.PID != 0 || s.Listens {
			err = observe.NeedsLinux("target")
		}
	case s.Cgroup != "":
		if l.group, err = cgroup.Find(s.Cgroup); err == nil {
			l.server, err = target.FirstIn(l.group)
		}
	case len(s.Pods) > 0:
		l.pods, err = groupsOf(s.Pods)
	case s.PID != 0:
		l.server, err = target.ProcessNamed(s.PID)
	case s.Listens:
		l.server, _ = target.ListenerAt(s.Address)
	}
	if isAncestor(l.server.PID) {
		l.server, l.group = target.Listener{}, cgroup.Folders{}
	}
	return l, err
}

// isAncestor tells whether a process is this one, or one of those that have started it: then dyno would
// measure itself.
func isAncestor(pid int) bool {
	for of := os.Getpid(); of > 1; {
		if of == pid {
			return true
		}
		p, err := proc.Read(of)
		if err != nil {
			return false
		}
		of = p.Parent
	}
	return false
}

// known tells whether anything is known of the target's processes.
func (l *located) known() bool { return l.Process != nil || l.server.PID != 0 }

// tree returns the observer of the target's processes; nil if they are not known.
func (l *located) tree() (*observe.Tree, error) {
	const name = "target"
	switch {
	case l.Process != nil:
		return observe.NewTreeBelow(name, l.Process.Supervisor())
	case l.group != (cgroup.Folders{}):
		return observe.NewTreeIn(name, l.group.Processes())
	case len(l.pods) > 0:
		var folders []string
		for _, f := range l.pods {
			folders = append(folders, f.Processes())
		}
		return observe.NewTreeIn(name, folders...)
	case l.server.PID != 0:
		return observe.NewTree(name, l.server.PID)
	}
	return nil, nil
}

// around opens observers of things around the target's processes: connections and control groups. Each
// pod has a network of its own.
func (l *located) around(ctx context.Context, o *Observed) {
	if len(l.Pods) > 0 {
		for i, f := range l.pods {
			c, err := observe.NewCgroup(podColumns(l.Pods[i]), f)
			o.add(c, err)
		}
		return
	}
	pid, group := 0, l.group
	if l.Process != nil {
		pid, group = l.Process.PID(), l.Process.Cgroup()
	}
	if l.Sockets && !strings.HasPrefix(l.Address, "unix:") {
		s, err := sockets.NewConnections(ctx, sockets.Config{Name: socketColumns, Address: l.Address, PID: pid})
		if o.add(s, err) {
			for _, missing := range s.Missing() {
				o.addMissing(missing)
			}
		}
	}
	n, err := sockets.NewCounters(networkColumns, pid)
	o.add(n, err)
	// Most targets have no group of their own, so its absence is not recorded.
	if group != (cgroup.Folders{}) {
		c, err := observe.NewCgroup(cgroupColumns, group)
		o.add(c, err)
	}
}
