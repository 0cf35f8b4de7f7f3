package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/internal/cli/command"
	"dyno/internal/cli/fields"
	"dyno/internal/cli/foreign"
	"dyno/judge/verdict/expr"
	"dyno/lab/experiment"
	"dyno/lab/trial"
)

// A quickLoad is an experiment of one variant and one trial, made from flags.
type quickLoad struct {
	fields      fields.Flags
	connections int
	publishers  int
	stages      []string
	unix        string

	http1, http2 bool // the version of HTTP, in place of the default

	calls   callFlags    // of gRPC
	request requestFlags // of HTTP

	search searchFlags // of the highest rate, instead of one that is given

	scenario string   // the file that says what users do
	data     []string // the files with their rows
	users    int

	noServer bool // the server's process is not watched

	ports []string // the names that are templates in the URL: ports of a target that dyno starts

	given func(flag string) bool // reports whether the user gave it
	stdin func() (string, error) // what standard input holds; nil: it is not read
}

// flags registers the flags of a load for targets with one of these protocols.
func (q *quickLoad) flags(f *pflag.FlagSet, protocols ...string) {
	q.flagsWith(f, "capacity", protocols...)
}

// flagsWith registers the flags of a load, with the flag for the conditions of a search.
func (q *quickLoad) flagsWith(f *pflag.FlagSet, conditions string, protocols ...string) {
	ofLoad := func(field string) bool {
		if field == "load.call.message_file" && len(protocols) > 1 {
			return false // --data-file is for rows, as with HTTP; a message is in a file as -d @FILE
		}
		return strings.HasPrefix(field, "capacity.") || strings.HasPrefix(field, "load.") || strings.HasPrefix(field, "target.tls.") || field == "target.proxy" || field == "design.seed" || field == "observe.pid" || field == "awake" || field == "thresholds"
	}
	q.fields.Register(f, ofLoad, map[string]string{"warmup": "0"}, protocols...)
	q.search.register(f, conditions)
	q.ownFlags(f, protocols...)
}

// ownFlags registers the flags that are not fields of the file.
func (q *quickLoad) ownFlags(f *pflag.FlagSet, protocols ...string) {
	connections := "closed loop: connections, each with one request at a time; open loop: the maximum"
	if slices.Contains(protocols, experiment.SSE) {
		connections = "subscribers"
		f.IntVar(&q.publishers, "publishers", 1, "closed loop: connections that publish; with --rate, the maximum")
	}
	http, grpc, tcp := slices.Contains(protocols, experiment.HTTP), slices.Contains(protocols, experiment.GRPC), slices.Contains(protocols, experiment.TCP)
	if http {
		f.BoolVar(&q.http1, "http1", false, "speak HTTP/1.1, whatever the server would choose")
		f.BoolVar(&q.http2, "http2", false, "speak HTTP/2: by prior knowledge, and with https or not at all")
		q.request.flags(f)
	}
	switch {
	case http:
		f.StringArrayVar(&q.data, "data-file", nil, "a `FILE` of rows, CSV or JSON Lines; its columns stand for {{name}} in a scenario, or in the URL's path, --header and --body, in which {{ '{{' }} stands for braces; may be repeated")
	case tcp:
		f.StringArrayVar(&q.data, "data-file", nil, "a `FILE` of rows, CSV or JSON Lines; its columns stand for {{name}} in a scenario; may be repeated")
	}
	if http || grpc || tcp {
		f.StringVar(&q.scenario, "scenario", "", "a `FILE` with what users do, as load.scenario has it in an experiment")
		f.IntVar(&q.users, "users", 0, "closed loop: users of a scenario; open loop: the most there may be (closed loop: one for each request under way; open loop: 10000)")
	}
	if grpc && !http {
		f.BoolVar(&q.http1, "http1", false, "gRPC-Web: speak HTTP/1.1, whatever the server would choose")
		f.BoolVar(&q.http2, "http2", false, "gRPC-Web: speak HTTP/2: by prior knowledge, and with https or not at all")
	}
	if grpc {
		q.calls.flags(f, &q.connections, connections)
	} else {
		f.IntVarP(&q.connections, "connections", "c", 50, connections)
	}
	f.StringSliceVar(&q.stages, "stages", nil, "open loop: the rate over time, as `TIME:RATE,…`: in each stage it goes linearly from where the last one ended, at first from zero, to the stage's rate; all of it is measured")
	f.BoolVar(&q.noServer, "no-server", false, "do not watch the server's process: no CPU time, no memory")
	f.StringVar(&q.unix, "unix", "", "connect to this Unix socket instead")
	q.given = f.Changed
}

