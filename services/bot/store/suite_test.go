package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"dyno/internal/leak"
	"dyno/services/bot/store"
	"dyno/services/bot/store/memory"
	"dyno/services/bot/store/postgres"
	"dyno/services/bot/store/redis"
	"dyno/services/bot/store/sqlite"
	"dyno/services/bot/store/storetest"
)

// TestMain ends the servers after the tests, and before it looks for goroutines.
func TestMain(m *testing.M) { os.Exit(leak.Checked(storetest.Ending{Tests: m})) }

// closing closes something at the end of a test.
func closing(t testing.TB, closer interface{ Close() error }) {
	t.Cleanup(func() {
		if err := closer.Close(); err != nil {
			t.Error(err)
		}
	})
}

func openSQLite(t testing.TB, path string) *sqlite.Archive {
	t.Helper()
	a, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, a)
	return a
}

var names atomic.Int64

func openRedis(t testing.TB) *redis.Store {
	t.Helper()
	c := redis.Defaults()
	c.Address, c.Prefix, c.Timeout = storetest.SharedRedis.Use(t), fmt.Sprint("test", names.Add(1)), 20*time.Second
	s, err := redis.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, s)
	return s
}

func openPostgres(t testing.TB) *postgres.Archive {
	t.Helper()
	url := storetest.SharedPostgres.Use(t)
	if err := storetest.Clear(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	a, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, a)
	return a
}

// Each kind of store is opened empty.
var (
	archives = map[string]func(testing.TB) store.Archive{
		"memory":   func(testing.TB) store.Archive { return memory.NewArchive(memory.DefaultBounds()) },
		"sqlite":   func(t testing.TB) store.Archive { return openSQLite(t, filepath.Join(t.TempDir(), "a file?#%.db")) },
		"postgres": func(t testing.TB) store.Archive { return openPostgres(t) },
	}
	coordinators = map[string]func(testing.TB) store.Coordinator{
		"memory": func(testing.TB) store.Coordinator { return memory.NewCoordinator(1000) },
		"redis":  func(t testing.TB) store.Coordinator { return openRedis(t) },
	}
)

// acquire and release lock and unlock a session alone, reserve and settle are of limits alone.
func acquire(ctx context.Context, c store.Coordinator, session, holder string) (int64, error) {
	return c.Begin(ctx, &store.Lock{Session: session, Holder: holder, Lease: time.Hour}, nil)
}

func release(ctx context.Context, c store.Coordinator, session, holder string, turns int64) error {
	return c.End(ctx, &store.Lock{Session: session, Holder: holder}, turns, nil, store.Cost{})
}

func reserve(ctx context.Context, c store.Coordinator, key string, limits []store.Limit, cost store.Cost, now time.Time, lease time.Duration) (*store.Reservation, error) {
	r := &store.Reservation{ID: store.NewID(), Key: key, Limits: limits, Cost: cost, At: now, Lease: lease}
	_, err := c.Begin(ctx, nil, r)
	return r, err
}

func settle(ctx context.Context, c store.Coordinator, r *store.Reservation, used store.Cost) error {
	return c.End(ctx, nil, store.Unknown, r, used)
}

// each runs a test on every kind.
func each[S any](t *testing.T, kinds map[string]func(testing.TB) S, test func(t *testing.T, s S)) {
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		t.Run(name, func(t *testing.T) { test(t, kinds[name](t)) })
	}
}

var epoch = time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)

func turn(session string, number int64, id string) *store.Turn {
	return &store.Turn{ID: id, Session: session, Number: number, At: epoch.Add(time.Duration(number) * time.Second), User: "said " + id, Reply: "天气 " + id, Tokens: int(number)}
}

func write(t testing.TB, a store.Archive, records ...store.Record) []error {
	t.Helper()
	errs, err := a.Write(t.Context(), records)
	if err != nil {
		t.Fatal(err)
	}
	return errs
}

func TestTurns(t *testing.T) {
	each(t, archives, func(t *testing.T, a store.Archive) {
		check := func(session string, most int, count int64, want ...*store.Turn) {
			t.Helper()
			got, n, err := a.Turns(t.Context(), session, most)
			var list []store.Turn
			for _, w := range want {
				list = append(list, *w)
			}
			if diff := cmp.Diff(list, got, cmpopts.EquateEmpty()); err != nil || n != count || diff != "" {
				t.Errorf("%s: %d turns, want %d, %v\n%s", session, n, count, err, diff)
			}
		}
		check("none", 5, 0)
		one, two, three := turn("s", 1, "a"), turn("s", 2, "b"), turn("s", 3, "c")
		errs := write(t, a, store.Record{Turn: one}, store.Record{Turn: turn("other", 1, "x")}, store.Record{Turn: two})
		if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
			t.Error(errs)
		}
		write(t, a, store.Record{Turn: three})
		check("s", 5, 3, one, two, three)
		check("s", 2, 3, two, three)
		check("s", 0, 3)
		check("other", 5, 1, turn("other", 1, "x"))
		// The same again is kept once; another of that number is refused, and the rest kept.
		errs = write(t, a, store.Record{Turn: two}, store.Record{Turn: turn("s", 3, "d")}, store.Record{Turn: turn("s", 4, "e")}, store.Record{Turn: turn("s", 4, "f")})
		for i, want := range []error{nil, store.ErrConflict, nil, store.ErrConflict} {
			if !errors.Is(errs[i], want) {
				t.Errorf("record %d: %v, want %v", i, errs[i], want)
			}
		}
		check("s", 9, 4, one, two, three, turn("s", 4, "e"))
	})
}

// TestStrangeText is kept as it is, as far as the store can.
func TestStrangeText(t *testing.T) {
	each(t, archives, func(t *testing.T, a store.Archive) {
		for i, text := range []string{"", "'; DROP TABLE turns; --", "line\nline\ttab", strings.Repeat("长", 10000), "zero\x00byte", "\xff\xfe"} {
			s := fmt.Sprint("s", i)
			r := turn(s, 1, "x")
			r.User, r.Reply = text, text
			write(t, a, store.Record{Turn: r})
			got, _, err := a.Turns(t.Context(), s, 1)
			if err != nil || len(got) != 1 {
				t.Fatalf("%q: %v, %v", text, got, err)
			}
			if replaced := strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd"); got[0].User != text && got[0].User != replaced {
				t.Errorf("%q became %q", text, got[0].User)
			}
		}
	})
}

