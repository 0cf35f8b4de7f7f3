package rundir

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/internal/texts"
	"dyno/load/hist"
	"dyno/results/rundir/series"
)

// maxDataBytes bounds latency.hlog and series.csv.
const maxDataBytes = 512 << 20

// A Folder is a run folder that was read.
type Folder struct {
	Dir        string
	Run        Run
	Trials     []*TrialFolder // those that can be read, by number
	Incomplete []Message      // why the folder is not complete; empty when it is

	unread []Message // why trials cannot be read
}

// Complete tells whether every planned trial was measured and can be read.
func (f *Folder) Complete() bool { return len(f.Incomplete) == 0 }

// Measured returns the trials that a run's figures are made of. These are the measured
// trials without a purpose, including those that the target lost. Only the last one of
// each place in a round counts. Replaced trials and rounds that were left out for noise
// do not count. The Substitutes are added.
func (f *Folder) Measured() []*TrialFolder {
	type place struct {
		round         int
		variant, peer string
	}
	out := map[int]bool{}
	for _, x := range f.Run.Trials {
		out[x.Number] = x.Excluded || x.Replaced
	}
	var all []*Trial
	for _, t := range f.Trials {
		all = append(all, &t.Trial)
	}
	substitutes := Substitutes(all)
	counts := func(t *TrialFolder) bool { return t.IsMeasured() && t.Purpose == "" && !out[t.Number] }
	of := func(t *TrialFolder) place { return place{t.Round, t.Variant, t.Peer()} }
	last := map[place]int{}
	for _, t := range f.Trials {
		if counts(t) {
			last[of(t)] = max(last[of(t)], t.Number)
		}
	}
	var list []*TrialFolder
	for _, t := range f.Trials {
		if counts(t) && last[of(t)] == t.Number || substitutes[t.Number] {
			list = append(list, t)
		}
	}
	return list
}

// Unfinished says why an incomplete run is not complete.
func (r *Run) Unfinished() Message {
	if r.Reason != nil {
		return *r.Reason
	}
	return texts.New("incomplete.run")
}

// A TrialFolder is the folder of one trial.
type TrialFolder struct {
	Trial
	Name string // of the folder, such as trials/0001-goroutine
	run  string // the run folder
}

// Open reads a run folder. Trials that are missing or cannot be read make it incomplete.
// A run.json that is missing, not valid or of another version is an error. Nothing
// outside the folder is read: symbolic links that lead out of it are refused, and so is
// everything that is not a regular file.
func Open(dir string) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("run folder: %w", err)
	}
	defer func() { _ = root.Close() }() // nothing was written
	f := &Folder{Dir: dir}
	secrets, err := readRun(root, dir, &f.Run)
	if err != nil {
		return nil, err
	}
	if err := f.readTrials(root); err != nil {
		return nil, fmt.Errorf("run folder: %s: %w", filepath.Join(dir, trialsDir), err)
	}
	for _, t := range f.Trials {
		t.Trial = *secrets.trial(&t.Trial)
	}
	f.sayIncomplete()
	return f, nil
}

// sayIncomplete sets why the folder is not complete.
func (f *Folder) sayIncomplete() {
	f.Incomplete = nil
	if !f.Run.Complete {
		f.Incomplete = append(f.Incomplete, f.Run.Unfinished())
	}
	f.Incomplete = append(f.Incomplete, f.unread...)
	counted := f.counted()
	for _, t := range counted {
		switch {
		case !t.Complete && t.Error == "":
			f.Incomplete = append(f.Incomplete, texts.New("incomplete.trial", "trial", t.Name))
		case !t.Complete:
			f.Incomplete = append(f.Incomplete, texts.New("incomplete.failed", "trial", t.Name).With("error", t.Failure()))
		}
	}
	if missing := f.Run.TrialsPlanned - len(counted); missing > 0 {
		f.Incomplete = append(f.Incomplete, texts.New("incomplete.missing", "n", strconv.Itoa(missing), "of", strconv.Itoa(f.Run.TrialsPlanned)))
	}
}

// counted returns the trials that no later one replaced.
func (f *Folder) counted() (counted []*TrialFolder) {
	old := replaced(f.Trials)
	for _, t := range f.Trials {
		if !old[t.Number] {
			counted = append(counted, t)
		}
	}
	return counted
}

// HasWholeTrials tells whether there are trials, and all that were begun were measured.
func (f *Folder) HasWholeTrials() bool {
	counted := f.counted()
	return len(counted) > 0 && len(f.unread) == 0 && !slices.ContainsFunc(counted, func(t *TrialFolder) bool { return !t.IsMeasured() })
}

