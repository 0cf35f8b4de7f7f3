package jwt

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	golangjwt "github.com/golang-jwt/jwt/v5"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// pairs are the keys of these tests: private ones by algorithm.
var pairs = sync.OnceValue(func() map[Algorithm]crypto.Signer {
	r, err1 := rsa.GenerateKey(rand.Reader, 2048)
	e, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, d, err3 := ed25519.GenerateKey(rand.Reader)
	if err := errors.Join(err1, err2, err3); err != nil {
		panic(err)
	}
	return map[Algorithm]crypto.Signer{RS256: r, ES256: e, EdDSA: d}
})

var secret = []byte("0123456789abcdef0123456789abcdef")

const (
	issuer   = "https://issuer.example"
	audience = "bot"
)

// private returns what signs by an algorithm.
func private(a Algorithm) any {
	if a == HS256 {
		return secret
	}
	return pairs()[a]
}

// public returns the key that verifies an algorithm's tokens.
func public(a Algorithm, id string) Key {
	if a == HS256 {
		return Key{ID: id, Algorithm: a, Material: secret}
	}
	return Key{ID: id, Algorithm: a, Material: pairs()[a].Public()}
}

// pemOf returns a public key as its owner would hand it out.
func pemOf(t testing.TB, a Algorithm) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(pairs()[a].Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// claims are good ones, with changes: a nil removes one.
func claims(change map[string]any) map[string]any {
	now := time.Now()
	c := map[string]any{"iss": issuer, "aud": audience, "sub": "u1", "iat": now.Unix(), "exp": now.Add(10 * time.Minute).Unix()}
	for name, v := range change {
		c[name] = v
		if v == nil {
			delete(c, name)
		}
	}
	return c
}

// sign makes a token with any header, signed as the algorithm says.
func sign(t testing.TB, a Algorithm, key any, header, c map[string]any) string {
	t.Helper()
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	h := map[string]any{"alg": string(a), "typ": "JWT"}
	for name, v := range header {
		h[name] = v
	}
	return signText(t, a, key, part(h)+"."+part(c))
}

func signText(t testing.TB, a Algorithm, key any, text string) string {
	t.Helper()
	signature, err := golangjwt.GetSigningMethod(string(a)).Sign(text, key)
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func newVerifier(t testing.TB, change func(*Config)) *Verifier {
	t.Helper()
	all := []Algorithm{HS256, RS256, ES256, EdDSA}
	keys := Keys{}
	for _, a := range all {
		keys = append(keys, public(a, "key-"+string(a)))
	}
	c := Config{Issuers: []Issuer{{issuer, audience, all, time.Hour, keys, 0, false}}, Remember: 16}
	if change != nil {
		change(&c)
	}
	return New(c)
}

func TestAccepted(t *testing.T) {
	v := newVerifier(t, func(c *Config) { c.Issuers[0].Leeway = time.Minute })
	for _, a := range []Algorithm{HS256, RS256, ES256, EdDSA} {
		for name, token := range map[string]string{
			"with kid":           sign(t, a, private(a), map[string]any{"kid": "key-" + string(a)}, claims(nil)),
			"without kid":        sign(t, a, private(a), nil, claims(nil)),
			"access token":       sign(t, a, private(a), map[string]any{"typ": "at+jwt"}, claims(nil)),
			"several audiences":  sign(t, a, private(a), nil, claims(map[string]any{"aud": []string{"other", audience}})),
			"unknown header":     sign(t, a, private(a), map[string]any{"nonce": "x"}, claims(nil)),
			"within the leeway":  sign(t, a, private(a), nil, claims(map[string]any{"iat": time.Now().Add(-10 * time.Minute).Unix(), "exp": time.Now().Add(-30 * time.Second).Unix()})),
			"nbf in the past":    sign(t, a, private(a), nil, claims(map[string]any{"nbf": time.Now().Add(-time.Minute).Unix()})),
			"with a key of ours": sign(t, a, private(a), nil, claims(map[string]any{"key": "k1"})),
		} {
			for range 2 { // verified, then remembered
				c, err := v.Verify(t.Context(), token)
				if err != nil {
					t.Errorf("%s, %s: %v", a, name, err)
				} else if c.Subject != "u1" || (c.Key == "k1") != (name == "with a key of ours") {
					t.Errorf("%s, %s: %+v", a, name, c)
				}
			}
		}
	}
	if n := v.Remembered(); n != 16 {
		t.Errorf("%d remembered, want as many as allowed", n)
	}
}

// TestLeeway: each issuer has its own allowance for clock differences, for early tokens and for
// remembered ones.
func TestLeeway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVerifier(t, func(c *Config) {
			c.Issuers = []Issuer{
				{"strict", audience, []Algorithm{HS256}, time.Hour, Keys{public(HS256, "a")}, 0, false},
				{"lenient", audience, []Algorithm{HS256}, time.Hour, Keys{public(HS256, "a")}, 10 * time.Second, false},
			}
		})
		now := time.Now()
		token := func(issuer string, from time.Duration) string {
			return sign(t, HS256, secret, nil, claims(map[string]any{"iss": issuer, "iat": now.Add(from).Unix(), "nbf": now.Add(from).Unix(), "exp": now.Add(from + time.Minute).Unix()}))
		}
		for i, c := range []struct {
			issuer string
			from   time.Duration
			want   error
		}{
			{"strict", time.Second, ErrEarly}, {"lenient", 9 * time.Second, nil}, {"lenient", 11 * time.Second, ErrEarly},
			{"strict", -61 * time.Second, ErrExpired}, {"lenient", -69 * time.Second, nil}, {"lenient", -71 * time.Second, ErrExpired},
		} {
			if _, err := v.Verify(t.Context(), token(c.issuer, c.from)); !errors.Is(err, c.want) {
				t.Errorf("%d: %v, want %v", i, err, c.want)
			}
		}
		one := token("lenient", 0)
		for _, want := range []error{nil, nil, ErrExpired} { // then, 9 seconds after its end, 11 seconds after it
			if _, err := v.Verify(t.Context(), one); !errors.Is(err, want) {
				t.Errorf("after %v: %v, want %v", time.Since(now), err, want)
			}
			if time.Since(now) == 0 {
				time.Sleep(67 * time.Second)
			}
			time.Sleep(2 * time.Second)
		}
	})
}

