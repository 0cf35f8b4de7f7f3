package observe

import (
	"bytes"
	"dyno/internal/roles"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// script is an observer that says what a function says.
type script struct {
	name   string
	cols   []Column
	read   func(n int, row []float64) error
	n      int
	closed bool
	fail   error // of Close
}

func (s *script) Name() string      { return s.name }
func (s *script) Columns() []Column { return s.cols }
func (s *script) Observe(row []float64) error {
	s.n++
	return s.read(s.n, row)
}
func (s *script) Close() error { s.closed = true; return s.fail }

// counting counts its readings in a column of each kind.
func counting(name string) *script {
	return &script{
		name: name,
		cols: []Column{{"n_total", Counter, ""}, {"level", Gauge, ""}, {"worst_seconds", Peak, ""}},
		read: func(n int, row []float64) error {
			row[0], row[1], row[2] = float64(n), float64(n), math.NaN()
			if n%4 == 2 {
				row[2] = float64(n)
			}
			return nil
		},
	}
}

func TestRecorderGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := &script{name: "broken", cols: []Column{{"x", Gauge, ""}}, read: func(n int, row []float64) error {
			row[0] = math.NaN()
			if n == 2 || n == 3 {
				return fmt.Errorf("reading %d", n)
			}
			row[0] = 1e9
			return nil
		}}
		o := counting("a")
		rec, err := NewRecorder(Config{Origin: time.Now(), Interval: time.Second}, o, broken)
		if err != nil {
			t.Fatal(err)
		}
		rec.Start()
		time.Sleep(1500 * time.Millisecond)
		from := rec.Mark() // the third reading
		time.Sleep(2 * time.Second)
		to := rec.Mark() // the sixth
		time.Sleep(time.Second)
		if err := rec.Stop(); err != nil {
			t.Error(err)
		}
		if !o.closed || !broken.closed {
			t.Error("an observer is not closed")
		}
		if from.At != 1500*time.Millisecond || to.At != 3500*time.Millisecond {
			t.Errorf("marks at %v and %v", from.At, to.At)
		}
		w := rec.Window(from, to)
		if d := w.Delta("a_n_total"); d != 3 {
			t.Errorf("delta %v; want 3", d)
		}
		if s, _ := w.Summary("a_level"); s.Min != 3 || s.Mean != 4.5 || s.Max != 6 || s.Last != 6 || !math.IsNaN(s.Delta) {
			t.Errorf("level: %+v", s)
		}
		if s, _ := w.Summary("a_worst_seconds"); s.Max != 6 || !math.IsNaN(s.Mean) {
			t.Errorf("worst: %+v", s)
		}
		if _, ok := w.Summary("none"); ok || !math.IsNaN(w.Delta("none")) {
			t.Error("a column that is not there")
		}
		if s, _ := w.Summary("recorder_cpu_seconds"); !(s.Delta > 0) {
			t.Errorf("readings cost %v", s.Delta)
		}
		faults := rec.Faults()
		if len(faults) != 1 || faults[0].Observer != "broken" || faults[0].Times != 2 || faults[0].First.Error() != "reading 2" {
			t.Errorf("faults %+v", faults)
		}
		checkGolden(t, "series.csv", csvWithoutCost(t, rec))
	})
}

// csvWithoutCost returns the table without its last column, which is real time.
func csvWithoutCost(t *testing.T, rec *Recorder) string {
	t.Helper()
	var b bytes.Buffer
	if err := rec.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(b.String()) {
		out.WriteString(line[:strings.LastIndexByte(line, ',')] + "\n")
	}
	return out.String()
}

func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\n%s\nwant:\n%s", name, got, want)
	}
}

