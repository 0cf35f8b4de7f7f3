package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"dyno/internal/texts"
	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/report/layout"
	"dyno/results/rundir"
)

// cell writes a variant's figure in a metric, and explains a missing one.
func (p *page) cell(variant, metric string) string {
	v := *p.Run.Variant(variant)
	e := v.Figure(metric)
	if e.Estimate == nil {
		p.Footnote(fewValues)
		return figure.Unknown
	}
	text := p.Figure(v, metric, figure.UnitOf(metric))
	if noted := p.noted(variant, metric, text); noted != text {
		return noted
	}
	switch {
	case judged.IsFew(v, metric):
		text += " " + p.Footnote(fewBeyond)
	case !figure.Bounded(e):
		text += " " + p.noInterval(v, metric)
	}
	return text
}

// noted adds to a figure why it is not as it is printed.
func (p *page) noted(variant, metric, text string) string {
	s := p.State(metric, variant, "")
	switch s.State {
	case rundir.StateNotIdentified:
		return text + " " + p.Footnote("?: cannot be relied on: "+judged.Because(s).In(texts.English)+judged.Remedied(s))
	case rundir.StateRelative:
		return text + " " + p.Footnote("?: biased, by the same factor for all variants, so that ratios are right: "+judged.Because(s).In(texts.English)+judged.Remedied(s))
	case rundir.StateBounded:
		return text + " " + p.Footnote("the true value lies within the bounds (≤: at most, ≥: at least), whatever happened in the disturbed stretches: "+judged.Because(s).In(texts.English))
	}
	return text
}

// noInterval marks a figure without an interval.
func (p *page) noInterval(v rundir.Variant, metric string) string {
	switch {
	case v.Trials == 1:
		return p.Footnote("one trial: no interval")
	case ofMax(metric):
		return p.Footnote("the largest value seen: no interval, since a longer window would see larger ones")
	}
	return p.Footnote("no interval is claimed for this figure")
}

// columns is a table of variants by metrics. A mark that all columns have goes to the
// corner.
func (p *page) columns(variants []rundir.Variant, heads, metrics []string) layout.Table {
	t := layout.Table{Head: append([]string{""}, heads...)}
	for _, v := range variants {
		row := []string{v.Name}
		for _, m := range metrics {
			row = append(row, p.cell(v.Name, m))
		}
		t.Add(row...)
	}
	for mark, n := range t.Raise() {
		if n == len(t.Head)-1 {
			t.Head[0] = strings.TrimPrefix(mark, " ")
			for i := 1; i < len(t.Head); i++ {
				t.Head[i] = strings.TrimSuffix(t.Head[i], mark)
			}
		}
	}
	return t
}

// figures writes the figures of each variant.
func (p *page) figures() {
	var measured []rundir.Variant
	for _, v := range p.Run.Variants {
		if v.Trials > 0 {
			measured = append(measured, v)
		}
	}
	switch {
	case len(measured) == 0: // nothing, or the probes of a search
	case p.IsProgram():
		p.measures(measured)
	default:
		p.throughput(measured)
		p.latencies(measured)
		p.dimensions(measured)
		p.calls(measured)
		p.costs(measured)
		p.stages(measured)
		p.steps(measured)
	}
}

// dimensions writes the figures by which users compare two servers of the same protocol,
// on one line each. A figure that no trial could have gets no column.
func (p *page) dimensions(variants []rundir.Variant) {
	var heads, metrics []string
	add := func(head, metric string) {
		if !slices.ContainsFunc(variants, func(v rundir.Variant) bool { return v.Known(metric) != nil }) {
			return
		}
		if n := len(heads); n > 0 { // "system calls", and then "per request"
			head = strings.TrimPrefix(head, heads[n-1]+" ")
		}
		heads, metrics = append(heads, head), append(metrics, metric)
	}
	for _, m := range rundir.Shown("dimensions") {
		add(strings.Replace(m.English, "request", p.Per(), 1), m.Name)
		if m.Name == rundir.MetricThroughput {
			clock := p.Clock(variants[0].Name)
			add(clock+" p99", clock+".p99")
		}
	}
	if len(metrics) <= 3 { // those stand in the tables above and below
		return
	}
	p.Section("six dimensions: throughput, tail, connection reuse, CPU, memory, system calls")
	p.Table(p.columns(variants, heads, metrics))
}

// mostValues is how many trials' values are listed.
const mostValues = 12

