// Package trial carries out an experiment: in each round every variant once, each
// time with fresh processes, a warm-up and a measured window, observed from both
// ends and written to the run folder.
package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"dyno/engine"
	"dyno/experiment"
	"dyno/observe"
	"dyno/rundir"
	"dyno/target"
)

// Options say where and how an experiment is run.
type Options struct {
	Dir     string   // the run folder to create
	Program string   // dyno's own program, which takes the place of "dyno" in commands
	Command []string // how dyno was called, for the record
	Version string   // dyno's
	Watcher Watcher  // may be nil
}

// Planned is a trial that is about to begin.
type Planned struct {
	Number, Of int // from 1
	Variant    string
	Width      int // of the longest variant's name, for alignment
}

// A Watcher is told how the run goes. Interval is called from another goroutine
// than the rest, between Begin and End.
type Watcher interface {
	Begin(Planned)
	Interval(engine.Interval)
	End(*rundir.Trial)
}

// A runner is the state of one run.
type runner struct {
	experiment *experiment.Experiment
	options    Options
	folder     *rundir.Writer
	run        *rundir.Run
	ports      target.Ports
}

// A FolderError says that the run folder could not be made. Nothing was measured,
// and what is in its place was left as it was.
type FolderError struct{ Err error }

func (e *FolderError) Error() string { return e.Err.Error() }
func (e *FolderError) Unwrap() error { return e.Err }

// A PlanError says that the experiment asks for what cannot be had here, such as
// a CPU that this machine does not have.
type PlanError struct{ Err error }

func (e *PlanError) Error() string { return e.Err.Error() }
func (e *PlanError) Unwrap() error { return e.Err }

// Run measures every trial of the experiment and writes the run folder, which it
// creates; if it cannot, the error is a *FolderError. When it returns any other
// error, the folder holds what was measured until then and says that it is
// incomplete. The run folder's verdicts are not its business.
func Run(ctx context.Context, e *experiment.Experiment, o Options) (err error) {
	r := &runner{experiment: e, options: o}
	slots := order(e)
	r.run = r.header(len(slots))
	if r.folder, err = rundir.Create(o.Dir, r.run); err != nil {
		return &FolderError{err}
	}
	for _, s := range slots {
		if err = r.measure(ctx, s, len(slots)); err != nil {
			break
		}
	}
	r.run.Complete = err == nil
	if err != nil {
		r.run.Reason = err.Error()
	}
	finished := time.Now()
	r.run.FinishedAt = &finished
	return errors.Join(err, r.folder.Finish(r.run))
}

// measure carries out one trial and writes its folder, whatever came of it.
func (r *runner) measure(ctx context.Context, s slot, of int) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if w := r.options.Watcher; w != nil {
		width := 0
		for _, v := range r.experiment.Variants {
			width = max(width, len(v.Name))
		}
		w.Begin(Planned{s.number, of, s.variant.Name, width})
	}
	folder, err := r.folder.Trial(s.number, s.variant.Name)
	if err != nil {
		return err
	}
	t := &rundir.Trial{
		SchemaVersion: rundir.SchemaVersion,
		Number:        s.number,
		Round:         s.round,
		Variant:       s.variant.Name,
		StartedAt:     time.Now(),
		Conservation:  rundir.Conservation{OK: true}, // of no requests so far
		Flags:         []rundir.Flag{},
	}
	failed := r.carryOut(ctx, s, t, folder)
	if failed != nil {
		failed = fmt.Errorf("trial %d, variant %s: %w", s.number, s.variant.Name, failed)
		t.Error = failed.Error()
	}
	t.Complete = failed == nil
	err = errors.Join(failed, folder.Finish(t))
	if w := r.options.Watcher; w != nil {
		w.End(t)
	}
	return err
}

// carryOut puts up the processes, loads the target, and takes them down.
func (r *runner) carryOut(ctx context.Context, s slot, t *rundir.Trial, folder *rundir.TrialWriter) (err error) {
	var logs []io.Closer
	defer func() {
		for _, l := range logs {
			err = errors.Join(err, l.Close())
		}
	}()
	up, err := r.set(ctx, *s.variant, func(name string) (io.Writer, error) {
		f, err := folder.Log(name + ".log")
		if err == nil {
			logs = append(logs, f)
		}
		return f, err
	})
	if err != nil {
		return err
	}
	died := up.died()
	defer func() { err = errors.Join(err, up.stop(context.WithoutCancel(ctx), err)) }()

	// A process that ends unasked ends the trial: what is measured after that is
	// of something else.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	loaded := make(chan struct{})
	defer close(loaded)
	go func() {
		select {
		case p := <-died:
			cancel(p.Err())
		case <-loaded:
		}
	}()
	return r.load(ctx, up, t, folder)
}

