package hub

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dyno/hub/fanout"
	"dyno/hub/journal"
)

// A History says where updates are kept.
type History string

// The places where updates can be kept.
const (
	// HistoryMemory keeps them in the process. They are lost when it ends.
	HistoryMemory History = "memory"
	// HistoryFile also keeps them in a file. They survive a killed process, but not a
	// power cut.
	HistoryFile History = "file"
	// HistoryRedis keeps them in a Redis stream that several hubs share.
	HistoryRedis History = "redis"
)

// An Outcome is what happens to a subscriber whose queue is full.
type Outcome string

// The outcomes.
const (
	// Disconnect ends its connection. The subscriber may come back with its Last-Event-ID
	// when it can keep up again.
	Disconnect Outcome = "disconnect"
	// DropOldest leaves out the oldest events for it, and announces that by a gap event.
	DropOldest Outcome = "drop_oldest"
	// Coalesce leaves out all but the latest event of each canonical topic, and announces
	// that by a gap event.
	Coalesce Outcome = "coalesce"
	// Block makes publishers wait for it, for at most BlockTimeout. After that it is
	// disconnected. This makes publishers and subscribers a closed loop, for
	// measurements: one subscriber can hold up everybody.
	Block Outcome = "block"
)

// KeepAlive makes the kernel probe idle connections; the zero value leaves them as they
// are.
type KeepAlive struct {
	Idle     time.Duration // before the first probe; whole seconds
	Interval time.Duration // between probes; whole seconds
	Count    int           // unanswered probes that end the connection
}

// Redis says where the shared history is kept.
type Redis struct {
	Address string // host:port
	Stream  string // its key; Stream + ":sequence" is used as well
	// Events is about how many events the stream holds. The oldest are removed.
	Events int64
}

