package relay

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"

	"dyno/services/internal/serve"

	"golang.org/x/sys/unix"
)

// A Model says how the relay uses threads and goroutines for connections.
type Model string

// The models.
const (
	// Goroutine uses two goroutines for a connection, one per direction.
	Goroutine Model = "goroutine"
	// Pool passes connections that have something to forward to a bounded number of
	// workers. Only one worker at a time has a connection.
	Pool Model = "pool"
	// Epoll forwards from a few readiness loops that share one listener.
	Epoll Model = "epoll"
	// Pinned is Epoll in which each loop has a CPU and a listener of its own.
	Pinned Model = "pinned"
)

// Full is what happens to a connection that arrives when MaxConnections are open.
type Full string

// The outcomes.
const (
	// Wait leaves it in the listener's queue until another connection ends.
	Wait Full = "wait"
	// Reject accepts it and resets it at once.
	Reject Full = "reject"
)

// ProxyIn is what the relay expects at the start of a client's connection.
type ProxyIn string

// The settings of ProxyIn.
const (
	ProxyInOff ProxyIn = "off" // no header: all bytes are the client's
	// ProxyInRequire expects a PROXY protocol header, version 1 or 2, and resets a
	// connection without one. The relay never guesses whether there is a header; the
	// protocol forbids that.
	ProxyInRequire ProxyIn = "require"
)

// ProxyOut is what the relay sends before the client's bytes.
type ProxyOut string

// The settings of ProxyOut.
const (
	ProxyOutOff ProxyOut = "off" // nothing
	ProxyOutV1  ProxyOut = "v1"  // a PROXY protocol header in text
	ProxyOutV2  ProxyOut = "v2"  // a binary one
)

// Config configures a relay. Start from Defaults.
type Config struct {
	// Listen is where clients connect: host:port, [ipv6]:port or unix:PATH; port 0
	// picks one. It must be a loopback address unless AllowRemote is set.
	Listen string
	// To is the upstream, in the same forms. A host name is looked up by Server.Listen, every
	// 30 s after that, and when no address of it accepts a connection. That connection waits
	// for the lookup, and then goes on with the addresses that are new.
	To string
	// Model is how connections are served.
	Model Model
	// AllowRemote permits Listen and Admin addresses that other machines reach.
	AllowRemote bool
	serve.AdminListener

	// Workers is how many goroutines the pool model forwards with.
	Workers int
	// Queue is how many ready connections may wait for a worker of the pool model. When
	// it is full, the relay reads no further events until a worker is free: readiness
	// waits in the kernel and is not lost.
	Queue int
	// Loops is how many loops the epoll model runs; 0 means GOMAXPROCS.
	Loops int
	// CPUs are the CPUs on which the pinned model runs a loop each; none means all that
	// the process may use.
	CPUs []int

	// BufferBytes bounds what the relay holds of a connection, per direction, if one side
	// reads slower than the other writes. When it is full, the relay stops reading the
	// fast side until everything has been written. Kernel buffers are not included.
	BufferBytes int
	// ReadBudgetBytes is how much a loop or a pool's worker forwards in one direction
	// before it turns to the next connection, so that one fast stream cannot starve the
	// others. The goroutine model leaves this to the Go scheduler.
	ReadBudgetBytes int

	// MaxConnections bounds the clients served at once; each takes two descriptors.
	MaxConnections int
	// Full is what happens beyond MaxConnections.
	Full Full

	// ConnectTimeout bounds connecting to the upstream. The addresses of a name are tried one
	// after the other, each for its share of the time. All timeouts are coarse: a
	// connection ends after at least the timeout and less than two ticks later. A tick is
	// a quarter of the shortest timeout, but at least 10 ms and at most 1 s.
	ConnectTimeout time.Duration
	// IdleTimeout ends a connection if nothing could be read from or written to either
	// side for so long; 0 means never.
	IdleTimeout time.Duration
	// HeaderTimeout bounds waiting for the client's whole PROXY protocol header.
	HeaderTimeout time.Duration
	// DrainTimeout is how long open connections may continue after Serve's context has
	// ended. The rest are reset, so that no peer takes the cut for the end of the stream.
	DrainTimeout time.Duration

	// ProxyIn and ProxyOut are the PROXY protocol's two sides.
	ProxyIn  ProxyIn
	ProxyOut ProxyOut

	// Conditions, if not nil, is placed between the two sides of each connection and
	// delays, limits or breaks it. Only the goroutine model can use it: a condition
	// sleeps, and a loop that slept would hold up its other connections.
	Conditions Conditioner

	// Logger receives the relay's events, and at debug level those of single connections;
	// nil discards them.
	Logger *slog.Logger
}

// The bounds of Config's numbers.
const (
	minBuffer      = 4 << 10
	maxBuffer      = 16 << 20
	maxBudget      = 1 << 30
	maxWorkers     = 4096
	maxQueue       = 1 << 20
	maxLoops       = 1024
	maxConnections = 1 << 20
)

