package hub

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

func publicPEM(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// TestTokens publishes with tokens that must be refused, and tokens that must be
// accepted.
func TestTokens(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaPEM := publicPEM(t, &rsaKey.PublicKey)
	hubs := map[string]*bed{}
	for method, material := range map[string][]byte{"HS256": []byte(secret), "RS256": rsaPEM, "ES256": publicPEM(t, &ecKey.PublicKey), "EdDSA": publicPEM(t, edPublic)} {
		hubs[method] = serving(t, func(c *Config) {
			c.PublisherKey = &Key{Method: method, Material: material}
			c.Issuer, c.Audience = "me", "hub"
		})
	}
	claims := func(change func(jwt.MapClaims)) jwt.MapClaims {
		c := jwt.MapClaims{"mercure": map[string][]string{"publish": {"t", "/{x}"}}, "iss": "me", "aud": "hub"}
		if change != nil {
			change(c)
		}
		return c
	}
	good := claims(nil)
	for _, c := range []struct {
		name, hub string
		method    jwt.SigningMethod
		key       any
		claims    jwt.MapClaims
		status    int
	}{
		{"HS256", "HS256", jwt.SigningMethodHS256, []byte(secret), good, 200},
		{"RS256", "RS256", jwt.SigningMethodRS256, rsaKey, good, 200},
		{"ES256", "ES256", jwt.SigningMethodES256, ecKey, good, 200},
		{"EdDSA", "EdDSA", jwt.SigningMethodEdDSA, edKey, good, 200},
		{"not expired", "HS256", jwt.SigningMethodHS256, []byte(secret), claims(func(c jwt.MapClaims) { c["exp"] = time.Now().Add(time.Hour).Unix() }), 200},
		{"none", "HS256", jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good, 401},
		{"none against a public key", "RS256", jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good, 401},
		{"public key as secret", "RS256", jwt.SigningMethodHS256, rsaPEM, good, 401},
		{"other method", "HS256", jwt.SigningMethodHS512, []byte(secret), good, 401},
		{"wrong key", "HS256", jwt.SigningMethodHS256, []byte("x" + secret[1:]), good, 401},
		{"expired", "HS256", jwt.SigningMethodHS256, []byte(secret), claims(func(c jwt.MapClaims) { c["exp"] = time.Now().Add(-time.Second).Unix() }), 401},
		{"not yet", "HS256", jwt.SigningMethodHS256, []byte(secret), claims(func(c jwt.MapClaims) { c["nbf"] = time.Now().Add(time.Hour).Unix() }), 401},
		{"expires as text", "HS256", jwt.SigningMethodHS256, []byte(secret), claims(func(c jwt.MapClaims) { c["exp"] = fmt.Sprint(time.Now().Add(time.Hour).Unix()) }), 401},
		{"begins as text", "HS256", jwt.SigningMethodHS256, []byte(secret), claims(func(c jwt.MapClaims) { c["nbf"] = "1" }), 401},
		{"issued as text", "HS256", jwt.SigningMethodHS256, []byte(secret), claims(func(c jwt.MapClaims) { c["iat"] = "1" }), 401},
		{"issuer", "HS256", jwt.SigningMethodHS256, []byte(secret), claims(func(c jwt.MapClaims) { c["iss"] = "you" }), 401},
		{"audience", "HS256", jwt.SigningMethodHS256, []byte(secret), claims(func(c jwt.MapClaims) { c["aud"] = "elsewhere" }), 401},
		{"no audience", "HS256", jwt.SigningMethodHS256, []byte(secret), claims(func(c jwt.MapClaims) { delete(c, "aud") }), 401},
		{"no claim", "HS256", jwt.SigningMethodHS256, []byte(secret), claims(func(c jwt.MapClaims) { delete(c, "mercure") }), 403},
		{"subscriber's", "HS256", jwt.SigningMethodHS256, []byte(secret), claims(func(c jwt.MapClaims) { c["mercure"] = map[string][]string{"subscribe": {"*"}} }), 403},
		{"empty", "HS256", jwt.SigningMethodHS256, []byte(secret), claims(func(c jwt.MapClaims) { c["mercure"] = map[string][]string{"publish": {}} }), 403},
		{"other topic", "HS256", jwt.SigningMethodHS256, []byte(secret), claims(func(c jwt.MapClaims) { c["mercure"] = map[string][]string{"publish": {"u"}} }), 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := hubs[c.hub]
			b.t = t
			text, err := jwt.NewWithClaims(c.method, c.claims).SignedString(c.key)
			if err != nil {
				t.Fatal(err)
			}
			status, answer := b.post("/publish?topic=t&topic=/a", "text/plain", "x", "Authorization: Bearer "+text)
			if status != c.status {
				t.Errorf("%d %s, want %d", status, answer, c.status)
			}
			if strings.Contains(answer, secret) {
				t.Error("the answer has the key")
			}
		})
	}
	b := hubs["HS256"]
	for _, field := range []string{"X: y", "Authorization: Basic eDp5", "Authorization: Bearer", "Authorization: Bearer x.y.z", "Authorization: Bearer "} {
		if status, text := b.post("/publish?topic=t", "text/plain", "x", field); status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", field, status, text)
		}
	}
	if n := b.journal.Head(); n != 2 {
		t.Errorf("%d updates kept, want 2", n)
	}
}

