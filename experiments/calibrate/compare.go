package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/judge/stat"
	"dyno/judge/verdict"
	"dyno/lab/plan"
	"dyno/lab/trial"
	"dyno/results/rundir"
	"dyno/selftest/oracle"
)

// The variants of an experiment on a saturated Work server.
const (
	baseName    = "base"
	controlName = baseName + ".control"
)

// compared is the metric in which the truth is known.
const compared = "throughput"

// A Comparison is the statement of one run about two servers whose ratio is known.
type Comparison struct {
	Number  int      // of the run, from 1
	Slow    float64  // the planted slowdown, a share; 0: of a server with itself
	Rounds  int      // that it has
	Ratio   *float64 // throughput over the base's
	Low     *float64 // its interval; an end that is not bounded is nil
	High    *float64
	Claimed bool // there is an interval at all
	P       *float64
	FlipP   *float64 // of the sign-flip test
	// Detectable is the smallest change that the run says it finds in four
	// comparisons of five.
	Detectable *float64
	Verdict    string
	Noise      string    // made during it
	Duet       bool      // they were measured at once
	Took       float64   // seconds, of the whole run; 0: not known
	State      string    // what is said of the ratio: see rundir's State constants
	Valid      bool      // the run
	Flags      []string  // kinds of the run's flags, each once
	Ratios     []float64 // of each round
	ServerCPU  *float64  // share of its CPU that the base used
	LoadCPU    *float64  // and the generator
}

// covers tells whether the interval holds a ratio.
func (c *Comparison) covers(ratio float64) bool {
	return (c.Low == nil || *c.Low <= ratio) && (c.High == nil || ratio <= *c.High)
}

// below and above tell whether the interval lies on one side of 1.
func (c *Comparison) below() bool { return c.High != nil && *c.High < 1 }
func (c *Comparison) above() bool { return c.Low != nil && *c.Low > 1 }

// width is that of the interval, high over low, less 1; NaN of one without both ends.
func (c *Comparison) width() float64 {
	if c.Low == nil || c.High == nil || !(*c.Low > 0) {
		return math.NaN()
	}
	return *c.High / *c.Low - 1
}

// A Tally sums up the comparisons with one slowdown, in rounds or as duets.
type Tally struct {
	Duet bool
	Slow float64
	// Found counts differences from 1: for a slowdown those in its direction, for a
	// server with itself any.
	Found     Proportion
	Covered   Proportion // intervals that hold the true ratio
	WrongSign Proportion
	// FoundDeclared is Found among the runs that declared they would find a change
	// of this size.
	FoundDeclared Proportion
	Detectable    float64 // the median declaration, a share; NaN of none
	Spread        float64 // standard deviation of a round's log ratio: root mean square over runs; NaN of none
	Bias          float64 // mean of log ratio minus that of the truth; NaN of none
	Width         float64 // median of the intervals', high over low, less 1; NaN of none
	Took          float64 // median seconds of a run; NaN of none
	Invalid       int     // runs that were called invalid
	Unclaimed     int     // runs without an interval; no proportion includes them
	// Refused counts the runs that call the ratio not identified. They claim nothing, and
	// no proportion includes them. RefusedFound and RefusedCovered are what these runs
	// would have claimed.
	Refused                      int
	RefusedFound, RefusedCovered Proportion
	// ServerCPU is the median share of its CPU that the base used; NaN where not
	// known. Below 1 the server slept, and sleep absorbs a slowdown.
	ServerCPU float64
}

// Tallies sums comparisons up by slowdown, the smallest first.
func (r *Result) Tallies() []Tally {
	all := r.Comparisons
	var slows []float64
	for _, c := range all {
		if !slices.Contains(slows, c.Slow) {
			slows = append(slows, c.Slow)
		}
	}
	slices.Sort(slows)
	var sums []Tally
	for _, s := range slows {
		t := Tally{Slow: s, Duet: all[0].Duet}
		truly := oracle.SlowRatio(s)
		var detectable, busy, widths, took []float64
		var variance, bias float64
		var degrees, rounds int
		for i := range all {
			c := &all[i]
			if c.Slow != s {
				continue
			}
			if !c.Valid {
				t.Invalid++
			}
			if logs := logarithms(c.Ratios); len(logs) > 0 {
				mean := 0.0
				for _, l := range logs {
					mean += l / float64(len(logs))
					bias += l - math.Log(truly)
				}
				for _, l := range logs {
					variance += (l - mean) * (l - mean)
				}
				degrees += len(logs) - 1
				rounds += len(logs)
			}
			if c.Detectable != nil {
				detectable = append(detectable, *c.Detectable)
			}
			if c.ServerCPU != nil {
				busy = append(busy, *c.ServerCPU)
			}
			if c.Took > 0 {
				took = append(took, c.Took)
			}
			if !c.Claimed {
				t.Unclaimed++
				continue
			}
			found := c.below() || s == 0 && c.above()
			if c.State == rundir.StateNotIdentified {
				t.Refused++
				t.RefusedFound.count(found)
				t.RefusedCovered.count(c.covers(truly))
				continue
			}
			if w := c.width(); !math.IsNaN(w) {
				widths = append(widths, w)
			}
			t.Found.count(found)
			t.Covered.count(c.covers(truly))
			t.WrongSign.count(s > 0 && c.above())
			if c.Detectable != nil && *c.Detectable <= s {
				t.FoundDeclared.count(found)
			}
		}
		t.Spread, t.Bias = math.Sqrt(variance/float64(degrees)), bias/float64(rounds)
		t.Detectable, t.ServerCPU = medianOf(detectable), medianOf(busy)
		t.Width, t.Took = medianOf(widths), medianOf(took)
		sums = append(sums, t)
	}
	return sums
}

