// Package quick makes experiments from flags: loads of one server (load.go), searches for the highest
// rate that it takes (search.go) and comparisons of two commands (compare.go). It asks a server only
// for its methods or models, where flags name none.
package quick

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/cli/arguments"
	"dyno/cli/foreign"
	"dyno/cli/planflags"
	"dyno/internal/fields"
	"dyno/judge/verdict/expr"
	"dyno/lab/plan"
	"dyno/lab/planfile"
	"dyno/lab/protocols"
)

// A Load is an experiment of one variant and one trial, made from flags.
type Load struct {
	fields      planflags.Flags
	connections int
	publishers  int
	listen      bool
	stages      []string
	unix        string

	http1, http2 bool // the version of HTTP, in place of the default

	calls   callFlags    // of gRPC
	request requestFlags // of HTTP

	search searchFlags // of the highest rate, instead of one that is given

	scenario string   // the file that says what users do
	data     []string // the files with their rows
	users    []string // a number, or stages

	abortUnless []string // thresholds that end the run
	abortAfter  time.Duration

	noServer bool // the server's process is not watched

	ports []string // the names that are templates in the URL: ports of a target that dyno starts

	Given func(flag string) bool        // reports whether the user gave it
	set   func(flag, text string) error // gives it another value
	stdin func() (string, error)        // what standard input holds; nil: it is not read
}

// Flags registers the flags of a load for targets with one of these protocols. Conditions is the flag for
// those of a search.
func (q *Load) Flags(f *pflag.FlagSet, stdin io.Reader, conditions string, protocols ...string) {
	ofLoad := func(field string) bool {
		if field == "load.call.message_file" && len(protocols) > 1 {
			return false // --data-file is for rows, as with HTTP; a message is in a file as -d @FILE
		}
		return strings.HasPrefix(field, "capacity.") || strings.HasPrefix(field, "load.") || strings.HasPrefix(field, "target.tls.") || field == "target.proxy" || field == "target.resolve_to" || field == "design.seed" || field == "observe.pid" || field == "awake" || field == "thresholds"
	}
	q.fields.Register(f, ofLoad, map[string]string{"warmup": "0"}, protocols...)
	q.search.register(f, conditions)
	q.ownFlags(f, stdin, protocols...)
}

// Fields that only targets have whose load is made of one kind of thing. Flags go by these.
const (
	ofRequests = "load.request"
	ofCalls    = "load.call"
	ofMessages = "load.scenario.steps[].message" // of calls, too
	ofStreams  = "load.subscribers"
)

