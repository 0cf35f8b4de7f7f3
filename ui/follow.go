package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"time"

	"dyno/internal/filelock"
	"dyno/results/rundir"
)

// The bounds of following a run that another process has started.
const (
	lookEvery   = time.Second
	settleFor   = 3 * lookEvery // after a change of the folder; run.json comes after its folder
	readEvery   = 250 * time.Millisecond
	mostAtOnce  = 4 << 20   // bytes of a live file
	longestLine = 256 << 10 // of one; longer lines are left out
	mostProbed  = 8         // incomplete runs, the latest
)

// watchOthers shows runs that other processes write below the folder of runs, one at a time,
// until ctx ends.
func (s *Server) watchOthers(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var seen time.Time
	for {
		// Only a change of the folder itself is worth a scan: there may be many runs, and a
		// scan takes CPU time from what is measured.
		if info, err := s.runs.root.Stat("."); err == nil && (!info.ModTime().Equal(seen) || time.Since(seen) < settleFor) {
			seen = info.ModTime()
			s.runs.stale()
			s.runs.refresh(ctx)
		}
		if s.stage.running() == "" {
			s.showOther(ctx)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// showOther makes the latest run that another process writes the current one.
func (s *Server) showOther(ctx context.Context) {
	for _, id := range s.runs.unfinished(mostProbed) {
		if !s.runs.busy(id) {
			continue
		}
		run, _, err := readRun(s.runs.root, id)
		if err != nil {
			continue
		}
		f := &following{runs: s.runs, id: id, done: make(chan struct{})}
		ctx, f.cancel = context.WithCancel(ctx)
		live := Live{ID: id, Name: cut(run.Name, mostName), Experiment: cut(run.Plan.File, mostName), Short: run.Plan.Short, StartedAt: run.StartedAt, Elsewhere: true}
		err = s.stage.show(live, func() (Execution, error) {
			go f.read(ctx, s.stage.handle)
			return f, nil
		})
		if err != nil { // a run was started meanwhile
			f.cancel()
		}
		return
	}
}

// unfinished returns the IDs of the latest runs that may be in progress.
func (x *index) unfinished(most int) (ids []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.latestFirst() {
		if e.run.State == Incomplete && e.run.FinishedAt == nil && len(ids) < most {
			ids = append(ids, e.run.ID)
		}
	}
	return ids
}

// live opens what the process writes that writes a run.
func (x *index) live(id string) (*os.File, error) {
	f, err := x.root.OpenFile(path.Join(id, rundir.LiveFile), readOnly, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(errors.New("not a regular file"), err, f.Close())
	}
	return f, nil
}

// busy reports whether a process writes a run.
func (x *index) busy(id string) bool {
	f, err := x.live(id)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // which also ends the lock
	return errors.Is(filelock.TryShare(f), filelock.ErrLocked)
}

// A following is an Execution of a run that another process has started: it reads what that
// process writes.
type following struct {
	runs    *index
	id      string
	cancel  context.CancelFunc
	done    chan struct{}
	outcome Outcome

	file *os.File
	at   int64  // in the file
	rest []byte // of a line that is not whole yet
}

// Stop ends the following, not the run.
func (f *following) Stop() error {
	f.cancel()
	return nil
}

// Wait implements Execution.
func (f *following) Wait() Outcome {
	<-f.done
	return f.outcome
}

// read tells what happens until the run has ended.
func (f *following) read(ctx context.Context, handle func(Event)) {
	defer close(f.done)
	defer f.cancel()
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		busy := f.runs.busy(f.id) // what is written after that is read with the next tick
		f.more(handle)
		if !busy {
			break
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		}
		break
	}
	if f.file != nil {
		_ = f.file.Close() // nothing was written
	}
	f.outcome = Outcome{Code: notComplete}
	if run, _, err := readRun(f.runs.root, f.id); err == nil && run.Complete {
		f.outcome.Code = 0
		if !run.Valid {
			f.outcome.Code = invalid
		}
	}
}

// A run's folder only tells this about its exit code.
const (
	notComplete = -1
	invalid     = 4
)

// more tells what was written since the last time.
func (f *following) more(handle func(Event)) {
	if f.file == nil {
		file, err := f.runs.live(f.id)
		if err != nil {
			return // the run has just ended
		}
		f.file = file
	}
	info, err := f.file.Stat()
	if err != nil {
		return
	}
	if info.Size() < f.at { // it has begun again
		f.at, f.rest = 0, nil
	}
	text, err := io.ReadAll(io.NewSectionReader(f.file, f.at, mostAtOnce))
	if err != nil && !errors.Is(err, io.EOF) {
		return
	}
	f.at += int64(len(text))
	lines := bytes.Split(append(f.rest, text...), []byte("\n"))
	for _, line := range lines[:len(lines)-1] {
		var e Event
		if len(line) <= longestLine && json.Unmarshal(line, &e) == nil {
			handle(e)
		}
	}
	f.rest = bytes.Clone(lines[len(lines)-1])
	if len(f.rest) > longestLine {
		f.rest = f.rest[:longestLine+1] // left out when it ends
	}
}
