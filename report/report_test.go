package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dyno/hist"
	"dyno/rundir"
	"dyno/verdict"
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

// relay is an experiment of two models in three rounds.
func relay(loop string) (*rundir.Run, []rundir.Trial) {
	plan := func(name string) rundir.PlanVariant {
		v := rundir.PlanVariant{Name: name, Loop: loop, Connections: 100, WarmupSeconds: 2, WindowSeconds: 5}
		if loop == "open" {
			v.Rate = ptr(4000.)
		}
		return v
	}
	run := &rundir.Run{
		SchemaVersion: rundir.SchemaVersion, Name: "relay-models",
		Question: "Does one goroutine per connection beat a bounded pool?",
		Complete: true, TrialsPlanned: 6,
		Plan: rundir.Plan{
			Rounds: 3, Seed: 1, Base: "pool-16", Protocol: "tcp", Loop: loop, Short: true,
			Variants: []rundir.PlanVariant{plan("goroutine"), plan("pool-16")},
		},
		Environment: rundir.Environment{
			OS: "linux", Arch: "amd64", Kernel: "6.1.0", CPUModel: "Some CPU @ 2.00GHz", CPUs: 2, Virtualization: "kvm",
			GeneratorCPUs: []int{1}, TargetCPUs: []int{0}, Unavailable: []string{"system calls: no permission for tracepoints"},
		},
		Command: []string{"dyno", "run", "--short", "relay models.yaml"}, DynoVersion: "0.1.0",
	}
	var trials []rundir.Trial
	for round := 1; round <= 3; round++ {
		for i, name := range []string{"goroutine", "pool-16"} {
			n := len(trials) + 1
			requests := int64(20000 + 100*n - 4000*i)
			if loop == "open" {
				requests = 20000
			}
			trials = append(trials, rundir.Trial{
				Number: n, Round: round, Variant: name, Complete: true, WarmupSeconds: 2, WindowSeconds: 5,
				Throughput:   ptr(float64(requests) / 5),
				Counts:       rundir.Counts{Scheduled: requests, Sent: requests, OK: requests, CompletedInWindow: requests},
				Conservation: rundir.Conservation{OK: true},
				Connections:  rundir.Connections{Requested: 100, Opened: 100, Peak: 100},
				Target:       rundir.Target{CPUSecondsPerRequest: ptr(20e-6 + 1e-6*float64(n)), CPUShare: ptr(0.9), RSSBytes: ptr(int64(n) << 20)},
				Generator:    rundir.Generator{CPUSecondsPerRequest: ptr(6.54e-6), CPUShare: ptr(0.31), Workers: 1},
				Machine:      rundir.Machine{StealShare: ptr(0.)},
			})
		}
	}
	run.Plan.Thresholds = []string{"service.p99 < 3ms", "errors.ratio < 0.1%", `ratio(goroutine, "pool-16", throughput) > 1`, "connect.p99 < 1ms"}
	run.Plan.Claims = []rundir.PlanClaim{
		{ID: "R1.1", Says: "the goroutine model has 1.36 times the pool's throughput", Holds: `ratio(goroutine, "pool-16", throughput) >= 1.36`, Direction: `ratio(goroutine, "pool-16", throughput) > 1`},
		{ID: "R1.2", Says: "p50 below 1 ms", Holds: "value(goroutine, service.p50) < 1ms"},
		{ID: "R1.3", Says: "256 cores are enough", NotTestable: "this needs 256 cores"},
	}
	return run, trials
}

// folder writes a run folder, with a log for each trial, and reads it back judged.
func folder(t *testing.T, run *rundir.Run, trials []rundir.Trial) *rundir.Folder {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	w, err := rundir.Create(dir, run)
	must(err)
	for i := range trials {
		x := &trials[i]
		tw, err := w.Trial(x.Number, x.Variant)
		must(err)
		f, err := tw.Create(rundir.LatencyFile)
		must(err)
		log, err := hist.NewLogWriter(f, time.Unix(1e9, 0))
		must(err)
		around := time.Duration(1200+x.Number) * time.Microsecond
		if x.Variant == "goroutine" {
			around -= 400 * time.Microsecond
		}
		for _, interval := range latencies(x.Counts.Scheduled, around) {
			must(log.Write(interval))
		}
		must(tw.Finish(x))
	}
	must(w.Finish(run))
	f, err := rundir.Open(dir)
	must(err)
	must(verdict.Judge(f))
	return f
}

