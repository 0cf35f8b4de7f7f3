package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"dyno/rundir"
	"dyno/texts"
	"dyno/verdict"
)

// An Answer is what a run comes to, before all its figures: data that the terminal, a
// document and the page make the same sentences of, each in its reader's language.
type Answer struct {
	Says  []Line `json:"says"`            // the answer itself
	Table *Brief `json:"table,omitempty"` // the claims, or else what was compared or measured
	Sure  []Line `json:"sure,omitempty"`  // rounds, intervals and the control, in one sentence
	Broke []Line `json:"broke,omitempty"` // what the target did not do
	Trust []Line `json:"trust,omitempty"` // how many figures of each state, in one sentence
	Asked []Line `json:"asked,omitempty"` // of the figures that were asked for, those that are not as printed
	Again []Line `json:"again,omitempty"` // rounds measured again, and the outcome with them
	Next  *Line  `json:"next,omitempty"`  // the one thing that helps most
	Rest  *Line  `json:"rest,omitempty"`  // where all of it is
}

// A Line is a sentence as data: see package texts. Parts are sentences within it.
type Line struct {
	Kind   string            `json:"kind"`
	Values map[string]string `json:"values,omitempty"`
	Parts  map[string][]Line `json:"parts,omitempty"`
}

// line makes a Line of names and values by turns.
func line(kind string, pairs ...string) Line {
	l := Line{Kind: kind}
	for i := 0; i+1 < len(pairs); i += 2 {
		if l.Values == nil {
			l.Values = map[string]string{}
		}
		l.Values[pairs[i]] = pairs[i+1]
	}
	return l
}

// counted is a line about so many, which has a form for one.
func counted(kind string, n int, pairs ...string) Line {
	if n == 1 {
		kind += ".one"
	}
	return line(kind, append(pairs, "n", whole(int64(n)))...)
}

// with gives a line sentences within it.
func (l Line) with(name string, parts ...Line) Line {
	l.Parts = map[string][]Line{name: parts}
	return l
}

// In says a line in a language.
func (l Line) In(language string) string {
	values := map[string]string{}
	for name, v := range l.Values {
		if (name == "check" || name == "limit") && texts.IsName(v) {
			v = strings.ReplaceAll(v, "_", " ")
		}
		values[name] = v
	}
	for name, parts := range l.Parts {
		values[name] = joined(language, parts)
	}
	return texts.Say(language, l.Kind, values)
}

func joined(language string, lines []Line) string {
	var said []string
	for _, l := range lines {
		said = append(said, l.In(language))
	}
	return strings.Join(said, texts.Say(language, "answer.comma", nil))
}

// A Brief is a table of cells that need no language, but for those under heads named
// outcome, verdict and metric, for which there are words. The most important rows come first.
type Brief struct {
	Kind string     `json:"kind"` // claims, comparisons, ladder, levels, capacities, trends or variants
	Head []string   `json:"head"` // what each column is
	Rows [][]string `json:"rows"`
}

// Make condenses a run to its answer. Nothing but the run is needed; of a folder, its place
// is named.
func Make(f *rundir.Folder) Answer {
	p := newPage(f)
	a := Answer{Says: p.says(), Table: p.brief()}
	if !p.nothing() {
		a.Sure, a.Trust, a.Asked = p.sure(), p.trust(), p.doubtful()
	}
	a.Broke, a.Again, a.Next = p.broke(), p.again(), p.next()
	rest := line("rest.full")
	if f.Dir != "" {
		rest = line("rest.folder", "folder", f.Dir)
	}
	a.Rest = &rest
	return a
}

// nothing tells whether no figure came out.
func (p *page) nothing() bool {
	return len(p.run.Capacities) == 0 && !slices.ContainsFunc(p.run.Variants, func(v rundir.Variant) bool { return v.Trials > 0 })
}

// mostSaid is how many sentences answer the question at most.
const mostSaid = 3

