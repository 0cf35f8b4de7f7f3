package short

import (
	"fmt"
	"io"
	"strings"

	"dyno/internal/texts"
	"dyno/report/answer"
	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/report/layout"
	"dyno/results/rundir"
)

// The sizes of a run's short form in Markdown, which fits a comment on a pull request: 25 lines at most.
const (
	mostRows      = 8 // of its table
	mostSentences = 3 // of a kind
)

// Markdown writes the answers of judged runs: of each the headline, a table of what was
// compared, and how far to trust it. A quick load has its first screen.
func Markdown(w io.Writer, folders ...*rundir.Folder) error {
	if len(folders) == 0 {
		return fmt.Errorf("report as markdown: no run folder")
	}
	var b strings.Builder
	for _, f := range folders {
		(&page{Result: judged.Of(f)}).markdown(&b)
	}
	if _, err := io.WriteString(w, strings.TrimLeft(b.String(), "\n")); err != nil {
		return fmt.Errorf("report as markdown: %w", err)
	}
	return nil
}

func (p *page) markdown(b *strings.Builder) {
	a := answer.Make(p.Folder)
	fmt.Fprintf(b, "\n## %s\n\n", layout.EscapeMarkdown(p.headline()))
	if lines := p.ownScreen(a); lines != nil {
		for _, line := range lines {
			b.WriteString(strings.TrimRight("    "+line, " ") + "\n")
		}
		return
	}
	for i, s := range answer.InEnglish(a.Says) {
		if i == 0 {
			fmt.Fprintf(b, "**%s**\n\n", layout.EscapeMarkdown(s))
		} else {
			fmt.Fprintf(b, "- %s\n", layout.EscapeMarkdown(s))
		}
	}
	brief := a.Table
	if len(p.Run.Comparisons) > 0 && !p.IsEmpty() { // before the claims
		brief = answer.Figures(p.Result)
	}
	if brief != nil {
		t := layout.Table{Head: brief.Head}
		for i := range brief.Head {
			t.Left = append(t.Left, i)
		}
		t.Rows = brief.Rows[:min(len(brief.Rows), mostRows)]
		b.WriteByte('\n')
		t.WriteMarkdown(b)
		if more := len(brief.Rows) - len(t.Rows); more > 0 {
			fmt.Fprintf(b, "\n%s\n", layout.EscapeMarkdown(texts.Say(texts.English, "more.rows", map[string]string{"n": figure.Whole(int64(more))})))
		}
	}
	b.WriteByte('\n')
	for _, block := range a.Blocks() {
		said := block.Sentences
		if more := len(said) - mostSentences; more > 0 {
			said = append(said[:mostSentences], texts.Say(texts.English, "more.lines", map[string]string{"n": figure.Whole(int64(more))}))
		}
		fmt.Fprintf(b, "- %s: %s\n", texts.Say(texts.English, block.Head, nil), layout.EscapeMarkdown(strings.Join(said, "; ")))
	}
}
