// Package push sends a run's live figures, once a second, to where others are
// watched: Prometheus by remote write, OTLP over HTTP, or InfluxDB.
//
// A Meter makes Samples from what the engine records anyway. A Sender has a bounded
// queue and a goroutine of its own, which encodes and sends:
//
//	sender, err := push.Start(config)
//	meter := push.NewMeter(push.Run{Name: "relay-20260101", Experiment: "relay"}, sender.Put)
//	…                                  // meter.Begin, Interval, End
//	meter.Close()
//	outcome := sender.Close(ctx)
//
// A receiver that is slow or gone costs samples, and says so in the Outcome. It never
// holds up what is measured.
package push

import "time"

// A Label is a name with a value. Names are those of Prometheus labels.
type Label struct{ Name, Value string }

// A Sample is the state of a run at one moment.
type Sample struct {
	Time   time.Time
	Start  time.Time // since when counters count: the trial's begin
	Labels []Label   // of all points: run, experiment, variant, trial, round
	Points []Point
}

// A Point is one value of one series.
type Point struct {
	Metric *Metric
	Labels []Label // of this series, in addition to the sample's
	Value  float64 // must be finite, or the point is left out
	// Exemplar is a request that has this value; nil without one whose trace is known.
	Exemplar *Exemplar
	// Ended says that the series has no further values. Value means nothing then.
	Ended bool
}

// An Exemplar is one request that a value is of.
type Exemplar struct {
	Time    time.Time
	TraceID [16]byte // W3C Trace Context; its second half is the id of the span
	Value   float64
}

// A Metric describes series. Its name is the same for all receivers.
type Metric struct {
	Name    string
	Help    string
	Unit    string // as UCUM has it, which OTLP wants
	Counter bool   // it only grows during a trial; otherwise a gauge
}

// The labels that a metric has in addition to those of the sample.
const (
	LabelClock    = "clock"    // of a latency: response, service, send_lag or delivery
	LabelQuantile = "quantile" // of a latency: 0.5 to 0.999, and 1 for the largest
	LabelKind     = "kind"     // of a flag
	LabelSeverity = "severity" // of a flag: warning or disturbed
)

// metrics are all metrics.
type metrics struct {
	throughput, good, failed, delivered, latency, connections, targetCPU, targetRSS, flag Metric
}

func allMetrics() *metrics {
	return &metrics{
		throughput:  Metric{Name: "dyno_throughput_per_second", Help: "Good responses per second, the warm-up's too.", Unit: "{response}/s"},
		good:        Metric{Name: "dyno_good_total", Help: "Good responses to the requests of the window, and to those carried into it.", Unit: "{response}", Counter: true},
		failed:      Metric{Name: "dyno_failed_total", Help: "Failures among these requests: errors, timeouts, dropped and unfinished ones.", Unit: "{request}", Counter: true},
		delivered:   Metric{Name: "dyno_delivered_total", Help: "Events that arrived at subscribers.", Unit: "{event}", Counter: true},
		latency:     Metric{Name: "dyno_latency_seconds", Help: "Quantiles of the last second's requests in the window, or of its events.", Unit: "s"},
		connections: Metric{Name: "dyno_connections", Help: "Connections that are open.", Unit: "{connection}"},
		targetCPU:   Metric{Name: "dyno_target_cpu_seconds_total", Help: "CPU time of the target's processes.", Unit: "s", Counter: true},
		targetRSS:   Metric{Name: "dyno_target_rss_bytes", Help: "Resident memory of the target's processes.", Unit: "By"},
		flag:        Metric{Name: "dyno_flag", Help: "1 for each kind of finding about a trial, at its end.", Unit: "1"},
	}
}

func (m *metrics) list() []*Metric {
	return []*Metric{&m.throughput, &m.good, &m.failed, &m.delivered, &m.latency, &m.connections, &m.targetCPU, &m.targetRSS, &m.flag}
}

// Metrics returns all metrics that a Meter makes, in a fixed order.
func Metrics() []Metric {
	var all []Metric
	for _, m := range allMetrics().list() {
		all = append(all, *m)
	}
	return all
}
