package k6

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"dyno/cli/imports/draft"
	process "dyno/host/child"
)

// scriptLimits bound the process in which a script runs.
var scriptLimits = process.Limits{Time: 2 * time.Minute, CPU: 5 * time.Second, Memory: 768 << 20, Output: 32 << 20}

// Role runs a script of k6 in a process of its own: the interpreter cannot be interrupted in a regular expression, or
// in a native function of a large array.
func Role() process.Role {
	return process.Role{Name: "__run-k6", Main: func([]string) int { return process.Answer(scriptLimits.Memory, runTask) }}
}

// A scriptTask is the process's input.
type scriptTask struct {
	File, Out  string // as in draft.Source
	AllowFiles bool   // as in draft.Source
	Script     []byte
}

// A session is the process's result.
type session struct {
	Failed        string          // why there is nothing else
	Options       json.RawMessage // that the script exports
	Exports       map[string]bool // functions that are not called
	First, Second []recording     // of each scenario
	Schemas       []schema        // of gRPC

	Setup, Teardown []event // what is done once

	// Parts of its draft.
	Items   []draft.Item
	Marks   []string
	Used    map[string]bool
	Numbers map[string]bool
}

// runTask runs a script twice.
func runTask(input []byte) ([]byte, error) {
	var task scriptTask
	if err := json.Unmarshal(input, &task); err != nil {
		return nil, err
	}
	d := draft.New(draft.Source{Format: "k6", File: task.File, Out: task.Out, AllowFiles: task.AllowFiles})
	d.Src = task.Script
	var s session
	if err := s.run(d); err != nil {
		s = session{Failed: err.Error()}
	}
	s.Items, s.Marks, s.Used, s.Numbers = d.Items, d.Marks, d.Used, d.Numbers
	return json.Marshal(&s)
}

// run records an iteration of each scenario, and a later one of another user: what differs then varies from iteration to
// iteration. A third user shows where its number stands. A panic of the interpreter is a fault of the script.
func (s *session) run(d *draft.Draft) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the interpreter failed: %v", p)
		}
	}()
	now := time.Now()
	one, err := newRun(d, d.Src, 0, first, now)
	if err != nil {
		return scriptError(d.Source.File, err)
	}
	other, err := newRun(d, d.Src, 1-1e-9, second, now.Add(time.Hour))
	if err != nil {
		return scriptError(d.Source.File, err)
	}
	if s.Options, err = one.options(); err != nil {
		return scriptError(d.Source.File, err)
	}
	s.Exports = map[string]bool{}
	s.Exports["handleSummary"] = one.exports.Get("handleSummary") != nil
	options, err := readOptions(d, s.Options)
	if err != nil {
		return err
	}
	if err := one.member("schemas", &s.Schemas); err != nil {
		return scriptError(d.Source.File, err)
	}
	one.setUp()
	other.setUp()
	third, err := newRun(d, d.Src, 0, shown, now)
	if err == nil { // else the script needs other numbers
		third.setUp()
	}
	for i, scenario := range options.all() {
		s.First = append(s.First, one.record(&scenario, first))
		if s.First[i].Failed != "" { // later iterations would end as early, perhaps after a long time
			s.Second = append(s.Second, other.record(&scenario, second))
			continue
		}
		s.Second = append(s.Second, other.again(&scenario, second))
		markOnce(s.First[i].Events, s.Second[i])
		if err == nil {
			markNumbers(d, s.First[i].Events, s.Second[i].Events, third.again(&scenario, shown).Events)
		}
	}
	if s.Setup, s.Teardown, err = one.tearDown(); err != nil {
		d.Leave(d.LineOfKey("teardown", 0), "teardown", "it ended early: "+thrown(d.Source.File, err), "what it had sent until then is carried over")
	}
	return nil
}

// runScript runs the script in a process of its own, within its limits.
func runScript(d *draft.Draft) (*session, error) {
	task := scriptTask{File: d.Source.File, Out: d.Source.Out, AllowFiles: d.Source.AllowFiles, Script: d.Src}
	var s session
	if err := draft.RunScript(Role(), scriptLimits, task, &s); err != nil {
		return nil, err
	}
	if s.Failed != "" {
		return nil, errors.New(s.Failed)
	}
	for _, i := range s.Items {
		d.Leave(i.Line, i.What, i.Why, i.Hint)
	}
	d.HideEnvironment(os.Environ())
	d.Marks, d.Used, d.Numbers = s.Marks, s.Used, s.Numbers
	return &s, nil
}
