package report

import (
	"strings"
	"testing"

	"dyno/results/rundir"
)

// Messages are in the report of variants that have several in a request or a response, and of no
// others.
func TestMessages(t *testing.T) {
	f := &rundir.Folder{}
	f.Run.Plan.Variants = []rundir.PlanVariant{{Name: "unary", Loop: "closed"}, {Name: "chat", Loop: "closed"}}
	f.Run.Variants = []rundir.Variant{{Name: "unary"}, {
		Name:         "chat",
		FirstMessage: rundir.Quantiles{Count: 20, P50: ptr(0.001)},
		Message:      rundir.Quantiles{Count: 100, P50: ptr(0.002), Max: ptr(0.004)},
	}}
	p := newPage(f)
	p.messages(f.Run.Variants)
	var b strings.Builder
	p.Parts[0].WriteText(&b)
	if text := words(b.String()); !strings.Contains(text, "chat 1.00 ms – – – – 2.00 ms – – 4.00 ms") || strings.Contains(text, "unary") {
		t.Errorf("got\n%s", b.String())
	}
	p = newPage(f)
	if p.messages(f.Run.Variants[:1]); len(p.Parts) > 0 {
		t.Errorf("a section of no messages: %q", p.Parts[0].Title)
	}
}

// Answers of language models have a section of their own, with figures by their metrics' names.
func TestTokens(t *testing.T) {
	f := &rundir.Folder{}
	f.Run.Plan.Variants = []rundir.PlanVariant{{Name: "echo", Loop: "closed"}, {Name: "model", Loop: "open"}}
	f.Run.Variants = []rundir.Variant{{Name: "echo"}, {Name: "model", Tokens: &rundir.Tokens{
		Count: 100, PerSecond: ptr(1200.0), Within: 9, Goodput: ptr(4.5),
		FirstToken: rundir.Quantiles{Count: 20, P50: ptr(0.25)}, TokenTime: rundir.Quantiles{Count: 20, P50: ptr(0.02), Max: ptr(0.03)},
	}}}
	p := newPage(f)
	p.tokens(f.Run.Variants)
	var b strings.Builder
	p.Parts[0].WriteText(&b)
	if text := words(b.String()); !strings.Contains(text, "model 1.20k/s 4.50/s 250 ms – – 20.0 ms – 30.0 ms") || strings.Contains(text, "echo") {
		t.Errorf("got\n%s", b.String())
	}
	f.Run.Variants[1].Tokens.PromptPerSecond = ptr(300.0)
	p = newPage(f)
	p.tokens(f.Run.Variants)
	b.Reset()
	p.Parts[0].WriteText(&b)
	if text := words(b.String()); !strings.Contains(text, "of prompts") || !strings.Contains(text, "model 1.20k/s 300/s 4.50/s") {
		t.Errorf("got\n%s", b.String())
	}
	p = newPage(f)
	if p.tokens(f.Run.Variants[:1]); len(p.Parts) > 0 {
		t.Errorf("a section of no answers: %q", p.Parts[0].Title)
	}
}
