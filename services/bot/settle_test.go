package bot

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dyno/services/bot/openai"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// entryOf is the key's entry of an ID.
func (b *bed) entryOf(id string) (found store.Entry) {
	b.t.Helper()
	if err := b.batch.Flush(b.t.Context()); err != nil {
		b.t.Error(err)
	}
	list, err := b.archive.Entries(b.t.Context(), "key", 100)
	for _, e := range list {
		if e.ID == id {
			found = e
		}
	}
	if err != nil || found.ID == "" {
		b.t.Errorf("%s is not in the ledger: %v", id, err)
	}
	return found
}

// counts checks what the key's limits count.
func (b *bed) counts(what string, tokens, money int64) {
	b.t.Helper()
	b.settled()
	u, err := b.usageOf(b.t.Context(), b.live.Load().payers["key"], time.Now())
	if err != nil || u.Limits[0].Used != tokens || u.Limits[1].Used != money {
		b.t.Errorf("%s: %d tokens and %d, %v, want %d and %d", what, u.Limits[0].Used, u.Limits[1].Used, err, tokens, money)
	}
}

// atBills runs a gateway whose key has limits, before servers that keep what they make. Batches have half the price.
func atBills(t *testing.T, set func(*Config)) (b *bed, all map[string]*keeping) {
	b, first, second := atKeeping(t, func(c *Config) {
		if set != nil {
			set(c)
		}
		c.Keys = []Key{keyOf("key", Limit{store.Tokens, 1e6, 0}, Limit{store.Money, 1e12, 0}), keyOf("other")}
		for i := range c.Upstream.Upstreams {
			c.Upstream.Upstreams[i].Price = upstream.Prices{{Prompt: 100, Completion: 1000, Batch: 0.5, Request: 7}}
		}
	})
	return b, map[string]*keeping{"a": first, "b": second}
}

// at returns what a server keeps.
func at(all map[string]*keeping, id string) (*keeping, map[string]any) {
	_, name, _ := strings.Cut(id, "_")
	k := all[name[:1]]
	return k, k.objects[id]
}

// TestBackgroundIsSettled: a response in the background costs what its upstream says at its end, and only once.
func TestBackgroundIsSettled(t *testing.T) {
	const fixed, ended = 7, 11*100 + 13*1000 + 7
	for _, c := range []struct {
		name, status  string
		usage         any
		ask           string
		outcome       string
		tokens, money int64 // -1 is as estimated
	}{
		{"got", "in_progress", nil, "GET ", "ok", 24, ended},
		{"streamed", "in_progress", nil, "GET ?stream=true", "ok", 24, ended},
		{"deleted", "in_progress", nil, "DELETE ", "ok", 24, ended},
		{"not asked for", "in_progress", nil, "", "ok", 24, ended},
		{"cut", "incomplete", usageOfKeeping, "GET ", "ok", 24, ended},
		{"cached tokens", "completed", map[string]any{"input_tokens": 100, "output_tokens": 1, "input_tokens_details": map[string]any{"cached_tokens": 90}}, "GET ", "ok", 101, 100*100 + 1000 + fixed},
		{"failed", "failed", nil, "GET ", "failed", 0, 0},
		{"failed late", "failed", usageOfKeeping, "GET ", "failed", 24, ended},
		{"cancelled", "in_progress", nil, "POST /cancel", "failed", 0, 0},
		{"without a usage", "completed", nil, "GET ", "ok", -1, -1},
		{"of 0 tokens", "completed", map[string]any{"input_tokens": 0, "output_tokens": 0}, "GET ", "ok", -1, -1},
		{"goes on", "queued", nil, "GET ", store.Unfinished, -1, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, set func(*Config)) {
				c := c
				b, all := atBills(t, set)
				status, text, header := b.ask("/v1/responses", secretOf("key"), `{"model":"dyno-1","input":"hi","background":true,"max_output_tokens":5000}`)
				id := b.idIn(status, text)
				before := b.entryOf(header.Get("X-Dyno-Id"))
				if before.Outcome != store.Unfinished || !before.Estimated || before.Completion != 5000 {
					t.Errorf("%+v", before)
				}
				b.counts("at first", before.Prompt+5000, before.Money)
				k, o := at(all, id)
				if o["status"] = c.status; c.usage != nil {
					o["usage"] = c.usage
				}
				for again := range 2 {
					switch method, rest, _ := strings.Cut(c.ask, " "); {
					case c.ask == "":
						if again == 0 {
							b.settleDue(time.Now())
							b.counts("too early", before.Prompt+5000, before.Money)
						}
						b.settleDue(time.Now().Add(time.Hour))
					case k.objects[id] != nil:
						if status, text := b.request(method, "/v1/responses/"+id+rest, secretOf("key")); status != http.StatusOK {
							t.Errorf("%d %s", status, text)
						}
					}
					c.ask = strings.Replace(c.ask, "POST /cancel", "GET ", 1)
					if c.tokens < 0 {
						c.tokens, c.money = before.Prompt+before.Completion, before.Money
					}
					e := b.entryOf(before.ID)
					if e.Outcome != c.outcome || e.Prompt+e.Completion != c.tokens || e.Money != c.money || e.Upstream != before.Upstream || !e.At.Equal(before.At) {
						t.Errorf("%+v", e)
					}
					b.recompute(e)
					b.counts("then", c.tokens, c.money)
				}
				sum, err := b.archive.Sum(t.Context(), store.Part{Key: "key"}, time.Time{})
				if err != nil || sum.Tokens != c.tokens || sum.Money != c.money {
					t.Errorf("the ledger's sum is %+v, %v", sum, err)
				}
			})
		})
	}
}

