package oracle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Break is how a Breaking server breaks.
type Break uint8

// The breaks.
const (
	Hangs      Break = iota // connects, and does nothing more
	Crashes                 // ends: what Crash does
	HalfHang                // every other connection hangs, the others go on
	NeverReads              // accepts, and reads nothing more; what is being sent goes on
	Refuses                 // closes all connections and refuses new ones
	Resets                  // resets all connections, and each new one at its first byte
	Slows                   // everything that it sends is late by Delay
	Breaks                  // the number of breaks
)

var breakNames = [Breaks]string{"hangs", "crashes", "half-hang", "never-reads", "refuses", "resets", "slows"}

// String returns the break's name.
func (b Break) String() string {
	if b < Breaks {
		return breakNames[b]
	}
	return fmt.Sprintf("break(%d)", uint8(b))
}

// ParseBreak returns the break of a name.
func ParseBreak(name string) (Break, error) {
	if i := slices.Index(breakNames[:], name); i >= 0 {
		return Break(i), nil //nolint:gosec // fewer than 256
	}
	return 0, fmt.Errorf("oracle: break %q: want one of %v", name, breakNames)
}

// A BreakingConfig says what a Breaking server relays and how it breaks.
type BreakingConfig struct {
	Addr  string // the loopback address to listen on
	To    string // host:port of a healthy server
	Break Break
	// After is when it breaks, from the first byte that it received on, with which a load
	// begins. 0 is from the start.
	After time.Duration
	Delay time.Duration // of Slows; default 100 ms
	Crash func()        // of Crashes, called once from a goroutine of its own
}

// A Breaking server is a relay before a healthy server that breaks at a set time: then the target does
// not answer any protocol, in one of several ways.
type Breaking struct {
	config   BreakingConfig
	listener net.Listener
	addr     net.Addr
	broken   chan struct{} // closed when it breaks
	first    sync.Once     // the first byte
	number   atomic.Int64  // of the next connection that sends something
	stop     context.CancelFunc
	stopped  <-chan struct{}
	running  sync.WaitGroup

	mu    sync.Mutex // guards what follows
	conns map[net.Conn]bool
	timer *time.Timer
}

// StartBreaking starts a server that is healthy, and then is not. It runs until it is closed
// or the context ends.
func StartBreaking(ctx context.Context, config BreakingConfig) (*Breaking, error) {
	if config.Delay == 0 {
		config.Delay = 100 * time.Millisecond
	}
	var faults []error
	if config.Break >= Breaks {
		faults = append(faults, fmt.Errorf("oracle: break: %v: must be one of the breaks", config.Break))
	}
	if config.Break == Crashes && config.Crash == nil {
		faults = append(faults, errors.New("oracle: crash: must be given"))
	}
	faults = append(faults, validDuration("delay", config.Delay))
	if config.After != 0 {
		faults = append(faults, validDuration("after", config.After))
	}
	at, err := netip.ParseAddrPort(config.Addr)
	if err != nil || !at.Addr().IsLoopback() {
		faults = append(faults, fmt.Errorf("oracle: address %q: must be a loopback address and port", config.Addr))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	b := &Breaking{config: config, broken: make(chan struct{}), stop: stop, stopped: ctx.Done(), conns: map[net.Conn]bool{}}
	if config.After == 0 && config.Break == Refuses {
		// There is no listener, and the address stays taken.
		b.addr = net.TCPAddrFromAddrPort(at)
		close(b.broken)
		return b, nil
	}
	if b.listener, err = net.Listen("tcp", config.Addr); err != nil {
		stop()
		return nil, err
	}
	b.addr = b.listener.Addr()
	if config.After == 0 {
		b.breakNow()
	}
	b.running.Go(b.accept)
	context.AfterFunc(ctx, b.hangUp)
	return b, nil
}

// Addr returns the address that the server listens on.
func (b *Breaking) Addr() net.Addr { return b.addr }

// Close ends the server and all its connections.
func (b *Breaking) Close() error {
	b.stop()
	b.hangUp()
	b.running.Wait()
	return nil
}

// hangUp closes what is open.
func (b *Breaking) hangUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
	}
	if b.listener != nil {
		_ = b.listener.Close() // it may be closed already
	}
	for c := range b.conns {
		_ = c.Close() // it may be closed already
	}
}

// began notes the first byte of a load.
func (b *Breaking) began() {
	b.first.Do(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.config.After > 0 {
			b.timer = time.AfterFunc(b.config.After, b.breakNow)
		}
	})
}

func (b *Breaking) breakNow() {
	close(b.broken)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.config.Break {
	case Crashes:
		go b.config.Crash()
	case Refuses:
		_ = b.listener.Close() // it may be closed already
		for c := range b.conns {
			_ = c.Close()
		}
	case Resets:
		for c := range b.conns {
			reset(c)
		}
	}
}

// reset closes a connection so that its peer gets RST.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // one that is closed has been reset
	}
	_ = c.Close()
}

func (b *Breaking) isBroken() bool {
	select {
	case <-b.broken:
		return true
	default:
		return false
	}
}

func (b *Breaking) accept() {
	for {
		c, err := b.listener.Accept()
		if err != nil {
			return // closed
		}
		b.keep(c)
		b.running.Go(func() {
			defer b.drop(c)
			b.serve(c)
		})
	}
}

func (b *Breaking) keep(c net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns[c] = true
}

func (b *Breaking) drop(c net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, c)
	_ = c.Close() // it may be closed already
}

// serve relays one connection.
func (b *Breaking) serve(c net.Conn) {
	buffer := make([]byte, 64<<10)
	if b.isBroken() && b.config.Break == NeverReads {
		<-b.stopped
		return
	}
	n, err := c.Read(buffer)
	if err != nil {
		return // such as a probe, which only connects
	}
	b.began()
	hangs := b.number.Add(1)%2 == 0 // every other connection that sends something
	if b.isBroken() && b.config.Break == Resets {
		reset(c)
		return
	}
	var d net.Dialer
	to, err := d.DialContext(context.Background(), "tcp", b.config.To)
	if err != nil {
		reset(c)
		return
	}
	b.keep(to)
	defer b.drop(to)
	b.running.Go(func() {
		b.relay(c, to, hangs, false)
		_ = c.Close() // the server has ended it
	})
	if b.gate(hangs, true) {
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
	b.relay(to, c, hangs, true)
}

// gate holds up what must not go on once the server is broken. It tells whether it may.
func (b *Breaking) gate(hangs, request bool) bool {
	if !b.isBroken() {
		return true
	}
	switch kind := b.config.Break; {
	case kind == Hangs, kind == HalfHang && hangs, kind == NeverReads && request:
		<-b.stopped
		return false
	case kind == Slows && !request:
		timer := time.NewTimer(b.config.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-b.stopped:
			return false
		}
	}
	return true
}

// relay copies what comes from one side to the other.
func (b *Breaking) relay(to io.Writer, from io.Reader, hangs, request bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !b.gate(hangs, request) {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			b.gate(hangs, request) // who hangs does not say that it has ended either
			return
		}
	}
}
