package queue

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func has(string) bool    { return true }
func hasNot(string) bool { return false }

// TestLife: what becomes of a task after each attempt.
func TestLife(t *testing.T) {
	done, failed := Outcome{Code: 99, Done: true, Result: "there"}, Outcome{Code: 3, Message: "down"}
	for name, c := range map[string]struct {
		every   string
		retries int
		live    func(*Task)
		state   State
		due     time.Time
		runs    string // the attempts: state, and + if it continues another
		folder  string
	}{
		"done":      {"", 2, func(t *Task) { t.begin("w", "l", noon, 0, hasNot); t.end(done, noon) }, Done, time.Time{}, "done", ""},
		"failed":    {"", 0, func(t *Task) { t.begin("w", "l", noon, 0, hasNot); t.end(failed, noon) }, Failed, time.Time{}, "failed", ""},
		"try again": {"", 1, func(t *Task) { t.begin("w", "l", noon, 0, hasNot); t.end(failed, noon) }, Queued, noon.Add(10 * time.Second), "failed", ""},
		"failed twice": {"", 1, func(t *Task) {
			t.begin("w", "l", noon, 0, hasNot)
			t.end(failed, noon)
			t.begin("w", "l", noon, 0, has)
			t.end(failed, noon)
		}, Failed, noon.Add(10 * time.Second), "failed failed", ""},
		"kept": {"", 2, func(t *Task) {
			t.begin("w", "l", noon, 0, hasNot)
			t.end(Outcome{Code: 1, Keep: true}, noon)
			t.begin("w", "l", noon, 0, has)
			t.end(failed, noon)
		}, Queued, noon.Add(20 * time.Second), "failed failed+", ""},
		"lost, and elsewhere": {"", 2, func(t *Task) {
			t.begin("w", "l", noon, 0, hasNot)
			t.begin("x", "m", noon, 0, hasNot)
		}, Running, time.Time{}, "lost running", "n-id-2"},
		"lost, and continued": {"", 2, func(t *Task) {
			t.begin("w", "l", noon, 0, hasNot)
			t.begin("x", "m", noon, 0, has)
		}, Running, time.Time{}, "lost running+", "n-id-1"},
		"the folder is another's": {"", 0, func(t *Task) {
			t.begin("w", "l", noon, 0, hasNot)
			t.begin("x", "m", noon, 0, has)
			t.end(Outcome{Code: 1, Locked: true}, noon)
			t.begin("x", "m", noon, 0, has)
		}, Running, time.Time{}, "lost interrupted+ running", "n-id-3"},
		"lost too often":        {"", 0, func(t *Task) { t.begin("w", "l", noon, 0, hasNot); t.abandon(noon) }, Failed, time.Time{}, "lost", ""},
		"put back":              {"", 0, func(t *Task) { t.begin("w", "l", noon, 0, hasNot); t.putBack(noon) }, Queued, time.Time{}, "interrupted", "n-id-1"},
		"due again":             {"CRON_TZ=UTC 30 2 * * *", 0, func(t *Task) { t.begin("w", "l", noon, 0, hasNot); t.end(done, noon) }, Queued, noon.Add(14*time.Hour + 30*time.Minute), "done", ""},
		"failed, and due again": {"CRON_TZ=UTC 30 2 * * *", 0, func(t *Task) { t.begin("w", "l", noon, 0, hasNot); t.end(failed, noon) }, Queued, noon.Add(14*time.Hour + 30*time.Minute), "failed", ""},
	} {
		one := &Task{ID: "id", Name: "n", State: Queued, Every: c.every, Retries: c.retries}
		c.live(one)
		var runs []string
		for _, r := range one.Runs {
			text := string(r.State)
			if r.Continued {
				text += "+"
			}
			runs = append(runs, text)
			if (r.State == Running) == !r.Ended.IsZero() {
				t.Errorf("%s: %s, and ended at %v", name, r.State, r.Ended)
			}
		}
		if got := strings.Join(runs, " "); one.State != c.state || !one.Due.Equal(c.due) || got != c.runs || one.Folder != c.folder {
			t.Errorf("%s: %s, due %v, attempts %q, folder %q; want %s, %v, %q, %q", name, one.State, one.Due, got, one.Folder, c.state, c.due, c.runs, c.folder)
		}
		if int(one.Fence) != len(one.Runs) || (one.State == Running) != (one.Holder != "") || one.State != Running && one.State != Queued && one.Attempts != 0 {
			t.Errorf("%s: fence %d, holder %q, attempts %d", name, one.Fence, one.Holder, one.Attempts)
		}
	}
}

