// Package postgres keeps turns, the ledger and the directory in PostgreSQL, for several gateways at
// once. A batch of records is two statements, whatever its size, in one transaction and
// one exchange with the server. A third follows only if a turn was not new.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"dyno/services/bot/store"
	"dyno/services/bot/store/relational"
)

// Archive is a database. Its methods may be called from any goroutine. It reconnects after a lost connection.
type Archive struct {
	relational.Database
	pool   *pgxpool.Pool // for reading
	writer *pgxpool.Pool // separate, so that writes never wait for readers' connections
	// Await's; nil until it is connected.
	listener *pgx.Conn
}

// channel is where gateways tell one another of changes of the directory.
const channel = "dyno_bot_directory"

// migrations bring a database from one version to the next. Migrations are only added, never changed.
var migrations = []string{
	`CREATE TABLE turns (
		session text NOT NULL, number bigint NOT NULL, id text NOT NULL, at timestamptz NOT NULL,
		said text NOT NULL, reply text NOT NULL, tokens integer NOT NULL,
		PRIMARY KEY (session, number)
	);
	CREATE TABLE entries (
		id text NOT NULL PRIMARY KEY, at timestamptz NOT NULL, key text NOT NULL, usr text NOT NULL, session text NOT NULL,
		endpoint text NOT NULL, model text NOT NULL, upstream text NOT NULL, outcome text NOT NULL,
		stream boolean NOT NULL, cached boolean NOT NULL, prompt bigint NOT NULL, completion bigint NOT NULL,
		estimated boolean NOT NULL, money bigint NOT NULL, attempts bigint NOT NULL,
		queue bigint NOT NULL, first_byte bigint NOT NULL, took bigint NOT NULL
	);
	CREATE INDEX entries_by_key ON entries (key, at);`,
	relational.Directory,
	`ALTER TABLE entries ADD COLUMN unit text NOT NULL DEFAULT '', ADD COLUMN units bigint NOT NULL DEFAULT 0;`,
	relational.Prices,
	relational.Objects,
	relational.Bills,
}

// lock is the number of the advisory lock that lets one gateway migrate at a time. The value is arbitrary.
const lock = 0x64796e6f626f74

// Bounds of connections.
const (
	maxConnections = 4 // for reading, and as many for writing
	connectTimeout = 5 * time.Second
	healthPeriod   = 5 * time.Second
)

// Open connects to the database of a connection string: postgres://user:password@host/database or key=value. It
// migrates the database to this program's version, and refuses a later one.
func Open(ctx context.Context, url string) (_ *Archive, err error) {
	cfg, err := parse(url)
	if err != nil {
		return nil, err
	}
	cfg.HealthCheckPeriod = healthPeriod
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	// One is in use for writing at a time; the others replace it when it is stuck.
	cfg.MaxConns = maxConnections
	a := &Archive{}
	if a.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if a.writer, err = pgxpool.NewWithConfig(ctx, cfg.Copy()); err != nil {
		a.pool.Close()
		return nil, fmt.Errorf("postgres: %w", err)
	}
	a.Database = relational.Database{
		Reader: stdlib.OpenDBFromPool(a.pool), Writer: stdlib.OpenDBFromPool(a.writer), Time: func(t time.Time) any { return t },
		Micros: "CAST(extract(epoch FROM at) * 1000000 AS bigint)", Day: "CAST(floor(extract(epoch FROM at) / 86400) AS bigint)", Notify: "NOTIFY " + channel,
		Alone: fmt.Sprintf("(SELECT pg_try_advisory_xact_lock(%d))", lock+1), User: "usr", Belongs: "split_part(session, '/', 3) = $1",
	}
	if err := migrate(ctx, a.writer); err != nil {
		_ = a.Close() // never fails
		return nil, fmt.Errorf("postgres: migrate: %w", err)
	}
	return a, nil
}

// CheckURL validates a connection string. Its error does not show the string.
func CheckURL(text string) error {
	_, err := parse(text)
	return err
}

func parse(text string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, errors.New("postgres: the connection string is not understood") // it may have a password
	}
	return cfg, nil
}

