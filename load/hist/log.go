package hist

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

const (
	maxLine = 1 << 20   // bytes; a payload of maxPayload, compressed badly, fits
	maxKept = 512 << 20 // bytes of all histograms of a log together

	legend = `"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"`
)

// An Interval is one line of a log: what was recorded under a tag in a stretch of
// time. Start is relative to the log's start.
type Interval struct {
	Tag           string
	Start, Length time.Duration
	Hist          *Histogram
}

// A LogWriter writes a log in HdrHistogram's text format 1.3. Each interval is
// one Write of the underlying writer, a whole line: a program that is killed
// leaves a log whose lines before the last are good.
//
// Times have nine decimals, so nothing is lost. As is customary, the column
// Interval_Max is in milliseconds; it has six decimals and holds the exact Max.
type LogWriter struct {
	w    io.Writer
	enc  *encoder
	line []byte
}

// NewLogWriter writes the log's head. The start must not be before 1970.
func NewLogWriter(w io.Writer, start time.Time) (*LogWriter, error) {
	if start.Unix() < 0 {
		return nil, fmt.Errorf("histogram log: start %v, want 1970 or later", start)
	}
	seconds := fmt.Sprintf("%d.%09d", start.Unix(), start.Nanosecond())
	_, err := fmt.Fprintf(w, "#[Histogram log format version 1.3]\n"+
		"#[StartTime: %s (seconds since epoch), %s]\n"+
		"#[BaseTime: %[1]s (seconds since epoch)]\n"+
		"%[3]s\n", seconds, start.UTC().Format(time.RFC3339Nano), legend)
	if err != nil {
		return nil, fmt.Errorf("histogram log: write head: %w", err)
	}
	return &LogWriter{w: w, enc: newEncoder()}, nil
}

// Write appends an interval. It reports every fault of the interval at once, and
// then writes nothing.
func (l *LogWriter) Write(i Interval) error {
	if err := i.validate(); err != nil {
		return fmt.Errorf("histogram log: %w", err)
	}
	line := l.line[:0]
	if i.Tag != "" {
		line = fmt.Appendf(line, "Tag=%s,", i.Tag)
	}
	line = append(appendDecimal(line, int64(i.Start), 9), ',')
	line = append(appendDecimal(line, int64(i.Length), 9), ',')
	line = append(appendDecimal(line, i.Hist.Max(), 6), ',')
	line, err := l.enc.appendTo(line, i.Hist)
	if err == nil {
		line = append(line, '\n')
		_, err = l.w.Write(line)
		l.line = line
	}
	if err != nil {
		return fmt.Errorf("histogram log: write interval %q at %v: %w", i.Tag, i.Start, err)
	}
	return nil
}

func (i Interval) validate() error {
	var faults []error
	if strings.ContainsAny(i.Tag, ", \t\r\n") {
		faults = append(faults, fmt.Errorf("tag %q: want one without comma, space, tab or line break", i.Tag))
	}
	if i.Start < 0 {
		faults = append(faults, fmt.Errorf("start %v: want 0 or more", i.Start))
	}
	if i.Length < 0 {
		faults = append(faults, fmt.Errorf("length %v: want 0 or more", i.Length))
	}
	switch {
	case i.Hist == nil:
		faults = append(faults, errors.New("histogram: nil"))
	case i.Hist.Count() > maxCount:
		faults = append(faults, fmt.Errorf("histogram: %d values, want at most %d", i.Hist.Count(), int64(maxCount)))
	}
	return errors.Join(faults...)
}

