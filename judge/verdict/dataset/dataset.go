// Package dataset holds the figures of a run. It takes its trials, decides which of them count,
// and sums them up: by round, and over all rounds with intervals. Metrics are declared here. It
// says nothing of how far a figure can be relied on.
package dataset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"dyno/judge/stat"
	"dyno/judge/verdict/expr"
	"dyno/judge/verdict/recording"
	"dyno/results/rundir"
)

// ByRound holds figures by variant and round.
type ByRound map[string]map[int]*Stats

// A Dataset holds the figures of a run, for comparisons and expressions.
type Dataset struct {
	Plan             rundir.Plan
	Whole            map[string]*Stats // by variant, over all trials that count
	Rounds           ByRound           // without those left out; in a duet by KeyOf in place of the variant
	AllRounds        ByRound           // with them
	StoppingRounds   ByRound           // those by which the stopping rule ended the run
	MeasuredAgain    map[int]bool      // rounds that others replaced
	IdleBase         ByRound           // of a duet's base next to a variant without load, by that variant
	Trends           []rundir.Trend
	LeftOutRounds    bool                // some rounds were left out
	GeneratorLimited []string            // variants whose throughput the generator limited
	interrupted      map[string][]*Stats // of interrupted trials, by variant, where no other has figures
}

// New collects the trials that count.
func New(plan rundir.Plan, trials []*Trial) *Dataset {
	s := &Dataset{
		Plan:           plan,
		Whole:          map[string]*Stats{},
		Rounds:         ByRound{},
		AllRounds:      ByRound{},
		StoppingRounds: ByRound{},
		interrupted:    map[string][]*Stats{},
		IdleBase:       ByRound{},
	}
	for _, v := range plan.Variants {
		for _, key := range s.keysOf(v.Name) {
			s.Rounds[key], s.AllRounds[key], s.StoppingRounds[key] = map[int]*Stats{}, map[int]*Stats{}, map[int]*Stats{}
		}
		s.IdleBase[v.Name] = map[int]*Stats{}
	}
	s.MeasuredAgain = measuredAgain(plan, trials)
	for _, x := range trials {
		if x.Purpose == rundir.PurposeIdle && x.Complete && s.IdleBase[x.Peer()] != nil {
			s.IdleBase[x.Peer()][x.Round] = x.Stats // a later one replaces an earlier one
		}
		if x.substitute {
			s.interrupted[x.Variant] = append(s.interrupted[x.Variant], x.Stats)
		}
		key := s.KeyOf(x.Variant, x.Peer())
		if !x.used() || s.AllRounds[key] == nil {
			continue
		}
		s.AllRounds[key][x.Round] = x.Stats
		if !s.MeasuredAgain[x.Round] {
			s.StoppingRounds[key][x.Round] = x.Stats
		}
		if x.excluded {
			s.LeftOutRounds = true
			continue
		}
		s.Rounds[key][x.Round] = x.Stats
		s.Trends = append(s.Trends, x.trends...)
	}
	return s
}

// OfOne returns a dataset with nothing but one trial.
func OfOne(plan rundir.Plan, x *Trial) (*Dataset, error) {
	s := New(plan, nil)
	s.Rounds[x.Variant][x.Round] = x.Stats
	one, err := withIntervals(x.Stats, []*Stats{x.Stats}, s.Metrics())
	if err != nil {
		return nil, err
	}
	s.Whole[x.Variant] = one
	return s, nil
}

// WholeRounds counts the rounds that hold every variant, and of a duet every pair.
func (s *Dataset) WholeRounds() int { return s.AllRounds.whole() }

// WholeStoppingRounds counts those of them that no other round replaced.
func (s *Dataset) WholeStoppingRounds() int { return s.StoppingRounds.whole() }

func (b ByRound) whole() int {
	held := map[int]int{}
	for _, rounds := range b {
		for round := range rounds {
			held[round]++
		}
	}
	n := 0
	for _, variants := range held {
		if variants == len(b) {
			n++
		}
	}
	return n
}

