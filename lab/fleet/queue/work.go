package queue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"dyno/lab/fleet/registry"
)

// The times of a worker.
const (
	pollPeriod  = time.Second            // of one without a task
	guardPeriod = 200 * time.Millisecond // between looks at the lease
	checkPeriod = 2 * time.Second        // between looks at the task
	planTimeout = time.Minute            // from a task to its plan
	// How long before its lease may end a worker ends a run in order, and itself.
	stopMargin  = 3 * time.Second
	abortMargin = time.Second
)

var errLease = errors.New("the worker's lease could not be renewed: the control plane does not answer")

// A Worker takes tasks and runs them, one at a time.
type Worker struct {
	Queue *Queue
	Name  string // of its machine
	// Has tells whether a run folder is here, so that a run can continue.
	Has func(folder string) bool
	// Prepare gets hold of the agents of a task with a plan. The error says why they are not free. It returns what
	// runs the task until the context ends, and what releases the agents.
	Prepare func(ctx context.Context, t *Task, p Plan) (run func(context.Context, *Task) Outcome, release func() error, err error)
	// Abort ends this process at once, with all that it started.
	Abort  func()
	Logger *slog.Logger
}

// Work takes tasks until ctx ends. A task that runs then is put back: another worker continues it.
func (w *Worker) Work(ctx context.Context) error {
	for ctx.Err() == nil {
		ran, err := w.next(ctx)
		if err != nil && ctx.Err() == nil {
			w.Logger.Warn("the control plane refuses something, or does not answer", "error", err)
		}
		if ran {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollPeriod):
		}
	}
	return nil
}

// next runs the first task whose agents are free. It tells whether there was one.
func (w *Worker) next(ctx context.Context) (ran bool, err error) {
	tasks, err := w.Queue.Tasks(ctx)
	if err != nil {
		return false, err
	}
	leases, err := w.Queue.Registry.Leases(ctx)
	if err != nil {
		return false, err
	}
	now := time.Now()
	busy := map[Agents]bool{}
	for i := range tasks {
		t := &tasks[i]
		if !t.isDue(now, leases) || t.Agents != nil && busy[*t.Agents] {
			continue
		}
		if t.isLost(leases) && t.Attempts > t.Retries {
			if err := w.abandon(ctx, t); err != nil {
				return false, err
			}
			continue
		}
		run, release, err := w.prepare(ctx, t)
		if err != nil {
			w.Logger.Debug("the task waits", "task", t.ID, "error", err)
			if t.Agents != nil {
				busy[*t.Agents] = true
			}
			continue
		}
		ran, err := w.attempt(ctx, t, Predict(t, tasks), run)
		if err = errors.Join(err, release()); ran || err != nil {
			return ran, err
		}
	}
	return false, nil
}

// prepare is Prepare, with the task's plan.
func (w *Worker) prepare(ctx context.Context, t *Task) (run func(context.Context, *Task) Outcome, release func() error, err error) {
	p, err := w.Queue.plan(ctx, t.ID)
	if err != nil && time.Since(t.Submitted) < planTimeout {
		return nil, nil, err
	}
	if err != nil {
		o := Outcome{Code: 1, Message: err.Error(), Keep: true}
		return func(context.Context, *Task) Outcome { return o }, func() error { return nil }, nil //nolint:nilerr // it is the task's outcome
	}
	return w.Prepare(ctx, t, p)
}

// abandon ends a task that was lost too often.
func (w *Worker) abandon(ctx context.Context, of *Task) error {
	_, err := w.Queue.change(ctx, of.ID, func(t *Task) error {
		// The leases are read after the task: a worker that has taken it since has one.
		leases, err := w.Queue.Registry.Leases(ctx)
		if err != nil {
			return err
		}
		if !t.isLost(leases) || t.Fence != of.Fence {
			return errTaken
		}
		t.abandon(time.Now().UTC())
		return nil
	})
	if errors.Is(err, errTaken) {
		return nil
	}
	return err
}

