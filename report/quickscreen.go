package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/verdict"
	"dyno/results/rundir"
)

// quickLines is how many lines the screen of a quick load has at most.
const quickLines = 14

// A quickRow is a line of it: a name and what belongs to it, in items that are never broken, or
// prose. Rows are left out for want of lines, those with the highest spare first; never those with 0.
type quickRow struct {
	name, separator string
	items           []string
	prose           string
	spare           int
}

// quickScreen is the screen of a quick load: what was done, what was measured, and below it how
// far that can be trusted.
func (p *page) quickScreen(a Answer) []string {
	v := &p.run.Variants[0]
	trial := p.only(v.Name)
	rows := append(p.quickRows(v, trial), p.quickFindings(a)...)
	return p.laidOut(p.requested(v), p.setting(v, trial), rows, p.quickNotes(a, v))
}

// laidOut makes a screen of what was requested, how, rows of figures, and notes below them. It
// leaves out what there is no line for.
func (p *page) laidOut(requested string, setting []string, rows, notes []quickRow) []string {
	for rowLines := 2; ; {
		lines := p.wrapItems("", []string{requested, strings.Join(setting, " · ")}, "   ", rowLines)
		for _, s := range said(p.unfinished()) {
			lines = append(lines, p.wrapped("", s, rowLines)...)
		}
		lines = append(lines, "")
		for _, r := range rows {
			mark := fmt.Sprintf("  %-13s ", r.name)
			if r.prose != "" {
				lines = append(lines, p.wrapped(mark, r.prose, rowLines)...)
			} else {
				lines = append(lines, p.wrapItems(mark, r.items, r.separator, rowLines)...)
			}
		}
		if len(notes) > 0 {
			lines = append(lines, "")
		}
		for _, n := range notes {
			lines = append(lines, p.wrapped("  ", n.prose, rowLines)...)
		}
		most := max(mostSpare(rows), mostSpare(notes))
		drop := func(r quickRow) bool { return r.spare == most }
		switch {
		case len(lines) <= quickLines || p.width == 0 && most == 0 || rowLines == 0:
			return lines
		case most > 0:
			rows, notes = slices.DeleteFunc(rows, drop), slices.DeleteFunc(notes, drop)
		default:
			rowLines--
		}
	}
}

// quickNotes are the sentences below the figures.
func (p *page) quickNotes(a Answer, v *rundir.Variant) (notes []quickRow) {
	note := func(spare int, text string) { notes = append(notes, quickRow{prose: text, spare: spare}) }
	for i, s := range p.quickTrust(v) {
		note(3*i, s)
	}
	switch {
	case a.Next != nil:
		note(1, sentence(a.Next.In(texts.English)))
	case p.run.Plan.Variant(v.Name).Loop == "closed" && v.Counts.OK > 0:
		note(4, fmt.Sprintf("A closed loop hides what slow answers delay (coordinated omission): try --rate %d.", tryRate(v.Throughput.Estimate)))
	}
	if a.Rest != nil {
		note(5, "Everything: "+a.Rest.In(texts.English))
	}
	return notes
}

func mostSpare(rows []quickRow) (most int) {
	for _, r := range rows {
		most = max(most, r.spare)
	}
	return most
}

// sentence begins a text in upper case and ends it with a full stop.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	text = strings.ToUpper(string(first)) + text[size:]
	if strings.HasSuffix(text, ".") || strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}

// tryRate is about three quarters of what a closed loop reached, in one digit.
func tryRate(throughput *float64) int {
	if throughput == nil || *throughput < 2 {
		return 1
	}
	rate := 0.75 * *throughput
	step := math.Pow(10, math.Floor(math.Log10(rate)))
	return int(math.Max(1, math.Floor(rate/step)*step))
}

// requested is what was sent, and to whom.
func (p *page) requested(v *rundir.Variant) string {
	return Printable(cmp.Or(p.run.Plan.Variant(v.Name).Request, p.title()))
}

