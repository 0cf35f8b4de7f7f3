package stat

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestStoppingValidate(t *testing.T) {
	for _, c := range []struct {
		s    Stopping
		says string // nothing when it is valid
	}{
		{Stopping{Rule: FixedRounds, Rounds: 2}, ""},
		{Stopping{Rule: FixedRounds, Rounds: 1}, "rounds 1: want 2 to 1000000 for fixed rounds"},
		{Stopping{Rule: Precision, Rounds: 8, Margin: 0.02}, ""},
		{Stopping{Rule: Precision, Rounds: 7}, "margin 0: want more than 0 and at most 1, such as 0.02 for 2 %\nrounds 7: want 8 to"},
		{Stopping{Rule: ThreeLooks, Rounds: 12}, ""},
		{Stopping{Rule: ThreeLooks, Rounds: 11}, "rounds 11: want 12 to 1000000 for three looks"},
		{Stopping{Rule: ThreeLooks, Rounds: MaxRounds + 1}, "rounds 1000001"},
		{Stopping{Rule: 3, Rounds: 8}, "rule 3"},
		{Stopping{Rule: -1, Rounds: 8}, "rule -1"},
	} {
		err := c.s.Validate()
		if c.says == "" {
			if err != nil {
				t.Errorf("%+v: %v", c.s, err)
			}
			continue
		}
		expectError(t, err, c.says)
		_, err = c.s.Decide(nil)
		expectError(t, err, c.says)
	}
}

// alternating returns log ratios about a mean.
func alternating(n int, mean, spread float64) []float64 {
	d := make([]float64, n)
	for i := range d {
		d[i] = mean + spread*float64(1-2*(i%2))
	}
	return d
}

func TestDecide(t *testing.T) {
	fixed := Stopping{Rule: FixedRounds, Rounds: 8}
	precision := Stopping{Rule: Precision, Rounds: 20, Margin: 0.02}
	looks := Stopping{Rule: ThreeLooks, Rounds: 24}
	sure := Stopping{Rule: ThreeLooks, Rounds: 24, Margin: 0.02}
	narrow := logMargin(0.02) / 2
	for _, c := range []struct {
		name string
		s    Stopping
		d    []float64
		want Decision
	}{
		{"no rounds yet", fixed, nil, Decision{Confidence: 0.95, Most: 8}},
		{"significant, and not all", fixed, alternating(7, 1, 0.001), Decision{Confidence: 0.95, Rounds: 7, Most: 8}},
		{"all", fixed, alternating(8, 0, 1), Decision{Stop: true, Confidence: 0.95, Rounds: 8, Most: 8}},
		{"narrow too early", precision, alternating(7, 0, 0), Decision{Confidence: 0.966, Rounds: 7, Most: 20}},
		{"narrow", precision, alternating(8, 0.01, 0.005), Decision{Stop: true, Confidence: 0.966, Rounds: 8, Most: 20, HalfWidth: 0.005, Wanted: narrow}},
		{"wide", precision, alternating(8, 0.5, 0.02), Decision{Confidence: 0.966, Rounds: 8, Most: 20, HalfWidth: 0.02, Wanted: narrow}},
		{"wide to the end", precision, alternating(20, 0, 1), Decision{Stop: true, Confidence: 0.966, Rounds: 20, Most: 20}},
		{"between looks", looks, alternating(9, 1, 0.001), Decision{Confidence: 0.955, Rounds: 9, Most: 24}},
		{"first look, clear", looks, alternating(8, 1, 0.1), Decision{Stop: true, Confidence: 0.9995, Rounds: 8, Most: 24, Look: 1, Looks: 3, P: 2.8e-8, Level: 0.0005}},
		{"first look, p 0.03", looks, alternating(8, 0.1, 0.1), Decision{Confidence: 0.9995, Rounds: 8, Most: 24, Look: 1, Looks: 3, P: 0.033, Level: 0.0005}},
		{"second look, p 0.001", looks, alternating(16, 0.1, 0.1), Decision{Stop: true, Confidence: 0.986, Rounds: 16, Most: 24, Look: 2, Looks: 3, P: 0.0015, Level: 0.014}},
		{"first look, equivalent", sure, alternating(8, 0, 0.005), Decision{Stop: true, Confidence: 0.9995, Rounds: 8, Most: 24, Look: 1, Looks: 3, P: 1, Level: 0.0005, Equivalent: true}},
		{"second look, not equivalent yet", sure, alternating(16, 0.01, 0.02), Decision{Confidence: 0.986, Rounds: 16, Most: 24, Look: 2, Looks: 3, P: 0.072, Level: 0.014}},
		{"last look", looks, alternating(24, 0, 0.1), Decision{Stop: true, Confidence: 0.955, Rounds: 24, Most: 24}},
	} {
		got, err := c.s.Decide(c.d)
		if diff := cmp.Diff(c.want, got, cmpopts.EquateApprox(0.05, 0)); err != nil || diff != "" || !agree(got.Confidence, c.want.Confidence) {
			t.Errorf("%s: %v (-want +got):\n%s", c.name, err, diff)
		}
	}
}

