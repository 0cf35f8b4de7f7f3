// Package settings reads the configuration of a service. A struct declares each field once, by the
// tags of package fields. From them come the defaults, the file, the flags, help and the reference.
//
// The file is YAML; flags override it. The flag of a field has the name of its path, with dashes,
// unless the tag flag says another; of "-" and of lists of mappings there is none.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"dyno/internal/fields"
	"dyno/internal/nearest"
)

// Settings are a struct that is filled from a file and from flags.
type Settings struct {
	Verbose bool   // the flag of this name
	File    string // the value of --config; "" is none

	into  reflect.Value
	spec  *fields.Spec
	flags []*flag
	root  *fields.Node // what the file holds; nil without one
	found *fields.Collector
}

// New returns the settings that go to a struct, which has its defaults.
func New(into any) *Settings {
	v := reflect.ValueOf(into).Elem()
	return &Settings{into: v, spec: fields.Of(v.Type()), found: fields.NewCollector()}
}

// Again returns settings that go to another struct, from the same file, as it is now, and the same flags.
func (s *Settings) Again(into any) *Settings {
	return &Settings{Verbose: s.Verbose, File: s.File, into: reflect.ValueOf(into).Elem(), spec: s.spec, flags: s.flags, found: fields.NewCollector()}
}

// Fixed returns the fields in which two values of a struct differ, and which need a restart.
func Fixed(before, after any) (names []string) {
	a, b := reflect.ValueOf(before), reflect.ValueOf(after)
	for _, f := range fields.Of(a.Type()).Fields {
		if !f.Spec.Live && !reflect.DeepEqual(a.FieldByIndex(f.Spec.At).Interface(), b.FieldByIndex(f.Spec.At).Interface()) {
			names = append(names, f.Name)
		}
	}
	return names
}

// A flag holds the value given for one field.
type flag struct {
	path, name string
	spec       *fields.Spec
	texts      []string // the default, if it is not given
	given      bool
}

var _ pflag.Value = (*flag)(nil)

// String implements pflag.Value.
func (f *flag) String() string { return strings.Join(f.texts, ",") }

// Type implements pflag.Value.
func (f *flag) Type() string { return f.spec.FlagType() }

// Set implements pflag.Value. Whether the text is right, Read says.
func (f *flag) Set(text string) error {
	if !f.given || f.spec.Kind != fields.List && f.spec.Kind != fields.Mapping {
		f.texts = nil
	}
	f.texts, f.given = append(f.texts, text), true
	return nil
}

// flagName returns the name of a field's flag; "" is none.
func flagName(path string, s *fields.Spec) string {
	below := s.Kind == fields.List && s.Item.Kind == fields.Mapping || s.Kind == fields.Mapping && s.Names == nil
	if below || s.Flag == "-" {
		return ""
	}
	name, _, _ := strings.Cut(s.Flag, ",")
	return cmp.Or(name, strings.NewReplacer("_", "-", ".", "-").Replace(path))
}

// AddFlags adds the flags of all fields, and --config and --verbose.
func (s *Settings) AddFlags(to *pflag.FlagSet) {
	s.AddFieldFlags(to)
	to.StringVar(&s.File, "config", "", "`FILE` in YAML with these fields; flags override it")
	to.BoolVarP(&s.Verbose, "verbose", "v", false, "log the events of single connections and requests")
}

// AddFieldFlags adds the flags of all fields.
func (s *Settings) AddFieldFlags(to *pflag.FlagSet) {
	s.spec.Walk("", func(path string, of *fields.Spec) {
		name := flagName(path, of)
		if name == "" {
			return
		}
		f := &flag{path: path, name: name, spec: of}
		usage := of.Doc
		switch without := of.Otherwise(); {
		case of.Base() != "":
			f.texts = []string{of.Base()}
		case without != "" && of.Kind != fields.Boolean:
			usage += " (" + without + ")"
		}
		_, short, _ := strings.Cut(of.Flag, ",")
		added := to.VarPF(f, name, short, usage)
		if of.Kind == fields.Boolean {
			added.NoOptDefVal = "true"
			added.DefValue = cmp.Or(of.Base(), "false")
		}
		s.flags = append(s.flags, f)
	})
}

// Given tells whether the file or a flag gives a field its value.
func (s *Settings) Given(path string) bool { return s.root.Find(path) != nil || s.Flagged(path) }

// Flagged tells whether a flag gives a field its value.
func (s *Settings) Flagged(path string) bool {
	return slices.ContainsFunc(s.flags, func(f *flag) bool { return f.path == path && f.given })
}

