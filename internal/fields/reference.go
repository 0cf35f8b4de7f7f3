package fields

import (
	"fmt"
	"math"
	"strings"
)

// TableHead begins the table of a Reference.
const TableHead = "| field | value | without it | what it is | flag |\n|---|---|---|---|---|\n"

// A Reference is a page that is being written.
type Reference struct {
	B     *strings.Builder  // takes the page
	Flags map[string]string // by the path of the field
}

// Rows writes a row for each field below a mapping or a list at a path. Names in a section
// are without the section's.
func (r Reference) Rows(path, section string, s *Spec) {
	for _, f := range s.Fields {
		r.Row(path+f.Name, section, f)
		r.Rows(path+f.Name+".", section, f.Spec)
	}
	switch {
	case s.Item == nil || s.again:
	case s.Kind == List:
		r.Rows(strings.TrimSuffix(path, ".")+"[].", section, s.Item)
	case s.Item.Doc != "":
		r.Row(path+"NAME", section, Field{Spec: s.Item})
	default:
		r.Rows(path+"NAME.", section, s.Item)
	}
}

// Row writes a field's row.
func (r Reference) Row(path, section string, f Field) {
	without := strings.TrimPrefix(strings.TrimPrefix(f.Spec.Otherwise(), "default: "), "default ")
	switch {
	case f.required && without != "":
		without = "required; without the mapping " + without
	case f.required:
		without = "required"
	}
	about := f.Spec.about()
	if f.Spec.Live {
		about += "; changes without a restart"
	}
	fmt.Fprintf(r.B, "| `%s` | %s | %s | %s | %s |\n", strings.TrimPrefix(path, section), f.Spec.values(), without, about, r.Flags[path])
}

// values says in words what the value may be.
func (s *Spec) values() string {
	name := s.Kind.Name()
	switch {
	case s.Kind == Choice:
		return strings.Join(s.Choices, ", ")
	case s.Kind == List && s.Item.single:
		return s.Item.values() + ", or a list of such"
	case s.Kind == List:
		return "list of " + s.Item.values()
	case s.Kind == Mapping && s.Short != nil:
		return s.Short.values() + ", or a mapping"
	case s.Kind == Mapping && s.Item != nil && len(s.Fields) == 0:
		return "mapping of names to " + s.Item.values()
	case s.Kind == Mapping || math.IsInf(s.Max, 0):
		return name
	}
	return strings.Join(append([]string{name + ", " + s.bounds()}, s.Choices...), ", or ")
}
