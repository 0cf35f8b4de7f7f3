package scenario

import (
	"fmt"
	"testing"

	"dyno/load/feed"
	"dyno/load/pace"

	"pgregory.net/rapid"
)

var whole = pace.Whole()

// instant is 2024-02-03T04:05:06.789012345Z.
const instant = 1706933106_789012345

func mustCompile(tb testing.TB, spec Spec) *Scenario {
	tb.Helper()
	return mustCompileFor(tb, spec, Protocol{Host: "shop.example"})
}

func mustCompileFor(tb testing.TB, spec Spec, by Protocol) *Scenario {
	tb.Helper()
	s, err := compileFor(tb, spec, by)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// compileFor compiles a scenario whose data is in files.
func compileFor(tb testing.TB, spec Spec, by Protocol) (*Scenario, error) {
	tb.Helper()
	for _, d := range spec.Data {
		t, err := feed.Open(d.File, feed.Options{})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() {
			if err := t.Close(); err != nil {
				tb.Error(err)
			}
		})
		by.Tables = append(by.Tables, t)
	}
	return Compile(&spec, by)
}

// No two users get one number, whatever the number of shards and users. Shards that are equally far
// have left no gap.
func TestNumbersAreUniqueAcrossShards(t *testing.T) {
	s := mustCompileFor(t, Spec{Steps: []Step{{Name: "s", Body: `{{ counter() }} {{ iteration("all") }} {{ user() }}`}}}, Protocol{BodyOnly: true})
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.IntRange(1, 5).Draw(t, "shards")
		users := rapid.IntRange(1, 3).Draw(t, "users")
		const each = 4
		seen, all := make([]bool, shards*users*each), map[uint64]bool{}
		for i := range shards {
			w := s.Worker(pace.Shard{Index: i, Count: shards}, 1)
			for range users {
				u := w.User()
				for range each {
					r, _ := next(u, 0)
					var n, iteration int
					var user uint64
					_, err := fmt.Sscan(r.body, &n, &iteration, &user)
					if err != nil || n >= len(seen) || seen[n] || iteration != n || user != u.number+1 || user > uint64(shards*users) { //nolint:gosec // a few
						t.Fatalf("%s: beyond the end, or the second time", r.body)
					}
					seen[n], all[user] = true, true
					u.Failed()
				}
			}
		}
		if len(all) != shards*users {
			t.Fatalf("%d numbers of %d users", len(all), shards*users)
		}
	})
}

// A user's random values depend on the seed and the user's number alone.
func TestRandomValuesRepeat(t *testing.T) {
	const text = "{{ uuid() }} {{ random_int(1, 1000000) }} {{ random_string(8) }}"
	s := mustCompileFor(t, Spec{Steps: []Step{{Name: "s", Body: text}}}, Protocol{BodyOnly: true})
	first := func(seed uint64) string {
		r, _ := next(s.Worker(whole, seed).User(), 0)
		return r.body
	}
	if a, b := first(1), first(1); a != b {
		t.Errorf("one seed, two results: %q, %q", a, b)
	}
	if a, b := first(1), first(2); a == b {
		t.Errorf("two seeds, one result: %q", a)
	}
	byNumber := map[uint64]string{}
	for shards := 1; shards <= 3; shards++ {
		for i := range shards {
			w := s.Worker(pace.Shard{Index: i, Count: shards}, 7)
			for range 6 / shards {
				u := w.User()
				r, _ := next(u, 0)
				if before, found := byNumber[u.number]; found && before != r.body {
					t.Errorf("user %d says %q, and %q in another shard", u.number, before, r.body)
				}
				byNumber[u.number] = r.body
			}
		}
	}
	if len(byNumber) != 6 {
		t.Errorf("%d users, want 6", len(byNumber))
	}
}
