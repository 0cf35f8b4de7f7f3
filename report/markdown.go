package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"dyno/internal/texts"
	"dyno/results/rundir"
)

// Markdown writes judged runs as one document in GitHub's Markdown, named after the
// first. For several runs it begins with all their claims, by id. Each run has its answer
// first, then the claims, and then the parts of Text.
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
		fmt.Fprintf(&b, "# %s\n", markdown(pages[0].title()))
		if s := overview(pages); s != nil {
			s.writeMarkdown(&b, 2)
		}
	}
	level := min(len(pages), 2) // of a run's own title
	for _, p := range pages {
		p.document()
		for i, s := range p.parts {
			if i == 0 {
				s.writeMarkdown(&b, level)
			} else {
				s.writeMarkdown(&b, level+1)
			}
		}
	}
	if _, err := io.WriteString(w, strings.TrimLeft(b.String(), "\n")); err != nil {
		return fmt.Errorf("report as markdown: %w", err)
	}
	return nil
}

// The sizes of a run's short form in Markdown, which fits a comment on a pull request: 25 lines at most.
const (
	briefRows      = 8 // of its table
	briefSentences = 2 // of a kind
)

// ShortMarkdown writes the answers of judged runs: of each the headline, a table of what was
// compared, and how far to trust it. A quick load has its first screen.
func ShortMarkdown(w io.Writer, folders ...*rundir.Folder) error {
	if len(folders) == 0 {
		return fmt.Errorf("report as markdown: no run folder")
	}
	var b strings.Builder
	for _, f := range folders {
		newPage(f).brieflyInMarkdown(&b)
	}
	if _, err := io.WriteString(w, strings.TrimLeft(b.String(), "\n")); err != nil {
		return fmt.Errorf("report as markdown: %w", err)
	}
	return nil
}

func (p *page) brieflyInMarkdown(b *strings.Builder) {
	a := Make(p.folder)
	fmt.Fprintf(b, "\n## %s\n\n", markdown(p.headline()))
	if lines := p.ownScreen(a); lines != nil {
		for _, line := range lines {
			b.WriteString(strings.TrimRight("    "+line, " ") + "\n")
		}
		return
	}
	for i, s := range said(a.Says) {
		if i == 0 {
			fmt.Fprintf(b, "**%s**\n\n", markdown(s))
		} else {
			fmt.Fprintf(b, "- %s\n", markdown(s))
		}
	}
	brief := a.Table
	if len(p.run.Comparisons) > 0 && !p.nothing() { // before the claims
		brief = p.figuresBrief()
	}
	if brief != nil {
		t := table{head: brief.Head}
		for i := range brief.Head {
			t.left = append(t.left, i)
		}
		t.rows = brief.Rows[:min(len(brief.Rows), briefRows)]
		b.WriteByte('\n')
		t.writeMarkdown(b)
		if more := len(brief.Rows) - len(t.rows); more > 0 {
			fmt.Fprintf(b, "\n%s\n", markdown(texts.Say(texts.English, "more.rows", map[string]string{"n": whole(int64(more))})))
		}
	}
	b.WriteByte('\n')
	line := func(head string, sentences ...string) {
		if more := len(sentences) - briefSentences; more > 0 {
			sentences = append(sentences[:briefSentences], texts.Say(texts.English, "more.lines", map[string]string{"n": whole(int64(more))}))
		}
		if text := strings.Join(sentences, "; "); text != "" {
			fmt.Fprintf(b, "- %s: %s\n", texts.Say(texts.English, head, nil), markdown(text))
		}
	}
	line("pairs", said(a.Pairs)...)
	line("sure", texts.Joined(texts.English, a.Sure))
	line("broke", said(a.Broke)...)
	line("trust", texts.Joined(texts.English, a.Trust))
	line("trust", said(a.Asked)...)
	line("again", said(a.Again)...)
	if a.Next != nil {
		line("next", a.Next.In(texts.English))
	}
	if a.Rest != nil {
		line("rest", a.Rest.In(texts.English))
	}
}

// document makes the parts of a run in the order of a document.
func (p *page) document() {
	p.heading()
	p.answer()
	p.validity()
	if p.isQuick() {
		p.quick()
	} else {
		p.control()
	}
	p.claims()
	p.thresholds()
	if !p.isQuick() {
		p.results()
		p.figures()
	}
	p.missing()
	p.notes()
	p.environment()
	p.reproduce()
}

