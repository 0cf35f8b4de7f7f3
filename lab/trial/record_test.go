package trial

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/lab/plan"
	"dyno/load/engine/record"
	"dyno/load/hist"
	"dyno/load/wire"
	"dyno/results/rundir"
)

func histogram(values ...time.Duration) *hist.Histogram {
	h := hist.New()
	for _, v := range values {
		h.Record(int64(v))
	}
	return h
}

// result is 10 requests in a window of 2 s: 5 good, 2 errors, a timeout, one
// unfinished and one dropped.
func result() *record.Result {
	r := &record.Result{
		Start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), WindowStart: time.Second, Window: 2 * time.Second,
		Counts:      record.Counts{Scheduled: 10, Sent: 9, Outcomes: record.Outcomes{Dropped: 1, OK: 5, Errors: 2, Timeouts: 1, Unfinished: 1}},
		Completed:   4,
		Status:      map[int]uint64{200: 5, 503: 2},
		Failures:    map[string]uint64{"status 503": 2},
		Connections: record.Connections{Requested: 3, Unopened: 1, Opened: 4, Failed: 1, PeerClosed: 2, Unsolicited: 1, Peak: 3, Reused: 6, Exchanges: 8, WindowReused: 3, WindowExchanges: 4},
		Process:     record.CPUTime{User: 300 * time.Millisecond, System: 100 * time.Millisecond},
		Workers:     record.CPUTime{User: 200 * time.Millisecond, System: 100 * time.Millisecond},
		Spun:        100 * time.Millisecond,
	}
	r.Counts.ByKind[wire.Status], r.Counts.ByKind[wire.Timeout], r.Counts.ByKind[wire.Unfinished] = 2, 1, 1
	r.AllCounts = r.Counts
	for tag := range r.Latency {
		r.Latency[tag] = hist.New()
	}
	r.Latency[record.Response] = histogram(1e6, 2e6, 3e6)
	r.Latency[record.ConnectTime] = histogram(5e6)
	r.Intervals = []record.Interval{
		{Start: time.Second, Length: time.Second, Measured: record.Outcomes{OK: 2}},
		{Start: 2 * time.Second, Length: time.Second, Measured: record.Outcomes{OK: 2}},
	}
	r.Intervals[0].Latency[record.Response] = histogram(1e6, 2e6)
	r.Intervals[0].Latency[record.ConnectTime] = histogram(5e6)
	r.Intervals[1].Latency[record.Response] = histogram(3e6)
	return r
}

func near(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil || *got < 0.999*want || *got > 1.001*want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestRecord(t *testing.T) {
	var got rundir.Trial
	translate(&got, &plan.Variant{Target: plan.Target{Protocol: plan.HTTP}}, result(), 2)
	want := rundir.Counts{
		Scheduled: 10, Sent: 9, Dropped: 1, OK: 5, Errors: 2, Timeouts: 1, Unfinished: 1, CompletedInWindow: 4,
		ByKind: map[string]int64{"status": 2, "timeout": 1, "unfinished": 1}, ByStatus: map[string]int64{"200": 5, "503": 2},
	}
	if diff := cmp.Diff(want, got.Counts); diff != "" {
		t.Error(diff)
	}
	connections := rundir.Connections{Requested: 3, Unopened: 1, Opened: 4, Failed: 1, PeerClosed: 2, Unsolicited: 1, ReusedRequests: 6, Peak: 3}
	if got.Connections != connections {
		t.Errorf("%+v", got.Connections)
	}
	if !got.Conservation.OK || got.Failures["status 503"] != 2 || !got.StartedAt.Equal(result().Start) ||
		got.WarmupSeconds != 1 || got.WindowSeconds != 2 || got.Generator.Workers != 2 {
		t.Errorf("%+v", got)
	}
	near(t, "throughput", got.Throughput, 2)
	near(t, "response", got.Times[rundir.TagResponse].Max, 0.003)
	near(t, "connect", got.Times[rundir.TagConnect].Max, 0.005)
	near(t, "reuse", got.Target.ConnectionReuseRatio, 0.75)
	// Time spent polling is not load.
	near(t, "CPU", got.Generator.CPUSeconds, 0.3)
	near(t, "CPU per request", got.Generator.CPUSecondsPerRequest, 0.075)
	near(t, "CPU share", got.Generator.CPUShare, 0.2/2/2)
	near(t, "user share", got.Generator.UserShare, 0.75)
	if got.Times[rundir.TagService].Count != 0 || got.Times[rundir.TagService].Max != nil {
		t.Errorf("service time of nothing: %+v", got.Times)
	}
}

// A request that is not accounted for, in the window or before it, is found.
func TestRecordConservation(t *testing.T) {
	for name, change := range map[string]func(*record.Result){
		"window":  func(r *record.Result) { r.Counts.OK++ },
		"warm-up": func(r *record.Result) { r.AllCounts.Scheduled++ },
	} {
		var got rundir.Trial
		r := result()
		change(r)
		translate(&got, &plan.Variant{Target: plan.Target{Protocol: plan.HTTP}}, r, 1)
		if got.Conservation.OK || got.Conservation.Detail == "" {
			t.Errorf("%s: %+v", name, got.Conservation)
		}
	}
}

// For a window that never began, figures are unknown rather than 0.
func TestRecordNothing(t *testing.T) {
	var got rundir.Trial
	translate(&got, &plan.Variant{Target: plan.Target{Protocol: plan.HTTP}}, &record.Result{}, 1)
	g := got.Generator
	if got.Throughput != nil || got.Times[rundir.TagResponse].Max != nil || got.Target.ConnectionReuseRatio != nil ||
		g.CPUSecondsPerRequest != nil || g.CPUShare != nil || g.UserShare != nil {
		t.Errorf("%+v", got)
	}
	if !got.Conservation.OK {
		t.Error("no requests are not conserved")
	}
}

func TestRecordUntried(t *testing.T) {
	r := result()
	r.Streams = record.Streams{Requested: 3, Untried: 2}
	var got rundir.Trial
	if translate(&got, &plan.Variant{Target: plan.Target{Protocol: plan.HTTP}}, r, 1); got.Streams == nil || got.Streams.Untried != 2 {
		t.Errorf("%+v", got.Streams)
	}
}

// The engine knows no files. So its tags have names of their own, which the run folder uses too.
func TestTagsAreNamed(t *testing.T) {
	var recorded []string
	for tag := range record.Tags {
		recorded = append(recorded, tag.String())
	}
	named := rundir.Tags()
	slices.Sort(recorded)
	slices.Sort(named)
	if !slices.Equal(recorded, named) {
		t.Errorf("the engine records %q, rundir names %q", recorded, named)
	}
}
