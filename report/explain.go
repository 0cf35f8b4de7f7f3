package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"dyno/internal/units"
	"dyno/judge/explain"
	"dyno/report/figure"
	"dyno/report/layout"
	"dyno/results/rundir"
)

// Explanations writes the causes of differences between variants: the sum first, then the
// functions and groups that have changed, then the target's resources. Of each table it
// writes at most top rows, and all ranked ones. Controls are a line each at the end, unless nothing
// else is explained.
func Explanations(w io.Writer, list []*explain.Explanation, top int) error {
	var b strings.Builder
	for i, s := range explanations(list, top) {
		if i > 0 {
			b.WriteByte('\n')
		}
		s.WriteText(&b)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("explanation as text: %w", err)
	}
	return nil
}

// ExplanationsMarkdown is Explanations as a document in Markdown.
func ExplanationsMarkdown(w io.Writer, list []*explain.Explanation, top int) error {
	var b strings.Builder
	for _, s := range explanations(list, top) {
		level := 2
		if s.Flush {
			level = 1
		}
		s.WriteMarkdown(&b, level)
	}
	if _, err := io.WriteString(w, strings.TrimLeft(b.String(), "\n")); err != nil {
		return fmt.Errorf("explanation as markdown: %w", err)
	}
	return nil
}

// explanations makes the parts of all.
func explanations(list []*explain.Explanation, top int) []*layout.Part {
	var parts []*layout.Part
	controls := &page{}
	for _, e := range list {
		if e.Control && slices.ContainsFunc(list, func(e *explain.Explanation) bool { return !e.Control }) {
			if len(controls.Parts) == 0 {
				controls.Section("A/A control")
			}
			controls.Line("%s", controlled(e))
		} else {
			parts = append(parts, explanation(e, top)...)
		}
	}
	return append(parts, controls.Parts...)
}

// controlled says in a line whether a control has differences where there are none.
func controlled(e *explain.Explanation) string {
	text := fmt.Sprintf("%s is %s again", e.Variant, e.Base)
	if e.CPU == nil {
		return text
	}
	text += fmt.Sprintf(": %s of CPU time per %s", delta(figure.Times(), e.CPU.Measured), e.Per)
	switch n := ranked(e); {
	case n == 1:
		return text + ", 1 function seems to have changed: do not rely on changes this small"
	case n > 1:
		return fmt.Sprintf("%s, %d functions seem to have changed: do not rely on changes this small", text, n)
	case e.CPU.ProfileRounds < 2:
		return text + "; one round tells nothing of functions"
	}
	return text + ", no function has changed"
}

// explanation makes the parts of one explanation.
func explanation(e *explain.Explanation, top int) []*layout.Part {
	p := &page{}
	p.Section(fmt.Sprintf("%s: why %s differs from %s", e.Run, e.Variant, e.Base))
	p.Parts[0].Flush = true
	p.account(e)
	for _, t := range e.Tables {
		p.explained("groups", e.Per, t, t.Groups, top)
		p.explained("functions", e.Per, t, t.Functions, top)
	}
	p.resources(e.Resources, e.Per)
	p.leftover(e.Leftover)
	if len(e.Tables)+len(e.Notes) == 0 {
		return p.Parts
	}
	p.Section("notes")
	if len(e.Tables) > 0 {
		p.Line("~: within chance, or too small to matter; p-values are adjusted for all that were tested together (Holm)")
	}
	for _, n := range e.Notes {
		p.Line("%s", n)
	}
	return p.Parts
}

