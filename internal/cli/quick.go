package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/judge/verdict"
	"dyno/lab/experiment"
	"dyno/load/pace"
)

// A quickLoad is an experiment of one variant and one trial, made of flags.
type quickLoad struct {
	connections int
	requests    uint64
	rate        string
	arrivals    string
	duration    string
	warmup      string
	timeout     string
	workers     int
	cpus        string
	clock       string
	unix        string
	seed        uint64
	awake       bool
	thresholds  []string

	method  string
	headers []string
	body    string

	http2, http1, upgrade bool
	streams               int
	streamWindow, window  string
	perConnection         uint64
	tls                   experiment.TLS

	payload string
	framing string

	subscribers *experiment.Subscribers
	slow        experiment.Slow
	ramp        string
	publish     *experiment.Publish
	publishers  int
	size        string
	buffer      string

	given func(flag string) bool // whether the user gave it
}

// defaultDuration is how long a quick load measures when neither a duration nor
// a number of requests is given.
const defaultDuration = "10s"

func (q *quickLoad) defaults() {
	q.connections, q.arrivals, q.duration, q.warmup, q.timeout = 50, experiment.ArrivalsConstant, defaultDuration, "0", "30"
	q.method, q.payload, q.framing = "GET", "64", experiment.FramingEcho
	q.clock = experiment.ClockAuto
	q.subscribers, q.publish, q.publishers = experiment.DefaultSubscribers(), experiment.DefaultPublish(), 1
	q.streams, q.streamWindow, q.window = 1, "4MiB", "16MiB"
	q.seed = 1
	q.given = func(string) bool { return false }
}

// flags registers the flags with their present values as the defaults.
func (q *quickLoad) flags(f *pflag.FlagSet) {
	f.IntVarP(&q.connections, "connections", "c", q.connections, "closed loop: connections, each with one request under way; open loop: the most there may be")
	f.Uint64VarP(&q.requests, "requests", "n", 0, "end after so many requests")
	q.commonFlags(f)
}

// commonFlags registers the flags that every quick load has.
func (q *quickLoad) commonFlags(f *pflag.FlagSet) {
	f.StringVarP(&q.rate, "rate", "R", "", "open loop: requests in all, such as 5000, 5000/s or 300/min")
	f.StringVar(&q.arrivals, "arrivals", q.arrivals, "open loop: constant or poisson")
	f.StringVarP(&q.duration, "duration", "z", q.duration, "how long to measure; a bare number is seconds")
	f.StringVar(&q.warmup, "warmup", q.warmup, "load that is not measured, before that")
	f.StringVar(&q.timeout, "timeout", q.timeout, "of a response, from the write")
	f.IntVar(&q.workers, "workers", 0, "event loops, each a thread (default one per CPU of --cpus, else 1)")
	f.StringVar(&q.cpus, "cpus", "", "CPUs of the generator, such as 1 or 2-3")
	f.StringVar(&q.clock, "clock", q.clock, "what ends a response: arrival, by the kernel's time stamp; read, by the generator; auto, arrival unless a closed loop leaves it no time")
	f.StringVar(&q.unix, "unix", "", "connect to this Unix socket instead")
	f.Uint64Var(&q.seed, "seed", q.seed, "of everything random")
	f.BoolVar(&q.awake, "awake", false, "keep the CPUs in use from halting, for virtual machines whose host takes halted ones away")
	f.StringArrayVar(&q.thresholds, "threshold", nil, "a condition such as 'response.p99 < 80ms'; a broken one is exit code 99")
	q.given = f.Changed
}

