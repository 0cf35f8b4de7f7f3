package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"dyno/load/hist"
	"dyno/report/export"
	"dyno/report/short"
	"dyno/results/rundir"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", path, diff)
	}
}

func ptr[T any](v T) *T { return &v }

// latencies is a log of n values around a time, ten percent of them thrice as long.
func latencies(n int64, around time.Duration) []hist.Interval {
	of := func(tag string, v time.Duration) hist.Interval {
		h := hist.New()
		h.RecordN(int64(v), n-n/10)
		h.RecordN(int64(3*v), n/10)
		return hist.Interval{Tag: tag, Start: 2 * time.Second, Length: 5 * time.Second, Hist: h}
	}
	return []hist.Interval{
		of("response", around+4*time.Microsecond), of("service", around),
		of("send_lag", 4*time.Microsecond), of("generator_lag", 4*time.Microsecond),
	}
}

// written writes an example as a run folder, with a log for each trial, and reads
// it back.
func written(t *testing.T, f *rundir.Folder) *rundir.Folder {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	w, err := rundir.Create(dir, &f.Run)
	must(err)
	for i, x := range f.Trials {
		x.SchemaVersion = rundir.SchemaVersion
		tw, err := w.Trial(x.Number, x.Variant)
		must(err)
		file, err := tw.Create(rundir.LatencyFile)
		must(err)
		log, err := hist.NewLogWriter(file, time.Unix(1e9, 0))
		must(err)
		for _, interval := range latencies(20_000, time.Duration(1200+i)*time.Microsecond) {
			must(log.Write(interval))
		}
		must(tw.Finish(&x.Trial))
	}
	must(w.Finish(&f.Run))
	again, err := rundir.Open(dir)
	must(err)
	return again
}

func TestText(t *testing.T) {
	for name, f := range examples() {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := Text(&b, f); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".txt", b.String())
			for line := range strings.Lines(b.String()) {
				if n := utf8.RuneCountInString(line) - 1; n > 120 {
					t.Errorf("%d characters: %s", n, line)
				}
			}
		})
	}
}

// wild is text that would drive a terminal, or be taken for Markdown, HTML or XML.
const wild = "a\x1b[2Jb\u009b1mc\u202ed\r\n|e\x00\xff\ufffe<b>`*&]]>"

// rewild puts wild text after all strings, also of keys, but for fields named.
func rewild(v reflect.Value, except []string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			rewild(v.Elem(), except)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() && !slices.Contains(except, v.Type().Field(i).Name) {
				rewild(v.Field(i), except)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			rewild(v.Index(i), except)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			x := reflect.New(v.Type().Elem()).Elem()
			x.Set(v.MapIndex(k))
			rewild(x, except)
			v.SetMapIndex(k, reflect.Value{})
			v.SetMapIndex(reflect.ValueOf(k.String()+wild), x)
		}
	case reflect.String:
		v.SetString(v.String() + wild)
	}
}

// Foreign text in a folder cannot drive a terminal, in any form.
func TestForeignTextIsTame(t *testing.T) {
	// Other people may have written most strings. These have few values, on which the report's
	// parts depend. They are foreign only in an edited folder.
	fixed := []string{"Role", "Verdict", "Outcome", "Loop", "Protocol", "Purpose", "Good", "Interval", "Figures", "Few", "Metric", "Stop"}
	for _, except := range [][]string{fixed, nil} {
		for name, f := range examples() {
			for i := range f.Trials {
				rewild(reflect.ValueOf(&f.Trials[i].Trial), except)
			}
			rewild(reflect.ValueOf(&f.Run), except)
			rewild(reflect.ValueOf(&f.Incomplete), except)
			for form, write := range forms() {
				var b bytes.Buffer
				if err := write(&b, f); err != nil {
					t.Fatalf("%s of %s: %v", form, name, err)
				}
				out := b.String()
				if !utf8.ValidString(out) {
					t.Errorf("%s of %s: not valid UTF-8", form, name)
				}
				for _, r := range out {
					if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
						t.Fatalf("%s of %s: %U in\n%q", form, name, r, out)
					}
				}
				if strings.Count(out, "2Jb") == 0 {
					t.Errorf("%s of %s: the foreign text is missing", form, name)
				}
			}
		}
	}
}

// forms are the reports that name things.
func forms() map[string]func(io.Writer, *rundir.Folder) error {
	return map[string]func(io.Writer, *rundir.Folder) error{
		"text":      Text,
		"markdown":  func(w io.Writer, f *rundir.Folder) error { return Markdown(w, f, f) },
		"junit":     func(w io.Writer, f *rundir.Folder) error { return export.JUnit(w, &f.Run) },
		"benchmark": export.Benchmark,
	}
}

