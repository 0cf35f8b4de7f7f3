package history

import (
	"fmt"
	"slices"
	"time"

	"dyno/internal/texts"
	"dyno/judge/verdict/expr"
	"dyno/results/rundir"
)

// Instant reads a day, or a time in RFC 3339. A day means its beginning, in this machine's
// zone, or its end.
func Instant(text string, end bool) (time.Time, error) {
	if t, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		if end {
			t = t.AddDate(0, 0, 1)
		}
		return t, nil
	}
	return time.Parse(time.RFC3339, text)
}

// Baseline returns the run of an experiment that was pinned last; nil if none was.
func Baseline(runs []Run, name string) (pinned *Run) {
	for i := range runs {
		if runs[i].Name == name {
			pinned = laterPinned(pinned, &runs[i])
		}
	}
	return pinned
}

// laterPinned returns the one of two runs that was pinned last; nil if neither was.
func laterPinned(a, b *Run) *Run {
	if b.PinnedAt.IsZero() || a != nil && a.PinnedAt.After(b.PinnedAt) {
		return a
	}
	return b
}

// matches tells whether a run is one of those to show, but for Where.
func (q Query) matches(r *Run) bool {
	return (q.Name == "" || r.Name == q.Name) && (q.From.IsZero() || !r.StartedAt.Before(q.From)) && (q.To.IsZero() || r.StartedAt.Before(q.To)) &&
		!slices.ContainsFunc(q.Tags, func(tag string) bool { return !slices.Contains(r.Tags, tag) })
}

// Where finds runs by a condition of thresholds, on their estimates.
type Where struct {
	Condition string
	Variant   string // else any

	compiled bool
	fault    error
}

// Matches tells whether the condition is true of a variant of a run.
func (w *Where) Matches(r *Run) bool {
	if w.Condition == "" {
		return true
	}
	// Variants and steps are the run's own: another run may not have them.
	if err := expr.Checks.CheckThreshold(w.Condition, r.names.Variants, r.names.Steps); err != nil {
		w.fault = fmt.Errorf("history: %q: %w", w.Condition, err)
		return false
	}
	w.compiled = true
	return slices.ContainsFunc(expr.DecideThreshold(w.Condition, r.names, estimates(r.Figures)), func(t rundir.Threshold) bool {
		return t.OK && (t.Variant == "" || w.Variant == "" || t.Variant == w.Variant)
	})
}

// Err says what is wrong with the condition, if it is none on figures of any run.
func (w *Where) Err() error {
	if w.compiled {
		return nil
	}
	return w.fault
}

// noRun says that no run matches.
func (q Query) noRun() error {
	if q.Name != "" && len(q.Tags) == 0 && q.Where == "" && q.From.IsZero() && q.To.IsZero() {
		return texts.NewError("searched.unnamed", "name", q.Name)
	}
	return texts.NewError("searched.none")
}

// estimates are evidence of one run, by variant and metric: a search takes figures as they
// are printed.
type estimates map[string]map[string]rundir.Estimate

var _ expr.Evidence = estimates{}

func (e estimates) Value(variant, metric string) (expr.Quantity, error) {
	v := e[variant][metric].Estimate
	if v == nil {
		return expr.Quantity{}, texts.NewError("searched.figure.both", "metric", metric, "variant", variant)
	}
	return expr.Quantity{Estimate: *v, Low: *v, High: *v, Bounded: true}, nil
}

func (estimates) FewRounds([]expr.Ref) *rundir.Message { return nil }

func (e estimates) Ratio(variant, base, metric string) (expr.Quantity, error) {
	r := relative(e[variant][metric], e[base][metric])
	if r == nil {
		return expr.Quantity{}, texts.NewError("searched.figure.both", "metric", metric, "variant", variant)
	}
	return expr.Quantity{Estimate: 1 + *r, Low: 1 + *r, High: 1 + *r, Bounded: true}, nil
}

func (estimates) Needed(expr.Ref, float64) (requests, needed int64) { return 0, 0 }

// Growth and spread are not kept in run.json.

func (estimates) Slope(_, gauge string) (expr.Quantity, error) {
	return expr.Quantity{}, texts.NewError("searched.figure.metric", "metric", gauge)
}

func (estimates) Spread(_, metric string) (expr.Quantity, error) {
	return expr.Quantity{}, texts.NewError("searched.figure.metric", "metric", metric)
}

func (estimates) Doubtful([]expr.Ref) *rundir.Message     { return nil }
func (estimates) Unidentified([]expr.Ref) *rundir.Message { return nil }
