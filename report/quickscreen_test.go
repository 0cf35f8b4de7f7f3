package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"dyno/internal/texts"
	"dyno/report/short"
	"dyno/results/rundir"
)

// quickText is the screen of a quick load, without its terminal's width.
func quickText(t *testing.T, change func(*rundir.Run, *rundir.Trial)) string {
	t.Helper()
	f := exampleQuick()
	change(&f.Run, &f.Trials[0].Trial)
	var b bytes.Buffer
	if err := short.Text(&b, f, short.Screen{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestQuickSaysWhatWasDone(t *testing.T) {
	got := quickText(t, func(run *rundir.Run, x *rundir.Trial) {
		run.Plan.Variants[0].Request = "GET http://127.0.0.1:8080/a"
		run.Variants[0].Counts.ReceivedBytes = 10 << 20
		x.Connections.Streams, x.Loaded.Protocols = 4, map[string]int64{"HTTP/2 by ALPN": x.Connections.Opened}
		x.Server = &rundir.Server{PID: 7, Name: "nginx"}
		cpu := 4.9
		x.Target.CPUSeconds = &cpu
	})
	for _, want := range []string{
		"GET http://127.0.0.1:8080/a   HTTP/2 · 100 connections × 4 streams · closed loop · 5s",
		" 2.00 MiB/s received\n", "\n  server        nginx (pid 7): 0.980 CPUs · 21.0 µs per request · 9.00 MiB\n",
		"try --rate 3000.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("without %q:\n%s", want, got)
		}
	}
}

// The advice to give dyno more CPUs appears only if a figure has a mark.
func TestQuickRemediesNeedMarks(t *testing.T) {
	const remedy = "Give dyno CPUs of its own (--cpus)"
	for _, marked := range []bool{false, true} {
		got := quickText(t, func(run *rundir.Run, _ *rundir.Trial) {
			run.Flags = []rundir.Flag{{Kind: "generator_cpu", About: rundir.AboutGenerator, Trial: 1, Variant: run.Variants[0].Name}}
			run.Validity = nil
			if marked {
				run.Validity = []rundir.Validity{{Figure: "service.max", Variant: run.Variants[0].Name, State: rundir.StateNotIdentified, Why: new(texts.New("why.disturbed", "share", "2 %"))}}
			}
		})
		if strings.Contains(got, remedy) != marked {
			t.Errorf("marked %v:\n%s", marked, got)
		}
	}
}

// Each figure has one mark at most, and a sentence says of each mark why.
func TestQuickMarks(t *testing.T) {
	because := texts.New("why.disturbed", "share", "2 %")
	got := quickText(t, func(run *rundir.Run, _ *rundir.Trial) {
		v := &run.Variants[0]
		q := quantilesOf(1.2e-3)
		q.Count = 5000 // which is too few for a p99.9
		timed(v, "service", q)
		state := func(figure, state string, low, high float64) rundir.Validity {
			of := rundir.Validity{Figure: figure, Variant: v.Name, State: state, Why: &because}
			if high > 0 {
				of.Low, of.High = &low, &high
			}
			return of
		}
		run.Validity = []rundir.Validity{
			state("throughput", rundir.StateBounded, *v.Known("throughput"), 2**v.Known("throughput")),
			state("service.p90", rundir.StateBounded, *v.Known("service.p90")/2, *v.Known("service.p90")),
			state("service.p99", rundir.StateBounded, *v.Known("service.p99")/2, *v.Known("service.p99")),
			state("service.max", rundir.StateNotIdentified, 0, 0),
		}
	})
	for _, want := range []string{
		"≥4,230", "service p50 1.20 ms p90 ≤2.04 p99 ≤3.60 max 10.8 ms?",
		"Do not rely on what is marked ?, ≥ may be too low, ≤ may be too high: something else may have disturbed 2 % of the requests.",
	} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("without %q:\n%s", want, got)
		}
	}
	if words := strings.ToLower(got); strings.Contains(words, "variant") || strings.Contains(words, "trial") || strings.Contains(words, "round") {
		t.Errorf("words of experiments:\n%s", got)
	}
}

