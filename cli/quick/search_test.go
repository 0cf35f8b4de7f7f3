package quick

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"dyno/lab/plan"
)

func TestRounded(t *testing.T) {
	for rate, want := range map[float64]float64{2576.3: 2600, 26.25: 27, 100: 100, 0.0123: 0.013, 99.5: 100, 31: 31} {
		if got := rounded(rate); got != want {
			t.Errorf("%v: %v, want %v", rate, got, want)
		}
	}
}

// What a search is like follows from the flags and, where they leave it open, from what its
// conditions need.
func TestSearchFromFlags(t *testing.T) {
	search := func(args ...string) (*plan.Experiment, error) {
		var q Load
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		q.Flags(f, strings.NewReader(""), "slo", plan.HTTP)
		if err := f.Parse(args); err != nil {
			t.Fatal(err)
		}
		e, err := q.Plan(plan.HTTP, "http://127.0.0.1:1/")
		if err == nil {
			_, err = q.LastEnough(e, e.Capacity.From)
		}
		return e, err
	}
	e, err := search("--slo", "p99 < 20ms", "--from", "100")
	if err != nil {
		t.Fatal(err)
	}
	c, l := *e.Capacity, e.Variants[0].Load
	if c.From != 100 || c.To != mostRate || c.Enough != 1000 || l.Window != searchWindow || l.Open.MaxConnections != 0 || e.Design.Rounds != 1 || e.Thresholds[0].Holds != "p99 < 20ms" {
		t.Errorf("%+v, window %v, %d rounds, %+v", c, l.Window, e.Design.Rounds, e.Thresholds)
	}
	for args, want := range map[string]string{
		"--slo=p99<1ms --from=100 -z=2s":    "needs about 1,000 requests at each rate, and 100/s for 2s are 200",
		"--slo=p99<1ms --from=9 --to=9":     "--to: 9.00/s is not above --from",
		"--slo=p99<1ms --rate=9":            "--rate: with --slo, the search says how much is sent",
		"--slo=p99<1ms --stages=1s:9":       "--stages: with --slo",
		"--slo=p99<1ms -n=9":                "--requests: with --slo",
		"--slo=p99<1ms,p50":                 `--slo "p50": column 1`,
		"--slo=p98765<1ms --threshold=x<1s": `--slo "x<1s": column 1: unknown metric "x"`,
		"--from=5":                          "--from: there is no search; say with --slo what must hold",
	} {
		if _, err := search(strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
