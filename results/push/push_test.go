package push

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/snappy"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"dyno/internal/leak"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) { leak.Main(m) }

// epoch is when the samples of tests are.
func epoch() time.Time { return time.Unix(1_700_000_000, 250_000_000) }

// twoSamples are a second of a trial, the next one, and its end.
func twoSamples() []Sample {
	m := allMetrics()
	labels := []Label{{"experiment", "relay, by model"}, {"round", "2"}, {"run", `a=b\c`}, {"trial", "7"}, {"variant", "池 x"}}
	p99 := []Label{{LabelClock, "response"}, {LabelQuantile, "0.99"}}
	return []Sample{
		{Time: epoch(), Start: epoch().Add(-time.Second), Labels: labels, Points: []Point{
			{Metric: &m.throughput, Value: 1234.5}, {Metric: &m.good, Value: 1234}, {Metric: &m.latency, Labels: p99, Value: 0.0021},
			{Metric: &m.targetRSS, Value: math.NaN()},
		}},
		{Time: epoch().Add(time.Second), Start: epoch().Add(-time.Second), Labels: labels, Points: []Point{
			{Metric: &m.throughput, Value: 1e9}, {Metric: &m.good, Value: 2500}, {Metric: &m.latency, Labels: p99, Value: 2.5e-7},
			{Metric: &m.targetCPU, Value: math.Inf(1)},
		}},
		{Time: epoch().Add(time.Second + time.Millisecond), Start: epoch().Add(-time.Second), Labels: labels, Points: []Point{
			{Metric: &m.throughput, Ended: true}, {Metric: &m.good, Ended: true}, {Metric: &m.latency, Labels: p99, Ended: true},
		}},
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil { //nolint:gosec // for all to read
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// A value is one of a series, as a receiver sees it.
type value struct {
	series string // name{label="value",…}, labels in order
	ns     int64
	bits   uint64 // of the number; the stale marker for an end
}

// fields splits a message, and fails on one that is not well-formed.
func fields(t fataler, b []byte, each func(number protowire.Number, bytes []byte, bits uint64)) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatalf("tag: %v", protowire.ParseError(n))
		}
		b = b[n:]
		var text []byte
		var bits uint64
		switch kind {
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			bits, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			bits, n = protowire.ConsumeFixed64(b)
		default:
			t.Fatalf("field %d: unexpected type %v", number, kind)
		}
		if n < 0 {
			t.Fatalf("field %d: %v", number, protowire.ParseError(n))
		}
		b = b[n:]
		each(number, text, bits)
	}
}

type fataler interface{ Fatalf(string, ...any) }

// readRemoteWrite reads a WriteRequest and holds it to the specification: labels in
// order, once, none empty; times of a series in order.
func readRemoteWrite(t fataler, body []byte) (all []value) {
	plain, err := snappy.Decode(nil, body)
	if err != nil {
		t.Fatalf("snappy: %v", err)
	}
	seen := map[string]bool{}
	fields(t, plain, func(number protowire.Number, series []byte, _ uint64) {
		if number != 1 {
			t.Fatalf("WriteRequest has field %d", number)
		}
		var names []string
		name, text := "", ""
		last := int64(math.MinInt64)
		var of []value
		fields(t, series, func(number protowire.Number, part []byte, _ uint64) {
			switch number {
			case 1:
				var l [3]string
				fields(t, part, func(number protowire.Number, s []byte, _ uint64) { l[number] = string(s) })
				if l[1] == "" || l[2] == "" {
					t.Fatalf("an empty label: %q", l)
				}
				names = append(names, l[1])
				if l[1] == "__name__" {
					name = l[2]
				} else {
					text += fmt.Sprintf(",%s=%q", l[1], l[2])
				}
			case 2:
				v := value{}
				fields(t, part, func(number protowire.Number, _ []byte, bits uint64) {
					switch number {
					case 1:
						v.bits = bits
					case 2:
						v.ns = int64(bits) * 1e6
					}
				})
				if v.ns < last {
					t.Fatalf("times out of order")
				}
				last = v.ns
				of = append(of, v)
			default:
				t.Fatalf("TimeSeries has field %d", number)
			}
		})
		if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) || name == "" {
			t.Fatalf("labels %q: not in order, or not once, or without a name", names)
		}
		key := name + "{" + strings.TrimPrefix(text, ",") + "}"
		if seen[key] {
			t.Fatalf("series %s twice", key)
		}
		seen[key] = true
		for _, v := range of {
			v.series = key
			all = append(all, v)
		}
	})
	return all
}

