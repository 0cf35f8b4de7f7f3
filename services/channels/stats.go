package channels

import "github.com/prometheus/client_golang/prometheus"

// Stats are the counts of a channel since its start. At any moment
//
//	Received = Delivered + Dropped + Pending
//
// holds exactly.
type Stats struct {
	Channel string

	Received  uint64 // records that arrived whole
	Delivered uint64 // records that the sink has for good, or was found to have
	Dropped   uint64 // records given up because the buffer was full
	Pending   uint64 // records in the buffer, sent and unacknowledged, or waiting for room

	DeliveredBytes uint64 // of payload
	PendingBytes   uint64 // of payload, in the buffer

	Rejected     uint64 // records longer than allowed
	Torn         uint64 // records left incomplete by their producer or file
	Repeated     uint64 // records of framed peers that had arrived before, and are not in Received
	Missing      uint64 // numbers that framed peers left out after their first record here: records that they had dropped
	Connections  uint64 // of producers, open
	Accepted     uint64 // connections of producers
	Refused      uint64 // connections beyond the limit
	Disconnected uint64 // producers closed because the buffer was full
	Rotations    uint64 // of the followed file
	Truncations  uint64 // of the followed file
	Connects     uint64 // to the sink
	SourceErrors uint64 // failures of the source that were followed by another attempt
	SinkErrors   uint64 // failures of the sink that were followed by another attempt
	Reopened     uint64 // times the path of a sink that is a file was opened again
}

// Stats returns the counts of all channels, each in itself consistent. It may
// be called at any time, also concurrently.
func (s *Server) Stats() []Stats {
	all := make([]Stats, len(s.channels))
	for i, ch := range s.channels {
		all[i] = ch.stats()
	}
	return all
}

func (ch *channel) stats() Stats {
	b, c := ch.buffer, &ch.count
	b.mu.Lock()
	st := Stats{
		Received:       b.received,
		Delivered:      b.delivered,
		Dropped:        b.droppedN,
		Pending:        uint64(b.sent.len() + b.queue.len() + b.waiting),
		DeliveredBytes: b.deliveredBytes,
		PendingBytes:   uint64(b.bytes),
	}
	b.mu.Unlock()
	st.Channel = ch.config.Name
	st.Rejected = c.rejected.Load()
	st.Torn = c.torn.Load()
	st.Repeated = c.repeated.Load()
	st.Missing = c.missing.Load()
	st.Connections = uint64(c.connections.Load())
	st.Accepted = c.accepted.Load()
	st.Refused = c.refused.Load()
	st.Disconnected = c.disconnected.Load()
	st.Rotations = c.rotations.Load()
	st.Truncations = c.truncations.Load()
	st.Connects = c.connects.Load()
	st.SourceErrors = c.sourceErrors.Load()
	st.SinkErrors = c.sinkErrors.Load()
	st.Reopened = c.reopened.Load()
	return st
}

// A collector reads the counts when they are scraped, so that a scrape is as
// consistent as Stats.
type collector struct {
	server  *Server
	metrics []metric
}

type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(Stats) uint64
}

func newCollector(s *Server) *collector {
	c := &collector{server: s}
	add := func(name, help string, kind prometheus.ValueType, value func(Stats) uint64) {
		desc := prometheus.NewDesc("channels_"+name, help, []string{"channel"}, nil)
		c.metrics = append(c.metrics, metric{desc, kind, value})
	}
	counter, gauge := prometheus.CounterValue, prometheus.GaugeValue
	add("received_records_total", "Records that arrived whole.", counter, func(s Stats) uint64 { return s.Received })
	add("delivered_records_total", "Records the sink has for good.", counter, func(s Stats) uint64 { return s.Delivered })
	add("dropped_records_total", "Records given up because the buffer was full.", counter, func(s Stats) uint64 { return s.Dropped })
	add("pending_records", "Records received, and neither delivered nor dropped.", gauge, func(s Stats) uint64 { return s.Pending })
	add("delivered_bytes_total", "Payload of delivered records.", counter, func(s Stats) uint64 { return s.DeliveredBytes })
	add("pending_bytes", "Payload of buffered records.", gauge, func(s Stats) uint64 { return s.PendingBytes })
	add("rejected_records_total", "Records longer than allowed.", counter, func(s Stats) uint64 { return s.Rejected })
	add("torn_records_total", "Records left incomplete.", counter, func(s Stats) uint64 { return s.Torn })
	add("repeated_records_total", "Records of framed peers that had arrived before.", counter, func(s Stats) uint64 { return s.Repeated })
	add("missing_records_total", "Records that framed peers had dropped.", counter, func(s Stats) uint64 { return s.Missing })
	add("connections", "Open connections of producers.", gauge, func(s Stats) uint64 { return s.Connections })
	add("accepted_connections_total", "Connections of producers.", counter, func(s Stats) uint64 { return s.Accepted })
	add("refused_connections_total", "Connections beyond the limit.", counter, func(s Stats) uint64 { return s.Refused })
	add("disconnected_total", "Producers closed because the buffer was full.", counter, func(s Stats) uint64 { return s.Disconnected })
	add("rotations_total", "Rotations of the followed file.", counter, func(s Stats) uint64 { return s.Rotations })
	add("truncations_total", "Truncations of the followed file.", counter, func(s Stats) uint64 { return s.Truncations })
	add("sink_connects_total", "Connections made to the sink.", counter, func(s Stats) uint64 { return s.Connects })
	add("source_errors_total", "Failures of the source that were followed by another attempt.", counter, func(s Stats) uint64 { return s.SourceErrors })
	add("sink_reopened_total", "Times the path of the sink's file was opened again.", counter, func(s Stats) uint64 { return s.Reopened })
	add("sink_errors_total", "Failures of the sink that were followed by another attempt.", counter, func(s Stats) uint64 { return s.SinkErrors })
	return c
}

func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		out <- m.desc
	}
}

func (c *collector) Collect(out chan<- prometheus.Metric) {
	for _, st := range c.server.Stats() {
		for _, m := range c.metrics {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, float64(m.value(st)), st.Channel)
		}
	}
}
