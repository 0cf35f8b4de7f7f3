// Package pgcopy writes the bot gateway's records to PostgreSQL by COPY, which report R2 compares with the gateway's arrays.
package pgcopy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"dyno/services/bot/store"
	"dyno/services/bot/store/postgres"
	"dyno/services/bot/store/relational"
)

// An Archive is the gateway's, but for Write. Its methods may be called from any goroutine.
type Archive struct {
	*postgres.Archive
	writer *pgxpool.Pool
}

// Open connects to the database of a connection string.
func Open(ctx context.Context, url string) (*Archive, error) {
	a, err := postgres.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	writer, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return &Archive{a, writer}, nil
}

// Close closes the connections.
func (a *Archive) Close() error {
	a.writer.Close()
	return a.Archive.Close()
}

// Names of columns, in the order in which they are copied.
var (
	turnNames  = []string{"session", "number", "id", "at", "said", "reply", "tokens"}
	entryNames = []string{"id", "at", "key", "usr", "session", "endpoint", "model", "upstream", "outcome", "stream", "cached", "prompt", "completion", "estimated", "money", "attempts", "queue", "first_byte", "took", "team", "owner", "unit", "units", "kinds", "price"}
)

// clean is text as PostgreSQL can have it: UTF-8 without zero bytes.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
}

// Write is store.Archive's, in one transaction.
func (a *Archive) Write(ctx context.Context, records []store.Record) ([]error, error) {
	var turns, entries [][]any
	var prices pgx.Batch
	for _, r := range records {
		if t := r.Turn; t != nil {
			turns = append(turns, []any{clean(t.Session), t.Number, t.ID, t.At, clean(t.User), clean(t.Reply), t.Tokens})
		}
		if e := r.Entry; e != nil {
			entries = append(entries, []any{
				e.ID, e.At, clean(e.Key), clean(e.User), clean(e.Session), clean(e.Endpoint), clean(e.Model), clean(e.Upstream), clean(e.Outcome), e.Stream, e.Cached,
				e.Prompt, e.Completion, e.Estimated, e.Money, e.Attempts, e.Queue.Microseconds(), e.FirstByte.Microseconds(), e.Took.Microseconds(), clean(e.Team), clean(e.Owner), e.Unit, e.Units, e.Kinds, e.Price,
			})
		}
		if r.Price != nil {
			prices.Queue(relational.InsertPrice, r.Price.Name, r.Price.Terms)
		}
	}
	each := make([]error, len(records))
	err := pgx.BeginFunc(ctx, a.writer, func(tx pgx.Tx) error {
		if err := tx.SendBatch(ctx, &prices).Close(); err != nil {
			return err
		}
		if err := copyTo(ctx, tx, "turns", turnNames, turns, ` ON CONFLICT DO NOTHING`); err != nil {
			return err
		}
		if err := copyTo(ctx, tx, "entries", entryNames, entries, relational.ReplaceUnfinished); err != nil {
			return err
		}
		if len(turns) == 0 {
			return nil
		}
		return conflicts(ctx, tx, records, each)
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: copy: %w", err)
	}
	return each, nil
}

// conflicts finds the turns whose number another turn has.
func conflicts(ctx context.Context, tx pgx.Tx, records []store.Record, each []error) error {
	var sessions []string
	var numbers []int64
	var places []int // of turns, in records
	for i, r := range records {
		if r.Turn != nil {
			sessions, numbers, places = append(sessions, clean(r.Turn.Session)), append(numbers, r.Turn.Number), append(places, i)
		}
	}
	kept, err := tx.Query(ctx, `SELECT w.i, t.id FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS w (session, number, i) JOIN turns t USING (session, number)`, sessions, numbers)
	if err != nil {
		return err
	}
	var i int
	var id string
	_, err = pgx.ForEachRow(kept, []any{&i, &id}, func() error {
		if place := places[i-1]; id != records[place].Turn.ID {
			each[place] = store.ErrConflict
		}
		return nil
	})
	return err
}

// copyTo copies rows into a table through a temporary table, because COPY itself fails for rows that exist. Conflict ends
// the statement that takes them from there, and says what becomes of these.
func copyTo(ctx context.Context, tx pgx.Tx, table string, names []string, rows [][]any, conflict string) error {
	if len(rows) == 0 {
		return nil
	}
	own := table + "_coming"
	if _, err := tx.Exec(ctx, `CREATE TEMPORARY TABLE IF NOT EXISTS `+own+` (LIKE `+table+`) ON COMMIT DELETE ROWS`); err != nil {
		return err
	}
	if _, err := tx.CopyFrom(ctx, pgx.Identifier{"pg_temp", own}, names, pgx.CopyFromRows(rows)); err != nil {
		return err
	}
	list := strings.Join(names, ", ")
	_, err := tx.Exec(ctx, `INSERT INTO `+table+` (`+list+`) SELECT DISTINCT ON (id) `+list+` FROM pg_temp.`+own+conflict)
	return err
}

var _ store.Archive = (*Archive)(nil)
