package queue

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"dyno/lab/fleet/registry"
)

// The times of a worker.
const (
	minPause    = time.Second            // before a retry
	maxPause    = 10 * time.Second       // the pause doubles until then, unless the queue changes
	idlePause   = time.Hour              // without anything to wait for: the control plane sends changes
	guardPeriod = 200 * time.Millisecond // between looks at the lease
	checkPeriod = 2 * time.Second        // between looks at the task that runs, and at the leases of others
	planTimeout = time.Minute            // from a task to its plan
	// How long before its lease's end a worker ends a run in order, and itself.
	stopMargin  = 3 * time.Second
	abortMargin = time.Second
)

var errLease = errors.New("the worker's lease could not be renewed: the control plane does not answer")

// A Worker takes tasks and runs them, one at a time.
type Worker struct {
	Queue *Queue
	Name  string // of its machine
	// Has reports whether a run folder is on this machine, so that a run can continue.
	Has func(folder string) bool
	// Prepare takes the agents of a task with a plan. The error says why they are not free. It returns a function
	// that runs the task until the context ends, and one that releases the agents.
	Prepare func(ctx context.Context, t *Task, p Plan) (run func(context.Context, *Task) Outcome, release func() error, err error)
	// Waiting is called after each search for a task, with the ID of the task for which machines are reserved: Prepare has
	// returned ErrReserved for it. Without an ID there is none.
	Waiting func(ctx context.Context, task string) error
	// Abort ends this process at once, with all its child processes.
	Abort  func()
	Logger *slog.Logger
}

// ErrReserved says that a task waits for machines that are reserved for it, and still carry other parts.
var ErrReserved = errors.New("its machines are reserved, and still carry something")

// Work takes tasks until ctx ends. A task that runs then is put back: another worker continues it.
func (w *Worker) Work(ctx context.Context) error {
	for pause := time.Duration(0); ctx.Err() == nil; pause = longer(pause, minPause, maxPause) {
		if !rest(ctx, pause) {
			break
		}
		if err := w.follow(ctx); ctx.Err() == nil {
			w.Logger.Warn("the queue cannot be followed", "error", err)
		}
	}
	return w.Waiting(context.WithoutCancel(ctx), "")
}

// longer returns the next pause of a back-off.
func longer(pause, least, most time.Duration) time.Duration { return min(max(2*pause, least), most) }

// rest waits, and reports whether ctx has not ended.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// follow takes tasks from the control plane's changes, until ctx ends or the control plane refuses.
func (w *Worker) follow(ctx context.Context) error {
	f, err := registry.Follow[Task](w.Queue.Registry, tasksPrefix)
	if err != nil {
		return err
	}
	defer f.Close()
	var (
		tasks   []Task
		current bool
		pause   time.Duration // of the back-off
		until   = idlePause
		warned  = map[registry.Broken]bool{}
	)
	for {
		waiting, cancel := context.WithTimeout(ctx, until)
		byID, broken, now, err := f.Next(waiting)
		over := waiting.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			tasks, current, pause = inOrder(byID), now, 0
			for _, b := range broken {
				if !warned[b] {
					w.Logger.Warn("a task is left out", "task", b.Name, "error", b.Reason)
				}
			}
			warned = setOf(broken)
		case !over:
			return err
		}
		if !current { // the control plane will send changes
			until = idlePause
			continue
		}
		ran, blocked, err := w.next(ctx, tasks)
		if err != nil && ctx.Err() == nil {
			w.Logger.Warn("the control plane refuses something, or does not answer", "error", err)
		}
		if ran {
			pause, until = 0, 0 // the list includes all changes meanwhile
			continue
		}
		pause = longer(pause, minPause, maxPause)
		until = pauseUntil(tasks, time.Now(), blocked || err != nil, pause)
	}
}

func setOf(broken []registry.Broken) map[registry.Broken]bool {
	set := map[registry.Broken]bool{}
	for _, b := range broken {
		set[b] = true
	}
	return set
}

// inOrder returns tasks in the order of taking.
func inOrder(byID map[string]Task) []Task {
	return slices.SortedFunc(maps.Values(byID), func(a, b Task) int { return order(&a, &b) })
}

