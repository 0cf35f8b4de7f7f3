package draft

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"dyno/internal/fields"
	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
	"dyno/lab/planfile"
	"dyno/load/pace"
	"dyno/load/scenario"
)

// maxRepairs bounds how often an experiment is checked. Each time, the faults that were found are repaired.
const maxRepairs = 50

// repair removes settings from the experiment that its rules do not permit, such as an invalid header
// field. It lists them. A part that cannot be carried over does not stop the rest.
func (d *Draft) repair() error {
	for n := 0; ; n++ {
		if d.Pass {
			d.Load().Requests = uint64(d.stepCount()) //nolint:gosec // it is no less than 0
		}
		err := d.check()
		var all *fields.Faults
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &all), n == maxRepairs:
			return fmt.Errorf("what was made of it is no experiment: %w", err)
		}
		r := repairs{Draft: d, steps: map[*scenario.Step]bool{}, assertions: map[*scenario.Assertion]bool{}, thresholds: map[int]bool{}}
		for _, f := range all.Faults {
			r.repair(f)
		}
		if !r.carryOut() {
			return fmt.Errorf("what was made of it is no experiment: %w", err)
		}
		if err := d.anyRequest(); err != nil {
			return err
		}
	}
}

// stepCount returns the number of steps that users carry out.
func (d *Draft) stepCount() (n int) {
	d.Scenario.EachUserStep(func(string, *scenario.Step) { n++ })
	return n
}

