package bot

import (
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"dyno/services/bot/openai"
)

// stop asks to stop a turn, and returns the status.
func (b *bed) stop(name, who string) int {
	b.t.Helper()
	status, _ := b.request(http.MethodDelete, "/v1/bot/chat/"+name, who)
	return status
}

// TestStop: a stopped answer ends at once, its text is kept, and the conversation can go on. Nobody else can stop it.
func TestStop(t *testing.T) {
	for _, byMessage := range []bool{false, true} {
		eachStore(t, func(t *testing.T, set func(*Config)) { stopped(t, set, byMessage) })
	}
}

func stopped(t *testing.T, set func(*Config), byMessage bool) {
	model, history := newStepper(t), unique("h")
	b := serving(t, newLLM(t, nil), func(c *Config) { set(c); model.at(c); c.Keys = []Key{keyOf("key"), keyOf("other")} })
	token := b.login("key", "u1")
	go func() {
		model.words <- "one "
		model.words <- "two"
	}()
	resp, err := b.post(t.Context(), "/v1/bot/chat", token, `{"bot_id":"b","history_id":"`+history+`","message_id":"m 1","query":"hi","stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	in := openai.NewReader(resp.Body)
	for range 3 { // start, and two words
		next(t, in)
	}
	name := resp.Header.Get("X-Dyno-Id")
	if byMessage {
		name = "m%201"
	}
	for who, want := range map[string]int{b.login("key", "u2"): 404, b.login("other", "u1"): 404, secretOf("key"): 404, secretOf("nobody"): 401} {
		if status := b.stop(name, who); status != want {
			t.Errorf("by another: %d, want %d", status, want)
		}
	}
	who, query := token, ""
	if byMessage {
		who, query = secretOf("key"), "?user_id=u1" // the application may, too
	}
	if status := b.stop(name+query, who); status != http.StatusNoContent {
		t.Errorf("stop: %d", status)
	}
	if end, _ := next(t, in); end.name != "done" || !strings.Contains(end.data, `"stopped":true`) || !strings.Contains(end.data, `"state":"kept","turn":1`) || !strings.Contains(end.data, `"estimated":true`) {
		t.Errorf("%+v", end)
	}
	if e, more := next(t, in); more {
		t.Errorf("behind the end: %+v", e)
	}
	resp.Body.Close()
	if status := b.stop(name+query, who); status != http.StatusNotFound {
		t.Errorf("once more: %d", status)
	}
	go func() { model.words <- "three"; close(model.words) }()
	if status, text, _ := b.ask("/v1/bot/chat", token, `{"bot_id":"b","history_id":"`+history+`","query":"and?","stream":true}`); !strings.Contains(text, `"state":"kept","turn":2,"turns_told":1`) || strings.Contains(text, `"stopped"`) {
		t.Errorf("the next turn: %d %s", status, text)
	}
	if status, text := b.get("/v1/bot/history?bot_id=b&history_id="+history, token); !strings.Contains(text, `"reply":"one two"`) {
		t.Errorf("%d %s", status, text)
	}
	outcomes := map[string]int64{}
	for _, e := range b.ledger("key", 2) {
		outcomes[e.Outcome] = e.Completion
	}
	var counted dto.Metric
	if err := b.stats.Requests.WithLabelValues("stop", "204").Write(&counted); err != nil || counted.GetCounter().GetValue() != 1 {
		t.Errorf("%v, %v: want one that was answered without content", &counted, err)
	}
	if outcomes[outcomeAborted] != 2 || outcomes[outcomeOK] != 3 {
		t.Errorf("%v", outcomes)
	}
}

// TestStopBeforeText: a turn is stopped wherever it is: while it waits for another, for the model, or for a place. It is not
// kept, and the conversation goes on.
func TestStopBeforeText(t *testing.T) {
	for _, body := range []string{`"stream":true`, `"stream":false`} {
		t.Run(body, func(t *testing.T) {
			model := newStepper(t)
			b := serving(t, newLLM(t, nil), func(c *Config) { model.at(c); c.MaxConcurrent = 1 })
			answers := make(chan string, 3)
			ask := func(message, history string) {
				go func() {
					status, text, _ := b.ask("/v1/bot/chat", "", `{"bot_id":"b","user_id":"u","history_id":"`+history+`","message_id":"`+message+`","query":"hi",`+body+`}`)
					if status != statusGone || !strings.Contains(text, `"stopped"`) {
						t.Errorf("%s: %d %s", message, status, text)
					}
					answers <- message
				}()
			}
			stop := func(message string) {
				for b.stop(message+"?user_id=u", "") != http.StatusNoContent { // it may not have come yet
				}
				if got := <-answers; got != message {
					t.Errorf("%s has ended, not %s", got, message)
				}
			}
			ask("model", "h")
			<-model.asked
			ask("turn", "h")
			stop("turn")
			ask("place", "other")
			stop("place")
			stop("model")
			if n := b.places.Taken(); n != 0 {
				t.Errorf("%d places are taken", n)
			}
			close(model.words)
			if status, text, _ := b.ask("/v1/bot/chat", "", `{"bot_id":"b","user_id":"u","history_id":"h","query":"hi","stream":true}`); !strings.Contains(text, `"turns_told":0`) || !strings.Contains(text, "event: done") {
				t.Errorf("%d %s", status, text)
			}
			entries := b.ledger("local", 2)
			if len(entries) != 2 || entries[0].Outcome != "ok" && entries[1].Outcome != "ok" {
				t.Errorf("%+v", entries)
			}
			if n := b.running.Len(); n != 0 {
				t.Errorf("%d turns are said to be under way", n)
			}
		})
	}
}
