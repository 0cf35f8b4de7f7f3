package explain

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"dyno/internal/texts"
	"dyno/results/rundir"
)

// An Explanation describes the difference between two variants of a run. Where a part is
// missing, a note says why.
type Explanation struct {
	Run     string `json:"run"`
	Base    string `json:"base"`
	Variant string `json:"variant"`
	Control bool   `json:"control,omitempty"` // the variant is the base under an alias: nothing may be ranked
	Valid   bool   `json:"valid"`             // of the run
	Per     string `json:"per"`               // what figures are per: request, or event where there are subscribers

	CPU       *Account   `json:"cpu,omitempty"`
	Tables    []Table    `json:"tables,omitempty"`
	Resources []Resource `json:"resources,omitempty"`
	Leftover  []Leftover `json:"leftover,omitempty"`

	Notes []rundir.Message `json:"notes,omitempty"`
}

// An Account says how much of a measured change the profiles explain. All figures are CPU
// seconds per request, or per event.
type Account struct {
	Rounds   int             `json:"rounds"`             // of ordinary trials
	LeftOut  int             `json:"left_out,omitempty"` // rounds in addition to these: a trial does not have its CPU time
	Base     float64         `json:"base"`
	Variant  float64         `json:"variant"`
	Measured rundir.Estimate `json:"measured"` // variant − base, in the ordinary trials

	ProfileRounds int             `json:"profile_rounds"`
	Profiled      rundir.Estimate `json:"profiled"` // variant − base, in the profiled trials: the sum of all functions' changes
	Ranked        float64         `json:"ranked"`   // the sum of the ranked functions' changes
	// Leftover is measured − profiled, in pairs over the rounds that have both.
	Leftover  rundir.Estimate `json:"leftover"`
	Accounted *float64        `json:"accounted,omitempty"` // profiled over measured, where the measured change is significant
	// Coverage is the share of the CPU time accounted to the target that the samples saw,
	// by variant. The rest is divided among functions in the same proportions.
	Coverage map[string]float64 `json:"coverage,omitempty"`
}

// A Table ranks what one kind of profile shows, by function and by group.
type Table struct {
	Kind      string      `json:"kind"` // of profile, such as cpu
	Unit      rundir.Unit `json:"unit"` // of the figures, per request or event
	Functions []Item      `json:"functions"`
	Groups    []Item      `json:"groups"`
}

// A Leftover is a stack that was there after the load had stopped, and not before the
// load.
type Leftover struct {
	Variant string  `json:"variant"`
	Kind    string  `json:"kind"` // goroutines or descriptors
	Where   string  `json:"where,omitempty"`
	Count   float64 `json:"count"` // mean over trials
}

// A NotFoundError says that a run does not have the variant asked for.
type NotFoundError struct {
	Variant string
	Have    []string
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("there is no variant %q", e.Variant) }

// Explain explains the difference between two variants of a judged run. It fails when one
// of them is missing or a profile cannot be read. Without profiles it explains by
// resources alone, and says so.
func Explain(f *rundir.Folder, base, variant string) (*Explanation, error) {
	var names []string
	alias := ""
	for _, v := range f.Run.Plan.Variants {
		names = append(names, v.Name)
		if v.Name == variant {
			alias = v.AliasOf
		}
	}
	for _, name := range []string{base, variant} {
		if !slices.Contains(names, name) {
			return nil, &NotFoundError{name, names}
		}
	}
	e := &Explanation{Run: f.Run.Name, Base: base, Variant: variant, Control: alias == base, Valid: f.Run.Valid, Per: f.Run.Plan.Per()}
	ordinary, profiled := pairs(f, base, variant, ""), pairs(f, base, variant, rundir.PurposeProfile)
	if len(ordinary) == 0 {
		return nil, fmt.Errorf("no round has complete trials of both %s and %s", base, variant)
	}
	var err error
	if e.Resources, err = resources(ordinary); err != nil {
		return nil, err
	}
	for i := range e.Resources {
		e.Resources[i].adopt(&f.Run, base, variant)
	}
	if len(profiled) == 0 || f.Run.Plan.Profile == nil {
		e.Notes = append(e.Notes, texts.New("unexplained.unprofiled"))
		return e, nil
	}
	for _, kind := range Kinds() {
		if !slices.Contains(f.Run.Plan.Profile.Kinds, kind.Name) {
			continue
		}
		t, covered, err := tabulate(kind, profiled)
		var missing *missingError
		if errors.As(err, &missing) {
			e.Notes = append(e.Notes, missing.Message)
			continue
		}
		if err != nil {
			return nil, err
		}
		e.Tables = append(e.Tables, *t)
		if kind.Name == cpuKind {
			if e.CPU, err = account(ordinary, profiled, t, covered, e.Resources); err != nil {
				return nil, err
			}
		}
	}
	if e.Leftover, err = leftover(profiled); err != nil {
		return nil, err
	}
	return e, nil
}

