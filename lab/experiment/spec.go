package experiment

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"dyno/internal/units"
)

// A kind is the form of a value in the file.
type kind uint8

const (
	text     kind = iota // a string
	word                 // any scalar, taken as it is written
	boolean              // true or false
	choice               // one of some words
	integer              // a whole number
	number               // a number
	duration             // a Go duration, or a number of seconds
	rate                 // a number per s, min or h
	size                 // bytes, with a unit or without
	share                // a number or a percentage
	amount               // of CPUs: a number or a percentage of one
	cpus                 // a CPU list, such as 0-3,5
	list                 // of items
	mapping              // of fields, or of names to items
)

// A spec says what one value of the file may be, as the tags of its field declare it.
type spec struct {
	kind     kind
	doc      string
	choices  []string // of a choice; of a duration, words that may stand for one
	pattern  *pattern // of a text or a word
	min, max float64  // of a number (a duration's in seconds, a size's in bytes); of a list or a mapping of names, its length
	sameAs   string   // the path of the field whose min and max it has
	fields   []field  // of a mapping
	outer    []field  // that stand next to it
	item     *spec    // of a list, or of a mapping's entries that are no fields
	names    *pattern // of those entries' names
	few      bool     // such a mapping must not be empty
	short    *spec    // a scalar that may stand for the mapping
	template bool     // templates may stand in it
	scripted bool     // and those of a scenario, which stay

	at       []int    // the place of its Go field in the struct of the mapping that it is a field of
	key      []int    // of a mapping that is a list of structs: the place of an entry's name in each
	form     bool     // the Go field has another form, and is not read by its tags
	path     bool     // a text that names a file, relative to the experiment's
	unsigned bool     // the Go field takes no negative number
	inverted bool     // the Go field holds the opposite
	started  bool     // only a process that dyno starts has it
	zero     bool     // a plan may hold zero
	again    bool     // the reference has shown what is below it
	orFile   bool     // as a flag, @FILE stands for what a file holds
	set      string   // the name by which Options.Set knows it
	defaults []string // the value without it, and others, each with what it holds for after a blank
	without  string   // what happens without it, where no value says so
	only     []string // the protocols or groups of them that have it; empty: all
	instead  string   // what there is instead with the others
	flag     string   // of quick loads, with its shorthand after a comma
}

// A field is a named part of a mapping.
type field struct {
	name     string
	required bool
	spec     *spec
}

// Bounds that hold in addition to those of the tags.
const (
	maxVariants = 1000
	maxEntries  = 100  // of a mapping of names, unless it says otherwise
	maxItems    = 1000 // of a list, unless it says otherwise
	maxTrials   = 100_000
)

// later are the sections of the file that a later version will know.
func later() []string {
	return []string{"network"}
}

// theFile returns the spec of a whole file and those of the two structs that its fields
// go to: the plan and, once for each variant, that.
var theFile = sync.OnceValues(func() (file *spec, parts [2]*spec) {
	file = &spec{kind: mapping, doc: "An experiment for dyno: what to load, how, and what to compare."}
	parts = [2]*spec{{kind: mapping}, {kind: mapping}}
	file.addFields(reflect.TypeFor[Experiment](), nil, "")
	variant := &spec{}
	variant.addFields(reflect.TypeFor[Variant](), nil, "")
	for _, f := range file.fields {
		part := parts[0]
		if variant.field(f.name) != nil {
			part = parts[1]
		}
		part.fields = append(part.fields, f)
	}
	file.walk("", func(_ string, s *spec) {
		if s.sameAs != "" {
			of := file.find(s.sameAs)
			s.min, s.max = of.min, of.max
		}
	})
	return file, parts
})

// specAt returns the spec at a path of the file, or nil.
func specAt(path string) *spec {
	file, _ := theFile()
	return file.find(path)
}