// readOTLP reads a request with the published messages.
func readOTLP(t fataler, body []byte) (all []value) {
	var request collector.ExportMetricsServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		t.Fatalf("otlp: %v", err)
	}
	for _, m := range request.ResourceMetrics[0].ScopeMetrics[0].Metrics {
		points := m.GetGauge().GetDataPoints()
		if s := m.GetSum(); s != nil {
			points = s.DataPoints
			if !s.IsMonotonic || s.AggregationTemporality != otlp.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE {
				t.Fatalf("%s is not a cumulative counter", m.Name)
			}
		}
		for _, p := range points {
			var labels []string
			for _, a := range p.Attributes {
				labels = append(labels, fmt.Sprintf("%s=%q", a.Key, a.Value.GetStringValue()))
			}
			slices.Sort(labels)
			v := value{m.Name + "{" + strings.Join(labels, ",") + "}", int64(p.TimeUnixNano), math.Float64bits(p.GetAsDouble())}
			if p.Flags&uint32(otlp.DataPointFlags_DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK) != 0 {
				if p.Value != nil {
					t.Fatalf("%s: an end with a value", m.Name)
				}
				v.bits = staleMarker
			}
			if m.GetSum() != nil && p.StartTimeUnixNano == 0 {
				t.Fatalf("%s: a counter without a start", m.Name)
			}
			all = append(all, v)
		}
	}
	return all
}

// readLines reads line protocol as InfluxDB does, by the rules that are published: a
// backslash escapes a comma, an equals sign and a space, and is itself otherwise.
func readLines(t fataler, body []byte) (all []value) {
	for line := range strings.Lines(string(body)) {
		line, ended := strings.CutSuffix(line, "\n")
		if !ended {
			t.Fatalf("the last line does not end")
		}
		var parts [][]string // by spaces, then by commas
		current, list := "", []string{}
		for i := 0; i < len(line); i++ {
			switch c := line[i]; {
			case c == '\\' && i+1 < len(line) && strings.IndexByte(",= ", line[i+1]) >= 0:
				i++
				current += line[i-1 : i+1]
			case c == ',':
				list, current = append(list, current), ""
			case c == ' ':
				parts, list, current = append(parts, append(list, current)), []string{}, ""
			default:
				current += line[i : i+1]
			}
		}
		parts = append(parts, append(list, current))
		if len(parts) != 3 || len(parts[1]) != 1 || len(parts[2]) != 1 {
			t.Fatalf("line %q: parts %q", line, parts)
		}
		var labels []string
		for _, tag := range parts[0][1:] {
			name, text, ok := strings.Cut(tag, "=")
			if !ok || name == "" || text == "" {
				t.Fatalf("line %q: tag %q", line, tag)
			}
			text = strings.NewReplacer(`\,`, ",", `\=`, "=", `\ `, " ").Replace(text)
			labels = append(labels, fmt.Sprintf("%s=%q", name, text))
		}
		if !slices.IsSorted(labels) {
			t.Fatalf("line %q: tags out of order", line)
		}
		field, ok := strings.CutPrefix(parts[1][0], "value=")
		number, err := strconv.ParseFloat(field, 64)
		ns, err2 := strconv.ParseInt(parts[2][0], 10, 64)
		if !ok || err != nil || err2 != nil {
			t.Fatalf("line %q: %v, %v", line, err, err2)
		}
		all = append(all, value{parts[0][0] + "{" + strings.Join(labels, ",") + "}", ns, math.Float64bits(number)})
	}
	return all
}

