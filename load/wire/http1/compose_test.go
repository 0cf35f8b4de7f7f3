package http1

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dyno/load/wire"
	"dyno/load/wire/wiretest"
)

// A composed request equals what Encode makes with the same values.
func TestComposeIsEncode(t *testing.T) {
	text := rapid.StringMatching(`[a-z0-9]{0,5}`)
	rapid.Check(t, func(t *rapid.T) {
		whole := Request{Method: "POST", Target: "/" + text.Draw(t, "target"), Host: "h", Body: []byte(text.Draw(t, "body"))}
		varies := func(name string) bool { return rapid.Bool().Draw(t, name) }
		r := whole
		var parts [][]byte
		if r.VariesTarget = varies("varies target"); r.VariesTarget {
			parts, r.Target = append(parts, []byte(whole.Target)), ""
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "fields") {
			f := Field{Name: fmt.Sprintf("X-%d", i), Value: text.Draw(t, "value")}
			whole.Header = append(whole.Header, f)
			if varies("varies field") {
				parts = append(parts, []byte(f.Value))
				f.Value, f.Varies = "", true
			}
			r.Header = append(r.Header, f)
		}
		if r.VariesBody = varies("varies body"); r.VariesBody {
			parts, r.Body = append(parts, whole.Body), nil
		}
		want, err := whole.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if r.Parts() != len(parts) {
			t.Fatalf("%d parts, want %d", r.Parts(), len(parts))
		}
		client := newTemplate(t, Config{Requests: []Request{{Method: "GET", Target: "/", Host: "h"}, r}}).Client()
		for range 2 { // the memory is used again
			if got := client.Compose(1, parts); !bytes.Equal(got, want) {
				t.Fatalf("%q, want %q", got, want)
			}
		}
		if _, err := r.Encode(); (err == nil) != (len(parts) == 0) {
			t.Fatalf("with %d parts, Encode says %v", len(parts), err)
		}
	})
}

