package calibrate

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// A result comes back from its folder as it was, figures that are not known included.
func TestSavedResult(t *testing.T) {
	r := example()
	r.Config.Raw, r.Config.NoiseWindow = t.TempDir(), 3*time.Second
	r.Explained = []Explained{{Number: 1, Planted: true, Share: pointer(0.03)}, {Number: 1}}
	r.Oracles[0].Measured = math.NaN()
	if err := r.save(); err != nil {
		t.Fatal(err)
	}
	got, err := Read(r.Config.Raw)
	if err != nil {
		t.Fatal(err)
	}
	if !math.IsNaN(got.Oracles[0].Measured) || got.Oracles[0].Note != r.Oracles[0].Note {
		t.Errorf("the first reading is %+v", got.Oracles[0])
	}
	got.Oracles[0], r.Oracles[0] = Reading{}, Reading{} // NaN is unequal to itself
	if !reflect.DeepEqual(got, r) {
		t.Errorf("it came back as\n%+v, not\n%+v", got, r)
	}
	if _, err := Read(t.TempDir()); err == nil {
		t.Error("a folder without a result was read")
	}
}

// What two parts have measured alike counts together.
func TestPool(t *testing.T) {
	one, two := example(), example()
	two.Oracles = nil
	two.Config.Seed, two.Config.Comparisons, two.Config.Raw = 2, 7, "docs/calibration/two"
	two.Started, two.Finished = one.Started.Add(-time.Hour), one.Finished.Add(-time.Hour)
	all, err := Pool(one, two)
	if err != nil {
		t.Fatal(err)
	}
	if n := all.Tallies()[0].Found.Of; n != 2*one.Tallies()[0].Found.Of || len(all.Oracles) != len(one.Oracles) || len(all.Noisy) != 2*len(one.Noisy) {
		t.Errorf("%d comparisons, %d readings and %d noisy figures", n, len(all.Oracles), len(all.Noisy))
	}
	if !all.Started.Equal(two.Started) || !all.Finished.Equal(one.Finished) {
		t.Errorf("from %v to %v", all.Started, all.Finished)
	}
	var document strings.Builder
	if err := Markdown(&document, all, "docs"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"(calibration/comparisons.csv)", "(calibration/two/comparisons.csv)"} {
		if !strings.Contains(document.String(), want) {
			t.Errorf("the document has no %s:\n%s", want, &document)
		}
	}
	if n := strings.Count(document.String(), "- measured: "); n != 2 {
		t.Errorf("the document names %d measurements", n)
	}

	// The settings of a table come from the part that has it.
	bare := &Result{Config: Quick(), Environment: one.Environment, LoadCPU: 1}
	bare.Config.Raw, bare.Config.Trial = "docs/calibration/bare", time.Second
	if all, err = Pool(bare, one); err != nil || all.Config.Trial != one.Config.Trial {
		t.Errorf("the window of a comparison is %v, %v", all.Config.Trial, err)
	}
}

func TestPoolRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Result)
		want   string
	}{
		{"another machine", func(r *Result) { r.Environment.Kernel = "7.0"; r.Oracles = nil }, "the same machine"},
		{"other rounds", func(r *Result) { r.Config.Rounds++; r.Oracles = nil }, "the same rounds for the table comparisons"},
		{"another noise", func(r *Result) { r.Config.Beside = []string{BusyBoth}; r.Oracles = nil }, "noises beside comparisons"},
		{"the known servers twice", func(*Result) {}, "the table oracles in one of them only"},
	} {
		one, two := example(), example()
		c.change(two)
		if _, err := Pool(one, two); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := Pool(); err == nil {
		t.Error("nothing was pooled")
	}
}
