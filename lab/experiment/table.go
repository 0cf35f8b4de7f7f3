package experiment

import (
	"math"
	"slices"
	"strings"
	"time"

	"dyno/load/wire/sse"
)

// A kind is the form of a value in the file.
type kind uint8

const (
	text     kind = iota // a string
	word                 // any scalar, taken as it is written
	boolean              // true or false
	choice               // one of some words
	integer              // a whole number
	number               // a number
	duration             // a Go duration, or a number of seconds
	rate                 // a number per s, min or h
	size                 // bytes, with a unit or without
	share                // a number or a percentage
	amount               // of CPUs: a number or a percentage of one
	cpus                 // a CPU list, such as 0-3,5
	list                 // of items
	mapping              // of fields, or of names to items
)

// A spec says what one value of the file may be. The reader and the JSON
// Schema are both made from it, so that they cannot disagree.
type spec struct {
	kind     kind
	doc      string
	choices  []string // of a choice; of a duration, words that may stand for one
	pattern  string   // of a text or a word
	min, max float64  // of a number (a duration's in seconds, a size's in bytes); of a list or a mapping of names, its length
	fields   []field  // of a mapping
	item     *spec    // of a list, or of a mapping's entries that are no fields
	names    string   // the pattern of those entries' names
	few      bool     // such a mapping must not be empty
	short    *spec    // a scalar that may stand for the mapping
	template bool     // templates may stand in it
}

// A field is a named part of a mapping.
type field struct {
	name     string
	required bool
	spec     *spec
}

// Patterns of names.
const (
	namePattern     = `^[A-Za-z0-9._+-]{1,100}$`
	claimPattern    = `^[A-Za-z0-9._+/-]{1,100}$` // R1.1/pool is a part of R1.1
	variablePattern = `^[A-Za-z_][A-Za-z0-9_]{0,63}$`
	servicePattern  = `^[A-Za-z_][A-Za-z0-9_-]{0,63}$`
	envPattern      = `^[A-Za-z_][A-Za-z0-9_]*$`
	tokenPattern    = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" // RFC 9110, section 5.6.2
	sysctlPattern   = `^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+$`
	settingPattern  = `^[!-~]([ -~]{0,1000}[!-~])?$` // printable ASCII, no blank at the ends
	observerPattern = `^[a-z][a-z0-9_]{0,31}$`       // the beginning of a column's name
	metricPattern   = `^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$`
)

// Bounds that hold beside those of the table.
const (
	maxVariants = 1000
	maxEntries  = 100 // of a mapping of names, unless it says otherwise
	maxTrials   = 100_000
)

// later are the sections of the file that a later version will know.
func later() []string {
	return []string{"network", "scenario"}
}

