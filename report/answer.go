package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/verdict"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/expr"
	"dyno/results/rundir"
)

// An Answer is the short result of a run, before all its figures. It is data: the
// terminal, a document and the page make the same sentences of it, each in its reader's
// language.
type Answer struct {
	Says  []texts.Message `json:"says"`            // the answer itself
	Table *Brief          `json:"table,omitempty"` // the claims, or else what was compared or measured
	Pairs []texts.Message `json:"pairs,omitempty"` // which of all pairs of variants differ, a sentence for each metric
	Sure  []texts.Message `json:"sure,omitempty"`  // how sure the answer is: rounds, intervals and the control, in one sentence
	Broke []texts.Message `json:"broke,omitempty"` // findings about the target
	Trust []texts.Message `json:"trust,omitempty"` // how many figures of each state, in one sentence
	Asked []texts.Message `json:"asked,omitempty"` // the figures that were asked for and are not as printed
	Again []texts.Message `json:"again,omitempty"` // rounds measured again, and the outcome with them
	Next  *texts.Message  `json:"next,omitempty"`  // the one thing that helps most
	Rest  *texts.Message  `json:"rest,omitempty"`  // where the whole result is
}

// message is a sentence of the report. For a quick load, which has no variants, trials or files,
// it has words of its own where there are some.
func (p *page) message(kind string, pairs ...string) texts.Message {
	if quick := kind + ".quick"; (p.isQuick() || p.isSearch()) && texts.Has(quick) {
		kind = quick
	}
	return texts.New(kind, pairs...)
}

// counted is a message about a number of things, which has a form for one.
func counted(kind string, n int, pairs ...string) texts.Message {
	if n == 1 {
		kind += ".one"
	}
	return texts.New(kind, append(pairs, "n", whole(int64(n)))...)
}

// A Brief is a table of cells that need no language. The exception is cells under heads
// named outcome, verdict and metric, for which there are words. The most important rows
// come first.
type Brief struct {
	Kind string     `json:"kind"` // claims, comparisons, ladder, levels, capacities, trends or variants
	Head []string   `json:"head"` // the content of each column
	Rows [][]string `json:"rows"`
}

// Make condenses a run to its answer. It needs only the run. For a folder, the answer
// names its place.
func Make(f *rundir.Folder) Answer {
	p := newPage(f)
	a := Answer{Says: p.says(), Table: p.brief()}
	if !p.nothing() {
		a.Pairs, a.Sure, a.Trust, a.Asked = p.pairs(), p.sure(), p.trust(), p.doubtful()
	}
	a.Broke, a.Again, a.Next = p.broke(), p.again(), p.next()
	rest := texts.New("rest.full")
	if f.Dir != "" {
		rest = texts.New("rest.folder", "folder", f.Dir)
	}
	a.Rest = &rest
	return a
}

// nothing tells whether the run has no figure at all.
func (p *page) nothing() bool {
	return len(p.run.Capacities) == 0 && !slices.ContainsFunc(p.run.Variants, func(v rundir.Variant) bool { return v.Trials > 0 })
}

// mostSaid is how many sentences the answer has at most.
const mostSaid = 3