// HasPlannedTrials tells whether all trials are whole, and as many as planned.
func (f *Folder) HasPlannedTrials() bool {
	return f.HasWholeTrials() && len(f.counted()) >= f.Run.TrialsPlanned
}

// SetComplete says that the run is complete, when its end was not recorded: it ended with the last of its trials. stopped
// says why there were no more; nil: the plan has no rule for that.
func (f *Folder) SetComplete(stopped *Message) {
	last := f.Trials[len(f.Trials)-1]
	f.Run.FinishedAt = new(last.StartedAt.Add(time.Duration((last.WarmupSeconds + last.WindowSeconds) * float64(time.Second))))
	f.Run.Complete, f.Run.Stopped = true, stopped
	if f.Run.TrialsPlanned > 0 { // else it is a search, whose results decide how many there are
		f.Run.TrialsPlanned = len(f.counted())
	}
	f.sayIncomplete()
}

// SetUnread says that the recordings of a trial cannot be read: the trial is not complete. It tells whether that is news.
func (f *Folder) SetUnread(number int, err error) bool {
	at := slices.IndexFunc(f.Trials, func(t *TrialFolder) bool { return t.Number == number })
	if at < 0 || f.Trials[at].Error == err.Error() {
		return false
	}
	t := f.Trials[at]
	t.Complete, t.Interrupted, t.Fault, t.Error = false, false, "", err.Error()
	f.sayIncomplete()
	return true
}

// ReadRun reads run.json of a run folder, and nothing of its trials. It is for code that
// looks at many runs, or at runs that were already judged. A run.json that is missing,
// not valid or of another version is an error.
func ReadRun(dir string) (*Run, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("run folder: %w", err)
	}
	defer func() { _ = root.Close() }() // nothing was written
	run := &Run{}
	if _, err := readRun(root, dir, run); err != nil {
		return nil, err
	}
	return run, nil
}

