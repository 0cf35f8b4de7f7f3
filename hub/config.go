package hub

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dyno/hub/fanout"
	"dyno/hub/journal"
	"dyno/internal/fields"
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
type Outcome = fanout.Outcome

// The outcomes; package fanout says what they are. With Block, publishers wait for at most
// BlockTimeout. After that the subscriber is disconnected.
const (
	Disconnect = fanout.Disconnect
	DropOldest = fanout.DropOldest
	Coalesce   = fanout.Coalesce
	Block      = fanout.Block
)

// KeepAlive makes the kernel probe idle connections; the zero value leaves them as they
// are. Times are whole seconds.
type KeepAlive struct {
	Idle     time.Duration `yaml:"keepalive_idle" range:"0..32767s" doc:"TCP keep-alive: time before the first probe"`
	Interval time.Duration `yaml:"keepalive_interval" range:"0..32767s" doc:"TCP keep-alive: time between probes"`
	Count    int           `yaml:"keepalive_count" range:"0..127" doc:"TCP keep-alive: probes without an answer that end a connection"`
}

// Redis says where the shared history is kept.
type Redis struct {
	Address string `yaml:"redis" doc:"address of the Redis that has the history: host:port"`
	Stream  string `yaml:"redis_stream" default:"dyno:events" doc:"the key of its stream"`
	Events  int64  `yaml:"redis_events" range:"1..4294967296" default:"100000" doc:"about how many updates the stream holds"`
}

