// Package sqlite keeps turns, the ledger and the directory in one file, within the process.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	driver "modernc.org/sqlite" // registers "sqlite"
	codes "modernc.org/sqlite/lib"

	"dyno/services/bot/store"
	"dyno/services/bot/store/relational"
)

// Config says where the file is.
type Config struct {
	Path string
	// Sync waits for the disk at each write, so that records survive a power cut. Without it, they survive a killed
	// process. A power cut then loses the writes since the last checkpoint: those of the last second, and more if the
	// disk cannot keep up.
	Sync bool
	// Exclusive refuses a file that is already open with Exclusive, in this process or another.
	Exclusive bool
}

// Archive is a file. Its methods may be called from any goroutine.
//
// Writes go to the write-ahead log. Checkpoints copy it to the database in the background, on their own connection:
// no write waits for them.
type Archive struct {
	relational.Database
	writer, readers, checkpoints *sql.DB
	insertTurn                   *sql.Stmt
	insertEntry                  *sql.Stmt
	selectTurns                  *sql.Stmt

	fresh   atomic.Int64  // records since the last checkpoint that ran during writes
	logged  atomic.Int64  // records since the last one between two writes
	written chan struct{} // capacity 1: there are new records
	due     chan struct{} // capacity 1: there are many new records
	copying sync.Mutex    // held during a checkpoint: a second one would do nothing
	stop    chan struct{} // closed at the end
	ended   sync.WaitGroup
	lock    *os.File // nil if the file may be open twice
}

// Checkpoints come after a number of records or a time. They cover few records, and so are short: on one CPU, a
// checkpoint blocks requests.
//
// During continuous writes the log always has uncopied records, so it never restarts. After mostLogged records the
// next write copies the rest itself, which is little unless the disk cannot keep up. So the log has at most about 30
// MiB.
const (
	checkpointRecords = 64
	checkpointAge     = time.Second
	mostLogged        = 4096
)

// migrations bring a file from one version to the next. Migrations are only added, never changed.
var migrations = []string{
	`CREATE TABLE turns (
		session TEXT NOT NULL, number INTEGER NOT NULL, id TEXT NOT NULL, at INTEGER NOT NULL,
		user TEXT NOT NULL, reply TEXT NOT NULL, tokens INTEGER NOT NULL,
		PRIMARY KEY (session, number)
	) WITHOUT ROWID;
	CREATE TABLE entries (
		id TEXT NOT NULL PRIMARY KEY, at INTEGER NOT NULL, key TEXT NOT NULL, user TEXT NOT NULL, session TEXT NOT NULL,
		endpoint TEXT NOT NULL, model TEXT NOT NULL, upstream TEXT NOT NULL, outcome TEXT NOT NULL,
		stream INTEGER NOT NULL, cached INTEGER NOT NULL, prompt INTEGER NOT NULL, completion INTEGER NOT NULL,
		estimated INTEGER NOT NULL, money INTEGER NOT NULL, attempts INTEGER NOT NULL,
		queue INTEGER NOT NULL, first_byte INTEGER NOT NULL, took INTEGER NOT NULL
	) WITHOUT ROWID;
	CREATE INDEX entries_by_key ON entries (key, at);`,
	// Sum reads only this index: limits without an end are summed over the whole ledger.
	`CREATE INDEX entries_by_use ON entries (key, at, cached, prompt, completion, money);
	DROP INDEX entries_by_key;`,
	relational.Directory,
	`ALTER TABLE entries ADD COLUMN unit TEXT NOT NULL DEFAULT '';
	ALTER TABLE entries ADD COLUMN units INTEGER NOT NULL DEFAULT 0;`,
	relational.Prices,
	relational.Objects,
	relational.Bills,
}

// busyTimeout is how long SQLite waits for a lock. If it does not wait, we retry after openPause.
const (
	busyTimeout = 5 * time.Second
	openPause   = 10 * time.Millisecond
)

