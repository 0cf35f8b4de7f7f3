package experiment

import (
	"cmp"
	"fmt"
	"math"
	"strings"
)

// Reference returns the reference of the experiment file in Markdown, as published in
// docs/reference.md: made from the tags that the reader uses.
func Reference() []byte {
	var b strings.Builder
	b.WriteString(`# The experiment file

Every field, made from the declarations in ` + "`lab/experiment/types.go`" + ` by ` + "`go test ./lab/experiment -update`" + `.
` + "`lab/experiment/schema.json`" + ` is the same for editors. What the sections are for, and how variants
come about, the documentation of the package ` + "`lab/experiment`" + ` says.

Values have these forms, with quotes or without; whole numbers and true or false have none:

| form | |
|---|---|
`)
	for _, k := range []kind{duration, rate, size, share, amount, cpus} {
		fmt.Fprintf(&b, "| %s | %s |\n", forms[k].name, k.example())
	}
	b.WriteString(`
In target, services, load and observe, ` + "`{{name}}`" + ` stands for a variable or a free port, and
` + "`" + quotedBraces + "`" + ` for the braces themselves. ` + "`--set NAME=VALUE`" + `
changes ` + strings.Join(Settings(), ", ") + `.
The flags are those of quick loads and of ` + "`dyno compare`" + `. The metrics, the language of thresholds
and claims, and what templates of a scenario may hold, ` + "`dyno help metrics`, `expressions` and `templates`" + ` list.

## At the top

`)
	file, _ := theFile()
	r := reference{b: &b, flags: map[string]Flag{}}
	for _, f := range Flags(Protocols()...) {
		r.flags[f.Field] = f
	}
	b.WriteString(tableHead)
	for _, f := range file.fields {
		r.row(f.name, "", f)
	}
	for _, f := range file.fields {
		if below := cmp.Or(f.spec.item, f.spec); below.kind == mapping {
			fmt.Fprintf(&b, "\n## %s\n\n%s%s.\n\n%s", f.name, strings.ToUpper(f.spec.doc[:1]), f.spec.doc[1:], tableHead)
			r.rows(f.name+".", f.name+".", f.spec)
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
func (r reference) rows(path, section string, s *spec) {
	for _, f := range s.fields {
		r.row(path+f.name, section, f)
		r.rows(path+f.name+".", section, f.spec)
	}
	switch {
	case s.item == nil || s.again:
	case s.kind == list:
		r.rows(strings.TrimSuffix(path, ".")+"[].", section, s.item)
	case s.item.doc != "":
		r.row(path+"NAME", section, field{spec: s.item})
	default:
		r.rows(path+"NAME.", section, s.item)
	}
}

func (r reference) row(path, section string, f field) {
	without := strings.TrimPrefix(strings.TrimPrefix(f.spec.otherwise(), "default: "), "default ")
	switch {
	case f.required && without != "":
		without = "required; without the mapping " + without
	case f.required:
		without = "required"
	}
	flag := ""
	if of, ok := r.flags[path]; ok {
		if flag = "`--" + of.Name + "`"; of.Shorthand != "" {
			flag = "`-" + of.Shorthand + "`, " + flag
		}
	}
	fmt.Fprintf(r.b, "| `%s` | %s | %s | %s | %s |\n", strings.TrimPrefix(path, section), f.spec.values(), without, f.spec.about(), flag)
}

// values says in words what the value may be.
func (s *spec) values() string {
	name := forms[s.kind].name
	switch {
	case s.kind == choice:
		return strings.Join(s.choices, ", ")
	case s.kind == list:
		return "list of " + s.item.values()
	case s.kind == mapping && s.short != nil:
		return s.short.values() + ", or a mapping"
	case s.kind == mapping && s.item != nil && len(s.fields) == 0:
		return "mapping of names to " + s.item.values()
	case s.kind == mapping || math.IsInf(s.max, 0):
		return name
	}
	return strings.Join(append([]string{name + ", " + s.bounds()}, s.choices...), ", or ")
}
