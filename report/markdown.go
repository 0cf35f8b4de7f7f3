package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"dyno/report/judged"
	"dyno/report/layout"
	"dyno/results/rundir"
)

// Markdown writes judged runs as one document in GitHub's Markdown, named after the
// first. For several runs it begins with all their claims, by id. Each run has the parts of Text.
func Markdown(w io.Writer, folders ...*rundir.Folder) error {
	if len(folders) == 0 {
		return fmt.Errorf("report as markdown: no run folder")
	}
	var b strings.Builder
	pages := make([]*page, len(folders))
	for i, f := range folders {
		pages[i] = newPage(f)
	}
	if len(pages) > 1 {
		fmt.Fprintf(&b, "# %s\n", layout.EscapeMarkdown(pages[0].Title()))
		if s := overview(pages); s != nil {
			s.WriteMarkdown(&b, 2)
		}
	}
	level := min(len(pages), 2) // of a run's own title
	for _, p := range pages {
		p.write()
		for i, s := range p.Parts {
			s.WriteMarkdown(&b, level+min(i, 1))
		}
	}
	if _, err := io.WriteString(w, strings.TrimLeft(b.String(), "\n")); err != nil {
		return fmt.Errorf("report as markdown: %w", err)
	}
	return nil
}

// overview lists the claims of all runs by id; nil when there are none.
func overview(pages []*page) *layout.Part {
	type row struct{ id, outcome, published, measured, says, run string }
	var rows []row
	for _, p := range pages {
		for _, c := range p.Run.Claims {
			rows = append(rows, row{c.ID, c.Outcome, c.Published, p.Claimed(c), judged.Says(c), p.Title()})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	slices.SortStableFunc(rows, func(a, b row) int { return judged.CompareIDs(a.id, b.id) })
	t := layout.Table{Head: []string{"", "outcome", "published", "measured", "claim", "run"}, Left: []int{1, 2, 3, 4, 5}}
	for _, r := range rows {
		t.Add(r.id, r.outcome, r.published, r.measured, r.says, r.run)
	}
	return &layout.Part{Title: "claims", Items: []layout.Item{{Table: &t}}}
}
