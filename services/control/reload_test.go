package control

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"dyno/services/control/rpc/controlpb"
	"dyno/services/internal/serve"
)

// renew replaces a file as managers of secrets do, with a time of its own.
func renew(t *testing.T, file, text string, at time.Time) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file+".new", at, at); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// principal is a file's text of one, who may read everything.
func principal(name string) string {
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("principals:\n  - {name: %s, token_sha256: %s, grants: [{namespace: \"*\", role: reader}]}\n", name, hex.EncodeToString(sum[:]))
}

// A record is a log that another goroutine writes.
type record struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

// take returns what was written since it was called last.
func (r *record) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.text.Reset()
	return r.text.String()
}

// TestFilesAreReadAgain: principals and certificates that have changed hold after a while, without
// a restart; where there is a fault in them, those before do, and the log says so.
func TestFilesAreReadAgain(t *testing.T) {
	ca := newAuthority(t)
	first := ca.sign("first", &x509.Certificate{})
	second := ca.sign("second", &x509.Certificate{})
	c := config(t)
	c.Principals = filepath.Join(t.TempDir(), "principals.yaml")
	began := time.Now()
	renew(t, c.Principals, principal("old"), began)
	c.Certificate, c.Key = first.file, first.privateKey
	cert, key := string(read(t, second.file)), string(read(t, second.privateKey))

	synctest.Test(t, func(t *testing.T) {
		var log record
		again := serve.NewFiles(slog.New(slog.NewTextHandler(&log, nil)))
		f, err := readFiles(c, again)
		if err != nil {
			t.Fatal(err)
		}
		part := again.Part()
		ended := make(chan error, 1)
		go func() { ended <- part.Serve() }()
		hold := func(what, who, nobody, name string, said ...string) {
			t.Helper()
			time.Sleep(serve.LookEvery + time.Second) // of the bubble's clock
			synctest.Wait()
			if f.book.ByToken(who) == nil || f.book.ByToken(nobody) != nil {
				t.Errorf("%s: want %s to be known, and %s not to be", what, who, nobody)
			}
			shown, err := f.certificates.Config(tls.NoClientCert).GetCertificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			if leaf, err := x509.ParseCertificate(shown.Certificate[0]); err != nil || leaf.Subject.CommonName != name {
				t.Errorf("%s: the certificate is %v, %v; want %s", what, leaf.Subject, err, name)
			}
			logged := log.take()
			for _, text := range said {
				if !strings.Contains(logged, text) {
					t.Errorf("%s: the log has no %q: %s", what, text, logged)
				}
			}
			if len(said) == 0 && logged != "" {
				t.Errorf("%s: the log has %s", what, logged)
			}
		}
		hold("nothing has changed", "old", "new", "first")
		renew(t, c.Principals, principal("new"), began.Add(time.Second))
		hold("another token", "new", "old", "first", "principals read again")
		renew(t, c.Principals, "principals: [", began.Add(2*time.Second))
		hold("a fault", "new", "old", "first", "principals not read again")
		hold("still a fault", "new", "old", "first", "principals not read again")
		renew(t, c.Principals, principal("new"), began.Add(3*time.Second))
		renew(t, c.Certificate, cert, began.Add(3*time.Second))
		hold("a certificate without its key", "new", "old", "first", "principals read again", "certificate not read again")
		renew(t, c.Key, key, began.Add(4*time.Second))
		hold("and its key", "new", "old", "second", "certificate read again")
		if err := os.Remove(c.Principals); err != nil {
			t.Fatal(err)
		}
		hold("no file", "new", "old", "second", "principals not read again")
		part.Drain(t.Context())
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestNewCertificateIsShown: by HTTP and by gRPC a server shows the certificate that was read last, and
// knows the principals that were. Watches of those who are known no more end.
func TestNewCertificateIsShown(t *testing.T) {
	ca := newAuthority(t)
	server := func(name string) pair {
		return ca.sign(name, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	}
	first, second := server("first"), server("second")
	c := config(t)
	c.GRPC = "127.0.0.1:0"
	c.Principals = filepath.Join(t.TempDir(), "principals.yaml")
	renew(t, c.Principals, principal("old"), time.Now())
	c.Certificate, c.Key = first.file, first.privateKey
	s, _ := serving(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
	defer cancel()
	shown := "" // by the server, to the last connection
	conf := &tls.Config{RootCAs: x509.NewCertPool(), VerifyConnection: func(cs tls.ConnectionState) error {
		shown = cs.PeerCertificates[0].Subject.CommonName
		return nil
	}}
	conf.RootCAs.AddCert(ca.cert)
	get := func(token, path, accept string) *http.Response {
		t.Helper()
		web := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: true} // which has no connection yet
		t.Cleanup(web.CloseIdleConnections)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Accept", accept)
		got, err := web.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { got.Body.Close() })
		return got
	}
	calls := func() controlpb.ControlClient {
		connection, err := grpc.NewClient(s.GRPCAddr().String(), grpc.WithTransportCredentials(credentials.NewTLS(conf)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		return controlpb.NewControlClient(connection)
	}
	as := func(token string) context.Context {
		return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	events := get("old", "/v1/watch", "text/event-stream")
	watch, err := calls().Watch(as("old"))
	if err != nil {
		t.Fatal(err)
	}
	query := &controlpb.WatchRequest{Message: &controlpb.WatchRequest_Query{Query: &controlpb.Query{Kinds: []controlpb.Kind{controlpb.Kind_KIND_POLICY}}}}
	if err := watch.Send(query); err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil || shown != "first" { // the snapshot
		t.Fatal(shown, err)
	}
	renew(t, c.Principals, principal("new"), time.Now().Add(time.Second))
	for from, to := range map[string]string{second.file: c.Certificate, second.privateKey: c.Key} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		renew(t, to, string(text), time.Now().Add(time.Second))
	}
	if err := s.host.Files().LookNow(); err != nil {
		t.Error(err)
	}
	for token, want := range map[string]int{"new": 200, "old": 401} {
		if got := get(token, "/v1/policies", "application/json"); got.StatusCode != want || shown != "second" {
			t.Errorf("HTTP shows %s and answers %s with %d; want %d", shown, token, got.StatusCode, want)
		}
	}
	shown = ""
	if _, err := calls().List(as("new"), &controlpb.ListRequest{Kind: controlpb.Kind_KIND_POLICY}); err != nil || shown != "second" {
		t.Errorf("gRPC shows %s: %v", shown, err)
	}
	if _, err := io.Copy(io.Discard, events.Body); err != nil {
		t.Errorf("the watch over HTTP: %v", err)
	}
	for err = nil; err == nil; {
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("the watch over gRPC: %v", err)
	}
}

// read returns a file's contents.
func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
