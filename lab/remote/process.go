package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"dyno/host/target"
	"dyno/internal/texts"
	"dyno/lab/exchange"
	"dyno/lab/generator"
	"dyno/lab/observation"
	"dyno/observe"
)

// A Machine is the machine of an agent.
type Machine interface {
	// Host starts a process with this package's Role there.
	Host(ctx context.Context) (Channel, error)
	// String names it in errors.
	String() string
}

// A Channel leads to the agent's side.
type Channel interface {
	io.ReadWriter
	// CloseWrite ends the orders, and thereby the agent's side.
	CloseWrite() error
	// Kill ends the agent's side, and every Read and Write. It may be called more than once, and at the same
	// time as the other methods.
	Kill()
	// At translates an instant of CLOCK_MONOTONIC into that of the agent's machine, and bounds the error, in
	// nanoseconds.
	At(ours int64) (theirs, within int64)
	// Silence is how long the agent's side may be silent until it is lost.
	Silence() time.Duration
}

// A Process is a target or a service on the machine of an agent. Its methods may be called by any number of
// goroutines.
type Process struct {
	machine string
	channel Channel
	line    *exchange.Line
	done    chan struct{} // closed when the process has ended, or is lost
	ended   chan struct{} // closed when there are no more reports

	asking  sync.Mutex  // held from an order to its answer
	number  int         // of the last order; guarded by asking
	late    int         // of an unanswered order; 0: none; guarded by asking
	answers chan report // at most two: a late one and the expected one

	mu       sync.Mutex // guards the fields below
	output   io.Writer  // gets the process's output; nil discards
	grace    time.Duration
	started  bool
	stopping bool
	err      error
}

// Open connects to a machine. Until Start starts a process, it stands for one that runs there already. If the agent
// is lost, then or later, errors are a *generator.LostError. The process's state is then unknown, but the agent ends
// it.
func Open(ctx context.Context, m Machine) (*Process, error) {
	c, err := m.Host(ctx)
	if err != nil {
		return nil, &generator.LostError{Err: err}
	}
	p := &Process{
		machine: m.String(), channel: c, line: exchange.New(c, c, maxLine),
		done: make(chan struct{}), ended: make(chan struct{}), answers: make(chan report, 2),
	}
	p.line.Watch(c.Silence(), c.Kill)
	p.line.Beat(min(Silence, c.Silence())/beats, order{}) // the agent's side answers them
	go p.listen()
	return p, nil
}

// lost returns the error of an agent that is lost.
func (p *Process) lost(err error) error {
	return &generator.LostError{Err: fmt.Errorf("%s: the connection ended: %w", p.machine, err)}
}

// listen reads reports until they end, or stay out for too long.
func (p *Process) listen() {
	defer close(p.ended)
	defer p.line.Close()
	var err error
	for err == nil {
		var r report
		switch err = p.line.Receive(&r); {
		case err != nil:
		case r.Output != nil:
			if err = p.write(r.Output); err != nil {
				p.end(fmt.Errorf("%s: output lost: %w", p.machine, err))
			}
		case r.Ended != nil:
			p.end(fmt.Errorf("%s: %w", p.machine, r.Ended.err()))
		case r.Number > 0:
			select {
			case p.answers <- r:
			default:
				err = errors.New("an unexpected answer")
			}
		}
	}
	p.end(p.lost(err))
	p.channel.Kill()
}

func (p *Process) write(b []byte) error {
	p.mu.Lock()
	to := p.output
	p.mu.Unlock()
	if to == nil {
		return nil
	}
	_, err := to.Write(b)
	return err
}

// end notes why the process has ended, unless a reason is known.
func (p *Process) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done:
	default:
		if !p.stopping {
			p.err = err
		}
		close(p.done)
	}
}

