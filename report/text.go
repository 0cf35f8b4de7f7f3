package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"dyno/rundir"
	"dyno/verdict"
)

// Text writes a judged run for people to read. A quick load, that is one trial
// of one variant, gets a compact form.
func Text(w io.Writer, f *rundir.Folder) error {
	p := page{run: &f.Run, folder: f}
	p.heading()
	p.flags()
	switch {
	case p.run.TrialsPlanned == 1 && len(p.run.Variants) == 1:
		p.quick()
	case len(p.run.Variants) > 0:
		p.throughput()
		p.latencies()
		p.costs()
		p.comparisons()
	}
	p.thresholds()
	p.claims()
	p.notes()
	p.environment()
	if _, err := io.WriteString(w, p.b.String()); err != nil {
		return fmt.Errorf("report as text: %w", err)
	}
	return nil
}

// A page is the text under way, with the footnotes it has called for.
type page struct {
	run       *rundir.Run
	folder    *rundir.Folder
	b         strings.Builder
	footnotes []string
}

func (p *page) line(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

// section begins a part of the page.
func (p *page) section(title string) {
	p.line("")
	p.line("%s", title)
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
	fewValues = unknown + ": not observed, or too few values behind it (ten must lie beyond a quantile: a p99 needs 1,000, a p99.9 10,000); for a quantile, a longer load.window"
)

func (p *page) heading() {
	name := p.run.Name
	if name == "" {
		name = "dyno"
	}
	p.line("%s", Printable(name))
	if p.run.Question != "" {
		p.line("%s", Printable(p.run.Question))
	}
	if load := p.load(); load != "" {
		p.line("%s", load)
	}
}

// load says how the load was made, where all variants agree on it.
func (p *page) load() string {
	plan := p.run.Plan
	var parts []string
	common := func(of func(rundir.PlanVariant) string) {
		var values []string
		for _, v := range plan.Variants {
			values = append(values, of(v))
		}
		if values = slices.Compact(values); len(values) == 1 && values[0] != "" {
			parts = append(parts, values[0])
		}
	}
	if plan.Protocol != "" {
		parts = append(parts, Printable(plan.Protocol))
	}
	common(func(v rundir.PlanVariant) string { return Printable(v.Loop) + " loop" })
	common(func(v rundir.PlanVariant) string {
		if v.Rate == nil {
			return ""
		}
		return strconv.FormatFloat(*v.Rate, 'f', -1, 64) + " requests/s"
	})
	common(func(v rundir.PlanVariant) string {
		if v.Loop == "open" {
			return "at most " + plural(v.Connections, "connection")
		}
		return plural(v.Connections, "connection")
	})
	common(func(v rundir.PlanVariant) string {
		if v.WindowSeconds == 0 {
			return "" // the number of requests ends the window
		}
		return "window " + planned(v.WindowSeconds)
	})
	common(func(v rundir.PlanVariant) string { return "warm-up " + planned(v.WarmupSeconds) })
	if plan.Rounds > 1 {
		parts = append(parts, plural(plan.Rounds, "round")+" in random order (seed "+strconv.FormatUint(plan.Seed, 10)+")")
	}
	if plan.Short {
		parts = append(parts, "short form")
	}
	return strings.Join(parts, ", ")
}

// mostReasons is how many reasons for being incomplete are listed.
const mostReasons = 8

// firstLines returns the first line of each text, without those that an earlier
// one contains: what a process had printed when it died is in its log, and the
// reason of a trial is often the reason of the run.
func firstLines(texts []string) []string {
	var lines []string
	for _, text := range texts {
		line, _, _ := strings.Cut(text, "\n")
		if !slices.ContainsFunc(lines, func(earlier string) bool { return strings.Contains(earlier, line) || strings.Contains(line, earlier) }) {
			lines = append(lines, line)
		}
	}
	return lines
}

// flags says, before any figure, whether the figures may be trusted.
func (p *page) flags() {
	if !p.folder.Complete() {
		measured := 0
		for _, v := range p.run.Variants {
			measured += v.Trials
		}
		p.section(fmt.Sprintf("INCOMPLETE: %d of %s measured", measured, plural(p.run.TrialsPlanned, "planned trial")))
		reasons := firstLines(p.folder.Incomplete)
		for i, reason := range reasons {
			if i == mostReasons {
				p.line("  and %d more", len(reasons)-i)
				break
			}
			p.line("  %s", Printable(reason))
		}
	}
	switch {
	case !p.run.Valid:
		p.section("INVALID: the figures below are not fit for conclusions")
	case len(p.run.Flags) > 0:
		p.section("valid, with warnings")
	default:
		p.section("valid: no flags")
		return
	}
	// One line for each kind, however many trials have it.
	type group struct {
		first  rundir.Flag
		trials []string
	}
	var groups []*group
	for _, f := range p.run.Flags {
		i := slices.IndexFunc(groups, func(g *group) bool {
			return g.first.Kind == f.Kind && g.first.Invalid == f.Invalid && f.Trial != 0 && g.first.Trial != 0
		})
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{first: f})
		}
		if f.Trial != 0 {
			groups[i].trials = append(groups[i].trials, strconv.Itoa(f.Trial))
		}
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return cmp.Compare(rank(a.first), rank(b.first)) })
	t := table{left: []int{1, 2, 3}}
	for _, g := range groups {
		severity := "warning"
		if g.first.Invalid {
			severity = "invalid"
		}
		kind := Printable(g.first.Kind)
		if r := remedy(g.first.Kind); r != "" {
			kind += " " + p.footnote(r)
		}
		detail := Printable(g.first.Detail)
		if len(g.trials) > 1 {
			detail = "trial " + g.trials[0] + ": " + detail
		}
		t.add(severity, kind, where(g.first, g.trials), detail)
	}
	t.write(&p.b)
}