func TestWriterFails(t *testing.T) {
	f, load := written(t, exampleCompare()), writtenLoad(t)
	r, w := io.Pipe()
	broken := errors.New("broken")
	if err := r.CloseWithError(broken); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"json": export.JSON(w, &f.Run), "hgrm": export.Hgrm(w, f, "goroutine", "service"),
		"text": Text(w, f), "markdown": Markdown(w, f), "junit": export.JUnit(w, &f.Run), "benchmark": export.Benchmark(w, f),
		"hey": export.Load(w, load, "hey", ""), "k6": export.Load(w, load, "k6", ""), "vegeta": export.Load(w, load, "vegeta", ""),
	} {
		if !errors.Is(err, broken) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestJSON(t *testing.T) {
	f := exampleCompare()
	f.Run.Name = "<a & b>"
	var b bytes.Buffer
	if err := export.JSON(&b, &f.Run); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), `"name": "<a & b>"`) {
		t.Errorf("the name was escaped:\n%.200s", b.String())
	}
	var again rundir.Run
	if err := json.Unmarshal(b.Bytes(), &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f.Run, again); diff != "" {
		t.Error(diff)
	}
}

func TestHgrm(t *testing.T) {
	x := example("models", "", 4, "goroutine", "pool-16")
	x.Trials[2].Complete = false
	x.Trials[4].Purpose, x.Trials[4].Round = rundir.PurposePilot, 0
	x.Trials[6].Round = 1 // it replaces trial 1
	f := written(t, x)
	var got, want bytes.Buffer
	if err := export.Hgrm(&got, f, "goroutine", "service"); err != nil {
		t.Fatal(err)
	}
	// Goroutine's trials are 1, 3, 5 and 7, of which the figures use the last alone.
	h, err := f.Trials[6].Latency("service")
	if err != nil {
		t.Fatal(err)
	}
	if err := hist.WriteHgrm(&want, h, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), got.String()); diff != "" {
		t.Error(diff)
	}

	if err := os.Remove(filepath.Join(f.Dir, f.Trials[5].Name, rundir.LatencyFile)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ variant, tag, want string }{
		{"", "service", `variant "": want one of goroutine, pool-16`},
		{"pool", "service", `variant "pool": want one of goroutine, pool-16`},
		{"goroutine", "lag", "want one of generator_lag, response, send_lag, service"},
		{"pool-16", "service", "latency.hlog"},
	} {
		if err := export.Hgrm(io.Discard, f, c.variant, c.tag); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
	f.Trials[5].Complete, f.Trials[5].Fault = false, rundir.FaultTarget
	if err := export.Hgrm(io.Discard, f, "pool-16", "service"); err != nil {
		t.Errorf("a trial lost before anything was recorded: %v", err)
	}
	f.Run.Plan.Variants = f.Run.Plan.Variants[:1]
	if err := export.Hgrm(io.Discard, f, "", "service"); err != nil {
		t.Errorf("the only variant: %v", err)
	}
	f.Trials = nil
	if err := export.Hgrm(io.Discard, f, "", "service"); err == nil || !strings.Contains(err.Error(), "nothing was recorded") {
		t.Errorf("without trials: error %v", err)
	}
}

// A threshold that many variants keep takes one line; one that is broken somewhere
// takes a line for each.
func TestThresholdsOfManyVariants(t *testing.T) {
	threshold := func(text, variant string, measured float64, ok bool) rundir.Threshold {
		return rundir.Threshold{Text: text, Variant: variant, OK: ok, Outcome: map[bool]string{true: rundir.Kept, false: rundir.Broken}[ok], Measured: &measured}
	}
	run := rundir.Run{}
	for _, v := range []string{"a", "b", "c", "d"} {
		run.Plan.Variants = append(run.Plan.Variants, rundir.PlanVariant{Name: v})
		run.Thresholds = append(run.Thresholds, threshold("response.p99 < 80ms", v, 0.001*float64(v[0]-'a'+1), true))
	}
	for _, v := range []string{"a", "b", "c", "d"} {
		run.Thresholds = append(run.Thresholds, threshold("throughput > 5/s", v, 7, v != "a"))
	}
	p := newPage(&rundir.Folder{Run: run})
	p.thresholds()
	var b strings.Builder
	p.Parts[0].WriteText(&b)
	got := b.String()
	for _, want := range []string{"all 4 variants  1.00 ms to 4.00 ms\n", "BROKEN  throughput > 5/s     a", "ok      throughput > 5/s     d"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Count(got, "throughput") != 4 || strings.Count(got, "response") != 1 {
		t.Errorf("got\n%s", got)
	}
}

// TestSoakSaysWhatWasMeasured: a window of five minutes does not tell of half an hour.
func TestSoakSaysWhatWasMeasured(t *testing.T) {
	f := exampleSoak()
	f.Run.Plan.Variants[0].WindowSeconds = 300
	var screen, whole strings.Builder
	if err := errors.Join(short.Text(&screen, f, short.Screen{Kept: true}), Text(&whole, f)); err != nil {
		t.Fatal(err)
	}
	if text := screen.String(); !strings.Contains(text, "rss of goroutine grows by 0.26% in 5m (") || !strings.Contains(text, "in 5m\n") || strings.Contains(text, "30m") {
		t.Error(text)
	}
	if text := whole.String(); !strings.Contains(text, "extrapolated: a window of 5m") {
		t.Error(text)
	}
}
