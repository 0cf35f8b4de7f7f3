package plan

import (
	"slices"
	"time"

	"dyno/internal/fields"
	"dyno/load/options"
	"dyno/load/pace"
	"dyno/load/scenario"
)

// An Experiment is a validated plan: everything is resolved and typed, except run-time variables (see
// RuntimeNames). A trial fills them in when it knows its ports.
type Experiment struct {
	Name     string `yaml:"name,required" like:"name" doc:"a short name, fit for a folder"`
	Question string `yaml:"question" doc:"what the experiment shall answer"`
	File     string // the file's name as given; empty when built in code
	Source   []byte // the file's bytes, for the run folder

	Set      map[string]string // the overrides it was read with, for the run folder
	Variants []Variant         `yaml:",inline"`
	Design   Design            `yaml:"design" doc:"how often and in which order variants are measured, and what decides"`

	// Base is the variant others are compared with; empty without compare and ladder.
	Base     string            `yaml:"compare" form:"compare" doc:"named variants, compared with one of them"`
	Ladder   *Ladder           `yaml:"ladder" form:"ladder" doc:"changes made one on top of the other"`
	Sweep    []Dimension       `yaml:"sweep,nonempty" form:"sweep" doc:"a matrix of values: every combination is a variant, the first variable changes slowest"`
	Capacity *Capacity         `yaml:"capacity" doc:"a search, in each round, for the highest rate at which the thresholds hold (RFC 9971); the open load has no rate of its own"`
	Soak     bool              `yaml:"soak" doc:"judge the trends of the target's memory and other gauges"`
	Awake    bool              `yaml:"awake,set" flag:"awake" doc:"keep the CPUs in use from halting, by asking the kernel to poll for work: for virtual machines, whose hosts take halted CPUs away; needs root and a driver of cpuidle that polls"`
	Sysctl   map[string]string `yaml:"sysctl,nonempty" names:"sysctl" kind:"word" like:"setting" doc:"kernel settings such as net.core.somaxconn: 65535, set before the first trial and put back after the last; they hold for the whole machine and for all variants"`
	Profile  *Profile          `yaml:"profile" doc:"what is profiled, in trials of their own: one for each variant after each round, with the same load"`

	Thresholds []Threshold `yaml:"thresholds" most:"100" flag:"threshold" doc:"a condition on a metric, such as 'response.p99 < 80ms', or of a step of a scenario, such as 'response.p99{step=login} < 80ms'; a broken one is exit code 99"`
	Claims     []Claim     `yaml:"claims" doc:"statements with an expression; their outcome never fails a run"`

	// LeftOut are the file's variants that the short form or the options leave out. Claims may name them.
	LeftOut []string
	// Short tells that the short form was asked for.
	Short bool `yaml:"short" form:"short" doc:"what the short form does differently"`

	Warnings []fields.Fault // what is allowed but hardly meant, such as a variable nothing uses
}

// A Threshold is a condition that figures must keep.
type Threshold struct {
	Holds string        `yaml:"holds,required,short" doc:"the condition"`
	Abort bool          `yaml:"abort" doc:"end the whole run, in order, as soon as the condition does not hold while a load runs: each second, the figures of the window so far are judged as they are measured; these are throughput, errors.ratio, errors.total, and response and service of all requests, of all processes and agents"`
	After time.Duration `yaml:"after" range:"1s..24h" otherwise:"a second" doc:"with abort: how long a window lasts until the condition is judged"`
}

// Conditions are the conditions of all thresholds.
func (e *Experiment) Conditions() (all []string) {
	for _, t := range e.Thresholds {
		all = append(all, t.Holds)
	}
	return all
}

