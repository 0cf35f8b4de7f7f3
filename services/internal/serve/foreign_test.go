package serve

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestForeign: an admin listener that only this machine reaches, and that asks for no token, answers to no page of
// another site. One that asks for a token, or that others reach, answers by whatever name.
func TestForeign(t *testing.T) {
	const local, remote, socket = "127.0.0.1:0", "0.0.0.0:0", "unix:/run/x.sock"
	token := []byte("0123456789abcdef")
	for _, c := range []struct {
		listen, host, header, value string
		token                       []byte
		want                        int
	}{
		{local, "127.0.0.1:1234", "", "", nil, 200},
		{local, "localhost", "Origin", "http://localhost", nil, 200},
		{local, "LOCALHOST:80", "Sec-Fetch-Site", "none", nil, 200},
		{local, "[::1]:80", "Sec-Fetch-Site", "same-origin", nil, 200},
		{local, "[::ffff:127.0.0.1]:80", "", "", nil, 200},
		{local, "evil.example:1234", "", "", nil, 403},
		{local, "127.0.0.1.evil.example", "", "", nil, 403},
		{local, "192.0.2.1", "", "", nil, 403},
		{local, "", "", "", nil, 403},
		{local, "localhost", "Origin", "https://evil.example", nil, 403},
		{local, "localhost", "Origin", "null", nil, 403},
		{local, "localhost:80", "Origin", "http://localhost:81", nil, 403},
		{local, "localhost", "Sec-Fetch-Site", "cross-site", nil, 403},
		{local, "localhost", "Sec-Fetch-Site", "same-site", nil, 403},
		{local, "evil.example", "Authorization", "Bearer 0123456789abcdef", token, 200},
		{remote, "monitor.example", "", "", nil, 200},
		{local, "health", "", "", nil, 200},
		{socket, "anything", "", "", nil, 200},
	} {
		h, err := New(Config{Name: "x", Admin: c.listen, AllowRemote: true, AdminToken: c.token})
		if err != nil {
			t.Fatal(err)
		}
		path := "/debug/pprof/cmdline"
		if c.host == "health" { // for probes, by whatever name
			path, c.host = "/healthz", ""
		}
		r := httptest.NewRequest(http.MethodGet, path, nil)
		if r.Host = c.host; c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		w := httptest.NewRecorder()
		h.handler().ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s, host %q, %s %s: %d, want %d: %s", c.listen, c.host, c.header, c.value, w.Code, c.want, w.Body)
		}
	}
}