func (q *quickLoad) httpFlags(f *pflag.FlagSet) {
	f.StringVarP(&q.method, "method", "X", q.method, "request method")
	f.StringArrayVarP(&q.headers, "header", "H", nil, "header line `'Name: value'`; may be repeated")
	f.StringVar(&q.body, "body", "", "request body, or @file")
	f.BoolVar(&q.http2, "http2", false, "speak HTTP/2: with http by prior knowledge; with https or not at all (default with https, if the server chooses it)")
	f.BoolVar(&q.http1, "http1", false, "speak HTTP/1.1, with https too")
	f.BoolVar(&q.upgrade, "upgrade-h2c", false, "begin in HTTP/1.1 and ask to go on in HTTP/2, with http")
	f.IntVar(&q.streams, "streams", q.streams, "HTTP/2: requests under way at once on each connection, if the server lets it")
	f.StringVar(&q.streamWindow, "stream-window", q.streamWindow, "HTTP/2: bytes of one response that may be under way")
	f.StringVar(&q.window, "connection-window", q.window, "HTTP/2: bytes of all responses that may be under way on a connection")
	f.BoolVar(&q.tls.Insecure, "insecure", false, "https: do not check the server's certificate")
	f.StringVar(&q.tls.CA, "cacert", "", "https: a file of authorities to trust (PEM; default the system's)")
	f.StringVar(&q.tls.Certificate, "cert", "", "https: a file with this side's certificate, for servers that ask for one")
	f.StringVar(&q.tls.Key, "key", "", "https: the file with its key")
	f.StringVar(&q.tls.ServerName, "server-name", "", "https: the name that is asked for and checked (default the URL's host)")
	f.BoolVar(&q.tls.Tickets, "tls-tickets", false, "https: resume sessions by tickets")
	f.StringVar(&q.tls.MinVersion, "tls-min", "", "https: the oldest version, 1.2 or 1.3 (default 1.2)")
	f.StringVar(&q.tls.MaxVersion, "tls-max", "", "https: the newest version, 1.2 or 1.3 (default 1.3)")
	q.connectionFlags(f)
}

// connectionFlags registers the flags on what becomes of connections.
func (q *quickLoad) connectionFlags(f *pflag.FlagSet) {
	f.Uint64Var(&q.perConnection, "requests-per-connection", 0, "close a connection after so many requests and open another (default no such limit)")
}

// securityFlags are those of https alone.
var securityFlags = []string{"insecure", "cacert", "cert", "key", "server-name", "tls-tickets", "tls-min", "tls-max"}

func (q *quickLoad) tcpFlags(f *pflag.FlagSet) {
	f.StringVar(&q.payload, "payload", q.payload, "bytes of a message, such as 64 or 1KiB")
	f.StringVar(&q.framing, "framing", q.framing, "echo: as many bytes back; line: up to a line feed; length-prefixed: 4 bytes of length, then that many")
}

func (a *app) httpCommand() *cobra.Command {
	var (
		q   quickLoad
		out output
	)
	cmd := &cobra.Command{
		Use:   "http URL",
		Short: "Load an HTTP server",
		Example: `  dyno http -c 64 -z 10s http://127.0.0.1:8080/
  dyno http -R 5000 --arrivals poisson http://127.0.0.1:8080/
  dyno http --http2 -c 8 --streams 16 https://127.0.0.1:8443/
  dyno http -c 16 --requests-per-connection 1 --insecure https://127.0.0.1:8443/
  dyno http -X POST -H 'Content-Type: application/json' --body @order.json http://127.0.0.1:8080/orders`,
		Args: exactArgs(1, "a URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := q.http(args[0])
			return a.quick(cmd.Context(), e, err, out)
		},
	}
	f := cmd.Flags()
	q.defaults()
	q.flags(f)
	q.httpFlags(f)
	out.flags(f, "none is kept")
	return cmd
}

func (a *app) tcpCommand() *cobra.Command {
	var (
		q   quickLoad
		out output
	)
	cmd := &cobra.Command{
		Use:   "tcp HOST:PORT",
		Short: "Load a TCP server with exchanges of messages",
		Example: `  dyno tcp -c 100 --payload 1KiB 127.0.0.1:7000
  dyno tcp --unix /run/echo.sock --framing line`,
		Args: func(cmd *cobra.Command, args []string) error {
			if q.unix != "" && len(args) == 0 {
				return nil
			}
			return exactArgs(1, "an address, or --unix")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := q.tcp(append(args, "")[0])
			return a.quick(cmd.Context(), e, err, out)
		},
	}
	f := cmd.Flags()
	q.defaults()
	q.flags(f)
	q.tcpFlags(f)
	q.connectionFlags(f)
	out.flags(f, "none is kept")
	return cmd
}

