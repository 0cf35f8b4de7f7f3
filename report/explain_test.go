package report

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"dyno/internal/texts"
	"dyno/judge/explain"
	"dyno/results/rundir"
)

func changed(by, half float64) rundir.Estimate {
	low, high := by-half, by+half
	return rundir.Estimate{Estimate: &by, Low: &low, High: &high, Confidence: 0.95, Interval: rundir.ByStudentPairs}
}

func p(v float64) *float64 { return &v }

// explained are two explanations: of a difference, and of a control in which there is
// none and a kind of profile is missing.
func explained() []*explain.Explanation {
	one := rundir.Estimate{Estimate: p(1e-6)}
	return []*explain.Explanation{
		{
			Run: "relay-models", Base: "goroutine", Variant: "epoll", Valid: true, Per: "request",
			CPU: &explain.Account{
				Rounds: 8, Base: 20.3e-6, Variant: 16.1e-6, Measured: changed(-4.2e-6, 0.3e-6),
				ProfileRounds: 8, Profiled: changed(-4.05e-6, 0.4e-6), Ranked: -2.7e-6, Leftover: changed(-0.15e-6, 0.2e-6), Accounted: p(0.964),
				Coverage: map[string]float64{"goroutine": 1.012, "epoll": 0.994},
			},
			Tables: []explain.Table{
				{
					Kind: "cpu", Unit: "s",
					Groups: []explain.Item{
						{Name: "scheduler", Base: 3.1e-6, Variant: 0.4e-6, Change: changed(-2.7e-6, 0.2e-6), P: p(1e-7), Adjusted: p(3e-7), Ranked: true},
						{Name: "network", Base: 12e-6, Variant: 11.5e-6, Change: changed(-0.5e-6, 0.7e-6), P: p(0.2), Adjusted: p(0.4)},
					},
					Functions: []explain.Item{
						{Name: "runtime.findRunnable", Group: "scheduler", Base: 1.4e-6, Variant: 0.1e-6, Change: changed(-1.3e-6, 0.1e-6), P: p(1e-9), Adjusted: p(9e-8), Ranked: true},
						{Name: "runtime.gopark", Group: "scheduler", Base: 1.4e-6, Change: changed(-1.4e-6, 0.1e-6), P: p(1e-9), Adjusted: p(9e-8), Ranked: true},
						{Name: "tcp_recvmsg_locked (kernel)", Caller: "main.serve", Group: "network", Base: 0.7e-6, Variant: 0.6e-6, Change: changed(-0.1e-6, 0.2e-6), P: p(0.3), Adjusted: p(1)},
						{Name: "main.(*Slab[go.shape.struct { a [2]int; b [3]string }]).Get[int]", Group: "target: main", Variant: 1e-8, Change: changed(1e-8, 2e-9), P: p(1e-5), Adjusted: p(0.001), Ranked: true},
						{Name: strings.Repeat("very", 30) + "Long", Group: "target: main", Variant: 1e-8, Change: changed(1e-8, 2e-9), P: p(1e-5), Adjusted: p(0.001), Ranked: true},
						{Name: "crypto/internal/fips140/sha256.block", Caller: "main.extra", Group: "tls and crypto", Variant: 1e-7, Change: changed(1e-7, 2e-9), P: p(1e-5), Adjusted: p(0.001), Ranked: true},
						{Name: "runtime.mallocgc", Caller: "example.org/app/internal/handlers.(*Dispatcher).ServeEveryRequest", Group: "memory allocation", Variant: 1e-7, Change: changed(1e-7, 2e-9), P: p(1e-5), Adjusted: p(0.001), Ranked: true},
						{Name: "a\x1b[2Jb", Group: "target: a|b", Base: 1e-9, Variant: 2e-9, Change: changed(1e-9, 2e-9), P: p(0.3)},
						{Name: "rare", Group: "kernel other", Variant: 1e-9, Change: changed(1e-9, 2e-9), P: p(0.3)},
					},
				},
				{
					Kind: "allocs", Unit: "B",
					Functions: []explain.Item{{Name: "bytes.growSlice", Group: "memory allocation", Base: 2048, Change: changed(-2048, 12), P: p(1e-9), Adjusted: p(1e-9), Ranked: true}},
					Groups:    []explain.Item{{Name: "memory allocation", Base: 2048, Change: changed(-2048, 12), P: p(1e-9), Adjusted: p(1e-9), Ranked: true}},
				},
			},
			Resources: []explain.Resource{
				{Name: "CPU time per request", Unit: "s", Base: 20.3e-6, Variant: 16.1e-6, Change: changed(-4.2e-6, 0.3e-6), Adjusted: p(1e-6), Changed: true},
				{Name: "system calls per request", Base: 6.05, Variant: 4.06, Change: changed(-1.99, 0.01), Adjusted: p(1e-9), Changed: true},
				{Name: "of them read", Base: 0, Variant: 0, Change: changed(0, 0)},
				{Name: "resident memory", Unit: "B", Base: 20 << 20, Variant: 19 << 20, Change: changed(-1<<20, 2<<20), Adjusted: p(0.7)},
				{Name: "connection reuse ratio", Unit: "ratio", Base: 0.99, Variant: 0.99, Change: changed(0, 0.002), Adjusted: p(1)},
			},
			Leftover: []explain.Leftover{{Variant: "goroutine", Kind: "goroutines", Where: "main.wait:12 ← main.serve:34", Count: 7}},
		},
		{
			Run: "relay-models", Base: "goroutine", Variant: "goroutine.control", Control: true, Per: "request",
			CPU:   &explain.Account{Rounds: 1, LeftOut: 2, Base: 20e-6, Variant: 21e-6, Measured: one, ProfileRounds: 1, Profiled: one},
			Notes: []rundir.Message{texts.Verbatim("trial 3 has no profile of kind mutex: profile mutex cannot be taken here: its fraction is 0")},
		},
	}
}

