package planfile

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"dyno/lab/plan"
	"dyno/lab/schema"
)

// A Flag is a field of the file that quick loads have as a flag.
type Flag struct {
	Name      string // without dashes
	Shorthand string // a letter; empty: none
	Field     string // the field's path, such as load.window
	Setting   string // its name in Options.Set; empty: it is not there
	Usage     string // what it is
	Type      string // the form of its value: bool, int, uint, or words for the user
	Default   string // the value without it; empty: none, or Usage tells
	Repeats   bool   // it may be given several times
	OrFile    bool   // @FILE stands for what a file holds
}

// Flags returns the flags that targets of one of these protocols have, in the order of the
// file.
func Flags(protocols ...string) []Flag {
	var flags []Flag
	file, parts := plan.Declared()
	file.Walk("", func(path string, s *schema.Spec) {
		if s.Flag == "" || !slices.ContainsFunc(protocols, func(p string) bool { return plan.Has(p, path) }) {
			return
		}
		f := Flag{Field: path, Setting: s.Set, Usage: s.Doc, Type: flagType(s), OrFile: s.OrFile}
		f.Repeats = s.Names != nil || s.Kind == schema.List && s.Item.Kind != schema.Choice
		f.Name, f.Shorthand, _ = strings.Cut(s.Flag, ",")
		switch {
		case s.Short != nil:
			f.Usage += "; " + s.Short.Doc
		case s.Names != nil:
			f.Usage += ", or @FILE with one on each line; may be repeated"
		case f.Repeats:
			f.Usage += "; may be repeated"
		case f.OrFile:
			f.Usage += ", or @FILE that holds it, or @ for standard input"
		}
		switch {
		case s.Kind == schema.List: // its default is that of a section
		case s.Base() != "" && (len(s.Defaults) == 1 || parts[1].Find(path) != nil):
			f.Default = s.Base()
		case s.Kind != schema.Boolean && otherwise(s) != "":
			f.Usage += " (" + otherwise(s) + ")"
		}
		flags = append(flags, f)
	})
	return flags
}

// NameAndValue is the form in which a flag gives an entry of a mapping of names.
const NameAndValue = "'Name: value'"

// flagType is what help calls a flag's value.
func flagType(s *schema.Spec) string {
	switch s.Kind {
	case schema.Mapping:
		if s.Names != nil {
			return NameAndValue
		}
		return flagType(s.Short)
	case schema.CPUs:
		return "cpus"
	case schema.Boolean:
		return "bool"
	case schema.Choice:
		return strings.Join(s.Choices, "|")
	case schema.Integer:
		if s.Unsigned {
			return "uint"
		}
		return "int"
	}
	switch {
	case s.Kind != schema.List:
		return s.Kind.Name()
	case s.Item.Kind == schema.Choice:
		return "words"
	}
	return flagType(s.Item)
}

// Fill gives the flag's field the value that text stands for, as a file would; in all
// variants of a plan, where it is a field of theirs. The texts of a list are its entries,
// of anything else there is one. What cannot be read is an error; whether it is within its
// bounds, Validate says, unless it is zero.
func (f Flag) Fill(e *plan.Experiment, texts ...string) error {
	file, parts := plan.Declared()
	leaf := newLeaf(f.Field, file.Find(f.Field), texts...)
	for _, t := range texts {
		if leaf.kind == isMapping && !strings.Contains(t, ":") {
			return plan.Fault{Problem: fmt.Sprintf("%q has no colon", schema.Clip(t)), Hint: "want " + NameAndValue}
		}
	}
	value, err := leaf.spec.Parse(leaf.text)
	if err != nil {
		problem, hint := leaf.spec.FormFault(err)
		return plan.Fault{Problem: problem, Hint: hint}
	}
	// In a plan, zero mostly means that nothing was said.
	if number := reflect.ValueOf(value); leaf.spec.Min > 0 && number.IsZero() && leaf.spec.Kind >= schema.Integer && leaf.spec.Kind <= schema.Amount {
		problem, hint := leaf.spec.BoundFault(schema.Numeric(number))
		return plan.Fault{Problem: problem, Hint: hint}
	}
	root := &node{kind: isMapping}
	root.insert(f.Field, leaf)
	v := &view{reader: newReader("", Options{})}
	v.value(root, parts[0], reflect.ValueOf(e).Elem())
	for i := range e.Variants {
		v.protocol = e.Variants[i].Target.Protocol
		v.value(root, parts[1], reflect.ValueOf(&e.Variants[i]).Elem())
	}
	var found *plan.Faults
	if errors.As(v.c.Err("", v.place), &found) {
		return plan.Fault{Problem: found.Faults[0].Problem, Hint: found.Faults[0].Hint}
	}
	return nil
}

// ReadStages reads the stages that a flag gives, each as its time and the rate at its end, such as
// 30s:1000. The rate goes there linearly from where the last stage ended, at first from zero.
func ReadStages(texts []string) (stages []plan.Stage, faults []error) {
	if len(texts) > schema.MaxItems {
		return nil, []error{fmt.Errorf("%d stages; want at most %d", len(texts), schema.MaxItems)}
	}
	if len(texts) == 0 {
		return nil, []error{errors.New("there is none; such as 30s:1000")}
	}
	from := 0.0
	for i, text := range texts {
		var s plan.Stage
		parts := strings.Split(text, ":")
		fields := []struct {
			path string
			into any
		}{{"load.stages[].duration", &s.Duration}, {"load.stages[].to", &s.To}}
		if len(parts) != len(fields) {
			faults = append(faults, fmt.Errorf("stage %d: %q is not a time and a rate; such as 30s:1000", i+1, schema.Clip(text)))
			continue
		}
		for n, f := range fields {
			of := plan.DeclaredAt(f.path)
			if problem, hint := of.ScalarFault(parts[n]); problem != "" {
				faults = append(faults, fmt.Errorf("stage %d: %w", i+1, plan.Fault{Problem: problem, Hint: hint}))
			} else {
				of.Put(reflect.ValueOf(f.into).Elem(), parts[n])
			}
		}
		s.From, from = from, s.To
		stages = append(stages, s)
	}
	return stages, faults
}