// A quickCommand is a protocol that has a command for quick loads.
type quickCommand struct {
	protocol, use, short, example string
	long                          string
	where                         string // what its argument is
	socket                        bool   // --unix may replace it
	method                        bool   // a second argument is a method
}

func quickCommands() []quickCommand {
	return []quickCommand{{
		protocol: experiment.HTTP, use: "http URL", where: "a URL",
		short: "Load an HTTP server",
		example: `  dyno http -c 64 -z 10s http://127.0.0.1:8080/
  dyno http -R 5000 --arrivals poisson http://127.0.0.1:8080/
  dyno http --stages 30s:1000,5m:5000 http://127.0.0.1:8080/
  dyno http --http2 -c 8 --streams 16 https://127.0.0.1:8443/
  dyno http -c 16 --requests-per-connection 1 --insecure https://127.0.0.1:8443/
  dyno http --data-file users.csv 'http://127.0.0.1:8080/users/{{id}}?n={{counter()}}'
  dyno http --scenario shop.yaml --users 500 -c 50 http://127.0.0.1:8080/
  dyno http -H 'Content-Type: application/json' --body @order.json http://127.0.0.1:8080/orders
  dyno http --basic-auth '$CREDENTIALS' --form photo=@cat.png http://127.0.0.1:8080/photos
  dyno http --connect-to example.com:443:127.0.0.1:8443 https://example.com/
  dyno http --targets requests.txt -R 1000 -z 30s`,
	}, {
		protocol: experiment.GRPC, use: "grpc HOST:PORT [pkg.Service/Method]", where: "an address, and a method", method: true,
		short: "Load a gRPC server with calls, or list its services and methods",
		long: `Load a gRPC server with calls of one method; or, without a method, list its services and
methods, and with a service what its messages look like.

What messages are made of, --proto or --protoset says, or else the server, by reflection.
Messages are written in JSON, one or several, one after another; with -d @ they are read from
standard input. HOST:PORT is spoken to without TLS, https://HOST:PORT with TLS;
--tls, --cacert, --cert and --key mean TLS, too. With TLS, --insecure skips the check of the
certificate; without, it changes nothing, as in ghz, where it means without TLS.

-c is the number of connections, and --streams how many calls are under way on each: what is
-c 100 --connections 4 in ghz is --connections 4 --streams 25 here.`,
		example: `  dyno grpc 127.0.0.1:50051
  dyno grpc 127.0.0.1:50051 dyno.echo.v1.Echo
  dyno grpc -c 8 --streams 16 -d '{"text": "hello"}' 127.0.0.1:50051 dyno.echo.v1.Echo/Echo
  dyno grpc --proto echo.proto -d @message.json https://example.com:443 dyno.echo.v1.Echo/Echo
  head -n 100 messages.json | dyno grpc -d @ 127.0.0.1:50051 dyno.echo.v1.Echo/Echo
  dyno grpc --rows users.csv -d '{"text": "{{name}}"}' 127.0.0.1:50051 dyno.echo.v1.Echo/Echo
  dyno grpc --scenario calls.yaml --users 500 -c 8 --streams 16 127.0.0.1:50051
  dyno grpc -d '{"text": "a"}' --messages 100 127.0.0.1:50051 dyno.echo.v1.Echo/Chat
  dyno grpc --web text -d '{}' http://127.0.0.1:8080 dyno.echo.v1.Echo/Echo`,
	}, {
		protocol: experiment.TCP, use: "tcp HOST:PORT", where: "an address, or --unix", socket: true,
		short: "Load a TCP server with exchanges of messages",
		example: `  dyno tcp -c 100 --payload 1KiB 127.0.0.1:7000
  dyno tcp --scenario session.yaml --users 500 -c 50 --framing line 127.0.0.1:7000
  dyno tcp --unix /run/echo.sock --framing line`,
	}, {
		protocol: experiment.SSE, use: "sse URL", where: "a URL",
		short: "Load a server of server-sent events with subscribers, and publish to them",
		example: `  dyno sse -c 1000 http://127.0.0.1:8080/events
  dyno sse -c 1000 --cacert ca.pem https://127.0.0.1:8443/events
  dyno sse -c 1000 --publish '/publish?topic=a' -R 50 'http://127.0.0.1:8080/events?topic=a'
  dyno sse --topics 10 --publish '/pub?topic={topic}' 'http://127.0.0.1:8080/events?topic={topic}'`,
	}, {
		protocol: experiment.LLM, use: "llm URL", where: "a URL",
		short: "Load a server of language models, and time the tokens of its answers",
		long: `Load a server of language models that speaks OpenAI's API, and time the tokens of its
answers, which are streamed over HTTP/1.1. The URL goes up to /v1, or to the API's path.

first_token is the time from when a request was due until the first piece of its answer
(TTFT), token_time the time per token after that, on average over an answer (TPOT),
message_gap the time between two pieces (ITL). Goodput is the answers per second that keep
within both of --slo-first-token and --slo-token-time.`,
		example: `  dyno llm -c 16 http://127.0.0.1:9000/v1
  dyno llm -R 20 --slo-first-token 500ms --slo-token-time 50ms http://127.0.0.1:9000/v1
  dyno llm --model dyno-1 --prompts prompts.jsonl -H @credentials https://example.com/v1
  dyno llm --options '{"temperature":0}' --threshold 'first_token.p99 < 1s' http://127.0.0.1:9000/v1`,
	}}
}

