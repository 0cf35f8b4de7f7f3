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

	"dyno/experiment"
	"dyno/rundir"
)

// The troubles that a generator is given.
const (
	Healthy       = "healthy"
	Starved       = "starved"
	NeighbourOne  = "neighbour on its CPU"
	NeighbourAll  = "neighbours on all CPUs"
	starvedShare  = 0.2  // of the CPU time that a healthy one used,
	leastShare    = 0.02 // but not less than this of a CPU: it must come to an end
	trialsPerFile = 5    // trials of one child, whose rows are written when it has ended
)

// A Trial is one of a generator in known trouble.
type Trial struct {
	Trouble    string
	Loop       string   // open or closed
	Number     int      // from 1
	Valid      bool     // no flag called it invalid
	Invalid    []string // the kinds of flags that did
	Warnings   []string // the kinds of the other flags
	Throughput *float64 // good responses per second
	LagP99     *float64 // of the generator, seconds
	LoadCPU    *float64 // share
}

// A FlagShare sums up the trials of one trouble and loop.
type FlagShare struct {
	Trouble, Loop string
	Invalid       Proportion
	Kinds         map[string]int // trials by the kind of flag that called them invalid
}

// Outcome holds the share against what must be: of starved generators 95 %, of
// healthy ones 5 %. Neighbours have no limit: some leave the generator what it needs.
func (f *FlagShare) Outcome() Outcome {
	switch f.Trouble {
	case Healthy:
		return f.Invalid.within(0, 0.05)
	case Starved:
		return f.Invalid.within(0.95, 1)
	}
	return Unlimited
}

// FlagShares sums the trials up, in the order in which they were measured.
func (r *Result) FlagShares() []FlagShare {
	var sums []FlagShare
	for _, t := range r.Trials {
		at := slices.IndexFunc(sums, func(f FlagShare) bool { return f.Trouble == t.Trouble && f.Loop == t.Loop })
		if at < 0 {
			at = len(sums)
			sums = append(sums, FlagShare{Trouble: t.Trouble, Loop: t.Loop, Kinds: map[string]int{}})
		}
		f := &sums[at]
		f.Invalid.count(!t.Valid)
		for _, kind := range t.Invalid {
			f.Kinds[kind]++
		}
	}
	return sums
}

// flags measures generators in trouble, each a process of its own, so that only
// it is limited.
func (k *calibrator) flags(ctx context.Context) (err error) {
	s, err := k.sheet("flags.csv", "trouble", "loop", "trial", "valid", "invalid_by", "warnings", "throughput_per_second", "generator_lag_p99_seconds", "generator_cpu_share")
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
			for done := 0; done < k.FlagTrials; {
				n := min(trialsPerFile, k.FlagTrials-done)
				k.step("flags: %s generator, %s loop, trial %d of %d", trouble, loop, done+1, k.FlagTrials)
				trials, share, err := k.troubled(ctx, limits, trouble, loop, n, done, max(leastShare, starvedShare*healthy[loop]))
				if err != nil {
					return fmt.Errorf("%s generator, %s loop: %w", trouble, loop, err)
				}
				used = append(used, share)
				for _, t := range trials {
					k.result.Trials = append(k.result.Trials, t)
					if err := s.write(t.row()...); err != nil {
						return err
					}
				}
				done += n
			}
			if trouble == Healthy {
				healthy[loop] = medianOf(used)
				k.note("a healthy generator used %.0f %% of its CPU in the %s loop; a starved one is given %.0f %%", 100*healthy[loop], loop, 100*max(leastShare, starvedShare*healthy[loop]))
			}
		}
	}
	return nil
}

func (t *Trial) row() []string {
	return []string{
		t.Trouble, t.Loop, strconv.Itoa(t.Number), strconv.FormatBool(t.Valid), strings.Join(t.Invalid, " "), strings.Join(t.Warnings, " "),
		number(t.Throughput), number(t.LagP99), number(t.LoadCPU),
	}
}

