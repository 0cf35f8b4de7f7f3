// Package history compares the runs of an experiment over time: which figures they had,
// and where those changed permanently. Read finds the run folders below a directory.
// Trace groups them and finds the change points.
//
// A run counts with the verdict that it has: nothing is judged again here, and the
// trials' own files are not read. Runs that are incomplete or invalid are shown, but are
// left out of the search for changes.
//
// Change points are for alerts: they tell that something changed, and with which run. To
// find out how the target changed, compare its versions within one run.
package history

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/internal/texts"
	"dyno/judge/stat"
	"dyno/judge/verdict"
	"dyno/judge/verdict/expr"
	"dyno/results/archive"
	"dyno/results/rundir"
)

// MaxRuns is how many runs Read reads; more are an error.
const MaxRuns = 5_000

// MaxCompared is how many of the latest runs are searched for changes. The time grows
// with its square, and is about a second for each test at this number.
const MaxCompared = 300

// changeLevel is the level of each test for a change. Histories are tested again after
// every run, and for each variant, so false alarms add up. At 5 %, one series in fifteen
// with a true change shows a false one in addition; at 1 %, one in a hundred.
const changeLevel = 0.01

// leastCompared is from how many runs on there is a test. With fewer, not even the
// clearest change is as rare among random orders as the level asks: it is 2 of 126 for
// four runs against five. Near the ends of a short series the test needs some more.
const leastCompared = 10

// divisive holds the parameters of the search for changes.
func divisive() stat.Divisive {
	return stat.Divisive{MinSegment: 4, Alpha: changeLevel, Permutations: 499, Seed: 1}
}

// A Run holds the parts of run.json that its history needs.
type Run struct {
	Dir         string    `json:"dir"`
	Name        string    `json:"name,omitempty"`
	StartedAt   time.Time `json:"started_at,omitzero"`
	Complete    bool      `json:"complete"`
	Valid       bool      `json:"valid"`
	Rounds      int       `json:"rounds"`
	DynoVersion string    `json:"dyno_version,omitempty"`
	Machine     string    `json:"machine,omitempty"` // host, kernel and CPUs, in words
	// Plan identifies what was measured: runs with the same Plan belong to one history.
	// It depends on the variants and their loads, but not on the seed, the number of
	// rounds and the warm-up.
	Plan     string   `json:"plan,omitempty"`
	Metric   string   `json:"metric,omitempty"` // the primary one
	Variants []string `json:"variants,omitempty"`
	// Figures are by variant and metric, without the trials' values. Controls have none.
	Figures map[string]map[string]rundir.Estimate `json:"-"`
	names   expr.Names                            // of its plan
	archive.Annotations
	// Problem says why run.json could not be read. All fields except Dir are empty then.
	Problem string `json:"problem,omitempty"`
}

// Read finds the run folders below directories, which may be some themselves, as archive.Find
// does. It returns each once, in the order of time; those that cannot be read come first, with
// their Problem.
func Read(dirs ...string) (runs []Run, err error) {
	for _, dir := range dirs {
		below, err := find(dir)
		if err != nil {
			return nil, err
		}
		for _, at := range below {
			if !slices.ContainsFunc(runs, func(r Run) bool { return r.Dir == at.Dir }) {
				runs = append(runs, at)
			}
		}
	}
	slices.SortFunc(runs, func(a, b Run) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), strings.Compare(a.Dir, b.Dir))
	})
	return runs, nil
}

