package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"dyno/internal/texts"
	"dyno/judge/capacity"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/expr"
	"dyno/results/rundir"
)

// A bracket is the result of a search, with its probes.
type bracket struct {
	rundir.Bracket
	probes []*probe
	done   bool // the search came to its end
}

// closed tells whether both ends are known.
func (b *bracket) closed() bool { return b.Low != nil && b.High != nil }

// middle is the rate that represents a closed bracket: its ratio to either end is the
// same.
func (b *bracket) middle() float64 { return math.Sqrt(*b.Low) * math.Sqrt(*b.High) }

// at returns the probes at a rate that came out as said.
func (b *bracket) at(rate *float64, good bool) (found []*probe) {
	for _, p := range b.probes {
		if rate != nil && *p.Rate == *rate && p.result.Good == good {
			found = append(found, p)
		}
	}
	return found
}

// A probe is a trial of a search, and how it came out.
type probe struct {
	*sample
	result  capacity.Trial
	why     string          // it is not good: the threshold, the kind of flag, or a sentence
	because *rundir.Message // the sentence as data
	// doubtful tells that something disturbed a figure of a threshold that could not be decided.
	doubtful bool
}

// attributable tells whether nothing but the target made a probe bad.
func (p *probe) attributable() bool { return !p.result.Spoilt && !p.doubtful }

// complete says what is known of both ends of a bracket.
func (b *bracket) complete(plan rundir.Plan) (err error) {
	bad := b.at(b.High, false)
	// Those that are the target's doing first: they show what was broken.
	slices.SortStableFunc(bad, func(x, y *probe) int {
		return cmp.Compare(strconv.FormatBool(y.attributable()), strconv.FormatBool(x.attributable()))
	})
	attributable := 0
	for _, p := range bad {
		if p.attributable() {
			attributable++
		}
	}
	all := max(plan.Capacity.Trials, len(bad)+len(b.at(b.High, true)))
	b.HighDisturbed = len(bad) > 0 && !goal(*plan.Capacity).TooMany(attributable, all)
	if b.AtLow, err = decideMedian(plan, b.at(b.Low, true)); err != nil {
		return err
	}
	if len(bad) > 0 {
		b.AtHigh, err = decideAlone(plan, bad[0])
	}
	return err
}