// Config configures a hub. Start from Defaults.
type Config struct {
	// History is where updates are kept. File is the path of the file; Redis names the
	// stream.
	History History
	File    string
	Redis   Redis
	// HistoryEvents, HistoryBytes (of memory, approximately) and HistoryAge (0 is no
	// bound) bound the history in the process. The oldest updates are removed. A
	// subscriber that still needed them gets a gap event.
	HistoryEvents int
	HistoryBytes  int64
	HistoryAge    time.Duration

	// PublisherKey and SubscriberKey verify the JWTs of publishers and of subscribers;
	// nil accepts none.
	PublisherKey, SubscriberKey *Key
	// If they are not "", Issuer must be the "iss" of every JWT, and Audience must be
	// among its "aud".
	Issuer, Audience string
	// AnonymousSubscribe gives public updates to subscribers without a JWT.
	AnonymousSubscribe bool
	// AnonymousPublish lets anybody publish. Without it and without PublisherKey, only
	// Hub.Publish can publish.
	AnonymousPublish bool
	// AllowOrigins are the origins of web pages on other sites that may subscribe, and
	// may read the answers to what they publish. A single "*" is every origin, without
	// cookies.
	AllowOrigins []string
	// PublishOrigins are the origins of web pages that may publish without a token of
	// their own: by cookie, or anonymously.
	PublishOrigins []string
	// Foreign returns why a request is not from a user of this machine, but from the page of
	// another site. Such requests get 403 if the hub verifies no token of theirs. It is for
	// hubs that only this machine can reach; nil refuses none.
	Foreign func(*http.Request) error

	// MaxSubscribers bounds all subscribers (beyond: 503), and MaxPerAddress those of one
	// IP address (beyond: 429).
	MaxSubscribers, MaxPerAddress int
	// MaxUpdateBytes bounds the body of a request that publishes (beyond: 413).
	MaxUpdateBytes int64
	// MaxBodiesBytes bounds what the bodies of all these requests take at the same time
	// (beyond: 503). A body counts from its arrival until its update is kept.
	MaxBodiesBytes int64
	// MaxTopics bounds the topics of an update and of a subscription (beyond: 400).
	MaxTopics int

	// QueueEvents and QueueBytes (of frames) bound a subscriber's queue: what was
	// published since it came and has not been given to it. Outcome is what happens if
	// the queue is full. If a subscriber's connection takes nothing at the moment, the
	// hub checks its queue ten times a second.
	QueueEvents int
	QueueBytes  int64
	Outcome     Outcome
	// BlockTimeout bounds how long Outcome Block holds up one publish.
	BlockTimeout time.Duration
	// WriteTimeout bounds writing one event, from 16ms to 24h. The hub ends a connection
	// that takes nothing for so long, whatever the Outcome. The event loop may do so up
	// to two seconds later.
	WriteTimeout time.Duration

	// Heartbeat is the time without an event after which a comment is sent, from 16ms to
	// 24h; 0 is never. The event loop may send it up to two seconds earlier.
	Heartbeat time.Duration
	// ClientBackoff is the longest time that clients wait before they reconnect, from
	// 20ms to 24h. If it is not 0, the heartbeat is 0.8 times this time, and Heartbeat
	// must be 0.
	ClientBackoff time.Duration
	// Retry tells clients how long to wait before they reconnect. Each client gets
	// another time, between Retry and twice that, so that they do not all come back at
	// once; 0 tells them nothing.
	Retry time.Duration

	// PooledBuffers encodes events into buffers that are reused.
	PooledBuffers bool
	// EncodeOnce encodes an event once for all subscribers, instead of once for each.
	EncodeOnce bool
	// SingleWrite writes an event with one call, instead of line by line with a flush
	// after each.
	SingleWrite bool
	// Hijack answers HTTP/1.1 subscribers with as few header fields as possible. It
	// writes events straight to the connection, which ends with the stream: no chunks, no
	// buffer. HTTP/2 subscribers share a connection, so this setting does not apply to
	// them.
	Hijack bool
	// EventLoop makes one event loop write to all hijacked connections, without a
	// goroutine or a buffer for each. Events that came since its last turn go out
	// together. It does not apply to HTTP/2, nor to connections that are not plain
	// sockets, such as those of TLS.
	EventLoop bool
	// BatchDelay is how long the event loop waits for more events to send together; 0 is
	// no wait. It adds to the delay of every event.
	BatchDelay time.Duration
	// NoDelay sets TCP_NODELAY on or off; nil leaves Go's default, which is on.
	NoDelay *bool
	// SendBuffer and ReceiveBuffer are SO_SNDBUF and SO_RCVBUF in bytes; 0 leaves them to
	// the kernel. The kernel doubles the requested size, within the bounds of
	// net.core.wmem_max and rmem_max. The resulting size is logged once and is in the
	// metrics.
	SendBuffer, ReceiveBuffer int
	// KeepAlive sets keep-alive probes, in place of the kernel's own settings. These
	// socket options need Hijack, or a server that calls ConnContext, and they need plain
	// sockets, which connections of TLS are not. Otherwise the connections keep the
	// server's options, and the log says so once.
	KeepAlive KeepAlive
	// MeasureFlush records how long each flush takes, in a histogram of the metrics.
	MeasureFlush bool

	// Seed makes the random times of retry and drain repeatable; 0 is a new seed each
	// time.
	Seed uint64
	// Logger receives the hub's events, and at debug level those of single subscribers;
	// nil discards them.
	Logger *slog.Logger
	// Registerer gets the hub's metrics, whose names begin with "events_", until Close;
	// nil is none. A registerer can take those of one hub only.
	Registerer prometheus.Registerer
}

// The bounds of Config's numbers.
const (
	maxSubscribers  = 1 << 20
	maxTopics       = 1 << 12
	maxUpdateBytes  = 1 << 30
	maxSocketBuffer = 1 << 30
	maxProbes       = 127   // of TCP_KEEPCNT
	maxProbeSeconds = 32767 // of TCP_KEEPIDLE and TCP_KEEPINTVL
	maxRetry        = 24 * time.Hour
	maxStream       = 1 << 32
)

