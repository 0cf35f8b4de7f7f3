// Package metrics counts what happens in a gateway.
package metrics

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dyno/services/bot/openai"
	"dyno/services/bot/plugin"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// Stats count what happens in a gateway. All methods may be called from any goroutine.
type Stats struct {
	Streams     atomic.Int64 // under way
	Requests    *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	Queue       prometheus.Histogram
	Overhead    prometheus.Histogram
	Event       prometheus.Histogram
	first       *prometheus.HistogramVec
	answered    *prometheus.HistogramVec
	gap         *prometheus.HistogramVec
	Gaps        [2]prometheus.Observer // of gaps between events: as they come, and as they go
	outcomes    *prometheus.CounterVec
	tokens      *prometheus.CounterVec
	limitedBy   *prometheus.CounterVec
	degradedBy  *prometheus.CounterVec
	maskedBy    *prometheus.CounterVec
	Plugins     *prometheus.CounterVec
	Resumed     *prometheus.CounterVec
	Unsettled   prometheus.Counter
	Unaccounted prometheus.Counter

	answersBy, tokensBy, moneyBy *prometheus.CounterVec   // by who pays
	calls, callTokens            *prometheus.HistogramVec // by OpenTelemetry's names

	mu     sync.Mutex         // guards payers
	payers map[[3]string]bool // and what is called
}

// maxPayers bounds the triples of key, team and model that have counters of their own. All others are named other.
const maxPayers = 1000

// New returns counters of a gateway with these upstreams and plugins, by name.
func New(upstreams, plugins []string) *Stats {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bot_" + name, Help: help}, labels)
	}
	times := func(name, help string) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: "bot_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(20e-6, 2, 22)} // to 42 s
	}
	// For the gateway's own time, quantiles are exact to a fifth.
	fine := func(name, help string) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: "bot_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(2e-6, 1.25, 64)} // to 2.5 s
	}
	s := &Stats{
		Requests:   counters("requests_total", "Requests by route and status; 499 is a client that has gone.", "route", "status"),
		seconds:    prometheus.NewHistogramVec(times("request_seconds", "From a request to the end of its answer."), []string{"route"}),
		Queue:      prometheus.NewHistogram(times("queue_seconds", "Time that a request waited for a place here.")),
		Overhead:   prometheus.NewHistogram(fine("overhead_seconds", "Time of an answer that is no stream, less that of its upstream and plugins, and that in the queue.")),
		Event:      prometheus.NewHistogram(fine("event_seconds", "From an event of an upstream to its being passed on.")),
		first:      prometheus.NewHistogramVec(times("first_token_seconds", "From a request to the first event of its stream, by endpoint."), []string{"endpoint"}),
		answered:   prometheus.NewHistogramVec(times("upstream_seconds", "From a question to an upstream's answer, of a stream its first event."), []string{"upstream"}),
		gap:        prometheus.NewHistogramVec(times("token_gap_seconds", "Between two events of a stream: as they come from the upstream, and as they go to the client."), []string{"side"}),
		outcomes:   counters("answers_total", "Answers by endpoint and how they ended.", "endpoint", "outcome"),
		tokens:     counters("tokens_total", "Tokens used, by kind, and by source: reported by the upstream, estimated, or cached.", "kind", "source"),
		limitedBy:  counters("limited_total", "Requests refused by a limit, by its resource.", "resource"),
		degradedBy: counters("degraded_total", "Operations without a store that did not answer: sessions, limits, archive or directory.", "store"),
		maskedBy:   counters("masked_total", "Secrets replaced in requests and in answers.", "direction"),
		Plugins:    counters("plugin_calls_total", "Calls to plugins by what became of them; busy and open ones were not made.", "plugin", "outcome"),
		Resumed:    counters("resumed_total", "Requests to read on in a stream: ok, gone (not kept) or refused.", "outcome"),
		Unsettled:  prometheus.NewCounter(prometheus.CounterOpts{Name: "bot_unsettled_total", Help: "Reservations that could not be settled."}),
		answersBy:  counters("key_answers_total", "Answers by key, team and model; after 1,000 of these triples, of others together.", "key", "team", "model", "outcome"),
		tokensBy:   counters("key_tokens_total", "Tokens used, by key, team and model.", "key", "team", "model", "kind"),
		moneyBy:    counters("key_money_total", "Money used, by key, team and model.", "key", "team", "model"),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "gen_ai_client_operation_duration_seconds", Help: "Calls of upstreams.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 14)},
			[]string{"gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "error_type"}),
		callTokens: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "gen_ai_client_token_usage", Help: "Tokens of a call of an upstream.", Buckets: prometheus.ExponentialBuckets(1, 4, 14)},
			[]string{"gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "gen_ai_token_type"}),
		payers:      map[[3]string]bool{},
		Unaccounted: prometheus.NewCounter(prometheus.CounterOpts{Name: "bot_unaccounted_total", Help: "Answers that are not in the ledger: each is an error."}),
	}
	s.Gaps = [...]prometheus.Observer{s.gap.WithLabelValues("upstream"), s.gap.WithLabelValues("client")}
	s.begin(upstreams, plugins)
	return s
}

