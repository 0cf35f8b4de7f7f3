package verdict

import (
	"fmt"
	"maps"
	"slices"

	"dyno/judge/verdict/expr"
	"dyno/judge/verdict/recording"
	"dyno/results/rundir"
)

// byRound are figures by variant and round.
type byRound map[string]map[int]*figures

// A scene holds the figures of a run, for comparisons and expressions.
type scene struct {
	plan     rundir.Plan
	whole    map[string]*figures   // by variant, over all trials that count
	rounds   byRound               // by variant (of a duet by its key, see seatKey) and round, without those left out
	all      byRound               // the same with them
	seen     byRound               // those that the rule heard of by which the run ends
	cut      map[string][]*figures // by variant, of interrupted trials where none stands
	alone    byRound               // of a duet's base, by the variant without load that was beside it, and round
	trends   []rundir.Trend
	excluded bool     // some rounds were left out
	spent    []string // variants whose throughput the generator limited
}

// newScene collects the trials that count.
func newScene(plan rundir.Plan, samples []*sample) *scene {
	s := &scene{
		plan:   plan,
		whole:  map[string]*figures{},
		rounds: byRound{},
		all:    byRound{},
		seen:   byRound{},
		cut:    map[string][]*figures{},
		alone:  byRound{},
	}
	for _, v := range plan.Variants {
		for _, key := range s.keysOf(v.Name) {
			s.rounds[key], s.all[key], s.seen[key] = map[int]*figures{}, map[int]*figures{}, map[int]*figures{}
		}
		s.alone[v.Name] = map[int]*figures{}
	}
	again := measuredAgain(plan, samples)
	for _, x := range samples {
		if x.Purpose == rundir.PurposeIdle && x.Complete && s.alone[x.Beside()] != nil {
			s.alone[x.Beside()][x.Round] = x.figures // a later one takes the place of those before it
		}
		if x.substitute {
			s.cut[x.Variant] = append(s.cut[x.Variant], x.figures)
		}
		key := s.seatKey(x.Variant, x.Beside())
		if !x.counts() || s.all[key] == nil {
			continue
		}
		s.all[key][x.Round] = x.figures
		if !again[x.Round] {
			s.seen[key][x.Round] = x.figures
		}
		if x.excluded {
			s.excluded = true
			continue
		}
		s.rounds[key][x.Round] = x.figures
		s.trends = append(s.trends, x.trends...)
	}
	return s
}

// wholeRounds counts the rounds that hold every variant, and of a duet every pair.
func (s *scene) wholeRounds() int {
	held := map[int]int{}
	for _, rounds := range s.all {
		for round := range rounds {
			held[round]++
		}
	}
	n := 0
	for _, variants := range held {
		if variants == len(s.all) {
			n++
		}
	}
	return n
}

// inOrder returns a variant's figures in the order of the rounds, or else those of its
// interrupted trials.
func (s *scene) inOrder(variant string) []*figures {
	byRound := map[int][]*figures{}
	for _, key := range s.keysOf(variant) {
		for round, f := range s.rounds[key] {
			byRound[round] = append(byRound[round], f)
		}
	}
	var f []*figures
	for _, round := range slices.Sorted(maps.Keys(byRound)) {
		f = append(f, byRound[round]...)
	}
	if f == nil {
		return s.cut[variant]
	}
	return f
}

// metrics lists the metrics that may have figures, with those of steps and those that
// programs printed among them.
func (s *scene) metrics() []metric {
	all := append(metrics(), s.ofSteps()...)
	asked := []string{s.plan.PrimaryMetric()}
	for _, at := range expr.RefsIn(s.plan) {
		asked = append(asked, at.Metric)
	}
	for _, name := range asked {
		if _, listed := find(all, name); !listed {
			if m, ok := quantileMetric(name); ok {
				all = append(all, m)
			}
		}
	}
	measures, observed := map[string]bool{}, map[string]bool{}
	for _, v := range s.plan.Variants {
		for _, f := range s.inOrder(v.Name) {
			for name := range f.measures {
				measures[name] = true
			}
			for name := range f.observed {
				observed[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(measures)) {
		all = append(all, programMetric(name))
	}
	for _, name := range slices.Sorted(maps.Keys(observed)) {
		all = append(all, observedMetric(name))
	}
	return all
}

// sumUp makes each variant's figures from all trials that count, with their intervals.
func (s *scene) sumUp(samples []*sample) error {
	trials, merged := map[string][]*rundir.Trial{}, map[string]recording.Times{}
	for _, x := range samples {
		if !x.substitute && (!x.counts() || x.excluded) {
			continue
		}
		if merged[x.Variant] == nil {
			merged[x.Variant] = recording.Times{}
		}
		trials[x.Variant] = append(trials[x.Variant], x.Trial)
		merged[x.Variant].AddAll(x.figures.times)
	}
	all := s.metrics()
	for _, v := range s.plan.Variants {
		f := summarize(v.Name, trials[v.Name], merged[v.Name])
		rounds := s.inOrder(v.Name)
		f.capacity = typical(valuesOf(rounds, func(f *figures) *float64 { return f.capacity }))
		var err error
		if s.whole[v.Name], err = withIntervals(f, rounds, all); err != nil {
			return fmt.Errorf("%s: %w", v.Name, err)
		}
	}
	return nil
}

// valuesOf returns the known values of a figure.
func valuesOf(trials []*figures, get func(*figures) *float64) (values []float64) {
	for _, t := range trials {
		if v := get(t); v != nil {
			values = append(values, *v)
		}
	}
	return values
}

// seatKey is the key of a variant's trials that ran beside another one. Only the base has
// several in a round.
func (s *scene) seatKey(variant, beside string) string {
	if s.plan.Duet == nil || variant != s.plan.Base {
		return variant
	}
	return variant + " beside " + beside
}

// keysOf returns the keys of a variant's trials.
func (s *scene) keysOf(variant string) (keys []string) {
	if s.plan.Duet == nil || variant != s.plan.Base {
		return []string{variant}
	}
	for _, other := range s.plan.Variants {
		if other.Name != variant {
			keys = append(keys, s.seatKey(variant, other.Name))
		}
	}
	return keys
}
