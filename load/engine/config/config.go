// Package config is what an engine is asked to do: what to send, where, when and for how long. Validate reports every
// fault of it at once.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"dyno/load/engine/messages"
	"dyno/load/engine/record"
	"dyno/load/engine/subscribe"
	"dyno/load/engine/users"
	"dyno/load/options"
	"dyno/load/pace"
	"dyno/load/wire"
	"dyno/load/wire/tlslayer"
)

// Bounds of one engine.
const (
	MaxConnections = 1_000_000
	MaxStreams     = 10_000
	MaxExchanges   = 4_000_000 // on all connections together

	OpenUsers = 10_000 // the most that an open loop has, without a count
)

// MuxName is how the protocol whose connections carry many exchanges is called in TLS
// (ALPN, RFC 9113, section 3.3).
const MuxName = "h2"

// ErrTimeout is the failure of a request without a complete response in time, where TimedOut names no other.
var ErrTimeout = &wire.Error{Kind: wire.Timeout, Text: "no complete response in time"}

// A Clock says what ends a response: its last byte's arrival at this machine, or its
// being read.
type Clock uint8

// The clocks.
const (
	// ClockAuto is by arrival in an open loop and with subscribers. In a closed loop each worker reads
	// for the first three quarters of the warm-up. Without a warm-up it reads for 100 ms of the window.
	// If a quarter of its CPU's time was idle, it goes on by arrival. Otherwise it stays with reading,
	// which costs less.
	ClockAuto Clock = iota
	ClockArrival
	ClockRead
)

