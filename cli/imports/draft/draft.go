// Package draft has what importers share. An importer of a format reads a file, and fills a draft: an experiment, and a
// list of the file's parts that it leaves out. Read imports a file (source.go). Texts have marks for what varies
// (text.go). Requests become steps (request.go). The file may name other files (files.go). At the end, credentials are
// hidden (credentials.go), and what the rules of experiments do not permit is taken out (repair.go).
package draft

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"dyno/lab/plan"
	"dyno/load/pace"
	"dyno/load/scenario"
)

// Bounds of a draft.
const (
	MaxItems  = 1000     // that are listed; the last one says that there are more
	MaxInline = 16 << 10 // bytes of a body that stands in the experiment; a longer one gets a file
	maxMarks  = 10_000
	MaxThink  = time.Hour
	MaxWeight = 1_000_000
	MaxDepth  = 32 // of folders within folders, and other nested parts of files
)

// A Draft is an experiment in the making. Texts of requests are what will be sent, with marks for what varies:
// a reader gets a mark for an expression of a template, and puts it into a text.
type Draft struct {
	Source Source
	Src    []byte // what is in its file
	breaks []int  // offsets of its line breaks; nil: not known yet
	Items  []Item

	Experiment *plan.Experiment
	Scenario   *scenario.Spec
	Base       string         // the URL of the server; empty: not known yet
	Origin     string         // scheme and host of the first request, for which Base stands
	Flow       int            // the flow that steps go to, from 1; 0: there are none
	Part       scenario.Part  // that steps go to
	Pass       bool           // the file says what is sent once, and not for how long
	names      map[string]int // of steps, with the last number that was added to each
	lines      map[string]int // of the file, in which steps stand, by the steps' names

	Form      string          // the function of templates with which the tool encodes values; empty: urlencode
	Verbatim  bool            // the tool puts values into bodies as they are, of JSON too
	Marks     []string        // expressions
	Used      map[string]bool // expressions that stand in a text
	Numbers   map[string]bool // expressions that stand for numbers in JSON
	Extracted map[string]bool // variables that a step sets before others use them
	variables map[string]variable

	recordedUntil     time.Time // the end of the last response of a recording
	overlap, overlaps int       // the line of the first of its requests that began before that, and how many did

	secrets []secret
	given   []secret // credentials that the file's tool reads from the environment: their values may stand anywhere
	files   []File
	text    []byte // of the experiment, once it is whole
}

// Load returns the experiment's load.
func (d *Draft) Load() *plan.Load { return &d.Experiment.Variants[0].Load }

// Target returns the experiment's target.
func (d *Draft) Target() *plan.Target { return &d.Experiment.Variants[0].Target }

// Leave notes, once, a part of the file that the experiment leaves out.
func (d *Draft) Leave(line int, what, why, hint string) {
	item := Item{line, clip(what), why, hint}
	switch {
	case len(d.Items) == MaxItems, slices.Contains(d.Items, item):
	case len(d.Items) == MaxItems-1:
		d.Items = append(d.Items, Item{line, "what follows", "there is more than is listed", "import a part of the file"})
	default:
		d.Items = append(d.Items, item)
	}
}

// LeaveFault notes a part of the file that an error keeps out of the experiment. The error may have a hint.
func (d *Draft) LeaveFault(line int, what string, err error, hint string) {
	problem, own, _ := strings.Cut(err.Error(), "; ")
	d.Leave(line, what, problem, cmp.Or(own, hint))
}

// Variable returns the mark of a variable with its first value. Without one, the user has to give it; known is what
// it is at present, which decides only on hosts.
func (d *Draft) Variable(line int, name, value, known string) string {
	name = VariableName(name)
	if old, is := d.variables[name]; !is || old.value == "" && value != "" {
		d.variables[name] = variable{line: line, value: value, known: cmp.Or(value, known)}
	}
	return d.Mark(name)
}