func rank(f rundir.Flag) int {
	if f.Invalid {
		return 0
	}
	return 1
}

// where names the trials of a flag, the first ones when there are many.
func where(first rundir.Flag, trials []string) string {
	switch {
	case len(trials) == 0:
		return "run"
	case len(trials) == 1:
		return "trial " + trials[0] + " (" + Printable(first.Variant) + ")"
	case len(trials) > 6:
		return fmt.Sprintf("%d trials: %s …", len(trials), strings.Join(trials[:6], " "))
	}
	return "trials " + strings.Join(trials, " ")
}

// remedy says what to do about a flag.
func remedy(kind string) string {
	switch kind {
	case verdict.FlagGeneratorLag, verdict.FlagGeneratorLagTail, verdict.FlagGeneratorCPU, verdict.FlagRunQueue:
		return "give the generator CPUs of its own (load.cpus), or more of them, or a lower rate"
	case verdict.FlagAchievedRate, verdict.FlagDrops, verdict.FlagConnectionLimit:
		return "the target was too slow for this rate with these connections: a lower rate, or more (load.open.max_connections)"
	case verdict.FlagSteal:
		return "other virtual machines took the CPUs: measure again at a quieter time, or on a machine of your own"
	case verdict.FlagNotSteady:
		return "a longer load.warmup, if the target was still warming up; a longer load.window, if it has phases"
	case verdict.FlagConservation:
		return "requests were lost count of, which is a fault in dyno: please report it"
	case verdict.FlagIncomplete, verdict.FlagNoTrials:
		return "the output of the target is in the trial's folder"
	case verdict.FlagLagNotChecked:
		return "a longer load.window"
	}
	return ""
}

func (p *page) throughput() {
	p.section("throughput, good responses per second")
	t := table{head: []string{"", "median", "trials"}, left: []int{2}}
	for _, v := range p.run.Variants {
		t.add(Printable(v.Name), maybe(v.Throughput.Estimate, Count), list(v.Throughput.Values, Count))
	}
	t.write(&p.b)
}

func list(values []float64, write func(float64) string) string {
	var cells []string
	for _, v := range values {
		cells = append(cells, write(v))
	}
	return strings.Join(cells, "  ")
}

// latencies writes what was seen of time. The first group of columns is what
// the loop can know: the response time of an open loop, and the service time of
// a closed one.
func (p *page) latencies() {
	var open, closed []rundir.Variant
	for _, v := range p.run.Variants {
		if p.loop(v.Name) == "open" {
			open = append(open, v)
		} else {
			closed = append(closed, v)
		}
	}
	if len(open) > 0 {
		p.section("response time, from the intended start to the last byte")
		p.latency(open, "service", func(v *rundir.Variant) (main, other *rundir.Quantiles) { return &v.Response, &v.Service })
	}
	if len(closed) > 0 {
		p.section("service time " + p.footnote(serviceOnly))
		p.latency(closed, "response", func(v *rundir.Variant) (main, other *rundir.Quantiles) { return &v.Service, &v.Response })
	}
}

func (p *page) loop(variant string) string {
	for _, v := range p.run.Plan.Variants {
		if v.Name == variant {
			return v.Loop
		}
	}
	return p.run.Plan.Loop
}

