package calibrate

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dyno/judge/verdict/checks"
	"dyno/lab/plan"
	"dyno/results/rundir"
)

// A printed figure is right if it is within its tolerance. Otherwise the result has its
// error.
func TestBeyond(t *testing.T) {
	p99 := publishedFigure{"response.p99", 100e-6, 0.01}
	for _, c := range []struct {
		name   string
		n      Noisy
		truth  float64
		beyond float64
		judged bool
	}{
		{"as it is", Noisy{State: rundir.StateOK, Estimate: pointer(0.00505)}, 0.005, 0, true},
		{"as it is, at a share of the truth", Noisy{State: rundir.StateOK, Estimate: pointer(0.0909)}, 0.090, 0, true},
		{"not as it is", Noisy{State: rundir.StateOK, Estimate: pointer(0.0045)}, 0.005, 0.0004, true},
		{"within bounds", Noisy{State: rundir.StateBounded, Estimate: pointer(9), Low: pointer(0.004), High: pointer(0.006)}, 0.005, 0, true},
		{"within their slack", Noisy{State: rundir.StateBounded, Low: pointer(0.00505), High: pointer(0.006)}, 0.005, 0, true},
		{"below them", Noisy{State: rundir.StateBounded, Low: pointer(0.0055), High: pointer(0.006)}, 0.005, 0.0004, true},
		{"above them", Noisy{State: rundir.StateBounded, Low: pointer(0.001), High: pointer(0.0047)}, 0.005, 0.0002, true},
		{"not printed", Noisy{State: rundir.StateNotIdentified, Estimate: pointer(9), High: pointer(9)}, 0.005, 0, false},
		{"relative only", Noisy{State: rundir.StateRelative, Estimate: pointer(9)}, 0.005, 0, false},
		{"no truth", Noisy{State: rundir.StateOK, Estimate: pointer(9)}, math.NaN(), 0, false},
		{"no truth at all", Noisy{State: rundir.StateOK, Estimate: pointer(9)}, 0, 0, false},
	} {
		beyond, judged := c.n.beyond(standard{truth: c.truth}, p99)
		if judged != c.judged || math.Abs(beyond-c.beyond) > 1e-12 {
			t.Errorf("%s: %v, %v, want %v, %v", c.name, beyond, judged, c.beyond, c.judged)
		}
	}
	n := Noisy{State: rundir.StateOK, Estimate: pointer(0.0045)}
	if beyond, _ := n.beyond(standard{truth: 0.005, within: 0.0004}, p99); math.Abs(beyond-0.0001) > 1e-12 {
		t.Errorf("%v beyond a truth that is known to 400 µs, want 100 µs", beyond)
	}
}

// Bounds that hold the truth are right whatever the slack, and wider ones never less so.
func TestBeyondIsNoLessForNarrowerBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		figure := func(name string) float64 { return rapid.Float64Range(1e-6, 1).Draw(t, name) }
		low, high, truth := figure("low"), figure("high"), figure("truth")
		low, high = min(low, high), max(low, high)
		n := Noisy{State: rundir.StateBounded, Low: &low, High: &high}
		beyond, judged := n.beyond(standard{truth: truth}, publishedFigure{"x", 100e-6, 0.01})
		if !judged || beyond < 0 || low <= truth && truth <= high && beyond != 0 {
			t.Fatalf("%v … %v of %v: %v, %v", low, high, truth, beyond, judged)
		}
		wider := Noisy{State: rundir.StateBounded, Low: pointer(low / 2), High: pointer(high * 2)}
		if b, _ := wider.beyond(standard{truth: truth}, publishedFigure{"x", 100e-6, 0.01}); b > beyond {
			t.Fatalf("%v of wider bounds, %v of narrower", b, beyond)
		}
	})
}

