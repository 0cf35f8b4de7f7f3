package quiet

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestBetween: what one process used, what no process explains, and what the hypervisor took.
func TestBetween(t *testing.T) {
	start := time.Unix(1000, 0)
	before := Reading{At: start, Busy: 100, Stolen: 1, All: 1000, Own: map[int]float64{1: 5}, Others: map[int]float64{7: 50, 8: 20}}
	for name, c := range map[string]struct {
		after Reading
		want  Noise
		quiet bool
	}{
		"nothing":            {Reading{Busy: 100, Stolen: 1, All: 1002}, Noise{}, true},
		"dyno itself":        {Reading{Busy: 101, Stolen: 1, All: 1002, Own: map[int]float64{1: 5.5, 2: 0.5}}, Noise{}, true},
		"one program":        {Reading{Busy: 100.25, Stolen: 1, All: 1002, Others: map[int]float64{7: 50.25, 8: 20}}, Noise{CPUs: 0.25, PID: 7, Most: 0.25}, false},
		"one that has begun": {Reading{Busy: 100.5, Stolen: 1, All: 1002, Others: map[int]float64{9: 0.5}}, Noise{CPUs: 0.5, PID: 9, Most: 0.5}, false},
		"many alike":         {Reading{Busy: 100.5, Stolen: 1, All: 1002, Others: map[int]float64{3: 0.125, 4: 0.125, 5: 0.125, 6: 0.125}}, Noise{CPUs: 0.5}, false},
		"short ones":         {Reading{Busy: 100.53, Stolen: 1, All: 1002}, Noise{CPUs: 0.5}, false},
		"steps of 10 ms":     {Reading{Busy: 100.03, Stolen: 1, All: 1002}, Noise{}, true},
		"a busy host":        {Reading{Busy: 100, Stolen: 1.5, All: 1002}, Noise{Stolen: 0.25}, false},
	} {
		c.after.At = start.Add(time.Second)
		got := Between(before, c.after)
		for of, pair := range map[string][2]float64{"CPUs": {got.CPUs, c.want.CPUs}, "Stolen": {got.Stolen, c.want.Stolen}, "Most": {got.Most, c.want.Most}} {
			if d := pair[0] - pair[1]; d > 1e-9 || d < -1e-9 {
				t.Errorf("%s: %s %v, want %v", name, of, pair[0], pair[1])
			}
		}
		if got.PID != c.want.PID || got.Quiet() != c.quiet {
			t.Errorf("%s: %+v, quiet %v", name, got, got.Quiet())
		}
	}
	if n := Between(before, before); n != (Noise{}) {
		t.Errorf("no time passed: %+v", n)
	}
}

// A fakeMachine is a fake: its process 7 uses what the test says at any time.
func fakeMachine(share func(since time.Duration) float64) func() (Reading, error) {
	start, last, used := time.Now(), time.Now(), 0.0
	return func() (Reading, error) {
		for ; last.Before(time.Now()); last = last.Add(10 * time.Millisecond) {
			used += 0.01 * share(last.Sub(start))
		}
		return Reading{At: time.Now(), Busy: used, All: 2 * time.Since(start).Seconds(), Others: map[int]float64{7: used}}, nil
	}
}

// TestWait: a quiet machine costs one look, noise that ends costs its time, and permanent noise costs the budget once.
func TestWait(t *testing.T) {
	until := func(end time.Duration) func(time.Duration) float64 {
		return func(since time.Duration) float64 {
			if since < end {
				return 0.3
			}
			return 0
		}
	}
	for name, c := range map[string]struct {
		share      func(time.Duration) float64
		quiet      bool
		took, left time.Duration
		again      time.Duration
	}{
		"quiet":           {until(0), true, first, 30 * time.Second, first},
		"a little":        {func(time.Duration) float64 { return 0.09 }, true, first, 30 * time.Second, first},
		"ends":            {until(7 * time.Second), true, first + 15*next, 30*time.Second - first - 14*next, first},
		"permanent":       {until(time.Hour), false, first + 60*next, 0, first},
		"begins and ends": {until(first), true, first + next, 30*time.Second - first, first},
	} {
		synctest.Test(t, func(t *testing.T) {
			start, reports := time.Now(), 0
			w := Waiter{Left: 30 * time.Second, Read: fakeMachine(c.share), Say: func(n Noise) {
				if n.PID != 7 {
					t.Errorf("%s: %+v", name, n)
				}
				reports++
			}}
			isQuiet, err := w.Wait(t.Context())
			took := time.Since(start)
			if err != nil || isQuiet != c.quiet || took != c.took || w.Left != c.left || reports == 0 != (took == first) {
				t.Errorf("%s: %v %v after %v with %v left, said %d times", name, isQuiet, err, took, w.Left, reports)
			}
			start = time.Now()
			if again, err := w.Wait(t.Context()); again != c.quiet || err != nil || time.Since(start) != c.again {
				t.Errorf("%s, again: %v %v after %v", name, again, err, time.Since(start))
			}
		})
	}
}

// TestWaitEnds: with its context, and where nothing can be read.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, errors.New("enough"))
		defer cancel()
		w := Waiter{Left: time.Hour, Read: fakeMachine(func(time.Duration) float64 { return 1 })}
		if isQuiet, err := w.Wait(ctx); isQuiet || err == nil || err.Error() != "enough" {
			t.Error(isQuiet, err)
		}
		w.Read = func() (Reading, error) { return Reading{}, errors.New("no /proc") }
		if isQuiet, err := w.Wait(t.Context()); isQuiet || err == nil || !strings.Contains(err.Error(), "no /proc") {
			t.Error(isQuiet, err)
		}
	})
}

// TestRead: this machine has a process of ours, and one that is another's unless we say otherwise.
func TestRead(t *testing.T) {
	if runtime.GOOS != "linux" {
		if _, err := Read(); err == nil {
			t.Error("it reads /proc")
		}
		return
	}
	child := exec.CommandContext(t.Context(), "sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	r, err := Read()
	if err != nil || r.All <= 0 || r.Busy <= 0 || r.Own[os.Getpid()] <= 0 {
		t.Fatal(err, r.Busy, r.All, r.Own)
	}
	if _, own := r.Own[child.Process.Pid]; !own {
		t.Error("a child of ours is another's")
	}
	if _, others := r.Others[os.Getppid()]; !others {
		t.Error("our parent is not another's")
	}
	if r, err = Read(os.Getppid()); err != nil || len(r.Others) == 0 && os.Getppid() != 1 {
		t.Error(err, r.Others)
	}
	if _, others := r.Others[os.Getppid()]; others {
		t.Error("a process is another's although we said that it is ours")
	}
	n := Noise{CPUs: 0.3, PID: os.Getpid(), Most: 0.3}
	if got := new(n.AsMessage()).English(); !strings.HasPrefix(got, "quiet.test (pid ") || !strings.HasSuffix(got, ") takes 30 % of a CPU") {
		t.Error(got)
	}
}
