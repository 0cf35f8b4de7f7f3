package board

import (
	"flag"
	"fmt"
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
	"dyno/load/engine/record"
	"dyno/load/hist"
	"dyno/load/wire"
	"dyno/results/rundir"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) {
	if name := os.Getenv("DRAW_BOARD"); name != "" {
		draw(name)
	}
	leak.Main(m)
}

// draw draws a board on the terminal of this process, until the process is killed.
func draw(name string) {
	b := Start(os.Stdout, title, false)
	if name == "run" {
		b.Begin(trial.Planned{Number: 6, Of: 24, Variant: "thread", Width: 9})
		b.End(&finished, nil)
	}
	play(b, boards[name])
	select {}
}

const title = "GET http://127.0.0.1:8080/"

var (
	median, throughput = 0.002, 1500.
	finished           = rundir.Trial{Throughput: &throughput, Times: rundir.Times{rundir.TagResponse: {P50: &median}}, Counts: rundir.Counts{OK: 10, Dropped: 1, Unfinished: 1}}

	quick  = trial.Planned{Number: 1, Of: 1, Variant: "default", Warmup: time.Second, Window: 10 * time.Second}
	boards = map[string]played{
		"quick":   {quick, 8, 0},
		"warm-up": {quick, 1, 0},
		"run":     {trial.Planned{Number: 7, Of: 24, Round: 3, Rounds: 8, Variant: "pool", Width: 9, Left: 107 * time.Second, Warmup: time.Second, Window: 5 * time.Second}, 4, 2},
		"rule":    {trial.Planned{Number: 7, Round: 3, Rounds: 18, Variant: "b", Left: 41500 * time.Millisecond, Warmup: time.Second, Window: time.Second}, 1, 0},
	}
)

// A played is what a board sees of a trial.
type played struct {
	next    trial.Planned
	seconds int    // with the warm-up's
	failed  uint64 // requests of each kind, each tenth of a second
}

func play(b *Board, p played) {
	b.Begin(p.next)
	for n := range 10 * p.seconds {
		i := record.Interval{Start: time.Duration(n) * 100 * time.Millisecond, Length: 100 * time.Millisecond}
		ended := record.Outcomes{OK: uint64(1000 + 10*n), Errors: p.failed, Timeouts: p.failed, Dropped: p.failed / 2}
		ended.ByKind[wire.Status], ended.ByKind[wire.Timeout] = p.failed, p.failed
		if i.Measured = ended; i.Start < p.next.Warmup {
			i.Measured, i.Warmup = record.Outcomes{}, ended
		}
		if i.Start >= p.next.Warmup {
			h := hist.New()
			for k := range int64(100) {
				h.Record((1 + k/10) * int64(time.Millisecond))
			}
			i.Latency[record.Response] = h
			i.Status = map[int]uint64{200: i.Completed()}
			if p.failed > 0 {
				i.Status[503] = p.failed
			}
		}
		b.Reading(trial.Reading{CPUSeconds: 0.05 * float64(n), RSSBytes: 11 << 20})
		b.Interval(i)
	}
}

// The board at two widths, of a quick load and of a run, in the warm-up and in the window.
func TestBoard(t *testing.T) {
	for name, played := range boards {
		for _, columns := range []int{80, 200} {
			b := newBoard(title)
			play(b, played)
			shown, _ := b.take()
			got := strings.Join(shown.lines(columns, false), "\n") + "\n"
			for line := range strings.Lines(got) {
				if n := utf8.RuneCountInString(line) - 1; n > columns {
					t.Errorf("%d columns: %s", n, line)
				}
			}
			file := golden(name, columns)
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

func golden(name string, columns int) string {
	return filepath.Join("testdata", fmt.Sprintf("%s.%d.txt", name, columns))
}

// A terminal shows the same, and the rows of finished trials above it.
func TestBoardOnATerminal(t *testing.T) {
	for columns, rows := range map[int]int{80: 24, 200: 50} {
		for name := range boards {
			t.Run(fmt.Sprintf("%s %dx%d", name, columns, rows), func(t *testing.T) {
				t.Parallel() // they wait for terminals
				text, err := os.ReadFile(golden(name, columns))
				if err != nil {
					t.Fatal(err)
				}
				want := string(text)
				if name == "run" {
					want = Row(trial.Planned{Number: 6, Of: 24, Variant: "thread", Width: 9}, &finished, nil) + "\n" + want
				}
				expectScreen(t, columns, rows, "DRAW_BOARD="+name, want, os.Args[0])
			})
		}
	}
}

// Unknown values are not drawn, and failures are red where there are colours.
func TestBoardOfLittle(t *testing.T) {
	b := newBoard("x")
	shown, _ := b.take()
	if got := strings.Join(shown.lines(80, true), "\n"); strings.Contains(got, "server") || strings.Contains(got, "NaN") {
		t.Error(got)
	}
	b.Begin(trial.Planned{Number: 1, Of: 1})
	b.Interval(record.Interval{Length: time.Second, Measured: record.Outcomes{Errors: 2, Dropped: 2, Unsent: 1, Generator: 1}})
	b.Reading(trial.Reading{CPUSeconds: math.NaN(), RSSBytes: math.NaN()})
	shown, _ = b.take()
	if got := strings.Join(shown.lines(80, true), "\n"); !strings.Contains(got, "0 ok · \x1b[31m3 failed\x1b[0m · 2 not sent") || strings.Contains(got, "NaN") {
		t.Error(got)
	}
}

// Rows of finished trials are kept until they are printed, and no longer.
func TestEndedTrials(t *testing.T) {
	b := newBoard("x")
	for n := range maxEnded + 5 {
		b.Begin(trial.Planned{Number: n + 1, Of: 300, Variant: "pool", Width: 6})
		b.End(&finished, []rundir.Flag{{Kind: "steal"}, {Kind: "steal"}})
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