// attempt takes a task and runs it. It tells whether it got the task.
func (w *Worker) attempt(ctx context.Context, of *Task, predicted float64, run func(context.Context, *Task) Outcome) (ran bool, err error) {
	lease, err := w.Queue.Registry.Lease(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, lease.Release(ctx)) }()
	t, err := w.Queue.change(ctx, of.ID, func(t *Task) error {
		leases, err := w.Queue.Registry.Leases(ctx) // after the task, as in abandon
		if err != nil {
			return err
		}
		now := time.Now().UTC()
		if !t.isDue(now, leases) || t.isLost(leases) && t.Attempts > t.Retries {
			return errTaken
		}
		t.begin(w.Name, lease.ID, now, predicted, w.Has)
		return nil
	})
	if errors.Is(err, errTaken) || errors.Is(err, ErrUnknown) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	log := w.Logger.With("task", t.ID, "name", t.Name, "attempt", t.Attempts, "fence", t.Fence)
	log.Info("begins", "folder", t.Folder)
	var o Outcome
	check := func(ctx context.Context) error { return w.check(ctx, &t) }
	cause := guard(ctx, lease.Until, check, w.Abort, func(ctx context.Context) { o = run(ctx, &t) })
	if err := w.conclude(ctx, lease, &t, o, cause); err != nil {
		log.Warn("the outcome is not noted", "exit_code", o.Code, "error", err)
		return true, nil
	}
	log.Info("ended", "exit_code", o.Code, "message", o.Message, "result", o.Result)
	return true, nil
}

// check returns errTaken if a task is not the worker's any more, or cancelled.
func (w *Worker) check(ctx context.Context, of *Task) error {
	t, err := w.Queue.Task(ctx, of.ID)
	if err == nil && (t.State != Running || t.Fence != of.Fence) || errors.Is(err, ErrUnknown) {
		return errTaken
	}
	return err
}

// guard runs something while a lease lasts and check finds nothing. It returns why it has ended run, or nil. If
// run has not ended shortly before the lease may end, abort ends the process.
func guard(ctx context.Context, until func() time.Time, check func(context.Context) error, abort func(), run func(context.Context)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	var guards sync.WaitGroup
	guards.Go(func() {
		for every := time.NewTicker(guardPeriod); ; {
			select {
			case <-ended:
				every.Stop()
				return
			case <-every.C:
			}
			switch left := time.Until(until()); {
			case left <= abortMargin:
				abort()
				return
			case left <= stopMargin:
				cancel(errLease)
			}
		}
	})
	guards.Go(func() {
		for every := time.NewTicker(checkPeriod); ; {
			select {
			case <-ctx.Done():
				every.Stop()
				return
			case <-every.C:
			}
			if err := check(ctx); errors.Is(err, errTaken) { // after other errors the lease decides
				cancel(err)
			}
		}
	})
	run(ctx)
	cause := context.Cause(ctx)
	close(ended)
	cancel(nil)
	guards.Wait()
	return cause
}

// conclude notes how an attempt ended, if the task is still the worker's. It tries for as long as the lease
// lasts, even after ctx has ended.
func (w *Worker) conclude(ctx context.Context, lease *registry.Lease, of *Task, o Outcome, cause error) error {
	outer := ctx
	ctx = context.WithoutCancel(ctx)
	for {
		_, err := w.Queue.change(ctx, of.ID, func(t *Task) error {
			now := time.Now().UTC()
			switch {
			case t.Fence != of.Fence || t.Holder != lease.ID:
				return errTaken
			case t.State == Cancelled:
				r := t.Latest()
				r.State, r.Ended, r.Result, t.Holder = Interrupted, now, o.Result, ""
			case !o.Done && errors.Is(cause, errLease):
				t.end(Outcome{Code: o.Code, Message: cause.Error(), Keep: true}, now)
			case !o.Done && outer.Err() != nil:
				t.putBack(now)
			default:
				t.end(o, now)
			}
			return nil
		})
		if err == nil || errors.Is(err, errTaken) || errors.Is(err, ErrUnknown) || time.Now().After(lease.Until()) {
			return err
		}
		<-time.After(pollPeriod)
	}
}
