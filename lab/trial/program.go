package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"dyno/host/target"
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
	var last lastLine
	spec.Output = io.MultiWriter(&last, log)
	limit := v.Target.Timeout

	w := r.newWatch(up, t.Purpose)
	t.StartedAt = time.Now()
	p, err := begin(ctx, spec)
	if err != nil {
		return startFault(err)
	}
	w.target = p
	w.begin(t.StartedAt, nil)
	w.mark()
	bounded, cancel := context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("target: the program has not ended after %v (target.timeout)", limit))
	defer cancel()
	err = p.Wait(bounded)
	t.WindowSeconds = time.Since(t.StartedAt).Seconds()
	w.mark()
	if bounded.Err() != nil && err != nil {
		// If the program had to be stopped, its error is known already.
		if stopped := p.Stop(context.WithoutCancel(ctx)); !errors.Is(stopped, target.ErrExited) {
			err = errors.Join(err, stopped)
		}
	}
	if err != nil && context.Cause(ctx) == nil {
		err = &Fault{err}
	}
	w.stop()
	w.recordProgram(t, p)
	err = errors.Join(err, w.save(folder))
	if err != nil {
		return err
	}
	if t.Measures, err = last.measures(); err != nil {
		return fmt.Errorf("target: the last line of its output: %w", err)
	}
	if name, ok := strings.CutPrefix(r.experiment.Design.Metric, "program."); ok {
		if _, ok := t.Measures[name]; !ok {
			return fmt.Errorf("target: the last line of its output: %s is missing, and design.metric asks for it", name)
		}
	}
	return nil
}

// recordProgram sums up a program that has ended. The kernel has counted what it used,
// however short it ran; the observer may have missed it.
func (w *watch) recordProgram(t *rundir.Trial, p *target.Process) {
	w.lack(t)
	if used, ok := p.Usage(); ok {
		cpu := (used.User + used.System).Seconds()
		t.Target.CPUSeconds = known(cpu)
		t.Target.CPUShare = known(cpu / t.WindowSeconds / w.targetCPUs)
		t.Target.UserShare = known(used.User.Seconds() / cpu)
		t.Target.RSSBytes = &used.MaxRSS
	}
	if w.marked < len(w.marks) {
		return
	}
	window := w.recorder.Window(w.marks[0], w.marks[1])
	// All processes together use at least as much as the largest one.
	if all := largest(window, "target_rss_bytes"); all != nil && (t.Target.RSSBytes == nil || *all > *t.Target.RSSBytes) {
		t.Target.RSSBytes = all
	}
	t.Target.Threads = largest(window, "target_threads")
	t.Target.Descriptors = largest(window, "target_descriptors")
	w.recordMachine(t, window)
	// CPU time that the program used after the observer's last reading is not foreign.
	if foreign := t.Machine.ForeignShare; foreign != nil && t.Target.CPUSeconds != nil {
		missed := *t.Target.CPUSeconds
		if seen := window.Delta("target_cpu_seconds"); !math.IsNaN(seen) {
			missed = max(0, missed-seen)
		}
		*foreign = max(0, *foreign-missed/window.Delta("machine_cpu_seconds"))
	}
}