// A Design says how often and in which order variants are measured.
type Design struct {
	Rounds int     `yaml:"rounds,set" range:"1..1000" default:"3; 8 with several variants; 12 for a ladder; 1 for a soak; 5 for capacity; 24 with stop looks; 40 with stop precision" flag:"rounds" doc:"how often each variant is measured; with stop precision or looks, at most"`
	Seed   uint64  `yaml:"seed,set" range:"0..9007199254740992" default:"1" flag:"seed" doc:"of everything random"`
	Stop   string  `yaml:"stop,set" oneof:"fixed precision looks" default:"fixed" flag:"stop" doc:"when there are enough rounds; fixed: after all; precision: when the interval is narrower than the margin; looks: when one of three looks at the result shows a difference or that there is none"`
	Margin float64 `yaml:"margin,set" kind:"share" range:"0.01%..50%" default:"2%" flag:"margin" doc:"the smallest difference that matters, such as 2% or 0.02"`
	Metric string  `yaml:"metric,set,zero" like:"metric" default:"throughput; response.p99 of an open load; delivery.p99 of published events; none of program; capacity for capacity" flag:"metric" doc:"what verdicts and stop go by, such as throughput or target.cpu_per_request; of a step of a scenario, response.p99{step=NAME} and the like; of a program, program.NAME"`
	// Control is the name of the variant that is another's alias; empty: there is none.
	Control string `yaml:"control" kind:"word" like:"name" otherwise:"true with compare and ladder" doc:"the variant measured a second time, as NAME.control, to show what no difference looks like; true: the base; false: none"`
	// Pairs asks which variants differ from each other, and not only from the base.
	Pairs bool `yaml:"pairs,set" flag:"pairs" doc:"compare all variants with each other, and not only with the base: in throughput, CPU time per request, memory and the metric; in each of these all pairs are one family, so that a difference needs more evidence the more variants there are"`
	// KeepDisturbed has no round measured again because the machine or the generator
	// disturbed it.
	KeepDisturbed bool `yaml:"remeasure,set,inverted" default:"true" flag:"remeasure" doc:"measure rounds that the machine or the generator disturbed again, all variants at once, up to half as many as are planned; results are shown with them, too"`
	// QuietWait is 0 for a run that begins at once.
	QuietWait time.Duration `yaml:"quiet_wait,set,zero" range:"0s..1h" default:"30s" flag:"quiet-wait" doc:"how long the run may wait in all until other programs leave the CPUs alone, before trials and before disturbed rounds are measured again; 0: not at all; DYNO_QUIET_WAIT is the most"`
	Duet      bool          `yaml:"duet,set" flag:"duet" doc:"measure each variant and the base at once with the same arrivals, on CPUs of their own that change hands from round to round: for machines whose noise hits both; only ratios come of it, and they need a control"`
	// Pilot finds the warm-up for all; 0: the load says how long the warm-up is.
	Pilot time.Duration `yaml:"pilot" range:"10s..1h" default:"; 30s with warmup auto" flag:"pilot" doc:"how long the pilot of each variant lasts that finds the warm-up"`
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
// (RFC 9971). The load is open; its rate is the search's. Each round is a search of its
// own. The defaults are those with which the RFC repeats trials: half of them may be bad.
type Capacity struct {
	From       float64 `yaml:"from,required" kind:"rate" range:"0.000001..10000000" flag:"from" doc:"the lowest rate of the search; a trial at it must have the requests that the percentiles of the thresholds need, 1,000 for a p99"`
	To         float64 `yaml:"to,required" kind:"rate" range:"0.000001..10000000" flag:"to" doc:"the highest"`
	Resolution float64 `yaml:"resolution" kind:"share" range:"0.1%..50%" default:"2%" doc:"the relative width at which a search ends"`
	Trials     int     `yaml:"trials" range:"1..100" default:"5" doc:"the most there are at one rate"`
	First      float64 // the rate to begin with; 0: From
	Enough     float64 // requests that are due in a trial at least, however long the window must be
	Tolerate   float64 `yaml:"tolerate" kind:"share" range:"0..0.99" default:"50%" doc:"the share of bad trials that a rate may have, the RFC's goal exceed ratio"`
}

// A Variant is one named form of the target and the load.
type Variant struct {
	Name    string
	AliasOf string            // the variant that this one is, measured again as a control; empty for all others
	Vars    map[string]string // its variables, including the base's
	Plain   bool              // braces in the load are text, unless in a scenario or with rows: it was made from flags
	Target  Target            `yaml:"target,required,template" doc:"the service under load"`
	// Services are in the order to start them: users after those they use, else by name.
	Services []Service `yaml:"services,template" names:"service" most:"32" doc:"other processes the target needs"`
	Load     Load      `yaml:"load,template" for:"loaded" doc:"what the generator does; needed but for programs, which have none"`
	Observe  Observe   `yaml:"observe,template" doc:"what is recorded during the load; CPU, memory, threads and descriptors always are"`
}

// An Observe says what is recorded during the load, in addition to the standard columns: CPU, memory,
// threads and descriptors of the target, the generator and the machine. Figures that a machine cannot
// give are left out, and named.
type Observe struct {
	Kernel    string     `yaml:"kernel,zero" oneof:"after window none" default:"after" doc:"when the target's system calls, accepts and run-queue waits are counted, by eBPF, at 0.15 to 0.2 µs for each call; after: in a short stretch of load after the window; window: in it, on its time line"`
	Server    bool       `yaml:"server" default:"true" doc:"the process that listens at the address of a target on this machine that dyno did not start: its CPU time and memory"`
	PID       int        `yaml:"pid" range:"1..4194304" otherwise:"the process that listens at the target's address" flag:"pid" doc:"the process of a target that dyno did not start, in place of that which listens at its address"`
	Cgroup    string     `yaml:"cgroup" kind:"word" otherwise:"that of observe.pid" doc:"the control group with the processes of a target that dyno did not start: its path below the hierarchies, such as /system.slice/nginx.service, or its own name, such as nginx.service"`
	Pods      *Pods      `yaml:"pods" doc:"the pods of a target in the Kubernetes where dyno runs as a Job: their CPU time and memory, which the agents with the labels observes=pods and node=NODE read on their nodes"`
	Sockets   bool       `yaml:"sockets" doc:"the kernel's figures on the connections of both ends and the accept queue, read once and ten times a second: the tail of an open loop shows it"`
	Runtime   string     `yaml:"runtime" otherwise:"the page next to target.pprof, in a soak and in profiled trials" doc:"URL of the target's Prometheus metrics, for its Go runtime, or of its pprof, for its goroutines alone; each answer takes the target about a millisecond"`
	Endpoints []Endpoint `yaml:"endpoints" names:"observer" most:"16" doc:"endpoints that answer with numbers, by name"`
	Commands  []Command  `yaml:"commands" names:"observer" most:"16" doc:"commands that are run again and again and print numbers, by name"`
}

// Pods are the Kubernetes pods of a target.
type Pods struct {
	Selector  string `yaml:"selector,required,short" kind:"word" doc:"their labels, such as app=web,tier!=db; each trial finds them again"`
	Namespace string `yaml:"namespace" kind:"word" otherwise:"that of dyno's own pod" doc:"where they are"`
}

// When the target's system calls, accepts and run-queue waits are counted. The hooks cost every system
// call of the machine 0.15 to 0.2 µs, the generator's too.
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
	Name    string        `yaml:",key"`
	URL     string        `yaml:"url,required" doc:"answers with numbers"`
	Format  string        `yaml:"format" oneof:"prometheus expvar" default:"prometheus" doc:"expvar: JSON, whose numbers are named by their path"`
	Metrics []string      `yaml:"metrics,required" most:"64" doc:"those that are recorded: names, or regular expressions that match whole names"`
	Every   time.Duration `yaml:"every" range:"100ms..1h" default:"1s" doc:"how often it is asked"`
}

