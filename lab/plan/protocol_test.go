package plan

import (
	"strings"
	"testing"
)

// A password in a URL is in no message.
func TestCutUser(t *testing.T) {
	for url, want := range map[string][2]string{
		"http://ann:p%40w@h:80/a@b":  {"http://h:80/a@b", "ann:p%40w"},
		"https://ann:p@w@h?a@b":      {"https://h?a@b", "ann:p@w"},
		"http://ann@{{host}}/{{id}}": {"http://{{host}}/{{id}}", "ann"},
		"http://@h":                  {"http://h", ""},
		"http://h/a@b":               {"http://h/a@b", ""},
		"ann:pw@h":                   {"ann:pw@h", ""},
		"h/?to=http://ann@h":         {"h/?to=http://ann@h", ""},
	} {
		without, user, found := CutUser(url)
		if without != want[0] || user != want[1] || found != (without != url) {
			t.Errorf("%s: %q, %q, %t", url, without, user, found)
		}
	}
	for _, url := range []string{"http://ann:hunter22@h/", "http://ann:hunter%zz@h/", "ftp://ann:hunter22@h/", "http://ann:hunter22@h:x/"} {
		e := quick()
		e.Variants[0].Target.URL = url
		err := e.Validate()
		if err == nil || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A URL whose scheme is the name of a protocol stands for it; what only looks like that is a URL of HTTP.
func TestOfURL(t *testing.T) {
	for url, want := range map[string][2]string{
		"tcp://h:7000":   {TCP, "h:7000"},
		"grpc://h:50051": {GRPC, "h:50051"},
		"https://h/":     {HTTP, "https://h/"},
		"ws://h/":        {WS, "ws://h/"},
		"wss://h/":       {WS, "wss://h/"},
		"http://h/":      {HTTP, "http://h/"},
		"llm://h/":       {HTTP, "llm://h/"}, // its URLs are those of HTTP
		"tcp":            {HTTP, "tcp"},
		"h:7000":         {HTTP, "h:7000"},
	} {
		if protocol, where := OfURL(url); protocol != want[0] || where != want[1] {
			t.Errorf("%s: %s, %s", url, protocol, where)
		}
	}
}

// A field that is not of a protocol is neither there nor missed, and who has it is named.
func TestFieldsOfProtocols(t *testing.T) {
	for path, want := range map[string]string{
		"load.request":   "http",
		"load.call":      "grpc",
		"load.http2":     "http grpc",
		"load.payload":   "tcp",
		"load.publish":   "ws sse",
		"load.ask":       "llm",
		"load.requests":  "http grpc tcp ws llm",
		"target.url":     "http grpc ws sse llm",
		"target.address": "http grpc tcp ws sse llm",
		"target.timeout": "program",
		"load.open":      "http grpc tcp ws sse llm program", // its load does not belong to a program
	} {
		if got := strings.Join(DeclaredAt(path).Protocols, " "); got != want {
			t.Errorf("%s is of %s, want %s", path, got, want)
		}
	}
}
