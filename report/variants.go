package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"dyno/internal/texts"
	"dyno/results/rundir"
)

// estimate returns a variant's figure in a metric, with its interval if that is
// known.
func (p *page) estimate(v rundir.Variant, metric string) rundir.Estimate {
	switch {
	case metric == "throughput":
		return v.Throughput
	case metric == "capacity":
		for _, c := range p.run.Capacities {
			if c.Variant == v.Name {
				return c.Rate
			}
		}
		return rundir.Estimate{}
	case strings.HasPrefix(metric, rundir.OfPrograms):
		return v.Measures[strings.TrimPrefix(metric, rundir.OfPrograms)]
	}
	if e, ok := v.Intervals[metric]; ok {
		return e
	}
	return rundir.Estimate{Estimate: summary(v, metric)}
}

// summary is a figure of a variant that is stored next to its intervals.
func summary(v rundir.Variant, metric string) *float64 {
	if of, step := rundir.SplitStep(metric); step != "" {
		return summary(ofStep(v, step), of)
	}
	if metric == "throughput" {
		return v.Throughput.Estimate
	}
	if c, ok := rundir.ClockOf(metric); ok {
		_, of, _ := strings.Cut(metric, ".")
		return v.Times(c.Tag).Summary(of)
	}
	if t := v.Tokens; t != nil {
		if rate, ok := map[string]*float64{"tokens_per_second": t.PerSecond, "prompt_tokens_per_second": t.PromptPerSecond, "goodput": t.Goodput}[metric]; ok {
			return rate
		}
	}
	return map[string]*float64{
		"errors.ratio":                  v.Errors.Ratio,
		"target.cpu_per_request":        v.Target.CPUSecondsPerRequest,
		"target.cpu_share":              v.Target.CPUShare,
		"target.rss":                    float(v.Target.RSSBytes),
		"target.user_share":             v.Target.UserShare,
		"target.connection_reuse_ratio": v.Target.ConnectionReuseRatio,
		"target.syscalls_per_second":    v.Target.SyscallsPerSecond,
		"target.syscalls_per_request":   v.Target.SyscallsPerRequest,
		"generator.cpu_per_request":     v.Generator.CPUSecondsPerRequest,
		"generator.cpu_share":           v.Generator.CPUShare,
	}[metric]
}

func float(n *int64) *float64 {
	if n == nil {
		return nil
	}
	f := float64(*n)
	return &f
}

// cell writes a variant's figure in a metric, and explains a missing one.
func (p *page) cell(variant, metric string) string {
	for _, v := range p.run.Variants {
		if v.Name != variant {
			continue
		}
		e := p.estimate(v, metric)
		if e.Estimate == nil {
			p.footnote(fewValues)
			return unknown
		}
		s := p.state(metric, variant, "")
		text := p.figure(v, metric, unitOf(metric))
		switch s.State {
		case rundir.StateNotIdentified:
			return text + " " + p.footnote("?: cannot be relied on: "+because(s).In(texts.English)+remedied(s))
		case rundir.StateRelative:
			return text + " " + p.footnote("?: biased, by the same factor for all variants, so that ratios are right: "+because(s).In(texts.English)+remedied(s))
		case rundir.StateBounded:
			return text + " " + p.footnote("the true value lies within the bounds (≤: at most, ≥: at least), whatever happened in the disturbed stretches: "+because(s).In(texts.English))
		}
		switch {
		case few(v, metric):
			text += " " + p.footnote(fewBeyond)
		case !bounded(e):
			text += " " + p.noInterval(v, metric)
		}
		return text
	}
	return unknown
}

// noInterval marks a figure without an interval.
func (p *page) noInterval(v rundir.Variant, metric string) string {
	switch {
	case v.Trials == 1:
		return p.footnote("one trial: no interval")
	case ofMax(metric):
		return p.footnote("the largest value seen: no interval, since a longer window would see larger ones")
	}
	return p.footnote("no interval is claimed for this figure")
}

