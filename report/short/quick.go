package short

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/verdict"
	"dyno/judge/verdict/checks"
	"dyno/report/answer"
	"dyno/report/figure"
	"dyno/report/judged"
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

// rows are lines of a screen while they are written.
type rows []quickRow

// add adds a row of items of any texts, if there are any.
func (r *rows) add(spare int, name string, items ...string) {
	for i := range items {
		items[i] = figure.Printable(items[i])
	}
	r.addAligned(spare, name, " · ", items...)
}

// addAligned adds a row of items as they are: blanks in them align them with other rows.
func (r *rows) addAligned(spare int, name, separator string, items ...string) {
	if len(items) > 0 {
		*r = append(*r, quickRow{name: name, separator: separator, items: items, spare: spare})
	}
}

// note adds a sentence.
func (r *rows) note(spare int, text string) { *r = append(*r, quickRow{prose: text, spare: spare}) }

// quickScreen is the screen of a quick load: what was done, what was measured, and below it how
// far that can be trusted.
func (p *page) quickScreen(a answer.Answer) []string {
	v := &p.Run.Variants[0]
	trial := p.OnlyTrial(v.Name)
	rows := slices.Concat(p.quickRows(v, trial), p.agentRows(a), p.quickFindings(a))
	return p.laidOut(p.requested(v, trial), p.setting(v, trial), rows, p.quickNotes(a, v))
}

