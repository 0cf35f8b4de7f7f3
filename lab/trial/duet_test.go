package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dyno/host/target"
	"dyno/lab/plan"
	"dyno/load/engine/config"
	"dyno/results/rundir"
)

// Halves begin together. If one has left, the other begins alone.
func TestPartners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		placed := 0
		p := newPartners(func() error { placed++; return nil })
		times := make(chan time.Time, 2)
		for i := range 2 {
			go func() {
				h := &side{p, i}
				if err := p.ready(t.Context(), i, &stage{}); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Duration(i) * time.Second) // the fake clock's
				_, at, err := h.Join(t.Context(), config.Party{})
				if err != nil {
					t.Error(err)
				}
				times <- at
			}()
		}
		if a, b := <-times, <-times; a != b || a.Before(time.Now()) || placed != 1 {
			t.Errorf("%v and %v at %v, placed %d times", a, b, time.Now(), placed)
		}

		p = newPartners(func() error { return nil })
		p.leave(1)
		if err := p.ready(t.Context(), 0, &stage{}); err != nil || p.other(0) != nil {
			t.Errorf("left alone: %v, peer %v", err, p.other(0))
		}
		if _, at, err := (&side{p, 0}).Join(t.Context(), config.Party{}); err != nil || at.Before(time.Now()) {
			t.Errorf("left alone: %v, %v", at, err)
		}

		ended := errors.New("ended")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(ended)
		if err := newPartners(nil).ready(ctx, 0, nil); !errors.Is(err, ended) {
			t.Errorf("%v, want that it ended", err)
		}
	})
}

// duetOf is an experiment with two servers; each trial starts its own.
func duetOf(t *testing.T, rounds int) *plan.Experiment {
	t.Helper()
	if cpus, err := target.AllowedCPUs(); err != nil || len(cpus) < 2 {
		t.Skip("needs two CPUs: ", err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, fmt.Sprintf(`name: two
target: {protocol: http, start: [%q, "null", "127.0.0.1:{{port}}"], address: "127.0.0.1:{{port}}"}
load: {closed: {connections: 2}, warmup: 50ms, window: 200ms}
design: {rounds: %d, seed: 5, duet: true}
compare: {base: a, variants: {a: {}, b: {}}}
`, program, rounds))
}

func TestDuet(t *testing.T) {
	e := duetOf(t, 2)
	var l log
	o := options(t, &l)
	if err := Run(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	f := open(t, o.Dir)
	if !f.Complete() || f.Run.TrialsPlanned != 10 || len(f.Trials) != 10 || len(l.planned) != 10 || l.planned[9].Of != 10 {
		t.Fatalf("%d trials of %d, %d announced: %v", len(f.Trials), f.Run.TrialsPlanned, len(l.planned), f.Incomplete)
	}
	setsOf, idle, answered := map[string][]int{}, 0, 0
	byNumber := map[int]*rundir.TrialFolder{}
	for _, trial := range f.Trials {
		byNumber[trial.Number] = trial
	}
	for _, trial := range f.Trials {
		if !trial.Conservation.OK {
			t.Errorf("trial %d: %s", trial.Number, trial.Conservation.Detail)
		}
		d := trial.Duet
		if d == nil {
			t.Fatalf("trial %d is not of a duet", trial.Number)
		}
		if trial.Counts.OK > 0 {
			answered++
		}
		if trial.Purpose == rundir.PurposeIdle {
			idle++
			if trial.Variant != "a" || d.Peer != "b" || d.Trial != 0 {
				t.Errorf("trial %d of %s next to an idle %+v", trial.Number, trial.Variant, d)
			}
			continue
		}
		other := byNumber[d.Trial]
		if other.Variant != d.Peer || other.Duet.Trial != trial.Number || other.Duet.CPUSet == d.CPUSet || other.Round != trial.Round {
			t.Errorf("trial %d: %+v, and its partner %+v", trial.Number, d, other.Duet)
		}
		if !other.StartedAt.Equal(trial.StartedAt) || other.WarmupSeconds != trial.WarmupSeconds {
			t.Errorf("trial %d began its warm-up at %v, its partner at %v", trial.Number, trial.StartedAt, other.StartedAt)
		}
		if trial.Variant != "a" {
			setsOf[trial.Variant] = append(setsOf[trial.Variant], d.CPUSet)
		}
		series, err := trial.Series()
		if err != nil {
			t.Fatal(err)
		}
		// On a busy machine one side may begin when the other has ended, and says so.
		if series.Column("neighbour0_cpu_seconds") == nil && !slices.ContainsFunc(trial.Unavailable, func(m rundir.Message) bool { return m.Values["observer"] == "neighbour0" }) {
			t.Errorf("trial %d: the other side was not observed, and nothing says so", trial.Number)
		}
		checkColumns(t, series)
	}
	for variant, sets := range setsOf {
		if len(sets) != 2 || sets[0] == sets[1] {
			t.Errorf("%s had the CPU sets %v", variant, sets)
		}
	}
	if idle != 2 || len(setsOf) != 2 || answered == 0 { // a busy machine may answer nothing in one of the windows
		t.Errorf("%d trials next to an idle peer, CPU sets %v, %d trials with answers", idle, setsOf, answered)
	}
}

// A variant that cannot serve loses its trials, and the other one goes on.
func TestDuetWithADeadVariant(t *testing.T) {
	e := duetOf(t, 1)
	at := slices.IndexFunc(e.Variants, func(v plan.Variant) bool { return v.Name == "b" })
	e.Variants[at].Target.Start = []string{"sh", "-c", "exit 3"}
	o := options(t, new(log))
	if err := Run(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	for _, trial := range open(t, o.Dir).Trials {
		switch {
		case trial.Purpose == rundir.PurposeIdle:
			if trial.Complete || !trial.IsMeasured() {
				t.Errorf("trial %d: it is complete (%v), or does not stand", trial.Number, trial.Complete)
			}
		case trial.Variant == "b" && !trial.Lost():
			t.Errorf("trial %d of b is not lost: %s", trial.Number, trial.Error)
		case trial.Variant != "b" && trial.Error != "": // a busy machine may answer nothing in its window
			t.Errorf("trial %d of %s: %s", trial.Number, trial.Variant, trial.Error)
		}
	}
}

// A resumed duet measures what is missing, and keeps whole rounds.
func TestResumeDuet(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: needs both CPUs undisturbed")
	}
	e := duetOf(t, 2)
	for i := range e.Variants {
		e.Variants[i].Observe.Kernel = plan.KernelNone // which takes more CPU time than all the rest
	}
	ctx, cancel := context.WithCancel(t.Context())
	l := log{onStart: func(p Planned) {
		if p.Round == 2 && p.Purpose == rundir.PurposeIdle {
			cancel()
		}
	}}
	o := options(t, &l)
	if err := Run(ctx, e, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	before := len(open(t, o.Dir).Trials)
	o.Watcher = new(log)
	if err := Resume(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	f := open(t, o.Dir)
	if want := before + 5; !f.Complete() || len(f.Trials) != want {
		t.Errorf("%d trials, want %d; incomplete: %v", len(f.Trials), want, f.Incomplete)
	}
	for _, trial := range f.Trials[before:] {
		if trial.Round < 2 {
			t.Errorf("trial %d of round %d was measured again", trial.Number, trial.Round)
		}
	}
}
