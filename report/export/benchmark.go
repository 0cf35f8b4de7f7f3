package export

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/results/rundir"
)

// Benchmark writes a run in the Go benchmark format
// (https://go.dev/design/14313-benchmark-format). It writes one line for each trial that the
// figures use. Benchstat then compares variants with -col /variant, or two runs. A trial counts as
// one iteration: its requests are no replicates. ns/op is the mean response time of an open
// loop, and the mean service time of a closed one. Benchstat does not pair rounds; dyno's own
// comparisons do. A trial that the target lost has a line, too: its rate is over the whole
// window, and what was not measured is missing.
//
// Units that Go does not know are declared as its format has it, with the direction
// that is better.
func Benchmark(w io.Writer, f *rundir.Folder) error {
	p := judged.Of(f)
	var b strings.Builder
	config := func(key, value string) {
		if value = figure.Printable(value); value != "" {
			fmt.Fprintf(&b, "%s: %s\n", key, value)
		}
	}
	e := f.Run.Environment
	config("goos", e.OS)
	config("goarch", e.Arch)
	config("cpu", e.CPUModel)
	config("dyno", f.Run.DynoVersion)
	config("experiment", p.Title())
	config("valid", strconv.FormatBool(f.Run.Valid))

	var lines strings.Builder
	better := map[string]string{}
	for _, t := range f.Measured() {
		if p.Examined(t.Number).Excluded {
			continue
		}
		var cells []string
		for _, m := range benchmarks(&t.Trial, p.Run.Plan.Variant(t.Variant).Latency()) {
			if m.value == nil || math.IsNaN(*m.value) || math.IsInf(*m.value, 0) {
				continue
			}
			cells = append(cells, strconv.FormatFloat(*m.value, 'g', -1, 64)+" "+m.unit)
			if m.better != "" {
				better[m.unit] = m.better
			}
		}
		if len(cells) > 0 {
			fmt.Fprintf(&lines, "%s 1 %s\n", benchmarkName(p, t.Variant), strings.Join(cells, " "))
		}
	}
	for _, u := range slices.Sorted(maps.Keys(better)) {
		fmt.Fprintf(&b, "Unit %s better=%s\n", u, better[u])
	}
	if _, err := io.WriteString(w, b.String()+"\n"+lines.String()); err != nil {
		return fmt.Errorf("report in the benchmark format: %w", err)
	}
	return nil
}

// benchmarkName is a benchmark's name. The protocol follows the variant because the
// format takes a number at the very end, as in pool-16, for GOMAXPROCS.
func benchmarkName(j *judged.Result, variant string) string {
	name := encoded(j.Title())
	first, size := utf8.DecodeRuneInString(name)
	name = string(unicode.ToUpper(first)) + name[size:]
	if unicode.IsLower(first) && unicode.ToUpper(first) == first {
		name = "_" + name // a name must not begin with a lower-case letter
	}
	protocol := j.Run.Plan.Protocol
	if protocol == "" {
		protocol = "unknown"
	}
	return "Benchmark" + name + "/variant=" + encoded(variant) + "/protocol=" + encoded(protocol)
}

// encoded writes a name in URL encoding where it has white space, slashes or unprintable
// characters. White space and slashes would end a part of a benchmark's name.
func encoded(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || r == '/' || r == '%' || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			for _, c := range []byte(s[i : i+n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		} else {
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}

// A benchmark is one figure of a trial.
type benchmark struct {
	unit   string
	value  *float64
	better string // higher or lower; empty where the format knows, or it is unknown
}

// benchmarks returns the figures of a trial.
func benchmarks(t *rundir.Trial, latency string) []benchmark {
	clock, work := t.Times[latency], "req/s"
	if latency == rundir.TagDelivery && t.Streams != nil {
		work = "events/s"
	}
	ns := func(seconds *float64) *float64 {
		if seconds == nil {
			return nil
		}
		return new(*seconds * 1e9)
	}
	list := []benchmark{
		{"ns/op", ns(clock.Mean), ""},
		{work, t.Throughput, "higher"},
		{"p50-ns", ns(clock.P50), "lower"},
		{"p99-ns", ns(clock.P99), "lower"},
		{"cpu-ns/op", ns(t.Target.CPUSecondsPerRequest), "lower"},
		{"rss-B", judged.Float(t.Target.RSSBytes), "lower"},
		{"error-ratio", errorRatio(t), "lower"},
	}
	for _, name := range slices.Sorted(maps.Keys(t.Measures)) {
		v := t.Measures[name]
		m := benchmark{encoded(name), &v, ""}
		if name == "" {
			m.unit = "value"
		}
		switch base, u := rundir.ProgramUnit(name); u {
		case rundir.Seconds:
			m = benchmark{encoded(base) + "-ns", ns(&v), "lower"}
		case rundir.Bytes:
			m.unit = encoded(base) + "-B"
		case rundir.PerSecond:
			m = benchmark{encoded(base) + "/s", &v, "higher"}
		}
		list = append(list, m)
	}
	return list
}

// errorRatio is the share of the requests due in a trial that were not answered well: all, if the
// target lost it before any was due. It is nil where nothing was asked for.
func errorRatio(t *rundir.Trial) *float64 {
	var ratio float64
	switch due := t.Counts.Due(); {
	case due > 0:
		ratio = float64(t.Counts.Unanswered()) / float64(due)
	case t.Lost():
		ratio = 1
	default:
		return nil
	}
	return &ratio
}