func entry(id string, at time.Time) *store.Entry {
	return &store.Entry{ID: id, At: at, Key: "k", User: "u", Session: "s", Endpoint: "chat", Model: "m", Upstream: "up", Outcome: "ok", Unit: "images", Units: 2, Stream: true, Cached: true,
		Prompt: 10, Completion: 5, Kinds: `{"cached":3}`, Price: "00c0ffee", Estimated: true, Money: 1 << 55, Attempts: 2, Queue: 3 * time.Microsecond, FirstByte: 4 * time.Millisecond, Took: 5 * time.Second}
}

func TestLedger(t *testing.T) {
	each(t, archives, func(t *testing.T, a store.Archive) {
		one, two := entry("1", epoch), entry("2", epoch.Add(time.Hour))
		two.Team, two.Owner = "t", "o"
		two.Stream, two.Cached, two.Estimated, two.Money = false, false, false, 7
		other := entry("3", epoch)
		other.Key = "other"
		write(t, a, store.Record{Entry: one}, store.Record{Entry: two}, store.Record{Entry: other}, store.Record{Entry: one})
		write(t, a, store.Record{Entry: two, Turn: turn("s", 1, "a")}) // the same again, with something new
		got, err := a.Entries(t.Context(), "k", 10)
		if diff := cmp.Diff([]store.Entry{*two, *one}, got); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
		price := store.Price{Name: "00c0ffee", Terms: `{"prompt":5}`}
		write(t, a, store.Record{Entry: one, Price: &price}, store.Record{Entry: other, Price: &store.Price{Name: "0", Terms: "{}"}})
		write(t, a, store.Record{Entry: one, Price: &store.Price{Name: price.Name, Terms: price.Terms}}) // by another gateway
		if got, err := a.Prices(t.Context()); err != nil || len(got) != 2 || string(got["0"]) != "{}" || string(got[price.Name]) != price.Terms {
			t.Errorf("prices: %+v, %v", got, err)
		}
		if got, err := a.Entries(t.Context(), "k", 1); err != nil || len(got) != 1 || got[0].ID != "2" {
			t.Errorf("the last: %+v, %v", got, err)
		}
		for from, want := range map[time.Time]store.Cost{
			{}:                          {Requests: 2, Tokens: 15, Money: 1<<55 + 7},
			epoch:                       {Requests: 2, Tokens: 15, Money: 1<<55 + 7},
			epoch.Add(time.Microsecond): {Requests: 1, Tokens: 15, Money: 7},
			epoch.Add(2 * time.Hour):    {},
		} {
			if got, err := a.Sum(t.Context(), store.Part{Key: "k"}, from); err != nil || got != want {
				t.Errorf("from %v: %+v, %v, want %+v", from, got, err, want)
			}
		}
		if _, n, err := a.Turns(t.Context(), "s", 1); err != nil || n != 1 {
			t.Errorf("the turn with it: %d, %v", n, err)
		}
	})
}

// TestUnfinished: a finished entry replaces one that is not, and nothing replaces it.
func TestUnfinished(t *testing.T) {
	each(t, archives, func(t *testing.T, a store.Archive) {
		first, second, own := entry("1", epoch), entry("1", epoch), entry("1", epoch)
		first.Outcome, first.Completion, first.Money, first.Price = store.Unfinished, 1, 1, "before"
		second.Outcome, second.Completion = store.Unfinished, 2
		for i, e := range []*store.Entry{first, second, first, own, second} {
			write(t, a, store.Record{Entry: e})
			want := []*store.Entry{first, second, first, own, own}[i]
			if got, err := a.Entries(t.Context(), "k", 9); err != nil || len(got) != 1 || cmp.Diff(*want, got[0]) != "" {
				t.Errorf("%+v, %v", got, err)
			}
		}
	})
}

