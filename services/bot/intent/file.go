package intent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"dyno/internal/textfile"
	"dyno/services/internal/wait"
)

// A File is a parser with rules from a file, which it reads again when the file changes. Faulty rules change nothing.
// Its methods may be called from any goroutine.
type File struct {
	path   string
	log    *slog.Logger
	parser atomic.Pointer[Parser]
	seen   state
	loads  atomic.Uint64
	faults atomic.Uint64
}

// state identifies a version of the file.
type state struct {
	size     int64
	modified time.Time
}

// Open reads the rules for the first time. A nil logger discards.
func Open(path string, log *slog.Logger) (*File, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	f := &File{path: path, log: log.With("rules", path)}
	if err := f.load(); err != nil {
		return nil, err
	}
	return f, nil
}

// Find is Parser.Find with the present rules.
func (f *File) Find(text string) Match { return f.parser.Load().Find(text) }

// Intents is Parser.Intents with the present rules.
func (f *File) Intents() []string { return f.parser.Load().Intents() }

// Loads returns how often rules were read well, and how often they had a fault.
func (f *File) Loads() (good, faulty uint64) { return f.loads.Load(), f.faults.Load() }

// load reads the file if it has changed.
func (f *File) load() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	now := state{info.Size(), info.ModTime()}
	if now == f.seen {
		return nil
	}
	if now.size > maxFile {
		return fmt.Errorf("rules: %s: %d bytes: must be %d at most", f.path, now.size, maxFile)
	}
	text, err := textfile.Read(f.path, maxFile)
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	f.seen = now // the state before reading: a later change is noticed
	p, err := Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.parser.Store(p)
	f.loads.Add(1)
	return nil
}

// Watch checks the file for changes every interval, until ctx ends.
func (f *File) Watch(ctx context.Context, interval time.Duration) {
	wait.Every(ctx, interval, func() {
		before := f.loads.Load()
		switch err := f.load(); {
		case err != nil:
			f.faults.Add(1)
			f.log.Warn("rules not read: the old ones stay", "error", err)
		case f.loads.Load() > before:
			f.log.Info("rules read", "intents", len(f.Intents()))
		}
	})
}