// TestAttacks is the table: every one is refused, and for the right reason.
func TestAttacks(t *testing.T) {
	v := newVerifier(t, nil)
	now := time.Now()
	segment := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	body := func() string {
		text, err := json.Marshal(claims(nil))
		if err != nil {
			t.Fatal(err)
		}
		return segment(string(text))
	}()
	good := sign(t, RS256, private(RS256), nil, claims(nil))
	parts := strings.Split(good, ".")
	// The public key, taken for a secret.
	confused := func(key []byte) string {
		text := segment(`{"alg":"HS256","typ":"JWT"}`) + "." + body
		m := hmac.New(sha256.New, key)
		m.Write([]byte(text))
		return text + "." + base64.RawURLEncoding.EncodeToString(m.Sum(nil))
	}
	strange, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	jwkOf := map[string]any{"kty": "RSA", "n": base64.RawURLEncoding.EncodeToString(strange.N.Bytes()), "e": "AQAB"}
	hs := func(header, change map[string]any) string { return sign(t, HS256, secret, header, claims(change)) }
	raw := func(header string) string { return signText(t, HS256, secret, segment(header)+"."+body) }
	malleable := func() string { // (r, n-s) is as good a signature to the curve, though the token is another
		p := strings.Split(sign(t, ES256, private(ES256), nil, claims(nil)), ".")
		return p[0] + "." + p[1] + "." + p[2] + "AA"
	}
	twice := fmt.Sprintf(`{"iss":%q,"aud":%q,"sub":"u1","sub":"admin","iat":%d,"exp":%d}`, issuer, audience, now.Unix(), now.Add(time.Minute).Unix())
	attacks := map[string]struct {
		token string
		want  error
	}{
		"none":                     {segment(`{"alg":"none"}`) + "." + body + ".", ErrAlgorithm},
		"None":                     {segment(`{"alg":"None"}`) + "." + body + ".", ErrAlgorithm},
		"nOnE, signed":             {segment(`{"alg":"nOnE"}`) + "." + body + "." + parts[2], ErrAlgorithm},
		"no algorithm":             {raw(`{"typ":"JWT"}`), ErrAlgorithm},
		"an empty algorithm":       {raw(`{"alg":""}`), ErrAlgorithm},
		"algorithm null":           {raw(`{"alg":null}`), ErrMalformed},
		"algorithm is a list":      {raw(`{"alg":["HS256"]}`), ErrMalformed},
		"algorithm in lower case":  {raw(`{"alg":"hs256"}`), ErrAlgorithm},
		"field in upper case":      {raw(`{"ALG":"HS256"}`), ErrMalformed},
		"two algorithms":           {raw(`{"alg":"none","alg":"HS256"}`), ErrMalformed},
		"two algorithms by case":   {raw(`{"alg":"HS256","Alg":"none"}`), ErrMalformed},
		"RS384":                    {sign(t, "RS384", private(RS256), nil, claims(nil)), ErrAlgorithm},
		"PS256":                    {sign(t, "PS256", private(RS256), nil, claims(nil)), ErrAlgorithm},
		"HS512":                    {sign(t, "HS512", secret, nil, claims(nil)), ErrAlgorithm},
		"confusion, PEM":           {confused(pemOf(t, RS256)), ErrSignature},
		"confusion, DER":           {confused(x509.MarshalPKCS1PublicKey(pairs()[RS256].Public().(*rsa.PublicKey))), ErrSignature},
		"confusion, modulus":       {confused(pairs()[RS256].Public().(*rsa.PublicKey).N.Bytes()), ErrSignature},
		"confusion, empty secret":  {confused(nil), ErrSignature},
		"exp as a string":          {hs(nil, map[string]any{"exp": fmt.Sprint(time.Now().Add(time.Minute).Unix())}), ErrMalformed},
		"iat as a string":          {hs(nil, map[string]any{"iat": fmt.Sprint(time.Now().Unix())}), ErrMalformed},
		"nbf as a string":          {hs(nil, map[string]any{"nbf": fmt.Sprint(time.Now().Add(-time.Minute).Unix())}), ErrMalformed},
		"confusion by kid":         {sign(t, HS256, pemOf(t, RS256), map[string]any{"kid": "key-RS256"}, claims(nil)), ErrKey},
		"another's key":            {sign(t, RS256, strange, nil, claims(nil)), ErrSignature},
		"kid: a path":              {hs(map[string]any{"kid": "../../../../dev/null"}, nil), ErrKey},
		"kid: SQL":                 {hs(map[string]any{"kid": "x' UNION SELECT 'secret';--"}, nil), ErrKey},
		"kid: a command":           {hs(map[string]any{"kid": "key|id"}, nil), ErrKey},
		"kid: a zero byte":         {hs(map[string]any{"kid": "key-HS256\x00"}, nil), ErrKey},
		"kid: long":                {hs(map[string]any{"kid": strings.Repeat("k", 129)}, nil), ErrKey},
		"kid: of another":          {hs(map[string]any{"kid": "key-RS256"}, nil), ErrKey},
		"kid: no string":           {hs(map[string]any{"kid": map[string]any{}}, nil), ErrMalformed},
		"jwk in the header":        {sign(t, RS256, strange, map[string]any{"jwk": jwkOf}, claims(nil)), ErrHeader},
		"jku in the header":        {sign(t, RS256, strange, map[string]any{"jku": "http://127.0.0.1/keys"}, claims(nil)), ErrHeader},
		"x5u in the header":        {sign(t, RS256, strange, map[string]any{"x5u": "http://127.0.0.1/cert"}, claims(nil)), ErrHeader},
		"x5c in the header":        {sign(t, RS256, strange, map[string]any{"x5c": []string{"MIIB"}}, claims(nil)), ErrHeader},
		"crit":                     {hs(map[string]any{"crit": []string{"exp"}}, nil), ErrHeader},
		"crit, empty":              {hs(map[string]any{"crit": []string{}}, nil), ErrHeader},
		"b64 false":                {hs(map[string]any{"b64": false, "crit": []string{"b64"}}, nil), ErrHeader},
		"b64 alone":                {hs(map[string]any{"b64": false}, nil), ErrHeader},
		"compressed":               {hs(map[string]any{"zip": "DEF"}, nil), ErrHeader},
		"encrypted":                {raw(`{"alg":"HS256","enc":"A256GCM"}`), ErrHeader},
		"another type":             {hs(map[string]any{"typ": "secevent+jwt"}, nil), ErrHeader},
		"oversized":                {hs(nil, map[string]any{"x": strings.Repeat("x", maxToken)}), ErrMalformed},
		"oversized header":         {hs(map[string]any{"x": strings.Repeat("x", maxHeader)}, nil), ErrMalformed},
		"a million dots":           {strings.Repeat(".", 1<<20), ErrMalformed},
		"many dots":                {strings.Repeat(".", maxToken), ErrMalformed},
		"deep":                     {signText(t, HS256, secret, segment(`{"alg":"HS256"}`)+"."+segment(strings.Repeat(`[`, 5000))), ErrMalformed},
		"deep header":              {raw(`{"alg":"HS256","x":` + strings.Repeat("[", 700) + "}"), ErrMalformed},
		"expired":                  {hs(nil, map[string]any{"iat": now.Add(-time.Hour).Unix(), "exp": now.Add(-time.Second).Unix()}), ErrExpired},
		"no expiry":                {hs(nil, map[string]any{"exp": nil}), ErrMalformed},
		"expiry is text":           {hs(nil, map[string]any{"exp": "tomorrow"}), ErrMalformed},
		"expiry beyond time":       {hs(nil, map[string]any{"exp": 1e300}), ErrExpired},
		"never expires":            {hs(nil, map[string]any{"exp": now.Add(100 * 365 * 24 * time.Hour).Unix()}), ErrLifetime},
		"not issued":               {hs(nil, map[string]any{"iat": nil}), ErrMalformed},
		"issued in the future":     {hs(nil, map[string]any{"iat": now.Add(time.Hour).Unix(), "exp": now.Add(2 * time.Hour).Unix()}), ErrEarly},
		"not valid yet":            {hs(nil, map[string]any{"nbf": now.Add(time.Minute).Unix()}), ErrEarly},
		"wrong audience":           {hs(nil, map[string]any{"aud": "other"}), ErrAudience},
		"no audience":              {hs(nil, map[string]any{"aud": nil}), ErrAudience},
		"audience is a part":       {hs(nil, map[string]any{"aud": "bo"}), ErrAudience},
		"audience in another case": {hs(nil, map[string]any{"aud": "BOT"}), ErrAudience},
		"wrong issuer":             {hs(nil, map[string]any{"iss": "https://issuer.example.evil"}), ErrIssuer},
		"no issuer":                {hs(nil, map[string]any{"iss": nil}), ErrIssuer},
		"two subjects":             {signText(t, HS256, secret, segment(`{"alg":"HS256"}`)+"."+segment(twice)), ErrMalformed},
		"subject in another case":  {hs(nil, map[string]any{"Sub": "admin"}), ErrMalformed},
		"expiry in another case":   {hs(nil, map[string]any{"EXP": now.Add(time.Minute).Unix()}), ErrMalformed},
		"subject with a long s":    {hs(nil, map[string]any{"\u017fub": "admin"}), ErrMalformed},
		"key with a Kelvin sign":   {hs(nil, map[string]any{"\u212aey": "k1"}), ErrMalformed},
		"subject: not UTF-8":       {signText(t, HS256, secret, segment(`{"alg":"HS256"}`)+"."+segment(strings.Replace(twice, `"u1","sub":"admin"`, "\"ann\xff\"", 1))), ErrMalformed},
		"subject: half a pair":     {signText(t, HS256, secret, segment(`{"alg":"HS256"}`)+"."+segment(strings.Replace(twice, `"u1","sub":"admin"`, `"ann\ud800"`, 1))), ErrMalformed},
		"kid: half a pair":         {raw(`{"alg":"HS256","kid":"\udfff"}`), ErrMalformed},
		"crit in another case":     {raw(`{"alg":"HS256","Crit":["exp"]}`), ErrMalformed},
		"changed claims":           {parts[0] + "." + segment(`{"iss":"`+issuer+`"}`) + "." + parts[2], ErrSignature},
		"no signature":             {parts[0] + "." + parts[1] + ".", ErrSignature},
		"half a signature":         {parts[0] + "." + parts[1] + "." + parts[2][:len(parts[2])/8*4], ErrSignature},
		"a zero signature":         {strings.Join(strings.Split(sign(t, ES256, private(ES256), nil, claims(nil)), ".")[:2], ".") + "." + strings.Repeat("A", 86), ErrSignature},
		"a longer signature":       {malleable(), ErrSignature},
		"two parts":                {parts[0] + "." + parts[1], ErrMalformed},
		"five parts, as JWE":       {good + ".x.y", ErrMalformed},
		"padding":                  {parts[0] + "=." + parts[1] + "." + parts[2], ErrMalformed},
		"a line break":             {good + "\n", ErrMalformed},
		"a line break within":      {parts[0] + "\r." + parts[1] + "." + parts[2], ErrMalformed},
		"JSON serialization":       {`{"payload":"x","signatures":[]}`, ErrMalformed},
		"empty":                    {"", ErrMalformed},
		"header is a list":         {segment(`[]`) + "." + body + ".", ErrMalformed},
		"more than a header":       {raw(`{"alg":"HS256"}{}`), ErrMalformed},
	}
	for name, a := range attacks {
		c, err := v.Verify(t.Context(), a.token)
		if c != nil || !errors.Is(err, a.want) {
			t.Errorf("%s: %v, %v: want %v", name, c, err, a.want)
		}
	}
	if n := v.Remembered(); n != 0 {
		t.Errorf("%d tokens are remembered of attacks", n)
	}
}

