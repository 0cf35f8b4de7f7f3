package hist

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var logStart = time.Date(2025, 3, 4, 5, 6, 7, 123_456_789, time.UTC)

func writeLog(t interface{ Fatal(...any) }, start time.Time, intervals ...Interval) []byte {
	var b bytes.Buffer
	l, err := NewLogWriter(&b, start)
	for _, i := range intervals {
		if err == nil {
			err = l.Write(i)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func intervals() *rapid.Generator[[]Interval] {
	second := rapid.Map(rapid.Int64Range(0, 1e15), func(n int64) time.Duration { return time.Duration(n) })
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Interval {
		i := Interval{
			Tag:    rapid.SampledFrom([]string{"", "response", "service", "send_lag", "größe=1"}).Draw(t, "tag"),
			Start:  second.Draw(t, "start"),
			Length: second.Draw(t, "length"),
			Hist:   of(latencies(3*Highest).Draw(t, "values")...),
		}
		i.Hist.RecordN(rapid.Int64Range(0, Highest).Draw(t, "value"), rapid.Int64Range(0, maxCount-100).Draw(t, "n"))
		if rapid.Bool().Draw(t, "compact") {
			i.Hist = i.Hist.Clone()
		}
		return i
	}), 0, 3)
}

func TestLogRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Unix(0, rapid.Int64Range(0, 4e18).Draw(t, "start"))
		want := intervals().Draw(t, "intervals")
		gotStart, got, err := ReadLog(bytes.NewReader(writeLog(t, start, want...)))
		if err != nil {
			t.Fatal(err)
		}
		if !gotStart.Equal(start) || len(got) != len(want) {
			t.Fatalf("start %v with %d intervals, want %v with %d", gotStart, len(got), start, len(want))
		}
		for i, g := range got {
			w := want[i]
			if g.Tag != w.Tag || g.Start != w.Start || g.Length != w.Length {
				t.Fatalf("interval %d: %q %v %v, want %q %v %v", i, g.Tag, g.Start, g.Length, w.Tag, w.Start, w.Length)
			}
			if !g.Hist.Equal(w.Hist) || g.Hist.Max() != w.Hist.Max() || index(g.Hist.Min()) != min(index(w.Hist.Min()), top) {
				t.Fatalf("interval %d: count %d, min %d, max %d; want %d, %d, %d", i,
					g.Hist.Count(), g.Hist.Min(), g.Hist.Max(), w.Hist.Count(), w.Hist.Min(), w.Hist.Max())
			}
		}
	})
}

// TestReferenceReadsOurs reads our logs with HdrHistogram's own reader.
func TestReferenceReadsOurs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "start"))
		want := intervals().Draw(t, "intervals")
		r := hdr.NewHistogramLogReader(bytes.NewReader(writeLog(t, start, want...)))
		for i, w := range want {
			g, err := r.NextIntervalHistogram()
			if err != nil || g == nil {
				t.Fatalf("interval %d: %v, %v", i, g, err)
			}
			if at := start.Add(w.Start).UnixMilli(); g.Tag() != w.Tag || max(at-g.StartTimeMs(), g.StartTimeMs()-at) > 1 {
				t.Fatalf("interval %d: tag %q at %d, want %q at %d", i, g.Tag(), g.StartTimeMs(), w.Tag, at)
			}
			if g.LowestTrackableValue() != 1 || g.HighestTrackableValue() != Highest || g.SignificantFigures() != digits {
				t.Fatalf("interval %d: layout %d, %d, %d", i, g.LowestTrackableValue(), g.HighestTrackableValue(), g.SignificantFigures())
			}
			sameAsReference(t, w.Hist, g)
		}
		if g, err := r.NextIntervalHistogram(); g != nil || err != nil {
			t.Fatalf("after the last interval: %v, %v", g, err)
		}
	})
}