// medianOf returns the median, NaN of none.
func medianOf(values []float64) float64 {
	m, err := stat.Median(values)
	if err != nil {
		return math.NaN()
	}
	return m
}

// logarithms leaves out rounds that one of the two lost, which have no ratio.
func logarithms(ratios []float64) []float64 {
	var logs []float64
	for _, r := range ratios {
		if r > 0 && r < math.MaxFloat64 {
			logs = append(logs, math.Log(r))
		}
	}
	return logs
}

func (p *Proportion) count(hit bool) {
	p.Of++
	if hit {
		p.Hits++
	}
}

// A judged is a proportion with its allowed range.
type judged struct {
	name      string
	share     Proportion
	low, high float64
	outcome   Outcome
}

// judged lists the conditions on a tally. At a level of 5 %, 4 to 16 of 200 comparisons
// of a server with itself may differ. Intervals of 95 % hold the truth in 93 to 97 of
// 100. A change is found in four of five runs that declared they would find it.
func (t *Tally) judged() []judged {
	judge := func(name string, p Proportion, low, high float64) judged {
		if p.Of == 0 {
			// There were comparisons, and none of them came to a result that counts. That proves nothing.
			return judged{name, p, low, high, Missed}
		}
		return judged{name, p, low, high, p.within(low, high)}
	}
	if t.Slow == 0 {
		return []judged{judge("differences found", t.Found, 4./200, 16./200), judge("truth covered", t.Covered, 0.93, 0.97)}
	}
	list := []judged{judge("truth covered", t.Covered, 0.93, 0.97)}
	if t.FoundDeclared.Of > 0 {
		list = append(list, judge("found where declared", t.FoundDeclared, 0.80, 1))
	}
	return list
}

// slowed names the variant with a slowdown.
func slowed(share float64) string {
	return "slow-" + strconv.FormatFloat(share, 'f', -1, 64)
}

// compare measures runs of a base, its control and slower variants.
func (k *calibrator) compare(ctx context.Context) (err error) {
	slows := k.Slow
	if !k.wanted(Power) {
		slows = nil
	}
	s, err := k.sheet("comparisons.csv", "run", "planted_slowdown", "true_ratio", "rounds", "ratio", "low", "high", "p", "sign_flip_p",
		"detectable", "verdict", "noise", "duet", "seconds", "state", "valid", "flags", "base_cpu_share", "generator_cpu_share", "round_ratios")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	iterations := oracle.WorkIterations(k.Work)
	began := time.Now()
	for i := range k.Comparisons {
		found, err := k.run(ctx, i+1, iterations, slows)
		if err != nil {
			return err
		}
		for _, c := range found {
			k.result.Comparisons = append(k.result.Comparisons, c)
			if err := s.write(c.row()...); err != nil {
				return err
			}
		}
		passed := time.Since(began)
		k.step("comparison %d of %d: %s; %v to go", i+1, k.Comparisons, brief(found),
			(passed / time.Duration(i+1) * time.Duration(k.Comparisons-i-1)).Round(time.Second))
	}
	return nil
}

// brief summarises the comparisons of a run.
func brief(found []Comparison) string {
	var parts []string
	for _, c := range found {
		text := "ratio unknown"
		if c.Ratio != nil {
			text = fmt.Sprintf("%.4f", *c.Ratio)
		}
		if c.Claimed {
			text += fmt.Sprintf(" [%s, %s]", number(c.Low), number(c.High))
		}
		parts = append(parts, fmt.Sprintf("%v %% slower: %s", 100*c.Slow, text))
	}
	return strings.Join(parts, "; ")
}

// row is a comparison's line in the raw file.
func (c *Comparison) row() []string {
	var ratios []string
	for _, r := range c.Ratios {
		ratios = append(ratios, number(&r))
	}
	return []string{
		strconv.Itoa(c.Number), number(&c.Slow), number(pointer(oracle.SlowRatio(c.Slow))), strconv.Itoa(c.Rounds),
		number(c.Ratio), number(c.Low), number(c.High), number(c.P), number(c.FlipP), number(c.Detectable),
		c.Verdict, c.Noise, strconv.FormatBool(c.Duet), number(&c.Took), c.State, strconv.FormatBool(c.Valid), strings.Join(c.Flags, " "), number(c.ServerCPU), number(c.LoadCPU), strings.Join(ratios, " "),
	}
}

