package rest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"dyno/services/control/backup"
	"dyno/services/control/store"
)

// TestBinary: a content of any bytes is kept and given back as it is, through history, release and rollback.
func TestBinary(t *testing.T) {
	b := newBed(t, nil)
	one, two := "\x00\xff\n\r one", "\xfe two"
	encoded := base64.StdEncoding.EncodeToString([]byte(two))
	content := func(want, kind string, query string) {
		t.Helper()
		got := b.want(200, "", "GET", "/v1/configs/c/content"+query, "")
		if string(got.body) != want || got.header.Get("Content-Type") != kind {
			t.Errorf("%q of %s, want %q of %s", got.body, got.header.Get("Content-Type"), want, kind)
		}
	}
	put := func(status int, data string, header ...string) answer {
		t.Helper()
		return b.want(status, "", "PUT", "/v1/configs/c/content", data, header...)
	}
	made := put(201, one, "Content-Type", "image/png")
	if made.field(t, "content") != "" || made.field(t, "content_base64") != base64.StdEncoding.EncodeToString([]byte(one)) || made.field(t, "content_type") != "image/png" {
		t.Errorf("%s", made.body)
	}
	content(one, "image/png", "")
	put(200, two, "Content-Type", "")
	content(two, "image/png", "") // the type stays
	b.want(200, "", "PUT", "/v1/configs/c", `{"content":"","content_base64":"`+encoded+`","labels":{"a":"b"}}`)
	content(two, "application/octet-stream", "")
	if got := put(200, "text", "Content-Type", "text/plain"); got.field(t, "content") != "text" || strings.Contains(string(got.body), "base64") || got.field(t, "labels", "a") != "b" {
		t.Errorf("%s", got.body)
	}
	// Text in base64 is text.
	if got := b.want(200, "", "PUT", "/v1/configs/c", `{"content_base64":"dGV4dA=="}`); got.field(t, "content") != "text" || strings.Contains(string(got.body), "base64") {
		t.Errorf("%s", got.body)
	}
	b.want(200, "", "PUT", "/v1/configs/c/release", `{"content_base64":"`+encoded+`","labels":{"zone":["a"]}}`)
	content(two, "application/octet-stream", "?label=zone=a")
	released := b.want(200, "", "GET", "/v1/configs/c/content?label=zone=a", "").header.Get("ETag")
	b.want(200, "", "GET", "/v1/configs/c/content", "", "If-None-Match", released)
	b.want(412, "precondition", "PUT", "/v1/configs/c/content", one, "If-Match", released)
	content("text", "text/plain; charset=utf-8", "")
	if e := b.want(200, "", "GET", "/v1/watch?kind=config&client=x&label=zone=a", ""); e.field(t, "changes", 0, "resource", "content_base64") != encoded {
		t.Errorf("%s", e.body)
	}
	b.want(200, "", "POST", "/v1/configs/c/promote", "")
	content(two, "application/octet-stream", "")
	b.want(200, "", "POST", "/v1/configs/c/rollback", `{"version":1}`)
	content(one, "image/png", "")
	if got := b.want(200, "", "GET", "/v1/configs/c/history/2", ""); got.field(t, "content_base64") != encoded {
		t.Errorf("%s", got.body)
	}
	if got := b.want(200, "", "GET", "/v1/configs/c/history", ""); got.field(t, "items", 1, "content_base64") != encoded {
		t.Errorf("%s", got.body)
	}
	// The content and its configuration have one tag, so either is a condition of a change.
	tag := b.want(200, "", "GET", "/v1/configs/c/content", "").header.Get("ETag")
	b.want(304, "", "GET", "/v1/configs/c", "", "If-None-Match", tag)
	b.want(412, "precondition", "PUT", "/v1/configs/c/content", one, "If-Match", `"1-0"`)
	put(200, one, "If-Match", tag, "Idempotency-Key", "k")
	if got := put(200, one, "If-Match", tag, "Idempotency-Key", "k"); got.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%v", got.header)
	}
	b.want(422, "key", "PUT", "/v1/configs/c/content", two, "Idempotency-Key", "k")

	// A secret stays one, and is in no list and no watch.
	b.want(200, "", "PUT", "/v1/configs/c", `{"content_base64":"`+encoded+`","secret":true}`)
	put(200, one)
	for _, path := range []string{"/v1/configs", "/v1/watch?kind=config"} {
		if got := b.want(200, "", "GET", path, ""); strings.Contains(string(got.body), "base64") || !strings.Contains(string(got.body), `"secret":true`) {
			t.Errorf("%s", got.body)
		}
	}
	content(one, "application/json", "")

	for body, pointer := range map[string]string{
		`{"content_base64":""}`: "#/content", `{}`: "#/content", `{"content":"a","content_base64":"` + encoded + `"}`: "#/content_base64", `{"content_base64":"/"}`: "#/content_base64",
	} {
		if got := b.want(422, "invalid", "PUT", "/v1/configs/c", body); got.field(t, "errors", 0, "pointer") != pointer {
			t.Errorf("%s: %s, want %s", body, got.body, pointer)
		}
	}
	if got := b.want(422, "invalid", "PUT", "/v1/configs/c/content", one, "Content-Type", "none"); got.field(t, "errors", 0, "pointer") != "#/content_type" {
		t.Errorf("%s", got.body)
	}
}

