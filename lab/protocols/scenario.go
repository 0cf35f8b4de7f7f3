package protocols

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"dyno/internal/fields"
	"dyno/lab/plan"
	"dyno/load/feed"
	"dyno/load/scenario"
	"dyno/load/wire/http1"
)

// part says which part of a response is meant: without a place, the content.
func part(of []plan.Place) (scenario.Part, string) {
	if len(of) == 0 {
		return scenario.Body, ""
	}
	return of[0].Of, of[0].Name
}

// openTable opens the file.
func openTable(d *plan.Data) (*feed.Table, error) {
	o := feed.Options{Format: map[string]feed.Format{"csv": feed.CSV, "jsonl": feed.JSONLines}[d.Format]}
	switch {
	case d.Delimiter == `\t`:
		o.Delimiter = '\t'
	case d.Delimiter != "":
		o.Delimiter = d.Delimiter[0]
	}
	for _, name := range d.Columns {
		o.Columns = append(o.Columns, feed.Column{Name: name})
	}
	for _, name := range slices.Sorted(maps.Keys(d.Paths)) {
		o.Columns = append(o.Columns, feed.Column{Name: name, Path: d.Paths[name]})
	}
	return feed.Open(d.File, o)
}

// openAll opens files.
func openAll(data []plan.Data) (tables []*feed.Table, err error) {
	for i := range data {
		t, failed := openTable(&data[i])
		if failed != nil {
			err = errors.Join(err, &located{fields.Join("data", data[i].Name) + ".file", failed.Error(), ""})
			continue
		}
		tables = append(tables, t)
	}
	if err != nil {
		return nil, errors.Join(err, closeAll(tables))
	}
	return tables, nil
}

func closeAll(tables []*feed.Table) (err error) {
	for _, t := range tables {
		err = errors.Join(err, t.Close())
	}
	return err
}

// A source is a scenario as a plan has it, to be compiled.
type source struct {
	*plan.Scenario
	protocol string
}

// bodies reads what steps send that stands in files of its own, by the files'
// names. The experiment's variables in them are replaced.
func (s source) bodies(vars map[string]string) (map[string]string, error) {
	all := map[string]string{}
	var faults []error
	s.EachStep(func(at string, st *plan.Step) {
		file, field := st.File()
		if _, known := all[file]; known || file == "" {
			return
		}
		text, err := readBody(file)
		if err != nil {
			faults = append(faults, &located{at + "." + field, err.Error(), "a file with the content, relative to the experiment's"})
			return
		}
		all[file] = plan.ExpandKnown(text, func(name string) (string, bool) {
			value, known := vars[name]
			return value, known
		})
	})
	return all, errors.Join(faults...)
}

