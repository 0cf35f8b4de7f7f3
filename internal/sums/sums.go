// Package sums adds up structs of counts, and copies them, field by field.
package sums

import (
	"reflect"
	"time"
)

// Add adds the fields of a struct to those of another: numbers, and maps by their keys, also within structs. A
// nil pointer adds nothing. The first one of anything else stays, unless that is empty. The tag sum:"max" keeps
// the larger number instead. The tag sum:"min" keeps the smaller one that is not 0, and sum:"-" leaves a field
// alone.
func Add[T any](to, from *T) {
	add(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem(), "")
}

func add(to, from reflect.Value, how string) {
	switch {
	case from.IsZero() || how == "-":
	case to.Kind() == reflect.Struct:
		for i := range to.NumField() {
			if f := to.Type().Field(i); f.IsExported() {
				add(to.Field(i), from.Field(i), f.Tag.Get("sum"))
			}
		}
	case to.Kind() == reflect.Pointer:
		sum := reflect.New(to.Type().Elem()) // not the pointer of another
		if !to.IsNil() {
			sum.Elem().Set(to.Elem())
		}
		add(sum.Elem(), from.Elem(), how)
		to.Set(sum)
	case to.Kind() == reflect.Map && isNumber(to.Type().Elem()):
		sum := reflect.MakeMap(to.Type()) // not the map of another
		for _, m := range []reflect.Value{to, from} {
			for of := m.MapRange(); of.Next(); {
				n := reflect.New(to.Type().Elem()).Elem()
				if old := sum.MapIndex(of.Key()); old.IsValid() {
					n.Set(old)
				}
				add(n, of.Value(), how)
				sum.SetMapIndex(of.Key(), n)
			}
		}
		to.Set(sum)
	case to.Kind() == reflect.Array:
		for i := range to.Len() {
			add(to.Index(i), from.Index(i), how)
		}
	case to.CanFloat():
		to.SetFloat(combined(to.Float(), from.Float(), how))
	case to.CanInt():
		to.SetInt(combined(to.Int(), from.Int(), how))
	case to.CanUint():
		to.SetUint(combined(to.Uint(), from.Uint(), how))
	case to.IsZero():
		to.Set(from)
	}
}

func isNumber(t reflect.Type) bool {
	v := reflect.Zero(t)
	return v.CanInt() || v.CanUint() || v.CanFloat()
}

func combined[N int64 | uint64 | float64](a, b N, how string) N {
	switch {
	case how == "max":
		return max(a, b)
	case how == "min" && a != 0:
		return min(a, b) // b is not 0
	}
	return a + b
}

// Copy sets the fields of a struct that have a namesake in another of the same kind: integers of any size, times as seconds,
// texts, and structs of these. A pointer to a struct stays nil where the other's struct is empty.
func Copy[T, F any](to *T, from *F) {
	copyFields(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem())
}

func copyFields(to, from reflect.Value) {
	for i := range to.NumField() {
		f := from.FieldByName(to.Type().Field(i).Name)
		if !f.IsValid() {
			continue
		}
		t := to.Field(i)
		if t.Kind() == reflect.Pointer && f.Kind() == reflect.Struct && !f.IsZero() {
			t.Set(reflect.New(t.Type().Elem()))
			t = t.Elem()
		}
		switch {
		case t.Kind() == reflect.Struct && f.Kind() == reflect.Struct:
			copyFields(t, f)
		case t.CanInt() && f.CanUint():
			t.SetInt(int64(f.Uint())) //nolint:gosec // counts are far below the limit
		case t.CanInt() && f.CanInt():
			t.SetInt(f.Int())
		case t.CanFloat() && f.Type() == reflect.TypeFor[time.Duration]():
			t.SetFloat(time.Duration(f.Int()).Seconds())
		case t.Kind() == reflect.String && f.Kind() == reflect.String:
			t.SetString(f.String())
		}
	}
}
