package trial

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"dyno/observe/quiet"
	"dyno/results/rundir"
)

// preparing is a log that also keeps what trials had to wait for.
type preparing struct {
	log
	messages []string
}

func (p *preparing) Preparing(what string) { p.messages = append(p.messages, what) }

// fakeLook is a fake of a machine with two CPUs on which 20 s pass between two readings. In the noisy
// ones of these times, an unidentified program uses a CPU.
func fakeLook(noisy func(look int) bool) func(...int) (quiet.Reading, error) {
	at, busy, n := time.Unix(1000, 0), 0.0, 0
	return func(...int) (quiet.Reading, error) {
		n++
		at = at.Add(20 * time.Second)
		if noisy(n) {
			busy += 20
		}
		return quiet.Reading{At: at, Busy: busy, All: 40 * float64(n)}, nil
	}
}

// A run waits until the machine is quiet, and for no longer than its plan says in all. Noise that does not end costs that
// time once; then no round is set aside, because none could be measured again.
func TestRunWaitsForQuiet(t *testing.T) {
	server := startNull(t)
	const a, seen = "waiting for a quiet machine: other programs take 100 % of a CPU", "before trial 1 the machine was not quiet after 1m0s of waiting: other programs take 100 % of a CPU; rounds that it disturbed were not measured again"
	for name, c := range map[string]struct {
		noisy     func(look int) bool
		disturbed bool // every round
		messages  int
		rounds    int
		remeasure int
		note      string
	}{
		"quiet":                               {func(int) bool { return false }, false, 0, 2, 1, ""},
		"quiet after a time":                  {func(n int) bool { return n <= 3 }, false, 2, 2, 1, ""},
		"never quiet":                         {func(int) bool { return true }, true, 2, 2, 0, seen},
		"disturbed by noise that has ended":   {func(int) bool { return false }, true, 0, 3, 1, ""},
		"not quiet when rounds are due again": {func(n int) bool { return n > 2 }, true, 2, 2, 0, "-"},
	} {
		e := twoVariants(t, server, 2)
		e.Design.QuietWait = time.Minute
		var p preparing
		o := options(t, &p.log)
		o.Watcher, o.Look = &p, fakeLook(c.noisy)
		o.Referee = &referee{disturbed: func([]*rundir.TrialFolder) (bool, error) { return c.disturbed, nil }}
		if err := Run(t.Context(), e, o); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		run := open(t, o.Dir).Run
		if c.note == "-" { // trials in between may have been disturbed, or not
			if run.Plan.Remeasure != c.remeasure || run.Rounds != c.rounds {
				t.Errorf("%s: %d rounds, %d again", name, run.Rounds, run.Plan.Remeasure)
			}
			continue
		}
		note := ""
		if len(run.Notes) > 0 {
			note = run.Notes[0].English()
		}
		if run.Rounds != c.rounds || run.Plan.Remeasure != c.remeasure || note != c.note || !run.Complete {
			t.Errorf("%s: %d rounds, %d may be measured again, note %q", name, run.Rounds, run.Plan.Remeasure, note)
		}
		if c.messages == 0 != (len(p.messages) == 0) || len(p.messages) > 0 && p.messages[0] != a {
			t.Errorf("%s: said %q", name, p.messages)
		}
	}
}

// Where a machine cannot be read, the run goes on and says so.
func TestRunWithoutLook(t *testing.T) {
	e := twoVariants(t, startNull(t), 1)
	e.Design.QuietWait = time.Minute
	var l log
	o := options(t, &l)
	o.Look = func(...int) (quiet.Reading, error) { return quiet.Reading{}, errors.New("no /proc here") }
	if err := Run(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	if run := open(t, o.Dir).Run; !run.Complete || len(run.Environment.Unavailable) == 0 {
		t.Error(fmt.Sprint(run.Environment.Unavailable))
	}
}
