package bot

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"dyno/services/bot/budget"
	"dyno/services/bot/store"
)

// begin sends the head of a request and some of its body.
func (b *bed) begin(key, head, body string) (net.Conn, *bufio.Reader) {
	b.t.Helper()
	c, err := net.Dial("tcp", b.Addr().String())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	if _, err := fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n%s", secretOf(key), head, body); err != nil {
		b.t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

// answered reads the answer to what was begun.
func (b *bed) answered(from *bufio.Reader) (int, string, http.Header) {
	b.t.Helper()
	resp, err := http.ReadResponse(from, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.whole(resp)
}

// holds waits until that many bytes are held: a client has its answer before they are given back.
func holds(t *testing.T, r *budget.Budget, want int64) {
	t.Helper()
	until(t, fmt.Sprintf("%d bytes are held", want), func() bool { return r.Held() == want })
}

// TestBodiesAreBounded: what is held of requests has a bound, of which one key has half. Requests beyond it get a
// Retry-After, with and without a Content-Length, and all memory is returned.
func TestBodiesAreBounded(t *testing.T) {
	b := serving(t, newLLM(t, nil), func(c *Config) {
		c.Keys, c.MaxBodyBytes, c.MaxBodiesBytes = []Key{keyOf("one"), keyOf("two")}, 1000, 4000
	})
	ask := `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}]`
	ask += strings.Repeat(" ", 999-len(ask)) + "}"
	held := func(want int64) {
		t.Helper()
		holds(t, b.bodies, want)
	}
	const sized = "Content-Length: 1000"
	one, answer := b.begin("one", sized, ask[:10])
	held(1000)
	b.begin("one", sized, "")
	held(2000)
	crowded := func(status int, text string, h http.Header) {
		t.Helper()
		if status != http.StatusServiceUnavailable || h.Get("Retry-After") == "" || !strings.Contains(text, `"overloaded"`) {
			t.Errorf("%d %s", status, text)
		}
	}
	crowded(b.ask("/v1/chat/completions", secretOf("one"), ask))
	crowded(b.ask("/v1/bot/chat", secretOf("one"), `{"bot_id":"b","user_id":"u","query":"hi"}`))
	_, parts := b.begin("one", "Transfer-Encoding: chunked", "3e8\r\n"+ask+"\r\n") // nor does its end come
	crowded(b.answered(parts))
	if status, text, _ := b.ask("/v1/chat/completions", secretOf("two"), ask); status != http.StatusOK {
		t.Errorf("of another key: %d %s", status, text)
	}
	held(2000) // or the second of these would be refused
	b.begin("two", sized, "")
	b.begin("two", sized, "")
	held(4000)
	if _, err := io.WriteString(one, ask[10:]); err != nil {
		t.Fatal(err)
	}
	if status, text, _ := b.answered(answer); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	held(3000)
	_, parts = b.begin("one", "Transfer-Encoding: chunked", "3e8\r\n"+ask+"\r\n0\r\n\r\n")
	if status, text, _ := b.answered(parts); status != http.StatusOK {
		t.Errorf("without a size: %d %s", status, text)
	}
	held(3000)
}

// TestUnreadBodies: a refusal that needs no body does not wait for it, with a valid key or without.
func TestUnreadBodies(t *testing.T) {
	b := serving(t, newLLM(t, nil), func(c *Config) { c.Keys = []Key{keyOf("one", Limit{store.Requests, 1, 24 * time.Hour})} })
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if status, text, _ := b.ask("/v1/chat/completions", secretOf("one"), `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}]}`); status != want {
			t.Fatalf("%d %s", status, text)
		}
	}
	for key, want := range map[string]int{"one": http.StatusTooManyRequests, "nobody": http.StatusUnauthorized} {
		for _, head := range []string{"Content-Length: 1000000", "Content-Length: 100", "Transfer-Encoding: chunked"} {
			_, answer := b.begin(key, head, "")
			if status, text, _ := b.answered(answer); status != want {
				t.Errorf("%s, %s: %d %s", key, head, status, text)
			}
		}
	}
}

// stuck is a client that does not take its answer.
type stuck struct {
	*httptest.ResponseRecorder
	writes, proceed chan struct{}
}

func (s *stuck) Write(b []byte) (int, error) {
	s.writes <- struct{}{}
	<-s.proceed
	return s.ResponseRecorder.Write(b)
}

// stuck asks for an answer that is not taken until it is let go. The status is that of the answer.
func (b *bed) stuck(key, path, body string) (letGo func() int) {
	w := &stuck{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Host = "127.0.0.1"
		r.Header.Set("Authorization", "Bearer "+secretOf(key))
		b.Handler().ServeHTTP(w, r)
	}()
	<-w.writes
	return func() int {
		close(w.proceed)
		<-ended
		return w.Code
	}
}

// TestPlaceUntilWritten: an answer has its place until its client has it.
func TestPlaceUntilWritten(t *testing.T) {
	b := serving(t, newLLM(t, nil), func(c *Config) { c.Keys = []Key{keyOf("one")} })
	for path, body := range map[string]string{"/v1/chat/completions": `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}]}`, "/v1/bot/chat": `{"bot_id":"b","user_id":"u","query":"hi"}`} {
		letGo := b.stuck("one", path, body)
		if n := b.places.Taken(); n != 1 {
			t.Errorf("%s: %d places are taken", path, n)
		}
		status := letGo()
		if n := b.places.Taken(); n != 0 || status != http.StatusOK {
			t.Errorf("%s: %d places are taken behind the answer %d", path, n, status)
		}
	}
}

// TestAnswersAreBounded: what is held of answers has a bound, of which one key has half. What is beyond it has been answered, and
// is paid.
func TestAnswersAreBounded(t *testing.T) {
	model := newRecorder(t)
	model.text = func(string) string { return strings.Repeat("a", 1500) }
	keys := []string{"one", "two", "three"}
	b := serving(t, newLLM(t, nil), func(c *Config) {
		model.at(c)
		for _, k := range keys {
			c.Keys = append(c.Keys, keyOf(k))
		}
		c.Upstream.MaxAnswerBytes, c.MaxAnswersBytes = 2000, 4000
	})
	const chat, question = "/v1/chat/completions", `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}]}`
	const turns, turn = "/v1/bot/chat", `{"bot_id":"b","user_id":"u","query":"hi"}`
	streamed := strings.Replace(turn, "{", `{"stream":true,`, 1)
	crowded := func(key string, entries int) {
		t.Helper()
		for path, body := range map[string]string{chat: question, turns: turn} {
			status, text, h := b.ask(path, secretOf(key), body)
			if status != http.StatusServiceUnavailable || h.Get("Retry-After") == "" || !strings.Contains(text, `"overloaded"`) {
				t.Errorf("%s, %s: %d %s", key, path, status, text)
			}
			entries++
			if e := b.ledger(key, entries)[0]; e.Completion == 0 || e.Prompt == 0 || e.Upstream == "" || e.Attempts != 1 || e.Outcome != outcomeFailed {
				t.Errorf("%s, %s: %+v", key, path, e)
			}
		}
	}
	one := b.stuck("one", chat, question)
	ones := b.answers.Held()
	crowded("one", 1)
	if status, text, _ := b.ask(turns, secretOf("one"), streamed); status != http.StatusOK || !strings.Contains(text, `"overloaded"`) || strings.Contains(text, "event: done") {
		t.Errorf("a stream: %d %s", status, text)
	}
	if status, text, _ := b.ask(turns, secretOf("two"), streamed); status != http.StatusOK || !strings.Contains(text, "event: done") {
		t.Errorf("a stream of another key: %d %s", status, text)
	}
	holds(t, b.answers, ones)
	two := b.stuck("two", turns, turn)
	crowded("three", 0) // while it comes
	if status := one(); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	if status := two(); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	for _, key := range keys {
		if status, text, _ := b.ask(chat, secretOf(key), question); status != http.StatusOK {
			t.Errorf("%s: %d %s", key, status, text)
		}
	}
	const said = `{"bot_id":"b","user_id":"u","history_id":"h","query":"hi"}`
	if status, text, _ := b.ask(turns, secretOf("one"), said); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	if status, text := b.get("/v1/bot/history?bot_id=b&user_id=u&history_id=h", secretOf("one")); status != http.StatusServiceUnavailable || !strings.Contains(text, `"overloaded"`) {
		t.Errorf("a conversation, in two copies: %d %s", status, text)
	}
	holds(t, b.answers, 0)
}