// ownFlags registers the flags that are not fields of the file. Those that are must be registered.
func (q *Load) ownFlags(f *pflag.FlagSet, stdin io.Reader, protocols ...string) {
	have := func(field string) bool {
		return slices.ContainsFunc(protocols, func(p string) bool { return plan.Has(p, field) })
	}
	f.StringArrayVar(&q.abortUnless, "abort-unless", nil, "a threshold that ends the run, in order, as soon as its `CONDITION` does not hold, such as 'errors.ratio < 5%': judged each second by the window so far; may be repeated")
	f.DurationVar(&q.abortAfter, "abort-after", 0, "how long the window lasts until --abort-unless is judged (default a second)")
	connections := fmt.Sprintf("closed loop: connections, each with one request at a time (default 50); open loop: the most there may be (default %d)", plan.DefaultConnections)
	listens := have(ofStreams) && !have(ofMessages)
	if have(ofStreams) {
		connections = "subscribers"
		if !listens {
			connections = "connections that send messages, each one at a time, or that subscribe (default 50)"
			f.BoolVar(&q.listen, "subscribe-only", false, "connections send nothing: each message of the server is an event")
		}
		f.IntVar(&q.publishers, "publishers", 1, "closed loop: connections that publish; with --rate, the maximum")
	}
	http, grpc := have(ofRequests), have(ofCalls)
	if http {
		f.BoolVar(&q.http1, "http1", false, "speak HTTP/1.1, whatever the server would choose")
		f.BoolVar(&q.http2, "http2", false, "speak HTTP/2: by prior knowledge, and with https or not at all")
		q.request.flags(f)
	}
	switch {
	case http:
		f.StringArrayVar(&q.data, "data-file", nil, "a `FILE` of rows, CSV or JSON Lines; its columns stand for {{name}} in a scenario, or in the URL's path, --header and --body, in which {{ '{{' }} stands for braces; may be repeated")
	case have(ofMessages) && !grpc:
		f.StringArrayVar(&q.data, "data-file", nil, "a `FILE` of rows, CSV or JSON Lines; its columns stand for {{name}} in a scenario; may be repeated")
	}
	if http || have(ofMessages) {
		f.StringVar(&q.scenario, "scenario", "", "a `FILE` with what users do, as load.scenario has it in an experiment")
	}
	if !listens {
		f.StringSliceVar(&q.users, "users", nil, "closed loop: users over time, as `TIME:USERS,…`: in each stage their number goes linearly from where the last one ended, at first from none, to the stage's; or, of a scenario, a number of users (one for each request under way; open loop: the most there may be, 10000)")
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
	if !listens {
		f.Lookup("connections").DefValue = "0" // its usage has that of each loop
	}
	if len(protocols) > 1 {
		f.Lookup("call").Usage = "gRPC: the `method`, pkg.Service/Method"
	}
	f.StringSliceVar(&q.stages, "stages", nil, "open loop: the rate over time, as `TIME:RATE,…`: in each stage it goes linearly from where the last one ended, at first from zero, to the stage's rate; all of it is measured. --users does this for the users of a closed loop")
	f.BoolVar(&q.noServer, "no-server", false, "do not watch the server's process: no CPU time, no memory")
	f.StringVar(&q.unix, "unix", "", "connect to this Unix socket instead")
	q.Given, q.set, q.stdin = f.Changed, f.Set, q.fields.UseStdin(stdin)
}

// Args demands what stands after the flags: where the target is, and in gRPC which method is called.
// A flag may say either.
func (q *Load) Args(protocol, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		least, most := 1, 1
		switch {
		case plan.Has(protocol, ofCalls):
			if q.calls.method == "" {
				most = 2
			}
			if q.unix != "" {
				least, most = 0, most-1
			}
		case !plan.HasURL(protocol) && q.unix != "", q.request.targets != "":
			least = 0
		}
		if len(args) < least || len(args) > most {
			return arguments.ExactArgs(most, what)(cmd, args)
		}
		return nil
	}
}

// Plan makes a plan with one round of one variant, for a target at a URL or an address.
func (q *Load) Plan(protocol, where string) (*plan.Experiment, error) {
	e, faults := q.unjudged(protocol, where)
	e.Design.Rounds = 1
	e.Design.QuietWait = 0 // who asks for one load wants it at once
	return q.judgedPlan(e, faults)
}

