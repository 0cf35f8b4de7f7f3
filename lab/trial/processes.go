package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"dyno/host/cgroup"
	"dyno/host/target"
	"dyno/lab/observation"
	"dyno/lab/plan"
	"dyno/lab/remote"
	"dyno/results/rundir"
)

// targetName names the target's log, next to the services' logs.
const targetName = "target"

// A stage holds the running processes of a trial: the services and the target.
type stage struct {
	variant   *plan.Variant     // with its run-time variables filled in
	variables map[string]string // their values, including the target's
	target    process           // nil if the target is already running, or is a program
	processes []process         // in the order they were started: services before the target
	// Processes on agents' machines, each with the placement of the same index.
	connections []*remote.Process
	placements  []rundir.Placement
	watched     *remote.Process   // the target; nil: it is on this machine, or consists of pods
	pods        *observation.Pods // of the target; nil: it has none

	side *side  // of a duet; nil: no other load runs at the same time
	idle *stage // the other variant of a duet, which is up without load
}

// A process is a target or a service that runs: a *target.Process on this machine, or a *remote.Process on an agent's.
type process interface {
	Done() <-chan struct{}
	Err() error // valid once Done is closed
	Stop(ctx context.Context) error
}

// local returns the target, if dyno has started it on this machine.
func (s *stage) local() *target.Process {
	p, _ := s.target.(*target.Process)
	return p
}

// neighbours are dyno's other running processes: the other side of a duet.
func (s *stage) neighbours() (all []*target.Process) {
	peer := s.idle
	if s.side != nil {
		peer = s.side.partners.other(s.side.number)
	}
	if peer == nil {
		return nil
	}
	for _, p := range peer.processes {
		if here, ok := p.(*target.Process); ok {
			all = append(all, here)
		}
	}
	return all
}

// services returns the services that run on this machine.
func (s *stage) services() []observation.Service {
	var all []observation.Service
	for i := range s.variant.Services {
		if p, ok := s.processes[i].(*target.Process); ok {
			all = append(all, observation.Service{Name: s.variant.Services[i].Name, Process: p})
		}
	}
	return all
}

// stop stops everything, the last started first. It returns the errors that are not known
// yet.
func (s *stage) stop(ctx context.Context, values error) error {
	all := slices.Clone(s.processes)
	for _, p := range s.connections {
		if !slices.Contains(all, process(p)) { // it was only observed, or could not be started
			all = append(all, p)
		}
	}
	var errs []error
	for _, p := range slices.Backward(all) {
		if err := p.Stop(ctx); err != nil && !errors.Is(values, err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// died returns a channel that receives the first process that ends by itself, or whose agent is lost.
func (s *stage) died() <-chan process {
	all := slices.Clone(s.processes)
	if s.watched != nil && s.target == nil { // it was not started, but its figures come from the agent
		all = append(all, s.watched)
	}
	dead := make(chan process, len(all))
	for _, p := range all {
		go func() {
			<-p.Done() // at the latest when the stage is stopped
			dead <- p
		}()
	}
	return dead
}

// set starts a variant's services and its target, each when the ones before are ready. It
// does not start a program yet. On failure nothing is left running. output returns where
// a process's output goes.
func (r *runner) set(ctx context.Context, v plan.Variant, output func(name string) (io.Writer, error)) (_ *stage, err error) {
	s := &stage{variant: &v}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop(context.WithoutCancel(ctx), err))
		}
	}()
	values := map[string]string{}
	for i := range v.Services {
		service := &v.Services[i]
		m, err := r.machine(ctx, s, service.Name, service.Agent)
		if err != nil {
			return nil, err
		}
		own := maps.Clone(values)
		if err := variables(ctx, m, own); err != nil {
			return nil, err
		}
		values[service.Name+".port"], values[service.Name+".admin"] = own["port"], own["admin"]
		values[service.Name+".addr"] = own["host"] + ":" + own["port"]
		if _, err := r.start(ctx, s, m, service.Name, service.Process, own, values[service.Name+".addr"], output); err != nil {
			return nil, err
		}
	}
	started := len(v.Target.Start) > 0
	var m machine
	if started || v.Target.Agent != "" {
		if m, err = r.machine(ctx, s, rundir.PlacedTarget, v.Target.Agent); err != nil {
			return nil, err
		}
		values["host"] = m.address()
	}
	if started {
		if err := variables(ctx, m, values); err != nil {
			return nil, err
		}
	}
	if err := v.Fill(values); err != nil {
		return nil, err
	}
	s.variables = values
	if of := s.variant.Observe.Pods; of != nil {
		s.pods = r.findPods(ctx, s, of)
	}
	if started && v.Target.Protocol != plan.Program {
		if s.target, err = r.start(ctx, s, m, targetName, v.Target.Process, values, v.Target.Address, output); err != nil {
			return nil, startFault(err)
		}
	}
	return s, nil
}

