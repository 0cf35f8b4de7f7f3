package oidc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"dyno/internal/fields"
	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A fakeIssuer answers as an issuer does, without a network. Its tokens are made by another library than the one that
// verifies them.
type fakeIssuer struct {
	name  string
	says  map[string]any // its description
	key   *ecdsa.PrivateKey
	down  bool
	asked int
}

func newIssuer(t *testing.T) *fakeIssuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	name := "https://issuer.example.org/realm"
	return &fakeIssuer{name: name, key: key, says: map[string]any{"issuer": name, "jwks_uri": "https://keys.example.org/set"}}
}

func (f *fakeIssuer) RoundTrip(r *http.Request) (*http.Response, error) {
	f.asked++
	w := httptest.NewRecorder()
	var answer any
	switch {
	case f.down:
		return nil, errors.New("connection refused")
	case r.URL.String() == f.name+"/.well-known/openid-configuration":
		answer = f.says
	case r.URL.String() == "https://keys.example.org/set":
		answer = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: f.key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}}
	default:
		w.WriteHeader(http.StatusNotFound)
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// sign returns a token with claims on top of those that are good; nil removes one.
func (f *fakeIssuer) sign(t *testing.T, key jose.SigningKey, change map[string]any) string {
	t.Helper()
	now := time.Now()
	claims := map[string]any{
		"iss": f.name, "sub": "248289761001", "aud": []string{"dyno", "other"}, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"groups": []string{"staff", "ops"}, "email": "ann@example.org", "email_verified": true,
	}
	for name, value := range change {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (f *fakeIssuer) signing() jose.SigningKey {
	return jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: f.key, KeyID: "k"}}
}

func (f *fakeIssuer) verifier(change func(*Config)) *Verifier {
	c := fields.Default[Config]()
	c.Issuer, c.ClientID, c.Client = f.name, "dyno", &http.Client{Transport: f}
	if change != nil {
		change(&c)
	}
	return New(c)
}

// TestVerify: tokens of the issuer for this client are accepted, and no others. The issuer is asked once.
func TestVerify(t *testing.T) {
	f := newIssuer(t)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	email := func(c *Config) { c.Name = "email" }
	for name, c := range map[string]struct {
		change map[string]any
		key    jose.SigningKey
		config func(*Config)
		want   string // NAME GROUPS, or the error's
	}{
		"good":                   {want: "248289761001 staff ops"},
		"one audience":           {change: map[string]any{"aud": "dyno"}, want: "248289761001 staff ops"},
		"one group":              {change: map[string]any{"groups": "staff"}, want: "248289761001 staff"},
		"no groups":              {change: map[string]any{"groups": nil}, want: "248289761001"},
		"another claim":          {change: map[string]any{"roles": []string{"a"}}, config: func(c *Config) { c.Claim = "roles" }, want: "248289761001 a"},
		"email":                  {config: email, want: "ann@example.org staff ops"},
		"unverified email":       {change: map[string]any{"email_verified": false}, config: email, want: "error no verified email"},
		"email verified by text": {change: map[string]any{"email_verified": "true"}, config: email, want: "error no verified email"},
		"no email":               {change: map[string]any{"email": nil}, config: email, want: "error no verified email"},
		"groups of numbers":      {change: map[string]any{"groups": []int{1}}, want: "error groups: must be a text or a list of texts"},
		"another audience":       {change: map[string]any{"aud": "other"}, want: "error audience not accepted"},
		"another issuer":         {change: map[string]any{"iss": "https://issuer.example.org"}, want: "error issuer not accepted"},
		"expired":                {change: map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}, want: "error expired"},
		"not yet":                {change: map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}, want: "error not valid yet"},
		"for a week":             {change: map[string]any{"exp": time.Now().Add(7 * 24 * time.Hour).Unix()}, want: "error lives too long"},
		"without an end":         {change: map[string]any{"exp": nil}, want: "error malformed"},
		"another key":            {key: jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: other, KeyID: "k"}}, want: "error wrong signature"},
		"an unknown key":         {key: jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: other, KeyID: "l"}}, want: "error no such key"},
		"a secret":               {key: jose.SigningKey{Algorithm: jose.HS256, Key: []byte(strings.Repeat("s", 32))}, want: "error algorithm not accepted"},
	} {
		if c.key.Key == nil {
			c.key = f.signing()
		}
		v := f.verifier(c.config)
		token := f.sign(t, c.key, c.change)
		f.asked = 0
		for range 3 {
			p, err := v.Verify(token)
			got := strings.Join(append([]string{p.Name}, p.Groups...), " ")
			if err != nil {
				got = "error " + err.Error()
			}
			if problem, ok := strings.CutPrefix(c.want, "error "); ok && (err == nil || !strings.Contains(got, problem)) || !ok && got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		}
		if f.asked > 2 { // the description and the keys
			t.Errorf("%s: the issuer was asked %d times", name, f.asked)
		}
		v.Close()
	}
}

// TestUnavailable: while the issuer cannot be reached, or describes another one, tokens are refused by that reason.
// Later they are accepted without a restart, and go on to be while it is away again.
func TestUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newIssuer(t)
		v := f.verifier(nil)
		verify := func(want error) {
			t.Helper()
			<-time.After(time.Minute) // of the bubble's clock
			if _, err := v.Verify(f.sign(t, f.signing(), nil)); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
			v.Close()
		}
		f.down = true
		verify(ErrUnavailable)
		f.down, f.says["issuer"] = false, "https://another.example.org"
		verify(ErrUnavailable)
		f.says["issuer"], f.says["jwks_uri"] = f.name, "http://keys.example.org/set"
		verify(ErrUnavailable)
		f.says["jwks_uri"] = "https://keys.example.org/set"
		verify(nil)
		f.down = true
		for range 20 {
			verify(nil)
		}
	})
}

func TestCheck(t *testing.T) {
	for issuer, good := range map[string]bool{
		"https://issuer.example.org/realm": true, "http://127.0.0.1:5556/dex": true, "http://localhost": true, "http://[::1]:1": true,
		"http://issuer.example.org": false, "ftp://localhost": false, "issuer.example.org": false, "https://": false,
	} {
		c := fields.Default[Config]()
		c.Issuer, c.ClientID = issuer, "dyno"
		if err := fields.Validate(c, c.Check); (err == nil) != good {
			t.Errorf("%s: %v", issuer, err)
		}
	}
	c := fields.Default[Config]()
	c.ClientID = "dyno"
	if err := fields.Validate(c, c.Check); err == nil {
		t.Error("a client ID without an issuer is accepted")
	}
}

// FuzzVerify: no text is taken for a token of the issuer.
func FuzzVerify(f *testing.F) {
	issuer := &fakeIssuer{name: "https://issuer.example.org/realm", down: true}
	v := issuer.verifier(nil)
	f.Cleanup(v.Close)
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Fuzz(func(t *testing.T, token string) {
		if p, err := v.Verify(token); err == nil || p.Name != "" || !slices.Equal(p.Groups, nil) {
			t.Errorf("%+v, %v", p, err)
		}
	})
}
