package calibrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/lab/plan"
	"dyno/results/rundir"
	"dyno/selftest/oracle"
)

// The troubles of a generator.
const (
	Healthy      = "healthy"
	Starved      = "starved"
	NeighbourOne = "neighbour on its CPU"
	NeighbourAll = "neighbours on all CPUs"
	starvedShare = 0.2  // of the CPU time that a healthy one used,
	leastShare   = 0.02 // but not less than this of a CPU: it must end
)

// troubledFigures are the figures that are judged. Latencies are response times of open
// loops and service times of closed ones.
func troubledFigures() []string { return []string{compared, "p50", "p99"} }

// A Trial is a run of one trial by a generator in known trouble.
type Trial struct {
	Trouble    string
	Loop       string            // open or closed
	Number     int               // from 1
	States     map[string]string // what is said of each figure: see rundir's State constants
	Disturbs   []string          // the kinds of flags beyond their limits
	Blamed     []string          // the kinds of findings about the target, which did nothing wrong
	Warnings   []string          // the kinds of the other flags
	Throughput *float64          // good responses per second
	LagP99     *float64          // of the generator, seconds
	LoadCPU    *float64          // share
}

// flagged tells whether a reader is warned: a flag is beyond its limit, or a figure is
// not as it is printed.
func (t *Trial) flagged() bool {
	return len(t.Disturbs) > 0 || slices.ContainsFunc(troubledFigures(), func(f string) bool { return t.States[f] != rundir.StateOK })
}

// A FlagShare sums up the trials of one trouble and loop.
type FlagShare struct {
	Trouble, Loop string
	Flagged       Proportion
	Blamed        Proportion            // the target was found to have failed
	Unidentified  map[string]Proportion // by figure: of which nothing is said
	Kinds         map[string]int        // trials by the kind of flag beyond its limit
}

// Outcome compares the shares with their limits. At least 95 % of starved generators must be flagged. For
// healthy ones, each figure may be not identified in at most 5 % of trials. The same limit holds for faults
// attributed to the target. Neighbours have no limit: some leave the generator what it needs.
func (f *FlagShare) Outcome() Outcome {
	list := []judged{{outcome: f.Blamed.within(0, 0.05)}}
	switch f.Trouble {
	case Healthy:
		for _, figure := range troubledFigures() {
			list = append(list, judged{outcome: f.Unidentified[figure].within(0, 0.05)})
		}
	case Starved:
		list = append(list, judged{outcome: f.Flagged.within(0.95, 1)})
	default:
		return Unlimited
	}
	return Outcome(worst(list))
}

// FlagShares sums the trials up, in the order in which they were measured.
func (r *Result) FlagShares() []FlagShare {
	var sums []FlagShare
	for _, t := range r.Trials {
		at := slices.IndexFunc(sums, func(f FlagShare) bool { return f.Trouble == t.Trouble && f.Loop == t.Loop })
		if at < 0 {
			at = len(sums)
			sums = append(sums, FlagShare{Trouble: t.Trouble, Loop: t.Loop, Unidentified: map[string]Proportion{}, Kinds: map[string]int{}})
		}
		f := &sums[at]
		f.Flagged.count(t.flagged())
		f.Blamed.count(len(t.Blamed) > 0)
		for _, figure := range troubledFigures() {
			share := f.Unidentified[figure]
			share.count(t.States[figure] == rundir.StateNotIdentified || t.States[figure] == "")
			f.Unidentified[figure] = share
		}
		for _, kind := range t.Disturbs {
			f.Kinds[kind]++
		}
	}
	return sums
}

// flags measures generators in trouble, each a process of its own, so that only
// it is limited.
func (k *calibrator) flags(ctx context.Context) (err error) {
	s, err := k.sheet("flags.csv", "trouble", "loop", "trial", "flagged", "throughput_state", "p50_state", "p99_state", "disturbed_by", "blamed", "warnings", "throughput_per_second", "generator_lag_p99_seconds", "generator_cpu_share")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	limits, err := newGroup()
	if err != nil {
		k.note("starved generators are stopped and continued by signals, since no control group can be made: %v", err)
	} else {
		defer func() { err = errors.Join(err, limits.remove()) }()
	}
	healthy := map[string]float64{} // CPU share of a healthy generator, by loop
	for _, trouble := range []string{Healthy, Starved, NeighbourOne, NeighbourAll} {
		for _, loop := range []string{"open", "closed"} {
			var used []float64
			for number := 1; number <= k.FlagTrials; number++ {
				k.step("flags: %s generator, %s loop, trial %d of %d", trouble, loop, number, k.FlagTrials)
				t, err := k.troubled(ctx, limits, trouble, loop, number, max(leastShare, starvedShare*healthy[loop]))
				if err != nil {
					return fmt.Errorf("%s generator, %s loop: %w", trouble, loop, err)
				}
				if t.LoadCPU != nil {
					used = append(used, *t.LoadCPU)
				}
				k.result.Trials = append(k.result.Trials, t)
				if err := s.write(t.row()...); err != nil {
					return err
				}
			}
			if trouble == Healthy {
				healthy[loop] = 1 // where it is not known, it may need all of it
				if len(used) > 0 {
					healthy[loop] = medianOf(used)
				}
				k.note("a healthy generator used %.0f %% of its CPU in the %s loop; a starved one is given %.0f %%", 100*healthy[loop], loop, 100*max(leastShare, starvedShare*healthy[loop]))
			}
		}
	}
	return nil
}

