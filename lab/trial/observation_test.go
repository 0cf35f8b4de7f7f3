package trial

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"dyno/internal/freeport"
	"dyno/results/rundir"
	"dyno/results/rundir/series"
)

// A loaded trial has a sleeper next to the generator, and the pressure if the kernel
// measures it. It asks the target for its goroutines, and the plan's endpoints for numbers.
func TestRunObserves(t *testing.T) {
	var asked atomic.Int64
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch r.URL.Path {
		case "/debug/pprof/goroutine":
			fmt.Fprintln(w, "goroutine profile: total 11")
		case "/queue":
			fmt.Fprintln(w, "# TYPE jobs gauge\njobs 7\n# TYPE done_total counter\ndone_total 3\n# TYPE turns_total counter")
			fmt.Fprintln(w, "turns_total", 100-asked.Load()) // as if others answered in turn
		default:
			http.NotFound(w, r)
		}
	}))
	defer pages.Close()
	e := parse(t, `name: observed
target: {protocol: http, address: "`+startNull(t).Addr().String()+`", pprof: "`+pages.URL+`/debug/pprof"}
load: {closed: {connections: 1}, warmup: 0, window: 2s}
design: {rounds: 1}
observe:
  runtime: "`+pages.URL+`/debug/pprof"
  endpoints:
    app: {url: "`+pages.URL+`/queue", metrics: [jobs, done_total, turns_total], every: 100ms}
    gone: {url: "`+pages.URL+`/nothing", metrics: [jobs]}
  commands:
    echo: {run: [echo, "depth 3"], every: 100ms}
    generator_cpu: {run: [echo, "seconds 3"], every: 100ms}
`)
	o := options(t, &log{})
	if err := Run(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	trial := open(t, o.Dir).Trials[0]
	m := trial.Machine
	if m.LateWakeupShare == nil || *m.LateWakeupShare < 0 || *m.LateWakeupShare > 1 {
		t.Errorf("late wake-ups %v, %v", m.LateWakeupShare, trial.Unavailable)
	}
	missing := fmt.Sprint(trial.Unavailable)
	if (m.MemoryStall == nil) != strings.Contains(missing, "pressure of memory") || (m.IOStall == nil) != strings.Contains(missing, "pressure of io") {
		t.Errorf("%v, %v, and unavailable is %q", m.MemoryStall, m.IOStall, missing)
	}
	if !strings.Contains(missing, "observer gone cannot work here") {
		t.Errorf("an endpoint that is not there: unavailable is %q", missing)
	}
	if !strings.Contains(missing, "observer generator_cpu cannot work here: there is a column generator_cpu_seconds already") {
		t.Errorf("a column that is there already: unavailable is %q", missing)
	}
	series, err := trial.Series()
	if err != nil {
		t.Fatal(err)
	}
	checkColumns(t, series, "app_", "echo_")
	cpu := series.Column("wakeup_cpu_seconds")
	if len(cpu) == 0 || trial.ObserverCPU == nil || *trial.ObserverCPU < cpu[len(cpu)-1] {
		t.Errorf("observing cost %v, of that the sleeper %v", trial.ObserverCPU, cpu)
	}
	if n := trial.Target.Goroutines; n == nil || *n != 11 || series.Column("target_goroutines") == nil || asked.Load() == 0 {
		t.Errorf("goroutines %v, columns %v", n, series.Columns)
	}
	if _, ok := trial.Observed["app_turns_total"]; ok || !strings.Contains(missing, "observer app: counters fell in the window, so that their rates are not known: app_turns_total (") {
		t.Errorf("a counter that fell: observed %v, unavailable is %q", trial.Observed, missing)
	}
	for name, want := range map[string]float64{"app_jobs": 7, "app_done_total": 0, "echo_depth": 3} {
		if got, ok := trial.Observed[name]; !ok || got != want {
			t.Errorf("%s: %v, want %v; observed %v", name, got, want, trial.Observed)
		}
	}
}

// checkColumns holds what was recorded to the table of columns. Those of endpoints and
// commands begin with their names.
func checkColumns(t *testing.T, observed *series.Series, others ...string) {
	t.Helper()
	for _, name := range observed.Columns {
		theirs := slices.ContainsFunc(others, func(beginning string) bool { return strings.HasPrefix(name, beginning) })
		if _, own := rundir.ColumnOf(name); own == theirs {
			t.Errorf("%s is one of dyno's own columns in rundir: %v", name, own)
		}
	}
}

// TestServerThatRuns: the process that listens at the target's address is watched though dyno did not
// start it. Exceptions are dyno itself, its ancestors, and a plan that does not want it.
func TestServerThatRuns(t *testing.T) {
	address := freeport.Address(t)
	command := exec.CommandContext(t.Context(), os.Args[0], "null", address)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(command.Process.Signal(syscall.SIGTERM), command.Wait()); err != nil {
			t.Error(err)
		}
	}()
	for observe, watched := range map[string]bool{"{}": true, fmt.Sprintf("{pid: %d}", command.Process.Pid): true, "{server: false}": false, fmt.Sprintf("{pid: %d}", os.Getpid()): false} {
		e := parse(t, `name: running
target: {protocol: http, address: "`+address+`"}
load: {closed: {connections: 2}, warmup: 0, window: 600ms}
observe: `+observe+`
design: {rounds: 1}
`)
		o := options(t, &log{})
		if err := Run(t.Context(), e, o); err != nil {
			t.Fatal(err)
		}
		f := open(t, o.Dir)
		x := f.Trials[0]
		if s := x.Server; (s != nil) != watched || (x.Target.CPUSeconds != nil) != watched || watched && (s.PID != command.Process.Pid || s.Name == "" || *x.Target.CPUSeconds <= 0) {
			t.Errorf("%s: server %+v, target %+v, unavailable %q", observe, s, x.Target, x.Unavailable)
		}
		if want := "GET http://" + address + "/"; f.Run.Plan.Variants[0].Request != want || x.Counts.ReceivedBytes <= 0 {
			t.Errorf("%s: request %q, want %q; %d bytes", observe, f.Run.Plan.Variants[0].Request, want, x.Counts.ReceivedBytes)
		}
	}
}