func TestExplanations(t *testing.T) {
	var text, document bytes.Buffer
	if err := Explanations(&text, explained(), 3); err != nil {
		t.Fatal(err)
	}
	if err := ExplanationsMarkdown(&document, explained(), 3); err != nil {
		t.Fatal(err)
	}
	golden(t, "explain.txt", text.String())
	golden(t, "explain.md", document.String())
	for line := range strings.Lines(text.String()) {
		if n := utf8.RuneCountInString(line) - 1; n > 120 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
}

// A control that is all there is to explain is explained like any other.
func TestExplanationsOfAControl(t *testing.T) {
	var b bytes.Buffer
	if err := Explanations(&b, explained()[1:], 3); err != nil {
		t.Fatal(err)
	}
	golden(t, "explain-control.txt", b.String())
}

// Functions are named by what tells them apart, in the width that there is.
func TestCalled(t *testing.T) {
	long := strings.Repeat("long", 20)
	for _, c := range []struct{ name, caller, want string }{
		{"crypto/sha256.block", "main.extra", "extra → sha256.block"},
		{"crypto/sha256.block", "", "crypto/sha256.block"},
		{"main.f", "", "main.f"},
		{"memcpy (libc.so.6)", "app::serve(std::string const&)", "app::serv…g const&) → memcpy (libc.so.6)"},
		{"a.(*T[go.shape.int]).F", "b/c.G[a/b.T]", "c.G[…] → a.(*T[…]).F"},
		{"a." + long, "main.f", "f → a.longlonglonglon…nglonglonglonglong"},
		{"a.f", "b." + long, "b.longlonglonglo…glonglonglonglong → a.f"},
		{"a." + long, "b." + long, "b.longlo…glonglong → a.longlo…glonglong"},
	} {
		got := called(explain.Item{Name: c.name, Caller: c.caller})
		if got != c.want || utf8.RuneCountInString(got) > longestName {
			t.Errorf("%s of %s: %q (%d), want %q", c.name, c.caller, got, utf8.RuneCountInString(got), c.want)
		}
	}
}

// Where there are subscribers, an explanation's figures are per event, and nothing says otherwise.
func TestExplanationsOfEvents(t *testing.T) {
	list := explained()
	for _, e := range list {
		e.Per = "event"
	}
	for name, write := range map[string]func(io.Writer, []*explain.Explanation, int) error{"text": Explanations, "markdown": ExplanationsMarkdown} {
		var b bytes.Buffer
		if err := write(&b, list, 3); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); strings.Contains(got, "per request") || strings.Count(got, "per event") < 8 {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}
