// Package help makes pages of help from declarations: of flags by group, and of topics that are no
// commands.
package help

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"dyno/cli/arguments"
	"dyno/internal/exit"
	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/expr"
	"dyno/load/scenario/template"
	"dyno/results/rundir"
)

// Width is how many columns the lines of help have at most.
const Width = 100

// A topic is a page of help that is about no command. It is made from the declarations of what
// it lists.
type topic struct {
	name, short string
	write       func(p page)
}

func topics() []topic {
	return []topic{
		{"metrics", "The metrics of thresholds, claims and reports", metricsTopic},
		{"expressions", "How thresholds and claims are written", expressionsTopic},
		{"templates", "What may stand between braces in requests", templatesTopic},
		{"exit-codes", "What the exit codes mean", exitCodesTopic},
		{"trust", "What the marks of figures mean, and what dyno checks", trustTopic},
	}
}

// Topics returns the topics as commands, which makes them known to help. They have nothing to run.
func Topics() (all []*cobra.Command) {
	for _, t := range topics() {
		cmd := &cobra.Command{Use: t.name, Short: t.short}
		cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { t.write(terminal{cmd.OutOrStdout()}) })
		all = append(all, cmd)
	}
	return all
}

// A page is what help is written to.
type page interface {
	text(text string)       // a paragraph
	table(rows ...[]string) // the last cells are sentences
}

// A terminal is a page that is written to the end whatever becomes of it, as help of commands is.
type terminal struct{ io.Writer }

func (p terminal) text(text string) { fmt.Fprintf(p, "%s\n\n", wrapText(text, Width, "")) }

// table writes rows of which the last cell is wrapped.
func (p terminal) table(rows ...[]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row[:len(row)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		line := " "
		for i, cell := range row[:len(row)-1] {
			line += " " + cell + strings.Repeat(" ", 1+widths[i]-utf8.RuneCountInString(cell))
		}
		indent := strings.Repeat(" ", utf8.RuneCountInString(line)+1)
		fmt.Fprintln(p, strings.TrimRight(line+" "+strings.TrimLeft(wrapText(row[len(row)-1], Width, indent), " "), " "))
	}
	fmt.Fprintln(p)
}

// wrapText breaks a text into lines of at most a width, each with an indent.
func wrapText(text string, width int, indent string) string {
	var lines []string
	line := indent
	for word := range strings.FieldsSeq(text) {
		if line != indent && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n")
}

func metricsTopic(p page) {
	p.text("Metrics stand in --threshold, in thresholds and claims of experiment files, in design.metric and in reports. More is better of those with +.")
	p.text("Times, each with .p50 .p75 .p90 .p95 .p99 .p999 .p9999 .max .mean and any other quantile, such as response.p995 for the 99.5th percentile:")
	var rows [][]string
	for _, c := range rundir.Clocks() {
		rows = append(rows, []string{c.Tag, c.About})
	}
	p.table(rows...)
	p.text("All others:")
	rows = nil
	for _, m := range rundir.Metrics() {
		if _, isTime := rundir.ClockOf(m.Name); isTime {
			continue
		}
		better := ""
		if m.Higher {
			better = "+"
		}
		rows = append(rows, []string{m.Name, string(m.Unit), better, m.About})
	}
	p.table(rows...)
	p.table(
		[]string{"METRIC{step=NAME}", "of one step of a scenario: throughput, response, service and errors"},
		[]string{rundir.OfPrograms + "NAME", "a number that a program printed"},
		[]string{rundir.OfObservers + "NAME", "a number of an endpoint or a command of observe: the growth per second of a counter, the mean of a gauge"},
	)
}

func expressionsTopic(p page) {
	p.text("A threshold is a condition on metrics, which dyno help metrics lists. A claim is one that may name variants.")
	p.table(
		[]string{"response.p99 < 80ms and errors.ratio < 0.1%"},
		[]string{"response.p99{step=login} < 200ms"},
		[]string{"slope(rss) < 5%/30min"},
		[]string{`ratio(new, "old-1", throughput) >= 1.36`},
	)
	p.text("Operators: < <= > >= == != + - * / and or not. Comparisons may be chained, as in 1ms < response.p99 < 1s.")
	p.text("Units follow their number without a space: " + strings.Join(units.Names(), " ") + ". Times and slopes need theirs.")
	p.text("Functions:")
	var rows [][]string
	for _, f := range expr.Functions() {
		rows = append(rows, []string{f.Usage, f.About})
	}
	p.table(rows...)
	p.text("A claim has a condition (holds), or a published size and what is measured (published, measured): published: -42%, measured: change(new, old, service.p50). A size agrees within a fifth, counted from no effect: 1 of a ratio, 0 of a change or a difference, as of value(new, program.gain) - 1. It is larger or smaller if the sign is right and the interval excludes what was published. It is refuted if the interval has the wrong sign, or contains no effect and excludes four fifths of what was published. Any other value has no sign, and is never refuted. A published bound is a condition.")
	p.text("p99 alone is response.p99, or delivery.p99 with subscribers; p99.9 and p999 are the same. A comma between conditions means and.")
	p.text("Every figure is an interval. A condition holds if all of the interval keeps it, and is broken if none of it does. Between them the measured value decides a threshold, and a claim is not settled. The interval of a quantile or of errors.ratio in a threshold comes from the number of requests. Other figures of a single trial have none: the value decides a threshold, and no claim.")
}

func templatesTopic(p page) {
	p.text("In the steps of a scenario, and with --data-file or --rows in what the flags send, {{ }} holds one expression:")
	rows := [][]string{
		{"name", "a variable: given, extracted from a response, or a column of the rows"},
		{"users.name", "the column of one of several files of rows"},
		{`"text"`, `a text; "{{" is these braces themselves`},
	}
	for _, f := range template.Functions() {
		if f.Arguments != "" {
			f.Meaning += ", as in " + f.Example
		}
		rows = append(rows, []string{f.Name + "(" + f.Arguments + ")", f.Meaning})
	}
	p.table(rows...)
	p.text("Nothing is encoded unless a function says so. What is random depends on --seed: two runs with one seed use the same values.")
}

func exitCodesTopic(p page) {
	var rows [][]string
	for _, c := range exit.Codes() {
		rows = append(rows, []string{strconv.Itoa(c.Code), c.Means})
	}
	p.table(rows...)
}

func trustTopic(p page) {
	p.text("A figure is printed as it was measured, with at most one mark:")
	p.table(
		[]string{"12.3 ms", "disturbances did not move it by what matters"},
		[]string{"≤12.3 ms", "disturbances can only have made it larger"},
		[]string{"≥12.3 ms", "disturbances can only have made it smaller"},
		[]string{"~12.3 ms", "fewer than ten values lie beyond the quantile"},
		[]string{"12.3 ms?", "do not rely on it: the reason is printed below"},
	)
	p.text("In JSON each figure has a state: ok, bounded (the true value is between low and high), relative_only (its ratios are right, its value is not) or not_identified.")
	var rows [][]string
	all := checks.All()
	for i, c := range all {
		text := c.Means
		if len(c.Biases) > 0 {
			text += "; it can change " + strings.Replace(arguments.List(c.Biases), "all", "all figures", 1)
		}
		if c.Remedy != "" {
			text += ". What helps: " + texts.Say(texts.English, c.Remedy, nil)
		}
		rows = append(rows, []string{c.Kind, text + "."})
		if i+1 == len(all) || all[i+1].About != c.About {
			p.text("Checks of the " + c.About + ":")
			p.table(rows...)
			rows = nil
		}
	}
	p.text("dyno doctor says what can be measured on this machine, and how well.")
}
