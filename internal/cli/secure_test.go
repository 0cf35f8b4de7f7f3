package cli

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dyno/internal/cli/command"
	"dyno/results/rundir"
)

// From the command line to the run folder: the protocol that was asked for is spoken, and
// what TLS agreed on is on record.
func TestHTTP2AndTLSFromTheCommandLine(t *testing.T) {
	var (
		mu   sync.Mutex // guards seen
		seen = map[string]int{}
	)
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Proto]++
	})
	secure := httptest.NewUnstartedServer(handler)
	secure.EnableHTTP2 = true
	secure.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	secure.StartTLS()
	defer secure.Close()
	plain := httptest.NewUnstartedServer(handler)
	plain.Config.Protocols = new(http.Protocols)
	plain.Config.Protocols.SetUnencryptedHTTP2(true)
	plain.Start()
	defer plain.Close()
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args  string
		proto string
		check func(*rundir.Trial) bool
	}{
		"chosen": {"--cacert " + ca + " --server-name example.com " + secure.URL, "HTTP/2.0", func(t *rundir.Trial) bool {
			return t.TLS.Handshakes == 2 && t.TLS.Agreed[0].ALPN == "h2" && t.TLS.Agreed[0].Group == "x25519" && t.Handshake.Count == 2
		}},
		"streams": {"--http2 --streams 8 --insecure --tls-max 1.2 " + secure.URL, "HTTP/2.0", func(t *rundir.Trial) bool {
			return t.TLS.Agreed[0].Version == "TLS 1.2" && t.Connections.Streams == 8 && t.Connections.Users() == 16
		}},
		"HTTP/1.1": {"--http1 --insecure " + secure.URL, "HTTP/1.1", func(t *rundir.Trial) bool { return t.TLS.Agreed[0].ALPN == "http/1.1" }},
		"handshakes": {"--http1 --insecure --tls-tickets --requests-per-connection 1 " + secure.URL, "HTTP/1.1", func(t *rundir.Trial) bool {
			return t.TLS.Handshakes >= 100 && t.TLS.Resumed >= 90 && *t.TLS.ResumedShare > 0.8
		}},
		"prior knowledge": {"--http2 --stream-window 64KiB --connection-window 1MiB " + plain.URL, "HTTP/2.0", func(t *rundir.Trial) bool { return t.TLS == nil }},
	} {
		clear(seen)
		out := filepath.Join(dir, strings.ReplaceAll(name, "/", ""))
		args := append([]string{"http", "-n", "100", "-c", "2", "-o", out}, strings.Fields(c.args)...)
		var stdout, stderr bytes.Buffer
		code := Main(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
		var trial rundir.Trial
		data, err := os.ReadFile(filepath.Join(out, "trials", "0001-default", rundir.TrialFile))
		if err == nil {
			err = json.Unmarshal(data, &trial)
		}
		if err != nil {
			t.Errorf("%s: exit code %d, %v\n%s%s", name, code, err, stdout.String(), stderr.String())
			continue
		}
		if trial.Counts.OK != 100 || seen[c.proto] != 100 || len(seen) != 1 || !c.check(&trial) {
			t.Errorf("%s: exit code %d, the server saw %v, %+v, %+v, %+v\n%s", name, code, seen, trial.Counts, trial.Connections, trial.TLS, stdout.String())
		}
		if trial.TLS != nil && !strings.Contains(stdout.String(), " · "+trial.TLS.Agreed[0].Version+" · ") {
			t.Errorf("%s: the version of TLS is not said:\n%s", name, stdout.String())
		}
	}

	// Who is not trusted is said to be that, and not to be away.
	var stdout, stderr bytes.Buffer
	code := Main(t.Context(), []string{"http", "-n", "1", "-c", "1", secure.URL}, strings.NewReader(""), &stdout, &stderr)
	if said := stderr.String(); code != command.ExitTarget || !strings.Contains(said, "--insecure") || strings.Contains(said, "is a server listening") {
		t.Errorf("exit code %d, %s", code, said)
	}
}

