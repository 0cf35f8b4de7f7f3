package identity

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dyno/internal/leak"
	"dyno/internal/pipes"
)

func TestMain(m *testing.M) { leak.Main(m) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var discard = slog.New(slog.DiscardHandler)

// A fleet has an authority and a server that lets others join.
type fleet struct {
	*Authority
	coordinator *Member
	address     string
	requests    atomic.Int32 // that reached the handler
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{Authority: must(Open(t.TempDir()))}
	f.coordinator = must(f.Member("main", Coordinator))
	f.address = f.serve(t, f.coordinator.Joining())
	return f
}

// serve starts a server that lets others join, and returns its address.
func (f *fleet) serve(t *testing.T, config *tls.Config) string {
	t.Helper()
	handler := f.Handler(noRevocation, discard)
	return serveTLS(t, config, func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		handler.ServeHTTP(w, r)
	})
}

func serveTLS(t *testing.T, config *tls.Config, handler http.HandlerFunc) (address string) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Listener = tls.NewListener(server.Listener, config) // StartTLS would add a certificate of its own
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func wantError(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

// exchange connects two members, and returns what each side found wrong.
func exchange(t *testing.T, server, client *tls.Config) (atServer, atClient error) {
	t.Helper()
	l := must(tls.Listen("tcp", "127.0.0.1:0", server))
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = io.Copy(c, c)
			c.Close()
		}
		served <- err
	}()
	c, err := tls.Dial("tcp", l.Addr().String(), client)
	if err == nil {
		_, err = c.Write([]byte("x"))
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 1)) // in TLS 1.3, a client hears here that it was refused
		}
		c.Close()
	}
	return <-served, err
}

// TestJoin: a machine joins with a token, is known to the coordinator and knows it, also from its file.
func TestJoin(t *testing.T) {
	f := newFleet(t)
	token := must(f.Token(Agent, time.Hour, 1))
	joined, err := Join(t.Context(), f.address, token, "node-3")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "member.pem")
	if err := joined.Save(file); err != nil {
		t.Fatal(err)
	}
	if mode := must(os.Stat(file)).Mode(); mode != 0o600 {
		t.Errorf("the file's mode is %v", mode)
	}
	loaded, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, agent := range []*Member{joined, loaded} {
		if agent.Peer() != (Peer{"node-3", Agent}) {
			t.Errorf("joined as %v", agent.Peer())
		}
		if atServer, atClient := exchange(t, agent.Server(Coordinator), f.coordinator.Client("node-3", Agent)); atServer != nil || atClient != nil {
			t.Errorf("server: %v, client: %v", atServer, atClient)
		}
	}
	if err := loaded.Renew(t.Context(), f.address); err != nil {
		t.Fatal(err)
	}
	if before, after := joined.pair.Load().Leaf, loaded.pair.Load().Leaf; loaded.Peer() != joined.Peer() || before.Equal(after) ||
		before.PublicKey.(*ecdsa.PublicKey).Equal(after.PublicKey) {
		t.Errorf("the renewed certificate is for %v, and is the same or of the same key", loaded.Peer())
	}
	if atServer, atClient := exchange(t, loaded.Server(Coordinator), f.coordinator.Client("node-3", Agent)); atServer != nil || atClient != nil {
		t.Errorf("renewed; server: %v, client: %v", atServer, atClient)
	}
}

