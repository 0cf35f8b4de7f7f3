package verdict

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/hist"
	"dyno/rundir"
)

// A run judged from what its folder says is the run judged from memory.
func TestJudgeFolder(t *testing.T) {
	run, trials, logs := bench(rand.New(rand.NewPCG(1, 2)), 2)
	run.Name = "bench"
	run.TrialsPlanned = len(trials)
	dir := t.TempDir()
	w, err := rundir.Create(dir, &run)
	if err != nil {
		t.Fatal(err)
	}
	for i := range trials {
		trial, err := w.Trial(trials[i].Number, trials[i].Variant)
		if err != nil {
			t.Fatal(err)
		}
		f, err := trial.Create(rundir.LatencyFile)
		if err != nil {
			t.Fatal(err)
		}
		log, err := hist.NewLogWriter(f, time.Unix(1e9, 0))
		if err != nil {
			t.Fatal(err)
		}
		for _, interval := range logs[trials[i].Number] {
			if err := log.Write(interval); err != nil {
				t.Fatal(err)
			}
		}
		if err := trial.Finish(&trials[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(&run); err != nil {
		t.Fatal(err)
	}

	folder, err := rundir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := Judge(folder); err != nil {
		t.Fatal(err)
	}
	if err := judge(&run, trials, reader(logs)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(run.Variants, folder.Run.Variants); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]any{run.Comparisons, run.Thresholds, run.Claims, run.Flags, run.Valid},
		[]any{folder.Run.Comparisons, folder.Run.Thresholds, folder.Run.Claims, folder.Run.Flags, folder.Run.Valid}); diff != "" {
		t.Error(diff)
	}

	if err := os.Remove(filepath.Join(dir, folder.Trials[1].Name, rundir.LatencyFile)); err != nil {
		t.Fatal(err)
	}
	if err := Judge(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a log: %v", err)
	}
}
