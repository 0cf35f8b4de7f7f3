package calibrate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"dyno/judge/explain"
	"dyno/lab/plan"
	"dyno/results/rundir"
	"dyno/selftest/oracle"
)

// hotName is the variant with the planted function.
const hotName = "hot"

// An Explained difference is the explanation of one run with two servers. The second has a planted function, or
// is the first again.
type Explained struct {
	Number  int
	Planted bool
	Ranked  int     // how many functions were
	First   string  // the first of the table
	Change  float64 // its change, in seconds per request
	// Share is the planted function's part of the CPU time per request, as the profiles
	// have it; nil without one.
	Share *float64
	Valid bool // the run
}

// right tells whether the explanation is as it must be: the planted function is
// ranked, and first; or nothing is ranked.
func (e *Explained) right() bool {
	if !e.Planted {
		return e.Ranked == 0
	}
	return e.Ranked > 0 && isHot(e.First)
}

func isHot(function string) bool { return strings.HasSuffix(function, "."+oracle.HotFunction) }

// explanations judges the table.
func (r *Result) explanations() []judged {
	var list []judged
	for _, planted := range []bool{false, true} {
		j := judged{name: "a server against itself: nothing is ranked", low: 0.95, high: 1}
		if planted {
			j.name = fmt.Sprintf("a planted function of %s: ranked first", percent(r.Config.Hot))
		}
		for i := range r.Explained {
			if e := &r.Explained[i]; e.Planted == planted {
				j.share.count(e.right())
			}
		}
		if j.share.Of > 0 {
			j.outcome = j.share.within(j.low, j.high)
			list = append(list, j)
		}
	}
	return list
}

// explain measures and explains runs of a base, its control and a server with a
// planted function.
func (k *calibrator) explain(ctx context.Context) (err error) {
	s, err := k.sheet("explained.csv", "run", "planted", "ranked", "first", "change_seconds", "planted_share", "valid")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	iterations := oracle.WorkIterations(k.Work)
	began := time.Now()
	for i := range k.Explained {
		found, err := k.explained(ctx, i+1, iterations)
		if err != nil {
			return err
		}
		for _, e := range found {
			k.result.Explained = append(k.result.Explained, e)
			err := s.write(strconv.Itoa(e.Number), strconv.FormatBool(e.Planted), strconv.Itoa(e.Ranked), e.First,
				number(&e.Change), number(e.Share), strconv.FormatBool(e.Valid))
			if err != nil {
				return err
			}
		}
		passed := time.Since(began)
		k.step("explanation %d of %d: %d ranked of a server against itself, first of the planted: %s; %v to go", i+1, k.Explained,
			found[0].Ranked, found[1].First, (passed / time.Duration(i+1) * time.Duration(k.Explained-i-1)).Round(time.Second))
	}
	return nil
}

// explained carries out one run and explains its two differences.
func (k *calibrator) explained(ctx context.Context, n int, iterations int64) (found []Explained, err error) {
	control, hot := k.variant(controlName, iterations, 0), k.variant(hotName, iterations, 0)
	control.AliasOf = baseName
	hot.Target.Start = append(hot.Target.Start, "--hot", strconv.FormatFloat(k.Hot, 'f', -1, 64))
	err = k.measure(ctx, &plan.Experiment{
		Name:  "calibration",
		Base:  baseName,
		Awake: k.Awake,
		Design: plan.Design{
			Rounds: k.Rounds, Seed: uint64(n), Stop: plan.StopFixed, Margin: 0.02, Metric: compared, Control: controlName,
		},
		Profile:  &plan.Profile{Kinds: []string{plan.ProfileCPU}, By: plan.BySampling, Rounds: k.Rounds, Window: k.ProfileWindow},
		Variants: []plan.Variant{k.variant(baseName, iterations, 0), control, hot},
	}, func(folder *rundir.Folder) error {
		for _, variant := range []string{controlName, hotName} {
			e, err := explainedOf(folder, variant)
			if err != nil {
				return err
			}
			e.Number = n
			found = append(found, e)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("explanation %d: %w", n, err)
	}
	return found, nil
}

// explainedOf explains how a variant of a run differs from the base.
func explainedOf(folder *rundir.Folder, variant string) (e Explained, err error) {
	x, err := explain.Explain(folder, baseName, variant)
	if err != nil {
		return e, err
	}
	if len(x.Tables) == 0 || len(x.Tables[0].Functions) == 0 {
		return e, fmt.Errorf("there are no profiles: %v", x.Notes)
	}
	e.Planted, e.Valid = variant == hotName, folder.Run.Valid
	whole, planted := 0.0, 0.0
	for i, f := range x.Tables[0].Functions {
		if f.Ranked {
			e.Ranked++
		}
		if i == 0 {
			e.First, e.Change = f.Name, *f.Change.Estimate
		}
		whole += f.Variant
		if isHot(f.Name) {
			planted += f.Variant
		}
	}
	if e.Planted {
		e.Share = pointer(planted / whole)
	}
	return e, nil
}
