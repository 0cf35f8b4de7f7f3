package experiment

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
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
	file, parts := theFile()
	file.walk("", func(path string, s *spec) {
		if s.flag == "" || !slices.ContainsFunc(protocols, func(p string) bool { return has(p, path) }) {
			return
		}
		f := Flag{Field: path, Setting: s.set, Usage: s.doc, Type: s.flagType(), OrFile: s.orFile}
		f.Repeats = s.names != nil || s.kind == list && s.item.kind != choice
		f.Name, f.Shorthand, _ = strings.Cut(s.flag, ",")
		switch {
		case s.short != nil:
			f.Usage += "; " + s.short.doc
		case s.names != nil:
			f.Usage += ", or @FILE with one on each line; may be repeated"
		case f.Repeats:
			f.Usage += "; may be repeated"
		case f.OrFile:
			f.Usage += ", or @FILE that holds it, or @ for standard input"
		}
		switch {
		case s.kind == list: // its default is that of a section
		case s.base() != "" && (len(s.defaults) == 1 || parts[1].find(path) != nil):
			f.Default = s.base()
		case s.kind != boolean && s.otherwise() != "":
			f.Usage += " (" + s.otherwise() + ")"
		}
		flags = append(flags, f)
	})
	return flags
}

// has tells whether targets of a protocol have the field at a path.
func has(protocol, path string) bool {
	for ; path != ""; path = parent(path) {
		if !specAt(path).of(protocol) {
			return false
		}
	}
	return true
}

// NameAndValue is the form in which a flag gives an entry of a mapping of names.
const NameAndValue = "'Name: value'"

// flagType is what help calls a flag's value.
func (s *spec) flagType() string {
	switch s.kind {
	case mapping:
		if s.names != nil {
			return NameAndValue
		}
		return s.short.flagType()
	case cpus:
		return "cpus"
	case boolean:
		return "bool"
	case choice:
		return strings.Join(s.choices, "|")
	case integer:
		if s.unsigned {
			return "uint"
		}
		return "int"
	}
	switch {
	case s.kind != list:
		return forms[s.kind].name
	case s.item.kind == choice:
		return "words"
	}
	return s.item.flagType()
}

// Fill gives the flag's field the value that text stands for, as a file would; in all
// variants of a plan, where it is a field of theirs. The texts of a list are its entries,
// of anything else there is one. What cannot be read is an error; whether it is within its
// bounds, Validate says, unless it is zero.
func (f Flag) Fill(e *Experiment, texts ...string) error {
	file, parts := theFile()
	leaf := newLeaf(f.Field, file.find(f.Field), texts...)
	for _, t := range texts {
		if leaf.kind == isMapping && !strings.Contains(t, ":") {
			return Fault{Problem: fmt.Sprintf("%q has no colon", clip(t)), Hint: "want " + NameAndValue}
		}
	}
	value, err := leaf.spec.read(leaf.text)
	if err != nil {
		problem, hint := leaf.spec.formFault(err)
		return Fault{Problem: problem, Hint: hint}
	}
	// In a plan, zero mostly means that nothing was said.
	if number := reflect.ValueOf(value); leaf.spec.min > 0 && number.IsZero() && leaf.spec.kind >= integer && leaf.spec.kind <= amount {
		problem, hint := leaf.spec.boundFault(numeric(number))
		return Fault{Problem: problem, Hint: hint}
	}
	root := &node{kind: isMapping}
	root.insert(f.Field, leaf)
	v := &view{reader: newReader("", Options{})}
	v.value(root, parts[0], reflect.ValueOf(e).Elem())
	for i := range e.Variants {
		v.protocol = e.Variants[i].Target.Protocol
		v.value(root, parts[1], reflect.ValueOf(&e.Variants[i]).Elem())
	}
	var found *Faults
	if errors.As(v.c.err("", v.place), &found) {
		return Fault{Problem: found.Faults[0].Problem, Hint: found.Faults[0].Hint}
	}
	return nil
}

// ReadStages reads the stages that a flag gives, each as its time and the rate at its end, such as
// 30s:1000. The rate goes there linearly from where the last stage ended, at first from zero.
func ReadStages(texts []string) (stages []Stage, faults []error) {
	if len(texts) > maxItems {
		return nil, []error{fmt.Errorf("%d stages; want at most %d", len(texts), maxItems)}
	}
	if len(texts) == 0 {
		return nil, []error{errors.New("there is none; such as 30s:1000")}
	}
	from := 0.0
	for i, text := range texts {
		var s Stage
		parts := strings.Split(text, ":")
		fields := []struct {
			path string
			into any
		}{{"load.stages[].duration", &s.Duration}, {"load.stages[].to", &s.To}}
		if len(parts) != len(fields) {
			faults = append(faults, fmt.Errorf("stage %d: %q is not a time and a rate; such as 30s:1000", i+1, clip(text)))
			continue
		}
		for n, f := range fields {
			of := specAt(f.path)
			if problem, hint := of.scalarFault(parts[n]); problem != "" {
				faults = append(faults, fmt.Errorf("stage %d: %w", i+1, Fault{Problem: problem, Hint: hint}))
			} else {
				of.put(reflect.ValueOf(f.into).Elem(), parts[n])
			}
		}
		s.From, from = from, s.To
		stages = append(stages, s)
	}
	return stages, faults
}

// New returns a plan of one variant in which everything has its default that has one.
func New(name, protocol string) *Experiment {
	e := newPlan()
	e.Name, e.Variants = name, []Variant{DefaultVariant(protocol)}
	return e
}