// decideMedian decides the plan's thresholds by the probe that is in the middle by the first of them.
func decideMedian(plan rundir.Plan, probes []*probe) ([]rundir.Threshold, error) {
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
func decideAlone(plan rundir.Plan, p *probe) (decided []rundir.Threshold, err error) {
	if p.figures == nil {
		return nil, nil
	}
	alone, err := newAlone(plan, p.sample)
	if err != nil {
		return nil, err
	}
	for _, text := range plan.Thresholds {
		decided = append(decided, expr.DecideThreshold(text, expr.Names{Variants: []string{p.Variant}, Steps: expr.NamesOf(plan).Steps}, alone)...)
	}
	return decided, nil
}

// newAlone returns the evidence of one probe alone.
func newAlone(plan rundir.Plan, p *sample) (*evidence, error) {
	alone := comparer{assessor{newScene(plan, nil)}}
	alone.rounds[p.Variant][p.Round] = p.figures
	one, err := withIntervals(p.figures, []*figures{p.figures}, alone.metrics())
	if err != nil {
		return nil, err
	}
	alone.whole[p.Variant] = one
	return newEvidence(alone, alone.own(p.Variant)), nil
}

// goal returns the target of a plan's search.
func goal(p rundir.PlanCapacity) capacity.Goal {
	return capacity.Goal{From: p.From, To: p.To, Resolution: p.Resolution, Trials: p.Trials, Tolerate: p.Tolerate}
}

// judgeProbe decides whether a probe was good. A good probe is complete, nothing was
// dropped, and all thresholds hold by its estimates. A figure that a disturbance can only
// have made worse is good if it is good despite that. A probe is spoilt when the
// generator was the limit, and when thresholds are undecided because something disturbed
// it.
func judgeProbe(plan rundir.Plan, s *sample) *probe {
	p := &probe{sample: s}
	if s.Rate != nil {
		p.result.Rate = *s.Rate
	}
	p.why, p.result.Spoilt = spoiler(s)
	if p.why == "" {
		p.why, p.because, p.result.Spoilt = p.broken(plan)
	}
	p.result.Good = p.why == ""
	return p
}

// judgeProbes decides which probes are good, and which are spoilt.
func judgeProbes(plan rundir.Plan, samples []*sample) (probes []*probe) {
	for _, x := range samples {
		if x.Purpose == rundir.PurposeProbe {
			probes = append(probes, judgeProbe(plan, x))
		}
	}
	return probes
}

// spoiler returns the kind of flag that makes a probe unusable, and whether the reason is
// not the target.
func spoiler(s *sample) (kind string, spoilt bool) {
	switch {
	case !s.Complete:
		return checks.FlagIncomplete, false
	case s.Counts.Dropped > 0:
		return checks.FlagDrops, false
	}
	// Whatever else happened, a target that answered nothing did not keep up with the
	// rate.
	for _, f := range s.flags {
		if f.Breaks {
			return f.Kind, false
		}
	}
	for _, f := range s.flags {
		switch {
		case !f.Spoils:
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
func (p *probe) broken(plan rundir.Plan) (why string, because *rundir.Message, spoilt bool) {
	cannot := func(why *rundir.Message) (string, *rundir.Message, bool) { return why.English(), why, false }
	alone, err := newAlone(plan, p.sample)
	if err != nil {
		return cannot(texts.Joint(texts.Reasons(err)))
	}
	_, broken, open := expr.Keeps(plan.Thresholds, p.Variant, expr.NamesOf(plan).Steps, alone, alone.isDisturbed)
	if open == nil {
		return broken, nil, false
	}
	p.doubtful = slices.ContainsFunc(plan.Thresholds, func(text string) bool {
		e, err := expr.Compile(text, expr.ForThreshold, expr.Names{Variants: []string{p.Variant}, Steps: expr.NamesOf(plan).Steps})
		return err == nil && alone.Doubtful(e.Refs(p.Variant)) != nil
	})
	if causes := p.disturbed.Causes(); len(causes) > 0 {
		return causes[0], nil, true
	}
	return cannot(open)
}

// searches are those for capacity, by variant in the rounds' order.
type searches map[string][]*bracket

// replayAll replays every search of a plan and puts its outcome into the scene. Probes come
// by number.
func replayAll(s *scene, all []*probe) (searches, error) {
	if s.plan.Capacity == nil {
		return nil, nil
	}
	ended := searches{}
	probes := map[string]map[int][]*probe{}
	for _, x := range all {
		// A search that is not complete was interrupted.
		if !x.Stands() || x.Rate == nil {
			continue
		}
		if probes[x.Variant] == nil {
			probes[x.Variant] = map[int][]*probe{}
		}
		probes[x.Variant][x.Round] = append(probes[x.Variant][x.Round], x)
	}
	for variant, rounds := range probes {
		found, err := replay(goal(*s.plan.Capacity), rounds)
		if err != nil {
			return nil, fmt.Errorf("capacity of %s: %w", variant, err)
		}
		within := !slices.ContainsFunc(found, func(b *bracket) bool { return b.done && !b.closed() })
		for _, b := range found {
			if err := b.complete(s.plan); err != nil {
				return nil, fmt.Errorf("capacity of %s, round %d: %w", variant, b.Round, err)
			}
			f := &figures{Variant: rundir.Variant{Name: variant}, search: &b.Bracket}
			if b.done && within { // otherwise the rounds that have one would not represent all
				rate := b.middle()
				f.capacity = &rate
			}
			ended[variant] = append(ended[variant], b)
			if b.done {
				s.rounds[variant][b.Round], s.all[variant][b.Round] = f, f
			}
		}
	}
	return ended, nil
}

// replay makes a variant's searches from its probes, by round.
func replay(g capacity.Goal, rounds map[int][]*probe) ([]*bracket, error) {
	var found []*bracket
	for _, round := range slices.Sorted(maps.Keys(rounds)) {
		probes := rounds[round]
		var done []capacity.Trial
		for _, p := range probes {
			done = append(done, p.result)
		}
		// The edge of earlier rounds is used as a place to begin, not as a result.
		state, err := g.Next(done, 0)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", round, err)
		}
		b := &bracket{Bracket: rundir.Bracket{Round: round, Trials: len(probes)}, probes: probes, done: state.Done}
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

// capacities sums up the searches of each variant. The estimate is the geometric
// mean over rounds; its interval is never narrower than the brackets.
func (all searches) capacities(s *scene) []rundir.Capacity {
	if s.plan.Capacity == nil {
		return nil
	}
	var list []rundir.Capacity
	for _, v := range s.plan.Variants {
		c := rundir.Capacity{Variant: v.Name, Searches: []rundir.Bracket{}, Rate: rundir.Estimate{Interval: rundir.NoInterval}}
		var done []*bracket
		var details []rundir.Message
		for _, b := range all[v.Name] {
			if b.done {
				done = append(done, b)
				c.Searches = append(c.Searches, b.Bracket)
			}
		}
		if whole := s.whole[v.Name]; whole != nil && whole.capacity != nil {
			c.Rate = whole.Intervals[rundir.MetricCapacity]
		} else {
			details = append(details, outside(&c.Rate, done))
		}
		var spoilt *rundir.Message
		c.Limit, c.LimitBecause, spoilt = limits(done)
		if spoilt != nil {
			details = append(details, *spoilt)
		}
		if open := len(all[v.Name]) - len(done); open > 0 {
			details = append(details, texts.New("edge.open", "n", strconv.Itoa(open), "of", strconv.Itoa(len(all[v.Name]))))
		}
		c.Because = texts.Joint(details)
		c.Detail = c.Because.English()
		list = append(list, c)
	}
	return list
}

// validities says of the capacities that are not known from above, because something
// disturbed what the lowest bad rates showed, why that is so. Where not even the lowest rate of the
// range is known to be bad, nothing is known.
func (all searches) validities(list []rundir.Capacity) (found []rundir.Validity) {
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
				if p.result.Spoilt && !slices.Contains(v.Causes, p.why) {
					v.Causes = append(v.Causes, p.why)
				}
			}
			why := new(texts.New("why.search", "rate", fmt.Sprintf("%g", *b.High)))
			if slices.ContainsFunc(v.Causes, checks.LimitsGenerator) {
				why = new(texts.New("why.generator"))
			}
			explain(&v, why)
		}
		if v.Because == nil {
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

// outside fills in what is known of a capacity when some search found no edge within the
// range: the ends that all searches have. It returns on which side of the range the edge
// lies.
func outside(rate *rundir.Estimate, done []*bracket) rundir.Message {
	if len(done) == 0 {
		return texts.New("edge.none")
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
		return texts.New("edge.below", "below", strconv.Itoa(below), "n", n)
	case below == 0:
		return texts.New("edge.above", "above", strconv.Itoa(above), "n", n)
	}
	return texts.New("edge.both", "below", strconv.Itoa(below), "above", strconv.Itoa(above), "n", n)
}

// limits returns what the probes at the lowest bad rates broke most often, as data if it
// is a sentence. It also returns how many probes were spoilt.
func limits(searches []*bracket) (limit string, because, spoilt *rundir.Message) {
	broke, kinds, sentences := map[string]int{}, map[string]int{}, map[string]*rundir.Message{}
	for _, b := range searches {
		for _, p := range b.probes {
			if b.High != nil && *p.Rate == *b.High && !p.result.Good {
				broke[p.why]++
				sentences[p.why] = p.because
			}
			if p.result.Spoilt {
				kinds[p.why]++
			}
		}
	}
	if names := mostFirst(broke); len(names) > 0 {
		limit, because = names[0], sentences[names[0]]
	}
	var parts []rundir.Message
	for _, kind := range mostFirst(kinds) {
		parts = append(parts, texts.New("edge.probes", "cause", kind, "n", strconv.Itoa(kinds[kind])))
	}
	if len(parts) > 0 {
		m := texts.New("edge.spoilt").With("probes", parts...)
		spoilt = &m
	}
	return limit, because, spoilt
}

// mostFirst orders names by how often they came.
func mostFirst[N int | float64](counts map[string]N) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}

// belowRange flags the variants that kept up with no rate of the range that was searched, be it
// in one search of many: such a variant has no capacity. Capacities must be filled in.
func belowRange(run *rundir.Run) []rundir.Flag {
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
