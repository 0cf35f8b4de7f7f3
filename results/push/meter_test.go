package push

import (
	"math"
	"slices"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"

	"dyno/load/engine/record"
	"dyno/load/hist"
	"dyno/results/rundir"
)

// tenth is an interval of 100 ms with n good responses of 2 ms.
func tenth(n int) record.Interval {
	i := record.Interval{Length: 100 * time.Millisecond, Measured: record.Outcomes{OK: uint64(n)}, Connections: 5}
	if n == 0 {
		return i
	}
	h := hist.New()
	h.RecordN(int64(2*time.Millisecond), int64(n))
	i.Latency[record.Response], i.Latency[record.Service] = h, h
	return i
}

// failing are the counts of an interval with n good responses and one failure.
func failing(n int64) rundir.Counts { return rundir.Counts{OK: n, Errors: 1} }

// value of a point; NaN when there is none.
func (s Sample) value(name string, labels ...Label) float64 {
	for _, p := range s.Points {
		if p.Metric.Name == name && slices.Equal(p.Labels, labels) && !p.Ended {
			return p.Value
		}
	}
	return math.NaN()
}

// metered runs a meter with a clock that stands still.
func metered(play func(*Meter)) (samples []Sample) {
	m := NewMeter(Run{"relay-1", "relay"}, func(s Sample) { samples = append(samples, s) })
	m.now = epoch
	play(m)
	return samples
}

func TestMeter(t *testing.T) {
	samples := metered(func(m *Meter) {
		m.Interval(tenth(9), failing(9)) // belongs to no trial
		m.Begin(Trial{"pool", 3, 1})
		for n := range 25 {
			m.Reading(float64(n), 4096)
			if n < 10 {
				m.Interval(tenth(0), failing(0))
			} else {
				m.Interval(tenth(50), failing(50))
			}
		}
		m.End(rundir.Counts{OK: 749, Errors: 25, Dropped: 3, Unfinished: 2, Carried: rundir.Carried{OK: 1, Timeouts: 4}}, []Flag{{"steal", false}, {"drops", true}, {"steal", false}})
		m.Interval(tenth(9), failing(9))
	})
	if len(samples) != 5 {
		t.Fatalf("%d samples, want the beginning, two seconds, the totals and the end", len(samples))
	}
	want := []Label{{"experiment", "relay"}, {"round", "1"}, {"run", "relay-1"}, {"trial", "3"}, {"variant", "pool"}}
	for i, s := range samples {
		if !slices.Equal(s.Labels, want) || !s.Start.Equal(epoch()) {
			t.Errorf("sample %d: labels %v since %v, want %v", i, s.Labels, s.Start, want)
		}
		if i > 0 && s.Time.Sub(samples[i-1].Time) < time.Millisecond {
			t.Errorf("sample %d is less than a millisecond after the one before", i)
		}
	}
	begin, warmup, second, totals := samples[0], samples[1], samples[2], samples[3]
	p99 := []Label{{LabelClock, "response"}, {LabelQuantile, "0.99"}}
	for _, c := range []struct {
		of   Sample
		name string
		want float64
	}{
		{begin, "dyno_good_total", 0}, {begin, "dyno_failed_total", 0},
		{totals, "dyno_good_total", 750}, {totals, "dyno_failed_total", 34}, // whatever the intervals had
		{warmup, "dyno_throughput_per_second", 0}, {warmup, "dyno_failed_total", 10}, {warmup, "dyno_target_cpu_seconds_total", 9},
		{second, "dyno_throughput_per_second", 500}, {second, "dyno_good_total", 500}, {second, "dyno_failed_total", 20},
		{second, "dyno_connections", 5}, {second, "dyno_target_cpu_seconds_total", 19}, {second, "dyno_target_rss_bytes", 4096},
	} {
		if got := c.of.value(c.name); got != c.want {
			t.Errorf("%s is %v, want %v", c.name, got, c.want)
		}
	}
	if got := second.value("dyno_latency_seconds", p99...); math.Abs(got-0.002) > 0.00002 {
		t.Errorf("p99 is %v, want 2 ms", got)
	}
	if got := warmup.value("dyno_latency_seconds", p99...); !math.IsNaN(got) {
		t.Errorf("the warm-up has a p99 of %v", got)
	}
	if got := second.value("dyno_delivered_total"); !math.IsNaN(got) {
		t.Errorf("%v events without subscribers", got)
	}
	if f := totals; !math.IsNaN(f.value("dyno_throughput_per_second")) || f.value("dyno_latency_seconds", p99...) == 0 || f.value("dyno_flag", Label{LabelKind, "steal"}, Label{LabelSeverity, "warning"}) != 1 ||
		f.value("dyno_flag", Label{LabelKind, "drops"}, Label{LabelSeverity, "disturbed"}) != 1 {
		t.Errorf("flags: %+v", f.Points)
	}
	// What has had a value ends, once.
	if got := len(samples[4].Points); got != len(second.Points)+2 {
		t.Errorf("%d series end, want %d", got, len(second.Points)+2)
	}
	for _, p := range samples[4].Points {
		if !p.Ended {
			t.Errorf("%s does not end", p.Metric.Name)
		}
	}
}

