package changes

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"dyno/judge/history"
	"dyno/report/figure"
	"dyno/report/layout"
)

// mostRuns is how many of the latest runs of a series are listed.
const mostRuns = 60

// mostUnreadable is how many folders that cannot be read are listed.
const mostUnreadable = 8

// History writes the runs of each experiment by time, marks where a figure changed,
// and says by how much.
func History(w io.Writer, h *history.History) error {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if len(h.Experiments) == 0 {
		line("no runs")
	}
	searched, bare := false, false
	for _, e := range h.Experiments {
		if b.Len() > 0 {
			line("")
		}
		line("%s, %s of plan %s: %s", figure.Printable(e.Name), figure.Plural(len(e.Runs), "run"), e.Plan, figure.Printable(e.Metric))
		if e.Baseline != nil {
			line("%s", layout.Wrap("", "Δ is the difference of the estimates from the baseline, "+figure.Printable(e.Baseline.Dir)+"; dyno diff says how sure it is.", layout.LineWidth))
		}
		for _, s := range e.Series {
			searched = searched || s.Compared > 0 && s.Detail == nil
			line("")
			line("%s", figure.Printable(s.Variant))
			bare = historySeries(&b, &e, &s) || bare
		}
	}
	if searched {
		line("")
		line("%s", layout.Wrap("", "changes: E-divisive over the runs' estimates at 1 %, valid and complete runs only; of a hundred series without a change, "+
			"about one shows one. A change is an alert: to know what caused it, compare the versions in one run (dyno compare).", layout.LineWidth))
	}
	if bare {
		line("%s", bareFootnote)
	}
	if len(h.Unreadable) > 0 {
		line("")
		line("not readable: %s", figure.Plural(len(h.Unreadable), "folder"))
		for i, r := range h.Unreadable {
			if i == mostUnreadable {
				line("  and %d more", len(h.Unreadable)-i)
				break
			}
			line("  %s", figure.Printable(r.Problem))
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("report of a history: %w", err)
	}
	return nil
}

// historySeries writes one variant's figures and their changes. It tells whether one of
// them has no interval.
func historySeries(b *strings.Builder, e *history.Experiment, s *history.Series) (bare bool) {
	change := map[int]history.Change{}
	for _, c := range s.Changes {
		change[c.Run] = c
	}
	t := layout.Table{Head: []string{"", "run", "rounds", "dyno", e.Metric + " (interval)", ""}, Left: []int{1, 3, 4, 5, 6, 7}}
	if e.Baseline != nil {
		t.Head[5] = "Δ"
	}
	if slices.ContainsFunc(e.Runs, func(r history.Run) bool { return len(r.Tags) > 0 || r.Note != "" }) {
		t.Head, t.Prose = append(t.Head, "tags", "note"), true
	}
	earlier := max(0, len(s.Points)-mostRuns)
	if earlier > 0 {
		t.Add(fmt.Sprintf("%d earlier", earlier))
	}
	for _, p := range s.Points[earlier:] {
		r := e.Runs[p.Run]
		mark := figure.Printable(p.Left.English())
		if c, ok := change[p.Run]; ok {
			mark = changeMark(c)
		}
		switch {
		case p.Relative != nil:
			mark = strings.TrimSpace(figure.Growth(*p.Relative, nil, nil) + " " + mark)
		case e.Baseline != nil && e.Baseline.Dir == r.Dir:
			mark = strings.TrimSpace("baseline " + mark)
		}
		text, alone := inUnit(e.Metric, p.Figure)
		bare = bare || alone
		row := []string{instant(r.StartedAt), figure.Printable(r.Dir), figure.Whole(int64(r.Rounds)), figure.Printable(r.DynoVersion), text, mark}
		if t.Prose {
			row = append(row, strings.Join(r.Tags, ", "), figure.Printable(r.Note))
		}
		t.Add(row...)
	}
	t.Write(b)
	for _, c := range s.Changes {
		b.WriteString(layout.Wrap(changeMark(c)+" ", changeSentence(e, s.Variant, c), layout.LineWidth) + "\n")
	}
	switch {
	case s.Detail != nil:
		b.WriteString(layout.Wrap("", s.Detail.English(), layout.LineWidth) + "\n")
	case len(s.Changes) == 0:
		b.WriteString("no change found in " + figure.Plural(s.Compared, "run") + "\n")
	}
	return bare
}

func changeMark(c history.Change) string {
	switch {
	case c.After > c.Before:
		return "▲"
	case c.After < c.Before:
		return "▼"
	}
	return "◆" // its mean is the same: spread or shape changed
}

func changeSentence(e *history.Experiment, variant string, c history.Change) string {
	verb := "changed its spread or shape"
	switch {
	case c.After > c.Before:
		verb = "rose"
	case c.After < c.Before:
		verb = "fell"
	}
	by := ""
	if c.Relative != nil && *c.Relative != 0 {
		by = " by " + figure.Margin(math.Abs(*c.Relative))
	}
	write := figure.UnitOf(e.Metric).Write
	r := e.Runs[c.Run]
	text := fmt.Sprintf("%s of %s %s%s, from %s to %s on average, with the run of %s (%s); p %s.",
		figure.Printable(e.Metric), figure.Printable(variant), verb, by, write(c.Before), write(c.After), instant(r.StartedAt), figure.Printable(r.Dir), figure.Probability(c.P))
	switch {
	case c.NewMachine && c.NewDyno:
		text += " The machine and the version of dyno changed with it."
	case c.NewMachine:
		text += " The machine changed with it."
	case c.NewDyno:
		text += " The version of dyno changed with it."
	}
	return text
}
