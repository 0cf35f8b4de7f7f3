package hub

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dyno/hub/fanout"
	"dyno/hub/journal"
)

// A History is where updates are kept.
type History string

// Where they can be kept.
const (
	// HistoryMemory keeps them in the process: they end with it.
	HistoryMemory History = "memory"
	// HistoryFile also keeps them in a file: they survive a killed process, though
	// not a power cut.
	HistoryFile History = "file"
	// HistoryRedis keeps them in a Redis stream that several hubs share.
	HistoryRedis History = "redis"
)

// An Outcome is what happens to a subscriber whose queue is full.
type Outcome string

// What can happen.
const (
	// Disconnect ends its connection: it comes back with its Last-Event-ID when it
	// can keep up again.
	Disconnect Outcome = "disconnect"
	// DropOldest leaves out its oldest events, and tells it with a gap event.
	DropOldest Outcome = "drop_oldest"
	// Coalesce leaves out all but the latest event of each canonical topic, and tells
	// it with a gap event.
	Coalesce Outcome = "coalesce"
	// Block has publishers wait for it, for BlockTimeout at most: then it is
	// disconnected. This makes a closed loop of publishers and subscribers, for
	// measurements; one subscriber can hold up everybody.
	Block Outcome = "block"
)

// KeepAlive asks the kernel to probe connections on which nothing moves; the zero
// value asks nothing.
type KeepAlive struct {
	Idle     time.Duration // before the first probe; whole seconds
	Interval time.Duration // between probes; whole seconds
	Count    int           // probes without an answer that end the connection
}

// Redis says where the shared history is.
type Redis struct {
	Address string // host:port
	Stream  string // its key; Stream + ":sequence" is used as well
	// Events is about how many events the stream holds: the oldest are removed.
	Events int64
}

// Config says what a hub does. Start from Defaults.
type Config struct {
	// History is where updates are kept; File is the file's path, Redis the stream.
	History History
	File    string
	Redis   Redis
	// HistoryEvents, HistoryBytes (of memory, about) and HistoryAge (0 is no bound)
	// bound the history in the process. The oldest updates are removed; who still
	// needed them is told with a gap event.
	HistoryEvents int
	HistoryBytes  int64
	HistoryAge    time.Duration

	// PublisherKey and SubscriberKey verify the JWTs of either; nil accepts none.
	PublisherKey, SubscriberKey *Key
	// Issuer and Audience must be the "iss" and among the "aud" of every JWT, where
	// they are not "".
	Issuer, Audience string
	// AnonymousSubscribe lets subscribers without a JWT have public updates.
	AnonymousSubscribe bool
	// AnonymousPublish lets anybody publish. Without it and without PublisherKey, only
	// Hub.Publish does.
	AnonymousPublish bool
	// AllowOrigins are the origins of web pages that may subscribe, and read the
	// answers to what they publish, from elsewhere; "*" alone is every origin, without
	// cookies.
	AllowOrigins []string
	// PublishOrigins are the origins of web pages that may publish without a token of
	// their own: by cookie, or anonymously.
	PublishOrigins []string

	// MaxSubscribers bounds subscribers in all (beyond: 503), MaxPerAddress those of
	// one IP address (beyond: 429).
	MaxSubscribers, MaxPerAddress int
	// MaxUpdateBytes bounds the body of a request that publishes (beyond: 413).
	MaxUpdateBytes int64
	// MaxTopics bounds the topics of an update and of a subscription (beyond: 400).
	MaxTopics int

	// QueueEvents and QueueBytes (of frames) bound what a subscriber has not been
	// given of what was published since it came. Outcome is what happens beyond. A
	// subscriber whose connection takes nothing at the moment is looked at ten times a
	// second.
	QueueEvents int
	QueueBytes  int64
	Outcome     Outcome
	// BlockTimeout bounds how long Outcome Block holds up one publish.
	BlockTimeout time.Duration
	// WriteTimeout bounds writing one event, from 16ms to 24h: a connection that takes
	// nothing for so long is ended, whatever the Outcome; by the event loop up to two
	// seconds later.
	WriteTimeout time.Duration

	// Heartbeat is after how long without an event a comment is sent, from 16ms to 24h;
	// 0 is never. By the event loop it is up to two seconds earlier.
	Heartbeat time.Duration
	// ClientBackoff is the longest that clients wait before they reconnect, from 20ms to
	// 24h. Where it is not 0, the heartbeat is 0.8 times that, and Heartbeat must be 0.
	ClientBackoff time.Duration
	// Retry tells clients how long to wait before they reconnect: each another time
	// from Retry to twice that, so that they do not all come back at once; 0 tells
	// nothing.
	Retry time.Duration

	// PooledBuffers encodes events into buffers that are used again.
	PooledBuffers bool
	// EncodeOnce encodes an event once for all subscribers, instead of for each.
	EncodeOnce bool
	// SingleWrite writes an event at once, instead of line by line with a flush after
	// each.
	SingleWrite bool
	// Hijack answers HTTP/1.1 subscribers with the fewest header fields, and writes
	// events straight to the connection, which ends with the stream: no chunks, no
	// buffer. Subscribers by HTTP/2 share a connection and are served as without.
	Hijack bool
	// EventLoop has one event loop write to all connections that are hijacked, without
	// a goroutine or a buffer for each: events that came since its last turn go out
	// together. Where a connection is none of the system's, such as one of TLS, and by
	// HTTP/2, subscribers are served as without.
	EventLoop bool
	// BatchDelay is how long the event loop waits for more to send along; 0 is not at
	// all. It adds to the delay of every event.
	BatchDelay time.Duration
	// NoDelay sets TCP_NODELAY on or off; nil leaves it as Go sets it, which is on.
	NoDelay *bool
	// SendBuffer and ReceiveBuffer are SO_SNDBUF and SO_RCVBUF in bytes; 0 leaves them
	// to the kernel. It doubles what is asked, within the bounds of net.core.wmem_max
	// and rmem_max. What it gave is logged once and in the metrics.
	SendBuffer, ReceiveBuffer int
	// KeepAlive sets keep-alive probes; the kernel's own settings are then of no
	// account. These socket options need Hijack, or a server that calls ConnContext, and
	// connections of the system's, which those of TLS are not; else the connections are
	// as the server has them, and the log says so once.
	KeepAlive KeepAlive
	// MeasureFlush records how long each flush takes, in a histogram of the metrics.
	MeasureFlush bool

	// Seed makes the jitter of retry and drain repeatable; 0 is another each time.
	Seed uint64
	// Logger takes what happens to the hub, and at debug level what happens to single
	// subscribers; nil discards.
	Logger *slog.Logger
	// Registerer is given the hub's metrics, whose names begin with "events_", until
	// Close; nil is for none. One takes those of one hub only.
	Registerer prometheus.Registerer
}

// Bounds of Config's numbers.
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

// Defaults returns the Config that every field starts from.
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

// Validate reports every fault at once: the field, its value, what would be right.
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