// account writes the measured change, and how much of it the profiles explain.
func (p *page) account(e *explain.Explanation) {
	if !e.Valid {
		p.Line("The run is INVALID: its figures are not fit for conclusions (dyno report says why).")
	}
	if e.Control {
		p.Line("%s is %s measured twice: nothing may be ranked.", e.Variant, e.Base)
	}
	a := e.CPU
	if a == nil {
		return
	}
	rounds := figure.Plural(a.Rounds, "round")
	if a.LeftOut > 0 {
		rounds += fmt.Sprintf("; %d without CPU time left out", a.LeftOut)
	}
	p.Line("%s takes %s of CPU time per %s, %s takes %s: %s (%s).",
		e.Base, figure.Seconds(a.Base), e.Per, e.Variant, figure.Seconds(a.Variant), delta(figure.Times(), a.Measured), rounds)
	p.Line("In the profiled trials the difference is %s (%s).", delta(figure.Times(), a.Profiled), figure.Plural(a.ProfileRounds, "round"))
	switch {
	case a.Measured.Low == nil:
		p.Line("One round cannot tell a difference from chance.")
	case a.Accounted == nil:
		p.Line("The measured difference is within chance: there is nothing to account for.")
	default:
		text := fmt.Sprintf("The profiles account for %s of the measured difference; %s are left over", figure.Percent(*a.Accounted), delta(figure.Times(), a.Leftover))
		if l := a.Leftover; l.Low != nil && *l.Low <= 0 && *l.High >= 0 {
			text += ", which is within chance"
		}
		p.Line("%s.", text)
	}
	switch n := ranked(e); {
	case n > 0:
		have, sum := "have", " in sum"
		if n == 1 {
			have, sum = "has", ""
		}
		p.Line("%s below %s changed by more than chance, %s%s.", figure.Plural(n, "function"), have, signedIn(figure.Times(), a.Ranked), sum)
	case a.ProfileRounds < 2:
		p.Line("One profiled round cannot tell functions that have changed from chance.")
	default:
		p.Line("No function has changed by more than chance.")
	}
	for _, name := range []string{e.Base, e.Variant} {
		if share, ok := a.Coverage[name]; ok {
			p.Line("The samples of %s saw %s of the CPU time that the kernel accounted to it.", name, figure.Percent(share))
		}
	}
}

func ranked(e *explain.Explanation) (n int) {
	for _, t := range e.Tables {
		if t.Kind != "cpu" {
			continue
		}
		for _, f := range t.Functions {
			if f.Ranked {
				n++
			}
		}
	}
	return n
}

// explained writes a table of items: the ranked ones and, as far as there is room, those
// with the largest changes that are not significant.
func (p *page) explained(what, per string, t explain.Table, items []explain.Item, top int) {
	u := figure.UnitIn(t.Unit)
	p.Section(fmt.Sprintf("%s, %s per %s", what, kindOf(t), per))
	out := layout.Table{Head: []string{"", "before", "after", "change", "p"}, Left: []int{3}}
	hasGroups := what == "functions"
	if hasGroups {
		out.Head, out.Left = append(out.Head, "group"), append(out.Left, 5)
	}
	shown := 0
	for _, i := range items {
		if shown >= top && !i.Ranked {
			break
		}
		shown++
		text := delta(u, i.Change)
		if !i.Ranked && i.Change.Low != nil {
			text = "~ " + text
		}
		row := []string{called(i), u.Write(i.Base), u.Write(i.Variant), text, figure.Maybe(i.Adjusted, figure.Probability)}
		if hasGroups {
			row = append(row, i.Group)
		}
		out.Add(row...)
	}
	p.Table(out)
	if rest := len(items) - shown; rest > 0 {
		sum := 0.0
		for _, i := range items[shown:] {
			sum += *i.Change.Estimate
		}
		in := " in sum"
		if rest == 1 {
			in = ""
		}
		p.Line("and %d more, %s%s", rest, signedIn(u, sum), in)
	}
}

// longestName is how much of a function's name is shown.
const longestName = 40