// ask sends an order, and returns its answer. A late answer is an error, and is never taken for that of a later
// order.
func (p *Process) ask(ctx context.Context, limit time.Duration, o order) (report, error) {
	p.asking.Lock()
	defer p.asking.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for p.late > 0 && o.Read {
		select {
		case <-p.answers:
			p.late = 0
		default:
			return report{}, fmt.Errorf("%s: it has not answered for a reading's time", p.machine)
		}
	}
	p.number++
	o.Number = p.number
	if err := p.line.Send(o); err != nil {
		return report{}, cmp.Or(p.Err(), p.lost(err))
	}
	for {
		select {
		case r := <-p.answers:
			if r.Number != o.Number {
				p.late = 0
				continue
			}
			if err := r.Failed.err(); err != nil {
				return r, fmt.Errorf("%s: %w", p.machine, err)
			}
			return r, nil
		case <-p.ended:
			return report{}, cmp.Or(p.Err(), p.lost(io.ErrUnexpectedEOF))
		case <-ctx.Done():
			p.late = o.Number
			return report{}, context.Cause(ctx)
		case <-timer.C:
			p.late = o.Number
			return report{}, fmt.Errorf("%s: it has not answered within %v", p.machine, limit)
		}
	}
}

// Ports returns two free ports of the machine.
func (p *Process) Ports(ctx context.Context) (port, admin int, err error) {
	r, err := p.ask(ctx, askTimeout, order{Ports: true})
	if err == nil && len(r.Ports) != 2 {
		err = fmt.Errorf("%s: %d free ports", p.machine, len(r.Ports))
	}
	if err != nil {
		return 0, 0, err
	}
	return r.Ports[0], r.Ports[1], nil
}

// Start starts the process, and waits until it is ready. Errors are those of target.Start, or a *RefusedError. After
// an error, Stop ends the incomplete start.
func (p *Process) Start(ctx context.Context, s target.Spec) error {
	p.mu.Lock()
	p.output, s.Output = s.Output, nil
	p.mu.Unlock()
	_, err := p.ask(ctx, s.ReadyTimeout+startTimeout, order{Start: &s})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started, p.grace = err == nil, s.StopTimeout
	return err
}

// Observe implements observation.Agent. All readings of a row are of one instant. The first observer gives that
// instant by the agent's clock, and its delay after the row's.
func (p *Process) Observe(ctx context.Context, s observation.Subject) (*observation.Observed, error) {
	r, err := p.ask(ctx, askTimeout, order{Observe: &s})
	if err == nil && r.Observed == nil {
		err = fmt.Errorf("%s: no observers", p.machine)
	}
	if err != nil {
		return nil, err
	}
	seen := &reading{process: p, begin: generator.Monotonic()}
	o := &observation.Observed{
		Observers: []observe.Observer{&clockObserver{seen}}, Server: r.Observed.Server, CPUs: r.Observed.CPUs, Boot: r.Observed.Boot,
		Rest: func() ([]observe.Stall, float64) { return seen.stalls, seen.cost },
	}
	for i, one := range r.Observed.Observers {
		o.Observers = append(o.Observers, &remoteObserver{observer: one, reading: seen, index: i, from: seen.width})
		seen.width += len(one.Columns)
	}
	for _, m := range r.Observed.Missing {
		o.Missing = append(o.Missing, &texts.Error{Message: m})
	}
	return o, nil
}

// ClockError bounds the error of the observations' times.
func (p *Process) ClockError() time.Duration {
	_, within := p.channel.At(generator.Monotonic())
	return time.Duration(within)
}

// Done is closed when the process has ended completely, or the agent is lost.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says, once Done is closed, why the process ended: nil if Stop ended it.
func (p *Process) Err() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Stop ends the process as target.Process.Stop does, and the connection. A process that was already running
// continues.
func (p *Process) Stop(ctx context.Context) error {
	p.mu.Lock()
	started, grace := p.started && !p.stopping, p.grace
	p.stopping = true
	p.mu.Unlock()
	err := p.Err()
	if started && err == nil {
		// When ctx ends, the orders end, and the process with them.
		_, err = p.ask(ctx, grace+stopTimeout, order{Stop: true})
	}
	_ = p.channel.CloseWrite() // on failure, the agent's side has gone
	select {
	case <-p.ended:
	case <-time.After(endTimeout):
		err = errors.Join(err, fmt.Errorf("%s: it has not ended within %v", p.machine, endTimeout))
		p.channel.Kill()
		<-p.ended
	}
	return err
}