// TestBatchIsSettled: a batch costs a part of what other requests do, in advance and in the end.
func TestBatchIsSettled(t *testing.T) {
	for _, c := range []struct {
		name, status, output string
		usage                any
		ask                  string
		outcome              string
		tokens, money        int64 // -1 is as estimated
	}{
		{"by its usage", "completed", "", usageOfKeeping, "/v1/batches/{id}", "ok", 24, (11*100 + 13*1000 + 7 + 1) / 2},
		{"in a list", "completed", "", usageOfKeeping, "/v1/batches", "ok", 24, (11*100 + 13*1000 + 7 + 1) / 2},
		{"not asked for", "expired", "", usageOfKeeping, "", "failed", 24, (11*100 + 13*1000 + 7 + 1) / 2},
		{"by its lines", "completed", `{"response":{"body":{"usage":{"prompt_tokens":5,"completion_tokens":1}}}}` + "\n" + `{"response":{"body":{"usage":{"input_tokens":2,"output_tokens":4}}},"error":null}` + "\n", nil, "", "ok", 12, (7*100 + 5*1000 + 7 + 1) / 2},
		{"its lines do not say", "completed", `{"response":{"body":{}}}` + "\n", nil, "", store.Unfinished, -1, -1},
		{"lines when it is asked for", "completed", `{"response":{"body":{}}}` + "\n", nil, "/v1/batches/{id}", store.Unfinished, -1, -1},
		{"invalid", "failed", "", nil, "/v1/batches/{id}", "failed", 0, 0},
		{"goes on", "finalizing", "", usageOfKeeping, "", store.Unfinished, -1, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, all := atBills(t, nil)
			in := b.idIn(b.put("key", "batch", aLine))
			status, text, header := b.ask("/v1/batches", secretOf("key"), `{"input_file_id":"`+in+`","endpoint":"/v1/chat/completions","completion_window":"24h"}`)
			id := b.idIn(status, text)
			before := b.entryOf(header.Get("X-Dyno-Id"))
			if before.Outcome != store.Unfinished || before.Completion != 100 || before.Money != (100*before.Prompt+1000*100+7+1)/2 {
				t.Errorf("%+v", before)
			}
			b.counts("at first", before.Prompt+100, before.Money)
			k, o := at(all, id)
			if o["status"], o["usage"] = c.status, c.usage; c.output != "" {
				out := k.add("file", map[string]any{"object": "file"})["id"].(string)
				o["output_file_id"], k.content[out] = out, []byte(c.output)
			}
			if c.tokens < 0 {
				c.tokens, c.money = before.Prompt+before.Completion, before.Money
			}
			for i := range 2 {
				if c.ask == "" {
					b.settleDue(time.Now().Add(time.Duration(i+1) * time.Hour))
				} else if status, text := b.get(strings.Replace(c.ask, "{id}", id, 1), secretOf("key")); status != http.StatusOK {
					t.Errorf("%d %s", status, text)
				}
				e := b.entryOf(before.ID)
				if e.Outcome != c.outcome || e.Prompt+e.Completion != c.tokens || e.Money != c.money {
					t.Errorf("%+v", e)
				}
				b.counts("then", c.tokens, c.money)
			}
		})
	}
}

