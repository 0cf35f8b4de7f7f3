package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"

	"dyno/services/bot/store"
	"dyno/services/bot/store/postgres"
	"dyno/services/bot/store/redis"
	"dyno/services/bot/store/storetest"
)

// own starts a server of the test's own, to be killed.
func own(t *testing.T, get func() (*storetest.Server, string, error)) (*storetest.Server, string) {
	t.Helper()
	s, address, err := get()
	if errors.Is(err, storetest.ErrMissing) {
		t.Skipf("%v: scripts/setup.sh installs it", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	closing(t, s)
	return s, address
}

// TestPostgresKilled: while turns are written, the server is killed and started, stopped
// and started, and paused. Every turn that was acknowledged is there, once, and the same
// Archive goes on.
func TestPostgresKilled(t *testing.T) {
	server, url := own(t, storetest.Postgres)
	a, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, a)
	b, err := store.NewBatcher(a, store.BatchDefaults())
	if err != nil {
		t.Fatal(err)
	}
	const writers = 8
	var (
		stop         atomic.Bool
		acknowledged [writers]atomic.Int64
		writing      sync.WaitGroup
		progress     = make(chan struct{}, 1)
	)
	for w := range writers {
		writing.Go(func() {
			session := fmt.Sprint("s", w)
			for n := int64(1); !stop.Load(); n++ {
				if err := b.Write(context.Background(), store.Record{Turn: turn(session, n, fmt.Sprint(w, "-", n))}); err != nil {
					t.Error(err)
					return
				}
				acknowledged[w].Store(n)
				select {
				case progress <- struct{}{}:
				default:
				}
			}
		})
	}
	advance := func() { // some are kept from now on
		for range 2 * writers {
			select {
			case <-progress:
			case <-time.After(time.Minute):
				t.Error("nothing is kept")
			}
		}
	}
	advance()
	server.Kill()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	advance()
	server.Stop()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	advance()
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	advance()
	stop.Store(true)
	writing.Wait()
	b.Close(t.Context())
	for w := range writers {
		want := acknowledged[w].Load()
		turns, count, err := a.Turns(t.Context(), fmt.Sprint("s", w), int(want))
		if err != nil || count != want || int64(len(turns)) != want {
			t.Errorf("session %d: %d turns of %d acknowledged, %v", w, len(turns), want, err)
		}
		for i, turn := range turns {
			if turn.Number != int64(i+1) {
				t.Errorf("session %d: turn %d is %d", w, i+1, turn.Number)
				break
			}
		}
	}
}

// TestReadersDoNotHinder: while as much is read as may, and none of it comes to an end, turns are kept.
func TestReadersDoNotHinder(t *testing.T) {
	url := use(t, postgresServer).address
	a := openPostgres(t)
	other, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	lock, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), "LOCK TABLE entries"); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	for range 16 {
		reading.Go(func() {
			if _, err := a.Sum(t.Context(), "key", time.Time{}); err != nil {
				t.Error(err)
			}
		})
	}
	for waiting := 0; waiting < 4; { // for the lock; the others wait for a connection
		if err := lock.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'entries'::regclass").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if each, err := a.Write(ctx, []store.Record{{Turn: turn("s", 1, "t")}}); err != nil || each[0] != nil {
		t.Errorf("%v %v, want it kept", each, err)
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	reading.Wait()
}

// TestRedisKilled: an operation fails in time while Redis is away, and the same Store
// goes on afterwards with what was acknowledged.
func TestRedisKilled(t *testing.T) {
	server, address := own(t, storetest.Redis)
	c := redis.Defaults()
	c.Address, c.Timeout = address, 10*time.Second
	s, err := redis.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, s)
	list := []store.Limit{{Resource: store.Requests, Amount: 10, Window: time.Hour}}
	r, err := reserve(t.Context(), s, "k", list, store.Cost{Requests: 3}, epoch, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(t.Context(), s, "s", "h"); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	var beyond *store.LimitError
	if _, err := reserve(t.Context(), s, "k", list, store.Cost{Requests: 1}, epoch, time.Hour); err == nil || errors.As(err, &beyond) {
		t.Errorf("without a server: %v", err)
	}
	if _, err := acquire(t.Context(), s, "t", "h"); err == nil || errors.Is(err, store.ErrBusy) {
		t.Errorf("without a server: %v", err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(t.Context(), s, "s", "other"); !errors.Is(err, store.ErrBusy) {
		t.Errorf("held before: %v", err)
	}
	if got := used(t, s, "k", list, epoch); got[0] != 3 {
		t.Errorf("used %v", got)
	}
	if err := settle(t.Context(), s, r, store.Cost{Requests: 1}); err != nil {
		t.Error(err)
	}
	// One that does not answer is given up.
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := acquire(ctx, s, "paused", "holder"); err == nil {
		t.Error("paused, and it answers")
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	if got := used(t, s, "k", list, epoch); got[0] != 1 {
		t.Errorf("used %v", got)
	}
}

// TestRedisForgetsScripts: a Redis that was started again, or whose scripts were flushed, is given them again.
func TestRedisForgetsScripts(t *testing.T) {
	server, address := own(t, storetest.Redis)
	c := redis.Defaults()
	c.Address, c.Timeout = address, 20*time.Second
	s, err := redis.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, s)
	client := goredis.NewClient(&goredis.Options{Network: "unix", Addr: strings.TrimPrefix(address, "unix:"), DisableIdentity: true})
	closing(t, client)
	list := []store.Limit{{Resource: store.Tokens, Amount: 100, Window: time.Hour}}
	for _, name := range []string{"started again", "flushed"} {
		l := &store.Lock{Session: name, Holder: "h", Lease: time.Hour}
		r := &store.Reservation{ID: name, Key: name, Limits: list, Cost: store.Cost{Tokens: 60}, At: epoch, Lease: time.Hour}
		if _, err := s.Begin(t.Context(), l, r); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if name == "flushed" {
			if err := client.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		} else {
			server.Stop()
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			_, _ = s.Used(t.Context(), name, list, epoch) // finds out that the one connection has ended
		}
		var all sync.WaitGroup // at once: all of them find out
		for i := range 8 {
			all.Go(func() {
				if _, err := acquire(t.Context(), s, fmt.Sprint(name, i), "h"); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		all.Wait()
		if err := s.End(t.Context(), l, 3, r, store.Cost{Tokens: 10}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := used(t, s, name, list, epoch); got[0] != 10 {
			t.Errorf("%s: used %v", name, got)
		}
		if n, err := acquire(t.Context(), s, name, "next"); err != nil || n != 3 {
			t.Errorf("%s: %d turns, %v", name, n, err)
		}
	}
}

func TestRedisConfig(t *testing.T) {
	if _, err := redis.Open(redis.Config{Prefix: "a{b}"}); err == nil {
		t.Error("opened without an address")
	}
	if _, err := postgres.Open(t.Context(), "postgres://u:secret@[/x"); err == nil {
		t.Error("opened without an address")
	}
}