func (a *app) quickCommand(c quickCommand) *cobra.Command {
	var (
		q   quickLoad
		out output
	)
	cmd := &cobra.Command{
		Use: c.use, Short: c.short, Long: c.long, Example: c.example,
		Args: func(cmd *cobra.Command, args []string) error {
			if c.socket && q.unix != "" && len(args) == 0 {
				return nil
			}
			if q.request.targets != "" && len(args) == 0 {
				return nil
			}
			if c.method {
				return q.calls.args(cmd, args, c.where, q.unix != "")
			}
			return command.ExactArgs(1, c.where)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.method {
				return a.call(cmd.Context(), &q, args, out)
			}
			if c.protocol == experiment.LLM {
				if err := q.chooseModel(cmd, args[0]); err != nil {
					return err
				}
			}
			where := append(args, "")[0]
			if a.bare && !q.given("requests") { // else the server gets as many as were asked for
				if err := q.meant(cmd.Context(), where); err != nil {
					return err
				}
			}
			return a.quick(cmd.Context(), &q, c.protocol, where, out)
		},
	}
	q.flags(cmd.Flags(), c.protocol)
	q.stdin = q.fields.UseStdin(a.stdin)
	out.flags(cmd.Flags(), "none is kept")
	cmd.Flags().BoolVar(&out.histogram, "histogram", false, "draw the latencies, too")
	a.groupHelp(cmd, mostUsed)
	return cmd
}

// An anotherCommand is the error of a load without a command whose server needs another one than http.
type anotherCommand struct{ command, url, answers string }

func (o *anotherCommand) Error() string {
	return fmt.Sprintf("%s answers %s: this is dyno %s", o.url, o.answers, o.command)
}

// meant asks the server what it speaks, and returns an error if another command loads it.
func (q *quickLoad) meant(ctx context.Context, where string) error {
	e, err := q.plan(experiment.HTTP, where)
	if err != nil || e.Variants[0].Load.Scenario != nil || e.Variants[0].Fill(nil) != nil {
		return nil //nolint:nilerr // the load reports it
	}
	v := &e.Variants[0]
	answer := trial.Ask(ctx, v)
	switch command := answer.Command(); command {
	case "":
		return nil
	case trial.OverHTTP2:
		return &anotherCommand{command, v.Target.URL, "over HTTP/2 only"}
	default:
		return &anotherCommand{command, v.Target.URL, "with " + answer.Media}
	}
}