// columns is a table of variants by metrics. A mark that all columns have goes to the
// corner.
func (p *page) columns(variants []rundir.Variant, heads, metrics []string) table {
	t := table{head: append([]string{""}, heads...)}
	for _, v := range variants {
		row := []string{v.Name}
		for _, m := range metrics {
			row = append(row, p.cell(v.Name, m))
		}
		t.add(row...)
	}
	for mark, n := range t.raise() {
		if n == len(t.head)-1 {
			t.head[0] = strings.TrimPrefix(mark, " ")
			for i := 1; i < len(t.head); i++ {
				t.head[i] = strings.TrimSuffix(t.head[i], mark)
			}
		}
	}
	return t
}

// raise moves a mark that all figures of a column have to its head, and counts the columns
// of each mark. A row with fewer cells is a title.
func (t *table) raise() map[string]int {
	marks := map[string]int{}
	for i := 1; i < len(t.head); i++ {
		mark, same := "", true
		for _, row := range t.rows {
			if i >= len(row) {
				continue
			}
			at := strings.LastIndex(row[i], " [")
			if at < 0 {
				same = same && row[i] == unknown
				continue
			}
			same = same && (mark == "" || mark == row[i][at:])
			mark = row[i][at:]
		}
		if !same || mark == "" {
			continue
		}
		t.head[i] += mark
		marks[mark]++
		for _, row := range t.rows {
			if i < len(row) {
				row[i] = strings.TrimSuffix(row[i], mark)
			}
		}
	}
	return marks
}

// figures writes the figures of each variant.
func (p *page) figures() {
	var measured []rundir.Variant
	for _, v := range p.run.Variants {
		if v.Trials > 0 {
			measured = append(measured, v)
		}
	}
	switch {
	case len(measured) == 0: // nothing, or the probes of a search
	case p.isProgram():
		p.measures(measured)
	default:
		p.throughput(measured)
		p.latencies(measured)
		p.dimensions(measured)
		p.costs(measured)
		p.steps(measured)
	}
}

// dimensions writes the figures by which users compare two servers of the same protocol,
// on one line each. A figure that no trial could have gets no column.
func (p *page) dimensions(variants []rundir.Variant) {
	latency := p.latency(variants[0].Name)
	var heads, metrics []string
	for _, d := range []struct{ head, metric string }{
		{"throughput", "throughput"},
		{latency + " p99", latency + ".p99"},
		{"connection reuse", "target.connection_reuse_ratio"},
		{"CPU in user mode", "target.user_share"},
		{"resident memory", "target.rss"},
		{"system calls", "target.syscalls_per_second"},
		{"per " + p.unit(), "target.syscalls_per_request"},
	} {
		known := func(v rundir.Variant) bool { return p.estimate(v, d.metric).Estimate != nil }
		if slices.ContainsFunc(variants, known) {
			heads, metrics = append(heads, d.head), append(metrics, d.metric)
		}
	}
	if len(metrics) <= 3 { // those stand in the tables above and below
		return
	}
	p.section("six dimensions: throughput, tail, connection reuse, CPU, memory, system calls")
	p.table(p.columns(variants, heads, metrics))
}

// mostValues is how many trials' values are listed.
const mostValues = 12

func (p *page) throughput(variants []rundir.Variant) {
	what := "good responses"
	if p.unit() == "event" {
		what = "events delivered"
	}
	p.section("throughput, " + what + " per second")
	t := table{head: []string{"", "", "by round"}, left: []int{2}, prose: true}
	for _, v := range variants {
		t.add(v.Name, p.cell(v.Name, "throughput"), list(v.Throughput.Values, counts().Write))
	}
	p.table(t)
}

func list(values []float64, write func(float64) string) string {
	var cells []string
	for i, v := range values {
		if i == mostValues {
			cells = append(cells, fmt.Sprintf("… and %d more", len(values)-i))
			break
		}
		cells = append(cells, write(v))
	}
	return strings.Join(cells, " ")
}

