package rest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"dyno/services/control/access"
	"dyno/services/control/plane"
)

// started asks in the background, and returns once the read waits.
func (b *bed) started(path string, header ...string) <-chan answer {
	b.t.Helper()
	answers := make(chan answer, 1)
	go func() { answers <- b.do("GET", path, "", header...) }()
	for b.api.watchers.Load() == 0 {
		select {
		case a := <-answers:
			b.t.Fatalf("%s: it does not wait: %d %s", path, a.status, a.body)
		default:
			runtime.Gosched()
		}
	}
	return answers
}

// TestReadsWait: with a token, a read is answered once something of it has changed, with all of it and the next token.
// Changes of others do not end it.
func TestReadsWait(t *testing.T) {
	b := newBed(t, nil)
	const instance = `{"address":"10.0.0.1","port":%d}`
	b.want(201, "", "PUT", "/v1/services/s/instances/1", fmt.Sprintf(instance, 1))
	b.want(201, "", "PUT", "/v1/services/s/instances/2", fmt.Sprintf(instance, 1))
	for _, name := range []string{"app%2Fa", "app%2Fb", "b"} {
		b.want(201, "", "PUT", "/v1/configs/"+name, `{"content":"old"}`)
	}
	b.want(201, "", "PUT", "/v1/policies/p", `{"rules":[]}`)
	for _, c := range []struct{ read, other, otherBody, change, body, want string }{
		{"configs/app%2Fa?", "configs/app%2Fb", `{"content":"x"}`, "configs/app%2Fa", `{"content":"new"}`, `"content":"new"`},
		{"configs/app%2Fa/content?", "configs/app%2Fb", `{"content":"x"}`, "configs/app%2Fa", `{"content":"newer"}`, `newer`},
		{"configs?prefix=app/&", "configs/b", `{"content":"x"}`, "configs/app%2Fc", `{"content":"third"}`, `"third"`},
		{"configs?separator=/&prefix=app/&", "configs/b", `{"content":"x"}`, "configs/app%2Fd%2F1", `{"content":"x"}`, `"app/d/"`},
		{"configs/app%2Fnone?", "configs/b", `{"content":"x"}`, "configs/app%2Fnone", `{"content":"there"}`, `"there"`},
		{"policies/p?", "configs/b", `{"content":"x"}`, "policies/p", `{"rules":[{"action":"deny"}]}`, `"deny"`},
		{"policies?stale=true&", "configs/b", `{"content":"x"}`, "policies/q", `{"rules":[]}`, `"name":"q"`},
		{"services/s/instances?zone=none&", "services/other/instances/1", fmt.Sprintf(instance, 9), "services/s/instances/1", fmt.Sprintf(instance, 7), `"items":[]`},
		{"services/s/instances/1?", "services/s/instances/2", fmt.Sprintf(instance, 9), "services/s/instances/1", fmt.Sprintf(instance, 8), `"port":8`},
	} {
		before := b.do("GET", "/v1/"+strings.TrimRight(c.read, "?&"), "")
		token := before.header.Get(watchField)
		if token == "" {
			t.Fatalf("%s: no token", c.read)
		}
		if got := b.do("GET", "/v1/"+c.read+"wait=0&since="+token, ""); string(got.body) != string(before.body) && !strings.Contains(c.read, "instances") && !strings.Contains(c.read, "stale") {
			t.Errorf("%s: without a change: %s, before %s", c.read, got.body, before.body)
		}
		answers := b.started("/v1/" + c.read + "wait=300&since=" + token)
		b.do("PUT", "/v1/"+c.other, c.otherBody)
		select {
		case a := <-answers:
			t.Errorf("%s: answered after a change of %s: %s", c.read, c.other, a.body)
			continue
		default:
		}
		b.do("PUT", "/v1/"+c.change, c.body)
		a := <-answers
		if a.status != 200 || !strings.Contains(string(a.body), c.want) || a.header.Get(watchField) == token {
			t.Errorf("%s: %d %s, token %s, want %s", c.read, a.status, a.body, a.header.Get(watchField), c.want)
		}
		if got := b.want(200, "", "GET", "/v1/"+c.read+"wait=300&since="+token, ""); !strings.Contains(string(got.body), c.want) {
			t.Errorf("%s: after the change: %s", c.read, got.body)
		}
	}
	token := b.want(200, "", "GET", "/v1/configs/b", "").header.Get(watchField)
	answers := b.started("/v1/configs/b?since=" + token)
	b.want(204, "", "DELETE", "/v1/configs/b", "")
	if a := <-answers; a.status != 404 || a.header.Get(watchField) == token {
		t.Errorf("removed: %d %s", a.status, a.body)
	}
	b.want(200, "", "GET", "/v1/configs?wait=300&since=another-7", "")
	b.want(400, "parameter", "GET", "/v1/configs?since="+token+"&wait=301", "")
	b.want(400, "parameter", "GET", "/v1/configs/b?wait=x", "")
	b.want(400, "parameter", "GET", "/v1/configs?since="+token+"&prefix=%FF", "")
}

// TestWaitingReadsEnd: reads that wait count as watchers, and end with the caller's permissions and with the server.
func TestWaitingReadsEnd(t *testing.T) {
	known := func(token string) *access.Book {
		book, err := access.ParseBook([]byte("principals: [{name: a, token_sha256: " + sha(token) + ", grants: [{namespace: shop, role: reader}]}]"))
		if err != nil {
			t.Fatal(err)
		}
		return book
	}
	book := known("one")
	b := newBed(t, func(c *Config, _ *plane.Config) { c.Gate, c.MaxWatchers = plane.NewGate(book, 0, 0), 1 })
	b.token = "one"
	token := b.want(200, "", "GET", "/v1/configs?namespace=shop", "").header.Get(watchField)
	path := "/v1/configs?namespace=shop&wait=300&since=" + token
	answers := b.started(path)
	b.want(503, "watchers", "GET", path, "")
	b.want(403, "role", "GET", "/v1/configs?namespace=bank", "")
	book.Replace(known("two"))
	if a := <-answers; a.status != 401 || problemKind(t, a) != "token" {
		t.Errorf("%d %s", a.status, a.body)
	}
	b = newBed(t, nil)
	token = b.want(200, "", "GET", "/v1/configs", "").header.Get(watchField)
	answers = b.started("/v1/configs?since=" + token)
	b.api.Close()
	if a := <-answers; a.status != 503 || problemKind(t, a) != "closed" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func sha(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