// table returns the spec of a whole file.
func table() *spec {
	between := func(k kind, least, most float64, doc string) *spec {
		return &spec{kind: k, min: least, max: most, doc: doc}
	}
	within := func(least, most time.Duration, doc string) *spec {
		return between(duration, least.Seconds(), most.Seconds(), doc)
	}
	plain := func(k kind, doc string) *spec { return between(k, math.Inf(-1), math.Inf(1), doc) }
	fields := func(doc string, f ...field) *spec { return &spec{kind: mapping, doc: doc, fields: f} }
	named := func(pattern string, item *spec, doc string) *spec {
		return &spec{kind: mapping, names: pattern, item: item, doc: doc}
	}
	listOf := func(item *spec, most float64, doc string) *spec {
		return &spec{kind: list, item: item, min: 1, max: most, doc: doc}
	}
	oneOf := func(doc string, choices ...string) *spec {
		return &spec{kind: choice, doc: doc, choices: choices}
	}
	like := func(pattern, doc string) *spec { return &spec{kind: text, pattern: pattern, doc: doc} }

	ready := fields("how to tell that the process can be loaded",
		field{"http", false, plain(text, "a URL, or a path on the process's own address; a GET must be answered with a status below 500")},
		field{"line", false, plain(text, "a regular expression (RE2) that a line of its output must match")})
	ready.short = plain(text, `tcp: its address accepts a connection; none: at once; a URL or a path: see http`)
	process := []field{
		{"start", false, listOf(plain(word, ""), 1000, "the command and its arguments, one list entry each; no shell is involved")},
		{"ready", false, ready},
		{"ready_timeout", false, within(time.Millisecond, time.Hour, "how long to wait until it is ready (default 10s)")},
		{"stop_timeout", false, within(time.Millisecond, time.Hour, "how long to wait from SIGTERM until SIGKILL (default 5s)")},
		{"cpus", false, plain(cpus, "the CPUs it may run on, such as 0-3,5 (default: all)")},
		{"env", false, named(envPattern, plain(word, ""), "environment variables, added to dyno's own")},
		{"dir", false, plain(text, "working directory, relative to this file (default: dyno's own)")},
		{"cgroup", false, fields("what it and all it starts may use together, by a control group of their own, version 1 or 2",
			field{"cpu_max", false, between(amount, 0.01, maxCPU+1, "CPUs, such as 0.5 or 50%: so much time in each 100 ms")},
			field{"cpu_weight", false, between(integer, 1, 10_000, "its share where CPUs are contended (the kernel's default is 100)")},
			field{"memory_max", false, between(size, 1<<20, 1<<50, "bytes, such as 512MiB, page cache included and swap not; who needs more is killed")})},
		{"gomaxprocs", false, between(integer, 1, 1<<20, "GOMAXPROCS in its environment: how many CPUs a Go program uses at once")},
		{"nice", false, between(integer, -20, 19, "its priority, from -20, the highest, to 19 (default: dyno's own)")},
		{"numa", false, between(integer, 0, maxCPU, "the NUMA node that its memory comes from; for its CPUs there is cpus (default: any)")},
	}
	target := fields("the service under load", append([]field{
		{"protocol", true, oneOf("what it speaks; program: it is run to its end once a trial and prints, as its last line, a JSON object of numbers", HTTP, TCP, SSE, Program)},
		{"address", false, plain(text, "host:port, [ipv6]:port or unix:/path (default, with start: 127.0.0.1:{{port}})")},
		{"url", false, plain(text, "http and sse only: the base URL, of http also https (default: http://address/); of sse, {topic} in it is the number of a subscriber's topic")},
		{"tls", false, fields("https only: how connections are secured",
			field{"insecure", false, plain(boolean, "do not check the server's certificate (default false)")},
			field{"server_name", false, plain(text, "asked for, and what the certificate must be for (default: the URL's host)")},
			field{"ca", false, plain(text, "a file of authorities to trust, PEM, relative to this one (default: the system's)")},
			field{"certificate", false, plain(text, "a file with this side's certificate, for servers that ask for one")},
			field{"key", false, plain(text, "the file with its key")},
			field{"min_version", false, oneOf("default 1.2", "1.2", "1.3")},
			field{"max_version", false, oneOf("default 1.3", "1.2", "1.3")},
			field{"cipher_suites", false, listOf(plain(text, ""), 100, "of TLS 1.2, by IANA's names or OpenSSL's")},
			field{"groups", false, listOf(plain(text, ""), 100, "of the key exchange (default x25519 and secp256r1)")},
			field{"tickets", false, plain(boolean, "resume sessions by tickets (default false)")})},
		{"pprof", false, plain(text, "URL of its /debug/pprof")},
		{"timeout", false, within(time.Millisecond, 24*time.Hour, "program only: how long it may take (default 5m)")},
	}, process...)...)
	service := fields("", slices.Clone(process)...)
	service.fields[0].required = true

	think := fields("the pause between a response and the next request (default: none)",
		field{"constant", false, within(0, time.Hour, "always this long")},
		field{"exponential", false, within(0, time.Hour, "exponentially distributed with this mean")},
		field{"uniform", false, fields("uniformly distributed",
			field{"from", true, within(0, time.Hour, "")},
			field{"to", true, within(0, time.Hour, "")})})
	think.short = within(0, time.Hour, "always this long")
	connections := between(integer, 1, 1_000_000, "how many")
	perSecond := between(rate, 1e-6, 1e7, "requests per second, in all; or with a unit: 5000/s, 300/min, 10/h")
	edge := between(rate, 0, 1e7, "requests per second, in all; or with a unit: 5000/s, 300/min, 10/h")
	briefly := within(0, time.Hour, "loaded but not counted")
	warmup := within(0, time.Hour, "loaded but not counted; auto: as long as a pilot of each variant finds it must be (default 2s)")
	warmup.choices = []string{warmupAuto}
	window := within(100*time.Millisecond, 24*time.Hour, "measured (default 10s, for a soak 30m)")
	rounds := between(integer, 1, 1000, "how often each variant is measured; with stop precision or looks, at most "+
		"(default 3 with one variant, 8 with several, 12 for a ladder, 5 for capacity, 1 for a soak; 40 with stop precision, 24 with looks)")

	load := fields("what the generator does; needed but for programs, which have none",
		field{"cpus", false, plain(cpus, "the generator's CPUs, such as 1 or 4-7 (default: all)")},
		field{"workers", false, between(integer, 1, 1024, "event loops (default: one per CPU of the generator)")},
		field{"clock", false, oneOf("what ends a response or an event (default auto): arrival, its last byte reached this machine, by the kernel's time stamp; "+
			"read, the generator has read it; auto, arrival unless a closed loop leaves the generator no time",
			ClockAuto, ClockArrival, ClockRead)},
		field{"request", false, fields("http only: the request that is repeated",
			field{"method", false, like(tokenPattern, "default GET")},
			field{"path", false, plain(text, "path and query (default: those of target.url)")},
			field{"headers", false, named(tokenPattern, plain(word, ""), "field names and values")},
			field{"body", false, plain(word, "the content")},
			field{"body_file", false, plain(text, "the file with the content, relative to this one; templates in it are not replaced")})},
		field{"http2", false, fields("http only: when HTTP/2 is spoken, and how",
			field{"use", false, oneOf("auto: with https, if the server chooses it; always: with http by prior knowledge, with https or not at all; never; "+
				"upgrade: with http, each connection asks for it (default auto)", HTTP2Auto, HTTP2Always, HTTP2Never, HTTP2Upgrade)},
			field{"streams", false, between(integer, 1, 10_000, "requests under way at once on a connection, if the server lets it (default 1)")},
			field{"stream_window", false, between(size, 1, 1<<31-1, "bytes of one response that may be under way (default 4MiB)")},
			field{"connection_window", false, between(size, 1<<16-1, 1<<31-1, "bytes of all responses that may be under way on a connection (default 16MiB)")})},
		field{"requests_per_connection", false, between(integer, 1, 1e12, "http and tcp only: how many a connection carries before another one takes its place (default: no such limit)")},
		field{"payload", false, between(size, 1, 64<<20, "tcp only: bytes per exchange, such as 512 or 1KiB (default 64)")},
		field{"framing", false, oneOf("tcp only: where a response ends (default echo: after as many bytes as were sent)",
			FramingEcho, FramingLine, FramingLength)},
		field{"subscribers", false, fields("sse only: the connections that ask for events and stay; without publish, the target has events of its own",
			field{"connections", true, connections},
			field{"ramp", false, between(rate, 1e-3, 1e7, "how many are opened per second (default: as fast as the target accepts them)")},
			field{"topics", false, between(integer, 1, 1_000_000, "how many topics they are spread over, one each; its number, from 0, stands for {topic} in target.url (default 1)")},
			field{"headers", false, named(tokenPattern, plain(word, ""), "field names and values")},
			field{"resume", false, plain(boolean, "who comes back names the last event it has seen, by Last-Event-ID (default true)")},
			field{"gap_event", false, plain(text, "the type of an event by which the target says that events are missing (default gap)")},
			field{"receive_buffer", false, between(size, 1, 1<<30, "SO_RCVBUF (default: the kernel's)")},
			field{"slow", false, fields("some of them read slowly; what they miss is counted apart",
				field{"connections", true, between(integer, 0, 1_000_000, "how many")},
				field{"rate", false, between(size, 0, 1<<30, "bytes per second each (default 0: they read nothing)")})})},
		field{"publish", false, fields("sse only: the request that publishes an event, repeated as closed or open says",
			field{"path", true, plain(text, "path and query; {topic} is the number of a topic, of which each publisher takes one after the other")},
			field{"size", false, between(size, float64(sse.StampBytes), sse.MaxSize, "bytes of an event's data, with who published it, its number and when it was due at the beginning (default 100)")},
			field{"form", false, oneOf("default raw: the data is the content; mercure: form fields topic and data", FormRaw, FormMercure)},
			field{"topic", false, plain(text, "mercure only: the topic's name, with {topic} for its number")},
			field{"headers", false, named(tokenPattern, plain(word, ""), "field names and values")})},
		field{"closed", false, fields("each connection sends its next request when the last one was answered",
			field{"connections", true, connections},
			field{"think", false, think})},
		field{"open", false, fields("requests start on a schedule, whatever becomes of earlier ones",
			field{"rate", false, perSecond},
			field{"arrivals", false, oneOf("default constant", ArrivalsConstant, ArrivalsPoisson)},
			field{"max_connections", false, between(integer, 1, 1_000_000, "default 500")},
			field{"max_waiting", false, between(integer, 1, 10_000_000, "requests due but without a connection; one more is dropped and counted (default 65536)")})},
		field{"stages", false, listOf(fields("",
			field{"duration", true, within(time.Millisecond, 24*time.Hour, "")},
			field{"rate", false, edge},
			field{"from", false, edge},
			field{"to", false, edge}), 1000, "open loop: the window in parts, each at a rate or from one rate to another (from: by default where the last one ended)")},
		field{"requests", false, between(integer, 1, 1e12, "end the window after so many requests; without a window, it ends only then")},
		field{"timeout", false, within(time.Millisecond, time.Hour, "of a response, from the actual write (default 30s)")},
		field{"connect_timeout", false, within(time.Millisecond, time.Hour, "default 5s")},
		field{"warmup", false, warmup},
		field{"window", false, window},
		field{"reconnect", false, fields("how a lost connection is opened again",
			field{"min_backoff", false, within(time.Millisecond, time.Hour, "sse only: a subscriber's first pause, unless the target says another (default 1s)")},
			field{"max_backoff", true, within(time.Millisecond, time.Hour, "the longest pause after failures in a row (default 1s, of sse 64s)")})})

	services := named(servicePattern, service, "other processes the target needs")
	services.max = 32
	observed := named(observerPattern, fields("",
		field{"url", true, plain(text, "answers with numbers")},
		field{"format", false, oneOf("default prometheus; expvar: JSON, whose numbers are named by their path", FormatPrometheus, FormatExpvar)},
		field{"metrics", true, listOf(plain(text, ""), 64, "names, or regular expressions that match whole names")},
		field{"every", false, within(100*time.Millisecond, time.Hour, "default 1s")}), "endpoints, by name")
	observed.max = 16
	commands := named(observerPattern, fields("",
		field{"run", true, listOf(plain(word, ""), 1000, "the command and its arguments; it prints a JSON object of numbers, or lines of a name and a number")},
		field{"every", false, within(100*time.Millisecond, time.Hour, "default 1s")}), "commands that print numbers, by name")
	commands.max = 16
	observe := fields("what is recorded beside the load; CPU, memory, threads and descriptors always are",
		field{"kernel", false, oneOf("when the target's system calls, accepts and run-queue waits are counted, by eBPF, at 0.15 to 0.2 µs for each call: "+
			"in a short stretch of load after the window, or in it, on its time line (default after)", KernelAfter, KernelWindow, KernelNone)},
		field{"sockets", false, plain(boolean, "the kernel's figures on the connections of both ends and the accept queue, read once and ten times a second: "+
			"the tail of an open loop shows it (default false)")},
		field{"runtime", false, plain(text, "URL of the target's Prometheus metrics, expvar or pprof, for its Go runtime (default: what is beside target.pprof, in a soak and in profiled trials)")},
		field{"endpoints", false, observed},
		field{"commands", false, commands})
	target.template, services.template, load.template, observe.template = true, true, true, true

	values := listOf(plain(word, ""), maxVariants, "")
	sweep := named(variablePattern, values, "a matrix of values: every combination is a variant, the first variable changes slowest")
	sweep.fields = []field{{"exclude", false, listOf(named(variablePattern, plain(word, ""), ""), maxVariants,
		"combinations to leave out: those with all these values")}}
	sweep.few = true
	variants := named(namePattern, named(variablePattern, plain(word, ""), ""), "each variant's variables, for {{name}} in target, services and load; what it does not set it takes from the base")
	variants.few, variants.max = true, maxVariants
	steps := named(namePattern, named(variablePattern, plain(word, ""), ""), "each step's variables, on top of those of the steps before it; the first is the base")
	steps.few, steps.max = true, maxVariants

	control := plain(word, "the variant measured a second time, as NAME.control, to show what no difference looks like; "+
		"true: the base; false: none (default true with compare and ladder)")
	control.pattern = namePattern
	design := fields("how often and in which order variants are measured, and what decides",
		field{"rounds", false, rounds},
		field{"seed", false, between(integer, 0, 1<<53, "of everything random (default 1)")},
		field{"stop", false, oneOf("when there are enough rounds: after all, when the interval is narrower than the margin, or at one of three looks at the result (default fixed)",
			StopFixed, StopPrecision, StopLooks)},
		field{"margin", false, between(share, 0.0001, 0.5, "the smallest difference that matters, such as 2% or 0.02 (default 2%)")},
		field{"metric", false, like(metricPattern, "the one that verdicts and stop go by, such as throughput or target.cpu_per_request "+
			"(default throughput of a closed load, response.p99 of an open one, of published events delivery.p99, capacity of a search; of a program, program.NAME, there is none)")},
		field{"control", false, control},
		field{"remeasure", false, plain(boolean, "measure rounds that the machine or the generator spoilt again, all variants at once, up to half as many as are planned; results are shown with them, too (default true)")},
		field{"duet", false, plain(boolean, "measure each variant beside the base, both at once with the same arrivals, on CPUs of their own that change hands from round to round: "+
			"for machines whose noise hits both; only ratios come of it, and they need a control (default false)")},
		field{"pilot", false, within(leastPilot, time.Hour, "with warmup auto: how long the pilot of each variant lasts (default 30s)")})

	setting := plain(word, "")
	setting.pattern = settingPattern
	settings := named(sysctlPattern, setting, "kernel settings such as net.core.somaxconn: 65535, set before the first trial and put back after the last; "+
		"they hold for the whole machine and for all variants")
	settings.few = true

	root := fields("An experiment for dyno: what to load, how, and what to compare.",
		field{"name", true, like(namePattern, "a short name, fit for a folder")},
		field{"question", false, plain(text, "what the experiment shall answer")},
		field{"target", true, target},
		field{"services", false, services},
		field{"load", false, load},
		field{"design", false, design},
		field{"compare", false, fields("named variants, compared with one of them",
			field{"base", true, like(namePattern, "the variant others are compared with")},
			field{"variants", true, variants})},
		field{"ladder", false, fields("changes made one on top of the other",
			field{"steps", true, steps},
			field{"leave_one_out", false, plain(boolean, "also measure the whole ladder without each step but the first and the last (default false)")})},
		field{"sweep", false, sweep},
		field{"capacity", false, fields("a search, in each round, for the highest rate at which the thresholds hold (RFC 9971); the open load has no rate of its own",
			field{"from", true, perSecond},
			field{"to", true, perSecond},
			field{"resolution", false, between(share, 0.001, 0.5, "the relative width at which a search ends (default 2%)")},
			field{"trials", false, between(integer, 1, 100, "the most there are at one rate (default 5)")},
			field{"tolerate", false, between(share, 0, 0.99, "the share of bad trials that a rate may have, the RFC's goal exceed ratio (default 50%)")})},
		field{"soak", false, plain(boolean, "judge the trends of the target's memory and other gauges (default false)")},
		field{"awake", false, plain(boolean, "keep CPUs from halting, by asking the kernel to poll for work when it has none: "+
			"for virtual machines, whose hosts take halted CPUs away; needs root and a driver of cpuidle that polls (default false)")},
		field{"sysctl", false, settings},
		field{"observe", false, observe},
		field{"profile", false, fields("what is profiled, in trials of their own: one for each variant after each round",
			field{"kinds", false, listOf(oneOf("", ProfileKinds()...), 10, "default cpu")},
			field{"by", false, oneOf("how CPU time is sampled: by the kernel, of any program, or by the program itself at target.pprof (default sampling)", BySampling, ByPprof)},
			field{"rounds", false, between(integer, 1, 1000, "after how many of the rounds (default all)")},
			field{"window", false, within(100*time.Millisecond, time.Hour, "default that of the load")})},
		field{"thresholds", false, listOf(plain(text, ""), 100, `conditions on metrics, such as "response.p99 < 80ms"`)},
		field{"claims", false, listOf(fields("",
			field{"id", true, like(claimPattern, "")},
			field{"says", true, plain(text, "the statement")},
			field{"holds", false, plain(text, "the expression that is true when it holds")},
			field{"direction", false, plain(text, "a weaker expression, true when it holds in direction only")},
			field{"testable", false, plain(text, "the reason why it cannot be tested here")}), 1000, "statements with an expression; their outcome never fails a run")},
		field{"short", false, fields("what the short form does differently",
			field{"rounds", false, between(integer, 1, 1000, "how often each variant is measured, whatever design.stop says")},
			field{"warmup", false, briefly},
			field{"window", false, window},
			field{"sweep", false, named(variablePattern, values, "some of the values of some of the variables")},
			field{"variants", false, listOf(like(namePattern, ""), maxVariants, "some of the variants or steps")})})
	return root
}