// Open opens or creates the file, and migrates it to this program's version. It refuses a file of a later version.
func Open(ctx context.Context, c Config) (_ *Archive, err error) {
	synchronous := "NORMAL"
	if c.Sync {
		synchronous = "FULL"
	}
	query := url.Values{
		"_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "journal_mode(WAL)", "synchronous(" + synchronous + ")", "wal_autocheckpoint(0)", "secure_delete(ON)"},
		"_txlock": {"immediate"},
	}
	source := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: c.Path}).EscapedPath(), RawQuery: query.Encode()}).String()
	a := &Archive{written: make(chan struct{}, 1), due: make(chan struct{}, 1), stop: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("sqlite: %s: %w", c.Path, err), a.Close())
		}
	}()
	if c.Exclusive {
		if a.lock, err = lockFile(c.Path + ".lock"); err != nil {
			return nil, err
		}
	}
	if err := makePrivate(c.Path); err != nil {
		return nil, err
	}
	if a.writer, err = sql.Open("sqlite", source); err != nil {
		return nil, err
	}
	a.writer.SetMaxOpenConns(1) // SQLite has one writer at a time
	if err := a.prepare(ctx); err != nil {
		return nil, err
	}
	if a.readers, err = sql.Open("sqlite", source); err != nil {
		return nil, err
	}
	a.Database = relational.Database{Reader: a.readers, Writer: a.writer, Time: func(t time.Time) any { return relational.Microseconds(t) }, Micros: "at", Day: "at / 86400000000",
		Alone: "true", User: "user", Belongs: "session GLOB '*/*/' || $1 || '/*'"}
	a.readers.SetMaxOpenConns(max(2, runtime.GOMAXPROCS(0)))
	a.readers.SetMaxIdleConns(max(2, runtime.GOMAXPROCS(0)))
	if a.selectTurns, err = a.readers.PrepareContext(ctx, `SELECT id, number, at, user, reply, tokens FROM turns WHERE session = ? ORDER BY number DESC LIMIT ?`); err != nil {
		return nil, err
	}
	if a.insertTurn, err = a.writer.PrepareContext(ctx, `INSERT INTO turns (session, number, id, at, user, reply, tokens) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`); err != nil {
		return nil, err
	}
	a.insertEntry, err = a.writer.PrepareContext(ctx, `INSERT INTO entries (id, at, key, team, owner, user, session, endpoint, model, upstream, outcome, stream, cached,
		prompt, completion, estimated, money, attempts, queue, first_byte, took, unit, units, kinds, price) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`+relational.ReplaceUnfinished)
	if err != nil {
		return nil, err
	}
	if a.checkpoints, err = sql.Open("sqlite", source); err != nil {
		return nil, err
	}
	a.checkpoints.SetMaxOpenConns(1)
	a.ended.Go(a.checkpointAlways)
	return a, nil
}

// private is the mode of the files, which hold conversations and the ledger.
const private = 0o600

// makePrivate creates the database, if there is none, and restricts its files to their owner. SQLite makes the log
// and its index with the mode of the database. It must not open an existing database: closing it would end all locks
// that this process has on it (fcntl(2), "Record locking").
func makePrivate(path string) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // SQLite makes the other files there, too
	}
	if err := unix.Mknod(path, unix.S_IFREG|private, 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make the file: %w", err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if name != path && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && info.Mode().Perm()&^private != 0 {
			err = os.Chmod(name, private)
		}
		if err != nil {
			return fmt.Errorf("keep %s from other users: %w", filepath.Base(name), err)
		}
	}
	return nil
}

// lockFile takes a lock that ends with the process, or when the file is closed.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, private)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close() // it was never used
		return nil, fmt.Errorf("another gateway uses it: give each a file, or all of them a Redis: %w", err)
	}
	return f, nil
}

// checkpointAlways copies the log to the database, after many records or some time.
func (a *Archive) checkpointAlways() {
	age := time.NewTimer(checkpointAge)
	defer age.Stop()
	for {
		select {
		case <-a.written:
		case <-a.stop:
			return
		}
		age.Reset(checkpointAge)
		select {
		case <-a.due:
		case <-age.C:
		case <-a.stop:
			return
		}
		a.fresh.Store(0)
		_ = a.checkpoint(context.Background(), a.checkpoints) // the checkpoint between two writes reports errors
	}
}

// checkpoint copies as much of the log as it can without waiting for readers or writers.
func (a *Archive) checkpoint(ctx context.Context, db *sql.DB) error {
	a.copying.Lock()
	defer a.copying.Unlock()
	_, err := db.ExecContext(ctx, `PRAGMA wal_checkpoint(PASSIVE)`)
	return err
}

