package trial

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"dyno/host/target"
	"dyno/internal/texts"
	"dyno/lab/plan"
	"dyno/lab/remote"
	"dyno/results/rundir"
)

// A Host is an agent on whose machine targets and services are placed.
type Host struct {
	remote.Machine
	Recoverable
	Name    string
	Address string // host:port
	CPUs    int
}

// A machine runs one process of a trial.
type machine interface {
	address() string // of the machine, as it stands before a port
	// ports returns two free ones.
	ports(ctx context.Context) (port, admin int, err error)
	// start starts the process and returns when it is ready.
	start(ctx context.Context, spec target.Spec) (process, error)
}

// machine returns the one that a process is placed on: this one without a selector. The stage keeps the connection to one that an agent has.
func (r *runner) machine(ctx context.Context, s *stage, name, selector string) (machine, error) {
	if selector == "" {
		return thisMachine{&r.ports, r.options.Limits}, nil
	}
	h := r.hosts[selector]
	p, err := remote.Open(ctx, h)
	if err != nil {
		return nil, err
	}
	s.connections = append(s.connections, p)
	s.placements = append(s.placements, rundir.Placement{Process: name, Agent: h.Name, Address: h.Address, CPUs: h.CPUs})
	if name == rundir.PlacedTarget {
		s.watched = p
	}
	return agentMachine{h, p}, nil
}

// variables sets the run-time variables of a process that is to be started.
func variables(ctx context.Context, m machine, to map[string]string) error {
	port, admin, err := m.ports(ctx)
	to["host"], to["port"], to["admin"] = m.address(), strconv.Itoa(port), strconv.Itoa(admin)
	return err
}

// thisMachine is dyno's own.
type thisMachine struct {
	free   *target.Ports
	limits *Limits
}

func (thisMachine) address() string { return "127.0.0.1" }

func (m thisMachine) ports(context.Context) (port, admin int, err error) {
	if port, err = m.free.Free("tcp"); err == nil {
		admin, err = m.free.Free("tcp")
	}
	return port, admin, err
}

func (m thisMachine) start(ctx context.Context, spec target.Spec) (process, error) {
	if err := m.limits.admit(ctx, &spec); err != nil {
		return nil, err
	}
	p, err := target.Start(ctx, spec)
	if err != nil {
		return nil, err // and no *target.Process that is nil
	}
	return p, nil
}

// agentMachine is an agent's.
type agentMachine struct {
	host    Host
	process *remote.Process
}

func (m agentMachine) address() string {
	host, _, _ := net.SplitHostPort(m.host.Address) // which was dialled
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

func (m agentMachine) ports(ctx context.Context) (port, admin int, err error) {
	return m.process.Ports(ctx)
}

func (m agentMachine) start(ctx context.Context, spec target.Spec) (process, error) {
	if err := m.process.Start(ctx, spec); err != nil {
		return nil, err
	}
	return m.process, nil
}

// checkHosts reports a selector for which there is no agent.
func checkHosts(v *plan.Variant, hosts map[string]Host) error {
	for selector, path := range v.Placements() {
		if _, found := hosts[selector]; !found {
			return fmt.Errorf("variant %s: %s: %s: no agent was chosen", v.Name, path, selector)
		}
	}
	return nil
}

// recordPlacements records which processes were on agents' machines, and that services there are not observed. It is to be
// called at the end of the trial, when the most is wrong with the clocks.
func recordPlacements(t *rundir.Trial, s *stage) {
	for i, p := range s.placements {
		p.ClockError = s.connections[i].ClockError().Seconds()
		t.Placed = append(t.Placed, p)
		if p.Process != rundir.PlacedTarget {
			t.AddUnavailable(texts.NewError("unavailable.remote.service", "service", p.Process, "agent", p.Agent))
		}
	}
}