// says answers the experiment's question.
func (p *page) says() []Line {
	lines := p.unfinished()
	add := func(more []Line) { lines = append(lines, more[:min(len(more), max(0, mostSaid-len(lines)))]...) }
	if p.nothing() {
		add([]Line{line("answer.nothing")})
		return lines
	}
	testable := slices.ContainsFunc(p.run.Claims, func(c rundir.Claim) bool { return c.Outcome != rundir.NotTestable })
	compared := p.comparisonsSay()
	switch {
	case p.run.Plan.Ladder != nil && len(compared) > 0:
		add(compared)
	case len(compared) > 0 && testable:
		add(compared[:1])
	case len(compared) > 0:
		add(compared)
	}
	if testable {
		add([]Line{p.claimsSay()})
	}
	switch {
	case len(p.run.Sweeps) > 0 && len(compared) == 0:
		add(p.sweepsSay())
	case len(p.run.Capacities) > 0:
		add(p.capacitiesSay())
	case p.run.Plan.Soak:
		add(p.trendsSay())
	case len(compared) == 0 && !testable:
		add(p.aloneSay())
	}
	return lines
}

// unfinished says that trials are missing, and why.
func (p *page) unfinished() []Line {
	if p.folder.Complete() {
		return nil
	}
	measured := 0
	for _, t := range p.folder.Trials {
		if t.Complete && !p.examined(t.Number).Replaced {
			measured++
		}
	}
	var l Line
	if n := p.run.TrialsPlanned; n > 0 {
		l = counted("answer.incomplete", n, "measured", strconv.Itoa(measured), "planned", whole(int64(n)))
	} else {
		l = counted("answer.incomplete.search", measured, "measured", strconv.Itoa(measured))
	}
	lines := []Line{l}
	for _, reason := range firstLines(p.folder.Incomplete) {
		if len(lines) == 3 {
			break
		}
		lines = append(lines, line("answer.reason", "reason", reason))
	}
	return lines
}

// primary returns the comparisons in the plan's metric, the clearest first.
func (p *page) primary(role string) []rundir.Comparison {
	var list []rundir.Comparison
	for _, c := range p.run.Comparisons {
		if c.Primary && c.Role == role {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b rundir.Comparison) int {
		return cmp.Or(cmp.Compare(unclear(a), unclear(b)), -cmp.Compare(distance(a), distance(b)))
	})
	return list
}

// unclear ranks verdicts: differences, then equivalence, then what is open.
func unclear(c rundir.Comparison) int {
	return max(0, slices.Index([]string{rundir.Better, rundir.Worse, rundir.Equivalent, rundir.Inconclusive, "", rundir.Invalid}, c.Verdict)-1)
}

func distance(c rundir.Comparison) float64 {
	if c.Ratio.Estimate == nil || *c.Ratio.Estimate <= 0 {
		return 0
	}
	return math.Abs(math.Log(*c.Ratio.Estimate))
}

func (p *page) comparisonsSay() []Line {
	if p.run.Plan.Ladder != nil {
		return p.ladderSays()
	}
	var lines []Line
	for _, c := range p.primary("") {
		lines = append(lines, p.comparisonSays(c))
	}
	return lines
}

func (p *page) ladderSays() []Line {
	var lines []Line
	steps := p.run.Plan.Ladder.Steps
	for _, c := range p.primary("") {
		if len(steps) == 0 || c.Variant != steps[len(steps)-1] {
			continue
		}
		l := p.comparisonSays(c)
		if clear := c.Verdict == rundir.Better || c.Verdict == rundir.Worse; clear && c.Ratio.Estimate != nil && bounded(c.Ratio) && c.Ratio.Interval != rundir.ByLostRounds {
			l = p.ratioLine("answer.ladder", c)
		}
		lines = append(lines, l)
	}
	for _, c := range p.primary(rundir.RoleStep) {
		if c.Verdict == rundir.Better && c.Ratio.Estimate != nil {
			return append(lines, line("answer.ladder.most", "variant", c.Variant, "factor", bare(*c.Ratio.Estimate), "interval", factors(c.Ratio)))
		}
	}
	return lines
}