// readBody reads a file with the content of a request.
func readBody(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	text, err := io.ReadAll(io.LimitReader(f, plan.MaxText+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot be read: %w", err)
	case len(text) > plan.MaxText:
		return "", fmt.Errorf("%s is longer than 1 MiB", strconv.Quote(path))
	}
	return string(text), nil
}

// A script is what a protocol makes of a scenario.
type script struct {
	// spec has what holds for all steps, and nothing else.
	spec scenario.Spec

	// step says what of a step is the protocol's. Errors of type *located are about what is at a
	// path below the step.
	step func(st *plan.Step, body string, to *scenario.Step) error

	// check judges what shows only when all is compiled. It may be nil.
	check func(*scenario.Scenario) error
}

// compile makes what users carry out, of a script and data that is open. The experiment's
// variables go into files with what steps send. Errors are of type *located, joined.
func (s source) compile(to script, tables []*feed.Table, vars map[string]string) (*scenario.Scenario, error) {
	bodies, err := s.bodies(vars)
	if err != nil {
		return nil, err
	}
	spec := to.spec
	spec.InTurn = s.InTurn
	for _, name := range slices.Sorted(maps.Keys(s.Variables)) {
		spec.Variables = append(spec.Variables, scenario.Variable{Name: name, Value: s.Variables[name]})
	}
	secrets, err := s.secrets()
	if err != nil {
		return nil, err
	}
	spec.Variables = append(spec.Variables, secrets...)
	spec.Feeds = feeds(s.Data, tables)
	var faults []error
	if spec.Steps, err = s.specOf("", s.Steps, to, bodies); err != nil {
		faults = append(faults, flatten(err)...)
	}
	for _, f := range s.Flows {
		flow := scenario.Flow{Name: f.Name, Weight: f.Weight}
		if flow.Steps, err = s.specOf(fields.Join("flows", f.Name)+".", f.Steps, to, bodies); err != nil {
			faults = append(faults, flatten(err)...)
		}
		spec.Flows = append(spec.Flows, flow)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	out, err := scenario.Compile(spec)
	switch {
	case err == nil && to.check != nil:
		return out, s.locate(to.check(out))
	case err == nil:
		return out, nil
	}
	for _, e := range flatten(err) {
		var f *scenario.Fault
		if !errors.As(e, &f) {
			faults = append(faults, e)
			continue
		}
		problem, at := f.Problem, s.place(f.Path)
		if f.Offset >= 0 && !strings.HasSuffix(at, ".prompt") && !strings.HasSuffix(at, ".messages") { // which are a part of the text
			problem = fmt.Sprintf("at offset %d: %s", f.Offset, f.Problem)
		}
		faults = append(faults, &located{at, problem, f.Hint})
	}
	return nil, errors.Join(faults...)
}

// feeds says how the rows of files that are open are dealt.
func feeds(data []plan.Data, tables []*feed.Table) (all []scenario.Feed) {
	for i, d := range data {
		all = append(all, scenario.Feed{
			Name: d.Name, Table: tables[i],
			Order: map[string]feed.Order{"shuffled": feed.Shuffled, "random": feed.Random}[d.Order],
			End:   map[string]feed.End{"stop": feed.Stop}[d.End],
			Per:   map[string]scenario.Per{"iteration": scenario.PerIteration, "user": scenario.PerUser}[d.Per],
		})
	}
	return all
}

// flatten returns what errors.Join has joined, be it wrapped.
func flatten(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}

// specOf translates steps, which are at a path, into the form of package scenario.
func (s source) specOf(path string, steps []plan.Step, by script, bodies map[string]string) (out []scenario.Step, err error) {
	var faults []error
	for k := range steps {
		st := &steps[k]
		to := scenario.Step{Name: st.Name, Once: st.Once, If: st.If, Weight: st.Weight, Think: st.Think.Pace(), MaxBody: st.MaxBody}
		body := cmp.Or(st.Body, st.Message)
		if file, _ := st.File(); file != "" {
			body = bodies[file]
		}
		for _, h := range s.headersOf(st) {
			to.Header = append(to.Header, scenario.Field{Name: h.Name, Value: h.Value})
		}
		var err error
		if to.Status, err = st.Statuses(s.protocol); err == nil {
			err = by.step(st, body, &to)
		}
		if err != nil {
			at := fmt.Sprintf("%ssteps[%d]", path, k)
			var l *located
			if !errors.As(err, &l) {
				l = &located{problem: err.Error()}
			}
			faults = append(faults, &located{fields.Join(at, l.path), l.problem, l.hint})
		}
		for _, a := range st.Assert {
			to.Assert = append(to.Assert, assertionOf(&a))
		}
		for _, e := range st.Extract {
			to.Extract = append(to.Extract, extractionOf(&e))
		}
		out = append(out, to)
	}
	return out, errors.Join(faults...)
}

// headersOf returns a step's header fields, or its metadata, those of all steps first. A protocol
// has either.
func (s source) headersOf(st *plan.Step) (headers []plan.Header) {
	own := slices.Concat(st.Headers, st.Metadata)
	for _, h := range slices.Concat(s.Headers, s.Metadata) {
		if !named(own, h.Name) {
			headers = append(headers, h)
		}
	}
	return append(headers, own...)
}

// named tells whether there is a header field of a name.
func named(headers []plan.Header, name string) bool {
	return slices.ContainsFunc(headers, func(h plan.Header) bool { return strings.EqualFold(h.Name, name) })
}

func assertionOf(a *plan.Assertion) (out scenario.Assertion) {
	out.Of, out.Name = part(a.Places())
	switch {
	case a.Equals != nil:
		out.Is, out.Value = scenario.Equals, *a.Equals
	case a.Contains != "":
		out.Is, out.Value = scenario.Contains, a.Contains
	case a.Matches != "":
		out.Is, out.Value = scenario.Matches, a.Matches
	default:
		out.Is = scenario.Exists
	}
	return out
}

func extractionOf(e *plan.Extraction) (out scenario.Extraction) {
	out = scenario.Extraction{Name: e.Variable, Pattern: e.Pattern, Group: e.Group}
	out.From, out.Of = part(e.Places())
	switch {
	case e.Keep:
		out.Otherwise = scenario.Keep
	case e.Default != nil:
		out.Otherwise, out.Default = scenario.UseDefault, *e.Default
	}
	return out
}

// A located error is about what is at a path below load.scenario.
type located struct{ path, problem, hint string }

func (l *located) Error() string {
	text := fields.Join("load.scenario", l.path) + ": " + l.problem
	if l.hint != "" {
		text += "; " + l.hint
	}
	return text
}

// place finds what a path of package scenario's means in the file.
func (s source) place(path string) string {
	var out string
	var steps []plan.Step
	var at *plan.Step
	for rest := path; rest != ""; {
		var word string
		word, rest, _ = strings.Cut(rest, ".")
		name, n, numbered := numberedWord(word)
		switch {
		case at == nil && !numbered:
			return fields.Join(out, name) // host, cookies, or of a feed or a flow
		case at == nil && name == "variables":
			names := slices.Sorted(maps.Keys(s.Variables))
			if n >= len(names) {
				return "secrets" // or env, which plans check
			}
			return fields.Join("variables", names[n])
		case at == nil && name == "feeds":
			out = fields.Join("data", s.Data[n].Name)
			if rest == "table" {
				return out + ".file"
			}
		case name == "flows":
			out, steps = fields.Join("flows", s.Flows[n].Name), s.Flows[n].Steps
		case at == nil && name == "steps":
			if out == "" {
				steps = s.Steps
			}
			out, at = fields.Join(out, word), &steps[n]
		default:
			return s.placeInStep(out, at, name, n, numbered, rest)
		}
	}
	return out
}

func (s source) placeInStep(path string, st *plan.Step, name string, n int, numbered bool, rest string) string {
	switch {
	case name == "body":
		_, field := st.File()
		switch {
		case st.Prompt != "":
			field = "prompt"
		case len(st.Messages) > 0:
			field = "messages"
		case st.BodyFile == "" && st.MessageFile == "" && st.Message != "":
			field = "message"
		case st.BodyFile == "" && st.MessageFile == "":
			field = "body"
		}
		return fields.Join(path, field)
	case name == "timeout":
		return fields.Join(path, "deadline")
	case !numbered:
		return fields.Join(path, name)
	case name == "header":
		h, field := s.headersOf(st), "headers"
		if len(s.Metadata)+len(st.Metadata) > 0 {
			field = "metadata"
		}
		if own := len(h) - len(st.Headers) - len(st.Metadata); n < own {
			return fields.Join(field, h[n].Name)
		}
		return fields.Join(path+"."+field, h[n].Name)
	case name == "assert":
		a := &st.Assert[n]
		path = fmt.Sprintf("%s.assert[%d]", path, n)
		switch {
		case rest == "name" && len(a.Places()) > 0:
			return fields.Join(path, a.Places()[0].Field)
		case rest == "value" && a.Equals != nil:
			return path + ".equals"
		case rest == "value" && a.Contains != "":
			return path + ".contains"
		case rest == "value" && a.Matches != "":
			return path + ".matches"
		}
		return path
	case name == "extract":
		e := &st.Extract[n]
		path = fields.Join(path+".extract", e.Variable)
		switch {
		case rest == "of" && len(e.Places()) > 0:
			return fields.Join(path, e.Places()[0].Field)
		case rest == "pattern", rest == "group", rest == "default":
			return path + "." + rest
		}
		return path
	}
	return fields.Join(path, name) // status[n]
}

// numberedWord takes a word such as steps[2] apart.
func numberedWord(word string) (name string, n int, numbered bool) {
	name, number, numbered := strings.Cut(strings.TrimSuffix(word, "]"), "[")
	if numbered {
		_, _ = fmt.Sscan(number, &n) // package scenario writes numbers there
	}
	return name, n, numbered
}

// ready opens the data and compiles what users carry out.
func ready(v *plan.Variant, c *Codecs, scripted func(v *plan.Variant, offline bool) (script, error)) error {
	by, err := scripted(v, false)
	if err != nil {
		return err
	}
	return readyFor(v, c, by)
}

// readyFor is ready with a script that is known.
func readyFor(v *plan.Variant, c *Codecs, by script) (err error) {
	s := source{v.Load.Scenario, v.Target.Protocol}
	if c.data, err = openAll(s.Data); err != nil {
		return err
	}
	c.Scenario, err = s.compile(by, c.data, v.Vars)
	return err
}

// requests are those that a scenario's users send, in the order of its outlines.
func requests(s *scenario.Scenario, end http1.Endpoint) (all []http1.Request, err error) {
	steps := s.Steps()
	for _, o := range s.Outlines() {
		r := http1.Request{
			Method: o.Method, Target: o.Path, VariesTarget: o.VariesPath, Host: end.Host, Body: []byte(o.Body), VariesBody: o.VariesBody,
		}
		for _, f := range o.Header {
			switch {
			case !strings.EqualFold(f.Name, "Host"):
				r.Header = append(r.Header, http1.Field{Name: f.Name, Value: f.Value, Varies: f.Varies})
			case f.Varies:
				return nil, &stepError{steps[o.Step].Name, errors.New("host varies; want it the same each time")}
			default:
				r.Host = f.Value
			}
		}
		if err := r.Validate(); err != nil {
			return nil, &stepError{steps[o.Step].Name, err}
		}
		all = append(all, r)
	}
	return all, nil
}

// A stepError is about what a step sends.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return "load.scenario: step " + e.step + ": " + e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

var ofHeader = regexp.MustCompile(`^header \d+ "([^"]+)"`)

// locate puts an error about what a step sends at the step, or at the part of it that it names.
func (s source) locate(err error) error {
	var of *stepError
	if !errors.As(err, &of) {
		return err
	}
	var faults []error
	s.EachStep(func(at string, st *plan.Step) {
		if st.Name != of.step {
			return
		}
		for _, fault := range flatten(of.err) {
			problem, hint, _ := strings.Cut(fault.Error(), "; ")
			kind, _, _ := strings.Cut(problem, " ")
			switch header := ofHeader.FindStringSubmatch(problem); {
			case header != nil:
				faults = append(faults, &located{at + ".headers." + header[1], problem, hint})
			case kind == "host":
				faults = append(faults, &located{at + ".headers.Host", problem, hint})
			case kind == "method":
				faults = append(faults, &located{at + ".method", problem, hint})
			default:
				faults = append(faults, &located{at, problem, hint})
			}
		}
	})
	return errors.Join(faults...)
}

// CheckScenarios opens the data of all scenarios and reports, as *fields.Faults, what is wrong
// with it, and what only it tells: columns that are missing, and all that depends on them.
// ReadFile has done so already; it is for experiments built in code.
func CheckScenarios(e *plan.Experiment) error {
	c := fields.NewCollector()
	FindFaults(e, c)
	return c.Err(e.File, func(string) (int, int) { return 0, 0 })
}

// FindFaults is CheckScenarios for who collects the faults of a plan.
func FindFaults(e *plan.Experiment, c *fields.Collector) {
	c.Variants = 0
	for n := range e.Variants {
		if e.Variants[n].AliasOf == "" {
			c.Variants++
		}
	}
	// Variants of one experiment mostly have the same data.
	opened := map[string][]*feed.Table{}
	defer func() {
		for _, tables := range opened {
			_ = closeAll(tables) // they were only looked at
		}
	}()
	for n := range e.Variants {
		v := &e.Variants[n]
		if v.AliasOf != "" || v.Load.Scenario == nil {
			continue
		}
		for _, err := range checkScenario(v, opened) {
			var l *located
			if !errors.As(err, &l) {
				l = &located{problem: err.Error()}
			}
			c.Add(fields.Finding{Path: fields.Join("load.scenario", l.path), Problem: l.problem, Hint: l.hint}, v.Name)
		}
	}
}

// checkScenario compiles a variant's scenario with something in the place of the run-time
// variables.
func checkScenario(v *plan.Variant, opened map[string][]*feed.Table) []error {
	scripted := protocols[v.Target.Protocol].script
	if scripted == nil {
		return []error{&located{"", "users do nothing in " + v.Target.Protocol, "remove it"}}
	}
	sample := v.Sample()
	s := source{sample.Load.Scenario, v.Target.Protocol}
	by, err := scripted(&sample, true)
	if err != nil {
		return flatten(err)
	}
	key := fmt.Sprintf("%+v", s.Data)
	tables, known := opened[key]
	if !known {
		if tables, err = openAll(s.Data); err != nil {
			return flatten(err)
		}
		opened[key] = tables
	}
	if _, err = s.compile(by, tables, v.Vars); err != nil {
		return flatten(err)
	}
	return nil
}