// Figures that a program publishes begin again with the program: the growth of its counters is not
// known then, even where they are higher in the end. Other counters, of differences between clocks, may
// fall by a grain.
func TestCountersThatFell(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		values []float64
		delta  float64
		fell   bool
	}{
		{[]float64{5, 6, 6, 9}, 4, false},
		{[]float64{5, nan, 6, 9}, 4, false},
		{[]float64{5, 6, 2, 9}, nan, true},
		{[]float64{5, nan, 2, 9}, nan, true},
		{[]float64{5, 6, 7, 1}, nan, true},
		{[]float64{5, 4}, nan, true},
		{[]float64{nan, 6, 7, 8}, nan, false},
	} {
		read := func(n int, row []float64) error {
			row[0] = c.values[n-1]
			if len(row) > 1 {
				row[1] = float64(n)
			}
			return nil
		}
		rec, err := NewRecorder(Config{},
			&script{name: "program", cols: []Column{{"done_total", Counter, ""}, {ReadAt, Counter, ""}}, read: read},
			&script{name: "clock", cols: []Column{{"foreign_seconds", Counter, ""}}, read: read})
		if err != nil {
			t.Fatal(err)
		}
		var marks []Mark
		for range c.values {
			marks = append(marks, rec.Mark())
		}
		w := rec.Window(marks[0], marks[len(marks)-1])
		if s, _ := w.Summary("program_done_total"); s.Fell != c.fell || fmt.Sprint(s.Delta) != fmt.Sprint(c.delta) {
			t.Errorf("%v: grew by %v, fell: %v", c.values, s.Delta, s.Fell)
		}
		if s, _ := w.Summary("clock_foreign_seconds"); s.Fell || !math.IsNaN(c.values[0]) && math.IsNaN(s.Delta) {
			t.Errorf("a clock's %v: grew by %v, fell: %v", c.values, s.Delta, s.Fell)
		}
	}
}

// However long it records, the table stays bounded, ends with the latest reading,
// and keeps every peak.
func TestTableIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxRows := rapid.IntRange(2, 9).Draw(t, "max rows")
		readings := rapid.IntRange(1, 100).Draw(t, "readings")
		peakAt := rapid.IntRange(1, readings).Draw(t, "peak at")
		o := &script{name: "a", cols: []Column{{"n", Counter, ""}, {"peak", Peak, ""}}, read: func(n int, row []float64) error {
			row[0], row[1] = float64(n), 0
			if n == peakAt {
				row[1] = 7
			}
			return nil
		}}
		rec, err := NewRecorder(Config{MaxRows: maxRows}, o)
		if err != nil {
			t.Fatal(err)
		}
		marks := make([]Mark, readings)
		for i := range marks {
			marks[i] = rec.Mark()
		}
		width := len(rec.columns)
		rows := len(rec.cells) / width
		if rows > maxRows || rec.cells[(rows-1)*width+1] != float64(readings) {
			t.Fatalf("%d rows of at most %d; the last is of reading %v of %d", rows, maxRows, rec.cells[(rows-1)*width+1], readings)
		}
		highest, last := 0.0, 0.0
		for i := range rows {
			highest = max(highest, rec.cells[i*width+2])
			if n := rec.cells[i*width+1]; n <= last {
				t.Fatalf("row %d of reading %v follows %v", i, n, last)
			} else {
				last = n
			}
		}
		if highest != 7 {
			t.Fatal("the peak is lost")
		}
		// Marks are exact however much was merged.
		if d := rec.Window(marks[0], marks[readings-1]).Delta("a_n"); d != float64(readings-1) {
			t.Fatalf("delta %v; want %d", d, readings-1)
		}
	})
}

func TestIntervalDoublesWithTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := counting("a")
		rec, err := NewRecorder(Config{Interval: time.Second, MaxRows: 4}, o)
		if err != nil {
			t.Fatal(err)
		}
		rec.Start()
		time.Sleep(100*time.Second + time.Millisecond)
		if err := rec.Stop(); err != nil {
			t.Error(err)
		}
		// 4 rows in 3 s, then 2 in each stage of double length, and one at Stop.
		if o.n > 18 || o.n < 10 {
			t.Errorf("%d readings in 100 s", o.n)
		}
	})
}

func TestLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, err := NewRecorder(Config{Interval: time.Second}, counting("a"))
		if err != nil {
			t.Fatal(err)
		}
		expect := func(when string, want ...float64) {
			t.Helper()
			got := rec.Last("a_level", "a_worst_seconds", "b_level", "a_n_total")
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		nan := math.NaN()
		expect("before the start", nan, nan, nan, nan)
		rec.Start()
		expect("at the start", 1, nan, nan, 1)
		time.Sleep(1500 * time.Millisecond)
		expect("later", 2, 2, nan, 2)
		rec.Mark()
		expect("after a mark", 3, nan, nan, 3)
		if err := rec.Stop(); err != nil {
			t.Error(err)
		}
		expect("at the end", 4, nan, nan, 4)
	})
}

func TestRecorderMistakes(t *testing.T) {
	err := Config{Interval: time.Microsecond, MaxRows: 1}.Validate()
	if err == nil || !strings.Contains(err.Error(), "interval: ") || !strings.Contains(err.Error(), "max_rows: ") {
		t.Errorf("%v", err)
	}
	if _, err := NewRecorder(Config{MaxRows: -1}); err == nil {
		t.Error("a negative bound")
	}
	later := counting("a")
	var twice *TwiceError
	if _, err := NewRecorder(Config{}, counting("a"), later); !errors.As(err, &twice) || twice.Observer != later || twice.Column != "a_n_total" {
		t.Errorf("two observers of one name: %v", err)
	}
	if _, err := NewRecorder(Config{}, &script{name: "time", cols: []Column{{"seconds", Gauge, ""}}}); err == nil {
		t.Error("a second column of the time")
	}
	bad := counting("a")
	bad.fail = errors.New("stuck")
	rec, err := NewRecorder(Config{}, bad)
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.Stop(); !errors.Is(err, bad.fail) {
		t.Errorf("%v; want the observer's error", err)
	}
	if err := rec.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
	if m := rec.Mark(); !math.IsNaN(m.row[1]) || bad.n != 0 {
		t.Error("a closed observer was read")
	}
	if err := rec.WriteCSV(failing{}); err == nil {
		t.Error("a full disk goes unnoticed")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// All together, on the real machine, from several goroutines.
func TestRecorderForReal(t *testing.T) {
	c := roles.Start(t, roles.Command("burn"))
	tree, err := NewTree("target", c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	gen, err := NewGenerator(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMachine(tree, gen)
	if err != nil {
		t.Fatal(err)
	}
	wake, err := NewWakeup("wakeup")
	if err != nil {
		t.Fatal(err)
	}
	rec, err := NewRecorder(Config{Interval: 5 * time.Millisecond}, tree, gen, m, wake)
	if err != nil {
		t.Fatal(err)
	}
	rec.Start()
	from := rec.Mark()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				rec.Mark()
			}
		})
	}
	user, system := burnt(t, c.Line(t))
	asleep(t, c.Process.Pid)
	wg.Wait()
	to := rec.Mark()
	if err := rec.Stop(); err != nil {
		t.Error(err)
	}
	if f := rec.Faults(); len(f) != 0 {
		t.Errorf("faults: %+v", f)
	}
	if last, _ := rec.Window(from, to).Summary("target_cpu_seconds"); true {
		wantNear(t, "target at the end", last.Last, user+system)
	}
	width := len(rec.columns)
	for at := width; at < len(rec.cells); at += width {
		for i, col := range rec.columns {
			was, is := rec.cells[at-width+i], rec.cells[at+i]
			// Foreign time is a difference of clocks of different grain.
			if (col.Kind == Counter && col.Name != "machine_cpu_foreign_seconds" && col.Name != "machine_cpu_idle_seconds" &&
				col.Name != "machine_cpu_seconds" || i == 0) && is < was {
				t.Fatalf("%s fell from %v to %v", col.Name, was, is)
			}
		}
	}
	if rec.Cost() <= 0 {
		t.Error("readings for nothing")
	}
}
