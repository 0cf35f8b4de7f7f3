package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"dyno/host/target"
	"dyno/lab/measures"
	"dyno/lab/plan"
	"dyno/results/rundir"
)

// program runs a program to its end and records the figures that it prints. The window is
// its whole life.
func (r *runner) program(ctx context.Context, up *stage, t *rundir.Trial, folder *rundir.TrialWriter,
	output func(name string) (io.Writer, error),
) error {
	v := up.variant
	process := v.Target.Process
	process.Ready = plan.Ready{Kind: plan.ReadyNone}
	spec, err := r.spec(targetName, process, up.variables, "")
	if err != nil {
		return err
	}
	log, err := output(targetName)
	if err != nil {
		return err
	}
	var last measures.LastLine
	spec.Output = io.MultiWriter(&last, log)
	limit := v.Target.Timeout

	w := r.watch(up, t.Purpose)
	t.StartedAt = time.Now()
	if err := r.options.Limits.admit(ctx, &spec); err != nil {
		return &PlanError{err}
	}
	p, err := target.Start(ctx, spec)
	if err != nil {
		return startFault(planned(err))
	}
	w.StartProgram(p, t.StartedAt)
	bounded, cancel := context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("target: the program has not ended after %v (target.timeout)", limit))
	defer cancel()
	err = p.Wait(bounded)
	t.WindowSeconds = time.Since(t.StartedAt).Seconds()
	w.Mark()
	if bounded.Err() != nil && err != nil {
		// If the program had to be stopped, its error is known already.
		if stopped := p.Stop(context.WithoutCancel(ctx)); !errors.Is(stopped, target.ErrExited) {
			err = errors.Join(err, stopped)
		}
	}
	if err != nil && context.Cause(ctx) == nil {
		err = &Fault{err}
	}
	w.Stop()
	w.RecordProgram(t, p)
	err = errors.Join(err, w.Save(folder))
	if err != nil {
		return err
	}
	if t.Measures, err = last.Measures(); err != nil {
		return fmt.Errorf("target: the last line of its output: %w", err)
	}
	if name, ok := strings.CutPrefix(r.experiment.Design.Metric, "program."); ok {
		if _, ok := t.Measures[name]; !ok {
			return fmt.Errorf("target: the last line of its output: %s is missing, and design.metric asks for it", name)
		}
	}
	return nil
}