// TestPeersAreVerified: each side of a connection refuses peers outside the fleet, and others than were asked for.
func TestPeersAreVerified(t *testing.T) {
	f := must(Open(t.TempDir()))
	coordinator, agent := must(f.Member("main", Coordinator)), must(f.Member("node-3", Agent))
	foreign := must(must(Open(t.TempDir())).Member("main", Coordinator))
	foreignAgent := must(must(Open(t.TempDir())).Member("node-3", Agent))
	nobody := coordinator.Client("node-3", Agent)
	nobody.GetClientCertificate = nil
	old := coordinator.Client("node-3", Agent)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	impostor := foreign.Client("node-3", Agent)
	impostor.RootCAs = agent.roots()
	for name, tt := range map[string]struct {
		server, client     *tls.Config
		atServer, atClient string
	}{
		"client without a certificate": {agent.Server(Coordinator), nobody, "client didn't provide a certificate", "certificate required"},
		"client of another fleet":      {agent.Server(Coordinator), impostor, "unknown authority", "certificate"},
		"client of another role":       {agent.Server(Coordinator), agent.Client("node-3", Agent), "node-3 is agent, want [coordinator]", "bad certificate"},
		"server of another fleet":      {foreignAgent.Server(Coordinator), coordinator.Client("node-3", Agent), "bad certificate", "unknown authority"},
		"server of another name":       {agent.Server(Coordinator), coordinator.Client("node-4", Agent), "bad certificate", "node-4"},
		"server of another role":       {agent.Server(Coordinator), coordinator.Client("node-3", Coordinator), "bad certificate", "node-3 is agent, want [coordinator]"},
		"older TLS":                    {agent.Server(Coordinator), old, "unsupported versions", "protocol version"},
	} {
		atServer, atClient := exchange(t, tt.server, tt.client)
		wantError(t, name+", server", atServer, tt.atServer)
		wantError(t, name+", client", atClient, tt.atClient)
	}
}

// TestTokensAreRefused: without using up a token, unless a member joins.
func TestTokensAreRefused(t *testing.T) {
	f := newFleet(t)
	once := must(f.Token(Agent, time.Hour, 1))
	_, key, _ := strings.Cut(once, ".")
	for _, tt := range []struct{ what, token, name, want string }{
		{"malformed", "abc", "a", "the token is malformed: want 32 hexadecimal digits, a dot and 64"},
		{"no key", once[:32], "a", "malformed"},
		{"longer", once + "00", "a", "malformed"},
		{"expired", must(f.Token(Agent, 1, 1)), "a", "401 Unauthorized: the token is not one of this fleet, or has expired"},
		{"unknown", strings.Repeat("0", 32) + "." + key, "a", "401 Unauthorized: the token is not one of this fleet"},
		{"a name with spaces", once, "node 3", `"node 3" is no name of a member`},
		{"a wildcard", once, "*.example.org", "is no name"},
		{"an address", once, "10.0.0.1", "and no address"},
		{"a long name", once, strings.Repeat("a", 65), "at most 64"},
		{"no name", once, "", "is no name"},
		{"", once, "a", ""},
		{"used up", once, "b", "401 Unauthorized: the token was used by as many members as it is for"},
	} {
		_, err := Join(t.Context(), f.address, tt.token, tt.name)
		if tt.want == "" && err == nil {
			continue
		}
		wantError(t, tt.what, err, tt.want)
	}
	if err := f.Accept(once, Agent, time.Hour, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := Join(t.Context(), f.address, once, "b"); err != nil {
		t.Errorf("the token is accepted for another member: %v", err)
	}
	wantError(t, "used up again", errorOf(Join(t.Context(), f.address, once, "c")), "as many members as it is for")
	wantError(t, "another fleet's", f.Accept(must(newFleet(t).Token(Agent, time.Hour, 1)), Agent, time.Hour, 1), "the token is of another fleet")
	if text := must(os.ReadFile(filepath.Join(f.folder, tokensFile))); bytes.Contains(text, []byte(once[:32])) || bytes.Contains(text, []byte(base64.StdEncoding.EncodeToString([]byte(once[:32])))) {
		t.Error("a secret is kept")
	}
	for what, err := range map[string]error{
		"is no role":        errorOf(f.Token("admin", time.Hour, 1)),
		"life of 0s":        errorOf(f.Token(Agent, 0, 1)),
		"life of 8761h0m0s": errorOf(f.Token(Agent, MaxTokenLife+time.Hour, 1)),
		"0 members":         errorOf(f.Token(Agent, time.Hour, 0)),
		"10001 members":     errorOf(f.Token(Agent, time.Hour, MaxUses+1)),
	} {
		wantError(t, "token", err, what)
	}
}

func errorOf[T any](_ T, err error) error { return err }

// TestMachineInTheMiddle: who joins sends nothing to a server that is not a coordinator of the token's authority.
func TestMachineInTheMiddle(t *testing.T) {
	f, other := newFleet(t), newFleet(t)
	token := must(f.Token(Agent, time.Hour, 1))
	agent := must(f.Member("node-3", Agent))
	// The authority's certificate is no secret, so anybody can show it after another one.
	stolen := other.coordinator.Joining()
	pair := *other.coordinator.pair.Load()
	pair.Certificate = [][]byte{pair.Certificate[0], f.certificate.Raw}
	stolen.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
	// The authority's key in a certificate that the authority did not sign.
	template := *other.certificate
	forged := must(x509.CreateCertificate(rand.Reader, &template, other.certificate, f.certificate.PublicKey, other.key))
	pair2 := *f.coordinator.pair.Load()
	pair2.Certificate = [][]byte{pair2.Certificate[0], forged}
	reissued := f.coordinator.Joining()
	reissued.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair2, nil }
	for name, tt := range map[string]struct {
		address, want string
	}{
		"another authority":           {other.address, "its authority is not the token's"},
		"the authority's certificate": {other.serve(t, stolen), "unknown authority"},
		"the authority's key":         {other.serve(t, reissued), "its authority: "},
		"an agent":                    {other.serve(t, agent.Joining()), "node-3 is agent, want [coordinator]"},
	} {
		_, err := Join(t.Context(), tt.address, token, "node-4")
		wantError(t, name, err, tt.want)
	}
	wantError(t, "renewal", agent.Renew(t.Context(), other.address), "unknown authority")
	if n := other.requests.Load() + f.requests.Load(); n > 0 {
		t.Errorf("%d requests were sent", n)
	}
	if _, err := Join(t.Context(), f.address, token, "node-4"); err != nil {
		t.Errorf("the token does not work any more: %v", err)
	}
}