// TestCrossSite: a page must not be able to publish with what the browser adds by itself.
func TestCrossSite(t *testing.T) {
	keyed := serving(t, func(c *Config) {
		c.PublisherKey = hs256()
		c.PublishOrigins = []string{"https://page.example"}
	})
	open := serving(t, nil)
	cookie := "Cookie: mercureAuthorization=" + grant(t, "publish", "*")
	bearer := "Authorization: Bearer " + grant(t, "publish", "*")
	const evil = "Origin: https://evil.example"
	for _, c := range []struct {
		name   string
		b      *bed
		query  string
		fields []string
		status int
	}{
		{"cookie, trusted page", keyed, "", []string{cookie, "Origin: https://page.example"}, 200},
		{"cookie, own page", keyed, "", []string{cookie, "Origin: http://hub"}, 200},
		{"cookie, other page", keyed, "", []string{cookie, evil}, 403},
		{"cookie, other page without origin", keyed, "", []string{cookie, "Sec-Fetch-Site: cross-site"}, 403},
		{"cookie, nobody knows", keyed, "", []string{cookie}, 403},
		{"token, any page", keyed, "", []string{bearer, evil}, 200},
		{"parameter, any page", keyed, "&authorization=" + grant(t, "publish", "*"), []string{evil}, 200},
		{"bad parameter, any page", keyed, "&authorization=x", []string{evil}, 401},
		{"open hub, no page", open, "", nil, 200},
		{"open hub, no page, some token", open, "", []string{bearer}, 200},
		{"open hub, other page", open, "", []string{evil}, 403},
		{"open hub, page without a name", open, "", []string{"Origin: null"}, 403},
		{"open hub, other page without origin", open, "", []string{"Sec-Fetch-Site: cross-site"}, 403},
		{"open hub, page of a neighbour", open, "", []string{"Sec-Fetch-Site: same-site"}, 403},
		{"open hub, own page", open, "", []string{"Sec-Fetch-Site: same-origin", "Origin: http://hub"}, 200},
		{"open hub, other page in an old browser", open, "", []string{"Referer: https://evil.example/page"}, 403},
		{"open hub, page without a name in an old browser", open, "", []string{"Referer: about:blank"}, 403},
		{"open hub, own page in an old browser", open, "", []string{"Referer: http://hub/page"}, 200},
		{"open hub, some token", open, "", []string{bearer, evil}, 403},
		{"open hub, some cookie", open, "", []string{cookie, evil}, 403},
		{"open hub, some parameter", open, "&authorization=x", []string{evil}, 403},
		{"open hub, empty parameter", open, "&authorization=", []string{evil}, 403},
		{"open hub, encoded parameter", open, "&%61uthorization=x", []string{evil}, 403},
		{"open hub, parameter twice", open, "&authorization=&authorization=x", []string{evil}, 403},
		{"open hub, no token in the field", open, "", []string{"Authorization: Basic eDp5", evil}, 401},
	} {
		if status, text := c.b.post("/publish?topic=t"+c.query, "text/plain", "x", c.fields...); status != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, status, text, c.status)
		}
	}
}

func TestAnonymous(t *testing.T) {
	b := serving(t, func(c *Config) {
		c.PublisherKey, c.SubscriberKey = hs256(), hs256()
		c.AnonymousSubscribe = false
		c.AnonymousPublish = true
	})
	if s := b.subscribe("topic=t"); s.resp.StatusCode != http.StatusUnauthorized || s.resp.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("without a token: %v", s.resp)
	}
	if s := b.subscribe("topic=t", "Authorization: Bearer x.y.z"); s.resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("with a bad one: %v", s.resp)
	}
	s := b.subscribe("topic=t", "Authorization: Bearer "+grant(t, "subscribe"))
	if status, text := b.post("/publish?topic=t", "text/plain", "x"); status != http.StatusOK {
		t.Errorf("anonymous publisher: %d %s", status, text)
	}
	s.want(event{Data: "x"})

	closed, err := New(Defaults()) // a handler, with neither a key nor a listener
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	req, err := http.NewRequest(http.MethodPost, "http://hub/publish?topic=t", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	w := newRecorder()
	closed.Handler().ServeHTTP(w, req)
	if w.status != http.StatusUnauthorized {
		t.Errorf("a handler without a key lets anybody publish: %d", w.status)
	}
}

