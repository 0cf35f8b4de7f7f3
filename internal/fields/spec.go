package fields

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/internal/units"
)

// A Kind is the form of a value in the file.
type Kind uint8

// The kinds of values.
const (
	Text     Kind = iota // a string
	Word                 // any scalar, taken as it is written
	Boolean              // true or false
	Choice               // one of some words
	Integer              // a whole number
	Number               // a number
	Duration             // a Go duration, or a number of seconds
	Rate                 // a number per s, min or h
	Size                 // bytes, with a unit or without
	Share                // a number or a percentage
	Amount               // of CPUs: a number or a percentage of one
	CPUs                 // a CPU list, such as 0-3,5
	List                 // of items
	Mapping              // of fields, or of names to items
)

// A Spec says what one value of the file may be, as the tags of its field declare it.
type Spec struct {
	Kind     Kind
	Doc      string
	Choices  []string // of a choice; of a duration, words that may stand for one
	pattern  *Pattern // of a text or a word
	Min, Max float64  // of a number (a duration's in seconds, a size's in bytes); of a list or a mapping of names, its length
	sameAs   string   // the path of the field whose min and max it has
	Fields   []Field  // of a mapping
	outer    []Field  // that stand next to it
	Item     *Spec    // of a list, or of a mapping's entries that are no fields
	Names    *Pattern // of those entries' names
	few      bool     // such a mapping must not be empty
	Short    *Spec    // a scalar that may stand for the mapping
	single   bool     // the mapping may stand for a list of such
	Template bool     // templates may stand in it
	Scripted bool     // and a scenario's own, which stay

	At        []int    // the place of its Go field in the struct of the mapping that it is a field of
	key       []int    // of a mapping that is a list of structs: the place of an entry's name in each
	form      bool     // the Go field has another form, and is not read by its tags
	path      bool     // a text that names a file, relative to the file's folder
	Custom    bool     // the Go field is a Setter
	unsigned  bool     // the Go field takes no negative number
	inverted  bool     // the Go field holds the opposite
	Started   bool     // only a process that dyno starts has it
	zero      bool     // the Go field may hold zero
	again     bool     // the reference has shown what is below it
	OrFile    bool     // as a flag, @FILE stands for what a file holds
	Set       string   // the name by which Options.Set knows it
	Defaults  []string // the value without it, and others, each with what it holds for after a blank
	without   string   // what happens without it, where no value says so
	Only      []string // the protocols or groups of them that have it; empty: all
	Protocols []string // what these are
	usual     bool     // among them is the group that descriptions do not name
	Instead   string   // what there is instead with the others
	Flag      string   // of quick loads, with its shorthand after a comma
	Live      bool     // a service takes a change of it without a restart

	structure reflect.Type // of a mapping of fields: that of its Go struct
}

// A Field is a named part of a mapping.
type Field struct {
	Name     string
	required bool
	Spec     *Spec
}

// Bounds that hold unless the tag most says otherwise.
const (
	maxEntries = 100  // of a mapping of names
	MaxItems   = 1000 // of a list
)

// A Grammar has the names that the tags of a file's structs may use.
type Grammar struct {
	Patterns  map[string]*Pattern     // by the tags like and names
	Forms     map[string]reflect.Type // by the tag form
	Protocols []ProtocolGroups        // by the tag for, and all of them by kind protocol
	Usual     string                  // the group whose fields are described without naming it
}

// ProtocolGroups are a protocol's name, and the names of the groups that it belongs to.
type ProtocolGroups struct {
	Name   string
	Groups []string

	// Added is the struct of a mapping that only this protocol has, under its name, where a field has the option added.
	// That is an interface, and holds a pointer to the struct. Nil: there is none.
	Added reflect.Type
	Doc   string // of that mapping
}

