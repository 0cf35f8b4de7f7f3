// Package relational has what SQLite and PostgreSQL do by the same statements: the directory, objects, and sums of the ledger.
package relational

import (
	"context"
	"database/sql"
	"encoding/json"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"dyno/services/bot/store"
)

// Directory is the migration that makes the directory's tables. It adds to the ledger who has a key, too.
const Directory = `CREATE TABLE directory (
		kind text NOT NULL, id text NOT NULL, version bigint NOT NULL UNIQUE, body text NOT NULL,
		PRIMARY KEY (kind, id)
	);
	CREATE TABLE directory_version (version bigint NOT NULL);
	INSERT INTO directory_version VALUES (0);
	CREATE TABLE audit (
		version bigint NOT NULL PRIMARY KEY, at bigint NOT NULL, who text NOT NULL, action text NOT NULL,
		kind text NOT NULL, id text NOT NULL, before text NOT NULL, after text NOT NULL
	);
	ALTER TABLE entries ADD COLUMN team text NOT NULL DEFAULT '';
	ALTER TABLE entries ADD COLUMN owner text NOT NULL DEFAULT '';
	CREATE INDEX entries_by_team ON entries (team, at) WHERE team <> '';
	CREATE INDEX entries_by_owner ON entries (owner, at) WHERE owner <> '';
	CREATE INDEX entries_by_time ON entries (at);`

// Prices is the migration that adds to the ledger by what price an entry was charged.
const Prices = `CREATE INDEX turns_by_time ON turns (at);
	CREATE TABLE prices (name text NOT NULL PRIMARY KEY, terms text NOT NULL);
	ALTER TABLE entries ADD COLUMN kinds text NOT NULL DEFAULT '';
	ALTER TABLE entries ADD COLUMN price text NOT NULL DEFAULT '';`

// InsertPrice keeps a price once.
const InsertPrice = `INSERT INTO prices (name, terms) VALUES ($1, $2) ON CONFLICT DO NOTHING`

// ReplaceUnfinished ends the statement that inserts entries.
const ReplaceUnfinished = ` ON CONFLICT (id) DO UPDATE SET upstream = excluded.upstream, outcome = excluded.outcome, prompt = excluded.prompt, completion = excluded.completion, estimated = excluded.estimated,
	money = excluded.money, attempts = excluded.attempts, took = excluded.took, units = excluded.units, kinds = excluded.kinds, price = excluded.price WHERE entries.outcome = '` + store.Unfinished + `'`

// A Database is where the tables are. Its methods may be called from any goroutine.
type Database struct {
	Reader, Writer *sql.DB
	Time           func(time.Time) any // a time as the column entries.at has it
	Micros, Day    string              // expressions: the microseconds of entries.at since 1970, and its day
	Notify         string              // a statement that tells other gateways of a change; "" is none
	User           string              // the column of entries for the user
	Alone, Belongs string              // expressions: no other gateway expires anything; a turn's session is that of the user $1, who is escaped

	kept atomic.Uint64 // objects
}

// Sum is store.Archive's.
func (d *Database) Sum(ctx context.Context, p store.Part, from time.Time) (c store.Cost, err error) {
	query, args := d.SumQuery(p, from)
	err = d.Reader.QueryRowContext(ctx, query, args...).Scan(&c.Requests, &c.Tokens, &c.Money)
	return c, err
}

// SumQuery returns the statement of Sum, and its arguments.
func (d *Database) SumQuery(p store.Part, from time.Time) (query string, args []any) {
	column, value := "key", p.Key
	switch {
	case p.Team != "":
		column, value = "team", p.Team
	case p.Owner != "":
		column, value = "owner", p.Owner
	}
	query = `SELECT count(*), CAST(coalesce(sum(prompt + completion) FILTER (WHERE NOT cached), 0) AS bigint), CAST(coalesce(sum(money), 0) AS bigint) FROM entries WHERE ` + column + ` = $1 AND at >= $2`
	args = []any{value, d.Time(from)}
	if p.Team != "" || p.Owner != "" {
		query += ` AND ` + column + ` <> ''` // so that a partial index is used
	}
	if before, many := strings.CutSuffix(p.Model, "*"); many {
		query, args = query+` AND substr(model, 1, length(CAST($3 AS text))) = CAST($3 AS text)`, append(args, before)
	} else if p.Model != "" {
		query, args = query+` AND model = $3`, append(args, p.Model)
	}
	return query, args
}

// Usage is store.Archive's.
func (d *Database) Usage(ctx context.Context, by store.Grouping, from, to time.Time, most int) (list []store.Usage, err error) {
	columns := []string{`CAST('' AS text)`, `CAST('' AS text)`, `CAST('' AS text)`, `CAST('' AS text)`, `CAST(0 AS bigint)`}
	for i, is := range []bool{by.Key, by.Team, by.Owner, by.Model, by.Day} {
		if is {
			columns[i] = []string{"key", "team", "owner", "model", d.Day}[i]
		}
	}
	query := `SELECT ` + strings.Join(columns, ", ") + `, count(*), CAST(coalesce(sum(prompt) FILTER (WHERE NOT cached), 0) AS bigint),
		CAST(coalesce(sum(completion) FILTER (WHERE NOT cached), 0) AS bigint), CAST(coalesce(sum(money), 0) AS bigint)
		FROM entries WHERE at >= $1 AND at < $2 GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5 LIMIT $3`
	err = d.each(ctx, query, []any{d.Time(from), d.Time(to), most}, func(rows *sql.Rows) error {
		var u store.Usage
		err := rows.Scan(&u.Key, &u.Team, &u.Owner, &u.Model, &u.Day, &u.Requests, &u.Prompt, &u.Completion, &u.Money)
		list = append(list, u)
		return err
	})
	return list, err
}

