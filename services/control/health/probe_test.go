package health

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"dyno/services/control/resource"
)

// listen returns a listener, which ends with the test.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func portOf(l net.Listener) int { return int(netip.MustParseAddrPort(l.Addr().String()).Port()) }

// certificate returns one that ends after a time.
func certificate(t *testing.T, after time.Duration) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	one := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "shop"}, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(after)}
	der, err := x509.CreateCertificate(rand.Reader, one, one, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestProbes(t *testing.T) {
	web := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/busy":
			w.WriteHeader(http.StatusTooManyRequests)
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte("the\x00 disk \xff\n is full" + strings.Repeat("!", 1000)))
		case "/moved":
			http.Redirect(w, q, "http://127.0.0.1:1/", http.StatusFound)
		case "/host":
			if q.Host != "shop.example" || q.URL.RawQuery != "a=b" {
				w.WriteHeader(http.StatusNotFound)
			}
		}
	})
	plain, secure := httptest.NewServer(web), httptest.NewTLSServer(web)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)

	calls := grpc.NewServer()
	status := grpchealth.NewServer()
	status.SetServingStatus("slow", healthpb.HealthCheckResponse_NOT_SERVING)
	healthpb.RegisterHealthServer(calls, status)
	callsAt := listen(t)
	go func() { _ = calls.Serve(callsAt) }()
	t.Cleanup(calls.Stop)

	silent, closed := listen(t), listen(t)
	_ = closed.Close()
	ports := map[string]int{"plain": portOf(plain.Listener), "secure": portOf(secure.Listener), "calls": portOf(callsAt), "silent": portOf(silent), "closed": portOf(closed)}
	for name, after := range map[string]time.Duration{"ended": -time.Hour, "ending": 24 * time.Hour, "long": 1000 * time.Hour} {
		l := listen(t)
		ports[name] = portOf(l)
		s := &http.Server{Handler: web, ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate(t, after)}}}
		go func() { _ = s.ServeTLS(l, "", "") }()
		t.Cleanup(func() { _ = s.Close() })
	}

	folder := t.TempDir()
	for name, text := range map[string]string{
		"good": `echo "$DYNO_ADDRESS:$DYNO_PORT $1"`, "warns": "echo full; exit 1", "fails": "echo gone >&2; exit 2", "hangs": "sleep 100 & sleep 100",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}

	const pass, warn, fail = resource.Passing, resource.Warning, resource.Critical
	for name, x := range map[string]struct {
		at     string
		check  resource.Check
		want   resource.Health
		output string // a part of it
	}{
		"http":                      {"plain", resource.Check{Type: "http"}, pass, "200 OK"},
		"http, a redirection":       {"plain", resource.Check{Type: "http", Path: "/moved"}, pass, "302 Found"},
		"http, too many":            {"plain", resource.Check{Type: "http", Path: "/busy"}, warn, "429"},
		"http, broken":              {"plain", resource.Check{Type: "http", Path: "/broken"}, fail, "the disk \uFFFD is full!!!"},
		"http, host and query":      {"plain", resource.Check{Type: "http", Path: "/host?a=b", Host: "shop.example"}, pass, "200"},
		"http, closed":              {"closed", resource.Check{Type: "http"}, fail, "refused"},
		"http, silent":              {"silent", resource.Check{Type: "http", Timeout: 0.05}, fail, "no answer within 50ms"},
		"https":                     {"secure", resource.Check{Type: "http", TLS: true}, pass, "200"},
		"https, with a name":        {"secure", resource.Check{Type: "http", TLS: true, Path: "/host?a=b", Host: "shop.example"}, pass, "200"},
		"https, not trusted":        {"secure", resource.Check{Type: "http", TLS: true, Verify: true}, fail, "certificate"},
		"tcp":                       {"silent", resource.Check{Type: "tcp"}, pass, ""},
		"tcp, closed":               {"closed", resource.Check{Type: "tcp"}, fail, "refused"},
		"grpc":                      {"calls", resource.Check{Type: "grpc"}, pass, ""},
		"grpc, a service":           {"calls", resource.Check{Type: "grpc", Service: "slow"}, fail, "NOT_SERVING"},
		"grpc, an unknown service":  {"calls", resource.Check{Type: "grpc", Service: "none"}, fail, "unknown service"},
		"grpc, silent":              {"silent", resource.Check{Type: "grpc", Timeout: 0.05}, fail, "eadline"},
		"grpc over TLS of another":  {"calls", resource.Check{Type: "grpc", TLS: true, Timeout: 1}, fail, ""},
		"tls":                       {"long", resource.Check{Type: "tls"}, pass, "CN=shop"},
		"tls, ends soon":            {"ending", resource.Check{Type: "tls"}, warn, "ends at"},
		"tls, for 60 days":          {"long", resource.Check{Type: "tls", Days: 60}, warn, "ends at"},
		"tls, ended":                {"ended", resource.Check{Type: "tls"}, fail, "ends at"},
		"tls, not trusted":          {"long", resource.Check{Type: "tls", Verify: true}, fail, "certificate"},
		"tls, without it":           {"plain", resource.Check{Type: "tls"}, fail, "tls"},
		"command":                   {"plain", resource.Check{Type: "command", Command: "good", Arguments: []string{"a b"}}, pass, "127.0.0.1:"},
		"command, warns":            {"plain", resource.Check{Type: "command", Command: "warns"}, warn, "full"},
		"command, fails":            {"plain", resource.Check{Type: "command", Command: "fails"}, fail, "gone (exit status 2)"},
		"command, hangs":            {"plain", resource.Check{Type: "command", Command: "hangs", Timeout: 0.05}, fail, "no answer within"},
		"command that is not there": {"plain", resource.Check{Type: "command", Command: "none"}, fail, "no such file"},
		"a type of a newer replica": {"plain", resource.Check{Type: "udp"}, fail, "udp"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if x.check.Timeout == 0 {
				x.check.Timeout = 30 // a busy machine
			}
			ctx, cancel := context.WithTimeout(t.Context(), x.check.Limit())
			defer cancel()
			got, output := newProber(folder).probe(ctx, &Target{&x.check, "127.0.0.1", ports[x.at]})
			if got != x.want || !strings.Contains(output, x.output) || len(output) > resource.MaxOutput {
				t.Errorf("%s, %q: want %s, %q", got, output, x.want, x.output)
			}
		})
	}
	t.Run("no commands", func(t *testing.T) {
		got, output := newProber("").probe(t.Context(), &Target{&resource.Check{Type: "command", Command: "good"}, "127.0.0.1", 1})
		if got != fail || !strings.Contains(output, "--check-commands") {
			t.Errorf("%s, %q", got, output)
		}
	})
}
