package store

import (
	"github.com/prometheus/client_golang/prometheus"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

var (
	descBusy    = prometheus.NewDesc("control_store_busy_total", "Requests refused because too many waited.", nil, nil)
	descRetries = prometheus.NewDesc("control_store_retries_total", "Transactions sent again because their fate was not known.", nil, nil)
	descResyncs = prometheus.NewDesc("control_store_resyncs_total", "Listings because etcd had compacted changes that a follower had missed.", nil, nil)
	descQueue   = prometheus.NewDesc("control_store_queue_requests", "Requests that wait for a transaction.", nil, nil)
	descSilence = prometheus.NewDesc("control_store_silence_seconds", "Since etcd last answered.", nil, nil)
)

// The state of etcd at upkeep's last query.
var (
	descBytes = prometheus.NewDesc("control_store_database_bytes", "Of the database's file, which etcd compares with its quota.", []string{"endpoint"}, nil)
	descUsed  = prometheus.NewDesc("control_store_database_used_bytes", "Of these, in use: the rest is used again, or given back by a reclaim.", []string{"endpoint"}, nil)
	descQuota = prometheus.NewDesc("control_store_quota_bytes", "Of the file at which etcd refuses all writes.", []string{"endpoint"}, nil)
	descAlarm = prometheus.NewDesc("control_store_alarms", "Members with an alarm: NOSPACE refuses writes, CORRUPT everything; DISKFULL is that of this replica's own disk, which refuses writes.", []string{"alarm"}, nil)
)

var _ prometheus.Collector = (*Store)(nil)

// Describe implements prometheus.Collector.
func (s *Store) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, ch) }

// Collect implements prometheus.Collector. It sends no query to etcd.
func (s *Store) Collect(ch chan<- prometheus.Metric) {
	s.stats.group.Collect(ch)
	s.stats.commit.Collect(ch)
	ch <- prometheus.MustNewConstMetric(descBusy, prometheus.CounterValue, float64(s.stats.busy.Load()))
	ch <- prometheus.MustNewConstMetric(descRetries, prometheus.CounterValue, float64(s.stats.retries.Load()))
	ch <- prometheus.MustNewConstMetric(descResyncs, prometheus.CounterValue, float64(s.stats.resyncs.Load()))
	ch <- prometheus.MustNewConstMetric(descQueue, prometheus.GaugeValue, float64(len(s.queue)))
	ch <- prometheus.MustNewConstMetric(descSilence, prometheus.GaugeValue, s.Silence().Seconds())
	full := 0.0
	if s.full.Load() != nil {
		full = 1
	}
	ch <- prometheus.MustNewConstMetric(descAlarm, prometheus.GaugeValue, full, alarmDisk)
	st := s.status.Load()
	if st == nil {
		return
	}
	alarms := map[string]int{pb.AlarmType_NOSPACE.String(): 0, pb.AlarmType_CORRUPT.String(): 0}
	for _, a := range st.Alarms {
		alarms[a]++
	}
	delete(alarms, alarmDisk) // reported before, in its present state
	for alarm, n := range alarms {
		ch <- prometheus.MustNewConstMetric(descAlarm, prometheus.GaugeValue, float64(n), alarm)
	}
	for _, m := range st.Members {
		if m.Error != "" {
			continue // its value is unknown
		}
		ch <- prometheus.MustNewConstMetric(descBytes, prometheus.GaugeValue, float64(m.Bytes), m.Endpoint)
		ch <- prometheus.MustNewConstMetric(descUsed, prometheus.GaugeValue, float64(m.BytesUsed), m.Endpoint)
		ch <- prometheus.MustNewConstMetric(descQuota, prometheus.GaugeValue, float64(m.Quota), m.Endpoint)
	}
}
