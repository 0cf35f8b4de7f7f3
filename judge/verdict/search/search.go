// Package search judges the probes of searches for capacity, each by itself, and sums up the
// searches of each variant.
package search

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"dyno/internal/texts"
	"dyno/judge/capacity"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/compare"
	"dyno/judge/verdict/dataset"
	"dyno/judge/verdict/evidence"
	"dyno/judge/verdict/expr"
	"dyno/results/rundir"
)

// A bracket is the result of a search, with its probes.
type bracket struct {
	rundir.Bracket
	probes []*Probe
	done   bool // the search came to its end
	own    bool // only limits of the generator made High bad
}

// closed tells whether both ends are known.
func (b *bracket) closed() bool { return b.Low != nil && b.High != nil }

// middle is the rate that represents a closed bracket: its ratio to either end is the
// same.
func (b *bracket) middle() float64 { return math.Sqrt(*b.Low) * math.Sqrt(*b.High) }

// at returns the probes at a rate that came out as said.
func (b *bracket) at(rate *float64, good bool) (found []*Probe) {
	for _, p := range b.probes {
		if rate != nil && *p.Rate == *rate && p.Result.Good == good {
			found = append(found, p)
		}
	}
	return found
}

// A Probe is a trial of a search, and how it came out.
type Probe struct {
	*dataset.Trial
	Result   capacity.Trial
	Why      string          // why it is not good: the threshold, the kind of flag, or a sentence
	because  *rundir.Message // the sentence as data
	doubtful bool            // something disturbed a figure of a threshold that could not be decided
}

// attributable tells whether nothing but the target made a probe bad.
func (p *Probe) attributable() bool { return !p.Result.Disturbed && !p.Result.Own && !p.doubtful }

// complete says what is known of both ends of a bracket.
func (b *bracket) complete(plan rundir.Plan) (err error) {
	bad := b.at(b.High, false)
	// Those that are the target's doing first: they show what was broken.
	slices.SortStableFunc(bad, func(x, y *Probe) int {
		return cmp.Compare(strconv.FormatBool(y.attributable()), strconv.FormatBool(x.attributable()))
	})
	attributable := 0
	for _, p := range bad {
		if p.attributable() {
			attributable++
		}
	}
	all := max(plan.Capacity.Trials, len(bad)+len(b.at(b.High, true)))
	b.HighDisturbed = len(bad) > 0 && (b.own || !Goal(*plan.Capacity).TooMany(attributable, all))
	if b.own {
		b.OwnLimit = ownLimit(plan.Variant(bad[0].Variant), bad)
	}
	if b.AtLow, err = decideMedian(plan, b.at(b.Low, true)); err != nil {
		return err
	}
	if len(bad) > 0 {
		b.AtHigh, err = decideAlone(plan, bad[0])
	}
	return err
}

// ownLimit names the limit of the generator that bad probes reached, and how to raise it.
func ownLimit(v rundir.PlanVariant, bad []*Probe) *rundir.Message {
	for _, p := range bad {
		if p.Result.Own {
			switch p.Why {
			case checks.FlagGeneratorCPU:
				return new(texts.New("limit.cpu"))
			default:
				return new(texts.New("limit.resources"))
			}
		}
	}
	return v.ConnectionsLimit
}