// load places the generator, drives the load and records it.
func (r *runner) load(ctx context.Context, up *stage, t *rundir.Trial, folder *rundir.TrialWriter) error {
	c, err := engineConfig(up.variant, r.experiment.Design)
	if err != nil {
		return &PlanError{err}
	}
	if cpus := up.variant.Load.CPUs; len(cpus) > 0 {
		before, err := target.AllowedCPUs()
		if err != nil {
			return err
		}
		if err := target.SetAffinity(cpus); err != nil {
			return &PlanError{fmt.Errorf("load.cpus: %w", err)}
		}
		defer func() { _ = target.SetAffinity(before) }() // they were allowed a moment ago
	}
	w := watch{target: up.target, targetCPUs: len(up.variant.Target.CPUs)}
	if w.targetCPUs == 0 {
		w.targetCPUs = runtime.NumCPU()
	}
	if r.options.Watcher != nil {
		c.OnInterval = r.options.Watcher.Interval
	}
	c.OnStart, c.OnPhase = w.start, w.phase
	// A processor each for the workers and for what goes on beside them, whatever
	// the number of CPUs: with fewer, Go's scheduler would take turns between a
	// worker and the rest, and wake threads to do so.
	procs := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(max(procs, c.Workers+3))
	defer runtime.GOMAXPROCS(procs)
	// What the runtime would do now and then, it does before the window.
	runtime.GC()
	result, err := engine.Run(ctx, c)
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	err = errors.Join(err, w.stop())
	if result == nil {
		return err
	}
	record(t, result, c.Workers)
	w.record(t, result)
	err = errors.Join(err, save(folder, rundir.LatencyFile, func(f io.Writer) error { return writeLatency(f, result) }))
	if w.recorder != nil {
		err = errors.Join(err, save(folder, rundir.SeriesFile, w.recorder.WriteCSV))
	}
	if result.Interrupted {
		err = errors.Join(err, context.Cause(ctx))
	}
	return err
}

// save writes one file of a trial's folder.
func save(folder *rundir.TrialWriter, name string, write func(io.Writer) error) (err error) {
	f, err := folder.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return write(f)
}

// header is what run.json says before anything has been measured.
func (r *runner) header(planned int) *rundir.Run {
	e := r.experiment
	run := &rundir.Run{
		SchemaVersion: rundir.SchemaVersion,
		Name:          e.Name,
		Question:      e.Question,
		StartedAt:     time.Now(),
		TrialsPlanned: planned,
		Plan: rundir.Plan{
			File:   e.File,
			Source: string(e.Source),
			Short:  e.Short,
			Rounds: e.Design.Rounds,
			Seed:   e.Design.Seed,
			Base:   e.Base,

			Thresholds: e.Thresholds,
		},
		Environment: environment(e),
		Command:     r.options.Command,
		DynoVersion: r.options.Version,
	}
	for _, c := range e.Claims {
		run.Plan.Claims = append(run.Plan.Claims, rundir.PlanClaim(c))
	}
	for i := range e.Variants {
		v := &e.Variants[i]
		p := rundir.PlanVariant{
			Name:          v.Name,
			Variables:     v.Vars,
			Loop:          "closed",
			WarmupSeconds: v.Load.Warmup.Seconds(),
			WindowSeconds: v.Load.Window.Seconds(),
		}
		if o := v.Load.Open; o != nil {
			p.Loop, p.Connections = "open", o.MaxConnections
			if o.Rate > 0 {
				p.Rate = &o.Rate
			}
		} else {
			p.Connections = v.Load.Closed.Connections
		}
		run.Plan.Variants = append(run.Plan.Variants, p)
		run.Plan.Protocol, run.Plan.Loop = v.Target.Protocol, p.Loop
	}
	return run
}

func environment(e *experiment.Experiment) rundir.Environment {
	here := observe.ReadEnvironment()
	memory, descriptors := signed(here.MemoryBytes), signed(here.Limits.Descriptors)
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
		MemoryBytes:     &memory,
		Virtualization:  hypervisor(here.Virtualisation),
		ClockSource:     here.ClockSource,
		Governor:        here.Governor,
		DescriptorLimit: &descriptors,
		GoVersion:       here.GoVersion,
	}
	for i := range e.Variants {
		env.GeneratorCPUs = union(env.GeneratorCPUs, e.Variants[i].Load.CPUs)
		env.TargetCPUs = union(env.TargetCPUs, e.Variants[i].Target.CPUs)
	}
	return env
}

// hypervisor names it where the machine only says that there is one.
func hypervisor(hint string) string {
	if hint == "yes" {
		return "virtual machine"
	}
	return hint
}

func union(a, b []int) []int {
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return slices.Compact(all)
}
