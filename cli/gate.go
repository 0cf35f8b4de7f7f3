package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"dyno/internal/exit"
	"dyno/internal/units"
	"dyno/judge/verdict"
	"dyno/results/rundir"
)

// A gate says which comparisons and thresholds are errors.
type gate struct {
	regression   bool // a variant that is worse by more than the margin
	inconclusive bool // and one of which that is not known
	strict       bool // and a threshold that is kept only as measured
}

func (g *gate) flags(f *pflag.FlagSet, regression string) {
	f.BoolVar(&g.regression, "fail-on-regression", false, regression)
	f.BoolVar(&g.inconclusive, "fail-on-inconclusive", false, "the same, and exit code 5 if a regression of the margin could not have been found")
}

// isClosed tells whether regressions are errors.
func (g gate) isClosed() bool { return g.regression || g.inconclusive }

// inconclusive describes the comparisons that found no regression and were too imprecise to find
// one of the margin.
func inconclusive(run *rundir.Run) (found []string) {
	for _, c := range verdict.TooImprecise(run) {
		found = append(found, tooImprecise(c.Metric, c.Variant, c.Detectable, run.Plan.Margin))
	}
	return found
}

func tooImprecise(metric, variant string, detectable *float64, margin float64) string {
	if detectable == nil {
		return fmt.Sprintf("%s of %s: the rounds do not tell which regression could have been found; use more of them", metric, variant)
	}
	return fmt.Sprintf("%s of %s: could only have found a regression of ≥ %s, and the margin is %s", metric, variant, units.Percent(*detectable), units.Percent(margin))
}

// pass is the error of a gate that found these regressions, and these comparisons inconclusive.
func (g gate) pass(worse, inconclusive []string) error {
	switch {
	case len(worse) > 0:
		return exit.With(exit.Regression, fmt.Errorf("regression: %s", strings.Join(worse, "; ")), "")
	case g.inconclusive && len(inconclusive) > 0:
		return exit.With(exit.Regression, fmt.Errorf("inconclusive: %s", strings.Join(inconclusive, "; ")), "use more rounds, a longer window or a wider margin")
	}
	return nil
}

// discard removes a temporary folder. One that stays, as another program has a file of it open on Windows, changes no result.
func (a *app) discard(dir string) {
	if err := os.RemoveAll(dir); err != nil {
		a.warn("a temporary folder is left: " + err.Error())
	}
}

// warn says on standard error what is no error. In a job of GitHub it is an annotation.
func (a *app) warn(text string) {
	if os.Getenv("GITHUB_ACTIONS") == "true" {
		fmt.Fprintf(a.stderr, "::warning title=dyno::%s\n", text)
		return
	}
	fmt.Fprintf(a.stderr, "dyno: %s\n", text)
}