// Defaults returns a Config with every default; Listen and To have none.
func Defaults() Config {
	return Config{
		Model:           Goroutine,
		Workers:         16,
		Queue:           1024,
		BufferBytes:     64 << 10,
		ReadBudgetBytes: 256 << 10,
		MaxConnections:  8192,
		Full:            Wait,
		ConnectTimeout:  5 * time.Second,
		IdleTimeout:     5 * time.Minute,
		HeaderTimeout:   5 * time.Second,
		DrainTimeout:    10 * time.Second,
		ProxyIn:         ProxyInOff,
		ProxyOut:        ProxyOutOff,
	}
}

// Validate reports every fault at once: the field, its value, and what would be right.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, field string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %v: %s", field, value, want))
		}
	}
	between := func(field string, value, low, high int) {
		check(low <= value && value <= high, field, value, fmt.Sprintf("must be from %d to %d", low, high))
	}

	if err := serve.CheckListen("listen", c.Listen, c.AllowRemote); err != nil {
		errs = append(errs, err)
	}
	if _, err := serve.ParseAddress(c.To); err != nil {
		errs = append(errs, fmt.Errorf("to: %w", err))
	}
	if err := c.CheckAdmin(c.AllowRemote); err != nil {
		errs = append(errs, err)
	}
	switch c.Model {
	case Goroutine, Pool, Epoll, Pinned:
	default:
		check(false, "model", fmt.Sprintf("%q", c.Model), "must be goroutine, pool, epoll or pinned")
	}
	switch c.Full {
	case Wait, Reject:
	default:
		check(false, "full", fmt.Sprintf("%q", c.Full), "must be wait or reject")
	}
	switch c.ProxyIn {
	case ProxyInOff, ProxyInRequire:
	default:
		check(false, "proxy in", fmt.Sprintf("%q", c.ProxyIn), "must be off or require")
	}
	switch c.ProxyOut {
	case ProxyOutOff, ProxyOutV1, ProxyOutV2:
	default:
		check(false, "proxy out", fmt.Sprintf("%q", c.ProxyOut), "must be off, v1 or v2")
	}
	between("workers", c.Workers, 1, maxWorkers)
	between("queue", c.Queue, 1, maxQueue)
	between("loops", c.Loops, 0, maxLoops)
	for _, cpu := range c.CPUs {
		check(cpu >= 0 && cpu < cpuSetSize, "cpus", cpu, "is not the number of a CPU")
	}
	between("buffer bytes", c.BufferBytes, minBuffer, maxBuffer)
	between("read budget bytes", c.ReadBudgetBytes, 1, maxBudget)
	between("max connections", c.MaxConnections, 1, maxConnections)
	check(c.ConnectTimeout > 0, "connect timeout", c.ConnectTimeout, "must be more than 0")
	check(c.IdleTimeout >= 0, "idle timeout", c.IdleTimeout, "must be 0 (never) or more")
	check(c.HeaderTimeout > 0, "header timeout", c.HeaderTimeout, "must be more than 0")
	check(c.DrainTimeout >= 0, "drain timeout", c.DrainTimeout, "must be 0 (cut at once) or more")
	check(c.Conditions == nil || c.Model == Goroutine, "conditions", c.Model,
		"need the goroutine model: a condition sleeps, and would hold up every other connection of a loop or worker")
	return errors.Join(errs...)
}

const cpuSetSize = len(unix.CPUSet{}) * 64

// loops returns how many loops the epoll model runs.
func (c Config) loops() int {
	if c.Loops > 0 {
		return c.Loops
	}
	return runtime.GOMAXPROCS(0)
}

// cpus returns the CPUs of the pinned model.
func (c Config) cpus() ([]int, error) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(os.Getpid(), &allowed); err != nil {
		return nil, fmt.Errorf("cpus: sched_getaffinity: %w", err)
	}
	if len(c.CPUs) > 0 {
		for _, cpu := range c.CPUs {
			if !allowed.IsSet(cpu) {
				return nil, fmt.Errorf("cpus: %d: this process may not use that CPU", cpu)
			}
		}
		return c.CPUs, nil
	}
	var all []int
	for cpu := range cpuSetSize {
		if allowed.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	return all, nil
}

// tick is how often connections are checked for timeouts: a quarter of the shortest,
// between 10 ms and 1 s.
func (c Config) tick() time.Duration {
	shortest := c.ConnectTimeout
	if c.IdleTimeout > 0 {
		shortest = min(shortest, c.IdleTimeout)
	}
	if c.ProxyIn == ProxyInRequire {
		shortest = min(shortest, c.HeaderTimeout)
	}
	return min(max(shortest/4, 10*time.Millisecond), time.Second)
}

// ticks returns the number of ticks after which d has certainly passed; 0 means never.
func (c Config) ticks(d time.Duration) uint32 {
	if d <= 0 {
		return 0
	}
	t := c.tick()
	return uint32(min((d+t-1)/t+1, 1<<30))
}
