package store

import "github.com/prometheus/client_golang/prometheus"

var (
	descBusy    = prometheus.NewDesc("control_store_busy_total", "Requests refused because too many waited.", nil, nil)
	descRetries = prometheus.NewDesc("control_store_retries_total", "Transactions sent again because their fate was not known.", nil, nil)
	descResyncs = prometheus.NewDesc("control_store_resyncs_total", "Listings because etcd had compacted what a follower had missed.", nil, nil)
	descQueue   = prometheus.NewDesc("control_store_queue_requests", "Requests that wait for a transaction.", nil, nil)
	descSilence = prometheus.NewDesc("control_store_silence_seconds", "Since etcd last answered.", nil, nil)
)

var _ prometheus.Collector = (*Store)(nil)

// Describe is for Prometheus.
func (s *Store) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, ch) }

// Collect is for Prometheus. It asks etcd nothing.
func (s *Store) Collect(ch chan<- prometheus.Metric) {
	s.stats.group.Collect(ch)
	s.stats.commit.Collect(ch)
	ch <- prometheus.MustNewConstMetric(descBusy, prometheus.CounterValue, float64(s.stats.busy.Load()))
	ch <- prometheus.MustNewConstMetric(descRetries, prometheus.CounterValue, float64(s.stats.retries.Load()))
	ch <- prometheus.MustNewConstMetric(descResyncs, prometheus.CounterValue, float64(s.stats.resyncs.Load()))
	ch <- prometheus.MustNewConstMetric(descQueue, prometheus.GaugeValue, float64(len(s.queue)))
	ch <- prometheus.MustNewConstMetric(descSilence, prometheus.GaugeValue, s.Silence().Seconds())
}
