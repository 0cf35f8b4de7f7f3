package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dyno/services/bot/store"
	"dyno/services/bot/store/memory"
	"dyno/services/bot/upstream"
)

// A bed is a directory with what it known of keys.
type bed struct {
	*Directory
	t     *testing.T
	known map[string]*Access
}

func open(t *testing.T, s store.Directory) *bed {
	b := &bed{t: t, known: map[string]*Access{}}
	b.Directory = New(s, func(_ context.Context, key string, a *Access) error { b.known[key] = a; return nil })
	b.refresh()
	return b
}

func (b *bed) refresh() {
	b.t.Helper()
	if err := b.Refresh(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) make(k Kind, body string) string {
	b.t.Helper()
	_, secret, err := b.Create(b.t.Context(), k, []byte(body), If{By: "test"})
	if err != nil {
		b.t.Fatalf("%s %s: %v", k, body, err)
	}
	return secret
}

func (b *bed) patch(k Kind, id, body string) {
	b.t.Helper()
	if _, err := b.Patch(b.t.Context(), k, id, []byte(body), If{}); err != nil {
		b.t.Fatalf("%s %s: %v", id, body, err)
	}
}

func memoryStore() store.Directory { return memory.NewArchive(memory.DefaultBounds()) }

// A key falls under what its team and its user may do, and every gateway is known of each change that concerns it.
func TestAccess(t *testing.T) {
	s := memoryStore()
	a, b := open(t, s), open(t, s)
	a.make(Teams, `{"id":"t","models":["openai/*"]}`)
	a.make(Users, `{"id":"u","team":"t"}`)
	secret := a.make(Keys, `{"id":"k","user":"u","models":["openai/gpt","other"],"expires":"2030-01-02T03:04:05Z"}`)
	a.make(Keys, `{"id":"free"}`)
	a.make(Limits, `{"id":"l1","team":"t","resource":"requests","amount":5,"window":"1m"}`)
	a.make(Limits, `{"id":"l2","key":"k","resource":"tokens","amount":0,"model":"openai/*"}`)
	a.make(Limits, `{"id":"l3","user":"u","resource":"parallel","amount":2}`)
	b.refresh()
	for _, d := range []*bed{a, b} {
		k := d.known["k"]
		want := []store.Limit{{Resource: store.Tokens, Part: store.Part{Model: "openai/*"}}, {Resource: store.Requests, Amount: 5, Window: time.Minute, Part: store.Part{Team: "t"}}, {Resource: store.Parallel, Amount: 2, Part: store.Part{Owner: "u"}}}
		if k == nil || k.Team != "t" || k.Owner != "u" || k.Refused != "" || k.Expires.Year() != 2030 || !slices.Equal(k.Limits, want) || fmt.Sprint(k.Models) != "[[openai/gpt other] [openai/*]]" {
			t.Errorf("%+v", k)
		}
		if f := d.known["free"]; f == nil || f.Limits != nil || f.Models != nil {
			t.Errorf("%+v", f)
		}
	}
	if !strings.HasPrefix(secret, "sk-") || len(secret) != 46 {
		t.Errorf("%q", secret)
	}
	was := b.known["free"]
	a.patch(Teams, "t", `{"disabled":true,"metadata":{"why":"unpaid"}}`)
	b.refresh()
	if b.known["k"].Refused != "the team of the API key is disabled" || b.known["free"] != was {
		t.Errorf("%+v %+v", b.known["k"], b.known["free"])
	}
	a.patch(Teams, "t", `{"disabled":false,"models":null}`)
	a.patch(Limits, "l2", `{"amount":7}`)
	if k := a.known["k"]; k.Refused != "" || k.Limits[0].Amount != 7 || len(k.Models) != 1 {
		t.Errorf("%+v", k)
	}
	a.patch(Users, "u", `{"team":null}`)
	if k := a.known["k"]; k.Team != "" || len(k.Limits) != 2 {
		t.Errorf("%+v", k)
	}
	a.patch(Users, "u", `{"team":"t"}`)
	if err := a.Delete(t.Context(), Limits, "l1", If{}); err != nil || len(a.known["k"].Limits) != 2 {
		t.Errorf("%v %+v", err, a.known["k"])
	}
	if err := a.Delete(t.Context(), Keys, "k", If{}); err != nil {
		t.Error(err)
	}
	b.refresh()
	if a.known["k"] != nil || b.known["k"] != nil || len(b.List(Limits, store.Part{}, "", "", 10)) != 1 {
		t.Errorf("%+v, %+v", b.known["k"], b.List(Limits, store.Part{}, "", "", 10))
	}
	if _, known := b.Get(Keys, "k"); known {
		t.Error("a deleted key is there")
	}
}

// The old secret works on for as long as is asked, and no longer than until the next rotation.
func TestRotate(t *testing.T) {
	d := open(t, memoryStore())
	d.make(Keys, `{"id":"k"}`)
	first := d.known["k"].SHA256
	_, secret, err := d.Rotate(t.Context(), "k", time.Hour, If{By: "b"})
	k := d.known["k"]
	if left := time.Until(k.OldUntil); err != nil || k.Old != first || k.SHA256 == first || left < 58*time.Minute || left > time.Hour || !strings.HasPrefix(secret, "sk-") {
		t.Errorf("%v %+v", err, k)
	}
	second := k.SHA256
	if _, _, err := d.Rotate(t.Context(), "k", 0, If{}); err != nil || d.known["k"].Old != "" || d.known["k"].SHA256 == second {
		t.Errorf("%v %+v", err, d.known["k"])
	}
	list, err := d.Audits(t.Context(), 100, 10)
	if err != nil || len(list) != 3 || list[1].By != "b" || list[1].Action != "rotate" || strings.Contains(fmt.Sprint(list), first) || strings.Contains(fmt.Sprint(list), second) {
		t.Errorf("%v %+v", err, list)
	}
}

// Each fault is refused with its field, and changes nothing.
func TestFaults(t *testing.T) {
	d := open(t, memoryStore())
	hash := strings.Repeat("ab", 32)
	d.Declare(map[Kind][]Item{Keys: {{ID: "file"}}, Limits: {{ID: "file:0", Key: "file"}}}, managed())
	d.make(Teams, `{"id":"t"}`)
	d.make(Users, `{"id":"u","team":"t"}`)
	d.make(Keys, `{"id":"k","user":"u","sha256":"`+hash+`"}`)
	d.make(Limits, `{"id":"l","team":"t","resource":"tokens","amount":1,"window":"1m"}`)
	version := d.Version()
	for body, want := range map[string]string{
		`teams {`:                                          "400 invalid",
		`teams {"id":"x","id":"y"}`:                        "400 invalid: ",
		`teams {"id":"x","ID":"y"}`:                        `want "id"`,
		`teams {"nme":"x"}`:                                `unknown field "nme"`,
		`teams {"id":"a/b"}`:                               `id: "a/b" is not possible`,
		`teams {"id":"t"}`:                                 `409 exists: id: there is a team "t"`,
		`teams {"team":"t"}`:                               "team: teams have none",
		`teams {"version":3}`:                              "version: is the gateway's to set",
		`teams {"declared":true}`:                          "declared: is the gateway's to set",
		`keys {"old_sha256":"x"}`:                          "old_sha256: is the gateway's to set",
		`keys {"models":["a*b"]}`:                          `models: "a*b" is not possible`,
		`keys {"models":[""]}`:                             `models: "" is not possible`,
		`keys {"team":"none"}`:                             `team: there is no "none"`,
		`keys {"user":"none"}`:                             `user: there is no "none"`,
		`keys {"id":"file"}`:                               "409 declared",
		`keys {"sha256":"AB"}`:                             `sha256: "AB" is not possible`,
		`keys {"sha256":"` + hash + `"}`:                   "409 exists: sha256: another key has this secret",
		`keys {"expires":"soon"}`:                          "400 invalid",
		`keys {"name":"` + strings.Repeat("x", 257) + `"}`: "name: has 257 bytes",
		`keys {"metadata":{"x":"` + strings.Repeat("x", 257) + `"}}`:         "metadata: ",
		`limits {"resource":"tokens","amount":1}`:                            "key: a limit has either a key, a team or a user, and this one has 0",
		`limits {"team":"t","user":"u","resource":"tokens","amount":1}`:      "has 2 of them",
		`limits {"team":"t","resource":"gold","amount":1}`:                   `resource: "gold"`,
		`limits {"team":"t","resource":"tokens"}`:                            "amount: must be there",
		`limits {"team":"t","resource":"tokens","amount":-1}`:                "amount: ",
		`limits {"team":"t","resource":"tokens","amount":1,"window":"1ms"}`:  `window: "1ms"`,
		`limits {"team":"t","resource":"parallel","amount":1,"window":"1m"}`: "window: requests under way have none",
		`limits {"team":"t","resource":"tokens","amount":2,"window":"60s"}`:  `the limit "l" is of this resource, model and window`,
		`limits {"key":"file","resource":"tokens","amount":2}`:               `key: "file" is in the configuration's file`,
		`limits {"key":"none","resource":"tokens","amount":2}`:               `key: there is no "none"`,
		`limits {"team":"t","resource":"tokens","amount":1,"model":"**"}`:    `"**" is not possible`,
	} {
		kind, text, _ := strings.Cut(body, " ")
		_, _, err := d.Create(t.Context(), Kind(kind), []byte(text), If{})
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(fmt.Sprintf("%d %s: %v", e.Status, e.Code, e), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
	for what, c := range map[string]struct {
		err  error
		want string
	}{
		"a team with users": {d.Delete(t.Context(), Teams, "t", If{}), `409 in_use: the user "u" belongs to it`},
		"a user with keys":  {d.Delete(t.Context(), Users, "u", If{}), `409 in_use: the key "k" belongs to it`},
		"none":              {d.Delete(t.Context(), Keys, "none", If{}), "404 not_found"},
		"of the file":       {d.Delete(t.Context(), Keys, "file", If{}), "409 declared"},
		"a limit of it":     {d.Delete(t.Context(), Limits, "file:0", If{}), "409 declared"},
		"another version":   {d.Delete(t.Context(), Keys, "k", If{Version: 1}), "412 changed"},
	} {
		var e *Error
		if !errors.As(c.err, &e) || !strings.Contains(fmt.Sprintf("%d %s: %v", e.Status, e.Code, e), c.want) {
			t.Errorf("%s: %v, want %s", what, c.err, c.want)
		}
	}
	for body, want := range map[string]string{`{"id":"x"}`: "id: stays as it is", `{"created":"2020-01-01T00:00:00Z"}`: "created: is the gateway's", `{"sha256":null}`: "sha256: "} {
		if _, err := d.Patch(t.Context(), Keys, "k", []byte(body), If{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
	if _, _, err := d.Rotate(t.Context(), "k", -1, If{}); err == nil {
		t.Error("a secret works on for a negative time")
	}
	if d.Version() != version {
		t.Errorf("version %d, was %d", d.Version(), version)
	}
}

// Many gateways change one store at once: every change is made once, and of those based on one version, one is made.
func TestManyWriters(t *testing.T) {
	s := memoryStore()
	first := open(t, s)
	first.make(Keys, `{"id":"k"}`)
	was, _ := first.Get(Keys, "k")
	var all sync.WaitGroup
	won := make(chan string, 4)
	for n := range 4 {
		d := open(t, s)
		all.Go(func() {
			_, err := d.Patch(t.Context(), Keys, "k", fmt.Appendf(nil, `{"name":"%d"}`, n), If{Version: was.Version})
			if err == nil {
				won <- fmt.Sprint(n)
			}
			for i := range 25 {
				if _, _, err := d.Create(t.Context(), Keys, fmt.Appendf(nil, `{"id":"k-%d-%d"}`, n, i), If{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	first.refresh()
	close(won)
	name, ok := <-won
	if is, _ := first.Get(Keys, "k"); !ok || len(won) != 0 || is.Name != name || first.Version() != 102 || len(first.known) != 101 {
		t.Errorf("%s of %d, %+v, version %d, %d keys", name, len(won)+1, is, first.Version(), len(first.known))
	}
}

// A key whose change could not be carried out is known of again, and others do not wait for it.
func TestTriedAgain(t *testing.T) {
	fails := true
	known := map[string]int{}
	d := New(memoryStore(), func(_ context.Context, key string, a *Access) error {
		if key == "bad" && fails {
			return errors.New("the ledger is away")
		}
		known[key]++
		return nil
	})
	for _, id := range []string{"bad", "good"} {
		_, _, err := d.Create(t.Context(), Keys, []byte(`{"id":"`+id+`"}`), If{})
		if err == nil || !strings.Contains(err.Error(), "does not follow it yet: the ledger is away") {
			t.Error(err)
		}
	}
	fails = false
	for range 2 {
		if err := d.Refresh(t.Context()); err != nil || known["bad"] != 1 || known["good"] != 1 {
			t.Errorf("%v %v", err, known)
		}
	}
}

// Whatever a client sends is an item that passes the check, or a fault.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"id":"k","models":["a*"],"expires":"2030-01-02T03:04:05Z","amount":3,"metadata":{"a":"b"}}`))
	f.Add([]byte(`{"team":"t","resource":"tokens","amount":1,"window":"1m"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, k := range Kinds() {
			var i Item
			if Decode(body, &i) == nil && i.check(k, Item{}) == nil && k == Limits && i.Limit().Window < 0 {
				t.Errorf("%s", body)
			}
		}
	})
}

// managed is a configuration without servers.
func managed() upstream.Config {
	c := upstream.Defaults()
	c.Managed = true
	return c
}
