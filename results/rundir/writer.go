package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"dyno/internal/filelock"
)

// The names of files in a run folder and in a trial's folder.
const (
	RunFile     = "run.json"
	TrialFile   = "trial.json"
	LatencyFile = "latency.hlog"
	SeriesFile  = "series.csv"
	StallsFile  = "stalls.csv"
	// LiveFile is in a run folder while dyno measures and judges the run, and is locked (flock)
	// by it: what happens, a line of JSON for each ui.Event.
	LiveFile = ".live"

	trialsDir = "trials"
	lockFile  = ".lock"
	startFile = ".begun.json" // run.json as the run began, in case that is damaged later
)

// Bounds of what a Writer writes.
const (
	maxTrials    = 100_000
	maxName      = 100      // bytes of a variant in a folder's name
	maxLogBytes  = 16 << 20 // of a log; what follows is dropped and counted
	maxJSONBytes = 64 << 20
)

// Reasons why a run folder cannot be written.
var (
	// ErrNotEmpty tells that there is something at the place of a new run folder.
	ErrNotEmpty = errors.New("the folder is not empty")
	// ErrBusy tells that another process, or another Writer of this one, writes
	// the folder at this moment.
	ErrBusy = errors.New("the run is still being written")
	// ErrFinished tells that the run is complete.
	ErrFinished = errors.New("the run is finished")
)

// A Writer writes one run folder. There is one at a time for a folder. It is for
// one goroutine at a time; the files of a trial may be written by others.
type Writer struct {
	dir  string
	root *os.Root // the folder: nothing is written outside it
	lock *os.File // held until the Writer ends, or its process

	temporary bool // nothing needs to outlive the machine

	secrets *secrets // nil: not known yet
}

// Create makes the folder, which must not exist or be empty, and writes
// run.json as not complete.
func Create(dir string, run *Run) (*Writer, error) { return create(dir, run, false) }

// CreateTemporary makes a folder as Create does, which will be removed. Nothing in it outlives the
// machine's next start for certain: a disk needs up to tens of milliseconds to promise that for a file.
func CreateTemporary(dir string, run *Run) (*Writer, error) { return create(dir, run, true) }

