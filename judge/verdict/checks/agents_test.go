package checks

import (
	"slices"
	"testing"

	"dyno/judge/verdict/recording"
	"dyno/results/rundir"
)

// byAgents gives a trial four agents that raise no flag.
func byAgents(s recording.Recording) recording.Recording {
	t := s.Trial
	for _, name := range []string{"a", "b", "c", "d"} {
		t.Agents = append(t.Agents, rundir.Agent{Name: name, Share: 0.25, ClockError: 100e-6, StartDeviation: 50e-6, Generator: t.Generator, Machine: t.Machine})
	}
	t.StartSkew, t.StartSkewError = new(0.), new(200e-6)
	return s
}

// A check finds a fault of one agent, whatever the others do, and names the agent.
func TestWorstAgent(t *testing.T) {
	for _, c := range []struct {
		name         string
		change       func(t *rundir.Trial)
		open, closed string // what is raised
		found        string // of the first
	}{
		{"sound", func(*rundir.Trial) {}, "", "", ""},
		{"waits for a CPU", func(t *rundir.Trial) {
			t.Agents[1].Generator.RunQueueWaitShare, t.Agents[2].Generator.RunQueueWaitShare = new(0.06), new(0.3)
		}, "run_queue_wait!", "run_queue_wait!", "agent c: the generator was ready to run without a CPU for 30 % of the window, more than 5 %"},
		{"is busy", func(t *rundir.Trial) { t.Agents[2].Generator.CPUShare = new(0.97) }, "generator_cpu!", "generator_limit!",
			"agent c: the generator used 97 % of its CPUs, more than 75 %"},
		{"loses its CPUs", func(t *rundir.Trial) { t.Agents[2].Machine.StealShare = new(0.2) }, "steal!", "steal!", "agent c: the hypervisor took 20 % of the CPUs' time"},
		{"shares its CPUs", func(t *rundir.Trial) { t.Agents[2].Machine.ForeignShare = new(0.6) }, "foreign_cpu", "foreign_cpu", "agent c: other programs used 60 % of all CPUs' time"},
		{"wakes late", func(t *rundir.Trial) { t.Agents[2].Machine.LateWakeupShare = new(0.02) }, "late_wakeups", "late_wakeups",
			"agent c: 2 % of short sleeps on the generator's CPUs ended more than 1 ms late"},
		{"is short of memory", func(t *rundir.Trial) { t.Agents[2].Machine.MemoryStall = new(0.05) }, "memory_pressure", "memory_pressure",
			"agent c: for 5 % of the window, all tasks with work to do waited for memory"},
		{"begins late", func(t *rundir.Trial) {
			t.Agents[2].StartDeviation, t.StartSkew = 1e-3, new(950e-6)
		}, "start_skew", "start_skew",
			"the agents began 950 µs ± 200 µs apart, which may be more than 1 ms: agent c began 1 ms ± 100 µs after the common start"},
		{"has a clock that nobody knows", func(t *rundir.Trial) {
			t.Agents[2].ClockError, t.StartSkewError = 2e-3, new(2e-3)
		}, "start_skew", "start_skew",
			"the agents began 0 s ± 2 ms apart, which may be more than 1 ms: agent c began 50 µs ± 2 ms after the common start"},
	} {
		for loop, want := range map[string]string{"open": c.open, "closed": c.closed} {
			s := soundOpen()
			if loop == "closed" {
				s = soundClosed()
			}
			s = byAgents(s)
			c.change(s.Trial)
			s.Times = recording.Merged(s.Log)
			_, flags, _ := Examine(s)
			if got := raised(flags); got != want {
				t.Errorf("%s, %s loop: flags %q, want %q", c.name, loop, got, want)
			}
			for _, f := range flags {
				if f.Agent != "c" || loop == "open" && f.Detail.English() != c.found {
					t.Errorf("%s, %s loop: agent %s, %s", c.name, loop, f.Agent, f.Detail.English())
				}
			}
		}
	}
}

// An agent of which nothing is known is no sound one; and the one agent of a load has no skew.
func TestUnknownAgent(t *testing.T) {
	s := byAgents(soundOpen())
	s.Trial.Agents[3].Generator, s.Trial.Agents[3].Machine = rundir.Generator{}, rundir.Machine{}
	s.Trial.Agents = s.Trial.Agents[3:]
	s.Times = recording.Merged(s.Log)
	checks, flags, _ := Examine(s)
	for _, kind := range []string{FlagGeneratorCPU, FlagRunQueue, FlagSteal, FlagLateWakeups} {
		at := slices.IndexFunc(checks, func(c rundir.Check) bool { return c.Kind == kind })
		if c := checks[at]; c.Outcome != rundir.CheckUnknown || c.Agent != "d" {
			t.Errorf("%+v", c)
		}
	}
	if len(flags) > 0 || slices.ContainsFunc(checks, func(c rundir.Check) bool { return c.Kind == FlagStartSkew }) {
		t.Errorf("%+v, %+v", flags, checks)
	}
}