// ratioLine is a line with what is known of a ratio.
func (p *page) ratioLine(kind string, c rundir.Comparison) Line {
	return line(kind, "variant", c.Variant, "base", c.Base, "metric", c.Metric,
		"factor", bare(*c.Ratio.Estimate), "interval", factors(c.Ratio), "confidence", digits(100*c.Ratio.Confidence))
}

// mostChange is the change up to which it is said in percent.
const mostChange = 0.5

// comparisonSays is a comparison in words.
func (p *page) comparisonSays(c rundir.Comparison) Line {
	r := c.Ratio
	v := p.state(c.Metric, c.Variant, c.Base)
	switch {
	case c.Verdict == rundir.Invalid || v.State == rundir.StateNotIdentified || r.Estimate == nil:
		return line("answer.none", "variant", c.Variant, "base", c.Base, "metric", c.Metric).with("why", because(v))
	case r.Interval == rundir.ByLostRounds:
		return line("answer.lost", "variant", c.Variant, "base", c.Base)
	case c.Verdict == rundir.Equivalent:
		return line("answer.equivalent", "variant", c.Variant, "base", c.Base, "metric", c.Metric, "margin", margin(p.run.Plan.Margin))
	case c.Verdict != rundir.Better && c.Verdict != rundir.Worse:
		if r.Low == nil && r.High == nil {
			return p.ratioLine("answer.open.range", c).with("needs", needs(c))
		}
		return p.ratioLine("answer.open", c)
	case r.Low == nil && r.High == nil:
		return p.ratioLine("answer.times.range", c).with("needs", needs(c))
	case *r.Estimate > 1+mostChange || *r.Estimate < 1/(1+mostChange):
		return p.ratioLine("answer.times", c)
	}
	text, _, _ := strings.Cut(change(r), " (")
	l := line("answer.higher", "variant", c.Variant, "base", c.Base, "metric", c.Metric,
		"change", strings.TrimLeft(text, "+−"), "interval", strings.Trim(spread(less(r.Low), less(r.High), decimals(less(r.Low), less(r.High))), "()")+"%",
		"confidence", digits(100*r.Confidence))
	if *r.Estimate < 1 {
		l.Kind = "answer.lower"
	}
	return l
}

// fewestRanked is how many rounds signed ranks need for an interval at 95 %: of fewer, all
// on one side are no surprise. Student's t needs two.
const fewestRanked = 6

// needs says how many rounds an interval needs.
func needs(c rundir.Comparison) Line {
	n := 2
	if c.Ratio.Interval == rundir.ByHodgesLehmann || c.Rounds >= n {
		n = max(fewestRanked, c.Rounds+1)
	}
	return line("needs.rounds", "n", strconv.Itoa(n))
}

// state returns what may be said of a figure; of one that nobody judged, that it is ok.
func (p *page) state(figure, variant, base string) rundir.Validity {
	for _, v := range p.run.Validity {
		if v.Figure == figure && v.Variant == variant && v.Base == base {
			return v
		}
	}
	return rundir.Validity{Figure: figure, Variant: variant, Base: base, State: rundir.StateOK}
}

// because is why a figure is not as it is printed.
func because(v rundir.Validity) Line {
	switch {
	case v.Because != nil:
		return Line{Kind: v.Because.Kind, Values: v.Because.Values}
	case v.Why != "":
		return line("answer.reason", "reason", v.Why)
	}
	return line("why.unknown")
}

func (p *page) claimsSay() Line {
	kinds := []struct{ outcome, kind string }{
		{rundir.Holds, "answer.claims.holds"}, {rundir.Refuted, "answer.claims.refuted"}, {rundir.DirectionOnly, "answer.claims.direction"},
		{rundir.NotSettled, "answer.claims.open"}, {rundir.NotTestable, "answer.claims.untestable"},
	}
	counts := map[string]int{}
	for _, c := range p.run.Claims {
		counts[c.Outcome]++
	}
	var parts []Line
	for _, k := range kinds {
		if n := counts[k.outcome]; n > 0 {
			parts = append(parts, counted(k.kind, n))
		}
	}
	return counted("answer.claims", len(p.run.Claims)).with("parts", parts...)
}

