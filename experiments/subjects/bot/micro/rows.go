package micro

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"dyno/experiments/subjects/bot/pgcopy"
	"dyno/experiments/subjects/measurement"
	"dyno/internal/fields"
	"dyno/internal/secretfile"
	"dyno/services/bot"
	"dyno/services/bot/store"
	"dyno/services/bot/store/postgres"
	"dyno/services/bot/store/sqlite"
)

// Writes is how rows are written.
type Writes string

// The ways.
const (
	Single Writes = "single" // each by itself
	Batch  Writes = "batch"  // together
	Copy   Writes = "copy"   // together, by PostgreSQL's COPY
)

// Rows measures how fast entries of the ledger are written.
//
// Figures: rows_per_second; rows, that were written in all, and are there.
type Rows struct {
	Archive  bot.Archive     `yaml:"archive" oneof:"sqlite postgres" default:"sqlite" doc:"the database"`
	File     string          `yaml:"file" otherwise:"a temporary one" doc:"SQLite's file"`
	Sync     bool            `yaml:"sync" doc:"have SQLite wait for the disk"`
	Postgres secretfile.Text `yaml:"postgres_file" doc:"the file of PostgreSQL's connection string"`
	Writes   Writes          `yaml:"writes" oneof:"single batch copy" default:"batch" doc:"how rows are written; copy is PostgreSQL's"`
	Rows     int             `yaml:"rows" range:"1..1000000" default:"1000" doc:"rows of a round: written by themselves, or at once"`
	Timeout  time.Duration   `yaml:"timeout" range:"1ms..10m" default:"3s" doc:"bound on one write"`
	Duration time.Duration   `yaml:"duration" range:"1us..10m" default:"1s" doc:"how long to measure, in whole rounds"`
}

// Check reports COPY for a database without it.
func (r Rows) Check(report *fields.Report) {
	report.Check(r.Writes != Copy || r.Archive == bot.ArchivePostgres, "archive", "copy goes with postgres", "")
}

// Run writes rounds for some time.
func (r Rows) Run(ctx context.Context) (_ measurement.Result, err error) {
	a, closeArchive, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeArchive()) }()
	key := store.NewID() // what was there before is another's
	write := func(records []store.Record) error {
		ctx, cancel := context.WithTimeout(ctx, r.Timeout)
		defer cancel()
		_, err := a.Write(ctx, records)
		return err
	}
	rounds := 0
	s, err := repeat(ctx, r.Duration, 1, func() error {
		rounds++
		records := make([]store.Record, r.Rows)
		for i := range records {
			records[i].Entry = &store.Entry{ID: store.NewID(), At: time.Now(), Key: key, User: "user", Session: "session", Endpoint: "bot", Model: "dyno-1",
				Upstream: "upstream", Outcome: "ok", Prompt: 21, Completion: 9, Money: 3700, Attempts: 1, FirstByte: time.Millisecond, Took: 2 * time.Millisecond}
		}
		if r.Writes != Single {
			return write(records)
		}
		for i := range records {
			if err := write(records[i : i+1]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	sum, err := a.Sum(ctx, store.Part{Key: key}, time.Time{})
	if err != nil {
		return nil, err
	}
	if want := int64(rounds * r.Rows); sum.Requests != want {
		return nil, fmt.Errorf("%d rows of %d are there: %w", sum.Requests, want, errWrong)
	}
	return measurement.Result{"rows_per_second": float64(s.ops*r.Rows) / s.elapsed.Seconds(), "rows": float64(sum.Requests)}, nil
}

// open opens the archive, and returns what closes it.
func (r Rows) open(ctx context.Context) (store.Archive, func() error, error) {
	if r.Archive == bot.ArchivePostgres {
		var a store.Archive
		var err error
		if r.Writes == Copy {
			a, err = pgcopy.Open(ctx, string(r.Postgres))
		} else {
			a, err = postgres.Open(ctx, string(r.Postgres))
		}
		if err != nil {
			return nil, nil, err
		}
		return a, a.Close, nil
	}
	path, remove := r.File, func() error { return nil }
	if path == "" {
		dir, err := os.MkdirTemp("", "rows")
		if err != nil {
			return nil, nil, err
		}
		path, remove = filepath.Join(dir, "rows.db"), func() error { return os.RemoveAll(dir) }
	}
	a, err := sqlite.Open(ctx, sqlite.Config{Path: path, Sync: r.Sync})
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return a, func() error { return errors.Join(a.Close(), remove()) }, nil
}
