package planfile

import (
	"reflect"

	"dyno/lab/plan"
)

// ReadScenario reads a scenario from a file of its own, which holds what load.scenario holds
// in an experiment. Faults are *Faults; other errors are about reading the file.
func ReadScenario(path string) (*plan.Scenario, error) {
	src, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	r := newReader(path, Options{})
	s := plan.DeclaredAt("load.scenario")
	var out plan.Scenario
	if r.root = parseTree(src, r.c); r.root != nil {
		r.index(r.root)
		checker{r.c, s}.check(r.root, s, false)
		v := &view{reader: r}
		v.value(r.root, s, reflect.ValueOf(&out).Elem())
	}
	if err := r.c.Err(path, r.place); err != nil {
		return nil, err
	}
	return &out, nil
}