// TestBatchOfAModel: each model at an upstream has its own price.
func TestBatchOfAModel(t *testing.T) {
	b, _, _ := atKeeping(t, func(c *Config) {
		delete(c.Upstream.Upstreams[0].Models, "dyno-2")
		u := &c.Upstream.Upstreams[1]
		u.Models, u.Prices = map[string]string{"dyno-1": "own-0", "dyno-2": "own-1"}, map[string]upstream.Prices{"dyno-2": {{Prompt: 2, Completion: 4, Batch: 0.25}}}
		c.Keys = []Key{keyOf("key", Limit{store.Money, 150, 0})} // more than the batch's price, and less than that of others
	})
	in := b.idIn(b.put("key", "batch", strings.Replace(aLine, "dyno-1", "dyno-2", 1)))
	status, text, header := b.ask("/v1/batches", secretOf("key"), `{"input_file_id":"`+in+`","endpoint":"/v1/chat/completions","completion_window":"24h"}`)
	b.idIn(status, text)
	if e := b.entryOf(header.Get("X-Dyno-Id")); e.Money != (2*e.Prompt+4*100+2)/4 {
		t.Errorf("%+v", e)
	}
}

// TestLooksEnd: what the upstream does not have any more is not looked at again, and nor is what is too old; a client's own
// request settles that all the same.
func TestLooksEnd(t *testing.T) {
	b, all := atBills(t, nil)
	made := func() (id string, k *keeping) {
		id = b.idOf("/v1/responses", secretOf("key"), `{"model":"dyno-1","input":"hi","background":true,"max_output_tokens":5000}`)
		k, o := at(all, id)
		o["status"] = "queued"
		return id, k
	}
	object := func(id string) store.Object {
		list, err := b.archive.Objects(t.Context(), store.Object{Kind: openai.Response, ID: id}, "", 1)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0]
	}
	id, k := made()
	now := time.Now()
	for i, want := range []time.Duration{2 * time.Minute, 3 * time.Minute, 30 * time.Minute, 6 * time.Hour, 6 * time.Hour, 0} {
		now = object(id).At.Add([]time.Duration{3 * time.Minute, 6 * time.Minute, time.Hour, 24 * time.Hour, 100 * time.Hour, 9 * 24 * time.Hour}[i])
		b.settleDue(now)
		if o := object(id); want > 0 && !o.Due.Equal(now.Add(want).Truncate(time.Microsecond)) && o.Due.Sub(now.Add(want)).Abs() > time.Microsecond || want == 0 && !o.Due.IsZero() {
			t.Errorf("%d: due in %v, want %v", i, o.Due.Sub(now), want)
		}
	}
	asked := len(k.asked)
	if b.settleDue(now.AddDate(1, 0, 0)); len(k.asked) != asked {
		t.Errorf("asked for all the same: %v", k.asked)
	}
	k.objects[id]["status"] = "failed"
	if status, text := b.get("/v1/responses/"+id, secretOf("key")); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	b.counts("failed", 0, 0)
	id, k = made()
	delete(k.objects, id)
	b.settleDue(now.Add(time.Hour))
	if o := object(id); !o.Due.IsZero() || o.Bill == "" {
		t.Errorf("%+v", o)
	}
}