// A Config says what to send, where, when and for how long. The zero value of a field takes
// the default named in its comment.
type Config struct {
	Network string // "tcp" (default), "tcp4", "tcp6" or "unix"
	Address string // host:port, or the path of a Unix socket

	// OneAddress has all connections go to one address of a name that stands for several: the first that accepts one.
	// Default: they are spread over all that do.
	OneAddress bool

	// NewClients is called once per worker and returns the maker of that worker's clients. One thread
	// uses what one maker's clients share. With Users, the clients are wire.Composers.
	NewClients func(worker int) func() wire.Client

	// NewMuxes takes the place of NewClients for protocols whose connections carry many exchanges at
	// once. Each mux sends its prepared request 0. Parts vary only with Users. With TLS there may be
	// both: then the server chooses (ALPN), and a server that does not know of the choice gets what
	// NewClients makes.
	NewMuxes func(worker int) func() wire.Mux

	// NewTunnels is called once per worker. It returns the maker of clients that ask a forward proxy
	// for a tunnel. The Address is the proxy's then. Each new connection begins with one exchange,
	// after whose good response everything goes to and comes from the target. Default none.
	NewTunnels func(worker int) func() wire.Client

	// TLS has all connections speak TLS. Its ALPN offers h2 where there are NewMuxes of that, or streams of
	// Subscribers. These leave the server no choice. Default none.
	TLS *tlslayer.Config

	// Streams is how many exchanges a connection carries at once, if its peer lets it and
	// the protocol can. Default 1. A mux must have been prepared for as many.
	Streams int

	// Standing opens all connections of an open loop before the load, and spreads requests over them. Default: a
	// connection is opened when a request finds none that is free.
	Standing bool

	// Owned gives each user of Users a connection of its own, which is opened again when it is lost: there are as many
	// Connections as users, with one stream each. Default: requests of users go over whichever connection is free.
	Owned bool

	// ExchangesPerConnection is how many exchanges a connection carries before it is closed
	// and another one opened. Default no such limit.
	ExchangesPerConnection uint64

	// Messages has the messages that exchanges consist of timed. Default none.
	Messages *messages.Config

	// Keepalive has peers pinged from which nothing comes. Default: no pings.
	Keepalive *options.Keepalive

	// Schedule makes the loop open: requests start when it says, whatever the server does. Nil is the
	// closed loop: each connection has Streams users. A user sends, awaits the response, thinks, and
	// sends again.
	Schedule *pace.Schedule
	Think    pace.Think // closed loop only; default none

	// Population changes the number of users of a closed loop over time. There are places for all: as many
	// users as it has at most, or with Streams connections for them. Users of later stages open their
	// connections when they come, and close them when they leave. Default none: all users are there all the time.
	Population *pace.Population

	Seed uint64 // of think times, of back-off jitter and of all that users draw

	// Users make the requests, by a scenario. Its outlines are, in their order, what clients and muxes
	// must have been prepared with; they must accept every status and keep the fields of its
	// HeaderNames. Muxes must deliver the content if a step wants it. With a Schedule, an arrival is an
	// iteration. Default none: the same request is repeated.
	Users *users.Config

	// NewFollower is called once per worker and returns what tells where redirects lead. A redirected
	// exchange goes on with the request that follows, on the same connection or its successor. It has
	// ended when a response redirects no more. Default none: a redirect is a response like any other.
	NewFollower func(worker int) wire.Follower

	// Traces gives each request a field traceparent. It has, by the number of the prepared
	// request, where among its parts the field's value goes; where the same request is
	// repeated, it is the only one, and clients are Composers. Default none.
	Traces []int

	// Connections is how many there are in a closed loop, and the most there may be in an
	// open loop. Default 1; with Subscribers and without a Schedule, none.
	Connections int
	// Subscribers receive events while the requests are sent. Default none.
	Subscribers *subscribe.Config
	// Shard is the part of the load that is this engine's: of the schedule, of the users, and
	// of their data. Default all of it.
	Shard pace.Shard
	// Barrier connects this engine to others that carry the rest of the same load. Default
	// none: the load is this engine's alone.
	Barrier  Barrier
	Requests uint64 // end after this number of requests of the window; default no limit

	// Paces are parts of the load in place of one Schedule, Population and number of Users. Their sums are those of the
	// Connections and Workers, and of the users. Default none: all users have one pace.
	Paces []Pace

	options.Waiting // of requests of an open loop for a connection

	Warmup time.Duration // load before the window that is not measured
	Window time.Duration // the measured part; 0 only with Requests
	Drain  time.Duration // how long to await what is under way at the window's end; default 2 s
	// Finish is how long users may go on to finish their iterations, at the window's end and where the population
	// declines. Requests after the window are not measured. Default 0: not at all.
	Finish time.Duration
	options.Timeouts

	// TimedOut is the failure of a request without a complete response in time, of kind
	// Timeout. Default one that says so.
	TimedOut *wire.Error

	// Deadline says that the peer knows the Timeout. Then a request without a response does not show
	// that its connection, which may carry many, is dead. A reset by the peer after the Timeout counts
	// as timed out.
	Deadline bool

	MaxBackoff time.Duration // a user's longest pause after failures in a row; default that of options.Backoff

	// Threads are the workers; default 1. Each keeps a processor (GOMAXPROCS) while it waits, too.
	options.Threads

	// Spin is how long before an intended start a worker stops sleeping and
	// polls. It buys precision with CPU time and belongs on CPUs that are the
	// generator's own. Default 0.
	Spin time.Duration

	// Clock says what ends a response. Default ClockAuto.
	Clock Clock

	record.Intervals

	// OnStart is called once, shortly before the warm-up begins, and OnPhase as
	// each phase begins; both from Run's goroutine. The workers do not wait for them.
	// An observer that is notified of Measuring is notified of Draining, too, while the
	// workers' threads still exist.
	OnStart func(Start)
	OnPhase func(Phase)
}

// A Pace is a part of a load: users who carry out one flow of the scenario, with workers and connections of their own.
type Pace struct {
	Flow                        int // of the scenario, from 0
	Workers, Connections, Users int
	Iterations, IterationsEach  uint64 // as those of users.Config
	Schedule                    *pace.Schedule
	Population                  *pace.Population
}

