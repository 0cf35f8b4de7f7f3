package fields

import (
	"path/filepath"
	"reflect"
	"strings"
)

// A Decoder reads the values of a file into Go values.
type Decoder struct {
	Folder string // that paths are relative to

	// Scalar returns a value's text; not ok when it cannot be had or is wrong.
	Scalar func(n *Node) (text string, ok bool)

	// Protocol and Traits say which defaults hold.
	Protocol string
	Traits   map[string]bool

	// Fault is called if a Setter refuses a text.
	Fault func(n *Node, problem, hint string)

	// After, if not nil, is called with a pointer to each value that was read.
	After func(value any, n *Node)
}

// Value reads a node that is not nil. Where it makes something new, that has its
// defaults before what the file says.
func (d *Decoder) Value(n *Node, s *Spec, into reflect.Value) {
	if into.Kind() == reflect.Interface {
		if into.IsNil() || s.isAnothers(into) {
			into.Set(d.fresh(s.structure, s).Addr())
		}
		into = into.Elem()
	}
	if into.Kind() == reflect.Pointer {
		if into.IsNil() {
			into.Set(d.fresh(into.Type().Elem(), s).Addr())
		}
		into = into.Elem()
	}
	switch {
	case s.Kind == List:
		items := reflect.MakeSlice(into.Type(), len(n.Items), len(n.Items))
		for i, item := range n.Items {
			items.Index(i).Set(d.fresh(into.Type().Elem(), s.Item))
			d.Value(item, s.Item, items.Index(i))
		}
		into.Set(items)
	case s.Kind != Mapping:
		if t, ok := d.Scalar(n); ok {
			if s.path && !filepath.IsAbs(t) {
				t = filepath.Join(d.Folder, t)
			}
			if err := s.put(into, t, d.Folder); err != nil {
				problem, hint, _ := strings.Cut(err.Error(), "; ")
				d.Fault(n, problem, hint)
			}
		}
	case s.Short != nil && n.Kind != IsMapping:
		d.field(n, s.Short, into)
	case into.Kind() == reflect.Map:
		into.Set(reflect.MakeMap(into.Type()))
		for _, k := range n.Keys {
			entry := d.fresh(into.Type().Elem(), s.Item)
			d.Value(k.Value, s.Item, entry)
			into.SetMapIndex(reflect.ValueOf(k.Name), entry)
		}
	case into.Kind() == reflect.Slice:
		for _, k := range n.Keys {
			entry := d.fresh(into.Type().Elem(), s.Item)
			entry.FieldByIndex(s.key).SetString(k.Name)
			d.field(k.Value, s.Item, entry)
			into.Set(reflect.Append(into, entry))
		}
	default:
		for _, f := range s.Fields {
			d.field(n.Get(f.Name), f.Spec, into)
		}
	}
	if d.After != nil {
		d.After(into.Addr().Interface(), n)
	}
}

// field reads a field of a mapping, whose Go struct holds the value.
func (d *Decoder) field(n *Node, s *Spec, of reflect.Value) {
	if n != nil && !s.form {
		d.Value(n, s, of.FieldByIndex(s.At))
	}
}

// A Setter is a value that reads its text itself. Files that the text names are relative to the folder.
// The error names the fault and, after a semicolon, the remedy.
type Setter interface {
	SetText(text, folder string) error
}

func isSetter(t reflect.Type) bool {
	return t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(reflect.TypeFor[Setter]())
}

func (s *Spec) put(into reflect.Value, t, folder string) error {
	if s.Custom {
		return into.Addr().Interface().(Setter).SetText(t, folder)
	}
	s.Put(into, t)
	return nil
}

// Put gives a field the value of a text whose form is right; of a list, one of words.
func (s *Spec) Put(into reflect.Value, t string) {
	value, _ := s.Read(t)
	switch x := reflect.ValueOf(value); {
	case s.Kind == List:
		into.Set(reflect.ValueOf(strings.Fields(t)))
	case s.Kind == Boolean:
		into.SetBool(x.Bool() != s.inverted)
	case into.CanUint():
		into.SetUint(uint64(x.Float()))
	default:
		into.Set(x.Convert(into.Type()))
	}
}

// fresh returns a new value in which everything has its default that has one.
func (d *Decoder) fresh(t reflect.Type, s *Spec) reflect.Value {
	value := reflect.New(t).Elem()
	Preset(value, s, d.Protocol, d.Traits)
	return value
}

// Preset gives the fields of a mapping their defaults, for a protocol where that is known.
// Where the traits are not known yet, a default with conditions waits until they are (see
// Complete).
func Preset(into reflect.Value, s *Spec, protocol string, traits map[string]bool) {
	for _, f := range s.Fields {
		if f.Spec.form || !f.Spec.Of(protocol) {
			continue
		}
		to := into.FieldByIndex(f.Spec.At)
		switch d := f.Spec.DefaultWith(traits); {
		case d == "{}":
			value := reflect.New(f.Spec.structure)
			to.Set(value)
			Preset(value.Elem(), f.Spec, protocol, traits)
		case d != "" && (len(f.Spec.Defaults) == 1 || traits != nil):
			if err := f.Spec.put(to, d, ""); err != nil {
				panic("fields: in a default, " + err.Error())
			}
		case to.Kind() == reflect.Struct:
			Preset(to, f.Spec, protocol, traits)
		}
	}
}