// TestReplicasSettleOnce: two gateways look at what has ended at once, by themselves and because clients ask. It is settled once.
func TestReplicasSettleOnce(t *testing.T) {
	set := onServers(t)
	a, all := atBills(t, set)
	other := serving(t, newLLM(t, nil), func(c *Config) {
		set(c)
		c.Keys, c.Upstream = a.cfg.Keys, a.cfg.Upstream
	})
	beds, ids := []*bed{a, other}, []string{}
	const n = 20
	for i := range n {
		ids = append(ids, beds[i%2].idOf("/v1/responses", secretOf("key"), `{"model":"dyno-1","input":"hi","background":true,"max_output_tokens":5000}`))
	}
	var asking sync.WaitGroup
	for i, b := range beds {
		asking.Go(func() { b.settleDue(time.Now().Add(time.Duration(i+1) * time.Hour)) })
		for _, id := range ids {
			asking.Go(func() {
				if status, text := b.get("/v1/responses/"+id, secretOf("key")); status != http.StatusOK {
					t.Errorf("%d %s", status, text)
				}
			})
		}
	}
	asking.Wait()
	for _, b := range beds {
		b.settled()
		if err := b.batch.Flush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, b := range beds {
		b.counts("once", 24*n, (11*100+13*1000+7)*n)
	}
	sum, err := a.archive.Sum(t.Context(), store.Part{Key: "key"}, time.Time{})
	if want := (store.Cost{Requests: 3 * n, Tokens: 24 * n, Money: (11*100 + 13*1000 + 7) * n}); err != nil || sum != want {
		t.Errorf("%+v, %v, want %+v", sum, err, want)
	}
	asked := 0
	for _, k := range all {
		asked += len(k.asked)
	}
	if asked > n*(1+2+1) { // made, asked for by two clients, and looked at once
		t.Errorf("upstreams were asked %d times", asked)
	}
}

// TestSettledAfterARestart: limits that begin with the ledger's estimates are corrected.
func TestSettledAfterARestart(t *testing.T) {
	set := embedded(ArchiveSQLite, filepath.Join(t.TempDir(), "db"))
	var cfg Config
	var id string
	var all map[string]*keeping
	t.Run("before", func(t *testing.T) {
		var b *bed
		b, all = atBills(t, set)
		cfg = b.cfg
		id = b.idOf("/v1/responses", secretOf("key"), `{"model":"dyno-1","input":"hi","background":true,"max_output_tokens":5000}`)
	})
	k, _ := at(all, id)
	again := httptest.NewServer(k)
	t.Cleanup(again.Close)
	b := serving(t, newLLM(t, nil), func(c *Config) {
		set(c)
		c.Keys, c.Upstream = cfg.Keys, cfg.Upstream
		for i := range c.Upstream.Upstreams {
			c.Upstream.Upstreams[i].URL = again.URL + "/v1"
		}
	})
	if u, err := b.usageOf(t.Context(), b.live.Load().payers["key"], time.Now()); err != nil || u.Limits[0].Used < 5000 {
		t.Errorf("%+v, %v", u, err)
	}
	if status, text := b.get("/v1/responses/"+id, secretOf("key")); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	b.counts("settled", 24, 11*100+13*1000+7)
}

// TestLeftStreamIsSettled: a stream in the background whose client has left is settled when its upstream has ended it.
func TestLeftStreamIsSettled(t *testing.T) {
	b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"id":"r1","status":"completed","output":[],"usage":{"input_tokens":2,"output_tokens":3}}`)
			return
		}
		_, _ = io.WriteString(w, "data: {\"type\":\"response.created\",\"response\":{\"id\":\"r1\",\"status\":\"queued\"}}\n\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"i\",\"delta\":\"word\"}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}, nil)
	ctx, leave := context.WithCancel(t.Context())
	w := &firstWrite{ResponseRecorder: httptest.NewRecorder(), written: make(chan struct{}, 1)}
	left := b.direct(ctx, w, "/v1/responses", `{"model":"dyno-1","input":"hi","max_output_tokens":5000,"background":true,"stream":true}`)
	<-w.written
	leave()
	<-left
	if e := b.ledger("local", 1)[0]; e.Outcome != store.Unfinished || e.Completion != 5000 {
		t.Errorf("%+v", e)
	}
	b.settleDue(time.Now().Add(time.Hour))
	if e := b.ledger("local", 1)[0]; e.Outcome != "ok" || e.Prompt != 2 || e.Completion != 3 || !e.Stream || e.Money != 2*100+3*1000 {
		t.Errorf("%+v", e)
	}
}
