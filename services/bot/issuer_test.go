package bot

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	golangjwt "github.com/golang-jwt/jwt/v5"

	"dyno/internal/jwt"
)

// TestIssuer: tokens of another issuer are verified by its published keys. The API key of the configuration pays for
// them, and no key that they name.
func TestIssuer(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := private.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	var asked atomic.Int64
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		set := map[string]any{"keys": []map[string]string{{"kty": "EC", "crv": "P-256", "kid": "1", "alg": "ES256", "x": encode(point[1:33]), "y": encode(point[33:])}}}
		if err := json.NewEncoder(w).Encode(set); err != nil {
			t.Error(err)
		}
	}))
	defer keys.Close()
	b := serving(t, newLLM(t, nil), func(c *Config) {
		c.Keys = []Key{keyOf("pays"), keyOf("other")}
		c.Issuers = []Issuer{{Name: "https://id.example", Audience: "chat", Algorithms: []jwt.Algorithm{jwt.ES256}, Lifetime: time.Hour, KeySet: keys.URL, Key: "pays"}}
	})
	sign := func(method golangjwt.SigningMethod, key any, kid, issuer string) string {
		token := golangjwt.NewWithClaims(method, golangjwt.MapClaims{
			"iss": issuer, "aud": "chat", "sub": "u1", "key": "other", "iat": time.Now().Add(20 * time.Second).Unix(), // its clock is ahead
			"exp": time.Now().Add(time.Minute).Unix(),
		})
		token.Header["kid"] = kid
		text, err := token.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for range 3 {
		if _, status, text := b.say(sign(golangjwt.SigningMethodES256, private, "1", "https://id.example"), "", "hello"); status != http.StatusOK {
			t.Errorf("%d %s", status, text)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the keys were asked for %d times", n)
	}
	for name, token := range map[string]string{
		"an unknown key":       sign(golangjwt.SigningMethodES256, private, "2", "https://id.example"),
		"the gateway's tokens": sign(golangjwt.SigningMethodES256, private, "1", "dyno-bot"),
		"a secret":             sign(golangjwt.SigningMethodHS256, point, "1", "https://id.example"),
	} {
		if _, status, text := b.say(token, "", "hello"); status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	b.ledger("pays", 3)
	b.ledger("other", 0)
}

// TestIssuerBySecret: tokens that a secret signs need neither "iss" nor "aud" nor "iat". They are none of the gateway's
// own, name no key, and live no longer than permitted from now.
func TestIssuerBySecret(t *testing.T) {
	const secret = "a secret that two services share"
	b := serving(t, newLLM(t, nil), func(c *Config) {
		c.Keys = []Key{keyOf("pays"), keyOf("other")}
		c.Issuers = []Issuer{{Lifetime: 10 * time.Minute, Secret: secret, Key: "pays"}}
	})
	sign := func(change golangjwt.MapClaims) string {
		claims := golangjwt.MapClaims{"sub": "u1", "exp": time.Now().Add(10 * time.Minute).Unix()}
		maps.Copy(claims, change)
		text, err := golangjwt.NewWithClaims(golangjwt.SigningMethodHS256, claims).SignedString([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, change := range map[string]golangjwt.MapClaims{"subject and expiry": nil, "issued": {"iat": time.Now().Unix()}, "another key": {"key": "other"}, "an audience": {"aud": "any"}} {
		if _, status, text := b.say(sign(change), "", "hello"); status != http.StatusOK {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	for name, change := range map[string]golangjwt.MapClaims{
		"the gateway's issuer": {"iss": "dyno-bot", "aud": "dyno-bot", "key": "pays", "iat": time.Now().Unix()},
		"an unknown issuer":    {"iss": "elsewhere"},
		"expired":              {"exp": time.Now().Add(-time.Minute).Unix()},
		"no expiry":            {"exp": nil},
		"lives too long":       {"exp": time.Now().Add(11 * time.Minute).Unix()},
		"lived too long":       {"iat": time.Now().Add(-11 * time.Minute).Unix(), "exp": time.Now().Add(time.Minute).Unix()},
	} {
		if _, status, text := b.say(sign(change), "", "hello"); status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	b.ledger("pays", 4)
	b.ledger("other", 0)
}

// TestIssuerOfService: a service that may ask for any user names the user. Its secret may be short, if that is permitted.
func TestIssuerOfService(t *testing.T) {
	const secret = "fifteen bytes.."
	b := serving(t, newLLM(t, nil), func(c *Config) {
		c.Keys = []Key{keyOf("pays")}
		c.Issuers = []Issuer{{Lifetime: 10 * time.Minute, Secret: secret, Short: true, AnyUser: true, Key: "pays"}}
	})
	token, err := golangjwt.NewWithClaims(golangjwt.SigningMethodHS256, golangjwt.MapClaims{"sub": "service", "exp": time.Now().Add(time.Minute).Unix()}).SignedString([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	for user, want := range map[string]int{"u1": http.StatusOK, "u2": http.StatusOK, "": http.StatusBadRequest} {
		if status, text, _ := b.ask("/v1/bot/chat", token, `{"bot_id":"b","query":"hello","user_id":"`+user+`"}`); status != want {
			t.Errorf("%q: %d %s, want %d", user, status, text, want)
		}
	}
	b.ledger("pays", 2)
	short := Defaults()
	short.Keys = []Key{keyOf("pays")}
	short.Issuers = []Issuer{{Lifetime: time.Minute, Secret: secret, Key: "pays"}}
	if err := short.Validate(); err == nil || !strings.Contains(err.Error(), "issuers[0].secret_file: a secret of 15 bytes") {
		t.Errorf("a short secret: %v", err)
	}
}
