package http1

import (
	"net/url"
	"strings"
	"testing"

	"dyno/load/wire"
)

func TestFollow(t *testing.T) {
	const first = "http://example.com:8080/a/b?x=1"
	for _, c := range []struct {
		method   string
		status   int
		location string
		request  int    // 0: none follows
		target   string // of the request that follows
		fault    string // of the exchange
	}{
		{"GET", 301, "/c", repeated, "/c", ""},
		{"GET", 302, "c?y=2", repeated, "/a/c?y=2", ""},
		{"GET", 307, "?y=2", repeated, "/a/b?y=2", ""},
		{"GET", 308, "http://example.com:8080/c#d", repeated, "/c", ""},
		{"GET", 308, "HTTP://EXAMPLE.com:8080", repeated, "/", ""},
		{"GET", 302, "//example.com:8080/c", repeated, "/c", ""},
		{"GET", 302, "http://name:81/c", repeated, "/c", ""}, // the name in the Host field
		{"GET", 302, "/ä b", repeated, "/%C3%A4%20b", ""},
		{"GET", 200, "/c", 0, "", ""},
		{"GET", 304, "/c", 0, "", ""},
		{"GET", 302, "", 0, "", ""},

		{"POST", 302, "/c", asGet, "/c", ""},
		{"POST", 303, "/c", asGet, "/c", ""},
		{"POST", 307, "/c", repeated, "/c", ""},
		{"POST", 308, "/c", repeated, "/c", ""},
		{"PUT", 303, "/c", asGet, "/c", ""},

		{"GET", 302, "http://example.org/c", 0, "", "status 302: redirect to another host or port: http://example.org/c"},
		{"GET", 302, "https://example.com:8080/c", 0, "", "status 302: redirect to another scheme: https://example.com:8080/c"},
		{"GET", 302, "http://example.org/c?access_token=secret", 0, "", "status 302: redirect to another host or port: http://example.org/c?…"},
		{"GET", 302, "http://example.com:x/?token=secret", 0, "", "status 302: redirect to an invalid address: http://example.com:x/"},
		{"GET", 302, "http://user:secret@example.com:8080/", 0, "", "status 302: redirect to an invalid address: http://user:xxxxx@example.com:8080/"},
		{"GET", 302, "http://example.org/" + strings.Repeat("x", 300), 0, "", "status 302: redirect to another host or port: http://example.org/" + strings.Repeat("x", wire.MaxText-53)},
	} {
		end, err := ParseURL(first)
		if err != nil {
			t.Fatal(err)
		}
		f := NewRedirects(end, Request{Method: c.method, Target: end.Target, Host: "name:81"})
		trail := wire.Trail{Location: []byte(c.location)}
		follows, err := f.Follow(&trail, c.status)
		if c.fault != "" {
			if err == nil || err.Error() != "status: "+c.fault || follows {
				t.Errorf("%s %d %q: %v, want %q", c.method, c.status, c.location, err, c.fault)
			}
			trail.Redirects = 0
			if _, again := f.Follow(&trail, c.status); again != err { //nolint:errorlint // it is the same one
				t.Errorf("%s %d %q: %v and %v are two errors", c.method, c.status, c.location, err, again)
			}
			continue
		}
		if err != nil || follows != (c.request != 0) || trail.Request != c.request || string(trail.Target) != c.target {
			t.Errorf("%s %d %q: %v %v, request %d of %q, want %d of %q", c.method, c.status, c.location, follows, err, trail.Request, trail.Target, c.request, c.target)
		}
	}
}

// Each address is relative to the one before. A request that became a GET remains one.
func TestFollowInARow(t *testing.T) {
	end, err := ParseURL("http://h/a/b")
	if err != nil {
		t.Fatal(err)
	}
	f := NewRedirects(end, Request{Method: "POST", Target: "/a/b", Host: "h"})
	var trail wire.Trail
	for n, want := range []string{"/a/c/1", "/a/c/2", "/a/c/3", "/a/c/4", "/a/c/5", "/a/c/6", "/a/c/7", "/a/c/8", "/a/c/9", "/a/c/10"} {
		status, location := 307, want[len("/a/c/"):]
		if n == 0 {
			status, location = 303, "c/1"
		}
		trail.Location = []byte(location)
		if follows, err := f.Follow(&trail, status); !follows || err != nil || string(trail.Target) != want || trail.Request != asGet || trail.Redirects != n+1 {
			t.Fatalf("redirect %d: %v, %v, %+v", n+1, follows, err, trail)
		}
	}
	trail.Location = []byte("11")
	const want = "status: status 307: more than 10 redirects in a row, the last one to http://h/a/c/11"
	if follows, err := f.Follow(&trail, 307); follows || err == nil || err.Error() != want {
		t.Errorf("one more: %v, %v", follows, err)
	}
}

// Known redirects cost no memory, and there are not more of them than may be.
func TestFollowRemembers(t *testing.T) {
	end, err := ParseURL("http://h/")
	if err != nil {
		t.Fatal(err)
	}
	f := NewRedirects(end, Request{Method: "GET", Target: "/", Host: "h"})
	trail := wire.Trail{Location: []byte("/next")}
	if n := testing.AllocsPerRun(100, func() {
		trail.Target, trail.Redirects = trail.Target[:0], 0
		if follows, err := f.Follow(&trail, 302); !follows || err != nil {
			t.Fatal(follows, err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	for n := range 3 * maxTargets {
		trail.Redirects, trail.Location = 0, []byte("/"+url.QueryEscape(strings.Repeat("x", n%7)+string(rune('a'+n%26))+strings.Repeat("y", n)))
		if _, err := f.Follow(&trail, 302); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.targets) > maxTargets {
		t.Errorf("%d redirects are remembered", len(f.targets))
	}
}

func TestFollowing(t *testing.T) {
	r := Request{Method: "POST", Target: "/a", Host: "h", Body: []byte("text"), Header: []Field{{Name: "Content-Type", Value: "text/plain"}, {Name: "X", Value: "y"}}}
	all := r.Following()
	client := newTemplate(t, Config{Requests: all}).Client()
	to := [][]byte{[]byte("/b")}
	for i, want := range []string{
		"POST /a HTTP/1.1\r\nHost: h\r\nUser-Agent: dyno\r\nContent-Type: text/plain\r\nX: y\r\nContent-Length: 4\r\n\r\ntext",
		"POST /b HTTP/1.1\r\nHost: h\r\nUser-Agent: dyno\r\nContent-Type: text/plain\r\nX: y\r\nContent-Length: 4\r\n\r\ntext",
		"GET /b HTTP/1.1\r\nHost: h\r\nUser-Agent: dyno\r\nX: y\r\n\r\n",
	} {
		parts := to[:min(i, 1)]
		if got := string(client.Compose(i, parts)); got != want {
			t.Errorf("request %d: %q, want %q", i, got, want)
		}
	}
	if head := (Request{Method: "HEAD", Target: "/", Host: "h"}).Following()[asGet]; head.Method != "HEAD" {
		t.Errorf("HEAD becomes %s", head.Method)
	}
}
