package control

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// TestPeople: a person shows a token of the issuer, and has what the roles of the groups give. The issuer is a fake: it
// publishes a key.
func TestPeople(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var issuer *httptest.Server
	issuer = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = map[string]string{"issuer": issuer.URL, "jwks_uri": issuer.URL + "/keys"}
		if r.URL.Path == "/keys" {
			answer = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer issuer.Close()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token := func(change string) string {
		now := time.Now().Unix()
		signed, err := signer.Sign(fmt.Appendf(nil, `{"iss":%q,"aud":"dyno","sub":"ann","iat":%d,"exp":%d,"groups":["staff"]%s}`, issuer.URL, now, now+600, change))
		if err != nil {
			t.Fatal(err)
		}
		text, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	c := config(t)
	c.Principals = filepath.Join(t.TempDir(), "principals.yaml")
	sum := sha256.Sum256([]byte("root"))
	renew(t, c.Principals, fmt.Sprintf("principals: [{name: root, token_sha256: %s, grants: [{namespace: '*', role: admin}]}]", hex.EncodeToString(sum[:])), time.Now())
	c.OIDC.Issuer, c.OIDC.ClientID = issuer.URL, "dyno"
	s, _ := serving(t, c)
	ask := func(token, method, path, body string, want int, says string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr().String()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var text strings.Builder
		if err := answer.Write(&text); err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != want || !strings.Contains(text.String(), says) {
			t.Errorf("%s %s: %s, want %d with %q", method, path, &text, want, says)
		}
	}
	ask(token(""), "PUT", "/v1/configs/a", `{"content":"x"}`, 403, "oidc:ann may not write")
	ask("root", "PUT", "/v1/roles/staff", `{"groups":["staff"],"grants":[{"namespace":"default","role":"editor"}]}`, 201, "")
	ask(token(""), "PUT", "/v1/configs/a", `{"content":"x"}`, 201, `"changed_by":"oidc:ann"`)
	ask(token(`,"nbf":9999999999`), "GET", "/v1/configs/a", "", 401, "not valid yet")
	ask(token("")+"x", "GET", "/v1/configs/a", "", 401, "token: ")
	ask("root", "DELETE", "/v1/roles/staff", "", 204, "")
	ask(token(""), "GET", "/v1/configs/a", "", 403, "oidc:ann may not read")
}
