package bot

import (
	"github.com/prometheus/client_golang/prometheus"

	"dyno/services/bot/intent"
)

// collectors returns the metrics of the gateway and its parts.
func (g *Gateway) collectors() []prometheus.Collector {
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "bot_" + name, Help: help}, read)
	}
	return append(g.stats.Collectors(),
		gauge("answers", "Answers under way.", func() float64 { return float64(g.places.Taken()) }),
		gauge("bodies_bytes", "Bytes of requests' bodies that are held.", func() float64 { return float64(g.bodies.Held()) }),
		gauge("answers_bytes", "Bytes of answers that are held.", func() float64 { return float64(g.answers.Held()) }),
		gauge("queue", "Requests that wait for a place.", func() float64 { return float64(g.places.Waiting()) }),
		gauge("archive_pending", "Records that wait to be written.", func() float64 { return float64(g.batch.State().Pending) }),
		gauge("tokens_remembered", "Tokens remembered as verified.", func() float64 { return float64(g.verifier.Remembered()) }),
		&collector{g},
	)
}

// collector exports the metrics of the gateway's parts.
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
	for _, u := range c.g.live.Load().pool.States() {
		ready := 0.0
		if u.Ready {
			ready = 1
		}
		send(describe("upstream_ready", "1 if the model is asked for, 0 while it cools down.", "upstream", "model"), prometheus.GaugeValue, ready, u.Name, u.Model)
		send(describe("upstream_active", "Calls under way.", "upstream", "model"), prometheus.GaugeValue, float64(u.Active), u.Name, u.Model)
		send(describe("upstream_calls_total", "Calls.", "upstream", "model"), prometheus.CounterValue, float64(u.Asked), u.Name, u.Model)
		send(describe("upstream_failures_total", "Calls that failed.", "upstream", "model"), prometheus.CounterValue, float64(u.Failures), u.Name, u.Model)
		send(describe("upstream_cooldowns_total", "Times that the model began to cool down.", "upstream", "model"), prometheus.CounterValue, float64(u.Cooled), u.Name, u.Model)
	}
	made, refused := c.g.live.Load().pool.Retries()
	send(describe("retries_total", "Requests tried again."), prometheus.CounterValue, float64(made))
	send(describe("retries_refused_total", "Requests not tried again, because the budget was used up."), prometheus.CounterValue, float64(refused))
	b := c.g.batch.State()
	send(describe("archive_records_total", "Records written."), prometheus.CounterValue, float64(b.Written))
	send(describe("archive_batches_total", "Batches written."), prometheus.CounterValue, float64(b.Batches))
	if f, ok := c.g.rules.(*intent.File); ok {
		good, faulty := f.Loads()
		send(describe("rules_loads_total", "Readings of the rules of intents, by result.", "result"), prometheus.CounterValue, float64(good), "good")
		send(describe("rules_loads_total", "Readings of the rules of intents, by result.", "result"), prometheus.CounterValue, float64(faulty), "faulty")
	}
	if c.g.requests != nil {
		send(describe("log_lost_total", "Lines of the log of requests that could not be written, or waited too long."), prometheus.CounterValue, float64(c.g.requests.Lost.Load()))
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
