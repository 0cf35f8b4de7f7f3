package planfile

import (
	"path/filepath"
	"reflect"
	"slices"

	"dyno/internal/fields"
	"dyno/lab/plan"
)

// Text returns an experiment file that reads as a plan of one variant without variables, such as New
// makes. Defaults are left out. Paths become relative to the file's folder.
func Text(e *plan.Experiment, file string) []byte {
	v := e.Variants[0]
	traits := map[string]bool{"of " + v.Target.Protocol: true}
	plain := plan.VariantWith(v.Target.Protocol, traits)
	plain.Target.Protocol = "" // which the file must name
	if l := &v.Load; l.Counted() && l.Window == 0 {
		l.Window = plain.Load.Window
	}
	encoder := &fields.Encoder{Folder: filepath.Dir(file), Protocol: v.Target.Protocol, Traits: traits}
	whole, parts := plan.Declared()
	root := encoder.Value(parts[0], reflect.ValueOf(*e), reflect.ValueOf(*plan.Empty()))
	root.Keys = append(root.Keys, encoder.Value(parts[1], reflect.ValueOf(v), reflect.ValueOf(plain)).Keys...)
	names := whole.FieldNames()
	slices.SortStableFunc(root.Keys, func(a, b fields.Key) int {
		return slices.Index(names, a.Name) - slices.Index(names, b.Name)
	})
	if v.Load.Paces != nil {
		load := root.Get("load")
		load.Keys = slices.DeleteFunc(load.Keys, func(k fields.Key) bool { return slices.Contains(derivedOfPaces, k.Name) })
	}
	if v.Load.Stages != nil {
		stage(root.Get("load"), encoder, &v.Load)
	}
	return root.YAML()
}

// derivedOfPaces are the fields of a load that its paces say.
var derivedOfPaces = []string{"closed", "open", "window"}

// stage adds stages to a load in the file's form, in place of the window that they sum up to.
func stage(load *fields.Node, encoder *fields.Encoder, l *plan.Load) {
	load.Keys = slices.DeleteFunc(load.Keys, func(k fields.Key) bool {
		return k.Name == "window" || k.Name == "open" && len(k.Value.Keys) == 0
	})
	list := &fields.Node{Kind: fields.IsList}
	for _, s := range l.Stages {
		n := &fields.Node{Kind: fields.IsMapping}
		add := func(name, like string, value any) {
			n.Insert(name, encoder.Scalar(plan.DeclaredAt("load.stages[]."+like), reflect.ValueOf(value)))
		}
		level := func(name string, value float64) { add(name, "rate", value) }
		steady := "rate"
		if l.Closed != nil {
			level, steady = func(name string, value float64) { add(name, "users", int(value)) }, "users"
		}
		if add("duration", "duration", s.Duration); s.From == s.To {
			level(steady, s.To)
		} else {
			level("from", s.From)
			level("to", s.To)
		}
		list.Items = append(list.Items, n)
	}
	load.Insert("stages", list)
}
