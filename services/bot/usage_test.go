package bot

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"dyno/services/bot/store"
	"dyno/services/bot/store/storetest"
	"dyno/services/internal/serve"
)

// TestHistory: a user reads the turns of conversations of their own, and nobody else's.
func TestHistory(t *testing.T) { eachStore(t, readHistory) }

func readHistory(t *testing.T, set func(*Config)) {
	b := serving(t, newLLM(t, nil), func(c *Config) { set(c); c.Keys, c.HistoryTurns = []Key{keyOf("one"), keyOf("two")}, 2 })
	one := b.login("one", "u1")
	for i := range 3 {
		b.say(one, "h 1&", fmt.Sprint("<b>", i))
	}
	const path = "/v1/bot/history?bot_id=b&history_id=h%201%26"
	status, text := b.get(path, one)
	var past struct {
		Count int64
		Turns []pastTurn
	}
	if err := json.Unmarshal([]byte(text), &past); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if past.Count != 3 || len(past.Turns) != 2 || past.Turns[1].Turn != 3 || past.Turns[1].Query != "<b>2" || past.Turns[1].Reply == "" || past.Turns[1].At.IsZero() {
		t.Errorf("%+v", past)
	}
	if _, text := b.get(path+"&user_id=u1", secretOf("one")); !strings.Contains(text, `"count":3`) {
		t.Errorf("by the API key: %s", text)
	}
	for name, c := range map[string]struct {
		path, who string
		status    int
		want      string
	}{
		"nobody":             {path, "", 401, "no_credentials"},
		"another user":       {path, b.login("one", "u2"), 200, `"count":0,"turns":[]`},
		"another key":        {path, b.login("two", "u1"), 200, `"count":0,"turns":[]`},
		"asked as another":   {path + "&user_id=u1", b.login("one", "u2"), 403, "other_user"},
		"without a user":     {path, secretOf("one"), 400, "user_id"},
		"without a history":  {"/v1/bot/history?bot_id=b", one, 400, "history_id"},
		"names that combine": {"/v1/bot/history?bot_id=b%2Fu1&history_id=x", one, 200, `"count":0`},
	} {
		if status, text := b.get(c.path, c.who); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
}

// TestKeys: the operator sees all keys, some at a time, and what cannot be read is said;
// no secret and no hash of one is told.
func TestKeys(t *testing.T) {
	redis, address := storetest.Own(t, storetest.Redis)
	b := serving(t, newLLM(t, nil), func(c *Config) {
		embedded(ArchiveMemory, "")(c)
		c.Admin, c.Redis, c.StoreTimeout = "127.0.0.1:0", address, 3*time.Second
		for i := range maxListedKeys + 5 {
			c.Keys = append(c.Keys, keyOf(fmt.Sprintf("key-%03d", i), Limit{store.Tokens, 100_000, 0}))
		}
	})
	b.say(secretOf("key-001"), "", "hello")
	b.settled()
	b.ledger("key-001", 1)
	list := func(path string, want int) (keyList, string) {
		t.Helper()
		resp, err := b.client.Get("http://" + b.AdminAddr().String() + keysPath + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != want {
			t.Fatalf("%s: %s %s, %v", path, resp.Status, text, err)
		}
		var l keyList
		if want == http.StatusOK && strings.HasPrefix(path, "list") {
			if err := json.Unmarshal(text, &l); err != nil {
				t.Fatal(err)
			}
		}
		if path == "" && resp.Header.Get("Content-Security-Policy") != serve.PagePolicy {
			t.Errorf("%v", resp.Header)
		}
		return l, string(text)
	}
	l, text := list("list", 200)
	k := l.Keys[1]
	if l.Total != 105 || len(l.Keys) != 100 || l.Next != 100 || k.Key != "key-001" || k.Limits[0].Used == nil || *k.Limits[0].Used != k.Today.Tokens || k.Today.Tokens == 0 || k.Today.Requests != 1 ||
		len(l.Missing) != 0 || !l.Upstreams[0].Ready || l.Upstreams[0].Asked != 1 || l.Archive.Kind != ArchiveMemory {
		t.Errorf("%s", text)
	}
	if l.Managed {
		t.Errorf("%s", text)
	}
	if strings.Contains(text, b.cfg.Keys[1].SHA256) || strings.Contains(text, secretOf("key-001")) {
		t.Errorf("%s", text)
	}
	if l, text := list("list?offset=100", 200); len(l.Keys) != 5 || l.Next != 0 || l.Keys[0].Key != "key-100" {
		t.Errorf("%s", text)
	}
	if l, text := list("list?offset=1000", 200); len(l.Keys) != 0 || l.Total != 105 {
		t.Errorf("%s", text)
	}
	list("list?offset=-1", 400)
	list("", 200)
	redis.Kill()
	if l, text := list("list?offset=104", 200); len(l.Missing) != 1 || l.Keys[0].Limits[0].Used != nil || l.Keys[0].Today == nil {
		t.Errorf("without Redis: %s", text)
	}
}

// TestPage: the page is there, unless it is not wanted.
func TestPage(t *testing.T) {
	m := newLLM(t, nil)
	if status, text := serving(t, m, nil).get("/", ""); status != http.StatusOK || !strings.Contains(text, `<div id="bot">`) {
		t.Errorf("%d %s", status, text)
	}
	if status, text := serving(t, m, func(c *Config) { c.Page = false }).get("/", ""); status != http.StatusNotFound {
		t.Errorf("%d %s", status, text)
	}
}
