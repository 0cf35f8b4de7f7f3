package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"dyno/experiments/subjects/measurement"

	"golang.org/x/sys/unix"
)

// The models of input and output.
const (
	Blocking     = "blocking"
	Polling      = "polling"
	Multiplexing = "multiplexing"
	Signals      = "signals"
	Asynchronous = "asynchronous"
)

var ioModels = []string{Blocking, Polling, Multiplexing, Signals, Asynchronous}

// An IO measures an echo server by its model of input and output: a thread for
// each connection in blocking reads and writes; one thread that tries all
// connections in turn without ever waiting; one that waits for many with epoll;
// one that a signal tells of each readiness; or one that has the kernel read and write for it with io_uring. The connections are
// Unix stream sockets, without a network's cost. The client is the same for all:
// one thread with epoll and one message of 64 bytes outstanding on each
// connection. With two CPUs or more server and client have one each; with one they
// share it, which is unfair to the model that never waits.
//
// Figures: exchanges_per_second; exchanges; server_cpu_per_exchange_seconds: the CPU time of the process less
// that of the client's thread. It includes what the kernel does for the server on other threads.
type IO struct {
	Model string `yaml:"model" oneof:"blocking polling multiplexing signals asynchronous" default:"blocking" doc:"how the server reads and writes"`
	// Each thread of the blocking model holds a P, of which there are 1,024.
	Connections int           `yaml:"connections" range:"1..1000" default:"100" doc:"how many, with one message outstanding on each"`
	Duration    time.Duration `yaml:"duration" range:"1us..10m" default:"1s" doc:"how long to measure"`
}

const messageBytes = 64

// Run measures for the duration.
func (c IO) Run(ctx context.Context) (measurement.Result, error) {
	cpus, err := allowedCPUs()
	if err != nil {
		return nil, err
	}
	serverCPU, clientCPU := cpus[0], cpus[len(cpus)-1]
	l, err := newLine(c.Connections)
	if err != nil {
		return nil, err
	}
	defer l.close()

	crew := newCrew()
	threads := 1
	switch c.Model {
	case Blocking:
		threads = c.Connections
		for _, fd := range l.server {
			crew.add(serverCPU, l.serve(func() error { return serveBlocking(fd) }))
		}
	case Polling:
		crew.add(serverCPU, l.serve(func() error { return servePolling(l.server) }))
	case Multiplexing:
		crew.add(serverCPU, l.serve(func() error { return serveMultiplexing(l.server) }))
	case Signals:
		crew.add(serverCPU, l.serve(func() error { return serveSignals(l.server) }))
	case Asynchronous:
		ring, err := newUring(c.Connections)
		if err != nil {
			return nil, err
		}
		defer ring.close()
		crew.add(serverCPU, l.serve(func() error { return serveAsynchronous(ring, l.server) }))
	}
	defer holding(threads + 1)()

	var stop atomic.Bool
	var exchanges int64
	var elapsed, process, client time.Duration
	crew.add(clientCPU, l.serve(func() error {
		before, err := used(unix.RUSAGE_SELF)
		mine, err2 := used(unix.RUSAGE_THREAD)
		began := time.Now()
		n, err3 := l.exchange(&stop)
		exchanges, elapsed = n, time.Since(began)
		mineAfter, err4 := used(unix.RUSAGE_THREAD)
		after, err5 := used(unix.RUSAGE_SELF)
		process, client = after.less(before).cpu, mineAfter.less(mine).cpu
		l.finish()
		return errors.Join(err, err2, err3, err4, err5)
	}))
	defer stopAfter(ctx, c.Duration, &stop)()
	_, err = crew.run()
	if err := errors.Join(err, interrupted(ctx)); err != nil {
		return nil, err
	}
	if exchanges == 0 {
		return nil, errNothing
	}
	return measurement.Result{
		"exchanges_per_second":            float64(exchanges) / elapsed.Seconds(),
		"exchanges":                       float64(exchanges),
		"server_cpu_per_exchange_seconds": max(process-client, 0).Seconds() / float64(exchanges),
	}, nil
}

// A line is the connections, both ends of each.
type line struct {
	client, server []int
	over           sync.Once
}

func newLine(connections int) (*line, error) {
	l := &line{}
	for range connections {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("%d connections: socketpair: %w", connections, err)
		}
		l.client, l.server = append(l.client, pair[0]), append(l.server, pair[1])
	}
	return l, nil
}

// serve ends all servers when one has failed.
func (l *line) serve(body func() error) func() error {
	return func() error {
		err := body()
		if err != nil {
			l.finish()
		}
		return err
	}
}

// finish shuts all connections: reads at both ends come to the end of the stream.
func (l *line) finish() {
	l.over.Do(func() {
		for _, fd := range l.client {
			_ = unix.Shutdown(fd, unix.SHUT_RDWR)
		}
	})
}

func (l *line) close() {
	for _, fds := range [][]int{l.client, l.server} {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}
}

var errHungUp = errors.New("the server hung up")

