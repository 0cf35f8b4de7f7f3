package micro

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"dyno/experiments/subjects/bot/cachetables"
	"dyno/experiments/subjects/bot/codec"
	"dyno/experiments/subjects/bot/layering"
	"dyno/experiments/subjects/measurement"
	"dyno/internal/leak"
	"dyno/services/bot"
)

func TestMain(m *testing.M) { leak.Main(m) }

const moment = 5 * time.Millisecond

// measure runs a program and holds its figures to names and to being numbers. A figure
// may be zero only where the list says so, by a question mark.
func measure(t *testing.T, p measurement.Program, names ...string) measurement.Result {
	t.Helper()
	r, err := p.Run(t.Context())
	if err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	var got []string
	for _, name := range slices.Sorted(maps.Keys(r)) {
		v := r[name]
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			t.Errorf("%+v: %s is %v", p, name, v)
		}
		if slices.Contains(names, name+"?") {
			name += "?"
		} else if v == 0 {
			t.Errorf("%+v: %s is 0", p, name)
		}
		got = append(got, name)
	}
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Errorf("%+v: figures %q, want %q", p, got, names)
	}
	return r
}

func TestMiddleware(t *testing.T) {
	names := []string{"request_seconds", "allocations?", "allocated_bytes?"}
	for _, unmatched := range []bool{false, true} {
		m := Middleware{Form: layering.Composed, Layers: 5, Matched: 2, Unmatched: unmatched, Duration: moment}
		measure(t, m, names...)
		m.Form = layering.PerRequest
		measure(t, m, names...)
	}
}

func TestJSON(t *testing.T) {
	for _, l := range codec.Libraries() {
		for _, operation := range []string{Decode, Encode, Both} {
			for _, prealloc := range []bool{false, true} {
				measure(t, JSON{Library: l, Prealloc: prealloc, Operation: operation, Bytes: 1000, Duration: moment}, "bytes_per_second", "allocations?", "allocated_bytes?")
			}
		}
	}
}

func TestCache(t *testing.T) {
	for _, k := range []cachetables.Kind{cachetables.Sharded, cachetables.RWMutex, cachetables.Snapshot} {
		r := measure(t, Cache{Kind: k, Goroutines: 3, Keys: 100, Writes: 0.1, Duration: moment}, "p50_seconds", "p99_seconds", "p999_seconds", "max_seconds", "ops_per_second")
		if r["p50_seconds"] > r["p99_seconds"] || r["p99_seconds"] > r["p999_seconds"] || r["p999_seconds"] > 1.01*r["max_seconds"] {
			t.Errorf("%s: %v", k, r)
		}
	}
}

func TestRows(t *testing.T) {
	rows := Rows{Archive: bot.ArchiveSQLite, Rows: 50, Timeout: time.Minute, Duration: moment}
	for _, w := range []Writes{Single, Batch} {
		rows.Writes = w
		measure(t, rows, "rows_per_second", "rows")
	}
}

func TestFaults(t *testing.T) {
	for _, p := range []measurement.Program{
		Middleware{}, JSON{}, JSON{Library: codec.Standard, Operation: "read"}, Cache{}, Rows{}, Rows{Archive: bot.ArchiveSQLite, Writes: Copy}, Rows{Archive: bot.ArchivePostgres, Writes: "all"},
	} {
		if measurement.Validate(p) == nil {
			t.Errorf("%+v is valid", p)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Middleware{Form: layering.Composed, Duration: moment}).Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestDefer: no form allocates, and all make the call.
func TestDefer(t *testing.T) {
	for _, form := range []string{"last", "defer", "closure"} {
		measure(t, Defer{Form: form, Duration: moment}, "call_seconds", "allocations?", "allocated_bytes?")
	}
}

// TestQuantile: the histogram and CKMS are within their bounds of the truth, which buckets are not.
func TestQuantile(t *testing.T) {
	within := map[string]float64{"hdr": 0.001, "ckms": 0.01}
	for _, kind := range []string{"buckets", "ckms", "hdr"} {
		r := measure(t, Quantile{Kind: kind, Times: 50_000, Seed: 2}, "record_seconds", "p50_error_seconds?", "p99_error_seconds?", "kept_bytes")
		if off, limit := r["p99_error_seconds"], within[kind]; limit > 0 && off > limit {
			t.Errorf("%s: the P99 is %g s off", kind, off)
		} else if limit == 0 && off < 0.01 {
			t.Errorf("%s: the P99 is only %g s off: the buckets are wider", kind, off)
		}
	}
}

// TestGuard: a guard leaves what does not return, a context ends it.
func TestGuard(t *testing.T) {
	g := Guard{Form: "guard", Timeout: 20 * time.Millisecond, Stuck: 3, Duration: moment}
	if r := measure(t, g, "call_seconds", "held_seconds", "left"); r["left"] != 1 {
		t.Errorf("guard: %g are left, want all", r["left"])
	}
	g.Form = "bare"
	measure(t, g, "call_seconds")
}