// TestUnreadBodies: who may not publish learns so before the body has arrived, whatever its type.
func TestUnreadBodies(t *testing.T) {
	b := serving(t, func(c *Config) { c.PublisherKey = hs256() })
	for _, path := range []string{pathMercure, pathEvents, pathPublish + "?topic=t"} {
		c := b.asking(path, 1<<20, "")
		if resp := c.answer(); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}

// A sender sends a request whose body takes its time.
type sender struct {
	t testing.TB
	net.Conn
}

// asking begins a request to publish with a body of that length.
func (b *bed) asking(path string, length int, begin string) sender {
	b.t.Helper()
	c, err := b.dial()
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		b.t.Fatal(err)
	}
	s := sender{b.t, c}
	s.send(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: hub\r\nContent-Length: %d\r\n\r\n%s", path, length, begin))
	return s
}

func (s sender) send(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s, text); err != nil {
		s.t.Fatal(err)
	}
}

func (s sender) answer() *http.Response {
	s.t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(s), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// TestBodies: a body takes memory as it arrives. All of them have a bound, beyond which requests are refused until there
// is room again.
func TestBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 64 << 10
		b := piped(t, func(c *Config) { c.MaxUpdateBytes, c.MaxBodiesBytes = bound, bound })
		room := func(n int64) bool {
			synctest.Wait()
			if !b.bodies.TryAcquire(n) {
				return false
			}
			b.bodies.Release(n)
			return true
		}
		slow := b.asking("/publish?topic=t", bound, "x")
		if room(bound) || !room(bound-firstBody) {
			t.Error("a body does not take as much memory as has arrived of it")
		}
		slow.send(strings.Repeat("x", firstBody))
		if room(bound - firstBody) {
			t.Error("a body that has arrived is not counted")
		}
		if status, text := b.post("/publish?topic=t", "text/plain", strings.Repeat("x", bound)); status != http.StatusServiceUnavailable {
			t.Errorf("beyond the bound: %d %s", status, text)
		}
		if resp := b.asking("/publish?topic=t", bound, strings.Repeat("x", bound)).answer(); resp.Header.Get("Retry-After") != "1" {
			t.Errorf("beyond the bound: %v", resp)
		}
		if status, text := b.post("/publish?topic=t", "text/plain", "x"); status != http.StatusOK {
			t.Errorf("a small one: %d %s", status, text)
		}
		slow.send(strings.Repeat("x", bound-1-firstBody))
		if resp := slow.answer(); resp.StatusCode != http.StatusOK {
			t.Errorf("the slow one: %s", resp.Status)
		}
		if !room(bound) {
			t.Error("not all is given back")
		}
		if resp := b.asking("/publish?topic=t", bound, strings.Repeat("x", bound)).answer(); resp.StatusCode != http.StatusOK {
			t.Errorf("with room again: %s", resp.Status)
		}
		b.end()
	})
}

// TestForeignRequests: requests of other sites' pages are refused if they need no token.
func TestForeignRequests(t *testing.T) {
	foreign := func(r *http.Request) error {
		if r.Header.Get("X-Foreign") != "" {
			return errors.New("foreign")
		}
		return nil
	}
	open := serving(t, func(c *Config) { c.Foreign = foreign })
	keyed := serving(t, func(c *Config) { c.Foreign, c.PublisherKey, c.SubscriberKey = foreign, hs256(), hs256() })
	publish, subscribe := "Authorization: Bearer "+grant(t, "publish", "*"), "Authorization: Bearer "+grant(t, "subscribe", "*")
	for _, c := range []struct {
		name      string
		b         *bed
		published int
		fields    []string
		streams   int
		header    []string
	}{
		{"own", open, 200, nil, 200, nil},
		{"foreign", open, 403, []string{"X-Foreign: yes"}, 403, []string{"X-Foreign: yes"}},
		{"foreign, with tokens that nobody verifies", open, 403, []string{"X-Foreign: yes", publish}, 403, []string{"X-Foreign: yes", subscribe}},
		{"foreign, without tokens", keyed, 401, []string{"X-Foreign: yes"}, 403, []string{"X-Foreign: yes"}},
		{"foreign, with tokens", keyed, 200, []string{"X-Foreign: yes", publish}, 200, []string{"X-Foreign: yes", subscribe}},
	} {
		if status, text := c.b.post("/publish?topic=t", "text/plain", "x", c.fields...); status != c.published {
			t.Errorf("%s: published with %d %s, want %d", c.name, status, text, c.published)
		}
		if s := c.b.subscribe("topic=t", c.header...); s.resp.StatusCode != c.streams {
			t.Errorf("%s: subscribed with %s, want %d", c.name, s.resp.Status, c.streams)
		}
	}
}
