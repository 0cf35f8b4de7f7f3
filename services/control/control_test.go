package control

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"dyno/internal/leak"
	"dyno/services/control/rpc/controlpb"
	"dyno/services/internal/serve"
)

func TestMain(m *testing.M) { leak.Main(m) }

func config(t *testing.T) Config {
	c := Defaults()
	c.Listen = "127.0.0.1:0"
	c.Store.Dir = t.TempDir()
	c.Store.NoSync = true
	c.DrainTimeout = 20 * time.Second
	return c
}

// serving runs a server until end is called, or the test ends.
func serving(t *testing.T, c Config) (s *Server, end func()) {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	stopped := false
	end = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
	t.Cleanup(end)
	return s, end
}

func do(t *testing.T, client *http.Client, method, address, body string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	all, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, string(all)
}

// TestLife: what was made is there after a restart, and watchers end with the server.
func TestLife(t *testing.T) {
	c := config(t)
	const token = "token-of-the-admin-listener"
	c.Admin, c.AdminTokenFile = "127.0.0.1:0", secretFile(t, token)
	s, end := serving(t, c)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	base := "http://" + s.Addr().String()
	if status, text := do(t, client, "POST", base+"/v1/policies", `{"name":"a","rules":[]}`); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	if status, text := do(t, client, "PUT", base+"/v1/services/s/instances/1", `{"address":"127.0.0.1","port":1}`); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", base+"/v1/watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	stream, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	metrics := "http://" + s.AdminAddr().String() + "/metrics"
	if status, text := do(t, client, "GET", base+"/v1/policies/a", ""); status != 200 { // now the replica knows of it
		t.Fatalf("%d %s", status, text)
	}
	if status, text := do(t, client, "GET", metrics, ""); status != 401 {
		t.Errorf("metrics without the admin's token: %d %s", status, text)
	}
	_, text := do(t, client, "GET", strings.Replace(metrics, "://", "://admin:"+token+"@", 1), "")
	for _, want := range []string{`control_resources{kind="policy"} 1`, "control_store_commit_seconds_count", `http_request_duration_seconds_count{business_context="policy",category="ok",operation="createPolicy"} 1`, "control_watchers 1", "control_up 1", "control_reconnects_total 0", `control_connections_total{protocol="http"}`, `control_connections{protocol="http"}`} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics have no %s", want)
		}
	}
	end()
	if _, err := io.ReadAll(stream.Body); err != nil {
		t.Logf("the stream was cut: %v", err)
	}

	s, _ = serving(t, c)
	base = "http://" + s.Addr().String()
	if status, text := do(t, client, "GET", base+"/v1/policies/a", ""); status != 200 {
		t.Errorf("after a restart: %d %s", status, text)
	}
	if status, text := do(t, client, "POST", base+"/v1/services/s/instances/1/heartbeat", ""); status != 204 {
		t.Errorf("after a restart: %d %s", status, text)
	}
}

// TestStreamsOutliveTimeouts: the server's timeouts are for requests that are answered at
// once.
func TestStreamsOutliveTimeouts(t *testing.T) {
	c := config(t)
	c.ReadTimeout, c.WriteTimeout, c.Heartbeat = time.Second, 5*time.Second, 10*time.Millisecond
	s, _ := serving(t, c)
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	start := time.Now()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.Addr().String()+"/v1/watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	stream, err := (&http.Client{Transport: tr}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	buffer := make([]byte, 1)
	for time.Since(start) < 2*c.ReadTimeout { // heartbeats come all the time
		if _, err := stream.Body.Read(buffer); err != nil {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
	}
}

// TestUnreadBodies: the server does not wait for a body where a request must not have one.
func TestUnreadBodies(t *testing.T) {
	c := config(t)
	c.ReadTimeout = time.Second
	s, _ := serving(t, c)
	for _, path := range []string{"GET /v1/watch?wait=0", "GET /v1/watch?wait=9", "GET /v1/backup", "POST /v1/reclaim"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			connection, err := net.Dial("tcp", s.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close()
			if _, err := fmt.Fprintf(connection, "%s HTTP/1.1\r\nHost: %v\r\nContent-Length: 100\r\n\r\n{", path, s.Addr()); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
			if err != nil {
				t.Fatal(err)
			}
			if answer.Body.Close(); answer.StatusCode != http.StatusBadRequest {
				t.Errorf("%d", answer.StatusCode)
			}
		})
	}
}