// someNoise are runs of one server: its truth, what was published about it, rightly and wrongly.
func someNoise() []Noisy {
	server := knownServers(0)[0].name
	row := func(run int, noise, figure, state string, estimate, low, high float64) Noisy {
		n := Noisy{Run: run, Server: server, Noise: noise, Figure: figure, State: state, Estimate: &estimate, Disturbed: pointer(0.1)}
		if state == rundir.StateBounded {
			n.Low, n.High, n.Causes = &low, &high, []string{"late_wakeups"}
		}
		return n
	}
	return []Noisy{
		row(1, Undisturbed, compared, rundir.StateOK, 1000, 0, 0),
		row(1, Undisturbed, "response.p99", rundir.StateOK, 0.0025, 0, 0),
		row(2, Undisturbed, compared, rundir.StateOK, 1001, 0, 0),
		row(2, Undisturbed, "response.p99", rundir.StateBounded, 0.0026, 0.0022, 0.0026),
		row(3, StallsGenerator, compared, rundir.StateOK, 1005, 0, 0),
		row(3, StallsGenerator, "response.p99", rundir.StateBounded, 0.009, 0.002, 0.009),
		row(4, StallsGenerator, compared, rundir.StateOK, 900, 0, 0),
		row(4, StallsGenerator, "response.p99", rundir.StateBounded, 0.009, 0.003, 0.006),
		row(5, BusyBoth, compared, rundir.StateOK, 1000, 0, 0),
		row(5, BusyBoth, "response.p99", rundir.StateNotIdentified, 0.02, 0, 0),
	}
}

// The truth is of the calmest runs, whatever the others say, or of theory.
func TestTruths(t *testing.T) {
	var all []Noisy
	for i, v := range []float64{100, 1, 3, 100, 100, 100} {
		n := Noisy{Server: "s", Noise: Undisturbed, Figure: "f", Estimate: pointer(v), Foreign: pointer(0.01), Disturbed: pointer(0.5 + float64(i)/10)}
		if v < 100 {
			n.Disturbed = pointer(float64(i) / 10)
		}
		switch i {
		case 3:
			n.Disturbed, n.Foreign = pointer(0), pointer(0.9) // calm but for what others used
		case 5:
			n.Disturbed = nil // nobody felt for it
		}
		all = append(all, n)
	}
	all = append(all, Noisy{Server: "s", Noise: BusyBoth, Figure: "f", Estimate: pointer(7), Disturbed: pointer(0)})
	known := knownServers(0)[3]
	all = append(all, Noisy{Server: known.name, Noise: Undisturbed, Figure: compared, Estimate: pointer(3900)})
	want := map[figureOf]standard{{"s", "f"}: {truth: 2, within: 1}, {known.name, compared}: {truth: 4000}}
	if got := truths(all); !maps.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestNoiseShares(t *testing.T) {
	r := Result{Noisy: someNoise()}
	got := r.NoiseShares()
	ok, bounded, none := rundir.StateOK, rundir.StateBounded, rundir.StateNotIdentified
	nan := math.NaN()
	want := []NoiseShare{
		{compared, "", map[string]int{ok: 3}, Proportion{2, 3}, map[string]Proportion{ok: {2, 3}}, nan, 0.05},
		{compared, Undisturbed, map[string]int{ok: 2}, Proportion{2, 2}, map[string]Proportion{ok: {2, 2}}, nan, 0},
		{compared, StallsGenerator, map[string]int{ok: 2}, Proportion{1, 2}, map[string]Proportion{ok: {1, 2}}, nan, 0.05},
		{compared, BusyBoth, map[string]int{ok: 1}, Proportion{1, 1}, map[string]Proportion{ok: {1, 1}}, nan, 0},
		{"p99", "", map[string]int{bounded: 2, none: 1}, Proportion{1, 2}, map[string]Proportion{bounded: {1, 2}}, 2.25, 0.10},
		{"p99", Undisturbed, map[string]int{ok: 1, bounded: 1}, Proportion{2, 2}, map[string]Proportion{ok: {1, 1}, bounded: {1, 1}}, 0.4 / 2.2, 0},
		{"p99", StallsGenerator, map[string]int{bounded: 2}, Proportion{1, 2}, map[string]Proportion{bounded: {1, 2}}, 2.25, 0.10},
		{"p99", BusyBoth, map[string]int{none: 1}, Proportion{}, map[string]Proportion{}, nan, 0},
	}
	about := cmp.Comparer(func(a, b float64) bool { return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) < 1e-9 })
	if diff := cmp.Diff(want, got, about); diff != "" {
		t.Error(diff)
	}
	for i, s := range got {
		judged := s.Noise == ""
		if (s.Outcome() != Unlimited) != judged {
			t.Errorf("%d: %q", i, s.Outcome())
		}
	}
	wrong := NoiseShare{Holds: Proportion{189, 200}}
	right := NoiseShare{Holds: Proportion{190, 200}}
	if wrong.Outcome() != Missed || right.Outcome() != Met {
		t.Errorf("%q, %q", wrong.Outcome(), right.Outcome())
	}
}