// exchange is the client: it keeps one message on each connection until stop, and checks
// that each comes back unchanged. In the end it waits for those under way.
func (l *line) exchange(stop *atomic.Bool) (exchanges int64, err error) {
	poll, err := newPoll(l.client)
	if err != nil {
		return 0, err
	}
	defer poll.close()
	sent := make([]uint64, len(l.client))
	var message [messageBytes]byte
	send := func(i int) error {
		sent[i]++
		binary.LittleEndian.PutUint64(message[:], uint64(i)<<32|sent[i])
		switch n, err := write(l.client[i], message[:]); {
		case errors.Is(err, unix.EPIPE):
			return errHungUp
		case err == nil && n != messageBytes:
			return fmt.Errorf("%d bytes sent of %d", n, messageBytes)
		default:
			return err
		}
	}
	for i := range l.client {
		if err := send(i); err != nil {
			return 0, err
		}
	}
	for open := len(l.client); open > 0; {
		ready, err := poll.wait()
		if err != nil {
			return exchanges, err
		}
		for _, i := range ready {
			n, err := read(l.client[i], message[:])
			switch {
			case err != nil:
				return exchanges, err
			case n == 0:
				return exchanges, errHungUp
			case n != messageBytes || binary.LittleEndian.Uint64(message[:]) != uint64(i)<<32|sent[i]:
				return exchanges, fmt.Errorf("connection %d: the echo is not what was sent", i)
			}
			exchanges++
			if stop.Load() {
				open--
			} else if err := send(i); err != nil {
				return exchanges, err
			}
		}
	}
	return exchanges, nil
}

// serveBlocking echoes one connection until its end. It reads and writes through the Go runtime. The runtime
// signals other waiting threads every 10 ms, which costs more with many threads.
func serveBlocking(fd int) error {
	var buffer [messageBytes]byte
	for {
		if end, err := echo(fd, buffer[:]); end || err != nil {
			return err
		}
	}
}

// servePolling tries all connections in turn until the last has ended.
func servePolling(fds []int) error {
	var buffer [messageBytes]byte
	for _, fd := range fds {
		if err := unix.SetNonblock(fd, true); err != nil {
			return err
		}
	}
	open := append([]int(nil), fds...)
	for len(open) > 0 {
		for i := 0; i < len(open); i++ {
			switch end, err := echo(open[i], buffer[:]); {
			case errors.Is(err, unix.EAGAIN):
			case err != nil:
				return err
			case end:
				open[i] = open[len(open)-1]
				open = open[:len(open)-1]
			}
		}
	}
	return nil
}

// serveMultiplexing echoes what epoll says is ready until the last has ended.
func serveMultiplexing(fds []int) error {
	poll, err := newPoll(fds)
	if err != nil {
		return err
	}
	defer poll.close()
	var buffer [messageBytes]byte
	for open := len(fds); open > 0; {
		ready, err := poll.wait()
		if err != nil {
			return err
		}
		for _, i := range ready {
			switch end, err := echo(fds[i], buffer[:]); {
			case err != nil:
				return err
			case end:
				open--
				if err := poll.forget(fds[i]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// echo answers one message, or tells that there will be no more.
func echo(fd int, buffer []byte) (end bool, err error) {
	n, err := read(fd, buffer)
	if err != nil || n == 0 {
		return err == nil, err
	}
	m, err := write(fd, buffer[:n])
	if errors.Is(err, unix.EPIPE) {
		return true, nil
	}
	if err == nil && m != n {
		err = fmt.Errorf("%d bytes echoed of %d", m, n)
	}
	return false, err
}

func read(fd int, b []byte) (int, error)  { return again(unix.Read, fd, b) }
func write(fd int, b []byte) (int, error) { return again(unix.Write, fd, b) }

// again repeats a call that a signal interrupted.
func again(call func(int, []byte) (int, error), fd int, b []byte) (int, error) {
	for {
		if n, err := call(fd, b); err == nil || !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// A poll waits for several descriptors, which it knows by their place in a list.
type poll struct {
	fd     int
	events []unix.EpollEvent
	ready  []int
}

func newPoll(fds []int) (*poll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	p := &poll{fd: fd, events: make([]unix.EpollEvent, len(fds)), ready: make([]int, 0, len(fds))}
	for i, f := range fds {
		if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, f, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}); err != nil {
			p.close()
			return nil, fmt.Errorf("epoll: %w", err)
		}
	}
	return p, nil
}

// wait returns the places of those that are ready. The slice is valid until the
// next call.
func (p *poll) wait() ([]int, error) {
	n, err := unix.EpollWait(p.fd, p.events, -1)
	if err != nil && err != unix.EINTR {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	p.ready = p.ready[:0]
	for _, e := range p.events[:max(n, 0)] {
		p.ready = append(p.ready, int(e.Fd))
	}
	return p.ready, nil
}

func (p *poll) forget(fd int) error { return unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, fd, nil) }
func (p *poll) close()              { _ = unix.Close(p.fd) }