// TestAnswersAreVerified: a coordinator may be faulty, too.
func TestAnswersAreVerified(t *testing.T) {
	f := newFleet(t)
	token := must(f.Token(Agent, time.Hour, 1))
	node3, node4 := must(f.Member("node-3", Agent)), must(f.Member("node-4", Agent))
	sign := func(r *http.Request, as Peer) []byte {
		var asked joinRequest
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		_, key, err := parseRequest(asked.Request)
		if err != nil {
			t.Error(err)
		}
		return must(json.Marshal(joinAnswer{must(f.sign(as, key, time.Time{}))}))
	}
	for want, answer := range map[string]http.HandlerFunc{
		"not of the member's key": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(must(json.Marshal(joinAnswer{node4.pair.Load().Certificate[0]})))
		},
		"is for node-3, not node-4": func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(sign(r, Peer{"node-3", Agent})) },
		"unexpected end of JSON":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte(" "), maxBody+1)) },
		"malformed certificate":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) },
		"302 Found": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://"+f.address+joinPath, http.StatusFound)
		},
	} {
		_, err := Join(t.Context(), serveTLS(t, f.coordinator.Joining(), answer), token, "node-4")
		wantError(t, "join", err, want)
	}
	other := serveTLS(t, f.coordinator.Joining(), func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(sign(r, Peer{"node-3", Coordinator})) })
	wantError(t, "renew", node3.Renew(t.Context(), other), "a member of another role: coordinator")
	if f.requests.Load() > 0 {
		t.Error("a redirect was followed")
	}
}

