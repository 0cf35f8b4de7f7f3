package hist

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"reflect"
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
			if !sameCounts(g.Hist, w.Hist) || g.Hist.Max() != w.Hist.Max() || index(g.Hist.Min()) != min(index(w.Hist.Min()), top) {
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
	for _, tt := range []struct {
		name, log string
		start     time.Time
		want      []time.Duration
	}{
		{"empty", "", time.Time{}, nil},
		{"no intervals", "#[StartTime: 12.5 (seconds since epoch), whenever]\n", time.Unix(12, 5e8), nil},
		{"blank lines, comments and CRLF", "#x\r\n\r\n#[StartTime: 1700000000 (x)]\r\n\"legend\"\r\n.5,1.,0.000,H\r\n1.5,1,1,H", time.Unix(1700000000, 0),
			[]time.Duration{500 * time.Millisecond, 1500 * time.Millisecond}},
		{"more decimals than there are ns", "#[StartTime: 1700000000 (x)]\n0.1234567899,1,1,H", time.Unix(1700000000, 0), []time.Duration{123456789}},
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
func text(outer, inner uint32, payloadLength int, digits uint32, payload []byte) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	head := make([]byte, 0, headerSize)
	head = be32(head, inner)
	head = be32(head, uint32(payloadLength))
	head = be32(head, 0)
	head = be32(head, digits)
	head = be64(head, 1)
	head = be64(head, uint64(Highest))
	head = be64(head, math.Float64bits(1))
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
		return text(outer, inner, len(payload), digits, payload)
	}
	run := func(n int64) []byte { return appendNumber(nil, -n) }
	for _, tt := range []struct{ line, want string }{
		{"garbage", "1 fields, want 4: start,length,max,histogram"},
		{"Tag=x", "nothing after the tag"},
		{"Tag=x,1,1", "2 fields, want 4"},
		{"#[StartTime: soon]", `StartTime: "soon]" is not a decimal number`},
		{"#[StartTime: 99999999999 (x)]", `StartTime: "99999999999" is too large`},
		{"-1,1,1," + good, `start: "-1" is not a decimal number`},
		{"1,.,1," + good, `length: "." is not a decimal number`},
		{"1,1,1e3," + good, `max: "1e3" is not a decimal number`},
		{"1,1,1,", "histogram: 0 bytes, want more than 8"},
		{"1,1,1,HIST!", "histogram: base64: "},
		{"1,1,1," + good[:len(good)-4], "bytes follow"},
		{"1,1,1," + text(0x1c849301, inner, 0, 3, nil), "only the V2 compressed encoding is read"},
		{"1,1,1," + text(outer, 7, 0, 3, nil), "inner cookie 0x00000007, want 0x1c849313"},
		{"1,1,1," + text(outer, inner, 5, 3, nil), "payload length 5, but 0 bytes follow"},
		{"1,1,1," + text(outer, inner, 0, 2, nil), "2 digits from 1 to 3600000000000, want 3"},
		{"1,1,1," + text(outer, inner, maxPayload+1, 3, make([]byte, maxPayload+1)), "bytes uncompressed"},
		{"1,1,1," + ours(0x80), "last count is cut off"},
		{"1,1,1," + ours(run(1<<40)...), "1099511627776 empty buckets after 0, want 33421 altogether"},
		{"1,1,1," + ours(run(math.MaxInt64)...), "9223372036854775807 empty buckets"},
		{"1,1,1," + ours(appendNumber(nil, math.MinInt64)...), "9223372036854775808 empty buckets"},
		{"1,1,1," + ours(append(run(33421), 2)...), "more than 33421 counts"},
		{"1,1,1," + ours(appendNumber(nil, maxCount+1)...), "more than 4398046511104 values"},
	} {
		log := "#[StartTime: 1700000000 (x)]\n0,1,1," + good + "\n" + tt.line + "\n0,1,1," + good + "\n"
		start, got, err := ReadLog(strings.NewReader(log))
		if err == nil || !strings.HasPrefix(err.Error(), "histogram log: line 3: ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40s: error %v, want %q on line 3", tt.line, err, tt.want)
		}
		if len(got) != 1 || got[0].Hist.Count() != 3 || start.Unix() != 1700000000 {
			t.Errorf("%.40s: lost the interval before the fault", tt.line)
		}
	}

	_, _, err := ReadLog(io.MultiReader(strings.NewReader("#\n"), strings.NewReader(strings.Repeat("1", maxLine+1))))
	if want := "histogram log: line 2: longer than 1048576 bytes"; err == nil || err.Error() != want {
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

	l, err = NewLogWriter(&failing{after: 1}, logStart)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Write(Interval{Tag: "response", Start: time.Second, Hist: of(1)}); !errors.Is(err, errFull) {
		t.Errorf("error %v, want %v", err, errFull)
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

// FuzzReadLog: whatever stands in a log, histograms that are read are sound, and errors are located.
func FuzzReadLog(f *testing.F) {
	f.Add(writeLog(f, logStart, Interval{Tag: "response", Length: time.Second, Hist: of(1, 50_000, Highest)}, Interval{Hist: New()}))
	f.Add([]byte("#[StartTime: 1700000000.5 (seconds since epoch), x]\n0.5,1,1," + encoded(f, 5, 6)))
	f.Add([]byte("Tag=a,1,2,3,HISTFAAAAAA=\n\n\"x\"\n"))
	f.Add([]byte("1,1,1," + text(compressedCookie, cookie, 3, digits, []byte{0x82, 0x01, 4})))
	f.Fuzz(func(t *testing.T, log []byte) {
		_, got, err := ReadLog(bytes.NewReader(log))
		if err != nil && !strings.HasPrefix(err.Error(), "histogram log: line ") {
			t.Errorf("error without its place: %v", err)
		}
		for _, i := range got {
			isSound(t, i.Hist)
		}
	})
}

// FuzzText: whatever stands in a message, a histogram that is read is sound, and is written as one that is the same.
func FuzzText(f *testing.F) {
	for _, h := range []*Histogram{New(), of(1, 50_000, Highest), of(2*Highest, 7).Clone()} {
		text, err := h.MarshalText()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("0.000001,BAA=")) // not as it would be written
	f.Add([]byte("-1,AAQ"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var h, again Histogram
		if err := h.UnmarshalText(text); err != nil {
			if !strings.HasPrefix(err.Error(), "histogram: ") {
				t.Errorf("error without its place: %v", err)
			}
			return
		}
		isSound(t, &h)
		text, err := h.MarshalText()
		if err != nil || again.UnmarshalText(text) != nil || !reflect.DeepEqual(h, again) {
			t.Errorf("%q: %v, %+v, want %+v", text, err, again, h)
		}
	})
}

// isSound checks what holds for every histogram.
func isSound(t *testing.T, h *Histogram) {
	t.Helper()
	var n int64
	last := int64(-1)
	h.Each(func(low, high, count int64) bool {
		if low <= last || high < low || count <= 0 {
			t.Errorf("bucket %d to %d: %d, after %d", low, high, count, last)
		}
		last, n = high, n+count
		return true
	})
	if n != h.Count() || h.Min() < 0 || h.Min() > h.Max() || h.Quantile(0.5) > h.Max() {
		t.Errorf("count %d of %d, min %d, p50 %d, max %d", n, h.Count(), h.Min(), h.Quantile(0.5), h.Max())
	}
}

// TestTextRoundTrip: messages have what logs have, in either form of a histogram.
func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := of(latencies(2*Highest).Draw(t, "values")...)
		for _, h := range []*Histogram{want, want.Clone()} {
			text, err := h.MarshalText()
			if err != nil {
				t.Fatal(err)
			}
			var got Histogram
			if err := got.UnmarshalText(text); err != nil {
				t.Fatal(err)
			}
			if !sameCounts(&got, want) || got.Max() != want.Max() || index(got.Min()) != min(index(want.Min()), top) {
				t.Fatalf("count %d, min %d, max %d; want %d, %d, %d", got.Count(), got.Min(), got.Max(), want.Count(), want.Min(), want.Max())
			}
		}
	})
}
