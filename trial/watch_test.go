package trial

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dyno/experiment"
	"dyno/rundir"
)

// A loaded trial has a sleeper beside the generator, and the pressure where the
// kernel measures it; a soak also asks the target for its goroutines.
func TestRunObserves(t *testing.T) {
	var asked atomic.Int64
	pprof := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		fmt.Fprintln(w, "goroutine profile: total 11")
	}))
	defer pprof.Close()
	server := startNull(t)
	for _, soak := range []bool{false, true} {
		before := asked.Load()
		e := parse(t, `name: observed
target: {protocol: http, address: "`+server.Addr().String()+`"}
load: {closed: {connections: 1}, warmup: 0, window: 400ms}
design: {rounds: 1}
`)
		e.Variants[0].Target.Pprof, e.Soak = pprof.URL+"/debug/pprof", soak
		o := options(t, &log{})
		if err := Run(t.Context(), e, o); err != nil {
			t.Fatal(err)
		}
		f := open(t, o.Dir)
		trial := f.Trials[0]
		m := trial.Machine
		if m.LateWakeupShare == nil || *m.LateWakeupShare < 0 || *m.LateWakeupShare > 1 {
			t.Errorf("soak %v: late wake-ups %v, %v", soak, m.LateWakeupShare, trial.Unavailable)
		}
		missing := strings.Join(trial.Unavailable, "\n")
		if (m.MemoryStall == nil) != strings.Contains(missing, "pressure of memory") || (m.IOStall == nil) != strings.Contains(missing, "pressure of io") {
			t.Errorf("soak %v: %v, %v, and unavailable is %q", soak, m.MemoryStall, m.IOStall, missing)
		}
		series, err := trial.Series()
		if err != nil {
			t.Fatal(err)
		}
		cpu := series.Column("wakeup_cpu_seconds")
		if len(cpu) == 0 || trial.ObserverCPU == nil || *trial.ObserverCPU < cpu[len(cpu)-1] {
			t.Errorf("soak %v: observing cost %v, of that the sleeper %v", soak, trial.ObserverCPU, cpu)
		}
		if (series.Column("target_goroutines") != nil) != soak || (asked.Load() > before) != soak || f.Run.Plan.Soak != soak {
			t.Errorf("soak %v: columns %v, the target was asked %d times", soak, series.Columns, asked.Load()-before)
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
		v := experiment.Variant{Load: experiment.Load{Warmup: c.warmup, Window: c.window}}
		w := new(runner).newWatch(&stage{variant: &v}, c.purpose)
		rows := (c.warmup + c.window) / w.tick
		if rows > mostRows || w.tick < fine || (c.purpose == "") != (w.tick >= leastTick) || w.tick > leastTick && rows < mostRows/2 {
			t.Errorf("%v and %v: a row every %v, %d of them", c.warmup, c.window, w.tick, rows)
		}
	}
}