// Mapping returns the spec of a struct, which is a mapping of fields.
func (g *Grammar) Mapping(doc string, t reflect.Type) *Spec {
	s := &Spec{Kind: Mapping, Doc: doc}
	g.addFields(s, t, nil, "")
	s.Fields = append(s.Fields, s.outer...)
	s.Walk("", func(_ string, below *Spec) {
		if of := s.Find(below.sameAs); below.sameAs != "" && of != nil {
			below.Min, below.Max = of.Min, of.Max
		}
	})
	return s
}

// formOf returns what a value of a Go type looks like in the file. Tags that are about
// scalars hold for the items of lists and mappings; names and the bounds on entries, from
// the outside in.
func (g *Grammar) formOf(t reflect.Type, tag reflect.StructTag, names []string, most float64) *Spec {
	s := &Spec{Kind: kindOf(t, tag), Min: math.Inf(-1), Max: math.Inf(1)}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch s.Kind {
	case List:
		s.Min, s.Max = 1, most
		if most == 0 {
			s.Max = MaxItems
		}
		s.Item = g.formOf(t.Elem(), tag, names, 0)
	case Mapping:
		s.Min, s.Max = 0, 0
		if t.Kind() == reflect.Struct {
			s.structure = t
			g.addFields(s, t, nil, "")
			return s
		}
		if s.Max = most; most == 0 {
			s.Max = maxEntries
		}
		s.Names, names = g.patternNamed(names[0]), names[1:]
		s.Item = g.formOf(t.Elem(), tag, names, 0)
		if s.key = s.Item.key; s.key != nil && len(s.Item.Fields) == 0 {
			s.Item = s.Item.Short
		}
	default:
		s.unsigned, s.Custom = t.Kind() == reflect.Uint64, isSetter(t)
		g.scalar(s, tag)
	}
	return s
}

// scalar takes what tags say of a scalar.
func (g *Grammar) scalar(s *Spec, tag reflect.StructTag) {
	if s.path = tag.Get("kind") == "path"; s.Kind == CPUs {
		s.Min, s.Max = 0, units.MaxCPU
	}
	s.Choices = strings.Fields(tag.Get("oneof") + tag.Get("or"))
	if tag.Get("kind") == "protocol" {
		for _, p := range g.Protocols {
			s.Choices = append(s.Choices, p.Name)
		}
	}
	if like := tag.Get("like"); like != "" {
		s.pattern = g.patternNamed(like)
	}
	if least, most, ok := strings.Cut(tag.Get("range"), ".."); ok {
		s.Min, s.Max = s.number(least), s.number(most)
	} else {
		s.sameAs = least
	}
}

// number reads one of a declaration's own numbers.
func (s *Spec) number(text string) float64 {
	value, err := s.Read(text)
	if err != nil {
		panic("fields: in a tag, " + err.Error())
	}
	return Numeric(reflect.ValueOf(value))
}

// Numeric returns a number of any type, a duration's in seconds.
func Numeric(v reflect.Value) float64 {
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
func kindOf(t reflect.Type, tag reflect.StructTag) Kind {
	if isSetter(t) {
		return Word
	}
	switch t {
	case reflect.TypeFor[time.Duration]():
		return Duration
	case reflect.TypeFor[[]int]():
		return CPUs
	}
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem(), tag)
	case reflect.Struct, reflect.Map:
		return Mapping
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct && t.Elem().Field(0).Tag.Get("yaml") == ",key" {
			return Mapping
		}
		return List
	case reflect.Bool:
		return Boolean
	}
	if tag.Get("oneof") != "" || tag.Get("kind") == "protocol" {
		return Choice
	}
	for k, f := range forms {
		if f.tag != "" && f.tag == tag.Get("kind") {
			return Kind(k)
		}
	}
	switch t.Kind() {
	case reflect.String:
		return Text
	case reflect.Float64:
		return Number
	}
	return Integer
}