// A quantile beyond the p99 that would have a mark is not on the screen. No sentence says why.
func TestQuickTailWithoutMarks(t *testing.T) {
	because := texts.New("why.disturbed", "share", "0.05 %")
	for _, state := range []string{rundir.StateBounded, rundir.StateNotIdentified, rundir.StateOK} {
		got := quickText(t, func(run *rundir.Run, _ *rundir.Trial) {
			v := &run.Variants[0]
			q := quantilesOf(1.2e-3)
			q.Count, q.P9999 = 1_000_000, new(0.009)
			timed(v, "service", q)
			run.Validity = nil
			for _, figure := range []string{"service.p999", "service.p9999"} {
				run.Validity = append(run.Validity, rundir.Validity{Figure: figure, Variant: v.Name, State: state, Why: &because, Low: new(0.001), High: new(0.002)})
			}
		})
		if shown := strings.Contains(got, "p99.9 "); shown != (state == rundir.StateOK) || strings.Contains(got, "0.05 %") || strings.ContainsAny(got, "≤≥?") {
			t.Errorf("%s:\n%s", state, got)
		}
	}
}

// Where answers waited until dyno read them, the screen has the times that other tools show.
func TestQuickUntilRead(t *testing.T) {
	const row = "until read p50 1.21 ms p90 %s p99 3.61 as tools without kernel time stamps show"
	for p90, want := range map[float64]string{2.05e-3: "", 2.5e-3: "2.50"} {
		got := quickText(t, func(run *rundir.Run, _ *rundir.Trial) {
			timed(&run.Variants[0], "service_read", rundir.Quantiles{Count: 10000, P50: new(1.21e-3), P90: &p90, P99: new(3.61e-3), Max: new(0.01)})
		})
		if has := strings.Contains(strings.Join(strings.Fields(got), " "), fmt.Sprintf(row, want)); has != (want != "") || want == "" && strings.Contains(got, "until read") {
			t.Errorf("p90 %v:\n%s", p90, got)
		}
	}
}

// A latency without connecting says so, and slow connecting has a row.
func TestQuickConnecting(t *testing.T) {
	const none = "102 opened (connecting is not in latency) · 1 failed"
	for _, c := range []struct {
		mean, slowest float64 // seconds; the latencies' p99 is 3.6 ms
		want          string
	}{
		{0, 0, "102 opened · 1 failed"},
		{0.0002, 0.0003, none},
		{0.0002, 0.01, none},
		{0.0009, 0.04, none},
		{0.0011, 0.01, "connect p50 0.200 ms p99 0.300 max 10.0 ms not in latency"},
		{0.0002, 1, "connect p50 0.200 ms p99 0.300 max 1,000 ms not in latency"},
	} {
		got := quickText(t, func(run *rundir.Run, _ *rundir.Trial) {
			if c.slowest > 0 {
				timed(&run.Variants[0], "connect", rundir.Quantiles{Count: 2000, Mean: &c.mean, P50: new(0.0002), P99: new(0.0003), Max: &c.slowest})
			}
		})
		if !strings.Contains(strings.Join(strings.Fields(got), " "), c.want) {
			t.Errorf("without %q:\n%s", c.want, got)
		}
	}
}

// The rate is that of the window; answers after it are counted, and distinguished, however many there are.
func TestQuickAnswersAfterTheEnd(t *testing.T) {
	for late, want := range map[int64]string{10: "1,010 ok ·", 50: "1,050 ok (50 after the end)", 1_600_000: "1,601,000 ok (1,600,000 after the end)"} {
		got := quickText(t, func(run *rundir.Run, x *rundir.Trial) {
			x.Counts = rundir.Counts{OK: 900 + late, Carried: rundir.Carried{OK: 100}, CompletedInWindow: 1000}
			run.Variants[0].Counts = x.Counts
		})
		if !strings.Contains(got, want) {
			t.Errorf("without %q:\n%s", want, got)
		}
	}
}

// One request is no reason for advice.
func TestQuickOneRequest(t *testing.T) {
	got := quickText(t, func(run *rundir.Run, _ *rundir.Trial) {
		run.Variants[0].Counts = rundir.Counts{OK: 1}
		q := quantilesOf(1.2e-3)
		timed(&run.Variants[0], "service", rundir.Quantiles{Count: 1, P50: q.P50, Max: q.P50, Mean: q.P50})
	})
	if strings.Contains(got, "try --rate") || strings.Contains(got, "measure longer") {
		t.Errorf("advice:\n%s", got)
	}
}