// Read reads the file and, over it, the flags. Validate reports what is wrong with them.
func (s *Settings) Read() {
	if s.File != "" {
		s.readFile()
	}
	given := &fields.Node{Kind: fields.IsMapping}
	for _, f := range s.flags {
		if f.given {
			given.Insert(f.path, s.leaf(f.path, f.spec, f.texts))
		}
	}
	s.decode(given, "")
}

func (s *Settings) readFile() {
	text, err := fields.ReadFile(s.File)
	if err != nil {
		s.found.Add(fields.Finding{Path: "--config", Problem: err.Error(), Hint: "the path of a file in YAML"}, "")
		return
	}
	if s.root = fields.ParseTree(text, s.found); s.root != nil {
		fields.Check(s.found, s.root, s.spec)
		s.decode(s.root, filepath.Dir(s.File))
	}
}

// leaf returns a node for what a flag gives, after it has reported what is wrong with it. Items of
// a list have commas between, unless they read their texts themselves.
func (s *Settings) leaf(path string, of *fields.Spec, texts []string) *fields.Node {
	n := &fields.Node{Kind: fields.IsText, Path: path, Spec: of}
	if of.Kind != fields.List && of.Kind != fields.Mapping {
		n.Text = texts[len(texts)-1]
		if problem, hint := of.ScalarFault(n.Text); problem != "" {
			n.Bad = true
			s.fault(n, problem, hint)
		}
		return n
	}
	if of.Kind == fields.Mapping || !of.Item.Custom {
		texts = strings.Split(strings.Join(texts, ","), ",")
	}
	if of.Kind == fields.List {
		n.Kind = fields.IsList
		for _, text := range texts {
			n.Items = append(n.Items, s.leaf(path, of.Item, []string{text}))
		}
		return n
	}
	n.Kind = fields.IsMapping
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			s.fault(n, fmt.Sprintf("%q has no =", nearest.Clip(text)), "want NAME=VALUE,NAME=VALUE")
			continue
		}
		n.Keys = append(n.Keys, fields.Key{Name: name, Value: s.leaf(path, of.Item, []string{value})})
	}
	return n
}

func (s *Settings) fault(n *fields.Node, problem, hint string) {
	s.found.Add(fields.Finding{Path: n.Path, Problem: problem, Hint: hint, Line: n.Line, Column: n.Column}, "")
}

// decode gives the struct what nodes hold. Files that they name are relative to the folder.
func (s *Settings) decode(root *fields.Node, folder string) {
	d := &fields.Decoder{
		Folder: folder, Fault: s.fault,
		Scalar: func(n *fields.Node) (string, bool) { return n.Text, n.Spec != nil && !n.Bad },
	}
	d.Value(root, s.spec, s.into)
}

// Validate returns all faults at once: of the file, of flags, of values by the tags of their
// fields, and what check reports. Each has its place in the file, or names its flag.
func (s *Settings) Validate(check func(*fields.Report)) error {
	if s.File == "" || s.root != nil { // else what may be missing is not known
		fields.NewReport(s.found).Examine(s.into.Addr().Interface(), check)
	}
	var all *fields.Faults
	if !errors.As(s.found.Err("", s.place), &all) {
		return nil
	}
	for i := range all.Faults {
		f := &all.Faults[i]
		switch name := s.flagOf(f.Field); {
		case f.Line > 0:
			f.File = s.File
		case name != "":
			f.Field = "--" + name
		}
	}
	return all
}

// place returns where in the file the value at a path is; 0 if it is not there, or a flag overrides it.
func (s *Settings) place(path string) (line, column int) {
	for ; path != ""; path = fields.Parent(path) {
		if s.Flagged(path) {
			return 0, 0
		}
		switch n := s.root.Find(path); {
		case n == nil:
		case n.Scalar():
			return n.Line, n.Column
		default:
			return n.Where()
		}
	}
	return 0, 0
}

// flagOf returns the name of the flag for the value at a path; "" if there is none.
func (s *Settings) flagOf(path string) string {
	for ; path != ""; path = fields.Parent(path) {
		for _, f := range s.flags {
			if f.path == path {
				return f.name
			}
		}
	}
	return ""
}

// Table returns the fields of a configuration as a table in Markdown.
func Table(config any) []byte {
	s := fields.Of(reflect.TypeOf(config))
	var b strings.Builder
	b.WriteString(fields.TableHead)
	r := fields.Reference{B: &b, Flags: map[string]string{}}
	s.Walk("", func(path string, of *fields.Spec) {
		if name := flagName(path, of); name != "" {
			r.Flags[path] = "`--" + name + "`"
		}
	})
	r.Rows("", "", s)
	return []byte(b.String())
}
