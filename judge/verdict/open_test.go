package verdict

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"dyno/results/rundir"
)

// TestOpenLosesNoTrial: whatever became of the end of a run, whole trials are judged, and the reader learns what
// is missing.
func TestOpenLosesNoTrial(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	cut := func(file string) {
		t.Helper()
		text, err := os.ReadFile(file)
		must(err)
		must(os.WriteFile(file, text[:len(text)/2], 0o600))
	}
	ended := time.Unix(2e9, 0)
	for name, c := range map[string]struct {
		run      func(*rundir.Run)
		damage   func(f *rundir.Folder)
		trials   int // that count
		complete bool
	}{
		"end without verdict":  {func(r *rundir.Run) { r.Complete, r.FinishedAt = true, &ended }, nil, 8, true},
		"no end":               {nil, nil, 8, true},
		"trials are missing":   {func(r *rundir.Run) { r.Plan.Rounds, r.TrialsPlanned = 3, 12 }, nil, 8, false},
		"a rule ended it":      {func(r *rundir.Run) { r.Plan.Stop, r.TrialsPlanned = "precision", 8 }, nil, 8, true},
		"no rule would end it": {func(r *rundir.Run) { r.Plan.Stop, r.Plan.Rounds = "precision", 16 }, nil, 8, false},
		"torn run.json":        {nil, func(f *rundir.Folder) { cut(filepath.Join(f.Dir, rundir.RunFile)) }, 8, true},
		"empty run.json": {nil, func(f *rundir.Folder) {
			must(os.WriteFile(filepath.Join(f.Dir, rundir.RunFile), nil, 0o600))
		}, 8, true},
		"part of a new run.json": {nil, func(f *rundir.Folder) {
			must(os.WriteFile(filepath.Join(f.Dir, "."+rundir.RunFile+".tmp"), []byte(`{"schema`), 0o600))
		}, 8, true},
		"torn trial.json": {nil, func(f *rundir.Folder) { cut(filepath.Join(f.Dir, f.Trials[3].Name, rundir.TrialFile)) }, 7, false},
		"torn log":        {nil, func(f *rundir.Folder) { cut(filepath.Join(f.Dir, f.Trials[3].Name, rundir.LatencyFile)) }, 7, false},
		"no log":          {nil, func(f *rundir.Folder) { must(os.Remove(filepath.Join(f.Dir, f.Trials[3].Name, rundir.LatencyFile))) }, 7, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := abc()
			b.trials, b.run.Plan.Rounds = b.trials[:8], 2 // two rounds: every file is synced to the disk
			written := b.write(t)
			w := written
			w.Run.Complete, w.Run.FinishedAt = false, nil
			if c.run != nil {
				c.run(&w.Run)
			}
			must(w.Rewrite())
			if c.damage != nil {
				c.damage(written)
			}
			for _, kept := range []string{"judged", "as it was kept"} {
				f, err := Open(written.Dir)
				must(err)
				n := 0
				for _, v := range f.Run.Variants {
					n += v.Trials
				}
				if n != c.trials || f.Run.Complete != c.complete || f.Complete() != c.complete {
					t.Errorf("%s: %d trials count, complete: %v, missing: %v; want %d, %v", kept, n, f.Run.Complete, f.Incomplete, c.trials, c.complete)
				}
				if run, err := ReadRun(written.Dir); err != nil || len(run.Variants) != len(f.Run.Variants) || run.Complete != c.complete {
					t.Errorf("%s: ReadRun: %v, %+v", kept, err, run)
				}
			}
		})
	}
}

// While a run is written, Open judges its trials so far, and keeps nothing. ReadRun does not judge it.
func TestOpenOfARunningRun(t *testing.T) {
	b := abc()
	b.trials = b.trials[:4]
	dir := b.write(t).Dir
	w, f, err := rundir.Reopen(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Update(&f.Run); err != nil {
		t.Fatal(err)
	}
	if f, err := Open(dir); err != nil || len(f.Run.Variants) == 0 || f.Run.Complete {
		t.Errorf("%v: %+v", err, f)
	}
	for range 2 { // nothing was kept
		if run, err := ReadRun(dir); err != nil || run.IsJudged() {
			t.Errorf("%v: %+v", err, run)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if run, err := ReadRun(dir); err != nil || !run.IsJudged() {
		t.Errorf("after its end: %v: %+v", err, run)
	}
}

// Where nothing can be written, the run is judged for each reader.
func TestOpenWithoutAPlaceForTheVerdict(t *testing.T) {
	b := abc()
	b.trials, b.run.Plan.Rounds = b.trials[:4], 1
	dir := b.write(t).Dir
	// The name of the next run.json is taken, which even root cannot change.
	if err := os.MkdirAll(filepath.Join(dir, "."+rundir.RunFile+".tmp", "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if f, err := Open(dir); err != nil || !f.Complete() {
			t.Errorf("%v: %+v", err, f)
		}
	}
	if run, err := rundir.ReadRun(dir); err != nil || run.IsJudged() {
		t.Errorf("the verdict was kept: %v", err)
	}
	if _, err := ReadRun(filepath.Join(dir, "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
