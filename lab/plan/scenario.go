package plan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"dyno/internal/fields"
	"dyno/internal/nearest"
	"dyno/load/pace"
	"dyno/load/scenario"
)

// DefaultData returns the rows of a file, taken as they are by default.
func DefaultData(name, file string) scenario.Data {
	var d scenario.Data
	fields.Preset(reflect.ValueOf(&d).Elem(), DeclaredAt("load.scenario.data.x"), "", nil)
	d.Name, d.File = name, file
	return d
}

// scenario judges what can be said of a scenario without its data.
func (i *inspector) scenario(v *Variant) {
	const path = "load.scenario"
	s := v.Load.Scenario
	if c := v.Load.Closed; c != nil && c.Think != (pace.Think{}) {
		i.fault("load.closed.think", "is only for a request that is repeated", "give it to the steps that users think after")
	}
	taken := func(at, name string) {
		if _, ok := v.Vars[name]; ok {
			i.fault(at, fmt.Sprintf("%q is a variable of the experiment, too", name), "use another name")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Variables)) {
		taken(fields.Join(path+".variables", name), name)
	}
	for n, name := range s.Env {
		at := fmt.Sprintf("%s.env[%d]", path, n)
		if taken(at, name); s.Variables[name] != "" || slices.Contains(s.Env[:n], name) {
			i.fault(at, fmt.Sprintf("there is another variable %q", name), "keep one of them")
		}
	}
	for _, d := range s.Data {
		if at := fields.Join(path+".data", d.Name); len(d.Delimiter) > 1 && d.Delimiter != `\t` {
			i.fault(at+".delimiter", fmt.Sprintf("%q is not one character", nearest.Clip(d.Delimiter)), `such as ; or \t`)
		}
	}
	if len(s.Steps) > 0 && len(s.Flows) > 0 {
		i.fault(path+".flows", "steps and flows exclude each other", "put the steps into a flow of their own")
	}
	s.EachStep(func(at string, st *scenario.Step) {
		at = fields.Join(path, at)
		i.think(at+".think", st.Think)
		if st.Body != "" && st.BodyFile != "" {
			i.fault(at+".body_file", "body and body_file exclude each other", "keep one of them")
		}
		if st.Message != "" && st.MessageFile != "" {
			i.fault(at+".message_file", "message and message_file exclude each other", "keep one of them")
		}
		if _, err := Statuses(i.protocol, st.Status); err != nil {
			problem, hint, _ := strings.Cut(err.Error(), ": ")
			i.fault(at+".status", problem, hint)
		}
		for n := range st.Assert {
			i.assertion(fmt.Sprintf("%s.assert[%d]", at, n), &st.Assert[n])
		}
		for n := range st.Extract {
			e := &st.Extract[n]
			to := fields.Join(at+".extract", e.Variable)
			taken(to, e.Variable)
			i.places(to, e.Places())
			if e.Keep && e.Default != nil {
				i.fault(to+".default", "keep and default exclude each other", "keep one of them")
			}
		}
	})
}

func (i *inspector) assertion(path string, a *scenario.Assertion) {
	i.places(path, a.Places())
	n := 0
	for _, given := range []bool{a.Equals != nil, a.Contains != "", a.Matches != "", a.Exists} {
		if given {
			n++
		}
	}
	if n != 1 {
		i.fault(path, fmt.Sprintf("want one comparison, have %d", n), "one of equals, contains, matches, exists")
	}
}

// places judges where in a response to look.
func (i *inspector) places(path string, of []scenario.Place) {
	if len(of) > 1 {
		i.fault(fields.Join(path, of[1].Field), of[0].Field+" and "+of[1].Field+" exclude each other", "keep one of them")
	}
}

// Steps returns the names of the steps of all scenarios.
func (e *Experiment) Steps() (names []string) {
	for i := range e.Variants {
		for _, name := range e.Variants[i].Steps() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// Steps returns the names of the scenario's steps; none without one.
func (v *Variant) Steps() (names []string) {
	if v.Load.Scenario != nil {
		v.Load.Scenario.EachUserStep(func(_ string, st *scenario.Step) { names = append(names, st.Name) })
	}
	return names
}

// Statuses reads the statuses that are expected of a protocol's response.
func Statuses(protocol, text string) ([]scenario.StatusRange, error) {
	p := protocolNamed(protocol)
	switch {
	case text == "" || !p.is(statuses):
		return nil, nil
	case p.statuses != nil:
		return p.statuses(text)
	}
	return scenario.ParseStatus(text)
}