// overview lists the claims of all runs by id; nil when there are none.
func overview(pages []*page) *part {
	type row struct{ id, outcome, measured, says, run string }
	var rows []row
	for _, p := range pages {
		for _, c := range p.run.Claims {
			rows = append(rows, row{c.ID, c.Outcome, p.claimed(c), says(c), p.title()})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	slices.SortStableFunc(rows, func(a, b row) int { return natural(a.id, b.id) })
	t := table{head: []string{"", "outcome", "measured", "claim", "run"}, left: []int{1, 2, 3, 4}}
	for _, r := range rows {
		t.add(r.id, r.outcome, r.measured, r.says, r.run)
	}
	return &part{title: "claims", items: []item{{table: &t}}}
}

// natural compares names so that numbers in them are in order: R1.2 before R1.10.
func natural(a, b string) int {
	for a != "" && b != "" {
		x, restA := run(a)
		y, restB := run(b)
		m, errM := strconv.ParseUint(x, 10, 64)
		n, errN := strconv.ParseUint(y, 10, 64)
		c := cmp.Compare(x, y)
		if errM == nil && errN == nil {
			c = cmp.Or(cmp.Compare(m, n), c)
		}
		if c != 0 {
			return c
		}
		a, b = restA, restB
	}
	return cmp.Compare(len(a), len(b))
}

// run cuts off the digits that a name begins with, or what stands before some.
func run(s string) (first, rest string) {
	digit := func(c byte) bool { return '0' <= c && c <= '9' }
	i := 1
	for i < len(s) && digit(s[i]) == digit(s[0]) {
		i++
	}
	return s[:i], s[i:]
}

// writeMarkdown writes a part with a title of a level.
func (s *part) writeMarkdown(b *strings.Builder, level int) {
	fmt.Fprintf(b, "\n%s %s\n", strings.Repeat("#", level), markdown(s.title))
	list := false // the last item was one of a list, which another continues
	for _, i := range s.items {
		if i.table != nil || i.verbatim || !list {
			b.WriteByte('\n')
		}
		list = false
		switch {
		case i.table != nil:
			i.table.writeMarkdown(b)
		case i.verbatim:
			fmt.Fprintf(b, "%s\n\n    %s\n", markdown(strings.TrimSpace(i.mark)), Printable(i.text))
		default:
			fmt.Fprintf(b, "- %s\n", markdown(i.mark+i.text))
			list = true
		}
	}
}

// writeMarkdown writes a table with pipes. The title of a group of rows is strong.
func (t *table) writeMarkdown(b *strings.Builder) {
	columns := t.columns()
	row := func(cells []string) {
		b.WriteByte('|')
		for i := range columns {
			cell := ""
			if i < len(cells) {
				cell = markdown(cells[i])
			}
			if len(cells) == 1 && i == 0 && columns > 1 && cell != "" {
				cell = "**" + cell + "**"
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteByte('\n')
	}
	head := make([]string, columns)
	copy(head, t.head)
	row(head)
	b.WriteByte('|')
	for i := range columns {
		if i == 0 || slices.Contains(t.left, i) {
			b.WriteString(" --- |")
		} else {
			b.WriteString(" ---: |")
		}
	}
	b.WriteByte('\n')
	for _, cells := range t.rows {
		row(cells)
	}
}

// markdown escapes text so that GitHub's Markdown shows it unchanged: on one line,
// without control characters, and with nothing that Markdown or HTML would interpret.
func markdown(s string) string {
	runes := []rune(Printable(s))
	word := func(i int) bool {
		return i >= 0 && i < len(runes) && (unicode.IsLetter(runes[i]) || unicode.IsDigit(runes[i]))
	}
	ends := func(i int) bool { return i == len(runes) || runes[i] == ' ' }
	var b strings.Builder
	for i, r := range runes {
		switch {
		case r == '<':
			b.WriteString("&lt;")
			continue
		case r == '>':
			b.WriteString("&gt;")
			continue
		case r == '&':
			b.WriteString("&amp;")
			continue
		case r == '_' && word(i-1) && word(i+1): // within a word it means nothing
		case strings.ContainsRune("\\`*_[]|~$#!", r),
			ends(i+1) && (i == 0 && (r == '-' || r == '+') || i > 0 && (r == '.' || r == ')') && numbers(runes[:i])),
			r == '-' && strings.Trim(string(runes), "- ") == "":
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// numbers tells whether text is digits only. A point or bracket after digits would begin
// a numbered list.
func numbers(runes []rune) bool {
	return !slices.ContainsFunc(runes, func(r rune) bool { return r < '0' || r > '9' })
}