// wrote notes that records were written.
func (a *Archive) wrote(records int) {
	notify := func(c chan struct{}) {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	a.logged.Add(int64(records))
	notify(a.written)
	if a.fresh.Add(int64(records)) >= checkpointRecords {
		notify(a.due)
	}
}

// prepare sets the journal mode and migrates the file. If several processes change the journal at once, SQLite
// refuses all but one without waiting: each would wait for the others' locks.
func (a *Archive) prepare(ctx context.Context) error {
	for until := time.Now().Add(busyTimeout); ; {
		err := a.migrate(ctx)
		var refused *driver.Error
		if !errors.As(err, &refused) || refused.Code()&0xff != codes.SQLITE_BUSY || time.Now().After(until) { // above are details
			return err
		}
		select {
		case <-time.After(openPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *Archive) migrate(ctx context.Context) error {
	tx, err := a.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	var version int
	if err := tx.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	if version > len(migrations) {
		return fmt.Errorf("is of version %d: this program knows %d", version, len(migrations))
	}
	for _, m := range migrations[version:] {
		if _, err := tx.ExecContext(ctx, m); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, len(migrations))); err != nil {
		return err
	}
	return tx.Commit()
}

// Close closes the file.
func (a *Archive) Close() error {
	close(a.stop)
	a.ended.Wait()
	var errs []error
	for _, db := range []*sql.DB{a.checkpoints, a.readers, a.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if a.lock != nil {
		errs = append(errs, a.lock.Close())
	}
	return errors.Join(errs...)
}

// Turns is store.Archive's.
func (a *Archive) Turns(ctx context.Context, session string, most int) (turns []store.Turn, count int64, err error) {
	rows, err := a.selectTurns.QueryContext(ctx, session, max(most, 1))
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err has told
	for rows.Next() {
		t := store.Turn{Session: session}
		var at int64
		if err := rows.Scan(&t.ID, &t.Number, &at, &t.User, &t.Reply, &t.Tokens); err != nil {
			return nil, 0, err
		}
		t.At = time.UnixMicro(at).UTC()
		count = max(count, t.Number)
		turns = append(turns, t)
	}
	slices.Reverse(turns)
	return turns[:min(most, len(turns))], count, rows.Err()
}

// Write is store.Archive's.
func (a *Archive) Write(ctx context.Context, records []store.Record) ([]error, error) {
	if a.logged.Load() >= mostLogged {
		a.logged.Store(0)
		if err := a.checkpoint(ctx, a.writer); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	each := make([]error, len(records))
	// The driver starts a goroutine for each statement whose context may end. No statement takes long, except for the
	// disk, which no context interrupts.
	inside := context.WithoutCancel(ctx)
	if len(records) == 1 && records[0].Entry == nil { // a single statement is a transaction
		conflict, err := a.keep(inside, a.writer, a.insertTurn, records[0].Turn)
		if err != nil {
			return nil, err
		}
		each[0] = conflict
		a.wrote(1)
		return each, nil
	}
	tx, err := a.writer.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	insertTurn, insertEntry := tx.StmtContext(inside, a.insertTurn), tx.StmtContext(inside, a.insertEntry)
	for i, r := range records {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if r.Turn != nil {
			if each[i], err = a.keep(inside, tx, insertTurn, r.Turn); err != nil {
				return nil, err
			}
		}
		if r.Price != nil {
			if _, err := tx.ExecContext(inside, relational.InsertPrice, r.Price.Name, r.Price.Terms); err != nil {
				return nil, err
			}
		}
		if e := r.Entry; e != nil {
			if _, err := insertEntry.ExecContext(inside, e.ID, e.At.UnixMicro(), e.Key, e.Team, e.Owner, e.User, e.Session, e.Endpoint, e.Model, e.Upstream, e.Outcome, e.Stream, e.Cached,
				e.Prompt, e.Completion, e.Estimated, e.Money, e.Attempts, e.Queue.Microseconds(), e.FirstByte.Microseconds(), e.Took.Microseconds(), e.Unit, e.Units, e.Kinds, e.Price); err != nil {
				return nil, err
			}
		}
	}
	if err := tx.Commit(); err != nil {
		return nil, err
	}
	a.wrote(len(records))
	return each, nil
}

// A querier is a connection, or a transaction on it.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// keep inserts a turn. Conflict is store.ErrConflict if another turn has its number.
func (a *Archive) keep(ctx context.Context, in querier, insert *sql.Stmt, t *store.Turn) (conflict, err error) {
	done, err := insert.ExecContext(ctx, t.Session, t.Number, t.ID, t.At.UnixMicro(), t.User, t.Reply, t.Tokens)
	if err != nil {
		return nil, err
	}
	if n, err := done.RowsAffected(); err != nil || n > 0 {
		return nil, err
	}
	var id string
	if err := in.QueryRowContext(ctx, `SELECT id FROM turns WHERE session = ? AND number = ?`, t.Session, t.Number).Scan(&id); err != nil {
		return nil, err
	}
	if id != t.ID {
		return store.ErrConflict, nil
	}
	return nil, nil
}

// Await is store.Directory's: other gateways with the file are noticed at the next look at it.
func (a *Archive) Await(ctx context.Context) { <-ctx.Done() }

var _ store.Archive = (*Archive)(nil)