// laidOut makes a screen of what was requested, how, rows of figures, and notes below them. It
// leaves out what there is no line for.
func (p *page) laidOut(requested string, setting []string, rows, notes rows) []string {
	for rowLines := 2; ; {
		lines := p.wrapItems("", []string{requested, strings.Join(setting, " · ")}, "   ", rowLines)
		for _, s := range answer.InEnglish(answer.Unfinished(p.Result)) {
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

// mostNotes is how many sentences stand below the figures.
const mostNotes = 2

// quickNotes are the sentences below the figures, the most important first: what a reader can do about them. One
// request is no reason for advice on how to load.
func (p *page) quickNotes(a answer.Answer, v *rundir.Variant) (notes rows) {
	for _, s := range answer.InEnglish(a.Again) {
		notes.note(2, sentence(texts.Say(texts.English, "again", nil)+": "+s))
	}
	loaded := v.Counts.Answered()+v.Counts.Unanswered() != 1
	for i, s := range p.quickTrust(v) {
		if loaded {
			notes.note(3*i, s)
		}
	}
	if a.Next != nil && (loaded || len(a.Broke) > 0) {
		next := a.Next.In(texts.English)
		if !slices.ContainsFunc(notes, func(n quickRow) bool { return strings.Contains(n.prose, next) }) {
			notes.note(1, sentence(next))
		}
	}
	if missing := needLinux(p.OnlyTrial(v.Name)); len(missing) > 0 {
		notes.note(1, "Not observed, because that needs Linux: "+strings.Join(missing, ", ")+".")
	}
	if a.Next == nil && p.Run.Plan.Variant(v.Name).Loop == "closed" && v.Counts.OK > 0 && loaded {
		notes.note(4, fmt.Sprintf("A closed loop hides coordinated omission (wrk adds an estimate): try --rate %d.", tryRate(v.Known(rundir.MetricThroughput))))
	}
	if a.Rest != nil && loaded {
		notes.note(5, "Everything: "+a.Rest.In(texts.English))
	}
	return notes[:min(len(notes), mostNotes)]
}

// needLinux returns the observers that a trial's system does not have.
func needLinux(trial *rundir.Trial) (observers []string) {
	if trial == nil {
		return nil
	}
	for _, m := range trial.Unavailable {
		if why := m.Parts["why"]; len(why) == 1 && why[0].Kind == "unavailable.system" && m.Values["observer"] != "" {
			observers = append(observers, m.Values["observer"])
		}
	}
	return observers
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

// requested is what was sent, and to whom: in a trial, if there is one.
func (p *page) requested(v *rundir.Variant, trial *rundir.Trial) string {
	request := p.Run.Plan.Variant(v.Name).Request
	if trial != nil {
		request = cmp.Or(trial.Request, request)
	}
	return figure.Printable(cmp.Or(request, p.Title()))
}

// mostUsers is how many users stages of a closed loop have at most.
func mostUsers(stages []rundir.PlanStage) int {
	most := 0.0
	for _, s := range stages {
		most = max(most, s.From, s.To)
	}
	return int(most)
}

// setting says how it was sent: the protocol that was spoken, connections, loop and time.
func (p *page) setting(v *rundir.Variant, trial *rundir.Trial) []string {
	plan := p.Run.Plan.Variant(v.Name)
	var items []string
	if trial != nil {
		version := version(trial.Loaded)
		if trial.Streams != nil && trial.Streams.Opened > 0 {
			version = cmp.Or(version, "HTTP/1.1") // in which events are
		}
		if version != "" {
			items = append(items, version)
		}
		if trial.TLS != nil && len(trial.TLS.Agreed) > 0 {
			items = append(items, trial.TLS.Agreed[0].Version)
		}
	}
	if plan.Subscribers > 0 {
		items = append(items, figure.Plural(plan.Subscribers, "subscriber"))
	}
	if v.Users != nil {
		users := figure.Plural(int(v.Users.Count), "user")
		if plan.Loop == "open" { // a free user begins the next iteration
			users = "at most " + users
		}
		items = append(items, users)
	}
	most := plan.Connections
	if trial != nil && plan.MostConnections > 0 { // a search gives each rate as many as it takes
		most = int(trial.Connections.Requested)
	}
	if users := mostUsers(plan.Stages); plan.Loop == "closed" && users > 0 && v.Users == nil {
		items = append(items, "at most "+figure.Plural(users, "user"))
	}
	connections := figure.Plural(most, "connection")
	if trial != nil && trial.Connections.Streams > 1 {
		connections += " × " + figure.Plural(int(trial.Connections.Streams), "stream")
	}
	switch {
	case plan.Loop == "stream":
	case plan.Loop != "open":
		items = append(items, connections, "closed loop")
	case plan.Rate != nil:
		rate := figure.Whole(int64(math.Round(*plan.Rate)))
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
		items = append(items, figure.Seconds(trial.WindowSeconds))
	}
	if plan.WarmupSeconds > 0 {
		items = append(items, "after "+units.FormatSeconds(plan.WarmupSeconds)+" of warm-up")
	}
	return items
}

// version is what connections spoke, as people write it; empty where there is none to tell.
func version(l *rundir.Loaded) string {
	if l == nil {
		return ""
	}
	spoken := slices.Sorted(maps.Keys(l.Protocols))
	for i := range spoken {
		spoken[i], _, _ = strings.Cut(spoken[i], " by ")
	}
	return strings.Join(spoken, " and ")
}

// quickRows are what was measured.
func (p *page) quickRows(v *rundir.Variant, trial *rundir.Trial) (r rows) {
	p.rate(&r, v, trial)
	if v.Tokens != nil {
		tokens := []string{p.Figure(*v, "tokens_per_second", figure.Counts()) + " tokens/s"}
		if v.Known(rundir.MetricPromptRate) != nil {
			tokens = append(tokens, p.Figure(*v, "prompt_tokens_per_second", figure.Counts())+" tokens/s of prompts")
		}
		r.add(2, "tokens", append(tokens, "goodput "+p.Figure(*v, "goodput", figure.Counts())+" answers/s within the goal")...)
	}
	for i, clock := range p.quickClocks(v) {
		items := p.quantiles(v, clock.tag)
		if clock.name == latencyRow {
			items = append([]string{clock.tag}, items...) // which of the times it is
		}
		r.addAligned(min(i, 1)*clock.spare, clock.name, "  ", items...)
	}
	r.addAligned(2, "until read", "  ", p.untilRead(v)...)
	connecting, slow := p.connecting(v)
	if slow {
		r.addAligned(0, "connect", "  ", connecting...)
	}
	r.add(0, "status", p.statuses(v, trial)...)
	if n := v.Counts.Redirects; n != nil {
		r.add(1, "redirects", figure.Whole(*n)+" followed")
	}
	r.add(0, "errors", p.errorKinds(v, trial)...)
	if s := v.Streams; s != nil {
		r.add(1, "subscribers", figure.Whole(s.Opened)+" accepted", figure.Whole(s.Peak)+" at once", figure.Whole(s.Failed)+" attempts failed", figure.Whole(s.Lost)+" events lost")
	} else if trial != nil {
		p.connections(&r, v, &trial.Connections, !slow && len(connecting) > 1)
	}
	r.add(0, "addresses", addresses(v.Loaded)...)
	if rate := v.Known(rundir.MetricMessageRate); v.Messages != nil && rate != nil {
		r.add(1, "messages", figure.PerSecond(*rate)+"/s", figure.Whole(v.Messages.Count)+" received")
	}
	if trial != nil && trial.TLS != nil {
		handshakes, agreed := judged.Handshakes(trial.TLS, v)
		r.add(6, "handshakes", append([]string{handshakes}, agreed...)...)
	}
	r.add(0, "stages", p.stages(v)...)
	r.add(1, "steps", p.steps(v)...)
	if u := v.Users; u != nil && u.FailedLogins > 0 {
		r.add(1, "logins", figure.Whole(u.FailedLogins)+" failed", figure.Plural(int(u.LoggedOut), "user")+" waited to log in again at the end")
	}
	r.add(2, "server", p.server(v, trial)...)
	return r
}

// rate adds the rate, and what became of the requests.
func (p *page) rate(r *rows, v *rundir.Variant, trial *rundir.Trial) {
	c := &v.Counts
	rate, what := "–", "requests/s"
	if x := v.Known(rundir.MetricThroughput); x != nil {
		rate = judged.Marked(p.Mark(*v, "throughput"), figure.PerSecond(*x))
	}
	var amounts []string
	if v.Streams != nil {
		what, amounts = "events/s", []string{figure.Whole(v.Streams.Delivered) + " events"}
	}
	if p.Run.Plan.Variant(v.Name).Loop != "stream" {
		amounts = append(amounts, figure.Whole(c.Answered())+" ok"+afterEnd(trial), failed(c))
		if n := c.NotSent(); n > 0 {
			amounts = append(amounts, figure.Whole(n)+" not sent")
		}
		if verdict.MostFailing(p.Run) != nil {
			amounts = append(amounts, "succeeded "+figure.Percent(1-*v.Known(rundir.MetricErrorRatio)))
		}
	}
	if trial != nil && trial.WindowSeconds > 0 && c.ReceivedBytes > 0 {
		amounts = append(amounts, figure.Sizes().Write(float64(c.ReceivedBytes)/trial.WindowSeconds)+"/s received")
	}
	if len(amounts) > 0 {
		amounts[0] = fmt.Sprintf("%-12s  %s", rate, amounts[0])
	} else {
		amounts = []string{rate}
	}
	r.addAligned(0, what, " · ", amounts...)
}

// connections adds what became of connections, with what is to be known of their latency if they were timed.
func (p *page) connections(r *rows, v *rundir.Variant, k *rundir.Connections, timed bool) {
	spare := 0
	if k.Failed == 0 {
		spare = 2
	}
	items := []string{figure.Whole(k.Opened) + " opened", figure.Whole(k.Failed) + " failed"}
	if timed && p.Run.Plan.Variant(v.Name).Latency() == rundir.TagService {
		items[0] += " (" + notInLatency + ")"
	}
	if reuse := v.Known("target.connection_reuse_ratio"); reuse != nil && k.Opened > k.Requested {
		items = append(items, figure.Percent(*reuse)+" of the "+p.Sent()+" on a reused one")
	}
	if l := v.Loaded; l != nil {
		if p.Run.Plan.Variant(v.Name).Loop == "closed" && l.Peak < l.Requested {
			items, spare = append(items, "only "+figure.Whole(l.Peak)+" of "+figure.Whole(l.Requested)+" open at once"), 0
		}
		if text := judged.Allowed(l); text != "" {
			items, spare = append(items, text), 0
		}
	}
	if k.Refused > 0 {
		items = append(items, figure.Whole(k.Refused)+" requests refused, "+figure.Whole(k.Resent)+" sent again")
	}
	r.add(spare, "connections", items...)
}

// afterEnd says how many good answers came after the window, if they are more than 1 %. The rate does not count them.
func afterEnd(trial *rundir.Trial) string {
	if trial == nil {
		return ""
	}
	all := trial.Counts.Answered()
	if n := all - trial.Counts.CompletedInWindow; 100*n > all {
		return " (" + figure.Whole(n) + " after the end)"
	}
	return ""
}

// latencyRow is the name of the row of the times that a load is judged by.
const latencyRow = "latency"

// notInLatency says that the time of connecting is no part of a closed loop's latency, which begins at the write.
const notInLatency = "connecting is not in latency"

// Connecting is slow, and has a row, if the slowest connection took more than slowConnect seconds. It is slow, too, if
// the mean is above leastConnect and above slowShare of the latencies' p99: on loopback, chance alone makes one
// connection slower than others.
const (
	slowConnect  = 0.05
	slowShare    = 0.1
	leastConnect = 0.001
)

// connecting is how long it took to open connections, TLS included, and whether that was slow.
func (p *page) connecting(v *rundir.Variant) (items []string, slow bool) {
	most, mean := 0.0, 0.0
	for _, of := range []struct{ tag, word string }{{rundir.TagConnect, ""}, {rundir.TagHandshake, "TLS "}} {
		longest := v.Known(of.tag + ".max")
		if longest == nil {
			continue
		}
		most += *longest
		if of := v.Known(of.tag + ".mean"); of != nil {
			mean += *of
		}
		for _, item := range p.quantiles(v, of.tag, "p50", "p99", "max") {
			items = append(items, of.word+item)
		}
	}
	clock := p.Run.Plan.Variant(v.Name).Latency()
	if clock == rundir.TagService {
		items = append(items, "not in latency")
	}
	tail := cmp.Or(v.Known(clock+".p99"), v.Known(clock+".max"))
	return items, most > slowConnect || tail != nil && mean > max(leastConnect, slowShare**tail)
}

// lateRead is the share by which a time until the read must be longer to be shown.
const lateRead = 0.1

// untilRead is a closed loop's latency as load generators without the kernel's time stamps see it, if it differs:
// answers waited until dyno read them.
func (p *page) untilRead(v *rundir.Variant) []string {
	if p.Run.Plan.Variant(v.Name).Latency() != rundir.TagService {
		return nil
	}
	for _, s := range p.shown(v, rundir.TagService) {
		arrived, until := v.Known(rundir.TagService+"."+s.Name), v.Known(rundir.TagServiceRead+"."+s.Name)
		if until != nil && s.Quantile > 0 && *until > (1+lateRead)**arrived {
			return append(p.quantiles(v, rundir.TagServiceRead, "p50", "p90", "p99"), "as tools without kernel time stamps show")
		}
	}
	return nil
}

// failed is how many requests failed, with those that no answer of the target's made fail.
func failed(c *rundir.Counts) string {
	text := figure.Whole(c.Unanswered()) + " failed"
	var of []string
	for _, part := range []struct {
		n    int64
		what string
	}{{c.Dropped - c.Unsent + c.Carried.Dropped - c.Carried.Unsent, "dropped"}, {c.Unfinished + c.Carried.Unfinished, "unfinished"}, {c.Missed, "missed"}} {
		if part.n > 0 {
			of = append(of, figure.Whole(part.n)+" "+part.what)
		}
	}
	if len(of) > 0 {
		text += " (" + strings.Join(of, ", ") + ")"
	}
	return text
}

// mostAddresses is how many addresses are named.
const mostAddresses = 4

// addresses lists the addresses of the target's name, if there are several. It adds the load of each, unless they were
// loaded alike.
func addresses(l *rundir.Loaded) (items []string) {
	if l == nil || len(l.Addresses) < 2 {
		return nil
	}
	if !judged.Unlike(l) {
		return []string{fmt.Sprintf("all %d of the name, loaded alike", len(l.Addresses))}
	}
	// Those that something is wrong with come first.
	list := slices.Clone(l.Addresses)
	isSound := func(a rundir.Address) int { return min(1, int(a.Opened)) - min(1, int(a.Failed+a.Bad)) }
	slices.SortStableFunc(list, func(a, b rundir.Address) int { return cmp.Compare(isSound(a), isSound(b)) })
	for i := range list {
		if i == mostAddresses {
			return append(items, fmt.Sprintf("%d others", len(list)-i))
		}
		items = append(items, judged.OnAddress(&list[i]))
	}
	return items
}

// mostAgents is how many agents have a row each.
const mostAgents = 4

// agentRows say what each agent that carried the load did, how its clock compares and when it began. The kinds of its
// flags follow. For many agents, only their names are given.
func (p *page) agentRows(a answer.Answer) (rows []quickRow) {
	agents := p.Agents()
	if len(agents) > mostAgents {
		for _, s := range answer.InEnglish(a.From) {
			rows = append(rows, quickRow{name: texts.Say(texts.English, "from", nil), prose: s})
		}
		return rows
	}
	for i, a := range agents {
		items := []string{figure.Printable(a.Name) + " " + figure.Percent(a.Share)}
		if a.Most != nil {
			items = append(items, "CPU "+figure.Seconds(*a.Most))
		}
		items = append(items, "clock "+figure.Deviation(a.ClockOffset)+" ±"+figure.Seconds(a.ClockError), "began "+figure.Deviation(a.StartDeviation))
		for _, kind := range a.Flags {
			items = append(items, strings.ReplaceAll(figure.Printable(kind), "_", " "))
		}
		name := "agents"
		if i > 0 {
			name = ""
		}
		rows = append(rows, quickRow{name: name, separator: "  ", items: items})
	}
	return rows
}

// A quickClock is a row of times. Spare is of those after the first.
type quickClock struct {
	name, tag string
	spare     int
}

// quickClocks are the clocks that a quick load shows, the one that it is judged by first.
func (p *page) quickClocks(v *rundir.Variant) (list []quickClock) {
	add := func(name, tag string, spare int) {
		if v.Known(tag+".max") != nil {
			list = append(list, quickClock{name, tag, spare})
		}
	}
	clock := p.Run.Plan.Variant(v.Name).Latency()
	switch {
	case v.Streams != nil:
		add("delivery", rundir.TagDelivery, 0)
		add("event gap", rundir.TagEventGap, 7)
	case clock == rundir.TagResponse:
		add(latencyRow, clock, 0)
		add("from write", rundir.TagService, 8)
	default:
		add(latencyRow, clock, 0)
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

// quantiles writes the quantiles of a clock that have a place on the screen, or only the named ones. All have one unit,
// which stands at the first and at the longest.
func (p *page) quantiles(v *rundir.Variant, tag string, named ...string) (items []string) {
	unit := oneUnit(v.Known(tag+".p50"), v.Known(tag+".max"))
	for _, s := range p.shown(v, tag) {
		if len(named) > 0 && !slices.Contains(named, s.Name) {
			continue
		}
		number := figure.PerSecond(*v.Known(tag + "." + s.Name) / unit.From)
		if len(items) == 0 || s.Name == "max" {
			number += unit.Name
		}
		items = append(items, rundir.QuantileName(s.Name)+" "+judged.Marked(p.Mark(*v, tag+"."+s.Name), number))
	}
	return items
}

// shown lists the figures of a clock that have a place on the screen. A quantile beyond the p99 has it only without a
// mark: so few requests make it that one disturbance moves it.
func (p *page) shown(v *rundir.Variant, tag string) []rundir.Summary {
	return slices.DeleteFunc(rundir.Summaries(), func(s rundir.Summary) bool {
		return v.Known(tag+"."+s.Name) == nil || s.Name == "mean" || s.Quantile > 0.99 && p.Mark(*v, tag+"."+s.Name) != ""
	})
}

// oneUnit is a unit in which all of a clock's times can be read: that of the median, or the next where the longest
// would have five digits before the point.
func oneUnit(least, most *float64) units.Step {
	if least = cmp.Or(least, most); least == nil {
		return units.Times().Step(0)
	}
	unit := units.Times().Step(*least)
	if next := units.Times().Step(1000 * unit.From); *most >= 1e4*unit.From && *least >= 0.01*next.From {
		return next
	}
	return unit
}

// statuses are the status codes, the most frequent first, with what the failed ones say.
func (p *page) statuses(v *rundir.Variant, trial *rundir.Trial) (items []string) {
	for i, code := range judged.MostFrequent(v.Counts.ByStatus) {
		if i == 4 {
			return append(items, fmt.Sprintf("%d others", len(v.Counts.ByStatus)-i))
		}
		why := reason(trial, "status: grpc "+code+": ") + reason(trial, "status: status "+code+": ")
		items = append(items, code+" × "+figure.Whole(v.Counts.ByStatus[code])+why)
	}
	return items
}

// errorKinds are the failures of other kinds, with what the most frequent of each says.
func (p *page) errorKinds(v *rundir.Variant, trial *rundir.Trial) (items []string) {
	byKind, _ := v.Counts.Failures()
	for i, kind := range judged.MostFrequent(byKind) {
		if i < 4 && kind != "status" && kind != "unfinished" {
			text := kind + " × " + figure.Whole(byKind[kind])
			if kind != "timeout" { // which says all by its name
				text += reason(trial, kind+": ")
			}
			items = append(items, text)
		}
	}
	if trial != nil && len(byKind) == 0 {
		for _, text := range judged.MostFrequent(trial.Failures) {
			return append(items, text)
		}
	}
	return items
}

// server says which process was loaded, if it is on this machine, and what it used.
func (p *page) server(v *rundir.Variant, trial *rundir.Trial) (items []string) {
	if trial == nil || trial.WindowSeconds <= 0 || trial.Target.CPUSeconds == nil {
		return nil
	}
	cpus := units.Figure(*trial.Target.CPUSeconds/trial.WindowSeconds) + " CPUs"
	if s := trial.Server; s != nil {
		cpus = fmt.Sprintf("%s (pid %d): %s", figure.Printable(s.Name), s.PID, cpus)
	}
	items = append(items, cpus)
	if v.Known(rundir.MetricCPU) != nil {
		items = append(items, p.Figure(*v, "target.cpu_per_request", figure.Times())+" per "+p.Per())
	}
	if rss := v.Known(rundir.MetricMemory); rss != nil {
		items = append(items, figure.Sizes().Write(*rss))
	}
	return items
}

// quickFindings are what the target did wrong, and the thresholds.
func (p *page) quickFindings(a answer.Answer) (rows []quickRow) {
	if n := len(p.Run.Thresholds); n > 0 {
		kept := 0
		for _, t := range p.Run.Thresholds {
			if t.OK {
				kept++
			}
		}
		said := append([]string{fmt.Sprintf("%d of %d hold", kept, n)}, answer.InEnglish(a.Unsure)...)
		if n == 1 && len(said) == 2 {
			said = said[1:]
		}
		rows = append(rows, quickRow{name: "thresholds", prose: strings.Join(said, "; "), spare: 2})
	}
	for i, s := range answer.InEnglish(a.Broke) {
		name := "problem"
		if i > 0 {
			name = ""
		}
		spare := 9 * min(i, 1)
		if strings.HasPrefix(a.Broke[i].Kind, "broke.conflicts") { // it is why the others are there, and has what helps
			spare = min(spare, 1)
		}
		rows = append(rows, quickRow{name: name, prose: s, spare: spare})
	}
	return rows
}

// quickTrust says what the marks on the screen mean, and what helps: a sentence for each remedy.
func (p *page) quickTrust(v *rundir.Variant) (lines []string) {
	metrics := []string{rundir.MetricThroughput}
	if clocks := p.quickClocks(v); len(clocks) > 0 {
		for _, s := range p.shown(v, clocks[0].tag) {
			metrics = append(metrics, clocks[0].tag+"."+s.Name)
		}
	}
	var remedies []string
	says := map[string][]string{} // by remedy
	for _, m := range []struct{ mark, says string }{
		{judged.Doubt, "do not rely on what is marked ?"}, {judged.AtLeast, "≥ may be too low"}, {judged.AtMost, "≤ may be too high"},
	} {
		i := slices.IndexFunc(metrics, func(metric string) bool { return p.Mark(*v, metric) == m.mark })
		if i < 0 {
			continue
		}
		because := p.State(metrics[i], v.Name, "")
		remedy := judged.Because(because).In(texts.English)
		for _, kind := range because.Causes {
			if r := checks.Of(kind).Remedy; r != "" {
				remedy = p.Message(r).In(texts.English)
				break
			}
		}
		if says[remedy] == nil {
			remedies = append(remedies, remedy)
		}
		says[remedy] = append(says[remedy], m.says)
	}
	for _, remedy := range remedies {
		lines = append(lines, sentence(strings.Join(says[remedy], ", ")+": "+remedy))
	}
	if slices.ContainsFunc(metrics, func(metric string) bool { return p.Mark(*v, metric) == judged.TooFew }) {
		lines = append(lines, "Fewer than ten requests were slower than what is marked ~: measure longer.")
	}
	return lines
}

// wrapItems writes items in a row. A row that is wider than the terminal goes on in the next
// line, up to a number of lines. No item is broken, and in a pipe no line is.
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

// stages says of each stage what was measured in it.
func (p *page) stages(v *rundir.Variant) (items []string) {
	for i := range v.Stages {
		if i == mostSteps {
			return append(items, fmt.Sprintf("and %d more", len(v.Stages)-i))
		}
		s := &v.Stages[i]
		plan := p.Run.Plan.Variant(v.Name)
		text := figure.Stage(&s.Planned, plan.Loop) + ": "
		if s.Throughput == nil {
			items = append(items, text+"not reached")
			continue
		}
		text += figure.PerSecond(*s.Throughput) + "/s"
		if s.Failed > 0 {
			text += ", " + figure.Whole(s.Failed) + " failed"
		}
		times := s.Times[plan.Latency()]
		for _, q := range []struct {
			name  string
			value *float64
		}{{"p50", times.P50}, {"p99", times.P99}} {
			if q.value != nil {
				text += ", " + q.name + " " + figure.Seconds(*q.value)
			}
		}
		items = append(items, text)
	}
	return items
}

// mostSteps is how many steps the short report has.
const mostSteps = 6

// steps says of each step what became of it.
func (p *page) steps(v *rundir.Variant) (items []string) {
	for i := range v.Steps {
		if i == mostSteps {
			return append(items, fmt.Sprintf("and %d more", len(v.Steps)-i))
		}
		s := &v.Steps[i]
		text := s.Name + " " + figure.Whole(s.OK) + " ok"
		if n := s.Failed(); n > 0 {
			text += " and " + figure.Whole(n) + " not"
		}
		if s.Skipped > 0 {
			text += ", skipped " + figure.Whole(s.Skipped)
		}
		clock := rundir.TagService
		if p.Run.Plan.Variant(v.Name).Loop == "open" {
			clock = rundir.TagResponse
		}
		if tail := v.Known(rundir.StepMetric(clock+".p99", s.Name)); tail != nil {
			text += ", p99 " + figure.Seconds(*tail)
		}
		items = append(items, text)
	}
	return items
}