// setting says how it was sent: the protocol that was spoken, connections, loop and time.
func (p *page) setting(v *rundir.Variant, trial *rundir.Trial) []string {
	plan := p.run.Plan.Variant(v.Name)
	var items []string
	if trial != nil {
		version := version(p.run.Plan.Protocol, &trial.Connections)
		if trial.Streams != nil && trial.Streams.Opened > 0 {
			version = "HTTP/1.1" // in which events are
		}
		if version != "" {
			items = append(items, version)
		}
		if trial.TLS != nil && len(trial.TLS.Agreed) > 0 {
			items = append(items, trial.TLS.Agreed[0].Version)
		}
	}
	if plan.Subscribers > 0 {
		items = append(items, plural(plan.Subscribers, "subscriber"))
	}
	if v.Users != nil {
		users := plural(int(v.Users.Count), "user")
		if plan.Loop == "open" { // whoever is free begins the next iteration
			users = "at most " + users
		}
		items = append(items, users)
	}
	connections := plural(plan.Connections, "connection")
	if trial != nil && trial.Connections.Streams > 1 {
		connections += " × " + plural(int(trial.Connections.Streams), "stream")
	}
	switch {
	case plan.Loop == "stream":
	case plan.Loop != "open":
		items = append(items, connections, "closed loop")
	case plan.Rate != nil:
		rate := whole(int64(math.Round(*plan.Rate)))
		if v.Users != nil {
			rate += " iterations"
		}
		items = append(items, rate+"/s", "at most "+connections)
	default:
		items = append(items, "open loop", "at most "+connections)
	}
	if plan.WindowSeconds > 0 {
		items = append(items, units.FormatSeconds(plan.WindowSeconds))
	} else if trial != nil {
		items = append(items, Seconds(trial.WindowSeconds))
	}
	if plan.WarmupSeconds > 0 {
		items = append(items, "after "+units.FormatSeconds(plan.WarmupSeconds)+" of warm-up")
	}
	return items
}

// version is the protocol that connections spoke, as people write it; empty where there is none
// to tell.
func version(protocol string, c *rundir.Connections) string {
	if protocol == "tcp" || c.Opened == 0 {
		return ""
	}
	spoken := "HTTP/1.1"
	switch c.Multiplexed {
	case 0:
	case c.Opened:
		spoken = "HTTP/2"
	default:
		spoken = "HTTP/1.1 and HTTP/2"
	}
	if protocol == "grpc" {
		return "gRPC over " + spoken
	}
	return spoken
}

// quickRows are what was measured.
func (p *page) quickRows(v *rundir.Variant, trial *rundir.Trial) (rows []quickRow) {
	add := func(spare int, name string, items ...string) {
		for i := range items {
			items[i] = Printable(items[i])
		}
		if len(items) > 0 {
			rows = append(rows, quickRow{name: name, separator: " · ", items: items, spare: spare})
		}
	}
	c := &v.Counts
	rate := "–"
	if x := v.Throughput.Estimate; x != nil {
		rate = marked(p.mark(*v, "throughput"), PerSecond(*x))
	}
	what := "requests/s"
	if v.Streams != nil {
		what = "events/s"
	}
	var amounts []string
	if p.run.Plan.Variant(v.Name).Loop != "stream" {
		amounts = []string{whole(c.OK) + " ok", whole(c.Sent-c.OK-c.Unfinished) + " failed"}
		if c.Unfinished > 0 {
			amounts = append(amounts, whole(c.Unfinished)+" unfinished")
		}
		if c.Dropped > 0 {
			amounts = append(amounts, whole(c.Dropped)+" dropped")
		}
		if verdict.MostFailing(p.run) != nil {
			amounts = append(amounts, "succeeded "+percent(1-*v.Errors.Ratio))
		}
	}
	if trial != nil && trial.WindowSeconds > 0 && c.ReceivedBytes > 0 {
		amounts = append(amounts, sizes().Write(float64(c.ReceivedBytes)/trial.WindowSeconds)+"/s received")
	}
	if len(amounts) > 0 {
		amounts[0] = fmt.Sprintf("%-12s  %s", rate, amounts[0])
	} else {
		amounts = []string{rate}
	}
	rows = append(rows, quickRow{name: what, separator: " · ", items: amounts})

	if t := v.Tokens; t != nil {
		tokens := []string{p.figure(*v, "tokens_per_second", counts()) + " tokens/s"}
		if t.PromptPerSecond != nil {
			tokens = append(tokens, p.figure(*v, "prompt_tokens_per_second", counts())+" tokens/s of prompts")
		}
		add(2, "tokens", append(tokens, "goodput "+p.figure(*v, "goodput", counts())+" answers/s within the goal")...)
	}
	for i, clock := range p.quickClocks(v) {
		rows = append(rows, quickRow{name: clock.name, separator: "  ", items: p.quantiles(v, clock.tag), spare: min(i, 1) * clock.spare})
	}
	add(0, "status", p.statuses(v, trial)...)
	if n := c.Redirects; n != nil {
		add(1, "redirects", whole(*n)+" followed")
	}
	add(0, "errors", p.errorKinds(v, trial)...)
	if s := v.Streams; s != nil {
		add(1, "subscribers", whole(s.Opened)+" accepted", whole(s.Peak)+" at once", whole(s.Failed)+" attempts failed", whole(s.Lost)+" events lost")
	} else if trial != nil {
		k := &trial.Connections
		spare := 0
		if k.Failed == 0 {
			spare = 2
		}
		items := []string{whole(k.Opened) + " opened", whole(k.Failed) + " failed"}
		if reuse := v.Target.ConnectionReuseRatio; reuse != nil && k.Opened > k.Requested {
			items = append(items, percent(*reuse)+" of the "+p.sent()+" on a reused one")
		}
		if k.Refused > 0 {
			items = append(items, whole(k.Refused)+" requests refused, "+whole(k.Resent)+" sent again")
		}
		add(spare, "connections", items...)
	}
	if trial != nil && trial.TLS != nil {
		handshakes, agreed := secured(trial.TLS, &v.Handshake)
		add(6, "handshakes", append([]string{handshakes}, agreed...)...)
	}
	if len(v.Steps) > 0 {
		add(1, "steps", strings.Split(p.shortSteps(v), "; ")...)
	}
	if u := v.Users; u != nil && u.FailedLogins > 0 {
		add(1, "logins", whole(u.FailedLogins)+" failed", plural(int(u.LoggedOut), "user")+" waited to log in again at the end")
	}
	add(2, "server", p.server(v, trial)...)
	return rows
}

