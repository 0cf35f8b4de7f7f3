package trial

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"dyno/internal/freeport"
	"dyno/lab/generator"
	"dyno/lab/plan"
	"dyno/observe"
	"dyno/results/rundir"
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

// A series has at most about 4,000 rows.
func TestTick(t *testing.T) {
	for _, c := range []struct {
		warmup, window time.Duration
		purpose        string
	}{
		{0, 10 * time.Second, ""},
		{time.Minute, 15 * time.Minute, ""},
		{time.Minute, 30 * time.Minute, ""},
		{0, 48 * time.Hour, ""},
		{0, 30 * time.Second, rundir.PurposePilot},
	} {
		v := plan.Variant{Load: plan.Load{Warmup: c.warmup, Window: c.window}}
		w := new(runner).newWatch(&stage{variant: &v}, c.purpose)
		rows := (c.warmup + c.window) / w.tick
		if rows > mostRows || w.tick < generator.ShortestInterval || (c.purpose == "") != (w.tick >= leastTick) || w.tick > leastTick && rows < mostRows/2 {
			t.Errorf("%v and %v: a row every %v, %d of them", c.warmup, c.window, w.tick, rows)
		}
	}
}

// A worker whose figures cannot be read does not erase the worst of the others.
func TestWorstWait(t *testing.T) {
	nan := math.NaN()
	for _, waits := range [][]float64{{0.4, nan, 0.1}, {nan, 0.4, 0.1}, {0.1, 0.4, nan}, {0.4}} {
		var window observe.Window
		for i, wait := range waits {
			window.Columns = append(window.Columns,
				observe.Summary{Column: observe.Column{Name: fmt.Sprintf("generator_worker%d_run_queue_wait_seconds", i)}, Delta: wait},
				observe.Summary{Column: observe.Column{Name: fmt.Sprintf("generator_worker%d_timeslices_total", i)}, Delta: 100 * wait})
		}
		if wait, slices := worstWait(window, len(waits)); wait != 0.4 || slices != 40 {
			t.Errorf("%v: %v s, %v times; want 0.4 and 40", waits, wait, slices)
		}
	}
	if wait, _ := worstWait(observe.Window{}, 2); !math.IsNaN(wait) {
		t.Errorf("%v s of nothing", wait)
	}
}

// Names of services may have signs that those of columns do not have.
func TestServiceColumns(t *testing.T) {
	got := serviceColumns([]running{{name: "a-b"}, {name: "DB"}, {name: "a_b"}})
	if want := []string{"service_a_b", "service_db", "service_a_b_2"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestServerThatRuns: the process that listens at the target's address is watched though dyno did not
// start it, unless it is dyno itself or one that has started it, or nobody wants to know.
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