// A pair holds the trials of one round.
type pair struct {
	round         int
	base, variant *rundir.TrialFolder
}

// pairs returns the rounds in which both variants have a complete trial of the purpose. If
// there are several, the last counts, as everywhere; of a duet it is the two that ran at the same
// time. Ordinary trials are those that the run's figures use.
func pairs(f *rundir.Folder, base, variant, purpose string) []pair {
	trials := f.Trials
	if purpose == "" {
		trials = f.Measured()
	}
	of := func(name string) bool { return name == base || name == variant }
	rounds := map[int]*pair{}
	for _, t := range trials {
		if t.Purpose != purpose || !t.Complete || !of(t.Variant) || t.Duet != nil && !of(t.Peer()) {
			continue
		}
		if rounds[t.Round] == nil {
			rounds[t.Round] = &pair{round: t.Round}
		}
		if t.Variant == base {
			rounds[t.Round].base = t
		}
		if t.Variant == variant {
			rounds[t.Round].variant = t
		}
	}
	var list []pair
	for _, n := range slices.Sorted(maps.Keys(rounds)) {
		if p := rounds[n]; p.base != nil && p.variant != nil {
			list = append(list, *p)
		}
	}
	return list
}

// difference is what a comparison says of a change, in the unit of its figures: no other account of the same rounds may
// say otherwise.
func difference(c *rundir.Comparison) rundir.Estimate {
	of := func(ratio *float64) *float64 {
		if ratio == nil {
			return nil
		}
		return new(*c.BaseFigure * (*ratio - 1))
	}
	e := c.Ratio
	e.Estimate, e.Low, e.High = new(*c.Figure-*c.BaseFigure), of(e.Low), of(e.High)
	e.Values = nil
	for _, v := range c.Ratio.Values {
		e.Values = append(e.Values, *of(&v))
	}
	return e
}

// account compares the profiled change with the measured one, which is the first resource's.
func account(ordinary, profiled []pair, t *Table, covered map[string]float64, resources []Resource) (*Account, error) {
	if len(resources) == 0 || resources[0].metric != rundir.MetricCPU {
		return nil, nil
	}
	cpu := resources[0]
	a := &Account{ProfileRounds: len(profiled), Coverage: covered, Base: cpu.Base, Variant: cpu.Variant, Measured: cpu.Change}
	measured := map[int]float64{} // by round
	for _, p := range ordinary {
		if base, variant := p.base.Target.CPUSecondsPerRequest, p.variant.Target.CPUSecondsPerRequest; base != nil && variant != nil {
			measured[p.round] = *variant - *base
		}
	}
	a.Rounds, a.LeftOut = len(measured), len(ordinary)-len(measured)
	changes := make([]float64, len(profiled))
	for _, i := range t.Functions {
		for r, v := range i.Change.Values {
			changes[r] += v
		}
		if i.Ranked {
			a.Ranked += *i.Change.Estimate
		}
	}
	var err error
	if a.Profiled, err = summed(changes); err != nil {
		return nil, err
	}
	var left []float64
	for i, p := range profiled {
		if m, ok := measured[p.round]; ok {
			left = append(left, m-changes[i])
		}
	}
	if a.Leftover, err = summed(left); err != nil {
		return nil, err
	}
	if m := a.Measured; m.Low != nil && m.High != nil && (*m.Low > 0 || *m.High < 0) {
		share := *a.Profiled.Estimate / *m.Estimate
		a.Accounted = &share
	}
	return a, nil
}

// A missingError says that a kind of profile is not there for all trials.
type missingError struct{ rundir.Message }

func (e *missingError) Error() string { return e.String() }

func newMissing(kind string, pairs ...string) error { return &missingError{texts.New(kind, pairs...)} }