// formOf returns what a value of a Go type looks like in the file. Tags that are about
// scalars hold for the items of lists and mappings; names and the bounds on entries, from
// the outside in.
func formOf(t reflect.Type, tag reflect.StructTag, names []string, most float64) *spec {
	s := &spec{kind: kindOf(t, tag), min: math.Inf(-1), max: math.Inf(1)}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch s.kind {
	case list:
		s.min, s.max = 1, most
		if most == 0 {
			s.max = maxItems
		}
		s.item = formOf(t.Elem(), tag, names, 0)
	case mapping:
		s.min, s.max = 0, 0
		if t.Kind() == reflect.Struct {
			s.addFields(t, nil, "")
			return s
		}
		if s.max = most; most == 0 {
			s.max = maxEntries
		}
		s.names, names = patternNamed(names[0]), names[1:]
		s.item = formOf(t.Elem(), tag, names, 0)
		if s.key = s.item.key; s.key != nil && len(s.item.fields) == 0 {
			s.item = s.item.short
		}
	default:
		s.unsigned = t.Kind() == reflect.Uint64
		s.scalar(tag)
	}
	return s
}

// scalar takes what tags say of a scalar.
func (s *spec) scalar(tag reflect.StructTag) {
	if s.path = tag.Get("kind") == "path"; s.kind == cpus {
		s.min, s.max = 0, units.MaxCPU
	}
	s.choices = strings.Fields(tag.Get("oneof") + tag.Get("or"))
	if tag.Get("kind") == "protocol" {
		s.choices = Protocols()
	}
	if like := tag.Get("like"); like != "" {
		s.pattern = patternNamed(like)
	}
	if least, most, ok := strings.Cut(tag.Get("range"), ".."); ok {
		s.min, s.max = s.number(least), s.number(most)
	} else {
		s.sameAs = least
	}
}

// number reads one of a declaration's own numbers.
func (s *spec) number(text string) float64 {
	value, err := s.read(text)
	if err != nil {
		panic("experiment: in a tag, " + err.Error())
	}
	return numeric(reflect.ValueOf(value))
}

// numeric returns a number of any type, a duration's in seconds.
func numeric(v reflect.Value) float64 {
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		return time.Duration(v.Int()).Seconds()
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	}
	return v.Float()
}

// kindOf tells the kind by the Go type, and by the tag where that does not tell.
func kindOf(t reflect.Type, tag reflect.StructTag) kind {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return duration
	case reflect.TypeFor[[]int]():
		return cpus
	}
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem(), tag)
	case reflect.Struct, reflect.Map:
		return mapping
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct && t.Elem().Field(0).Tag.Get("yaml") == ",key" {
			return mapping
		}
		return list
	case reflect.Bool:
		return boolean
	}
	if tag.Get("oneof") != "" || tag.Get("kind") == "protocol" {
		return choice
	}
	for k, f := range forms {
		if f.tag != "" && f.tag == tag.Get("kind") {
			return kind(k)
		}
	}
	switch t.Kind() {
	case reflect.String:
		return text
	case reflect.Float64:
		return number
	}
	return integer
}

// addFields adds the fields of a Go struct, which lies at a place within the mapping's. The
// tag of an embedded struct says which one of its fields is required, and which protocols
// have them.
func (s *spec) addFields(t reflect.Type, at []int, embedded reflect.StructTag) {
	for i := range t.NumField() {
		f := t.Field(i)
		place := append(slices.Clone(at), i)
		options := strings.Split(f.Tag.Get("yaml"), ",")
		name, options := options[0], options[1:]
		has := func(option string) bool { return slices.Contains(options, option) }
		switch {
		case f.Anonymous:
			s.addFields(f.Type, place, f.Tag)
			continue
		case has("inline"):
			s.addFields(f.Type.Elem(), nil, "")
			continue
		case has("key"):
			s.key = place
			continue
		case name == "" && len(options) == 0:
			continue
		}
		value := declared(f, name, options)
		if value.at = place; len(value.only) == 0 {
			value.only = strings.Fields(embedded.Get("for"))
		}
		if has("short") {
			s.short = value
		}
		switch {
		case has("rest"):
			s.item, s.names, s.max = value.item, value.names, value.max
			s.item.doc = value.doc
		case has("outer"):
			s.outer = append(s.outer, field{name, false, value})
		case name != "":
			s.fields = append(s.fields, field{name, has("required") || name == embedded.Get("require"), value})
			s.fields = append(s.fields, value.outer...)
		}
	}
}