// pauseUntil returns how long an idle worker waits for a change: its back-off if a task is blocked, otherwise until
// the next one is due. A lost worker changes no task, so while tasks run, it checks for lost ones.
func pauseUntil(tasks []Task, now time.Time, blocked bool, backOff time.Duration) time.Duration {
	until := idlePause
	if blocked {
		until = backOff
	}
	for i := range tasks {
		switch t := &tasks[i]; {
		case t.State == Running:
			until = min(until, checkPeriod)
		case t.State == Queued && t.Due.After(now):
			until = min(until, t.Due.Sub(now))
		}
	}
	return until
}

// next runs the first task whose agents are free. ran reports whether there was one; blocked, whether one waits for
// something outside of the queue.
func (w *Worker) next(ctx context.Context, tasks []Task) (ran, blocked bool, err error) {
	var leases map[string]bool // only running tasks have one
	if slices.ContainsFunc(tasks, func(t Task) bool { return t.State == Running }) {
		if leases, err = w.Queue.Registry.Leases(ctx); err != nil {
			return false, true, err
		}
	}
	reserved := "" // the task that waits for machines
	defer func() {
		if waiting := w.Waiting(ctx, reserved); !ran {
			err = errors.Join(err, waiting)
		}
	}()
	now := time.Now()
	all := tasks
	var virtual *float64 // nil: no tenants share the workers
	if shared(tasks) {
		tenants, broken, err := w.Queue.Tenants(ctx)
		if err != nil {
			return false, true, err
		}
		for _, b := range broken {
			w.Logger.Warn("a tenant is left out", "tenant", b.Name, "error", b.Reason)
		}
		tasks, virtual = inTurn(tasks, tenants, leases, now), new(virtualTime(tenants))
	}
	busy, full := map[Agents]bool{}, map[string]bool{} // full are tenants
	for i := range tasks {
		t := &tasks[i]
		if !t.isDue(now, leases) || t.Agents != nil && busy[*t.Agents] || full[t.TenantName()] {
			continue
		}
		if t.isLost(leases) && t.Attempts > t.Retries {
			if err := w.abandon(ctx, t); err != nil {
				return false, blocked, err
			}
			continue
		}
		run, release, err := w.prepare(ctx, t)
		if err != nil {
			w.Logger.Debug("the task waits", "task", t.ID, "error", err)
			blocked = true
			if errors.Is(err, ErrReserved) {
				reserved = t.ID // a later task would occupy this worker
				return false, blocked, nil
			}
			if t.Agents != nil {
				busy[*t.Agents] = true
			}
			continue
		}
		ran, err := w.attempt(ctx, t, virtual, Predict(t, all), run)
		if errors.Is(err, errQuota) { // another worker was faster
			full[t.TenantName()], err = true, nil
		}
		if err = errors.Join(err, release()); ran || err != nil {
			return ran, blocked, err
		}
	}
	return false, blocked, nil
}

// prepare is Prepare, with the task's plan.
func (w *Worker) prepare(ctx context.Context, t *Task) (run func(context.Context, *Task) Outcome, release func() error, err error) {
	p, err := w.Queue.Plan(ctx, t.ID)
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

// attempt takes a task and runs it. It tells whether it got the task. virtual is the tenants' virtual time, or nil.
func (w *Worker) attempt(ctx context.Context, of *Task, virtual *float64, predicted float64, run func(context.Context, *Task) Outcome) (ran bool, err error) {
	lease, err := w.Queue.Registry.Lease(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, lease.Release(ctx)) }()
	var began time.Time
	if virtual != nil {
		leave, err := w.Queue.enter(ctx, of.TenantName(), lease.ID, *virtual)
		if err != nil {
			return false, err
		}
		defer func() {
			var seconds float64
			if !began.IsZero() {
				seconds = time.Since(began).Seconds()
			}
			if err := leave(seconds); err != nil {
				w.Logger.Warn("the tenant is not charged", "tenant", of.TenantName(), "error", err)
			}
		}()
	}
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
	began = time.Now()
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

// check returns errTaken if the worker has lost the task, or it is cancelled.
func (w *Worker) check(ctx context.Context, of *Task) error {
	t, err := w.Queue.Task(ctx, of.ID)
	if err == nil && (t.State != Running || t.Fence != of.Fence) || errors.Is(err, ErrUnknown) {
		return errTaken
	}
	return err
}

// guard runs run while the lease lasts and check finds nothing. It returns why it has ended run, or nil. If run is
// still running shortly before the lease's end, abort ends the process.
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

// conclude notes the outcome of an attempt, if the worker still has the task. It retries for as long as the lease
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
		<-time.After(minPause)
	}
}
