package cli

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dyno/internal/exit"
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
	ca := certificateFile(t, secure.Certificate().Raw)
	for name, c := range map[string]struct {
		args  string
		proto string
		check func(*rundir.Trial) bool
	}{
		"chosen": {"--cacert " + ca + " --server-name example.com " + secure.URL, "HTTP/2.0", func(t *rundir.Trial) bool {
			return t.TLS.Handshakes == 2 && t.TLS.Agreed[0].ALPN == "h2" && t.TLS.Agreed[0].Group == "x25519" && t.Times[rundir.TagHandshake].Count == 2
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
		l := load(t, "", append([]string{"http", "-n", "100", "-c", "2"}, strings.Fields(c.args)...)...)
		if trial := &l.trial; trial.Counts.OK != 100 || seen[c.proto] != 100 || len(seen) != 1 || !c.check(trial) {
			t.Errorf("%s: exit code %d, the server saw %v, %+v, %+v, %+v\n%s", name, l.code, seen, trial.Counts, trial.Connections, trial.TLS, l.stdout)
		}
		if agreed := l.trial.TLS; agreed != nil && !strings.Contains(l.stdout, " · "+agreed.Agreed[0].Version+" · ") {
			t.Errorf("%s: the version of TLS is not said:\n%s", name, l.stdout)
		}
	}

	// Who is not trusted is said to be that, and not to be away.
	var stdout, stderr bytes.Buffer
	code := Main(t.Context(), []string{"http", "-n", "1", "-c", "1", secure.URL}, strings.NewReader(""), &stdout, &stderr)
	if said := stderr.String(); code != exit.Target || !strings.Contains(said, "--insecure") || strings.Contains(said, "is a server listening") {
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
	l := load(t, "", "sse", "-q", "-c", "3", "-z", "300ms", "--cacert", certificateFile(t, server.Certificate().Raw), "--server-name", "example.com", server.URL)
	if trial := &l.trial; trial.TLS == nil || trial.TLS.Handshakes != 3 || trial.TLS.Failed > 0 || trial.TLS.Agreed[0].ALPN != "http/1.1" || trial.Times[rundir.TagHandshake].Count != 3 ||
		trial.Streams == nil || trial.Streams.Opened != 3 || trial.Streams.Failed > 0 || trial.Streams.Delivered == 0 {
		t.Errorf("exit code %d, %+v, %+v\n%s", l.code, trial.TLS, trial.Streams, l.stdout)
	}
	if !strings.Contains(l.stdout, "3 completed, 0 failed") {
		t.Errorf("nothing is said of handshakes:\n%s", l.stdout)
	}

	var stdout, stderr bytes.Buffer
	code := Main(t.Context(), []string{"sse", "-q", "-c", "1", "-z", "100ms", server.URL}, strings.NewReader(""), &stdout, &stderr)
	if said := stderr.String(); code != exit.Target || !strings.Contains(said, "--insecure") {
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
	secret, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key := certificateFile(t, server.Certificate().Raw), filepath.Join(t.TempDir(), "key.pem")
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	l := load(t, "", "llm", "-q", "-n", "5", "-c", "1", "--cacert", certificate, "--cert", certificate, "--key", key, "--server-name", "example.com", server.URL)
	if l.trial.Counts.OK != 5 {
		t.Errorf("exit code %d, %+v\n%s%s", l.code, l.trial.Counts, l.stdout, l.stderr)
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
		if code != exit.Target || !strings.Contains(stderr.String(), want) {
			t.Errorf("exit code %d without %q:\n%s", code, want, stderr.String())
		}
	}
}
