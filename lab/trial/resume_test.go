package trial

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"dyno/lab/plan"
	"dyno/lab/planfile"
	"dyno/load/engine/record"
	"dyno/results/rundir"
)

// killed runs an experiment and kills itself in the sixth trial: for TestMain.
func killed(file, dir string) int {
	e, err := planfile.ReadFile(file, planfile.Options{})
	if err != nil {
		panic(err)
	}
	e.Design.QuietWait = 0 // tests run next to each other
	err = Run(context.Background(), e, Options{Dir: dir, Watcher: &killer{}})
	panic(err) // it should not have got here
}

type killer struct{ number int }

func (k *killer) Begin(p Planned) { k.number = p.Number }
func (k *killer) Interval(record.Interval) {
	if k.number == 6 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}
func (k *killer) End(*rundir.Trial, []rundir.Flag) {}

// A run that was killed in the middle of a round measures that whole round again.
func TestResumeAfterKill(t *testing.T) {
	server := startNull(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "two.yaml")
	e := twoVariants(t, server, 4)
	if err := os.WriteFile(file, e.Source, 0o600); err != nil {
		t.Fatal(err)
	}
	o := options(t, &log{})
	o.Dir = filepath.Join(dir, "run")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "killed", file, o.Dir).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%v: %s", err, out)
	}
	if f := open(t, o.Dir); f.Complete() || len(f.Trials) != 6 || f.Trials[5].Complete || !f.Trials[4].Complete {
		t.Fatalf("%d trials, incomplete: %v", len(f.Trials), f.Incomplete)
	}

	var plan *PlanError
	other := twoVariants(t, server, 4)
	other.Design.Seed, other.Variants[1].Name = 6, "many"
	other.Source = append(other.Source, "# changed"...)
	err = Resume(t.Context(), other, o)
	for _, want := range []string{"seed: 5 in the folder, 6 now", "variants differs", "source differs"} {
		if !errors.As(err, &plan) || !strings.Contains(err.Error(), want) {
			t.Errorf("another plan: %v, want %s", err, want)
		}
	}
	elsewhere := open(t, o.Dir)
	here := elsewhere.Run.Environment
	elsewhere.Run.Environment.Hostname, elsewhere.Run.Environment.CPUs = "elsewhere", 1000
	if err := elsewhere.Rewrite(); err != nil {
		t.Fatal(err)
	}
	err = Resume(t.Context(), e, o)
	if !errors.As(err, &plan) || !strings.Contains(err.Error(), "hostname: elsewhere in the folder") || !strings.Contains(err.Error(), "CPUs: 1000") {
		t.Errorf("another machine: %v", err)
	}
	elsewhere.Run.Environment = here
	elsewhere.Run.Environment.Files = map[string]string{"server": "another"}
	elsewhere.Run.DynoVersion = "v0"
	if err := elsewhere.Rewrite(); err != nil {
		t.Fatal(err)
	}
	err = Resume(t.Context(), e, o)
	var none *NotStartedError
	if !errors.As(err, &plan) || !errors.As(err, &none) || !strings.Contains(err.Error(), "server: not the file that it was") || !strings.Contains(err.Error(), "dyno's version: v0 in the folder, v1 now") {
		t.Errorf("another dyno: %v", err)
	}
	elsewhere.Run.Environment, elsewhere.Run.DynoVersion = here, "v1"
	if err := elsewhere.Rewrite(); err != nil {
		t.Fatal(err)
	}

	l := log{onStart: func(p Planned) {
		if p.Number == 8 {
			if err := Resume(t.Context(), e, o); !errors.Is(err, rundir.ErrBusy) {
				t.Errorf("resumed twice at once: %v", err)
			}
		}
	}}
	o.Watcher = &l
	if err := Resume(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	f := open(t, o.Dir)
	if !f.Complete() || len(f.Trials) != 10 || f.Run.Rounds != 4 || f.Run.TrialsPlanned != 8 {
		t.Fatalf("%d trials in %d rounds, %d planned, incomplete: %v", len(f.Trials), f.Run.Rounds, f.Run.TrialsPlanned, f.Incomplete)
	}
	var rounds []int
	for _, trial := range f.Trials {
		rounds = append(rounds, trial.Round)
	}
	if want := []int{1, 1, 2, 2, 3, 3, 3, 3, 4, 4}; !slices.Equal(rounds, want) {
		t.Errorf("rounds %v, want %v", rounds, want)
	}
	if p := l.planned[0]; p.Number != 7 || p.Of != 10 || p.Round != 3 {
		t.Errorf("planned %+v", p)
	}
	laid := order(e, e.Design.Rounds)
	for i, v := range slices.Concat(laid[2], laid[3]) {
		if f.Trials[6+i].Variant != v.Name {
			t.Errorf("trial %d is of %s, want %s", 7+i, f.Trials[6+i].Variant, v.Name)
		}
	}
	var folder *FolderError
	f.Run.Variants = []rundir.Variant{{Name: "few"}} // without a verdict, it could be continued
	if err := f.Rewrite(); err != nil {
		t.Fatal(err)
	}
	if err := Resume(t.Context(), e, o); !errors.As(err, &folder) || !errors.Is(err, rundir.ErrFinished) {
		t.Errorf("a finished run: %v", err)
	}
	o.Dir = filepath.Join(dir, "none")
	if err := Resume(t.Context(), e, o); !errors.As(err, &folder) {
		t.Errorf("no folder: %v", err)
	}
}

