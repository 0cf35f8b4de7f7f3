package bot

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dyno/services/bot/intent"
	"dyno/services/bot/openai"
	"dyno/services/bot/plugin"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// stats counts what happens in a gateway.
type stats struct {
	g           *Gateway
	streams     atomic.Int64 // under way
	requests    *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	queue       prometheus.Histogram
	overhead    prometheus.Histogram
	event       prometheus.Histogram
	first       *prometheus.HistogramVec
	answered    *prometheus.HistogramVec
	gap         *prometheus.HistogramVec
	gaps        [2]prometheus.Observer // of gap: as events come, and as they go
	outcomes    *prometheus.CounterVec
	tokens      *prometheus.CounterVec
	limitedBy   *prometheus.CounterVec
	degradedBy  *prometheus.CounterVec
	maskedBy    *prometheus.CounterVec
	plugins     *prometheus.CounterVec
	resumed     *prometheus.CounterVec
	unsettled   prometheus.Counter
	unaccounted prometheus.Counter
}

func newStats(g *Gateway) *stats {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bot_" + name, Help: help}, labels)
	}
	times := func(name, help string) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: "bot_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(20e-6, 2, 22)} // to 42 s
	}
	// Of what the gateway itself adds, a quantile is told to a fifth.
	fine := func(name, help string) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: "bot_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(2e-6, 1.25, 64)} // to 2.5 s
	}
	s := &stats{
		g:           g,
		requests:    counters("requests_total", "Requests by route and status; 499 is a client that has gone.", "route", "status"),
		seconds:     prometheus.NewHistogramVec(times("request_seconds", "From a request to the end of its answer."), []string{"route"}),
		queue:       prometheus.NewHistogram(times("queue_seconds", "Time that a request waited for a place here.")),
		overhead:    prometheus.NewHistogram(fine("overhead_seconds", "Time of an answer that is no stream, less that of its upstream and plugins, and that in the queue.")),
		event:       prometheus.NewHistogram(fine("event_seconds", "From an event of an upstream to its being passed on.")),
		first:       prometheus.NewHistogramVec(times("first_token_seconds", "From a request to the first event of its stream, by endpoint."), []string{"endpoint"}),
		answered:    prometheus.NewHistogramVec(times("upstream_seconds", "From a question to an upstream's answer, of a stream its first event."), []string{"upstream"}),
		gap:         prometheus.NewHistogramVec(times("token_gap_seconds", "Between two events of a stream: as they come from the upstream, and as they go to the client."), []string{"side"}),
		outcomes:    counters("answers_total", "Answers by endpoint and how they ended.", "endpoint", "outcome"),
		tokens:      counters("tokens_total", "Tokens used by kind, and whether they were told or counted.", "kind", "source"),
		limitedBy:   counters("limited_total", "Requests refused by a limit, by its resource.", "resource"),
		degradedBy:  counters("degraded_total", "Operations without a store that did not answer: sessions, limits or archive.", "store"),
		maskedBy:    counters("masked_total", "Secrets replaced in what is asked and in what is answered.", "direction"),
		plugins:     counters("plugin_calls_total", "Calls to plugins by what became of them; busy and open ones were not made.", "plugin", "outcome"),
		resumed:     counters("resumed_total", "Requests to read on in a stream: ok, gone (not kept) or refused.", "outcome"),
		unsettled:   prometheus.NewCounter(prometheus.CounterOpts{Name: "bot_unsettled_total", Help: "Reservations that could not be settled."}),
		unaccounted: prometheus.NewCounter(prometheus.CounterOpts{Name: "bot_unaccounted_total", Help: "Answers that are not in the ledger: each is an error."}),
	}
	s.gaps = [...]prometheus.Observer{s.gap.WithLabelValues("upstream"), s.gap.WithLabelValues("client")}
	s.begin()
	return s
}

// begin has what has not happened yet be there as 0: a rate needs a beginning.
func (s *stats) begin() {
	for _, endpoint := range []string{"bot", openai.Chat.String(), openai.Responses.String()} {
		s.first.WithLabelValues(endpoint)
		for _, o := range []outcome{outcomeOK, outcomeAborted, outcomeDrained, outcomeFailed, outcomeRefused} {
			s.outcomes.WithLabelValues(endpoint, string(o))
		}
	}
	for _, kind := range []string{"prompt", "completion"} {
		for _, source := range []string{"told", "estimated", "cached"} {
			s.tokens.WithLabelValues(kind, source)
		}
	}
	for _, r := range []store.Resource{store.Requests, store.Tokens, store.Money} {
		s.limitedBy.WithLabelValues(string(r))
	}
	for _, what := range []string{"sessions", "limits", "archive"} {
		s.degradedBy.WithLabelValues(what)
	}
	for _, direction := range []string{"in", "out"} {
		s.maskedBy.WithLabelValues(direction)
	}
	for _, u := range s.g.cfg.Upstream.Upstreams {
		s.answered.WithLabelValues(u.Name)
	}
	for _, p := range s.g.cfg.Plugins {
		for _, o := range []plugin.Outcome{plugin.OK, plugin.Failed, plugin.Late, plugin.Busy, plugin.Open, plugin.None} {
			s.plugins.WithLabelValues(p.Name, string(o))
		}
	}
	for _, o := range []string{"ok", "gone", "refused"} {
		s.resumed.WithLabelValues(o)
	}
}

