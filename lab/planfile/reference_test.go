package planfile

import (
	"cmp"
	"fmt"
	"strings"

	"dyno/internal/fields"
	"dyno/lab/plan"
)

// reference returns the reference of the experiment file in Markdown, as published in
// docs/reference/experiment.md: made from the tags that the reader uses.
func reference() []byte {
	var b strings.Builder
	b.WriteString(`# The experiment file

An experiment is a YAML file. ` + "`dyno init URL`" + ` writes one to begin with, and ` + "`dyno check FILE`" + ` says what is wrong with
one. ` + "`lab/planfile/schema.json`" + ` is a JSON Schema of these fields, for editors.

Values have these forms, with quotes or without; whole numbers and true or false have none:

| form | |
|---|---|
`)
	for _, k := range []fields.Kind{fields.Duration, fields.Rate, fields.Size, fields.Share, fields.Amount, fields.CPUs} {
		fmt.Fprintf(&b, "| %s | %s |\n", k.Name(), k.Example())
	}
	b.WriteString(`
In target, services, load and observe, ` + "`{{name}}`" + ` stands for a variable or a free port, and
` + "`" + plan.QuotedBraces + "`" + ` for the braces themselves. ` + "`--set NAME=VALUE`" + `
changes ` + strings.Join(Settings(), ", ") + `.
The flags are those of quick loads and of ` + "`dyno compare`" + `. Other pages have the [metrics](metrics.md), the language of
[thresholds and claims](expressions.md), and what [templates](templates.md) of a scenario may hold.

## At the top

`)
	file, _ := plan.Declared()
	r := fields.Reference{B: &b, Flags: map[string]string{}}
	for _, f := range Flags(plan.Protocols()...) {
		if r.Flags[f.Field] = "`--" + f.Name + "`"; f.Shorthand != "" {
			r.Flags[f.Field] = "`-" + f.Shorthand + "`, `--" + f.Name + "`"
		}
	}
	b.WriteString(fields.TableHead)
	for _, f := range file.Fields {
		r.Row(f.Name, "", f)
	}
	for _, f := range file.Fields {
		if below := cmp.Or(f.Spec.Item, f.Spec); below.Kind == fields.Mapping {
			fmt.Fprintf(&b, "\n## %s\n\n%s%s.\n\n%s", f.Name, strings.ToUpper(f.Spec.Doc[:1]), f.Spec.Doc[1:], fields.TableHead)
			r.Rows(f.Name+".", f.Name+".", f.Spec)
		}
	}
	return []byte(b.String())
}