func find(dir string) (runs []Run, err error) {
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(filepath.Join(dir, rundir.RunFile)); err == nil {
		return []Run{open(dir)}, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	defer func() { _ = root.Close() }() // nothing was written
	found, more := archive.Find(root)
	if more || len(found) > MaxRuns {
		return nil, fmt.Errorf("history: %s: more than %d folders, or %d runs: name a folder further down", dir, archive.MaxFolders, MaxRuns)
	}
	for _, f := range found {
		at := filepath.Join(dir, f.ID)
		if f.Err != nil {
			runs = append(runs, Run{Dir: at, Problem: f.Err.Error()})
			continue
		}
		runs = append(runs, open(at))
	}
	return runs, nil
}

func open(dir string) Run {
	run, err := verdict.ReadRun(dir)
	if err != nil {
		return Run{Dir: dir, Problem: err.Error()}
	}
	about, err := archive.ReadAnnotations(dir)
	if err != nil {
		return Run{Dir: dir, Problem: err.Error()}
	}
	return Of(dir, run, about)
}

// Of returns the parts of a run, in the folder dir, that Trace needs.
func Of(dir string, run *rundir.Run, about archive.Annotations) Run {
	r := Run{
		Dir: dir, Name: run.Name, StartedAt: run.StartedAt, Complete: run.Complete, Valid: run.Valid, Rounds: run.Rounds,
		DynoVersion: run.DynoVersion, Machine: machine(run.Environment), Plan: fingerprint(run.Plan), Metric: run.Plan.Metric,
		Figures: map[string]map[string]rundir.Estimate{}, names: expr.NamesOf(run.Plan), Annotations: about,
	}
	for _, v := range run.Variants {
		if aliased(run.Plan, v.Name) {
			continue
		}
		r.Variants = append(r.Variants, v.Name)
		figures := map[string]rundir.Estimate{}
		for metric, e := range v.Figures {
			e.Values = nil // thousands of runs are kept at once
			figures[metric] = e
		}
		r.Figures[v.Name] = figures
	}
	return r
}

// aliased tells whether a variant is the A/A control of another.
func aliased(plan rundir.Plan, variant string) bool {
	return slices.ContainsFunc(plan.Variants, func(v rundir.PlanVariant) bool { return v.Name == variant && v.AliasOf != "" })
}

func machine(e rundir.Environment) string {
	parts := []string{e.Hostname, e.Kernel, e.CPUModel, fmt.Sprintf("%d CPUs", e.CPUs)}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")
}

// fingerprint identifies a plan by everything that decides its figures.
func fingerprint(plan rundir.Plan) string {
	type part struct {
		Protocol string
		Short    bool
		Variants []rundir.PlanVariant
		Capacity *rundir.PlanCapacity
		// Capacity depends on these; other figures do not.
		Thresholds []string
	}
	p := part{Protocol: plan.Protocol, Short: plan.Short, Capacity: plan.Capacity}
	if plan.Capacity != nil {
		p.Thresholds = plan.Thresholds
	}
	for _, v := range plan.Variants {
		if v.AliasOf == "" {
			v.WarmupSeconds = 0 // a pilot may have found another
			p.Variants = append(p.Variants, v)
		}
	}
	text, err := json.Marshal(p)
	if err != nil { // a rate that is no number, which JSON could not have held
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// A Query restricts Trace. Empty fields do not restrict.
type Query struct {
	Name    string   // of the experiment
	Metrics []string // else each experiment's primary one
	Variant string
	Tags    []string // runs have all of them
	// Where is a condition of thresholds, on the estimates of the runs. It must be true of a
	// variant.
	Where    string
	From, To time.Time // when the runs started; To is exclusive
}

// nothing says that no run matches.
func (q Query) nothing() error {
	metrics := strings.Join(q.Metrics, ", ")
	switch {
	case metrics != "" && q.Variant != "":
		return texts.NewError("searched.figure.both", "metric", metrics, "variant", q.Variant)
	case metrics != "":
		return texts.NewError("searched.figure.metric", "metric", metrics)
	case q.Variant != "":
		return texts.NewError("searched.figure.variant", "variant", q.Variant)
	}
	return texts.NewError("searched.figure")
}

// A History is the development of the runs below a directory.
type History struct {
	Experiments []Experiment `json:"experiments"`          // by name, then by their first run
	Unreadable  []Run        `json:"unreadable,omitempty"` // with their Problem
}

// An Experiment holds the runs of one plan, in the order of time, by one metric.
type Experiment struct {
	Name   string   `json:"name"`
	Plan   string   `json:"plan"`
	Metric string   `json:"metric"`
	Runs   []Run    `json:"runs"`
	Series []Series `json:"series"` // one for each variant
	// Baseline is the run that was pinned last, whether it is among Runs or not.
	Baseline *Run `json:"baseline,omitempty"`
}

// A Series is a metric of one variant over the runs.
type Series struct {
	Variant string  `json:"variant"`
	Points  []Point `json:"points"` // one for each run of the experiment
	// Compared is how many of the points were searched for changes.
	Compared int             `json:"compared"`
	Changes  []Change        `json:"changes"`
	Detail   *rundir.Message `json:"detail,omitempty"` // why nothing or not everything was searched
}

// A Point is one run's figure, in the metric's unit.
type Point struct {
	Run    int             `json:"run"` // its index among the experiment's
	Figure rundir.Estimate `json:"figure"`
	// Relative is its difference from the baseline, a share of the baseline's estimate.
	Relative *float64        `json:"relative,omitempty"`
	Left     *rundir.Message `json:"left_out,omitempty"` // why it was not searched for changes
}

// A Change is a point at which a series changed. Its size only describes the data: the
// same runs that show the change also chose the point.
type Change struct {
	Run        int      `json:"run"`    // the first one after it, an index among the experiment's
	Before     float64  `json:"before"` // mean of the runs since the change before
	After      float64  `json:"after"`  // mean of the runs until the next
	Relative   *float64 `json:"relative,omitempty"`
	P          float64  `json:"p"`
	NewMachine bool     `json:"new_machine,omitempty"` // the run before was on another machine
	NewDyno    bool     `json:"new_dyno,omitempty"`    // or made by another version of dyno
}

// Trace groups runs into the histories of experiments, and finds where each metric of
// each variant changed: E-divisive at 1 % over valid and complete runs. It fails when
// the query matches nothing.
func Trace(runs []Run, q Query) (*History, error) {
	h := &History{Experiments: []Experiment{}}
	where := Where{Condition: q.Where, Variant: q.Variant}
	type key struct{ name, plan string }
	at, baselines := map[key]int{}, map[key]*Run{}
	for i := range runs {
		r := &runs[i]
		if r.Problem != "" {
			h.Unreadable = append(h.Unreadable, *r)
			continue
		}
		key := key{r.Name, r.Plan}
		baselines[key] = laterPinned(baselines[key], r)
		if !q.matches(r) || !where.Matches(r) {
			continue
		}
		i, ok := at[key]
		if !ok {
			i = len(h.Experiments)
			at[key] = i
			h.Experiments = append(h.Experiments, Experiment{Name: r.Name, Plan: r.Plan})
		}
		h.Experiments[i].Runs = append(h.Experiments[i].Runs, *r)
	}
	if err := where.Err(); err != nil {
		return nil, err
	}
	if len(h.Experiments) == 0 && (q.Name != "" || len(runs) > len(h.Unreadable)) {
		return nil, q.noRun()
	}
	slices.SortStableFunc(h.Experiments, func(a, b Experiment) int { return strings.Compare(a.Name, b.Name) })
	kept := []Experiment{}
	for _, e := range h.Experiments {
		e.Baseline = baselines[key{e.Name, e.Plan}]
		for _, metric := range append(slices.Clone(q.Metrics), "")[:max(1, len(q.Metrics))] {
			e := e
			if err := e.trace(metric, q.Variant); err != nil {
				return nil, fmt.Errorf("history: %s: %w", e.Name, err)
			}
			if len(e.Series) > 0 {
				kept = append(kept, e)
			}
		}
	}
	if len(kept) == 0 && len(h.Experiments) > 0 {
		return nil, q.nothing()
	}
	h.Experiments = kept
	return h, nil
}

// trace fills in the metric and the series. There are none if the runs have no matching
// figure.
func (e *Experiment) trace(metric, variant string) error {
	latest := e.Runs[len(e.Runs)-1]
	e.Metric, e.Series = cmp.Or(metric, latest.Metric, "throughput"), nil
	var variants []string
	for _, r := range e.Runs {
		for _, v := range r.Variants {
			if !slices.Contains(variants, v) && (variant == "" || variant == v) {
				variants = append(variants, v)
			}
		}
	}
	known := false
	for _, v := range variants {
		s := Series{Variant: v, Changes: []Change{}}
		for i, r := range e.Runs {
			p := Point{Run: i, Figure: r.Figures[v][e.Metric]}
			switch {
			case !r.Valid:
				p.Left = new(texts.New("left.invalid"))
			case !r.Complete:
				p.Left = new(texts.New("left.incomplete"))
			case p.Figure.Estimate == nil:
				p.Left = new(texts.New("left.figure"))
			}
			if e.Baseline != nil && e.Baseline.Dir != r.Dir {
				p.Relative = relative(p.Figure, e.Baseline.Figures[v][e.Metric])
			}
			known = known || p.Figure.Estimate != nil
			s.Points = append(s.Points, p)
		}
		if err := s.findChanges(e.Runs); err != nil {
			return err
		}
		e.Series = append(e.Series, s)
	}
	if metric != "" && !known {
		e.Series = nil // other experiments may have it
	}
	return nil
}

// relative returns how much a figure is above that of the baseline, as a share.
func relative(e, base rundir.Estimate) *float64 {
	if e.Estimate == nil || base.Estimate == nil || *base.Estimate == 0 {
		return nil
	}
	return new(*e.Estimate / *base.Estimate - 1)
}

// findChanges fills in the changes of a series.
func (s *Series) findChanges(runs []Run) error {
	var good []*Point
	for i := range s.Points {
		if s.Points[i].Left == nil {
			good = append(good, &s.Points[i])
		}
	}
	if len(good) > MaxCompared {
		s.Detail = new(texts.New("searched.latest", "n", strconv.Itoa(MaxCompared), "of", strconv.Itoa(len(good))))
		for _, p := range good[:len(good)-MaxCompared] {
			p.Left = new(texts.New("left.old"))
		}
		good = good[len(good)-MaxCompared:]
	}
	s.Compared = len(good)
	if len(good) < leastCompared {
		s.Detail = new(texts.New("searched.few", "least", strconv.Itoa(leastCompared), "n", strconv.Itoa(len(good))))
		return nil
	}
	values := make([]float64, len(good))
	for i, p := range good {
		values[i] = *p.Figure.Estimate
	}
	points, err := stat.ChangePoints(values, divisive())
	if err != nil {
		return err
	}
	for _, c := range points {
		first, before := runs[good[c.Index].Run], runs[good[c.Index-1].Run]
		change := Change{
			Run: good[c.Index].Run, Before: c.Before, After: c.After, P: c.P,
			NewMachine: first.Machine != before.Machine, NewDyno: first.DynoVersion != before.DynoVersion,
		}
		if relative, ok := c.Relative(); ok {
			change.Relative = &relative
		}
		s.Changes = append(s.Changes, change)
	}
	return nil
}
