package rundir

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/results/rundir/series"
)

func TestStalls(t *testing.T) {
	const ms = time.Millisecond
	for _, stalls := range [][]series.Stall{nil, {{Due: 3 * ms, Late: 2 * ms}, {Due: 5 * ms, Late: ms, Target: true}, {Due: -4 * ms, Late: 250 * time.Microsecond}}} {
		w := must(Create(t.TempDir()+"/run", &Run{SchemaVersion: SchemaVersion, Name: "x"}))(t)
		tw := must(w.Trial(1, "v"))(t)
		check(t, tw.Begin(aTrial(1, "v")))
		f := must(tw.Create(StallsFile))(t)
		if err := series.WriteStalls(f, stalls); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		folder := must(tw.Folder())(t)
		got, known, err := folder.Stalls()
		if err != nil || !known || len(got) != len(stalls) {
			t.Fatalf("%+v, %v, %v", got, known, err)
		}
		check(t, w.Close())
		for _, s := range stalls { // those of the generator come first
			if !cmp.Equal(got[0], s) && !cmp.Equal(got[1], s) && !cmp.Equal(got[2], s) {
				t.Errorf("%+v is not in %+v", s, got)
			}
		}
	}
}

func TestStallsOfOtherFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "empty",
		"time_seconds,late\n1,2": "no column generator_late_seconds",
		"time_seconds,generator_late_seconds,target_late_seconds\nx,,1": "not a number",
	} {
		w := must(Create(t.TempDir()+"/run", &Run{SchemaVersion: SchemaVersion, Name: "x"}))(t)
		tw := must(w.Trial(1, "v"))(t)
		check(t, tw.Begin(aTrial(1, "v")))
		folder := must(tw.Folder())(t)
		if got, known, err := folder.Stalls(); got != nil || known || err != nil {
			t.Errorf("without a file: %+v, %v, %v", got, known, err)
		}
		f := must(tw.Create(StallsFile))(t)
		_ = must(io.WriteString(f, text))(t)
		_ = f.Close()
		if _, known, err := folder.Stalls(); err == nil || known || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", text, known, err)
		}
		check(t, w.Close())
	}
}
