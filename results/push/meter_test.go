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
	"dyno/load/wire"
)

// tenth is an interval of 100 ms with n good responses of 2 ms.
func tenth(n int) record.Interval {
	i := record.Interval{Length: 100 * time.Millisecond, Completed: uint64(n), ByKind: [wire.Kinds]uint64{wire.Status: 1}, Connections: 5}
	if n == 0 {
		return i
	}
	h := hist.New()
	h.RecordN(int64(2*time.Millisecond), int64(n))
	i.Latency[record.Response], i.Latency[record.Service] = h, h
	return i
}

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
		m.Interval(tenth(9)) // belongs to no trial
		m.Begin(Trial{"pool", 3, 1})
		for n := range 25 {
			m.Reading(float64(n), 4096)
			if n < 10 {
				m.Interval(tenth(0)) // the warm-up
			} else {
				m.Interval(tenth(50))
			}
		}
		m.End([]Flag{{"steal", false}, {"drops", true}, {"steal", false}})
		m.Interval(tenth(9))
	})
	if len(samples) != 4 {
		t.Fatalf("%d samples, want two seconds, the flags and the end", len(samples))
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
	warmup, second := samples[0], samples[1]
	p99 := []Label{{LabelClock, "response"}, {LabelQuantile, "0.99"}}
	for _, c := range []struct {
		of   Sample
		name string
		want float64
	}{
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
	if f := samples[2]; len(f.Points) != 2 || f.value("dyno_flag", Label{LabelKind, "steal"}, Label{LabelSeverity, "warning"}) != 1 ||
		f.value("dyno_flag", Label{LabelKind, "drops"}, Label{LabelSeverity, "disturbed"}) != 1 {
		t.Errorf("flags: %+v", f.Points)
	}
	// What has had a value ends, once.
	if got := len(samples[3].Points); got != len(second.Points)+2 {
		t.Errorf("%d series end, want %d", got, len(second.Points)+2)
	}
	for _, p := range samples[3].Points {
		if !p.Ended {
			t.Errorf("%s does not end", p.Metric.Name)
		}
	}
}

// Each trial counts from zero, and the one before has ended.
func TestMeterBeginsAnew(t *testing.T) {
	samples := metered(func(m *Meter) {
		for n := range 2 {
			m.Begin(Trial{"pool", n + 1, 1})
			m.Interval(record.Interval{Length: time.Second, Completed: 3})
			m.Interval(record.Interval{Length: time.Second / 2, Completed: 3})
		}
	})
	if len(samples) != 3 || !samples[1].Points[0].Ended || samples[2].value("dyno_good_total") != 3 || samples[2].Labels[3].Value != "2" {
		t.Errorf("%+v", samples)
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
			m.Interval(i)
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
	body, err := otlpRequest(samples[:1])
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
