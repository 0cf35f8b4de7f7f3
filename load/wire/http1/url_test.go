package http1

import (
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	for _, tt := range []struct {
		raw  string
		want Endpoint
	}{
		{"http://example.com", Endpoint{false, "example.com:80", "example.com", "/"}},
		{"HTTP://Example.com:80/", Endpoint{false, "Example.com:80", "Example.com", "/"}},
		{"https://example.com", Endpoint{true, "example.com:443", "example.com", "/"}},
		{"HTTPS://h:443/x", Endpoint{true, "h:443", "h", "/x"}},
		{"https://h:80/", Endpoint{true, "h:80", "h:80", "/"}},
		{"http://h:8080/a/b?c=d&e", Endpoint{false, "h:8080", "h:8080", "/a/b?c=d&e"}},
		{"http://h:08080/", Endpoint{false, "h:8080", "h:8080", "/"}},
		{"http://h?q", Endpoint{false, "h:80", "h", "/?q"}},
		{"http://h:/a%20b/c d/ü#part", Endpoint{false, "h:80", "h", "/a%20b/c%20d/%C3%BC"}},
		{"http://127.0.0.1:9/", Endpoint{false, "127.0.0.1:9", "127.0.0.1:9", "/"}},
		{"http://[::1]/", Endpoint{false, "[::1]:80", "[::1]", "/"}},
		{"http://[::1]:8080/x", Endpoint{false, "[::1]:8080", "[::1]:8080", "/x"}},
		{"http://[fe80::1%25eth0]:81/", Endpoint{false, "[fe80::1%eth0]:81", "[fe80::1]:81", "/"}},
	} {
		got, err := ParseURL(tt.raw)
		if err != nil || got != tt.want {
			t.Errorf("%q: %v\n got %+v\nwant %+v", tt.raw, err, got, tt.want)
		}
		if err := (Request{Method: "GET", Host: got.Host, Target: got.Target}).Validate(); err != nil {
			t.Errorf("%q: %v", tt.raw, err)
		}
	}
}

func TestParseURLFaults(t *testing.T) {
	for _, tt := range []struct{ raw, want string }{
		{"", `url "": no scheme: want http://host/path`},
		{"localhost:8080/", "no scheme: want http://"},
		{"ftp://h/", `scheme "ftp": want http`},
		{"http://", "no host"},
		{"http://h:0/", `port "0": want 1 to 65535`},
		{"http://h:x/", `invalid port ":x"`},
		{"http://u:p@h/", "authorization header"},
		{"http://hé/", "punycode"},
		{"http://h/?q=a b", "percent-encoded"},
		{"http://h/\n", "invalid control character"},
		{"http://[::1/", "missing ']'"},
		{"http://h/%zz", "invalid URL escape"},
	} {
		got, err := ParseURL(tt.raw)
		if err == nil || !strings.HasPrefix(err.Error(), "url ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %+v, %v; want an error with %q", tt.raw, got, err, tt.want)
		}
	}
}

// FuzzParseURL: what is accepted can be sent.
func FuzzParseURL(f *testing.F) {
	for _, raw := range []string{"http://h/", "http://[::1%25e]:1/a?b#c", "https://h", "http://u@h", "http://h:0", "http:h"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		e, err := ParseURL(raw)
		if err != nil {
			return
		}
		if err := (Request{Method: "GET", Host: e.Host, Target: e.Target}).Validate(); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	})
}