func (s *stats) collectors() []prometheus.Collector {
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "bot_" + name, Help: help}, read)
	}
	return []prometheus.Collector{
		s.requests, s.seconds, s.queue, s.overhead, s.event, s.first, s.answered, s.gap, s.outcomes, s.tokens, s.limitedBy, s.degradedBy, s.maskedBy, s.plugins, s.resumed, s.unsettled, s.unaccounted,
		gauge("streams", "Streams under way.", func() float64 { return float64(s.streams.Load()) }),
		gauge("answers", "Answers under way.", func() float64 { return float64(s.g.places.taken()) }),
		gauge("bodies_bytes", "Bytes of requests' bodies that are held.", func() float64 { return float64(s.g.bodies.Held()) }),
		gauge("answers_bytes", "Bytes of answers that are held.", func() float64 { return float64(s.g.answers.Held()) }),
		gauge("queue", "Requests that wait for a place.", func() float64 { return float64(s.g.places.waiting()) }),
		gauge("archive_pending", "Records that wait to be written.", func() float64 { return float64(s.g.batch.State().Pending) }),
		gauge("tokens_remembered", "Tokens remembered as verified.", func() float64 { return float64(s.g.verifier.Remembered()) }),
		&collector{s.g},
	}
}

func (s *stats) request(route string, status int, took time.Duration) {
	s.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	s.seconds.WithLabelValues(route).Observe(took.Seconds())
}

// asked notes how long an upstream took to answer; nil is that none has.
func (s *stats) asked(a *upstream.Answer, since time.Time) {
	if a != nil {
		s.answered.WithLabelValues(a.Upstream).Observe(time.Since(since).Seconds())
	}
}

// ended counts an answer.
func (s *stats) ended(e *store.Entry) {
	s.outcomes.WithLabelValues(e.Endpoint, e.Outcome).Inc()
	source := "told"
	if e.Estimated {
		source = "estimated"
	}
	if e.Cached {
		source = "cached"
	}
	if e.Stream && e.FirstByte > 0 {
		s.first.WithLabelValues(e.Endpoint).Observe(e.FirstByte.Seconds())
	}
	s.tokens.WithLabelValues("prompt", source).Add(float64(e.Prompt))
	s.tokens.WithLabelValues("completion", source).Add(float64(e.Completion))
}

func (s *stats) limited(resource string) { s.limitedBy.WithLabelValues(resource).Inc() }

func (s *stats) degraded(what string) { s.degradedBy.WithLabelValues(what).Inc() }

func (s *stats) masked(direction string, n int) {
	if n > 0 {
		s.maskedBy.WithLabelValues(direction).Add(float64(n))
	}
}

// collector hands over what the gateway's parts count.
type collector struct{ g *Gateway }

// describe makes a description of one of the collector's metrics.
func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("bot_"+name, help, labels, nil)
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	for _, u := range c.g.pool.States() {
		ready := 0.0
		if u.Ready {
			ready = 1
		}
		send(describe("upstream_ready", "1 if the upstream is asked, 0 while it cools down.", "upstream"), prometheus.GaugeValue, ready, u.Name)
		send(describe("upstream_active", "Calls under way.", "upstream"), prometheus.GaugeValue, float64(u.Active), u.Name)
		send(describe("upstream_calls_total", "Calls.", "upstream"), prometheus.CounterValue, float64(u.Asked), u.Name)
		send(describe("upstream_failures_total", "Calls that failed.", "upstream"), prometheus.CounterValue, float64(u.Failures), u.Name)
		send(describe("upstream_cooldowns_total", "Times that it began to cool down.", "upstream"), prometheus.CounterValue, float64(u.Cooled), u.Name)
	}
	made, refused := c.g.pool.Retries()
	send(describe("retries_total", "Requests tried again."), prometheus.CounterValue, float64(made))
	send(describe("retries_refused_total", "Requests not tried again for want of budget."), prometheus.CounterValue, float64(refused))
	b := c.g.batch.State()
	send(describe("archive_records_total", "Records written."), prometheus.CounterValue, float64(b.Written))
	send(describe("archive_batches_total", "Batches written."), prometheus.CounterValue, float64(b.Batches))
	if f, ok := c.g.rules.(*intent.File); ok {
		good, faulty := f.Loads()
		send(describe("rules_loads_total", "Times that the rules of intents were read, by result.", "result"), prometheus.CounterValue, float64(good), "good")
		send(describe("rules_loads_total", "Times that the rules of intents were read, by result.", "result"), prometheus.CounterValue, float64(faulty), "faulty")
	}
	if c.g.events != nil {
		s := c.g.events.Stats()
		send(describe("resume_streams", "Streams whose events are kept."), prometheus.GaugeValue, float64(s.Streams))
		send(describe("resume_bytes", "Bytes of these events, about."), prometheus.GaugeValue, float64(s.Bytes))
	}
	if c.g.tracer != nil {
		s := c.g.tracer.Stats()
		for result, n := range map[string]uint64{"ended": s.Ended, "sent": s.Sent, "failed": s.Failed} {
			send(describe("spans_total", "Spans of traces: ended; of these, sent or failed. Others wait, or were dropped.", "result"), prometheus.CounterValue, float64(n), result)
		}
	}
	if c.g.cache != nil {
		s := c.g.cache.Stats()
		send(describe("cache_requests_total", "Requests to the cache by result.", "result"), prometheus.CounterValue, float64(s.Hits), "hit")
		send(describe("cache_requests_total", "Requests to the cache by result.", "result"), prometheus.CounterValue, float64(s.Misses), "miss")
		send(describe("cache_requests_total", "Requests to the cache by result.", "result"), prometheus.CounterValue, float64(s.Joined), "joined")
		send(describe("cache_bytes", "Bytes that the cache holds, about."), prometheus.GaugeValue, float64(s.Bytes))
	}
}
