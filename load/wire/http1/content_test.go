package http1

import (
	"testing"

	"pgregory.net/rapid"
)

// A reader of the content sees all of it and nothing else. The outcome is that of reading without
// content.
func TestContentAgreesWithResponse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawn, _ := drawValid(t, "GET")
		input := append(drawn.Bytes(), rapid.SampledFrom([]string{"", "", "x", "\r\n"}).Draw(t, "excess")...)
		if rapid.Bool().Draw(t, "mutate") {
			input[rapid.IntRange(0, len(input)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "by"))
		}
		cuts := append(drawCuts(t, len(input)), len(input))
		plain, taker := newTemplate(t, testConfig()).Client(), newTemplate(t, testConfig()).Client()
		plain.Request()
		taker.Request()
		var content []byte
		from := 0
		for _, to := range cuts {
			piece := input[from:to]
			from = to
			n1, done1, err1 := plain.Response(piece)
			n2, size, done2 := 0, 1, false
			var err2 error
			for size > 0 {
				var used int
				used, size, done2, err2 = taker.Content(piece[n2:])
				n2 += used
				if size > 0 {
					size = rapid.IntRange(1, size).Draw(t, "take")
					content = append(content, piece[n2:n2+size]...)
					taker.Take(size)
					n2 += size
				}
			}
			if n1 != n2 || done1 != done2 || withoutText(plain, err1) != withoutText(taker, err2) { //nolint:errorlint // the very same error
				t.Fatalf("%q: used %d, done %v, %v; taking the content %d, %v, %v", input, n1, done1, err1, n2, done2, err2)
			}
			if done1 || err1 != nil {
				break
			}
		}
		if int64(len(content)) != plain.BodyBytes() || plain.BodyBytes() != taker.BodyBytes() || plain.Status() != taker.Status() || plain.Reusable() != taker.Reusable() {
			t.Fatalf("%q: took %d bytes of %d, status %d and %d", input, len(content), plain.BodyBytes(), plain.Status(), taker.Status())
		}
	})
}

func TestEventStream(t *testing.T) {
	for _, tt := range []struct {
		field string
		want  bool
	}{
		{"Content-Type: text/event-stream", true},
		{"content-type:TEXT/Event-stream;charset=utf-8", true},
		{"Content-Type: \ttext/event-stream \t; a=b", true},
		{"Content-Type: text/event-streams", false},
		{"Content-Type: text/plain; text/event-stream", false},
		{"Content-Typo: text/event-stream", false},
		{"X: y", false},
	} {
		c := newTemplate(t, testConfig()).Client()
		for range 2 { // the second time from memory
			c.Request()
			if c.HasHead() || c.EventStream() {
				t.Errorf("%q: has a head before it came", tt.field)
			}
			input := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + tt.field + "\r\n\r\n"
			if _, done, err := c.Response([]byte(input)); !done || err != nil {
				t.Fatal(done, err)
			}
			if !c.HasHead() || c.EventStream() != tt.want {
				t.Errorf("%q: head %v, event stream %v", tt.field, c.HasHead(), c.EventStream())
			}
		}
	}
}