func create(dir string, run *Run, temporary bool) (*Writer, error) {
	w := &Writer{dir: dir, temporary: temporary}
	w.Conceal(run)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("run folder: %w", err)
	}
	if err := mustBeEmpty(dir); err != nil {
		return nil, fmt.Errorf("run folder: %s: %w", dir, err)
	}
	if err := w.open(); err != nil {
		return nil, err
	}
	err := w.root.Mkdir(trialsDir, 0o755)
	if err != nil {
		err = w.located(trialsDir, err)
	} else {
		err = errors.Join(w.update(startFile, run), w.Update(run))
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Reopen continues a folder whose run is not complete or not judged, and returns its contents. The
// error wraps ErrBusy or ErrFinished where they apply; nothing was changed then.
func Reopen(dir string) (*Writer, *Folder, error) {
	// This comes before the lock, which would leave a file in a folder that is no run
	// folder.
	if _, err := os.Stat(filepath.Join(dir, RunFile)); err != nil {
		return nil, nil, fmt.Errorf("run folder: %w", err)
	}
	w := &Writer{dir: dir}
	if err := w.open(); err != nil {
		return nil, nil, err
	}
	f, err := Open(dir)
	if err == nil && f.Run.Complete && f.Run.IsJudged() {
		err = fmt.Errorf("run folder: %s: %w", dir, ErrFinished)
	}
	if err != nil {
		return nil, nil, errors.Join(err, w.Close())
	}
	return w, f, nil
}

// open opens the folder and locks it. The lock is the kernel's, on a file that
// is never removed. It ends with the process that holds it, however that process ends.
func (w *Writer) open() (err error) {
	if w.root, err = os.OpenRoot(w.dir); err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	if w.lock, err = w.root.OpenFile(lockFile, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return errors.Join(w.located(lockFile, err), w.root.Close())
	}
	switch err = filelock.TryLock(w.lock); {
	case errors.Is(err, filelock.ErrLocked):
		err = fmt.Errorf("run folder: %s: %w", w.dir, ErrBusy)
	case err != nil:
		err = w.located(lockFile, err)
	default:
		return nil
	}
	return errors.Join(err, w.Close())
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

// Conceal keeps the credentials that a user wrote out of the folder, wherever else they come
// up. Create calls it. After Reopen, the caller does, because the folder has them masked.
func (w *Writer) Conceal(run *Run) { w.secrets = secretsOf(run) }

// Concealed returns a run as the folder holds it.
func (w *Writer) Concealed(run *Run) *Run { return w.secrets.run(run) }

// Update replaces run.json by what is known so far, as not complete.
func (w *Writer) Update(run *Run) error { return w.update(RunFile, run) }

func (w *Writer) update(name string, run *Run) error {
	r := *run
	r.Complete, r.FinishedAt = false, nil
	return w.writeRun(name, &r)
}

// Folder returns what Open will return once a run is finished.
func (w *Writer) Folder(run *Run) (*Folder, error) {
	f := &Folder{Dir: w.dir, Run: *w.secrets.run(run)}
	if err := f.readTrials(w.root); err != nil {
		return nil, w.located(trialsDir, err)
	}
	f.sayIncomplete()
	return f, nil
}

// Finish replaces run.json for the last time, complete or not as the run says,
// and ends the Writer.
func (w *Writer) Finish(run *Run) error {
	return errors.Join(w.writeRun(RunFile, run), w.Close())
}

// Close ends a Writer without Finish; the folder stays as it is.
func (w *Writer) Close() error { return errors.Join(w.lock.Close(), w.root.Close()) }

func (w *Writer) writeRun(name string, run *Run) error {
	if w.secrets == nil {
		w.Conceal(run)
	}
	r := *w.secrets.run(run)
	r.SchemaVersion = SchemaVersion
	// Lists are never null, so that readers may iterate without a check.
	r.Variants, r.Comparisons = some(r.Variants), some(r.Comparisons)
	r.Thresholds, r.Claims, r.Flags = some(r.Thresholds), some(r.Claims), some(r.Flags)
	return w.writeJSON(".", name, &r)
}

func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// located puts the whole path into an error about a file of the folder. The errors of
// os.Root have only the last part.
func (w *Writer) located(name string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("run folder: %s: %w", filepath.Join(w.dir, name), err)
}

// writeJSON replaces a file in one step. A reader, or a machine that restarts, finds the
// old content or the new one, never a part. On an error the old content stays.
func (w *Writer) writeJSON(dir, name string, v any) error {
	path := filepath.Join(dir, name)
	content, err := json.MarshalIndent(v, "", "  ")
	if err == nil && len(content) >= maxJSONBytes {
		err = fmt.Errorf("%d bytes are more than can be read back, %d", len(content)+1, maxJSONBytes)
	}
	if err != nil {
		return w.located(path, err)
	}
	temp := filepath.Join(dir, tempName(name))
	if err := w.writeTemp(temp, append(content, '\n')); err != nil {
		// A failure to remove it changes nothing: readers ignore it.
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

// WriteJSON replaces a JSON file of a folder in one step.
func WriteJSON(dir, name string, v any) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	w := &Writer{dir: dir, root: root}
	return errors.Join(w.writeJSON(".", name, v), root.Close())
}

// sync makes what was written to a file durable.
func (w *Writer) sync(f *os.File) error {
	if w.temporary {
		return nil
	}
	return f.Sync()
}

// tempName is the name of a file until it is complete.
func tempName(name string) string { return "." + name + ".tmp" }

func (w *Writer) writeTemp(name string, content []byte) error {
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = w.sync(f)
	}
	return errors.Join(err, f.Close())
}

// LastTrial returns the highest number that any trial's folder has, those that
// cannot be read included; 0 without any.
func (w *Writer) LastTrial() (int, error) {
	d, err := w.root.Open(trialsDir)
	if err != nil {
		return 0, w.located(trialsDir, err)
	}
	defer func() { _ = d.Close() }() // nothing was written
	names, err := d.Readdirnames(maxTrials + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, w.located(trialsDir, err)
	}
	last := 0
	for _, name := range names {
		prefix, _, _ := strings.Cut(name, "-")
		if n, err := strconv.Atoi(prefix); err == nil {
			last = max(last, n)
		}
	}
	return last, nil
}

// Abandon marks a trial that was measured as not complete, with the reason. It is used
// for the probes of a search that is begun again.
func (w *Writer) Abandon(t *TrialFolder, reason string) error {
	t.Complete, t.Error = false, reason
	return w.writeJSON(t.Name, TrialFile, w.secrets.trial(&t.Trial))
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
	t.name = fmt.Sprintf("%s/%04d-%s", trialsDir, number, fileName(variant)) // on every system
	if err := w.root.Mkdir(t.name, 0o755); err != nil {
		return nil, w.located(t.name, err)
	}
	if err := w.syncDir(trialsDir); err != nil {
		return nil, w.located(t.name, err)
	}
	return t, nil
}

// fileName replaces characters that do not belong in a file name.
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

// Create makes a new file in the trial's folder. Errors name the file's path. After a
// failed write, the part before it can still be read. Closing it twice does no harm.
func (t *TrialWriter) Create(name string) (io.WriteCloser, error) {
	return t.create(name, 0)
}

// Save writes one file of the folder.
func (t *TrialWriter) Save(name string, write func(io.Writer) error) (err error) {
	f, err := t.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return write(f)
}

// Log makes a new file for the output of a process. It holds 16 MiB. The rest is dropped,
// and the file's last line says how much that was.
func (t *TrialWriter) Log(name string) (io.WriteCloser, error) {
	f, err := t.create(name, maxLogBytes)
	if err == nil && t.w.secrets != nil && t.w.secrets.replace != nil {
		f.secrets = t.w.secrets
	}
	return f, err
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
	out := &file{f: f, limit: limit, sync: t.w.sync, located: func(err error) error { return t.w.located(path, err) }}
	t.mu.Lock()
	t.open = append(t.open, out)
	t.mu.Unlock()
	return out, nil
}

// Begin writes trial.json as not complete, so that an interrupted trial can be recognised
// by its folder.
func (t *TrialWriter) Begin(trial *Trial) error {
	begun := *trial
	begun.Complete = false
	return t.write(&begun)
}

// Finish closes the trial's files, including those with errors, and then writes
// trial.json. The trial must be the one for which the folder was made.
func (t *TrialWriter) Finish(trial *Trial) error {
	t.mu.Lock()
	open := t.open
	t.open = nil
	t.mu.Unlock()
	var errs []error
	for _, f := range open {
		errs = append(errs, f.Close())
	}
	return errors.Join(append(errs, t.write(trial))...)
}

func (t *TrialWriter) write(trial *Trial) error {
	if trial.Number != t.number || trial.Variant != t.variant {
		return fmt.Errorf("run folder: %s: trial %d of %q does not belong here", t.Dir(), trial.Number, trial.Variant)
	}
	out := *t.w.secrets.trial(trial)
	out.SchemaVersion, out.Flags = SchemaVersion, some(out.Flags)
	return t.w.writeJSON(t.name, TrialFile, &out)
}

// Folder reads the trial back, after it is finished, while the run continues.
func (t *TrialWriter) Folder() (*TrialFolder, error) {
	f := &TrialFolder{Name: t.name, run: t.w.dir}
	if err := f.read(t.w.root); err != nil {
		return nil, t.w.located(filepath.Join(t.name, TrialFile), err)
	}
	return f, nil
}

// maxLine is how much of a line is searched for credentials together, in bytes.
const maxLine = 64 << 10

// A file is a file being written. Its errors have its path, and it may have a limit.
type file struct {
	located func(error) error
	sync    func(*os.File) error
	limit   int64    // bytes; 0: none
	secrets *secrets // that are masked in its lines; nil: none

	mu      sync.Mutex // guards what follows
	f       *os.File
	line    []byte // the last one, as far as it has come; only with secrets
	written int64
	dropped int64
	closed  bool
}

// Write accepts all of p. Beyond the limit it only counts.
func (f *file) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.secrets == nil {
		return f.write(p)
	}
	f.line = append(f.line, p...)
	end := bytes.LastIndexByte(f.line, '\n') + 1
	if len(f.line)-end > maxLine {
		end = len(f.line)
	}
	_, err := f.write([]byte(f.secrets.text(string(f.line[:end]))))
	f.line = append(f.line[:0], f.line[end:]...)
	return len(p), err
}

// write is Write. The caller holds mu.
func (f *file) write(p []byte) (int, error) {
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
	if f.secrets != nil {
		_, err := f.write([]byte(f.secrets.text(string(f.line))))
		errs = append(errs, err)
	}
	if f.dropped > 0 {
		_, err := fmt.Fprintf(f.f, "\n[%d more bytes were dropped]\n", f.dropped)
		errs = append(errs, err)
	}
	errs = append(errs, f.sync(f.f), f.f.Close())
	if err := errors.Join(errs...); err != nil {
		return f.located(err)
	}
	return nil
}