func written(values []value) string {
	var b strings.Builder
	for _, v := range values {
		number := strconv.FormatFloat(math.Float64frombits(v.bits), 'g', -1, 64)
		if v.bits == staleMarker {
			number = "stale"
		}
		fmt.Fprintf(&b, "%s %s %d\n", v.series, number, v.ns)
	}
	return b.String()
}

func TestEncodings(t *testing.T) {
	golden(t, "remote_write.txt", written(readRemoteWrite(t, remoteWrite(twoSamples()))))
	body, err := otlpRequest(twoSamples())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "otlp.txt", written(readOTLP(t, body)))
	golden(t, "influx.txt", string(lineProtocol(twoSamples())))
	// The bytes themselves, which other programs read.
	plain, err := snappy.Decode(nil, remoteWrite(twoSamples()[:1]))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "remote_write.hex", fmt.Sprintf("%x\n", plain))
}

// The end of a series is these very bits: another not-a-number is a value
// (https://prometheus.io/docs/specs/remote_write_spec, section Stale Markers).
func TestStaleMarker(t *testing.T) {
	values := readRemoteWrite(t, remoteWrite(twoSamples()[2:]))
	if len(values) != 3 || values[0].bits != 0x7ff0000000000002 {
		t.Errorf("%x, want 7ff0000000000002", values)
	}
}

// anySamples draws samples of one trial, whose names may hold anything, in order of
// time.
func anySamples(t *rapid.T) []Sample {
	list := allMetrics().list()
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", `\`, `a\`, "=,", " ", "\n", "a\x00b", "\xff", "池"}))
	labels := []Label{{"run", text.Draw(t, "run")}, {"variant", text.Draw(t, "variant")}}
	at := epoch()
	var samples []Sample
	for range rapid.IntRange(0, 6).Draw(t, "samples") {
		at = at.Add(time.Duration(rapid.Int64Range(1, 5000).Draw(t, "ms")) * time.Millisecond)
		s := Sample{Time: at, Start: epoch(), Labels: labels}
		used := map[string]bool{}
		for range rapid.IntRange(0, 5).Draw(t, "points") {
			p := Point{Metric: rapid.SampledFrom(list).Draw(t, "metric"), Value: rapid.Float64().Draw(t, "value"), Ended: rapid.Bool().Draw(t, "ended")}
			if q := rapid.SampledFrom([]string{"", "0.5", "1"}).Draw(t, "quantile"); q != "" {
				p.Labels = []Label{{LabelQuantile, q}}
			}
			if key := p.Metric.Name + fmt.Sprint(p.Labels); !used[key] {
				used[key] = true
				s.Points = append(s.Points, p)
			}
		}
		samples = append(samples, s)
	}
	return samples
}

// expected are the values that a receiver must see, with the labels as clean has them.
func expected(samples []Sample, ends, empty bool, clean func(string) string, unit int64) (all []value) {
	for _, s := range samples {
		for _, p := range s.Points {
			if p.Ended && !ends || !p.Ended && !finite(p.Value) {
				continue
			}
			var labels []string
			for _, l := range slices.Concat(s.Labels, p.Labels) {
				if text := clean(l.Value); text != "" || empty {
					labels = append(labels, fmt.Sprintf("%s=%q", l.Name, text))
				}
			}
			slices.Sort(labels)
			v := value{p.Metric.Name + "{" + strings.Join(labels, ",") + "}", s.Time.UnixNano() / unit * unit, math.Float64bits(p.Value)}
			if p.Ended {
				v.bits = staleMarker
			}
			all = append(all, v)
		}
	}
	return all
}