// What a run says is taken by the names of the figures that the server makes known.
func TestReadNoisy(t *testing.T) {
	server := knownServers(0)[0]
	run := &rundir.Run{
		Trials:   []rundir.Examined{{Purpose: rundir.PurposePilot, DisturbedShare: pointer(1)}, {DisturbedShare: pointer(0.2), Checks: []rundir.Check{{Kind: "steal", Measured: pointer(7)}, {Kind: checks.FlagForeignCPU, Measured: pointer(0.03)}}}},
		Variants: []rundir.Variant{{Name: "default", Figures: map[string]rundir.Estimate{compared: {Estimate: pointer(1000)}, "response.p99": {Estimate: pointer(0.02)}}}},
		Validity: []rundir.Validity{
			{Figure: compared, Variant: "default", State: rundir.StateOK},
			{Figure: "service.p99", Variant: "default", State: rundir.StateOK},
			{Figure: "response.p99", Variant: "default", State: rundir.StateBounded, Low: pointer(0.01), High: pointer(0.02), Causes: []string{"a", "b"}},
			{Figure: "response.p50", Variant: "other", Base: "default", State: rundir.StateOK},
		},
	}
	got := readNoisy(run, 7, server, StallsBoth, 2)
	want := []Noisy{
		{Run: 7, Server: server.name, Noise: StallsBoth, PerSecond: 2, Figure: compared, State: rundir.StateOK, Estimate: pointer(1000), Disturbed: pointer(0.2), Foreign: pointer(0.03)},
		{Run: 7, Server: server.name, Noise: StallsBoth, PerSecond: 2, Figure: "response.p99", State: rundir.StateBounded, Estimate: pointer(0.02), Low: pointer(0.01), High: pointer(0.02), Disturbed: pointer(0.2), Foreign: pointer(0.03), Causes: []string{"a", "b"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	row := got[1].row()
	if text := strings.Join(row[2:], ","); text != "stalls-both,2,response.p99,bounded,0.02,0.01,0.02,0.2,0.03,a b" || len(row) != len(noisyColumns) {
		t.Error(text)
	}
	if got := readNoisy(run, 7, server, BusyBoth, 2); got[0].PerSecond != 0 {
		t.Errorf("a busy CPU has no stalls: %+v", got[0])
	}
}

// Package disturb accepts each noise, on the CPUs that it names. Dyno accepts the experiment of each server.
func TestNoisesAreWhatTheirNamesSay(t *testing.T) {
	k := &calibrator{Config: Quick(), server: []int{0}, load: []int{1}}
	for noise, cpus := range map[string][]int{
		StallsGenerator: {1}, StallsTarget: {0}, StallsBoth: {0, 1}, BusyGenerator: {1}, BusyTarget: {0}, BusyBoth: {0, 1},
	} {
		c := k.disturbance(noise, 10, 3)
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", noise, err)
		}
		if stalls := strings.HasPrefix(noise, "stalls"); !slices.Equal(c.CPUs, cpus) || c.RealTime != stalls || (c.PerSecond == 10) != stalls || (c.Busy > 0) == stalls || c.Seed != 3 {
			t.Errorf("%s: %+v", noise, c)
		}
		if !slices.Contains(Noises(), noise) {
			t.Errorf("%s is not listed", noise)
		}
	}
	done := false
	if err := k.withNoise(Undisturbed, 1, 1, func() error { done = true; return nil }); err != nil || !done {
		t.Errorf("done %v, %v", done, err)
	}
	k.Program = "/bin/dyno"
	for _, s := range knownServers(0) {
		e := k.noisyExperiment(s)
		if err := e.Validate(); err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		open := e.Variants[0].Load.Open
		if (open != nil) != (s.rate > 0) || open != nil && (open.Arrivals == plan.ArrivalsPoisson) != s.poisson || !e.Design.KeepDisturbed || e.Design.Seed != 1 {
			t.Errorf("%s: %+v", s.name, e)
		}
	}
	single := &calibrator{Config: Quick(), server: []int{0}, load: []int{0}}
	if c := single.disturbance(BusyBoth, 1, 1); !slices.Equal(c.CPUs, []int{0}) {
		t.Errorf("one CPU, twice: %v", c.CPUs)
	}
}