// secretFile makes a file that has a secret.
func secretFile(t *testing.T, secret string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An authority signs certificates for a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
	next int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir(), next: 1}
	pair := a.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.cert, a.key, a.file = pair.cert, pair.key, pair.file
	return a
}

type pair struct {
	cert             *x509.Certificate
	key              *ecdsa.PrivateKey
	file, privateKey string
}

func (a *authority) sign(name string, template *x509.Certificate) pair {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(a.next)
	a.next++
	template.Subject = pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	p := pair{cert, key, filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")}
	for file, block := range map[string]*pem.Block{p.file: {Type: "CERTIFICATE", Bytes: der}, p.privateKey: {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return p
}

// TestCertificates: a certificate identifies a client over HTTP and gRPC. A foreign one is refused, and without one a
// token is needed. Both APIs have the same resources, rates and end.
func TestCertificates(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	server := ca.sign("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	spiffe := &url.URL{Scheme: "spiffe", Host: "example.org", Path: "/deployer"}
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	known := ca.sign("c1", &x509.Certificate{URIs: []*url.URL{spiffe}, ExtKeyUsage: usage})
	unknown := ca.sign("c2", &x509.Certificate{ExtKeyUsage: usage})
	foreign := other.sign("c3", &x509.Certificate{URIs: []*url.URL{spiffe}, ExtKeyUsage: usage})

	sum := sha256.Sum256([]byte("token"))
	principals := filepath.Join(t.TempDir(), "principals.yaml")
	text := "principals:\n  - {name: deployer, certificate: \"" + spiffe.String() + "\", rate: 0.001, burst: 4, grants: [{namespace: \"*\", role: editor}]}\n" +
		"  - {name: reader, token_sha256: " + hex.EncodeToString(sum[:]) + ", grants: [{namespace: \"*\", role: reader}]}\n"
	if err := os.WriteFile(principals, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := config(t)
	c.GRPC = "127.0.0.1:0"
	c.Principals, c.Certificate, c.Key, c.ClientCA = principals, server.file, server.privateKey, ca.file
	s, end := serving(t, c)
	shows := func(p *pair) *tls.Config {
		conf := &tls.Config{RootCAs: x509.NewCertPool()}
		conf.RootCAs.AddCert(ca.cert)
		if p != nil {
			conf.Certificates = []tls.Certificate{{Certificate: [][]byte{p.cert.Raw}, PrivateKey: p.key}}
		}
		return conf
	}
	ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
	defer cancel()
	calls := func(p *pair) controlpb.ControlClient {
		connection, err := grpc.NewClient(s.GRPCAddr().String(), grpc.WithTransportCredentials(credentials.NewTLS(shows(p))))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		return controlpb.NewControlClient(connection)
	}
	address := "https://" + s.Addr().String() + "/v1/configs/c"
	web := func(p *pair, method, token, body string) (status int, answer string, err error) {
		r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		transport := &http.Transport{TLSClientConfig: shows(p), ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		got, err := transport.RoundTrip(r)
		if err != nil {
			return 0, "", err
		}
		defer got.Body.Close()
		all, err := io.ReadAll(got.Body)
		return got.StatusCode, string(all), err
	}
	if status, text, err := web(&known, "PUT", "", `{"content":"x"}`); status != 201 || !strings.Contains(text, `"changed_by":"deployer"`) {
		t.Fatalf("%d %s, %v", status, text, err)
	}
	for name, c := range map[string]struct {
		shown *pair
		token string
		want  int
	}{"unknown": {&unknown, "", 401}, "no certificate": {nil, "", 401}, "a token": {nil, "token", 200}} {
		if status, text, err := web(c.shown, "GET", c.token, ""); status != c.want {
			t.Errorf("%s: %d %s, %v", name, status, text, err)
		}
	}
	if status, text, err := web(&foreign, "GET", "", ""); err == nil && status != 401 { // Go's client shows no certificate that the server's CAs have not signed
		t.Errorf("of another authority: %d %s", status, text)
	}
	one := &controlpb.GetRequest{Ref: &controlpb.Ref{Kind: controlpb.Kind_KIND_CONFIG, Name: "c"}}
	if got, err := calls(&known).Get(ctx, one); err != nil || string(got.GetResource().GetConfig().GetContent()) != "x" {
		t.Errorf("over gRPC: %v, %v", got, err)
	}
	if _, err := calls(&unknown).Get(ctx, one); status.Code(err) != codes.Unauthenticated {
		t.Errorf("unknown: %v", err)
	}
	// xDS is at the same address.
	connection, err := grpc.NewClient(s.GRPCAddr().String(), grpc.WithTransportCredentials(credentials.NewTLS(shows(&known))))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	clusters, err := discovery.NewAggregatedDiscoveryServiceClient(connection).StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := clusters.Send(&discovery.DiscoveryRequest{TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster"}); err != nil {
		t.Fatal(err)
	}
	if _, err := clusters.Recv(); err != nil {
		t.Errorf("over xDS: %v", err)
	}
	watch, err := calls(&known).Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Send(&controlpb.WatchRequest{Message: &controlpb.WatchRequest_Query{Query: &controlpb.Query{}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	// The rate is of all together, and these were four.
	if _, err := calls(&known).Get(ctx, one); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("beyond the rate: %v", err)
	}
	end()
	for err == nil {
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("at the end: %v", err)
	}
}

// TestDNS: ordinary resolvers find a registered service by name, until it accepts no requests.
func TestDNS(t *testing.T) {
	c := config(t)
	c.DNS = "127.0.0.1:0"
	s, _ := serving(t, c)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	register := func(id, status string) {
		t.Helper()
		body := `{"address":"10.0.0.` + id + `","port":8` + id + `,"status":"` + status + `"}`
		if code, text := do(t, client, "PUT", "http://"+s.Addr().String()+"/v1/services/shop/instances/"+id, body); code > 201 {
			t.Fatalf("%d %s", code, text)
		}
	}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.DNSAddr().String())
	}}
	// A replica answers from what it knows, which may be a moment old.
	want := func(addresses ...string) {
		t.Helper()
		for end := time.Now().Add(hangGuard); ; {
			got, err := resolver.LookupHost(t.Context(), "shop.default.control.internal.")
			if slices.Sort(got); slices.Equal(got, addresses) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%v, %v; want %v", got, err, addresses)
			}
		}
	}
	register("1", "up")
	register("2", "up")
	want("10.0.0.1", "10.0.0.2")
	register("1", "draining")
	want("10.0.0.2")
	if _, list, err := resolver.LookupSRV(t.Context(), "shop", "tcp", "default.control.internal."); err != nil || len(list) != 1 || list[0].Port != 82 {
		t.Errorf("SRV: %v, %v", list, err)
	}
	if _, err := resolver.LookupHost(t.Context(), "a_b.default.control.internal."); err == nil {
		t.Error("a service that is not there is found")
	}
}

// TestStoreAway: a server whose store cannot be opened says why, and frees its address.
func TestStoreAway(t *testing.T) {
	c := config(t)
	c.Store.Dir, c.Store.NoSync = "", false
	c.Store.Endpoints = []string{"127.0.0.1:1"}
	c.Store.Timeout = 200 * time.Millisecond
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("Serve: %v", err)
	}
	l, err := serve.Listen(t.Context(), s.Addr().String(), nil)
	if err != nil {
		t.Errorf("the address is taken: %v", err)
	} else {
		l.Close()
	}
}