func (p *page) throughput(variants []rundir.Variant) {
	what := "good responses"
	if p.Per() == "event" {
		what = "events delivered"
	}
	p.Section("throughput, " + what + " per second")
	t := layout.Table{Head: []string{"", "", "by round"}, Left: []int{2}, Prose: true}
	for _, v := range variants {
		t.Add(v.Name, p.cell(v.Name, "throughput"), list(v.Figure(rundir.MetricThroughput).Values, figure.Counts().Write))
	}
	p.Table(t)
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
		switch p.Run.Plan.Variant(v.Name).Loop {
		case "open":
			open = append(open, v)
		case "closed":
			closed = append(closed, v)
		}
	}
	p.tokens(variants)
	p.messages(variants)
	p.addresses(variants)
	if len(streams) > 0 {
		p.streams(streams)
	}
	of := ""
	if p.Per() == "event" {
		of = " of publications"
	}
	if len(open) > 0 {
		p.Section("response time" + of + ", from the intended start to the last byte")
		p.clocks(open, "response", "service")
	}
	if len(closed) > 0 {
		p.Section("service time" + of + " " + p.Footnote(serviceOnly))
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
		if delay := v.Known(rundir.TagReadDelay + ".p50"); delay != nil {
			p50 = append(p50, *delay)
		}
		if delay := v.Known(rundir.TagReadDelay + ".p99"); delay != nil {
			p99 = append(p99, *delay)
		}
	}
	switch {
	case len(share) == 0:
	case !clock:
		p.Line("responses end when they were read, so they include delays of the generator")
	default:
		line := "responses end on arrival, by the kernel's stamp (" + extremes(share, arrived) + " of them)"
		if len(p50) > 0 {
			line += "; read p50 " + extremes(p50, figure.Seconds)
		}
		if len(p99) > 0 {
			line += ", p99 " + extremes(p99, figure.Seconds)
		}
		p.Line("%s", line)
	}
}

// arrived writes the share of responses that ended by arrival; 100 % only if all did.
func arrived(share float64) string {
	if share < 1 && share > 0.9995 {
		return "> 99.9%"
	}
	return figure.Percent(share)
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
		timed := slices.ContainsFunc([]string{rundir.TagFirstMessage, rundir.TagMessageGap, rundir.TagMessage}, func(tag string) bool { return v.Known(tag+".max") != nil })
		return !timed && v.Messages == nil
	})
	if len(variants) == 0 {
		return
	}
	counted := layout.Table{Head: []string{"", "received", "per second"}}
	for _, v := range variants {
		if m := v.Messages; m != nil {
			counted.Add(v.Name, figure.Whole(m.Count), figure.Maybe(v.Known(rundir.MetricMessageRate), figure.PerSecond))
		}
	}
	if len(counted.Rows) > 0 {
		p.Section("messages of responses, in the window")
		p.Table(counted)
	}
	p.Section("messages: the first of a response, from the write of the request; gaps between those of a stream; answers, from when the message was due that they answer")
	p.Table(p.columns(variants,
		[]string{"first p50", "first p99", "gap p50", "gap p99", "gap max", "answer p50", "answer p99", "answer p99.9", "answer max"},
		[]string{"first_message.p50", "first_message.p99", "message_gap.p50", "message_gap.p99", "message_gap.max",
			"message.p50", "message.p99", "message.p999", "message.max"}))
}

// addresses writes what each address of a target's name was loaded with, where there are several.
func (p *page) addresses(variants []rundir.Variant) {
	t := layout.Table{Head: []string{"", "address", "connections", "not opened", "requests", "failed"}, Left: []int{1}}
	for _, v := range variants {
		if v.Loaded == nil || len(v.Loaded.Addresses) < 2 {
			continue
		}
		for _, a := range v.Loaded.Addresses {
			name := figure.Printable(a.Address)
			if a.Unreachable != "" {
				name += " (" + figure.Printable(a.Unreachable) + ")"
			}
			t.Add(v.Name, name, figure.Whole(a.Opened), figure.Whole(a.Failed), figure.Whole(a.Requests), figure.Whole(a.Bad))
		}
	}
	if len(t.Rows) > 0 {
		p.Section("addresses of the target's name")
		p.Table(t)
	}
}

// tokens writes the figures of answers of language models.
func (p *page) tokens(variants []rundir.Variant) {
	variants = slices.DeleteFunc(slices.Clone(variants), func(v rundir.Variant) bool { return v.Tokens == nil })
	if len(variants) == 0 {
		return
	}
	p.Section("answers of the language model: tokens per second, of answers and of prompts; answers per second within the goal; the first token, from when the request was due; the time per token after it")
	head := []string{"tokens/s", "of prompts", "goodput", "first p50", "first p99", "first max", "token p50", "token p99", "token max"}
	metrics := []string{"tokens_per_second", "prompt_tokens_per_second", "goodput", "first_token.p50", "first_token.p99", "first_token.max", "token_time.p50", "token_time.p99", "token_time.max"}
	if !slices.ContainsFunc(variants, func(v rundir.Variant) bool { return v.Known(rundir.MetricPromptRate) != nil }) {
		head, metrics = slices.Delete(head, 1, 2), slices.Delete(metrics, 1, 2)
	}
	p.Table(p.columns(variants, head, metrics))
}