// addFields adds the fields of a Go struct, which lies at a place within the mapping's. The
// tag of an embedded struct says which one of its fields is required, and which protocols
// have them.
func (g *Grammar) addFields(s *Spec, t reflect.Type, at []int, embedded reflect.StructTag) {
	for i := range t.NumField() {
		f := t.Field(i)
		place := append(slices.Clone(at), i)
		options := strings.Split(f.Tag.Get("yaml"), ",")
		name, options := options[0], options[1:]
		has := func(option string) bool { return slices.Contains(options, option) }
		switch {
		case f.Anonymous:
			g.addFields(s, f.Type, place, f.Tag)
			continue
		case has("inline"):
			if f.Type.Kind() == reflect.Struct {
				g.addFields(s, f.Type, place, f.Tag)
			} else {
				g.addFields(s, f.Type.Elem(), nil, "")
			}
			continue
		case has("added"):
			for _, p := range g.Protocols {
				if p.Added != nil {
					value := &Spec{Kind: Mapping, Doc: p.Doc, At: place, structure: p.Added, Only: []string{p.Name}, Defaults: []string{"{}"}}
					g.addFields(value, p.Added, nil, "")
					g.limit(value)
					s.Fields = append(s.Fields, Field{p.Name, false, value})
				}
			}
			continue
		case has("key"):
			s.key = place
			continue
		case name == "" && len(options) == 0:
			continue
		}
		value := g.declared(f, name, options)
		if value.At = place; len(value.Only) == 0 {
			value.Only = strings.Fields(embedded.Get("for"))
		}
		g.limit(value)
		if has("short") {
			s.Short = value
		}
		s.single = s.single || has("single")
		switch {
		case has("rest"):
			s.Item, s.Names, s.Max = value.Item, value.Names, value.Max
			s.Item.Doc = value.Doc
		case has("outer"):
			s.outer = append(s.outer, Field{name, false, value})
		case name != "":
			s.Fields = append(s.Fields, Field{name, has("required") || name == embedded.Get("require"), value})
			for _, o := range value.outer {
				o.Spec.At = append(slices.Clone(place), o.Spec.At...)
				s.Fields = append(s.Fields, o)
			}
		}
	}
}

// isAnothers tells whether an interface holds the added struct of another protocol.
func (s *Spec) isAnothers(v reflect.Value) bool {
	return v.Kind() == reflect.Interface && !v.IsNil() && v.Elem().Type().Elem() != s.structure
}

// declared returns the declarations in a field's tags.
func (g *Grammar) declared(f reflect.StructField, name string, options []string) *Spec {
	t := f.Type
	form := f.Tag.Get("form")
	if form != "" {
		t = g.Forms[form]
	}
	var most float64
	if m := f.Tag.Get("most"); m != "" {
		most, _ = strconv.ParseFloat(m, 64)
	}
	s := g.formOf(t, f.Tag, strings.Fields(f.Tag.Get("names")), most)
	s.form = form != ""
	s.Doc, s.without, s.Instead, s.Flag = f.Tag.Get("doc"), f.Tag.Get("otherwise"), f.Tag.Get("instead"), f.Tag.Get("flag")
	s.Only = strings.Fields(f.Tag.Get("for"))
	s.Live = f.Tag.Get("live") == "true"
	if d, ok := f.Tag.Lookup("default"); ok {
		s.Defaults = strings.Split(d, "; ")
	}
	has := func(option string) bool { return slices.Contains(options, option) }
	s.few, s.Template, s.inverted, s.Started = has("nonempty"), has("template"), has("inverted"), has("started")
	s.zero, s.OrFile = has("zero"), has("orfile")
	s.again = has("again")
	if has("scripted") {
		s.script()
	}
	for _, option := range options {
		if setting, own := strings.CutPrefix(option, "set="); own {
			s.Set = setting
		} else if option == "set" {
			s.Set = name
		}
	}
	return s
}

// limit finds the protocols that have a field.
func (g *Grammar) limit(s *Spec) {
	for _, p := range g.Protocols {
		if len(s.Only) == 0 || slices.ContainsFunc(s.Only, func(name string) bool { return name == p.Name || slices.Contains(p.Groups, name) }) {
			s.Protocols = append(s.Protocols, p.Name)
		}
	}
	s.usual = slices.Contains(s.Only, g.Usual)
}

