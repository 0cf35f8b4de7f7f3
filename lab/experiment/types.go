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

	Set      map[string]string // the overrides it was read with, for the run folder
	Design   Design
	Base     string // the variant others are compared with; empty without compare and ladder
	Variants []Variant
	Ladder   *Ladder     // nil without one
	Sweep    []Dimension // in the order of the file; nil without one
	Capacity *Capacity   // nil: every trial is at the load's own rate
	Soak     bool        // the trends of the target's memory and other gauges are judged
	Awake    bool        // the CPUs in use are kept from halting
	Profile  *Profile    // nil: no trials of their own take profiles

	// Sysctl are kernel settings by name, such as net.core.somaxconn: for the whole
	// run, whatever the variant, and put back after it.
	Sysctl map[string]string

	Thresholds []string
	Claims     []Claim

	Warnings []Fault // what is allowed but hardly meant, such as a variable nothing uses
}

// A Design says how often and in which order variants are measured.
type Design struct {
	Rounds int    // a round holds every variant once; with another Stop than StopFixed, the most there may be
	Seed   uint64 // of the order within rounds, arrivals and think times

	Stop   string  // one of the Stop constants
	Margin float64 // the smallest difference that matters, a share such as 0.02
	Metric string  // the one that verdicts and Stop go by, such as throughput; never empty
	// Control is the name of the variant that is another's alias; empty: there is none.
	Control string
	// KeepSpoilt has no round measured again because the machine or the generator
	// spoilt it.
	KeepSpoilt bool
	// Duet measures each variant beside the base, both at once, on CPUs of their own that
	// change hands from round to round.
	Duet bool
	// Pilot is how long a pilot of each variant lasts, which finds the warm-up for
	// all; 0: the load says how long the warm-up is.
	Pilot time.Duration
}

// The rules by which a run ends.
const (
	StopFixed     = "fixed"     // after all rounds
	StopPrecision = "precision" // when the intervals are narrower than the margin
	StopLooks     = "looks"     // at one of three looks at the result
)

// A Ladder is a list of steps, each with the changes of those before it and its
// own. The first is the base.
type Ladder struct {
	Steps       []string          // names of variants
	WithoutStep map[string]string // variants that have all steps' changes but one's → that step; nil unless asked for
}

// A Dimension is a variable of a sweep with the values it takes.
type Dimension struct {
	Name   string
	Values []string
}

// A Capacity is a search for the highest rate at which the thresholds hold
// (RFC 9971). The load is open; its rate is the search's. Each round searches anew.
type Capacity struct {
	From, To   float64 // the range, in requests per second
	Resolution float64 // the relative width at which a search ends, a share
	Trials     int     // at most, for each rate
	Tolerate   float64 // the share of bad trials that a rate may have
}

// A Variant is one named form of the target and the load.
type Variant struct {
	Name     string
	AliasOf  string            // the variant that this one is, measured again as a control; empty for all others
	Vars     map[string]string // its variables, those of the base included
	Target   Target
	Services []Service // in the order to start them: users after those they use, else by name
	Load     Load
	Observe  Observe
}

// An Observe says what is recorded beside the load, but for what always is: CPU,
// memory, threads and descriptors of the target, the generator and the machine.
// What cannot be had on a machine is left out, and named.
type Observe struct {
	Kernel string // what the kernel sees of the target, by eBPF: one of the Kernel constants
	// Sockets are the kernel's figures on the connections of both ends, and the accept
	// queue. To read them takes the generator's CPU up to a hundredth of the time, in
	// pieces of up to milliseconds, which the tail of an open loop shows.
	Sockets   bool
	Runtime   string     // URL of the target's metrics, variables or profiles, for its Go runtime; empty: beside target.pprof, but only in a soak and in profiled trials, because each answer takes the target about a millisecond
	Endpoints []Endpoint // by name
	Commands  []Command  // by name
}

// When the target's system calls, accepts and run-queue waits are counted. The hooks
// cost every system call of the machine 0.15 to 0.2 µs, those of the generator too.
const (
	KernelAfter  = "after"  // in a short stretch of the same load after the window
	KernelWindow = "window" // in the window, on its time line
	KernelNone   = "none"
)