func TestValidateRequests(t *testing.T) {
	get := Request{Method: "GET", Target: "/", Host: "h"}
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Request: []byte("hello")}, "want an encoded HTTP/1.1 request"},
		{Config{Requests: []Request{get}, Request: []byte(getRequest)}, "want either"},
		{Config{Requests: []Request{get, {Method: "GET", Target: "/", Host: "h", VariesTarget: true}}}, "request 2: target \"/\": want none, as it varies"},
		{Config{Requests: []Request{{Method: "GET", VariesTarget: true, Host: "h", Body: []byte("x"), VariesBody: true}}}, "body of 1 bytes: want none"},
		{Config{Requests: []Request{{Method: "GET", Target: "/", Host: "h", Header: []Field{{Name: "A", Value: "b", Varies: true}}}}}, `value "b": want none`},
		{Config{Requests: []Request{{Method: "GET", Target: "/", Host: "h", Header: []Field{{Name: "Connection", Varies: true}}}}}, "the same each time"},
		{Config{Requests: []Request{{Method: "GET", Target: "/", Host: "h", VariesBody: true, Header: []Field{{Name: "Content-Length", Value: "0"}}}}}, "added when the body varies"},
		{Config{Requests: []Request{get}, Fields: []string{"ETag"}}, `field 1 "ETag": want a name in lower case`},
		{Config{Requests: []Request{get}, Fields: slices.Repeat([]string{"a"}, maxWanted+1)}, "65 fields"},
	} {
		if err := c.config.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// wanting is a template that delivers two fields.
func wanting(tb wiretest.TB) *Template {
	tb.Helper()
	return newTemplate(tb, Config{
		Requests: []Request{{Method: "GET", Target: "/", Host: "h"}, {Method: "HEAD", Target: "/", Host: "h"}},
		Fields:   []string{"set-cookie", "etag"}, Accept: func(int) bool { return true },
	})
}

// A delivery is everything that a client delivers for a response.
func delivery(tb wiretest.TB, c *Client, request int, input []byte, cuts ...int) string {
	tb.Helper()
	c.Compose(request, nil)
	var content []byte
	from, done := 0, false
	for _, to := range append(cuts, len(input)) {
		p := input[from:to]
		from = to
		for !done {
			n, size, ended, err := c.Content(p)
			if err != nil {
				tb.Fatalf("%q cut at %v: %v", input, cuts, err)
			}
			p = p[n:]
			if size == 0 {
				done = done || ended
				break
			}
			// In two goes, as a caller may.
			c.Take(size / 2)
			c.Take(size - size/2)
			content = append(content, p[:size]...)
			p = p[size:]
		}
		if len(p) > 0 {
			tb.Fatalf("%q cut at %v: %q is left", input, cuts, p)
		}
	}
	if !done {
		if err := c.End(); err != nil {
			tb.Fatalf("%q cut at %v: %v", input, cuts, err)
		}
	}
	return written(c.Fields()) + string(content)
}

func written(fields []wire.MuxField) (text string) {
	for _, f := range fields {
		text += fmt.Sprintf("%d=%s;", f.Name, f.Value)
	}
	return text
}

// Fields and content are the same wherever the response is cut, and whether its header is
// remembered or not.
func TestDelivery(t *testing.T) {
	const fields = "Set-Cookie: a=1\r\nX: y\r\netag:  \"e\" \r\nETAGS: no\r\nset-cookie:b=2\r\nETag:\r\n"
	for _, c := range []struct{ response, want string }{
		{"HTTP/1.1 200 OK\r\n" + fields + "Content-Length: 5\r\n\r\nhello", "hello"},
		{"HTTP/1.1 200 OK\r\n" + fields + "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x\r\nllo\r\n0\r\nEtag: trailer\r\n\r\n", "hello"},
		{"HTTP/1.1 200 OK\r\n" + fields + "\r\nhello", "hello"},
		{"HTTP/1.1 103 Early Hints\r\nSet-Cookie: no=1\r\n\r\nHTTP/1.1 204 No Content\r\n" + fields + "\r\n", ""},
		{"HTTP/1.1 404 Not Found\r\n" + fields + "Content-Length: 0\r\n\r\n", ""},
		{strings.ReplaceAll("HTTP/1.1 200 OK\r\n"+fields+"Transfer-Encoding: chunked\r\n\r\n2 \r\nhe\r\n3\t\r\nllo\r\n0\r\n\r\n", "\r\n", "\n"), "hello"},
		{"HTTP/1.1 204 No Content\r\nSet-Cookie:\r\n\ta=1\r\nX: y\r\n etag: z\r\netag: \r\n  \"e\"\r\n\t\r\nset-cookie:b=2\r\nETag:\r\n \r\n\r\n", ""},
	} {
		want := `0=a=1;1="e";0=b=2;1=;` + c.want
		template := wanting(t)
		clients := []*Client{template.Client(), template.Client()}
		for i := range c.response {
			for _, cuts := range [][]int{{i}, {i, min(i+3, len(c.response))}} {
				client := clients[i%2]
				client.Reset()
				if got := delivery(t, client, 0, []byte(c.response), cuts...); got != want {
					t.Fatalf("%q cut at %v: %q, want %q", c.response, cuts, got, want)
				}
			}
		}
	}
}

// A fold is a space, whatever was around it.
func TestFoldIsASpace(t *testing.T) {
	response := []byte("HTTP/1.1 200 OK\r\nETag: a;\t\r\n\t  b\n c \r\nContent-Length: 0\r\n\r\n")
	for i := range response {
		if got := delivery(t, wanting(t).Client(), 0, response, i); got != "1=a; b c;" {
			t.Fatalf("cut at %d: %q", i, got)
		}
	}
}

// A response keeps its own fields while others' arrive in between. Fields of the response before are
// forgotten.
func TestFieldsAreTheClients(t *testing.T) {
	template := wanting(t)
	a, b := template.Client(), template.Client()
	head := func(tag string) []byte {
		return []byte("HTTP/1.1 200 OK\r\nETag: " + tag + "\r\nContent-Length: 1\r\n\r\n")
	}
	for _, tag := range []string{"1", "1", "2"} {
		a.Compose(0, nil)
		b.Compose(0, nil)
		if _, _, _, err := a.Content(head(tag)); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := b.Content(head("other")); err != nil {
			t.Fatal(err)
		}
		if got := written(a.Fields()) + written(b.Fields()); got != "1="+tag+";1=other;" {
			t.Errorf("%q", got)
		}
	}
	if a.Compose(0, nil); len(a.Fields()) > 0 {
		t.Errorf("%q of a response that has not come", written(a.Fields()))
	}
}

// The same header frames another body when the method was HEAD.
func TestHeadIsRememberedApart(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nETag: x\r\nContent-Length: 2\r\n\r\n"
	client := wanting(t).Client()
	for range 3 {
		if got := delivery(t, client, 0, []byte(head+"hi")); got != "1=x;hi" {
			t.Errorf("GET: %q", got)
		}
		if got := delivery(t, client, 1, []byte(head)); got != "1=x;" {
			t.Errorf("HEAD: %q", got)
		}
		if !client.Reusable() {
			t.Error("HEAD: the connection is lost")
		}
	}
}
