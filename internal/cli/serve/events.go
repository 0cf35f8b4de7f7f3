package serve

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"dyno/hub"
	"dyno/internal/cli/command"
	"dyno/services/events"
)

func eventsCommand() *cobra.Command {
	c := events.Defaults()
	var (
		verbose                     bool
		noDelay                     bool
		publisherKey, subscriberKey string
	)
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Publish and subscribe to server-sent events",
		Long: `Publish and subscribe to server-sent events.

Subscribe:  curl -N 'http://HOST/events?topic=news'
Publish:    curl -d topic=news -d data=hello http://HOST/events
            curl --data-binary @file 'http://HOST/publish?topic=news'

/.well-known/mercure is the same as /events: clients of the Mercure protocol work.
An update's id cannot be "earliest" or begin with "dyno:", and its type cannot be "gap".
On loopback, requests of other sites' pages need a token, or --allow-origin or --publish-origin.
With --admin, /subscribers lists the subscribers that are furthest behind.`,
		Example: `  dyno serve events --listen 127.0.0.1:7000
  dyno serve events --listen 127.0.0.1:7000 --history file --file events.db
  dyno serve events --listen 127.0.0.1:7000 --pooled-buffers=false --encode-once=false --single-write=false --hijack=false`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			flags := cmd.Flags()
			if c.Listen == "" {
				return command.Usage("such as --listen 127.0.0.1:7000", "--listen: must be given")
			}
			if flags.Changed("no-delay") {
				c.NoDelay = &noDelay
			}
			if !flags.Changed("event-loop") {
				c.EventLoop = c.Hijack && c.EncodeOnce && !c.MeasureFlush // it needs both, and never flushes
			}
			if c.ClientBackoff > 0 && !flags.Changed("heartbeat") {
				c.Heartbeat = 0 // it follows from ClientBackoff
			}
			if c.PublisherKey, err = readKey("publisher-key", publisherKey); err != nil {
				return err
			}
			if c.SubscriberKey, err = readKey("subscriber-key", subscriberKey); err != nil {
				return err
			}
			if !flags.Changed("max-bodies") {
				c.MaxBodiesBytes = max(c.MaxBodiesBytes, c.MaxUpdateBytes)
			}
			c.Logger = logger(cmd.ErrOrStderr(), verbose)
			if err := c.Validate(); err != nil {
				return command.Fail(command.ExitUsage, err, "")
			}
			server, err := events.New(c)
			if err != nil {
				return err
			}
			return server.Serve(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Listen, "listen", c.Listen, "where clients connect: host:port or unix:PATH")
	f.BoolVar(&c.AllowRemote, "allow-remote", c.AllowRemote, "permit listening where other machines can reach it")
	c.AdminFlags(f, "/subscribers")
	f.BoolVar(&c.HTTP2, "http2", c.HTTP2, "let clients also use HTTP/2 without TLS")

	f.StringVar((*string)(&c.History), "history", string(c.History), "where updates are kept: memory, file or redis")
	f.StringVar(&c.File, "file", c.File, "the history's `FILE`: it survives the process, and may not survive a power cut")
	f.StringVar(&c.Redis.Address, "redis", c.Redis.Address, "address of the Redis that has the history: host:port")
	f.StringVar(&c.Redis.Stream, "redis-stream", c.Redis.Stream, "the key of its stream")
	f.Int64Var(&c.Redis.Events, "redis-events", c.Redis.Events, "about how many updates the stream holds")
	f.IntVar(&c.HistoryEvents, "history-events", c.HistoryEvents, "updates held in memory for subscribers that come back")
	f.Int64Var(&c.HistoryBytes, "history-bytes", c.HistoryBytes, "bytes that these updates may take")
	f.DurationVar(&c.HistoryAge, "history-age", c.HistoryAge, "how old these updates may be; 0 is no bound")

	f.StringVar(&publisherKey, "publisher-key", "", "verifies publishers' JWTs: `METHOD:FILE`, HS256 with a secret, RS256 or ES256 with a public key in PEM")
	f.StringVar(&subscriberKey, "subscriber-key", "", "verifies subscribers' JWTs: `METHOD:FILE`")
	f.StringVar(&c.Issuer, "issuer", c.Issuer, "the issuer that JWTs must have")
	f.StringVar(&c.Audience, "audience", c.Audience, "the audience that JWTs must have")
	f.BoolVar(&c.AnonymousSubscribe, "anonymous-subscribe", c.AnonymousSubscribe, "let subscribers without a JWT have public updates")
	f.BoolVar(&c.AnonymousPublish, "anonymous-publish", c.AnonymousPublish, "let anybody publish")
	f.StringSliceVar(&c.AllowOrigins, "allow-origin", c.AllowOrigins, "pages of these origins may subscribe (CORS), or *")
	f.StringSliceVar(&c.PublishOrigins, "publish-origin", c.PublishOrigins, "pages of these origins may publish by cookie, or anonymously")

	f.IntVar(&c.MaxSubscribers, "max-subscribers", c.MaxSubscribers, "subscribers in all; beyond: 503")
	f.IntVar(&c.MaxPerAddress, "max-per-address", c.MaxPerAddress, "subscribers of one address; beyond: 429")
	f.Int64Var(&c.MaxUpdateBytes, "max-update", c.MaxUpdateBytes, "bytes of a publisher's request; beyond: 413")
	f.Int64Var(&c.MaxBodiesBytes, "max-bodies", c.MaxBodiesBytes, "bytes of all publishers' requests that are arriving; beyond: 503")
	f.IntVar(&c.MaxTopics, "max-topics", c.MaxTopics, "topics of an update or a subscription")
	f.IntVar(&c.QueueEvents, "queue-events", c.QueueEvents, "events that may wait for one subscriber")
	f.Int64Var(&c.QueueBytes, "queue-bytes", c.QueueBytes, "bytes of events that may wait for one subscriber")
	f.StringVar((*string)(&c.Outcome), "outcome", string(c.Outcome), "of a full queue: disconnect, drop_oldest, coalesce, or block (publishers wait)")
	f.DurationVar(&c.BlockTimeout, "block-timeout", c.BlockTimeout, "how long publishers wait for a subscriber")
	f.DurationVar(&c.WriteTimeout, "write-timeout", c.WriteTimeout, "of writing one event")
	f.DurationVar(&c.Heartbeat, "heartbeat", c.Heartbeat, "a comment after so long without an event; 0 is never")
	f.DurationVar(&c.ClientBackoff, "client-backoff", c.ClientBackoff, "the longest that clients wait to reconnect: the heartbeat is 0.8 times that")
	f.DurationVar(&c.Retry, "retry", c.Retry, "tells clients to wait from this to twice as long before they reconnect; 0 tells nothing")
	f.DurationVar(&c.DrainTimeout, "drain-timeout", c.DrainTimeout, "over which subscribers are disconnected at the end")

	f.BoolVar(&c.PooledBuffers, "pooled-buffers", c.PooledBuffers, "encode into buffers that are reused")
	f.BoolVar(&c.EncodeOnce, "encode-once", c.EncodeOnce, "encode an event once for all subscribers")
	f.BoolVar(&c.SingleWrite, "single-write", c.SingleWrite, "write an event with one call instead of line by line")
	f.BoolVar(&c.Hijack, "hijack", c.Hijack, "write straight to HTTP/1.1 connections, with a minimal head")
	f.BoolVar(&c.EventLoop, "event-loop", c.EventLoop, "write to all these connections from one event loop, with one call for events that came together")
	f.DurationVar(&c.BatchDelay, "batch-delay", c.BatchDelay, "how long the event loop waits for more events to send together")
	f.BoolVar(&noDelay, "no-delay", true, "TCP_NODELAY (default as Go sets it: on)")
	f.IntVar(&c.SendBuffer, "send-buffer", c.SendBuffer, "SO_SNDBUF in bytes; 0 leaves it to the kernel")
	f.IntVar(&c.ReceiveBuffer, "receive-buffer", c.ReceiveBuffer, "SO_RCVBUF in bytes; 0 leaves it to the kernel")
	f.DurationVar(&c.KeepAlive.Idle, "keepalive-idle", c.KeepAlive.Idle, "TCP keep-alive: time before the first probe")
	f.DurationVar(&c.KeepAlive.Interval, "keepalive-interval", c.KeepAlive.Interval, "TCP keep-alive: time between probes")
	f.IntVar(&c.KeepAlive.Count, "keepalive-count", c.KeepAlive.Count, "TCP keep-alive: probes without an answer that end a connection")
	f.BoolVar(&c.MeasureFlush, "measure-flush", c.MeasureFlush, "record how long each flush takes in the metrics")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "makes the jitter repeatable; 0 is a new seed each time")
	f.BoolVarP(&verbose, "verbose", "v", false, "log the events of single subscribers")
	return cmd
}

// readKey reads METHOD:FILE; an empty text is no key.
func readKey(flag, text string) (*hub.Key, error) {
	if text == "" {
		return nil, nil
	}
	method, file, ok := strings.Cut(text, ":")
	if !ok || file == "" {
		return nil, command.Usage("such as HS256:secret.txt", "--%s: %q: want METHOD:FILE", flag, text)
	}
	key, err := events.ReadKey(method, file)
	if err != nil {
		return nil, command.Fail(command.ExitUsage, fmt.Errorf("--%s: %w", flag, err), "")
	}
	return key, nil
}