// decideMedian decides the plan's thresholds by the probe that is in the middle by the first of them.
func decideMedian(plan rundir.Plan, probes []*Probe) ([]rundir.Threshold, error) {
	var all [][]rundir.Threshold
	for _, p := range probes {
		decided, err := decideAlone(plan, p)
		if err != nil {
			return nil, err
		}
		if len(decided) > 0 && decided[0].Measured != nil {
			all = append(all, decided)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	slices.SortStableFunc(all, func(x, y []rundir.Threshold) int { return cmp.Compare(*x[0].Measured, *y[0].Measured) })
	return all[len(all)/2], nil
}

// decideAlone decides the plan's thresholds by one probe.
func decideAlone(plan rundir.Plan, p *Probe) (decided []rundir.Threshold, err error) {
	if p.Stats == nil {
		return nil, nil
	}
	alone, err := newAlone(plan, p.Trial)
	if err != nil {
		return nil, err
	}
	for _, text := range plan.Thresholds {
		decided = append(decided, expr.DecideThreshold(text, namesOf(plan, p.Variant), alone)...)
	}
	return decided, nil
}

// newAlone returns the evidence of one probe alone.
func newAlone(plan rundir.Plan, p *dataset.Trial) (*evidence.Evidence, error) {
	one, err := dataset.OfOne(plan, p)
	if err != nil {
		return nil, err
	}
	alone := compare.New(one)
	return evidence.New(alone, alone.OfVariant(p.Variant)), nil
}

// Goal returns the target of a plan's search.
func Goal(p rundir.PlanCapacity) capacity.Goal {
	return capacity.Goal{From: p.From, To: p.To, Resolution: p.Resolution, Trials: p.Trials, Tolerate: p.Tolerate}
}

// JudgeProbe decides whether a probe was good. A good probe is complete, nothing was
// dropped, its backlog did not grow, and all thresholds hold by its estimates. A figure that a disturbance can only
// have made worse is good if it is good despite that. A probe says nothing when thresholds are
// undecided because something disturbed it. A probe says little about the target in two cases. Either the generator
// was at a limit (Result.Own). Or all connections were in use, and the times from the write on keep the thresholds
// (Result.Waited).
func JudgeProbe(plan rundir.Plan, s *dataset.Trial) *Probe {
	p := &Probe{Trial: s}
	if s.Rate != nil {
		p.Result.Rate = *s.Rate
	}
	kind, disturbed := unusable(s)
	p.Why, p.Result.Disturbed = kind, disturbed
	if kind == "" || kind == checks.FlagGeneratorCPU { // which did no harm if the thresholds hold
		if p.Why, p.because, p.Result.Disturbed = p.broken(plan); p.Why == "" {
			p.Why, p.Result.Disturbed = p.backlog()
		}
		if p.Why != "" && kind != "" {
			p.Why, p.because = kind, nil
		}
	}
	p.Result.Good = p.Why == ""
	if p.Why == checks.FlagGeneratorCPU || p.Why == checks.FlagGeneratorResources {
		p.Result.Own, p.Result.Disturbed = true, false
	}
	c := &s.Connections
	p.Result.Connections = int(c.Requested)
	if s.WindowSeconds > 0 {
		p.Result.Reached = float64(s.Counts.CompletedInWindow) / s.WindowSeconds
	}
	if slices.ContainsFunc(s.AllFlags, func(f rundir.Flag) bool { return f.Kind == checks.FlagConnections && f.Breaks }) {
		p.Result.Served = int(c.Served)
	}
	allUsed := plan.Variant(s.Variant).MostConnections > 0 && c.Peak >= c.Requested
	if !p.Result.Good && !p.Result.Disturbed && allUsed && (kind == "" || kind == checks.FlagDrops) {
		p.Result.Waited = !p.slowService(plan)
	}
	return p
}

// backlog returns why a probe is not good whose requests waited more and more, and whether a disturbance explains that.
func (p *Probe) backlog() (why string, disturbed bool) {
	i := slices.IndexFunc(p.AllFlags, func(f rundir.Flag) bool { return f.Kind == checks.FlagBacklog })
	if i < 0 {
		return "", false
	}
	if causes := p.Disturbance.Causes(); len(causes) > 0 && p.Disturbance.Lost >= *p.AllFlags[i].Measured {
		return causes[0], true
	}
	return checks.FlagBacklog, false
}

// slowService tells whether a probe breaks a threshold even if response times begin at the write. Such times
// include no wait for a connection.
func (p *Probe) slowService(plan rundir.Plan) bool {
	alone, err := newAlone(plan, p.Trial)
	if err != nil {
		return false
	}
	names := namesOf(plan, p.Variant)
	times := slices.DeleteFunc(slices.Clone(plan.Thresholds), func(text string) bool {
		e, err := expr.Compile(text, expr.ForThreshold, names)
		return err != nil || !slices.ContainsFunc(e.Refs(p.Variant), func(r expr.Ref) bool { return strings.HasPrefix(r.Metric, rundir.TagResponse+".") })
	})
	_, broken, _ := expr.Keeps(times, names, fromWrite{alone}, alone.IsDisturbed)
	return broken != ""
}

// fromWrite is evidence in which response times begin at the write.
type fromWrite struct{ *evidence.Evidence }

func (e fromWrite) Value(variant, metric string) (expr.Quantity, error) {
	if summary, ok := strings.CutPrefix(metric, rundir.TagResponse+"."); ok {
		metric = rundir.TagService + "." + summary
	}
	return e.Evidence.Value(variant, metric)
}

// namesOf returns the names that the thresholds of a variant's probe may use.
func namesOf(plan rundir.Plan, variant string) expr.Names {
	names := expr.NamesOf(plan)
	names.Variants = []string{variant}
	return names
}

// JudgeProbes judges all probes of the trials.
func JudgeProbes(plan rundir.Plan, trials []*dataset.Trial) (probes []*Probe) {
	for _, x := range trials {
		if x.Purpose == rundir.PurposeProbe {
			probes = append(probes, JudgeProbe(plan, x))
		}
	}
	return probes
}

// unusable returns the kind of flag that makes a probe unusable, and whether the reason is
// not the target.
func unusable(s *dataset.Trial) (kind string, disturbed bool) {
	switch {
	case !s.Complete:
		return checks.FlagIncomplete, false
	case s.Counts.Dropped > 0:
		return checks.FlagDrops, false
	}
	// Whatever else happened, a target that answered nothing did not keep up with the
	// rate.
	for _, f := range s.AllFlags {
		if f.Breaks {
			return f.Kind, false
		}
	}
	for _, f := range s.AllFlags {
		switch {
		case !f.Disturbs:
		case f.About == rundir.AboutGenerator:
			return f.Kind, true
		case f.About != rundir.AboutMachine && kind == "":
			kind = f.Kind
		}
	}
	return kind, false
}

// broken returns why a probe is not good by its own figures: a threshold, or the reason
// why a threshold cannot be judged, which is also data. It also tells whether that reason
// is a disturbance of the probe.
func (p *Probe) broken(plan rundir.Plan) (why string, because *rundir.Message, disturbed bool) {
	cannot := func(why *rundir.Message) (string, *rundir.Message, bool) { return why.English(), why, false }
	alone, err := newAlone(plan, p.Trial)
	if err != nil {
		return cannot(texts.Joint(texts.Reasons(err)))
	}
	_, broken, open := expr.Keeps(plan.Thresholds, namesOf(plan, p.Variant), alone, alone.IsDisturbed)
	if open == nil {
		return broken, nil, false
	}
	p.doubtful = slices.ContainsFunc(plan.Thresholds, func(text string) bool {
		e, err := expr.Compile(text, expr.ForThreshold, namesOf(plan, p.Variant))
		return err == nil && alone.Doubtful(e.Refs(p.Variant)) != nil
	})
	if causes := p.Disturbance.Causes(); len(causes) > 0 {
		return causes[0], nil, true
	}
	return cannot(open)
}

// Searches are those for capacity, by variant in the rounds' order.
type Searches map[string][]*bracket

// ReplayAll replays every search of a plan and puts its outcome into the dataset. Probes come
// by number.
func ReplayAll(s *dataset.Dataset, all []*Probe) (Searches, error) {
	if s.Plan.Capacity == nil {
		return nil, nil
	}
	ended := Searches{}
	probes := map[string]map[int][]*Probe{}
	for _, x := range all {
		// A search that is not complete was interrupted.
		if !x.IsMeasured() || x.Rate == nil {
			continue
		}
		if probes[x.Variant] == nil {
			probes[x.Variant] = map[int][]*Probe{}
		}
		probes[x.Variant][x.Round] = append(probes[x.Variant][x.Round], x)
	}
	for variant, rounds := range probes {
		goal := Goal(*s.Plan.Capacity)
		goal.MostConnections = s.Plan.Variant(variant).MostConnections
		found, err := replay(goal, rounds)
		if err != nil {
			return nil, fmt.Errorf("capacity of %s: %w", variant, err)
		}
		within := !slices.ContainsFunc(found, func(b *bracket) bool { return b.done && !b.closed() })
		for _, b := range found {
			if err := b.complete(s.Plan); err != nil {
				return nil, fmt.Errorf("capacity of %s, round %d: %w", variant, b.Round, err)
			}
			f := &dataset.Stats{Variant: rundir.Variant{Name: variant}, Search: &b.Bracket, Values: map[string]float64{}}
			if b.done && within { // otherwise the rounds that have one would not represent all
				f.Values[rundir.MetricCapacity] = b.middle()
			}
			ended[variant] = append(ended[variant], b)
			if b.done {
				s.Rounds[variant][b.Round], s.AllRounds[variant][b.Round] = f, f
			}
		}
	}
	return ended, nil
}

// replay makes a variant's searches from its probes, by round.
func replay(g capacity.Goal, rounds map[int][]*Probe) ([]*bracket, error) {
	var found []*bracket
	for _, round := range slices.Sorted(maps.Keys(rounds)) {
		probes := rounds[round]
		var done []capacity.Trial
		for _, p := range probes {
			done = append(done, p.Result)
		}
		// The edge of earlier rounds is used as a place to begin, not as a result.
		state, err := g.Next(done, 0)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", round, err)
		}
		b := &bracket{Bracket: rundir.Bracket{Round: round, Trials: len(probes)}, probes: probes, done: state.Done, own: state.Own}
		if state.Low > 0 {
			b.Low = &state.Low
		}
		if !math.IsInf(state.High, 1) {
			b.High = &state.High
		}
		found = append(found, b)
	}
	return found, nil
}

// Capacities sums up the searches of each variant. Its figure is the geometric mean over rounds, whose interval is never
// narrower than the brackets. Without one, Capacities gives it the range that is known.
func (all Searches) Capacities(s *dataset.Dataset) []rundir.Capacity {
	if s.Plan.Capacity == nil {
		return nil
	}
	var list []rundir.Capacity
	for _, v := range s.Plan.Variants {
		c := rundir.Capacity{Variant: v.Name, Searches: []rundir.Bracket{}}
		var done []*bracket
		var details []rundir.Message
		for _, b := range all[v.Name] {
			if b.done {
				done = append(done, b)
				c.Searches = append(c.Searches, b.Bracket)
			}
		}
		if whole := s.Whole[v.Name]; whole.Known(rundir.MetricCapacity) == nil {
			rate, detail := outside(done)
			whole.Figures[rundir.MetricCapacity] = rate
			details = append(details, detail)
		}
		var disturbed *rundir.Message
		c.Limit, c.LimitBecause, disturbed = limits(done)
		if i := slices.IndexFunc(done, func(b *bracket) bool { return b.OwnLimit != nil }); i >= 0 {
			c.Limit, c.LimitBecause = "", done[i].OwnLimit
		}
		if disturbed != nil {
			details = append(details, *disturbed)
		}
		if open := len(all[v.Name]) - len(done); open > 0 {
			details = append(details, texts.New("edge.open", "n", strconv.Itoa(open), "of", strconv.Itoa(len(all[v.Name]))))
		}
		c.Detail = texts.Joint(details)
		list = append(list, c)
	}
	return list
}

// Validities explains the capacities whose upper end is unknown because something disturbed the
// probes at the lowest bad rates. A capacity is not identified if one of these searches also found
// no good rate.
func (all Searches) Validities(list []rundir.Capacity) (found []rundir.Validity) {
	for _, c := range list {
		v := rundir.Validity{Figure: rundir.MetricCapacity, Variant: c.Variant, State: rundir.StateBounded}
		for _, b := range all[c.Variant] {
			if !b.done || !b.HighDisturbed {
				continue
			}
			if b.Low == nil {
				v.State = rundir.StateNotIdentified
			}
			for _, p := range b.at(b.High, false) {
				if p.Result.Disturbed && !slices.Contains(v.Causes, p.Why) {
					v.Causes = append(v.Causes, p.Why)
				}
			}
			why := new(texts.New("why.search", "rate", fmt.Sprintf("%g", *b.High)))
			switch {
			case b.OwnLimit != nil:
				why = b.OwnLimit
			case slices.ContainsFunc(v.Causes, checks.LimitsGenerator):
				why = new(texts.New("why.generator"))
			}
			v.Why = why
		}
		if v.Why == nil {
			continue
		}
		for _, b := range c.Searches {
			if b.Low != nil && v.State == rundir.StateBounded && (v.Low == nil || *b.Low < *v.Low) {
				v.Low = b.Low
			}
		}
		found = append(found, v)
	}
	return found
}

// outside returns what is known of a capacity when some search found no edge within the
// range: the ends that all searches have. It also says on which side of the range the edge
// lies.
func outside(done []*bracket) (rate rundir.Estimate, says rundir.Message) {
	rate.Interval = rundir.NoInterval
	if len(done) == 0 {
		return rate, texts.New("edge.none")
	}
	low, high := math.Inf(1), math.Inf(-1)
	below, above := 0, 0
	for _, b := range done {
		if b.Low == nil {
			low = math.Inf(-1)
			below++
		} else {
			low = min(low, *b.Low)
		}
		if b.High == nil {
			high = math.Inf(1)
			above++
		} else {
			high = max(high, *b.High)
		}
	}
	rate.SetInterval(low, high, 0, "the lowest and the highest rate of any search")
	n := strconv.Itoa(len(done))
	switch {
	case above == 0:
		return rate, texts.New("edge.below", "below", strconv.Itoa(below), "n", n)
	case below == 0:
		return rate, texts.New("edge.above", "above", strconv.Itoa(above), "n", n)
	}
	return rate, texts.New("edge.both", "below", strconv.Itoa(below), "above", strconv.Itoa(above), "n", n)
}

// limits returns what the probes at the lowest bad rates broke most often, or why that could
// not be judged. It also says how many probes were disturbed.
func limits(searches []*bracket) (limit string, because, disturbed *rundir.Message) {
	broke, kinds, sentences := map[string]int{}, map[string]int{}, map[string]*rundir.Message{}
	for _, b := range searches {
		for _, p := range b.probes {
			if b.High != nil && *p.Rate == *b.High && !p.Result.Good {
				broke[p.Why]++
				sentences[p.Why] = p.because
			}
			if p.Result.Disturbed {
				kinds[p.Why]++
			}
		}
	}
	if names := checks.MostFirst(broke); len(names) > 0 {
		if because = sentences[names[0]]; because == nil {
			limit = names[0]
		}
	}
	var parts []rundir.Message
	for _, kind := range checks.MostFirst(kinds) {
		parts = append(parts, texts.New("edge.probes", "cause", kind, "n", strconv.Itoa(kinds[kind])))
	}
	if len(parts) > 0 {
		m := texts.New("edge.disturbed").With("probes", parts...)
		disturbed = &m
	}
	return limit, because, disturbed
}

// BelowRange flags the variants that kept up with no rate of the range in at least one search:
// such a variant has no capacity. Capacities must be filled in.
func BelowRange(run *rundir.Run) []rundir.Flag {
	var flags []rundir.Flag
	for _, c := range run.Capacities {
		below := 0
		for _, b := range c.Searches {
			if b.Low == nil && !b.HighDisturbed {
				below++
			}
		}
		if below == 0 {
			continue
		}
		rate := fmt.Sprintf("%g", run.Plan.Capacity.From)
		found := texts.New("found.below_range", "variant", c.Variant, "rate", rate, "limit", c.Limit)
		switch {
		case below < len(c.Searches): // the limit is that of most searches
			found = texts.New("found.below_range.some", "variant", c.Variant, "rate", rate, "n", strconv.Itoa(below), "of", strconv.Itoa(len(c.Searches)))
		case c.LimitBecause != nil:
			found = found.With("limit", *c.LimitBecause)
		}
		f := checks.NewFlag(checks.FlagBelowRange, c.Variant, false, &found)
		f.Breaks = true
		flags = append(flags, f)
	}
	return flags
}
