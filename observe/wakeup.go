package observe

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"dyno/internal/texts"
)

// Wakeup measures how late this machine wakes what sleeps: a thread sleeps for 5 ms again and again and
// records by how much each sleep was too long. Two hundred wake-ups a second cost less than 1 % of a
// CPU; a thousand cost 1.5 to 4 % in a virtual machine.
type Wakeup struct {
	name   string
	stop   chan struct{}
	done   chan struct{}
	thread int // its id

	mu     sync.Mutex              // guards the fields below
	since  *hdrhistogram.Histogram // overshoots since the last reading, in nanoseconds
	worst  time.Duration           // of these
	total  float64                 // sleeps since the start
	late   float64                 // of them, longer than lateBy too long
	cpu    float64                 // seconds, by the last reading
	stalls []Stall
}

// A Stall is a stretch in which a CPU did not wake a thread that was due.
type Stall struct {
	Due  time.Time
	Late time.Duration
}

// maxStalls bounds the stalls that are kept of a sleeper: three minutes in which every sleep ends late.
// Later ones are in the counts alone.
const maxStalls = 1 << 15

const (
	sleepFor = 5 * time.Millisecond
	slice    = 100 * time.Microsecond
	// lateBy is the overshoot that makes a machine noisy when one sleep in a
	// thousand has it.
	lateBy = time.Millisecond
	// longest is the longest overshoot that the histogram distinguishes.
	longest = time.Hour
	// stalledBy is the overshoot from which a stall is kept with its time. An idle
	// CPU of a virtual machine takes 50 to 150 µs to wake.
	stalledBy = 250 * time.Microsecond
)

// NewWakeup starts a sleeper on the CPUs given, wherever the kernel likes without
// any. The name begins its columns. To feel what a load generator feels, it must
// share the generator's CPUs: the others may be idle while these are taken away.
// Close ends it.
//
// The sleeper keeps one of the runtime's processors (GOMAXPROCS) while it sleeps. Without it, the
// runtime's monitor thread would wake every 20 µs to look after it, on the watched CPU.
func NewWakeup(name string, cpus ...int) (*Wakeup, error) {
	return startWakeup(name, false, cpus)
}

// NewUrgentWakeup starts a sleeper whose thread has real-time priority, where dyno may give it that.
// Next to a program that uses up its CPUs, an ordinary thread is woken late because of the program
// itself: 2 % of sleeps by up to 4 ms, the length of a turn. An urgent one waits for the hypervisor,
// the kernel, or other real-time threads; other programs of ordinary priority are seen by what they
// use.
func NewUrgentWakeup(name string, cpus ...int) (*Wakeup, error) {
	return startWakeup(name, true, cpus)
}

func startWakeup(name string, urgent bool, cpus []int) (*Wakeup, error) {
	w := &Wakeup{name: name, stop: make(chan struct{}), done: make(chan struct{}), since: hdrhistogram.New(1, longest.Nanoseconds(), 1)}
	placed := make(chan error)
	go w.run(cpus, urgent, placed)
	if err := <-placed; err != nil {
		<-w.done
		if errors.Is(err, errors.ErrUnsupported) {
			return nil, NeedsLinux(name)
		}
		return nil, &Unavailable{Observer: w.Name(), Reason: texts.New("unavailable.placing", "cpus", fmt.Sprint(cpus), "error", err.Error()), Err: err}
	}
	return w, nil
}

func (w *Wakeup) record(due time.Time, over time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if over > stalledBy && len(w.stalls) < maxStalls {
		w.stalls = append(w.stalls, Stall{due, over})
	}
	over = max(over, 0)
	w.worst = max(w.worst, over)
	_ = w.since.RecordValue(min(over, longest).Nanoseconds()) // it is in range
	w.total++
	if over > lateBy {
		w.late++
	}
}

// Stalls returns the sleeps that ended more than 250 µs late, in their order.
func (w *Wakeup) Stalls() []Stall {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.stalls)
}

// Name returns the name that the sleeper was given.
func (w *Wakeup) Name() string { return w.name }

// Columns returns the columns. late_total over sleeps_total, over any window, above
// 0.001 is the same as a p99.9 above 1 ms.
func (w *Wakeup) Columns() []Column {
	return []Column{
		{"sleeps_total", Counter, "sleeps of 5 ms"},
		{"late_total", Counter, "of them, woken more than 1 ms too late"},
		{"overshoot_max_seconds", Peak, "the latest wake-up since the previous reading"},
		{"overshoot_p999_seconds", Peak, "99.9th percentile since the previous reading, to 1/16; with fewer than 1,000 sleeps the maximum"},
		{"cpu_seconds", Counter, "CPU time of the sleeper's thread"},
	}
}

// CPUSeconds returns what the sleeper's thread has used, by the last reading.
func (w *Wakeup) CPUSeconds() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cpu
}

// Observe reads and forgets.
func (w *Wakeup) Observe(row []float64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	row[0], row[1] = w.total, w.late
	row[2], row[3] = math.NaN(), math.NaN()
	if w.since.TotalCount() > 0 {
		row[2] = w.worst.Seconds()
		row[3] = min(time.Duration(w.since.ValueAtQuantile(99.9)), w.worst).Seconds()
	}
	w.since.Reset()
	w.worst = 0
	cpu, err := clockSeconds(threadClock(w.thread))
	if err != nil {
		row[4] = math.NaN()
		return fmt.Errorf("%s: its thread's clock: %w", w.name, err)
	}
	w.cpu, row[4] = cpu, cpu
	return nil
}

// Close ends the sleeper and waits for it.
func (w *Wakeup) Close() error {
	close(w.stop)
	w.interrupt()
	<-w.done
	return nil
}
