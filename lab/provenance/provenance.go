// Package provenance records what a run is made of: its plan, this machine, and the files that it starts and
// reads.
package provenance

import (
	"os"
	"runtime"

	"dyno/lab/duet"
	"dyno/lab/plan"
	"dyno/observe"
	"dyno/results/rundir"
)

// Plan is the record of the experiment's plan.
func Plan(e *plan.Experiment, remeasure int) rundir.Plan {
	d := &e.Design
	p := rundir.Plan{
		File:         e.File,
		Source:       string(e.Source),
		Short:        e.Short,
		Rounds:       d.Rounds,
		Seed:         d.Seed,
		Stop:         d.Stop,
		Margin:       d.Margin,
		Metric:       d.Metric,
		Base:         e.Base,
		Control:      d.Control,
		Pairs:        d.Pairs,
		Remeasure:    remeasure,
		Set:          e.Set,
		Soak:         e.Soak,
		PilotSeconds: d.Pilot.Seconds(),
		Thresholds:   e.Conditions(),
	}
	if l := e.Ladder; l != nil {
		p.Ladder = &rundir.PlanLadder{Steps: l.Steps, WithoutStep: l.WithoutStep}
	}
	for _, dimension := range e.Sweep {
		p.Sweep = append(p.Sweep, rundir.Dimension(dimension))
	}
	if c := e.Capacity; c != nil {
		p.Capacity = &rundir.PlanCapacity{From: c.From, To: c.To, Resolution: c.Resolution, Trials: c.Trials, Tolerate: c.Tolerate}
	}
	if s := e.Profile; s != nil {
		p.Profile = &rundir.PlanProfile{Kinds: s.Kinds, By: s.By, Rounds: s.Rounds, WindowSeconds: s.Window.Seconds()}
	}
	for _, c := range e.Claims {
		p.Claims = append(p.Claims, rundir.PlanClaim(c))
	}
	for i := range e.Variants {
		v := planVariant(&e.Variants[i])
		p.Variants = append(p.Variants, v)
		p.Protocol, p.Loop = e.Variants[i].Target.Protocol, v.Loop
	}
	return p
}

func planVariant(v *plan.Variant) rundir.PlanVariant {
	p := rundir.PlanVariant{
		Name:          v.Name,
		AliasOf:       v.AliasOf,
		Variables:     v.Vars,
		WarmupSeconds: v.Load.Unmeasured().Seconds(),
		WindowSeconds: v.Load.Window.Seconds(),
		Steps:         v.Steps(),
		Request:       plan.Unquote(v.Describe()),
		TraceURL:      v.Load.TraceURL,
		Started:       len(v.Target.Start) > 0,
	}
	if s := v.Load.Subscribers; s != nil {
		p.Loop, p.Subscribers = "stream", s.Connections
	}
	for _, s := range v.Load.Stages {
		p.Stages = append(p.Stages, rundir.PlanStage{Seconds: s.Duration.Seconds(), From: s.From, To: s.To})
	}
	switch l := &v.Load; {
	case l.Closed != nil:
		p.Loop, p.Connections = "closed", l.Closed.Connections
	case l.Open != nil:
		p.Loop, p.Connections = "open", l.Open.Connections()
		if l.Open.Rate > 0 {
			p.Rate = &l.Open.Rate
		}
	}
	return p
}

// Environment describes this machine, and the CPUs that the run uses. A duet has its own.
func Environment(e *plan.Experiment, placed *rundir.PlanDuet) rundir.Environment {
	here := observe.ReadEnvironment()
	host, err := os.Hostname()
	if err != nil {
		host = "" // unknown, and left out
	}
	env := rundir.Environment{
		Hostname:        host,
		OS:              runtime.GOOS,
		Arch:            here.Arch,
		Kernel:          here.Kernel,
		CPUModel:        here.CPUModel,
		CPUs:            here.CPUs,
		AllowedCPUs:     here.AllowedCPUs,
		Sysctls:         here.Sysctls,
		MemoryBytes:     nilIfZero(here.MemoryBytes),
		Virtualization:  hypervisor(here.Virtualisation),
		ClockSource:     here.ClockSource,
		Governor:        here.Governor,
		DescriptorLimit: nilIfZero(here.Limits.Descriptors),
		GoVersion:       here.GoVersion,
	}
	for i := range e.Variants {
		env.GeneratorCPUs = duet.Union(env.GeneratorCPUs, e.Variants[i].Load.CPUs)
		if t := &e.Variants[i].Target; t.Agent == "" {
			env.TargetCPUs = duet.Union(env.TargetCPUs, t.CPUs)
		}
	}
	used := inUse(e, here.AllowedCPUs)
	if placed != nil {
		s := placed.CPUSets
		env.GeneratorCPUs, env.TargetCPUs = duet.Union(s[0].LoadCPUs, s[1].LoadCPUs), duet.Union(s[0].TargetCPUs, s[1].TargetCPUs)
		used = duet.Union(env.GeneratorCPUs, env.TargetCPUs)
	}
	if e.Awake {
		env.AwakeCPUs = used
	}
	return env
}

// nilIfZero returns nil for 0, which says that a number is not known.
func nilIfZero(n uint64) *int64 {
	if n == 0 {
		return nil
	}
	return new(int64(n)) //nolint:gosec // bytes and descriptors
}

// hypervisor names the hypervisor where the processor flags only show that there is one.
func hypervisor(hint string) string {
	if hint == "yes" {
		return "virtual machine"
	}
	return hint
}

// inUse returns the CPUs that a run uses: all that it may, unless the plan places every
// process.
func inUse(e *plan.Experiment, allowed []int) []int {
	var cpus []int
	for i := range e.Variants {
		v := &e.Variants[i]
		places := [][]int{v.Load.CPUs}
		if len(v.Target.Start) > 0 && v.Target.Agent == "" {
			places = append(places, v.Target.CPUs)
		}
		if v.Target.Protocol == plan.Program {
			places = places[1:]
		}
		for s := range v.Services {
			if v.Services[s].Agent == "" {
				places = append(places, v.Services[s].CPUs)
			}
		}
		for _, p := range places {
			if len(p) == 0 {
				return allowed
			}
			cpus = duet.Union(cpus, p)
		}
	}
	return cpus
}