func sameAsReference(t interface{ Fatalf(string, ...any) }, h *Histogram, ref *hdr.Histogram) {
	bars := ref.Distribution()
	h.Each(func(low, high, count int64) bool {
		for len(bars) > 0 && bars[0].Count == 0 {
			bars = bars[1:]
		}
		if want := (hdr.Bar{From: low, To: high, Count: count}); len(bars) == 0 || bars[0] != want {
			t.Fatalf("the reference lacks %v of %d values", want, h.Count())
		}
		bars = bars[1:]
		return true
	})
	if h.Count() != ref.TotalCount() {
		t.Fatalf("%d values, the reference has %d", h.Count(), ref.TotalCount())
	}
}

// TestEncodingIsTheReferences compares what is compressed byte for byte, and the
// lengths around it.
func TestEncodingIsTheReferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, ref := New(), reference()
		for _, v := range latencies(Highest).Draw(t, "values") {
			n := int64(math.Exp2(rapid.Float64Range(0, 50).Draw(t, "n")))
			h.RecordN(v, n)
			if err := ref.RecordValues(v, n); err != nil {
				t.Fatal(err)
			}
		}
		want, err := ref.Encode(hdr.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		got, err := newEncoder().appendTo(nil, h)
		if err != nil {
			t.Fatal(err)
		}
		if g, w := plain(t, got), plain(t, want); !bytes.Equal(g, w) {
			t.Fatalf("encoded as\n%x, want\n%x", g, w)
		}
	})
}

func plain(t interface{ Fatal(...any) }, text []byte) []byte {
	raw, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil {
		t.Fatal(err)
	}
	z, err := zlib.NewReader(bytes.NewReader(raw[8:]))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return append(raw[:4:4], b...)
}

func TestNumbers(t *testing.T) {
	for n, size := range map[int64]int{
		0: 1, -1: 1, 63: 1, 64: 2, -64: 1, -65: 2, 1<<55 - 1: 8, 1 << 55: 9, math.MaxInt64: 9, math.MinInt64: 9,
	} {
		b := appendNumber(nil, n)
		if got, used := number(append(b, 0xff)); got != n || used != len(b) || used != size {
			t.Errorf("%d is % x, read as %d in %d bytes, want %d", n, b, got, used, size)
		}
		if _, used := number(b[:len(b)-1]); used != 0 {
			t.Errorf("%d, cut off, is read", n)
		}
	}
}

// TestReadsTheReferencesLogs reads histograms of any layout from HdrHistogram's
// own writer.
func TestReadsTheReferencesLogs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lowest := rapid.Int64Range(1, 5000).Draw(t, "lowest")
		highest := rapid.Int64Range(2*lowest, 24*Highest).Draw(t, "highest")
		ref := hdr.New(lowest, highest, rapid.IntRange(1, 4).Draw(t, "digits"))
		values := latencies(min(highest, Highest/2)).Draw(t, "values")
		for _, v := range values {
			if err := ref.RecordValue(v); err != nil {
				t.Fatal(err)
			}
		}
		ref.SetTag("a")
		ref.SetStartTimeMs(1_700_000_001_500)
		ref.SetEndTimeMs(1_700_000_002_500)
		var b bytes.Buffer
		w := hdr.NewHistogramLogWriter(&b)
		for _, err := range []error{
			w.OutputComment("[Logged by another]"), w.OutputLogFormatVersion(), w.OutputStartTime(1_700_000_000_000),
			w.OutputLegend(), w.OutputIntervalHistogram(ref),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		start, got, err := ReadLog(&b)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || !start.Equal(time.Unix(1_700_000_000, 0)) || got[0].Tag != "a" ||
			got[0].Start != 1500*time.Millisecond || got[0].Length != time.Second {
			t.Fatalf("start %v, intervals %+v", start, got)
		}
		h := got[0].Hist
		if h.Count() != int64(len(values)) {
			t.Fatalf("%d values, want %d", h.Count(), len(values))
		}
		for _, p := range []float64{1, 10, 50, 90, 99, 99.9} {
			got, want := h.Quantile(p/100), ref.ValueAtPercentile(p)
			if exact := ref.SignificantFigures() <= digits; exact && got != want || math.Abs(float64(got-want)) > 0.001*float64(want) {
				t.Fatalf("p%v is %d, want %d", p, got, want)
			}
		}
		if len(values) > 0 && (h.Min() != ref.Min() || h.Max() != ref.Max()) {
			t.Fatalf("min and max %d and %d, want %d and %d", h.Min(), h.Max(), ref.Min(), ref.Max())
		}
	})
}