// TestLargeContents: a content has a MiB unless the limit says otherwise, bytes as well as text, and is in backups.
func TestLargeContents(t *testing.T) {
	b := newBed(t, nil)
	limit := b.plane.Limits().ConfigBytes
	contents := map[string]string{"text": strings.Repeat("x", limit), "quotes": strings.Repeat(`"x`, limit/2-1), "bytes": strings.Repeat("\xff", limit)}
	for name, data := range contents {
		for range 2 {
			if got := b.do("PUT", "/v1/configs/"+name+"/content", data, "Content-Type", "", "Idempotency-Key", name); got.status >= 300 {
				t.Fatalf("%s: %d %.200s", name, got.status, got.body)
			}
		}
		if got := b.want(200, "", "GET", "/v1/configs/"+name+"/content", ""); string(got.body) != data {
			t.Errorf("%s: %d bytes, want %d", name, len(got.body), len(data))
		}
	}
	for _, bytes := range []int{limit + 1, 2*b.plane.Limits().Document() + 1} {
		if got := b.do("PUT", "/v1/configs/c/content", strings.Repeat("x", bytes)); got.status != 413 && got.status != 422 {
			t.Errorf("%d bytes: %d %s", bytes, got.status, got.body)
		}
	}
	pages := 0
	for after := ""; ; pages++ {
		l := b.want(200, "", "GET", "/v1/configs?after="+escaped(after), "")
		if len(l.body) > 3<<20+1<<10 {
			t.Errorf("a page has %d bytes", len(l.body))
		}
		next, more := l.field(t, "next").(string)
		if after = next; !more {
			break
		}
	}
	if pages == 0 {
		t.Error("all are on one page")
	}
	kept := map[string]string{}
	dump := b.want(200, "", "GET", "/v1/backup", "")
	if _, err := backup.Read(strings.NewReader(string(dump.body)), func(key string, value []byte) error {
		if name, ok := strings.CutPrefix(key, store.State+"config/default/"); ok {
			_, document, _ := strings.Cut(string(value), "\n")
			var c struct {
				Content string
				Binary  []byte `json:"content_base64"`
			}
			if err := json.Unmarshal([]byte(document), &c); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			kept[name] = c.Content + string(c.Binary)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for name, data := range contents {
		if kept[name] != data {
			t.Errorf("%s: the backup has %d bytes, want %d", name, len(kept[name]), len(data))
		}
	}
}