// latencies writes the times. The first group of columns is the time that the loop can
// know: the response time of an open loop, and the service time of a closed one.
func (p *page) latencies(variants []rundir.Variant) {
	var open, closed, streams []rundir.Variant
	for _, v := range variants {
		if v.Streams != nil {
			streams = append(streams, v)
		}
		switch p.run.Plan.Variant(v.Name).Loop {
		case "open":
			open = append(open, v)
		case "closed":
			closed = append(closed, v)
		}
	}
	p.tokens(variants)
	p.messages(variants)
	if len(streams) > 0 {
		p.streams(streams)
	}
	of := ""
	if p.unit() == "event" {
		of = " of publications"
	}
	if len(open) > 0 {
		p.section("response time" + of + ", from the intended start to the last byte")
		p.clocks(open, "response", "service")
	}
	if len(closed) > 0 {
		p.section("service time" + of + " " + p.footnote(serviceOnly))
		p.clocks(closed, "service", "response")
	}
	p.ends(variants)
}

// ends says in one line what ended responses and events, and how late the generator read
// them. If there are several variants, it gives the extremes.
func (p *page) ends(variants []rundir.Variant) {
	var share, p50, p99 []float64
	var clock bool
	for _, v := range variants {
		if v.Ends == nil || v.Ends.ArrivalShare == nil {
			continue
		}
		share = append(share, *v.Ends.ArrivalShare)
		clock = clock || v.Ends.ByArrival > 0
		if q := v.ReadDelay; q.P50 != nil {
			p50 = append(p50, *q.P50)
		}
		if q := v.ReadDelay; q.P99 != nil {
			p99 = append(p99, *q.P99)
		}
	}
	switch {
	case len(share) == 0:
	case !clock:
		p.line("responses end when they were read, so they include delays of the generator")
	default:
		line := "responses end on arrival, by the kernel's stamp (" + extremes(share, arrived) + " of them)"
		if len(p50) > 0 {
			line += "; read p50 " + extremes(p50, Seconds)
		}
		if len(p99) > 0 {
			line += ", p99 " + extremes(p99, Seconds)
		}
		p.line("%s", line)
	}
}

// arrived writes the share of responses that ended by arrival; 100 % only if all did.
func arrived(share float64) string {
	if share < 1 && share > 0.9995 {
		return "> 99.9%"
	}
	return percent(share)
}

// extremes writes the least and the most of some figures.
func extremes(figures []float64, write func(float64) string) string {
	low, high := write(slices.Min(figures)), write(slices.Max(figures))
	if low == high {
		return low
	}
	return low + " to " + high
}

// messages writes the times of messages, of requests and responses that consist of several.
func (p *page) messages(variants []rundir.Variant) {
	variants = slices.DeleteFunc(slices.Clone(variants), func(v rundir.Variant) bool {
		return v.FirstMessage.Count+v.MessageGap.Count+v.Message.Count == 0
	})
	if len(variants) == 0 {
		return
	}
	p.section("messages: the first of a response, from the write of the request; gaps between those of a stream; answers, from when the message was due that they answer")
	p.table(p.columns(variants,
		[]string{"first p50", "first p99", "gap p50", "gap p99", "gap max", "answer p50", "answer p99", "answer p99.9", "answer max"},
		[]string{"first_message.p50", "first_message.p99", "message_gap.p50", "message_gap.p99", "message_gap.max",
			"message.p50", "message.p99", "message.p999", "message.max"}))
}