// The formats of an Endpoint.
const (
	FormatPrometheus = "prometheus"
	FormatExpvar     = "expvar"
)

// An Endpoint is a URL that answers with numbers.
type Endpoint struct {
	Name    string
	URL     string
	Format  string   // one of the Format constants
	Metrics []string // names or patterns of those that are recorded
	Every   time.Duration
}

// A Command is a program that is run again and again and prints numbers.
type Command struct {
	Name  string
	Run   []string
	Every time.Duration
}

// A Profile says what is profiled, in trials of their own: one for each variant
// after each round, with the same load.
type Profile struct {
	Kinds  []string      // of the Profile constants
	By     string        // how CPU time is sampled: one of the By constants
	Rounds int           // after how many of the rounds
	Window time.Duration // 0: that of the load
}

// The kinds of profiles.
const (
	ProfileCPU       = "cpu"
	ProfileOffCPU    = "off_cpu"
	ProfileHeap      = "heap"
	ProfileAllocs    = "allocs"
	ProfileGoroutine = "goroutine"
	ProfileMutex     = "mutex"
	ProfileBlock     = "block"
)

// The ways to sample CPU time.
const (
	BySampling = "sampling" // by the kernel, of any program
	ByPprof    = "pprof"    // by the program itself, at target.pprof
)

// ProfileKinds lists all kinds of profiles.
func ProfileKinds() []string {
	return []string{ProfileCPU, ProfileOffCPU, ProfileHeap, ProfileAllocs, ProfileGoroutine, ProfileMutex, ProfileBlock}
}

// Protocols a target may speak.
const (
	HTTP = "http"
	TCP  = "tcp"
	SSE  = "sse" // server-sent events, over HTTP/1.1
	// Program is no protocol: the target is a program that is run to its end once a
	// trial and prints, as the last line of its output, a JSON object of numbers. A
	// name's end tells the unit: _seconds, _bytes or _per_second. There is no load.
	Program = "program"
)

// A Target is the service under load.
type Target struct {
	Protocol string // HTTP, TCP, SSE or Program
	Address  string // host:port, [ipv6]:port or unix:/path; never empty; may hold {{port}}
	URL      string // HTTP and SSE only: http://host:port/path, or of HTTP https, the base of the request; may hold {{port}}, of SSE {topic}
	TLS      *TLS   // https only; nil: everything as by default
	Pprof    string // URL of the target's /debug/pprof; empty when it has none
	Process         // Start is empty when the target runs already

	Timeout time.Duration // Program only: how long it may take
}

// TLS says how connections to an https target are secured. Paths are relative to the
// experiment's file. What is empty is as crypto/tls has it, but for the groups.
type TLS struct {
	Insecure               bool   // the server's certificate is not checked
	ServerName             string // asked for and checked; empty: the URL's host
	CA                     string // a file of authorities to trust; empty: the system's
	Certificate, Key       string // files with this side's own; empty: none
	MinVersion, MaxVersion string // "1.2" or "1.3"
	CipherSuites           []string
	Groups                 []string
	Tickets                bool // sessions are resumed
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

	Cgroup     *Cgroup // what it and all it starts may use; nil: no limits
	GOMAXPROCS int     // set in the environment; 0: not set
	Nice       *int    // priority, from -20, the highest, to 19; nil: dyno's own
	NUMA       *int    // the node its memory comes from; nil: any
}

