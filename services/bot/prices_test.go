package bot

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/services/bot/openai"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// Money depends on the upstream, the model and the kind of token. A budget is exact: it has what the ledger has.
func TestPrices(t *testing.T) {
	const usage = `"usage":{"prompt_tokens":1000,"completion_tokens":100,"prompt_tokens_details":{"cached_tokens":900}}`
	half := int64(1250)
	b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"stream":true`) {
			_, _ = io.WriteString(w, aWord+aStop+`data: {"choices":[],`+usage+"}\n\n"+aDone)
			return
		}
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],`+usage+`}`)
	}, func(c *Config) {
		u := &c.Upstream.Upstreams[0]
		u.Models = map[string]string{"dyno-1": "own", "big": "big", "small": "small"}
		u.Price = upstream.Prices{{Prompt: 2500, Completion: 10_000}}
		u.Prices = map[string]upstream.Prices{"big": {{Prompt: 2500, Cached: &half, Completion: 10_000}}, "small": {{Prompt: 10, Completion: 20}}}
		c.Keys = []Key{keyOf("key", Limit{store.Money, 1e12, 0})}
	})
	total, n := int64(0), 0
	for model, want := range map[string]int64{"dyno-1": 3_500_000, "big": 2_375_000, "small": 12_000} {
		for _, stream := range []string{"true", "false"} {
			if status, text, _ := b.ask("/v1/chat/completions", secretOf("key"), `{"model":"`+model+`","stream":`+stream+`,"messages":[{"role":"user","content":"x"}]}`); status != http.StatusOK {
				t.Fatalf("%d %s", status, text)
			}
			total += want
			n++
			e := b.ledger("key", n)[0]
			if e.Money != want || e.Model != model {
				t.Errorf("%s: %+v, want %d", model, e, want)
			}
			b.recompute(e)
		}
	}
	until(t, "the budget has what the ledger has", func() bool {
		u, refused := b.usageOf(t.Context(), b.live.Load().payers["key"], time.Now())
		return refused == nil && u.Limits[0].Used == total
	})
}

// An oversized answer is charged by the upstream's usage, and never as if its base64 were text.
func TestLargeAnswersAreNotChargedAsText(t *testing.T) {
	image := strings.Repeat("Aa0+/", 60_000)
	b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"stream":true`) {
			_, _ = io.WriteString(w, aWord+`data: {"choices":[{"index":0,"delta":{"content":"`+image+`"}}]}`+"\n\n")
			return
		}
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"`+image+`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`)
	}, func(c *Config) { c.Upstream.MaxAnswerBytes, c.Upstream.MaxEventBytes = 100_000, 100_000 })
	path := "/v1/chat/completions"
	if status, text, _ := b.ask(path, "", strings.Replace(streams[path], "true", "false", 1)); status != http.StatusBadGateway || !strings.Contains(text, "more than 100000 bytes") {
		t.Errorf("%d %s", status, text)
	}
	if e := b.ledger("local", 1)[0]; e.Prompt != 7 || e.Completion != 3 || e.Estimated || e.Outcome != "failed" || e.Money != 7*100+3*1000 {
		t.Errorf("%+v", e)
	}
	if _, text, _ := b.ask(path, "", streams[path]); !strings.Contains(text, "an event has more than 100000 bytes") {
		t.Errorf("%s", text)
	}
	if e := b.ledger("local", 2)[0]; e.Completion > int64(len(image))/64 || !e.Estimated {
		t.Errorf("%+v", e)
	}
}

// recompute computes an entry's money again, from what the archive has.
func (b *bed) recompute(e store.Entry) {
	b.t.Helper()
	list, err := b.archive.Prices(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	var price upstream.Price
	u := openai.Usage{Prompt: int(e.Prompt), Completion: int(e.Completion), Units: int(e.Units)}
	known := e.Price == "" || json.Unmarshal(list[e.Price], &price) == nil
	if e.Kinds != "" && json.Unmarshal([]byte(e.Kinds), &u) != nil || !known {
		b.t.Errorf("%+v has no price in %+v", e, list)
	}
	if money := moneyOf(e.Endpoint, price, u); e.Money != money {
		b.t.Errorf("%+v: its tokens and its price are %d", e, money)
	}
}

// A request has the price that held when it was admitted, however long its answer takes.
func TestPriceOfAdmission(t *testing.T) {
	prices := upstream.Prices{{Prompt: 1}, {From: upstream.Since{Time: time.Now().Add(time.Second)}, Prompt: 1000, Request: 3}}
	b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
		for body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "slow") && time.Now().Before(prices[1].From.Time); {
			<-time.After(time.Millisecond)
		}
		_, _ = io.WriteString(w, aWhole)
	}, func(c *Config) { c.Upstream.Upstreams[0].Price = prices })
	for i, text := range []string{"slow", "then"} {
		if status, answer, _ := b.ask("/v1/chat/completions", "", `{"model":"dyno-1","messages":[{"role":"user","content":"`+text+`"}]}`); status != http.StatusOK {
			t.Fatal(answer)
		}
		e := b.ledger("local", i+1)[0]
		if name, _ := prices.At(e.At).Version(); e.Price != name || i == 1 && e.Money != 7003 {
			t.Errorf("%+v", e)
		}
		b.recompute(e)
	}
}

