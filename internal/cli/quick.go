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

	"dyno/experiment"
	"dyno/pace"
	"dyno/verdict"
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
	unix        string
	seed        uint64
	awake       bool
	thresholds  []string

	method  string
	headers []string
	body    string

	payload string
	framing string

	given func(flag string) bool // whether the user gave it
}

// defaultDuration is how long a quick load measures when neither a duration nor
// a number of requests is given.
const defaultDuration = "10s"

func (q *quickLoad) defaults() {
	q.connections, q.arrivals, q.duration, q.warmup, q.timeout = 50, experiment.ArrivalsConstant, defaultDuration, "0", "30"
	q.method, q.payload, q.framing = "GET", "64", experiment.FramingEcho
	q.seed = 1
	q.given = func(string) bool { return false }
}

// flags registers the flags with their present values as the defaults.
func (q *quickLoad) flags(f *pflag.FlagSet) {
	f.IntVarP(&q.connections, "connections", "c", q.connections, "closed loop: connections, each with one request under way; open loop: the most there may be")
	f.Uint64VarP(&q.requests, "requests", "n", 0, "end after so many requests")
	f.StringVarP(&q.rate, "rate", "R", "", "open loop: requests in all, such as 5000, 5000/s or 300/min")
	f.StringVar(&q.arrivals, "arrivals", q.arrivals, "open loop: constant or poisson")
	f.StringVarP(&q.duration, "duration", "z", q.duration, "how long to measure; a bare number is seconds")
	f.StringVar(&q.warmup, "warmup", q.warmup, "load that is not measured, before that")
	f.StringVar(&q.timeout, "timeout", q.timeout, "of a response, from the write")
	f.IntVar(&q.workers, "workers", 0, "event loops, each a thread (default one per CPU of --cpus, else 1)")
	f.StringVar(&q.cpus, "cpus", "", "CPUs of the generator, such as 1 or 2-3")
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
}

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
		Short: "Load an HTTP/1.1 server",
		Example: `  dyno http -c 64 -z 10s http://127.0.0.1:8080/
  dyno http -R 5000 --arrivals poisson http://127.0.0.1:8080/
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
	out.flags(f, "none is kept")
	return cmd
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
	v.Target.URL = url
	if q.unix != "" {
		v.Target.Address = "unix:" + q.unix
	}
	r := v.Load.Request
	r.Method = q.method
	for _, h := range q.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			faults = append(faults, fmt.Errorf("--header %q: want 'Name: value'", h))
			continue
		}
		r.Headers = append(r.Headers, experiment.Header{Name: name, Value: strings.TrimSpace(value)})
	}
	r.Body = q.body
	if file, ok := strings.CutPrefix(q.body, "@"); ok {
		body, err := os.ReadFile(file)
		if err != nil {
			faults = append(faults, fmt.Errorf("--body: %w", err))
		}
		r.Body = string(body)
	}
	v.Target.Complete()
	return v, append(faults, q.load(&v.Load)...)
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
	l.Workers = q.workers
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