// says answers the experiment's question.
func (p *page) says() []texts.Message {
	lines := p.unfinished()
	most := mostSaid
	add := func(more []texts.Message) {
		lines = append(lines, more[:min(len(more), max(0, most-len(lines)))]...)
	}
	if p.nothing() {
		add([]texts.Message{texts.New("answer.nothing")})
		return lines
	}
	failed := p.failuresSay()
	lines, most = append(lines, failed...), most+len(failed)
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
	if worse := p.alsoWorse(); len(worse) > 0 {
		lines = append(lines, texts.New("answer.worse").With("list", worse...))
	}
	if testable {
		add([]texts.Message{p.claimsSay()})
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
	if m := verdict.MostlyDisturbed(p.run); m != nil && !p.isQuick() {
		lines = append(lines, *m)
	}
	return lines
}

// failuresSay says which share of the requests succeeded, if many failed, and how many users could not
// log in. Both are before any other figure, which is of the others.
func (p *page) failuresSay() (lines []texts.Message) {
	if v := verdict.MostFailing(p.run); v != nil {
		pairs := []string{"variant", v.Name, "share", percent(1 - *v.Errors.Ratio), "failed", whole(v.Errors.Total), "of", whole(v.Errors.Due)}
		if why := p.failure(v.Name); why != "" {
			lines = append(lines, p.message("answer.succeeded.why", append(pairs, "why", why)...))
		} else {
			lines = append(lines, p.message("answer.succeeded", pairs...))
		}
	}
	for _, v := range p.run.Variants {
		if u := v.Users; u != nil && u.LoggedOut > 0 {
			lines = append(lines, p.message("answer.logged_out", "variant", v.Name, "n", whole(u.LoggedOut), "failed", whole(u.FailedLogins)))
		}
	}
	return lines
}

// failure is what the most frequent failure of a variant's requests says; empty if that is not known.
func (p *page) failure(variant string) string {
	counts := map[string]int64{}
	for _, t := range p.folder.Measured() {
		for text, n := range t.Failures {
			if t.Variant == variant {
				counts[text] += n
			}
		}
	}
	for _, text := range descending(counts) {
		_, why, _ := strings.Cut(text, ": ")
		return why
	}
	return ""
}

// unfinished says that trials are missing, and why.
func (p *page) unfinished() []texts.Message {
	if p.folder.Complete() {
		return nil
	}
	interrupted := p.interrupted()
	if p.isQuick() && len(interrupted) > 0 {
		l := interrupted[0]
		l.Kind = "answer.interrupted.quick"
		return []texts.Message{l.With("why", withoutTrial(p.run.Unfinished()))}
	}
	measured := 0
	for _, t := range p.folder.Trials {
		if t.Complete && !p.examined(t.Number).Replaced {
			measured++
		}
	}
	if p.isSearch() {
		return []texts.Message{texts.New("answer.interrupted.search", "measured", strconv.Itoa(measured)).With("why", withoutTrial(p.run.Unfinished()))}
	}
	var l texts.Message
	if n := p.run.TrialsPlanned; n > 0 {
		l = counted("answer.incomplete", n, "measured", strconv.Itoa(measured), "planned", whole(int64(n)))
	} else {
		l = counted("answer.incomplete.search", measured, "measured", strconv.Itoa(measured))
	}
	lines := append([]texts.Message{l}, interrupted[:min(len(interrupted), 1)]...)
	reasons := Incomplete(p.folder)
	return append(lines, reasons[:min(len(reasons), 2)]...)
}

// withoutTrial is why a run ended, without the number of the trial in which it did.
func withoutTrial(why texts.Message) texts.Message {
	if cause := why.Parts["error"]; len(cause) > 0 {
		return cause[0]
	}
	return why
}

// interrupted says which figures are those of interrupted trials.
func (p *page) interrupted() (lines []texts.Message) {
	for _, t := range p.folder.Measured() {
		if t.Interrupted {
			time := texts.Verbatim(Seconds(t.WindowSeconds))
			if planned := p.run.Plan.Variant(t.Variant).WindowSeconds; planned > 0 {
				time = texts.New("answer.interrupted.of", "time", Seconds(t.WindowSeconds), "planned", Seconds(planned))
			}
			lines = append(lines, texts.New("answer.interrupted", "variant", t.Variant).With("time", time))
		}
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

// unclear ranks verdicts: differences, then equivalence, then undecided ones.
func unclear(c rundir.Comparison) int {
	return max(0, slices.Index([]string{rundir.Better, rundir.Worse, rundir.Equivalent, rundir.Inconclusive, "", rundir.Invalid}, c.Verdict)-1)
}

func distance(c rundir.Comparison) float64 {
	if c.Ratio.Estimate == nil || *c.Ratio.Estimate <= 0 {
		return 0
	}
	return math.Abs(math.Log(*c.Ratio.Estimate))
}

func (p *page) comparisonsSay() []texts.Message {
	if p.run.Plan.Ladder != nil {
		return p.ladderSays()
	}
	var lines []texts.Message
	for _, c := range p.primary("") {
		lines = append(lines, p.comparisonSays(c))
	}
	return lines
}

// mostWorse is how many worse figures a sentence names.
const mostWorse = 6

// alsoWorse lists the figures in which a variant is worse, but for those that the plan's metric is
// about: a gain in it may have its price elsewhere.
func (p *page) alsoWorse() (list []texts.Message) {
	more := 0
	for _, c := range p.run.Comparisons {
		_, step := rundir.SplitStep(c.Metric)
		switch {
		case c.Primary || c.Role != "" || step != "" || c.Verdict != rundir.Worse || c.Ratio.Estimate == nil || !p.identified(c):
		case len(list) == mostWorse:
			more++
		default:
			text, _, _ := strings.Cut(change(c.Ratio), " (")
			list = append(list, texts.New("answer.worse.figure", "metric", c.Metric, "variant", c.Variant, "change", text))
		}
	}
	if more > 0 {
		list = append(list, texts.New("more.lines", "n", whole(int64(more))))
	}
	return list
}

// mostPairs is how many pairs a sentence names at most.
const mostPairs = 12

// pairs says of each metric in which all variants were compared with each other how many pairs
// differ, and names those that do not. The plan's metric comes first.
func (p *page) pairs() (lines []texts.Message) {
	var metrics []string
	for _, c := range p.run.Comparisons {
		switch {
		case c.Role != rundir.RolePair || slices.Contains(metrics, c.Metric):
		case c.Primary:
			metrics = slices.Insert(metrics, 0, c.Metric)
		default:
			metrics = append(metrics, c.Metric)
		}
	}
	for _, m := range metrics {
		lines = append(lines, p.pairsIn(m))
	}
	return lines
}

func (p *page) pairsIn(metric string) texts.Message {
	differ, all, confidence := 0, 0, 0.
	others := map[string][]texts.Message{}
	for _, c := range p.run.Comparisons {
		if c.Metric != metric || c.Role != rundir.RolePair && c.Role != "" {
			continue
		}
		all++
		confidence = max(confidence, c.Ratio.Confidence)
		pair := texts.New("pairs.pair", "variant", c.Variant, "base", c.Base)
		switch {
		case !p.identified(c):
			others["pairs.unknown"] = append(others["pairs.unknown"], pair)
		case c.Verdict == rundir.Better || c.Verdict == rundir.Worse:
			differ++
		case c.Verdict == rundir.Equivalent:
			others["pairs.equivalent"] = append(others["pairs.equivalent"], pair)
		default:
			if p, _ := pValue(c); p != nil && c.Ratio.Estimate != nil {
				pair = texts.New("pairs.pair.ratio", "variant", c.Variant, "base", c.Base,
					"factor", bare(*c.Ratio.Estimate), "interval", factors(c.Ratio), "p", probability(*p))
			}
			others["pairs.open"] = append(others["pairs.open"], pair)
		}
	}
	var rest []texts.Message
	for _, kind := range []string{"pairs.open", "pairs.equivalent", "pairs.unknown"} {
		list := others[kind]
		if len(list) == 0 {
			continue
		}
		if left := len(list) - mostPairs; left > 0 {
			list = append(list[:mostPairs:mostPairs], texts.New("more.lines", "n", whole(int64(left))))
		}
		clause := texts.New(kind)
		if kind == "pairs.equivalent" {
			clause = texts.New(kind, "margin", margin(p.run.Plan.Margin))
		}
		rest = append(rest, clause.With("list", list...))
	}
	if len(rest) == 0 {
		return texts.New("pairs.all", "metric", metric, "n", whole(int64(all)), "confidence", digits(100*confidence))
	}
	return texts.New("pairs.some", "metric", metric, "n", whole(int64(all)), "differ", whole(int64(differ)), "confidence", digits(100*confidence)).
		With("reasons", rest...)
}

func (p *page) ladderSays() []texts.Message {
	var lines []texts.Message
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
			return append(lines, texts.New("answer.ladder.most", "variant", c.Variant, "factor", bare(*c.Ratio.Estimate), "interval", factors(c.Ratio)))
		}
	}
	return lines
}

// ratioLine is a sentence with what is known of a ratio.
func (p *page) ratioLine(kind string, c rundir.Comparison) texts.Message {
	return texts.New(kind, "variant", c.Variant, "base", c.Base, "metric", c.Metric,
		"factor", bare(*c.Ratio.Estimate), "interval", factors(c.Ratio), "confidence", digits(100*c.Ratio.Confidence))
}

// mostChange is the largest change that is written in percent.
const mostChange = 0.5

// comparisonSays describes a comparison in words.
func (p *page) comparisonSays(c rundir.Comparison) texts.Message {
	r := c.Ratio
	v := p.state(c.Metric, c.Variant, c.Base)
	switch {
	case c.Verdict == rundir.Invalid || v.State == rundir.StateNotIdentified || r.Estimate == nil:
		return texts.New("answer.none", "variant", c.Variant, "base", c.Base, "metric", c.Metric).With("why", because(v))
	case r.Interval == rundir.ByLostRounds:
		return texts.New("answer.lost", "variant", c.Variant, "base", c.Base)
	case c.Verdict == rundir.Equivalent:
		return texts.New("answer.equivalent", "variant", c.Variant, "base", c.Base, "metric", c.Metric, "margin", margin(p.run.Plan.Margin))
	case c.Verdict != rundir.Better && c.Verdict != rundir.Worse:
		if r.Low == nil && r.High == nil {
			return p.ratioLine("answer.open.range", c).With("needs", needs(c))
		}
		return p.ratioLine("answer.open", c)
	case r.Low == nil && r.High == nil:
		return p.ratioLine("answer.times.range", c).With("needs", needs(c))
	case *r.Estimate > 1+mostChange || *r.Estimate < 1/(1+mostChange):
		return p.ratioLine("answer.times", c)
	}
	text, _, _ := strings.Cut(change(r), " (")
	l := texts.New("answer.higher", "variant", c.Variant, "base", c.Base, "metric", c.Metric,
		"change", strings.TrimLeft(text, "+−"), "interval", strings.Trim(spread(less(r.Low), less(r.High), decimals(less(r.Low), less(r.High))), "()")+"%",
		"confidence", digits(100*r.Confidence))
	if *r.Estimate < 1 {
		l.Kind = "answer.lower"
	}
	return l
}

// fewestRanked is how many rounds signed ranks need for an interval at 95 %: with fewer,
// all on one side may be chance. Student's t needs two.
const fewestRanked = 6

// needs says how many rounds an interval needs.
func needs(c rundir.Comparison) texts.Message {
	n := 2
	if c.Ratio.Interval == rundir.ByHodgesLehmann || c.Rounds >= n {
		n = max(fewestRanked, c.Rounds+1)
	}
	return texts.New("needs.rounds", "n", strconv.Itoa(n))
}

// state returns what may be said of a figure. A figure that was not judged is ok.
func (p *page) state(figure, variant, base string) rundir.Validity {
	for _, v := range p.run.Validity {
		if v.Figure == figure && v.Variant == variant && v.Base == base {
			return v
		}
	}
	return rundir.Validity{Figure: figure, Variant: variant, Base: base, State: rundir.StateOK}
}

// because is why a figure is not as it is printed.
func because(v rundir.Validity) texts.Message {
	switch {
	case v.Because != nil:
		return *v.Because
	case v.Why != "":
		return texts.Verbatim(v.Why)
	}
	return texts.New("why.unknown")
}

func (p *page) claimsSay() texts.Message {
	kinds := []struct{ outcome, kind string }{
		{rundir.Holds, "answer.claims.holds"}, {rundir.Refuted, "answer.claims.refuted"}, {rundir.DirectionOnly, "answer.claims.direction"},
		{rundir.NotSettled, "answer.claims.open"}, {rundir.NotTestable, "answer.claims.untestable"},
	}
	counts := map[string]int{}
	for _, c := range p.run.Claims {
		counts[c.Outcome]++
	}
	var parts []texts.Message
	for _, k := range kinds {
		if n := counts[k.outcome]; n > 0 {
			parts = append(parts, counted(k.kind, n))
		}
	}
	return counted("answer.claims", len(p.run.Claims)).With("parts", parts...)
}

func (p *page) sweepsSay() []texts.Message {
	var lines []texts.Message
	for _, s := range p.run.Sweeps {
		if s.Scalability != nil && s.Scalability.PeakLevel != nil && s.Scalability.PeakLevel.Estimate != nil && len(p.run.Sweeps) == 1 {
			lines = append(lines, texts.New("answer.sweep.peak", "metric", s.Metric, "variable", s.Variable, "level", plain().estimate(*s.Scalability.PeakLevel)))
		}
		best, ok := highest(s.Levels)
		if !ok || unitOf(s.Metric).Suffix() == "" {
			continue
		}
		l := texts.New("answer.sweep", "metric", s.Metric, "variable", s.Variable, "level", level(best.Value), "figure", p.brieflyIn(best.Variant, s.Metric, best.Figure))
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
func (p *page) extremesSay(metric string) []texts.Message {
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
	if unitOf(metric).Suffix() == "" {
		return []texts.Message{texts.New("answer.shortest", "variant", first, "metric", metric, "figure", p.briefly(first, metric), "other", last, "most", p.briefly(last, metric))}
	}
	return []texts.Message{texts.New("answer.highest", "variant", last, "metric", metric, "figure", p.briefly(last, metric), "other", first, "least", p.briefly(first, metric))}
}

func (p *page) capacitiesSay() []texts.Message {
	var lines []texts.Message
	for _, c := range p.run.Capacities {
		switch {
		case c.Rate.Estimate == nil:
			lines = append(lines, texts.New("answer.capacity.none", "variant", c.Variant))
		case c.Limit == "":
			lines = append(lines, texts.New("answer.capacity", "variant", c.Variant, "rate", rates().estimate(c.Rate)))
		default:
			l := texts.New("answer.capacity.limit", "variant", c.Variant, "rate", rates().estimate(c.Rate), "limit", c.Limit)
			if c.LimitBecause != nil {
				l = l.With("limit", *c.LimitBecause)
			}
			lines = append(lines, l)
		}
	}
	return lines
}

// trendsSay says what grew in a soak, and by how much.
func (p *page) trendsSay() []texts.Message {
	var grows, still []texts.Message
	for _, x := range p.run.Trends {
		e := x.Slope
		if e.Estimate == nil {
			continue
		}
		span := p.measuredSpan(x.Variant)
		text, interval, _ := strings.Cut(over(e, span), " (")
		l := texts.New("answer.soak.still", "gauge", x.Metric, "variant", x.Variant, "growth", text,
			"time", units.FormatSeconds(span), "interval", strings.TrimSuffix(interval, ")")+"%")
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
	var lines []texts.Message
	for _, v := range p.run.Variants {
		lines = append(lines, texts.New("answer.soak.unknown", "variant", v.Name))
	}
	return lines
}

// aloneSay describes the measurements of a run without comparisons.
func (p *page) aloneSay() []texts.Message {
	metric := cmp.Or(p.run.Plan.Metric, "throughput")
	if len(p.run.Variants) > mostSaid {
		return p.extremesSay(metric)
	}
	var lines []texts.Message
	for _, v := range p.run.Variants {
		e := p.estimate(v, metric)
		if e.Estimate == nil {
			continue
		}
		l := p.message("answer.alone", "variant", v.Name, "metric", metric, "figure", p.briefly(v.Name, metric))
		if s := p.state(metric, v.Name, ""); s.State == rundir.StateNotIdentified {
			l = p.message("answer.unknown", "variant", v.Name, "metric", metric, "figure", l.Values["figure"]).With("why", because(s))
		}
		lines = append(lines, l)
	}
	return lines
}

// briefly writes a variant's figure as its state allows, without footnotes.
func (p *page) briefly(variant, metric string) string {
	for _, v := range p.run.Variants {
		if v.Name == variant {
			return p.figure(v, metric, unitOf(metric))
		}
	}
	return unknown
}

// figure writes a variant's figure in a unit, with the mark that it needs.
func (p *page) figure(v rundir.Variant, metric string, u unit) string {
	e := p.estimate(v, metric)
	if e.Estimate != nil && few(v, metric) {
		return marked(tooFew, u.Write(*e.Estimate))
	}
	return stated(u, e, p.state(metric, v.Name, ""))
}

// mark is the mark that a variant's figure needs.
func (p *page) mark(v rundir.Variant, metric string) string {
	if few(v, metric) {
		return tooFew
	}
	return markOf(p.estimate(v, metric), p.state(metric, v.Name, ""))
}

// few tells whether a figure is a quantile with fewer than ten values beyond it.
func few(v rundir.Variant, metric string) bool {
	if _, estimated := v.Intervals[metric]; estimated {
		return false
	}
	of, step := rundir.SplitStep(metric)
	if step != "" {
		v = ofStep(v, step)
	}
	tag, name, _ := strings.Cut(of, ".")
	q, ok := rundir.QuantileOf(name)
	return ok && rundir.Few(v.Times(tag).Count, q)
}

func (p *page) brieflyIn(variant, metric string, e rundir.Estimate) string {
	return stated(unitOf(metric), e, p.state(metric, variant, ""))
}

// The marks of figures. A figure has one at most.
const (
	atMost  = "≤" // disturbances can only have made it larger than it truly is
	atLeast = "≥" // or smaller
	tooFew  = "~" // it has fewer than ten samples
	doubt   = "?" // it cannot be relied on
)

// stated writes a figure as it was measured, with its mark. The interval or the bounds come
// after it.
func stated(u unit, e rundir.Estimate, v rundir.Validity) string {
	if e.Estimate == nil {
		return unknown
	}
	if v.State == rundir.StateOK {
		return u.estimate(e)
	}
	mark := markOf(e, v)
	text := marked(mark, u.Write(*e.Estimate))
	if mark != doubt && bounded(e) && v.Low != nil && v.High != nil {
		text += " " + u.ends(rundir.Estimate{Estimate: e.Estimate, Low: v.Low, High: v.High})
	}
	return text
}

// marked puts a mark where it stands: the doubt after the figure, the others before it.
func marked(mark, figure string) string {
	if mark == doubt {
		return figure + mark
	}
	return mark + figure
}

// markOf is the mark that a figure needs as its state is.
func markOf(e rundir.Estimate, v rundir.Validity) string {
	if v.State == rundir.StateOK || e.Estimate == nil {
		return ""
	}
	// Of an exchange that was disturbed the time is longer, not shorter. That a late generator gives the
	// target less to do is in the upper bound, but no fault of what was measured.
	if _, isTime := rundir.ClockOf(v.Figure); isTime && v.Base == "" && v.State == rundir.StateBounded {
		return atMost
	}
	// A bound at the end of the interval of trials is that of chance alone.
	below, above := math.Inf(1), math.Inf(1) // how far beyond that the bounds lie, as a share
	if v.Low != nil {
		below = -beyond(*cmp.Or(e.Low, e.Estimate), *v.Low)
	}
	if v.High != nil {
		above = beyond(*cmp.Or(e.High, e.Estimate), *v.High)
	}
	switch {
	case v.State == rundir.StateRelative || !(min(below, above) <= slight):
		return doubt
	case above <= below:
		return atMost
	}
	return atLeast
}

// beyond is how far a bound lies above a value, as a share of it.
func beyond(value, bound float64) float64 {
	if value == bound {
		return 0 // even where both are 0
	}
	return bound/value - 1
}

// slight is how far beyond a figure a bound may lie, as a share, for a mark to say that the
// figure is not moved in that direction.
const slight = 0.1

// sure says how sure the answer is.
func (p *page) sure() []texts.Message {
	if p.isQuick() {
		return []texts.Message{texts.New("sure.trial")}
	}
	lines := []texts.Message{counted("sure.rounds", p.run.Rounds)}
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
		lines = append(lines, texts.New("sure.confidence", "confidence", digits(100*confidence)))
	}
	found := p.primary(rundir.RoleControl)
	for _, c := range found {
		lines = append(lines, p.controlLine(c))
	}
	switch {
	case len(found) > 0:
	case p.run.Plan.Control != "":
		lines = append(lines, texts.New("sure.control.missing"))
	case len(p.run.Comparisons) > 0:
		lines = append(lines, texts.New("sure.control.none"))
	}
	return lines
}

// controlLine says how well the control agrees: by as much as its interval reaches.
func (p *page) controlLine(c rundir.Comparison) texts.Message {
	r := c.Ratio
	if r.Estimate == nil || r.Low == nil || r.High == nil {
		return texts.New("sure.control.few", "interval", factors(r))
	}
	if p.controlDiffers() || *r.Low > 1 || *r.High < 1 {
		return texts.New("sure.control.differs", "share", margin(*r.Estimate-1), "interval", factors(r))
	}
	if wide := max(*r.High, 1/max(*r.Low, 1e-9)); wide > 2 {
		return texts.New("sure.control.wide", "factor", units.Figure(wide))
	}
	return texts.New("sure.control", "share", margin(max(*r.High-1, 1-*r.Low)))
}

// remarks are the kinds of flags that are findings about the target although they break nothing.
var remarks = []string{checks.FlagUnopened, checks.FlagRedirects, checks.FlagDeviations}

// broke lists the findings about the target, those that break first, and the thresholds that it
// breaks.
func (p *page) broke() []texts.Message {
	type finding struct {
		first  rundir.Flag
		trials int
	}
	var found []*finding
	for _, f := range p.run.Flags {
		if !f.Breaks && !slices.Contains(remarks, f.Kind) {
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
	slices.SortStableFunc(found, func(a, b *finding) int {
		switch {
		case a.first.Breaks && !b.first.Breaks:
			return -1
		case b.first.Breaks && !a.first.Breaks:
			return 1
		}
		return -cmp.Compare(a.trials, b.trials)
	})
	var lines []texts.Message
	for _, g := range found {
		kind := "broke." + g.first.Kind
		var ways []texts.Message
		if m := g.first.Because; m != nil {
			ways = m.Parts["ways"]
		}
		if !texts.Has(kind) || g.first.Kind == checks.FlagDeviations && len(ways) == 0 {
			kind = "broke.other"
		}
		of := 0
		for _, e := range p.run.Trials {
			if e.Variant == g.first.Variant && !e.Replaced {
				of++
			}
		}
		where := texts.New("where.trials", "n", strconv.Itoa(g.trials), "of", strconv.Itoa(max(of, g.trials)))
		switch {
		case g.first.Trial == 0:
			where = texts.New("where.run")
		case g.trials == 1:
			where = texts.New("where.trial", "trial", strconv.Itoa(g.first.Trial))
		}
		l := p.message(kind, "variant", cmp.Or(g.first.Variant, p.title()), "check", g.first.Kind, "measured", measuredAs(g.first))
		if because := g.first.Because; badly(g.first) {
			l = p.message("broke.no_good_answers", "variant", l.Values["variant"], "answers", because.Values["answers"])
		}
		lines = append(lines, l.With("ways", ways...).With("where", where))
	}
	for _, t := range p.run.Thresholds {
		if t.Outcome == rundir.Broken {
			kind := "broke.threshold"
			if t.Variant == "" || p.isQuick() {
				kind = "broke.threshold.all"
			}
			lines = append(lines, texts.New(kind, "variant", t.Variant, "threshold", t.Text, "measured", p.measured(t.Text, expr.ForThreshold, t.Measured, t.Low, t.High)))
		}
	}
	return lines
}

// badly tells whether a flag says that the target answered, but nothing well.
func badly(f rundir.Flag) bool { return f.Because != nil && f.Because.Kind == "found.no_good_answers" }

// remediable tells whether advice is for this run: where no target was started, there is no
// output of one.
func (p *page) remediable(remedy string) bool {
	started := func(v rundir.PlanVariant) bool { return v.Started }
	return remedy != "remedy.output" || slices.ContainsFunc(p.run.Plan.Variants, started)
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
	case rundir.Seconds:
		return Seconds(*f.Measured)
	case rundir.Share:
		return percent(*f.Measured)
	}
	return whole(int64(math.Round(*f.Measured)))
}

// trust counts the figures by state.
func (p *page) trust() []texts.Message {
	counts := map[string]int{}
	for _, v := range p.run.Validity {
		counts[v.State]++
	}
	all := len(p.run.Validity)
	switch of := whole(int64(all)); {
	case all == 0:
		return nil
	case counts[rundir.StateOK] == all:
		return []texts.Message{texts.New("trust.all", "of", of)}
	default:
		lines := []texts.Message{texts.New("trust.ok", "n", whole(int64(counts[rundir.StateOK])), "of", of)}
		for _, s := range []struct{ state, kind string }{
			{rundir.StateBounded, "trust.bounded"}, {rundir.StateRelative, "trust.relative"}, {rundir.StateNotIdentified, "trust.unknown"},
		} {
			if n := counts[s.state]; n > 0 {
				lines = append(lines, texts.New(s.kind, "n", whole(int64(n))))
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

func (p *page) doubtful() []texts.Message {
	var lines []texts.Message
	for _, v := range p.askedBadly() {
		figure := p.message("trust.of", "metric", v.Figure, "variant", v.Variant)
		if v.Base != "" {
			figure = texts.New("trust.over", "metric", v.Figure, "variant", v.Variant, "base", v.Base)
		}
		l := texts.New("trust.asked.unknown")
		switch {
		case v.State == rundir.StateRelative:
			l = texts.New("trust.asked.relative")
		case v.State == rundir.StateBounded && v.Low != nil && v.High != nil:
			u := unitOf(v.Figure)
			if v.Base != "" {
				u = plain()
			}
			l = texts.New("trust.asked.bounded", "low", u.Write(max(0, *v.Low)), "high", u.Write(*v.High))
		}
		lines = append(lines, l.With("figure", figure).With("why", because(v)))
	}
	return lines
}

// again says how many rounds were measured again, and what the outcome with them is.
func (p *page) again() []texts.Message {
	rounds := map[int]bool{}
	for _, e := range p.run.Trials {
		if e.Excluded {
			rounds[e.Round] = true
		}
	}
	if len(rounds) == 0 {
		return nil
	}
	lines := []texts.Message{counted("again.rounds", len(rounds))}
	for _, c := range p.primary("") {
		if c.AllRounds != nil {
			return append(lines, texts.New("again.with", "variant", c.Variant, "base", c.Base, "metric", c.Metric, "change", change(*c.AllRounds)))
		}
	}
	return lines
}

// next is the one step that helps most. It is chosen in this order: a figure that was
// asked for and is not identified, the target, a comparison that is not settled, bounds.
func (p *page) next() *texts.Message {
	remedied := func(kinds []string) *texts.Message {
		for _, kind := range kinds {
			if r := remedyKind(kind); r != "" && p.remediable(r) {
				l := p.message(r)
				return &l
			}
		}
		return nil
	}
	if !p.run.Complete && p.folder.Dir != "" && p.run.Plan.Source != "" {
		l := texts.New("next.resume", "folder", p.folder.Dir)
		return &l
	}
	bad := p.askedBadly()
	for _, v := range bad {
		if l := remedied(v.Causes); v.State == rundir.StateNotIdentified && l != nil {
			return l
		}
	}
	for _, f := range p.run.Flags {
		if badly(f) {
			l := p.message("remedy.no_good_answers")
			return &l
		}
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
			l := texts.New("next.more").With("needs", needs(c))
			return &l
		}
	}
	if slices.ContainsFunc(p.run.Thresholds, func(t rundir.Threshold) bool { return t.Outcome == rundir.Undecided }) {
		l := texts.New("next.threshold")
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