// most returns how many entries a mapping of names may have.
func (s *spec) most() int {
	if s.max > 0 {
		return int(s.max)
	}
	return maxEntries
}

// field returns the spec of a mapping's entry, or nil.
func (s *spec) field(name string) *spec {
	for _, f := range s.fields {
		if f.name == name {
			return f.spec
		}
	}
	return s.item
}

// fieldNames returns the fields of a mapping.
func (s *spec) fieldNames() []string {
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.name
	}
	return names
}

// at returns the spec at a path, or nil.
func (s *spec) at(path string) *spec {
	for path != "" && s != nil {
		var step string
		if step, path, _ = strings.Cut(path, "."); s.kind != mapping {
			return nil
		}
		step, _, item := strings.Cut(step, "[")
		if s = s.field(step); item && s != nil {
			s = s.item
		}
	}
	return s
}

// whereIs returns the sections that know a field of this name.
func (s *spec) whereIs(name, path string) []string {
	var found []string
	for _, f := range s.fields {
		if f.name == name {
			found = append(found, path)
		}
		found = append(found, f.spec.whereIs(name, join(path, f.name))...)
	}
	if s.item != nil {
		step := "[]"
		if s.kind == mapping {
			step = ".NAME"
		}
		found = append(found, s.item.whereIs(name, path+step)...)
	}
	return found
}
