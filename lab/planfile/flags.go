package planfile

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"dyno/internal/fields"
	"dyno/internal/nearest"
	"dyno/lab/plan"
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
	file.Walk("", func(path string, s *fields.Spec) {
		if s.Flag == "" || !slices.ContainsFunc(protocols, func(p string) bool { return plan.Has(p, path) }) {
			return
		}
		f := Flag{Field: path, Setting: s.Set, Usage: s.Doc, Type: s.FlagType(), OrFile: s.OrFile}
		f.Repeats = s.Names != nil || s.Kind == fields.List && s.Item.Kind != fields.Choice
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
		case s.Kind == fields.List: // a section has its default
		case s.Base() != "" && (len(s.Defaults) == 1 || parts[1].Find(path) != nil):
			f.Default = s.Base()
		case s.Kind != fields.Boolean && s.Otherwise() != "":
			f.Usage += " (" + s.Otherwise() + ")"
		}
		flags = append(flags, f)
	})
	return flags
}

// Fill gives the flag's field the value that text stands for, as a file would; in all variants of a
// plan, where it is a field of theirs. The texts of a list are its entries, of anything else there is
// one. A text that cannot be read is an error; whether it is within its bounds, Validate says, unless
// it is zero.
func (f Flag) Fill(e *plan.Experiment, texts ...string) error {
	file, parts := plan.Declared()
	leaf := fields.NewLeaf(f.Field, file.Find(f.Field), texts...)
	for _, t := range texts {
		if leaf.Kind == fields.IsMapping && !strings.Contains(t, ":") {
			return fields.Fault{Problem: fmt.Sprintf("%q has no colon", nearest.Clip(t)), Hint: "want " + fields.NameAndValue}
		}
	}
	value, err := leaf.Spec.Read(leaf.Text)
	if err != nil {
		problem, hint := leaf.Spec.FormFault(err)
		return fields.Fault{Problem: problem, Hint: hint}
	}
	// In a plan, zero mostly means that nothing was said.
	if number := reflect.ValueOf(value); leaf.Spec.Min > 0 && number.IsZero() && leaf.Spec.Kind >= fields.Integer && leaf.Spec.Kind <= fields.Amount {
		problem, hint := leaf.Spec.BoundFault(fields.Numeric(number))
		return fields.Fault{Problem: problem, Hint: hint}
	}
	root := &fields.Node{Kind: fields.IsMapping}
	root.Insert(f.Field, leaf)
	v := &view{reader: newReader("", Options{})}
	v.decoder().Value(root, parts[0], reflect.ValueOf(e).Elem())
	for i := range e.Variants {
		v.protocol = e.Variants[i].Target.Protocol
		v.decoder().Value(root, parts[1], reflect.ValueOf(&e.Variants[i]).Elem())
	}
	var found *fields.Faults
	if errors.As(v.c.Err("", v.place), &found) {
		return fields.Fault{Problem: found.Faults[0].Problem, Hint: found.Faults[0].Hint}
	}
	return nil
}

// ReadStages reads stages from a flag, each as its time and the rate or the users at its end, such as 30s:1000. The
// number goes there linearly from where the last stage ended, at first from zero.
func ReadStages(texts []string, of string) (stages []plan.Stage, faults []error) {
	if len(texts) > fields.MaxItems {
		return nil, []error{fmt.Errorf("%d stages; want at most %d", len(texts), fields.MaxItems)}
	}
	if len(texts) == 0 {
		return nil, []error{errors.New("there is none; such as 30s:1000")}
	}
	from := 0.0
	for i, text := range texts {
		var s plan.Stage
		users, to := 0, any(&s.To)
		if of == "users" {
			to = &users
		}
		parts := strings.Split(text, ":")
		steps := []struct {
			path string
			into any
		}{{"load.stages[].duration", &s.Duration}, {"load.stages[]." + of, to}}
		if len(parts) != len(steps) {
			faults = append(faults, fmt.Errorf("stage %d: %q is not a time and %s; such as 30s:1000", i+1, nearest.Clip(text), map[string]string{"rate": "a rate", "users": "a number of users"}[of]))
			continue
		}
		for n, f := range steps {
			of := plan.DeclaredAt(f.path)
			if problem, hint := of.ScalarFault(parts[n]); problem != "" {
				faults = append(faults, fmt.Errorf("stage %d: %w", i+1, fields.Fault{Problem: problem, Hint: hint}))
			} else {
				of.Put(reflect.ValueOf(f.into).Elem(), parts[n])
			}
		}
		s.To += float64(users)
		s.From, from = from, s.To
		stages = append(stages, s)
	}
	return stages, faults
}