// ReadLog reads a log as a LogWriter writes it. The intervals come in the order of the file,
// their histograms in compact form.
//
// A log does not keep the exact Min of each histogram: it is then the low end of its bucket.
// Max is exact if the column Interval_Max fits the counts.
//
// An error names the line, and comes with the intervals before it. A line has at
// most 1 MiB, a log 2²⁰ intervals and 512 MiB of histograms in compact form.
func ReadLog(r io.Reader) (start time.Time, intervals []Interval, err error) {
	lr := logReader{}
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 64<<10), maxLine)
	n := 0
	for sc.Scan() {
		n++
		if err := lr.readLine(bytes.TrimRight(sc.Bytes(), " \t\r")); err != nil {
			return lr.start, lr.intervals, fmt.Errorf("histogram log: line %d: %w", n, err)
		}
	}
	if err := sc.Err(); errors.Is(err, bufio.ErrTooLong) {
		return lr.start, lr.intervals, fmt.Errorf("histogram log: line %d: longer than %d bytes", n+1, maxLine)
	} else if err != nil {
		return lr.start, lr.intervals, fmt.Errorf("histogram log: line %d: %w", n+1, err)
	}
	return lr.start, lr.intervals, nil
}

// logReader is the state between lines.
type logReader struct {
	start     time.Time
	intervals []Interval
	kept      int // bytes of their histograms
	dec       decoder
}

func (l *logReader) readLine(line []byte) error {
	switch {
	case len(line) == 0 || line[0] == '"': // the legend
		return nil
	case line[0] == '#':
		return l.readComment(string(line))
	}
	var tag string
	if rest, ok := bytes.CutPrefix(line, []byte("Tag=")); ok {
		name, rest, ok := bytes.Cut(rest, []byte(","))
		if !ok {
			return errors.New("nothing after the tag, want start,length,max,histogram")
		}
		tag, line = string(name), rest
	}
	fields := bytes.Split(line, []byte(","))
	if len(fields) != 4 {
		return fmt.Errorf("%d fields, want 4: start,length,max,histogram", len(fields))
	}
	var at, length, high int64
	for i, f := range []struct {
		name   string
		digits int
		into   *int64
	}{{"start", 9, &at}, {"length", 9, &length}, {"max", 6, &high}} {
		v, err := parseDecimal(string(fields[i]), f.digits)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		*f.into = v
	}
	h, err := l.dec.decode(fields[3])
	if err != nil {
		return err
	}
	h.restoreMax(high)
	if len(l.intervals) == maxIntervals {
		return fmt.Errorf("more than %d intervals", maxIntervals)
	}
	if l.kept += len(h.packed); l.kept > maxKept {
		return fmt.Errorf("histograms take more than %d bytes", maxKept)
	}
	l.intervals = append(l.intervals, Interval{
		Tag:    tag,
		Start:  time.Duration(at),
		Length: time.Duration(length),
		Hist:   h,
	})
	return nil
}

// readComment reads the log's start.
func (l *logReader) readComment(line string) error {
	rest, found := strings.CutPrefix(line, "#[StartTime: ")
	if !found {
		return nil
	}
	seconds, _, _ := strings.Cut(rest, " ")
	ns, err := parseDecimal(seconds, 9)
	if err != nil {
		return fmt.Errorf("StartTime: %w", err)
	}
	l.start = time.Unix(0, ns)
	return nil
}

// restoreMax takes over the exact maximum if it is in the highest bucket.
func (h *Histogram) restoreMax(ns int64) {
	if h.count > 0 && min(index(ns), top) == min(index(h.max), top) {
		h.max = ns
	}
}

// appendDecimal appends v/10^digits, exactly. v is not negative.
func appendDecimal(b []byte, v int64, digits int) []byte {
	unit := pow10(digits)
	return fmt.Appendf(b, "%d.%0*d", v/unit, digits, v%unit)
}

// parseDecimal returns s·10^digits, exactly; digits beyond that are cut off.
func parseDecimal(s string, digits int) (int64, error) {
	whole, fraction, _ := strings.Cut(s, ".")
	if whole == "" && fraction == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, fmt.Errorf("%q is not a decimal number", s)
	}
	fraction += strings.Repeat("0", digits)
	var v int64
	for _, c := range whole + fraction[:digits] {
		d := int64(c - '0')
		if v > (math.MaxInt64-d)/10 {
			return 0, fmt.Errorf("%q is too large", s)
		}
		v = v*10 + d
	}
	return v, nil
}

func pow10(n int) int64 {
	v := int64(1)
	for range n {
		v *= 10
	}
	return v
}
