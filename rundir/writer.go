package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// The names of files in a run folder and in a trial's folder.
const (
	RunFile     = "run.json"
	TrialFile   = "trial.json"
	LatencyFile = "latency.hlog"
	SeriesFile  = "series.csv"

	trialsDir = "trials"
)

// Bounds of what is written.
const (
	maxTrials    = 100_000
	maxName      = 100      // bytes of a variant in a folder's name
	maxLogBytes  = 16 << 20 // of a log; what follows is dropped and counted
	maxJSONBytes = 64 << 20
)

// ErrNotEmpty tells that a run folder was to be made where something is.
var ErrNotEmpty = errors.New("the folder is not empty")

// A Writer writes one run folder. It is for one goroutine at a time; the files
// of a trial may be written by others.
type Writer struct {
	dir  string
	root *os.Root // the folder: nothing is written outside it
}

// Create makes the folder, which must not exist or be empty, and writes
// run.json as not complete.
func Create(dir string, run *Run) (*Writer, error) {
	w := &Writer{dir: dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("run folder: %w", err)
	}
	if err := mustBeEmpty(dir); err != nil {
		return nil, fmt.Errorf("run folder: %s: %w", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("run folder: %w", err)
	}
	w.root = root
	err = root.Mkdir(trialsDir, 0o755)
	if err != nil {
		err = w.located(trialsDir, err)
	} else {
		err = w.Update(run)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return w, nil
}

func mustBeEmpty(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // nothing was written
	switch _, err := d.ReadDir(1); {
	case err == nil:
		return ErrNotEmpty
	case errors.Is(err, io.EOF):
		return nil
	default:
		return err
	}
}

// Dir returns the folder's path as given to Create.
func (w *Writer) Dir() string { return w.dir }

// Update replaces run.json by what is known so far, as not complete.
func (w *Writer) Update(run *Run) error {
	r := *run
	r.Complete, r.FinishedAt = false, nil
	return w.writeRun(&r)
}

// Finish replaces run.json for the last time, complete or not as the run says,
// and ends the Writer.
func (w *Writer) Finish(run *Run) error {
	return errors.Join(w.writeRun(run), w.root.Close())
}

// Close ends a Writer without Finish; the folder stays as it is.
func (w *Writer) Close() error { return w.root.Close() }

func (w *Writer) writeRun(run *Run) error {
	r := *run
	r.SchemaVersion = SchemaVersion
	// Lists are never null, so that readers may iterate without asking.
	r.Variants, r.Comparisons = some(r.Variants), some(r.Comparisons)
	r.Thresholds, r.Claims, r.Flags = some(r.Thresholds), some(r.Claims), some(r.Flags)
	return w.writeJSON(".", RunFile, &r)
}

func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// located puts the whole path into an error about a file of the folder. The
// errors of os.Root know only the last part.
func (w *Writer) located(name string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("run folder: %s: %w", filepath.Join(w.dir, name), err)
}

// writeJSON replaces a file in one step: a reader, or a machine that comes back
// up, finds the old content or the new one, never a part. On an error the old
// content stays.
func (w *Writer) writeJSON(dir, name string, v any) error {
	path := filepath.Join(dir, name)
	content, err := json.MarshalIndent(v, "", "  ")
	if err == nil && len(content) >= maxJSONBytes {
		err = fmt.Errorf("%d bytes are more than can be read back, %d", len(content)+1, maxJSONBytes)
	}
	if err != nil {
		return w.located(path, err)
	}
	temp := filepath.Join(dir, "."+name+".tmp")
	if err := w.writeTemp(temp, append(content, '\n')); err != nil {
		// Whether it can be removed changes nothing: readers pass over it.
		_ = w.root.Remove(temp)
		return w.located(path, err)
	}
	if err := w.root.Rename(temp, path); err != nil {
		_ = w.root.Remove(temp)
		return w.located(path, err)
	}
	if err := w.syncDir(dir); err != nil {
		return w.located(path, err)
	}
	return nil
}

func (w *Writer) writeTemp(name string, content []byte) error {
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncDir makes a rename in a folder last.
func (w *Writer) syncDir(dir string) error {
	d, err := w.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// A TrialWriter writes the folder of one trial.
type TrialWriter struct {
	w       *Writer
	number  int
	variant string
	name    string // of the folder, below the run's

	mu   sync.Mutex // guards open
	open []*file
}

// Trial makes the folder of a trial, which must be new. The variant's name is
// made fit for a file name.
func (w *Writer) Trial(number int, variant string) (*TrialWriter, error) {
	if number < 1 || number > maxTrials {
		return nil, fmt.Errorf("run folder: trial %d: want a number from 1 to %d", number, maxTrials)
	}
	t := &TrialWriter{w: w, number: number, variant: variant}
	t.name = filepath.Join(trialsDir, fmt.Sprintf("%04d-%s", number, fileName(variant)))
	if err := w.root.Mkdir(t.name, 0o755); err != nil {
		return nil, w.located(t.name, err)
	}
	if err := w.syncDir(trialsDir); err != nil {
		return nil, w.located(t.name, err)
	}
	return t, nil
}

// fileName replaces what does not belong in a file name.
func fileName(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._+-", r):
			return r
		}
		return '_'
	}, s)
	return s[:min(len(s), maxName)]
}

// Dir returns the path of the trial's folder.
func (t *TrialWriter) Dir() string { return filepath.Join(t.w.dir, t.name) }

// Create makes a new file in the trial's folder. Errors name the file's path;
// after a failed write, what was written before it can still be read. Closing
// it twice does no harm.
func (t *TrialWriter) Create(name string) (io.WriteCloser, error) {
	return t.create(name, 0)
}

// Log makes a new file for the output of a process. It holds 16 MiB; what
// follows is dropped, and the file's last line says how much that was.
func (t *TrialWriter) Log(name string) (io.WriteCloser, error) {
	return t.create(name, maxLogBytes)
}

func (t *TrialWriter) create(name string, limit int64) (*file, error) {
	if name != filepath.Base(name) || name == "" || name[0] == '.' || name == TrialFile {
		return nil, fmt.Errorf("run folder: %s: %q cannot be the name of a file in it", t.Dir(), name)
	}
	path := filepath.Join(t.name, name)
	f, err := t.w.root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, t.w.located(path, err)
	}
	out := &file{f: f, limit: limit, located: func(err error) error { return t.w.located(path, err) }}
	t.mu.Lock()
	t.open = append(t.open, out)
	t.mu.Unlock()
	return out, nil
}