// check reads the experiment as dyno run will. Its files and the environment need not be there yet.
func (d *Draft) check() (err error) {
	d.text = planfile.Text(d.Experiment, d.Source.Out)
	text := d.text
	if len(d.files) > 0 || len(d.Scenario.Env) > 0 {
		folder, err := os.MkdirTemp("", "dyno-import-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(folder) }() // else the system removes it later
		e, err := d.elsewhere(folder)
		if err != nil {
			return err
		}
		text = planfile.Text(e, d.Source.Out)
	}
	_, err = planfile.ParseWithFiles(d.Source.Out, text, d.Source.Options)
	return err
}

// elsewhere returns the experiment with its own files in a folder, and without values from the
// environment.
func (d *Draft) elsewhere(folder string) (*plan.Experiment, error) {
	own := map[string]string{} // by the path that the experiment has
	for _, f := range d.files {
		path := filepath.Join(folder, f.Name)
		own[filepath.Join(filepath.Dir(d.Source.Out), f.Name)] = path
		if err := os.WriteFile(path, f.Content, 0o600); err != nil {
			return nil, err
		}
	}
	moved := func(path *string) {
		if to, is := own[*path]; is {
			*path = to
		}
	}
	e := *d.Experiment
	e.Variants = slices.Clone(e.Variants)
	l := &e.Variants[0].Load
	if l.Scenario == nil {
		return &e, nil
	}
	s := *l.Scenario
	l.Scenario = &s
	s.Steps, s.Flows, s.Data = slices.Clone(s.Steps), slices.Clone(s.Flows), slices.Clone(s.Data)
	for i := range s.Flows {
		s.Flows[i].Steps = slices.Clone(s.Flows[i].Steps)
	}
	s.Setup, s.Teardown = slices.Clone(s.Setup), slices.Clone(s.Teardown)
	s.EachStep(func(_ string, st *scenario.Step) {
		moved(&st.BodyFile)
		moved(&st.MessageFile)
	})
	for i := range s.Data {
		moved(&s.Data[i].File)
	}
	moved(&s.Secrets)
	if s.Variables = maps.Clone(s.Variables); s.Variables == nil {
		s.Variables = map[string]string{}
	}
	for _, name := range s.Env {
		s.Variables[name] = "x"
	}
	s.Env = nil
	return &e, nil
}

// repairs are what becomes of the faults of an experiment. Steps and the like are taken out when all faults are known:
// the paths of faults have their numbers.
type repairs struct {
	*Draft
	steps      map[*scenario.Step]bool
	assertions map[*scenario.Assertion]bool
	thresholds map[int]bool
	data       []string
	flows      []string
	tooMuch    bool // the file is too large
	changed    bool
}

var (
	stepPath      = lazyregexp.New(`^load\.scenario\.((?:flows\.(?:.+)\.)?steps\[\d+\]|(?:setup|teardown)\[\d+\])(?:\.(.*))?$`)
	thresholdPath = lazyregexp.New(`^thresholds\[(\d+)\]`)
	stepName      = lazyregexp.New(`^ *- name: "?([^"]*)"?$`)
)

// repair takes the smallest part out that has a fault.
func (r *repairs) repair(f fields.Fault) {
	s := r.Scenario
	ofScenario, below, _ := strings.Cut(strings.TrimPrefix(f.Field, "load.scenario."), ".")
	name, _, _ := strings.Cut(below, ".")
	switch path, threshold := stepPath().FindStringSubmatch(f.Field), thresholdPath().FindStringSubmatch(f.Field); {
	case f.Field == "":
		r.repairText(f)
	case threshold != nil:
		n, _ := strconv.Atoi(threshold[1])
		switch {
		case n >= len(r.Experiment.Thresholds) || r.thresholds[n]:
		case r.Experiment.Thresholds[n].Abort: // it may stand as one that does not
			r.Experiment.Thresholds[n].Abort, r.Experiment.Thresholds[n].After, r.changed = false, 0, true
			r.Leave(0, "abort of "+r.Experiment.Thresholds[n].Holds, f.Problem, f.Hint)
		default:
			r.thresholds[n] = true
			r.Leave(0, r.Experiment.Thresholds[n].Holds, f.Problem, f.Hint)
		}
	case path != nil:
		s.EachStep(func(at string, st *scenario.Step) {
			if at == path[1] {
				r.repairStep(st, path[2], f)
			}
		})
	case f.Field == "load.scenario":
		r.repairNamed(f)
	case !strings.HasPrefix(f.Field, "load.scenario."):
		r.reset(f)
	case ofScenario == "data":
		r.data = append(r.data, name)
		r.Leave(0, "data "+name, f.Problem, f.Hint)
	case ofScenario == "variables":
		delete(s.Variables, name)
		r.changed = true
		r.Leave(r.variables[name].line, "variable "+name, f.Problem, f.Hint)
	case ofScenario == "headers":
		s.Headers = withoutHeader(s.Headers, name)
		r.changed = true
		r.Leave(0, name, f.Problem, f.Hint)
	case ofScenario == "metadata":
		s.Metadata = withoutHeader(s.Metadata, name)
		r.changed = true
		r.Leave(0, name, f.Problem, f.Hint)
	case ofScenario == "flows" && name != "":
		r.flows = append(r.flows, name)
		r.Leave(0, "flow "+name, f.Problem, f.Hint)
	default:
		r.reset(f)
	}
}

// repairNamed takes the step out that a fault of the whole scenario names.
func (r *repairs) repairNamed(f fields.Fault) {
	r.Scenario.EachStep(func(_ string, st *scenario.Step) {
		if strings.HasPrefix(f.Problem, "step "+st.Name+": ") {
			r.repairStep(st, "", f)
		}
	})
}

// repairStep takes a part of a step out. Without a request, the whole step goes.
func (r *repairs) repairStep(st *scenario.Step, path string, f fields.Fault) {
	part, below, _ := strings.Cut(path, ".")
	kind, number, _ := strings.Cut(strings.TrimSuffix(part, "]"), "[")
	r.changed = true
	if kind == "headers" && !HasHeader(st.Headers, below) || kind == "metadata" && !HasHeader(st.Metadata, below) {
		kind = "" // all steps have it
	}
	switch kind {
	case "headers":
		st.Headers = withoutHeader(st.Headers, below)
	case "metadata":
		st.Metadata = withoutHeader(st.Metadata, below)
	case "assert":
		if n, err := strconv.Atoi(number); err == nil && n < len(st.Assert) {
			r.assertions[&st.Assert[n]] = true
		}
	case "extract":
		st.Extract = slices.DeleteFunc(st.Extract, func(e scenario.Extraction) bool {
			return below == e.Variable || strings.HasPrefix(below, e.Variable+".")
		})
	case "think":
		st.Think = pace.Think{}
	case "status":
		st.Status = ""
	case "if":
		st.If = ""
	case "max_body":
		st.MaxBody = 0
	case "deadline":
		st.Deadline = 0
	case "max_tokens":
		st.MaxTokens = 0
	default:
		if !r.steps[st] {
			r.steps[st] = true
			r.Leave(r.lines[st.Name], "request "+st.Name, f.Problem, f.Hint)
		}
		return
	}
	r.Leave(r.lines[st.Name], strings.ReplaceAll(path, ".", " ")+" of "+st.Name, f.Problem, f.Hint)
}

// repairText removes the step on whose line the experiment's file cannot be read. If the file is too
// large it removes some steps.
func (r *repairs) repairText(f fields.Fault) {
	if strings.HasPrefix(f.Problem, "more than") || strings.Contains(f.Problem, "larger") || f.Line <= 1 {
		r.tooMuch = true
		return
	}
	lines := strings.Split(string(r.text), "\n")
	for _, line := range slices.Backward(lines[:min(f.Line, len(lines))]) {
		if m := stepName().FindStringSubmatch(line); m != nil {
			r.Scenario.EachStep(func(_ string, st *scenario.Step) {
				if st.Name == m[1] {
					r.repairStep(st, "", f)
				}
			})
			return
		}
	}
}

// reset gives a field its default.
func (r *repairs) reset(f fields.Fault) {
	like := plan.New(r.Experiment.Name, r.Target().Protocol)
	of := []reflect.Value{reflect.ValueOf(r.Experiment).Elem(), reflect.ValueOf(like).Elem()}
	first, _, _ := strings.Cut(f.Field, ".")
	if first == "load" || first == "target" || first == "observe" {
		of = []reflect.Value{reflect.ValueOf(&r.Experiment.Variants[0]).Elem(), reflect.ValueOf(&like.Variants[0]).Elem()}
	}
	if f.Field == "target.url" || f.Field == "load.scenario.steps" || !resetAt(f.Field, of[0], of[1]) {
		return
	}
	r.changed = true
	r.Leave(0, f.Field, f.Problem, f.Hint)
}

// resetAt sets the field at a path to what another value has there, or to nothing. A list is set as a
// whole.
func resetAt(path string, of, like reflect.Value) bool {
	name, below, more := strings.Cut(path, ".")
	name, _, _ = strings.Cut(name, "[")
	for of.Kind() == reflect.Pointer {
		if of.IsNil() {
			return false
		}
		of = of.Elem()
		if like.IsValid() && like.Kind() == reflect.Pointer {
			like = like.Elem() // not valid if it was nil
		}
	}
	if of.Kind() != reflect.Struct {
		return false
	}
	for i := range of.NumField() {
		f := of.Type().Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		var at reflect.Value
		if like.IsValid() {
			at = like.Field(i)
		}
		switch {
		case f.Anonymous && resetAt(path, of.Field(i), at):
			return true
		case tag != name || !of.Field(i).CanSet():
		case more && of.Field(i).Kind() != reflect.Slice && of.Field(i).Kind() != reflect.Map && resetAt(below, of.Field(i), at):
			return true
		case at.IsValid():
			of.Field(i).Set(at)
			return true
		default:
			of.Field(i).SetZero()
			return true
		}
	}
	return false
}

// carryOut takes out what repair has chosen, and tells whether anything was.
func (r *repairs) carryOut() bool {
	s := r.Scenario
	if r.tooMuch {
		r.takeTail()
	}
	takeOut := func(steps []scenario.Step) []scenario.Step {
		var kept []scenario.Step
		for i := range steps {
			st := &steps[i]
			if r.steps[st] {
				continue
			}
			var asked []scenario.Assertion
			for n := range st.Assert {
				if !r.assertions[&st.Assert[n]] {
					asked = append(asked, st.Assert[n])
				}
			}
			st.Assert = asked
			kept = append(kept, *st)
		}
		return kept
	}
	s.Setup, s.Steps, s.Teardown = takeOut(s.Setup), takeOut(s.Steps), takeOut(s.Teardown)
	for i := range s.Flows {
		s.Flows[i].Steps = takeOut(s.Flows[i].Steps)
	}
	s.Flows = slices.DeleteFunc(s.Flows, func(f scenario.Flow) bool { return len(f.Steps) == 0 || slices.Contains(r.flows, f.Name) })
	s.Data = slices.DeleteFunc(s.Data, func(d scenario.Data) bool { return slices.Contains(r.data, d.Name) })
	var kept []plan.Threshold
	for i, t := range r.Experiment.Thresholds {
		if !r.thresholds[i] {
			kept = append(kept, t)
		}
	}
	r.Experiment.Thresholds = kept
	return r.changed || len(r.steps)+len(r.assertions)+len(r.data)+len(r.flows)+len(r.thresholds) > 0
}

// takeTail takes the last eighth of all steps out.
func (r *repairs) takeTail() {
	var all []*scenario.Step
	r.Scenario.EachStep(func(_ string, st *scenario.Step) { all = append(all, st) })
	if len(all) < 2 {
		return
	}
	tail := all[len(all)-max(1, len(all)/8):]
	first := 0
	for _, st := range tail {
		r.steps[st] = true
		if line := r.lines[st.Name]; line > 0 && (first == 0 || line < first) {
			first = line
		}
	}
	r.Leave(first, fmt.Sprintf("%d requests from here on", len(tail)), "the experiment would be too large a file", "import a part of the file")
}
