package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dyno/internal/command"
	"dyno/internal/exit"
	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// run runs a command and returns its figures.
func run(t *testing.T, args ...string) map[string]float64 {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := command.Main(t.Context(), newCommand(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("%q: exit code %d: %s", args, code, &stderr)
	}
	var figures map[string]float64
	if err := json.Unmarshal(stdout.Bytes(), &figures); err != nil {
		t.Fatalf("%q: %q: %v", args, &stdout, err)
	}
	return figures
}

// A log of either kind gives collections and pauses, whatever else stands in it.
func TestLog(t *testing.T) {
	for name, c := range map[string]struct {
		log  string
		want map[string]float64
	}{
		"nothing yet": {"", map[string]float64{"collections_total": 0, "pauses_total": 0, "pause_seconds_total": 0, "pause_max_seconds": 0}},
		"go": {`level=info msg="gc 9 @9s"
gc 1 @0.012s 2%: 0.25+0.39+0.5 ms clock, 0.21+0.88/0.52/0+0.83 ms cpu, 4->4->0 MB, 5 MB goal, 8 P
gc 2 @11.5s 2%: 1+0.39+2 ms clock, 0.21+0.88/0.52/0+0.83 ms cpu, 4->4->0 MB, 5 MB goal, 8 P (forced)
gc 3 @12`, map[string]float64{"collections_total": 2, "pauses_total": 4, "pause_seconds_total": 0.00375, "pause_p50_seconds": 0.001, "pause_p99_seconds": 0.002, "pause_max_seconds": 0.002}},
		"jvm": {`[0.005s][info][gc] Using G1
[0.100s][info][gc,phases] GC(0) Pause Mark Start 0.25ms
[0.200s][info][gc,phases] GC(0) Pause Mark End 0.5ms
[0.300s][info][gc] GC(0) Garbage Collection (Warmup) 100M(10%)->50M(5%)
[5.000s][info][gc] GC(1) Pause Young (Normal) (G1 Evacuation Pause) 853M->586M(2048M) 25ms
`, map[string]float64{"collections_total": 2, "pauses_total": 3, "pause_seconds_total": 0.02575, "pause_p50_seconds": 0.0005, "pause_p90_seconds": 0.025, "pause_max_seconds": 0.025}},
	} {
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, []byte(c.log), 0o600); err != nil {
			t.Fatal(err)
		}
		got := run(t, "log", "--file", file)
		for figure, want := range c.want {
			if d := got[figure] - want; d > 1e-12 || d < -1e-12 {
				t.Errorf("%s: %s is %v, want %v", name, figure, got[figure], want)
			}
		}
	}
	var stdout, stderr bytes.Buffer
	if code := command.Main(t.Context(), newCommand(), []string{"log", "--file", filepath.Join(t.TempDir(), "none")}, &stdout, &stderr); code != exit.Failed || !strings.Contains(stderr.String(), "none") {
		t.Errorf("a file that is missing: exit code %d: %s", code, &stderr)
	}
}

// All tasks end, with a pool and without. A pool has no more workers than it may.
func TestTasks(t *testing.T) {
	for _, kind := range []string{Each, Pooled, Collecting} {
		r := run(t, "tasks", "--kind", kind, "--in-flight", "100", "--workers", "4", "--grow", "1", "--wait", "1ms", "--idle", "1ms", "--duration", "30ms")
		if r["tasks_per_second"] <= 0 || r["mean_seconds"] < 0.001 || r["workers"] > 4 || (r["workers"] > 0) != (kind != Each) || kind == Collecting && r["collections_per_second"] <= 0 {
			t.Errorf("%s: %v", kind, r)
		}
	}
}
