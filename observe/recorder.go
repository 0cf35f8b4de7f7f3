package observe

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dyno/internal/texts"
)

// Defaults for the empty fields of a Config.
const (
	DefaultInterval = 250 * time.Millisecond
	DefaultMaxRows  = 16384
)

// A Config says how a Recorder records.
type Config struct {
	Origin   time.Time     // zero of the time line; default: when the recorder is made
	Interval time.Duration // between readings; default 250 ms, at least 1 ms

	// MaxRows bounds the table; default 16,384, more than an hour at the default
	// interval. When it is full, neighbouring rows are merged and the interval doubles.
	// Counters lose nothing by it, peaks are kept, and gauges keep every other reading.
	MaxRows int
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var errs []error
	if c.Interval != 0 && c.Interval < time.Millisecond {
		errs = append(errs, fmt.Errorf("interval: %v; want at least 1ms, or 0 for %v", c.Interval, DefaultInterval))
	}
	if c.MaxRows != 0 && c.MaxRows < 2 {
		errs = append(errs, fmt.Errorf("max_rows: %d; want at least 2, or 0 for %d", c.MaxRows, DefaultMaxRows))
	}
	return errors.Join(errs...)
}

// A Recorder reads observers at every tick and keeps the rows. Its methods may be
// called by any number of goroutines.
type Recorder struct {
	cfg          Config
	observers    []Observer
	columns      []Column // with full names; the first is time_seconds, the last recorder_cpu_seconds
	widths       []int    // of the observers' parts of a row
	selfReported []bool   // by column: programs report it about themselves
	stop         chan struct{}
	latest       atomic.Pointer[[]float64] // the latest row

	mu       sync.Mutex    // guards the fields below, and the observers
	done     chan struct{} // closed when the ticking has ended; nil before Start
	cells    []float64     // rows of len(columns)
	interval time.Duration
	cost     time.Duration // CPU time spent reading
	faults   []Fault
	stopping bool // Stop was called
	stopped  bool // the observers are closed
}

// A Fault is an observer that failed while recording. Its cells are empty then.
type Fault struct {
	Observer string
	Times    int
	First    error
}

// A TwiceError says that an observer has a column whose name is taken.
type TwiceError struct {
	Observer Observer // the later one
	Column   string
}

func (e *TwiceError) Error() string { return e.AsMessage().String() }

// AsMessage returns the error as a message.
func (e *TwiceError) AsMessage() texts.Message {
	return (&Unavailable{Observer: e.Observer.Name(), Reason: texts.New("unavailable.twice", "column", e.Column), Remedy: texts.New("help.twice")}).AsMessage()
}

// NewRecorder makes a recorder of the observers, which it reads in this order, and
// closes when it is stopped. The error is a *TwiceError if two columns have one name.
func NewRecorder(cfg Config, observers ...Observer) (*Recorder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("recorder: %w", err)
	}
	if cfg.Origin.IsZero() {
		cfg.Origin = time.Now()
	}
	if cfg.Interval == 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.MaxRows == 0 {
		cfg.MaxRows = DefaultMaxRows
	}
	r := &Recorder{
		cfg:          cfg,
		observers:    observers,
		columns:      []Column{{"time_seconds", Gauge, "since the run's origin, when the reading began"}},
		stop:         make(chan struct{}),
		selfReported: []bool{false},
		interval:     cfg.Interval,
	}
	const cost = "recorder_cpu_seconds"
	seen := map[string]bool{r.columns[0].Name: true, cost: true}
	for _, o := range observers {
		cols := o.Columns()
		r.widths = append(r.widths, len(cols))
		selfReported := slices.ContainsFunc(cols, func(c Column) bool { return strings.HasSuffix(c.Name, ReadAt) })
		for _, c := range cols {
			c.Name = o.Name() + "_" + c.Name
			if seen[c.Name] {
				return nil, &TwiceError{o, c.Name}
			}
			seen[c.Name] = true
			r.columns = append(r.columns, c)
			r.selfReported = append(r.selfReported, selfReported)
		}
	}
	r.columns = append(r.columns, Column{cost, Counter, "CPU time that the readings before this one have cost"})
	r.selfReported = append(r.selfReported, false)
	return r, nil
}