// Finish closes the trial's files, those with errors included, and then writes
// trial.json. The trial must be the one the folder was made for.
func (t *TrialWriter) Finish(trial *Trial) error {
	if trial.Number != t.number || trial.Variant != t.variant {
		return fmt.Errorf("run folder: %s: trial %d of %q does not belong here", t.Dir(), trial.Number, trial.Variant)
	}
	t.mu.Lock()
	open := t.open
	t.open = nil
	t.mu.Unlock()
	var errs []error
	for _, f := range open {
		errs = append(errs, f.Close())
	}
	out := *trial
	out.SchemaVersion, out.Flags = SchemaVersion, some(out.Flags)
	return errors.Join(append(errs, t.w.writeJSON(t.name, TrialFile, &out))...)
}

// A file is a file being written: errors get its path, a limit may hold.
type file struct {
	located func(error) error
	limit   int64 // bytes; 0: none

	mu      sync.Mutex // guards what follows
	f       *os.File
	written int64
	dropped int64
	closed  bool
}

// Write accepts all of p; beyond the limit it counts instead of writing.
func (f *file) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	keep := p
	if f.limit > 0 && int64(len(p)) > f.limit-f.written {
		keep = p[:f.limit-f.written]
	}
	n, err := f.f.Write(keep)
	f.written += int64(n)
	if err != nil {
		return n, f.located(err)
	}
	f.dropped += int64(len(p) - len(keep))
	return len(p), nil
}

func (f *file) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	var errs []error
	if f.dropped > 0 {
		_, err := fmt.Fprintf(f.f, "\n[%d more bytes were dropped]\n", f.dropped)
		errs = append(errs, err)
	}
	errs = append(errs, f.f.Sync(), f.f.Close())
	if err := errors.Join(errs...); err != nil {
		return f.located(err)
	}
	return nil
}
