package relay

import (
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"

	"dyno/internal/fields"
	"dyno/services/internal/serve"
	"dyno/services/relay/conditions"

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
	Listen string `yaml:"listen" doc:"where clients connect: host:port, [ipv6]:port or unix:PATH; port 0 picks one. It must be a loopback address unless allow_remote is set"`
	// To is looked up by Server.Listen, every 30 s after that, and when no address of it accepts a
	// connection. That connection waits for the lookup, and then goes on with the addresses that
	// are new.
	To          string `yaml:"to" doc:"the upstream, in the same forms; a name is looked up again when connecting fails"`
	Model       Model  `yaml:"model" oneof:"goroutine pool epoll pinned" default:"goroutine" doc:"goroutine: two goroutines for a connection; pool: workers for all that have something to forward; epoll: loops that share a listener; pinned: loops that have a CPU and a listener each"`
	AllowRemote bool   `yaml:"allow_remote" doc:"permit addresses that other machines reach"`
	serve.AdminListener

	Workers int `yaml:"workers" range:"1..4096" default:"16" doc:"pool: how many goroutines forward"`
	// Queue bounds the waiting events, without loss: when it is full, the relay reads no events until a worker is
	// free, and readiness waits in the kernel.
	Queue int   `yaml:"queue" range:"1..1048576" default:"1024" doc:"pool: how many ready connections may wait for a worker"`
	Loops int   `yaml:"loops" range:"0..1024" otherwise:"one per CPU" doc:"epoll: how many loops"`
	CPUs  []int `yaml:"cpus" otherwise:"all it may use" doc:"pinned: a loop on each of these CPUs, such as 0-3,5"`

	// BufferBytes does not count the kernel's buffers. When it is full, the relay stops reading the
	// fast side until everything has been written.
	BufferBytes int `yaml:"buffer" kind:"size" range:"4KiB..16MiB" default:"64KiB" doc:"bytes held per direction of a connection before reading the fast side stops"`
	// ReadBudgetBytes keeps one fast stream from starving the others. The goroutine model leaves
	// this to the Go scheduler.
	ReadBudgetBytes int `yaml:"read_budget" kind:"size" range:"1..1GiB" default:"256KiB" doc:"bytes forwarded for one connection before the next one's turn"`

	MaxConnections int  `yaml:"max_connections" range:"1..1048576" default:"8192" doc:"clients served at once; each takes two descriptors"`
	Full           Full `yaml:"when_full" oneof:"wait reject" default:"wait" doc:"what happens to further connections; wait: in the listener's queue; reject: they are reset"`

	// The addresses of a name are tried one after the other, each for its share of ConnectTimeout.
	// All timeouts are coarse: a connection ends after at least the timeout and less than two ticks
	// later. A tick is a quarter of the shortest timeout, but at least 10 ms and at most 1 s.
	ConnectTimeout time.Duration `yaml:"connect_timeout" range:"1ms..24h" default:"5s" doc:"of connecting to the upstream, at all of its addresses"`
	IdleTimeout    time.Duration `yaml:"idle_timeout" range:"0..24h" default:"5m" doc:"ends a connection that has been idle for so long; 0 is never"`
	HeaderTimeout  time.Duration `yaml:"header_timeout" range:"1ms..24h" default:"5s" doc:"of the client's whole PROXY protocol header"`
	// Connections that outlast DrainTimeout are reset, so that peers cannot confuse the cut with the end of the
	// stream.
	DrainTimeout time.Duration `yaml:"drain_timeout" range:"0..24h" default:"10s" doc:"how long open connections may continue at the end"`

	ProxyIn  ProxyIn  `yaml:"proxy_in" oneof:"off require" default:"off" doc:"PROXY protocol header from clients; require: a connection without one is reset"`
	ProxyOut ProxyOut `yaml:"proxy_out" oneof:"off v1 v2" default:"off" doc:"PROXY protocol header to the upstream"`

	Network     conditions.Text `yaml:"network" doc:"conditions of both directions, such as delay=20ms,jitter=5ms,bandwidth=1MiB/s; needs the goroutine model"`
	ToServer    conditions.Text `yaml:"to_server" doc:"further conditions towards the upstream"`
	ToClient    conditions.Text `yaml:"to_client" doc:"further conditions towards the client"`
	NetworkSeed uint64          `yaml:"network_seed" range:"0..9007199254740992" default:"1" doc:"the seed of the random conditions"`

	// Logger receives the relay's events, and at debug level those of single connections;
	// nil discards them.
	Logger *slog.Logger
}

// Defaults returns a Config with every default; Listen and To have none.
func Defaults() Config { return fields.Default[Config]() }

// Validate reports every fault at once.
func (c Config) Validate() error { return fields.Validate(c, c.Check) }

// Check reports violations of rules across fields, which tags cannot express.
func (c Config) Check(r *fields.Report) {
	serve.CheckListener(r, "listen", c.Listen, c.AllowRemote)
	_, err := serve.ParseAddress(c.To)
	r.Error("to", err)
	c.AdminListener.Check(r, c.AllowRemote)
	network, err := c.conditions()
	r.Error("network", err)
	r.Check(network == nil || c.Model == Goroutine, "model", fmt.Sprintf("%s cannot simulate a network", c.Model),
		"the goroutine model: a condition sleeps, and would hold up every other connection of a loop or worker")
}

// conditions returns the simulated network between the two sides of each connection; nil for none.
func (c Config) conditions() (*conditions.Profile, error) {
	if c.Network+c.ToServer+c.ToClient == "" {
		return nil, nil
	}
	return conditions.Of(c.Network, c.ToServer, c.ToClient, c.NetworkSeed)
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
