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
		FirstMessage: rundir.Quantiles{Count: 10, P50: ptr(0.001)},
		Message:      rundir.Quantiles{Count: 100, P50: ptr(0.002), Max: ptr(0.004)},
	}}
	p := newPage(f)
	p.messages(f.Run.Variants)
	var b strings.Builder
	p.parts[0].writeText(&b)
	if text := words(b.String()); !strings.Contains(text, "chat 1.00 ms – – – – 2.00 ms – – 4.00 ms") || strings.Contains(text, "unary") {
		t.Errorf("got\n%s", b.String())
	}
	p = newPage(f)
	if p.messages(f.Run.Variants[:1]); len(p.parts) > 0 {
		t.Errorf("a section of no messages: %q", p.parts[0].title)
	}
}
