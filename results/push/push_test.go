package push

import (
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
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/snappy"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"dyno/internal/leak"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) { leak.Main(m) }

// epoch is when the samples of tests are.
func epoch() time.Time { return time.Unix(1_700_000_000, 250_000_000) }

// twoSamples are a second of a trial, the next one, and its end.
func twoSamples() []Sample {
	m := allMetrics()
	labels := []Label{{"experiment", "relay, by model"}, {"round", "2"}, {"run", "a=b\\c\x00\xff\n"}, {"trial", "7"}, {"variant", "池 x"}}
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
		plain := utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == '\\' })
		if name != "" && plain && values[0].series != fmt.Sprintf("dyno_good_total{run=%q,variant=%q}", "r", name) {
			t.Fatalf("%q became %s", name, values[0].series)
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