// Last returns the latest reading of columns, by their full names. It is NaN where there
// is none yet, and for a name that is not a column's. Last does not wait for a reading that
// is being taken.
func (r *Recorder) Last(names ...string) []float64 {
	values := make([]float64, len(names))
	row := r.latest.Load()
	for i, name := range names {
		values[i] = math.NaN()
		at := slices.IndexFunc(r.columns, func(c Column) bool { return c.Name == name })
		if at >= 0 && row != nil {
			values[i] = (*row)[at]
		}
	}
	return values
}

// Start takes the first reading and begins to tick. It must be called once.
func (r *Recorder) Start() {
	done := make(chan struct{})
	r.mu.Lock()
	r.done = done
	r.mu.Unlock()
	r.read()
	go func() {
		defer close(done)
		t := time.NewTicker(r.cfg.Interval)
		defer t.Stop()
		for every := r.cfg.Interval; ; {
			select {
			case <-r.stop:
				return
			case <-t.C:
			}
			r.read()
			if now := r.currentInterval(); now != every {
				every = now
				t.Reset(every)
			}
		}
	}()
}

func (r *Recorder) currentInterval() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.interval
}

// A Mark is a reading at an exact moment.
type Mark struct {
	At  time.Duration // since the origin
	row []float64
}

// Mark reads now, on the caller's goroutine, and adds the row to the table. After Stop
// its values are not known.
func (r *Recorder) Mark() Mark {
	row := make([]float64, len(r.columns))
	r.readInto(row)
	return Mark{At: time.Duration(row[0] * float64(time.Second)), row: row}
}

func (r *Recorder) read() { r.readInto(nil) }

// readInto takes one reading and copies its row.
func (r *Recorder) readInto(copied []float64) {
	// The thread's clock measures only this goroutine while the goroutine keeps the
	// thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r.mu.Lock()
	defer r.mu.Unlock()
	start, err := ThreadTime()
	if r.stopped {
		for i := range copied {
			copied[i] = math.NaN()
		}
		return
	}
	width := len(r.columns)
	if len(r.cells) == r.cfg.MaxRows*width {
		r.thin()
	}
	at := len(r.cells)
	for range width {
		r.cells = append(r.cells, math.NaN())
	}
	row := r.cells[at:]
	row[0] = time.Since(r.cfg.Origin).Seconds()
	next := 1
	for i, o := range r.observers {
		end := next + r.widths[i]
		if err := o.Observe(row[next:end:end]); err != nil {
			r.fault(o.Name(), err)
		}
		next = end
	}
	row[width-1] = r.cost.Seconds()
	copy(copied, row)
	r.latest.Store(new(slices.Clone(row)))
	if end, err2 := ThreadTime(); err == nil && err2 == nil {
		r.cost += end - start
	}
}

func (r *Recorder) fault(name string, err error) {
	for j := range r.faults {
		if r.faults[j].Observer == name {
			r.faults[j].Times++
			return
		}
	}
	r.faults = append(r.faults, Fault{Observer: name, Times: 1, First: err})
}

// thin halves the table: of two rows the later one is kept, with the larger of
// their peaks.
func (r *Recorder) thin() {
	width := len(r.columns)
	rows := len(r.cells) / width
	kept := 0
	for i := 1; i < rows; i += 2 {
		early, late := r.cells[(i-1)*width:i*width], r.cells[i*width:(i+1)*width]
		to := r.cells[kept*width : (kept+1)*width]
		for c, col := range r.columns {
			v := late[c]
			if col.Kind == Peak {
				v = larger(early[c], v)
			}
			to[c] = v
		}
		kept++
	}
	if rows%2 == 1 {
		copy(r.cells[kept*width:], r.cells[(rows-1)*width:])
		kept++
	}
	r.cells = r.cells[:kept*width]
	r.interval *= 2
}

// larger returns the larger number; NaN only when both are.
func larger(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}

// Stop takes the last reading, ends the ticking and closes the observers. The recording
// stays.
func (r *Recorder) Stop() error {
	r.mu.Lock()
	already, ticking := r.stopping, r.done
	r.stopping = true
	r.mu.Unlock()
	if already {
		return nil
	}
	close(r.stop)
	if ticking != nil {
		<-ticking
		r.read()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	var errs []error
	for _, o := range r.observers {
		if err := o.Close(); err != nil {
			errs = append(errs, fmt.Errorf("observer %s: close: %w", o.Name(), err))
		}
	}
	return errors.Join(errs...)
}

// Faults returns the observers that failed.
func (r *Recorder) Faults() []Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Fault(nil), r.faults...)
}