// sseFlags registers what a load of subscribers has, in place of flags.
func (q *quickLoad) sseFlags(f *pflag.FlagSet) {
	s, p := q.subscribers, q.publish
	f.IntVarP(&q.connections, "connections", "c", q.connections, "subscribers")
	f.StringVar(&q.ramp, "ramp", "", "subscribers opened per second, such as 1000/s (default as fast as the server accepts them)")
	f.IntVar(&s.Topics, "topics", s.Topics, "topics that subscribers are spread over: {topic} in the URL is a topic's number, from 0")
	f.StringArrayVarP(&q.headers, "header", "H", nil, "header line `'Name: value'` of subscriptions and publications; may be repeated")
	f.BoolVar(&s.Resume, "resume", s.Resume, "name the last event seen when coming back (Last-Event-ID)")
	f.StringVar(&s.GapEvent, "gap-event", s.GapEvent, "type of the event by which the server says that events are missing")
	f.IntVar(&q.slow.Connections, "slow", 0, "how many of the subscribers read slowly")
	f.IntVar(&q.slow.Rate, "slow-rate", 0, "bytes per second that each of those reads; 0 is nothing at all")
	f.StringVar(&q.buffer, "receive-buffer", "", "SO_RCVBUF of subscribers, such as 16KiB")
	f.StringVar(&p.Path, "publish", "", "publish events too, by requests to this path, in which {topic} is a topic's number")
	f.StringVar(&q.size, "size", "100", "bytes of an event that is published")
	f.StringVar(&p.Form, "form", p.Form, "how it is published: raw, the data is the content; mercure, form fields topic and data")
	f.StringVar(&p.Topic, "topic", "", "form mercure: the topic's name, with {topic} for its number")
	f.IntVar(&q.publishers, "publishers", q.publishers, "closed loop: connections that publish; with --rate, the most there may be")
	q.commonFlags(f)
}

func (a *app) sseCommand() *cobra.Command {
	var (
		q   quickLoad
		out output
	)
	cmd := &cobra.Command{
		Use:   "sse URL",
		Short: "Load a server of server-sent events with subscribers, and publish to them",
		Example: `  dyno sse -c 1000 http://127.0.0.1:8080/events
  dyno sse -c 1000 --publish '/publish?topic=a' -R 50 'http://127.0.0.1:8080/events?topic=a'
  dyno sse -c 1000 --topics 10 --publish '/publish?topic=t{topic}' --publishers 4 'http://127.0.0.1:8080/events?topic=t{topic}'`,
		Args: exactArgs(1, "a URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, faults := q.sseVariant(args[0])
			e, err := q.experiment("sse", faults, v)
			return a.quick(cmd.Context(), e, err, out)
		},
	}
	f := cmd.Flags()
	q.defaults()
	q.sseFlags(f)
	out.flags(f, "none is kept")
	return cmd
}

