package channels

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ErrPending is returned by Serve if records were not delivered by the deadline, and no source can repeat them.
var ErrPending = errors.New("records received and not delivered")

// errDrained is the cause with which work still running at the drain deadline is ended.
var errDrained = errors.New("drain deadline")

// A Server runs the channels of a configuration.
type Server struct {
	config   Config
	log      *slog.Logger
	channels []*channel
}

// A channel is one channel of a Server. Its source and its sink have a goroutine each.
type channel struct {
	config   Channel
	stream   StreamID
	source   source
	sink     sink
	buffer   *buffer
	listener net.Listener // of the source, if it listens
	count    counters
	log      *slog.Logger

	saving sync.Mutex
	saved  state // guarded by saving: the source's position, as it was saved last
}

// New fills in the configuration's defaults, validates it, and opens what it names:
// listeners, sinks' files, saved positions. Metrics are registered in reg, which may be
// nil. stdin and stdout are used for standard input and output. The caller must call
// Serve or Close afterwards.
func New(c Config, log *slog.Logger, reg prometheus.Registerer, stdin *os.File, stdout io.Writer) (s *Server, err error) {
	c = c.withDefaults()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s = &Server{config: c, log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
			s = nil
		}
	}()
	for _, config := range c.Channels {
		ch := &channel{config: config, log: log.With("channel", config.Name)}
		s.channels = append(s.channels, ch)
		if err := ch.open(c, stdin, stdout); err != nil {
			return s, fmt.Errorf("channel %s: %w", config.Name, err)
		}
	}
	if reg != nil {
		if err := reg.Register(newCollector(s)); err != nil {
			return s, fmt.Errorf("register metrics: %w", err)
		}
	}
	return s, nil
}

// open opens source and sink, and finds out where their numbering continues: after the
// saved position, or otherwise after the last record in the sink's file.
func (ch *channel) open(c Config, stdin *os.File, stdout io.Writer) error {
	rand.Read(ch.stream[:])
	var saved *state
	var lost bool // files that the saved position leads to
	if config := ch.config.Source; config.Kind == File {
		var err error
		if saved, err = loadState(config.State); err != nil {
			return err
		}
		f := &followSource{config: config, count: &ch.count, log: ch.log}
		f.path.path = config.Path
		ch.source = f
		if saved != nil {
			if lost, err = f.find(saved); err != nil {
				return err
			}
		}
	}
	var seq, floor uint64
	var pos position
	if saved != nil && (!lost || ch.config.Sink.Kind != TCP) {
		ch.stream, seq, pos = saved.Stream, saved.Seq, saved.Position
	}

	name := fnv.New64a()
	name.Write([]byte(ch.config.Name))
	rng := mathrand.New(mathrand.NewPCG(c.Seed, name.Sum64()))
	retry := backoff{min: ch.config.Sink.RetryMin, max: ch.config.Sink.RetryMax, rng: rng}
	switch ch.config.Sink.Kind {
	case TCP:
		ch.sink = &tcpSink{config: ch.config.Sink, window: ch.config.window(), stream: ch.stream, again: saved != nil && !lost, retry: retry, count: &ch.count, log: ch.log}
	case Stdout:
		ch.sink = &writerSink{format: ch.config.Sink.Format, stream: ch.stream, out: stdout}
	case File:
		f, held, err := openFileSink(ch.config.Sink, ch.config.Source.MaxRecordBytes, ch.log)
		if err != nil {
			return err
		}
		ch.sink = f
		f.retry, f.count = retry, &ch.count
		if ch.config.Source.Framing == Framed {
			f.syncWithin, f.mostUnsynced = min(f.syncWithin, awaitedWithin), awaitedRecords
		}
		switch {
		case held == nil:
		case saved == nil:
			ch.stream, seq, floor = held.Stream, held.Last, held.Last
		case saved.Stream != held.Stream:
			return fmt.Errorf("%s holds stream %v, and the position in %s is of stream %v: move one of them away",
				ch.config.Sink.Path, held.Stream, ch.config.Source.State, saved.Stream)
		default:
			floor = held.Last
		}
		f.stream = ch.stream
	}
	if lost {
		// The sink may have more than the saved position says. The remaining files' records may be different ones, so
		// they get later numbers: in a new stream, if only the peer knows its records. This is saved below before
		// anything is delivered, so that after another crash nothing is delivered twice.
		seq, pos = max(seq, floor), ch.source.(*followSource).at // nowhere, if the position's own file is gone
	}
	ch.buffer = newBuffer(ch.config.Buffer, seq, floor, pos)
	if follow, ok := ch.source.(*followSource); ok {
		if saved == nil {
			if err := follow.open(ch.buffer); err != nil {
				return err
			}
		}
		// The sink may have records, and their stream, only after the state that says so.
		if err := ch.savePosition(); err != nil {
			return err
		}
		if f, ok := ch.sink.(*fileSink); ok {
			f.savePosition = ch.savePosition
		}
	}

	switch config := ch.config.Source; config.Kind {
	case TCP, Unix:
		l, err := listen(config, c.DrainTimeout, &ch.count, ch.log)
		if err != nil {
			return err
		}
		ch.source, ch.listener = l, l.listener
	case Stdin:
		ch.source = &stdinSource{config: config, in: stdin, count: &ch.count, log: ch.log}
	}
	return nil
}

