package trial

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dyno/host/target"
	"dyno/lab/plan"
	"dyno/lab/planfile"
	"dyno/load/engine"
	"dyno/load/engine/record"
	"dyno/results/rundir"
	"dyno/results/rundir/series"
	"dyno/selftest/oracle"
)

// A log is a watcher that records its calls.
type log struct {
	mu        sync.Mutex // guards what follows
	planned   []Planned
	ended     []rundir.Trial
	flags     []rundir.Flag
	completed uint64  // good responses of all intervals
	read      Reading // the last one
	peak      int     // connections
	onStart   func(Planned)
}

func (l *log) Begin(p Planned) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.planned = append(l.planned, p)
	if l.onStart != nil {
		l.onStart(p)
	}
}

func (l *log) Interval(i record.Interval) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.completed += i.Completed()
	l.peak = max(l.peak, i.Connections)
}

func (l *log) Reading(r Reading) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read = r
}

func (l *log) End(t *rundir.Trial, flags []rundir.Flag) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = append(l.ended, *t)
	l.flags = append(l.flags, flags...)
}

func parse(t *testing.T, text string) *plan.Experiment {
	t.Helper()
	e, err := planfile.Parse("test.yaml", []byte(text), planfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e.Design.QuietWait = 0 // tests run next to each other
	return e
}

func options(t *testing.T, l *log) Options {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Dir: filepath.Join(t.TempDir(), "run"), Program: program, Command: []string{"dyno", "run", "test.yaml"}, Version: "v1", Watcher: l,
	}
}

