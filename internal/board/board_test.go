package board

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"dyno/internal/leak"
	"dyno/lab/trial"
	"dyno/load/engine"
	"dyno/load/hist"
	"dyno/load/wire"
	"dyno/results/rundir"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) { leak.Main(m) }

// play has a board see a warm-up of a second and some seconds of a window.
func play(b *Board, next trial.Planned, seconds int, failed uint64) {
	b.Begin(next)
	for n := range 10 * seconds {
		i := engine.Interval{Start: time.Duration(n) * 100 * time.Millisecond, Length: 100 * time.Millisecond, Completed: uint64(1000 + 10*n)}
		i.ByKind[wire.Status], i.ByKind[wire.Timeout] = failed, failed
		if i.Start >= next.Warmup {
			h := hist.New()
			for k := range int64(100) {
				h.Record((1 + k/10) * int64(time.Millisecond))
			}
			i.Latency[engine.Response] = h
			i.Status = map[int]uint64{200: i.Completed}
			if failed > 0 {
				i.Status[503] = failed
			}
		}
		b.Reading(trial.Reading{CPUSeconds: 0.05 * float64(n), RSSBytes: 11 << 20})
		b.Interval(i)
	}
}

// The board at two widths, of a quick load and of a run, in the warm-up and in the window.
func TestBoard(t *testing.T) {
	quick := trial.Planned{Number: 1, Of: 1, Variant: "default", Warmup: time.Second, Window: 10 * time.Second}
	of := trial.Planned{Number: 7, Of: 24, Round: 3, Rounds: 8, Variant: "pool", Width: 9, Warmup: time.Second, Window: 5 * time.Second}
	for name, c := range map[string]struct {
		next    trial.Planned
		seconds int
		failed  uint64
	}{
		"quick": {quick, 8, 0}, "warm-up": {quick, 1, 0}, "run": {of, 4, 2},
	} {
		for columns, size := range map[int]string{80: "80", 200: "200"} {
			b := newBoard("GET http://127.0.0.1:8080/")
			play(b, c.next, c.seconds, c.failed)
			shown, _ := b.take()
			got := strings.Join(shown.lines(columns, false), "\n") + "\n"
			for line := range strings.Lines(got) {
				if n := utf8.RuneCountInString(line) - 1; n > columns {
					t.Errorf("%d columns: %s", n, line)
				}
			}
			file := filepath.Join("testdata", name+"."+size+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got; -update rewrites it):\n%s", file, diff)
			}
		}
	}
}

// What is not known is not drawn, and what failed is red where there are colours.
func TestBoardOfLittle(t *testing.T) {
	b := newBoard("x")
	shown, _ := b.take()
	if got := strings.Join(shown.lines(80, true), "\n"); strings.Contains(got, "server") || strings.Contains(got, "NaN") {
		t.Error(got)
	}
	b.Begin(trial.Planned{Number: 1, Of: 1})
	b.Interval(engine.Interval{Length: time.Second, ByKind: [wire.Kinds]uint64{wire.Connect: 3}})
	b.Reading(trial.Reading{CPUSeconds: math.NaN(), RSSBytes: math.NaN()})
	shown, _ = b.take()
	if got := strings.Join(shown.lines(80, true), "\n"); !strings.Contains(got, "0 ok · \x1b[31m3 failed\x1b[0m") || strings.Contains(got, "NaN") {
		t.Error(got)
	}
}

// Rows of finished trials are kept until they are printed, and not for ever.
func TestEndedTrials(t *testing.T) {
	b := newBoard("x")
	p50, rate := 0.002, 1500.
	for n := range maxEnded + 5 {
		b.Begin(trial.Planned{Number: n + 1, Of: 300, Variant: "pool", Width: 6})
		b.End(&rundir.Trial{Throughput: &rate, Response: rundir.Quantiles{P50: &p50}, Counts: rundir.Counts{Sent: 12, OK: 10}}, []rundir.Flag{{Kind: "steal"}, {Kind: "steal"}})
	}
	_, ended := b.take()
	if len(ended) != maxEnded || ended[0] != "  1/300  pool    1.50k/s  p50 2.00 ms  failed 2  steal" {
		t.Errorf("%d rows, the first %q", len(ended), ended[0])
	}
	if _, again := b.take(); again != nil {
		t.Errorf("printed again: %q", again)
	}
	b.Begin(trial.Planned{Number: 1, Of: 1})
	b.End(&rundir.Trial{}, nil)
	b.Begin(trial.Planned{Number: 2, Of: 3, Variant: "pool"})
	b.End(&rundir.Trial{Error: "it\x1b[31m died\nwith a tail"}, nil)
	if _, ended := b.take(); len(ended) != 1 || ended[0] != "2/3  pool  failed: it<U+001B>[31m died" {
		t.Errorf("%q", ended)
	}
}

// The history of a load of hours has a bound, and ends with the latest second.
func TestHistoryIsBounded(t *testing.T) {
	var history []float64
	for n := range maxHistory + 50 {
		history = appended(history, float64(n))
	}
	if len(history) != maxHistory || history[0] != 50 || history[maxHistory-1] != maxHistory+49 {
		t.Errorf("%d values from %v to %v", len(history), history[0], history[len(history)-1])
	}
}

func TestSpark(t *testing.T) {
	for _, c := range []struct {
		values  []float64
		columns int
		want    string
	}{
		{nil, 5, ""}, {[]float64{0, 0}, 5, ""}, {[]float64{1, 2, 4}, 5, "▃▅█"}, {[]float64{9, 0, 4}, 2, " █"}, {[]float64{1}, 0, ""},
	} {
		if got := spark(c.values, c.columns); got != c.want {
			t.Errorf("%v: %q, want %q", c.values, got, c.want)
		}
	}
}
