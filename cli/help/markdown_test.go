package help

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/cli/arguments"
	"dyno/internal/texts"
	"dyno/judge/verdict/checks"
)

// Reference returns pages in Markdown by their names in docs/reference: the topics, what checks find, and the
// commands below the root with their flags.
func Reference(root *cobra.Command) map[string]string {
	pages := map[string]string{}
	write := func(name, title string, body func(p markdown)) {
		var b strings.Builder
		fmt.Fprintf(&b, "# %s\n\n", title)
		body(markdown{&b})
		pages[name+".md"] = strings.TrimRight(b.String(), "\n") + "\n"
	}
	for _, t := range topics() {
		write(t.name, t.short, func(p markdown) { t.write(p) })
	}
	write("messages", "Messages, and what helps", messages)
	write("flags", "Commands and flags", func(p markdown) {
		p.text("dyno COMMAND --help prints what is here. dyno URL is a quick load of what answers there.")
		p.commands(root)
		p.loads(root)
	})
	return pages
}

// markdown is a page of a document.
type markdown struct{ *strings.Builder }

func (p markdown) text(text string) { fmt.Fprintf(p, "%s\n\n", escape(text)) }

// messages writes the sentences of checks, with what they mean.
func messages(p markdown) {
	p.text("A run prints a sentence for each check that finds something. The name of the check is in run.json, at flags and at trials[].checks. What is in braces depends on the run.")
	about := ""
	for _, c := range checks.All() {
		if c.About != about {
			about = c.About
			p.heading(2, "About the "+about)
		}
		p.heading(3, "`"+c.Kind+"`")
		entries := [][2]string{{"Meaning", c.Means}}
		for _, sentence := range []struct{ what, kind string }{
			{"Printed", "found." + c.Kind}, {"At the top of a result", "broke." + c.Kind}, {"What helps", c.Remedy},
		} {
			if texts.Has(sentence.kind) {
				entries = append(entries, [2]string{sentence.what, texts.Say(texts.English, sentence.kind, nil)})
			}
		}
		if len(c.Biases) > 0 {
			entries = append(entries, [2]string{"It can change", strings.Replace(arguments.List(c.Biases), "all", "all figures", 1)})
		}
		for _, e := range entries {
			fmt.Fprintf(p, "- **%s**: %s\n", e[0], escape(e[1]))
		}
		fmt.Fprintln(p)
	}
	for _, of := range []struct{ space, head string }{
		{"fault", "How a target does not answer"},
		{"unavailable", "What cannot be observed"},
		{"lacks", "Why a figure is missing"},
		{"undecided", "Why a threshold or a claim is not settled"},
		{"refused", "What dyno ui refuses"},
	} {
		p.heading(2, of.head)
		for _, kind := range texts.Kinds(of.space) {
			fmt.Fprintf(p, "- %s\n", escape(texts.Say(texts.English, kind, nil)))
		}
		fmt.Fprintln(p)
	}
}

// commands writes the commands below one.
func (p markdown) commands(below *cobra.Command) {
	for _, cmd := range below.Commands() {
		if !cmd.IsAvailableCommand() || cmd.Name() == "help" {
			continue
		}
		p.heading(2, cmd.CommandPath())
		about := cmd.Long
		if about == "" {
			about = cmd.Short + "."
		}
		p.text(about)
		fmt.Fprintf(p, "```\n%s\n```\n\n", strings.TrimRight(cmd.UseLine()+"\n\n"+cmd.Example, "\n"))
		if cmd.Name() == "serve" { // the manual of each service has its flags
			var rows [][]string
			for _, service := range cmd.Commands() {
				if service.IsAvailableCommand() {
					rows = append(rows, []string{service.CommandPath(), service.Short})
				}
			}
			p.table(rows...)
			continue
		}
		if hasGroups(cmd) {
			p.text("Its flags are among those of loads, below.")
		} else {
			var all []*pflag.Flag
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if !f.Hidden && !slices.Contains([]string{"help", "version"}, f.Name) {
					all = append(all, f)
				}
			})
			writeFlags(p, "", all)
		}
		p.commands(cmd)
	}
}

// hasGroups tells whether a command's flags are in groups: it makes load.
func hasGroups(cmd *cobra.Command) bool { return cmd.Flags().Lookup("help-all") != nil }

// loads writes the flags of the commands that make load. A flag that means different things has several rows.
func (p markdown) loads(root *cobra.Command) {
	p.heading(2, "Flags of loads")
	all := slices.DeleteFunc(slices.Clone(root.Commands()), func(cmd *cobra.Command) bool { return !hasGroups(cmd) })
	for _, g := range Groups() {
		p.heading(3, strings.ToUpper(g.name[:1])+g.name[1:])
		var rows [][]string
		for name := range strings.FieldsSeq(g.Flags) {
			first := len(rows)
			for _, cmd := range all {
				for _, f := range lookUp(cmd, name) {
					row := describe(f)
					same := slices.IndexFunc(rows[first:], func(r []string) bool { return slices.Equal(r[:2], row) })
					if same < 0 {
						rows = append(rows, append(row, cmd.Name()))
					} else {
						rows[first+same][2] += ", " + cmd.Name()
					}
				}
			}
		}
		p.table(rows...)
	}
}

// heading writes the head of a section.
func (p markdown) heading(level int, text string) {
	fmt.Fprintf(p, "%s %s\n\n", strings.Repeat("#", level), text)
}

// table writes a table whose first cells are names. Rows of one cell are a list.
func (p markdown) table(rows ...[]string) {
	for i, row := range rows {
		if len(row) == 1 {
			fmt.Fprintf(p, "- `%s`\n", row[0])
			continue
		}
		if i == 0 {
			fmt.Fprintf(p, "|%s\n|%s\n", strings.Repeat("  |", len(row)), strings.Repeat("---|", len(row)))
		}
		fmt.Fprintf(p, "| `%s` |", strings.ReplaceAll(strings.TrimSpace(row[0]), "|", `\|`))
		for _, cell := range row[1:] {
			fmt.Fprintf(p, " %s |", escape(cell))
		}
		fmt.Fprintln(p)
	}
	fmt.Fprintln(p)
}

// escape keeps Markdown from reading a text as tags or as cells.
func escape(text string) string {
	return strings.NewReplacer("<", "&lt;", "|", `\|`, "*", `\*`).Replace(text)
}