func open(t *testing.T, dir string) *rundir.Folder {
	t.Helper()
	f, err := rundir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// agree checks that a trial's files say the same: every good response and every
// censored one is in the log once, every error under its own tag.
func agree(t *testing.T, trial *rundir.TrialFolder) {
	t.Helper()
	if !trial.Conservation.OK {
		t.Errorf("trial %d: %s", trial.Number, trial.Conservation.Detail)
	}
	start, intervals, err := trial.Intervals()
	if err != nil {
		t.Fatal(err)
	}
	if d := trial.StartedAt.Sub(start); d < -time.Millisecond || d > time.Millisecond {
		t.Errorf("trial %d: started at %v, and at %v by the log", trial.Number, trial.StartedAt, start)
	}
	counts := map[string]int64{}
	for _, i := range intervals {
		counts[i.Tag] += i.Hist.Count()
	}
	c := trial.Counts
	censored := c.Timeouts + c.Unfinished
	for tag, want := range map[string]int64{
		"response": c.OK + censored, "service": c.OK + censored, "failed": c.Errors + c.Generator, "connect": trial.Connections.Opened,
	} {
		if counts[tag] != want {
			t.Errorf("trial %d: %d values of %s in the log, want %d: %+v", trial.Number, counts[tag], tag, want, c)
		}
	}
	if trial.Times[rundir.TagResponse].Count != counts["response"] || trial.Times[rundir.TagSendLag].Count != counts["send_lag"] {
		t.Errorf("trial %d: quantiles of %d response times and %d send lags, the log has %v",
			trial.Number, trial.Times[rundir.TagResponse].Count, trial.Times[rundir.TagSendLag].Count, counts)
	}
	merged, err := trial.Latency("response")
	if err != nil {
		t.Fatal(err)
	}
	if want := rundir.QuantilesOf(merged); trial.Times[rundir.TagResponse].P50 == nil || want.P50 == nil || *trial.Times[rundir.TagResponse].P50 != *want.P50 {
		t.Errorf("trial %d: median %v, by the log %v", trial.Number, trial.Times[rundir.TagResponse].P50, want.P50)
	}
	observed, err := trial.Series()
	if err != nil {
		t.Fatal(err)
	}
	checkColumns(t, observed)
	times := observed.Column(series.TimeColumn)
	if len(times) < 2 || !slices.IsSorted(times) || times[len(times)-1] < trial.WarmupSeconds+trial.WindowSeconds {
		t.Errorf("trial %d: a series at %v, want it up to the window's end at %v", trial.Number, times, trial.WarmupSeconds+trial.WindowSeconds)
	}
	for _, name := range []string{"generator_cpu_seconds", "machine_cpu_seconds"} {
		if observed.Column(name) == nil {
			t.Errorf("trial %d: no %s in the series: %v", trial.Number, name, observed.Columns)
		}
	}
}

// The target is already running; there are two variants and three rounds.
func TestRunAgainstRunningServer(t *testing.T) {
	server, err := oracle.StartNull(t.Context(), oracle.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	e := parse(t, `name: running
question: Is it all there?
target: {protocol: http, address: "`+server.Addr().String()+`"}
load: {closed: {connections: "{{connections}}"}, warmup: 0, requests: 150}
design: {rounds: 3, seed: 5, control: false}
compare: {base: few, variants: {few: {connections: 1}, several: {connections: 4}}}
thresholds: ["errors.ratio < 1%"]
claims: [{id: A, says: b, holds: "ratio(several, few, throughput) > 0"}]
`)
	var l log
	o := options(t, &l)
	if err := Run(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	f := open(t, o.Dir)
	if !f.Complete() || len(f.Trials) != 6 {
		t.Fatalf("%d trials, incomplete: %v", len(f.Trials), f.Incomplete)
	}
	laid := slices.Concat(order(e, e.Design.Rounds)...)
	var sent int64
	for i, trial := range f.Trials {
		if trial.Number != i+1 || trial.Round != i/2+1 || trial.Variant != laid[i].Name {
			t.Errorf("trial %d is of %s in round %d, want %s in %d", trial.Number, trial.Variant, trial.Round, laid[i].Name, i/2+1)
		}
		if trial.Counts.OK != 150 || trial.Counts.ByStatus["200"] != 150 || trial.Target.CPUSeconds != nil {
			t.Errorf("trial %d: %+v, %+v", trial.Number, trial.Counts, trial.Target)
		}
		agree(t, trial)
		sent += trial.Counts.Sent
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if got := server.Traffic().Answered; got != sent {
		t.Errorf("the server answered %d requests, dyno sent %d", got, sent)
	}
	if l.completed != uint64(sent) || len(l.planned) != 6 || len(l.ended) != 6 {
		t.Errorf("the watcher saw %d responses, %d beginnings, %d ends", l.completed, len(l.planned), len(l.ended))
	}
	if l.planned[0].Left != 0 || l.planned[5].Left <= 0 {
		t.Errorf("time left: %v at first, %v at last", l.planned[0].Left, l.planned[5].Left)
	}
	l.planned[5].Left = 0 // as the clock has it
	if want := (Planned{Number: 6, Of: 6, Round: 3, Rounds: 3, Variant: laid[5].Name, Protocol: plan.HTTP, Width: len("several")}); l.planned[5] != want {
		t.Errorf("last planned %+v, want %+v", l.planned[5], want)
	}

	run := f.Run
	if run.Name != "running" || run.Question != "Is it all there?" || run.TrialsPlanned != 6 || run.Rounds != 3 || run.Stopped != nil || run.FinishedAt == nil ||
		run.DynoVersion != "v1" || !slices.Equal(run.Command, o.Command) {
		t.Errorf("run %+v", run)
	}
	p := run.Plan
	if p.File != "test.yaml" || p.Source != string(e.Source) || p.Rounds != 3 || p.Seed != 5 || p.Base != "few" || p.Protocol != "http" ||
		p.Loop != "closed" || len(p.Thresholds) != 1 || len(p.Claims) != 1 || len(p.Variants) != 2 {
		t.Errorf("plan %+v", p)
	}
	if v := p.Variants[1]; v.Name != "several" || v.Variables["connections"] != "4" || v.Connections != 4 || v.Loop != "closed" {
		t.Errorf("variant %+v", v)
	}
	if env := run.Environment; env.CPUs < 1 || env.Kernel == "" || env.GoVersion == "" {
		t.Errorf("environment %+v", env)
	}
}

// A target and a service that dyno starts, with a warm-up and a window, open loop.
func TestRunStartsTarget(t *testing.T) {
	e := parse(t, `name: started
target:
  protocol: http
  start: [dyno, "null", "127.0.0.1:{{port}}"]
  env: {UPSTREAM: "{{helper.addr}}"}
services:
  helper: {start: [dyno, "null", "127.0.0.1:{{port}}"], ready: {line: ^serving$}}
observe: {kernel: none}
load: {open: {rate: 400/s, max_connections: 3}, warmup: 100ms, window: 500ms}
design: {rounds: 1}
`)
	var l log
	o := options(t, &l)
	if err := Run(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	f := open(t, o.Dir)
	if !f.Complete() || len(f.Trials) != 1 {
		t.Fatalf("%d trials, incomplete: %v", len(f.Trials), f.Incomplete)
	}
	trial := f.Trials[0]
	agree(t, trial)
	if c := trial.Counts; c.Scheduled != 200 || trial.WarmupSeconds != 0.1 {
		t.Errorf("400/s in 500 ms after %v s: %+v", trial.WarmupSeconds, c)
	}
	if p := f.Run.Plan; p.Loop != "open" || p.Variants[0].Connections != 3 || p.Variants[0].Rate == nil || *p.Variants[0].Rate != 400 {
		t.Errorf("plan %+v", p)
	}
	if p := l.planned[0]; p.Warmup != 100*time.Millisecond || !f.Run.Plan.Variants[0].Started {
		t.Errorf("announced %+v, started %v", p, f.Run.Plan.Variants[0].Started)
	}
	for _, name := range []string{"target.log", "helper.log"} {
		if text := content(t, trial, name); text != "serving\n" {
			t.Errorf("%s: %q", name, text)
		}
	}
	if !(l.read.CPUSeconds >= 0) || !(l.read.RSSBytes > 0) || l.peak < 1 || l.peak > 3 {
		t.Errorf("the watcher read %+v of the target, and %d connections at most", l.read, l.peak)
	}
	if x := trial.Target; x.CPUSeconds == nil || x.RSSBytes == nil || *x.RSSBytes <= 0 || x.Threads == nil || x.Descriptors == nil {
		t.Errorf("what the target used is not known: %+v, %v", x, trial.Unavailable)
	}
	observed, err := trial.Series()
	if err != nil || observed.Column("target_cpu_seconds") == nil {
		t.Fatalf("no target in the series: %v", err)
	}
	checkColumns(t, observed)
}

func content(t *testing.T, trial *rundir.TrialFolder, name string) string {
	t.Helper()
	f, err := trial.File(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The kept output of a process is bounded.
func TestRunLoudService(t *testing.T) {
	server, err := oracle.StartNull(t.Context(), oracle.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	e := parse(t, `name: loud
target: {protocol: http, address: "`+server.Addr().String()+`"}
services:
  loud: {start: [sh, -c, "yes a line that is long enough for these to be few | head -c 17000000; echo; echo enough; exec sleep 600; : {{port}}"], ready: {line: ^enough$}, ready_timeout: 60s}
load: {closed: {connections: 1}, warmup: 0, requests: 1}
design: {rounds: 1}
`)
	o := options(t, &log{})
	if err := Run(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	text := content(t, open(t, o.Dir).Trials[0], "loud.log")
	if bound := 16 << 20; len(text) < bound || len(text) > bound+100 || !strings.HasSuffix(text, "more bytes were dropped]\n") {
		t.Errorf("%d bytes, ending in %q", len(text), text[max(0, len(text)-100):])
	}
}

// The records agree, and conservation holds, whatever the server does.
func TestRunAgainstFaultyServer(t *testing.T) {
	server, err := oracle.StartFaulty(t.Context(), oracle.Config{}, oracle.FaultyConfig{
		Mix: oracle.Mix{oracle.OK: 80, oracle.Status: 6, oracle.Reset: 4, oracle.Cut: 4, oracle.Misframe: 3, oracle.Stall: 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	e := parse(t, `name: faulty
target: {protocol: http, address: "`+server.Addr().String()+`"}
load: {closed: {connections: 8}, warmup: 0, requests: 400, timeout: 50ms, reconnect: {max_backoff: 10ms}}
design: {rounds: 2}
`)
	o := options(t, &log{})
	if err := Run(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	f := open(t, o.Dir)
	for _, trial := range f.Trials {
		agree(t, trial)
		if c := trial.Counts; c.Errors == 0 || c.Timeouts == 0 || c.OK == 0 || c.Sent != 400 {
			t.Errorf("trial %d: %+v, want some of each", trial.Number, c)
		}
	}
}

// Any error ends the run. The folder keeps what was measured and says why there is no
// more.
func TestRunFails(t *testing.T) {
	server, err := oracle.StartNull(t.Context(), oracle.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	running := `target: {protocol: http, address: "` + server.Addr().String() + `"}` + "\n"
	for _, c := range []struct {
		name, text string
		is         func(error) bool
		counted    bool // load was sent
	}{
		{
			"program not found", "target: {protocol: tcp, start: [no-such-program, '{{port}}']}\nload: {closed: {connections: 1}}\n",
			func(err error) bool { return errors.Is(err, target.ErrNotFound) }, false,
		},
		{
			"service not ready",
			"target: {protocol: tcp, start: [sleep, '600', '{{port}}']}\nload: {closed: {connections: 1}}\n" +
				"services: {s: {start: [sleep, '600', '{{port}}'], ready_timeout: 50ms}}\n",
			func(err error) bool { return errors.Is(err, target.ErrNotReady) }, false,
		},
		{
			"nobody there", "target: {protocol: tcp, address: 'unix:/no/such/socket'}\nload: {closed: {connections: 1}}\n",
			func(err error) bool { var u *engine.Unreachable; return errors.As(err, &u) }, false,
		},
		{
			"no such CPU", running + "load: {closed: {connections: 1}, cpus: '1000'}\n",
			func(err error) bool { var p *PlanError; return errors.As(err, &p) }, false,
		},
		{
			"service dies", running + "load: {closed: {connections: 1}, warmup: 0, window: 30s}\n" +
				"services: {s: {start: [sh, -c, 'sleep 1; exit 3; : {{port}}'], ready: none}}\n",
			func(err error) bool {
				return errors.Is(err, target.ErrExited) && strings.Count(err.Error(), "exit status 3") == 1
			}, true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l log
			o := options(t, &l)
			err := Run(t.Context(), parse(t, "name: fails\n"+c.text), o)
			if err == nil || !c.is(err) || !strings.Contains(err.Error(), "trial 1, variant default: ") {
				t.Fatalf("error %v", err)
			}
			f := open(t, o.Dir)
			if f.Run.Complete || f.Run.Reason.English() != err.Error() || len(f.Trials) != 1 || len(l.ended) != 1 {
				t.Fatalf("complete %v because of %q, %d trials", f.Run.Complete, f.Run.Reason, len(f.Trials))
			}
			trial := f.Trials[0]
			if trial.Complete || trial.Error != err.Error() || (trial.Counts.OK > 0) != c.counted || !trial.Conservation.OK {
				t.Errorf("trial %+v", trial.Trial)
			}
			if c.counted {
				agree(t, trial)
			}
		})
	}
}

// TestOneWriteHasTheVerdict: no state of run.json says that the run has ended, and nothing of its verdict.
func TestOneWriteHasTheVerdict(t *testing.T) {
	e, o := twoVariants(t, startNull(t), 1), options(t, &log{})
	o.Referee = &referee{}
	if err := Run(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	ended := &open(t, o.Dir).Run
	if !ended.Complete || ended.FinishedAt == nil || !ended.IsJudged() || ended.Variants[0].Trials != 2 {
		t.Errorf("%+v", ended)
	}
}
