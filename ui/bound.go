package ui

import (
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"dyno/internal/texts"
	"dyno/results/rundir"
)

// Bounds of what is shown of a folder that others may have made. What dyno writes is far
// within them.
const (
	maxText    = 64 << 10 // bytes of a text; an experiment's source may have more
	maxSource  = 1 << 20
	maxTexts   = 8 << 20 // of all texts together
	maxEntries = 1 << 20 // of all lists and mappings together
)

// A bound is what may still be shown, and what was cut.
type bound struct {
	texts, entries       int
	cutTexts, cutEntries int
}

func newBound() *bound { return &bound{texts: maxTexts, entries: maxEntries} }

// boundRun cuts what is too large to be shown: a text then ends in the number of its bytes. The last of the
// run's notes says how much was cut. The run must not be written back.
func boundRun(r *rundir.Run) {
	b := newBound()
	b.cut(reflect.ValueOf(r).Elem(), maxText)
	b.note(r, rundir.RunFile)
}

// boundFolder does what boundRun does, in the trials, too.
func boundFolder(f *rundir.Folder) {
	boundRun(&f.Run)
	b := newBound()
	for _, t := range f.Trials {
		b.cut(reflect.ValueOf(&t.Trial).Elem(), maxText)
	}
	b.note(&f.Run, rundir.TrialFile)
}

func (b *bound) note(r *rundir.Run, file string) {
	if b.cutTexts+b.cutEntries == 0 {
		return
	}
	r.Notes = append(r.Notes, texts.Verbatim(fmt.Sprintf("not all of %s is shown: %d texts and %d entries of lists are beyond the bounds", file, b.cutTexts, b.cutEntries)))
}

// cut cuts a value in place. A text may have most bytes.
func (b *bound) cut(v reflect.Value, most int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(b.text(v.String(), most))
	case reflect.Pointer:
		if !v.IsNil() {
			b.cut(v.Elem(), most)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Field(i)
			switch {
			case !field.CanSet():
			case v.Type() == reflect.TypeFor[rundir.Plan]() && v.Type().Field(i).Name == "Source":
				b.cut(field, maxSource)
			default:
				b.cut(field, most)
			}
		}
	case reflect.Slice:
		if n := v.Len(); n > b.entries {
			v.SetLen(b.entries)
			b.cutEntries += n - b.entries
		}
		b.entries -= v.Len()
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			b.cut(v.Index(i), most)
		}
	case reflect.Map:
		b.mapping(v, most)
	}
}

func (b *bound) mapping(v reflect.Value, most int) {
	if v.IsNil() {
		return
	}
	out := reflect.MakeMap(v.Type())
	for each := v.MapRange(); each.Next(); {
		if b.entries == 0 {
			b.cutEntries++
			continue
		}
		b.entries--
		entry := [2]reflect.Value{reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()}
		entry[0].Set(each.Key())
		entry[1].Set(each.Value())
		b.cut(entry[0], most)
		b.cut(entry[1], most)
		out.SetMapIndex(entry[0], entry[1])
	}
	v.Set(out)
}

func (b *bound) text(text string, most int) string {
	most = min(most, b.texts)
	if len(text) <= most {
		b.texts -= len(text)
		return text
	}
	b.cutTexts++
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	b.texts -= most
	// The rest of the text is not to stay in memory.
	return strings.Clone(text[:most]) + fmt.Sprintf("… [of %d bytes]", len(text))
}
