package fields

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// specs are the specs of structs by their type, which are made once.
var specs sync.Map

// names are the patterns for the names of mappings in such structs. A mapping that is a flag, too, has
// any: as a flag it is NAME=VALUE,…
var names = map[string]*Pattern{
	"any":  NewPattern("^[^=,]{1,100}$", "1 to 100 characters, without = and ,"),
	"text": NewPattern("(?s)^.{1,1000}$", "1 to 1,000 characters"),
}

// Of returns the spec of a struct whose tags name no protocols, and no patterns except any and text.
func Of(t reflect.Type) *Spec {
	s, ok := specs.Load(t)
	if !ok {
		s, _ = specs.LoadOrStore(t, (&Grammar{Patterns: names}).Mapping("", t))
	}
	return s.(*Spec)
}

// Default returns a struct in which everything has the default that its tags declare.
func Default[T any]() (value T) {
	Preset(reflect.ValueOf(&value).Elem(), Of(reflect.TypeFor[T]()), "", nil)
	return value
}

// Validate holds a struct against the tags of its fields, and then has check report what else is
// wrong. The error is *Faults: all of them at once.
func Validate(value any, check func(*Report)) error {
	c := NewCollector()
	NewReport(c).Examine(value, check)
	return c.Err("", func(string) (line, column int) { return 0, 0 })
}

// A Report takes the faults of a struct's values. It leaves out what may follow from a fault that it
// has already.
type Report struct {
	c  *Collector
	at string // the path of the struct
}

// NewReport adds to faults that were found when values were read.
func NewReport(c *Collector) *Report {
	c.Settle()
	return &Report{c: c}
}

// Examine holds a struct against the tags of its fields, and then has check report what else is
// wrong.
func (r *Report) Examine(value any, check func(*Report)) {
	v := reflect.ValueOf(value)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	b := &Bounds{Fault: r.Fault}
	b.Fields("", Of(v.Type()), v)
	r.c.Settle()
	check(r)
}

// At returns a report on a part of the struct: a mapping, or an item of a list.
func (r *Report) At(path string, args ...any) *Report {
	return &Report{r.c, Join(r.at, fmt.Sprintf(path, args...))}
}

// Fault reports a field's fault and its remedy.
func (r *Report) Fault(field, problem, hint string) {
	path := r.at
	if field != "" {
		path = Join(r.at, field)
	}
	if r.c.Reliable(path) {
		r.c.Add(Finding{Path: path, Problem: problem, Hint: hint}, "")
	}
}

// Check reports a field unless it is right.
func (r *Report) Check(right bool, field, problem, hint string) {
	if !right {
		r.Fault(field, problem, hint)
	}
}

// Error reports an error of a field, unless it is nil. The remedy follows a semicolon. Errors that are
// joined are reported one by one.
func (r *Report) Error(field string, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			r.Error(field, one)
		}
	} else if err != nil {
		problem, hint, _ := strings.Cut(err.Error(), "; ")
		r.Fault(field, problem, hint)
	}
}
