package generator

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"dyno/lab/exchange"
	"dyno/load/engine/config"
	"dyno/selftest/oracle"
)

// A pipedProcess is the other end of two pipes, with an agent's silence.
type pipedProcess struct {
	*io.PipeReader
	*io.PipeWriter
	killed func()
}

func (p pipedProcess) CloseWrite() error            { return p.PipeWriter.Close() }
func (p pipedProcess) Kill()                        { p.killed() }
func (p pipedProcess) Wait() error                  { return nil }
func (p pipedProcess) At(ours int64) (int64, int64) { return ours, 0 }
func (p pipedProcess) Silence() time.Duration       { return 15 * time.Second }

func (p pipedProcess) Drift(context.Context, int64, int64) (int64, error) { return 0, nil }

func (p pipedProcess) String() string { return "it" }

func (p pipedProcess) Start(context.Context) (Process, error) { return p, nil }

// A part with heartbeats is not lost, and receives dyno's heartbeats. One that is silent for too long
// is killed.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		orders, toPart := io.Pipe()
		fromPart, reports := io.Pipe()
		killed := time.Time{}
		by := pipedProcess{PipeReader: fromPart, PipeWriter: toPart, killed: sync.OnceFunc(func() {
			killed = time.Now()
			_ = reports.Close()
			_ = orders.Close()
		})}
		begin := time.Now()
		var received atomic.Int64
		go func() {
			lines := bufio.NewScanner(orders)
			for lines.Scan() {
				received.Add(1)
			}
		}()
		p, err := startPart(t.Context(), by, partPlan{})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			time.Sleep(14 * time.Second)
			if _, err := io.WriteString(reports, "{}\n"); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if want := int64(1 + 140*beats/15); received.Load() != want {
			t.Errorf("%d orders, want %d", received.Load(), want)
		}
		_, err = p.hear()
		if _, lost := errors.AsType[*LostError](err); !lost || err.Error() != "it: its reports ended: it was silent for 15s" || killed.Sub(begin) != 155*time.Second {
			t.Errorf("%v after %v", err, killed.Sub(begin))
		}
		_ = p.kill() // it was killed
	})
}

// A part that hears nothing from dyno for too long exits. Before that it follows orders.
func TestDynoIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, orders := io.Pipe()
		m := &participant{line: exchange.New(r, io.Discard, maxPartLine), start: make(chan startSignal, 1)}
		begin := time.Now()
		var after time.Duration
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			m.follow(15*time.Second, func() {}, sync.OnceFunc(func() {
				after = time.Since(begin)
				_ = orders.Close()
			}))
		}()
		for _, order := range []string{"{}", `{"start":{"At":5}}`, "{}"} {
			time.Sleep(14 * time.Second)
			if _, err := io.WriteString(orders, order+"\n"); err != nil {
				t.Fatal(err)
			}
		}
		if at := (<-m.start).At; at != 5 {
			t.Error(at)
		}
		<-ended
		if after != 57*time.Second {
			t.Errorf("it exited after %v", after)
		}
	})
}

// A stoppable carrier can stop its process, as Ctrl-Z does.
type stoppable struct {
	process localProcess
	silence time.Duration
}

type stoppableProcess struct {
	localProcess
	silence time.Duration
}

func (s stoppableProcess) Silence() time.Duration { return s.silence }

func (s *stoppable) Start(ctx context.Context) (Process, error) {
	p, err := Local{}.Start(ctx)
	if err != nil {
		return nil, err
	}
	s.process = p.(localProcess)
	return stoppableProcess{s.process, s.silence}, nil
}

// A process that is stopped, or ends, is lost, and with it the load. A load that cannot begin is no loss.
func TestLost(t *testing.T) {
	server := startStream(t, oracle.StreamConfig{})
	for _, test := range []struct {
		signal  syscall.Signal
		silence time.Duration
		want    string
	}{{syscall.SIGSTOP, time.Second, "it was silent for 1s"}, {syscall.SIGKILL, time.Hour, "EOF"}} {
		v := sseVariant(server, 20)
		v.Load.Window = time.Hour
		c, _, err := Config(t.Context(), v, 1)
		if err != nil {
			t.Fatal(err)
		}
		by := stoppable{silence: test.silence}
		c.OnStart = func(_ config.Start) { _ = by.process.Command.Process.Signal(test.signal) }
		_, _, err = Coordinate(t.Context(), v, 1, c, inOrder([]int{10, 10}), []Carrier{Local{}, &by})
		if _, lost := errors.AsType[*LostError](err); !lost || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %s", test.signal, err, test.want)
		}
	}
}