// Parts returns the configuration of each pace; without any, the whole. It has the defaults.
func (c Config) Parts() []Config {
	if len(c.Paces) == 0 {
		return []Config{c}
	}
	parts := make([]Config, 0, len(c.Paces))
	for _, p := range c.Paces {
		part, own := c, *c.Users
		own.Flow, own.Count, own.Iterations, own.IterationsEach = p.Flow+1, p.Users, p.Iterations, p.IterationsEach
		part.Paces, part.Users, part.Schedule, part.Population = nil, &own, p.Schedule, p.Population
		part.Workers, part.Connections = p.Workers, p.Connections
		parts = append(parts, part)
	}
	return parts
}

// IsClosed tells whether the loop is closed.
func (c Config) IsClosed() bool { return c.Schedule == nil }

// A Start says when the warm-up begins, which is zero on the time line, and which threads carry the
// load.
type Start struct {
	Time    time.Time
	Threads []int // ids as of gettid(2), by worker
}

// A Phase is a part of a measurement.
type Phase uint8

// The phases in their order.
const (
	WarmingUp Phase = iota
	Measuring
	Draining // the window has ended: by the clock, by its last request, or by an interruption
)

// WithDefaults returns the configuration with defaults in place of zero values.
func (c Config) WithDefaults() Config {
	c.Network = cmp.Or(c.Network, "tcp")
	if c.Subscribers != nil {
		s := c.Subscribers.WithDefaults()
		c.Subscribers = &s
	}
	if c.Connections == 0 && (c.Subscribers == nil || c.Schedule != nil) {
		c.Connections = 1
	}
	c.Workers = cmp.Or(c.Workers, 1)
	c.Streams = cmp.Or(c.Streams, 1)
	if c.Shard == (pace.Shard{}) {
		c.Shard = pace.Whole()
	}
	if c.Users != nil {
		u := *c.Users
		switch {
		case c.Owned:
			u.Count = c.Connections
		case u.Count != 0:
		case c.Schedule != nil:
			u.Count = max(1, c.Shard.Share(OpenUsers))
		default:
			u.Count = c.Connections * c.Streams
		}
		c.Users = &u
	}
	if c.Keepalive != nil {
		c.Keepalive = new(options.WithDefaults(*c.Keepalive))
	}
	c.Waiting, c.Timeouts = options.WithDefaults(c.Waiting), options.WithDefaults(c.Timeouts)
	c.MaxBackoff = options.Backoff{MaxBackoff: c.MaxBackoff}.WithDefaults(false).MaxBackoff
	c.TimedOut = cmp.Or(c.TimedOut, ErrTimeout)
	c.Drain = cmp.Or(c.Drain, 2*time.Second)
	c.Interval = cmp.Or(c.Interval, time.Second)
	return c
}

// Carried is how many connections there are to share among the workers.
func (c Config) Carried() int {
	if c.Subscribers == nil {
		return c.Connections
	}
	return max(c.Connections, c.Subscribers.Count)
}

// Part is worker n among this engine's.
func (c *Config) Part(n int) pace.Shard { return pace.Shard{Index: n, Count: c.Workers} }

// ShardOf is the part of the load that is worker n's.
func (c *Config) ShardOf(n int) pace.Shard {
	return c.Shard.Sub(pace.Shard{Index: n, Count: min(c.Workers, c.Connections)})
}

// FirstPlace is the number of worker n's first place for a connection, counted over all engines.
func (c *Config) FirstPlace(n int) int {
	subscribers := 0
	if c.Subscribers != nil {
		subscribers = c.Subscribers.Count
	}
	first := c.Shard.Index * (c.Connections + subscribers)
	for m := range n {
		own := c.Part(m)
		first += own.Share(c.Connections) + own.Share(subscribers)
	}
	return first
}