// Cost returns the CPU time that all readings so far have taken.
func (r *Recorder) Cost() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cost
}

// A Window sums up the columns between two marks.
type Window struct {
	From, To time.Duration // since the origin
	Columns  []Summary
}

// A Summary describes one column over a window. A value that does not apply to the
// column's kind, or is not known, is NaN.
type Summary struct {
	Column
	Delta          float64 // counters: exactly between the marks
	Fell           bool    // counters that programs tell: a reading was below the one before, so that Delta is not known
	Min, Mean, Max float64 // gauges: of the readings from mark to mark; peaks: Max, after the first mark
	Last           float64 // at the second mark
}

// Window sums up between two marks of this recorder.
func (r *Recorder) Window(from, to Mark) Window {
	r.mu.Lock()
	defer r.mu.Unlock()
	nan := math.NaN()
	w := Window{From: from.At, To: to.At}
	width := len(r.columns)
	for c, col := range r.columns[1:] {
		c++
		s := Summary{Column: col, Delta: nan, Min: nan, Mean: nan, Max: nan, Last: to.row[c]}
		if col.Kind == Counter {
			if s.Fell = r.selfReported[c] && r.fell(c, from, to); !s.Fell {
				s.Delta = to.row[c] - from.row[c]
			}
			w.Columns = append(w.Columns, s)
			continue
		}
		sum, n := 0.0, 0
		take := func(v float64) {
			if math.IsNaN(v) {
				return
			}
			s.Max = larger(s.Max, v)
			s.Min = -larger(-s.Min, -v)
			sum += v
			n++
		}
		// The marks themselves may have been merged away by a full table.
		if col.Kind == Gauge {
			take(from.row[c])
		}
		for at := 0; at < len(r.cells); at += width {
			if t := r.cells[at]; t > from.row[0] && t < to.row[0] {
				take(r.cells[at+c])
			}
		}
		take(to.row[c])
		if col.Kind == Peak {
			s.Min = nan
		} else if n > 0 {
			s.Mean = sum / float64(n)
		}
		w.Columns = append(w.Columns, s)
	}
	return w
}

// fell reports whether a counter was ever lower than before, from mark to mark. The program
// was started again, or several answer in turn.
func (r *Recorder) fell(c int, from, to Mark) bool {
	width := len(r.columns)
	last := from.row[c]
	for at := 0; at < len(r.cells); at += width {
		if t := r.cells[at]; t > from.row[0] && t < to.row[0] {
			v := r.cells[at+c]
			if v < last {
				return true
			}
			last = larger(last, v)
		}
	}
	return to.row[c] < last
}

// Summary returns a column by its full name.
func (w Window) Summary(name string) (Summary, bool) {
	for _, s := range w.Columns {
		if s.Name == name {
			return s, true
		}
	}
	return Summary{}, false
}

// Delta returns how much a counter grew; NaN when there is none of that name.
func (w Window) Delta(name string) float64 {
	if s, ok := w.Summary(name); ok {
		return s.Delta
	}
	return math.NaN()
}

// WriteCSV writes the table: a line of names, then a line for each reading. Unknown
// values are empty.
func (r *Recorder) WriteCSV(w io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := bufio.NewWriter(w)
	for i, c := range r.columns {
		if i > 0 {
			_ = b.WriteByte(',') // a bufio.Writer keeps its first error for Flush
		}
		_, _ = b.WriteString(c.Name)
	}
	_ = b.WriteByte('\n')
	width := len(r.columns)
	var digits []byte
	for i, v := range r.cells {
		if !math.IsNaN(v) {
			digits = strconv.AppendFloat(digits[:0], v, 'f', -1, 64)
			_, _ = b.Write(digits)
		}
		if i%width == width-1 {
			_ = b.WriteByte('\n')
		} else {
			_ = b.WriteByte(',')
		}
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write series: %w", err)
	}
	return nil
}
