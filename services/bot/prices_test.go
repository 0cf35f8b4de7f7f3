package bot

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

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
		u.Price = upstream.Price{Prompt: 2500, Completion: 10_000}
		u.Prices = map[string]upstream.Price{"big": {Prompt: 2500, Cached: &half, Completion: 10_000}, "small": {Prompt: 10, Completion: 20}}
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
			if e := b.ledger("key", n)[0]; e.Money != want || e.Model != model {
				t.Errorf("%s: %+v, want %d", model, e, want)
			}
		}
	}
	until(t, "the budget has what the ledger has", func() bool {
		u, err := b.usageOf(t.Context(), b.live.Load().payers["key"], time.Now())
		return err == nil && u.Limits[0].Used != nil && *u.Limits[0].Used == total
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
