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
	p.write()
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
	for _, s := range answer.InEnglish(a.Says) {
		p.Line("%s", s)
	}
	for _, block := range a.Blocks() {
		if block.Head == "unsure" || block.Head == "rest" {
			continue // the thresholds below say it, and this is the rest
		}
		head := texts.Say(texts.English, block.Head, nil)
		for i, s := range block.Sentences {
			if i == mostSentences {
				p.Line("%s: %s", head, texts.Say(texts.English, "more.lines", map[string]string{"n": figure.Whole(int64(len(block.Sentences) - i))}))
				break
			}
			p.Line("%s: %s", head, s)
		}
	}
}

// mostSentences is how many are listed of a kind.
const mostSentences = 12

// A page is the report of one run, for all formats.
type page struct {
	*judged.Result
	layout.Document
}

func newPage(f *rundir.Folder) *page { return &page{Result: judged.Of(f)} }

// write writes the parts of a run: the answer first, then what was asked for, and then the details.
func (p *page) write() {
	p.heading()
	p.answer()
	p.validity()
	if p.IsQuick() {
		p.quick()
	} else {
		p.control()
	}
	p.claims()
	p.thresholds()
	if !p.IsQuick() {
		p.results()
		p.figures()
	}
	p.agents()
	p.pods()
	p.slowest()
	p.missing()
	p.notes()
	p.environment()
	p.reproduce()
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
	for _, n := range answer.InEnglish(p.Run.Notes) {
		p.Line("%s", n)
	}
}

// mostReasons is how many reasons for being incomplete are listed.
const mostReasons = 8
