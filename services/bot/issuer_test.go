package bot

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
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
