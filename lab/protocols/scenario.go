package protocols

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"dyno/internal/fields"
	"dyno/internal/textfile"
	"dyno/lab/plan"
	"dyno/load/feed"
	"dyno/load/scenario"
	"dyno/load/wire/http1"
)

// openTable opens the file.
func openTable(d *scenario.Data) (*feed.Table, error) {
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
func openAll(data []scenario.Data) (tables []*feed.Table, err error) {
	for i := range data {
		t, failed := openTable(&data[i])
		if failed != nil {
			err = errors.Join(err, &scenario.Fault{Path: "data." + data[i].Name + ".file", Problem: failed.Error()})
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

// contents reads what steps send that stands in files of its own, by the files' names. The
// experiment's variables in them are replaced.
func contents(v *plan.Variant) (map[string]string, error) {
	all := map[string]string{}
	var faults []error
	v.Load.Scenario.EachStep(func(at string, st *scenario.Step) {
		field, file := st.Content()
		if _, known := all[file]; known || file == "" {
			return
		}
		text, err := textfile.ReadBytes(file, plan.MaxText)
		if err != nil {
			faults = append(faults, &scenario.Fault{Path: at + "." + field, Problem: err.Error(), Hint: "a file with the content, relative to the experiment's"})
			return
		}
		all[file] = plan.ExpandKnown(string(text), func(name string) (string, bool) {
			value, known := v.Vars[name]
			return value, known
		})
	})
	return all, errors.Join(faults...)
}

// A script is what a protocol makes of a scenario.
type script struct {
	// by has what holds for all steps, and nothing else.
	by scenario.Protocol

	// step says what a step sends that has this content. Faults are about what is at a path below
	// the step.
	step func(st *scenario.Step, content string) (scenario.StepRequest, error)

	// check judges what shows only when all is compiled. It may be nil.
	check func(*scenario.Scenario) error
}

// compile makes what users carry out, of a script and data that is open. Errors have type
// *scenario.Fault, joined.
func compile(v *plan.Variant, to script, tables []*feed.Table) (*scenario.Scenario, error) {
	files, err := contents(v)
	if err != nil {
		return nil, err
	}
	spec, err := withSecrets(v.Load.Scenario)
	if err != nil {
		return nil, err
	}
	to.by.Tables = tables
	to.by.Request = func(st *scenario.Step) (sent scenario.StepRequest, err error) {
		content := cmp.Or(st.Body, st.Message)
		if _, file := st.Content(); file != "" {
			content = files[file]
		}
		accepted, err := plan.Statuses(v.Target.Protocol, st.Status)
		if err != nil {
			return sent, &scenario.Fault{Path: "status", Problem: err.Error()}
		}
		sent, err = to.step(st, content)
		if accepted != nil {
			sent.Status = accepted
		}
		return sent, err
	}
	out, err := scenario.Compile(spec, to.by)
	if err != nil || to.check == nil {
		return out, err
	}
	return out, to.check(out)
}

// flatten returns what errors.Join has joined, be it wrapped.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}

// ready opens the data and compiles what users carry out.
func ready(ctx context.Context, v *plan.Variant, c *Codecs, scripted func(ctx context.Context, v *plan.Variant, offline bool) (script, error)) error {
	by, err := scripted(ctx, v, false)
	if err != nil {
		return err
	}
	return readyFor(v, c, by)
}

// readyFor is ready with a script that is known.
func readyFor(v *plan.Variant, c *Codecs, by script) (err error) {
	if c.data, err = openAll(v.Load.Scenario.Data); err == nil {
		c.Scenario, err = compile(v, by, c.data)
	}
	return below("load.scenario", err)
}

// below puts faults at paths below a path.
func below(path string, err error) error {
	if err == nil {
		return nil
	}
	var faults []error
	for _, e := range flatten(err) {
		if f := (*scenario.Fault)(nil); errors.As(e, &f) {
			e = &scenario.Fault{Path: strings.TrimSuffix(fields.Join(path, f.Path), "."), Problem: f.Problem, Hint: f.Hint}
		}
		faults = append(faults, e)
	}
	return errors.Join(faults...)
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
				return nil, locate(steps[o.Step].Path, errors.New("host varies; want it the same each time"))
			default:
				r.Host = f.Value
			}
		}
		if err := r.Validate(); err != nil {
			return nil, locate(steps[o.Step].Path, err)
		}
		all = append(all, r)
	}
	return all, nil
}

var ofHeader = regexp.MustCompile(`^header \d+ "([^"]+)"`)

// locate puts errors about a step's request at the step, or at the part that they name.
func locate(path string, err error) error {
	var faults []error
	for _, fault := range flatten(err) {
		problem, hint, _ := strings.Cut(fault.Error(), "; ")
		at := path
		kind, _, _ := strings.Cut(problem, " ")
		switch header := ofHeader.FindStringSubmatch(problem); {
		case header != nil:
			at += ".headers." + header[1]
		case kind == "host":
			at += ".headers.Host"
		case kind == "method":
			at += ".method"
		}
		faults = append(faults, &scenario.Fault{Path: at, Problem: problem, Hint: hint})
	}
	return errors.Join(faults...)
}

// CheckScenarios opens the data of all scenarios and reports its faults, as *fields.Faults, and the
// faults that only data reveals: columns that are missing, and all that depends on them. ReadFile has
// done so already; it is for experiments built in code.
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
			f := &scenario.Fault{Problem: err.Error()}
			errors.As(err, &f)
			c.Add(fields.Finding{Path: strings.TrimSuffix("load.scenario."+f.Path, "."), Problem: f.Problem, Hint: f.Hint}, v.Name)
		}
	}
}

// checkScenario compiles a variant's scenario with something in the place of the run-time
// variables.
func checkScenario(v *plan.Variant, opened map[string][]*feed.Table) []error {
	scripted := protocols[v.Target.Protocol].script
	if scripted == nil {
		return []error{&scenario.Fault{Problem: "users do nothing in " + v.Target.Protocol, Hint: "remove it"}}
	}
	sample := v.Sample()
	by, err := scripted(context.Background(), &sample, true)
	if err != nil {
		return flatten(err)
	}
	key := fmt.Sprintf("%+v", sample.Load.Scenario.Data)
	tables, known := opened[key]
	if !known {
		if tables, err = openAll(sample.Load.Scenario.Data); err != nil {
			return flatten(err)
		}
		opened[key] = tables
	}
	spec := sample.Load.Scenario
	_, err = compile(&sample, by, tables)
	faults := flatten(err)
	for _, part := range []scenario.Part{scenario.OfSetup, scenario.OfTeardown} {
		if sample.Load.Scenario = spec.OfPart(part); len(sample.Load.Scenario.Steps) > 0 {
			_, err = compile(&sample, by, nil)
			faults = append(faults, flatten(err)...)
		}
	}
	return faults
}
