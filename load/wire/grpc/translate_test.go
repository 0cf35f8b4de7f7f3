package grpc

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"dyno/load/wire"
	"dyno/load/wire/wiretest"
)

// quoting makes JSON of messages: texts in quotes.
func quoting(c Call) Call {
	c.Translate = func(dst, message []byte) ([]byte, error) {
		if string(message) == "bad" {
			return dst, errors.New("not understood")
		}
		return append(append(append(dst, '"'), message...), '"'), nil
	}
	return c
}

// fieldsOf returns the fields that a client delivers with its last event.
func fieldsOf(c interface{ Fields() []wire.MuxField }) (text string) {
	for _, f := range c.Fields() {
		text += fmt.Sprintf("%d:%s ", f.Name, f.Value)
	}
	return text
}

// Delivered are translated messages (an array for a stream) and metadata by section.
func TestTranslate(t *testing.T) {
	stream := quoting(unary("q"))
	stream.ServerStream = true
	head := append(slices.Clone(goodHead), "x-a", "1", "x-b", "2")
	message := func(text string) []byte { return AppendMessage(nil, []byte(text), false) }
	for _, tt := range []struct {
		name   string
		call   Call
		answer *frames
		want   string // of the content, status and fields
	}{
		{"unary", quoting(unary("q")), new(frames).header(1, false, head...).data(1, false, message("a")).header(1, true, "grpc-status", "0", "x-b", "3"), `0:1 1:2 "a"| 3:3 OK`},
		{"stream", stream, new(frames).header(1, false, head...).data(1, false, append(message("a"), message("b")...)).header(1, true, "grpc-status", "0", "x-c", "4"), `0:1 1:2 ["a","b"]| 2:4 OK`},
		{"empty stream", stream, new(frames).header(1, false, goodHead...).header(1, true, "grpc-status", "0"), `[]| OK`},
		{"trailers only", quoting(unary("q")), new(frames).header(1, true, append(slices.Clone(head), "grpc-status", "5")...), `| 0:1 1:2 3:2 NOT_FOUND`},
		{"trailers only, the end after them", quoting(unary("q")), new(frames).header(1, false, append(slices.Clone(head), "grpc-status", "5")...).frame(6, 0, 0, make([]byte, 8)).data(1, true, nil), `0:1 1:2 3:2 | NOT_FOUND`},
		{"not understood", quoting(unary("q")), new(frames).header(1, false, goodHead...).data(1, false, message("bad")).header(1, true, "grpc-status", "0"),
			`| INTERNAL assertion: grpc INTERNAL: message refused: not understood`},
		{"not asked for", unary("q"), new(frames).header(1, false, goodHead...).data(1, false, message("a")).header(1, true, "grpc-status", "0", "x-c", "5"), `| 2:5 OK`},
	} {
		for _, piece := range []int{1, 7, 1000} {
			c := config(tt.call)
			c.Fields, c.Trailers, c.Judged = []string{"x-a", "x-b"}, []string{"x-c", "x-b"}, true
			client := newClient(t, c)
			feed(t, client, new(frames).settings().b, 1000)
			begin(t, client, 0, 0)
			wiretest.Take(client)
			got := ""
			for p := tt.answer.b; len(p) > 0; {
				part := p[:min(piece, len(p))]
				p = p[len(part):]
				for {
					var e wire.MuxEvent
					n, err := client.Input(part, &e)
					if err != nil {
						t.Fatal(err)
					}
					part = part[n:]
					got += string(e.Data)
					if e.Kind == wire.MuxHead {
						got += fieldsOf(client)
					}
					if e.Kind == wire.MuxEnded || e.Kind == wire.MuxFailed {
						got += "| " + fieldsOf(client) + Code(e.Status).String() //nolint:gosec // a code
						if e.Err != nil {
							got += " " + e.Err.Error()
						}
					}
					if e.Kind == wire.MuxNothing {
						break
					}
				}
			}
			if got != tt.want {
				t.Errorf("%s, in pieces of %d: %s, want %s", tt.name, piece, got, tt.want)
			}
		}
	}
}

// Over HTTP/1.1 the same is put together by the client.
func TestTranslateWeb(t *testing.T) {
	expand := quoting(Call{Scheme: "http", Authority: "h", Path: "/p.S/M", Messages: [][]byte{[]byte("q")}, ServerStream: true})
	small := expand
	small.Keep = 4
	for _, web := range []Web{Binary, Text} {
		for n, want := range []string{`["a","b"] 9`, `["a" 9`} {
			template, err := NewWebTemplate(Config{Calls: []Call{expand, small}, Web: web, Fields: []string{"x-a"}, Trailers: []string{"x-a", "x-b"}})
			if err != nil {
				t.Fatal(err)
			}
			c := template.WebClient()
			c.Reset()
			content := append(AppendMessage(AppendMessage(nil, []byte("a"), false), []byte("b"), false), trailersFrame("grpc-status: 0\r\nX-B: 7\r\nx-a:8\r\n")...)
			if web == Text {
				content = text64(content)
			}
			answer := fmt.Sprintf("HTTP/1.1 200 OK\r\ncontent-type: %s\r\nx-a: 1\r\ncontent-length: %d\r\n\r\n%s", contentTypes[web], len(content), content)
			run := func(piece int) {
				c.Compose(n, nil)
				for p := []byte(answer); len(p) > 0; {
					part := p[:min(piece, len(p))]
					p = p[len(part):]
					if used, _, err := c.Response(part); used != len(part) || err != nil {
						t.Fatal(used, err)
					}
				}
			}
			for _, piece := range []int{1, 1000} {
				run(piece)
				said, size := c.Collected()
				if got := fmt.Sprintf("%s %d", said, size); got != want {
					t.Errorf("%s, want %s", got, want)
				}
				if got := fieldsOf(c); got != "0:1 2:7 1:8 " {
					t.Errorf("fields %s", got)
				}
			}
		}
	}
}
