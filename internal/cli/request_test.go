package cli

import (
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dyno/internal/cli/command"
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
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
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
		if code := Main(t.Context(), append([]string{"http", "-q", "-n", "1", "-c", "1", "--cacert", ca}, args...), strings.NewReader(""), &stdout, &stderr); code != command.ExitDone {
			t.Fatalf("%v: exit code %d, %s", args, code, stderr.String())
		}
		if got, want := <-names, "example.com "+strings.TrimSuffix(strings.TrimPrefix(args[2], "https://"), "/"); got != want {
			t.Errorf("%v: the server was asked for %s, want %s", args, got, want)
		}
	}
}

func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"user": "ann:hunter22\n", "colonless": "hunter22"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lookup := func(name string) (string, bool) { return "ann:$hunter22", name == "USER_1" }
	for given, want := range map[string]string{
		"ann:hunter22":             "ann:hunter22",
		"ann:":                     "ann:",
		"$ann:@hunter22:b":         "$ann:@hunter22:b",
		"@" + dir + "/user":        "ann:hunter22",
		"$USER_1":                  "ann:$hunter22",
		"${USER_1}":                "ann:$hunter22",
		"@" + dir + "/colonless":   "there is no colon; want user:password",
		"@" + dir + "/hunter22:pw": "the file cannot be read: no such file",
		"@ann:hunter22":            "the file cannot be read: no such file",
		"$hunter22":                "the environment has no such variable",
		"hunter22":                 "there is no colon; want user:password",
		"":                         "there is no colon",
	} {
		q := &quickLoad{request: requestFlags{basicAuth: given}}
		got, err := q.credentials(lookup)
		if err != nil {
			got = err.Error()
			if strings.Contains(got, "hunter22") {
				t.Errorf("%s: %s", given, got)
			}
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}