// If a run ended because its rule could not be asked, it asks again, and measures nothing
// twice. It does not ask about earlier rounds again, because it asked when they ended.
func TestResumeAsks(t *testing.T) {
	e := twoVariants(t, startNull(t), 5)
	e.Design.Stop = plan.StopPrecision
	broken := errors.New("cannot say")
	ref := &referee{enough: func(trials []rundir.Trial) (bool, string, error) {
		if len(trials) == 4 {
			return false, "", broken
		}
		return false, "", nil
	}}
	o := options(t, &log{})
	o.Referee = ref
	if err := Run(t.Context(), e, o); !errors.Is(err, broken) || !strings.Contains(err.Error(), "after round 2") {
		t.Fatal(err)
	}
	ref.looks = nil
	ref.enough = func([]rundir.Trial) (bool, string, error) { return true, "settled", nil }
	if err := Resume(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	f := open(t, o.Dir)
	if !f.Complete() || len(f.Trials) != 4 || f.Run.Rounds != 2 || f.Run.Stopped.English() != "settled" || f.Run.Reason != nil || !slices.Equal(ref.looks, []int{4}) {
		t.Errorf("%d trials in %d rounds, stopped because %q, asked at %v, incomplete: %v", len(f.Trials), f.Run.Rounds, f.Run.Stopped, ref.looks, f.Incomplete)
	}
}

// A round counts as whole only when its trials followed one another.
func TestWhole(t *testing.T) {
	of := func(number, round int, variant string, complete bool) *rundir.TrialFolder {
		return &rundir.TrialFolder{Trial: rundir.Trial{Number: number, Round: round, Variant: variant, Complete: complete}}
	}
	for _, c := range []struct {
		name   string
		trials []*rundir.TrialFolder
		want   bool
	}{
		{"nothing", nil, false},
		{"whole", []*rundir.TrialFolder{of(3, 2, "v0", true), of(4, 2, "v1", true)}, true},
		{"half", []*rundir.TrialFolder{of(3, 2, "v0", true)}, false},
		{"incomplete", []*rundir.TrialFolder{of(3, 2, "v0", true), of(4, 2, "v1", false)}, false},
		{"another round", []*rundir.TrialFolder{of(2, 1, "v1", true), of(3, 2, "v0", true)}, false},
		{"two attempts", []*rundir.TrialFolder{of(3, 2, "v0", true), of(4, 2, "v1", false), of(5, 2, "v1", true)}, false},
		{"measured again", []*rundir.TrialFolder{of(3, 2, "v0", true), of(4, 2, "v1", false), of(5, 2, "v1", true), of(6, 2, "v0", true)}, true},
	} {
		r := &runner{experiment: planOf(2, 3, 1), trials: c.trials}
		if got := r.whole(2); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
