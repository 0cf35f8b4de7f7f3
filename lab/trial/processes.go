package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"dyno/host/target"
	"dyno/lab/observation"
	"dyno/lab/plan"
)

// targetName is the name of the target's log, next to those of the services.
const targetName = "target"

// A stage holds the running processes of a trial: the services and the target.
type stage struct {
	variant   *plan.Variant     // with its run-time variables filled in
	variables map[string]string // their values, including those of the target
	target    *target.Process   // nil if the target is already running, or is a program
	processes []*target.Process // in the order they were started

	side *side  // of a duet; nil: no other load runs at the same time
	idle *stage // the other variant of a duet, which is up without load
}

// neighbours are dyno's other running processes: those of the other side of a duet.
func (s *stage) neighbours() (all []*target.Process) {
	peer := s.idle
	if s.side != nil {
		peer = s.side.partners.other(s.side.number)
	}
	if peer != nil {
		all = peer.processes
	}
	return all
}

// services returns the running services. They were started before the target.
func (s *stage) services() []observation.Service {
	var all []observation.Service
	for i := range s.variant.Services {
		all = append(all, observation.Service{Name: s.variant.Services[i].Name, Process: s.processes[i]})
	}
	return all
}

// stop stops everything, the last started first. It returns the errors that are not known
// yet.
func (s *stage) stop(ctx context.Context, known error) error {
	var errs []error
	for _, p := range slices.Backward(s.processes) {
		if err := p.Stop(ctx); err != nil && !errors.Is(known, err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// died returns a channel that receives the first process that ends by itself.
func (s *stage) died() <-chan *target.Process {
	dead := make(chan *target.Process, len(s.processes))
	for _, p := range s.processes {
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
	known := map[string]string{}
	for i := range v.Services {
		service := &v.Services[i]
		port, admin, err := r.portPair()
		if err != nil {
			return nil, err
		}
		own := maps.Clone(known)
		own["port"], own["admin"] = port, admin
		known[service.Name+".port"], known[service.Name+".admin"] = port, admin
		known[service.Name+".addr"] = net.JoinHostPort("127.0.0.1", port)
		if _, err := r.start(ctx, s, service.Name, service.Process, own, known[service.Name+".addr"], output); err != nil {
			return nil, err
		}
	}
	if len(v.Target.Start) > 0 {
		if known["port"], known["admin"], err = r.portPair(); err != nil {
			return nil, err
		}
	}
	if err := v.Fill(known); err != nil {
		return nil, err
	}
	s.variables = known
	if len(v.Target.Start) > 0 && v.Target.Protocol != plan.Program {
		if s.target, err = r.start(ctx, s, targetName, v.Target.Process, known, v.Target.Address, output); err != nil {
			return nil, startFault(err)
		}
	}
	return s, nil
}

// portPair returns a port for a process to serve on and one for its administration.
func (r *runner) portPair() (port, admin string, err error) {
	a, err := r.ports.Free("tcp")
	if err != nil {
		return "", "", err
	}
	b, err := r.ports.Free("tcp")
	return strconv.Itoa(a), strconv.Itoa(b), err
}

func (r *runner) start(ctx context.Context, s *stage, name string, p plan.Process, vars map[string]string,
	address string, output func(string) (io.Writer, error),
) (*target.Process, error) {
	spec, err := r.spec(name, p, vars, address)
	if err != nil {
		return nil, err
	}
	if spec.Output, err = output(name); err != nil {
		return nil, err
	}
	started, err := begin(ctx, spec)
	if err != nil {
		return nil, err
	}
	s.processes = append(s.processes, started)
	return started, nil
}

// begin starts a process. If it cannot be placed as the experiment asks, the plan is at
// fault and not the process.
func begin(ctx context.Context, spec target.Spec) (*target.Process, error) {
	started, err := target.Start(ctx, spec)
	if errors.Is(err, target.ErrPlacement) {
		return nil, &PlanError{err}
	}
	return started, err
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
		spec.Cgroup = &target.Cgroup{CPUMax: c.CPUMax, CPUWeight: c.CPUWeight, MemoryMax: int64(c.MemoryMax)}
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
	if len(spec.Args) > 0 && spec.Args[0] == "dyno" {
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
