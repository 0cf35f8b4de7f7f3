package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"dyno/load/wire"
)

// An error includes the response's explanation, as far as it is readable text.
func TestRefusals(t *testing.T) {
	long := strings.Repeat("ä", 150)
	for _, c := range []struct{ content, want string }{
		{"", ""},
		{`{"error":{"message":"no such model","type":"x"}}`, "no such model"},
		{`{"error":"quota\nexceeded"}`, "quota exceeded"},
		{`{"message":"try later","error":{"code":5}}`, "try later"},
		{`{"detail":[{"loc":"body"}],"title":"Bad Request"}`, "Bad Request"},
		{`{"error":{"message":"cut`, ""},
		{`{"ok":true}`, ""},
		{"<html>\n<head><TITLE>502 Bad Gateway</TITLE></head></html>", "502 Bad Gateway"},
		{"<html><body>nothing</body></html>", ""},
		{"database is down\r\n", "database is down"},
		{"data: {\"error\":{\"message\":\"overloaded\"}}\n\ndata: [DONE]\n\n", "overloaded"},
		{"\x1b[31mred\x00", "[31mred"},
		{"\xff\xfe", ""},
		{strings.Repeat("x", 300), ""},
		{`{"message":"` + long + `"}`, long[:200] + "…"},
	} {
		var r wire.Refusals
		want := wire.StatusError(503).Text
		if c.want != "" {
			want += ": " + c.want
		}
		err := r.Error(wire.StatusError(503), []byte(c.content))
		if err.Text != want || err.Kind != wire.Status {
			t.Errorf("%q: %v, want %q", c.content, err, want)
		}
		if again := r.Error(wire.StatusError(503), []byte(c.content)); again != err {
			t.Errorf("%q: %v and %v are two errors", c.content, err, again)
		}
	}
}

// A server's text is one line of a report.
func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"a\nb\x00c": "a b c", "\xff\xfe x": "x", strings.Repeat("ä", 101): strings.Repeat("ä", 100) + "…", "x" + strings.Repeat("ä", 100): "x" + strings.Repeat("ä", 99) + "…",
	} {
		if got := wire.OneLine(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// Texts without end do not take memory without end, and the same text in other contents is the
// same error.
func TestManyRefusals(t *testing.T) {
	var r wire.Refusals
	first := r.Error(wire.StatusError(400), []byte(`{"message":"no","id":0}`))
	if again := r.Error(wire.StatusError(400), []byte(`{"message":"no","id":1}`)); again != first {
		t.Errorf("%v and %v", first, again)
	}
	if other := r.Error(wire.StatusError(500), []byte(`{"message":"no","id":1}`)); other.Text != "status 500: no" {
		t.Errorf("of another status: %v", other)
	}
	texts := map[string]bool{}
	for i := range 10_000 {
		texts[r.Error(wire.StatusError(400), fmt.Appendf(nil, "request %d", i)).Text] = true
	}
	if len(texts) > 10 || !texts["status 400"] {
		t.Errorf("%d texts: %v", len(texts), texts)
	}
}