// declared returns what the tags of a field say.
func declared(f reflect.StructField, name string, options []string) *spec {
	t := f.Type
	form := f.Tag.Get("form")
	if form != "" {
		t = formNamed(form)
	}
	var most float64
	if m := f.Tag.Get("most"); m != "" {
		most, _ = strconv.ParseFloat(m, 64)
	}
	s := formOf(t, f.Tag, strings.Fields(f.Tag.Get("names")), most)
	s.form = form != ""
	s.doc, s.without, s.instead, s.flag = f.Tag.Get("doc"), f.Tag.Get("otherwise"), f.Tag.Get("instead"), f.Tag.Get("flag")
	s.only = strings.Fields(f.Tag.Get("for"))
	if d, ok := f.Tag.Lookup("default"); ok {
		s.defaults = strings.Split(d, "; ")
	}
	has := func(option string) bool { return slices.Contains(options, option) }
	s.few, s.template, s.inverted, s.started = has("nonempty"), has("template"), has("inverted"), has("started")
	s.zero, s.orFile = has("zero"), has("orfile")
	s.again = has("again")
	if has("scripted") {
		s.script()
	}
	for _, option := range options {
		if setting, own := strings.CutPrefix(option, "set="); own {
			s.set = setting
		} else if option == "set" {
			s.set = name
		}
	}
	return s
}

// script has a scenario's templates stay in all texts that may be anything.
func (s *spec) script() {
	s.scripted = (s.kind == text || s.kind == word) && s.pattern == nil && !s.path
	for _, f := range s.fields {
		f.spec.script()
	}
	for _, below := range []*spec{s.item, s.short} {
		if below != nil {
			below.script()
		}
	}
}

// most returns how many entries a mapping of names may have.
func (s *spec) most() int { return int(s.max) }

// field returns the spec of a mapping's entry, or nil.
func (s *spec) field(name string) *spec {
	for _, f := range s.fields {
		if f.name == name {
			return f.spec
		}
	}
	return s.item
}

// fieldNames returns the fields of a mapping.
func (s *spec) fieldNames() []string {
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.name
	}
	return names
}

// find returns the spec at a path, or nil.
func (s *spec) find(path string) *spec {
	for path != "" && s != nil {
		var step string
		if step, path, _ = strings.Cut(path, "."); s.kind != mapping {
			return nil
		}
		step, _, item := strings.Cut(step, "[")
		if s = s.field(step); item && s != nil {
			s = s.item
		}
	}
	return s
}

// walk shows each field below a mapping of fields with its path; entries of lists and
// of names have none.
func (s *spec) walk(path string, show func(path string, s *spec)) {
	for _, f := range s.fields {
		at := join(path, f.name)
		show(at, f.spec)
		f.spec.walk(at, show)
	}
}

// whereIs returns the sections that know a field of this name.
func (s *spec) whereIs(name, path string) []string {
	var found []string
	for _, f := range s.fields {
		if f.name == name {
			found = append(found, path)
		}
		found = append(found, f.spec.whereIs(name, join(path, f.name))...)
	}
	if s.item != nil {
		step := "[]"
		if s.kind == mapping {
			step = ".NAME"
		}
		found = append(found, s.item.whereIs(name, path+step)...)
	}
	return found
}

// description is what is said of the field, with the protocols that have it and what holds
// without it.
func (s *spec) description() string {
	d := s.about()
	if without := s.otherwise(); without != "" {
		d += " (" + without + ")"
	}
	return d
}

// about is what is said of the field, with the protocols that have it.
func (s *spec) about() string {
	if len(s.only) == 0 || slices.Contains(s.only, loaded) {
		return s.doc
	}
	var names []string
	for _, p := range s.protocols() {
		names = append(names, p.name)
	}
	last := len(names) - 1
	if last > 0 {
		names = []string{strings.Join(names[:last], ", ") + " and " + names[last]}
	}
	return names[0] + " only: " + s.doc
}

// protocols returns those that have the field.
func (s *spec) protocols() []protocol {
	return slices.DeleteFunc(slices.Clone(protocols), func(p protocol) bool { return !s.of(p.name) })
}

// base returns the default that has no condition; "" when there is none.
func (s *spec) base() string {
	if len(s.defaults) == 0 {
		return ""
	}
	return s.defaults[0]
}

// otherwise says what holds when the field is not there.
func (s *spec) otherwise() string {
	values := strings.TrimPrefix(strings.Join(s.defaults, "; "), "; ")
	switch {
	case s.without != "":
		return "default: " + s.without
	case s.kind == boolean && values == "":
		return "default false"
	case values == "" || values == "{}":
		return ""
	}
	return "default " + values
}