// InOrder returns a variant's figures in the order of the rounds, or else those of its
// interrupted trials.
func (s *Dataset) InOrder(variant string) []*Stats {
	byRound := map[int][]*Stats{}
	for _, key := range s.keysOf(variant) {
		for round, f := range s.Rounds[key] {
			byRound[round] = append(byRound[round], f)
		}
	}
	var f []*Stats
	for _, round := range slices.Sorted(maps.Keys(byRound)) {
		f = append(f, byRound[round]...)
	}
	if f == nil {
		return s.interrupted[variant]
	}
	return f
}

// Metrics lists the metrics that may have figures, with those of steps and those that
// programs printed among them.
func (s *Dataset) Metrics() []Metric {
	all := slices.Concat(metrics(), s.ofSteps())
	asked := []string{s.Plan.PrimaryMetric()}
	for _, at := range expr.RefsIn(s.Plan) {
		asked = append(asked, at.Metric)
	}
	for _, name := range asked {
		if m, ok := Lookup(name); ok && m.Quantile != nil && !slices.ContainsFunc(all, func(of Metric) bool { return of.Name == name }) {
			all = append(all, m)
		}
	}
	others := map[string]bool{}
	for _, v := range s.Plan.Variants {
		for _, f := range s.InOrder(v.Name) {
			for name := range f.Values {
				if strings.HasPrefix(name, rundir.OfPrograms) || strings.HasPrefix(name, rundir.OfObservers) {
					others[name] = true
				}
			}
		}
	}
	byName := slices.Sorted(maps.Keys(others))
	slices.SortStableFunc(byName, func(a, b string) int { // programs before observers
		return strings.Compare(b[:1], a[:1])
	})
	for _, name := range byName {
		m, _ := Lookup(name)
		all = append(all, m)
	}
	return all
}

// Summarize makes each variant's figures from all trials that count, with their intervals.
func (s *Dataset) Summarize(trials []*Trial) error {
	byVariant, merged := map[string][]*rundir.Trial{}, map[string]recording.Times{}
	staged := map[string][]recording.StageLog{}
	for _, x := range trials {
		if !x.substitute && (!x.used() || x.excluded) {
			continue
		}
		if merged[x.Variant] == nil {
			merged[x.Variant] = recording.Times{}
		}
		byVariant[x.Variant] = append(byVariant[x.Variant], x.Trial)
		staged[x.Variant] = addStages(staged[x.Variant], x.Stats.StageLogs)
		merged[x.Variant].AddAll(x.Stats.Histograms)
	}
	all := s.Metrics()
	for _, v := range s.Plan.Variants {
		f := summarize(v.Name, byVariant[v.Name], merged[v.Name])
		f.Stages = stageFigures(staged[v.Name])
		rounds := s.InOrder(v.Name)
		capacity, _ := Lookup(rundir.MetricCapacity)
		if rate := stat.Typical(valuesOf(rounds, capacity.Get)); rate != nil {
			f.Values[rundir.MetricCapacity] = *rate
		}
		var err error
		if s.Whole[v.Name], err = withIntervals(f, rounds, all); err != nil {
			return fmt.Errorf("%s: %w", v.Name, err)
		}
	}
	return nil
}

// valuesOf returns the known values of a figure.
func valuesOf(trials []*Stats, get func(*Stats) *float64) (values []float64) {
	for _, t := range trials {
		if v := get(t); v != nil {
			values = append(values, *v)
		}
	}
	return values
}

// KeyOf is the key of a variant's trials that ran at the same time as another's. Only the base has
// several in a round.
func (s *Dataset) KeyOf(variant, peer string) string {
	if s.Plan.Duet == nil || variant != s.Plan.Base {
		return variant
	}
	return variant + " with " + peer
}

// keysOf returns the keys of a variant's trials.
func (s *Dataset) keysOf(variant string) (keys []string) {
	if s.Plan.Duet == nil || variant != s.Plan.Base {
		return []string{variant}
	}
	for _, other := range s.Plan.Variants {
		if other.Name != variant {
			keys = append(keys, s.KeyOf(variant, other.Name))
		}
	}
	return keys
}
