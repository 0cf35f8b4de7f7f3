package http1

import (
	"strings"
	"testing"
)

func TestParseProxy(t *testing.T) {
	for raw, want := range map[string]string{
		"http://127.0.0.1:3128":                 "CONNECT t:443 HTTP/1.1\r\nHost: t:443\r\nUser-Agent: dyno\r\n\r\n",
		"http://user:pass%20word@[::1]:3128/":   "CONNECT t:443 HTTP/1.1\r\nHost: t:443\r\nUser-Agent: dyno\r\nProxy-Authorization: Basic dXNlcjpwYXNzIHdvcmQ=\r\n\r\n",
		"http://user@proxy.example.com:3128":    "CONNECT t:443 HTTP/1.1\r\nHost: t:443\r\nUser-Agent: dyno\r\nProxy-Authorization: Basic dXNlcjo=\r\n\r\n",
		"127.0.0.1:3128":                        "CONNECT t:443 HTTP/1.1\r\nHost: t:443\r\nUser-Agent: dyno\r\n\r\n",
		"https://127.0.0.1:3128":                "",
		"socks5://user:secret@127.0.0.1:1080":   "",
		"http://user:secret@proxy":              "",
		"http://user:secret@proxy:3128/path":    "",
		"http://user:secret@proxy:3128?query":   "",
		"http://user:secret@proxy:port":         "",
		"http://user:sec ret@127.0.0.1:3128%zz": "",
		"":                                      "",
	} {
		p, err := ParseProxy(raw)
		if want == "" {
			if err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: %+v, %v", raw, p, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", raw, err)
			continue
		}
		if c := p.Tunnel("t:443"); string(c.Request) != want || !c.Accept(200) || c.Accept(302) {
			t.Errorf("%q: %q, want %q", raw, c.Request, want)
		}
	}
}

// Requests for whole URLs, also where the path varies or redirects are followed.
func TestThrough(t *testing.T) {
	p, err := ParseProxy("http://user:secret@proxy:3128")
	if err != nil {
		t.Fatal(err)
	}
	r := p.Through(Request{Method: "GET", Target: "/a?b", Host: "name"}, Endpoint{Host: "h:81"})
	all := r.Following()
	client := newTemplate(t, Config{Requests: all}).Client()
	const rest = " HTTP/1.1\r\nHost: name\r\nUser-Agent: dyno\r\nProxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n\r\n"
	if got := string(client.Compose(0, nil)); got != "GET http://h:81/a?b"+rest {
		t.Errorf("%q", got)
	}
	if got := string(client.Compose(asGet, [][]byte{[]byte("/c")})); got != "GET http://h:81/c"+rest {
		t.Errorf("%q", got)
	}
}

// A good response to CONNECT has no content, whatever its header says.
func TestTunnelHasNoContent(t *testing.T) {
	client := newTemplate(t, Proxy{}.Tunnel("t:443")).Client()
	client.Request()
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
	if n, done, err := client.Response([]byte(head + "more")); n != len(head) || !done || err != nil {
		t.Errorf("%d bytes, done %v, %v", n, done, err)
	}
}
