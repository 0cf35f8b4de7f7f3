// Package program is what the Go programs of the echo over gRPC have in common: the
// options, the line that says that they are ready, and their end. It links no gRPC
// library: the size and memory of what is measured should be its own.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Options are those of all programs.
type Options struct {
	// Listen is the address of the service: host:port. Port 0 takes a free one.
	Listen string
	// Listeners is how many sockets share the address by SO_REUSEPORT. 1 is one socket
	// without it.
	Listeners int
	// Middleware is the number of layers around each call.
	Middleware int
	// MaxMessage bounds a message that arrives, in bytes, after decompression.
	MaxMessage int
	// GOGC is the garbage collector's target in percent; 0 leaves what the environment
	// says.
	GOGC int
	// KeepaliveTime is how long a connection may be silent before the server pings it; 0
	// is the library's default. A client may ping as often.
	KeepaliveTime time.Duration
	// KeepaliveTimeout is how long the answer to that ping may take; 0 is the library's
	// default.
	KeepaliveTimeout time.Duration
}

// maxMessage is 4 MiB of payload and what surrounds it.
const maxMessage = 4<<20 + 64

// drainTimeout is how long calls may go on when a program ends. The contract allows 5 s in all.
const drainTimeout = 3 * time.Second

func (o *Options) define(flags *flag.FlagSet) {
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:9000", "`HOST:PORT` to serve calls on; port 0 takes a free one")
	flags.IntVar(&o.Listeners, "reuse-port", 1, "`N` listening sockets, by SO_REUSEPORT if there are several")
	flags.IntVar(&o.Middleware, "middleware", 0, "`N` layers around each call")
	flags.IntVar(&o.MaxMessage, "max-message", maxMessage, "longest message that is accepted, in `BYTES`")
	flags.IntVar(&o.GOGC, "gogc", 0, "the garbage collector's target in `PERCENT`, -1 for none; 0 leaves GOGC's")
	flags.DurationVar(&o.KeepaliveTime, "keepalive-time", 0, "`TIME` of silence before a connection is pinged; 0 is the library's default")
	flags.DurationVar(&o.KeepaliveTimeout, "keepalive-timeout", 0, "`TIME` that the answer to such a ping may take; 0 is the library's default")
}

// Validate reports every fault at once.
func (o Options) Validate() error {
	var errs []error
	between := func(option string, value, low, high int) {
		if value < low || value > high {
			errs = append(errs, fmt.Errorf("%s: %d: must be from %d to %d", option, value, low, high))
		}
	}
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		errs = append(errs, fmt.Errorf("--listen: %q: want HOST:PORT", o.Listen))
	}
	between("--reuse-port", o.Listeners, 1, 1024)
	between("--middleware", o.Middleware, 0, 1000)
	between("--max-message", o.MaxMessage, 1, 1<<30)
	between("--gogc", o.GOGC, -1, 1_000_000)
	for name, d := range map[string]time.Duration{"--keepalive-time": o.KeepaliveTime, "--keepalive-timeout": o.KeepaliveTimeout} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s: %v: must not be negative", name, d))
		}
	}
	return errors.Join(errs...)
}

// A Server is what a program runs.
type Server interface {
	// Serve serves calls on all listeners until Drain has done its work, and returns
	// nil then.
	Serve([]net.Listener) error
	// Drain accepts no more, lets calls end until ctx does, and cuts the rest.
	Drain(ctx context.Context)
}

// A Program is one way to serve the echo.
type Program struct {
	Name  string
	About string // one line
	// Flags adds options of its own. It may be nil.
	Flags func(*flag.FlagSet)
	// Open makes the server. Its errors are those of options.
	Open func(Options) (Server, error)
}

// Main runs the program with the process's arguments and exits.
func (p Program) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	os.Exit(p.Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Run serves until ctx ends and returns the exit code.
func (p Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o Options
	flags := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintf(stderr, "%s: %s\n\nOptions:\n", p.Name, p.About)
		flags.PrintDefaults()
	}
	o.define(flags)
	if p.Flags != nil {
		p.Flags(flags)
	}
	wrong := func(err error) int {
		fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return 2
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2 // flags has said why
	case flags.NArg() > 0:
		return wrong(fmt.Errorf("%q: there are options only", flags.Arg(0)))
	}
	if err := o.Validate(); err != nil {
		return wrong(err)
	}
	server, err := p.Open(o)
	if err != nil {
		return wrong(err)
	}
	if o.GOGC != 0 {
		debug.SetGCPercent(o.GOGC)
	}
	if err := serve(ctx, o, server, stdout); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, o Options, server Server, stdout io.Writer) error {
	listeners, err := listen(ctx, o.Listen, o.Listeners)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listeners) }()
	// The kernel queues what connects from now on.
	if _, err := fmt.Fprintf(stdout, "listening on %s\n", listeners[0].Addr()); err != nil {
		return fmt.Errorf("say the address: %w", err)
	}
	select {
	case err := <-ended:
		if err == nil {
			err = errors.New("the server ended by itself")
		}
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	server.Drain(drain)
	return <-ended
}

// listen opens n sockets that share one address.
func listen(ctx context.Context, address string, n int) (listeners []net.Listener, err error) {
	config := net.ListenConfig{}
	if n > 1 {
		config.Control = func(_, _ string, c syscall.RawConn) error {
			var serr error
			if err := c.Control(func(fd uintptr) {
				serr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
			}); err != nil {
				return err
			}
			return serr
		}
	}
	for range n {
		l, err := config.Listen(ctx, "tcp", address)
		if err != nil {
			for _, l := range listeners {
				_ = l.Close()
			}
			return nil, err
		}
		listeners = append(listeners, l)
		address = l.Addr().String() // of a port that was 0
	}
	return listeners, nil
}

// Layers are the counters of the middleware: each layer adds 1 to its own for each call.
type Layers []Layer

// A Layer is a counter on a cache line of its own.
type Layer struct {
	Calls atomic.Int64
	_     [56]byte
}

// NewLayers returns n layers.
func NewLayers(n int) Layers { return make(Layers, n) }
