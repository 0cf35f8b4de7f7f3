package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/services/bot/store"
)

// TestBills: of several gateways one has an object for a time, one ends its bill, and what is due comes in its order.
func TestBills(t *testing.T) {
	each(t, archives, func(t *testing.T, a store.Archive) {
		ctx, at := t.Context(), time.Date(2026, 11, 30, 1, 2, 3, 4000, time.UTC)
		get := func(id string) store.Object {
			t.Helper()
			list, err := a.Objects(ctx, store.Object{Kind: "batch", ID: id}, "", 1)
			if err != nil || len(list) != 1 {
				t.Fatal(list, err)
			}
			return list[0]
		}
		bill := func(o store.Object, text string, due time.Time, want bool) {
			t.Helper()
			if got, err := a.Bill(ctx, o, text, due); got != want || err != nil {
				t.Errorf("%s %q: %v, %v", o.ID, text, got, err)
			}
		}
		due := func(before time.Time, most int, want string) {
			t.Helper()
			list, err := a.Due(ctx, before, most)
			ids := ""
			for _, o := range list {
				if ids += o.ID; o.Bill == "" || o.Key != "k" {
					t.Errorf("%+v", o)
				}
			}
			if ids != want || err != nil {
				t.Errorf("%q, %v, want %q", ids, err, want)
			}
		}
		for i, id := range []string{"a", "b", "c", "d"} {
			if err := a.Keep(ctx, store.Object{Kind: "batch", ID: id, Key: "k", At: at.Add(time.Duration(i))}); err != nil {
				t.Fatal(err)
			}
		}
		due(at.AddDate(1, 0, 0), 9, "")
		bill(get("a"), "A", at.Add(3*time.Second), true)
		bill(get("b"), "B", at.Add(2*time.Second), true)
		bill(get("c"), "C", at.Add(1*time.Second), true)
		bill(store.Object{Kind: "batch", ID: "x"}, "X", at, false)
		due(at.Add(3*time.Second), 9, "cb")
		due(at.Add(4*time.Second), 2, "cb")
		was := get("c")
		bill(was, "C", at.Add(time.Hour), true)
		bill(was, "C", at.Add(2*time.Hour), false) // another one has it
		due(at.Add(4*time.Second), 9, "ba")
		if o := get("c"); o.Bill != "C" || !o.Due.Equal(at.Add(time.Hour)) || o.Key != "k" {
			t.Errorf("%+v", o)
		}
		bill(was, "", time.Time{}, true) // it ends, also while another one has it
		bill(was, "", time.Time{}, false)
		bill(get("b"), "B", time.Time{}, true)
		due(at.AddDate(1, 0, 0), 9, "a")
		if b, c := get("b"), get("c"); b.Bill != "B" || !b.Due.IsZero() || c.Bill != "" || !c.Due.IsZero() {
			t.Errorf("%+v, %+v", b, c)
		}
		list, err := a.Objects(ctx, store.Object{Kind: "batch", Key: "k"}, "", 9)
		if err != nil || len(list) != 4 || list[0].ID != "d" || list[3].ID != "a" {
			t.Errorf("in the order of their making: %v, %v", list, err)
		}
	})
}

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
