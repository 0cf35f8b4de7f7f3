package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dyno/host/target"
	"dyno/internal/texts"
	"dyno/lab/plan"
	"dyno/results/rundir"
)

const (
	// exitUnavailable is how a build says that something is missing on this machine.
	exitUnavailable = 3

	// buildTimeout bounds one build. Some compile a library for minutes.
	buildTimeout = time.Hour
)

// build runs the commands that build what is started, each once. It returns the experiment
// without the variants that cannot be built on this machine, and which these are. Without the
// base, or a step of a ladder, nothing could be compared: that is an error.
func build(ctx context.Context, e *plan.Experiment, o Options) (*plan.Experiment, []rundir.LeftOut, error) {
	b := builder{options: o, done: map[string]string{}}
	var kept []plan.Variant
	var left []rundir.LeftOut
	for i := range e.Variants {
		v := &e.Variants[i]
		why, err := b.variant(ctx, v)
		if err != nil {
			return nil, nil, fmt.Errorf("variant %s: %w", v.Name, err)
		}
		if why == "" {
			kept = append(kept, *v)
			continue
		}
		needed := ""
		switch {
		case e.Ladder != nil:
			needed = "the ladder needs it as a step"
		case v.Name == e.Base:
			needed = "it is what the others are compared with"
		case v.Name == e.Design.Control:
			needed = "it is the control"
		}
		if needed != "" {
			return nil, nil, fmt.Errorf("variant %s cannot be built here, and %s: %s", v.Name, needed, why)
		}
		left = append(left, rundir.LeftOut{Variant: v.Name, Why: why})
	}
	if len(left) == 0 {
		return e, nil, nil
	}
	if len(kept) == 0 {
		return nil, nil, fmt.Errorf("none of the variants can be built here; %s: %s", left[0].Variant, left[0].Why)
	}
	without := *e
	without.Variants = kept
	return &without, left, nil
}

// A builder remembers what was built.
type builder struct {
	options Options
	done    map[string]string // by command and folder: why it could not be built here; empty if it was
}

// variant builds what a variant starts. It returns why this cannot be done here, or "".
func (b *builder) variant(ctx context.Context, v *plan.Variant) (why string, err error) {
	processes := []plan.Process{v.Target.Process}
	for _, s := range v.Services {
		processes = append(processes, s.Process)
	}
	for _, p := range processes {
		if len(p.Build) == 0 {
			continue
		}
		key := strings.Join(append([]string{p.Dir}, p.Build...), "\x00")
		why, known := b.done[key]
		if !known {
			if why, err = b.run(ctx, p); err != nil {
				return "", fmt.Errorf("build: %w", err)
			}
			b.done[key] = why
		}
		if why != "" {
			return why, nil
		}
	}
	return "", nil
}

// run carries out one build.
func (b *builder) run(ctx context.Context, p plan.Process) (missing string, err error) {
	if w, ok := b.options.Watcher.(PreparingWatcher); ok {
		w.Preparing("building: " + strings.Join(p.Build, " "))
	}
	args := slices.Clone(p.Build)
	if args[0] == "dyno" {
		args[0] = b.options.Program
	}
	ctx, cancel := context.WithTimeoutCause(ctx, buildTimeout, fmt.Errorf("not done after %v", buildTimeout))
	defer cancel()
	spec := target.Spec{Name: args[0], Args: args, Dir: p.Dir}
	if err := b.options.Limits.admit(ctx, &spec); err != nil {
		return "", err
	}
	started, err := target.Start(ctx, spec)
	if err != nil {
		return "", err
	}
	err = started.Wait(ctx)
	if ctx.Err() != nil && err != nil {
		if stopped := started.Stop(context.WithoutCancel(ctx)); !errors.Is(stopped, target.ErrExited) {
			err = errors.Join(err, stopped)
		}
		return "", err
	}
	var failed *target.Failure
	if errors.As(err, &failed) && failed.Code == exitUnavailable {
		if len(failed.Tail) == 0 {
			return "its build does not say why", nil
		}
		return failed.Tail[len(failed.Tail)-1], nil
	}
	return "", err
}

// recordLeftOut records the variants that are not measured: those that cannot be built are among what cannot be had here, too.
func recordLeftOut(run *rundir.Run, chosen []string, unbuilt []rundir.LeftOut) {
	run.Plan.LeftOut = unbuilt
	for _, name := range chosen {
		run.Plan.LeftOut = append(run.Plan.LeftOut, rundir.LeftOut{Variant: name})
	}
	for _, l := range unbuilt {
		run.Environment.AddUnavailable(&texts.Error{Message: texts.New("unavailable.variant", "variant", l.Variant, "why", l.Why)})
	}
}