// Prices of a file are one, or a list in the order of their times.
func TestPricesOfAFile(t *testing.T) {
	read := func(deployment, prices string) (Config, error) {
		path := filepath.Join(t.TempDir(), "bot.yaml")
		text := fmt.Sprintf(`
providers: [{name: p, url: "https://example.org/v1"}]
deployments: [{provider: p, model: m, price: %s}]
upstreams: [{name: u, url: "https://example.org/v1", models: {a: a}, prices: {a: %s}}]
`, deployment, prices)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadConfig(path)
	}
	c, err := read("{prompt: 5, cached: 0, batch: 0.5}", `[{prompt: 1}, {from: 2026-12-01, prompt: 2}, {from: "2026-12-01T01:00:00+01:00", prompt: 3}, {from: 2027-01-01T12:00:00Z, request: 4}]`)
	if err == nil || !strings.Contains(err.Error(), "prices.a[2].from: is not later than that of the price before it") {
		t.Errorf("%v", err)
	}
	day := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	since := func(t time.Time) upstream.Since { return upstream.Since{Time: t} }
	want := upstream.Prices{{Prompt: 1}, {From: since(day), Prompt: 2}, {From: since(day), Prompt: 3}, {From: since(day.Add(31*24*time.Hour + 12*time.Hour)), Request: 4}}
	if diff := cmp.Diff(want, c.Upstream.Upstreams[0].Prices["a"]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(upstream.Prices{{Prompt: 5, Cached: new(int64), Batch: 0.5}}, c.Upstream.Deployments[0].Price); diff != "" {
		t.Error(diff)
	}
	for prices, fault := range map[string]string{
		"[{from: tomorrow}]":          "is no day and no time",
		"[]":                          "the list is empty",
		"5":                           "want a list",
		"[{promt: 5}]":                `did you mean "prompt"`,
		"{from: 2026-12-01, unit: x}": "want a whole number",
		"{prompt: 5, batch: 0}":       "batch: 0 is too little",
		"{prompt: 5, batch: 1.5}":     "batch: 1.5 is too much",
	} {
		if _, err := read(prices, "{}"); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %v", prices, err)
		}
	}
	one := upstream.Prices{{From: since(day), Prompt: 2}}
	if one.At(day.Add(-1)) != (upstream.Price{}) || one.At(day).Prompt != 2 || one.Free() || !(upstream.Prices{}).Free() {
		t.Error("a price that begins later")
	}
	name, terms := one[0].Version()
	again, _ := (upstream.Price{Prompt: 2}).Version()
	other, _ := (upstream.Price{Prompt: 2, Cached: new(int64)}).Version()
	if len(name) != 8 || name != again || name == other || terms != `{"prompt":2}` {
		t.Error(name, again, other, terms)
	}
}

// What is older than the archive keeps it is deleted, and a limit remembers what it needs.
func TestRetention(t *testing.T) {
	b := atHandler(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, aWhole) }, func(c *Config) {
		c.Archive, c.File = ArchiveSQLite, filepath.Join(t.TempDir(), "db")
		c.Retention = Retention{Turns: 3, Ledger: 3}
	})
	now := time.Now()
	for day := range 5 {
		id, at := fmt.Sprint(day), now.AddDate(0, 0, -day)
		r := store.Record{Turn: &store.Turn{ID: id, Session: "s", Number: int64(5 - day), At: at}, Entry: &store.Entry{ID: id, Key: "local", At: at}}
		if err := b.batch.Write(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	b.expire()
	b.ledger("local", 3)
	if turns, _, err := b.archive.Turns(t.Context(), "s", 9); err != nil || len(turns) != 3 {
		t.Errorf("%+v, %v", turns, err)
	}
	for text, want := range map[string]Days{"1d": 1, "400d": 400, "0d": 0, "d": 0, "30": 0, "1.5d": 0, "-1d": 0, "3d4": 0, "70000d": 0} {
		var d Days
		if err := d.SetText(text, ""); (err == nil) != (want > 0) || err == nil && d != want {
			t.Errorf("%s: %d, %v", text, d, err)
		}
	}
	c := b.cfg
	for window, bad := range map[time.Duration]bool{72 * time.Hour: false, 73 * time.Hour: true, 0: true} {
		c.Keys = []Key{keyOf("key", Limit{store.Requests, 5, window})}
		if err := c.Validate(); (err != nil && strings.Contains(err.Error(), "keys[0].limits[0].window: is longer than retention.ledger")) != bad {
			t.Errorf("%v: %v", window, err)
		}
	}
}
