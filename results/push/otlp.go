package push

import (
	"fmt"
	"strings"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	"google.golang.org/protobuf/proto"
)

// otlpRequest encodes samples as an ExportMetricsServiceRequest
// (https://opentelemetry.io/docs/specs/otlp). Counters are cumulative sums. The
// labels are attributes of the points, so that a series has the same ones here as
// by remote write.
func otlpRequest(samples []Sample) ([]byte, error) {
	var all []*otlp.Metric
	known := map[string]*otlp.Metric{}
	for _, s := range samples {
		for _, p := range s.Points {
			if !p.Ended && !finite(p.Value) {
				continue
			}
			point := &otlp.NumberDataPoint{
				TimeUnixNano: uint64(s.Time.UnixNano()), //nolint:gosec // no time before 1970
			}
			if p.Ended {
				point.Flags = uint32(otlp.DataPointFlags_DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK)
			} else {
				point.Value = &otlp.NumberDataPoint_AsDouble{AsDouble: p.Value}
			}
			if x := p.Exemplar; x != nil {
				point.Exemplars = []*otlp.Exemplar{{
					TimeUnixNano: uint64(x.Time.UnixNano()), //nolint:gosec // no time before 1970
					Value:        &otlp.Exemplar_AsDouble{AsDouble: x.Value},
					TraceId:      x.TraceID[:], SpanId: x.TraceID[8:],
				}}
			}
			for _, labels := range [][]Label{s.Labels, p.Labels} {
				for _, l := range labels {
					point.Attributes = append(point.Attributes, attribute(l.Name, l.Value))
				}
			}
			m := known[p.Metric.Name]
			if m == nil {
				m = &otlp.Metric{Name: p.Metric.Name, Description: p.Metric.Help, Unit: p.Metric.Unit}
				if p.Metric.Counter {
					m.Data = &otlp.Metric_Sum{Sum: &otlp.Sum{
						IsMonotonic: true, AggregationTemporality: otlp.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE,
					}}
				} else {
					m.Data = &otlp.Metric_Gauge{Gauge: &otlp.Gauge{}}
				}
				known[m.Name] = m
				all = append(all, m)
			}
			if sum := m.GetSum(); sum != nil {
				point.StartTimeUnixNano = uint64(s.Start.UnixNano()) //nolint:gosec // no time before 1970
				sum.DataPoints = append(sum.DataPoints, point)
			} else {
				gauge := m.GetGauge()
				gauge.DataPoints = append(gauge.DataPoints, point)
			}
		}
	}
	request := &collector.ExportMetricsServiceRequest{ResourceMetrics: []*otlp.ResourceMetrics{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{attribute("service.name", "dyno")}},
		ScopeMetrics: []*otlp.ScopeMetrics{{
			Scope:   &common.InstrumentationScope{Name: "dyno"},
			Metrics: all,
		}},
	}}}
	return proto.MarshalOptions{Deterministic: true}.Marshal(request)
}

func attribute(name, value string) *common.KeyValue {
	return &common.KeyValue{Key: name, Value: &common.AnyValue{
		Value: &common.AnyValue_StringValue{StringValue: strings.ToValidUTF8(value, "\uFFFD")},
	}}
}

// otlpRejected reads the response to an accepted request, which may say that some of the
// points were rejected.
func otlpRejected(body []byte) error {
	var response collector.ExportMetricsServiceResponse
	if err := proto.Unmarshal(body, &response); err != nil {
		return nil //nolint:nilerr // accepted, by its status; what else it says cannot be read
	}
	if p := response.GetPartialSuccess(); p.GetRejectedDataPoints() > 0 {
		return fmt.Errorf("%d points were refused: %.200q", p.GetRejectedDataPoints(), p.GetErrorMessage())
	}
	return nil
}
