package bot

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"dyno/services/bot/upstream"
)

// TestNamesAreNotRepaired: a name that is not UTF-8 is refused wherever clients give one. With U+FFFD in place of its
// bytes it would be another user's.
func TestNamesAreNotRepaired(t *testing.T) {
	b := serving(t, newLLM(t, nil), func(c *Config) { c.Keys = []Key{keyOf("shop")} })
	shop, user := secretOf("shop"), b.login("shop", "ann\ufffd")
	b.say(user, "h\ufffd", "mine")
	for name, bad := range map[string]string{"a byte": "ann\xff", "another byte": "ann\xfe", "a lone surrogate": `ann\ud800`, "another": `ann\udfff`} {
		for path, body := range map[string]string{
			"/v1/login":            `{"user_id":"NAME"}`,
			"/v1/bot/chat":         `{"bot_id":"b","user_id":"NAME","query":"x"}`,
			"/v1/bot/chat?bot":     `{"bot_id":"NAME","user_id":"u","query":"x"}`,
			"/v1/bot/chat?history": `{"bot_id":"b","user_id":"u","query":"x","history_id":"NAME"}`,
			"/v1/bot/chat?message": `{"bot_id":"b","user_id":"u","query":"x","message_id":"NAME"}`,
			"/v1/bot/chat?query":   `{"bot_id":"b","user_id":"u","query":"NAME"}`,
			"/v1/chat/completions": `{"model":"dyno-1","user":"NAME","messages":[{"role":"user","content":"x"}]}`,
			"/v1/responses":        `{"model":"dyno-1","input":"x","metadata":{"NAME":"x"}}`,
		} {
			if status, text, _ := b.ask(path, shop, strings.Replace(body, "NAME", bad, 1)); status != http.StatusBadRequest || !strings.Contains(text, "UTF-8") && !strings.Contains(text, "surrogate") {
				t.Errorf("%s: %s: %d %s", path, name, status, text)
			}
		}
		for _, c := range []struct{ method, path string }{
			{http.MethodGet, "/v1/bot/history?bot_id=b&history_id=h&user_id="},
			{http.MethodGet, "/v1/bot/history?bot_id=b&user_id=u&history_id="},
			{http.MethodGet, "/v1/bot/history?user_id=u&history_id=h&bot_id="},
			{http.MethodDelete, "/v1/bot/chat/some?user_id="},
		} {
			if status, text := b.request(c.method, c.path+url.QueryEscape(bad), shop); strings.Contains(bad, `\`) {
				if strings.Contains(text, "mine") {
					t.Errorf("%s %s: %d %s", c.path, name, status, text)
				}
			} else if status != http.StatusBadRequest || !strings.Contains(text, "UTF-8") {
				t.Errorf("%s %s: %d %s", c.path, name, status, text)
			}
		}
	}
	for _, query := range []string{"user_id=a&user_id=b", "user_id=%zz", "user_id=a;b"} {
		for method, path := range map[string]string{http.MethodDelete: "/v1/bot/chat/some?", http.MethodGet: "/v1/bot/history?bot_id=b&history_id=h&"} {
			if status, text := b.request(method, path+query, shop); status != http.StatusBadRequest {
				t.Errorf("%s: %d %s", path+query, status, text)
			}
		}
	}
}

// TestOneReading: a request that two readers could understand differently is refused, at every endpoint with a body.
// No upstream gets it.
func TestOneReading(t *testing.T) {
	model := newRecorder(t)
	b := serving(t, newLLM(t, nil), func(c *Config) {
		c.Keys, c.Upstream.Upstreams = []Key{keyOf("shop")}, []upstream.Upstream{modelOf(model.Listener.Addr())}
	})
	const chat = `"model":"dyno-1","messages":[{"role":"user","content":"x"}]`
	for _, c := range []struct{ path, body, member string }{
		{"/v1/chat/completions", `{` + chat + `,"Stream":true}`, "Stream"},
		{"/v1/chat/completions", `{` + chat + `,"stream_options":{"Include_usage":false}}`, "stream_options.Include_usage"},
		{"/v1/chat/completions", `{` + chat + `,"max_tokens":1,"max_tokens":1000000}`, "max_tokens"},
		{"/v1/chat/completions", `{` + chat + `,"tools":[{"Type":"web_search"}]}`, "tools.0.Type"},
		{"/v1/chat/completions", `{"model":"dyno-1","messages":[{"role":"user","Content":[{"type":"file"}]}]}`, "messages.0.Content"},
		{"/v1/chat/completions", `{"model":"dyno-1","messages":[{"role":"user","role":"system","content":"x"}]}`, "messages.0.role"},
		{"/v1/responses", `{"model":"dyno-1","input":"x","Background":true}`, "Background"},
		{"/v1/responses", `{"model":"dyno-1","input":[{"role":"user","content":[{"File_ID":"f"}]}]}`, "input.0.content.0.File_ID"},
		{"/v1/bot/chat", `{"bot_id":"b","user_id":"u","User_ID":"w","query":"x"}`, "User_ID"},
		{"/v1/bot/chat", `{"bot_id":"b","user_id":"u","query":"x","query":"y"}`, "query"},
		{"/v1/login", `{"user_id":"u","USER_ID":"w"}`, "USER_ID"},
		{"/v1/login", `{"user_id":"u","user_id":"w"}`, "user_id"},
	} {
		if status, text, _ := b.ask(c.path, secretOf("shop"), c.body); status != http.StatusBadRequest || !strings.Contains(text, `"param":"`+c.member+`"`) {
			t.Errorf("%s %s: %d %s", c.path, c.body, status, text)
		}
	}
	if len(model.asked) > 0 {
		t.Errorf("upstreams were asked: %q", model.asked)
	}
	// What nobody here looks at is as free as before.
	for _, more := range []string{`,"Other":1,"other":2`, `,"metadata":{"Model":"x","model":"y"}`, `,"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"Type":{},"type":{}}}}}]`} {
		if status, text, _ := b.ask("/v1/chat/completions", secretOf("shop"), `{`+chat+more+`}`); status != http.StatusOK {
			t.Errorf("%s: %d %s", more, status, text)
		}
	}
}