// unjudged makes a plan of one variant, as far as the flags can be read.
func (q *Load) unjudged(protocol, where string) (e *plan.Experiment, faults []error) {
	e = plan.New(protocol, protocol)
	v := &e.Variants[0]
	var (
		requests []foreign.Target
		user     string
		hasUser  bool
		path     string // with the query, if it is a template
	)
	isHTTP := plan.Has(protocol, ofRequests)
	if isHTTP {
		where, user, hasUser = plan.CutUser(arguments.WithScheme(where))
		if q.request.targets != "" {
			var err error
			if requests, where, err = q.list(where); err != nil {
				faults = append(faults, err)
			}
		}
	}
	if isHTTP && len(q.data) > 0 && q.scenario == "" {
		where, path = cutPath(where)
	}
	if plan.Has(protocol, ofCalls) {
		where = q.calls.scheme(where, q.Given)
	}
	// Nothing else that is typed is a template, unless there are rows or a scenario.
	v.Plain = true
	if plan.HasURL(protocol) {
		v.Target.URL = plan.Quote(arguments.WithScheme(where), q.ports...)
	} else {
		v.Target.Address = plan.Quote(strings.TrimPrefix(where, protocol+"://"), q.ports...)
	}
	if q.unix != "" {
		v.Target.Address = plan.Quote("unix:" + q.unix)
	}
	v.Target.Complete()
	if isHTTP {
		faults = append(faults, q.connect(&v.Target)...)
	}
	faults = append(faults, q.fields.Fill(e)...)
	ending, wrong := q.aborts()
	e.Thresholds, faults = append(thresholds(e.Conditions()), ending...), append(faults, wrong...)
	v.Observe.Server = !q.noServer
	l := &v.Load
	faults = append(faults, q.shape(l)...)
	faults = append(faults, q.seek(e)...)
	if l.Requests > 0 && !q.Given("duration") {
		l.Window = 0
	}
	switch {
	case protocol != plan.WS:
	case !q.subscribes():
		l.Subscribers = nil
	case l.Subscribers == nil: // no other flag is about them
		l.Subscribers = plan.DefaultSubscribers()
	}
	if l.Subscribers != nil {
		return e, append(faults, q.streams(l)...)
	}
	if l.HTTP2 != nil {
		faults = append(faults, q.version(l.HTTP2)...)
	}
	switch {
	case plan.Has(protocol, ofMessages):
		if l.Call != nil {
			faults = append(faults, q.calls.fill(v)...)
		}
		faults = append(faults, q.playMessages(l)...)
	case l.Request != nil:
		if q.Given("body") && !q.Given("method") {
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
	connections := q.connections
	if l.Requests > 0 && !q.Given("connections") {
		connections = int(min(uint64(connections), l.Requests)) // there is no request for more
	}
	loop(l, connections, q.Given("connections"))
	return e, faults
}

// changesUsers tells whether the number of users changes over time.
func (q *Load) changesUsers() bool {
	return slices.ContainsFunc(q.users, func(text string) bool { return strings.Contains(text, ":") })
}

// shapeUsers gives a closed loop its stages.
func (q *Load) shapeUsers(l *plan.Load) (faults []error) {
	for _, other := range []struct{ flag, remedy string }{
		{"stages", "--users changes the number of users of a closed loop, --stages the rate of an open one; keep one of them"},
		{"rate", "users of a closed loop have no rate; keep --rate, or --users with its stages"},
		{"duration", "the stages of --users say how long to measure; keep one of them"},
		{"requests", "the stages of --users say how long to measure; keep one of them"},
	} {
		if q.Given(other.flag) {
			faults = append(faults, fmt.Errorf("--%s: %s", other.flag, other.remedy))
		}
	}
	l.Closed = &plan.Closed{}
	if q.Given("connections") {
		l.Closed.Connections = q.connections
	}
	stages, wrong := planfile.ReadStages(q.users, "users")
	for _, err := range wrong {
		faults = append(faults, fmt.Errorf("--users: %w", err))
	}
	if l.SetStages(stages); errors.Join(faults...) == nil && l.MostUsers() == 0 {
		faults = append(faults, errors.New("--users: there are none throughout; such as 30s:100"))
	}
	return faults
}

// shape gives a load its stages, or its ramp.
func (q *Load) shape(l *plan.Load) (faults []error) {
	switch {
	case q.changesUsers():
		return q.shapeUsers(l)
	case !q.Given("stages"):
		if l.Open != nil && l.Open.Ramp > 0 && !q.Given("rate") && !q.IsSearch() {
			faults = append(faults, errors.New("--ramp: there is no rate to reach; give it with --rate (-R)"))
		}
		return faults
	}
	for _, other := range []struct{ flag, remedy string }{
		{"rate", "the stages say what the rate is; keep one of them"},
		{"ramp", "the stages begin with a ramp; make it the first of them"},
		{"duration", "the stages say how long to measure; keep one of them"},
	} {
		if q.Given(other.flag) {
			faults = append(faults, fmt.Errorf("--%s: %s", other.flag, other.remedy))
		}
	}
	if l.Open == nil {
		l.Open = plan.DefaultOpen()
	}
	stages, wrong := planfile.ReadStages(q.stages, "rate")
	for _, err := range wrong {
		faults = append(faults, fmt.Errorf("--stages: %w", err))
	}
	l.SetStages(stages)
	return faults
}

// version says which HTTP is spoken.
func (q *Load) version(h *plan.HTTP2) (faults []error) {
	switch {
	case q.http1 && q.http2:
		return []error{errors.New("--http2: --http1 and --http2 exclude each other; keep one of them")}
	case q.http1:
		h.Use = plan.HTTP2Never
	case q.http2:
		h.Use = plan.HTTP2Always
	}
	return nil
}

// loop makes the loop closed if it is not open.
func loop(l *plan.Load, connections int, given bool) {
	switch {
	case l.Closed != nil: // with stages of users
	case l.Open == nil:
		l.Closed = &plan.Closed{Connections: connections}
	case given:
		l.Open.MaxConnections = connections
	}
}

// subscribes tells whether connections listen, rather than send messages and await the answers.
func (q *Load) subscribes() bool {
	return q.listen || slices.ContainsFunc([]string{"subscribe", "publish", "publish-message", "topics"}, q.Given)
}

// streams completes a load of subscribers, with publications if a path or a message for them is given.
func (q *Load) streams(l *plan.Load) (faults []error) {
	s := l.Subscribers
	s.Connections = q.connections
	if s.Slow != nil && s.Slow.Connections == 0 {
		s.Slow = nil
		if q.Given("slow-rate") {
			faults = append(faults, errors.New("--slow-rate: there are no slow subscribers; say how many with --slow"))
		}
	}
	if q.Given("publish") {
		l.Publish.Headers = s.Headers
	}
	if q.Given("publish") || q.Given("publish-message") {
		loop(l, q.publishers, q.Given("publishers"))
		return faults
	}
	needless := []string{"publishers", "stages", "capacity"}
	for _, f := range q.fields {
		if strings.HasPrefix(f.Field, "load.publish.") || strings.HasPrefix(f.Field, "load.open.") {
			needless = append(needless, f.Name)
		}
	}
	for _, flag := range needless {
		if q.Given(flag) {
			faults = append(faults, fmt.Errorf("--%s: nothing is published; give the path with --publish", flag))
		}
	}
	return faults
}

// judgedPlan checks a plan made from flags. It checks how its parts go together only if
// every flag could be read.
func (q *Load) judgedPlan(e *plan.Experiment, faults []error) (*plan.Experiment, error) {
	e.Complete()
	var names []string
	for _, v := range e.Variants {
		names = append(names, v.Name)
	}
	check, flag := expr.Checks.CheckThreshold, "threshold"
	if e.Capacity != nil {
		check, flag = expr.Checks.CheckProbe, q.search.flag
	}
	for _, t := range e.Thresholds {
		verify, flag := check, flag
		if t.Abort {
			verify, flag = expr.Checks.CheckAbort, "abort-unless"
		}
		if err := verify(t.Holds, names, e.Steps()); err != nil {
			faults = append(faults, fmt.Errorf("--%s %q: %w", flag, t.Holds, err))
		}
	}
	if err := expr.Checks.CheckMetric(e.Design.Metric, e.Steps()); err != nil {
		faults = append(faults, fmt.Errorf("--metric %q: %w", e.Design.Metric, err))
	}
	if len(faults) == 0 {
		faults = append(faults, q.inFlags(e.Validate()))
	}
	if errors.Join(faults...) == nil {
		faults = append(faults, q.inFlags(protocols.CheckScenarios(e)))
	}
	return e, errors.Join(faults...)
}

// inFlags names flags instead of fields in the faults of a plan: the user has typed flags,
// and has no file.
func (q *Load) inFlags(err error) error {
	var found *fields.Faults
	if errors.As(err, &found) {
		for i := range found.Faults {
			f := &found.Faults[i]
			f.Field, f.Problem = q.Renamed(f.Field), q.Renamed(f.Problem)
			f.Hint = strings.ReplaceAll(q.Renamed(f.Hint), "{{port}}", "8080") // only a file has a port that dyno chooses
		}
	}
	return err
}

// Renamed returns a text in which fields have the names of the flags that set them.
func (q *Load) Renamed(text string) string {
	stages := "--stages"
	if q.changesUsers() {
		stages = "--users"
	}
	return q.fields.Renamed(text, map[string]string{
		"target.url": "URL", "target.address": "ADDRESS", "load.stages": stages, "load.closed.connections": "--connections", "load.http2.use": "--http2",
	})
}
