package imports

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	process "dyno/host/child"
)

// scriptLimits bound the process in which a script runs.
var scriptLimits = process.Limits{Time: 30 * time.Second, CPU: 5 * time.Second, Memory: 768 << 20, Output: 32 << 20}

// Role runs a script of k6 in a process of its own: the interpreter cannot be interrupted in a regular expression, or
// in a native function of a large array.
func Role() process.Role {
	return process.Role{Name: "__run-k6", Main: func([]string) int { return process.Answer(scriptLimits.Memory, runTask) }}
}

// A k6Task is the process's input.
type k6Task struct {
	File, Out  string // as in Source
	AllowFiles bool   // as in Source
	Script     []byte
}

// A k6Session is the process's result.
type k6Session struct {
	Failed        string          // why there is nothing else
	Options       json.RawMessage // that the script exports
	Exports       map[string]bool // functions that are not called
	First, Second []k6Recording   // of each scenario

	// Parts of its draft.
	Items   []Item
	Marks   []string
	Used    map[string]bool
	Numbers map[string]bool
}

// runTask runs a script twice.
func runTask(input []byte) ([]byte, error) {
	var task k6Task
	if err := json.Unmarshal(input, &task); err != nil {
		return nil, err
	}
	d := newDraft(Source{Format: "k6", File: task.File, Out: task.Out, AllowFiles: task.AllowFiles})
	d.src = task.Script
	var s k6Session
	if err := s.run(d); err != nil {
		s = k6Session{Failed: err.Error()}
	}
	s.Items, s.Marks, s.Used, s.Numbers = d.items, d.marks, d.used, d.numbers
	return json.Marshal(&s)
}

// run records an iteration of each scenario, twice: what differs then varies from iteration to iteration. A panic of
// the interpreter is a fault of the script.
func (s *k6Session) run(d *draft) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the interpreter failed: %v", p)
		}
	}()
	now := time.Now()
	first, err := newK6Run(d, d.src, 0, 1, now)
	if err != nil {
		return scriptError(d.source.File, err)
	}
	second, err := newK6Run(d, d.src, 1-1e-9, 2, now.Add(time.Hour))
	if err != nil {
		return scriptError(d.source.File, err)
	}
	if s.Options, err = first.options(); err != nil {
		return scriptError(d.source.File, err)
	}
	s.Exports = map[string]bool{}
	for _, name := range []string{"teardown", "handleSummary"} {
		s.Exports[name] = first.exports.Get(name) != nil
	}
	options, err := readOptions(d, s.Options)
	if err != nil {
		return err
	}
	for _, scenario := range options.all() {
		s.First = append(s.First, first.record(&scenario))
		s.Second = append(s.Second, second.record(&scenario))
	}
	return nil
}

// runScript runs the script in a process of its own, within its limits.
func runScript(d *draft) (*k6Session, error) {
	input, err := json.Marshal(k6Task{File: d.source.File, Out: d.source.Out, AllowFiles: d.source.AllowFiles, Script: d.src})
	if err != nil {
		return nil, err
	}
	output, err := process.Ask(Role().Command(os.Environ()), input, scriptLimits)
	limit, failed := (*process.LimitError)(nil), (*process.FailedError)(nil)
	switch {
	case errors.As(err, &limit):
		return nil, fmt.Errorf("the script needs %w", err)
	case errors.As(err, &failed):
		first, _, _ := strings.Cut(failed.Says, "\n")
		return nil, fmt.Errorf("the interpreter failed: %w: %s", err, first)
	case err != nil:
		return nil, err
	}
	var s k6Session
	if err := json.Unmarshal(output, &s); err != nil {
		return nil, err
	}
	if s.Failed != "" {
		return nil, errors.New(s.Failed)
	}
	for _, i := range s.Items {
		d.leave(i.Line, i.What, i.Why, i.Hint)
	}
	d.given = credentialsOf(os.Environ())
	d.marks, d.used, d.numbers = s.Marks, maps.Clone(s.Used), s.Numbers
	return &s, nil
}
