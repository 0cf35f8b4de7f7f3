package relational

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"dyno/services/bot/store"
)

// Objects is the migration that makes the table of objects.
const Objects = `CREATE TABLE objects (
		kind text NOT NULL, id text NOT NULL, key text NOT NULL, team text NOT NULL, usr text NOT NULL, upstream text NOT NULL, model text NOT NULL,
		at bigint NOT NULL, prompt bigint NOT NULL, completion bigint NOT NULL,
		PRIMARY KEY (kind, id)
	);
	CREATE INDEX objects_by_time ON objects (kind, at);
	CREATE INDEX objects_by_owner ON objects (kind, team, key, at);`

// Bills is the migration that adds to objects what is charged by an estimate.
const Bills = `ALTER TABLE objects ADD COLUMN bill text NOT NULL DEFAULT '';
	ALTER TABLE objects ADD COLUMN due bigint NOT NULL DEFAULT 0;
	CREATE INDEX objects_by_due ON objects (due) WHERE due > 0;`

// pruneEvery is how many objects are kept before the oldest are removed.
const pruneEvery = 1 << 10

// Keep is store.Objects's.
func (d *Database) Keep(ctx context.Context, list ...store.Object) error {
	rows, args := make([]string, len(list)), make([]any, 0, 10*len(list))
	for i, o := range list {
		n := len(args)
		args = append(args, o.Kind, o.ID, o.Key, o.Team, o.User, o.Upstream, o.Model, o.At.UnixMicro(), o.Prompt, o.Completion)
		rows[i] = fmt.Sprintf("($%d, $%d, $%d, $%d, $%d, $%d, $%d, $%d, $%d, $%d)", n+1, n+2, n+3, n+4, n+5, n+6, n+7, n+8, n+9, n+10)
	}
	_, err := d.Writer.ExecContext(ctx, `INSERT INTO objects (kind, id, key, team, usr, upstream, model, at, prompt, completion) VALUES `+strings.Join(rows, ", ")+` ON CONFLICT DO NOTHING`, args...)
	for _, o := range list {
		if err == nil && d.kept.Add(1)%pruneEvery == 0 {
			before := o.At.Add(-store.ObjectAge)
			if store.Lasting[o.Kind] {
				before = time.Unix(0, 0)
			}
			err = d.Prune(ctx, o.Kind, before, store.MaxObjects)
		}
	}
	return err
}

// Prune removes a kind's objects from before a time, and all but the newest.
func (d *Database) Prune(ctx context.Context, kind string, before time.Time, most int) error {
	_, err := d.Writer.ExecContext(ctx, `DELETE FROM objects WHERE kind = $1 AND (at < $2 OR at <= (SELECT at FROM objects WHERE kind = $1 ORDER BY at DESC LIMIT 1 OFFSET $3))`, kind, before.UnixMicro(), most)
	return err
}

// Forget is store.Objects's.
func (d *Database) Forget(ctx context.Context, o store.Object) error {
	_, err := d.Writer.ExecContext(ctx, `DELETE FROM objects WHERE kind = $1 AND id = $2`, o.Kind, o.ID)
	return err
}

// Objects is store.Objects's.
func (d *Database) Objects(ctx context.Context, by store.Object, after string, most int) (list []store.Object, err error) {
	where, args := `id = $2`, []any{by.Kind, by.ID}
	if by.ID == "" {
		where = `team = $2 AND ($2 <> '' OR key = $3) AND ($4 = '' OR usr = $4) AND ($5 = '' OR (at, id) < (SELECT at, id FROM objects WHERE kind = $1 AND id = $5)) ORDER BY at DESC, id DESC LIMIT $6`
		args = []any{by.Kind, by.Team, by.Key, by.User, after, most}
	}
	return d.objects(ctx, `kind = $1 AND `+where, args...)
}

func (d *Database) objects(ctx context.Context, where string, args ...any) (list []store.Object, err error) {
	err = d.each(ctx, `SELECT kind, id, key, team, usr, upstream, model, at, prompt, completion, bill, due FROM objects WHERE `+where, args, func(rows *sql.Rows) error {
		var o store.Object
		var at, due int64
		err := rows.Scan(&o.Kind, &o.ID, &o.Key, &o.Team, &o.User, &o.Upstream, &o.Model, &at, &o.Prompt, &o.Completion, &o.Bill, &due)
		if o.At = time.UnixMicro(at).UTC(); due > 0 {
			o.Due = time.UnixMicro(due).UTC()
		}
		list = append(list, o)
		return err
	})
	return list, err
}

// Due is store.Objects's.
func (d *Database) Due(ctx context.Context, before time.Time, most int) ([]store.Object, error) {
	return d.objects(ctx, `due > 0 AND due < $1 ORDER BY due LIMIT $2`, before.UnixMicro(), most)
}

// Bill is store.Objects's.
func (d *Database) Bill(ctx context.Context, o store.Object, bill string, due time.Time) (bool, error) {
	done, err := d.Writer.ExecContext(ctx, `UPDATE objects SET bill = $1, due = CAST($2 AS bigint) WHERE kind = $3 AND id = $4 AND bill = $5 AND (CAST($2 AS bigint) = 0 OR due = $6)`,
		bill, Microseconds(due), o.Kind, o.ID, o.Bill, Microseconds(o.Due))
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n > 0, err
}

// Microseconds returns a time in microseconds since 1970; 0 for the zero time.
func Microseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
