package experiment

import "time"

// An Experiment is a validated plan: everything is resolved and typed, except
// the run-time variables (see RuntimeNames), which a trial fills in when it
// knows the ports it was given.
type Experiment struct {
	Name     string
	Question string
	File     string // the file's name as given; empty when built in code
	Source   []byte // the file's bytes, for the run folder
	Short    bool   // the short form was asked for

	Design     Design
	Base       string // the variant others are compared with; empty without compare
	Variants   []Variant
	Thresholds []string
	Claims     []Claim

	Warnings []Fault // what is allowed but hardly meant, such as a variable nothing uses
}

// A Design says how often and in which order variants are measured.
type Design struct {
	Rounds int    // a round holds every variant once
	Seed   uint64 // of the order within rounds, arrivals and think times
}

// A Variant is one named form of the target and the load.
type Variant struct {
	Name     string
	Vars     map[string]string // its variables, those of the base included
	Target   Target
	Services []Service // in the order to start them: users after those they use, else by name
	Load     Load
}

// Protocols a target may speak.
const (
	HTTP = "http"
	TCP  = "tcp"
)

// A Target is the service under load.
type Target struct {
	Protocol string // HTTP or TCP
	Address  string // host:port, [ipv6]:port or unix:/path; never empty; may hold {{port}}
	URL      string // HTTP only: http://host:port/path, the base of the request; may hold {{port}}
	Pprof    string // URL of the target's /debug/pprof; empty when it has none
	Process         // Start is empty when the target runs already
}

// A Service is another process the target needs.
type Service struct {
	Name string
	Process
}

// A Process is a command to start, wait for and stop. Its strings may hold
// run-time variables; {{port}} and {{admin}} are the process's own.
type Process struct {
	Start        []string // the command and its arguments
	Ready        Ready
	ReadyTimeout time.Duration
	StopTimeout  time.Duration // from SIGTERM to SIGKILL
	CPUs         []int         // sorted; empty: wherever the kernel likes
	Env          map[string]string
	Dir          string // working directory; empty: dyno's own
}

// The ways to tell that a process is ready.
const (
	ReadyNone = "none" // at once
	ReadyTCP  = "tcp"  // its address, a Unix socket included, accepts a connection
	ReadyHTTP = "http" // a GET of URL is answered with a status below 500
	ReadyLine = "line" // a line of its output matches Line
)

// Ready says how to tell that a process can be loaded.
type Ready struct {
	Kind string // one of the Ready constants
	URL  string // for ReadyHTTP: a whole URL, or a path on the process's own address
	Line string // for ReadyLine: a regular expression (RE2)
}

// A Load is what the generator does. Exactly one of Closed and Open is set.
type Load struct {
	CPUs    []int // of the generator; empty: wherever the kernel likes
	Workers int   // event loops; 0: one per CPU of the generator

	Request *Request // HTTP only, then never nil
	Payload int      // TCP only: bytes sent and awaited per exchange
	Framing string   // TCP only: one of the Framing constants

	Closed *Closed
	Open   *Open

	Timeout        time.Duration // of a response, from the actual write
	ConnectTimeout time.Duration
	Warmup         time.Duration // loaded but not counted
	Window         time.Duration // measured; with stages, their sum; 0 only with Requests
	Requests       uint64        // ends the window after so many requests; 0: no such end
	Reconnect      Reconnect
}

// A Request is the one HTTP request repeated.
type Request struct {
	Method   string
	Path     string   // path and query, replacing those of the target's URL; empty: the URL's own
	Headers  []Header // in the order given
	Body     string
	BodyFile string // read by the trial; relative to the experiment's file; excludes Body
}

// A Header is one field line.
type Header struct{ Name, Value string }

// The framings of a TCP exchange.
const (
	FramingEcho   = "echo"            // as many bytes back as were sent
	FramingLine   = "line"            // up to and with a line feed
	FramingLength = "length-prefixed" // a four-byte big-endian length, then that many bytes
)

// A Closed load keeps Connections requests under way: each connection sends
// its next request when its last was answered and it has thought.
type Closed struct {
	Connections int
	Think       Think
}

// The distributions of a think time.
const (
	ThinkNone        = "none"
	ThinkConstant    = "constant"
	ThinkUniform     = "uniform"
	ThinkExponential = "exponential"
)

// A Think is the pause between a response and the connection's next request.
type Think struct {
	Distribution string        // one of the Think constants
	Mean         time.Duration // constant and exponential
	Low, High    time.Duration // uniform
}

// The arrival processes of an open load.
const (
	ArrivalsConstant = "constant"
	ArrivalsPoisson  = "poisson"
)

// An Open load starts requests on a schedule, whatever becomes of earlier
// ones.
type Open struct {
	Rate           float64 // requests per second; 0 when there are Stages
	Arrivals       string  // one of the Arrivals constants
	Stages         []Stage
	MaxConnections int
	MaxWaiting     int // requests due but without a connection; one more is dropped and counted
}

// A Stage is a part of the window in which the rate goes linearly from From
// to To, in requests per second.
type Stage struct {
	Duration time.Duration
	From, To float64
}

// Reconnect says how a lost connection is opened again: at once, and after
// failures in a row with growing pauses.
type Reconnect struct {
	MaxBackoff time.Duration // the longest pause
}

// A Claim is a statement with an expression. Its outcome never fails a run.
type Claim struct {
	ID          string
	Says        string
	Holds       string // the expression that is true when the claim holds
	Direction   string // a weaker one, true when it holds in direction only; may be empty
	NotTestable string // the reason why it cannot be tested here; empty: it can
}