// quick carries out what the flags say for a target at a URL or an address.
func (a *app) quick(ctx context.Context, q *quickLoad, protocol, where string, out output) error {
	e, err := q.plan(protocol, where)
	if err != nil {
		return command.Fail(command.ExitUsage, err, "")
	}
	return a.measure(ctx, job{experiment: e, output: out, quick: true, flags: q})
}

// plan makes a plan with one round of one variant, for a target at a URL or an address.
func (q *quickLoad) plan(protocol, where string) (*experiment.Experiment, error) {
	e, faults := q.unjudged(protocol, where)
	e.Design.Rounds = 1
	return q.judgedPlan(e, faults)
}

// unjudged makes a plan of one variant, as far as the flags can be read.
func (q *quickLoad) unjudged(protocol, where string) (e *experiment.Experiment, faults []error) {
	e = experiment.New(protocol, protocol)
	v := &e.Variants[0]
	var (
		requests []foreign.Target
		user     string
		hasUser  bool
		path     string // with the query, if it is a template
	)
	if protocol == experiment.HTTP {
		where, user, hasUser = experiment.CutUser(command.WithScheme(where))
		if q.request.targets != "" {
			var err error
			if requests, where, err = q.list(where); err != nil {
				faults = append(faults, err)
			}
		}
	}
	if protocol == experiment.HTTP && len(q.data) > 0 && q.scenario == "" {
		where, path = cutPath(where)
	}
	if protocol == experiment.GRPC {
		where = q.calls.scheme(where, q.given)
	}
	// Nothing else that is typed is a template, unless there are rows or a scenario.
	v.Plain = true
	if experiment.HasURL(protocol) {
		v.Target.URL = experiment.Quote(command.WithScheme(where), q.ports...)
	} else {
		v.Target.Address = experiment.Quote(where, q.ports...)
	}
	if q.unix != "" {
		v.Target.Address = experiment.Quote("unix:" + q.unix)
	}
	v.Target.Complete()
	if protocol == experiment.HTTP {
		faults = append(faults, q.connect(&v.Target)...)
	}
	faults = append(faults, q.fields.Fill(e)...)
	v.Observe.Server = !q.noServer
	l := &v.Load
	faults = append(faults, q.shape(l)...)
	faults = append(faults, q.seek(e)...)
	if l.Requests > 0 && !q.given("duration") {
		l.Window = 0
	}
	if l.Subscribers != nil {
		return e, append(faults, q.streams(l)...)
	}
	if l.HTTP2 != nil {
		faults = append(faults, q.version(l.HTTP2)...)
	}
	switch {
	case l.Call != nil:
		faults = append(faults, q.calls.fill(v)...)
		faults = append(faults, q.playMessages(l)...)
	case protocol == experiment.TCP:
		faults = append(faults, q.playMessages(l)...)
	case l.Request != nil:
		if q.given("body") && !q.given("method") {
			l.Request.Method = "POST" // as in curl, though the body may be empty
		}
		if err := q.authorize(l.Request, user, hasUser); err != nil {
			faults = append(faults, err)
		}
		if requests != nil {
			faults = append(faults, q.playList(l, requests)...)
			break
		}
		faults = append(faults, q.fillForm(l.Request, e.Design.Seed)...)
		faults = append(faults, q.play(l, path)...)
	}
	loop(l, q.connections, q.given("connections"))
	return e, faults
}

// shape gives an open loop its stages, or its ramp.
func (q *quickLoad) shape(l *experiment.Load) (faults []error) {
	if !q.given("stages") {
		if l.Open != nil && l.Open.Ramp > 0 && !q.given("rate") && len(q.search.conditions) == 0 {
			faults = append(faults, errors.New("--ramp: there is no rate to reach; give it with --rate (-R)"))
		}
		return faults
	}
	for _, other := range []struct{ flag, remedy string }{
		{"rate", "the stages say what the rate is; keep one of them"},
		{"ramp", "the stages begin with a ramp; make it the first of them"},
		{"duration", "the stages say how long to measure; keep one of them"},
	} {
		if q.given(other.flag) {
			faults = append(faults, fmt.Errorf("--%s: %s", other.flag, other.remedy))
		}
	}
	if l.Open == nil {
		l.Open = experiment.DefaultOpen()
	}
	stages, wrong := experiment.ReadStages(q.stages)
	for _, err := range wrong {
		faults = append(faults, fmt.Errorf("--stages: %w", err))
	}
	l.Open.Stages, l.Window = stages, 0
	for _, s := range stages {
		l.Window += s.Duration
	}
	return faults
}

