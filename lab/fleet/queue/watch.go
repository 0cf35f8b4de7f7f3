package queue

import (
	"context"
	"fmt"
	"time"

	"dyno/lab/fleet/registry"
)

// lookPeriod is how often a watch looks at the clock: a task that becomes late changes nothing.
const lookPeriod = time.Second

// The kinds of alarms.
const (
	Late   = "late"   // it has waited for too long since it was due
	Slow   = "slow"   // it has run for longer than predicted, by more than that
	Repeat = "repeat" // an attempt failed or was lost, and there will be another
	Ended  = "failed" // the last attempt failed
)

// AlarmKinds are the kinds of alarms.
var AlarmKinds = []string{Late, Slow, Repeat, Ended}

// An Alarm is about one attempt of a task, or about its wait.
type Alarm struct {
	Kind   string
	Task   Task
	Detail string
}

// A Watch finds what is wrong in a queue, from its tasks and a clock. It reports everything once.
type Watch struct {
	Grace time.Duration // how long a task may wait, or run beyond its prediction

	reported map[alarmKey]bool
}

type alarmKey struct {
	kind, id string
	fence    int64
}

// Look returns the new alarms.
func (w *Watch) Look(tasks []Task, now time.Time) (alarms []Alarm) {
	reported := map[alarmKey]bool{} // what is gone is forgotten
	check := func(t *Task, kind string, is bool, detail string) {
		if !is {
			return
		}
		key := alarmKey{kind, t.ID, t.Fence}
		if reported[key] = true; !w.reported[key] {
			alarms = append(alarms, Alarm{kind, *t, detail})
		}
	}
	for i := range tasks {
		t := &tasks[i]
		r := t.Latest()
		wait := t.Wait(now)
		check(t, Late, t.State == Queued && wait > w.Grace, fmt.Sprintf("it has waited for %v", wait.Round(time.Second)))
		if r == nil {
			continue
		}
		ran := now.Sub(r.Began)
		predicted := time.Duration(r.Predicted * float64(time.Second))
		check(t, Slow, t.State == Running && ran > predicted+w.Grace,
			fmt.Sprintf("it has run for %v, and %v were predicted", ran.Round(time.Second), predicted.Round(time.Second)))
		check(t, Repeat, t.State == Queued && (r.State == Failed || r.State == Lost), fmt.Sprintf("attempt %d: %s: %s", t.Fence, r.State, r.Message))
		check(t, Ended, t.State == Failed, fmt.Sprintf("attempt %d: %s: %s", t.Fence, r.State, r.Message))
	}
	w.reported = reported
	return alarms
}

// Wait returns how long a task has waited since it was due, or 0.
func (t *Task) Wait(now time.Time) time.Duration {
	if t.State != Queued {
		return 0
	}
	since := t.Submitted
	if t.Due.After(since) {
		since = t.Due
	}
	return max(now.Sub(since), 0)
}

// Follow passes the tasks to look with each change and each second, until ctx ends. After a gap it goes on. The error
// says that the control plane refuses.
func (q *Queue) Follow(ctx context.Context, look func([]Task)) error {
	f, err := registry.Follow[Task](q.Registry, tasksPrefix)
	if err != nil {
		return err
	}
	defer f.Close()
	var tasks []Task
	for known := false; ctx.Err() == nil; {
		waiting, cancel := context.WithTimeout(ctx, lookPeriod)
		byID, _, current, err := f.Next(waiting)
		over := waiting.Err() != nil
		cancel()
		switch {
		case err == nil && current:
			tasks, known = inOrder(byID), true
		case err != nil && !over:
			return err
		}
		if known {
			look(tasks)
		}
	}
	return nil
}
