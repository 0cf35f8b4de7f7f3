package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dyno/load/wire"
	"dyno/load/wire/http1"
)

func config(bodies ...string) Config {
	var c Config
	for _, b := range bodies {
		c.Requests = append(c.Requests, http1.Request{Method: "POST", Target: "/v1/chat/completions", Host: "x", Body: []byte(b)})
	}
	return c
}

func client(t testing.TB) *Client {
	t.Helper()
	template, err := NewTemplate(config("{}"))
	if err != nil {
		t.Fatal(err)
	}
	return template.Client()
}

const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// chunked is a response's content, one chunk for each event.
func chunked(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%x\r\ndata: %s\n\n\r\n", len("data: \n\n")+len(e), e)
	}
	return b.String() + "0\r\n\r\n"
}

func token(text string) string { return `{"choices":[{"delta":{"content":"` + text + `"}}]}` }

const (
	role   = `{"choices":[{"delta":{"role":"assistant","content":""}}]}`
	stop   = `{"choices":[{"delta":{},"finish_reason":"stop"}]}`
	usage5 = `{"choices":[],"usage":{"completion_tokens":5}}`
)

func TestResponses(t *testing.T) {
	for _, test := range []struct {
		name, response string
		err            error
		pieces, tokens uint32
	}{
		{"an answer", head + chunked(role, token("a"), token("b"), token("c"), stop, "[DONE]"), nil, 3, 3},
		{"several tokens in a piece", head + chunked(role, token("a b c"), token("d e"), stop, usage5, "[DONE]"), nil, 2, 5},
		{"empty events", head + chunked("", token("a"), " ", "[DONE] "), nil, 1, 1},
		{"without [DONE]", head + chunked(token("a"), stop), nil, 1, 1},
		{"of known length", fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nContent-Length: %d\r\n\r\ndata: %s\n\ndata: [DONE]\n\n", len("data: \n\ndata: [DONE]\n\n")+len(token("a")), token("a")), nil, 1, 1},
		{"an error within", head + chunked(token("a"), `{"error":{"message":"overloaded"}}`, "[DONE]"), &wire.Error{Kind: wire.Assertion, Text: ErrServer.Text + ": overloaded"}, 1, 1},
		{"no JSON", head + chunked(token("a"), `{"choices":[{"del`, token("b"), "[DONE]"), ErrChunk, 2, 2},
		{"no end", head + chunked(token("a"), token("b")), ErrCut, 2, 2},
		{"nothing in it", head + chunked(role, stop, "[DONE]"), ErrEmpty, 0, 0},
		{"no stream", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", ErrNoStream, 0, 0},
		{"refused", "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", wire.StatusError(429), 0, 0},
		{"refused by a stream", "HTTP/1.1 500 x\r\nContent-Type: text/event-stream\r\nContent-Length: 14\r\n\r\ndata: [DONE]\n\n", &wire.Error{Kind: wire.Status, Text: "status 500: [DONE]"}, 0, 0},
		{"refused with a reason", "HTTP/1.1 400 x\r\nContent-Length: 33\r\n\r\n" + `{"error":{"message":"no tokens"}}`, &wire.Error{Kind: wire.Status, Text: "status 400: no tokens"}, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := client(t)
			c.Reset()
			for range 2 { // the second on the same connection
				c.Request()
				n, done, err := c.Response([]byte(test.response))
				if n != len(test.response) || !done || fmt.Sprint(err) != fmt.Sprint(test.err) || wire.KindOf(err) != wire.KindOf(test.err) {
					t.Fatalf("%d of %d bytes, done %v, %v; want %v", n, len(test.response), done, err, test.err)
				}
				if c.Messages() != test.pieces || c.Tokens() != test.tokens || !c.Reusable() {
					t.Errorf("%d pieces, %d tokens, reusable %v; want %d and %d", c.Messages(), c.Tokens(), c.Reusable(), test.pieces, test.tokens)
				}
			}
		})
	}
}

// Reasoning that the server withholds counts as no piece.
func TestShown(t *testing.T) {
	const (
		reasoned = `{"choices":[],"usage":{"completion_tokens":100,"completion_tokens_details":{"reasoning_tokens":90}}}`
		separate = `{"choices":[],"usage":{"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":90}}}`
		thought  = `{"choices":[{"delta":{"reasoning_content":"so"}}]}`
	)
	c := client(t)
	for _, test := range []struct {
		name          string
		events        []string
		tokens, shown uint32
	}{
		{"hidden", []string{token("a"), token("b"), stop, reasoned, "[DONE]"}, 100, 10},
		{"sent", []string{thought, token("b"), stop, reasoned, "[DONE]"}, 100, 100},
		{"none", []string{token("a"), token("b"), stop, usage5, "[DONE]"}, 5, 5},
		{"counted separately", []string{token("a"), token("b"), stop, separate, "[DONE]"}, 5, 5},
		{"not counted", []string{token("a"), token("b"), stop, "[DONE]"}, 2, 2},
	} {
		c.Request()
		if _, done, err := c.Response([]byte(head + chunked(test.events...))); !done || err != nil {
			t.Fatalf("%s: %v, %v", test.name, done, err)
		}
		if c.Tokens() != test.tokens || c.Shown() != test.shown {
			t.Errorf("%s: %d tokens, %d shown; want %d and %d", test.name, c.Tokens(), c.Shown(), test.tokens, test.shown)
		}
	}
}

// A response that the end of the connection ends, or cuts.
func TestEnd(t *testing.T) {
	const open = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	for _, test := range []struct {
		name, response string
		want           error
	}{
		{"complete", open + "data: " + token("a") + "\n\ndata: [DONE]\n\n", nil},
		{"complete but for an empty line", open + "data: " + token("a") + "\n\ndata: [DONE]\n", nil},
		{"complete but for a line", open + "data: " + token("a") + "\n\ndata: " + stop, nil},
		{"ended, and cut in an event", open + "data: " + token("a") + "\n\ndata: " + stop + "\n\ndata: {", nil},
		{"an error without a line", open + "data: " + token("a") + "\n\ndata: {\"error\":{\"code\":1}}", ErrServer},
		{"cut in an event", open + "data: " + token("a") + "\n\ndata: " + stop[:9], ErrCut},
		{"cut between events", open + "data: " + token("a") + "\n\n", ErrCut},
		{"cut in a chunk", head + "ff\r\ndata: ", http1.ErrClosedBody},
	} {
		c := client(t)
		c.Request()
		if n, done, err := c.Response([]byte(test.response)); n != len(test.response) || done || err != nil {
			t.Fatalf("%s: %d bytes, %v, %v", test.name, n, done, err)
		}
		if err := c.End(); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
		if c.Reusable() {
			t.Errorf("%s: reusable", test.name)
		}
	}
}

// Clients of all workers together send each request in turn.
func TestRequestsInTurn(t *testing.T) {
	var got []string
	for worker := range 2 {
		c := config("0", "1", "2", "3", "4")
		c.First, c.Step = worker, 2
		template, err := NewTemplate(c)
		if err != nil {
			t.Fatal(err)
		}
		one, two := template.Client(), template.Client()
		for _, client := range []*Client{one, two, one, two, one} {
			request := string(client.Request())
			got = append(got, request[len(request)-1:])
		}
	}
	if s := strings.Join(got, ""); s != "0241313024" {
		t.Errorf("sent %s", s)
	}
}

func TestConfigFaults(t *testing.T) {
	for _, c := range []Config{{}, {Requests: []http1.Request{{}}}} { // none, and one without a method
		if _, err := NewTemplate(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

// Each kind of request keeps what its reader needs: the text of an answer as JSON, and any other
// content as it is.
func TestCollected(t *testing.T) {
	any := func(int) bool { return true }
	c := config("{}", "{}", "{}")
	c.Requests[2].Body, c.Requests[2].VariesBody = nil, true
	c.Expects, c.Accept, c.Fields = []Expect{{Keep: 1000}, {Plain: true, Keep: 4}, {Keep: 20}}, any, []string{"x-id"}
	template, err := NewTemplate(c)
	if err != nil {
		t.Fatal(err)
	}
	said := func(text string) string { return `{"type":"response.output_text.delta","delta":"` + text + `"}` }
	const plain = "HTTP/1.1 %d x\r\nX-Id: 7\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{\"a\":\"b\"}"
	client := template.Client()
	client.Reset()
	for _, test := range []struct {
		name           string
		request        int
		response, want string
		size           int64
		err            error
	}{
		{"an answer", 0, head + chunked(role, token(`say \"`), token(`hi\"\n`), usage5, stop, "[DONE]"), `{"text":"say \"hi\"\n","tokens":5}`, 0, nil},
		{"by the API responses", 0, head + chunked(said("a"), said("b"), `{"type":"response.completed"}`), `{"text":"ab","tokens":2}`, 0, nil},
		{"a tool's call", 0, head + chunked(`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{"}}]}}]}`, stop), `{"text":"","tokens":1}`, 0, nil},
		{"without reasoning", 0, head + chunked(`{"choices":[{"delta":{"reasoning_content":"so"}}]}`, token("a"), stop), `{"text":"a","tokens":2}`, 0, nil},
		{"longer than is kept", 2, head + chunked(token("0123456789"), token("0123456789"), stop), `{"text":"01234567890`, int64(len(`{"text":"01234567890123456789","tokens":2}`)), nil},
		{"no question", 1, fmt.Sprintf(plain, 200), `{"a"`, 9, nil},
		{"refused", 0, fmt.Sprintf(plain, 429), `{"a":"b"}`, 0, nil},
		{"a stream that is no question", 1, head + chunked("x"), "data", int64(len("data: x\n\n")), nil},
		{"cut", 0, head + chunked(token("a")), `{"text":"a`, 0, ErrCut},
		{"no stream", 0, fmt.Sprintf(plain, 200), "", 0, ErrNoStream},
	} {
		var parts [][]byte
		if test.request == 2 {
			parts = [][]byte{[]byte("{}")}
		}
		client.Compose(test.request, parts)
		n, done, err := client.Response([]byte(test.response))
		if n != len(test.response) || !done || !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
			t.Fatalf("%s: %d bytes, done %v, %v; want %v", test.name, n, done, err, test.err)
		}
		if test.size == 0 {
			test.size = int64(len(test.want))
		}
		if got, size := client.Collected(); string(got) != test.want || size != test.size {
			t.Errorf("%s: %s, %d bytes; want %s, %d", test.name, got, size, test.want, test.size)
		}
		if f := client.Fields(); strings.Contains(test.response, "X-Id") != (len(f) == 1 && string(f[0].Value) == "7") {
			t.Errorf("%s: fields %v", test.name, f)
		}
	}
}

// Cut at any places, the same bytes mean the same: a piece is counted when its end has come, and the
// text of the answer survives.
func TestAnyPieces(t *testing.T) {
	c := config("{}")
	c.Expects = []Expect{{Keep: 1 << 20}}
	rapid.Check(t, func(t *rapid.T) {
		template, err := NewTemplate(c)
		if err != nil {
			t.Fatal(err)
		}
		events, want := []string{role}, ""
		for range rapid.IntRange(1, 5).Draw(t, "pieces") {
			text := rapid.StringN(1, 8, -1).Draw(t, "text")
			data, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			var valid string // what is not UTF-8 is replaced
			if err := json.Unmarshal(data, &valid); err != nil {
				t.Fatal(err)
			}
			want += valid
			events = append(events, token(string(data[1:len(data)-1])))
		}
		whole := func(arrived int) (n uint32) {
			for i := range events[1:] {
				if end := len(head) + len(chunked(events[:i+2]...)) - len("\r\n0\r\n\r\n"); arrived >= end {
					n++
				}
			}
			return n
		}
		response := []byte(head + chunked(append(events, usage5, stop)...))
		client := template.Client()
		client.Compose(0, nil)
		for from := 0; from < len(response); {
			to := rapid.IntRange(from+1, len(response)).Draw(t, "to")
			if n, _, err := client.Response(response[from:to]); n != to-from || err != nil {
				t.Fatal(n, err)
			}
			if got := client.Messages(); got != whole(to) {
				t.Fatalf("%d pieces after %d bytes, want %d", got, to, whole(to))
			}
			from = to
		}
		var got struct {
			Text   string `json:"text"`
			Tokens int    `json:"tokens"`
		}
		said, size := client.Collected()
		if err := json.Unmarshal(said, &got); err != nil || got.Text != want || got.Tokens != 5 || size != int64(len(said)) {
			t.Fatalf("%s, %v; want %q", said, err, want)
		}
	})
}
