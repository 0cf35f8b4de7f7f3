package queue

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dyno/lab/fleet/selector"
)

// A State is the state of a task, or of an attempt.
type State string

// The states.
const (
	Queued    State = "queued"
	Running   State = "running"
	Done      State = "done"      // measured and judged, whatever the verdict
	Failed    State = "failed"    // not measured, after all attempts
	Cancelled State = "cancelled" // by a user
	Broken    State = "broken"    // an unreadable document; no task has it
	// Of attempts only.
	Lost        State = "lost"        // its worker was silent for longer than its lease
	Interrupted State = "interrupted" // its worker ended, or the task was cancelled
)

// Bounds.
const (
	MaxRetries  = 10
	MaxPriority = 1000
	maxRuns     = 20               // attempts that a task remembers
	maxMessage  = 500              // bytes of the reason of a failure
	minDelay    = 10 * time.Second // before the next attempt after a failure
	maxDelay    = 10 * time.Minute
)

// A Task is an experiment that waits, runs or has ended. It is one document, so that its changes are atomic.
type Task struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`             // of the experiment
	Tenant    string    `json:"tenant,omitempty"` // empty: DefaultTenant
	Priority  int       `json:"priority"`         // among the tasks of its tenant
	Submitted time.Time `json:"submitted_at"`
	Due       time.Time `json:"due_at,omitzero"` // it is not taken before this time
	Every     string    `json:"every,omitempty"` // when it is due again
	Agents    *Agents   `json:"agents,omitempty"`
	Retries   int       `json:"retries"`
	Planned   float64   `json:"planned_seconds,omitempty"` // duration of the load; 0: it depends on the results

	State    State  `json:"state"`
	Attempts int    `json:"attempts"`         // attempts since it was due
	Holder   string `json:"holder,omitempty"` // the lease of the worker that runs it
	Fence    int64  `json:"fence"`            // counts all attempts
	Folder   string `json:"folder,omitempty"` // the name of the run folder that the next attempt continues
	Runs     []Run  `json:"runs,omitempty"`   // the latest attempts
}

// Check validates a document as a task. Other programs may write tasks, and workers follow them: a run folder must be
// below that of the worker.
func (t *Task) Check(document string) error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(tasksPrefix+t.ID == document, "id: %.40q is not that of the document", t.ID)
	check(isName(t.Name), "name: %.40q is no experiment's", t.Name)
	if t.Tenant != "" {
		err := CheckTenant(t.Tenant)
		check(err == nil, "tenant: %v", err)
	}
	check(t.Folder == "" || isName(t.Folder), "folder: %.40q is no name of a folder", t.Folder)
	check(slices.Contains([]State{Queued, Running, Done, Failed, Cancelled}, t.State), "state: %.40q is none", t.State)
	check(t.State != Running || len(t.Runs) > 0, "runs: there is none, and the task runs")
	check(t.Priority >= -MaxPriority && t.Priority <= MaxPriority, "priority: %d", t.Priority)
	check(t.Retries >= 0 && t.Retries <= MaxRetries, "retries: %d", t.Retries)
	check(t.Attempts >= 0 && t.Fence >= 0, "attempts: %d, fence: %d", t.Attempts, t.Fence)
	check(len(t.Runs) <= maxRuns, "runs: %d", len(t.Runs))
	if t.Every != "" {
		_, err := ParseEvery(t.Every)
		check(err == nil, "every: %v", err)
	}
	if t.Agents != nil {
		_, err := selector.Parse(t.Agents.Selector)
		check(err == nil, "agents.selector: %v", err)
		check(t.Agents.Count >= 0, "agents.count: %d", t.Agents.Count)
	}
	return errors.Join(faults...)
}

// isName reports whether a text is one part of a path.
func isName(text string) bool {
	return text != "" && filepath.IsLocal(text) && filepath.Base(text) == text && text != "."
}

// Agents carry the load of a task. Without them, the worker's machine does.
type Agents struct {
	Selector  string `json:"selector"`
	Count     int    `json:"count,omitempty"` // 0: all that match
	Exclusive bool   `json:"exclusive,omitempty"`
}

// A Run is one attempt.
type Run struct {
	Fence     int64     `json:"fence"`
	Worker    string    `json:"worker"`
	State     State     `json:"state"`
	Began     time.Time `json:"began_at"`
	Ended     time.Time `json:"ended_at,omitzero"`
	Predicted float64   `json:"predicted_seconds,omitempty"`
	Continued bool      `json:"continued,omitempty"` // continues an earlier attempt
	Code      int       `json:"exit_code"`           // as dyno run has it
	Message   string    `json:"message,omitempty"`   // why it failed
	Result    string    `json:"result,omitempty"`    // the run folder, or its URL
}

// Latest returns the latest attempt, or nil.
func (t *Task) Latest() *Run {
	if len(t.Runs) == 0 {
		return nil
	}
	return &t.Runs[len(t.Runs)-1]
}

func (t *Task) ended() bool { return t.State != Queued && t.State != Running }

// order compares two tasks: the lesser one is taken first.
func order(a, b *Task) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Submitted.Compare(b.Submitted), strings.Compare(a.ID, b.ID))
}

// isDue reports whether a worker may take the task, given the live leases.
func (t *Task) isDue(now time.Time, leases map[string]bool) bool {
	return t.State == Queued && !t.Due.After(now) || t.isLost(leases)
}

func (t *Task) isLost(leases map[string]bool) bool { return t.State == Running && !leases[t.Holder] }

// begin starts an attempt of a worker. If the worker has the run folder, the attempt continues there.
func (t *Task) begin(worker, lease string, now time.Time, predicted float64, has func(folder string) bool) {
	t.lose(now)
	t.State, t.Holder = Running, lease
	t.Attempts++
	t.Fence++
	continued := t.Folder != "" && has(t.Folder)
	if !continued {
		t.Folder = fmt.Sprintf("%s-%s-%d", t.Name, t.ID, t.Fence)
	}
	t.Runs = append(t.Runs, Run{Fence: t.Fence, Worker: worker, State: Running, Began: now, Predicted: predicted, Continued: continued})
	t.Runs = t.Runs[max(0, len(t.Runs)-maxRuns):]
}

// lose notes that the worker of a running task is gone.
func (t *Task) lose(now time.Time) {
	if t.State == Running {
		r := t.Latest()
		r.State, r.Ended = Lost, now
	}
}

// abandon ends a task whose workers were lost too often.
func (t *Task) abandon(now time.Time) {
	t.lose(now)
	t.settle(Failed, now)
}

// An Outcome is how an attempt ended.
type Outcome struct {
	Code int  // as dyno run has it
	Done bool // the experiment was measured and judged
	Keep bool // the next attempt continues in the folder
	// Locked says that the run folder is locked: a stopped worker, which counts as lost, still has it. This attempt
	// does not count, and the next one has another folder.
	Locked  bool
	Message string // why it failed
	Result  string // the run folder, or its URL
}

// end notes the outcome of the present attempt.
func (t *Task) end(o Outcome, now time.Time) {
	r := t.Latest()
	r.Ended, r.Code, r.Result = now, o.Code, o.Result
	r.Message = strings.ToValidUTF8(o.Message[:min(len(o.Message), maxMessage)], "")
	r.State = Failed
	switch {
	case o.Locked:
		t.putBack(now)
		t.Folder = ""
	case o.Done:
		r.State = Done
		t.settle(Done, now)
	case t.Attempts > t.Retries:
		t.settle(Failed, now)
	default:
		t.State, t.Holder = Queued, ""
		t.Due = now.Add(min(minDelay<<(t.Attempts-1), maxDelay))
		if !o.Keep {
			t.Folder = ""
		}
	}
}

// putBack lets another worker continue the attempt, which does not count.
func (t *Task) putBack(now time.Time) {
	r := t.Latest()
	r.State, r.Ended = Interrupted, now
	t.State, t.Holder = Queued, ""
	t.Attempts--
}

// settle ends a task until it is due again.
func (t *Task) settle(s State, now time.Time) {
	t.State, t.Holder, t.Folder, t.Attempts = s, "", "", 0
	if t.Every == "" {
		return
	}
	schedule, err := ParseEvery(t.Every)
	if err != nil {
		return // another version of dyno submitted it
	}
	t.State, t.Due = Queued, schedule.Next(now.Local()).UTC()
}

// Predict estimates how many seconds a task takes, from its plan and from finished tasks of its name; 0 is unknown.
func Predict(t *Task, tasks []Task) float64 {
	var took, ratios []float64
	for i := range tasks {
		for _, r := range tasks[i].Runs {
			if tasks[i].Name != t.Name || r.State != Done || r.Continued {
				continue
			}
			took = append(took, r.Ended.Sub(r.Began).Seconds())
			if planned := tasks[i].Planned; planned > 0 {
				ratios = append(ratios, took[len(took)-1]/planned)
			}
		}
	}
	switch {
	case t.Planned == 0:
		return median(took)
	case len(ratios) == 0:
		return t.Planned
	}
	return t.Planned * median(ratios)
}

// median of nothing is 0.
func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return (of[(len(of)-1)/2] + of[len(of)/2]) / 2
}