// tokens writes the figures of answers of language models.
func (p *page) tokens(variants []rundir.Variant) {
	variants = slices.DeleteFunc(slices.Clone(variants), func(v rundir.Variant) bool { return v.Tokens == nil })
	if len(variants) == 0 {
		return
	}
	p.section("answers of the language model: tokens per second, of answers and of prompts; answers per second within the goal; the first token, from when the request was due; the time per token after it")
	head := []string{"tokens/s", "of prompts", "goodput", "first p50", "first p99", "first max", "token p50", "token p99", "token max"}
	metrics := []string{"tokens_per_second", "prompt_tokens_per_second", "goodput", "first_token.p50", "first_token.p99", "first_token.max", "token_time.p50", "token_time.p99", "token_time.max"}
	if !slices.ContainsFunc(variants, func(v rundir.Variant) bool { return v.Tokens.PromptPerSecond != nil }) {
		head, metrics = slices.Delete(head, 1, 2), slices.Delete(metrics, 1, 2)
	}
	p.table(p.columns(variants, head, metrics))
}

// streams writes the times of subscribers, and what became of events.
func (p *page) streams(variants []rundir.Variant) {
	p.section("delivery of events, from when they were due, or as the target stamped them, to the subscriber")
	p.table(p.columns(variants,
		[]string{"p50", "p99", "p99.9", "max", "gap p50", "gap p99", "first event p50", "opening p50", "opening p99"},
		[]string{"delivery.p50", "delivery.p99", "delivery.p999", "delivery.max", "event_gap.p50", "event_gap.p99",
			"first_event.p50", "opening.p50", "opening.p99"}))
	p.section("events by outcome")
	t := table{head: []string{""}}
	counted := []struct {
		head   string
		of     func(*rundir.Streams) int64
		always bool
	}{
		{"delivered", func(s *rundir.Streams) int64 { return s.AllDelivered }, true},
		{"lost", func(s *rundir.Streams) int64 { return s.Lost }, true},
		{"repeated", func(s *rundir.Streams) int64 { return s.Repeated }, true},
		{"out of order", func(s *rundir.Streams) int64 { return s.Disordered }, true},
		{"missing but announced", func(s *rundir.Streams) int64 { return s.Announced }, false},
		{"gap events", func(s *rundir.Streams) int64 { return s.Gaps }, false},
		{"perhaps not published", func(s *rundir.Streams) int64 { return s.Uncertain }, false},
		{"still to come", func(s *rundir.Streams) int64 { return s.Pending }, false},
		{"not numbered", func(s *rundir.Streams) int64 { return s.Unstamped + s.Untracked }, false},
		{"reconnections", func(s *rundir.Streams) int64 { return s.Reconnects }, false},
	}
	for _, c := range counted {
		some := func(v rundir.Variant) bool { return c.of(v.Streams) > 0 }
		if !c.always && !slices.ContainsFunc(variants, some) {
			continue
		}
		t.head = append(t.head, c.head)
	}
	for _, v := range variants {
		row := []string{v.Name}
		for _, c := range counted {
			if slices.Contains(t.head, c.head) {
				row = append(row, whole(c.of(v.Streams)))
			}
		}
		t.add(row...)
	}
	p.table(t)
	for _, v := range variants {
		s := v.Streams
		p.line("subscriptions of %s: %s asked for, %s at once, %s accepted, %s attempts failed, %s ended by the target",
			v.Name, whole(s.Requested), whole(s.Peak), whole(s.Opened), whole(s.Failed), whole(s.Ended))
		if slow := s.Slow; slow != nil {
			p.line("slow subscribers of %s: %s events read, %s subscriptions ended by the target, %s gap events, %s events missing but announced, %s missing",
				v.Name, whole(slow.Delivered), whole(slow.Ended), whole(slow.Gaps), whole(slow.Announced), whole(slow.Missing))
		}
	}
}

func (p *page) clocks(variants []rundir.Variant, first, other string) {
	p.table(p.columns(variants,
		[]string{"p50", "p99", "p99.9", "max", other + " p50", other + " p99", "send lag p50", "send lag p99"},
		[]string{first + ".p50", first + ".p99", first + ".p999", first + ".max", other + ".p50", other + ".p99", "send_lag.p50", "send_lag.p99"}))
}

