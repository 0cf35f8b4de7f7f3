package trial

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"dyno/lab/plan"
	"dyno/results/rundir"
)

// TestFilesAreSummedAfterTheFirstLoad: run.json has the sums when the second trial begins. So a run
// killed then can only be resumed with the same files. A folder that is removed has none.
func TestFilesAreSummedAfterTheFirstLoad(t *testing.T) {
	server := startNull(t)
	body := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(body, []byte("body"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, temporary := range []bool{false, true} {
		e := twoVariants(t, server, 1)
		for i := range e.Variants {
			e.Variants[i].Load.Request = &plan.Request{BodyFile: body, Method: "POST"}
		}
		var l log
		o := options(t, &l)
		o.Temporary = temporary
		var summed []bool // when a trial begins
		l.onStart = func(Planned) {
			run, err := rundir.ReadRun(o.Dir)
			if err != nil {
				t.Error(err)
				return
			}
			summed = append(summed, run.Environment.Files[body] != "")
		}
		if err := Run(t.Context(), e, o); err != nil {
			t.Fatal(err)
		}
		if want := []bool{false, !temporary}; !slices.Equal(summed, want) {
			t.Errorf("temporary %v: sums at the beginnings of trials %v, want %v", temporary, summed, want)
		}
	}
}
