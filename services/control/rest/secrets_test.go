package rest

import (
	"bytes"
	"fmt"
	"testing"

	"dyno/services/control/resource"
)

// TestMaskedTag: the entity tag of a masked secret does not confirm a guess of its content.
func TestMaskedTag(t *testing.T) {
	b := withBook(t, nil)
	const path = "/v1/configs/pin?namespace=shop"
	b.token = "editor"
	made := b.want(201, "", "PUT", path, `{"content":"1234","secret":true}`)
	whole := made.header.Get("Etag")
	if whole != resource.Tag(1, made.body) {
		t.Fatalf("tag %s", whole)
	}
	if again := b.want(200, "", "GET", path, ""); again.header.Get("Etag") != whole {
		t.Errorf("who may read secrets has %s, want %s", again.header.Get("Etag"), whole)
	}
	b.token = "reader"
	masked := b.want(200, "", "GET", path, "")
	tag := masked.header.Get("Etag")
	if tag == whole || bytes.Contains(masked.body, []byte("1234")) {
		t.Errorf("a reader has tag %s, %s", tag, masked.body)
	}
	guess := bytes.Replace(masked.body, []byte(`"content":""`), []byte(`"content":"1234"`), 1)
	if bytes.Equal(guess, masked.body) || !bytes.Equal(guess, made.body) {
		t.Fatalf("the guess %s is not what was made, %s", guess, made.body)
	}
	b.want(200, "", "GET", path, "", "If-None-Match", resource.Tag(1, guess))
	b.want(304, "", "GET", path, "", "If-None-Match", tag)
	if kept := b.want(200, "", "GET", "/v1/configs/pin/history/1?namespace=shop", ""); kept.header.Get("Etag") != tag {
		t.Errorf("in the history it has tag %s, want %s", kept.header.Get("Etag"), tag)
	}
}

// TestSecretLater: what a configuration was before somebody made it a secret is one, too, also
// when it is removed.
func TestSecretLater(t *testing.T) {
	b := withBook(t, nil)
	b.token = "editor"
	for _, body := range []string{`{"content":"password"}`, `{"content":"password","secret":true}`} {
		b.do("PUT", "/v1/configs/c?namespace=shop", body)
	}
	b.want(200, "", "PUT", "/v1/configs/c/release?namespace=shop", `{"content":"password2","percent":5}`)
	shows := func(who, path string) bool {
		t.Helper()
		b.token = who
		a := b.want(200, "", "GET", path+"?namespace=shop", "")
		return bytes.Contains(a.body, []byte("password"))
	}
	for _, state := range []string{"there", "removed"} {
		for n := range 3 {
			one := fmt.Sprintf("/v1/configs/c/history/%d", n+1)
			if shows("reader", one) {
				t.Errorf("%s: a reader is told version %d", state, n+1)
			}
			if !shows("editor", one) {
				t.Errorf("%s: an editor is not told version %d", state, n+1)
			}
		}
		for _, who := range []string{"reader", "editor"} {
			if shows(who, "/v1/configs/c/history") {
				t.Errorf("%s: a list tells %s", state, who)
			}
		}
		b.token = "editor"
		if state == "there" {
			b.want(204, "", "DELETE", "/v1/configs/c?namespace=shop", "")
		}
	}

	// What is no secret any more is none in its earlier versions but those that were.
	b.want(201, "", "PUT", "/v1/configs/c?namespace=shop", `{"content":"password3"}`)
	for n, want := range map[int]bool{1: true, 2: false, 3: false, 4: true} {
		if got := shows("reader", fmt.Sprintf("/v1/configs/c/history/%d", n)); got != want {
			t.Errorf("version %d: told %v, want %v", n, got, want)
		}
	}
}

// TestSecretsAreNotWatched: lists and watches never show a secret or its gray release, whatever the permissions.
func TestSecretsAreNotWatched(t *testing.T) {
	b := withBook(t, nil)
	b.token = "editor"
	const content, released = "hunter2", "hunter3"
	b.want(201, "", "PUT", "/v1/configs/pin?namespace=shop", `{"content":"`+content+`","secret":true}`)
	b.want(200, "", "PUT", "/v1/configs/pin/release?namespace=shop", `{"content":"`+released+`","labels":{"zone":["a"]}}`)
	shows := func(body []byte) bool {
		return bytes.Contains(body, []byte(content)) || bytes.Contains(body, []byte(released))
	}
	for _, who := range []string{"reader", "registrar", "editor", "admin", "root"} {
		b.token = who
		for _, client := range []string{"", "&client=one", "&client=one&label=zone%3Da"} {
			for _, path := range []string{"/v1/watch?namespace=shop&wait=0" + client, "/v1/configs?namespace=shop", "/v1/configs/pin/history?namespace=shop"} {
				if got := b.want(200, "", "GET", path, ""); shows(got.body) || !bytes.Contains(got.body, []byte("pin")) {
					t.Errorf("%s, %s: %q", who, path, got.body)
				}
			}
			s := b.stream("namespace=shop&kind=config" + client)
			s.want("resync")
			if e := s.next(); e.kind != "put" || shows([]byte(e.data)) {
				t.Errorf("%s, as a stream%s: %+v", who, client, e)
			}
			s.want("synced")
		}
	}
	b.token = "reader"
	b.want(403, "role", "GET", "/v1/configs/pin/content?namespace=shop", "")
	// A program asks for what it needs by itself.
	b.token = "registrar"
	if got := b.want(200, "", "GET", "/v1/configs/pin/content?namespace=shop&client=one&label=zone%3Da", ""); string(got.body) != released {
		t.Errorf("%s", got.body)
	}
	b.token = "root"
	if got := b.want(200, "", "GET", "/v1/audit", ""); shows(got.body) {
		t.Errorf("%s", got.body)
	}
}