// troubled runs n trials with a generator in trouble. It returns them with the
// share of a CPU that the process used while it ran, target and rest not counted.
func (k *calibrator) troubled(ctx context.Context, limits *group, trouble, loop string, n, before int, quota float64) (_ []Trial, share float64, err error) {
	dir, err := os.MkdirTemp(k.temp, "flags-")
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "flags.yaml")
	starve := trouble == Starved
	plan, err := k.plan(loop, n, before, starve, limits)
	if err != nil {
		return nil, 0, err
	}
	if err := os.WriteFile(file, plan, 0o600); err != nil {
		return nil, 0, err
	}
	c := child{
		args:   []string{k.Program, "run", "--quiet", "--json", "-", "--out", filepath.Join(dir, "run"), file},
		accept: []int{4}, // the run is invalid: that is what is looked for
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute+10*time.Duration(n)*(k.FlagWindow+time.Second), errors.New("it did not end in time"))
	defer cancel()
	if starve && limits != nil {
		if err := limits.limit(quota); err != nil {
			return nil, 0, err
		}
		// Whatever is left of it at the end shall end soon.
		defer func() { err = errors.Join(err, limits.limit(1)) }()
		c.args = append([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, limits.processes()}, c.args...)
	}
	// What goes on beside the generator ends when it does.
	beside, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	switch {
	case starve && limits == nil:
		c.during = func(p *os.Process) {
			go func() {
				dutyCycle(beside, p, quota)
				ended <- nil
			}()
		}
	case trouble == NeighbourOne || trouble == NeighbourAll:
		neighbour := child{args: []string{k.Program, TruthCommand, "burn"}, cpus: k.load}
		if trouble == NeighbourAll {
			neighbour.cpus = k.result.Environment.AllowedCPUs
			neighbour.args = append(neighbour.args, "--threads", strconv.Itoa(len(neighbour.cpus)))
		}
		c.during = func(*os.Process) {
			go func() {
				_, err := neighbour.run(beside)
				if beside.Err() != nil {
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
	if f.wall > 0 { // it was started, and so was what goes on beside it
		err = errors.Join(err, <-ended)
	}
	if err != nil {
		return nil, 0, err
	}
	var run rundir.Run
	if err := json.Unmarshal(f.stdout, &run); err != nil {
		return nil, 0, fmt.Errorf("the generator's results: %w", err)
	}
	trials, err := k.trials(filepath.Join(dir, "run"), &run, trouble, loop, before)
	share = k.generatorShare(trials)
	return trials, share, err
}

// generatorShare returns the median share of a CPU that the trials' generators
// used, which for a healthy one is what it needs.
func (k *calibrator) generatorShare(trials []Trial) float64 {
	var shares []float64
	for _, t := range trials {
		if t.LoadCPU != nil {
			shares = append(shares, *t.LoadCPU)
		}
	}
	if len(shares) == 0 {
		return 1 // not known: it may need all of it
	}
	return medianOf(shares)
}

// plan writes an experiment of n trials, in JSON, which is YAML.
func (k *calibrator) plan(loop string, n, seed int, starve bool, limits *group) ([]byte, error) {
	target := []string{k.Program, TruthCommand}
	load := map[string]any{"cpus": strconv.Itoa(k.load[0]), "warmup": "200ms", "window": k.FlagWindow.String()}
	if loop == "open" {
		target = append(target, "delay", "--delay", "1ms", "--spin", "60us")
		load["open"] = map[string]any{"rate": "2000/s", "arrivals": experiment.ArrivalsPoisson}
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
		"target": map[string]any{"protocol": experiment.HTTP, "start": target, "ready": experiment.ReadyTCP, "cpus": strconv.Itoa(k.server[0])},
		"load":   load,
		"design": map[string]any{"rounds": n, "seed": seed + 1},
	})
}

// trials reads what the generator wrote of each trial, and what its verdict was.
func (k *calibrator) trials(dir string, run *rundir.Run, trouble, loop string, before int) ([]Trial, error) {
	folder, err := rundir.Open(dir)
	if err != nil {
		return nil, err
	}
	var trials []Trial
	for _, measured := range folder.Trials {
		if measured.Purpose != "" {
			continue
		}
		t := Trial{
			Trouble: trouble, Loop: loop, Number: before + len(trials) + 1, Valid: true,
			Throughput: measured.Throughput, LagP99: measured.GeneratorLag.P99, LoadCPU: measured.Generator.CPUShare,
		}
		for _, f := range run.Flags {
			if f.Trial != measured.Number {
				continue
			}
			kinds := &t.Warnings
			if f.Spoils {
				t.Valid, kinds = false, &t.Invalid
			}
			if !slices.Contains(*kinds, f.Kind) {
				*kinds = append(*kinds, f.Kind)
			}
		}
		trials = append(trials, t)
	}
	return trials, nil
}
