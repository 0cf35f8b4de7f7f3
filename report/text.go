package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"dyno/internal/texts"
	"dyno/results/rundir"
)

// Text writes all of a judged run for people to read: its answer first, and then the
// details. A quick load, which is one trial of one variant, gets a compact form.
func Text(w io.Writer, f *rundir.Folder) error {
	p := newPage(f)
	p.heading()
	p.answer()
	p.validity()
	if p.isQuick() {
		p.quick()
	} else {
		p.control()
		p.results()
		p.figures()
	}
	p.thresholds()
	p.claims()
	p.notes()
	p.missing()
	p.environment()
	p.reproduce()

	var b strings.Builder
	for i, s := range p.parts {
		if i > 0 {
			b.WriteByte('\n')
		}
		s.writeText(&b)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("report as text: %w", err)
	}
	return nil
}

// answer writes the answer of the run, with the same content as the first screen and the
// page.
func (p *page) answer() {
	a := Make(p.folder)
	p.section("answer")
	for _, s := range said(a.Says) {
		p.line("%s", s)
	}
	block := func(head string, sentences []string) {
		for i, s := range sentences {
			if i == mostSentences {
				p.line("%s: %s", texts.Say(texts.English, head, nil), texts.Say(texts.English, "more.lines", map[string]string{"n": whole(int64(len(sentences) - i))}))
				return
			}
			p.line("%s: %s", texts.Say(texts.English, head, nil), s)
		}
	}
	one := func(lines []texts.Message) []string {
		if len(lines) == 0 {
			return nil
		}
		return []string{texts.Joined(texts.English, lines)}
	}
	block("pairs", said(a.Pairs))
	block("sure", one(a.Sure))
	block("broke", said(a.Broke))
	block("trust", one(a.Trust))
	block("trust", said(a.Asked))
	block("again", said(a.Again))
	if a.Next != nil {
		block("next", said([]texts.Message{*a.Next}))
	}
}

// mostSentences is how many are listed of a kind.
const mostSentences = 12

// A page is the report of one run while it is written, with the footnotes that it needs.
type page struct {
	run       *rundir.Run
	folder    *rundir.Folder
	parts     []*part
	footnotes []string
	width     int // of the terminal in characters; 0: there is none
}

func newPage(f *rundir.Folder) *page {
	return &page{run: &f.Run, folder: f}
}

// isQuick tells whether the run was one trial of one variant.
func (p *page) isQuick() bool {
	return p.run.TrialsPlanned == 1 && len(p.run.Variants) == 1 && !p.run.Plan.Soak && !p.isProgram()
}

// results writes the results of ladders, sweeps and other designs.
func (p *page) results() {
	p.ladder()
	p.comparisons()
	p.excludedRounds()
	p.sweeps()
	p.capacities()
	p.trends()
}

// section begins a part of the page.
func (p *page) section(title string) { p.parts = append(p.parts, &part{title: title}) }

func (p *page) item(i item) {
	last := p.parts[len(p.parts)-1]
	last.items = append(last.items, i)
}

func (p *page) line(format string, args ...any) { p.item(item{text: fmt.Sprintf(format, args...)}) }

func (p *page) table(t table) {
	if len(t.rows) > 0 {
		p.item(item{table: &t})
	}
}

// footnote returns the mark of a footnote, which is added when it is new.
func (p *page) footnote(text string) string {
	i := slices.Index(p.footnotes, text)
	if i < 0 {
		i = len(p.footnotes)
		p.footnotes = append(p.footnotes, text)
	}
	return "[" + strconv.Itoa(i+1) + "]"
}

// The footnotes.
const (
	serviceOnly = "service time, from the write to the last byte: in a closed loop a slow response holds back the requests that would have met the same delay, " +
		"so its percentiles leave them out (coordinated omission); for what clients on a schedule would see, load.open with a rate (--rate)"
	fewBeyond = "~: fewer than ten values beyond it (a p99 needs 1,000 requests, a p99.9 10,000): a longer load.window (--duration)"
	fewValues = unknown + ": not observed, or no value beyond it"
)

// notes writes the footnotes and other notes for the reader.
func (p *page) notes() {
	methods := p.methods()
	if len(p.footnotes)+len(p.run.Notes)+len(methods) == 0 {
		return
	}
	p.section("notes")
	for _, m := range methods {
		p.line("%s", m)
	}
	for i, text := range p.footnotes {
		p.item(item{mark: fmt.Sprintf("[%d] ", i+1), text: text})
	}
	for _, n := range p.run.Notes {
		p.line("%s", n)
	}
}