// TestBounds: a task does not grow.
func TestBounds(t *testing.T) {
	one := &Task{Retries: MaxRetries}
	for range 3 * maxRuns {
		one.begin("w", "l", noon, 0, hasNot)
		one.end(Outcome{Message: strings.Repeat("é", maxMessage)}, noon)
	}
	if r := one.Latest(); len(one.Runs) != maxRuns || r.Fence != 3*maxRuns || len(r.Message) > maxMessage || strings.ContainsRune(r.Message, '\uFFFD') {
		t.Errorf("%d attempts, the latest %+v", len(one.Runs), r)
	}
	one = &Task{Retries: MaxRetries}
	for range MaxRetries {
		one.begin("w", "l", noon, 0, hasNot)
		one.end(Outcome{}, noon)
	}
	if wait := one.Due.Sub(noon); wait != maxDelay {
		t.Errorf("after %d attempts: %v, want %v", MaxRetries, wait, maxDelay)
	}
}

// TestExcess: a queue that is full forgets what ended first, and no task that waits or runs.
func TestExcess(t *testing.T) {
	tasks := make([]Task, maxTasks)
	for i := range tasks {
		tasks[i] = Task{State: Running}
	}
	var full *FullError
	if _, err := excess(tasks); !errors.As(err, &full) || full.Waiting != maxTasks {
		t.Errorf("%v", err)
	}
	for i, days := range map[int]int{5: 2, 7: 1, 9: 3} {
		tasks[i] = Task{ID: strconv.Itoa(i), State: Done, Runs: []Run{{Ended: noon.AddDate(0, 0, days)}}}
	}
	if got, err := excess(tasks); err != nil || len(got) != 1 || got[0].ID != "7" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := excess(tasks[:maxTasks-1]); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestOrder(t *testing.T) {
	tasks := []Task{{ID: "d", Submitted: noon}, {ID: "c", Submitted: noon}, {ID: "b", Submitted: noon.Add(-time.Hour)}, {ID: "a", Priority: 1, Submitted: noon}}
	slices.SortFunc(tasks, func(a, b Task) int { return order(&a, &b) })
	var got string
	for _, one := range tasks {
		got += one.ID
	}
	if got != "abcd" {
		t.Error(got)
	}
}

func TestIsDue(t *testing.T) {
	leases := map[string]bool{"alive": true}
	for _, c := range []struct {
		task Task
		want bool
	}{
		{Task{State: Queued}, true},
		{Task{State: Queued, Due: noon}, true},
		{Task{State: Queued, Due: noon.Add(1)}, false},
		{Task{State: Running, Holder: "alive"}, false},
		{Task{State: Running, Holder: "gone"}, true},
		{Task{State: Done, Holder: "gone"}, false},
		{Task{State: Failed}, false},
		{Task{State: Cancelled, Holder: "gone"}, false},
	} {
		if got := c.task.isDue(noon, leases); got != c.want {
			t.Errorf("%+v: %v", c.task, got)
		}
	}
}

func TestPredict(t *testing.T) {
	past := func(name string, planned float64, seconds int, state State, continued bool) Task {
		return Task{Name: name, Planned: planned, Runs: []Run{{State: state, Continued: continued, Began: noon, Ended: noon.Add(time.Duration(seconds) * time.Second)}}}
	}
	tasks := []Task{
		past("n", 10, 12, Done, false), past("n", 100, 150, Done, false), past("n", 10, 20, Done, false), // 1.2, 1.5, 2
		past("n", 10, 1000, Failed, false), past("n", 10, 1, Done, true), past("other", 10, 1000, Done, false),
	}
	for _, c := range []struct {
		task  Task
		tasks []Task
		want  float64
	}{
		{Task{Name: "n", Planned: 40}, tasks, 60},
		{Task{Name: "n", Planned: 40}, tasks[:2], 54},
		{Task{Name: "n"}, tasks, 20},
		{Task{Name: "new", Planned: 40}, tasks, 40},
		{Task{Name: "new"}, tasks, 0},
	} {
		if got := Predict(&c.task, c.tasks); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%+v: %v, want %v", c.task, got, c.want)
		}
	}
}

