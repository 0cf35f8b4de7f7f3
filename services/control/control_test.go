package control

import (
	"bufio"
	"bytes"
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
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"dyno/internal/leak"
	"dyno/services/control/rpc/controlpb"
	"dyno/services/internal/serve"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		runVictim(dir)
		return
	}
	leak.Main(m)
}

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

func TestConfigFaults(t *testing.T) {
	good := config(t)
	token := secretFile(t, "token-of-the-admin-listener")
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"good":              {func(*Config) {}, ""},
		"remote":            {func(c *Config) { c.Listen = "192.0.2.1:80" }, "can be reached"},
		"remote, no people": {func(c *Config) { c.Listen, c.AllowRemote, c.PlainHTTP = "192.0.2.1:80", true, true }, "principals"},
		"remote, plain":     {func(c *Config) { c.Listen, c.AllowRemote, c.Principals = "192.0.2.1:80", true, "p" }, "give --tls-cert"},
		"everything":        {func(c *Config) { c.Listen, c.AllowRemote, c.Principals, c.PlainHTTP = "192.0.2.1:80", true, "p", true }, ""},
		"gRPC, remote":      {func(c *Config) { c.GRPC = "192.0.2.1:80" }, "grpc"},
		"DNS, a domain":     {func(c *Config) { c.DNS, c.Domain = "127.0.0.1:0", "x" }, "domain"},
		"DNS, a socket":     {func(c *Config) { c.DNS = "unix:x" }, "dns"},
		"admin, no token":   {func(c *Config) { c.Admin, c.AllowRemote = "192.0.2.1:80", true }, "admin_token_file: is missing: everybody"},
		"admin, a token":    {func(c *Config) { c.Admin, c.AllowRemote, c.AdminTokenFile = "192.0.2.1:80", true, token }, ""},
		"admin, no file":    {func(c *Config) { c.Admin, c.AdminTokenFile = "127.0.0.1:0", token+".none" }, "admin_token_file: open"},
		"key alone":         {func(c *Config) { c.Key = "k" }, "tls_cert: a certificate"},
		"client CA alone":   {func(c *Config) { c.ClientCA = "k" }, "tls_client_ca: needs"},
		"of the store":      {func(c *Config) { c.Store.Dir = "" }, "data: there must be"},
		"of the plane":      {func(c *Config) { c.Plane.Replica = "a b" }, "replica"},
		"of the API":        {func(c *Config) { c.MaxWatchers = 0 }, "max_watchers: 0"},
		"timeouts":          {func(c *Config) { c.ReadTimeout = 0 }, "read_timeout: 0s"},
	} {
		one := good
		c.change(&one)
		err := one.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
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

// TestCertificates: a client is known by its certificate, one of another authority is
// not served, and one without needs a token.
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
	text := "principals:\n  - {name: deployer, certificate: \"" + spiffe.String() + "\", grants: [{namespace: \"*\", role: editor}]}\n" +
		"  - {name: reader, token_sha256: " + hex.EncodeToString(sum[:]) + ", grants: [{namespace: \"*\", role: reader}]}\n"
	if err := os.WriteFile(principals, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := config(t)
	c.Principals, c.Certificate, c.Key, c.ClientCA = principals, server.file, server.privateKey, ca.file
	s, _ := serving(t, c)
	base := "https://" + s.Addr().String()
	client := func(p *pair) *http.Client {
		conf := &tls.Config{RootCAs: x509.NewCertPool()}
		conf.RootCAs.AddCert(ca.cert)
		if p != nil {
			conf.Certificates = []tls.Certificate{{Certificate: [][]byte{p.cert.Raw}, PrivateKey: p.key}}
		}
		tr := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: true}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr}
	}
	if status, text := do(t, client(&known), "PUT", base+"/v1/policies/a", `{"rules":[]}`); status != 201 || !strings.Contains(text, `"changed_by":"deployer"`) {
		t.Errorf("%d %s", status, text)
	}
	if status, text := do(t, client(&unknown), "GET", base+"/v1/policies/a", ""); status != 401 {
		t.Errorf("unknown: %d %s", status, text)
	}
	if status, text := do(t, client(nil), "GET", base+"/v1/policies/a", ""); status != 401 {
		t.Errorf("no certificate: %d %s", status, text)
	}
	if got, err := client(&foreign).Get(base + "/v1/policies/a"); err == nil {
		got.Body.Close()
		if got.StatusCode != 401 { // Go's client shows no certificate that the server's CAs have not signed
			t.Errorf("of another authority: %d", got.StatusCode)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", base+"/v1/policies/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer token")
	got, err := client(nil).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	got.Body.Close()
	if got.StatusCode != 200 {
		t.Errorf("token: %d", got.StatusCode)
	}
}

// TestGRPC: the API over gRPC has the same resources, principals and life as the one over
// HTTP.
func TestGRPC(t *testing.T) {
	ca := newAuthority(t)
	server := ca.sign("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	known, unknown := ca.sign("deployer", &x509.Certificate{ExtKeyUsage: usage}), ca.sign("nobody", &x509.Certificate{ExtKeyUsage: usage})
	principals := filepath.Join(t.TempDir(), "principals.yaml")
	if err := os.WriteFile(principals, []byte("principals:\n  - {name: me, certificate: deployer, rate: 0.001, burst: 3, grants: [{namespace: \"*\", role: editor}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := config(t)
	c.GRPC = "127.0.0.1:0"
	c.Principals, c.Certificate, c.Key, c.ClientCA = principals, server.file, server.privateKey, ca.file
	s, end := serving(t, c)
	secured := func(p pair) *tls.Config {
		conf := &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{{Certificate: [][]byte{p.cert.Raw}, PrivateKey: p.key}}}
		conf.RootCAs.AddCert(ca.cert)
		return conf
	}
	calls := func(p pair) controlpb.ControlClient {
		connection, err := grpc.NewClient(s.GRPCAddr().String(), grpc.WithTransportCredentials(credentials.NewTLS(secured(p))))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		return controlpb.NewControlClient(connection)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
	defer cancel()
	ref := &controlpb.Ref{Kind: controlpb.Kind_KIND_CONFIG, Name: "c"}
	made, err := calls(known).Put(ctx, &controlpb.PutRequest{Ref: ref, Document: &controlpb.PutRequest_Config{Config: &controlpb.Config{Content: "x"}}})
	if err != nil || made.GetResource().GetChangedBy() != "me" {
		t.Fatal(made, err)
	}
	if _, err := calls(unknown).Get(ctx, &controlpb.GetRequest{Ref: ref}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("unknown: %v", err)
	}
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: secured(known)}}
	defer web.CloseIdleConnections()
	if status, text := do(t, web, "GET", "https://"+s.Addr().String()+"/v1/configs/c", ""); status != 200 || !strings.Contains(text, `"content":"x"`) {
		t.Errorf("over HTTP: %d %s", status, text)
	}
	watch, err := calls(known).Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Send(&controlpb.WatchRequest{Message: &controlpb.WatchRequest_Query{Query: &controlpb.Query{}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	// The rate is of both together, and these were three.
	if _, err := calls(known).Get(ctx, &controlpb.GetRequest{Ref: ref}); status.Code(err) != codes.ResourceExhausted {
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

// TestDNS: a service that is registered is found by name, by resolvers that know nothing
// else, until it takes no requests any more.
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

// TestXDS: services are found over xDS at the address of gRPC, by who has a token, and
// found again when the control plane has been away.
func TestXDS(t *testing.T) {
	principals := filepath.Join(t.TempDir(), "principals.yaml")
	sum := sha256.Sum256([]byte("token"))
	if err := os.WriteFile(principals, []byte("principals:\n  - {name: me, token_sha256: "+hex.EncodeToString(sum[:])+", grants: [{namespace: default, role: registrar}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := config(t)
	c.GRPC, c.Admin, c.Principals = "127.0.0.1:0", "127.0.0.1:0", principals
	s, end := serving(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
	defer cancel()
	known := metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer token")
	call := func(ctx context.Context, s *Server) (discovery.AggregatedDiscoveryService_StreamAggregatedResourcesClient, *discovery.DiscoveryResponse, error) {
		stream, err := discovery.NewAggregatedDiscoveryServiceClient(connect(t, s)).StreamAggregatedResources(ctx)
		if err != nil {
			return nil, nil, err
		}
		_ = stream.Send(&discovery.DiscoveryRequest{TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster"}) // it may have ended already
		m, err := stream.Recv()
		return stream, m, err
	}
	if _, _, err := call(ctx, s); status.Code(err) != codes.Unauthenticated {
		t.Errorf("nobody: %v", err)
	}
	if _, err := controlpb.NewControlClient(connect(t, s)).Register(known, &controlpb.RegisterRequest{Ref: &controlpb.Ref{Kind: controlpb.Kind_KIND_INSTANCE, Name: "shop", Id: "1"}, Instance: &controlpb.Instance{Address: "192.0.2.1", Port: 80, TtlSeconds: 3600}}); err != nil {
		t.Fatal(err)
	}
	stream, m, err := call(known, s)
	for err == nil && len(m.GetResources()) == 0 { // a replica answers from what it knows, which may be a moment old
		_ = stream.Send(&discovery.DiscoveryRequest{TypeUrl: m.GetTypeUrl(), ResponseNonce: m.GetNonce()})
		m, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	if _, text := do(t, client, "GET", "http://"+s.AdminAddr().String()+"/metrics", ""); !strings.Contains(text, `control_xds_streams{protocol="sotw"} 1`) {
		t.Error("metrics have no stream")
	}
	end()
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("at the end: %v", err)
	}
	s, _ = serving(t, c)
	_, again, err := call(known, s)
	if err != nil || len(again.GetResources()) != 1 || !proto.Equal(again.GetResources()[0], m.GetResources()[0]) {
		t.Errorf("after a restart: %v, %v", again, err)
	}
}

func connect(t *testing.T, s *Server) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient(s.GRPCAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
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

func TestRestore(t *testing.T) {
	c := config(t)
	s, end := serving(t, c)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	base := "http://" + s.Addr().String()
	do(t, client, "PUT", base+"/v1/configs/c", `{"content":"x"}`)
	_, backup := do(t, client, "GET", base+"/v1/backup", "")
	end()
	c.Store.Dir = t.TempDir()
	if err := Restore(t.Context(), c.Store, bytes.NewReader([]byte(backup))); err != nil {
		t.Fatal(err)
	}
	s, _ = serving(t, c)
	if status, text := do(t, client, "GET", "http://"+s.Addr().String()+"/v1/configs/c", ""); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}