func TestLooks(t *testing.T) {
	for rounds := leastForLooks; rounds < 50; rounds++ {
		looks := Stopping{Rule: ThreeLooks, Rounds: rounds}.Looks()
		if len(looks) != 3 || looks[0].Rounds < 4 || looks[0].Rounds >= looks[1].Rounds || looks[1].Rounds >= looks[2].Rounds || looks[2].Rounds != rounds {
			t.Errorf("%d rounds: %+v", rounds, looks)
		}
	}
	// Together they have level 0.05, by integration.
	c := readFixture[struct{ Alphas, After []decimal }](t, "looks")[0]
	for i, look := range (Stopping{Rule: ThreeLooks, Rounds: 12}).Looks() {
		expect(t, i, "alpha", look.Alpha, c.Alphas[i])
	}
	if level := c.After[2]; level > 0.05 || level < 0.0495 {
		t.Errorf("level of the looks %v, want just below 0.05", level)
	}
	if looks := (Stopping{Rule: FixedRounds, Rounds: 9}).Looks(); len(looks) != 1 || looks[0] != (Look{9, 0.05}) {
		t.Errorf("fixed rounds: %+v", looks)
	}
}

// simulate often runs a comparison of log ratios with this mean and standard deviation 0.01 to its end.
// It returns how often it found a difference and how often its interval held the truth. It also returns
// the mean number of rounds.
func simulate(t *testing.T, s Stopping, mean float64, runs int) (found, covered, rounds float64) {
	t.Helper()
	rng := newRNG(29)
	for range runs {
		d := make([]float64, 0, s.Rounds)
		for {
			d = append(d, mean+0.01*rng.NormFloat64())
			decision, err := s.Decide(d)
			if err != nil {
				t.Fatal(err)
			}
			if !decision.Stop {
				continue
			}
			m, err := PairedMean(d, decision.Confidence)
			if err != nil {
				t.Fatal(err)
			}
			if !m.Interval.Contains(0) {
				found++
			}
			if m.Interval.Contains(mean) {
				covered++
			}
			rounds += float64(len(d))
			break
		}
	}
	return found / float64(runs), covered / float64(runs), rounds / float64(runs)
}

// Identical variants are found different in at most one comparison of twenty, whatever rule stops it.
// Looks names the exception for the t test.
func TestStoppingKeepsItsLevel(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: simulates thousands of experiments")
	}
	const runs = 2000
	for _, c := range []struct {
		s     Stopping
		level float64
	}{
		{Stopping{Rule: ThreeLooks, Rounds: 24}, 0.051},
		{Stopping{Rule: ThreeLooks, Rounds: 12}, 0.053},
		{Stopping{Rule: ThreeLooks, Rounds: 24, Margin: 0.01}, 0.036}, // many stop earlier: they are equivalent
		{Stopping{Rule: Precision, Rounds: 60, Margin: 0.01}, 0.049},  // stops after 20 rounds, where it is worst
	} {
		found, _, rounds := simulate(t, c.s, 0, runs)
		if tolerance := 3 * math.Sqrt(c.level/runs); math.Abs(found-c.level) > tolerance {
			t.Errorf("%+v: false findings %v after %v rounds, want %v ± %v", c.s, found, rounds, c.level, tolerance)
		}
	}
}