// TestOtherIssuersKey: an issuer's key is good for its own tokens only, and so are its
// algorithms and audience.
func TestOtherIssuersKey(t *testing.T) {
	v := newVerifier(t, func(c *Config) {
		c.Issuers = []Issuer{
			{issuer, audience, []Algorithm{RS256}, time.Hour, Keys{public(RS256, "a")}, 0, false},
			{"other", "elsewhere", []Algorithm{ES256}, time.Hour, Keys{public(ES256, "a")}, 0, false},
		}
	})
	other := map[string]any{"iss": "other", "aud": "elsewhere"}
	for name, c := range map[string]struct {
		token string
		want  error
	}{
		"own":                {sign(t, ES256, private(ES256), nil, claims(other)), nil},
		"other's key":        {sign(t, RS256, private(RS256), nil, claims(other)), ErrAlgorithm},
		"other's key by kid": {sign(t, ES256, private(ES256), map[string]any{"kid": "a"}, claims(nil)), ErrAlgorithm},
		"other's audience":   {sign(t, ES256, private(ES256), nil, claims(map[string]any{"iss": "other"})), ErrAudience},
		"no one's algorithm": {sign(t, EdDSA, private(EdDSA), nil, claims(nil)), ErrAlgorithm},
	} {
		if _, err := v.Verify(t.Context(), c.token); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// changing is a source whose keys change.
type changing struct {
	Keys
	generation uint64
}

func (c *changing) Generation() uint64 { return c.generation }

// TestRemembered: a token is forgotten when it expires and when keys change.
func TestRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := &changing{Keys: Keys{public(HS256, "1")}}
		v := newVerifier(t, func(c *Config) {
			c.Remember = 2
			c.Issuers = []Issuer{{issuer, audience, []Algorithm{HS256}, time.Hour, keys, 0, false}}
		})
		token := sign(t, HS256, secret, map[string]any{"kid": "1"}, claims(nil))
		for range 2 {
			if _, err := v.Verify(t.Context(), token); err != nil {
				t.Fatal(err)
			}
		}
		keys.Keys, keys.generation = Keys{public(HS256, "2")}, 1
		if _, err := v.Verify(t.Context(), token); !errors.Is(err, ErrKey) {
			t.Errorf("its key has gone: %v", err)
		}
		token = sign(t, HS256, secret, nil, claims(nil))
		if _, err := v.Verify(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Minute - time.Second)
		if _, err := v.Verify(t.Context(), token); err != nil {
			t.Errorf("a second before its end: %v", err)
		}
		time.Sleep(time.Second)
		if _, err := v.Verify(t.Context(), token); !errors.Is(err, ErrExpired) {
			t.Errorf("at its end: %v", err)
		}
		for i := range 5 {
			if _, err := v.Verify(t.Context(), sign(t, HS256, secret, nil, claims(map[string]any{"jti": fmt.Sprint(i)}))); err != nil {
				t.Fatal(err)
			}
		}
		if n := v.Remembered(); n != 2 {
			t.Errorf("%d remembered, want 2", n)
		}
	})
}