// Each trial counts from zero, and the one before has ended.
func TestMeterRestarts(t *testing.T) {
	samples := metered(func(m *Meter) {
		for n := range 2 {
			m.Begin(Trial{"pool", n + 1, 1})
			m.Interval(record.Interval{Length: time.Second}, rundir.Counts{OK: 3})
			m.Interval(record.Interval{Length: time.Second / 2}, rundir.Counts{OK: 3})
		}
	})
	if len(samples) != 5 || !samples[2].Points[0].Ended || samples[4].value("dyno_good_total") != 3 || samples[4].Labels[3].Value != "2" {
		t.Errorf("%+v", samples)
	}
}

// Of a trial that is shorter than a second there are the totals and all figures. One that is void, whose counts
// nobody has, ends with what was told of it.
func TestMeterOfShortTrials(t *testing.T) {
	samples := metered(func(m *Meter) {
		m.Begin(Trial{"pool", 1, 1})
		m.Interval(tenth(5), failing(5))
		m.End(rundir.Counts{OK: 5, Timeouts: 2}, nil)
		m.Begin(Trial{"pool", 2, 1})
		m.Interval(tenth(5), failing(5))
		m.End(rundir.Counts{}, nil)
	})
	if len(samples) != 6 {
		t.Fatalf("%d samples", len(samples))
	}
	for _, c := range []struct {
		of           Sample
		good, failed float64
	}{{samples[0], 0, 0}, {samples[1], 5, 2}, {samples[4], 5, 1}} {
		if good, failed := c.of.value("dyno_good_total"), c.of.value("dyno_failed_total"); good != c.good || failed != c.failed {
			t.Errorf("%v good and %v failed, want %v and %v", good, failed, c.good, c.failed)
		}
	}
	p50 := samples[1].value("dyno_latency_seconds", Label{LabelClock, "response"}, Label{LabelQuantile, "0.5"})
	if rate := samples[1].value("dyno_throughput_per_second"); rate != 50 || math.Abs(p50-0.002) > 0.00002 {
		t.Errorf("%v a second, p50 %v", rate, p50)
	}
}

// The largest response time of a second has the request with that trace as its exemplar, here and as OTLP.
func TestExemplars(t *testing.T) {
	trace := [16]byte{1, 15: 2}
	samples := metered(func(m *Meter) {
		m.Begin(Trial{"pool", 3, 1})
		for n := range 25 {
			i := tenth(50)
			i.Start = time.Duration(n) * i.Length
			if n == 4 || n == 6 {
				i.Slowest = record.Slow{Trace: trace, Written: int64(i.Start + 10*time.Millisecond), Response: time.Duration(10-n) * time.Millisecond}
			}
			m.Interval(i, rundir.Counts{})
		}
		m.Close()
	})
	var found []Exemplar
	for _, s := range samples {
		for _, p := range s.Points {
			if p.Exemplar == nil {
				continue
			}
			found = append(found, *p.Exemplar)
			if p.Ended || !slices.Equal(p.Labels, []Label{{LabelClock, "response"}, {LabelQuantile, "1"}}) {
				t.Errorf("%+v", p)
			}
		}
	}
	if want := (Exemplar{Time: epoch().Add(-90 * time.Millisecond), TraceID: trace, Value: 0.006}); len(found) != 1 || found[0] != want {
		t.Fatalf("%+v, want %+v once", found, want)
	}
	body, err := otlpRequest(samples[:2])
	if err != nil {
		t.Fatal(err)
	}
	var request collector.ExportMetricsServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range request.ResourceMetrics[0].ScopeMetrics[0].Metrics {
		for _, p := range m.GetGauge().GetDataPoints() {
			for _, x := range p.Exemplars {
				n++
				if !slices.Equal(x.TraceId, trace[:]) || !slices.Equal(x.SpanId, trace[8:]) || x.GetAsDouble() != 0.006 || m.Name != "dyno_latency_seconds" {
					t.Errorf("%s: %v", m.Name, x)
				}
			}
		}
	}
	if n != 1 {
		t.Errorf("%d exemplars, want 1", n)
	}
}