func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(lock)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)`); err != nil {
			return err
		}
		var version int
		if err := tx.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM schema_version`).Scan(&version); err != nil {
			return err
		}
		if version > len(migrations) {
			return fmt.Errorf("the database is of version %d: this program knows %d", version, len(migrations))
		}
		for i, m := range migrations[version:] {
			if _, err := tx.Exec(ctx, m); err != nil {
				return fmt.Errorf("to version %d: %w", version+i+1, err)
			}
			if _, err := tx.Exec(ctx, `INSERT INTO schema_version VALUES ($1)`, version+i+1); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close closes the connections, after the end of Await.
func (a *Archive) Close() error {
	a.hangUp()
	_ = a.Reader.Close() // they have no connections of their own
	_ = a.Writer.Close()
	a.pool.Close()
	a.writer.Close()
	return nil
}

// Turns is store.Archive's.
func (a *Archive) Turns(ctx context.Context, session string, most int) (turns []store.Turn, count int64, err error) {
	rows, err := a.pool.Query(ctx, `SELECT id, number, at, said, reply, tokens FROM turns WHERE session = $1 ORDER BY number DESC LIMIT $2`, session, max(most, 1))
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		t := store.Turn{Session: session}
		if err := rows.Scan(&t.ID, &t.Number, &t.At, &t.User, &t.Reply, &t.Tokens); err != nil {
			return nil, 0, err
		}
		t.At = t.At.UTC()
		count = max(count, t.Number)
		turns = append([]store.Turn{t}, turns...)
	}
	return turns[:min(most, len(turns))], count, rows.Err()
}

const (
	insertTurns = `INSERT INTO turns (session, number, id, at, said, reply, tokens)
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::timestamptz[], $5::text[], $6::text[], $7::integer[]) ON CONFLICT DO NOTHING RETURNING id`
	selectTurns   = `SELECT t.id FROM unnest($1::text[], $2::bigint[]) AS w (session, number) JOIN turns t USING (session, number)`
	insertEntries = `INSERT INTO entries (id, at, key, usr, session, endpoint, model, upstream, outcome, stream, cached, prompt, completion, estimated, money, attempts, queue, first_byte, took, team, owner, unit, units, kinds, price)
		SELECT DISTINCT ON (1) * FROM unnest($1::text[], $2::timestamptz[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::boolean[], $11::boolean[],
		$12::bigint[], $13::bigint[], $14::boolean[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::text[], $21::text[], $22::text[], $23::bigint[], $24::text[], $25::text[])` + relational.ReplaceUnfinished
)

// Write is store.Archive's. It removes zero bytes from texts: PostgreSQL cannot store them.
func (a *Archive) Write(ctx context.Context, records []store.Record) ([]error, error) {
	var (
		t      turnColumns
		e      entryColumns
		places []int // of turns, in records
		kept   = map[string]bool{}
		batch  pgx.Batch // one exchange, and one implicit transaction
	)
	for i, r := range records {
		if r.Turn != nil {
			t.add(r.Turn)
			places = append(places, i)
		}
		if r.Entry != nil {
			e.add(r.Entry)
		}
		if r.Price != nil {
			batch.Queue(relational.InsertPrice, r.Price.Name, r.Price.Terms)
		}
	}
	read := func(rows pgx.Rows) error {
		var id string
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			kept[id] = true
			return nil
		})
		return err
	}
	if len(places) > 0 {
		batch.Queue(insertTurns, t.session, t.number, t.id, t.at, t.texts, t.reply, t.tokens).Query(read)
	}
	if len(e.id) > 0 {
		batch.Queue(insertEntries, e.id, e.at, e.key, e.user, e.session, e.endpoint, e.model, e.upstream, e.outcome, e.stream, e.cached,
			e.prompt, e.completion, e.estimated, e.money, e.attempts, e.queue, e.first, e.took, e.team, e.owner, e.unit, e.units, e.kinds, e.price)
	}
	each := make([]error, len(records))
	if batch.Len() == 0 {
		return each, nil
	}
	if err := a.writer.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if len(kept) < len(places) { // the rest was kept before, or its numbers belong to other turns
		rows, err := a.writer.Query(ctx, selectTurns, t.session, t.number)
		if err == nil {
			err = read(rows)
		}
		if err != nil {
			return nil, fmt.Errorf("postgres: %w", err)
		}
	}
	for i, id := range t.id {
		if !kept[id] {
			each[places[i]] = store.ErrConflict
		}
	}
	return each, nil
}

// Await is store.Directory's. Without a connection it only waits.
func (a *Archive) Await(ctx context.Context) {
	if err := a.listen(ctx); err != nil {
		a.hangUp()
		<-ctx.Done()
	}
}

// listen waits for a notification, on a connection of its own.
func (a *Archive) listen(ctx context.Context) error {
	if a.listener == nil {
		c, err := pgx.ConnectConfig(ctx, a.pool.Config().ConnConfig)
		if err != nil {
			return err
		}
		a.listener = c
		_, err = c.Exec(ctx, "LISTEN "+channel)
		return err // changes from before are to be read now
	}
	if _, err := a.listener.WaitForNotification(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// hangUp closes the listener's connection. It has nothing to say at the end.
func (a *Archive) hangUp() {
	if a.listener != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = a.listener.Close(ctx)
		a.listener = nil
	}
}

var _ store.Archive = (*Archive)(nil)
