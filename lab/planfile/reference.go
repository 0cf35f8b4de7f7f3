package planfile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"dyno/lab/plan"
	"dyno/lab/schema"
)

// Reference returns the reference of the experiment file in Markdown, as published in
// docs/reference.md: made from the tags that the reader uses.
func Reference() []byte {
	var b strings.Builder
	b.WriteString(`# The experiment file

Every field, made from the declarations in ` + "`lab/plan/types.go`" + ` by ` + "`go test ./lab/planfile -update`" + `.
` + "`lab/planfile/schema.json`" + ` is the same for editors. What the sections are for, and how variants
come about, the documentation of the package ` + "`lab/planfile`" + ` says.

Values have these forms, with quotes or without; whole numbers and true or false have none:

| form | |
|---|---|
`)
	for _, k := range []schema.Kind{schema.Duration, schema.Rate, schema.Size, schema.Share, schema.Amount, schema.CPUs} {
		fmt.Fprintf(&b, "| %s | %s |\n", k.Name(), k.Example())
	}
	b.WriteString(`
In target, services, load and observe, ` + "`{{name}}`" + ` stands for a variable or a free port, and
` + "`" + plan.QuotedBraces + "`" + ` for the braces themselves. ` + "`--set NAME=VALUE`" + `
changes ` + strings.Join(Settings(), ", ") + `.
The flags are those of quick loads and of ` + "`dyno compare`" + `. The metrics, the language of thresholds
and claims, and what templates of a scenario may hold, ` + "`dyno help metrics`, `expressions` and `templates`" + ` list.

## At the top

`)
	file, _ := plan.Declared()
	r := reference{b: &b, flags: map[string]Flag{}}
	for _, f := range Flags(plan.Protocols()...) {
		r.flags[f.Field] = f
	}
	b.WriteString(tableHead)
	for _, f := range file.Fields {
		r.row(f.Name, "", f)
	}
	for _, f := range file.Fields {
		if below := cmp.Or(f.Spec.Item, f.Spec); below.Kind == schema.Mapping {
			fmt.Fprintf(&b, "\n## %s\n\n%s%s.\n\n%s", f.Name, strings.ToUpper(f.Spec.Doc[:1]), f.Spec.Doc[1:], tableHead)
			r.rows(f.Name+".", f.Name+".", f.Spec)
		}
	}
	return []byte(b.String())
}

const tableHead = "| field | value | without it | what it is | flag |\n|---|---|---|---|---|\n"

// A reference is a page that is being written.
type reference struct {
	b     *strings.Builder
	flags map[string]Flag // by the path of the field
}

// rows writes a row for each field below a mapping or a list at a path. Names in a section
// are without the section's.
func (r reference) rows(path, section string, s *schema.Spec) {
	for _, f := range s.Fields {
		r.row(path+f.Name, section, f)
		r.rows(path+f.Name+".", section, f.Spec)
	}
	switch {
	case s.Item == nil || s.Again:
	case s.Kind == schema.List:
		r.rows(strings.TrimSuffix(path, ".")+"[].", section, s.Item)
	case s.Item.Doc != "":
		r.row(path+"NAME", section, schema.Field{Spec: s.Item})
	default:
		r.rows(path+"NAME.", section, s.Item)
	}
}

func (r reference) row(path, section string, f schema.Field) {
	without := strings.TrimPrefix(strings.TrimPrefix(otherwise(f.Spec), "default: "), "default ")
	switch {
	case f.Required && without != "":
		without = "required; without the mapping " + without
	case f.Required:
		without = "required"
	}
	flag := ""
	if of, ok := r.flags[path]; ok {
		if flag = "`--" + of.Name + "`"; of.Shorthand != "" {
			flag = "`-" + of.Shorthand + "`, " + flag
		}
	}
	fmt.Fprintf(r.b, "| `%s` | %s | %s | %s | %s |\n", strings.TrimPrefix(path, section), values(f.Spec), without, about(f.Spec), flag)
}

// values says in words what the value may be.
func values(s *schema.Spec) string {
	name := s.Kind.Name()
	switch {
	case s.Kind == schema.Choice:
		return strings.Join(s.Choices, ", ")
	case s.Kind == schema.List:
		return "list of " + values(s.Item)
	case s.Kind == schema.Mapping && s.Short != nil:
		return values(s.Short) + ", or a mapping"
	case s.Kind == schema.Mapping && s.Item != nil && len(s.Fields) == 0:
		return "mapping of names to " + values(s.Item)
	case s.Kind == schema.Mapping || math.IsInf(s.Max, 0):
		return name
	}
	return strings.Join(append([]string{name + ", " + s.Bounds()}, s.Choices...), ", or ")
}

// description is what is said of the field, with the protocols that have it and what holds
// without it.
func description(s *schema.Spec) string {
	d := about(s)
	if without := otherwise(s); without != "" {
		d += " (" + without + ")"
	}
	return d
}

// about is what is said of the field, with the protocols that have it.
func about(s *schema.Spec) string {
	if len(s.Only) == 0 || slices.Contains(s.Only, plan.Loaded) {
		return s.Doc
	}
	names := plan.ProtocolsWith(s)
	last := len(names) - 1
	if last > 0 {
		names = []string{strings.Join(names[:last], ", ") + " and " + names[last]}
	}
	return names[0] + " only: " + s.Doc
}

// otherwise says what holds when the field is not there.
func otherwise(s *schema.Spec) string {
	values := strings.TrimPrefix(strings.Join(s.Defaults, "; "), "; ")
	switch {
	case s.Otherwise != "":
		return "default: " + s.Otherwise
	case s.Kind == schema.Boolean && values == "":
		return "default false"
	case values == "" || values == "{}":
		return ""
	}
	return "default " + values
}
