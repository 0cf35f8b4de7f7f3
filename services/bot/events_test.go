package bot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"dyno/services/bot/answer"
	"dyno/services/bot/openai"
	"dyno/services/bot/upstream"
)

// A stepper stands in for a model server: it says what the test tells it to, when it
// does.
type stepper struct {
	*httptest.Server
	words chan string // what to say; closed at the end of the answer
	asked chan struct{}
}

func newStepper(t testing.TB) *stepper {
	s := &stepper{words: make(chan string), asked: make(chan struct{}, 100)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		s.asked <- struct{}{}
		for {
			select {
			case word, more := <-s.words:
				if !more {
					fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n")
					return
				}
				fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":null}]}\n\n", word)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *stepper) at(c *Config) {
	c.Upstream.Upstreams = []upstream.Upstream{modelOf(s.Listener.Addr())}
}

// An event is what a client gets of a stream, with its ID.
type event struct{ id, name, data string }

// next reads one event; ok is false at the end.
func next(t testing.TB, in *openai.Reader) (e event, ok bool) {
	t.Helper()
	f, err := in.Next()
	if errors.Is(err, io.EOF) {
		return e, false
	}
	if err != nil {
		t.Error(err)
		return e, false
	}
	for _, line := range strings.Split(string(f.Raw), "\n") {
		if id, found := strings.CutPrefix(line, "id: "); found {
			e.id = id
		}
	}
	e.name, e.data = string(f.Name), string(f.Data)
	return e, true
}

// resume asks for the events of an answer behind one.
func (b *bed) resume(ctx context.Context, answer, who, last string) *http.Response {
	b.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/v1/bot/chat/"+answer+"/events", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	if who != "" {
		r.Header.Set("Authorization", "Bearer "+who)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp
}

// TestReadOn: a client loses its connection during an answer, and resumes with the ID of its last event. It gets the
// missing events, and then new ones. The turn is there once, in the ledger too, and nobody else may read it.
func TestReadOn(t *testing.T) {
	model := newStepper(t)
	b := serving(t, newLLM(t, nil), func(c *Config) { model.at(c); c.Keys = []Key{keyOf("key"), keyOf("other")} })
	token := b.login("key", "u1")
	const body = `{"bot_id":"b","history_id":"h","query":"hi","stream":true}`
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-model.asked
		model.words <- "one "
		model.words <- "two "
	}()
	resp, err := b.post(ctx, "/v1/bot/chat", token, body)
	if err != nil {
		t.Fatal(err)
	}
	answer, said, last := resp.Header.Get("X-Dyno-Id"), "", ""
	take := func(e event, ok bool) event {
		t.Helper()
		id, n, good := position(e.id)
		if _, before, _ := position(last); !ok || !good || id != answer || n != before+1 {
			t.Fatalf("%+v after %q", e, last)
		}
		last = e.id
		if word, found := strings.CutPrefix(e.data, `{"text":"`); found {
			said += strings.TrimSuffix(word, `"}`)
		}
		return e
	}
	first := openai.NewReader(resp.Body)
	take(next(t, first)) // start
	take(next(t, first))
	cancel()
	resp.Body.Close()

	// By the address of its events; another client has one of its own.
	resp = b.resume(t.Context(), answer, token, last)
	again := openai.NewReader(resp.Body)
	take(next(t, again))
	model.words <- "three "
	if take(next(t, again)); said != "one two three " {
		t.Errorf("%q", said)
	}
	whole := b.resume(t.Context(), answer, secretOf("key"), "")
	go func() {
		model.words <- "four"
		close(model.words)
	}()
	take(next(t, again))
	if end := take(next(t, again)); end.name != "done" || said != "one two three four" || !strings.Contains(end.data, `"state":"kept","turn":1`) || !strings.Contains(end.data, `"total_tokens":10`) {
		t.Errorf("%q, %+v", said, end)
	}
	if e, ok := next(t, again); ok {
		t.Errorf("behind the end: %+v", e)
	}
	resp.Body.Close()
	all := frames(t, whole.Body)
	whole.Body.Close()
	if len(all) != 6 || all[0].name != "start" || all[5].name != "done" {
		t.Errorf("%+v", all)
	}

	// By the same request once more: it is no other turn.
	post := func(who, id string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/v1/bot/chat", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+who)
		r.Header.Set("Last-Event-ID", id)
		resp, err := b.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return resp.StatusCode, string(text)
	}
	if status, text := post(token, answer+"-5"); status != http.StatusOK || !strings.Contains(text, "id: "+answer+"-6\nevent: done\n") || strings.Contains(text, "delta") {
		t.Errorf("%d %s", status, text)
	}
	other := serving(t, newLLM(t, nil), func(c *Config) { *c = b.cfg; c.Listen = "127.0.0.1:0" })
	without := serving(t, newLLM(t, nil), func(c *Config) { *c = b.cfg; c.Listen, c.ResumeAge = "127.0.0.1:0", 0 })
	for name, c := range map[string]struct {
		b                 *bed
		answer, who, last string
		status            int
		code              string
	}{
		"all of it is known":  {b, answer, token, last, 204, ""},
		"not so far":          {b, answer, token, answer + "-7", 400, "bad_event_id"},
		"of another answer":   {b, answer, token, "x-1", 400, "bad_event_id"},
		"no event":            {b, answer, token, "1", 400, "bad_event_id"},
		"nobody":              {b, answer, "", last, 401, "no_credentials"},
		"another user":        {b, answer, b.login("key", "u2"), "", 410, "events_gone"},
		"another key":         {b, answer, secretOf("other"), "", 410, "events_gone"},
		"an unknown answer":   {b, "unknown", token, "", 410, "events_gone"},
		"at another gateway":  {other, answer, secretOf("key"), last, 410, "events_gone"},
		"where none are kept": {without, answer, secretOf("key"), last, 410, "events_gone"},
	} {
		resp := c.b.resume(t.Context(), c.answer, c.who, c.last)
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.status || !strings.Contains(string(text), c.code) {
			t.Errorf("%s: %d %s, %v: want %d %s", name, resp.StatusCode, text, err, c.status, c.code)
		}
	}
	for _, id := range []string{"x", "x-y", "-1", "x--1"} {
		if status, text := post(token, id); status != http.StatusBadRequest {
			t.Errorf("%q: %d %s", id, status, text)
		}
	}
	if len(model.asked) != 0 {
		t.Errorf("the model was asked %d times more", len(model.asked))
	}
	if e := b.ledger("key", 1)[0]; e.Outcome != "ok" || e.Completion != 3 || e.Prompt != 7 {
		t.Errorf("%+v", e)
	}
	if _, n, err := b.archive.Turns(t.Context(), "key/b/u1/h", 1); err != nil || n != 1 {
		t.Errorf("%d turns, %v", n, err)
	}
}

// TestHeads: a client gets the answer's beginning before the model's first word, and a resuming one before the next
// word.
func TestHeads(t *testing.T) {
	model := newStepper(t)
	b := serving(t, newLLM(t, nil), model.at)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // against a hang
	defer cancel()
	go func() {
		<-model.asked
		model.words <- ""
	}()
	resp, err := b.post(ctx, "/v1/bot/chat", "", `{"bot_id":"b","user_id":"u1","query":"hi","stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := openai.NewReader(resp.Body)
	start, ok := next(t, in)
	if !ok || start.name != "start" {
		t.Fatalf("%+v", start)
	}
	again := b.resume(ctx, resp.Header.Get("X-Dyno-Id"), "", start.id)
	defer again.Body.Close()
	model.words <- "one"
	close(model.words)
	for _, in := range []*openai.Reader{in, openai.NewReader(again.Body)} {
		if e, ok := next(t, in); !ok || e.data != `{"text":"one"}` {
			t.Errorf("%+v", e)
		}
	}
}

// TestLeftForGood: an answer that was given up has an end that says so, for who comes
// later.
func TestLeftForGood(t *testing.T) {
	model := newStepper(t)
	b := serving(t, newLLM(t, nil), func(c *Config) { model.at(c); c.ChatDisconnect = Cancel })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-model.asked
		model.words <- "one "
	}()
	resp, err := b.post(ctx, "/v1/bot/chat", "", `{"bot_id":"b","user_id":"u1","query":"hi","stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := next(t, openai.NewReader(resp.Body)); !ok {
		t.Fatal("no event")
	}
	cancel()
	resp.Body.Close()
	b.places.Wait()
	if e := b.ledger("local", 1)[0]; e.Outcome != "aborted" {
		t.Errorf("%+v", e)
	}
	resp = b.resume(t.Context(), resp.Header.Get("X-Dyno-Id"), "", "")
	defer resp.Body.Close()
	got := frames(t, resp.Body)
	if n := len(got); n < 2 || got[0].name != "start" || got[n-1].name != "error" || !strings.Contains(got[n-1].data, answer.ErrLeft.Error()) {
		t.Errorf("%+v", got)
	}
}

// FuzzPosition: what is taken as an event's ID is one.
func FuzzPosition(f *testing.F) {
	for _, text := range []string{"", "a-1", "a", "-1", "a-", "a--1", "a-1-2", "a-18446744073709551615", "a-+1", "a\x00-1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, after, ok := position(text)
		if !ok {
			return
		}
		again, n, ok := position(id + "-" + strconv.FormatUint(after, 10))
		if !ok || again != id || n != after || !validName(id) || strings.Contains(id, "-") {
			t.Errorf("%q: %q, %d", text, id, after)
		}
	})
}