func (p *page) sweepsSay() []Line {
	var lines []Line
	for _, s := range p.run.Sweeps {
		if s.Scalability != nil && s.Scalability.PeakLevel != nil && s.Scalability.PeakLevel.Estimate != nil && len(p.run.Sweeps) == 1 {
			lines = append(lines, line("answer.sweep.peak", "metric", s.Metric, "variable", s.Variable, "level", plain().estimate(*s.Scalability.PeakLevel)))
		}
		best, ok := highest(s.Levels)
		if !ok || unitOf(s.Metric).suffix == "" {
			continue
		}
		l := line("answer.sweep", "metric", s.Metric, "variable", s.Variable, "level", level(best.Value), "figure", p.brieflyIn(best.Variant, s.Metric, best.Figure))
		if len(s.Fixed) > 0 {
			var fixed []string
			for _, d := range p.run.Plan.Sweep {
				if v, ok := s.Fixed[d.Name]; ok {
					fixed = append(fixed, d.Name+" "+v)
				}
			}
			for name, v := range s.Fixed {
				if len(fixed) == 0 {
					fixed = append(fixed, name+" "+v)
				}
			}
			l.Kind, l.Values["fixed"] = "answer.sweep.fixed", strings.Join(fixed, ", ")
		}
		lines = append(lines, l)
	}
	if len(p.run.Sweeps) > 1 || len(lines) == 0 {
		lines = append(p.extremesSay(p.run.Sweeps[0].Metric), lines...)
	}
	return lines
}

func highest(levels []rundir.Level) (best rundir.Level, ok bool) {
	for _, l := range levels {
		if e := l.Figure.Estimate; e != nil && (!ok || *e > *best.Figure.Estimate) {
			best, ok = l, true
		}
	}
	return best, ok
}

// extremesSay names the best and the worst variant in a metric.
func (p *page) extremesSay(metric string) []Line {
	type place struct {
		name  string
		value float64
	}
	var places []place
	for _, v := range p.run.Variants {
		if e := p.estimate(v, metric); e.Estimate != nil && v.Name != p.run.Plan.Control && p.state(metric, v.Name, "").State != rundir.StateNotIdentified {
			places = append(places, place{v.Name, *e.Estimate})
		}
	}
	if len(places) < 2 {
		return nil
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.value, b.value) })
	first, last := places[0].name, places[len(places)-1].name
	if unitOf(metric).suffix == "" {
		return []Line{line("answer.shortest", "variant", first, "metric", metric, "figure", p.briefly(first, metric), "other", last, "most", p.briefly(last, metric))}
	}
	return []Line{line("answer.highest", "variant", last, "metric", metric, "figure", p.briefly(last, metric), "other", first, "least", p.briefly(first, metric))}
}

func (p *page) capacitiesSay() []Line {
	var lines []Line
	for _, c := range p.run.Capacities {
		switch {
		case c.Rate.Estimate == nil:
			lines = append(lines, line("answer.capacity.none", "variant", c.Variant))
		case c.Limit == "":
			lines = append(lines, line("answer.capacity", "variant", c.Variant, "rate", rates().estimate(c.Rate)))
		default:
			lines = append(lines, line("answer.capacity.limit", "variant", c.Variant, "rate", rates().estimate(c.Rate), "limit", c.Limit))
		}
	}
	return lines
}

// trendsSay says what grew in a soak, and by how much.
func (p *page) trendsSay() []Line {
	var grows, still []Line
	for _, x := range p.run.Trends {
		e := x.Slope
		if e.Estimate == nil {
			continue
		}
		text, interval, _ := strings.Cut(over(e, 1800), " (")
		l := line("answer.soak.still", "gauge", x.Metric, "variant", x.Variant, "growth", text, "interval", strings.TrimSuffix(interval, ")")+"%")
		if e.Low != nil && *e.Low > 0 {
			l.Values["growth"] = strings.TrimPrefix(text, "+")
			l.Kind = "answer.soak.grows"
			grows = append(grows, l)
		} else if interval != "" {
			still = append(still, l)
		}
	}
	if lines := append(grows, still...); len(lines) > 0 {
		return lines
	}
	var lines []Line
	for _, v := range p.run.Variants {
		lines = append(lines, line("answer.soak.unknown", "variant", v.Name))
	}
	return lines
}