// A Cgroup limits what all processes that a command starts use together. A field
// that is zero limits nothing; not all are.
type Cgroup struct {
	CPUMax    float64 // CPUs, such as 0.5
	CPUWeight int     // where CPUs are contended; the default is 100
	MemoryMax int     // bytes, page cache included
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

// A Load is what the generator does. Exactly one of Closed and Open is set; with
// Subscribers but without Publish, none is.
type Load struct {
	CPUs    []int // of the generator; empty: wherever the kernel likes
	Workers int   // event loops; 0: one per CPU of the generator

	Clock string // what ends a response: one of the Clock constants

	Request *Request // HTTP only, then never nil
	HTTP2   *HTTP2   // likewise
	// RequestsPerConnection is how many requests a connection carries before another one
	// takes its place. HTTP and TCP only; 0: no such limit.
	RequestsPerConnection uint64
	Payload               int    // TCP only: bytes sent and awaited per exchange
	Framing               string // TCP only: one of the Framing constants

	Subscribers *Subscribers // SSE only, then never nil
	Publish     *Publish     // SSE only: what Closed or Open repeat; nil: the target has events of its own

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

// When HTTP/2 is spoken.
const (
	HTTP2Auto    = "auto"    // with https, if the server chooses it
	HTTP2Always  = "always"  // with http by prior knowledge, with https if the server agrees and else not at all
	HTTP2Never   = "never"   // HTTP/1.1
	HTTP2Upgrade = "upgrade" // with http: each connection begins in HTTP/1.1 and asks to go on in HTTP/2
)

// An HTTP2 says when HTTP/2 is spoken, and how.
type HTTP2 struct {
	Use     string // one of the HTTP2 constants
	Streams int    // requests under way at once on a connection, if the server lets it

	// Bytes of responses that may be under way, of one and of all on a connection; 0: 4 MiB
	// and 16 MiB, much as browsers have.
	StreamWindow, ConnectionWindow int
}

// A Header is one field line.
type Header struct{ Name, Value string }

// What ends a response or an event.
const (
	ClockAuto    = "auto"    // arrival, but for closed loops that leave the generator no time
	ClockArrival = "arrival" // its last byte reached this machine, by the kernel's time stamp
	ClockRead    = "read"    // the generator has read its last byte
)

// The framings of a TCP exchange.
const (
	FramingEcho   = "echo"            // as many bytes back as were sent
	FramingLine   = "line"            // up to and with a line feed
	FramingLength = "length-prefixed" // a four-byte big-endian length, then that many bytes
)

// A Closed load keeps Connections requests under way, or with HTTP/2 so many times as
// many as there are streams: each user sends the next request when the last was answered
// and he has thought.
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
// failures in a row with growing pauses. A subscriber, whose connection its server
// ended, pauses before the first attempt too.
type Reconnect struct {
	MinBackoff time.Duration // SSE only: the first pause, unless the server says another (its retry field)
	MaxBackoff time.Duration // the longest pause
}

// Subscribers are connections that each ask for events and stay. All are opened before
// the warm-up begins, as far as that goes.
type Subscribers struct {
	Connections int
	Ramp        float64  // opened per second; 0: as fast as the target accepts them
	Topics      int      // subscriber i asks for topic i mod Topics: its number stands for {topic} in the target's URL
	Headers     []Header // of the request that subscribes
	Resume      bool     // who comes back says which event it has seen last (Last-Event-ID)
	GapEvent    string   // the type of an event by which the target says that events are missing
	Slow        *Slow    // nil: all read as fast as events come
	// ReceiveBuffer is SO_RCVBUF, in bytes; 0: the kernel's own.
	ReceiveBuffer int
}

// Slow are some of the subscribers, those with the lowest numbers, which read slowly.
type Slow struct {
	Connections int // how many
	Rate        int // bytes per second each; 0: they read nothing at all
}

// A Publish is the request by which an event is published. The event's data begins with
// who published it, its number and when it was due, by which subscribers know
// how long it took and what is missing.
type Publish struct {
	Path    string // path and query on the target's address; {topic} stands for a topic's number
	Size    int    // bytes of an event's data
	Form    string // one of the Form constants
	Topic   string // FormMercure only: the topic's name; {topic} stands for its number
	Headers []Header
}

// How an event is written into the request that publishes it.
const (
	FormRaw     = "raw"     // the data is the request's content
	FormMercure = "mercure" // form fields topic and data, as the Mercure protocol has them
)

// A Claim is a statement with an expression. Its outcome never fails a run.
type Claim struct {
	ID          string
	Says        string
	Holds       string // the expression that is true when the claim holds
	Direction   string // a weaker one, true when it holds in direction only; may be empty
	NotTestable string // the reason why it cannot be tested here; empty: it can
}