// Close closes what New opened. It is for a server whose Serve is never called.
func (s *Server) Close() error {
	var errs []error
	for _, ch := range s.channels {
		if ch.source != nil {
			errs = append(errs, ch.source.close())
		}
		if f, ok := ch.sink.(*fileSink); ok {
			errs = append(errs, f.file.Close())
		}
	}
	return errors.Join(errs...)
}

// Addr returns the address on which the channel of this name listens, or nil if it does
// not.
func (s *Server) Addr(name string) net.Addr {
	for _, ch := range s.channels {
		if ch.config.Name == name && ch.listener != nil {
			return ch.listener.Addr()
		}
	}
	return nil
}

// Serve runs all channels until their sources have ended and everything is delivered, or
// until ctx is done. Then the sources stop, and received records are delivered for at
// most DrainTimeout. A channel that fails ends the others in the same way. Serve is
// called once. Its errors name their channels. ErrPending is among them if records are
// lost with the process.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hard, cancelHard := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancelHard(nil)
	var deadline *time.Timer
	var timer sync.Mutex // guards deadline
	stop := context.AfterFunc(ctx, func() {
		timer.Lock()
		defer timer.Unlock()
		deadline = time.AfterFunc(s.config.DrainTimeout, func() { cancelHard(errDrained) })
	})
	errs := make([]error, len(s.channels))
	var running sync.WaitGroup
	for i, ch := range s.channels {
		running.Go(func() {
			if err := ch.run(ctx, hard); err != nil {
				errs[i] = fmt.Errorf("channel %s: %w", ch.config.Name, err)
				cancel()
			}
		})
	}
	running.Wait()
	stop()
	timer.Lock()
	defer timer.Unlock()
	if deadline != nil {
		deadline.Stop()
	}
	return errors.Join(errs...)
}

func (ch *channel) run(ctx, hard context.Context) error {
	// If the sink has failed for good, the source need not continue.
	ctx, stopSource := context.WithCancel(ctx)
	defer stopSource()
	hard, stopHard := context.WithCancelCause(hard)
	defer stopHard(nil)

	var sourceErr, sinkErr, saveErr error
	var stages sync.WaitGroup
	stages.Go(func() {
		sourceErr = ch.source.run(ctx, hard, ch.buffer)
		ch.buffer.close()
	})
	stages.Go(func() {
		sinkErr = ch.sink.run(hard, ch.buffer)
		if sinkErr != nil {
			stopSource()
			stopHard(sinkErr) // a source that waits for room would wait without end
		}
	})
	done := make(chan struct{})
	var saver sync.WaitGroup
	if ch.config.Source.Kind == File {
		saver.Go(func() { saveErr = ch.savePositions(done) })
	}
	stages.Wait()
	close(done)
	saver.Wait()

	if errors.Is(sinkErr, errDrained) {
		sinkErr = nil // reported below, if it matters
	}
	if errors.Is(sourceErr, errDrained) || sinkErr != nil && errors.Is(sourceErr, sinkErr) {
		sourceErr = nil
	}
	errs := []error{sourceErr, sinkErr, saveErr}
	if st := ch.stats(); st.Pending > 0 {
		switch config := ch.config.Source; {
		case config.Kind == File:
			ch.log.Warn("records are not delivered, and will be read again", "pending", st.Pending)
		case config.Framing == Framed:
			ch.log.Warn("records are not delivered, and their peers will send them again", "pending", st.Pending)
		default:
			errs = append(errs, fmt.Errorf("%d %w", st.Pending, ErrPending))
		}
	}
	return errors.Join(errs...)
}

// savePositions saves the position from time to time, and always at the end. Only a
// failure of the last save is an error; any other is followed by another attempt.
func (ch *channel) savePositions(done <-chan struct{}) error {
	tick := time.NewTicker(ch.config.Source.SaveEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := ch.savePosition(); err != nil {
				ch.log.Error("will try again", "err", err)
			}
		case <-done:
			return ch.savePosition()
		}
	}
}

// savePosition saves the position of a source that is a file, unless it is the saved one.
func (ch *channel) savePosition() error {
	ch.saving.Lock()
	defer ch.saving.Unlock()
	st := state{Version: 1, Stream: ch.stream}
	st.Seq, st.Position = ch.buffer.settledThrough()
	st.Next = ch.source.(*followSource).path.after(st.Position)
	if reflect.DeepEqual(st, ch.saved) {
		return nil
	}
	if err := st.save(ch.config.Source.State); err != nil {
		return err
	}
	ch.saved = st
	return nil
}

// Reopen makes the sinks look at their paths at once, as after a rotation.
func (s *Server) Reopen() {
	for _, ch := range s.channels {
		if _, ok := ch.sink.(*fileSink); ok {
			ch.buffer.nudge()
		}
	}
}