func TestSchedules(t *testing.T) {
	for _, c := range []struct{ text, next, err string }{
		{"02:30", "2026-01-03T02:30:00Z", ""},
		{"12:30", "2026-01-02T12:30:00Z", ""},
		{"30 2 * * 1-5", "2026-01-05T02:30:00Z", ""},
		{"CRON_TZ=Asia/Tokyo 30 2 * * *", "2026-01-02T17:30:00Z", ""},
		{"@every 1s", "", "once a minute at most"},
		{"nightly", "", "neither a time of day nor five fields of cron"},
		{"24:00", "", "neither"},
		{"0 0 30 2 *", "", "there is no such time"},
		{"", "", "neither"},
	} {
		s, err := ParseEvery(c.text)
		if err != nil || c.err != "" {
			if err == nil || c.err == "" || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q: %v, want %q", c.text, err, c.err)
			}
			continue
		}
		if got := s.Next(noon).UTC().Format(time.RFC3339); got != c.next {
			t.Errorf("%q: %s, want %s", c.text, got, c.next)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"12:01", "2026-01-02T12:01:00Z"}, {"12:00", "2026-01-03T12:00:00Z"}, {"02:30", "2026-01-03T02:30:00Z"},
		{"2026-05-01T02:30:00Z", "2026-05-01T02:30:00Z"}, {"soon", ""}, {"25:00", ""},
	} {
		at, err := ParseAt(c.text, noon)
		if got := at.Format(time.RFC3339); (err == nil) != (c.want != "") || err == nil && got != c.want {
			t.Errorf("%q: %v, %v", c.text, got, err)
		}
	}
}

// TestCheck: a worker takes no task that another program has written in a form that a queue never has.
func TestCheck(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"id":"x","name":"n","state":"queued"}`:                                             true,
		`{"id":"x","name":"n","state":"running","runs":[{"fence":1}],"folder":"n-x-1"}`:      true,
		`{"id":"x","name":"n","state":"queued","every":"02:30","agents":{"selector":"a=1"}}`: true,
		`{}`:                                     false,
		`{"id":"y","name":"n","state":"queued"}`: false,
		`{"id":"x","name":"../../etc","state":"queued"}`:                                false,
		`{"id":"x","name":"..","state":"queued"}`:                                       false,
		`{"id":"x","name":"n","state":"queued","folder":"/tmp"}`:                        false,
		`{"id":"x","name":"n","state":"queued","folder":"../n"}`:                        false,
		`{"id":"x","name":"n","state":"flying"}`:                                        false,
		`{"id":"x","name":"n","state":"running"}`:                                       false,
		`{"id":"x","name":"n","state":"queued","retries":1000000}`:                      false,
		`{"id":"x","name":"n","state":"queued","every":"now"}`:                          false,
		`{"id":"x","name":"n","state":"queued","agents":{"selector":"=,="}}`:            false,
		`{"id":"x","name":"n","state":"queued","agents":{"selector":"a=1","count":-1}}`: false,
		`{"id":"x","name":"n","state":"queued","attempts":-9223372036854775808}`:        false,
	} {
		var one Task
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			t.Fatal(err)
		}
		if err := one.Check(tasksPrefix + "x"); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestPauseUntil: a worker that has nothing to do asks nothing.
func TestPauseUntil(t *testing.T) {
	ended := make([]Task, 1000)
	for i := range ended {
		ended[i].State = Done
	}
	for name, c := range map[string]struct {
		tasks   []Task
		blocked bool
		want    time.Duration
	}{
		"nothing":          {nil, false, idlePause},
		"all have ended":   {ended, false, idlePause},
		"one runs":         {append(slices.Clone(ended), Task{State: Running}), false, checkPeriod},
		"one is blocked":   {[]Task{{State: Queued}}, true, minPause},
		"one is due later": {[]Task{{State: Queued, Due: noon.Add(time.Minute)}}, false, time.Minute},
		"one is due soon":  {[]Task{{State: Queued, Due: noon.Add(time.Millisecond)}, {State: Running}}, true, time.Millisecond},
	} {
		if got := pauseUntil(c.tasks, noon, c.blocked, minPause); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	pause := time.Duration(0)
	for _, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		if pause = longer(pause, minPause, maxPause); pause != want*time.Second {
			t.Errorf("the back-off is %v, want %v s", pause, want)
		}
	}
}
