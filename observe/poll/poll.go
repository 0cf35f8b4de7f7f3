// Package poll reads sources that may be slow without holding up a recording. A Poller
// reads on a goroutine of its own, one reading at a time, and an observer shows the
// newest.
//
// A row of a recording then holds values that are older than the row. So a Poller adds a
// column, read_at_seconds, which says when they were read. The rate of a counter is its
// difference over that column's difference, exactly, whatever the age.
package poll

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"time"

	"dyno/observe"
)

// A Read fills a row, which holds NaN when it is called. It gives up when ctx ends.
// The error says why values are missing.
type Read func(ctx context.Context, row []float64) error

// errClosed is the error of a reading from a closed Poller.
var errClosed = errors.New("closed")

// A Poller is the common part of observers that read slow sources. Its methods may be
// called by any number of goroutines.
type Poller struct {
	every   time.Duration
	timeout time.Duration
	read    Read
	start   time.Time
	cancel  context.CancelFunc
	done    chan struct{}
	asked   chan chan<- error

	mu  sync.Mutex // guards the fields below
	row []float64  // of the newest reading, and when that was
	err error
	cpu float64 // seconds that the readings have used, NaN if that cannot be known
}

// rest is how many times the CPU time of a reading must pass until the next one. So
// readings use at most 1 % of a CPU, except when they are asked for.
const rest = 100

// Start reads columns values at once, and then every period, each time for at most
// timeout. Readings that are expensive, or slow, become rarer than that, and missed
// readings are not made up for. Close ends it.
func Start(columns int, every, timeout time.Duration, read Read) *Poller {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Poller{
		every: every, timeout: timeout, read: read, start: time.Now(), cancel: cancel,
		done: make(chan struct{}), asked: make(chan chan<- error), row: unknown(columns + 1),
	}
	go p.run(ctx)
	return p
}

// Column describes the value that a Poller adds at the end of a row. Its name is
// read_at_seconds after a prefix, which may be empty.
func Column(prefix string) observe.Column {
	return observe.Column{Name: prefix + "read_at_seconds", Kind: observe.Counter,
		Help: "when the values of this row were read, since the observer began: rates are over its differences"}
}

func unknown(n int) []float64 {
	row := make([]float64, n)
	for i := range row {
		row[i] = math.NaN()
	}
	return row
}

func (p *Poller) run(ctx context.Context) {
	defer close(p.done)
	// The thread's clock measures only this goroutine while the goroutine keeps the
	// thread. A child of this thread that is to die with its parent lives no longer than
	// the thread does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	next := time.NewTimer(p.every)
	defer next.Stop()
	var answer chan<- error // nil: no caller waits for this reading
	for {
		began := time.Now()
		cost, err := p.once(ctx)
		if answer != nil {
			answer <- err // it has room
		}
		next.Reset(time.Until(began.Add(max(p.every, rest*cost))))
		answer = nil
		select {
		case <-ctx.Done():
			return
		case answer = <-p.asked:
		case <-next.C:
		}
	}
}

// once takes one reading and returns the CPU time that it took; 0 when that cannot be
// known.
func (p *Poller) once(ctx context.Context) (cost time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	before, clockErr := observe.ThreadTime()
	row := unknown(len(p.row))
	at := time.Since(p.start).Seconds()
	row[len(row)-1] = at
	err = p.read(ctx, row[:len(row)-1:len(row)-1])
	after, clockErr2 := observe.ThreadTime()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.row, p.err = row, err
	if clockErr != nil || clockErr2 != nil {
		p.cpu = math.NaN()
		return 0, err
	}
	p.cpu += (after - before).Seconds()
	return after - before, err
}

// Observe copies the newest reading and its time. Before the first one has ended, no
// value is known. It does not wait.
func (p *Poller) Observe(row []float64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	copy(row, p.row)
	return p.err
}

// Refresh takes a reading now, or after the current one, and waits until it has ended or ctx has.
// Callers use it when values should be fresh, such as just before a measured window and just after it.
func (p *Poller) Refresh(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case p.asked <- answer:
	case <-p.done:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// CPUSeconds returns the CPU time that the readings so far have used on their own thread. Work of other
// goroutines for them, such as in net/http, is not included.
func (p *Poller) CPUSeconds() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cpu
}

// Close ends the reading, also one under way, and waits until it has ended.
func (p *Poller) Close() error {
	p.cancel()
	<-p.done
	return nil
}