// readRun reads and checks run.json in the root, which is the folder dir. The run is without the
// credentials that an earlier version of dyno kept in it.
func readRun(root *os.Root, dir string, into *Run) (*secrets, error) {
	err := readChecked(root, RunFile, into)
	if errors.Is(err, errDamaged) {
		// The trials are worth more than an earlier verdict: they can be judged again by what the run began with.
		begun := Run{}
		if readChecked(root, startFile, &begun) == nil {
			*into, err = begun, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("run folder: %s: %w", filepath.Join(dir, RunFile), err)
	}
	s := secretsOf(into)
	*into = *s.run(into)
	return s, nil
}

// readChecked reads and checks a run.json.
func readChecked(root *os.Root, name string, into *Run) error {
	if err := readJSON(root, name, into); err != nil {
		return err
	}
	return into.check()
}

// Rewrite replaces run.json by f.Run, in one step, after the run was judged. While the
// run is being written it fails with ErrBusy.
func (f *Folder) Rewrite() error {
	w := &Writer{dir: f.Dir}
	if err := w.open(); err != nil {
		return err
	}
	return w.Finish(&f.Run)
}

// replaced returns the trials, by number, that a later one replaced: a run that is
// resumed measures an interrupted round, or search, again. Every probe of a search counts
// for itself, so only a probe that is not complete can be replaced.
func replaced(trials []*TrialFolder) map[int]bool {
	type place struct {
		round                  int
		variant, purpose, peer string
	}
	of := func(t *TrialFolder) place { return place{t.Round, t.Variant, t.Purpose, t.Peer()} }
	last := map[place]int{}
	for _, t := range trials {
		if t.IsMeasured() {
			last[of(t)] = max(last[of(t)], t.Number)
		}
	}
	old := map[int]bool{}
	for _, t := range trials {
		counts := t.IsMeasured() && t.Purpose == PurposeProbe
		old[t.Number] = !counts && t.Number < last[of(t)]
	}
	return old
}

func (f *Folder) readTrials(root *os.Root) error {
	d, err := root.Open(trialsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // nothing was written
	entries, err := d.ReadDir(maxTrials + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if len(entries) > maxTrials {
		return fmt.Errorf("more than %d entries", maxTrials)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	seen := map[int]bool{}
	for _, e := range entries {
		t := &TrialFolder{Name: path.Join(trialsDir, e.Name()), run: f.Dir}
		if unbegun(root, t.Name) {
			continue
		}
		err := t.read(root)
		if err == nil && seen[t.Number] {
			err = fmt.Errorf("number: %d is there twice", t.Number)
		}
		if err != nil {
			f.unread = append(f.unread, texts.New("incomplete.failed", "trial", path.Join(t.Name, TrialFile), "error", err.Error()))
			continue
		}
		seen[t.Number] = true
		f.Trials = append(f.Trials, t)
	}
	slices.SortFunc(f.Trials, func(a, b *TrialFolder) int { return a.Number - b.Number })
	return nil
}

// unbegun tells that a trial consists only of its folder: dyno was killed before it could
// write which trial it is. Nothing was measured.
func unbegun(root *os.Root, name string) bool {
	d, err := root.Open(name)
	if err != nil {
		return false
	}
	defer func() { _ = d.Close() }() // nothing was written
	names, err := d.Readdirnames(2)
	return len(names) == 0 && errors.Is(err, io.EOF) || len(names) == 1 && names[0] == tempName(TrialFile)
}

// read reads and checks trial.json.
func (t *TrialFolder) read(root *os.Root) error {
	if err := readJSON(root, path.Join(t.Name, TrialFile), &t.Trial); err != nil {
		return err
	}
	return t.check(path.Base(t.Name))
}

// openFile opens a regular file within the root. It never waits.
func openFile(root *os.Root, name string, limit int64) (*os.File, error) {
	f, err := root.OpenFile(name, readOnly, 0)
	if err != nil {
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err // the caller names the whole path
		}
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("not a regular file")
	case info.Size() > limit:
		err = fmt.Errorf("%d bytes, want at most %d", info.Size(), limit)
	default:
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

// errDamaged says that a file does not hold what was written to it.
var errDamaged = errors.New("the file is damaged")

// damaged marks an error as errDamaged, in its own words.
func damaged(err error) error { return &damagedError{err} }

type damagedError struct{ error }

func (e *damagedError) Unwrap() []error { return []error{errDamaged, e.error} }

// ReadJSON reads a JSON file of a folder.
func ReadJSON(dir, name string, into any) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing was written
	return readJSON(root, name, into)
}

// readJSON reads one JSON value. Unknown fields are ignored, so that a later minor
// addition does not make a folder unreadable.
func readJSON(root *os.Root, name string, into any) error {
	f, err := openFile(root, name, maxJSONBytes)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // nothing was written
	// The limit holds even if the file grows while it is read.
	content, err := io.ReadAll(io.LimitReader(f, maxJSONBytes))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return damaged(fmt.Errorf("byte %d: %w", syntax.Offset, err))
		}
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return damaged(fmt.Errorf("byte %d: %s cannot be a %s", kind.Offset, cmp.Or(kind.Field, "it"), kind.Value))
		}
		return damaged(err)
	}
	return nil
}

func checkVersion(v int) error {
	if v != SchemaVersion {
		return fmt.Errorf("schema_version: %d, this program reads %d: read the folder with the version of dyno that wrote it", v, SchemaVersion)
	}
	return nil
}

// check returns all faults of a run.json that was read.
func (r *Run) check() error {
	if err := checkVersion(r.SchemaVersion); err != nil {
		return err
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if r.Name == "" {
		fault("name: is empty")
	}
	if r.TrialsPlanned < 0 || r.TrialsPlanned > maxTrials {
		fault("trials_planned: %d, want 0 to %d", r.TrialsPlanned, maxTrials)
	}
	names := map[string]bool{}
	for i, v := range r.Variants {
		if v.Name == "" || names[v.Name] {
			fault("variants[%d].name: %q, want a name of its own", i, v.Name)
		}
		names[v.Name] = true
		if v.Trials < 0 {
			fault("variants[%d].trials: %d, want at least 0", i, v.Trials)
		}
	}
	return errors.Join(faults...)
}

// check returns all faults of a trial.json that was read from the folder of this name.
func (t *Trial) check(folder string) error {
	if err := checkVersion(t.SchemaVersion); err != nil {
		return err
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	prefix, _, _ := strings.Cut(folder, "-")
	if n, err := strconv.Atoi(prefix); err != nil || n != t.Number || n < 1 || n > maxTrials {
		fault("number: %d, which is not that of the folder", t.Number)
	}
	switch t.Purpose {
	case "", PurposeProbe, PurposeProfile, PurposeIdle:
		if t.Round < 1 {
			fault("round: %d, want at least 1", t.Round)
		}
	case PurposePilot:
		if t.Round != 0 {
			fault("round: %d, want 0 for a pilot", t.Round)
		}
	default:
		fault("purpose: %q, want %s, %s, %s, %s or none", t.Purpose, PurposePilot, PurposeProbe, PurposeProfile, PurposeIdle)
	}
	if t.Purpose == PurposeProbe && (t.Rate == nil || !(*t.Rate > 0)) {
		fault("rate_per_second: a probe wants one above 0")
	}
	if d := t.Duet; d != nil && (d.Peer == "" || d.CPUSet < 0 || d.CPUSet > 1) {
		fault("duet: CPU set %d with %q, want CPU set 0 or 1 and a variant", d.CPUSet, d.Peer)
	}
	if t.Variant == "" {
		fault("variant: is empty")
	}
	if t.WarmupSeconds < 0 {
		fault("warmup_seconds: %v, want at least 0", t.WarmupSeconds)
	}
	if t.WindowSeconds < 0 {
		fault("window_seconds: %v, want at least 0", t.WindowSeconds)
	}
	c := t.Counts
	var s Streams
	if t.Streams != nil {
		s = *t.Streams
	}
	for _, count := range []struct {
		name  string
		value int64
	}{
		{"delivered of streams", s.Delivered}, {"lost of streams", s.Lost}, {"repeated of streams", s.Repeated},
		{"scheduled", c.Scheduled}, {"sent", c.Sent}, {"dropped", c.Dropped}, {"ok", c.OK}, {"errors", c.Errors},
		{"timeouts", c.Timeouts}, {"unfinished", c.Unfinished}, {"completed_in_window", c.CompletedInWindow},
	} {
		if count.value < 0 {
			fault("counts.%s: %d, want at least 0", count.name, count.value)
		}
	}
	return errors.Join(faults...)
}

// open opens a file of the trial's folder, for reading.
func (t *TrialFolder) open(name string, limit int64) (*os.File, error) {
	root, err := os.OpenRoot(t.run)
	if err != nil {
		return nil, t.located(name, err)
	}
	defer func() { _ = root.Close() }() // nothing was written
	f, err := openFile(root, path.Join(t.Name, name), limit)
	if err != nil {
		return nil, t.located(name, err)
	}
	return f, nil
}

func (t *TrialFolder) located(name string, err error) error {
	return fmt.Errorf("run folder: %s: %w", filepath.Join(t.run, t.Name, name), err)
}

// File opens a file of the trial's folder, such as a profile or a log. The name
// is that of a file right in it.
func (t *TrialFolder) File(name string) (io.ReadCloser, error) {
	if name != filepath.Base(name) || name == "" {
		return nil, t.located(name, errors.New("not the name of a file"))
	}
	f, err := t.open(name, maxDataBytes)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Intervals reads latency.hlog: when its clock began, and its intervals. If the file was
// cut off, it returns the part before along with the error.
func (t *TrialFolder) Intervals() (time.Time, []hist.Interval, error) {
	f, err := t.open(LatencyFile, maxDataBytes)
	if err != nil {
		return time.Time{}, nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	start, intervals, err := hist.ReadLog(io.LimitReader(f, maxDataBytes))
	if err != nil {
		err = t.located(LatencyFile, err)
	}
	return start, intervals, err
}

// Unrecorded tells whether a recording is missing because the target ended the trial before
// anything was recorded. err is the error of reading it.
func (t *TrialFolder) Unrecorded(err error) bool {
	return !t.Complete && t.IsMeasured() && errors.Is(err, fs.ErrNotExist)
}

// Latencies reads latency.hlog and merges the intervals of each tag.
func (t *TrialFolder) Latencies() (map[string]*hist.Histogram, error) {
	_, intervals, err := t.Intervals()
	if err != nil {
		return nil, err
	}
	merged := map[string]*hist.Histogram{}
	for _, i := range intervals {
		h, ok := merged[i.Tag]
		if !ok {
			h = hist.New()
			merged[i.Tag] = h
		}
		h.Merge(i.Hist)
	}
	return merged, nil
}

// Latency returns all values that were recorded under a tag; an empty histogram if there
// are none. To read several tags, call Latencies once.
func (t *TrialFolder) Latency(tag string) (*hist.Histogram, error) {
	merged, err := t.Latencies()
	if err != nil {
		return nil, err
	}
	if h, ok := merged[tag]; ok {
		return h, nil
	}
	return hist.New(), nil
}

// Series reads series.csv. If the file was cut off, it returns the rows before along with
// the error.
func (t *TrialFolder) Series() (*series.Series, error) {
	f, err := t.open(SeriesFile, maxDataBytes)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	s, err := series.Read(io.LimitReader(f, maxDataBytes))
	if err != nil {
		err = t.located(SeriesFile, err)
	}
	return s, err
}

// Stalls reads stalls.csv. Without the file, known is false: the trial had no sleeper.
func (t *TrialFolder) Stalls() (stalls []series.Stall, known bool, err error) {
	f, err := t.open(StallsFile, maxDataBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	if stalls, err = series.ReadStalls(io.LimitReader(f, maxDataBytes)); err != nil {
		return nil, false, t.located(StallsFile, err)
	}
	return stalls, true, nil
}
