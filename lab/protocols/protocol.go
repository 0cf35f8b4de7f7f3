// Package protocols makes the clients for a plan's load: for each protocol the codecs of its requests
// and responses, and what users of a scenario do in it. It reads the files that requests take their
// content from, and asks servers of gRPC for descriptions of their services.
package protocols

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"dyno/lab/plan"
	"dyno/load/feed"
	"dyno/load/scenario"
	"dyno/load/wire"
	"dyno/load/wire/tlslayer"
)

// Codecs are what a load is spoken with. Each function is called once for each worker, and its result
// is used by that worker alone.
type Codecs struct {
	// Clients returns the maker of a worker's clients; nil without requests.
	Clients func(worker int) func() wire.Client

	// Muxes returns the maker of clients that carry Exchanges requests at once on a connection; nil
	// where none does. With both, and TLS, the server chooses.
	Muxes     func(worker int) func() wire.Mux
	Exchanges int

	// Standing tells that connections stay: all are opened before the load, and used alike.
	Standing bool

	// Owned tells that each user of the scenario has a connection of its own.
	Owned bool

	// Tunnels returns the maker of clients that ask a proxy for tunnels; nil where none are needed.
	Tunnels func(worker int) func() wire.Client

	// Follower returns what tells a worker where redirects lead; nil where none are followed.
	Follower func(worker int) wire.Follower

	// Messages tells that requests and responses consist of messages, and that each is timed; nil where
	// they do not.
	Messages *Messages

	// TimedOut is what a request is failed with that has no response within Timeout, if that is not 0.
	TimedOut *wire.Error
	Timeout  time.Duration

	// Traces says, by the number of the prepared request, where among its parts the value of the
	// field traceparent goes; nil where requests have none.
	Traces []int

	// TLS is what secures all connections; nil where nothing does.
	TLS *tlslayer.Config

	// Scenario is what users do, which the clients and muxes are made for; nil where one
	// request is repeated.
	Scenario *scenario.Scenario
	data     []*feed.Table

	// Answers says by step of the scenario which responses are answers of language models; nil: none.
	Answers []bool

	// Streams returns the maker of a worker's streams, of subscribers by their number in
	// all; nil without subscribers.
	Streams func(worker int) func(subscriber int) wire.Stream
}

// Messages says how the messages of requests and responses are timed.
type Messages struct {
	Answered bool          // each message of a request is answered by one of the response
	Interval time.Duration // between messages of a request; 0: they are sent as the codec has it

	// For answers of language models: what counts as good. 0 is no bound.
	FirstToken time.Duration // from when the request was due until the first token
	TokenTime  time.Duration // per token after the first
}

// Close releases the data of a scenario, which must no longer be in use.
func (c *Codecs) Close() error {
	tables := c.data
	c.data = nil
	return closeAll(tables)
}

// A protocol makes the clients for its targets' loads. To add one is to write a file like tcp.go, and a
// line in protocols.
type protocol struct {
	codecs func(ctx context.Context, v *plan.Variant, seed uint64, workers int) (Codecs, error)

	// script says what a variant's scenario is in the protocol; nil: there are none. Offline,
	// nothing is asked of anybody: what only a server knows is left out.
	script func(ctx context.Context, v *plan.Variant, offline bool) (script, error)

	status func(code int) string // writes the status of a response; nil: as a number
}

// protocols has all protocols whose targets are loaded. Register alone adds to it.
var protocols = map[string]protocol{
	plan.HTTP: {codecs: httpCodecs, script: httpScript},
	plan.GRPC: {codecs: grpcCodecs, script: grpcScript, status: codeName},
	plan.TCP:  {codecs: tcpCodecs, script: tcpScript},
	plan.WS:   {codecs: wsCodecs, script: wsScript},
	plan.SSE:  {codecs: sseCodecs},
	plan.LLM:  {codecs: llmCodecs, script: llmScript},
}

// StatusName writes the status of a protocol's responses.
func StatusName(protocol string, status int) string {
	if p := protocols[protocol]; p.status != nil {
		return p.status(status)
	}
	return strconv.Itoa(status)
}

// CodecsOf makes the codecs of a variant's load for a number of workers. The run-time variables are
// filled in (see Fill). It reads the files that requests take their content from; the seed decides made
// up content. A server is asked what it offers, until ctx ends.
func CodecsOf(ctx context.Context, v *plan.Variant, seed uint64, workers int) (Codecs, error) {
	p, ok := protocols[v.Target.Protocol]
	if !ok {
		return Codecs{}, fmt.Errorf("target.protocol: this program has no %q: a program is run, and not loaded; a protocol that another one adds, only that can speak", v.Target.Protocol)
	}
	c, err := p.codecs(ctx, v, seed, workers)
	if err != nil {
		return Codecs{}, errors.Join(err, c.Close())
	}
	return c, nil
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