// sseVariant returns the plan of subscribers, and of publications where a path for
// them is given.
func (q *quickLoad) sseVariant(url string) (v experiment.Variant, faults []error) {
	fault := func(flag string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	v = experiment.DefaultVariant(experiment.SSE)
	v.Target.URL = withScheme(url)
	if q.unix != "" {
		v.Target.Address = "unix:" + q.unix
	}
	v.Target.Complete()
	headers, bad := q.parseHeaders()
	faults = append(faults, bad...)
	v.Load.Subscribers = q.subscribers
	s := v.Load.Subscribers
	s.Connections, s.Headers = q.connections, headers
	var err error
	if q.ramp != "" {
		s.Ramp, err = pace.ParseRate(q.ramp)
		fault("ramp", err)
	}
	if q.buffer != "" {
		s.ReceiveBuffer, err = experiment.ParseSize(q.buffer)
		fault("receive-buffer", err)
	}
	if q.slow.Connections > 0 {
		s.Slow = &q.slow
	} else if q.given("slow-rate") {
		fault("slow-rate", errors.New("there are no slow subscribers; say how many with --slow"))
	}
	publish := q.publish.Path != ""
	for _, flag := range []string{"size", "form", "topic", "publishers", "rate", "arrivals"} {
		if !publish && q.given(flag) {
			fault(flag, errors.New("nothing is published; give the path with --publish"))
		}
	}
	faults = append(faults, q.load(&v.Load)...)
	if !publish {
		v.Load.Closed, v.Load.Open = nil, nil
		return v, faults
	}
	v.Load.Publish = q.publish
	v.Load.Publish.Headers = headers
	v.Load.Publish.Size, err = experiment.ParseSize(q.size)
	fault("size", err)
	switch {
	case v.Load.Open == nil:
		v.Load.Closed.Connections = q.publishers
	case q.given("publishers"):
		v.Load.Open.MaxConnections = q.publishers
	default:
		v.Load.Open.MaxConnections = experiment.DefaultOpen().MaxConnections
	}
	return v, faults
}

// parseHeaders reads the header lines that were given.
func (q *quickLoad) parseHeaders() (headers []experiment.Header, faults []error) {
	for _, h := range q.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			faults = append(faults, fmt.Errorf("--header %q: want 'Name: value'", h))
			continue
		}
		headers = append(headers, experiment.Header{Name: name, Value: strings.TrimSpace(value)})
	}
	return headers, faults
}

func (a *app) quick(ctx context.Context, e *experiment.Experiment, err error, out output) error {
	if err != nil {
		return &failure{exitUsage, err, ""}
	}
	return a.measure(ctx, job{experiment: e, output: out, quick: true})
}

// http returns the plan of one trial of an HTTP server.
func (q *quickLoad) http(url string) (*experiment.Experiment, error) {
	v, faults := q.httpVariant(url)
	return q.experiment("http", faults, v)
}

// tcp returns the plan of one trial of a TCP server.
func (q *quickLoad) tcp(address string) (*experiment.Experiment, error) {
	v, faults := q.tcpVariant(address)
	return q.experiment("tcp", faults, v)
}

func (q *quickLoad) httpVariant(url string) (v experiment.Variant, faults []error) {
	v = experiment.DefaultVariant(experiment.HTTP)
	v.Target.URL = withScheme(url)
	if q.unix != "" {
		v.Target.Address = "unix:" + q.unix
	}
	r := v.Load.Request
	r.Method = q.method
	r.Headers, faults = q.parseHeaders()
	r.Body = q.body
	if file, ok := strings.CutPrefix(q.body, "@"); ok {
		body, err := os.ReadFile(file)
		if err != nil {
			faults = append(faults, fmt.Errorf("--body: %w", err))
		}
		r.Body = string(body)
	}
	v.Target.Complete()
	faults = append(faults, q.protocol(&v)...)
	return v, append(faults, q.load(&v.Load)...)
}

