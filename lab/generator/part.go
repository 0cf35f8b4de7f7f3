package generator

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"dyno/load/engine"
	"dyno/load/engine/record"
	"dyno/load/hist"
	"dyno/load/wire"
)

// A part is a process that carries a part of the load.
type part struct {
	command *exec.Cmd
	reports *bufio.Reader
	output  io.ReadCloser

	mu     sync.Mutex // guards orders
	orders *json.Encoder
	input  io.WriteCloser

	// said has the part's messages, except for its intervals. It has room for all of
	// them, and is closed after the last one; from then on its receiver may read reports.
	said    chan partReport
	lost    error // why there were no more messages; to be read when said is closed
	counted tally

	waited bool
}

// A tally sums up what a part did since the last reading.
type tally struct {
	mu sync.Mutex // guards of
	of record.Interval
}

func startPart(plan partPlan) (*part, error) {
	command := Role().Command(os.Environ())
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &part{command: command, reports: bufio.NewReader(output), output: output, orders: json.NewEncoder(input), input: input, said: make(chan partReport, maxSaid)}
	go p.listen()
	if err := p.tell(partOrder{Plan: &plan}); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	return p, nil
}

func (p *part) tell(o partOrder) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.orders.Encode(o)
}

// listen reads the part's messages up to the outcome of the load.
func (p *part) listen() {
	defer close(p.said)
	for range maxSaid {
		r, err := p.next()
		if err != nil {
			p.lost = err
			return
		}
		p.said <- r
		if r.Result != nil {
			return
		}
	}
	p.lost = errors.New("it sends more messages than it should")
}

// next reads the next message that is not an interval, and adds up the intervals before
// it.
func (p *part) next() (partReport, error) {
	for {
		var r partReport
		line, err := readLine(p.reports)
		if err == nil {
			err = json.Unmarshal(line, &r)
		}
		if err != nil || r.Interval == nil {
			return r, err
		}
		p.counted.mu.Lock()
		sum := &p.counted.of
		sum.AddCounts(r.Interval)
		sum.Connections = r.Interval.Connections
		p.counted.mu.Unlock()
	}
}

// addTo adds what the part did since the last reading to an interval. The latencies of an
// interval are only those of dyno's own process.
func (p *part) addTo(i *record.Interval) {
	p.counted.mu.Lock()
	defer p.counted.mu.Unlock()
	sum := &p.counted.of
	i.AddCounts(sum)
	i.Connections += sum.Connections
	*sum = record.Interval{Connections: sum.Connections}
}

// hear waits for the next message.
func (p *part) hear() (partReport, error) {
	r, more := <-p.said
	if !more {
		return r, fmt.Errorf("a process that carries a part of the load: %w", p.lost)
	}
	return r, r.failure()
}

// failure returns the error that a part reports, or nil.
func (r *partReport) failure() error {
	if r.Failed == "" {
		return nil
	}
	return fmt.Errorf("a process that carries a part of the load: %s", r.Failed)
}

// fault returns why a part failed, if it has reported that. The part has nothing more to
// do.
func (p *part) fault() error {
	_ = p.input.Close() // if this fails, the part is already gone, and may have reported why
	r, err := p.hear()
	for err == nil && r.Result == nil {
		r, err = p.hear()
	}
	return r.failure()
}

// result waits for the part's result, and for its end.
func (p *part) result() (*record.Result, error) {
	r, err := p.hear()
	for err == nil && r.Result == nil {
		r, err = p.hear()
	}
	if err != nil {
		return nil, err
	}
	_, intervals, err := hist.ReadLog(p.reports)
	if err != nil {
		return nil, fmt.Errorf("latencies of a process that carries a part of the load: %w", err)
	}
	restore(r.Result, intervals)
	p.waited = true
	return r.Result, p.command.Wait()
}

// kill ends a part that was not waited for.
func (p *part) kill() error {
	if p.waited {
		return nil
	}
	p.waited = true
	_ = p.input.Close() // whatever it was doing
	_ = p.command.Process.Kill()
	return p.command.Wait()
}

// A coordinator joins dyno's own engine to those of the parts.
type coordinator struct{ parts []*part }

var _ engine.Barrier = (*coordinator)(nil)

// Join collects the shares of all parts and sets when the warm-up begins.
func (c *coordinator) Join(ctx context.Context, self engine.Party) (all engine.Party, start time.Time, err error) {
	release := context.AfterFunc(ctx, c.abandon)
	defer release()
	all = self
	for _, p := range c.parts {
		r, err := p.hear()
		if err != nil {
			return all, start, errors.Join(context.Cause(ctx), err)
		}
		if r.Party == nil {
			return all, start, errors.New("a process that carries a part of the load did not report its start")
		}
		all.Threads = append(all.Threads, r.Party.Threads...)
		all.Sources = append(all.Sources, r.Party.Sources...)
	}
	start = time.Now().Add(StartLead)
	for _, p := range c.parts {
		if err := p.tell(partOrder{Start: &startSignal{At: start.UnixNano(), All: all}}); err != nil {
			return all, start, err
		}
	}
	return all, start, nil
}

// WaitPublished collects what was published and tells the parts.
func (c *coordinator) WaitPublished(ctx context.Context, published []wire.Source) ([]wire.Source, error) {
	release := context.AfterFunc(ctx, c.abandon)
	defer release()
	all := published
	for _, p := range c.parts {
		r, err := p.hear()
		if err != nil {
			return nil, errors.Join(context.Cause(ctx), err)
		}
		if r.Published == nil {
			return nil, errors.New("a process that carries a part of the load did not report what it published")
		}
		all = append(all, r.Published.Sources...)
	}
	for _, p := range c.parts {
		if err := p.tell(partOrder{Published: &publications{all}}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// abandon ends every wait for a part.
func (c *coordinator) abandon() {
	for _, p := range c.parts {
		_ = p.output.Close() // it may already be closed
	}
}
