package experiment

import (
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"dyno/load/feed"
	"dyno/load/scenario"
	"dyno/load/wire"
	"dyno/load/wire/tlslayer"
)

// A protocol is what a target may speak. To add one is to write a file like tcp.go: a
// struct of the fields that a load has for it, embedded in Load, whose tags say all about
// them, with the methods of an implementation; and a line in protocols.
type protocol struct {
	name   string   // in a file
	title  string   // of its targets, in messages
	groups []string // by which tags name it together with others
	implementation
}

// An implementation validates and makes the load of one protocol.
type implementation interface {
	// validate reports how the fields of a variant and of the plan have to go together,
	// beyond what their tags say.
	validate(i *inspector, e *Experiment, v *Variant)

	// codecs makes what a variant's load is spoken with, see Codecs.
	codecs(v *Variant, seed uint64, workers int) (Codecs, error)
}

// The groups of protocols.
const (
	loaded    = "loaded"    // the target is loaded, rather than run
	withURL   = "url"       // it has a URL
	exchanges = "exchanges" // each request has one response
)

// protocols are all there are, in the order in which they are offered. It is never changed.
var protocols = []protocol{
	{HTTP, "HTTP", []string{loaded, withURL, exchanges}, HTTPLoad{}},
	{GRPC, "gRPC", []string{loaded, withURL, exchanges}, GRPCLoad{}},
	{TCP, "TCP", []string{loaded, exchanges}, TCPLoad{}},
	{SSE, "SSE", []string{loaded, withURL}, SSELoad{}},
	{LLM, "LLM", []string{loaded, withURL, exchanges}, LLMLoad{}},
	{Program, "program", nil, program{}},
}

// protocolNamed returns the protocol of a name; for any other name one that has nothing.
func protocolNamed(name string) protocol {
	if at := slices.IndexFunc(protocols, func(p protocol) bool { return p.name == name }); at >= 0 {
		return protocols[at]
	}
	return protocol{}
}

// is tells whether a tag that names a protocol or a group means this one.
func (p protocol) is(name string) bool { return p.name == name || slices.Contains(p.groups, name) }

// Protocols returns the names of all there are.
func Protocols() []string {
	var names []string
	for _, p := range protocols {
		names = append(names, p.name)
	}
	return names
}

// HasURL tells whether targets of a protocol are named by a URL, rather than by an address.
func HasURL(protocol string) bool { return protocolNamed(protocol).is(withURL) }

// Codecs are what a load is spoken with. Each function is called once for each worker, and
// what it makes is used by that worker alone.
type Codecs struct {
	// Clients returns the maker of a worker's clients; nil without requests.
	Clients func(worker int) func() wire.Client

	// Muxes returns the maker of what carries Exchanges requests at once on a connection; nil
	// where none does. With both, and TLS, the server chooses.
	Muxes     func(worker int) func() wire.Mux
	Exchanges int

	// Tunnels returns the maker of what asks a proxy for tunnels; nil where none are needed.
	Tunnels func(worker int) func() wire.Client

	// Follower returns what tells a worker where redirects lead; nil where none are followed.
	Follower func(worker int) wire.Follower

	// Messages tells that requests and responses consist of messages, each of which is timed;
	// nil where they do not.
	Messages *Messages

	// TimedOut is what a request is failed with that has no response within Timeout, if that is not 0.
	TimedOut *wire.Error
	Timeout  time.Duration

	// TLS is what secures all connections; nil where nothing does.
	TLS *tlslayer.Config

	// Scenario is what users do, which the clients and muxes are made for; nil where one
	// request is repeated.
	Scenario *scenario.Scenario
	data     []*feed.Table

	// Answers says of which of the scenario's steps the responses are answers of language
	// models; nil: of none.
	Answers []bool

	// Streams returns the maker of a worker's streams, of subscribers by their number in
	// all; nil without subscribers.
	Streams func(worker int) func(subscriber int) wire.Stream
}

// Messages says how the messages of requests and responses are timed.
type Messages struct {
	Answered bool          // each message of a request is answered by one of the response
	Interval time.Duration // between messages of a request; 0: they are sent as the codec has it

	// Of answers of language models: what counts as good. 0 is no bound.
	FirstToken time.Duration // from when the request was due until the first token
	TokenTime  time.Duration // per token after the first
}

// Close releases the data of a scenario, which must not be in use any more.
func (c *Codecs) Close() error {
	tables := c.data
	c.data = nil
	return closeAll(tables)
}

// Codecs makes the codecs of a load for a number of workers. The run-time variables are
// filled in (see Fill). It reads the files that requests take their content from; the seed
// is that of what is made up.
func (v *Variant) Codecs(seed uint64, workers int) (Codecs, error) {
	c, err := protocolNamed(v.Target.Protocol).codecs(v, seed, workers)
	if err != nil {
		return Codecs{}, errors.Join(err, c.Close())
	}
	return c, nil
}

// CutUser returns a URL without the user and the password in it, and these as they are written.
func CutUser(url string) (without, user string, found bool) {
	scheme, rest, _ := strings.Cut(url, "://")
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	at := strings.LastIndexByte(authority, '@')
	if at < 0 || strings.ContainsAny(scheme, "/?#") {
		return url, "", false
	}
	return scheme + "://" + rest[at+1:], rest[:at], true
}

// perWorker makes a template of each worker's configuration, and codecs from it. The first
// template is made now, to see whether the configuration is right.
func perWorker[Config, Template, Codec any](of func(worker int) Config, newTemplate func(Config) (*Template, error),
	newCodec func(*Template) Codec,
) (func(worker int) func() Codec, error) {
	if _, err := newTemplate(of(0)); err != nil {
		return nil, err
	}
	return func(worker int) func() Codec {
		t, err := newTemplate(of(worker))
		if err != nil {
			panic(err) // the first one, which differs in numbers, was right
		}
		return func() Codec { return newCodec(t) }
	}, nil
}

// alike is the configuration of workers that do not differ.
func alike[Config any](c Config) func(int) Config { return func(int) Config { return c } }

// Complete fills in, but for a program, the address from the URL or the command, and the URL from
// the address, where one is missing.
func (t *Target) Complete() {
	p := protocolNamed(t.Protocol)
	if t.Address == "" && p.is(withURL) {
		url, _, _ := CutUser(t.URL)
		authority, ok := strings.CutPrefix(url, "http://")
		port := ":80"
		if !ok {
			authority, ok = strings.CutPrefix(url, "https://")
			port = ":443"
		}
		if ok {
			if end := strings.IndexAny(authority, "/?#"); end >= 0 {
				authority = authority[:end]
			}
			t.Address = authority
			if _, _, err := net.SplitHostPort(placeholders(authority)); err != nil && authority != "" {
				t.Address += port
			}
		}
	}
	if t.Address == "" && p.is(loaded) && len(t.Start) > 0 {
		t.Address = "127.0.0.1:{{port}}"
	}
	if !p.is(withURL) || t.URL != "" || t.Address == "" {
		return
	}
	t.URL = "http://" + t.Address + "/"
	if strings.HasPrefix(t.Address, "unix:") {
		t.URL = "http://localhost/"
	}
}