func (p *page) latency(variants []rundir.Variant, otherName string, split func(*rundir.Variant) (main, other *rundir.Quantiles)) {
	t := table{head: []string{"", "p50", "p99", "p99.9", "max", otherName + " p50", "p99", "send lag p50", "p99"}}
	for i := range variants {
		v := &variants[i]
		m, o := split(v)
		row := []string{Printable(v.Name)}
		for _, q := range []*float64{m.P50, m.P99, m.P999, m.Max, o.P50, o.P99, v.SendLag.P50, v.SendLag.P99} {
			row = append(row, p.known(q, Seconds))
		}
		t.add(row...)
	}
	t.write(&p.b)
}

// known writes a figure, and explains one that is missing.
func (p *page) known(v *float64, write func(float64) string) string {
	if v == nil {
		p.footnote(fewValues)
	}
	return maybe(v, write)
}

func (p *page) costs() {
	p.section("errors, and cost per request (medians of the trials)")
	t := table{head: []string{"", "errors", "target CPU", "of its CPUs", "RSS", "generator CPU", "of its CPUs"}, left: []int{}}
	for _, v := range p.run.Variants {
		errors := unknown
		if v.Errors.Ratio != nil {
			errors = whole(v.Errors.Total)
			if v.Errors.Total > 0 {
				errors += " (" + percent(*v.Errors.Ratio) + ": " + kinds(v.Errors.ByKind) + ")"
			}
		}
		t.add(Printable(v.Name), errors,
			p.known(v.Target.CPUSecondsPerRequest, Seconds), p.known(v.Target.CPUShare, percent),
			p.known(float(v.Target.RSSBytes), size),
			p.known(v.Generator.CPUSecondsPerRequest, Seconds), p.known(v.Generator.CPUShare, percent))
	}
	t.write(&p.b)
}

func float(n *int64) *float64 {
	if n == nil {
		return nil
	}
	f := float64(*n)
	return &f
}

// kinds lists counts by name, the largest first.
func kinds(counts map[string]int64) string {
	var parts []string
	for _, k := range descending(counts) {
		parts = append(parts, Printable(k)+" "+whole(counts[k]))
	}
	return strings.Join(parts, ", ")
}

func descending(counts map[string]int64) []string {
	keys := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	return keys
}

func (p *page) comparisons() {
	if len(p.run.Comparisons) == 0 {
		return
	}
	base := p.run.Comparisons[0].Base
	p.section("ratio to " + Printable(base) + ", median of the rounds (lowest and highest round)")
	var metrics, variants []string
	cells := map[[2]string]string{}
	for _, c := range p.run.Comparisons {
		if !slices.Contains(metrics, c.Metric) {
			metrics = append(metrics, c.Metric)
		}
		if !slices.Contains(variants, c.Variant) {
			variants = append(variants, c.Variant)
		}
		cells[[2]string{c.Variant, c.Metric}] = ratio(c.Ratio)
	}
	t := table{head: []string{""}}
	for _, m := range metrics {
		t.head = append(t.head, Printable(m))
	}
	for _, v := range variants {
		row := []string{Printable(v)}
		for _, m := range metrics {
			cell, ok := cells[[2]string{v, m}]
			if !ok {
				cell = p.known(nil, nil)
			}
			row = append(row, cell)
		}
		t.add(row...)
	}
	t.write(&p.b)
}

func ratio(e rundir.Estimate) string {
	cell := maybe(e.Estimate, figure)
	if len(e.Values) > 1 {
		cell += " (" + figure(slices.Min(e.Values)) + " … " + figure(slices.Max(e.Values)) + ")"
	}
	return cell
}

// doubt is what to add to the title of conclusions that cannot be relied on.
func (p *page) doubt() string {
	if p.run.Valid {
		return ""
	}
	return " (of an invalid run)"
}

func (p *page) thresholds() {
	if len(p.run.Thresholds) == 0 {
		return
	}
	p.section("thresholds" + p.doubt())
	t := table{left: []int{1, 2, 3, 4}}
	for rest := p.run.Thresholds; len(rest) > 0; {
		same := rest[:alike(rest)]
		rest = rest[len(same):]
		broken := slices.ContainsFunc(same, func(x rundir.Threshold) bool { return !x.OK })
		if len(same) > mostKept && !broken {
			t.add("ok", Printable(same[0].Text), fmt.Sprintf("all %d variants", len(same)), p.span(same))
			continue
		}
		for _, x := range same {
			outcome := "ok"
			switch {
			case !x.OK && x.Detail != "":
				outcome = "UNDECIDED"
			case !x.OK:
				outcome = "BROKEN"
			}
			t.add(outcome, Printable(x.Text), Printable(x.Variant), p.measured(x.Text, verdict.ForThreshold, x.Measured), Printable(x.Detail))
		}
	}
	t.write(&p.b)
}