// PerSecond writes a rate in whole numbers from 100 on.
func PerSecond(x float64) string {
	if x >= 100 {
		return whole(int64(math.Round(x)))
	}
	return units.Figure(x)
}

// A quickClock is a row of times. Spare is of those after the first.
type quickClock struct {
	name, tag string
	spare     int
}

// quickClocks are the clocks that a quick load shows, the one that it is judged by first.
func (p *page) quickClocks(v *rundir.Variant) (list []quickClock) {
	add := func(name, tag string, spare int) {
		if v.Times(tag).Count > 0 {
			list = append(list, quickClock{name, tag, spare})
		}
	}
	clock := p.run.Plan.Variant(v.Name).Latency()
	switch {
	case v.Streams != nil:
		add("delivery", rundir.TagDelivery, 0)
		add("event gap", rundir.TagEventGap, 7)
	case clock == rundir.TagResponse:
		add("latency", clock, 0)
		add("from write", rundir.TagService, 8)
	default:
		add("latency", clock, 0)
	}
	if v.Tokens != nil {
		add("first token", rundir.TagFirstToken, 1)
		add("token time", rundir.TagTokenTime, 2)
	} else {
		add("first message", rundir.TagFirstMessage, 3)
	}
	add("message gap", rundir.TagMessageGap, 7)
	add("message", rundir.TagMessage, 2)
	return list
}

// quantiles writes the quantiles of a clock that are known. A unit stands where it changes, and
// at the last.
func (p *page) quantiles(v *rundir.Variant, tag string) (items []string) {
	unit := ""
	for _, s := range rundir.Summaries() {
		x := s.Of(v.Times(tag))
		if x == nil || s.Name == "mean" {
			continue
		}
		number, its, _ := strings.Cut(Seconds(*x), " ")
		if its != unit || s.Name == "max" {
			number, unit = number+" "+its, its
		}
		items = append(items, rundir.QuantileName(s.Name)+" "+marked(p.mark(*v, tag+"."+s.Name), number))
	}
	return items
}

// statuses are the status codes, the most frequent first, with what the failed ones say.
func (p *page) statuses(v *rundir.Variant, trial *rundir.Trial) (items []string) {
	for i, code := range descending(v.Counts.ByStatus) {
		if i == 4 {
			return append(items, fmt.Sprintf("%d others", len(v.Counts.ByStatus)-i))
		}
		why := reason(trial, "status: grpc "+code+": ") + reason(trial, "status: status "+code+": ")
		items = append(items, code+" × "+whole(v.Counts.ByStatus[code])+why)
	}
	return items
}

// errorKinds are the failures of other kinds, with what the most frequent of each says.
func (p *page) errorKinds(v *rundir.Variant, trial *rundir.Trial) (items []string) {
	for i, kind := range descending(v.Errors.ByKind) {
		if i < 4 && kind != "status" && kind != "unfinished" {
			text := kind + " × " + whole(v.Errors.ByKind[kind])
			if kind != "timeout" { // which says all by its name
				text += reason(trial, kind+": ")
			}
			items = append(items, text)
		}
	}
	if trial != nil && len(v.Errors.ByKind) == 0 {
		for _, text := range descending(trial.Failures) {
			return append(items, text)
		}
	}
	return items
}

