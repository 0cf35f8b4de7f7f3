package fields

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"dyno/internal/units"
)

// Bounds check Go values against the tags of their fields, however they came about.
type Bounds struct {
	Protocol string // of the target; empty for what all have

	Fault func(path, problem, hint string)

	// Misplaced reports a field of a mapping that targets of the protocol do not have.
	Misplaced func(path string, of, s *Spec)
}

// Fields checks a struct's values against the tags of its fields, by path.
func (b *Bounds) Fields(path string, s *Spec, of reflect.Value) {
	for _, f := range s.Fields {
		if f.Spec.form {
			continue
		}
		at, v := Join(path, f.Name), of.FieldByIndex(f.Spec.At)
		switch {
		case f.Spec.isAnothers(v):
		case !f.Spec.Of(b.Protocol):
			if !v.IsZero() {
				b.Misplaced(at, s, f.Spec)
			}
		case v.IsZero() && (f.Spec.zero || !f.required && f.Spec.Base() == ""):
		default:
			b.value(at, f.Spec, v)
		}
	}
}

func (b *Bounds) value(path string, s *Spec, v reflect.Value) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch {
	case !v.IsValid(), s.Custom:
	case s.Kind == Mapping && v.Kind() == reflect.Struct:
		b.Fields(path, s, v)
	case s.Kind == Mapping && v.Kind() == reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			b.entry(path, s, key.String(), v.MapIndex(key))
		}
	case s.Kind == Mapping:
		for n := range v.Len() {
			b.entry(path, s, v.Index(n).FieldByIndex(s.key).String(), v.Index(n).FieldByIndex(s.Item.At))
		}
	case s.Kind == List:
		if float64(v.Len()) > s.Max {
			b.Fault(path, fmt.Sprintf("%d entries are too many", v.Len()), fmt.Sprintf("at most %v", s.Max))
		}
		for n := range v.Len() {
			b.value(fmt.Sprintf("%s[%d]", path, n), s.Item, v.Index(n))
		}
	default:
		if problem, hint := s.ValueFault(v); problem != "" {
			b.Fault(path, problem, hint)
		}
	}
}

// entry judges an entry of a mapping of names.
func (b *Bounds) entry(path string, s *Spec, name string, v reflect.Value) {
	if problem, hint := s.Names.nameFault(name); problem != "" {
		b.Fault(Join(path, name), problem, hint)
		return
	}
	b.value(Join(path, name), s.Item, v)
}

// ValueFault returns what is wrong with a Go value; nothing when it is good.
func (s *Spec) ValueFault(v reflect.Value) (problem, hint string) {
	switch {
	case s.Kind == CPUs:
		return cpuFault(v.Interface().([]int))
	case v.Kind() == reflect.String:
		return s.ScalarFault(v.String())
	case v.Kind() == reflect.Bool:
		return "", ""
	}
	return s.BoundFault(Numeric(v))
}

func cpuFault(list []int) (problem, hint string) {
	for n, cpu := range list {
		if cpu < 0 || cpu > units.MaxCPU {
			return fmt.Sprintf("there is no CPU %d", cpu), fmt.Sprintf("from 0 to %d", units.MaxCPU)
		}
		if slices.Contains(list[:n], cpu) {
			return fmt.Sprintf("CPU %d is listed twice", cpu), ""
		}
	}
	return "", ""
}