// UnknownVariable returns the mark of a variable without a value. Unless the user gives one, it has otherwise as its value.
func (d *Draft) UnknownVariable(line int, name, otherwise string) string {
	mark, v := d.Variable(line, name, "", ""), d.variables[name]
	v.otherwise = otherwise
	d.variables[name] = v
	return mark
}

// A variable is a variable of the scenario.
type variable struct {
	line         int
	value, known string
	otherwise    string // its value without another one; empty: its name
	environment  bool   // it comes from the user's environment
}

// EnvironmentVariable returns the mark of a variable of the environment; known is what it is at present.
func (d *Draft) EnvironmentVariable(line int, name, known string) string {
	mark := d.Variable(line, name, "", known)
	if v := d.variables[VariableName(name)]; v.value == "" {
		v.environment = true
		d.variables[VariableName(name)] = v
	}
	return mark
}

// Extract gives a variable the value that a response has at a JSON path, or in a header field.
func (d *Draft) Extract(step *scenario.Step, e scenario.Extraction) {
	if slices.ContainsFunc(step.Extract, func(other scenario.Extraction) bool { return other.Variable == e.Variable }) {
		return
	}
	step.Extract = append(step.Extract, e)
	if !d.Used[e.Variable] { // else it is used before it has a value
		d.Extracted[e.Variable] = true
	}
}

// finish completes the experiment.
func (d *Draft) finish() error {
	l, t := d.Load(), d.Target()
	if d.Source.NoThink {
		d.Scenario.EachStep(func(_ string, st *scenario.Step) { st.Think = pace.Think{} })
	}
	if t.Protocol == plan.HTTP || t.Protocol == plan.WS {
		t.URL = plan.Quote(d.Base)
	}
	if d.stepCount() > 0 {
		l.Scenario = d.Scenario
	}
	if err := d.anyRequest(); err != nil {
		return err
	}
	if l.Closed == nil && l.Open == nil {
		l.Closed = &plan.Closed{Connections: 1}
	}
	if d.overlaps > 0 {
		d.Leave(d.overlap, fmt.Sprintf("%d requests", d.overlaps), "they began before others had ended; a user sends one after the other", "more users (load.closed.connections) send at the same time")
	}
	d.giveVariables()
	d.hideCredentials()
	d.keepSecrets()
	if d.Pass {
		l.Window = 0
		d.Leave(0, "load", "the file says what is sent, but not how often: one user sends it once", "load.closed.connections has more users, and load.window in place of load.requests a time")
	}
	return d.repair()
}

// anyRequest says why there is no request, if there is none.
func (d *Draft) anyRequest() error {
	l := d.Load()
	switch {
	case d.stepCount() > 0, l.Call != nil && l.Call.Method != "":
		return nil
	case len(d.Items) == 0:
		return errors.New("there is no request")
	}
	i := d.Items[max(0, slices.IndexFunc(d.Items, func(i Item) bool { return i.Line > 0 }))]
	where := ""
	if i.Line > 0 {
		where = fmt.Sprintf("line %d: ", i.Line)
	}
	return fmt.Errorf("there is no request that can be carried over; %s%s", where, strings.TrimSuffix(i.What+": "+i.Why+"; "+i.Hint, "; "))
}

// giveVariables gives the scenario the variables that stand in its texts.
func (d *Draft) giveVariables() {
	for _, name := range slices.Sorted(maps.Keys(d.variables)) {
		v := d.variables[name]
		switch {
		case !d.Used[name] || d.Extracted[name]:
			continue
		case v.environment:
			d.Scenario.Env = append(d.Scenario.Env, name)
			d.Leave(v.line, name, "dyno run takes the value of this variable from the environment", "export "+name+"=VALUE")
			continue
		case d.Scenario.Variables == nil:
			d.Scenario.Variables = map[string]string{}
		}
		if d.Scenario.Variables[name] = cmp.Or(v.value, v.otherwise, name); v.value == "" {
			d.Leave(v.line, name, "the file does not say the value of this variable, which has "+cmp.Or(v.otherwise, "its name")+" as its value", "give it one in load.scenario.variables")
		}
	}
}