// aloneSay is what a run without comparisons measured.
func (p *page) aloneSay() []Line {
	metric := cmp.Or(p.run.Plan.Metric, "throughput")
	if len(p.run.Variants) > mostSaid {
		return p.extremesSay(metric)
	}
	var lines []Line
	for _, v := range p.run.Variants {
		e := p.estimate(v, metric)
		if e.Estimate == nil {
			continue
		}
		s := p.state(metric, v.Name, "")
		switch {
		case s.State == rundir.StateNotIdentified:
			lines = append(lines, line("answer.unknown", "variant", v.Name, "metric", metric).with("why", because(s)))
		case s.State == rundir.StateBounded && s.Low != nil && s.High != nil:
			u := unitOf(metric)
			lines = append(lines, line("answer.bounded", "variant", v.Name, "metric", metric, "low", u.write(*s.Low), "high", u.write(*s.High)))
		default:
			lines = append(lines, line("answer.alone", "variant", v.Name, "metric", metric, "figure", p.briefly(v.Name, metric)))
		}
	}
	return lines
}

// briefly writes a variant's figure as its state lets it be said, without footnotes.
func (p *page) briefly(variant, metric string) string {
	for _, v := range p.run.Variants {
		if v.Name == variant {
			return p.brieflyIn(variant, metric, p.estimate(v, metric))
		}
	}
	return unknown
}

func (p *page) brieflyIn(variant, metric string, e rundir.Estimate) string {
	return stated(unitOf(metric), e, p.state(metric, variant, ""))
}

// stated writes a figure as its state lets it be said: with its interval, as bounds, as
// one that only ratios are right of, or not at all.
func stated(u unit, e rundir.Estimate, v rundir.Validity) string {
	switch {
	case e.Estimate == nil:
		return unknown
	case v.State == rundir.StateNotIdentified:
		switch {
		case v.Low != nil && v.High == nil && *v.Low > 0:
			return "≥ " + u.write(*v.Low) + " ?"
		case v.High != nil && v.Low == nil:
			return "≤ " + u.write(*v.High) + " ?"
		}
		return "?"
	case v.State == rundir.StateRelative:
		return "ratio only"
	case v.State == rundir.StateBounded && v.Low != nil && v.High != nil:
		return "[" + u.write(max(0, *v.Low)) + " … " + u.write(*v.High) + "]"
	}
	return u.estimate(e)
}

// sure says how sure the answer is.
func (p *page) sure() []Line {
	if p.isQuick() {
		return []Line{line("sure.trial")}
	}
	lines := []Line{counted("sure.rounds", p.run.Rounds)}
	confidence := 0.
	for _, c := range p.run.Comparisons {
		if c.Ratio.Low != nil || c.Ratio.High != nil {
			confidence = max(confidence, c.Ratio.Confidence)
		}
	}
	for _, v := range p.run.Variants {
		if v.Throughput.Low != nil {
			confidence = max(confidence, v.Throughput.Confidence)
		}
	}
	for _, c := range p.run.Capacities {
		if c.Rate.Low != nil {
			confidence = max(confidence, c.Rate.Confidence)
		}
	}
	if confidence > 0 {
		lines = append(lines, line("sure.confidence", "confidence", digits(100*confidence)))
	}
	found := p.primary(rundir.RoleControl)
	for _, c := range found {
		lines = append(lines, p.controlLine(c))
	}
	switch {
	case len(found) > 0:
	case p.run.Plan.Control != "":
		lines = append(lines, line("sure.control.missing"))
	case len(p.run.Comparisons) > 0:
		lines = append(lines, line("sure.control.none"))
	}
	return lines
}