func text(t *testing.T, run *rundir.Run, trials []rundir.Trial) string {
	t.Helper()
	var b bytes.Buffer
	if err := Text(&b, folder(t, run, trials)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	t.Run("closed", func(t *testing.T) {
		run, trials := relay("closed")
		golden(t, "closed.txt", text(t, run, trials))
	})
	t.Run("open and flagged", func(t *testing.T) {
		run, trials := relay("open")
		for i := range trials {
			trials[i].Machine.StealShare = ptr(0.02)
		}
		trials[1].Counts.Sent, trials[1].Counts.Dropped = 19400, 600
		trials[1].Counts.OK, trials[1].Counts.Errors, trials[1].Counts.Timeouts = 19300, 70, 30
		trials[1].Counts.ByKind = map[string]int64{"reset": 70, "timeout": 30}
		golden(t, "open.txt", text(t, run, trials))
	})
	t.Run("incomplete", func(t *testing.T) {
		run, trials := relay("closed")
		run.Complete, run.Reason = false, "interrupted"
		trials = trials[:2]
		trials[1].Complete, trials[1].Error = false, "the target ended with exit code 1"
		golden(t, "incomplete.txt", text(t, run, trials))
	})
	t.Run("one open, one closed", func(t *testing.T) {
		run, trials := relay("closed")
		run.Plan.Variants[0].Loop, run.Plan.Variants[0].Rate = "open", ptr(4000.)
		golden(t, "mixed.txt", text(t, run, trials))
	})
}

func TestQuickText(t *testing.T) {
	for _, loop := range []string{"closed", "open"} {
		t.Run(loop, func(t *testing.T) {
			run, trials := relay(loop)
			run.Name, run.Question, run.TrialsPlanned = "http://127.0.0.1:8080/", "", 1
			run.Plan.Variants, run.Plan.Rounds, run.Plan.Base, run.Plan.Protocol = run.Plan.Variants[:1], 1, "", "http"
			run.Plan.Thresholds, run.Plan.Claims = nil, nil
			trials = trials[:1]
			c := &trials[0].Counts
			c.OK, c.Errors, c.Timeouts, c.Unfinished = c.OK-9, 6, 2, 1
			c.ByKind = map[string]int64{"status": 6, "timeout": 2, "unfinished": 1}
			trials[0].Failures = map[string]int64{"status 503": 6, "no complete response in 1s": 2, "under way at the end": 1}
			c.ByStatus = map[string]int64{"503": 6, "200": c.OK}
			trials[0].Connections = rundir.Connections{Requested: 100, Opened: 102, Failed: 1, Peak: 100}
			golden(t, "quick-"+loop+".txt", text(t, run, trials))
		})
	}
}

// What a folder holds of foreign text cannot drive a terminal.
func TestTextIsTame(t *testing.T) {
	const wild = "a\x1b[2Jb\u009b1mc\u202ed\r\ne\x00\xff"
	run, trials := relay("open")
	run.Name, run.Question, run.Reason, run.Complete = wild, wild, wild, false
	run.Notes, run.Command, run.DynoVersion = []string{wild}, []string{wild}, wild
	run.Environment.CPUModel, run.Environment.Unavailable = wild, []string{wild}
	run.Environment.OS, run.Environment.Arch, run.Environment.Kernel, run.Environment.Virtualization = wild, wild, wild, wild
	run.Plan.Base, run.Plan.Protocol = wild, wild
	for i := range trials {
		if trials[i].Variant == "pool-16" {
			trials[i].Variant = wild
		}
		trials[i].Flags = []rundir.Flag{{Kind: wild, Detail: wild}}
		trials[i].Counts.Errors, trials[i].Counts.ByKind = 1, map[string]int64{wild: 1}
	}
	run.Plan.Variants[1].Name = wild
	run.Plan.Thresholds = append(run.Plan.Thresholds, wild)
	run.Plan.Claims = append(run.Plan.Claims, rundir.PlanClaim{ID: wild, Says: wild, Holds: wild}, rundir.PlanClaim{ID: wild, NotTestable: wild})
	check := func(out string) {
		t.Helper()
		if !utf8.ValidString(out) {
			t.Error("not valid UTF-8")
		}
		for _, r := range out {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				t.Fatalf("%U in\n%q", r, out)
			}
		}
		if strings.Count(out, "<U+001B>[2J") < 10 {
			t.Errorf("the foreign text is missing:\n%s", out)
		}
	}
	check(text(t, run, trials))

	// The compact form, with status codes.
	run.TrialsPlanned, run.Plan.Variants = 1, run.Plan.Variants[1:]
	trials = trials[1:2]
	trials[0].Counts.ByStatus, trials[0].Failures = map[string]int64{wild: 1}, map[string]int64{wild: 1}
	check(text(t, run, trials))
}