// TestCoarseBucketsAtTheTop is about another's buckets that reach beyond ours.
func TestCoarseBucketsAtTheTop(t *testing.T) {
	_, end := bounds(top)
	ref := hdr.New(1, 24*Highest, 1)
	for _, v := range []int64{end, 2 * Highest} {
		if err := ref.RecordValue(v); err != nil {
			t.Fatal(err)
		}
	}
	b, err := ref.Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	h, err := new(decoder).decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if h.Count() != 2 || h.Quantile(0.5) != end || h.Max() != ref.Max() {
		t.Errorf("count %d, p50 %d, max %d", h.Count(), h.Quantile(0.5), h.Max())
	}
}

// encoded is the text of a histogram of the values.
func encoded(t interface{ Fatal(...any) }, values ...int64) string {
	b, err := newEncoder().appendTo(nil, of(values...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestReadLogTimes(t *testing.T) {
	h := encoded(t, 1)
	type at = []time.Duration
	const s, ms = time.Second, time.Millisecond
	for _, tt := range []struct {
		name, log string
		start     time.Time
		want      at
	}{
		{"empty", "", time.Time{}, nil},
		{"no intervals", "#[StartTime: 12.5 (seconds since epoch), whenever]\n", time.Unix(12, 5e8), nil},
		{"relative", "#[StartTime: 1700000000.250 (x)]\n0.5,1,1,H\n1.5,1,1,H", time.Unix(1700000000, 25e7), at{500 * ms, 1500 * ms}},
		{"absolute", "#[StartTime: 1700000000]\n1700000001,1,1,H\n1700000002,1,1,H", time.Unix(1700000000, 0), at{s, 2 * s}},
		{"absolute, a little before the start", "#[StartTime: 1700000000]\n1699999999.9,1,1,H", time.Unix(1700000000, 0), at{-100 * ms}},
		{"base said", "#[BaseTime: 1700000010]\n#[StartTime: 1700000000]\n5,1,1,H", time.Unix(1700000000, 0), at{15 * s}},
		{"no start", "1700000000.5,1,1,H\n1700000001.5,1,1,H", time.Unix(1700000000, 5e8), at{0, s}},
		{"two logs strung together", "#[StartTime: 1700000000]\n1,1,1,H\n#[StartTime: 1700000060]\n1,1,1,H", time.Unix(1700000000, 0), at{s, 61 * s}},
		{"blank lines, comments and CRLF", "#x\r\n\r\n#[StartTime: 1700000000]\r\n\"legend\"\r\n.5,1.,0.000,H\r\n", time.Unix(1700000000, 0), at{500 * ms}},
		{"more decimals than there are ns", "#[StartTime: 1700000000]\n0.1234567899,1,1,H", time.Unix(1700000000, 0), at{123456789}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			start, got, err := ReadLog(strings.NewReader(strings.ReplaceAll(tt.log, "H", h)))
			if err != nil {
				t.Fatal(err)
			}
			if !start.Equal(tt.start) || len(got) != len(tt.want) {
				t.Fatalf("start %v with %d intervals, want %v with %d", start, len(got), tt.start, len(tt.want))
			}
			for i, g := range got {
				if g.Start != tt.want[i] || g.Hist.Count() != 1 {
					t.Errorf("interval %d at %v with %d values, want %v with 1", i, g.Start, g.Hist.Count(), tt.want[i])
				}
			}
		})
	}
}

// text encodes any header and payload.
func text(outer, inner uint32, payloadLength int, digits uint32, lowest, highest int64, ratio float64, payload []byte) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	head := make([]byte, 0, headerSize)
	head = be32(head, inner)
	head = be32(head, uint32(payloadLength))
	head = be32(head, 0)
	head = be32(head, digits)
	head = be64(head, uint64(lowest))
	head = be64(head, uint64(highest))
	head = be64(head, math.Float64bits(ratio))
	_, err := z.Write(append(head, payload...))
	if err := errors.Join(err, z.Close()); err != nil {
		panic(err) // a buffer does not fail
	}
	out := be32(be32(nil, outer), uint32(b.Len()))
	return base64.StdEncoding.EncodeToString(append(out, b.Bytes()...))
}

func be32(b []byte, v uint32) []byte {
	return append(b, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}
func be64(b []byte, v uint64) []byte { return be32(be32(b, uint32(v>>32)), uint32(v)) }

func TestReadLogFaults(t *testing.T) {
	good := encoded(t, 1, 2, 3)
	outer, inner := uint32(compressedCookie|wordSize), uint32(cookie|wordSize)
	ours := func(payload ...byte) string {
		return text(outer, inner, len(payload), digits, 1, Highest, 1, payload)
	}
	run := func(n int64) []byte { return appendNumber(nil, -n) }
	for _, tt := range []struct{ line, want string }{
		{"garbage", "1 fields, want 4: start,length,max,histogram"},
		{"Tag=x", "nothing after the tag"},
		{"Tag=x,1,1", "2 fields, want 4"},
		{"#[StartTime: soon]", `StartTime: "soon" is not a decimal number`},
		{"#[BaseTime: 99999999999]", `BaseTime: "99999999999" is too large`},
		{"-1,1,1," + good, `start: "-1" is not a decimal number`},
		{"1,.,1," + good, `length: "." is not a decimal number`},
		{"1,1,1e3," + good, `max: "1e3" is not a decimal number`},
		{"9000000000,1,1," + good, "start: 9000000000 seconds are too many"},
		{"1,1,1,", "histogram: 0 bytes, want more than 8"},
		{"1,1,1,HIST!", "histogram: base64: "},
		{"1,1,1," + good[:len(good)-4], "bytes follow"},
		{"1,1,1," + text(0x1c849301, inner, 0, 3, 1, 10, 1, nil), "only the V2 compressed encoding is read"},
		{"1,1,1," + text(outer, 7, 0, 3, 1, 10, 1, nil), "inner cookie 0x00000007, want 0x1c849313"},
		{"1,1,1," + text(outer, inner, 5, 3, 1, 10, 1, nil), "payload length 5, but 0 bytes follow"},
		{"1,1,1," + text(outer, inner, 0, 6, 1, 10, 1, nil), "6 significant digits, want 0 to 5"},
		{"1,1,1," + text(outer, inner, 0, 5, 1<<60, 1<<62, 1, nil), "is too large for 5 digits"},
		{"1,1,1," + text(outer, inner, 0, 3, 1, 10, 0.5, nil), "conversion ratio 0.5, want 1"},
		{"1,1,1," + text(outer, inner, maxPayload+1, 5, 1, math.MaxInt64, 1, make([]byte, maxPayload+1)), "more than 4194344 bytes uncompressed"},
		{"1,1,1," + ours(0x80), "last count is cut off"},
		{"1,1,1," + ours(run(1<<40)...), "1099511627776 empty buckets after 0, want 33792 altogether"},
		{"1,1,1," + ours(run(math.MaxInt64)...), "9223372036854775807 empty buckets"},
		{"1,1,1," + ours(appendNumber(nil, math.MinInt64)...), "9223372036854775808 empty buckets"},
		{"1,1,1," + ours(append(run(33792), 2)...), "more than 33792 counts"},
		{"1,1,1," + ours(appendNumber(nil, maxCount+1)...), "more than 4398046511104 values"},
	} {
		log := "#[StartTime: 1700000000]\n0,1,1," + good + "\n" + tt.line + "\n0,1,1," + good + "\n"
		start, got, err := ReadLog(strings.NewReader(log))
		if err == nil || !strings.HasPrefix(err.Error(), "histogram log: line 3: ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40s: error %v, want %q on line 3", tt.line, err, tt.want)
		}
		if len(got) != 1 || got[0].Hist.Count() != 3 || start.Unix() != 1700000000 {
			t.Errorf("%.40s: lost the interval before the fault", tt.line)
		}
	}

	_, _, err := ReadLog(io.MultiReader(strings.NewReader("#\n"), strings.NewReader(strings.Repeat("1", maxLine+1))))
	if want := "histogram log: line 2: longer than 8388608 bytes"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	broken := errors.New("disk gone")
	if _, _, err := ReadLog(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

func TestLogWriterFaults(t *testing.T) {
	if _, err := NewLogWriter(io.Discard, time.Unix(-1, 0)); err == nil || !strings.Contains(err.Error(), "want 1970 or later") {
		t.Errorf("error %v", err)
	}
	var b bytes.Buffer
	l, err := NewLogWriter(&b, logStart)
	if err != nil {
		t.Fatal(err)
	}
	head := b.Len()
	full := New()
	full.RecordN(1, maxCount+1)
	for _, tt := range []struct {
		i    Interval
		want []string
	}{
		{Interval{Tag: "a,b", Start: -1, Length: -2}, []string{`tag "a,b"`, "start -1ns", "length -2ns", "histogram: nil"}},
		{Interval{Tag: "a b", Hist: full}, []string{`tag "a b"`, "4398046511105 values"}},
		{Interval{Tag: "a\n", Hist: New()}, []string{`tag "a\n"`}},
	} {
		err := l.Write(tt.i)
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: error %v, want %q", tt.i, err, want)
			}
		}
	}
	if b.Len() != head {
		t.Errorf("faulty intervals left %q", b.Bytes()[head:])
	}

	if _, err := NewLogWriter(&failing{after: 0}, logStart); !errors.Is(err, errFull) {
		t.Errorf("error %v, want %v", err, errFull)
	}
	l, err = NewLogWriter(&failing{after: 1}, logStart)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Write(Interval{Tag: "response", Start: time.Second, Hist: of(1)}); !errors.Is(err, errFull) ||
		!strings.Contains(err.Error(), `interval "response" at 1s`) {
		t.Errorf("error %v, want %v, located", err, errFull)
	}
	if err := WriteHgrm(&failing{}, of(1), time.Second); !errors.Is(err, errFull) {
		t.Errorf("error %v, want %v", err, errFull)
	}
	if err := WriteHgrm(io.Discard, of(1), 0); err == nil || !strings.Contains(err.Error(), "unit 0s, want more than 0") {
		t.Errorf("error %v", err)
	}
}

var errFull = errors.New("disk full")

// failing fails after some writes.
type failing struct{ after int }

func (f *failing) Write(p []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

func TestLogHeadAndColumns(t *testing.T) {
	log := writeLog(t, logStart,
		Interval{Tag: "response", Start: 2*time.Second + 5, Length: time.Second, Hist: of(1_234_567, 250_000)},
		Interval{Hist: New()})
	var b bytes.Buffer
	for line := range bytes.Lines(log) {
		// The compressed text may change with the compressor.
		if i := bytes.Index(line, []byte(",HIST")); i >= 0 {
			line = append(line[:i:i], ",HIST…\n"...)
		}
		b.Write(line)
	}
	golden(t, "head.hlog", b.Bytes())
}

func TestHgrm(t *testing.T) {
	h := New()
	for i := range int64(1000) {
		h.Record(100_000 + i*i)
	}
	h.Record(25_000_001)
	var b bytes.Buffer
	for _, h := range []*Histogram{h, New()} {
		if err := WriteHgrm(&b, h, time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "spectrum.hgrm", b.Bytes())
}

// TestHgrmAgreesWithReference compares the rows with the reference's.
func TestHgrmAgreesWithReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, ref := New(), reference()
		for _, v := range latencies(Highest).Draw(t, "values") {
			h.Record(v)
			if err := ref.RecordValue(v); err != nil {
				t.Fatal(err)
			}
		}
		var b bytes.Buffer
		if err := WriteHgrm(&b, h, time.Nanosecond); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(b.String(), "\n")[2:]
		brackets := ref.CumulativeDistributionWithTicks(ticks)
		if h.Count() == 0 {
			brackets = nil
		}
		for i, want := range brackets {
			var value, percentile float64
			var count int64
			if _, err := fmt.Sscan(lines[i], &value, &percentile, &count); err != nil {
				t.Fatalf("%q: %v", lines[i], err)
			}
			if int64(value) != min(want.ValueAt, h.Max()) || math.Abs(percentile-want.Quantile/100) > 1e-12 || count != want.Count {
				t.Fatalf("row %d is %q, want %+v", i, lines[i], want)
			}
		}
		if len(lines) != len(brackets)+4 {
			t.Fatalf("%d lines after the heading, want %d rows, 3 of summary and an end", len(lines), len(brackets))
		}
	})
}

