package journal

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// FuzzFrame reads frames back as the HTML standard requires of clients: nothing in an
// update may forge a field or an event.
func FuzzFrame(f *testing.F) {
	f.Add("1", "", "a", uint16(0))
	f.Add("1", "x", "a\r\nb\n\nid: 2\rdata", uint16(5))
	f.Add("", "t", "", uint16(1))
	f.Fuzz(func(t *testing.T, id, kind, data string, retry uint16) {
		u := Update{ID: id, Type: kind, Data: []byte(data), Retry: time.Duration(retry) * time.Millisecond, Topics: []string{"t"}}
		if u.Check() != nil {
			return
		}
		frame := string(AppendFrame(nil, &u))
		body, ok := strings.CutSuffix(frame, "\n\n")
		if !ok || strings.Contains(body, "\n\n") || strings.Contains(body, "\r") {
			t.Fatalf("%q is not one event", frame)
		}
		got := map[string][]string{}
		for line := range strings.SplitSeq(body, "\n") {
			name, value, ok := strings.Cut(line, ": ")
			if !ok {
				t.Fatalf("%q: a line without a field: %q", frame, line)
			}
			got[name] = append(got[name], value)
		}
		lines := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data)
		if strings.Join(got["data"], "\n") != lines || len(got["id"]) != 1 || got["id"][0] != id {
			t.Fatalf("%q: read back as %q", frame, got)
		}
		if (kind == "") != (got["event"] == nil) || kind != "" && (len(got["event"]) != 1 || got["event"][0] != kind) {
			t.Fatalf("%q: type read back as %q", frame, got)
		}
	})
}

// FuzzRecord: decoding, encoding and decoding again gives the same.
func FuzzRecord(f *testing.F) {
	for _, u := range []Update{
		{Topics: []string{"t"}},
		{ID: "i", Topics: []string{"t", "<&>"}, Private: true, Type: "x", Data: []byte("a\n\u2028b\"\\"), Retry: time.Second},
	} {
		text, err := EncodeRecord(time.Unix(1, 2), u)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"topics":["t"],"retry":9223372036854775807}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		at, u, err := DecodeRecord(text)
		if err != nil {
			return
		}
		again, err := EncodeRecord(at, u)
		if err != nil {
			t.Fatal(err)
		}
		at2, u2, err := DecodeRecord(again)
		if err != nil {
			t.Fatalf("%s became %s: %v", text, again, err)
		}
		if !at.Equal(at2) || !bytes.Equal(u.Data, u2.Data) {
			t.Fatalf("%s became %s", text, again)
		}
		if diff := cmp.Diff(u, u2); diff != "" {
			t.Fatal(diff)
		}
	})
}