// Of tells whether targets of a protocol have the field; it is true for an empty protocol.
func (s *Spec) Of(protocol string) bool {
	return len(s.Only) == 0 || protocol == "" || slices.Contains(s.Protocols, protocol)
}

// DefaultWith returns the default for these traits: the last of those whose condition holds.
func (s *Spec) DefaultWith(traits map[string]bool) string {
	var found string
	for _, d := range s.Defaults {
		if value, condition, _ := strings.Cut(d, " "); condition == "" || traits[condition] {
			found = value
		}
	}
	if found == "none" {
		return ""
	}
	return found
}

// script has a scenario's templates stay in all texts that may be anything.
func (s *Spec) script() {
	s.Scripted = (s.Kind == Text || s.Kind == Word) && s.pattern == nil && !s.path
	for _, f := range s.Fields {
		f.Spec.script()
	}
	for _, below := range []*Spec{s.Item, s.Short} {
		if below != nil {
			below.script()
		}
	}
}

// most returns how many entries a mapping of names may have.
func (s *Spec) most() int { return int(s.Max) }

// Field returns the spec of a mapping's entry, or nil.
func (s *Spec) Field(name string) *Spec {
	for _, f := range s.Fields {
		if f.Name == name {
			return f.Spec
		}
	}
	return s.Item
}

// FieldNames returns the fields of a mapping.
func (s *Spec) FieldNames() []string {
	names := make([]string, len(s.Fields))
	for i, f := range s.Fields {
		names[i] = f.Name
	}
	return names
}

// Find returns the spec at a path, or nil.
func (s *Spec) Find(path string) *Spec {
	for path != "" && s != nil {
		if s.Kind == List && s.Item.single {
			s = s.Item
		}
		var step string
		if step, path, _ = strings.Cut(path, "."); s.Kind != Mapping {
			return nil
		}
		step, _, item := strings.Cut(step, "[")
		if s = s.Field(step); item && s != nil {
			s = s.Item
		}
	}
	return s
}

// Walk shows each field below a mapping of fields with its path; entries of lists and
// of names have none.
func (s *Spec) Walk(path string, show func(path string, s *Spec)) {
	for _, f := range s.Fields {
		at := Join(path, f.Name)
		show(at, f.Spec)
		f.Spec.Walk(at, show)
	}
}

// whereIs returns the sections that know a field of this name.
func (s *Spec) whereIs(name, path string) []string {
	var found []string
	for _, f := range s.Fields {
		if f.Name == name {
			found = append(found, path)
		}
		found = append(found, f.Spec.whereIs(name, Join(path, f.Name))...)
	}
	if s.Item != nil {
		step := "[]"
		if s.Kind == Mapping {
			step = ".NAME"
		}
		found = append(found, s.Item.whereIs(name, path+step)...)
	}
	return found
}

// description describes the field, with its protocols and its default.
func (s *Spec) description() string {
	d := s.about()
	if without := s.Otherwise(); without != "" {
		d += " (" + without + ")"
	}
	return d
}

// about describes the field, with its protocols.
func (s *Spec) about() string {
	if len(s.Only) == 0 || s.usual {
		return s.Doc
	}
	names := slices.Clone(s.Protocols)
	last := len(names) - 1
	if last > 0 {
		names = []string{strings.Join(names[:last], ", ") + " and " + names[last]}
	}
	return names[0] + " only: " + s.Doc
}

// Base returns the default that has no condition; "" when there is none.
func (s *Spec) Base() string {
	if len(s.Defaults) == 0 {
		return ""
	}
	return s.Defaults[0]
}

// Otherwise says what holds when the field is not there.
func (s *Spec) Otherwise() string {
	values := strings.TrimPrefix(strings.Join(s.Defaults, "; "), "; ")
	switch {
	case s.without != "":
		return "default: " + s.without
	case s.Kind == Boolean && values == "":
		return "default false"
	case values == "" || values == "{}":
		return ""
	}
	return "default " + values
}
