package push

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of remote write's messages, version 1.0 of the protocol
// (https://prometheus.io/docs/specs/remote_write_spec).
const (
	writeRequestTimeseries = 1
	timeSeriesLabels       = 1
	timeSeriesSamples      = 2
	labelName              = 1
	labelValue             = 2
	sampleValue            = 1
	sampleTimestamp        = 2
)

// staleMarker are the bits of the value that ends a series, by the same document.
const staleMarker = 0x7ff0000000000002

// remoteWrite encodes samples as a WriteRequest in Snappy's block format: each series
// once, its values in the order of time, its labels in the order of their names.
func remoteWrite(samples []Sample) []byte {
	type series struct {
		labels, values []byte // encoded
	}
	var all []*series
	known := map[string]*series{}
	for _, s := range samples {
		for _, p := range s.Points {
			bits := math.Float64bits(p.Value)
			switch {
			case p.Ended:
				bits = staleMarker
			case !finite(p.Value):
				continue
			}
			labels := slices.Concat([]Label{{"__name__", p.Metric.Name}}, s.Labels, p.Labels)
			slices.SortFunc(labels, func(a, b Label) int { return cmp.Compare(a.Name, b.Name) })
			var encoded []byte
			for _, l := range labels {
				// An empty value is the same as no label, and must not be sent.
				if value := strings.ToValidUTF8(l.Value, "\uFFFD"); value != "" {
					var label []byte
					label = appendMessage(label, labelName, []byte(l.Name))
					label = appendMessage(label, labelValue, []byte(value))
					encoded = appendMessage(encoded, timeSeriesLabels, label)
				}
			}
			of := known[string(encoded)]
			if of == nil {
				of = &series{labels: encoded}
				known[string(encoded)] = of
				all = append(all, of)
			}
			var sample []byte
			sample = protowire.AppendTag(sample, sampleValue, protowire.Fixed64Type)
			sample = protowire.AppendFixed64(sample, bits)
			sample = protowire.AppendTag(sample, sampleTimestamp, protowire.VarintType)
			sample = protowire.AppendVarint(sample, uint64(s.Time.UnixMilli())) //nolint:gosec // as protobuf has int64
			of.values = appendMessage(of.values, timeSeriesSamples, sample)
		}
	}
	var request []byte
	for _, s := range all {
		request = appendMessage(request, writeRequestTimeseries, append(s.labels, s.values...))
	}
	return snappy.Encode(nil, request)
}

// appendMessage appends a field of bytes: a message or a string.
func appendMessage(b []byte, number protowire.Number, value []byte) []byte {
	b = protowire.AppendTag(b, number, protowire.BytesType)
	return protowire.AppendBytes(b, value)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