func TestWriterFails(t *testing.T) {
	run, trials := relay("closed")
	f := folder(t, run, trials)
	r, w := io.Pipe()
	broken := errors.New("broken")
	if err := r.CloseWithError(broken); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"text": Text(w, f), "json": JSON(w, &f.Run), "hgrm": Hgrm(w, f, "goroutine", "service"),
	} {
		if !errors.Is(err, broken) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestJSON(t *testing.T) {
	run, trials := relay("open")
	run.Name = "<a & b>"
	f := folder(t, run, trials)
	var b bytes.Buffer
	if err := JSON(&b, &f.Run); err != nil {
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
	run, trials := relay("open")
	trials[2].Complete = false
	f := folder(t, run, trials)
	var got, want bytes.Buffer
	if err := Hgrm(&got, f, "goroutine", "service"); err != nil {
		t.Fatal(err)
	}
	all := hist.New()
	for _, n := range []int{0, 4} { // trials 1 and 5 are complete
		h, err := f.Trials[n].Latency("service")
		if err != nil {
			t.Fatal(err)
		}
		all.Merge(h)
	}
	if err := hist.WriteHgrm(&want, all, time.Millisecond); err != nil {
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
		if err := Hgrm(io.Discard, f, c.variant, c.tag); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
	f.Run.Plan.Variants = f.Run.Plan.Variants[:1]
	if err := Hgrm(io.Discard, f, "", "service"); err != nil {
		t.Errorf("the only variant: %v", err)
	}
	f.Trials = nil
	if err := Hgrm(io.Discard, f, "", "service"); err == nil || !strings.Contains(err.Error(), "nothing was recorded") {
		t.Errorf("without trials: error %v", err)
	}
}

func TestFigures(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Seconds(0), "0 s"}, {Seconds(1e-9), "1.00 ns"}, {Seconds(0.5e-9), "0.500 ns"}, {Seconds(12.34e-6), "12.3 µs"},
		{Seconds(999.4e-6), "999 µs"}, {Seconds(999.6e-6), "1.00 ms"}, {Seconds(0.123456), "123 ms"}, {Seconds(1), "1.00 s"},
		{Seconds(3600), "3600 s"}, {Seconds(-0.002), "-2.00 ms"},
		{Count(0), "0"}, {Count(999), "999"}, {Count(41234), "41.2k"}, {Count(999_600), "1.00M"}, {Count(0.25), "0.250"},
		{size(1023), "1020 B"}, {size(1024), "1.00 KiB"}, {size(10 << 20), "10.0 MiB"}, {size(3 << 30), "3.00 GiB"}, {size(12), "12.0 B"},
		{percent(0.001234), "0.123 %"}, {percent(1), "100 %"}, {percent(0), "0 %"},
		{figure(1.355), "1.35"}, {figure(12345), "12300"}, {figure(1e-7), "1e-07"}, {figure(1e9), "1e+09"}, {figure(math.Inf(1)), "+Inf"}, {figure(9.999), "10.0"},
		{whole(0), "0"}, {whole(999), "999"}, {whole(1000), "1,000"}, {whole(-1234567), "-1,234,567"},
		{cpus(nil), ""}, {cpus([]int{3}), "3"}, {cpus([]int{0, 1, 2, 4, 6, 7}), "0-2,4,6-7"},
		{command([]string{"dyno", "run", "it's here.yaml", ""}), `dyno run 'it'\''s here.yaml' ''`},
		{Printable(" a\n\t b "), "a b"},
		{planned(5), "5s"}, {planned(0.1), "100ms"}, {planned(90), "1m30s"},
		{wrap("[1] ", "a µ"), "[1] a µ"}, {wrap("", ""), ""},
		{wrap("[1] ", strings.Repeat("µ", 105)+" b "+strings.Repeat("c", 200)+" d"), "[1] " + strings.Repeat("µ", 105) + "\n    b\n    " + strings.Repeat("c", 200) + "\n    d"},
		{wrap("[1] ", strings.Repeat("µ", 104)+" b"), "[1] " + strings.Repeat("µ", 104) + " b"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// A duration is written in a unit that needs no exponent and at most four
// digits before the point, and within half a percent of its value.
func TestDurationsKeepTheirValue(t *testing.T) {
	units := map[string]float64{"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1}
	rapid.Check(t, func(t *rapid.T) {
		v := math.Exp(rapid.Float64Range(math.Log(1e-9), math.Log(1e3)).Draw(t, "log"))
		number, unit, _ := strings.Cut(Seconds(v), " ")
		shown, err := strconv.ParseFloat(number, 64)
		if err != nil || units[unit] == 0 || len(strings.Trim(number, "0123456789.")) > 0 || len(number) > 4 {
			t.Fatalf("%v is written %q", v, Seconds(v))
		}
		if math.Abs(shown*units[unit]-v) > 0.0051*v {
			t.Errorf("%v is written %q", v, Seconds(v))
		}
	})
}

// Columns are aligned by characters, not by bytes.
func TestTableAlignment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := rapid.StringOfN(rapid.SampledFrom([]rune("aµ≥–x9")), 1, 8, -1)
		columns := rapid.IntRange(1, 5).Draw(t, "columns")
		var tb table
		for range rapid.IntRange(1, 6).Draw(t, "rows") {
			tb.add(rapid.SliceOfN(cell, columns, columns).Draw(t, "row")...)
		}
		var b strings.Builder
		tb.write(&b)
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if len(lines) != len(tb.rows) {
			t.Fatalf("%d lines of %d rows", len(lines), len(tb.rows))
		}
		for i, line := range lines {
			if diff := cmp.Diff(tb.rows[i], strings.Fields(line)); diff != "" {
				t.Error(diff)
			}
			if columns > 1 && utf8.RuneCountInString(line) != utf8.RuneCountInString(lines[0]) {
				t.Errorf("lines of different length:\n%s", b.String())
			}
		}
	})
}

// A threshold that many variants keep takes one line; one that is broken somewhere
// takes a line for each.
func TestThresholdsOfManyVariants(t *testing.T) {
	threshold := func(text, variant string, measured float64, ok bool) rundir.Threshold {
		return rundir.Threshold{Text: text, Variant: variant, OK: ok, Measured: &measured}
	}
	run := rundir.Run{}
	for _, v := range []string{"a", "b", "c", "d"} {
		run.Plan.Variants = append(run.Plan.Variants, rundir.PlanVariant{Name: v})
		run.Thresholds = append(run.Thresholds, threshold("response.p99 < 80ms", v, 0.001*float64(v[0]-'a'+1), true))
	}
	for _, v := range []string{"a", "b", "c", "d"} {
		run.Thresholds = append(run.Thresholds, threshold("throughput > 5/s", v, 7, v != "a"))
	}
	p := page{run: &run, folder: &rundir.Folder{Run: run}}
	p.thresholds()
	got := p.b.String()
	for _, want := range []string{"all 4 variants  1.00 ms to 4.00 ms\n", "BROKEN  throughput > 5/s     a", "ok      throughput > 5/s     d"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Count(got, "throughput") != 4 || strings.Count(got, "response") != 1 {
		t.Errorf("got\n%s", got)
	}
}