// Config configures a hub. Start from Defaults.
type Config struct {
	History History `yaml:"history" oneof:"memory file redis" default:"memory" doc:"where updates are kept"`
	File    string  `yaml:"file" kind:"path" doc:"the history's file: it survives the process, and may not survive a power cut"`
	Redis   Redis   `yaml:",inline"`
	// The oldest updates are removed. A subscriber that still needed them gets a gap event.
	HistoryEvents int           `yaml:"history_events" range:"1..16777216" default:"10000" doc:"updates held in memory for subscribers that come back"`
	HistoryBytes  int64         `yaml:"history_bytes" kind:"size" range:"1..1024GiB" default:"64MiB" doc:"bytes that these updates may take"`
	HistoryAge    time.Duration `yaml:"history_age" range:"0..8760h" doc:"how old these updates may be; 0 is no bound"`

	// PublisherKey and SubscriberKey verify the JWTs of publishers and of subscribers;
	// nil accepts none.
	PublisherKey, SubscriberKey *Key
	Issuer                      string `yaml:"issuer" otherwise:"any" doc:"the issuer that JWTs must have"`
	Audience                    string `yaml:"audience" otherwise:"any" doc:"the audience that JWTs must have"`
	AnonymousSubscribe          bool   `yaml:"anonymous_subscribe" default:"true" doc:"let subscribers without a JWT have public updates"`
	// Without AnonymousPublish and PublisherKey, only Hub.Publish can publish.
	AnonymousPublish bool     `yaml:"anonymous_publish" doc:"let anybody publish"`
	AllowOrigins     []string `yaml:"allow_origins" flag:"allow-origin" doc:"pages of these origins may subscribe, and read the answers to what they publish (CORS); * is every origin, without cookies"`
	PublishOrigins   []string `yaml:"publish_origins" flag:"publish-origin" doc:"pages of these origins may publish by cookie, or anonymously"`
	// Foreign returns why a request is not from a user of this machine, but from the page of
	// another site. Such requests get 403 if the hub verifies no token of theirs. It is for
	// hubs that only this machine can reach; nil refuses none.
	Foreign func(*http.Request) error

	MaxSubscribers int   `yaml:"max_subscribers" range:"1..1048576" default:"50000" doc:"subscribers in all; beyond: 503"`
	MaxPerAddress  int   `yaml:"max_per_address" range:"1..1048576" default:"50000" doc:"subscribers of one address; beyond: 429"`
	MaxUpdateBytes int64 `yaml:"max_update" kind:"size" range:"1..1GiB" default:"1MiB" doc:"bytes of a publisher's request; beyond: 413"`
	// A body counts from its arrival until its update is kept.
	MaxBodiesBytes int64 `yaml:"max_bodies" kind:"size" range:"1..1024GiB" default:"64MiB" doc:"bytes of all publishers' requests that are arriving; beyond: 503"`
	MaxTopics      int   `yaml:"max_topics" range:"1..4096" default:"100" doc:"topics of an update or a subscription; beyond: 400"`

	// A subscriber's queue holds what was published since it came and has not been given to it. If
	// its connection takes nothing at the moment, the hub checks its queue ten times a second.
	QueueEvents  int           `yaml:"queue_events" range:"1..16777216" default:"1000" doc:"events that may wait for one subscriber"`
	QueueBytes   int64         `yaml:"queue_bytes" kind:"size" range:"1..1024GiB" default:"4MiB" doc:"bytes of events that may wait for one subscriber"`
	Outcome      Outcome       `yaml:"outcome" oneof:"disconnect drop_oldest coalesce block" default:"disconnect" doc:"of a full queue; block: publishers wait"`
	BlockTimeout time.Duration `yaml:"block_timeout" range:"1ms..24h" default:"5s" doc:"how long publishers wait for a subscriber"`
	// The hub ends a connection that takes nothing for WriteTimeout, whatever the Outcome. The
	// event loop may do so up to two seconds later.
	WriteTimeout time.Duration `yaml:"write_timeout" range:"16ms..24h" default:"10s" doc:"of writing one event"`

	// The event loop may send a heartbeat up to two seconds earlier.
	Heartbeat     time.Duration `yaml:"heartbeat" range:"0..24h" default:"40s" doc:"a comment after so long without an event; 0 is never"`
	ClientBackoff time.Duration `yaml:"client_backoff" range:"0..24h" doc:"the longest that clients wait to reconnect: the heartbeat is 0.8 times that"`
	// Each client gets another time, so that they do not all come back at once.
	Retry time.Duration `yaml:"retry" range:"0..24h" default:"1s" doc:"tells clients to wait from this to twice as long before they reconnect; 0 tells nothing"`

	// With Hijack the connection ends with the stream: no chunks, no buffer. HTTP/2 subscribers
	// share a connection, so this setting does not apply to them.
	Hijack bool `yaml:"hijack" default:"true" doc:"write straight to HTTP/1.1 connections, with a minimal head"`
	// EventLoop does not apply to HTTP/2, nor to connections that are not plain sockets, such as
	// those of TLS.
	EventLoop  bool          `yaml:"event_loop" default:"true" doc:"write to all these connections from one event loop, with one call for events that came together"`
	BatchDelay time.Duration `yaml:"batch_delay" range:"0..10s" doc:"how long the event loop waits for more events to send together"`
	NoDelay    *bool         `yaml:"no_delay" otherwise:"as Go sets it: on" doc:"TCP_NODELAY"`
	// The kernel doubles the requested size, within the bounds of net.core.wmem_max and rmem_max.
	// The resulting size is logged once and is in the metrics.
	SendBuffer    int `yaml:"send_buffer" kind:"size" range:"0..1GiB" doc:"SO_SNDBUF; 0 leaves it to the kernel"`
	ReceiveBuffer int `yaml:"receive_buffer" kind:"size" range:"0..1GiB" doc:"SO_RCVBUF; 0 leaves it to the kernel"`
	// These socket options need Hijack, or a server that calls ConnContext. They need plain sockets, so they do
	// not apply to TLS. Otherwise the connections keep the server's options, and the log says so once.
	KeepAlive    KeepAlive `yaml:",inline"`
	MeasureFlush bool      `yaml:"measure_flush" doc:"record how long each flush takes in the metrics"`

	// Send writes an entry's event to a subscriber, by calls of write; nil writes its frame by one call.
	Send func(e *journal.Entry, write func([]byte) error) error

	Seed uint64 `yaml:"seed" range:"0..9007199254740992" otherwise:"a new one each time" doc:"makes the random times of retry and drain repeatable"`
	// Logger receives the hub's events, and at debug level those of single subscribers;
	// nil discards them.
	Logger *slog.Logger
	// Registerer gets the hub's metrics, whose names begin with "events_", until Close;
	// nil is none. A registerer can take those of one hub only.
	Registerer prometheus.Registerer
}

// maxRetry bounds the times that updates may tell clients to wait.
const maxRetry = 24 * time.Hour

// Defaults returns a Config with every default.
func Defaults() Config { return fields.Default[Config]() }

// Validate reports every fault at once.
func (c Config) Validate() error { return fields.Validate(c, c.Check) }

