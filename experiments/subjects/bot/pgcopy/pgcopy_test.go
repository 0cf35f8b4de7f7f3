package pgcopy

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/internal/leak"
	"dyno/services/bot/store"
	"dyno/services/bot/store/postgres"
	"dyno/services/bot/store/storetest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestWrite: what is copied is what the gateway would have written: each record once, an unfinished entry
// until another replaces it, and a turn whose number another has is refused.
func TestWrite(t *testing.T) {
	_, url := storetest.Own(t, storetest.Postgres)
	at := time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)
	turn := func(id string, number int64) *store.Turn {
		return &store.Turn{ID: id, Session: "s\x00\xff", Number: number, At: at, User: "天气\x00", Reply: "r", Tokens: 7}
	}
	entry := func(id string) *store.Entry {
		return &store.Entry{ID: id, At: at, Key: "k", User: "u\x00", Session: "s", Endpoint: "chat", Model: "m", Upstream: "up", Outcome: "ok", Stream: true, Cached: true, Estimated: true,
			Prompt: 1, Completion: 2, Money: 1 << 55, Price: "00c0ffee", Attempts: 3, Queue: 4 * time.Microsecond, FirstByte: 5 * time.Microsecond, Took: 6 * time.Microsecond}
	}
	begun := entry("begun")
	begun.Outcome, begun.Completion, begun.Money = store.Unfinished, 1, 0
	type written struct {
		turns   []store.Turn
		count   int64
		entries []store.Entry
		sum     store.Cost
		prices  map[string]json.RawMessage
	}
	var both [2]written
	for i, open := range []func() (store.Archive, error){
		func() (store.Archive, error) { return postgres.Open(t.Context(), url) },
		func() (store.Archive, error) { return Open(t.Context(), url) },
	} {
		if err := storetest.Clear(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		a, err := open()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			records []store.Record
			refused int // from which record on
		}{
			{nil, 0},
			{[]store.Record{{Turn: turn("one", 1), Entry: entry("one"), Price: &store.Price{Name: "00c0ffee", Terms: `{"prompt":2}`}}, {Entry: entry("two")}, {Entry: begun}, {Turn: turn("two", 2)}}, 4},
			{[]store.Record{{Entry: entry("begun"), Price: &store.Price{Name: "00c0ffee", Terms: `{}`}}}, 1},
			{[]store.Record{{Entry: begun}}, 1},
			{[]store.Record{{Turn: turn("one", 1), Entry: entry("one")}, {Turn: turn("three", 3)}, {Turn: turn("other", 2)}}, 2},
		} {
			each, err := a.Write(t.Context(), c.records)
			if err != nil || len(each) != len(c.records) {
				t.Fatalf("%d: %v, %v", i, each, err)
			}
			for j, err := range each {
				if (j >= c.refused) != errors.Is(err, store.ErrConflict) {
					t.Errorf("%d: record %d: %v", i, j, err)
				}
			}
		}
		w := &both[i]
		var errs [4]error
		w.turns, w.count, errs[0] = a.Turns(t.Context(), "s\ufffd\ufffd", 9)
		w.entries, errs[1] = a.Entries(t.Context(), "k", 9)
		w.sum, errs[2] = a.Sum(t.Context(), store.Part{Key: "k"}, time.Time{})
		w.prices, errs[3] = a.Prices(t.Context())
		if err := errors.Join(append(errs[:], a.Close())...); err != nil {
			t.Error(err)
		}
	}
	if d := cmp.Diff(both[0], both[1], cmp.AllowUnexported(written{})); d != "" || both[1].count != 3 || both[1].sum.Requests != 3 || len(both[1].prices) != 1 {
		t.Errorf("%+v\n%s", both[1], d)
	}
}
