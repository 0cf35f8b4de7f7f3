package serve

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestForeign: an admin listener on loopback without a token refuses requests of other sites' pages. One that asks
// for a token answers by whatever name.
func TestForeign(t *testing.T) {
	const local, remote, socket = "127.0.0.1:0", "0.0.0.0:0", "unix:/run/x.sock"
	const secret = "0123456789abcdef"
	token := secretFile(t, secret)
	for _, c := range []struct {
		listen, host, header, value string
		token                       string
		want                        int
	}{
		{local, "127.0.0.1:1234", "", "", "", 200},
		{local, "localhost", "Origin", "http://localhost", "", 200},
		{local, "[::1]:80", "Sec-Fetch-Site", "same-origin", "", 200},
		{local, "[::ffff:127.0.0.1]:80", "", "", "", 200},
		{local, "evil.example:1234", "", "", "", 403},
		{local, "192.0.2.1", "", "", "", 403},
		{local, "", "", "", "", 403},
		{local, "localhost", "Origin", "https://evil.example", "", 403},
		{local, "localhost:80", "Origin", "http://localhost:81", "", 403},
		{local, "localhost", "Sec-Fetch-Site", "cross-site", "", 403},
		{local, "evil.example", "Authorization", "Bearer " + secret, token, 200},
		{remote, "monitor.example", "Authorization", "Bearer " + secret, token, 200},
		{local, "health", "", "", "", 200},
		{socket, "anything", "", "", "", 200},
	} {
		h, err := New(Config{Name: "x", AllowRemote: true, AdminListener: AdminListener{c.listen, c.token}})
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