// run carries out one run and returns its comparisons.
func (k *calibrator) run(ctx context.Context, n int, iterations int64, slows []float64) (found []Comparison, err error) {
	noise, seed := Undisturbed, k.Seed<<20+uint64(n) //nolint:gosec // runs are few
	if len(k.Noises) > 0 {
		noise = k.Noises[(n-1)%len(k.Noises)]
	}
	rate := k.NoiseRates[n/max(len(k.Noises), 1)%len(k.NoiseRates)]
	err = k.withNoise(noise, rate, seed, func() error {
		return k.measure(ctx, k.experiment(seed, iterations, slows), func(f *rundir.Folder) error {
			if k.wanted(AA) {
				slows = append([]float64{0}, slows...)
			}
			found = read(&f.Run, n, slows)
			for i := range found {
				found[i].Noise, found[i].Duet = noise, k.Duet
				if f.Run.FinishedAt != nil {
					found[i].Took = f.Run.FinishedAt.Sub(f.Run.StartedAt).Seconds()
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("comparison %d: %w", n, err)
	}
	return found, nil
}

// experiment plans one run: base, control and slowed variants, in rounds.
func (k *calibrator) experiment(seed uint64, iterations int64, slows []float64) *plan.Experiment {
	e := &plan.Experiment{
		Name:  "calibration",
		Base:  baseName,
		Awake: k.Awake,
		Design: plan.Design{
			Rounds: k.Rounds, Seed: seed, Stop: plan.StopFixed, Margin: 0.02, Metric: compared, Duet: k.Duet,
		},
		Variants: []plan.Variant{k.variant(baseName, iterations, 0)},
	}
	if k.wanted(AA) {
		control := k.variant(controlName, iterations, 0)
		control.AliasOf = baseName
		e.Variants, e.Design.Control = append(e.Variants, control), controlName
	}
	for _, s := range slows {
		e.Variants = append(e.Variants, k.variant(slowed(s), iterations, s))
	}
	return e
}

func (k *calibrator) variant(name string, iterations int64, slow float64) plan.Variant {
	v := plan.DefaultVariant(plan.HTTP)
	v.Observe = plan.Observe{Kernel: plan.KernelNone} // many short trials
	v.Name = name
	v.Target.Start = []string{
		k.Program, oracle.Command, "work", "--listen", "127.0.0.1:{{port}}",
		"--iterations", strconv.FormatInt(iterations, 10), "--slow", strconv.FormatFloat(slow, 'f', -1, 64),
	}
	v.Target.CPUs = k.server
	v.Target.Complete()
	v.Load.CPUs = k.load
	v.Load.Closed = &plan.Closed{Connections: k.Connections}
	v.Load.Warmup, v.Load.Window = k.Warmup, k.Trial
	return v
}

// measure runs an experiment, judges it and hands its folder to read. The folder is
// removed afterwards.
func (k *calibrator) measure(ctx context.Context, e *plan.Experiment, read func(*rundir.Folder) error) (err error) {
	if err := e.Validate(); err != nil {
		return err
	}
	e.Design.QuietWait = 0 // it is calibrated next to noise, too
	parent, err := os.MkdirTemp(k.temp, "run-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(parent)) }()
	dir := filepath.Join(parent, "run")
	if err := trial.Run(ctx, e, trial.Options{
		Dir: dir, Temporary: true, Program: k.Program, Command: k.Command, Version: k.Version, Referee: verdict.NewReferee(),
	}); err != nil {
		return err
	}
	folder, err := rundir.Open(dir)
	if err != nil {
		return err
	}
	if err := verdict.Judge(folder); err != nil {
		return err
	}
	return read(folder)
}

// read takes the comparisons with these slowdowns out of a run; that with 0 is the
// control's.
func read(run *rundir.Run, n int, slows []float64) []Comparison {
	var found []Comparison
	for _, want := range slows {
		name := controlName
		if want > 0 {
			name = slowed(want)
		}
		c := Comparison{Number: n, Slow: want, Valid: run.Valid}
		for _, f := range run.Flags {
			if !slices.Contains(c.Flags, f.Kind) {
				c.Flags = append(c.Flags, f.Kind)
			}
		}
		for _, v := range run.Variants {
			if v.Name == baseName {
				c.ServerCPU, c.LoadCPU = v.Known(rundir.MetricCPUShare), v.Known(rundir.MetricGenerator)
			}
		}
		for _, x := range run.Comparisons {
			if x.Base != baseName || x.Variant != name || x.Metric != compared {
				continue
			}
			c.Rounds, c.Ratio, c.Low, c.High, c.Ratios = x.Rounds, x.Ratio.Estimate, x.Ratio.Low, x.Ratio.High, x.Ratio.Values
			c.Claimed = x.Ratio.Interval != "" && x.Ratio.Interval != rundir.NoInterval
			c.P, c.FlipP, c.Detectable, c.Verdict = x.P, x.SignFlipP, x.Detectable, x.Verdict
			break
		}
		for _, v := range run.Validity {
			if v.Figure == compared && v.Variant == name && v.Base == baseName {
				c.State = v.State
			}
		}
		found = append(found, c)
	}
	return found
}
