package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dyno/host/target"
	"dyno/lab/plan"
	"dyno/load/engine"
	"dyno/results/rundir"
)

func TestCouples(t *testing.T) {
	e := &plan.Experiment{Base: "a", Variants: []plan.Variant{{Name: "b"}, {Name: "a"}, {Name: "a.control"}, {Name: "c"}}}
	orders, firsts := map[string]bool{}, map[int]bool{}
	for seed := range uint64(20) {
		e.Design.Seed = seed
		rounds := pairs(e, 6)
		last := map[string]int{}
		for i, round := range rounds {
			var names []string
			for _, c := range round {
				if c.base.Name != "a" {
					t.Fatalf("seed %d: base %s", seed, c.base.Name)
				}
				if set, ok := last[c.variant.Name]; ok && set == c.cpuSet {
					t.Errorf("seed %d, round %d: %s is where it was", seed, i+1, c.variant.Name)
				}
				last[c.variant.Name] = c.cpuSet
				names = append(names, c.variant.Name)
			}
			orders[strings.Join(names, " ")] = true
			firsts[rounds[0][0].cpuSet] = true
			slices.Sort(names)
			if !slices.Equal(names, []string{"a.control", "b", "c"}) {
				t.Errorf("seed %d, round %d: %v", seed, i+1, names)
			}
		}
		if again := pairs(e, 8); !reflect.DeepEqual(again[:6], rounds) {
			t.Errorf("seed %d: another order in a longer run", seed)
		}
	}
	if len(orders) != 6 || len(firsts) != 2 {
		t.Errorf("%d orders and %d first CPU sets in 20 seeds, want 6 and 2", len(orders), len(firsts))
	}
}

func TestSeats(t *testing.T) {
	to := func(n int) (cpus []int) {
		for cpu := range n {
			cpus = append(cpus, cpu)
		}
		return cpus
	}
	for _, c := range []struct {
		name                     string
		load, processes, allowed []int
		want                     string // load/target of both
		fault                    string
	}{
		{"two CPUs, one each", []int{1}, []int{0}, to(2), "[0]/[0] [1]/[1]", ""},
		{"two CPUs, nothing said", nil, nil, to(2), "[0]/[0] [1]/[1]", ""},
		{"three CPUs", nil, nil, to(3), "[0]/[0] [1]/[1]", ""},
		{"four CPUs", nil, nil, to(4), "[0]/[1] [2]/[3]", ""},
		{"eight CPUs", nil, nil, to(8), "[0 1]/[2 3] [4 5]/[6 7]", ""},
		{"six CPUs", nil, nil, to(6), "[0]/[1 2] [3]/[4 5]", ""},
		{"some of those allowed", nil, nil, []int{2, 3, 6, 7}, "[2]/[3] [6]/[7]", ""},
		{"only the target's", nil, []int{0, 1, 2, 3}, to(8), "[0]/[1] [2]/[3]", ""},
		{"two and two", []int{2, 3}, []int{0, 1}, to(4), "[2]/[0] [3]/[1]", ""},
		{"two and four", []int{4, 5}, []int{0, 1, 2, 3}, to(8), "[4]/[0 1] [5]/[2 3]", ""},
		{"the same", []int{0, 1}, []int{0, 1}, to(4), "[0]/[0] [1]/[1]", ""},
		{"one CPU", nil, nil, []int{5}, "", "needs two CPUs, one for each variant, and has [5]"},
		{"one CPU said", []int{1}, nil, to(4), "", "needs two CPUs"},
		{"one and three", []int{0}, []int{1, 2, 3}, to(4), "", "want an even number in both and none in common, or one in each"},
		{"three and two", []int{0, 1, 2}, []int{3, 4}, to(8), "", "cannot be divided"},
		{"some in common", []int{0, 1}, []int{1, 2}, to(4), "", "cannot be divided"},
		{"not allowed", []int{1}, []int{9}, to(4), "", "CPU 9 is not one that dyno may use ([0 1 2 3])"},
	} {
		d, err := cpuSets(c.load, c.processes, c.allowed)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %q", c.name, err, c.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		a, b := d.CPUSets[0], d.CPUSets[1]
		if got := fmt.Sprintf("%v/%v %v/%v", a.LoadCPUs, a.TargetCPUs, b.LoadCPUs, b.TargetCPUs); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		for _, cpu := range slices.Concat(a.LoadCPUs, a.TargetCPUs) {
			if slices.Contains(b.LoadCPUs, cpu) || slices.Contains(b.TargetCPUs, cpu) {
				t.Errorf("%s: both have CPU %d", c.name, cpu)
			}
		}
	}
}

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
				_, at, err := h.Join(t.Context(), engine.Party{})
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
		if _, at, err := (&side{p, 0}).Join(t.Context(), engine.Party{}); err != nil || at.Before(time.Now()) {
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