// Defaults returns a Config with every default.
func Defaults() Config {
	history := journal.Defaults()
	return Config{
		History:            HistoryMemory,
		Redis:              Redis{Stream: "dyno:events", Events: 100_000},
		HistoryEvents:      history.Events,
		HistoryBytes:       history.Bytes,
		AnonymousSubscribe: true,
		MaxSubscribers:     50_000,
		MaxPerAddress:      50_000,
		MaxUpdateBytes:     1 << 20,
		MaxBodiesBytes:     64 << 20,
		MaxTopics:          100,
		QueueEvents:        1000,
		QueueBytes:         4 << 20,
		Outcome:            Disconnect,
		BlockTimeout:       5 * time.Second,
		WriteTimeout:       10 * time.Second,
		Heartbeat:          40 * time.Second,
		Retry:              time.Second,
		PooledBuffers:      true,
		EncodeOnce:         true,
		SingleWrite:        true,
		Hijack:             true,
		EventLoop:          true,
	}
}

// Validate reports every fault at once: the field, its value, and what would be right.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, field string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %v: %s", field, value, want))
		}
	}
	between := func(field string, value, low, high int64) {
		check(low <= value && value <= high, field, value, fmt.Sprintf("must be from %d to %d", low, high))
	}
	switch c.History {
	case HistoryMemory, HistoryFile, HistoryRedis:
	default:
		check(false, "history", fmt.Sprintf("%q", c.History), "must be memory, file or redis")
	}
	check((c.File != "") == (c.History == HistoryFile), "file", fmt.Sprintf("%q", c.File), "goes with history file, and only with that")
	check((c.Redis.Address != "") == (c.History == HistoryRedis), "redis address", fmt.Sprintf("%q", c.Redis.Address), "goes with history redis, and only with that")
	if c.History == HistoryRedis {
		check(c.Redis.Stream != "", "redis stream", `""`, "must not be empty")
		between("redis events", c.Redis.Events, 1, maxStream)
	}
	if err := c.journal().Validate(); err != nil {
		errs = append(errs, fmt.Errorf("history: %w", err))
	}

	for _, k := range []struct {
		field string
		key   *Key
	}{{"publisher key", c.PublisherKey}, {"subscriber key", c.SubscriberKey}} {
		if k.key == nil {
			continue
		}
		if _, err := k.key.parse(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", k.field, err))
		}
	}
	check(c.AnonymousSubscribe || c.SubscriberKey != nil, "subscriber key", "none",
		"nobody could subscribe: give a key, or allow anonymous subscribers")
	for i, origin := range c.AllowOrigins {
		check(isOrigin(origin) || origin == "*" && len(c.AllowOrigins) == 1, fmt.Sprintf("allow origins %d", i+1), fmt.Sprintf("%q", origin),
			`must be like https://example.org or http://localhost:8080, or "*" alone`)
	}
	for i, origin := range c.PublishOrigins {
		check(isOrigin(origin), fmt.Sprintf("publish origins %d", i+1), fmt.Sprintf("%q", origin), "must be like https://example.org or http://localhost:8080")
	}

	between("max subscribers", int64(c.MaxSubscribers), 1, maxSubscribers)
	between("max per address", int64(c.MaxPerAddress), 1, maxSubscribers)
	between("max update bytes", c.MaxUpdateBytes, 1, maxUpdateBytes)
	check(c.MaxBodiesBytes >= c.MaxUpdateBytes, "max bodies bytes", c.MaxBodiesBytes, fmt.Sprintf("must be %d or more, as one update may have", c.MaxUpdateBytes))
	between("max topics", int64(c.MaxTopics), 1, maxTopics)
	between("queue events", int64(c.QueueEvents), 1, int64(max(c.HistoryEvents, 1)))
	between("queue bytes", c.QueueBytes, 1, max(c.HistoryBytes, 1))
	switch c.Outcome {
	case Disconnect, DropOldest, Coalesce, Block:
	default:
		check(false, "outcome", fmt.Sprintf("%q", c.Outcome), "must be disconnect, drop_oldest, coalesce or block")
	}
	check(c.BlockTimeout > 0, "block timeout", c.BlockTimeout, "must be more than 0")
	check(c.Outcome != Block || c.History != HistoryRedis, "outcome", c.Outcome,
		"cannot hold up publishers at other hubs of the stream: use disconnect, drop_oldest or coalesce")
	period := func(field string, d, low, high time.Duration, zero string) {
		check(d == 0 && zero != "" || low <= d && d <= high, field, d, fmt.Sprintf("must be %sfrom %v to %v", zero, low, high))
	}
	period("write timeout", c.WriteTimeout, fanout.MinPeriod, fanout.MaxPeriod, "")
	period("heartbeat", c.Heartbeat, fanout.MinPeriod, fanout.MaxPeriod, "0 (never) or ")
	// Of the heartbeat that follows from it.
	period("client backoff", c.ClientBackoff, fanout.MinPeriod*10/8, fanout.MaxPeriod, "0 (not known) or ")
	check(c.ClientBackoff == 0 || c.Heartbeat == 0, "heartbeat", c.Heartbeat, "must be 0 when it follows from the client backoff")
	check(c.Retry >= 0 && c.Retry <= maxRetry && c.Retry%time.Millisecond == 0, "retry", c.Retry, "must be from 0 (says nothing) to 24h, in whole milliseconds")

	check(!c.Hijack || c.SingleWrite, "hijack", c.Hijack, "needs single write: line by line, every line would be a packet of its own")
	check(!c.EventLoop || c.Hijack, "event loop", c.EventLoop, "needs hijack: it writes to connections of its own")
	check(!c.EventLoop || c.EncodeOnce, "event loop", c.EventLoop, "needs encode once: it sends all subscribers the same bytes")
	check(!c.EventLoop || !c.MeasureFlush, "measure flush", c.MeasureFlush, "the event loop flushes nothing: measure without it")
	check(c.BatchDelay == 0 || c.EventLoop, "batch delay", c.BatchDelay, "must be 0 without the event loop")
	check(c.BatchDelay >= 0 && c.BatchDelay <= 10*time.Second, "batch delay", c.BatchDelay, "must be from 0 to 10s")
	between("send buffer", int64(c.SendBuffer), 0, maxSocketBuffer)
	between("receive buffer", int64(c.ReceiveBuffer), 0, maxSocketBuffer)
	if c.KeepAlive != (KeepAlive{}) {
		seconds := func(field string, d time.Duration) {
			check(d >= time.Second && d <= maxProbeSeconds*time.Second && d%time.Second == 0, field, d,
				fmt.Sprintf("must be whole seconds from 1s to %ds", maxProbeSeconds))
		}
		seconds("keepalive idle", c.KeepAlive.Idle)
		seconds("keepalive interval", c.KeepAlive.Interval)
		between("keepalive count", int64(c.KeepAlive.Count), 1, maxProbes)
	}
	return errors.Join(errs...)
}

// journal is what the history holds in memory.
func (c Config) journal() journal.Config {
	return journal.Config{Events: c.HistoryEvents, Bytes: c.HistoryBytes, Age: c.HistoryAge}
}

// socketOptions tells whether any is set.
func (c Config) socketOptions() bool {
	return c.NoDelay != nil || c.SendBuffer > 0 || c.ReceiveBuffer > 0 || c.KeepAlive != KeepAlive{}
}

// heartbeatShare is how much of the clients' longest back-off passes between
// heartbeats, as report R4 recommends.
const heartbeatShare = 0.8

// heartbeat is the period, whichever way it is given; 0 is none.
func (c Config) heartbeat() time.Duration {
	if c.ClientBackoff > 0 {
		return time.Duration(heartbeatShare * float64(c.ClientBackoff))
	}
	return c.Heartbeat
}

// isOrigin tells whether text is a scheme, a host and perhaps a port, as browsers
// write origins (RFC 6454, section 6.2).
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.Scheme+"://"+u.Host == text
}