// TestSigner: what is signed is accepted, for as long as it says.
func TestSigner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := public(HS256, "own")
		s := Signer{key, "dyno", audience, 10 * time.Minute}
		token, expires, err := s.Sign("u1", "k1")
		if err != nil {
			t.Fatal(err)
		}
		v := newVerifier(t, func(c *Config) {
			c.Issuers = []Issuer{{"dyno", audience, []Algorithm{HS256}, 10 * time.Minute, Keys{key}, 0, false}}
		})
		c, err := v.Verify(t.Context(), token)
		if err != nil || c.Subject != "u1" || c.Key != "k1" || !c.ExpiresAt.Equal(expires) {
			t.Errorf("%+v, %v", c, err)
		}
		time.Sleep(time.Until(expires))
		if _, err := v.Verify(t.Context(), token); !errors.Is(err, ErrExpired) {
			t.Errorf("at its end: %v", err)
		}
	})
}

func FuzzVerify(f *testing.F) {
	v := newVerifier(f, nil)
	for _, a := range []Algorithm{HS256, RS256, ES256, EdDSA} {
		f.Add(sign(f, a, private(a), nil, claims(nil)))
	}
	f.Add("..")
	f.Add("e30.e30.")
	f.Add(sign(f, HS256, make([]byte, 32), map[string]any{"crit": []string{"b64"}}, claims(nil)))
	f.Fuzz(func(t *testing.T, token string) {
		c, err := v.Verify(context.Background(), token)
		if (c == nil) == (err == nil) {
			t.Errorf("%v and %v", c, err)
		}
		if err == nil && strings.Count(token, ".") != 2 {
			t.Errorf("accepted: %q", token)
		}
	})
}

