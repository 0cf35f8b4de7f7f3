package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dyno/judge/history"
	"dyno/report/changes"
	"dyno/results/rundir"
)

// autumn is a history of two variants. One got slower with a new kernel, and was mended
// with a new version. One run was invalid.
func autumn(name string) []history.Run {
	var all []history.Run
	for day := range 24 {
		wobble := 1 + 0.004*float64((day*7)%11-5)/5
		pool := 10_000 * wobble
		if day >= 8 && day < 16 {
			pool *= 0.9
		}
		r := history.Run{
			Dir: fmt.Sprintf("runs/%s-%02d", name, day), Name: name, StartedAt: time.Date(2026, 9, 1+day, 3, 0, 0, 0, time.UTC),
			Complete: true, Valid: day != 4, Rounds: 8, DynoVersion: "v1", Machine: "bench-1, 6.1", Plan: "0123456789ab",
			Metric: "throughput", Variants: []string{"pool", "goroutine"},
			Figures: map[string]map[string]rundir.Estimate{
				"pool":      {"throughput": {Estimate: &pool, Low: ptr(0.99 * pool), High: ptr(1.01 * pool)}},
				"goroutine": {"throughput": {Estimate: ptr(8000 * wobble)}},
			},
		}
		if day >= 8 {
			r.Machine = "bench-1, 6.2"
		}
		if day >= 16 {
			r.DynoVersion = "v2"
		}
		all = append(all, r)
	}
	return append(all, history.Run{Dir: "runs/x", Problem: "run folder: runs/x/run.json: byte 1: unexpected end of JSON input"})
}

func TestHistory(t *testing.T) {
	all := autumn("relay")
	short := autumn("echo")[:3]
	for name, all := range map[string][]history.Run{"history.txt": append(all, short...), "history-none.txt": nil} {
		h, err := history.Trace(all, history.Query{})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := changes.History(&b, h); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.String())
	}
}

func TestLongHistory(t *testing.T) {
	all := autumn("relay")[:1]
	for day := range 99 {
		r := all[0]
		r.StartedAt = r.StartedAt.AddDate(0, 0, day)
		all = append(all, r)
	}
	for range 20 {
		all = append(all, history.Run{Problem: "bad"})
	}
	h, err := history.Trace(all, history.Query{Variant: "pool"})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := changes.History(&b, h); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{"relay, 100 runs of", "  40 earlier\n", "no change found in 100 runs", "not readable: 20 folders", "  and 12 more\n"} {
		if !strings.Contains(b.String(), says) {
			t.Errorf("want %q in\n%s", says, b.String())
		}
	}
	if n := strings.Count(b.String(), "\n  2026-"); n != 60 {
		t.Errorf("%d runs are listed, want 60", n)
	}
}

func TestHistoryIsTame(t *testing.T) {
	const wild = "a\x1b[2Jb\u009b1mc\u202ed\r\ne\x00\xff"
	all := autumn(wild)
	for i := range all {
		all[i].Dir, all[i].DynoVersion = wild, wild
		if len(all[i].Variants) > 0 {
			all[i].Variants = []string{wild}
			all[i].Figures[wild] = all[i].Figures["pool"]
		} else {
			all[i].Problem = wild
		}
	}
	h, err := history.Trace(all, history.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := changes.History(&b, h); err != nil {
		t.Fatal(err)
	}
	expectTame(t, b.String())
}
