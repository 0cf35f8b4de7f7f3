package observe

import (
	"math"
	"math/bits"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Wakeup measures how late this machine wakes what sleeps: a thread sleeps for 1 ms
// again and again and records by how much each sleep was too long. It costs about
// a thousand wake-ups a second, which is why it is only for those who ask.
type Wakeup struct {
	stop chan struct{}
	done chan struct{}

	mu    sync.Mutex // guards the fields below
	since overshoots // since the last reading
	total float64    // sleeps since the start
	late  float64    // of them, longer than lateBy too long
}

const (
	sleepFor = time.Millisecond
	// lateBy is the overshoot that makes a machine noisy when one sleep in a
	// thousand has it.
	lateBy = time.Millisecond
)

// NewWakeup starts the sleeper; Close ends it.
func NewWakeup() (*Wakeup, error) {
	w := &Wakeup{stop: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w, nil
}

func (w *Wakeup) run() {
	defer close(w.done)
	// Never unlocked: the thread, with its changed slack, ends with the goroutine.
	runtime.LockOSThread()
	// The default slack of 50 µs lets the kernel be that late on purpose. Where
	// it cannot be set, the overshoots are larger by it, and true.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	ts := unix.NsecToTimespec(int64(sleepFor))
	for {
		select {
		case <-w.stop:
			return
		default:
		}
		start := time.Now()
		if err := unix.Nanosleep(&ts, nil); err != nil {
			continue // a signal: not a full sleep
		}
		w.record(time.Since(start) - sleepFor)
	}
}

func (w *Wakeup) record(over time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since.add(max(over, 0))
	w.total++
	if over > lateBy {
		w.late++
	}
}

// Name returns "wakeup".
func (w *Wakeup) Name() string { return "wakeup" }

// Columns returns the columns. late_total over sleeps_total, over any window, above
// 0.001 is the same as a p99.9 above 1 ms.
func (w *Wakeup) Columns() []Column {
	return []Column{
		{"sleeps_total", Counter, "sleeps of 1 ms"},
		{"late_total", Counter, "of them, woken more than 1 ms too late"},
		{"overshoot_max_seconds", Peak, "the latest wake-up since the previous reading"},
		{"overshoot_p999_seconds", Peak, "99.9th percentile since the previous reading, to 1/16; with fewer than 1,000 sleeps the maximum"},
	}
}

// Observe reads and forgets.
func (w *Wakeup) Observe(row []float64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	row[0], row[1] = w.total, w.late
	row[2], row[3] = math.NaN(), math.NaN()
	if w.since.n > 0 {
		row[2] = w.since.max.Seconds()
		row[3] = w.since.quantile(0.999).Seconds()
	}
	w.since = overshoots{}
	return nil
}

// Close ends the sleeper and waits for it.
func (w *Wakeup) Close() error {
	close(w.stop)
	<-w.done
	return nil
}

// overshoots is a histogram of durations: 16 buckets for each power of two.
type overshoots struct {
	n       int
	max     time.Duration
	buckets [16 * 64]uint32
}

func (o *overshoots) add(d time.Duration) {
	o.n++
	o.max = max(o.max, d)
	o.buckets[bucket(uint64(d))]++
}

// bucket maps v to its leading bit and the four that follow.
func bucket(v uint64) int {
	if v < 16 {
		return int(v)
	}
	e := bits.Len64(v) - 5
	return 16*e + int(v>>e)
}

// upper returns the largest value of a bucket.
func upper(b int) uint64 {
	if b < 16 {
		return uint64(b)
	}
	e := b/16 - 1
	return (uint64(b-16*e)+1)<<e - 1
}

// quantile returns the value that a share q of all do not exceed.
func (o *overshoots) quantile(q float64) time.Duration {
	rank := max(1, int(math.Ceil(q*float64(o.n))))
	for b, c := range o.buckets {
		if rank -= int(c); rank <= 0 {
			return min(time.Duration(upper(b)), o.max)
		}
	}
	return o.max
}