// A Command is a program that is run again and again and prints numbers.
type Command struct {
	Name  string        `yaml:",key"`
	Run   []string      `yaml:"run,required" kind:"word" doc:"the command and its arguments; it prints a JSON object of numbers, or lines of a name and a number"`
	Every time.Duration `yaml:"every" range:"100ms..1h" default:"1s" doc:"how often it is run"`
}

// A Profile says what is profiled, in trials of their own: one for each variant
// after each round, with the same load.
type Profile struct {
	Kinds  []string      `yaml:"kinds,set=profile" oneof:"cpu off_cpu heap allocs goroutine mutex block" most:"10" default:"cpu" flag:"profile" doc:"what is profiled after each round, each variant in a trial of its own, such as cpu,off_cpu,allocs; dyno explain reads it"`
	By     string        `yaml:"by" oneof:"sampling pprof" default:"sampling" doc:"how CPU time is sampled; sampling: by the kernel, of any program; pprof: by the program itself, at target.pprof"`
	Rounds int           `yaml:"rounds" range:"design.rounds" otherwise:"all" doc:"after how many of the rounds"`
	Window time.Duration `yaml:"window" range:"100ms..1h" otherwise:"that of the load" doc:"how long each lasts"`
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

// A Target is the service under load.
type Target struct {
	Protocol string `yaml:"protocol,required" kind:"protocol" doc:"what it speaks; program: it is run to its end once a trial and prints, as its last line, a JSON object of numbers"`
	// Address is never empty, but of a program.
	Address string `yaml:"address" for:"loaded" otherwise:"that of the URL; with start {{host}}:{{port}}" doc:"host:port, [ipv6]:port or unix:/path"`
	// ResolveTo is a Resolve constant.
	ResolveTo string        `yaml:"resolve_to" for:"loaded" oneof:"all one" otherwise:"all" flag:"resolve-to" doc:"which addresses of a name that stands for several are loaded; all: connections are spread over those that accept one; one: all go to the first that does"`
	URL       string        `yaml:"url" for:"url" instead:"use address" otherwise:"http://address/" doc:"the base URL, http://host:port/path or https; of sse, {topic} in it is the number of a subscriber's topic; of grpc, what a proxy has before /pkg.Service/Method; of llm, up to /v1"`
	Proxy     string        `yaml:"proxy" for:"http" flag:"proxy" doc:"a forward proxy, http://[user:password@]host:port, for all connections: with https each begins with CONNECT. HTTP_PROXY and the like are not read. The server's process is not watched then, unless observe.pid (--pid) names it"`
	TLS       *TLS          `yaml:"tls" for:"url" doc:"https only: how connections are secured"`
	Pprof     string        `yaml:"pprof" for:"loaded" flag:"pprof" doc:"URL of the target's /debug/pprof, for profiles and its Go runtime; {{admin}} is a free port"`
	Timeout   time.Duration `yaml:"timeout" for:"program" instead:"for responses use load.timeout" range:"1ms..24h" default:"5m" doc:"how long it may take"`
	Process                 // Start is empty when the target runs already
}

// The loaded addresses of a name.
const (
	ResolveAll = "all"
	ResolveOne = "one"
)

// A Service is another process the target needs.
type Service struct {
	Name    string `yaml:",key"`
	Process `require:"start"`
}

// A Process is a command to start, wait for and stop. Its strings may hold
// run-time variables; {{port}} and {{admin}} are the process's own.
type Process struct {
	Agent        string            `yaml:"agent" kind:"word" otherwise:"dyno's machine" doc:"labels of the agent on whose machine it is started and observed, such as zone=b,disk!=slow: exactly one agent has them, and it carries no load. What runs already is observed there. {{host}} is the address of that machine"`
	Build        []string          `yaml:"build,started" kind:"word" doc:"a command that builds what start starts, run once before the first trial, in dir; with exit code 3 it says that this machine lacks something, and the last line of its output says what: the variants that need it are left out, and named"`
	Start        []string          `yaml:"start" kind:"word" doc:"the command and its arguments, one list entry each; no shell is involved"`
	Ready        Ready             `yaml:"ready" flag:"ready" otherwise:"tcp, but none for a service that does not get its port" doc:"how to tell that the process can be loaded"`
	ReadyTimeout time.Duration     `yaml:"ready_timeout" range:"1ms..1h" default:"10s" doc:"how long to wait until it is ready"`
	StopTimeout  time.Duration     `yaml:"stop_timeout" range:"1ms..1h" default:"5s" doc:"how long to wait from SIGTERM until SIGKILL"`
	CPUs         []int             `yaml:"cpus,started" flag:"target-cpus" otherwise:"all" doc:"the CPUs the process may run on, such as 0-3,5"`
	Env          map[string]string `yaml:"env,started" names:"env" kind:"word" doc:"environment variables, added to dyno's own"`
	Dir          string            `yaml:"dir,started" kind:"path" otherwise:"dyno's own" doc:"working directory, relative to this file"`

	Cgroup     *Cgroup `yaml:"cgroup,started" doc:"what it and all it starts may use together, by a control group of their own, version 1 or 2"`
	GOMAXPROCS int     `yaml:"gomaxprocs,started" range:"1..1048576" otherwise:"not set" doc:"GOMAXPROCS in its environment: how many CPUs a Go program uses at once"`
	Nice       *int    `yaml:"nice,started" range:"-20..19" otherwise:"dyno's own" doc:"its priority, from -20, the highest, to 19"`
	NUMA       *int    `yaml:"numa,started" range:"0..1023" otherwise:"any" doc:"the NUMA node that its memory comes from; for its CPUs there is cpus"`
}

// A Cgroup limits what all processes that a command starts use together. A field
// that is zero limits nothing; not all are.
type Cgroup struct {
	CPUMax    float64 `yaml:"cpu_max" kind:"amount" range:"0.01..1024" doc:"CPUs, such as 0.5 or 50%: so much time in each 100 ms"`
	CPUWeight int     `yaml:"cpu_weight" range:"1..10000" otherwise:"the kernel's, 100" doc:"its share where CPUs are contended"`
	MemoryMax int     `yaml:"memory_max" kind:"size" range:"1MiB..1048576GiB" doc:"bytes, such as 512MiB, page cache included and swap not; who needs more is killed"`
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
	Kind string `yaml:",short" doc:"tcp: its address accepts a connection; none: at once; a URL or a path: a GET of it is answered with a status below 500"` // one of the Ready constants
	URL  string `yaml:"http" doc:"a URL, or a path on the process's own address; a GET must be answered with a status below 500"`
	Line string `yaml:"line" doc:"a regular expression (RE2) that a line of its output must match"`
}

// protocols are all there are, in the order in which they are offered. Register alone adds to it.
var protocols = []protocol{
	httpProtocol, grpcProtocol, tcpProtocol, wsProtocol, sseProtocol, llmProtocol, programProtocol,
}

// A Load is what the generator does. Exactly one of Closed and Open is set; with
// Subscribers but without Publish, none is.
type Load struct {
	options.Threads
	// Processes is 0 where as many carry the load as it needs.
	Processes int    `yaml:"processes" for:"exchanges" range:"1..64" otherwise:"as many as its connections need descriptors" flag:"processes" doc:"how many processes of dyno carry the load together, each with its share of connections, arrivals, users and rows"`
	Clock     string `yaml:"clock" oneof:"auto arrival read" default:"auto" flag:"clock" doc:"what ends a response or an event; arrival: its last byte reached this machine, by the kernel's time stamp; read: the generator has read it; auto: arrival, unless a closed loop leaves the generator no time"`

	HTTPLoad `for:"http"`
	Scenario *scenario.Spec `yaml:"scenario,scripted" for:"scripted" doc:"what users do, instead of repeating one request"`
	GRPCLoad `for:"grpc"`
	HTTP2    *HTTP2 `yaml:"http2" for:"http grpc" default:"{}" doc:"when HTTP/2 is spoken, and how"`
	TCPLoad  `for:"tcp"`
	WSLoad   `for:"ws"`
	SSELoad  `for:"sse ws"`
	LLMLoad  `for:"llm"`
	Added    any `yaml:",added"` // of a protocol that a program has added: a pointer to its struct

	MaxHeader int `yaml:"max_header" for:"url" kind:"size" range:"1KiB..16MiB" default:"64KiB" flag:"max-header" doc:"the largest header of a response, and its largest trailers; larger ones fail the request"`

	Traceparent bool   `yaml:"traceparent" for:"http grpc" flag:"traceparent" doc:"give each request a field traceparent with a trace id of its own (W3C Trace Context), marked as sampled; the slowest requests are listed with their ids"`
	TraceURL    string `yaml:"trace_url" for:"http grpc" flag:"trace-url" doc:"where a trace is looked at, such as http://jaeger:16686/trace/{id}; reports link there"`

	Closed *Closed `yaml:"closed" doc:"each connection sends its next request when the last one was answered"`
	Open   *Open   `yaml:"open" doc:"requests start on a schedule, whatever becomes of earlier ones"`
	Stages []Stage `yaml:"stages" form:"stages" doc:"the window in parts: an open loop at a rate or from one rate to another, a closed one with a number of users or from one to another"`

	Paces []Pace `yaml:"paces" for:"scripted" names:"name" most:"64" doc:"the pace of each flow of the scenario, in place of closed, open and stages: the flows run side by side, each with users of its own"`

	RequestsPerConnection uint64 `yaml:"requests_per_connection" for:"exchanges" range:"1..1000000000000" otherwise:"no such limit" flag:"requests-per-connection" doc:"how many requests a connection carries before another one takes its place"`

	Requests   uint64 `yaml:"requests" for:"exchanges" instead:"use load.window" range:"1..1000000000000" flag:"requests,n" doc:"end the window after this number of requests; without a window, it ends only then"`
	Iterations `for:"scripted"`
	// Finish is 0 where users stop with the window.
	Finish time.Duration `yaml:"finish" for:"scripted" range:"0s..1h" otherwise:"users stop with the window" doc:"how long users of a scenario may go on at the window's end, and when their number declines, to finish their iterations; what they send after the window is not measured"`
	options.Timeouts
	Warmup time.Duration `yaml:"warmup,set" range:"0..1h" or:"auto" default:"2s" flag:"warmup" doc:"load that is not measured, before the window; auto: as long as a pilot of each variant finds it must be"`
	// Window is the stages' sum where there are any; 0 only if it is Counted.
	Window    time.Duration   `yaml:"window,set,zero" range:"100ms..24h" default:"10s; 30m for a soak" flag:"duration,z" doc:"how long to measure; a bare number is seconds"`
	Reconnect options.Backoff `yaml:"reconnect" doc:"how a lost connection is opened again"`
}

// Ends of a response or an event.
const (
	ClockAuto    = "auto"    // arrival, but for closed loops that leave the generator no time
	ClockArrival = "arrival" // its last byte reached this machine, by the kernel's time stamp
	ClockRead    = "read"    // the generator has read its last byte
)

// A Closed load keeps Connections requests under way, or with HTTP/2 Connections times
// Streams: each user sends the next request when the last was answered and the user has
// thought.
type Closed struct {
	Connections int        `yaml:"connections" range:"1..1000000" otherwise:"one for each user of the stages" doc:"how many"`
	Think       pace.Think `yaml:"think" otherwise:"none" doc:"the pause between a response and the next request; in a scenario, steps have their own"`
}

// The arrival processes of an open load.
const (
	ArrivalsConstant = "constant"
	ArrivalsPoisson  = "poisson"
)

// An Open load starts requests on a schedule, whatever becomes of earlier
// ones.
type Open struct {
	Rate           float64       `yaml:"rate" kind:"rate" range:"0.000001..10000000" flag:"rate,R" doc:"requests of an open loop in all, such as 5000, 5000/s or 300/min; in a scenario, iterations of its steps"` // 0 when the load has Stages
	Ramp           time.Duration `yaml:"ramp" for:"exchanges" range:"1ms..1h" flag:"ramp" doc:"let the rate rise linearly from zero for this long, before the warm-up; unlike stages, that is not measured"`
	Arrivals       string        `yaml:"arrivals" oneof:"constant poisson" default:"constant" flag:"arrivals" doc:"how the requests of an open loop are spaced"`
	MaxConnections int           `yaml:"max_connections" range:"1..1000000" otherwise:"500; for capacity as many as the rate takes" doc:"the most there may be"`
	options.Waiting
}

// SetStages divides the window into stages, whose sum is its length. The users of a closed loop get a connection each,
// or with HTTP/2 a stream, unless a number of connections is given.
func (l *Load) SetStages(stages []Stage) {
	l.Stages, l.Window = stages, 0
	for _, s := range stages {
		l.Window += s.Duration
	}
	if l.Closed != nil && l.Closed.Connections == 0 {
		l.Closed.Connections = l.connectionsOfUsers()
	}
}

// ScaleStages makes the stages last a time altogether, each its share of it.
func (l *Load) ScaleStages(whole time.Duration) {
	factor := whole.Seconds() / max(l.Window, 1).Seconds()
	stages := slices.Clone(l.Stages)
	for i := range stages {
		stages[i].Duration = max(time.Millisecond, time.Duration(float64(stages[i].Duration)*factor).Round(time.Millisecond))
	}
	l.SetStages(stages)
}

// MostUsers is how many users the stages of a closed loop have at most.
func (l *Load) MostUsers() int {
	most := 0.0
	for _, s := range l.Stages {
		most = max(most, s.From, s.To)
	}
	return int(most)
}

// connectionsOfUsers is how many connections the users of the stages have, if each has its own or a stream.
func (l *Load) connectionsOfUsers() int {
	streams := 1
	if l.HTTP2 != nil {
		streams = max(streams, l.HTTP2.Streams)
	}
	return (l.MostUsers() + streams - 1) / streams
}

// Unmeasured is how long there is load before the window.
func (l *Load) Unmeasured() time.Duration {
	if l.Open != nil {
		return l.Open.Ramp + l.Warmup
	}
	return l.Warmup
}

// A Stage is a part of the window. In an open loop its rate goes linearly from From to To, in requests per second;
// in a closed one, the number of users.
type Stage struct {
	Duration time.Duration
	From, To float64
}

// A Claim is a statement with an expression. Its outcome never fails a run.
type Claim struct {
	ID          string `yaml:"id,required" like:"claim" doc:"such as R1.1 or R1.1/pool"`
	Says        string `yaml:"says,required" doc:"the statement"`
	Published   string `yaml:"published" kind:"word" doc:"the published size, such as 2.3, -42%, 80ms or 12840/s"`
	Measured    string `yaml:"measured" doc:"the expression of what is held against it: ratio(…), change(…), value(…) …"`
	Holds       string `yaml:"holds" doc:"of a claim without a size, or of a bound: the condition that is true when it holds"`
	NotTestable string `yaml:"testable" doc:"the reason why it cannot be tested here"` // empty: it can
}