// post sends a request as the handler gets it from anybody, and returns the status and the answer.
func (f *fleet) post(t *testing.T, member *Member, method, path string, body []byte) (int, string) {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true}
	if member != nil {
		config.GetClientCertificate = member.config().GetClientCertificate
	}
	r := must(http.NewRequestWithContext(t.Context(), method, "https://"+f.address+path, bytes.NewReader(body)))
	a, err := (&http.Transport{TLSClientConfig: config, DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	return a.StatusCode, string(must(io.ReadAll(a.Body)))
}

func TestRequestsAreRefused(t *testing.T) {
	f := newFleet(t)
	token := must(f.Token(Agent, time.Hour, 1))
	secret, _, _ := parseToken(token)
	member := must(f.Member("node-3", Agent))
	csr := func(curve elliptic.Curve, name string) []byte {
		return must(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, must(ecdsa.GenerateKey(curve, rand.Reader))))
	}
	good := csr(elliptic.P256(), "node-4")
	unsigned := bytes.Clone(good)
	unsigned[len(unsigned)-1] ^= 1
	body := func(secret, request []byte) []byte { return must(json.Marshal(joinRequest{secret, request})) }
	for name, tt := range map[string]struct {
		member       *Member
		method, path string
		body         []byte
		status       int
		answer       string
	}{
		"another method":         {nil, "GET", joinPath, nil, 405, ""},
		"another path":           {nil, "POST", "/v1/other", nil, 404, ""},
		"no JSON":                {nil, "POST", joinPath, []byte("x"), 400, "invalid character"},
		"too large":              {nil, "POST", joinPath, bytes.Repeat([]byte(" "), maxBody+1), 413, "too large"},
		"no request":             {nil, "POST", joinPath, body(secret, nil), 400, "asn1"},
		"another key":            {nil, "POST", joinPath, body(secret, csr(elliptic.P384(), "node-4")), 400, "not ECDSA P-256"},
		"without having the key": {nil, "POST", joinPath, body(secret, unsigned), 400, "verification"},
		"no name":                {nil, "POST", joinPath, body(secret, csr(elliptic.P256(), "")), 400, "is no name"},
		"no token":               {nil, "POST", joinPath, body(nil, good), 401, "neither a token nor a certificate"},
		"a member's name":        {member, "POST", joinPath, body(nil, good), 403, "node-3 asks for a certificate of node-4"},
		"a shorter token":        {nil, "POST", joinPath, body(secret[:15], good), 401, "not one of this fleet"},
	} {
		if status, answer := f.post(t, tt.member, tt.method, tt.path, tt.body); status != tt.status || !strings.Contains(answer, tt.answer) {
			t.Errorf("%s: %d %s, want %d %s", name, status, answer, tt.status, tt.answer)
		}
	}
	if _, err := Join(t.Context(), f.address, token, "node-4"); err != nil {
		t.Errorf("a refused request used the token: %v", err)
	}
}