// begin sets counters to 0: a rate needs a first value.
func (s *Stats) begin(upstreams, plugins []string) {
	endpoints := []string{"bot", openai.Chat.String(), openai.Responses.String(), openai.Messages.String(), openai.Tokens.String(), openai.Contents.String(), openai.ContentTokens.String()}
	for _, o := range openai.Operations {
		endpoints = append(endpoints, o.Name)
	}
	for _, endpoint := range endpoints {
		s.first.WithLabelValues(endpoint)
		for _, o := range []string{"ok", "aborted", "drained", "failed", "refused"} {
			s.outcomes.WithLabelValues(endpoint, o)
		}
	}
	for _, kind := range []string{"prompt", "completion"} {
		for _, source := range []string{"told", "estimated", "cached"} {
			s.tokens.WithLabelValues(kind, source)
		}
	}
	for _, r := range []store.Resource{store.Requests, store.Tokens, store.Money, store.Parallel} {
		s.limitedBy.WithLabelValues(string(r))
	}
	for _, what := range []string{"sessions", "limits", "archive", "directory"} {
		s.degradedBy.WithLabelValues(what)
	}
	for _, direction := range []string{"in", "out"} {
		s.maskedBy.WithLabelValues(direction)
	}
	for _, name := range upstreams {
		s.answered.WithLabelValues(name)
	}
	for _, name := range plugins {
		for _, o := range []plugin.Outcome{plugin.OK, plugin.Failed, plugin.Late, plugin.Busy, plugin.Open, plugin.None} {
			s.Plugins.WithLabelValues(name, string(o))
		}
	}
	for _, o := range []string{"ok", "gone", "refused"} {
		s.Resumed.WithLabelValues(o)
	}
}

// Request counts a request of a route.
func (s *Stats) Request(route string, status int, took time.Duration) {
	s.Requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	s.seconds.WithLabelValues(route).Observe(took.Seconds())
}

// Asked notes how long an upstream took to answer; nil means that none has.
func (s *Stats) Asked(a *upstream.Answer, since time.Time) {
	if a != nil {
		s.answered.WithLabelValues(a.Upstream).Observe(time.Since(since).Seconds())
	}
}

// Ended counts an answer.
func (s *Stats) Ended(e *store.Entry) {
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
	by := s.bounded([3]string{e.Key, e.Team, e.Model})
	s.answersBy.WithLabelValues(by[0], by[1], by[2], e.Outcome).Inc()
	if !e.Cached {
		s.tokensBy.WithLabelValues(by[0], by[1], by[2], "prompt").Add(float64(e.Prompt))
		s.tokensBy.WithLabelValues(by[0], by[1], by[2], "completion").Add(float64(e.Completion))
		s.moneyBy.WithLabelValues(by[:]...).Add(float64(e.Money) / 1e9)
	}
}

// Called notes a call of an upstream.
func (s *Stats) Called(c *upstream.Called) {
	by := s.bounded([3]string{c.Operation, c.Provider, c.Model})
	s.calls.WithLabelValues(by[0], by[1], by[2], c.Failure).Observe(c.Took.Seconds())
	if c.Usage.Total() > 0 {
		s.callTokens.WithLabelValues(by[0], by[1], by[2], "input").Observe(float64(c.Usage.Prompt))
		s.callTokens.WithLabelValues(by[0], by[1], by[2], "output").Observe(float64(c.Usage.Completion))
	}
}

// bounded returns the labels of who pays for an answer, or of what is called.
func (s *Stats) bounded(by [3]string) [3]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.payers[by] {
		if len(s.payers) == maxPayers {
			return [3]string{"other", "other", "other"}
		}
		s.payers[by] = true
	}
	return by
}

// Limited counts a request that a limit of a resource refused.
func (s *Stats) Limited(resource string) { s.limitedBy.WithLabelValues(resource).Inc() }

// Degraded counts an operation without a store that did not answer.
func (s *Stats) Degraded(what string) { s.degradedBy.WithLabelValues(what).Inc() }

// Masked counts secrets that were replaced.
func (s *Stats) Masked(direction string, n int) {
	if n > 0 {
		s.maskedBy.WithLabelValues(direction).Add(float64(n))
	}
}

// Collectors returns all metrics, to be registered.
func (s *Stats) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		s.Requests, s.seconds, s.Queue, s.Overhead, s.Event, s.first, s.answered, s.gap, s.outcomes, s.tokens, s.answersBy, s.tokensBy, s.moneyBy, s.calls, s.callTokens, s.limitedBy, s.degradedBy, s.maskedBy, s.Plugins, s.Resumed, s.Unsettled, s.Unaccounted,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "bot_streams", Help: "Streams under way."}, func() float64 { return float64(s.Streams.Load()) }),
	}
}
