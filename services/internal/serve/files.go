package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// LookEvery is the pause between two looks for changed files.
const LookEvery = 10 * time.Second

// Files are read again when they change, without a restart. If one cannot be read, its last contents stay in force.
// Add is called before Part runs.
type Files struct {
	log    *slog.Logger
	groups []fileGroup
	asked  chan chan error // by LookNow
	done   chan struct{}   // closed when the part ends
}

// A fileGroup is read together.
type fileGroup struct {
	what  string
	read  func() error
	names []*string        // "" is none; read may change them
	seen  map[string]stamp // the state in which each file was read
}

// A stamp changes with a file.
type stamp struct {
	at   time.Time
	size int64
}

// NewFiles returns Files without any.
func NewFiles(log *slog.Logger) *Files {
	return &Files{log: log, asked: make(chan chan error), done: make(chan struct{})}
}

// Add has read called whenever one of the files changes from now on. Call it before the first reading, so that a later
// change is noticed.
func (f *Files) Add(what string, read func() error, names ...*string) {
	g := fileGroup{what, read, names, map[string]stamp{}}
	g.changed()
	f.groups = append(f.groups, g)
}

// changed reports whether a file has changed since the last look. It does for a file without a state, so that reading
// it gives the error.
func (g *fileGroup) changed() (changed bool) {
	for _, name := range g.names {
		if *name == "" {
			continue
		}
		info, err := os.Stat(*name)
		if err != nil {
			delete(g.seen, *name)
			changed = true
			continue
		}
		now := stamp{info.ModTime(), info.Size()}
		before, ok := g.seen[*name]
		g.seen[*name] = now
		changed = changed || !ok || !before.at.Equal(now.at) || before.size != now.size
	}
	return changed
}

// look reads changed files again. The error lists those that could not be read, which are logged too.
func (f *Files) look() error {
	var failed []error
	for _, g := range f.groups {
		if !g.changed() {
			continue
		}
		if err := g.read(); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", g.what, err))
			f.log.Warn(g.what+" not read again: the last contents stay in force", "error", err)
			clear(g.seen) // the next look tries again
			continue
		}
		f.log.Info(g.what + " read again")
	}
	return errors.Join(failed...)
}

// LookNow makes the part look at once, and returns the error.
func (f *Files) LookNow() error {
	answer := make(chan error, 1)
	select {
	case f.asked <- answer:
		return <-answer
	case <-f.done:
		return nil
	}
}

// Part looks at the files while the service runs.
func (f *Files) Part() Part {
	return Part{
		Name: "files",
		Serve: func() error {
			ticker := time.NewTicker(LookEvery)
			defer ticker.Stop()
			for {
				select {
				case <-f.done:
					return nil
				case <-ticker.C:
					_ = f.look() // the error is logged
				case answer := <-f.asked:
					answer <- f.look()
				}
			}
		},
		Drain: func(context.Context) int { close(f.done); return 0 },
	}
}