func sorted(values []value) string {
	lines := strings.Split(written(values), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Whatever names and numbers there are, a receiver sees each value once, as it was.
func TestEncodingsLoseNothing(t *testing.T) {
	valid := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	rapid.Check(t, func(t *rapid.T) {
		samples := anySamples(t)
		if got, want := sorted(readRemoteWrite(t, remoteWrite(samples))), sorted(expected(samples, true, false, valid, 1e6)); got != want {
			t.Fatalf("remote write: got\n%s\nwant\n%s", got, want)
		}
		body, err := otlpRequest(samples)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := sorted(readOTLP(t, body)), sorted(expected(samples, true, true, valid, 1)); got != want {
			t.Fatalf("otlp: got\n%s\nwant\n%s", got, want)
		}
		tag := func(s string) string {
			return strings.NewReplacer(`\,`, ",", `\=`, "=", `\ `, " ").Replace(tagValue(s))
		}
		if got, want := sorted(readLines(t, lineProtocol(samples))), sorted(expected(samples, false, false, tag, 1)); got != want {
			t.Fatalf("line protocol: got\n%s\nwant\n%s", got, want)
		}
	})
}

// No name makes a second line, or a tag of its own.
func FuzzLineProtocol(f *testing.F) {
	for _, s := range []string{"pool", "a b", `a\`, "a,b=c d", "a\nb value=1", "\xff", "池", "\u2028"} {
		f.Add(s)
	}
	m := allMetrics()
	f.Fuzz(func(t *testing.T, name string) {
		s := Sample{Time: epoch(), Labels: []Label{{"run", "r"}, {"variant", name}}, Points: []Point{{Metric: &m.good, Value: 1}}}
		values := readLines(t, lineProtocol([]Sample{s}))
		if len(values) != 1 || name == "" != !strings.Contains(values[0].series, "variant") {
			t.Fatalf("%q became %+v", name, values)
		}
		if clean := strings.ToValidUTF8(name, "\uFFFD"); name != "" && !strings.ContainsFunc(clean, func(r rune) bool { return r < ' ' || 0x7f <= r && r < 0xa0 || r == '\\' }) &&
			utf8Runs(name) && values[0].series != fmt.Sprintf("dyno_good_total{run=%q,variant=%q}", "r", clean) {
			t.Fatalf("%q became %s", name, values[0].series)
		}
	})
}

// utf8Runs tells whether no two invalid bytes stand together, which ToValidUTF8 would
// replace as one.
func utf8Runs(s string) bool { return strings.ToValidUTF8(s, "") == s }

// Whatever a receiver answers, it is read without harm.
func FuzzOTLPResponse(f *testing.F) {
	refused, err := proto.Marshal(&collector.ExportMetricsServiceResponse{
		PartialSuccess: &collector.ExportMetricsPartialSuccess{RejectedDataPoints: 3, ErrorMessage: "too\nold"},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(refused)
	f.Add([]byte("<html>"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if err := otlpRejected(body); bytes.Equal(body, refused) != (err != nil) && bytes.Equal(body, refused) {
			t.Errorf("refused points were not seen: %v", err)
		} else if err != nil && strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("control characters in %q", err)
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"0", "7", "-1", "99999999999999", "1.5", "", "Wed, 15 Nov 2023 22:13:30 GMT", "Wed, 15 Nov 1999 22:13:30 GMT", " 3 "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d := retryAfter(text, epoch()); d < 0 {
			t.Errorf("%q: %v", text, d)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2023, 11, 15, 22, 13, 20, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 3 ": 3 * time.Second, "-1": 0, "1.5": 0, "soon": 0, "99999999999999": 0,
		"Wed, 15 Nov 2023 22:13:30 GMT": 10 * time.Second, "Wed, 15 Nov 2023 22:13:10 GMT": 0,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestMetricNames(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Metrics() {
		if seen[m.Name] || m.Help == "" || m.Unit == "" || strings.HasSuffix(m.Name, "_total") != m.Counter {
			t.Errorf("%+v: want one of a name, with help and unit, and _total for a counter", m)
		}
		seen[m.Name] = true
	}
}