// TestFewDemands: an issuer without name, audience and lifetime accepts tokens of anybody who has its
// key, with any key's ID. The token's own limits count nevertheless.
func TestFewDemands(t *testing.T) {
	for _, a := range []Algorithm{HS256, RS256, ES256, EdDSA} {
		material := secret
		if a != HS256 {
			material = pemOf(t, a)
		}
		key, err := ParseKey(a, material)
		if err != nil {
			t.Fatal(err)
		}
		v := New(Config{Remember: 1, Issuers: []Issuer{{Algorithms: []Algorithm{a}, Keys: Keys{key}}}})
		for name, c := range map[string]struct {
			header, claims map[string]any
			want           error
		}{
			"nothing said":   {nil, map[string]any{"sub": "u"}, nil},
			"an ID":          {map[string]any{"kid": "any"}, map[string]any{"iss": "any", "aud": "any"}, nil},
			"issued later":   {nil, map[string]any{"iat": time.Now().Add(time.Hour).Unix()}, nil},
			"expired":        {nil, map[string]any{"exp": time.Now().Add(-time.Second).Unix()}, ErrExpired},
			"not yet":        {nil, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}, ErrEarly},
			"a critical one": {map[string]any{"crit": []string{"x"}, "x": 1}, nil, ErrHeader},
		} {
			token := sign(t, a, private(a), c.header, c.claims)
			for range 2 { // the second time it is remembered
				if _, err := v.Verify(t.Context(), token); !errors.Is(err, c.want) {
					t.Errorf("%s: %s: %v, want %v", a, name, err, c.want)
				}
			}
		}
	}
	for a, material := range map[Algorithm][]byte{HS256: secret[1:], RS256: pemOf(t, ES256), ES256: pemOf(t, RS256), EdDSA: nil, "HS512": secret} {
		if k, err := ParseKey(a, material); err == nil {
			t.Errorf("%s: %+v", a, k)
		}
	}
}
