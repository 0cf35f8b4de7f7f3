package trial

import (
	"context"
	"runtime"
	"strconv"

	"dyno/internal/texts"
	"dyno/observe/quiet"
)

// newWaiter returns what waits for a quiet machine before trials; nil if the plan does not want that, or if other
// machines carry the loads or the targets: their agents see only what they were asked to run.
func (r *runner) newWaiter() *quiet.Waiter {
	if r.experiment.Design.QuietWait == 0 || len(r.agents) > 0 || len(r.hosts) > 0 {
		return nil
	}
	look := r.options.Look
	if look == nil {
		look = quiet.Read
	}
	w := &quiet.Waiter{Left: r.experiment.Design.QuietWait, Read: func() (quiet.Reading, error) { return look(r.servers()...) }}
	if p, ok := r.options.Watcher.(PreparingWatcher); ok {
		w.Say = func(n quiet.Noise) { p.Preparing(new(texts.New("wait.quiet").With("noise", n.AsMessage())).English()) }
	}
	return w
}

// servers are the processes of targets that dyno did not start, as far as trials have found them.
func (r *runner) servers() (pids []int) {
	if n := len(r.trials); n > 0 && r.trials[n-1].Server != nil {
		pids = append(pids, r.trials[n-1].Server.PID)
	}
	return pids
}

// awaitQuiet waits before a trial until the machine is quiet. If the trial before saw no noise, it does not look. Once
// the time to wait is spent the noise is permanent: from then on the run neither waits nor sets rounds aside.
func (r *runner) awaitQuiet(ctx context.Context) error {
	if r.quiet == nil || r.quiet.Left == 0 || r.wasQuiet() {
		return nil
	}
	isQuiet, err := r.isQuiet(ctx)
	if isQuiet || err != nil {
		return err
	}
	r.run.Plan.Remeasure = len(r.disturbed)
	r.run.Notes = append(r.run.Notes, texts.New("note.noise", "trial", strconv.Itoa(r.number+1), "time", r.experiment.Design.QuietWait.String()).
		With("noise", r.quiet.Noise.AsMessage()))
	return nil
}

// isQuiet tells whether the machine is quiet, after waiting if there is time left to wait.
func (r *runner) isQuiet(ctx context.Context) (bool, error) {
	if r.quiet == nil {
		return true, nil
	}
	isQuiet, err := r.quiet.Wait(ctx)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil: // this machine does not show it
		r.run.Environment.AddUnavailable(err)
		r.quiet, isQuiet = nil, true
	}
	return isQuiet, nil
}

// wasQuiet tells whether others left the CPUs alone in the window of the last trial.
func (r *runner) wasQuiet() bool {
	n := len(r.trials)
	if n == 0 {
		return false
	}
	foreign := r.trials[n-1].Machine.ForeignShare
	return foreign != nil && quiet.Noise{CPUs: *foreign * float64(runtime.NumCPU())}.Quiet()
}
