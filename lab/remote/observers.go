package remote

import (
	"context"
	"errors"
	"math"
	"time"

	"dyno/lab/generator"
	"dyno/lab/observation"
	"dyno/observe"
)

// A reading is the last reading of all observers of a machine. One goroutine at a time uses it.
type reading struct {
	process *Process
	width   int   // of a row
	begin   int64 // by CLOCK_MONOTONIC of this machine
	row     *row  // nil: there is none

	// To be read when the observers are closed.
	stalls []observe.Stall
	cost   float64
}

// A clockObserver takes the readings, and reports their times.
type clockObserver struct{ *reading }

var _ observe.Observer = (*clockObserver)(nil)

// Name implements observe.Observer.
func (*clockObserver) Name() string { return observation.TargetAgent }

// Columns implements observe.Observer.
func (*clockObserver) Columns() []observe.Column {
	return []observe.Column{
		{Name: "time_seconds", Kind: observe.Counter, Help: "when the target's machine was read, since its observation began: its figures grow over this time"},
		{Name: "lag_seconds", Kind: observe.Gauge, Help: "how much later than the row that was, as far as the clocks are known"},
	}
}

// Observe implements observe.Observer.
func (o *clockObserver) Observe(row []float64) error {
	row[0], row[1], o.row = math.NaN(), math.NaN(), nil
	asked := generator.Monotonic()
	r, err := o.process.ask(context.Background(), readTimeout, order{Read: true})
	switch {
	case err != nil:
		return err
	case r.Row == nil || len(r.Row.Cells) != o.width:
		return errors.New("a row of another width")
	}
	o.row = r.Row
	at := ours(o.process.channel, o.row.At)
	row[0], row[1] = time.Duration(at-o.begin).Seconds(), time.Duration(at-asked).Seconds()
	return nil
}

// Close implements observe.Observer. It closes all observers.
func (o *clockObserver) Close() error {
	r, err := o.process.ask(context.Background(), askTimeout, order{Close: true})
	if err != nil || r.Rest == nil {
		return err
	}
	o.cost = r.Rest.Cost
	for _, s := range r.Rest.Stalls {
		o.stalls = append(o.stalls, observe.Stall{Due: timeAt(ours(o.process.channel, s.Due)), Late: s.Late})
	}
	if r.Rest.Faults != "" {
		return errors.New(r.Rest.Faults)
	}
	return nil
}

// ours translates a recent instant of another machine's clock into this one's. The clocks' rates differ so little
// that the second step is exact.
func ours(c Channel, theirs int64) int64 {
	at := generator.Monotonic()
	for range 2 {
		there, _ := c.At(at)
		at += theirs - there
	}
	return at
}

// A remoteObserver shows the readings of one observer on the agent's machine.
type remoteObserver struct {
	observer
	*reading
	index int
	from  int // its cells in a row
}

var _ observe.Observer = (*remoteObserver)(nil)

// Name implements observe.Observer.
func (o *remoteObserver) Name() string { return o.observer.Name }

// Columns implements observe.Observer.
func (o *remoteObserver) Columns() []observe.Column { return o.observer.Columns }

// Observe implements observe.Observer.
func (o *remoteObserver) Observe(row []float64) error {
	for i := range row {
		row[i] = math.NaN()
		if o.row != nil {
			row[i] = float64(o.row.Cells[o.from+i])
		}
	}
	if o.row == nil {
		return nil // the clock's observer reports the error
	}
	if fault, failed := o.row.Faults[o.index]; failed {
		return errors.New(fault)
	}
	return nil
}

// Close implements observe.Observer.
func (*remoteObserver) Close() error { return nil }
