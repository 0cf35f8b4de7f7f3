// Package queue keeps tasks in a fleet's control plane: experiments that workers take and run, one at a time
// each.
//
// A task is the configuration tasks.ID of the namespace fleet-queue. Its plan, which may hold credentials, is the
// secret configuration plans.ID. Clients that may not read secrets there, such as submitters, cannot read plans. Each
// change of a task replaces a version that was read, so no two workers take it. A worker has a lease for each
// attempt. When the lease ends, others may take the task, so the worker ends the attempt before. The task's fence
// counts the attempts: a worker writes its outcome only if the fence is still its own.
//
// To read the source: task.go has the life of a task and tenant.go who comes next, without I/O; queue.go keeps tasks;
// work.go takes them; watch.go says which ones are late.
package queue

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dyno/lab/fleet/registry"
)

// Names of documents.
const (
	tasksPrefix = "tasks."
	plansPrefix = "plans."
)

// Bounds.
const (
	maxTasks = 1000
	maxPlan  = 256 << 10 // bytes of a stored plan: the control plane's own bound
)

// A Plan is a task's experiment.
type Plan struct {
	File   string            `json:"file"`   // absolute, where it was submitted: paths in the plan are relative to its folder
	Folder string            `json:"folder"` // in which it was submitted
	Source string            `json:"source"` // the file's text
	Short  bool              `json:"short,omitempty"`
	Set    map[string]string `json:"set,omitempty"`
}

// A Queue is the tasks that a control plane keeps.
type Queue struct{ Registry *registry.Registry }

// ErrUnknown says that no task has this ID.
var ErrUnknown = errors.New("there is no such task")

// errTaken says that a task is not, or no longer, a worker's.
var errTaken = errors.New("the task was cancelled, or another worker has taken it")

// Tasks returns all readable tasks in the order in which they are taken, and the unreadable ones by their IDs.
func (q *Queue) Tasks(ctx context.Context) ([]Task, []registry.Broken, error) {
	byID, broken, err := registry.Documents[Task](ctx, q.Registry, tasksPrefix)
	slices.SortFunc(broken, func(a, b registry.Broken) int { return strings.Compare(a.Name, b.Name) })
	return inOrder(byID), broken, err
}

// Task returns one task.
func (q *Queue) Task(ctx context.Context, id string) (Task, error) {
	t, tag, err := registry.Read[Task](ctx, q.Registry, tasksPrefix+id)
	if err == nil && tag == "" {
		err = fmt.Errorf("%s: %w", id, ErrUnknown)
	}
	return t, err
}

// A FullError says that a queue is full.
type FullError struct{ Waiting int }

func (e *FullError) Error() string { return fmt.Sprintf("%d tasks wait already", e.Waiting) }

// A LargeError says that a plan is too large to be kept.
type LargeError struct{ Bytes int }

func (e *LargeError) Error() string {
	return fmt.Sprintf("the plan has %d bytes, and a task has room for %d", e.Bytes, maxPlan)
}

// A Submission is a new task with its plan.
type Submission struct {
	Task
	Plan Plan
}

// Submit adds tasks, one after another, and gives them their IDs: accepted is called with each. If there are too many
// tasks, those that ended first are removed.
func (q *Queue) Submit(ctx context.Context, all []*Submission, accepted func(*Task)) error {
	for _, s := range all {
		text, err := json.Marshal(s.Plan)
		if err != nil {
			return err
		}
		if len(text) > maxPlan {
			return &LargeError{len(text)}
		}
	}
	tasks, _, err := q.Tasks(ctx)
	if err != nil {
		return err
	}
	tenants, _, err := q.Tenants(ctx)
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := checkQuota(&s.Task, tasks, tenants); err != nil {
			return err
		}
		excess, err := excess(tasks)
		if err != nil {
			return err
		}
		for _, old := range excess {
			if err := q.discard(ctx, old.ID); err != nil {
				return err
			}
			tasks = slices.DeleteFunc(tasks, func(t Task) bool { return t.ID == old.ID })
		}
		if err := q.add(ctx, s); err != nil {
			return err
		}
		tasks = append(tasks, s.Task)
		accepted(&s.Task)
	}
	return nil
}

func (q *Queue) add(ctx context.Context, s *Submission) error {
	s.ID, s.State, s.Submitted = strings.ToLower(rand.Text()[:8]), Queued, time.Now().UTC()
	// The task is first: a task without a plan fails visibly, but a plan without a task would stay unnoticed.
	_, err := registry.Change(ctx, q.Registry, tasksPrefix+s.ID, func(d *Task) error {
		*d = s.Task
		return nil
	})
	if err != nil {
		return err
	}
	if err := q.Registry.CreateSecret(ctx, plansPrefix+s.ID, s.Plan); err != nil {
		return errors.Join(err, q.Registry.Remove(ctx, tasksPrefix+s.ID))
	}
	return nil
}

// excess returns the tasks to remove for one more: those that ended first.
func excess(tasks []Task) ([]Task, error) {
	n := len(tasks) - maxTasks + 1
	if n <= 0 {
		return nil, nil
	}
	ended := slices.DeleteFunc(slices.Clone(tasks), func(t Task) bool { return !t.ended() })
	if len(ended) < n {
		return nil, &FullError{len(tasks) - len(ended)}
	}
	slices.SortFunc(ended, func(a, b Task) int { return a.endedAt().Compare(b.endedAt()) })
	return ended[:n], nil
}

// endedAt returns when the latest attempt ended, or, without any, when the task was submitted.
func (t *Task) endedAt() time.Time {
	if r := t.Latest(); r != nil {
		return r.Ended
	}
	return t.Submitted
}

// EndedError says that a task has ended already.
type EndedError struct {
	ID    string
	State State
}

func (e *EndedError) Error() string { return fmt.Sprintf("%s is %s already", e.ID, e.State) }

// Cancel ends a task, with its later repetitions. A worker that runs it ends the run in order.
func (q *Queue) Cancel(ctx context.Context, id string) error {
	_, err := q.change(ctx, id, func(t *Task) error {
		if t.ended() {
			return &EndedError{id, t.State}
		}
		t.State = Cancelled
		return nil
	})
	return err
}

// RunningError says that a task runs.
type RunningError struct{ ID string }

func (e *RunningError) Error() string { return fmt.Sprintf("%s runs, or waits", e.ID) }

// Remove removes a task that has ended, or that cannot be read.
func (q *Queue) Remove(ctx context.Context, id string) error {
	t, err := q.Task(ctx, id)
	if _, broken := errors.AsType[*registry.BrokenError](err); err != nil && !broken {
		return err
	}
	if err == nil && !t.ended() {
		return &RunningError{id}
	}
	return q.discard(ctx, id)
}

func (q *Queue) discard(ctx context.Context, id string) error {
	return errors.Join(q.Registry.Remove(ctx, plansPrefix+id), q.Registry.Remove(ctx, tasksPrefix+id))
}

// change changes a task that exists.
func (q *Queue) change(ctx context.Context, id string, f func(*Task) error) (Task, error) {
	return registry.Change(ctx, q.Registry, tasksPrefix+id, func(t *Task) error {
		if t.ID == "" {
			return fmt.Errorf("%s: %w", id, ErrUnknown)
		}
		return f(t)
	})
}

// Plan returns the plan of a task.
func (q *Queue) Plan(ctx context.Context, id string) (Plan, error) {
	p, tag, err := registry.Read[Plan](ctx, q.Registry, plansPrefix+id)
	if err == nil && tag == "" {
		err = fmt.Errorf("the plan of task %s is gone", id)
	}
	return p, err
}