// Subscribers over TLS, from the command line to the run folder.
func TestSubscribersOverTLSFromTheCommandLine(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		every := time.NewTicker(5 * time.Millisecond)
		defer every.Stop()
		for {
			if _, err := io.WriteString(w, "data: x\n\n"); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case <-every.C:
			case <-r.Context().Done():
				return
			}
		}
	}))
	server.EnableHTTP2 = true // which subscribers do not offer
	server.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	server.StartTLS()
	defer server.Close()
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, short := range map[string]bool{"short": true, "full": false} {
		out := filepath.Join(dir, name)
		args := []string{"sse", "-q", "-c", "3", "-z", "300ms", "--cacert", ca, "--server-name", "example.com", "-o", out, server.URL}
		if !short {
			args = append(args, "--full")
		}
		var stdout, stderr bytes.Buffer
		code := Main(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
		var trial rundir.Trial
		data, err := os.ReadFile(filepath.Join(out, "trials", "0001-default", rundir.TrialFile))
		if err == nil {
			err = json.Unmarshal(data, &trial)
		}
		if err != nil {
			t.Fatalf("%s: exit code %d, %v\n%s%s", name, code, err, stdout.String(), stderr.String())
		}
		if trial.TLS == nil || trial.TLS.Handshakes != 3 || trial.TLS.Failed > 0 || trial.TLS.Agreed[0].ALPN != "http/1.1" || trial.Handshake.Count != 3 ||
			trial.Streams == nil || trial.Streams.Opened != 3 || trial.Streams.Failed > 0 || trial.Streams.Delivered < 30 {
			t.Errorf("%s: exit code %d, %+v, %+v\n%s", name, code, trial.TLS, trial.Streams, stdout.String())
		}
		if !strings.Contains(stdout.String(), "3 completed, 0 failed") {
			t.Errorf("%s: nothing is said of handshakes:\n%s", name, stdout.String())
		}
	}

	var stdout, stderr bytes.Buffer
	code := Main(t.Context(), []string{"sse", "-q", "-c", "1", "-z", "100ms", server.URL}, strings.NewReader(""), &stdout, &stderr)
	if said := stderr.String(); code != command.ExitTarget || !strings.Contains(said, "--insecure") {
		t.Errorf("exit code %d, %s", code, said)
	}
}

// A server that is asked for its models trusts and is trusted as under load.
func TestModelsOverTLSFromTheCommandLine(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.TLS.ServerName != "example.com" || len(r.TLS.PeerCertificates) == 0:
			w.WriteHeader(http.StatusForbidden)
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"a"}}]}`+"\n\ndata: [DONE]\n\n")
		}
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer server.Close()
	dir := t.TempDir()
	secret, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: server.Certificate().Raw}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := filepath.Join(dir, "run.json")
	args := []string{"llm", "-q", "-n", "5", "-c", "1", "--cacert", certificate, "--cert", certificate, "--key", key, "--server-name", "example.com", "--json", run, server.URL}
	var stdout, stderr bytes.Buffer
	code := Main(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
	if data, err := os.ReadFile(run); err != nil || !strings.Contains(string(data), `"ok": 5`) {
		t.Errorf("exit code %d, %v\n%s%s", code, err, stdout.String(), stderr.String())
	}
}

// A server that does not say which models it has is quoted, and one that speaks TLS is said to.
func TestModelsNotListed(t *testing.T) {
	answer := func(status int, body string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(s.Close)
		return s
	}
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	for url, want := range map[string]string{
		answer(http.StatusUnauthorized, `{"error":{"message":"no key was given"}}`).URL: "status 401: no key was given",
		answer(http.StatusOK, "<html>").URL:                                             "the answer is no list of models in JSON",
		"http://" + secure.Listener.Addr().String():                                     "speaks TLS, and was asked for its models in plain text",
	} {
		var stdout, stderr bytes.Buffer
		code := Main(t.Context(), []string{"llm", "-q", "-n", "1", url}, strings.NewReader(""), &stdout, &stderr)
		if code != command.ExitTarget || !strings.Contains(stderr.String(), want) {
			t.Errorf("exit code %d without %q:\n%s", code, want, stderr.String())
		}
	}
}