func (r *runner) start(ctx context.Context, s *stage, m machine, name string, p plan.Process, vars map[string]string,
	address string, output func(string) (io.Writer, error),
) (process, error) {
	spec, err := r.spec(name, p, vars, address)
	if err != nil {
		return nil, err
	}
	if spec.Output, err = output(name); err != nil {
		return nil, err
	}
	started, err := m.start(ctx, spec)
	if err != nil {
		return nil, planned(err)
	}
	s.processes = append(s.processes, started)
	return started, nil
}

// planned makes a *PlanError of an error that is the plan's: a process cannot be placed as requested,
// or the owner of an agent's machine forbids it.
func planned(err error) error {
	if _, refused := errors.AsType[*remote.RefusedError](err); refused || errors.Is(err, target.ErrPlacement) {
		return &PlanError{err}
	}
	return err
}

// spec says how to start a process, with its run-time variables filled in.
func (r *runner) spec(name string, p plan.Process, vars map[string]string, address string) (target.Spec, error) {
	if err := p.Fill(vars); err != nil {
		return target.Spec{}, fmt.Errorf("%s: %w", name, err)
	}
	spec := target.Spec{
		Name:         name,
		Args:         slices.Clone(p.Start),
		Dir:          p.Dir,
		Ready:        probe(p.Ready, address),
		CPUs:         p.CPUs,
		ReadyTimeout: p.ReadyTimeout,
		StopTimeout:  p.StopTimeout,
		Nice:         p.Nice,
		NUMA:         p.NUMA,
	}
	if c := p.Cgroup; c != nil {
		spec.Cgroup = &cgroup.Limits{CPUMax: c.CPUMax, CPUWeight: c.CPUWeight, MemoryMax: int64(c.MemoryMax)}
	}
	if name == targetName {
		spec.Name = "" // default: the program's name; messages begin with "target" anyway
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		spec.Env = append(spec.Env, name+"="+p.Env[name])
	}
	if p.GOMAXPROCS > 0 {
		spec.Env = append(spec.Env, "GOMAXPROCS="+strconv.Itoa(p.GOMAXPROCS))
	}
	if p.Agent == "" && len(spec.Args) > 0 && spec.Args[0] == "dyno" { // an agent has its own
		spec.Args[0] = r.options.Program
	}
	return spec, nil
}

// probe says how to find out that a process which serves on address is ready.
func probe(r plan.Ready, address string) target.Probe {
	switch r.Kind {
	case plan.ReadyTCP:
		if path, ok := strings.CutPrefix(address, "unix:"); ok {
			return target.Probe{Unix: path}
		}
		return target.Probe{TCP: address}
	case plan.ReadyHTTP:
		u := r.URL
		if strings.HasPrefix(u, "/") {
			u = (&url.URL{Scheme: "http", Host: address}).String() + u
		}
		return target.Probe{HTTP: u}
	case plan.ReadyLine:
		return target.Probe{Output: r.Line}
	}
	return target.Probe{}
}
