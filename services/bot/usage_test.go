package bot

import (
	"encoding/json"
	"fmt"
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

// TestKeys: the operator sees the keys of the file, and changes none; what cannot be read is left out; no secret and no hash
// of one is shown.
func TestKeys(t *testing.T) {
	redis, address := storetest.Own(t, storetest.Redis)
	b := serving(t, newLLM(t, nil), func(c *Config) {
		embedded(ArchiveMemory, "")(c)
		c.Admin, c.Redis, c.StoreTimeout = "127.0.0.1:0", address, 3*time.Second
		c.Keys = []Key{keyOf("one"), keyOf("two", Limit{store.Tokens, 100_000, 0})}
	})
	b.say(secretOf("two"), "", "hello")
	b.settled()
	e := b.ledger("two", 1)[0]
	list := func() string { return fmt.Sprint(b.manage("GET", "/api/v1/keys?used=true", "", 200)["items"]) }
	text := list()
	if strings.Count(text, "declared:true id:") != 3 || !strings.Contains(text, fmt.Sprint(" used:", e.Prompt+e.Completion)) || strings.Contains(text, b.cfg.Keys[1].SHA256) || strings.Contains(text, secretOf("two")) {
		t.Error(text)
	}
	for path, want := range map[string]string{
		"usage?group=key": fmt.Sprintf("key:two money:%d", e.Money), "deployments": "calls:1", "archive": "failing:false kind:memory pending:0", "me": "name:admin role:reader", "audit": "changes:[]",
	} {
		if text := fmt.Sprint(b.manage("GET", "/api/v1/"+path, "", 200)); !strings.Contains(text, want) {
			t.Errorf("%s: %s", path, text)
		}
	}
	for path, method := range map[string]string{"keys": "POST", "keys/one": "DELETE", "keys/one/rotate": "POST", "deployments/up%2Fdyno-1/reset": "POST", "users/u1/data": "DELETE"} {
		if text := fmt.Sprint(b.manage(method, "/api/v1/"+path, "", http.StatusConflict)); !strings.Contains(text, "not_managed") {
			t.Errorf("%s %s: %s", method, path, text)
		}
	}
	resp, err := b.client.Get("http://" + b.AdminAddr().String() + keysPath)
	if err != nil {
		t.Fatal(err)
	}
	if status, text, header := b.whole(resp); status != http.StatusOK || header.Get("Content-Security-Policy") != serve.PagePolicy {
		t.Errorf("%d %s", status, text)
	}
	redis.Kill()
	if text := list(); strings.Contains(text, "used:") || !strings.Contains(text, "amount:") {
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