// called names a function, and the target's own one that called it: "extra → sha256.block". With one,
// both are without the folders of their packages' paths, and without package main.
func called(i explain.Item) string {
	if i.Caller == "" {
		return layout.Middle(untyped(i.Name), longestName)
	}
	const arrow = " → "
	leaf, caller := bareName(i.Name), bareName(i.Caller)
	room := longestName - utf8.RuneCountInString(arrow)
	short := min(utf8.RuneCountInString(leaf), utf8.RuneCountInString(caller), room/2)
	return layout.Middle(caller, max(short, room-utf8.RuneCountInString(leaf))) + arrow + layout.Middle(leaf, max(short, room-utf8.RuneCountInString(caller)))
}

// bareName is a function's name without the folders of a Go package's path, and without package main.
func bareName(name string) string {
	name = untyped(name)
	if !strings.ContainsAny(name, " :") { // of C++ and the like, a slash is no folder's
		name = name[strings.LastIndexByte(name, '/')+1:]
	}
	return strings.TrimPrefix(name, "main.")
}

// untyped leaves type arguments out of a name.
func untyped(name string) string {
	var b strings.Builder
	depth := 0
	for i, r := range name {
		switch {
		case r == '[' && (depth > 0 || i > 0):
			if depth++; depth == 1 {
				b.WriteString("[…]")
			}
		case r == ']' && depth > 0:
			depth--
		case depth == 0:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// kindOf names the figures of a table.
func kindOf(t explain.Table) string {
	switch t.Kind {
	case "cpu":
		return "CPU time"
	case "off_cpu":
		return "time off the CPU"
	case "allocs":
		return "bytes allocated"
	case "mutex":
		return "waiting for locks"
	case "block":
		return "blocked"
	}
	return t.Kind
}

// resources writes the target's resources in the ordinary trials.
func (p *page) resources(list []explain.Resource, per string) {
	if len(list) == 0 {
		return
	}
	p.Section("what the target used")
	t := layout.Table{Head: []string{"", "before", "after", "change", "p"}, Left: []int{3}}
	for _, r := range list {
		if r.Base == 0 && r.Variant == 0 {
			continue
		}
		u := figure.UnitIn(r.Unit)
		text := delta(u, r.Change)
		if !r.Changed && r.Change.Low != nil {
			text = "~ " + text
		}
		t.Add(strings.Replace(r.Name, "per request", "per "+per, 1), u.Write(r.Base), u.Write(r.Variant), text, figure.Maybe(r.Adjusted, figure.Probability))
	}
	p.Table(t)
}

// leftover writes the stacks that remained after the load stopped.
func (p *page) leftover(list []explain.Leftover) {
	if len(list) == 0 {
		return
	}
	p.Section("left over after the load had stopped")
	t := layout.Table{Head: []string{"", "", "more than before", "where"}, Left: []int{1, 3}, Prose: true}
	for _, l := range list {
		t.Add(l.Variant, l.Kind, figure.Count(l.Count), l.Where)
	}
	p.Table(t)
}

// delta writes a difference in a unit with its interval.
func delta(u figure.Unit, e rundir.Estimate) string {
	if e.Estimate == nil {
		return figure.Unknown
	}
	text := signedIn(u, *e.Estimate)
	if e.Low == nil || e.High == nil {
		return text
	}
	s := u.Step(max(math.Abs(*e.Estimate), math.Abs(*e.Low), math.Abs(*e.High)))
	end := func(v float64) string { return sign(v) + units.Figure(math.Abs(v)/s.From) }
	return sign(*e.Estimate) + units.Figure(math.Abs(*e.Estimate)/s.From) + s.Name + u.Suffix() + " (" + end(*e.Low) + " … " + end(*e.High) + ")"
}

// signedIn writes a difference in the largest step that it reaches.
func signedIn(u figure.Unit, v float64) string {
	if v == 0 {
		return u.Write(0)
	}
	return sign(v) + u.Write(math.Abs(v))
}

func sign(v float64) string {
	switch {
	case v > 0:
		return "+"
	case v < 0:
		return "−"
	}
	return ""
}