// Validate reports every fault of the configuration at once.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var f faults
	switch c.Network {
	case "tcp", "tcp4", "tcp6":
		if _, _, err := net.SplitHostPort(c.Address); err != nil {
			f.add("address %q: want host:port: %w", c.Address, err)
		}
	case "unix":
		if c.Address == "" {
			f.add("address: want the path of a Unix socket")
		}
	default:
		f.add("network %q: want tcp, tcp4, tcp6 or unix", c.Network)
	}
	c.validateCodecs(&f)
	c.validateSizes(&f)
	c.validateParts(&f)
	c.validateTimes(&f)
	c.validatePopulation(&f)
	if len(c.Paces) > 0 && c.Users == nil {
		f.add("paces: want users, who carry out the flows")
	} else if len(c.Paces) > 0 {
		for _, part := range c.Parts() {
			f.join(part.Validate())
		}
	}
	return errors.Join(f...)
}

// faults are what is wrong with a configuration.
type faults []error

func (f *faults) add(format string, args ...any) {
	*f = append(*f, fmt.Errorf("engine: "+format, args...))
}

func (f *faults) join(err error) {
	if err != nil {
		*f = append(*f, err)
	}
}

func (c *Config) validateCodecs(f *faults) {
	switch {
	case c.NewClients == nil && c.NewMuxes == nil && c.Connections != 0:
		f.add("clients: want a maker of clients, or of muxes")
	case c.NewClients != nil && c.NewMuxes != nil && c.TLS == nil:
		f.add("muxes: want a maker of clients or one of muxes, as there is nothing to choose by")
	}
	if c.TLS != nil {
		if err := c.TLS.Validate(time.Now()); err != nil {
			f.add("tls: %w", err)
		}
		if offered := slices.Contains(c.TLS.ALPN, MuxName); offered && c.NewMuxes == nil && c.Subscribers == nil || !offered && c.NewMuxes != nil && c.NewClients != nil {
			f.add("tls: alpn %v: want it to offer h2 if the server is to choose muxes, and only then", c.TLS.ALPN)
		}
		if c.NewMuxes != nil && c.NewClients != nil && c.Subscribers != nil {
			f.add("tls: want clients or muxes together with subscribers: all connections offer the same, and subscribers leave no choice")
		}
	}
}

func (c *Config) validateSizes(f *faults) {
	fewest := 1
	if c.Subscribers != nil && c.Schedule == nil {
		fewest = 0
	}
	if c.Streams < 1 || c.Streams > MaxStreams {
		f.add("streams %d: want 1 to %d", c.Streams, MaxStreams)
	} else if c.Connections > 0 && c.Connections*c.Streams > MaxExchanges {
		f.add("streams %d on %d connections: want at most %d exchanges in all", c.Streams, c.Connections, MaxExchanges)
	}
	if c.Connections < fewest || c.Connections > MaxConnections {
		f.add("connections %d: want %d to %d", c.Connections, fewest, MaxConnections)
	}
	if n := c.Carried(); c.Workers > n {
		f.add("workers %d: want at most one per connection, of which there are %d", c.Workers, n)
	}
	f.join(options.Validate(c.Threads))
	f.join(options.Validate(c.Waiting))
}

