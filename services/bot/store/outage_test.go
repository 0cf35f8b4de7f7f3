package store_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"

	"dyno/services/bot/store"
	"dyno/services/bot/store/redis"
	"dyno/services/bot/store/storetest"
)

// TestReadersDoNotHinder: while as much is read as may, and none of it comes to an end, turns are kept.
func TestReadersDoNotHinder(t *testing.T) {
	url := storetest.SharedPostgres.Use(t)
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
			if _, err := a.Sum(t.Context(), store.Part{Key: "key"}, time.Time{}); err != nil {
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

// TestRedisForgetsScripts: a Redis that was started again, or whose scripts were flushed, is given them again.
func TestRedisForgetsScripts(t *testing.T) {
	server, address := storetest.Own(t, storetest.Redis)
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