// TestExpire: what is older than a time goes, a part at a time, and nothing else.
func TestExpire(t *testing.T) {
	each(t, archives, func(t *testing.T, a store.Archive) {
		if _, ok := a.(*memory.Archive); ok {
			return // it has bounds
		}
		for i := range 5 {
			id, at := fmt.Sprint(i), epoch.Add(time.Duration(i+1)*time.Second)
			write(t, a, store.Record{Turn: turn("s", int64(i+1), id), Entry: entry(id, at)})
			if err := a.Change(t.Context(), store.Row{Kind: "k", ID: id, Version: int64(i + 1)}, store.Audit{Version: int64(i + 1), At: at}); err != nil {
				t.Fatal(err)
			}
		}
		for _, what := range []string{"turns", "entries", "audit"} {
			for _, want := range []int64{2, 1, 0} {
				if n, err := a.Expire(t.Context(), what, epoch.Add(4*time.Second), 2); err != nil || n != want {
					t.Errorf("%s: %d, %v, want %d", what, n, err, want)
				}
			}
		}
		turns, count, err := a.Turns(t.Context(), "s", 9)
		if err != nil || len(turns) != 2 || count != 5 || turns[0].Number != 4 {
			t.Errorf("%+v, %d, %v", turns, count, err)
		}
		if list, err := a.Entries(t.Context(), "k", 9); err != nil || len(list) != 2 || list[1].ID != "3" {
			t.Errorf("%+v, %v", list, err)
		}
		if list, err := a.Audits(t.Context(), 99, 9); err != nil || len(list) != 2 || list[1].Version != 4 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// TestExpireAlone: while one gateway deletes, another with the same database does not.
func TestExpireAlone(t *testing.T) {
	a := openPostgres(t)
	write(t, a, store.Record{Entry: entry("1", epoch)})
	c, err := pgx.Connect(t.Context(), storetest.SharedPostgres.Use(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT "+a.Alone); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Expire(t.Context(), "entries", epoch.Add(1), 9); err != nil || n != 0 {
		t.Errorf("%d, %v", n, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Expire(t.Context(), "entries", epoch.Add(time.Hour), 9); err != nil || n != 1 {
		t.Errorf("afterwards: %d, %v", n, err)
	}
}

// TestErase: the turns of one user go, with any key, and the name in the ledger and at objects, which stay.
func TestErase(t *testing.T) {
	each(t, archives, func(t *testing.T, a store.Archive) {
		stay := []string{"k/b/U+%26%2A/h", "k/u+%26%2A/x/h", "k/b/x/u+%26%2A", "k/b/u+%26%2Aa/h"}
		for i, session := range append([]string{"k/b/u+%26%2A/h", "other/c/u+%26%2A/"}, stay...) {
			write(t, a, store.Record{Turn: turn(session, 1, fmt.Sprint(i))})
		}
		his, owned, other := entry("1", epoch.Add(2*time.Microsecond)), entry("2", epoch.Add(time.Second)), entry("3", epoch)
		his.User, owned.Owner, other.User = "u &*", "u &*", "u"
		for _, e := range []*store.Entry{his, owned, other} {
			write(t, a, store.Record{Entry: e})
		}
		objects := []store.Object{{ID: "o3", User: "u"}, {ID: "o2", User: "u &*"}, {ID: "o1"}}
		for i := range objects {
			o := &objects[i]
			o.Kind, o.Key, o.At = "file", "k", epoch.Add(-time.Duration(i)*time.Second)
		}
		for _, o := range slices.Backward(objects) {
			if err := a.Keep(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Erase(t.Context(), "u &*"); err != nil {
			t.Fatal(err)
		}
		for i, session := range append([]string{"k/b/u+%26%2A/h", "other/c/u+%26%2A/"}, stay...) {
			if _, n, err := a.Turns(t.Context(), session, 1); err != nil || (n == 1) != (i >= 2) {
				t.Errorf("%s: %d, %v", session, n, err)
			}
		}
		his.User, his.Session, owned.Owner, owned.User, owned.Session = "", "", "", "", ""
		got, err := a.Entries(t.Context(), "k", 9)
		if diff := cmp.Diff([]store.Entry{*owned, *his, *other}, got, cmpopts.SortSlices(func(a, b store.Entry) bool { return a.ID < b.ID })); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
		objects[1].User = ""
		list, err := a.Objects(t.Context(), store.Object{Kind: "file", Key: "k"}, "", 9)
		for i := range list {
			list[i].At = list[i].At.UTC()
		}
		if diff := cmp.Diff(objects, list); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

// TestEraseCounts: what is known of the sessions of one user, and used of the user's limits, goes. A session that is
// locked stays.
func TestEraseCounts(t *testing.T) {
	each(t, coordinators, func(t *testing.T, c store.Coordinator) {
		ctx := t.Context()
		turns := func(session string) int64 {
			t.Helper()
			n, err := acquire(ctx, c, session, "again")
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		his, others := []string{"k/b/u+%2A/h", "other/c/u+%2A/"}, []string{"k/b/u+%2Ax/h", "k/u+%2A/x/h", "k/b/x/u+%2A"}
		for _, session := range append(his, others...) {
			if turns(session) != store.Unknown {
				t.Errorf("%s is known", session)
			}
			if err := release(ctx, c, session, "again", 7); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := acquire(ctx, c, "k/b/u+%2A/busy", "busy"); err != nil {
			t.Fatal(err)
		}
		var limits []store.Limit
		for _, p := range []store.Part{{Owner: "u *"}, {Owner: "u *x"}, {Team: "u *"}, {}} {
			limits = append(limits, store.Limit{Resource: store.Requests, Amount: 9, Window: time.Hour, Part: p})
		}
		under, err := reserve(ctx, c, "u *", limits, store.Cost{Requests: 3}, epoch, time.Hour)
		if err != nil || !slices.Equal(under.Used, []int64{3, 3, 3, 3}) {
			t.Fatal(under.Used, err)
		}
		if err := c.Erase(ctx, "u *"); err != nil {
			t.Fatal(err)
		}
		for _, session := range his {
			if n := turns(session); n != store.Unknown {
				t.Errorf("%s: %d", session, n)
			}
		}
		for _, session := range others {
			if n := turns(session); n != 7 {
				t.Errorf("%s: %d", session, n)
			}
		}
		if _, err := acquire(ctx, c, "k/b/u+%2A/busy", "other"); !errors.Is(err, store.ErrBusy) {
			t.Error(err)
		}
		for _, want := range [][]int64{{0, 3, 3, 3}, {0, 5, 5, 5}} {
			if got, err := c.Used(ctx, "u *", limits, epoch); err != nil || !slices.Equal(got, want) {
				t.Errorf("%v, %v, want %v", got, err, want)
			}
			if want[1] == 3 {
				if err := settle(ctx, c, under, store.Cost{Requests: 5}); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestErasedFromFile: what SQLite has deleted is not in its files any more.
func TestErasedFromFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	a, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		write(t, a, store.Record{Turn: turn("k/b/u/h", int64(i+1), fmt.Sprint("secret", i))})
	}
	if err := a.Erase(t.Context(), "u"); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), "secret") {
		t.Errorf("%d bytes have it, %v", len(text), err)
	}
}

// TestReopened: what a file and a database have kept is there afterwards, and
// migrations are made once.
func TestReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	for kind, open := range map[string]func() (store.Archive, error){
		"sqlite": func() (store.Archive, error) { return sqlite.Open(t.Context(), sqlite.Config{Path: path, Sync: true}) },
		"postgres": func() (store.Archive, error) {
			return postgres.Open(t.Context(), storetest.SharedPostgres.Use(t))
		},
	} {
		t.Run(kind, func(t *testing.T) {
			if kind == "postgres" {
				if err := storetest.Clear(t.Context(), storetest.SharedPostgres.Use(t)); err != nil {
					t.Fatal(err)
				}
			}
			var opened sync.WaitGroup // at once, as several gateways would
			for i := range 4 {
				opened.Go(func() {
					a, err := open()
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := a.Write(t.Context(), []store.Record{{Turn: turn(fmt.Sprint(i), 1, "x")}}); err != nil {
						t.Error(err)
					}
					if err := a.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			opened.Wait()
			a, err := open()
			if err != nil {
				t.Fatal(err)
			}
			closing(t, a)
			for i := range 4 {
				if _, n, err := a.Turns(t.Context(), fmt.Sprint(i), 1); err != nil || n != 1 {
					t.Errorf("session %d: %d turns, %v", i, n, err)
				}
			}
		})
	}
}

// TestOlderVersion: entries of a program that did not keep prices are read, and summed up, as before.
func TestOlderVersion(t *testing.T) {
	const before = "DROP TABLE objects; DROP INDEX turns_by_time; DROP TABLE prices; ALTER TABLE entries DROP COLUMN kinds; ALTER TABLE entries DROP COLUMN price;"
	old := entry("1", epoch)
	old.Kinds, old.Price = "", ""
	check := func(a store.Archive) {
		t.Helper()
		write(t, a, store.Record{Entry: entry("2", epoch.Add(1)), Price: &store.Price{Name: "p", Terms: "{}"}})
		if got, err := a.Entries(t.Context(), "k", 9); err != nil || len(got) != 2 || cmp.Diff(*old, got[1]) != "" {
			t.Errorf("%+v, %v", got, err)
		}
		closing(t, a)
	}
	path := filepath.Join(t.TempDir(), "db")
	file, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, store.Record{Entry: old})
	if _, err := file.Writer.ExecContext(t.Context(), before+" PRAGMA user_version = 4"); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if file, err = sqlite.Open(t.Context(), sqlite.Config{Path: path}); err != nil {
		t.Fatal(err)
	}
	check(file)

	a := openPostgres(t)
	write(t, a, store.Record{Entry: old})
	url := storetest.SharedPostgres.Use(t)
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Exec(t.Context(), before+" DELETE FROM schema_version WHERE version > 3")
	if err := errors.Join(err, c.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	if a, err = postgres.Open(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	check(a)
}

// TestLaterVersion: what a later program has made is not touched by this one.
func TestLaterVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	file, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "PRAGMA user_version = 99")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), sqlite.Config{Path: path}); err == nil || !strings.Contains(err.Error(), "is of version 99") {
		t.Errorf("%v", err)
	}

	openPostgres(t)
	url := storetest.SharedPostgres.Use(t)
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Exec(t.Context(), "INSERT INTO schema_version VALUES (99)")
	if err := errors.Join(err, c.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Open(t.Context(), url); err == nil || !strings.Contains(err.Error(), "is of version 99") {
		t.Errorf("%v", err)
	}
}

func TestSessions(t *testing.T) {
	each(t, coordinators, func(t *testing.T, s store.Coordinator) {
		ctx := t.Context()
		lock := func(session, holder string, want int64, busy error) {
			t.Helper()
			n, err := acquire(ctx, s, session, holder)
			if !errors.Is(err, busy) || err == nil && n != want {
				t.Errorf("%s for %s: %d, %v, want %d, %v", session, holder, n, err, want, busy)
			}
		}
		lock("s", "a", store.Unknown, nil)
		lock("s", "b", 0, store.ErrBusy)
		lock("s", "a", 0, store.ErrBusy)
		lock("other{}", "b", store.Unknown, nil)
		if err := release(ctx, s, "s", "b", 1); !errors.Is(err, store.ErrUnlocked) {
			t.Errorf("released by another: %v", err)
		}
		if err := s.Extend(ctx, &store.Lock{Session: "s", Holder: "b", Lease: time.Hour}); !errors.Is(err, store.ErrUnlocked) {
			t.Errorf("extended by another: %v", err)
		}
		if err := s.Extend(ctx, &store.Lock{Session: "s", Holder: "a", Lease: 2 * time.Hour}); err != nil {
			t.Error(err)
		}
		if err := release(ctx, s, "s", "a", 7); err != nil {
			t.Error(err)
		}
		if err := s.Extend(ctx, &store.Lock{Session: "s", Holder: "a", Lease: time.Hour}); !errors.Is(err, store.ErrUnlocked) {
			t.Errorf("extended after its release: %v", err)
		}
		lock("s", "b", 7, nil)
		if err := release(ctx, s, "s", "b", store.Unknown); err != nil {
			t.Error(err)
		}
		if err := release(ctx, s, "s", "b", 8); !errors.Is(err, store.ErrUnlocked) {
			t.Errorf("released twice: %v", err)
		}
		lock("s", "c", store.Unknown, nil)
	})
}

func used(t testing.TB, l store.Coordinator, key string, list []store.Limit, now time.Time) []int64 {
	t.Helper()
	n, err := l.Used(t.Context(), key, list, now)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLimits(t *testing.T) {
	each(t, coordinators, func(t *testing.T, l store.Coordinator) {
		ctx := t.Context()
		list := []store.Limit{{Resource: store.Requests, Amount: 3, Window: time.Minute}, {Resource: store.Tokens, Amount: 100, Window: time.Hour}, {Resource: store.Money, Amount: 1 << 52, Window: 0}}
		now := epoch
		take := func(cost store.Cost, want int) *store.Reservation {
			t.Helper()
			r, err := reserve(ctx, l, "k", list, cost, now, time.Hour)
			var beyond *store.LimitError
			switch {
			case want < 0 && err != nil:
				t.Errorf("%+v: %v", cost, err)
			case want >= 0 && (!errors.As(err, &beyond) || beyond.Limit != list[want]):
				t.Errorf("%+v: %v, want limit %d", cost, err, want)
			}
			return r
		}
		check := func(want ...int64) {
			t.Helper()
			if got := used(t, l, "k", list, now); !slices.Equal(got, want) {
				t.Errorf("used %v, want %v", got, want)
			}
		}
		check(0, 0, 0)
		a := take(store.Cost{Requests: 1, Tokens: 60, Money: 1<<51 + 1}, -1)
		check(1, 60, 1<<51+1)
		take(store.Cost{Requests: 1, Tokens: 41, Money: 1}, 1) // takes nothing of any
		check(1, 60, 1<<51+1)
		b := take(store.Cost{Requests: 1, Tokens: 40, Money: 1}, -1)
		take(store.Cost{Requests: 1, Tokens: 1}, 1)
		if err := settle(ctx, l, a, store.Cost{Requests: 1, Tokens: 10, Money: 3}); err != nil {
			t.Error(err)
		}
		check(2, 50, 4)
		if err := settle(ctx, l, a, store.Cost{Requests: 1, Tokens: 99}); !errors.Is(err, store.ErrGone) {
			t.Errorf("settled twice: %v", err)
		}
		take(store.Cost{Requests: 1, Tokens: 50}, -1)
		take(store.Cost{Requests: 1}, 0)
		_, err := reserve(ctx, l, "k", list, store.Cost{Requests: 1}, now, time.Hour)
		var beyond *store.LimitError
		if !errors.As(err, &beyond) || beyond.Used != 3 || beyond.RetryAfter != 55*time.Second-6*time.Microsecond {
			t.Errorf("%+v, %v", beyond, err)
		}
		// More was used than reserved: the limit is overdrawn, and says so.
		if err := settle(ctx, l, b, store.Cost{Requests: 1, Tokens: 140}); err != nil {
			t.Error(err)
		}
		check(3, 200, 3)
		// Another key has limits of its own, braces or not.
		if _, err := reserve(ctx, l, "{k}%", list, store.Cost{Requests: 3, Tokens: 100}, now, time.Hour); err != nil {
			t.Error(err)
		}
		// A new minute: requests start from 0, the rest goes on.
		now = now.Add(time.Minute)
		check(0, 200, 3)
		take(store.Cost{Requests: 1, Tokens: 1}, 1)
		now = now.Add(time.Hour)
		check(0, 0, 3)
		c := take(store.Cost{Requests: 1, Tokens: 30, Money: 5}, -1)
		now = now.Add(2 * time.Minute)
		check(0, 30, 8)
		if err := settle(ctx, l, c, store.Cost{Requests: 1, Tokens: 20, Money: 1}); err != nil { // in the minute in which it was reserved
			t.Error(err)
		}
		check(0, 20, 4)
		if got := used(t, l, "free", nil, now); len(got) != 0 {
			t.Errorf("without limits: %v", got)
		}
	})
}

// TestCorrect: a difference counts in the windows of its time, where these are still counted, for keys and teams.
func TestCorrect(t *testing.T) {
	each(t, coordinators, func(t *testing.T, l store.Coordinator) {
		list := []store.Limit{{Resource: store.Tokens, Amount: 100, Window: time.Minute}, {Resource: store.Money, Amount: 100}, {Resource: store.Requests, Amount: 9}, {Resource: store.Tokens, Amount: 500, Part: store.Part{Team: "t"}}}
		r, err := reserve(t.Context(), l, "k", list, store.Cost{Requests: 1, Tokens: 90, Money: 80}, epoch, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		correct := func(key string, at time.Time, more store.Cost, want ...int64) {
			t.Helper()
			if err := l.Correct(t.Context(), key, list, at, more); err != nil {
				t.Error(err)
			}
			if got := used(t, l, "k", list, epoch); !slices.Equal(got, want) {
				t.Errorf("used %v, want %v", got, want)
			}
		}
		correct("k", epoch, store.Cost{Tokens: -60, Money: 5}, 30, 85, 1, 30) // before it is settled
		if err := settle(t.Context(), l, r, store.Cost{Requests: 1, Tokens: 70, Money: 70}); err != nil {
			t.Error(err)
		}
		correct("k", epoch, store.Cost{Tokens: 40, Money: -70}, 50, 5, 1, 50)
		correct("k", epoch.Add(-time.Minute), store.Cost{Tokens: 2, Money: 2}, 50, 7, 1, 52)
		correct("other", epoch, store.Cost{Tokens: 3, Money: 3}, 50, 7, 1, 55)
		if got := used(t, l, "k", list, epoch.Add(-time.Minute)); got[0] != 0 {
			t.Errorf("a window that nobody counted: %v", got)
		}
	})
}

// TestGivenBack: what somebody reserved who has died is free after the lease, and cannot
// be settled then.
func TestGivenBack(t *testing.T) {
	each(t, coordinators, func(t *testing.T, l store.Coordinator) {
		list := []store.Limit{{Resource: store.Requests, Amount: 2, Window: 0}, {Resource: store.Tokens, Amount: 100, Window: 24 * time.Hour}}
		var held []*store.Reservation
		for range 2 {
			r, err := reserve(t.Context(), l, "k", list, store.Cost{Requests: 1, Tokens: 10}, epoch, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, r)
		}
		if got := used(t, l, "k", list, epoch.Add(time.Minute-time.Second)); !slices.Equal(got, []int64{2, 20}) {
			t.Errorf("before the end: %v", got)
		}
		later := epoch.Add(time.Minute + time.Second)
		if _, err := reserve(t.Context(), l, "k", list, store.Cost{Requests: 2, Tokens: 100}, later, time.Minute); err != nil {
			t.Errorf("after the end: %v", err)
		}
		for _, r := range held {
			if err := settle(t.Context(), l, r, store.Cost{Requests: 1, Tokens: 50}); !errors.Is(err, store.ErrGone) {
				t.Errorf("settled after the end: %v", err)
			}
		}
		if got := used(t, l, "k", list, later); !slices.Equal(got, []int64{2, 100}) {
			t.Errorf("afterwards: %v", got)
		}
	})
}

// TestBothOrNeither: a session and a reservation are taken together or not at all, and given back together. Each is
// given back even if the other is gone.
func TestBothOrNeither(t *testing.T) {
	each(t, coordinators, func(t *testing.T, c store.Coordinator) {
		ctx := t.Context()
		list := []store.Limit{{Resource: store.Requests, Amount: 2, Window: 0}, {Resource: store.Tokens, Amount: 100, Window: time.Hour}}
		lock := func(session, holder string) *store.Lock {
			return &store.Lock{Session: session, Holder: holder, Lease: time.Hour}
		}
		reservation := func(id string, tokens int64) *store.Reservation {
			return &store.Reservation{ID: id, Key: "k", Limits: list, Cost: store.Cost{Requests: 1, Tokens: tokens}, At: epoch, Lease: time.Hour}
		}
		begin := func(l *store.Lock, r *store.Reservation, want int64, fault error) {
			t.Helper()
			if n, err := c.Begin(ctx, l, r); !errors.Is(err, fault) || err == nil && n != want {
				t.Errorf("begin %v %v: %d, %v, want %d, %v", l, r, n, err, want, fault)
			}
		}
		end := func(l *store.Lock, turns int64, r *store.Reservation, used int64, want ...error) {
			t.Helper()
			err := c.End(ctx, l, turns, r, store.Cost{Requests: 1, Tokens: used})
			for _, fault := range []error{store.ErrUnlocked, store.ErrGone} {
				if errors.Is(err, fault) != slices.Contains(want, fault) {
					t.Errorf("end %v %v: %v, want %v", l, r, err, want)
				}
			}
		}
		check := func(want ...int64) {
			t.Helper()
			if got := used(t, c, "k", list, epoch); !slices.Equal(got, want) {
				t.Errorf("used %v, want %v", got, want)
			}
		}
		begin(lock("s", "a"), reservation("1", 60), store.Unknown, nil)
		check(1, 60)
		begin(lock("s", "b"), reservation("2", 1), 0, store.ErrBusy) // reserves nothing
		check(1, 60)
		var beyond *store.LimitError
		if _, err := c.Begin(ctx, lock("t", "b"), reservation("3", 41)); !errors.As(err, &beyond) || beyond.Limit != list[1] || beyond.Used != 60 {
			t.Errorf("over the limit: %v", err)
		}
		check(1, 60)
		begin(lock("t", "c"), nil, store.Unknown, nil) // which has locked nothing
		end(lock("t", "c"), 4, nil, 0)
		end(lock("s", "a"), 7, reservation("1", 60), 10)
		check(1, 10)
		// A refusal does not forget how many turns a session has.
		if _, err := c.Begin(ctx, lock("s", "b"), reservation("4", 91)); !errors.As(err, &beyond) {
			t.Errorf("over the limit: %v", err)
		}
		begin(lock("s", "b"), reservation("5", 90), 7, nil)
		// Settled before: the session is unlocked all the same, and the limits stay.
		end(nil, store.Unknown, reservation("5", 90), 20)
		end(lock("s", "b"), 8, reservation("5", 90), 90, store.ErrGone)
		check(2, 30)
		begin(lock("s", "c"), nil, 8, nil)
		// Unlocked before: the reservation is settled all the same.
		end(lock("s", "d"), 9, reservation("5", 90), 1, store.ErrUnlocked, store.ErrGone)
		end(lock("s", "c"), store.Unknown, nil, 0)
		begin(lock("s", "e"), nil, store.Unknown, nil)
		check(2, 30)
		begin(lock("v", "a"), nil, store.Unknown, nil)
		list = list[1:]
		begin(nil, reservation("6", 10), store.Unknown, nil)
		end(lock("v", "b"), 1, reservation("6", 10), 5, store.ErrUnlocked)
		check(35)
	})
}

// TestExpiryBetween: a turn that outlasts its lease and its reservation ends without touching what others hold by then. How many
// turns the session has is not known any more.
func TestExpiryBetween(t *testing.T) {
	each(t, coordinators, func(t *testing.T, c store.Coordinator) {
		ctx := t.Context()
		list := []store.Limit{{Resource: store.Tokens, Amount: 100, Window: time.Hour}}
		_, err := acquire(ctx, c, "s", "before")
		if err := errors.Join(err, release(ctx, c, "s", "before", 7)); err != nil {
			t.Fatal(err)
		}
		slow := &store.Lock{Session: "s", Holder: "slow", Lease: time.Hour}
		r := &store.Reservation{ID: "1", Key: "k", Limits: list, Cost: store.Cost{Tokens: 80}, At: epoch, Lease: time.Minute}
		if _, err := c.Begin(ctx, slow, r); err != nil {
			t.Fatal(err)
		}
		slow.Lease = 20 * time.Millisecond
		if err := c.Extend(ctx, slow); err != nil { // sets it
			t.Fatal(err)
		}
		next := &store.Lock{Session: "s", Holder: "next", Lease: time.Hour}
		second := &store.Reservation{ID: "2", Key: "k", Limits: list, Cost: store.Cost{Tokens: 90}, At: epoch.Add(2 * time.Minute), Lease: time.Minute}
		for {
			n, err := c.Begin(ctx, next, second)
			if errors.Is(err, store.ErrBusy) {
				continue // Redis has a clock of its own
			}
			if err != nil || n != store.Unknown {
				t.Errorf("%d, %v", n, err)
			}
			break
		}
		if err := c.End(ctx, slow, 1, r, store.Cost{Tokens: 80}); !errors.Is(err, store.ErrUnlocked) || !errors.Is(err, store.ErrGone) {
			t.Errorf("the late end: %v", err)
		}
		if got := used(t, c, "k", list, second.At); !slices.Equal(got, []int64{90}) {
			t.Errorf("used %v", got)
		}
		if err := c.End(ctx, next, 2, second, store.Cost{Tokens: 5}); err != nil {
			t.Error(err)
		}
		if got := used(t, c, "k", list, second.At); !slices.Equal(got, []int64{5}) {
			t.Errorf("used %v", got)
		}
	})
}

// TestLimitsAgree: whatever is reserved and settled, every kind says what the first
// says.
func TestLimitsAgree(t *testing.T) {
	kinds := slices.Sorted(maps.Keys(coordinators))
	open := map[string]store.Coordinator{}
	for _, kind := range kinds {
		t.Run(kind, func(t2 *testing.T) {
			if kind == "redis" {
				storetest.SharedRedis.Use(t2)
			}
			open[kind] = coordinators[kind](t)
		})
	}
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		keys := []string{fmt.Sprint("a", run), fmt.Sprint("b", run)}
		list := []store.Limit{{Resource: store.Requests, Amount: 5, Window: time.Minute}, {Resource: store.Tokens, Amount: 50, Window: time.Hour}, {Resource: store.Money, Amount: 500, Window: 0}}
		list = append(list, store.Limit{Resource: store.Requests, Amount: 7, Window: time.Hour, Part: store.Part{Team: fmt.Sprint("t", run)}})
		now := epoch
		held := map[string][]*store.Reservation{}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(rt, "seconds")) * time.Second)
			cost := store.Cost{Requests: 1, Tokens: rapid.Int64Range(0, 30).Draw(rt, "tokens"), Money: rapid.Int64Range(0, 200).Draw(rt, "money")}
			settles, key := rapid.Bool().Draw(rt, "settles"), rapid.SampledFrom(keys).Draw(rt, "key")
			said := map[string]string{}
			for kind, l := range open {
				if settles && len(held[kind]) > 0 {
					err := settle(context.Background(), l, held[kind][0], cost)
					held[kind] = held[kind][1:]
					said[kind] = fmt.Sprint("settle ", err)
				} else {
					r, err := reserve(context.Background(), l, key, list, cost, now, 2*time.Minute)
					if err == nil {
						held[kind] = append(held[kind], r)
					}
					said[kind] = fmt.Sprint("reserve ", err)
				}
				n, err := l.Used(context.Background(), key, list, now)
				said[kind] += fmt.Sprint(" used ", n, err)
			}
			for kind, text := range said {
				if text != said["memory"] {
					rt.Fatalf("%s: %s, memory: %s", kind, text, said["memory"])
				}
			}
		}
	})
}

// TestReservationOutlivesItsCounters: in Redis, a reservation is kept for as long as a counter that it can be
// returned to.
func TestReservationOutlivesItsCounters(t *testing.T) {
	c := redis.Defaults()
	c.Address, c.Prefix, c.Timeout = storetest.SharedRedis.Use(t), fmt.Sprint("test", names.Add(1)), 20*time.Second
	s, err := redis.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, s)
	o := &goredis.Options{Addr: c.Address, DisableIdentity: true}
	if path, ok := strings.CutPrefix(c.Address, "unix:"); ok {
		o.Network, o.Addr = "unix", path
	}
	client := goredis.NewClient(o)
	closing(t, client)
	const lease, ever = time.Minute, time.Duration(-1)
	for i, want := range []struct {
		windows []time.Duration
		least   time.Duration
	}{{[]time.Duration{time.Hour}, time.Hour}, {[]time.Duration{time.Hour, 30 * 24 * time.Hour}, 31 * 24 * time.Hour}, {[]time.Duration{time.Hour, 0}, ever}} {
		var limits []store.Limit
		for _, w := range want.windows {
			limits = append(limits, store.Limit{Resource: store.Tokens, Amount: 100, Window: w})
		}
		r, err := reserve(t.Context(), s, fmt.Sprint("k", i), limits, store.Cost{Tokens: 1}, time.Now(), lease)
		if err != nil {
			t.Fatal(err)
		}
		left, err := client.TTL(t.Context(), fmt.Sprintf("%s:{k%d}:lease:%s", c.Prefix, i, r.ID)).Result()
		if err != nil || want.least == ever && left != ever || want.least != ever && left < want.least {
			t.Errorf("windows %v: known for %v, %v, want %v", want.windows, left, err, want.least)
		}
	}
}

// unread is a ledger that cannot be read.
type unread struct{}

func (unread) Sum(context.Context, store.Part, time.Time) (store.Cost, error) {
	return store.Cost{}, errors.New("away")
}

// TestSeeded: limits of a process begin with what a ledger says, and do not count twice what this
// process has written.
func TestSeeded(t *testing.T) {
	each(t, archives, func(t *testing.T, a store.Archive) {
		list := []store.Limit{{Resource: store.Requests, Amount: 100, Window: 0}, {Resource: store.Tokens, Amount: 1000, Window: 24 * time.Hour}, {Resource: store.Requests, Amount: 100, Window: 24 * time.Hour}}
		now := epoch
		asked := entry("2", now)
		asked.Cached = false // unlike the others, which have used no tokens
		before, cached := entry("1", now.Add(-48*time.Hour)), entry("cached", now)
		before.Money, asked.Money, cached.Money = 1, 1, 1 // a sum of what others have is beyond 64 bits
		write(t, a, store.Record{Entry: before}, store.Record{Entry: asked}, store.Record{Entry: cached})
		l := memory.NewCoordinator(1)
		if err := l.Seed(t.Context(), a, "k", list, now); err != nil {
			t.Fatal(err)
		}
		if got := used(t, l, "k", list, now); !slices.Equal(got, []int64{3, 15, 2}) {
			t.Errorf("at the beginning: %v", got)
		}
		write(t, a, store.Record{Entry: entry("3", now)})
		later := list[1].Start(now).Add(24 * time.Hour)
		write(t, a, store.Record{Entry: entry("4", later)}) // reserved in the window before, as far as limits go
		if got := used(t, l, "k", list, later); !slices.Equal(got, []int64{3, 0, 0}) {
			t.Errorf("in the next window: %v", got)
		}
		if got := used(t, l, "other", list, now); !slices.Equal(got, []int64{0, 0, 0}) {
			t.Errorf("another key: %v", got)
		}
	})
	if err := memory.NewCoordinator(1).Seed(t.Context(), unread{}, "k", []store.Limit{{Resource: store.Requests, Amount: 1, Window: 0}}, epoch); err == nil {
		t.Error("begun without the ledger")
	}
}

// TestParts: sums of keys, teams, users and models, and usage in groups.
func TestParts(t *testing.T) {
	each(t, archives, func(t *testing.T, a store.Archive) {
		for i, c := range []struct{ key, team, owner, model string }{{"k", "t", "o", "x/1"}, {"k", "t", "", "x/2"}, {"l", "t", "o", "x"}, {"m", "", "", "x/1"}, {"n", "u", "o", "y"}} {
			e := entry(fmt.Sprint(i), epoch.Add(time.Duration(i)*12*time.Hour))
			e.Key, e.Team, e.Owner, e.Model, e.Cached, e.Money = c.key, c.team, c.owner, c.model, i == 1, 7
			write(t, a, store.Record{Entry: e})
		}
		for p, want := range map[store.Part]store.Cost{
			{Team: "t"}:                   {Requests: 3, Tokens: 30, Money: 21},
			{Team: "t", Model: "x/*"}:     {Requests: 2, Tokens: 15, Money: 14},
			{Owner: "o"}:                  {Requests: 3, Tokens: 45, Money: 21},
			{Owner: "o", Model: "x"}:      {Requests: 1, Tokens: 15, Money: 7},
			{Key: "k", Model: "x/1"}:      {Requests: 1, Tokens: 15, Money: 7},
			{Key: "k", Model: "*"}:        {Requests: 2, Tokens: 15, Money: 14},
			{Key: "k", Model: "X/*"}:      {},
			{Team: "none"}:                {},
			{Team: "t", Model: "' OR ''"}: {},
		} {
			if got, err := a.Sum(t.Context(), p, time.Time{}); err != nil || got != want {
				t.Errorf("%+v: %+v, %v, want %+v", p, got, err, want)
			}
		}
		day := epoch.Unix() / 86400
		for by, want := range map[store.Grouping][]store.Usage{
			{}:           {{Requests: 4, Prompt: 30, Completion: 15, Money: 28}},
			{Team: true}: {{Requests: 1, Prompt: 10, Completion: 5, Money: 7}, {Team: "t", Requests: 3, Prompt: 20, Completion: 10, Money: 21}},
			{Owner: true, Model: true}: {{Model: "x/1", Requests: 1, Prompt: 10, Completion: 5, Money: 7}, {Model: "x/2", Requests: 1, Money: 7},
				{Owner: "o", Model: "x", Requests: 1, Prompt: 10, Completion: 5, Money: 7}, {Owner: "o", Model: "x/1", Requests: 1, Prompt: 10, Completion: 5, Money: 7}},
			{Key: true, Day: true}: {{Key: "k", Day: day, Requests: 2, Prompt: 10, Completion: 5, Money: 14}, {Key: "l", Day: day + 1, Requests: 1, Prompt: 10, Completion: 5, Money: 7},
				{Key: "m", Day: day + 1, Requests: 1, Prompt: 10, Completion: 5, Money: 7}},
		} {
			got, err := a.Usage(t.Context(), by, epoch, epoch.Add(48*time.Hour), 10)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%+v: %v\n%s", by, err, diff)
			}
		}
		if got, err := a.Usage(t.Context(), store.Grouping{Key: true}, epoch, epoch.Add(1000*time.Hour), 2); err != nil || len(got) != 2 {
			t.Errorf("two at most: %+v, %v", got, err)
		}
	})
}

// TestDirectory: changes are kept in their order, one by one, and what each was based on is the last.
func TestDirectory(t *testing.T) {
	each(t, archives, func(t *testing.T, a store.Archive) {
		change := func(version int64, id, body string) error {
			r := store.Row{Kind: "keys", ID: id, Version: version, Body: body}
			return a.Change(t.Context(), r, store.Audit{Version: version, At: epoch, By: "b", Action: "create", Kind: r.Kind, ID: id, Before: "{}", After: body})
		}
		rows := func(after int64, most int, want ...store.Row) {
			t.Helper()
			got, err := a.Rows(t.Context(), after, most)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		}
		rows(0, 10)
		for i, err := range []error{change(1, "a", `{"x":"天"}`), change(2, "b", "{}"), change(3, "a", "")} {
			if err != nil {
				t.Errorf("change %d: %v", i+1, err)
			}
		}
		for _, version := range []int64{0, 2, 3, 5} {
			if err := change(version, "c", "{}"); !errors.Is(err, store.ErrStale) {
				t.Errorf("version %d: %v", version, err)
			}
		}
		rows(0, 10, store.Row{Kind: "keys", ID: "b", Version: 2, Body: "{}"}, store.Row{Kind: "keys", ID: "a", Version: 3})
		rows(0, 1, store.Row{Kind: "keys", ID: "b", Version: 2, Body: "{}"})
		rows(2, 10, store.Row{Kind: "keys", ID: "a", Version: 3})
		list, err := a.Audits(t.Context(), 3, 1)
		if diff := cmp.Diff([]store.Audit{{Version: 2, At: epoch, By: "b", Action: "create", Kind: "keys", ID: "b", Before: "{}", After: "{}"}}, list); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
		if list, err = a.Audits(t.Context(), 100, 10); err != nil || len(list) != 3 || list[0].Version != 3 {
			t.Errorf("all changes: %+v, %v", list, err)
		}
		// Of changes at the same time one is made.
		var made atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				err := change(4, "d", "{}")
				if err == nil {
					made.Add(1)
				} else if !errors.Is(err, store.ErrStale) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if made.Load() != 1 {
			t.Errorf("%d changes were made", made.Load())
		}
	})
}

// TestAwait: PostgreSQL tells other gateways of a change, also after it was away.
func TestAwait(t *testing.T) {
	a := openPostgres(t)
	b, err := postgres.Open(t.Context(), storetest.SharedPostgres.Use(t))
	if err != nil {
		t.Fatal(err)
	}
	closing(t, b)
	b.Await(t.Context()) // connects
	for version := range int64(3) {
		noticed := make(chan struct{})
		go func() {
			defer close(noticed)
			b.Await(t.Context())
		}()
		if err := a.Change(t.Context(), store.Row{Kind: "k", ID: "i", Version: version + 1}, store.Audit{Version: version + 1}); err != nil {
			t.Fatal(err)
		}
		<-noticed
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		b.Await(ctx) // nothing has changed
		cancel()
	}
}

// TestSharedLimits: a request takes a part of its key's, its team's and its user's limits in one step, or of none. What a
// gateway that died has reserved comes back for the others' keys. Requests under way are given back whole.
func TestSharedLimits(t *testing.T) {
	each(t, coordinators, func(t *testing.T, l store.Coordinator) {
		of := func(key string) []store.Limit {
			return []store.Limit{
				{Resource: store.Requests, Amount: 3, Window: time.Minute},
				{Resource: store.Requests, Amount: 4, Window: time.Minute, Part: store.Part{Team: "t"}},
				{Resource: store.Tokens, Amount: 100, Part: store.Part{Owner: "o" + key, Model: "m*"}},
				{Resource: store.Parallel, Amount: 2, Part: store.Part{Team: "t"}},
			}
		}
		check := func(key string, now time.Time, want ...int64) {
			t.Helper()
			if got := used(t, l, key, of(key), now); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", key, got, want)
			}
		}
		take := func(key string, tokens int64, beyond int) *store.Reservation {
			t.Helper()
			r, err := reserve(t.Context(), l, key, of(key), store.Cost{Requests: 1, Tokens: tokens, Parallel: 1}, epoch, time.Second)
			var e *store.LimitError
			if errors.As(err, &e) != (beyond >= 0) || e == nil && err != nil || e != nil && e.Limit != of(key)[beyond] {
				t.Errorf("%s: %v, want limit %d", key, err, beyond)
			}
			return r
		}
		settled := func(r *store.Reservation, tokens int64) {
			t.Helper()
			if err := settle(t.Context(), l, r, store.Cost{Requests: 1, Tokens: tokens}); err != nil {
				t.Error(err)
			}
		}
		a := take("a", 60, -1)
		take("a", 41, 2)
		b := take("b", 10, -1)
		take("b", 10, 3)
		check("a", epoch, 1, 2, 60, 2)
		settled(a, 5)
		check("a", epoch, 1, 2, 5, 1)
		check("b", epoch, 1, 2, 10, 1)
		settled(take("b", 10, -1), 10)
		take("b", 10, -1)
		take("b", 0, 0)
		take("a", 0, 1)
		// b's first and last are not settled: a's next request finds them released.
		later := epoch.Add(2 * time.Second)
		check("a", later, 1, 2, 5, 0)
		check("b", later, 1, 2, 10, 0)
		if err := settle(t.Context(), l, b, store.Cost{Requests: 1, Tokens: 9}); !errors.Is(err, store.ErrGone) {
			t.Error(err)
		}
		check("b", later, 1, 2, 10, 0)
	})
}