func (p *page) costs(variants []rundir.Variant) {
	p.section("errors, and cost per " + p.unit())
	t := p.columns(variants,
		[]string{"target CPU", "target busy", "target RSS", "generator CPU", "generator busy"},
		[]string{"target.cpu_per_request", "target.cpu_share", "target.rss", "generator.cpu_per_request", "generator.cpu_share"})
	t.head = slices.Insert(t.head, 1, "errors") // they are counted, not estimated
	var lines []string
	for i, v := range variants {
		t.rows[i] = slices.Insert(t.rows[i], 1, failures(v.Errors))
		if len(v.Errors.ByKind) > 0 {
			lines = append(lines, v.Name+": "+kinds(v.Errors.ByKind))
		}
	}
	p.table(t)
	for _, l := range lines {
		p.line("errors of %s", l)
	}
}

// failures writes how many requests failed.
func failures(e rundir.Errors) string {
	switch {
	case e.Ratio == nil:
		return unknown
	case e.Total == 0:
		return "0"
	}
	return whole(e.Total) + " (" + percent(*e.Ratio) + ")"
}

// kinds lists counts by name, the largest first.
func kinds(counts map[string]int64) string {
	var parts []string
	for _, k := range descending(counts) {
		parts = append(parts, k+" "+whole(counts[k]))
	}
	return strings.Join(parts, ", ")
}

func descending(counts map[string]int64) []string {
	keys := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	return keys
}

// measures writes the figures that programs printed. Variants may run programs that print
// different figures. Each figure therefore has a table row for the variants that have it.
func (p *page) measures(variants []rundir.Variant) {
	p.section("what the programs printed")
	names := map[string]bool{}
	for _, v := range variants {
		for name := range v.Measures {
			names[name] = true
		}
	}
	t := table{head: []string{"", "", "by round"}, left: []int{2}, prose: true}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		t.add(rundir.OfPrograms + name)
		for _, v := range variants {
			if e, ok := v.Measures[name]; ok {
				t.add("  "+v.Name, p.cell(v.Name, rundir.OfPrograms+name), list(e.Values, unitOf(rundir.OfPrograms+name).Write))
			}
		}
	}
	p.table(t)
}

// methods says how the intervals were made.
func (p *page) methods() []string {
	found := map[float64][]string{} // by confidence
	note := func(e rundir.Estimate) {
		if e.Estimate == nil || e.Low == nil && e.High == nil || e.Interval == "" || e.Interval == rundir.NoInterval {
			return
		}
		if !slices.Contains(found[e.Confidence], e.Interval) {
			found[e.Confidence] = append(found[e.Confidence], e.Interval)
		}
	}
	for _, c := range p.run.Comparisons {
		note(c.Ratio)
	}
	for _, c := range p.run.Capacities {
		note(c.Rate)
	}
	for _, t := range p.run.Trends {
		note(t.Slope)
	}
	for _, v := range p.run.Variants {
		note(v.Throughput)
		for _, name := range slices.Sorted(maps.Keys(v.Measures)) {
			note(v.Measures[name])
		}
		for _, name := range slices.Sorted(maps.Keys(v.Intervals)) {
			note(v.Intervals[name])
		}
	}
	var lines []string
	for _, confidence := range slices.Sorted(maps.Keys(found)) {
		lines = append(lines, digits(100*confidence)+"% intervals: "+strings.Join(found[confidence], "; "))
	}
	fewest, most := math.MaxInt, 0
	for _, v := range p.run.Variants {
		fewest, most = min(fewest, v.Trials), max(most, v.Trials)
	}
	switch {
	case most == 0 && len(p.run.Capacities) == 0:
		lines = append(lines, "no trial was completed: there are no figures")
	case p.isQuick() && most == 1:
		lines = append(lines, "one trial: no interval")
	}
	return lines
}
