package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"

	"dyno/host/child"
	"dyno/host/target"
	"dyno/internal/texts"
	"dyno/lab/exchange"
	"dyno/lab/generator"
	"dyno/lab/observation"
)

// Role returns the role of the agent's side.
func Role() child.Role {
	return child.Role{Name: "__host-process", Main: func(args []string) int { return serve(args, os.Stdin, os.Stdout) }}
}

// Command returns the command that starts the agent's side, with the rights of a user; nil is this process's.
func (l *Limits) Command(user *child.User) (*exec.Cmd, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	command := Role().Command(os.Environ(), string(text))
	child.SetUser(command, user)
	command.Dir = l.Files
	return command, nil
}

// serve carries out orders until they end, and returns the exit code. The argument is the limits.
func serve(args []string, stdin io.Reader, stdout io.Writer) int {
	// Ctrl-C in a terminal reaches every process, but dyno decides when to stop. Signals are caught and dropped rather
	// than ignored, because the target would inherit that they are ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM)
	h := &host{line: exchange.New(stdin, stdout, maxLine)}
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &h.limits) != nil {
		return 1
	}
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + generator.SpareProcessors) // a sleeper keeps one
	ctx, cancel := context.WithTimeout(context.Background(), h.limits.Time)
	defer cancel()
	orders := make(chan order)
	go func() {
		defer close(orders)
		defer cancel() // this also ends an incomplete start
		h.line.Watch(h.limits.Silence, cancel)
		defer h.line.Close()
		for {
			var o order
			if h.line.Receive(&o) != nil {
				return
			}
			if o == (order{}) {
				h.say(report{})
				continue
			}
			select {
			case orders <- o:
			case <-ctx.Done():
				return
			}
		}
	}()
	for more := true; more; {
		select {
		case o, ok := <-orders:
			if more = ok; ok {
				h.carryOut(ctx, &o)
			}
		case <-ctx.Done():
			more = false
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		h.say(report{Ended: failureOf(refused("it takes longer than the %v that the machine's owner allows (--max-time)", h.limits.Time))})
	}
	h.end(ctx)
	return 0
}

// A host is the state of the agent's side.
type host struct {
	limits  Limits
	ports   target.Ports
	process *target.Process // nil until one is started
	stopped atomic.Bool     // by an order, or at the end
	seen    *observation.Observed
	line    *exchange.Line
}

// say sends a report. It ignores failures: the reader has gone, so the orders end, and this process with them.
func (h *host) say(r report) { _ = h.line.Send(r) }

// Write reports the process's output.
func (h *host) Write(b []byte) (int, error) {
	h.say(report{Output: b})
	return len(b), nil
}

func (h *host) carryOut(ctx context.Context, o *order) {
	r := report{Number: o.Number}
	var err error
	switch {
	case o.Ports:
		r.Ports, err = h.freePorts()
	case o.Start != nil:
		err = h.start(ctx, *o.Start)
	case o.Observe != nil:
		r.Observed, err = h.observe(ctx, *o.Observe)
	case o.Read && h.seen != nil:
		r.Row = h.read()
	case o.Close && h.seen != nil:
		r.Rest = h.close()
	case o.Stop && h.process != nil:
		h.stopped.Store(true)
		err = h.process.Stop(ctx)
	default:
		err = errors.New("an order that cannot be carried out")
	}
	r.Failed = failureOf(err)
	h.say(r)
}

func (h *host) freePorts() (two []int, err error) {
	for range 2 {
		port, err := h.ports.Free("tcp")
		if err != nil {
			return nil, err
		}
		two = append(two, port)
	}
	return two, nil
}

// start starts the one process.
func (h *host) start(ctx context.Context, s target.Spec) error {
	if h.process != nil {
		return errors.New("there is a process already")
	}
	if err := h.limits.Admit(ctx, &s); err != nil {
		return err
	}
	s.Output = h
	p, err := target.Start(ctx, s)
	if err != nil {
		return err
	}
	h.process = p
	go func() {
		<-p.Done()
		if !h.stopped.Load() {
			h.say(report{Ended: failureOf(p.Err())})
		}
	}()
	return nil
}

// observe opens the observers, once.
func (h *host) observe(ctx context.Context, s observation.Subject) (*observed, error) {
	if h.seen != nil {
		return nil, errors.New("there are observers already")
	}
	if err := h.limits.AdmitSubject(h.process != nil); err != nil {
		return nil, err
	}
	if s.Process = h.process; s.Process != nil { // and no other
		s.Listens, s.PID, s.Cgroup, s.Pods = false, 0, "", nil
	}
	h.seen = s.Open(ctx)
	o := &observed{Server: h.seen.Server, CPUs: h.seen.CPUs, Boot: h.seen.Boot}
	for _, one := range h.seen.Observers {
		o.Observers = append(o.Observers, observer{one.Name(), one.Columns()})
	}
	for _, err := range h.seen.Missing {
		o.Missing = append(o.Missing, texts.OfError(err))
	}
	return o, nil
}

// read reads all observers.
func (h *host) read() *row {
	r := &row{At: generator.Monotonic(), Faults: map[int]string{}}
	for i, o := range h.seen.Observers {
		cells := make([]float64, len(o.Columns()))
		if err := o.Observe(cells); err != nil {
			r.Faults[i] = err.Error()
		}
		for _, v := range cells {
			r.Cells = append(r.Cells, cell(v))
		}
	}
	return r
}

// close closes the observers.
func (h *host) close() *rest {
	var faults []string
	for _, o := range h.seen.Observers {
		if err := o.Close(); err != nil {
			faults = append(faults, err.Error())
		}
	}
	stalls, cost := h.seen.Rest()
	h.seen = nil
	r := &rest{Cost: cost, Faults: strings.Join(faults, "; ")}
	for _, s := range stalls {
		r.Stalls = append(r.Stalls, stall{monotonicAt(s.Due), s.Late})
	}
	return r
}

// end closes and ends everything at once.
func (h *host) end(ctx context.Context) {
	if h.seen != nil {
		h.close()
	}
	if h.process != nil {
		h.stopped.Store(true)
		_ = h.process.Stop(ctx) // ctx has ended, so the process is killed; no report follows
	}
}