// server says which process was loaded, if it is on this machine, and what it used.
func (p *page) server(v *rundir.Variant, trial *rundir.Trial) (items []string) {
	t := &v.Target
	if trial == nil || trial.WindowSeconds <= 0 || t.CPUSeconds == nil {
		return nil
	}
	cpus := units.Figure(*t.CPUSeconds/trial.WindowSeconds) + " CPUs"
	if s := trial.Server; s != nil {
		cpus = fmt.Sprintf("%s (pid %d): %s", Printable(s.Name), s.PID, cpus)
	}
	items = append(items, cpus)
	if t.CPUSecondsPerRequest != nil {
		items = append(items, p.figure(*v, "target.cpu_per_request", times())+" per "+p.unit())
	}
	if t.RSSBytes != nil {
		items = append(items, sizes().Write(float64(*t.RSSBytes)))
	}
	return items
}

// quickFindings are what the target did wrong, and the thresholds.
func (p *page) quickFindings(a Answer) (rows []quickRow) {
	if n := len(p.run.Thresholds); n > 0 {
		kept := 0
		for _, t := range p.run.Thresholds {
			if t.OK {
				kept++
			}
		}
		rows = append(rows, quickRow{name: "thresholds", prose: fmt.Sprintf("%d of %d hold", kept, n), spare: 2})
	}
	for i, s := range said(a.Broke) {
		name := "problem"
		if i > 0 {
			name = ""
		}
		rows = append(rows, quickRow{name: name, prose: s, spare: 9 * min(i, 1)})
	}
	return rows
}

// quickTrust says of the figures on the screen which are not as they are printed, and why.
func (p *page) quickTrust(v *rundir.Variant) (lines []string) {
	type group struct {
		names []string
		why   string
	}
	groups := map[string]*group{}
	note := func(name, metric string) {
		mark := p.mark(*v, metric)
		if groups[mark] == nil {
			groups[mark] = &group{why: because(p.state(metric, v.Name, "")).In(texts.English)}
		}
		groups[mark].names = append(groups[mark].names, name)
	}
	if v.Throughput.Estimate != nil {
		note("requests/s", "throughput")
	}
	if clocks := p.quickClocks(v); len(clocks) > 0 {
		p.noteQuantiles(v, clocks[0], note)
	}
	for _, m := range []struct{ mark, says string }{
		{doubt, "do not rely on %s (?): %s"}, {atMost, "%s may be too high (≤): %s"}, {atLeast, "%s may be too low (≥): %s"},
	} {
		if g := groups[m.mark]; g != nil {
			lines = append(lines, sentence(fmt.Sprintf(m.says, listed(g.names), g.why)))
		}
	}
	if groups[tooFew] != nil {
		lines = append(lines, "Fewer than ten requests were slower than what is marked ~: measure longer.")
	}
	return lines
}

// noteQuantiles notes the quantiles of a clock that have a mark, those of the same one together.
func (p *page) noteQuantiles(v *rundir.Variant, clock quickClock, note func(name, metric string)) {
	var shown []string // and known well
	marked := map[string][]string{}
	for _, s := range rundir.Summaries() {
		metric := clock.tag + "." + s.Name
		if s.Of(v.Times(clock.tag)) == nil || s.Name == "mean" {
			continue
		}
		mark := p.mark(*v, metric)
		marked[mark] = append(marked[mark], s.Name)
		if mark != tooFew && s.Quantile > 0 {
			shown = append(shown, s.Name)
		}
	}
	for _, names := range marked {
		metric := clock.tag + "." + names[0]
		quantiles := slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == "max" })
		var name string
		switch n := len(quantiles); {
		case n > 0 && n == len(shown):
			name = clock.name
		case n > 1 && slices.Equal(quantiles, shown[max(0, len(shown)-n):]):
			name = clock.name + " from " + rundir.QuantileName(quantiles[0]) + " on"
		case n == 0:
			name = "the longest " + clock.name
		default:
			for i := range names {
				names[i] = rundir.QuantileName(names[i])
			}
			name = clock.name + " at " + listed(names)
		}
		note(name, metric)
	}
}

// listed writes names as people list them.
func listed(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// wrapItems writes items in a row. If they are wider than the terminal, they go on in the next
// line, below the first, up to a number of lines. No item is broken, and in a pipe no line is.
func (p *page) wrapItems(mark string, items []string, separator string, most int) []string {
	indent := strings.Repeat(" ", utf8.RuneCountInString(mark))
	lines := []string{mark}
	for i, item := range items {
		last := &lines[len(lines)-1]
		switch {
		case i == 0:
		case p.width > 0 && utf8.RuneCountInString(*last+separator+item) > p.width && len(lines) < most:
			lines = append(lines, indent)
			last = &lines[len(lines)-1]
		default:
			item = separator + item
		}
		*last += item
	}
	for i := range lines {
		lines[i] = strings.TrimRight(p.cut(lines[i]), " ")
	}
	return lines
}
