package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/services/bot/store"
)

// TestObjects: every archive knows whose an object is, and forgets the oldest.
func TestObjects(t *testing.T) {
	for name, open := range archives {
		t.Run(name, func(t *testing.T) {
			a, ctx, at := open(t), t.Context(), time.Date(2026, 11, 30, 1, 2, 3, 4000, time.UTC)
			ids := func(of store.Object, after string, most int) (list []string) {
				t.Helper()
				of.Kind = "file"
				objects, err := a.Objects(ctx, of, after, most)
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range objects {
					if !o.BelongsTo(of) {
						t.Errorf("%+v is not of %+v", o, of)
					}
					list = append(list, o.ID)
				}
				return list
			}
			one := store.Object{Kind: "batch", ID: "f1", Key: "k", User: "u", Upstream: "up", Model: "m", At: at, Prompt: 3, Completion: 4}
			for _, o := range []store.Object{
				one,
				{Kind: "batch", ID: "f1", Key: "thief", At: at.Add(time.Hour)}, // there is one already
			} {
				if err := a.Keep(ctx, o); err != nil {
					t.Fatal(err)
				}
			}
			if err := a.Keep(ctx,
				store.Object{Kind: "file", ID: "f1", Key: "k", User: "u", At: at.Add(1 * time.Second)},
				store.Object{Kind: "file", ID: "f2", Key: "k", At: at.Add(2 * time.Second)},
				store.Object{Kind: "batch", ID: "f1", Key: "thief", At: at},
				store.Object{Kind: "file", ID: "f2", Key: "thief", At: at},
				store.Object{Kind: "file", ID: "f3", Key: "k", Team: "t", At: at.Add(3 * time.Second)},
				store.Object{Kind: "file", ID: "f4", Key: "other", Team: "t", User: "u", At: at.Add(3 * time.Second)},
				store.Object{Kind: "file", ID: "f5", Key: "other", At: at.Add(4 * time.Second)},
			); err != nil {
				t.Fatal(err)
			}
			for id, want := range map[string][]store.Object{"f1": {one}, "f2": nil} {
				got, err := a.Objects(ctx, store.Object{Kind: "batch", ID: id}, "", 1)
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					t.Errorf("%v, -want +got:\n%s", err, diff)
				}
			}
			got := fmt.Sprint(ids(store.Object{Key: "k"}, "", 9), ids(store.Object{Key: "k", User: "u"}, "", 9), ids(store.Object{Key: "x", Team: "t"}, "", 9), ids(store.Object{Key: "x", Team: "t", User: "u"}, "", 9),
				ids(store.Object{Key: "x", Team: "t"}, "f4", 9), ids(store.Object{Key: "k"}, "", 1), ids(store.Object{Key: "x"}, "", 9), ids(store.Object{Key: "k"}, "no", 9))
			if want := "[f2 f1] [f1] [f4 f3] [f4] [f3] [f2] [] []"; got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if err := a.Forget(ctx, store.Object{Kind: "file", ID: "f2"}); err != nil {
				t.Fatal(err)
			}
			pruner, is := a.(interface {
				Prune(ctx context.Context, kind string, before time.Time, most int) error
			})
			if !is { // it is bounded by their number
				return
			}
			for i, c := range []struct {
				before time.Time
				most   int
				want   string
			}{{at, 9, "[f1] [f4 f3] [f5]"}, {at.Add(2 * time.Second), 9, "[] [f4 f3] [f5]"}, {at, 1, "[] [] [f5]"}} {
				if err := pruner.Prune(ctx, "file", c.before, c.most); err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(ids(store.Object{Key: "k"}, "", 9), ids(store.Object{Team: "t"}, "", 9), ids(store.Object{Key: "other"}, "", 9)); got != c.want {
					t.Errorf("%d: %s, want %s", i, got, c.want)
				}
			}
			if got, err := a.Objects(ctx, one, "", 1); err != nil || len(got) != 1 {
				t.Errorf("of another kind: %v, %v", got, err)
			}
		})
	}
}

// TestLasting: old objects are forgotten, but for those that stay at upstreams until they are deleted.
func TestLasting(t *testing.T) {
	for name, open := range archives {
		t.Run(name, func(t *testing.T) {
			a, ctx, now := open(t), t.Context(), time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC)
			if _, is := a.(interface {
				Prune(ctx context.Context, kind string, before time.Time, most int) error
			}); !is { // it is bounded by their number
				return
			}
			for kind, want := range map[string]int{"response": 0, "item": 0, "container": 0, "file": 1, "vector_store": 1, "conversation": 1} {
				list := []store.Object{{Kind: kind, ID: "old", At: now.Add(-store.ObjectAge - time.Hour)}}
				for i := range 1100 {
					list = append(list, store.Object{Kind: kind, ID: fmt.Sprint(i), At: now})
				}
				if err := a.Keep(ctx, list...); err != nil {
					t.Fatal(err)
				}
				if got, err := a.Objects(ctx, list[0], "", 1); err != nil || len(got) != want {
					t.Errorf("%s: %v, %v", kind, got, err)
				}
			}
		})
	}
}
