package cli

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"dyno/internal/exit"
)

// Connections go elsewhere, and the name that the certificate is for, and Host, stay those of the
// URL.
func TestConnectToOverTLS(t *testing.T) {
	names := make(chan string, 2)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		names <- r.TLS.ServerName + " " + r.Host
	}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	ca := certificateFile(t, server.Certificate().Raw)
	address := server.Listener.Addr().String()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--connect-to", "example.com:443:" + address, "https://example.com/"},
		{"--resolve", "example.com:" + port + ":127.0.0.1", "https://example.com:" + port + "/"},
	} {
		var stdout, stderr strings.Builder
		if code := Main(t.Context(), append([]string{"http", "-q", "-n", "1", "-c", "1", "--cacert", ca}, args...), strings.NewReader(""), &stdout, &stderr); code != exit.Done {
			t.Fatalf("%v: exit code %d, %s", args, code, stderr.String())
		}
		if got, want := <-names, "example.com "+strings.TrimSuffix(strings.TrimPrefix(args[2], "https://"), "/"); got != want {
			t.Errorf("%v: the server was asked for %s, want %s", args, got, want)
		}
	}
}