func (t *Trial) row() []string {
	return []string{
		t.Trouble, t.Loop, strconv.Itoa(t.Number), strconv.FormatBool(t.flagged()), t.States[compared], t.States["p50"], t.States["p99"], strings.Join(t.Disturbs, " "), strings.Join(t.Blamed, " "), strings.Join(t.Warnings, " "),
		number(t.Throughput), number(t.LagP99), number(t.LoadCPU),
	}
}

// troubled makes a run of one trial with a generator in trouble. The quota is of a
// starved one: the share of a CPU that its process may use, target not counted.
func (k *calibrator) troubled(ctx context.Context, limits *group, trouble, loop string, number int, quota float64) (t Trial, err error) {
	dir, err := os.MkdirTemp(k.temp, "flags-")
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "flags.yaml")
	starve := trouble == Starved
	plan, err := k.plan(loop, number, starve, limits)
	if err != nil {
		return t, err
	}
	if err := os.WriteFile(file, plan, 0o600); err != nil {
		return t, err
	}
	c := child{
		args:   []string{k.Program, "run", "--quiet", "--json", "-", "--out", filepath.Join(dir, "run"), file},
		accept: []int{3, 4}, // the target is blamed, or the run invalid: that is what is looked for
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute+10*(k.FlagWindow+time.Second), errors.New("it did not end in time"))
	defer cancel()
	if starve && limits != nil {
		if err := limits.limit(quota); err != nil {
			return t, err
		}
		// The rest of the program's run shall end soon.
		defer func() { err = errors.Join(err, limits.limit(1)) }()
		c.args = append([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, limits.processes()}, c.args...)
	}
	// The neighbours end when the generator does.
	during, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	switch {
	case starve && limits == nil:
		c.during = func(p *os.Process) {
			go func() {
				dutyCycle(during, p, quota)
				ended <- nil
			}()
		}
	case trouble == NeighbourOne || trouble == NeighbourAll:
		neighbour := child{args: []string{k.Program, oracle.Command, "burn"}, cpus: k.load}
		if trouble == NeighbourAll {
			neighbour.cpus = k.result.Environment.AllowedCPUs
			neighbour.args = append(neighbour.args, "--threads", strconv.Itoa(len(neighbour.cpus)))
		}
		c.during = func(*os.Process) {
			go func() {
				_, err := neighbour.run(during)
				if during.Err() != nil {
					err = nil // it was stopped
				}
				ended <- err
			}()
		}
	default:
		ended <- nil
	}
	f, err := c.run(ctx)
	stop()
	if f.wall > 0 { // it was started, and so was the noise
		err = errors.Join(err, <-ended)
	}
	if err != nil {
		return t, err
	}
	var run rundir.Run
	if err := json.Unmarshal(f.stdout, &run); err != nil {
		return t, fmt.Errorf("the generator's results: %w", err)
	}
	return k.trial(filepath.Join(dir, "run"), &run, trouble, loop, number)
}

// plan writes an experiment of one trial, in JSON, which is YAML. Disturbed rounds are not
// measured again, because this table counts them.
func (k *calibrator) plan(loop string, seed int, starve bool, limits *group) ([]byte, error) {
	target := []string{k.Program, oracle.Command}
	load := map[string]any{"cpus": strconv.Itoa(k.load[0]), "warmup": "200ms", "window": k.FlagWindow.String()}
	if loop == "open" {
		target = append(target, "delay", "--delay", "1ms", "--spin", "60us")
		load["open"] = map[string]any{"rate": "2000/s", "arrivals": plan.ArrivalsPoisson}
	} else {
		target = append(target, "work", "--work", "50us")
		load["closed"] = map[string]any{"connections": k.Connections}
	}
	target = append(target, "--listen", "127.0.0.1:{{port}}")
	if starve && limits != nil {
		// Only the generator is limited: the target leaves the group.
		target = append([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, limits.above()}, target...)
	}
	return json.Marshal(map[string]any{
		"name":   "flags",
		"awake":  k.Awake,
		"target": map[string]any{"protocol": plan.HTTP, "start": target, "ready": plan.ReadyTCP, "cpus": strconv.Itoa(k.server[0])},
		"load":   load,
		"design": map[string]any{"rounds": 1, "seed": seed, "remeasure": false},
	})
}

// trial reads the generator's figures of its trial, and the verdict on it.
func (k *calibrator) trial(dir string, run *rundir.Run, trouble, loop string, number int) (t Trial, err error) {
	folder, err := rundir.Open(dir)
	if err != nil {
		return t, err
	}
	t = trialOf(run, trouble, loop, number)
	for _, measured := range folder.Trials {
		if measured.Purpose == "" {
			t.Throughput, t.LagP99, t.LoadCPU = measured.Throughput, measured.Times[rundir.TagGeneratorLag].P99, measured.Generator.CPUShare
		}
	}
	return t, nil
}

// trialOf returns the verdict of a run on its trial.
func trialOf(run *rundir.Run, trouble, loop string, number int) Trial {
	t := Trial{Trouble: trouble, Loop: loop, Number: number, States: map[string]string{}}
	for _, f := range run.Flags {
		kinds := &t.Warnings
		switch {
		case f.Breaks:
			kinds = &t.Blamed
		case f.Disturbs:
			kinds = &t.Disturbs
		}
		if !slices.Contains(*kinds, f.Kind) {
			*kinds = append(*kinds, f.Kind)
		}
	}
	latency := "response."
	if loop == "closed" {
		latency = "service."
	}
	for _, v := range run.Validity {
		if figure := strings.TrimPrefix(v.Figure, latency); v.Base == "" && slices.Contains(troubledFigures(), figure) {
			t.States[figure] = v.State
		}
	}
	return t
}
