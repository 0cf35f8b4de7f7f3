// Package changes prints what differs between runs: between two of them, and over time.
package changes

import (
	"fmt"
	"io"
	"strings"
	"time"

	"dyno/judge/diff"
	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/report/layout"
	"dyno/results/rundir"
)

// Diff writes the comparison of two runs: first whether they can be compared, then the
// primary metric in a sentence for each variant, then all figures.
func Diff(w io.Writer, d *diff.Difference) error {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	name := figure.Printable(d.New.Name)
	if d.Old.Name != d.New.Name {
		name = figure.Printable(d.Old.Name) + " and " + name
	}
	line("%s: two runs, unpaired", name)
	runs := layout.Table{Left: []int{1, 2, 3, 4}}
	for _, r := range []struct {
		which string
		diff.Summary
	}{{"old", d.Old}, {"new", d.New}} {
		state := "valid"
		switch {
		case !r.Valid:
			state = "INVALID"
		case !r.Complete:
			state = "INCOMPLETE"
		}
		runs.Add(r.which, instant(r.StartedAt), figure.Plural(r.Rounds, "round"), state, "dyno "+orUnknown(figure.Printable(r.DynoVersion)))
	}
	runs.Write(&b)
	line("%s", layout.Wrap("", d.Caveat.English(), layout.LineWidth))
	for _, n := range d.Notes {
		line("%s", layout.Wrap("! ", figure.Printable(n.English()), layout.LineWidth))
	}
	diffDisparities(&b, d.Disparities)

	line("")
	for _, c := range d.Comparisons {
		if c.Primary {
			line("%s", layout.Wrap("", diffSentence(c), layout.LineWidth))
		}
	}
	bare := false // a figure has no interval
	for i := 0; i < len(d.Comparisons); {
		variant := d.Comparisons[i].Variant
		line("")
		line("%s", figure.Printable(variant))
		t := layout.Table{Head: []string{"", "old", "new", "change", "p", "verdict", "MDE"}, Left: []int{1, 2, 3, 5}}
		var details []string
		metrics := map[string][]string{} // by detail
		for ; i < len(d.Comparisons) && d.Comparisons[i].Variant == variant; i++ {
			c := d.Comparisons[i]
			before, alone := inUnit(c.Metric, c.Old)
			bare = bare || alone
			after, alone := inUnit(c.Metric, c.New)
			bare = bare || alone
			t.Add(figure.Printable(c.Metric), before, after, judged.ChangeUnder(c.Verdict, c.Ratio), pOf(c), c.Verdict, figure.Maybe(c.Detectable, plusMinus))
			detail := c.Detail.English()
			if detail == "" {
				continue
			}
			if metrics[detail] == nil {
				details = append(details, detail)
			}
			metrics[detail] = append(metrics[detail], c.Metric)
		}
		t.Write(&b)
		for _, detail := range details {
			line("%s", layout.Wrap("  ", figure.Printable(strings.Join(metrics[detail], ", ")+": "+detail), layout.LineWidth))
		}
	}
	line("")
	for _, only := range []struct {
		which string
		names []string
	}{{"old", d.OnlyOld}, {"new", d.OnlyNew}} {
		if len(only.names) > 0 {
			line("%s", layout.Wrap("", "only in the "+only.which+" run: "+figure.Printable(strings.Join(only.names, ", ")), layout.LineWidth))
		}
	}
	line("%s", layout.Wrap("", fmt.Sprintf("change: new over old, of the geometric means over the trials, with its 95 %% interval (Welch's t on logarithms). "+
		"p: adjusted by Holm where there are several. equivalent: the 90 %% interval lies within ±%s. "+
		"MDE: minimum detectable effect, the smallest change that this number of trials finds in four comparisons of five.", figure.Margin(d.Margin)), layout.LineWidth))
	if bare {
		line("%s", bareFootnote)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("report of a difference: %w", err)
	}
	return nil
}

// mostDisparities is how many differences between machines and plans are listed.
const mostDisparities = 20

func diffDisparities(b *strings.Builder, list []diff.Disparity) {
	if len(list) == 0 {
		b.WriteString("\nmachine and plan are the same, as far as is known\n")
		return
	}
	b.WriteString("\nnot the same in both runs\n")
	t := layout.Table{Head: []string{"", "", "old", "new"}, Left: []int{1, 2, 3}}
	for i, x := range list {
		if i == mostDisparities {
			t.Add(fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		where := x.Where
		if x.Variant != "" {
			where = x.Variant
		}
		t.Add(figure.Printable(where), figure.Printable(x.What.English()), figure.Printable(x.Old.English()), figure.Printable(x.New.English()))
	}
	t.Write(b)
}

// diffSentence describes the difference of a variant in the primary metric.
func diffSentence(c diff.Comparison) string {
	subject := figure.Printable(c.Variant) + ", " + figure.Printable(c.Metric)
	if c.Ratio.Estimate == nil {
		return subject + ": " + c.Verdict + ", " + figure.Printable(c.Detail.English())
	}
	if c.Verdict == rundir.Invalid {
		return subject + ": " + c.Verdict + ", ?: one of the runs does not identify the figure"
	}
	return fmt.Sprintf("%s: %s, %s", subject, c.Verdict, figure.Change(c.Ratio))
}

func plusMinus(share float64) string { return "±" + figure.Margin(share) }

func pOf(c diff.Comparison) string {
	p := c.P
	if c.AdjustedP != nil {
		p = c.AdjustedP
	}
	return figure.Maybe(p, figure.Probability)
}

// bareFootnote explains the mark that inUnit leaves.
const bareFootnote = "[1] no interval is claimed: it takes two rounds (design.rounds)"

// inUnit writes a figure of a metric with its interval. A figure without an interval is
// marked.
func inUnit(metric string, e rundir.Estimate) (text string, bare bool) {
	text = figure.UnitOf(metric).Estimate(e)
	if e.Estimate == nil || figure.Bounded(e) {
		return text, false
	}
	return text + " [1]", true
}

func instant(t time.Time) string { return t.Format(time.RFC3339) }

func orUnknown(text string) string {
	if text == "" {
		return "of unknown version"
	}
	return text
}