// mostKept is how many variants are listed that keep a threshold which all keep.
const mostKept = 3

// alike returns for how many variants in a row the first threshold is listed.
func alike(list []rundir.Threshold) int {
	n := slices.IndexFunc(list, func(x rundir.Threshold) bool { return x.Text != list[0].Text })
	if n < 0 {
		return len(list)
	}
	return n
}

// span writes the lowest and the highest value that was measured.
func (p *page) span(list []rundir.Threshold) string {
	byValue := func(a, b rundir.Threshold) int {
		return cmp.Compare(value(a.Measured), value(b.Measured))
	}
	low, high := slices.MinFunc(list, byValue), slices.MaxFunc(list, byValue)
	from := p.measured(low.Text, verdict.ForThreshold, low.Measured)
	to := p.measured(high.Text, verdict.ForThreshold, high.Measured)
	if from == to {
		return from
	}
	return from + " to " + to
}

func value(v *float64) float64 {
	if v == nil {
		return math.NaN() // sorts before all others, and is written as nothing
	}
	return *v
}

func (p *page) claims() {
	if len(p.run.Claims) == 0 {
		return
	}
	p.section("claims" + p.doubt())
	t := table{head: []string{"", "outcome", "measured", "claim"}, left: []int{1, 2, 3}}
	for _, c := range p.run.Claims {
		says := Printable(c.Says)
		if c.Detail != "" {
			says += " (" + Printable(c.Detail) + ")"
		}
		t.add(Printable(c.ID), Printable(c.Outcome), p.measured(c.Holds, verdict.ForClaim, c.Measured), says)
	}
	t.write(&p.b)
}

// measured writes a measured value in its unit, which the expression knows.
func (p *page) measured(text string, kind verdict.Kind, v *float64) string {
	if v == nil {
		return ""
	}
	var names []string
	for _, x := range p.run.Variants {
		names = append(names, x.Name)
	}
	e, err := verdict.Compile(text, kind, names)
	if err != nil { // it did when the value was measured, so the folder was edited
		return figure(*v)
	}
	switch e.Unit() {
	case "s":
		return Seconds(*v)
	case "B":
		return size(*v)
	case "/s":
		return Count(*v) + "/s"
	}
	return figure(*v)
}

func (p *page) notes() {
	p.section(p.medians())
	for i, text := range p.footnotes {
		p.line("%s", wrap(fmt.Sprintf("[%d] ", i+1), text))
	}
	for _, n := range p.run.Notes {
		if n != verdict.NoIntervals {
			p.line("%s", wrap("", Printable(n)))
		}
	}
}

// medians says what the figures are.
func (p *page) medians() string {
	fewest, most := 0, 0
	for i, v := range p.run.Variants {
		if i == 0 {
			fewest = v.Trials
		}
		fewest, most = min(fewest, v.Trials), max(most, v.Trials)
	}
	const none = "no interval is claimed by this version"
	switch {
	case most == 0:
		return none + ": there are no figures"
	case fewest != most:
		return fmt.Sprintf("%s: values are medians of %d to %d trials, quantiles of all their requests together", none, fewest, most)
	case most == 1:
		return none + ": values are those of one trial each"
	}
	return fmt.Sprintf("%s: values are medians of %d trials, quantiles of all their requests together", none, most)
}

func (p *page) environment() {
	e := p.run.Environment
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, Printable(fmt.Sprintf(format, args...))) }
	if e.Kernel != "" {
		add("%s %s %s", e.OS, e.Kernel, e.Arch)
	} else {
		add("%s %s", e.OS, e.Arch)
	}
	if e.CPUModel != "" {
		add("%s", e.CPUModel)
	}
	add("%s", plural(e.CPUs, "CPU"))
	if e.Virtualization != "" {
		add("%s", e.Virtualization)
	}
	placement := func(who string, list []int) {
		if len(list) == 0 {
			add("%s not placed", who)
		} else {
			add("%s on CPU %s", who, cpus(list))
		}
	}
	placement("target", e.TargetCPUs)
	placement("generator", e.GeneratorCPUs)
	p.section("environment: " + strings.Join(parts, ", "))
	for _, u := range e.Unavailable {
		p.line("not observed: %s", Printable(u))
	}
	version := ""
	if p.run.DynoVersion != "" {
		version = " (dyno " + Printable(p.run.DynoVersion) + ")"
	}
	if len(p.run.Command) > 0 {
		p.line("to reproduce: %s%s", command(p.run.Command), version)
	}
}
