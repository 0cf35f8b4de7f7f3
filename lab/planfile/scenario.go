package planfile

import (
	"fmt"
	"reflect"

	"dyno/internal/fields"
	"dyno/lab/plan"
	"dyno/load/scenario"
)

// ReadScenario reads a scenario from a file of its own, which holds what load.scenario holds
// in an experiment. Faults are *fields.Faults; other errors are about reading the file.
func ReadScenario(path string) (*scenario.Spec, error) {
	src, err := fields.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("experiment: %w", err)
	}
	r := newReader(path, Options{})
	s := plan.DeclaredAt("load.scenario")
	var out scenario.Spec
	if r.root = fields.ParseTree(src, r.c); r.root != nil {
		r.index(r.root)
		fields.Check(r.c, r.root, s)
		v := &view{reader: r}
		v.decoder().Value(r.root, s, reflect.ValueOf(&out).Elem())
	}
	if err := r.c.Err(path, r.place); err != nil {
		return nil, err
	}
	return &out, nil
}
