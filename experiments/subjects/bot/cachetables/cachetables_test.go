package cachetables

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"dyno/internal/leak"
	"dyno/services/bot/cache"
)

func TestMain(m *testing.M) { leak.Main(m) }

var kinds = []Kind{Sharded, RWMutex, Snapshot}

type text string

func (t text) Size() int64 { return int64(len(t)) }

// TestTables: a table keeps values until they end, one a key, and never more than it may. What is used stays when others go.
func TestTables(t *testing.T) {
	for _, k := range kinds {
		t.Run(string(k), func(t *testing.T) {
			const most = 3200
			table, now := New[text](k, most), time.Unix(1000, 0)
			check := func(key string, want text) {
				t.Helper()
				if v, ok := table.Get(key, now); v != want || ok != (want != "") {
					t.Errorf("%s: %q, %v, want %q", key, v, ok, want)
				}
			}
			check("k", "")
			table.Keep("k", "a", now.Add(time.Second))
			table.Keep("k", "b", now.Add(time.Minute))
			now = now.Add(time.Minute - 1)
			check("k", "b")
			if n, bytes := table.Held(); n != 1 || bytes != 1 {
				t.Errorf("%d values of %d bytes", n, bytes)
			}
			now = now.Add(1)
			check("k", "")
			ends, value := now.Add(time.Hour), text(strings.Repeat("x", 10))
			table.Keep("used", value, ends)
			for i := range 2000 {
				check("used", value)
				table.Keep(fmt.Sprint(i), value, ends)
				check(fmt.Sprint(i), value)
			}
			if n, bytes := table.Held(); bytes > most || n < 32 {
				t.Errorf("%d values of %d bytes", n, bytes)
			}
			table.Keep("large", text(make([]byte, most+1)), ends)
			check("large", "")
		})
	}
	if Kind("none").Validate() == nil {
		t.Error("any kind is right")
	}
}

// TestAtOnce: goroutines that use a table at once get what was kept.
func TestAtOnce(t *testing.T) {
	for _, k := range kinds {
		if err := k.Validate(); err != nil {
			t.Error(err)
		}
		c := cache.New(New[text](k, 640), time.Hour)
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for n := range 500 {
					want := text(fmt.Sprint((n * (i + 1)) % 50))
					if v, _, err := c.Get(t.Context(), string(want), func(context.Context) (text, error) { return want, nil }); v != want || err != nil {
						t.Errorf("%s: %q, %v, want %q", k, v, err, want)
					}
				}
			})
		}
		all.Wait()
		if s := c.Stats(); s.Hits+s.Misses+s.Joined != 2000 || s.Bytes > 640 {
			t.Errorf("%s: %+v", k, s)
		}
	}
}