// controlLine says how well the control agrees: by as much as its interval reaches.
func (p *page) controlLine(c rundir.Comparison) Line {
	r := c.Ratio
	if r.Estimate == nil || r.Low == nil || r.High == nil {
		return line("sure.control.few", "interval", factors(r))
	}
	if p.controlDiffers() || *r.Low > 1 || *r.High < 1 {
		return line("sure.control.differs", "share", margin(*r.Estimate-1), "interval", factors(r))
	}
	if wide := max(*r.High, 1/max(*r.Low, 1e-9)); wide > 2 {
		return line("sure.control.wide", "factor", figure(wide))
	}
	return line("sure.control", "share", margin(max(*r.High-1, 1-*r.Low)))
}

// broke lists what the target did not do: findings, and thresholds that it breaks.
func (p *page) broke() []Line {
	type finding struct {
		first  rundir.Flag
		trials int
	}
	var found []*finding
	for _, f := range p.run.Flags {
		if !f.Breaks {
			continue
		}
		i := slices.IndexFunc(found, func(g *finding) bool { return g.first.Kind == f.Kind && g.first.Variant == f.Variant })
		if i < 0 {
			i = len(found)
			found = append(found, &finding{first: f})
		}
		found[i].trials++
		if known(f.Measured) > known(found[i].first.Measured) {
			f.Trial = found[i].first.Trial
			found[i].first = f
		}
	}
	slices.SortStableFunc(found, func(a, b *finding) int { return -cmp.Compare(a.trials, b.trials) })
	var lines []Line
	for _, g := range found {
		kind := "broke." + g.first.Kind
		if !texts.Has(kind) {
			kind = "broke.other"
		}
		of := 0
		for _, e := range p.run.Trials {
			if e.Variant == g.first.Variant && !e.Replaced {
				of++
			}
		}
		where := line("where.trials", "n", strconv.Itoa(g.trials), "of", strconv.Itoa(max(of, g.trials)))
		switch {
		case g.first.Trial == 0:
			where = line("where.run")
		case g.trials == 1:
			where = line("where.trial", "trial", strconv.Itoa(g.first.Trial))
		}
		l := line(kind, "variant", cmp.Or(g.first.Variant, p.title()), "check", g.first.Kind, "measured", measuredAs(g.first))
		lines = append(lines, l.with("where", where))
	}
	for _, t := range p.run.Thresholds {
		if t.Outcome == rundir.Broken {
			kind := "broke.threshold"
			if t.Variant == "" {
				kind = "broke.threshold.all"
			}
			lines = append(lines, line(kind, "variant", t.Variant, "threshold", t.Text, "measured", p.measured(t.Text, verdict.ForThreshold, t.Measured, t.Low, t.High)))
		}
	}
	return lines
}