// protocol says which HTTP is spoken, and how connections are secured.
func (q *quickLoad) protocol(v *experiment.Variant) (faults []error) {
	fault := func(flag string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	h := v.Load.HTTP2
	for _, choice := range []struct {
		given bool
		flag  string
		use   string
	}{
		{q.http1, "http1", experiment.HTTP2Never},
		{q.http2, "http2", experiment.HTTP2Always},
		{q.upgrade, "upgrade-h2c", experiment.HTTP2Upgrade},
	} {
		switch {
		case !choice.given:
		case h.Use != experiment.HTTP2Auto:
			fault(choice.flag, errors.New("--http1, --http2 and --upgrade-h2c exclude each other; keep one of them"))
		default:
			h.Use = choice.use
		}
	}
	h.Streams = q.streams
	var err error
	if q.given("stream-window") {
		h.StreamWindow, err = experiment.ParseSize(q.streamWindow)
		fault("stream-window", err)
	}
	if q.given("connection-window") {
		h.ConnectionWindow, err = experiment.ParseSize(q.window)
		fault("connection-window", err)
	}
	for _, flag := range securityFlags {
		if q.given(flag) {
			v.Target.TLS = &q.tls
		}
	}
	return faults
}

func (q *quickLoad) tcpVariant(address string) (v experiment.Variant, faults []error) {
	v = experiment.DefaultVariant(experiment.TCP)
	v.Target.Address = address
	if q.unix != "" {
		v.Target.Address = "unix:" + q.unix
	}
	size, err := experiment.ParseSize(q.payload)
	if err != nil {
		faults = append(faults, fmt.Errorf("--payload: %w", err))
	}
	v.Load.Payload, v.Load.Framing = size, q.framing
	v.Target.Complete()
	return v, append(faults, q.load(&v.Load)...)
}

// load completes a load. It reports the faults of all flags.
func (q *quickLoad) load(l *experiment.Load) (faults []error) {
	fault := func(flag string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	for _, d := range []struct {
		flag, value string
		to          *time.Duration
	}{
		{"duration", q.duration, &l.Window},
		{"warmup", q.warmup, &l.Warmup},
		{"timeout", q.timeout, &l.Timeout},
	} {
		if d.flag == "warmup" && d.value == automatic {
			l.Warmup = 0 // a pilot will say
			continue
		}
		var err error
		*d.to, err = experiment.ParseDuration(d.value)
		fault(d.flag, err)
	}
	if l.Requests = q.requests; q.requests > 0 && !q.given("duration") {
		l.Window = 0
	}
	l.RequestsPerConnection = q.perConnection
	l.Workers = q.workers
	l.Clock = q.clock
	if q.cpus != "" {
		var err error
		l.CPUs, err = experiment.ParseCPUs(q.cpus)
		fault("cpus", err)
	}
	if q.rate == "" {
		l.Closed = &experiment.Closed{Connections: q.connections, Think: experiment.Think{Distribution: experiment.ThinkNone}}
		return faults
	}
	rate, err := pace.ParseRate(q.rate)
	fault("rate", err)
	l.Open = experiment.DefaultOpen()
	l.Open.Rate, l.Open.Arrivals = rate, q.arrivals
	if q.given("connections") {
		l.Open.MaxConnections = q.connections
	}
	return faults
}

// experiment makes a plan of one round of these variants. It judges the plan
// only when each flag could be read.
func (q *quickLoad) experiment(name string, faults []error, variants ...experiment.Variant) (*experiment.Experiment, error) {
	e := &experiment.Experiment{
		Name:       name,
		Awake:      q.awake,
		Design:     experiment.Design{Rounds: 1, Seed: q.seed},
		Variants:   variants,
		Thresholds: q.thresholds,
	}
	return judgedPlan(e, faults)
}

// judgedPlan checks a plan made of flags. Only when each flag could be read, its
// parts are held against each other.
func judgedPlan(e *experiment.Experiment, faults []error) (*experiment.Experiment, error) {
	e.Complete()
	var names []string
	for _, v := range e.Variants {
		names = append(names, v.Name)
	}
	for _, t := range e.Thresholds {
		if err := verdict.CheckThreshold(t, names); err != nil {
			faults = append(faults, fmt.Errorf("--threshold %q: %w", t, err))
		}
	}
	if err := verdict.CheckMetric(e.Design.Metric); err != nil {
		faults = append(faults, fmt.Errorf("--metric %q: %w", e.Design.Metric, err))
	}
	if len(faults) == 0 {
		faults = append(faults, e.Validate())
	}
	return e, errors.Join(faults...)
}
