// Package quiet looks whether other programs leave the CPUs of this machine alone, and waits until they do.
//
// It looks at the machine and never at a result: what other processes used, by the kernel's clock of each, and what
// a hypervisor took away. Processes too short to be seen twice are what /proc/stat counts and no process explains.
package quiet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"dyno/host/proc"
	"dyno/internal/texts"
	"dyno/observe"
)

const (
	// first is how long the first look takes. The kernel counts a machine's CPU time in steps of 10 ms.
	first = 200 * time.Millisecond
	// next is how long the machine must be quiet once it was not: programs pause, too.
	next = 500 * time.Millisecond
	// mostUsed is what other programs may use, in CPUs. A tenth of a CPU changes a throughput by less
	// than most differences that users look for. An idle desktop uses less.
	mostUsed = 0.1
	// mostStolen is the share of all CPU time that the hypervisor may take away.
	mostStolen = 0.1
	// coarse is by how much /proc/stat may differ from the processes' clocks, in seconds: three of its steps.
	coarse = 0.03
)

// A Reading is what a machine has done until some time. Times are CPU seconds.
type Reading struct {
	At                time.Time
	Busy, Stolen, All float64
	Own, Others       map[int]float64 // by process: of dyno and those that the caller names, and all others
}

// Read reads this machine. The processes given, and those below them and below dyno, are not others.
func Read(own ...int) (Reading, error) {
	r := Reading{Own: map[int]float64{}, Others: map[int]float64{}}
	all, err := proc.All()
	if err != nil {
		return r, err
	}
	for _, root := range append(own, os.Getpid()) {
		r.Own[root] = 0
		for _, p := range proc.Below(all, root) {
			r.Own[p.PID] = 0
		}
	}
	r.At = time.Now()
	for _, p := range all {
		used, err := observe.ProcessSeconds(p.PID)
		if err != nil {
			continue // it has ended
		}
		if _, ok := r.Own[p.PID]; ok {
			r.Own[p.PID] = used
		} else {
			r.Others[p.PID] = used
		}
	}
	r.Busy, r.Stolen, r.All, err = observe.MachineSeconds()
	return r, err
}

// Noise is what others did on a machine for a while.
type Noise struct {
	CPUs   float64 // that other programs used
	Stolen float64 // the share of all CPU time that the hypervisor took away
	PID    int     // of the program that used most; 0: not known
	Most   float64 // CPUs that this one used
}

// Between returns the noise between two readings.
func Between(a, b Reading) (n Noise) {
	seconds := b.At.Sub(a.At).Seconds()
	if seconds <= 0 {
		return n
	}
	own, others := 0.0, 0.0
	for pid, used := range b.Own {
		own += max(0, used-a.Own[pid])
	}
	for pid, used := range b.Others {
		used = max(0, used-a.Others[pid]) // all, of a process that has begun meanwhile
		others += used
		if most := used / seconds; most > n.Most {
			n.PID, n.Most = pid, most
		}
	}
	n.CPUs = max(others, b.Busy-a.Busy-own-coarse) / seconds
	if n.Most < n.CPUs/2 {
		n.PID, n.Most = 0, 0
	}
	if all := b.All - a.All; all > 0 {
		n.Stolen = max(0, b.Stolen-a.Stolen) / all
	}
	return n
}

// Quiet tells whether a measurement may begin.
func (n Noise) Quiet() bool { return n.CPUs <= mostUsed && n.Stolen <= mostStolen }

// AsMessage returns who makes the noise, as in: node (pid 123) takes 30 % of a CPU.
func (n Noise) AsMessage() texts.Message {
	share := func(of float64) string { return fmt.Sprintf("%.0f %%", 100*of) }
	if n.CPUs <= mostUsed && n.Stolen > 0 {
		return texts.New("takes.host", "share", share(n.Stolen))
	}
	pid := strconv.Itoa(n.PID)
	name, err := os.ReadFile("/proc/" + pid + "/comm")
	if err != nil { // it has ended, or is unknown
		return texts.New("takes.others", "share", share(n.CPUs))
	}
	return texts.New("takes.program", "program", strings.TrimSpace(string(name)), "pid", pid, "share", share(n.Most))
}

// A Waiter waits for a quiet machine, and for no longer than Left over all calls.
type Waiter struct {
	Left time.Duration
	Read func() (Reading, error)
	Say  func(Noise) // is called after each look at a machine that was not quiet, if there is time to wait; may be nil

	Noise Noise // of the last look
}

// Wait returns true as soon as the machine is quiet, and false once no time is left. It always looks once. Where a
// machine cannot be read, or ctx ends, it returns an error at once.
func (w *Waiter) Wait(ctx context.Context) (isQuiet bool, err error) {
	before, err := w.Read()
	for look := first; err == nil; look = next {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(look):
		}
		var now Reading
		if now, err = w.Read(); err != nil {
			break
		}
		w.Noise = Between(before, now)
		if w.Noise.Quiet() {
			return true, nil
		}
		if w.Left -= now.At.Sub(before.At); w.Left <= 0 {
			w.Left = 0
			return false, nil
		}
		if w.Say != nil {
			w.Say(w.Noise)
		}
		before = now
	}
	return false, errors.Join(errors.New("not known whether the machine is quiet"), err)
}