// streams writes the times of subscribers, and what became of events.
func (p *page) streams(variants []rundir.Variant) {
	p.Section("delivery of events, from when they were due, or as the target stamped them, to the subscriber")
	p.Table(p.columns(variants,
		[]string{"p50", "p99", "p99.9", "max", "gap p50", "gap p99", "first event p50", "opening p50", "opening p99"},
		[]string{"delivery.p50", "delivery.p99", "delivery.p999", "delivery.max", "event_gap.p50", "event_gap.p99",
			"first_event.p50", "opening.p50", "opening.p99"}))
	p.Section("events by outcome")
	t := layout.Table{Head: []string{""}}
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
		t.Head = append(t.Head, c.head)
	}
	for _, v := range variants {
		row := []string{v.Name}
		for _, c := range counted {
			if slices.Contains(t.Head, c.head) {
				row = append(row, figure.Whole(c.of(v.Streams)))
			}
		}
		t.Add(row...)
	}
	p.Table(t)
	for _, v := range variants {
		s := v.Streams
		p.Line("subscriptions of %s: %s asked for, %s at once, %s accepted, %s attempts failed, %s ended by the target",
			v.Name, figure.Whole(s.Requested), figure.Whole(s.Peak), figure.Whole(s.Opened), figure.Whole(s.Failed), figure.Whole(s.Ended))
		if slow := s.Slow; slow != nil {
			p.Line("slow subscribers of %s: %s events read, %s subscriptions ended by the target, %s gap events, %s events missing but announced, %s missing",
				v.Name, figure.Whole(slow.Delivered), figure.Whole(slow.Ended), figure.Whole(slow.Gaps), figure.Whole(slow.Announced), figure.Whole(slow.Missing))
		}
	}
}

func (p *page) clocks(variants []rundir.Variant, first, other string) {
	p.Table(p.columns(variants,
		[]string{"p50", "p99", "p99.9", "max", other + " p50", other + " p99", "send lag p50", "send lag p99"},
		[]string{first + ".p50", first + ".p99", first + ".p999", first + ".max", other + ".p50", other + ".p99", "send_lag.p50", "send_lag.p99"}))
}

func (p *page) costs(variants []rundir.Variant) {
	p.Section("errors, and cost per " + p.Per())
	t := p.columns(variants,
		[]string{"target CPU", "target busy", "target RSS", "generator CPU", "generator busy"},
		[]string{"target.cpu_per_request", "target.cpu_share", "target.rss", "generator.cpu_per_request", "generator.cpu_share"})
	t.Head = slices.Insert(t.Head, 1, "errors") // they are counted, not estimated
	var lines []string
	for i, v := range variants {
		byKind, ratio := v.Counts.Failures()
		t.Rows[i] = slices.Insert(t.Rows[i], 1, failures(v.Counts.Unanswered(), ratio))
		if len(byKind) > 0 {
			lines = append(lines, v.Name+": "+kinds(byKind))
		}
	}
	p.Table(t)
	for _, l := range lines {
		p.Line("errors of %s", l)
	}
}

// failures writes how many requests failed.
func failures(total int64, ratio *float64) string {
	switch {
	case ratio == nil:
		return figure.Unknown
	case total == 0:
		return "0"
	}
	return figure.Whole(total) + " (" + figure.Percent(*ratio) + ")"
}

// kinds lists counts by name, the largest first.
func kinds(counts map[string]int64) string {
	var parts []string
	for _, k := range judged.MostFrequent(counts) {
		parts = append(parts, k+" "+figure.Whole(counts[k]))
	}
	return strings.Join(parts, ", ")
}

// measures writes the figures that programs printed. Variants may run programs that print
// different figures. Each figure therefore has a table row for the variants that have it.
func (p *page) measures(variants []rundir.Variant) {
	p.Section("what the programs printed")
	names := map[string]bool{}
	for _, v := range variants {
		for name := range v.Figures {
			names[name] = names[name] || strings.HasPrefix(name, rundir.OfPrograms)
		}
	}
	t := layout.Table{Head: []string{"", "", "by round"}, Left: []int{2}, Prose: true}
	maps.DeleteFunc(names, func(_ string, printed bool) bool { return !printed })
	for _, name := range slices.Sorted(maps.Keys(names)) {
		t.Add(name)
		for _, v := range variants {
			if e, ok := v.Figures[name]; ok {
				t.Add("  "+v.Name, p.cell(v.Name, name), list(e.Values, figure.UnitOf(name).Write))
			}
		}
	}
	p.Table(t)
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
	for _, c := range p.Run.Comparisons {
		note(c.Ratio)
	}
	for _, t := range p.Run.Trends {
		note(t.Slope)
	}
	for _, v := range p.Run.Variants {
		note(v.Figures[rundir.MetricThroughput])
		for _, name := range slices.Sorted(maps.Keys(v.Figures)) {
			note(v.Figures[name])
		}
	}
	var lines []string
	for _, confidence := range slices.Sorted(maps.Keys(found)) {
		lines = append(lines, figure.Digits(100*confidence)+"% intervals: "+strings.Join(found[confidence], "; "))
	}
	fewest, most := math.MaxInt, 0
	for _, v := range p.Run.Variants {
		fewest, most = min(fewest, v.Trials), max(most, v.Trials)
	}
	switch {
	case most == 0 && len(p.Run.Capacities) == 0:
		lines = append(lines, "no trial was completed: there are no figures")
	case p.IsQuick() && most == 1:
		lines = append(lines, "one trial: no interval")
	}
	return lines
}
