// Package judged answers what a report asks of a judged run. It knows the kind of run, the
// figures, comparisons and flags to show, and their marks.
package judged

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"dyno/internal/texts"
	"dyno/report/figure"
	"dyno/results/rundir"
)

// A Result is a judged run, of which a report asks what it has to write.
type Result struct {
	Run    *rundir.Run
	Folder *rundir.Folder
}

// Of returns the result in a run folder.
func Of(f *rundir.Folder) *Result { return &Result{&f.Run, f} }

// Message is a sentence of the report. Quick loads and searches show no variants, trials or
// files, so some sentences have other words for them.
func (r *Result) Message(kind string, pairs ...string) texts.Message {
	if quick := kind + ".quick"; (r.IsQuick() || r.IsSearch()) && texts.Has(quick) {
		kind = quick
	}
	return texts.New(kind, pairs...)
}

// IsEmpty tells whether the run has no figure at all.
func (r *Result) IsEmpty() bool {
	return len(r.Run.Capacities) == 0 && !slices.ContainsFunc(r.Run.Variants, func(v rundir.Variant) bool { return v.Trials > 0 })
}

// Interrupted says which figures are those of interrupted trials.
func (r *Result) Interrupted() (lines []texts.Message) {
	for _, t := range r.Folder.Measured() {
		if t.Interrupted {
			time := texts.Verbatim(figure.Seconds(t.WindowSeconds))
			if planned := r.Run.Plan.Variant(t.Variant).WindowSeconds; planned > 0 {
				time = texts.New("answer.interrupted.of", "time", figure.Seconds(t.WindowSeconds), "planned", figure.Seconds(planned))
			}
			lines = append(lines, texts.New("answer.interrupted", "variant", t.Variant).With("time", time))
		}
	}
	return lines
}

// Remediable tells whether advice is for this run: where no target was started, there is no
// output of one.
func (r *Result) Remediable(remedy string) bool {
	started := func(v rundir.PlanVariant) bool { return v.Started }
	return remedy != "remedy.output" || slices.ContainsFunc(r.Run.Plan.Variants, started)
}

// Says is a claim's statement with the reason of its outcome.
func Says(c rundir.Claim) string {
	if c.Detail == nil {
		return c.Says
	}
	return c.Says + " (" + c.Detail.English() + ")"
}

// HasSizes tells whether a size was published for any claim.
func (r *Result) HasSizes() bool {
	return slices.ContainsFunc(r.Run.Claims, func(c rundir.Claim) bool { return c.Published != "" })
}

// Title returns the name of the run.
func (r *Result) Title() string {
	if r.Run.Name == "" {
		return "dyno"
	}
	return r.Run.Name
}

// IsProgram tells whether the target is a program that runs to its end.
func (r *Result) IsProgram() bool { return r.Run.Plan.Protocol == "program" }

// Clock is the name of the times that a variant is judged by.
func (r *Result) Clock(variant string) string { return r.Run.Plan.Variant(variant).Latency() }

// Per names what is counted: the events that subscribers get, or requests.
func (r *Result) Per() string { return r.Run.Plan.Per() }

// CompareIDs compares names so that numbers in them are in order: R1.2 before R1.10.
func CompareIDs(a, b string) int {
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

// Handshakes says what became of TLS handshakes, and what they agreed on.
func Handshakes(s *rundir.TLS, v *rundir.Variant) (handshakes string, agreed []string) {
	handshakes = figure.Whole(s.Handshakes) + " completed, " + figure.Whole(s.Failed) + " failed"
	if s.ResumedShare != nil {
		handshakes += ", " + figure.Percent(*s.ResumedShare) + " resumed"
	}
	for _, of := range []string{"p50", "p99"} {
		if took := v.Known(rundir.TagHandshake + "." + of); took != nil {
			handshakes += ", " + of + " " + figure.Seconds(*took)
		}
	}
	for _, a := range s.Agreed {
		parts := slices.DeleteFunc([]string{a.Version, a.CipherSuite, a.Group, a.ALPN}, func(s string) bool { return s == "" })
		text := strings.Join(parts, " ")
		if len(s.Agreed) > 1 {
			text = figure.Whole(a.Handshakes) + " " + text
		}
		agreed = append(agreed, text)
	}
	return handshakes, agreed
}

// Sent names the load's requests.
func (r *Result) Sent() string {
	if r.Per() == "event" {
		return "publications"
	}
	return "requests"
}

// OnlyTrial returns the trial that the figures of the only variant use, or nil.
func (r *Result) OnlyTrial(variant string) *rundir.Trial {
	for _, t := range r.Folder.Measured() {
		if t.Variant == variant {
			return &t.Trial
		}
	}
	return nil
}

// IsSearch tells whether the run was one search for a rate, made from flags.
func (r *Result) IsSearch() bool {
	return r.Run.Plan.Capacity != nil && r.Run.Plan.Source == "" && len(r.Run.Variants) == 1 && r.Run.Plan.Rounds == 1
}

// IsQuick tells whether the run was one trial of one variant.
func (r *Result) IsQuick() bool {
	return r.Run.TrialsPlanned == 1 && len(r.Run.Variants) == 1 && !r.Run.Plan.Soak && !r.IsProgram()
}

// Examined returns the findings about a trial; empty for a run that was judged before
// trials were listed.
func (r *Result) Examined(trial int) rundir.Examined {
	for _, e := range r.Run.Trials {
		if e.Number == trial {
			return e
		}
	}
	return rundir.Examined{}
}

// Incomplete returns why a folder is not complete, in the first line of each message: the
// output of a process that died is in its log. A reason that repeats an earlier one is
// left out: that of a trial is often that of the run.
func Incomplete(f *rundir.Folder) (reasons []texts.Message) {
	var lines []string
	for _, m := range f.Incomplete {
		m = firstLines(m)
		line := m.In(texts.English)
		if !slices.ContainsFunc(lines, func(earlier string) bool { return strings.Contains(earlier, line) || strings.Contains(line, earlier) }) {
			lines, reasons = append(lines, line), append(reasons, m)
		}
	}
	return reasons
}

// firstLines returns a message with only the first line of each value. It drops the hint
// that the last output is on the lines below.
func firstLines(m texts.Message) texts.Message {
	m.Values = maps.Clone(m.Values)
	for name, v := range m.Values {
		if first, _, more := strings.Cut(v, "\n"); more {
			m.Values[name] = strings.TrimSuffix(first, "; last output:")
		}
	}
	for name, parts := range m.Parts {
		var cut []texts.Message
		for _, part := range parts {
			cut = append(cut, firstLines(part))
		}
		m = m.With(name, cut...)
	}
	return m
}

// MostFrequent returns the names of counts, that of the largest first.
func MostFrequent(counts map[string]int64) []string {
	keys := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	return keys
}