// TestRequestsAreLimited: an address that asks again and again is not answered, and another one is.
func TestRequestsAreLimited(t *testing.T) {
	a := must(Open(t.TempDir()))
	synctest.Test(t, func(t *testing.T) { // time stands still
		handler := a.Handler(noRevocation, discard)
		ask := func(address string) *httptest.ResponseRecorder {
			w, r := httptest.NewRecorder(), httptest.NewRequest("POST", joinPath, nil)
			r.RemoteAddr = address
			handler.ServeHTTP(w, r)
			return w
		}
		for range requestBurst {
			if w := ask("127.0.0.1:1"); w.Code != 400 || !strings.Contains(w.Body.String(), "over TLS only") {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		if w := ask("127.0.0.1:2"); w.Code != 429 || w.Header().Get("Retry-After") != "1" {
			t.Errorf("too often: %d, %v", w.Code, w.Header())
		}
		if w := ask("127.0.0.2:1"); w.Code != 400 {
			t.Errorf("another address: %d", w.Code)
		}
	})
}

// TestUsesAreCounted: when many join at once, also by several processes, as many join as the token is for.
func TestUsesAreCounted(t *testing.T) {
	f := newFleet(t)
	const uses, machines = 5, 20
	token := must(f.Token(Agent, time.Hour, uses))
	var joined atomic.Int32
	var wait sync.WaitGroup
	for n := range machines {
		wait.Go(func() {
			other := must(Open(f.folder)) // as another process has it
			secret, _, _ := parseToken(token)
			var err error
			if n%2 == 0 {
				_, err = Join(t.Context(), f.address, token, fmt.Sprint("node-", n))
			} else {
				_, err = other.use(secret)
			}
			if err == nil {
				joined.Add(1)
			} else if !strings.Contains(err.Error(), errUsedUp.Error()) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if joined.Load() != uses {
		t.Errorf("%d joined, want %d", joined.Load(), uses)
	}
}

func TestTokensAreBounded(t *testing.T) {
	a := must(Open(t.TempDir()))
	expires := time.Now().Add(time.Hour)
	all := make([]token, MaxTokens)
	for i := range all {
		all[i].Expires = expires
	}
	file := filepath.Join(a.folder, tokensFile)
	write := func(text []byte) {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(must(json.Marshal(all)))
	wantError(t, "too many", errorOf(a.Token(Agent, time.Hour, 1)), "1000 tokens have not expired")
	all[7].Expires = time.Now()
	write(must(json.Marshal(all)))
	if _, err := a.Token(Agent, time.Hour, 1); err != nil {
		t.Errorf("an expired token is in the way: %v", err)
	}
	write([]byte("{"))
	wantError(t, "malformed", errorOf(a.Token(Agent, time.Hour, 1)), tokensFile)
}

// TestOpen: processes that make the authority at the same time have the same one, and keep it.
func TestOpen(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "fleet")
	keys := make([]string, 10)
	var wait sync.WaitGroup
	for i := range keys {
		wait.Go(func() { keys[i] = keyHash(must(Open(folder)).certificate) })
	}
	wait.Wait()
	for _, k := range append(keys, keyHash(must(Open(folder)).certificate)) {
		if k != keys[0] {
			t.Errorf("authorities %s and %s", k, keys[0])
		}
	}
	entries := must(os.ReadDir(folder))
	if len(entries) != 1 || entries[0].Name() != authorityFile || must(entries[0].Info()).Mode() != 0o600 || must(os.Stat(folder)).Mode().Perm() != 0o700 {
		t.Errorf("the folder has %v", entries)
	}
	file := filepath.Join(folder, authorityFile)
	if err := makeAuthority(folder, file); err != nil || keyHash(must(Open(folder)).certificate) != keys[0] {
		t.Errorf("a slower process replaced the authority, or failed: %v", err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	wantError(t, "loose", errorOf(Open(folder)), "chmod 600 "+file)
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil || os.Chmod(file, 0o600) != nil {
		t.Fatal(err)
	}
	wantError(t, "malformed", errorOf(Open(folder)), file)
}

func TestLoadRefuses(t *testing.T) {
	a, b := must(Open(t.TempDir())), must(Open(t.TempDir()))
	pair := func(a *Authority, above []byte) *tls.Certificate {
		p := *must(a.Member("node-3", Agent)).pair.Load()
		p.Certificate = [][]byte{p.Certificate[0]}
		if above != nil {
			p.Certificate = append(p.Certificate, above)
		}
		return &p
	}
	file := filepath.Join(t.TempDir(), "member.pem")
	for what, p := range map[string]*tls.Certificate{
		"1 certificates":    pair(a, nil),
		"unknown authority": pair(a, b.certificate.Raw),
		"is no name":        {Certificate: [][]byte{a.certificate.Raw, a.certificate.Raw}, PrivateKey: a.key},
	} {
		if err := os.WriteFile(file, must(encode(p)), 0o600); err != nil {
			t.Fatal(err)
		}
		err := errorOf(Load(file))
		wantError(t, "load", err, what)
		wantError(t, "load", err, file)
	}
	if _, err := Load(file + ".none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// noRevocation is the trust of an authority that knows of no revocation.
var noRevocation = &Member{}

// TestRevoked: servers and clients refuse a revoked member, it cannot renew, and its connections end. It may join
// again; a revoked serial number is that of one certificate.
func TestRevoked(t *testing.T) {
	a := must(Open(t.TempDir()))
	coordinator := must(a.Member("main", Coordinator))
	agent, other := must(a.Member("node-3", Agent)), must(a.Member("node-4", Agent))
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	server := &http.Server{Handler: a.Handler(coordinator, discard), TLSConfig: coordinator.Joining(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go func() { _ = server.ServeTLS(l, "", "") }() // until it is closed
	defer server.Close()
	authority := l.Addr().String()

	// meet connects, and returns both errors. The connection stays, if there is one.
	meet := func(server, client *Member, role Role) (conn *tls.Conn, err error) {
		l := must(tls.Listen("tcp", "127.0.0.1:0", server.Server(client.Peer().Role)))
		defer l.Close()
		served := make(chan error, 1)
		go func() {
			c, err := l.Accept()
			if err == nil {
				t.Cleanup(func() { _ = c.Close() })
				err = c.(*tls.Conn).HandshakeContext(t.Context())
			}
			served <- err
		}()
		conn, err = tls.Dial("tcp", l.Addr().String(), client.Client(server.Peer().Name, role))
		return conn, errors.Join(err, <-served)
	}
	conn, err := meet(agent, coordinator, Agent)
	if err != nil {
		t.Fatal(err)
	}
	defer coordinator.Track(conn)()
	kept, err := meet(other, coordinator, Agent)
	if err != nil {
		t.Fatal(err)
	}
	defer coordinator.Track(kept)()

	revoked := &Revocations{Names: map[string]time.Time{"node-3": time.Now()}}
	if err := errors.Join(coordinator.SetRevoked(revoked), other.SetRevoked(revoked)); err != nil {
		t.Fatal(err)
	}
	if err := agent.SetRevoked(revoked); !errors.Is(err, ErrRevoked) {
		t.Errorf("it is not said to the agent: %v", err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("its connection goes on: %v", err)
	}
	if _, err := kept.Write([]byte{1}); err != nil {
		t.Errorf("another's connection: %v", err)
	}
	if _, err := meet(must(a.Member("node-5", Agent)), coordinator, Agent); err != nil {
		t.Errorf("another agent: %v", err)
	}
	_, err = meet(agent, coordinator, Agent)
	wantError(t, "an agent", err, "the certificate was revoked")
	wantError(t, "its renewal", agent.Renew(t.Context(), authority), "403 Forbidden: node-3, serial number")
	if err := other.Renew(t.Context(), authority); err != nil {
		t.Errorf("another's renewal: %v", err)
	}

	// A coordinator, by the serial number of one of its certificates.
	thief := must(a.Member("jobs", Coordinator))
	if err := other.SetRevoked(&Revocations{Serials: map[string]bool{NormalSerial(strings.ToUpper(Serial(thief.pair.Load().Leaf))): true}}); err != nil {
		t.Fatal(err)
	}
	_, err = meet(other, thief, Agent)
	wantError(t, "a coordinator", err, "the certificate was revoked")
	if _, err := meet(other, must(a.Member("jobs", Coordinator)), Agent); err != nil {
		t.Errorf("another certificate of its name: %v", err)
	}
	forever := &Revocations{Names: map[string]time.Time{"node-3": time.Now().Add(24 * time.Hour)}}
	if err := coordinator.SetRevoked(forever); err != nil {
		t.Fatal(err)
	}
	_, err = Join(t.Context(), authority, must(a.Token(Agent, time.Hour, 1)), "node-3")
	wantError(t, "one that is revoked without end", err, "403 Forbidden: node-3: the certificate was revoked")
	// Who joins again has a certificate that was signed later, although the clock of who revoked it is ahead.
	revoked = &Revocations{Names: map[string]time.Time{"node-3": time.Now().Add(time.Minute)}}
	if err := coordinator.SetRevoked(revoked); err != nil {
		t.Fatal(err)
	}
	token := must(a.Token(Agent, time.Hour, 1))
	again := must(Join(t.Context(), authority, token, "node-3"))
	if _, err := meet(again, coordinator, Agent); err != nil {
		t.Errorf("it joined again: %v", err)
	}
}

// TestKeep: a member has a valid certificate throughout a year, although its authority is away for a day at a
// renewal. When it is away for longer than a certificate holds, Keep says so.
func TestKeep(t *testing.T) {
	folder, file := t.TempDir(), filepath.Join(t.TempDir(), "member.pem")
	synctest.Test(t, func(t *testing.T) {
		a := must(Open(folder))
		l := pipes.Listen()
		// The server's own certificate is renewed as the members' are.
		coordinator := must(a.Member("main", Coordinator))
		server := &http.Server{Handler: a.Handler(noRevocation, discard), TLSConfig: coordinator.Joining(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
		ended := make(chan error, 3)
		go func() { ended <- server.ServeTLS(l, "", "") }()
		away := atomic.Bool{}
		dial := func(context.Context, string, string) (net.Conn, error) {
			if away.Load() {
				return nil, errors.New("away")
			}
			return l.Dial()
		}
		member := must(a.Member("node-3", Agent))
		member.dial, coordinator.dial = dial, dial
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- coordinator.Keep(ctx, "main:1", file+".coordinator", discard) }()
		go func() { ended <- member.Keep(t.Context(), "main:1", file, discard) }()
		const day = 24 * time.Hour
		for n := range 365 {
			away.Store(n%20 == 0)
			time.Sleep(day)
			if ends := time.Until(member.Ends()); ends < day {
				t.Fatalf("on day %d the certificate ends in %v", n, ends)
			}
		}
		if loaded := must(Load(file)); !loaded.Ends().Equal(member.Ends()) {
			t.Errorf("the file's certificate ends at %v, want %v", loaded.Ends(), member.Ends())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the coordinator's Keep: %v", err)
		}
		away.Store(true)
		began := time.Now()
		wantError(t, "away", <-ended, "join again with a token")
		if passed := time.Since(began); passed > AgentLifetime+2*time.Hour {
			t.Errorf("said so after %v", passed)
		}
		wantError(t, "ended", errorOf(Load(file)), "expired")
		server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// TestAuthorityEnds: certificates do not outlive the authority, and near its end a member asks for one once an hour.
func TestAuthorityEnds(t *testing.T) {
	folder, file := t.TempDir(), filepath.Join(t.TempDir(), "member.pem")
	synctest.Test(t, func(t *testing.T) {
		a := must(Open(folder))
		a.certificate.NotAfter = time.Now().Add(5 * time.Hour)
		l := pipes.Listen()
		server := &http.Server{Handler: a.Handler(noRevocation, discard), TLSConfig: must(a.Member("main", Coordinator)).Joining(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
		go func() { _ = server.ServeTLS(l, "", "") }()
		defer server.Close()
		member, dials := must(a.Member("node-3", Agent)), 0
		member.dial = func(context.Context, string, string) (net.Conn, error) { dials++; return l.Dial() }
		wantError(t, "keep", member.Keep(t.Context(), "main:1", file, discard), "the certificate ended")
		if dials > 8 {
			t.Errorf("asked %d times", dials)
		}
	})
}

// TestOpenSSL: another implementation verifies the certificates, as strictly as it can.
func TestOpenSSL(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed")
	}
	a := must(Open(t.TempDir()))
	folder := t.TempDir()
	write := func(name string, der []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	member := write("member.pem", must(a.Member("node-3", Agent)).pair.Load().Certificate[0])
	authority := write("authority.pem", a.certificate.Raw)
	foreign := write("foreign.pem", must(Open(t.TempDir())).certificate.Raw)
	for _, tt := range []struct {
		purpose, name, root string
		good                bool
	}{{"sslserver", "node-3", authority, true}, {"sslclient", "node-3", authority, true}, {"sslserver", "node-4", authority, false}, {"sslserver", "node-3", foreign, false}} {
		out, err := exec.Command(openssl, "verify", "-x509_strict", "-purpose", tt.purpose, "-verify_hostname", tt.name, "-CAfile", tt.root, member).CombinedOutput()
		if (err == nil) != tt.good {
			t.Errorf("%v: %v: %s", tt, err, out)
		}
	}
	// The hash in a token is what kubeadm's documentation has openssl compute.
	out, err := exec.Command("sh", "-c", `openssl x509 -pubkey -noout -in "$1" | openssl pkey -pubin -outform der | openssl dgst -sha256 -hex`, "sh", authority).CombinedOutput()
	if token := must(a.Token(Agent, time.Hour, 1)); err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), token[33:]) {
		t.Errorf("openssl: %v: %s; token: %s", err, out, token[33:])
	}
}