// TestHgrmEnds is about counts so large that percentiles run out of digits.
func TestHgrmEnds(t *testing.T) {
	h := New()
	h.RecordN(1, 1<<61)
	for v := range int64(100) {
		h.RecordN(2+v, 1)
	}
	var b bytes.Buffer
	if err := WriteHgrm(&b, h, time.Nanosecond); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b.Bytes(), []byte("\n")); n > 1000 {
		t.Errorf("%d lines", n)
	}
}

// FuzzReadLog also compares with the reference wherever both can read a
// histogram.
func FuzzReadLog(f *testing.F) {
	f.Add(writeLog(f, logStart, Interval{Tag: "response", Length: time.Second, Hist: of(1, 50_000, Highest)}, Interval{Hist: New()}))
	f.Add([]byte("#[StartTime: 1700000000.5 (seconds since epoch), x]\n0.5,1,1," + encoded(f, 5, 6)))
	f.Add([]byte("#[BaseTime: 1]\nTag=a,1,2,3,HISTFAAAAAA=\n\n\"x\"\n"))
	f.Add([]byte("1,1,1," + text(compressedCookie, cookie, 3, 2, 1000, 1e12, 1, []byte{0x82, 0x01, 4})))
	f.Add([]byte("1,1,1," + text(compressedCookie, cookie, 1, 0, 1, 2, 1, []byte{2})))
	f.Fuzz(func(t *testing.T, log []byte) {
		_, got, err := ReadLog(bytes.NewReader(log))
		if err != nil && !strings.HasPrefix(err.Error(), "histogram log: line ") {
			t.Errorf("error without its place: %v", err)
		}
		sum := New()
		for _, i := range got {
			var n int64
			last := int64(-1)
			i.Hist.Each(func(low, high, count int64) bool {
				if low <= last || high < low || count <= 0 {
					t.Errorf("bucket %d to %d: %d, after %d", low, high, count, last)
				}
				last, n = high, n+count
				return true
			})
			if h := i.Hist; n != h.Count() || h.Min() < 0 || h.Min() > h.Max() || h.Quantile(0.5) > h.Max() {
				t.Errorf("count %d of %d, min %d, p50 %d, max %d", n, h.Count(), h.Min(), h.Quantile(0.5), h.Max())
			}
			sum.Merge(i.Hist)
			var w bytes.Buffer
			if err := WriteHgrm(&w, i.Hist, time.Second); err != nil {
				t.Error(err)
			}
		}
		if len(got) == 0 {
			return
		}
		var total int64
		for _, i := range got {
			total += i.Hist.Count()
		}
		if sum.Count() != total {
			t.Errorf("merged %d of %d", sum.Count(), total)
		}
		for line := range bytes.Lines(log) {
			line = bytes.TrimSpace(line)
			text := line[bytes.LastIndexByte(line, ',')+1:]
			ours, err := new(decoder).decode(text)
			if err != nil {
				continue
			}
			ref, err := hdr.Decode(text)
			if err != nil {
				t.Errorf("the reference refuses %q: %v", text, err)
			} else if ref.TotalCount() != ours.Count() {
				t.Errorf("%d values, the reference reads %d", ours.Count(), ref.TotalCount())
			}
		}
	})
}
