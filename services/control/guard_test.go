package control

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"dyno/services/control/client/guard"
	"dyno/services/control/identity"
	"dyno/services/control/resource"
)

// TestGuard: a Go service lets in whom policies permit, by the identity of his certificate, over HTTP and gRPC.
func TestGuard(t *testing.T) {
	s, _ := serving(t, config(t))
	base := "http://" + s.Addr().String()
	plain := http.Client{Transport: &http.Transport{}}
	defer plain.CloseIdleConnections()
	g, err := guard.New(newClient(t, quick("shop-1", base)), guard.Config{Service: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
	defer cancel()

	// set puts a policy, and returns when the guard has applied it.
	set := func(rules string) {
		t.Helper()
		if code, text := do(t, &plain, "PUT", base+"/v1/policies/p", `{"rules":`+rules+`}`); code != http.StatusOK && code != http.StatusCreated {
			t.Fatalf("%d %s", code, text)
		}
		for applied := 0; applied == 0; {
			var out resource.Rollout
			_, text := do(t, &plain, "GET", base+"/v1/policies/p/rollout", "")
			if err := json.Unmarshal([]byte(text), &out); err != nil || ctx.Err() != nil {
				t.Fatalf("not applied: %s, %v", text, err)
			}
			applied = out.Applied
		}
	}

	now := time.Now()
	cert, key, err := identity.New("control.internal", now)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := identity.Parse("control.internal", cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.Roots())
	// pair is a certificate of a service; "" is none.
	pair := func(service string) []tls.Certificate {
		if service == "" {
			return nil
		}
		one, err := authority.Issue("default", service, now, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		p, err := tls.X509KeyPair(one.Chain, one.Key)
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{p}
	}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	settings := func() *tls.Config {
		return &tls.Config{Certificates: pair("shop"), ClientCAs: roots, ClientAuth: tls.VerifyClientCertIfGiven, MinVersion: tls.VersionTLS12}
	}
	web := &http.Server{TLSConfig: settings(), ReadHeaderTimeout: hangGuard, Handler: g.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "in") }))}
	webAt := listen()
	go func() { _ = web.ServeTLS(webAt, "", "") }()
	defer web.Close() //nolint:errcheck // the test is over
	calls := grpc.NewServer(grpc.Creds(credentials.NewTLS(settings())), grpc.ChainUnaryInterceptor(g.Unary), grpc.ChainStreamInterceptor(g.Stream))
	healthpb.RegisterHealthServer(calls, grpchealth.NewServer())
	callsAt := listen()
	go func() { _ = calls.Serve(callsAt) }()
	defer calls.Stop()

	// A certificate names a service by its identity only, so the name in it is not verified here.
	from := func(service string) *tls.Config {
		return &tls.Config{Certificates: pair(service), InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // see above
	}
	get := func(service, path string) int {
		t.Helper()
		client := http.Client{Transport: &http.Transport{TLSClientConfig: from(service)}}
		defer client.CloseIdleConnections()
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+webAt.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close() //nolint:errcheck // it was only read
		_, _ = io.Copy(io.Discard, r.Body)
		return r.StatusCode
	}
	call := func(service string) (unary, stream codes.Code) {
		t.Helper()
		c, err := grpc.NewClient("passthrough:///"+callsAt.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(from(service))))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() //nolint:errcheck // it was only called
		_, err = healthpb.NewHealthClient(c).Check(ctx, &healthpb.HealthCheckRequest{})
		w, failed := healthpb.NewHealthClient(c).Watch(ctx, &healthpb.HealthCheckRequest{})
		if failed == nil {
			_, failed = w.Recv()
		}
		return status.Code(err), status.Code(failed)
	}

	if got := get("", "/"); got != http.StatusOK {
		t.Errorf("without policies: %d", got)
	}
	set(`[{"action":"allow","match":{"services":["shop"],"identities":["default/web"]}},{"action":"allow","match":{"services":["shop"],"path":"/open"}},{"action":"deny","match":{"services":["shop"]}},
		{"action":"limit","match":{"services":["shop"],"path":"/few"},"limit":{"requests_per_second":0.001,"burst":2}}]`)
	for _, x := range []struct {
		service, path string
		want          int
	}{{"", "/", 403}, {"other", "/", 403}, {"web", "/", 200}, {"", "/open?a=b", 200}, {"", "/few", 403}, {"web", "/few", 200}, {"web", "/few", 200}, {"web", "/few", 429}} {
		if got := get(x.service, x.path); got != x.want {
			t.Errorf("%q from %q: %d, want %d", x.path, x.service, got, x.want)
		}
	}
	for service, want := range map[string]codes.Code{"": codes.PermissionDenied, "other": codes.PermissionDenied, "web": codes.OK} {
		if unary, stream := call(service); unary != want || stream != want {
			t.Errorf("calls from %q: %v, %v, want %v", service, unary, stream, want)
		}
	}
	set(`[{"action":"limit","match":{"services":["shop"],"path_prefix":"/grpc.health.v1.Health/"},"limit":{"requests_per_second":0.001,"burst":1}}]`)
	if unary, stream := call(""); unary != codes.OK || stream != codes.ResourceExhausted {
		t.Errorf("limited calls: %v, %v", unary, stream)
	}
}
