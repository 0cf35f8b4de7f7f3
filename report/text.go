package report

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

// Text writes all of a judged run for people to read: its answer first, and then the
// details. A quick load, which is one trial of one variant, gets a compact form.
func Text(w io.Writer, f *rundir.Folder) error {
	p := newPage(f)
	p.heading()
	p.answer()
	p.validity()
	if p.IsQuick() {
		p.quick()
	} else {
		p.control()
		p.results()
		p.figures()
	}
	p.agents()
	p.pods()
	p.slowest()
	p.thresholds()
	p.claims()
	p.notes()
	p.missing()
	p.environment()
	p.reproduce()

	var b strings.Builder
	for i, s := range p.Parts {
		if i > 0 {
			b.WriteByte('\n')
		}
		s.WriteText(&b)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("report as text: %w", err)
	}
	return nil
}

// answer writes the answer of the run, with the same content as the first screen and the
// page.
func (p *page) answer() {
	a := answer.Make(p.Folder)
	p.Section("answer")
	for _, s := range answer.Said(a.Says) {
		p.Line("%s", s)
	}
	block := func(head string, sentences []string) {
		for i, s := range sentences {
			if i == mostSentences {
				p.Line("%s: %s", texts.Say(texts.English, head, nil), texts.Say(texts.English, "more.lines", map[string]string{"n": figure.Whole(int64(len(sentences) - i))}))
				return
			}
			p.Line("%s: %s", texts.Say(texts.English, head, nil), s)
		}
	}
	one := func(lines []texts.Message) []string {
		if len(lines) == 0 {
			return nil
		}
		return []string{texts.Joined(texts.English, lines)}
	}
	block("from", answer.Said(a.From))
	block("placed", answer.Said(a.Placed))
	block("pairs", answer.Said(a.Pairs))
	block("sure", one(a.Sure))
	block("broke", answer.Said(a.Broke))
	block("trust", one(a.Trust))
	block("trust", answer.Said(a.Asked))
	block("again", answer.Said(a.Again))
	if a.Next != nil {
		block("next", answer.Said([]texts.Message{*a.Next}))
	}
}

// mostSentences is how many are listed of a kind.
const mostSentences = 12

// A page is the report of one run while it is written.
type page struct {
	*judged.Result
	layout.Document
}

func newPage(f *rundir.Folder) *page { return &page{Result: judged.Of(f)} }

// results writes the results of ladders, sweeps and other designs.
func (p *page) results() {
	p.ladder()
	p.comparisons()
	p.excludedRounds()
	p.sweeps()
	p.capacities()
	p.trends()
}

// The footnotes.
const (
	serviceOnly = "service time, from the write to the last byte: in a closed loop a slow response holds back the requests that would have met the same delay, " +
		"so its percentiles leave them out (coordinated omission); for what clients on a schedule would see, load.open with a rate (--rate)"
	fewBeyond = "~: fewer than ten values beyond it (a p99 needs 1,000 requests, a p99.9 10,000): a longer load.window (--duration)"
	fewValues = figure.Unknown + ": not observed, or no value beyond it"
)

// notes writes the footnotes and other notes for the reader.
func (p *page) notes() {
	methods := p.methods()
	if len(p.Footnotes)+len(p.Run.Notes)+len(methods) == 0 {
		return
	}
	p.Section("notes")
	for _, m := range methods {
		p.Line("%s", m)
	}
	for i, text := range p.Footnotes {
		p.Item(layout.Item{Mark: fmt.Sprintf("[%d] ", i+1), Text: text})
	}
	for _, n := range answer.Said(p.Run.Notes) {
		p.Line("%s", n)
	}
}

// mostReasons is how many reasons for being incomplete are listed.
const mostReasons = 8