// Check reports how fields have to go together, beyond what their tags say.
func (c Config) Check(r *fields.Report) {
	r.Check((c.File != "") == (c.History == HistoryFile), "file", "goes with history file, and only with that", "give both --history file and --file, or neither")
	r.Check((c.Redis.Address != "") == (c.History == HistoryRedis), "redis", "goes with history redis, and only with that", "give both --history redis and --redis, or neither")
	for _, k := range []struct {
		field string
		key   *Key
	}{{"publisher_key", c.PublisherKey}, {"subscriber_key", c.SubscriberKey}} {
		if k.key != nil {
			_, err := k.key.parse()
			r.Error(k.field, err)
		}
	}
	r.Check(c.AnonymousSubscribe || c.SubscriberKey != nil, "subscriber_key", "is missing: no client could subscribe", "give a key, or allow anonymous subscribers")
	const origin = "such as https://example.org or http://localhost:8080"
	for i, o := range c.AllowOrigins {
		r.Check(isOrigin(o) || o == "*" && len(c.AllowOrigins) == 1, fmt.Sprintf("allow_origins[%d]", i), fmt.Sprintf("%q is not an origin", o), origin+`, or "*" alone`)
	}
	for i, o := range c.PublishOrigins {
		r.Check(isOrigin(o), fmt.Sprintf("publish_origins[%d]", i), fmt.Sprintf("%q is not an origin", o), origin)
	}
	r.Check(c.MaxBodiesBytes >= c.MaxUpdateBytes, "max_bodies", fmt.Sprintf("%d is too little", c.MaxBodiesBytes), fmt.Sprintf("at least max_update, %d", c.MaxUpdateBytes))
	r.Check(c.QueueEvents <= c.HistoryEvents, "queue_events", fmt.Sprintf("%d is too much", c.QueueEvents), fmt.Sprintf("at most history_events, %d", c.HistoryEvents))
	r.Check(c.QueueBytes <= c.HistoryBytes, "queue_bytes", fmt.Sprintf("%d is too much", c.QueueBytes), fmt.Sprintf("at most history_bytes, %d", c.HistoryBytes))
	r.Check(c.Outcome != Block || c.History != HistoryRedis, "outcome", "block cannot hold up publishers at other hubs of the stream", "disconnect, drop_oldest or coalesce")
	r.Check(c.Heartbeat == 0 || c.Heartbeat >= fanout.MinPeriod, "heartbeat", fmt.Sprintf("%v is too little", c.Heartbeat), fmt.Sprintf("at least %v, or 0 for never", fanout.MinPeriod))
	// Of the heartbeat that follows from it.
	r.Check(c.ClientBackoff == 0 || c.ClientBackoff >= fanout.MinPeriod*10/8, "client_backoff", fmt.Sprintf("%v is too little", c.ClientBackoff), fmt.Sprintf("at least %v, or 0 if it is not known", fanout.MinPeriod*10/8))
	r.Check(c.ClientBackoff == 0 || c.Heartbeat == 0, "heartbeat", "follows from client_backoff", "leave one of them out")
	r.Check(c.Retry%time.Millisecond == 0, "retry", fmt.Sprintf("%v has a part of a millisecond", c.Retry), "whole milliseconds")

	r.Check(!c.EventLoop || c.Hijack, "event_loop", "needs hijack: it writes to connections of its own", "--event-loop=false")
	r.Check(!c.EventLoop || c.Send == nil, "event_loop", "sends all subscribers the same bytes, and not by Send", "--event-loop=false")
	r.Check(!c.EventLoop || !c.MeasureFlush, "measure_flush", "the event loop flushes nothing", "measure with --event-loop=false")
	r.Check(c.BatchDelay == 0 || c.EventLoop, "batch_delay", "is only for the event loop", "leave it out")
	if c.KeepAlive != (KeepAlive{}) {
		seconds := func(field string, d time.Duration) {
			r.Check(d >= time.Second && d%time.Second == 0, field, fmt.Sprintf("%v is not possible", d), "whole seconds from 1s")
		}
		seconds("keepalive_idle", c.KeepAlive.Idle)
		seconds("keepalive_interval", c.KeepAlive.Interval)
		r.Check(c.KeepAlive.Count > 0, "keepalive_count", "0 is too little", "at least 1")
	}
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

// isOrigin tells whether text is an origin as browsers write it: scheme, host, perhaps port (RFC 6454, section
// 6.2).
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.Scheme+"://"+u.Host == text
}

// A socketOption is an option with its requested value and the value that the kernel gave
// it.
type socketOption struct {
	name         string
	asked, given int
}