// Prices is store.Archive's.
func (d *Database) Prices(ctx context.Context) (map[string]json.RawMessage, error) {
	prices := map[string]json.RawMessage{}
	err := d.each(ctx, `SELECT name, terms FROM prices`, nil, func(rows *sql.Rows) error {
		var name, terms string
		err := rows.Scan(&name, &terms)
		prices[name] = json.RawMessage(terms)
		return err
	})
	return prices, err
}

// Entries is store.Archive's.
func (d *Database) Entries(ctx context.Context, key string, most int) (list []store.Entry, err error) {
	err = d.each(ctx, `SELECT id, `+d.Micros+`, team, owner, `+d.User+`, session, endpoint, model, upstream, outcome, stream, cached, prompt, completion, estimated, kinds, money, price, attempts,
		queue, first_byte, took, unit, units FROM entries WHERE key = $1 ORDER BY at DESC LIMIT $2`, []any{key, most}, func(rows *sql.Rows) error {
		e := store.Entry{Key: key}
		var at, queue, first, took int64
		err := rows.Scan(&e.ID, &at, &e.Team, &e.Owner, &e.User, &e.Session, &e.Endpoint, &e.Model, &e.Upstream, &e.Outcome, &e.Stream, &e.Cached, &e.Prompt, &e.Completion, &e.Estimated,
			&e.Kinds, &e.Money, &e.Price, &e.Attempts, &queue, &first, &took, &e.Unit, &e.Units)
		e.At = time.UnixMicro(at).UTC()
		e.Queue, e.FirstByte, e.Took = time.Duration(queue)*time.Microsecond, time.Duration(first)*time.Microsecond, time.Duration(took)*time.Microsecond
		list = append(list, e)
		return err
	})
	return list, err
}

// Expire is store.Archive's.
func (d *Database) Expire(ctx context.Context, what string, before time.Time, most int) (int64, error) {
	key, at := map[string]string{"turns": "session, number", "entries": "id", "audit": "version"}[what], d.Time(before)
	if what == "audit" {
		at = before.UnixMicro()
	}
	done, err := d.Writer.ExecContext(ctx, `DELETE FROM `+what+` WHERE (`+key+`) IN (SELECT `+key+` FROM `+what+` WHERE `+d.Alone+` AND at < $1 LIMIT $2)`, at, most)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// Erase is store.Archive's.
func (d *Database) Erase(ctx context.Context, user string) error {
	_, err := d.Writer.ExecContext(ctx, `DELETE FROM turns WHERE `+d.Belongs, url.QueryEscape(user))
	if err == nil {
		_, err = d.Writer.ExecContext(ctx, `UPDATE entries SET `+d.User+` = '', owner = '', session = '' WHERE `+d.User+` = $1 OR owner = $1`, user)
	}
	if err == nil {
		_, err = d.Writer.ExecContext(ctx, `UPDATE objects SET usr = '' WHERE usr = $1`, user)
	}
	return err
}

// each calls f for each row of a query.
func (d *Database) each(ctx context.Context, query string, args []any, f func(*sql.Rows) error) error {
	rows, err := d.Reader.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // rows.Err has told
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Rows is store.Directory's.
func (d *Database) Rows(ctx context.Context, after int64, most int) (list []store.Row, err error) {
	err = d.each(ctx, `SELECT kind, id, version, body FROM directory WHERE version > $1 ORDER BY version LIMIT $2`, []any{after, most}, func(rows *sql.Rows) error {
		var r store.Row
		err := rows.Scan(&r.Kind, &r.ID, &r.Version, &r.Body)
		list = append(list, r)
		return err
	})
	return list, err
}

// Change is store.Directory's. The row of the version is locked until the end, so that versions are committed in their
// order.
func (d *Database) Change(ctx context.Context, r store.Row, a store.Audit) error {
	tx, err := d.Writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	done, err := tx.ExecContext(ctx, `UPDATE directory_version SET version = $1 WHERE version = $1 - 1`, r.Version)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil {
		return err
	} else if n == 0 {
		return store.ErrStale
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO directory (kind, id, version, body) VALUES ($1, $2, $3, $4)
		ON CONFLICT (kind, id) DO UPDATE SET version = excluded.version, body = excluded.body`, r.Kind, r.ID, r.Version, r.Body); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO audit (version, at, who, action, kind, id, before, after) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		a.Version, a.At.UnixMicro(), a.By, a.Action, a.Kind, a.ID, a.Before, a.After); err != nil {
		return err
	}
	if d.Notify != "" {
		if _, err := tx.ExecContext(ctx, d.Notify); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// Audits is store.Directory's.
func (d *Database) Audits(ctx context.Context, before int64, most int) (list []store.Audit, err error) {
	err = d.each(ctx, `SELECT version, at, who, action, kind, id, before, after FROM audit WHERE version < $1 ORDER BY version DESC LIMIT $2`, []any{before, most}, func(rows *sql.Rows) error {
		var a store.Audit
		var at int64
		err := rows.Scan(&a.Version, &at, &a.By, &a.Action, &a.Kind, &a.ID, &a.Before, &a.After)
		a.At = time.UnixMicro(at).UTC()
		list = append(list, a)
		return err
	})
	return list, err
}
