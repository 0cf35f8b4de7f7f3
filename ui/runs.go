package ui

import (
	"cmp"
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"dyno/internal/texts"
	"dyno/judge/verdict"
	"dyno/results/archive"
	"dyno/results/rundir"
)

// freshFor is how long a scan of the folders is valid.
const freshFor = time.Second

// scanTimeout is how long a request waits for a scan. Then it is answered with what the
// last scans found.
const scanTimeout = 500 * time.Millisecond

// A State is the state of a run, in one word.
type State string

// The states.
const (
	Valid      State = "valid"
	Disturbed  State = "disturbed" // valid, but something disturbed trials
	Invalid    State = "invalid"
	Incomplete State = "incomplete"
	Broken     State = "broken"
	Running    State = "running"
)

// A Run is a run as an entry of a list.
type Run struct {
	ID         string     `json:"id"`
	Name       string     `json:"name,omitempty"`
	Question   string     `json:"question,omitempty"`
	StartedAt  time.Time  `json:"started_at,omitzero"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	State      State      `json:"state"`
	// Reason is why it is broken or incomplete.
	Reason   *rundir.Message `json:"reason,omitempty"`
	Short    bool            `json:"short,omitempty"`
	Rounds   int             `json:"rounds"`
	Metric   string          `json:"metric,omitempty"`
	Variants []string        `json:"variants"`
	Flags    int             `json:"flags"`
	Broken   int             `json:"thresholds_broken"`
	// Results are the comparisons in the primary metric, without controls. If there are
	// none, Figures has the metric of each variant.
	Results []Result `json:"results"`
	Figures []Figure `json:"figures"`
	Report  string   `json:"report,omitempty"` // URL of its report
	archive.Annotations
}

// A Result is a comparison's verdict.
type Result struct {
	Base    string          `json:"base"`
	Variant string          `json:"variant"`
	Ratio   rundir.Estimate `json:"ratio"`
	Verdict string          `json:"verdict"`
}

// A Figure is a variant's estimate of the primary metric.
type Figure struct {
	Variant string          `json:"variant"`
	Figure  rundir.Estimate `json:"figure"`
}

// shown is how many results or figures a list shows for a run.
const shown = 4

// Bounds of the index's data for a run; there may be many runs.
const (
	mostNames = 200 // variants
	mostName  = 200 // bytes of a name
	mostText  = 2000
)

// cut shortens a text, which then ends in an ellipsis.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// A RunList is a page of the list of runs.
type RunList struct {
	Runs        []Run    `json:"runs"`
	Matched     int      `json:"matched"` // how many runs match the query
	Total       int      `json:"total"`
	Pending     int      `json:"pending"`             // folders not yet read
	Truncated   bool     `json:"truncated,omitempty"` // there are more folders than are scanned
	Experiments []string `json:"experiments"`         // the names, in order
}

// A filter says which runs to list. An empty field matches all.
type filter struct {
	words      []string // in lower case
	experiment string
	state      State
	from, to   time.Time            // to is exclusive
	where      func(id string) bool // it reads the run; nil matches all
}

func (f *filter) match(e *entry, running string) bool {
	r := &e.run
	if f.experiment != "" && r.Name != f.experiment || f.state != "" && stateOf(r, running) != f.state {
		return false
	}
	if !f.from.IsZero() && r.StartedAt.Before(f.from) || !f.to.IsZero() && !r.StartedAt.Before(f.to) {
		return false
	}
	return !slices.ContainsFunc(f.words, func(w string) bool { return !strings.Contains(e.text, w) })
}

func stateOf(r *Run, running string) State {
	if r.ID == running {
		return Running
	}
	return r.State
}

// An entry is a run in the index. It never changes.
type entry struct {
	run  Run
	text string // in lower case, to search
	stamp
	unjudged bool // a process writes the run, which has no verdict yet
}

// A stamp identifies the versions of the files that were read: run.json and annotations.json.
type stamp [2]struct {
	modified time.Time
	size     int64
}

func stampOf(files ...fs.FileInfo) (s stamp) {
	for i, f := range files {
		s[i].modified, s[i].size = f.ModTime(), f.Size()
	}
	return s
}

// An index knows the run folders below one folder. It reads a run.json only when the file has changed.
// It looks for changes on request, at most once a second.
type index struct {
	root *os.Root
	log  *slog.Logger

	mu        sync.Mutex // guards the following fields
	entries   map[string]*entry
	sorted    []*entry // latest first; nil if it must be sorted again
	looking   chan struct{}
	looked    time.Time
	changed   bool // during a scan
	pending   int
	truncated bool
	closed    bool
	looks     sync.WaitGroup
}

func newIndex(root *os.Root, log *slog.Logger) *index {
	return &index{root: root, log: log, entries: map[string]*entry{}}
}

// close waits for a running scan, which ends early.
func (x *index) close() {
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	x.looks.Wait()
}

// refresh scans the folders, unless that has just been done. It returns when the scan is
// done or has taken longer than scanTimeout; the scan then continues.
func (x *index) refresh(ctx context.Context) {
	x.mu.Lock()
	if x.looking == nil {
		if x.closed || time.Since(x.looked) < freshFor {
			x.mu.Unlock()
			return
		}
		x.looking = make(chan struct{})
		x.looks.Go(x.look)
	}
	done := x.looking
	x.mu.Unlock()
	timer := time.NewTimer(scanTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// stale records that something has changed: the next refresh scans again, however soon,
// and so does a scan that is already running.
func (x *index) stale() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.looked, x.changed = time.Time{}, true
}

// look scans the folders and updates the entries.
func (x *index) look() {
	for again := true; again; {
		x.mu.Lock()
		x.changed = false
		x.mu.Unlock()
		x.lookOnce()
		x.mu.Lock()
		if again = x.changed && !x.closed; !again {
			x.looked = time.Now()
			close(x.looking)
			x.looking = nil
		}
		x.mu.Unlock()
	}
}

func (x *index) lookOnce() {
	all, truncated := archive.Find(x.root)
	found := map[string]stamp{}
	for _, f := range all {
		if f.Err != nil {
			x.log.Warn("folder of runs", "error", f.Err)
			continue
		}
		if about, err := x.root.Lstat(path.Join(f.ID, archive.AnnotationsFile)); err == nil {
			found[f.ID] = stampOf(f.Info, about)
		} else {
			found[f.ID] = stampOf(f.Info)
		}
	}
	x.mu.Lock()
	var changed []string
	for id, s := range found {
		// A run without a verdict is looked at again: run.json stays as it is while trials are added.
		if e := x.entries[id]; e == nil || e.stamp != s || e.unjudged {
			changed = append(changed, id)
		}
	}
	for id := range x.entries {
		if _, there := found[id]; !there {
			delete(x.entries, id)
			x.sorted = nil
		}
	}
	x.pending, x.truncated = len(changed), truncated
	x.mu.Unlock()
	// Names usually end in times: read the latest first.
	slices.SortFunc(changed, func(a, b string) int { return strings.Compare(b, a) })
	for _, id := range changed {
		e := newEntry(x.root, id)
		e.stamp = found[id]
		x.mu.Lock()
		x.entries[id], x.sorted = e, nil
		x.pending--
		closed := x.closed
		x.mu.Unlock()
		if closed {
			return
		}
	}
}

// latestFirst returns all entries. The caller holds mu.
func (x *index) latestFirst() []*entry {
	if x.sorted == nil {
		x.sorted = make([]*entry, 0, len(x.entries))
		for _, e := range x.entries {
			x.sorted = append(x.sorted, e)
		}
		slices.SortFunc(x.sorted, func(a, b *entry) int {
			return cmp.Or(b.run.StartedAt.Compare(a.run.StartedAt), strings.Compare(a.run.ID, b.run.ID))
		})
	}
	return x.sorted
}

// list returns a page of the runs that match.
func (x *index) list(ctx context.Context, f filter, running string, offset, limit int) RunList {
	x.refresh(ctx)
	l, matched := x.matching(f, running)
	for _, r := range matched {
		if ctx.Err() != nil {
			break
		}
		if f.where != nil && !f.where(r.ID) {
			continue
		}
		if l.Matched++; l.Matched > offset && len(l.Runs) < limit {
			l.Runs = append(l.Runs, *r)
		}
	}
	return l
}

// matching returns the runs that match, except for where, and a list without runs.
func (x *index) matching(f filter, running string) (l RunList, matched []*Run) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l = RunList{Runs: []Run{}, Total: len(x.entries), Pending: x.pending, Truncated: x.truncated, Experiments: []string{}}
	names := map[string]bool{}
	for _, e := range x.latestFirst() {
		if e.run.Name != "" && !names[e.run.Name] {
			names[e.run.Name] = true
			l.Experiments = append(l.Experiments, e.run.Name)
		}
		if !f.match(e, running) {
			continue
		}
		r := &e.run
		if r.ID == running {
			r = new(*r)
			r.State = Running
		}
		matched = append(matched, r)
	}
	slices.Sort(l.Experiments)
	return l, matched
}

// baseline returns the ID of the run of an experiment that was pinned last, if that is another.
func (x *index) baseline(experiment, than string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var pinned *Run
	for _, e := range x.entries {
		if r := &e.run; r.Name == experiment && !r.PinnedAt.IsZero() && (pinned == nil || r.PinnedAt.After(pinned.PinnedAt)) {
			pinned = r
		}
	}
	if pinned == nil || pinned.ID == than {
		return ""
	}
	return pinned.ID
}

// of returns the IDs of an experiment's latest runs, by time, and of all broken ones.
func (x *index) of(ctx context.Context, experiment string, most int) (ids, broken []string) {
	x.refresh(ctx)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.latestFirst() {
		switch {
		case e.run.State == Broken:
			broken = append(broken, e.run.ID)
		case e.run.Name == experiment && len(ids) < most:
			ids = append(ids, e.run.ID)
		}
	}
	slices.Reverse(ids)
	return ids, broken
}

// has reports whether there is a run with this ID.
func (x *index) has(ctx context.Context, id string) bool {
	x.mu.Lock()
	known := x.entries[id] != nil
	x.mu.Unlock()
	if known {
		return true
	}
	x.refresh(ctx)
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.entries[id] != nil
}

// held calls a function with a path to a run folder. On Linux the path leads there even if the folder
// is renamed. The function's error names the folder by its ID.
func held(root *os.Root, id string, fn func(dir string) error) error {
	f, err := root.Open(id)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // nothing was written
	dir := pathTo(root, id, f)
	if err := fn(dir); err != nil {
		return &renamed{err, dir, id}
	}
	return nil
}

// Replace the temporary path in the error by the ID.
type renamed struct {
	err      error
	from, to string
}

func (r *renamed) Error() string { return strings.ReplaceAll(r.err.Error(), r.from, r.to) }
func (r *renamed) Unwrap() error { return r.err }

// readRun reads the run.json of a run, and what people say about it.
func readRun(root *os.Root, id string) (run *rundir.Run, about archive.Annotations, err error) {
	err = held(root, id, func(dir string) error {
		if run, err = verdict.ReadRun(dir); err == nil {
			about, err = archive.ReadAnnotations(dir)
		}
		return err
	})
	if err == nil {
		boundRun(run) // others may have made the folder
	}
	return run, about, err
}

// newEntry reads a run for the index.
func newEntry(root *os.Root, id string) *entry {
	e := &entry{run: Run{ID: id, State: Broken, Variants: []string{}, Results: []Result{}, Figures: []Figure{}}}
	run, about, err := readRun(root, id)
	if err != nil {
		e.run.Reason = new(texts.New("reason.unreadable", "error", cut(err.Error(), mostText)))
	} else {
		e.run.fill(run)
		e.run.Annotations, e.unjudged = about, !run.IsJudged()
	}
	e.text = strings.ToLower(strings.Join(slices.Concat([]string{id, e.run.Name, e.run.Question, about.Note}, about.Tags, e.run.Variants), "\n"))
	return e
}

// fill fills in what lists show.
func (r *Run) fill(run *rundir.Run) {
	r.Name, r.Question, r.StartedAt, r.FinishedAt = cut(run.Name, mostName), cut(run.Question, mostText), run.StartedAt, run.FinishedAt
	r.Short, r.Rounds, r.Flags = run.Plan.Short, run.Rounds, len(run.Flags)
	r.Metric = cut(cmp.Or(run.Plan.Metric, "throughput"), mostName)
	switch {
	case !run.Complete:
		r.State = Incomplete
		why := run.Unfinished()
		if len(why.English()) > mostText {
			why = texts.Verbatim(cut(why.English(), mostText))
		}
		r.Reason = &why
	case !run.Valid:
		r.State = Invalid
	case slices.ContainsFunc(run.Flags, func(f rundir.Flag) bool { return f.Disturbs }):
		r.State = Disturbed
	default:
		r.State = Valid
	}
	for _, v := range run.Plan.Variants {
		if v.AliasOf == "" && len(r.Variants) == mostNames {
			r.Variants = append(r.Variants, "…")
			break
		}
		if v.AliasOf == "" {
			r.Variants = append(r.Variants, cut(v.Name, mostName))
		}
	}
	for _, t := range run.Thresholds {
		if t.Outcome == rundir.Broken {
			r.Broken++
		}
	}
	for _, c := range run.Comparisons {
		if c.Primary && c.Role != rundir.RoleControl && len(r.Results) < shown {
			r.Results = append(r.Results, Result{cut(c.Base, mostName), cut(c.Variant, mostName), bare(c.Ratio), cut(c.Verdict, mostName)})
		}
	}
	for _, v := range run.Variants {
		if e := v.Figures[r.Metric]; e.Estimate != nil && slices.Contains(r.Variants, cut(v.Name, mostName)) && len(r.Results) == 0 && len(r.Figures) < shown {
			r.Figures = append(r.Figures, Figure{cut(v.Name, mostName), bare(e)})
		}
	}
}

// bare is an estimate without the trials' values: there may be thousands of runs.
func bare(e rundir.Estimate) rundir.Estimate {
	e.Values, e.Interval = nil, cut(e.Interval, mostName)
	return e
}