// validateParts looks at what a load may consist of, and at what excludes what.
func (c *Config) validateParts(f *faults) {
	if c.Subscribers != nil {
		f.join(c.Subscribers.Validate())
		if c.Requests > 0 {
			f.add("requests %d: want none, as the window of subscribers is a length of time", c.Requests)
		}
	}
	if err := c.Shard.Validate(); err != nil {
		f.add("%w", err)
	}
	if c.Users != nil {
		f.join(c.Users.Validate(c.Workers))
		if c.Users.Answers != nil && c.Messages == nil {
			f.add("users: answers of language models consist of messages, which are not timed")
		}
		if c.Subscribers != nil {
			f.add("users: want none together with subscribers")
		}
		if c.Owned && (c.Streams != 1 || c.NewMuxes == nil || c.NewClients != nil) {
			f.add("owned: want muxes alone, of one stream, as a user has one request at a time")
		}
		if c.Think != (pace.Think{}) {
			f.add("think time: want none with users, whose scenario says how long they think")
		}
	}
	if c.NewFollower != nil && (c.Users != nil || c.Messages != nil) {
		f.add("redirects: want none followed where users carry out a scenario, or messages are timed")
	}
	if c.NewTunnels != nil && c.Subscribers != nil {
		f.add("tunnels: want none with subscribers, who connect to the target itself")
	}
	if c.Messages != nil {
		f.join(c.Messages.Validate())
		if c.Messages.Interval > 0 && (c.NewMuxes == nil || c.NewClients != nil) {
			f.add("interval of messages: want muxes alone, as clients send requests whole")
		}
	}
	if c.Keepalive != nil {
		f.join(options.Validate(*c.Keepalive))
		if c.NewMuxes == nil {
			f.add("keepalive: want muxes, as other connections have no pings")
		}
	}
}

func (c *Config) validateTimes(f *faults) {
	if c.Window == 0 && c.Requests == 0 && len(c.Paces) == 0 && (c.Users == nil || c.Users.Iterations+c.Users.IterationsEach == 0) {
		f.add("window: want a length or a number of requests or iterations")
	}
	if min(c.Warmup, c.Window, c.Drain, c.Finish, c.MaxBackoff, c.Spin) < 0 {
		f.add("warm-up %v, window %v, drain %v, longest back-off %v, spin %v: want no negative duration", c.Warmup, c.Window, c.Drain, c.MaxBackoff, c.Spin)
	}
	if c.TimedOut.Kind != wire.Timeout {
		f.add("failure of a request that timed out, %v: want kind timeout", c.TimedOut)
	}
	if c.Clock > ClockRead {
		f.add("clock %d: want auto, arrival or read", c.Clock)
	}
	f.join(options.Validate(c.Timeouts))
	f.join(c.Intervals.Validate())
	if err := c.Think.Validate(); err != nil {
		f.add("think time: %w", err)
	}
	if c.Schedule != nil && c.Think != (pace.Think{}) {
		f.add("think time: belongs to a closed loop, and the schedule makes it open")
	}
}

func (c *Config) validatePopulation(f *faults) {
	if c.Population == nil {
		return
	}
	if c.Schedule != nil {
		f.add("population: belongs to a closed loop, and the schedule makes it open")
	}
	most, places, what := c.Population.Most(), c.Connections, "connections"
	if c.Users != nil {
		places, what = c.Users.Count, "users"
	} else if c.Streams > 0 {
		most = (most + c.Streams - 1) / c.Streams
	}
	if least := c.Shard.Share(most); places < least {
		f.add("%s %d: want %d, as the population needs at most", what, places, least)
	}
}

// AnnouncePhases reports each phase of a load that starts at a time, when it begins, until done. If the
// work ended early, a phase that had begun is still reported. Run calls it. Callers without an engine
// of their own, whose load others carry, call it themselves.
func (c *Config) AnnouncePhases(start time.Time, done <-chan struct{}) {
	if c.OnPhase == nil {
		return
	}
	for _, edge := range []struct {
		phase Phase
		at    time.Duration
	}{
		{WarmingUp, 0},
		{Measuring, c.Warmup},
		{Draining, c.Warmup + c.Window},
	} {
		at := start.Add(edge.at)
		due := time.After(time.Until(at))
		if edge.phase == Draining && c.Window == 0 {
			due = nil // the time is unknown
		}
		select {
		case <-due:
		case <-done:
			// An early end of the work ends the window too: the last request of an open loop may be
			// answered before the clock says so.
			if edge.phase != Draining && time.Now().Before(at) {
				return
			}
		}
		c.OnPhase(edge.phase)
	}
}
