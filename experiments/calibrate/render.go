package calibrate

import (
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/report/layout"
	"dyno/results/rundir"
	"dyno/selftest/oracle"
)

// A table is a part of the result.
type table struct {
	title string
	intro []string
	layout.Table
	footer []string
}

// document sets the result out: its tables, and what there is to know.
func (r *Result) document() (d layout.Document) {
	for _, t := range r.tables() {
		d.Section(t.title)
		for _, line := range t.intro {
			d.Line("%s", line)
		}
		t.Left = append(t.Left, len(t.Head)-1) // the outcomes
		d.Table(t.Table)
		for _, line := range t.footer {
			d.Line("%s", line)
		}
	}
	if len(r.Notes) > 0 {
		d.Section("What was not possible, and what to know")
		for _, n := range r.Notes {
			d.Line("%s", n)
		}
	}
	return d
}

// Text writes the result for a terminal.
func Text(w io.Writer, r *Result) error {
	var b strings.Builder
	b.WriteString(machine(r) + "\n")
	for _, part := range r.document().Parts {
		b.WriteString("\n")
		part.WriteText(&b)
	}
	b.WriteString("\n" + summary(r) + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// Markdown writes the result as a document in a folder, from which it links to the raw
// data.
func Markdown(w io.Writer, r *Result, folder string) error {
	var b strings.Builder
	b.WriteString("# Calibration\n\n")
	b.WriteString("What dyno measures of servers whose answer is known. Written by `dyno-calibrate`.\n\n")
	fmt.Fprintf(&b, "- machine: %s\n", machine(r))
	fmt.Fprintf(&b, "- CPUs: servers on CPU %d, generator on CPU %d\n", r.ServerCPU, r.LoadCPU)
	fmt.Fprintf(&b, "- measured: %s, in %v, by dyno %s, %s: `%s`\n", r.Started.UTC().Format(time.DateOnly),
		r.Finished.Sub(r.Started).Round(time.Second), r.Config.Version, r.Environment.GoVersion, strings.Join(r.Config.Command, " "))
	fmt.Fprintf(&b, "\n%s\n", summary(r))
	for _, part := range r.document().Parts {
		part.WriteMarkdown(&b, 2)
	}
	if len(r.Files) > 0 {
		b.WriteString("\n## Raw data\n\n")
	}
	at, err := filepath.Rel(folder, r.Config.Raw)
	if err != nil {
		at = r.Config.Raw // on another root: as given
	}
	for _, f := range r.Files {
		link := filepath.ToSlash(filepath.Join(at, f))
		fmt.Fprintf(&b, "- [%s](%s)\n", link, link)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

func machine(r *Result) string {
	e := &r.Environment
	text := fmt.Sprintf("%d × %s, Linux %s", e.CPUs, e.CPUModel, e.Kernel)
	if e.Virtualisation != "" {
		text += ", virtual"
	}
	if r.Config.Awake {
		text += ", CPUs kept from halting"
	}
	return text
}

func summary(r *Result) string {
	switch n := r.Missed(); n {
	case 0:
		return "No figure missed its limit."
	case 1:
		return "One figure missed its limit."
	default:
		return fmt.Sprintf("%d figures missed their limits.", n)
	}
}

// tables lists those that have rows.
func (r *Result) tables() []table {
	var list []table
	for _, t := range []table{
		readingTable("Servers with a known answer", []string{
			"The kernel's clock is that of its own time stamps on the packets, the referee. The server's leaves out the way there and back and both wake-ups, and is not judged.",
			"Stalls are of the generator's CPU: what it then reads late ends when it arrived.",
		}, r.Oracles),
		r.noiseTable(),
		r.comparisonTable(),
		r.flagTable(),
		r.explainTable(),
	} {
		if len(t.Rows) > 0 {
			list = append(list, t)
		}
	}
	return list
}

func readingTable(title string, intro []string, readings []Reading) table {
	t := table{title: title, intro: intro, Table: layout.Table{Head: []string{"of", "quantity", "expected", "measured", "deviation", "limit", ""}, Left: []int{1}}}
	last := ""
	for i := range readings {
		r := &readings[i]
		row := []string{r.Oracle, r.Quantity, "", quantity(r.Measured, r.Unit), "", "", string(r.Outcome())}
		if r.Oracle == last {
			row[0] = ""
		}
		last = r.Oracle
		if r.Expected != nil {
			row[2] = quantity(*r.Expected, r.Unit)
		}
		if d, ok := r.Deviation(); ok {
			row[4] = signed(d, r.Unit)
		}
		if r.Limit != nil {
			row[5] = "≤ " + quantity(*r.Limit, r.Unit)
			if r.Expected != nil {
				row[5] = "± " + quantity(*r.Limit, r.Unit)
			}
		}
		t.Add(row...)
		if line := r.Oracle + ": " + r.Note; r.Note != "" && !slices.Contains(t.footer, line) {
			t.footer = append(t.footer, line)
		}
	}
	return t
}

// saturated is the CPU share from which on a server counts as the bottleneck. Clock
// ticks leave some doubt in short windows.
const saturated = 0.95

func (r *Result) comparisonTable() table {
	c := &r.Config
	t := table{
		title: "Comparisons of servers whose ratio is known",
		intro: []string{
			fmt.Sprintf("Each of %d rounds with windows of %v, closed loop, %d connections, %v of work a request.", c.Rounds, c.Trial, c.Connections, c.Work),
			"Found: the 95 % interval excludes 1. In brackets: 95 % interval of the chance, in percent (Clopper-Pearson).",
			"Detectable: the median of what the runs declare they find in four of five; where declared: it was no more than what is planted.",
			"Spread: standard deviation of a round's log ratio. Bias: mean log ratio less that of the truth. Both without rounds that one of the two lost. Width: the median of high/low − 1.",
		},
		Table: layout.Table{Head: []string{
			"planted", "true ratio", "runs", "found", "truth covered", "wrong sign",
			"detectable", "found where declared", "spread", "bias", "width", "seconds a run", "",
		}},
	}
	if len(c.Noises) > 0 {
		t.intro = append(t.intro, fmt.Sprintf("With noise, a kind for each run in turn: %s; stalls of %v to %v at real-time priority, %s times a second on each CPU, or %s busy.",
			strings.Join(c.Noises, ", "), shortestStall, longestStall, rates(c.NoiseRates), percent(busyShare)))
	}
	for _, tally := range r.Tallies() {
		name := tally.name()
		t.Add(
			name, strconv.FormatFloat(oracle.SlowRatio(tally.Slow), 'f', 4, 64), strconv.Itoa(tally.Found.Of),
			hits(tally.Found), hits(tally.Covered), hits(tally.WrongSign), percent(tally.Detectable), hits(tally.FoundDeclared),
			percent(tally.Spread), percent(tally.Bias), percent(tally.Width), count(tally.Took), worst(tally.judged()),
		)
		for _, j := range tally.judged() {
			t.footer = append(t.footer, fmt.Sprintf("%s, %s: want %s to %s: %s", name, j.name, percent(j.low), percent(j.high), j.outcome))
		}
		if tally.Slow > 0 && tally.ServerCPU < saturated {
			t.footer = append(t.footer, fmt.Sprintf("%s: the base was busy for only %s of the windows: it was not saturated, and the true ratio is nearer to 1 than planted", name, percent(tally.ServerCPU)))
		}
		if tally.Unclaimed > 0 {
			t.footer = append(t.footer, fmt.Sprintf("%s: %d runs gave no interval and are not counted", name, tally.Unclaimed))
		}
		if tally.Refused > 0 {
			t.footer = append(t.footer, fmt.Sprintf("%s: %d runs said that the ratio is not identified, and are not counted; of those, %s found a difference and %s held the truth",
				name, tally.Refused, hits(tally.RefusedFound), hits(tally.RefusedCovered)))
		}
		if tally.Invalid > 0 {
			t.footer = append(t.footer, fmt.Sprintf("%s: %d runs were called invalid", name, tally.Invalid))
		}
	}
	return t
}

// name is what a table calls the comparisons.
func (t *Tally) name() string {
	name := "none (A/A)"
	if t.Slow > 0 {
		name = percent(t.Slow)
	}
	if t.Duet {
		name += ", duet"
	}
	return name
}

// count writes a number without a unit.
func count(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// worst returns the outcome that matters most.
func worst(list []judged) string {
	for _, o := range []Outcome{Missed, TooFew} {
		if slices.ContainsFunc(list, func(j judged) bool { return j.outcome == o }) {
			return string(o)
		}
	}
	return string(Met)
}

func (r *Result) flagTable() table {
	t := table{
		title: "Generators in trouble",
		intro: []string{
			"Runs of one trial, in brackets the 95 % interval of the chance, in percent. Flagged: a flag is beyond its limit, or throughput, p50 or p99 is not said to be as it is.",
			"Of starved generators 95 % must be flagged; of healthy ones each figure may be not identified in 5 %. The target, which did nothing wrong, may be blamed in 5 %.",
		},
		Table: layout.Table{Head: []string{"generator, loop", "runs", "flagged", "target blamed", "throughput not identified", "p50 not identified", "p99 not identified", "beyond their limits", ""}},
	}
	for _, f := range r.FlagShares() {
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(f.Kinds)) {
			kinds = append(kinds, fmt.Sprintf("%s %d", kind, f.Kinds[kind]))
		}
		row := []string{f.Trouble + ", " + f.Loop, strconv.Itoa(f.Flagged.Of), hits(f.Flagged), hits(f.Blamed)}
		for _, figure := range troubledFigures() {
			row = append(row, hits(f.Unidentified[figure]))
		}
		t.Add(append(row, strings.Join(kinds, ", "), string(f.Outcome()))...)
	}
	return t
}

func (r *Result) noiseTable() table {
	t := table{
		title: "With noise",
		intro: []string{
			fmt.Sprintf("Single trials of %v, of which each figure is said to be as it is (ok), bounded, or not identified, while CPUs are stalled at real-time priority for %v to %v, %s times a second, or kept %s busy at ordinary priority.",
				r.Config.NoiseWindow, shortestStall, longestStall, rates(r.Config.NoiseRates), percent(busyShare)),
			"The truth is that of the calmest undisturbed runs, which offer the same arrivals.",
			"Right: what is said to be ok lies within the tolerance (throughput 5 %, p50 max(50 µs, 10 %), p99 max(100 µs, 10 %), CPU time per request 5 %, or what those calm runs differ by) of it, and bounds hold it with the same slack; that must be so in 95 of 100.",
			"Width: the median of high/low − 1. Off: the farthest that the truth was beyond what was printed.",
		},
		Table: layout.Table{Head: []string{"figure, noise", "runs", "ok", "bounded", "relative only", "not identified", "right", "right of ok", "right of bounded", "width", "off", ""}},
	}
	for _, s := range r.NoiseShares() {
		name, runs := s.Noise, 0
		if name == "" {
			name = "all noises"
		}
		for _, n := range s.States {
			runs += n
		}
		t.Add(
			s.Figure+", "+name, strconv.Itoa(runs),
			strconv.Itoa(s.States[rundir.StateOK]), strconv.Itoa(s.States[rundir.StateBounded]), strconv.Itoa(s.States[rundir.StateRelative]), strconv.Itoa(s.States[rundir.StateNotIdentified]),
			hits(s.Holds), hits(s.Of[rundir.StateOK]), hits(s.Of[rundir.StateBounded]), percent(s.Width), percent(s.Off), string(s.Outcome()),
		)
	}
	truly := truths(r.Noisy)
	for _, s := range knownServers(0) {
		var figures []string
		for _, f := range s.figures {
			if v, ok := truly[figureOf{s.name, f.figure}]; ok {
				unit := Seconds
				if f.figure == compared {
					unit = PerSecond
				}
				text := f.figure + " " + quantity(v.truth, unit)
				if v.within > 0 {
					text += " ± " + quantity(v.within, unit)
				}
				figures = append(figures, text)
			}
		}
		if len(figures) > 0 {
			t.footer = append(t.footer, s.name+", undisturbed: "+strings.Join(figures, ", "))
		}
	}
	return t
}

// rates lists how often there are stalls.
func rates(all []float64) string {
	var list []string
	for _, r := range all {
		list = append(list, strconv.FormatFloat(r, 'g', -1, 64))
	}
	return strings.Join(list, " or ")
}

func (r *Result) explainTable() table {
	t := table{
		title: "Explained differences",
		intro: []string{
			fmt.Sprintf("Of %d rounds with profiled trials of %v: a server against itself, and against one in which a planted function takes %s of the CPU time.", r.Config.Rounds, r.Config.ProfileWindow, percent(r.Config.Hot)),
			"Both should come out in 95 of 100.",
		},
		Table: layout.Table{Head: []string{"", "runs", "as it must be", ""}},
	}
	for _, j := range r.explanations() {
		t.Add(j.name, strconv.Itoa(j.share.Of), hits(j.share), string(j.outcome))
	}
	return t
}

// hits writes a proportion with its interval.
func hits(p Proportion) string {
	if p.Of == 0 {
		return "–"
	}
	i := p.Interval()
	return fmt.Sprintf("%d/%d [%.1f, %.1f]", p.Hits, p.Of, 100*i.Low, 100*i.High)
}

func percent(share float64) string {
	if math.IsNaN(share) || math.IsInf(share, 0) {
		return "–"
	}
	text := strconv.FormatFloat(100*share, 'f', 2, 64)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".") + " %"
}

// quantity writes a figure in a unit that fits.
func quantity(v float64, unit string) string {
	if math.IsNaN(v) {
		return "–"
	}
	switch unit {
	case Seconds:
		switch size := math.Abs(v); {
		case size < 1e-3:
			return strconv.FormatFloat(1e6*v, 'f', 1, 64) + " µs"
		case size < 1:
			return strconv.FormatFloat(1e3*v, 'f', 3, 64) + " ms"
		}
		return strconv.FormatFloat(v, 'f', 3, 64) + " s"
	case PerSecond:
		return strconv.FormatFloat(v, 'f', 1, 64) + "/s"
	case Share:
		return percent(v)
	}
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

func signed(v float64, unit string) string {
	text := quantity(v, unit)
	if v >= 0 {
		return "+" + text
	}
	return strings.Replace(text, "-", "−", 1)
}