func known(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// measuredAs writes what a flag's check found, in its unit.
func measuredAs(f rundir.Flag) string {
	if f.Measured == nil {
		return unknown
	}
	switch f.Unit {
	case "s":
		return Seconds(*f.Measured)
	case "ratio":
		return percent(*f.Measured)
	}
	return whole(int64(math.Round(*f.Measured)))
}

// trust counts the figures by state.
func (p *page) trust() []Line {
	counts := map[string]int{}
	for _, v := range p.run.Validity {
		counts[v.State]++
	}
	all := len(p.run.Validity)
	switch of := whole(int64(all)); {
	case all == 0:
		return nil
	case counts[rundir.StateOK] == all:
		return []Line{line("trust.all", "of", of)}
	default:
		lines := []Line{line("trust.ok", "n", whole(int64(counts[rundir.StateOK])), "of", of)}
		for _, s := range []struct{ state, kind string }{
			{rundir.StateBounded, "trust.bounded"}, {rundir.StateRelative, "trust.relative"}, {rundir.StateNotIdentified, "trust.unknown"},
		} {
			if n := counts[s.state]; n > 0 {
				lines = append(lines, line(s.kind, "n", whole(int64(n))))
			}
		}
		return lines
	}
}

// askedBadly are the figures that were asked for and are not as printed, the worst first.
func (p *page) askedBadly() []rundir.Validity {
	var list []rundir.Validity
	for _, v := range p.run.Validity {
		if v.Asked && v.State != rundir.StateOK {
			list = append(list, v)
		}
	}
	rank := []string{rundir.StateNotIdentified, rundir.StateRelative, rundir.StateBounded}
	slices.SortStableFunc(list, func(a, b rundir.Validity) int {
		return cmp.Compare(slices.Index(rank, a.State), slices.Index(rank, b.State))
	})
	return list
}

func (p *page) doubtful() []Line {
	var lines []Line
	for _, v := range p.askedBadly() {
		figure := line("trust.of", "metric", v.Figure, "variant", v.Variant)
		if v.Base != "" {
			figure = line("trust.over", "metric", v.Figure, "variant", v.Variant, "base", v.Base)
		}
		l := line("trust.asked.unknown")
		switch {
		case v.State == rundir.StateRelative:
			l = line("trust.asked.relative")
		case v.State == rundir.StateBounded && v.Low != nil && v.High != nil:
			u := unitOf(v.Figure)
			if v.Base != "" {
				u = plain()
			}
			l = line("trust.asked.bounded", "low", u.write(max(0, *v.Low)), "high", u.write(*v.High))
		}
		l.Parts = map[string][]Line{"figure": {figure}, "why": {because(v)}}
		lines = append(lines, l)
	}
	return lines
}

// again says how many rounds were measured again, and what comes out with them.
func (p *page) again() []Line {
	rounds := map[int]bool{}
	for _, e := range p.run.Trials {
		if e.Excluded {
			rounds[e.Round] = true
		}
	}
	if len(rounds) == 0 {
		return nil
	}
	lines := []Line{counted("again.rounds", len(rounds))}
	for _, c := range p.primary("") {
		if c.AllRounds != nil {
			return append(lines, line("again.with", "variant", c.Variant, "base", c.Base, "metric", c.Metric, "change", change(*c.AllRounds)))
		}
	}
	return lines
}

// next is the one thing that helps most: with a figure that was asked for and is not
// identified, then with the target, then with what is not settled, then with bounds.
func (p *page) next() *Line {
	remedied := func(kinds []string) *Line {
		for _, kind := range kinds {
			if r := remedyKind(kind); r != "" {
				l := line(r)
				return &l
			}
		}
		return nil
	}
	if !p.run.Complete && p.folder.Dir != "" && p.run.Plan.Source != "" {
		l := line("next.resume", "folder", p.folder.Dir)
		return &l
	}
	bad := p.askedBadly()
	for _, v := range bad {
		if l := remedied(v.Causes); v.State == rundir.StateNotIdentified && l != nil {
			return l
		}
	}
	for _, f := range p.run.Flags {
		if f.Breaks || f.Kind == "no_complete_trial" {
			if l := remedied([]string{f.Kind}); l != nil {
				return l
			}
		}
	}
	if p.controlDiffers() {
		return remedied([]string{controlDiffers})
	}
	for _, c := range p.primary("") {
		if c.Verdict == rundir.Inconclusive && c.FurtherRounds != nil {
			l := counted("next.rounds", *c.FurtherRounds, "variant", c.Variant, "base", c.Base)
			return &l
		}
	}
	for _, c := range p.primary("") {
		if c.Ratio.Low == nil && c.Ratio.High == nil && c.Ratio.Estimate != nil {
			l := line("next.more").with("needs", needs(c))
			return &l
		}
	}
	if slices.ContainsFunc(p.run.Thresholds, func(t rundir.Threshold) bool { return t.Outcome == rundir.Undecided }) {
		l := line("next.threshold")
		return &l
	}
	for _, v := range bad {
		if l := remedied(v.Causes); l != nil {
			return l
		}
	}
	for _, f := range p.run.Flags {
		if f.Spoils || p.isQuick() {
			if l := remedied([]string{f.Kind}); l != nil {
				return l
			}
		}
	}
	return nil
}