// version says which HTTP is spoken.
func (q *quickLoad) version(h *experiment.HTTP2) (faults []error) {
	switch {
	case q.http1 && q.http2:
		return []error{errors.New("--http2: --http1 and --http2 exclude each other; keep one of them")}
	case q.http1:
		h.Use = experiment.HTTP2Never
	case q.http2:
		h.Use = experiment.HTTP2Always
	}
	return nil
}

// loop makes the loop closed if it is not open.
func loop(l *experiment.Load, connections int, given bool) {
	switch {
	case l.Open == nil:
		l.Closed = &experiment.Closed{Connections: connections}
	case given:
		l.Open.MaxConnections = connections
	}
}

// streams completes a load of subscribers, with publications if a path for them is given.
func (q *quickLoad) streams(l *experiment.Load) (faults []error) {
	s := l.Subscribers
	s.Connections = q.connections
	if s.Slow != nil && s.Slow.Connections == 0 {
		s.Slow = nil
		if q.given("slow-rate") {
			faults = append(faults, errors.New("--slow-rate: there are no slow subscribers; say how many with --slow"))
		}
	}
	if q.given("publish") {
		l.Publish.Headers = s.Headers
		loop(l, q.publishers, q.given("publishers"))
		return faults
	}
	needless := []string{"publishers", "stages", "capacity"}
	for _, f := range q.fields {
		if strings.HasPrefix(f.Field, "load.publish.") || strings.HasPrefix(f.Field, "load.open.") {
			needless = append(needless, f.Name)
		}
	}
	for _, flag := range needless {
		if q.given(flag) {
			faults = append(faults, fmt.Errorf("--%s: nothing is published; give the path with --publish", flag))
		}
	}
	return faults
}

// judgedPlan checks a plan made from flags. It checks how its parts go together only if
// every flag could be read.
func (q *quickLoad) judgedPlan(e *experiment.Experiment, faults []error) (*experiment.Experiment, error) {
	e.Complete()
	var names []string
	for _, v := range e.Variants {
		names = append(names, v.Name)
	}
	check, flag := expr.CheckThreshold, "threshold"
	if e.Capacity != nil {
		check, flag = expr.CheckProbe, q.search.flag
	}
	for _, t := range e.Thresholds {
		if err := check(t, names, e.Steps()); err != nil {
			faults = append(faults, fmt.Errorf("--%s %q: %w", flag, t, err))
		}
	}
	if err := expr.CheckMetric(e.Design.Metric, e.Steps()); err != nil {
		faults = append(faults, fmt.Errorf("--metric %q: %w", e.Design.Metric, err))
	}
	if len(faults) == 0 {
		faults = append(faults, q.inFlags(e.Validate()))
	}
	if errors.Join(faults...) == nil {
		faults = append(faults, q.inFlags(e.CheckScenarios()))
	}
	return e, errors.Join(faults...)
}

// inFlags returns the faults of a plan for somebody who has typed flags, and has no file.
func (q *quickLoad) inFlags(err error) error {
	var found *experiment.Faults
	if errors.As(err, &found) {
		for i := range found.Faults {
			f := &found.Faults[i]
			f.Field, f.Problem = q.renamed(f.Field), q.renamed(f.Problem)
			f.Hint = strings.ReplaceAll(q.renamed(f.Hint), "{{port}}", "8080") // only a file has a port that dyno chooses
		}
	}
	return err
}

// renamed returns a text in which fields have the names of the flags that set them.
func (q *quickLoad) renamed(text string) string {
	return q.fields.Renamed(text, map[string]string{
		"target.url": "URL", "target.address": "ADDRESS", "load.stages": "--stages", "load.closed.connections": "--connections", "load.http2.use": "--http2",
	})
}
