package arguments

import "testing"

func TestAddresses(t *testing.T) {
	for arg, want := range map[string]bool{
		"127.0.0.1:8080": true, "localhost:80/path?q": true, "[::1]:80": true,
		"relay.yaml": false, "http://127.0.0.1:8080/": false, "a:b": false, ":80": false, "": false, "runs/x:1/y": false,
		"ann:pw@localhost": true, "ann:p@w@127.0.0.1:80/a": true, "ann@localhost": false, "a/b:c@d": false,
	} {
		if got := IsAddress(arg); got != want {
			t.Errorf("%q: %v, want %v", arg, got, want)
		}
	}
	for url, want := range map[string]string{
		"127.0.0.1:80": "http://127.0.0.1:80", "localhost:80/a": "http://localhost:80/a", "example.org": "http://example.org",
		"https://x": "https://x", "/path": "/path", "": "",
	} {
		if got := WithScheme(url); got != want {
			t.Errorf("%q: %q, want %q", url, got, want)
		}
	}
}
