// Package jwt issues and verifies JSON Web Tokens (RFC 7519) as the current practice
// has it (RFC 8725): who verifies fixes the algorithms, issuer, audience and longest
// life; the token chooses none of them. A token's "iss" finds its issuer, whose keys
// are each for one algorithm; its "kid" is compared with the keys' and used for nothing
// else. Signatures are golang-jwt's to check.
package jwt

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	golangjwt "github.com/golang-jwt/jwt/v5"

	"dyno/internal/strict"
)

// Why tokens are refused: every error of Verify is in this list.
var (
	ErrMalformed = errors.New("malformed")
	ErrAlgorithm = errors.New("algorithm not accepted")
	ErrHeader    = errors.New("header field not accepted")
	ErrIssuer    = errors.New("issuer not accepted")
	ErrAudience  = errors.New("audience not accepted")
	ErrKey       = errors.New("no such key")
	ErrSignature = errors.New("wrong signature")
	ErrExpired   = errors.New("expired")
	ErrEarly     = errors.New("not valid yet")
	ErrLifetime  = errors.New("lives too long")
)

// Bounds of a token.
const (
	maxToken  = 32 << 10 // bytes: a hub's may name many topics
	maxHeader = 1 << 10  // bytes, encoded
)

// A Source has an issuer's keys. Keys never changes, Remote does.
type Source interface {
	// Find returns the keys that may have signed a token. The ID is any text.
	Find(ctx context.Context, id string, a Algorithm) Keys
	// Generation changes whenever the keys do.
	Generation() uint64
}

// An Issuer is one whose tokens are accepted. Algorithms and Keys are needed.
type Issuer struct {
	Name       string        // the "iss" of its tokens; "" is whatever no other issuer has
	Audience   string        // must be among their "aud"; "" demands none
	Algorithms []Algorithm   // that it signs with
	Lifetime   time.Duration // from "iat" to "exp" at most; with 0, tokens need neither
	Keys       Source
	Leeway     time.Duration // by how much its clock may differ
	Undated    bool          // tokens need no "iat": without one, "exp" is Lifetime from now at most
}

// Config says whose tokens are accepted. It is not checked here: each issuer has a name of its own.
type Config struct {
	Issuers []Issuer
	// Remember bounds the tokens that are remembered as verified; 0 remembers none. A
	// token that is remembered is refused when it has expired, or its issuer's keys have
	// changed.
	Remember int
}

// Claims are what a token says, of those claims that mean something here.
type Claims struct {
	golangjwt.RegisteredClaims
	// Key is the API key that the token was issued for; "" is none. It means something
	// only in tokens of one's own.
	Key string `json:"key,omitempty"`
	// Mercure are the topics that the Mercure protocol lets its owner publish and subscribe to.
	Mercure struct {
		Publish   *[]string `json:"publish"`
		Subscribe []string  `json:"subscribe"`
	} `json:"mercure,omitzero"`
}

// A Verifier verifies tokens. Its methods may be called from any goroutine.
type Verifier struct {
	issuers map[string]*accepted
	methods []string
	parser  *golangjwt.Parser // of signatures; times are checked by their issuer's leeway

	remember int
	mu       sync.RWMutex // guards cache
	cache    map[[sha256.Size]byte]verified
}

// accepted is an issuer with what checks the times of its tokens.
type accepted struct {
	Issuer
	times *golangjwt.Validator
}

// verified is a token that was found to be good.
type verified struct {
	claims     *Claims
	issuer     *accepted
	generation uint64
}

// New returns a verifier.
func New(c Config) *Verifier {
	v := &Verifier{issuers: map[string]*accepted{}, remember: c.Remember, cache: map[[sha256.Size]byte]verified{}}
	for _, s := range c.Issuers {
		options := []golangjwt.ParserOption{golangjwt.WithLeeway(s.Leeway)}
		if s.Lifetime > 0 {
			options = append(options, golangjwt.WithExpirationRequired(), golangjwt.WithIssuedAt())
		}
		v.issuers[s.Name] = &accepted{s, golangjwt.NewValidator(options...)}
		for _, a := range s.Algorithms {
			v.methods = append(v.methods, string(a))
		}
	}
	v.parser = golangjwt.NewParser(golangjwt.WithValidMethods(v.methods), golangjwt.WithStrictDecoding(), golangjwt.WithoutClaimsValidation())
	return v
}

// Remembered is how many tokens are remembered as verified.
func (v *Verifier) Remembered() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.cache)
}

// Verify returns a token's claims, or one of the errors above. The claims are shared: they must not be
// changed. ctx bounds the wait for keys.
func (v *Verifier) Verify(ctx context.Context, token string) (*Claims, error) {
	if len(token) > maxToken {
		return nil, fmt.Errorf("token: %w: longer than %d bytes", ErrMalformed, maxToken)
	}
	var sum [sha256.Size]byte
	if v.remember > 0 {
		sum = sha256.Sum256([]byte(token))
		v.mu.RLock()
		k, ok := v.cache[sum]
		v.mu.RUnlock()
		if ok && k.generation == k.issuer.Keys.Generation() {
			if k.claims.ExpiresAt != nil && !time.Now().Before(k.claims.ExpiresAt.Add(k.issuer.Leeway)) {
				v.forget(sum)
				return nil, fmt.Errorf("token: %w", ErrExpired)
			}
			return k.claims, nil
		}
	}
	h, err := inspect(token)
	if err == nil && !slices.Contains(v.methods, string(h.algorithm)) {
		err = ErrAlgorithm
	}
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	claims := new(Claims)
	var (
		issuer     *accepted
		generation uint64
	)
	_, err = v.parser.ParseWithClaims(token, claims, func(*golangjwt.Token) (any, error) {
		if issuer = v.issuers[claims.Issuer]; issuer == nil {
			issuer = v.issuers[""]
		}
		if issuer == nil {
			return nil, ErrIssuer
		}
		if !slices.Contains(issuer.Algorithms, h.algorithm) {
			return nil, ErrAlgorithm
		}
		generation = issuer.Keys.Generation() // before: keys that come meanwhile are not of it
		var set golangjwt.VerificationKeySet
		for _, k := range issuer.Keys.Find(ctx, h.id, h.algorithm) {
			if k.Algorithm == h.algorithm {
				set.Keys = append(set.Keys, k.Material)
			}
		}
		if len(set.Keys) == 0 {
			return nil, ErrKey
		}
		return set, nil
	})
	if err == nil {
		err = issuer.times.Validate(claims)
	}
	if err != nil {
		return nil, fmt.Errorf("token: %w", reason(err))
	}
	switch {
	case issuer.Audience != "" && !slices.Contains(claims.Audience, issuer.Audience):
		return nil, fmt.Errorf("token: %w", ErrAudience)
	case issuer.Lifetime == 0:
	case claims.IssuedAt == nil && !issuer.Undated:
		return nil, fmt.Errorf("token: %w: no iat claim", ErrMalformed)
	case claims.ExpiresAt.Sub(issuedAt(claims, issuer)) > issuer.Lifetime:
		return nil, fmt.Errorf("token: %w: %v at most", ErrLifetime, issuer.Lifetime)
	}
	if v.remember > 0 {
		v.keep(sum, verified{claims, issuer, generation})
	}
	return claims, nil
}

// issuedAt returns when a token was issued: without an "iat", the latest instant that it can have been.
func issuedAt(c *Claims, by *accepted) time.Time {
	if c.IssuedAt == nil {
		return time.Now().Add(by.Leeway)
	}
	return c.IssuedAt.Time
}

func (v *Verifier) forget(sum [sha256.Size]byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.cache, sum)
}

// keep remembers a token, in place of any other when there is no room.
func (v *Verifier) keep(sum [sha256.Size]byte, k verified) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for other := range v.cache {
		if len(v.cache) < v.remember {
			break
		}
		delete(v.cache, other)
	}
	v.cache[sum] = k
}

// reason returns which of this package's errors golang-jwt's is.
func reason(err error) error {
	for _, own := range []error{ErrIssuer, ErrAlgorithm, ErrKey} {
		if errors.Is(err, own) {
			return own
		}
	}
	for _, r := range []struct{ theirs, own error }{
		{golangjwt.ErrTokenMalformed, ErrMalformed},
		{golangjwt.ErrTokenUnverifiable, ErrAlgorithm},
		{golangjwt.ErrTokenSignatureInvalid, ErrSignature},
		{golangjwt.ErrTokenRequiredClaimMissing, ErrMalformed},
		{golangjwt.ErrTokenExpired, ErrExpired},
		{golangjwt.ErrTokenNotValidYet, ErrEarly},
		{golangjwt.ErrTokenUsedBeforeIssued, ErrEarly},
	} {
		if errors.Is(err, r.theirs) {
			return r.own
		}
	}
	return ErrMalformed
}

// A header is what matters of a token's.
type header struct {
	algorithm Algorithm
	id        string
}

// forbidden are header fields that would have a token say how it is to be verified
// (RFC 7515, section 4.1; RFC 7797 for b64; RFC 7516 for the last three).
var forbidden = []string{"crit", "b64", "jku", "jwk", "x5u", "x5c", "x5t", "x5t#S256", "zip", "enc", "epk"}

// headerMembers are the header fields that are looked at.
var headerMembers = strict.Names(append([]string{"alg", "kid", "typ"}, forbidden...)...)

// inspect reads a token's header, and refuses what no parser of claims needs to see: texts that could be read in two
// ways, too.
func inspect(token string) (header, error) {
	first, rest, ok := strings.Cut(token, ".")
	// Go's decoder skips line breaks, in strict mode too.
	if !ok || strings.Count(rest, ".") != 1 || len(first) > maxHeader || strings.ContainsAny(token, "\r\n") {
		return header{}, ErrMalformed
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(first)
	if err != nil {
		return header{}, ErrMalformed
	}
	if err := strict.Check(text, headerMembers); err != nil {
		return header{}, fmt.Errorf("%w: header: %w", ErrMalformed, err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return header{}, fmt.Errorf("%w: header: %w", ErrMalformed, err)
	}
	for _, name := range forbidden {
		if _, ok := fields[name]; ok {
			return header{}, fmt.Errorf("%w: %s", ErrHeader, name)
		}
	}
	var h header
	var kind string
	for _, f := range []struct {
		name string
		to   *string
	}{{"alg", (*string)(&h.algorithm)}, {"kid", &h.id}, {"typ", &kind}} {
		if raw, ok := fields[f.name]; ok && (json.Unmarshal(raw, f.to) != nil || string(raw) == "null") {
			return header{}, fmt.Errorf("%w: header: %s is no string", ErrMalformed, f.name)
		}
	}
	switch {
	case !h.algorithm.Supported():
		return header{}, ErrAlgorithm
	case len(h.id) > maxID:
		return header{}, ErrKey
	case kind != "" && !strings.EqualFold(kind, "JWT") && !strings.EqualFold(kind, "at+jwt"): // RFC 9068
		return header{}, fmt.Errorf("%w: typ", ErrHeader)
	}
	payload, _, _ := strings.Cut(rest, ".")
	claims, err := base64.RawURLEncoding.Strict().DecodeString(payload)
	if err != nil {
		return header{}, ErrMalformed
	}
	if err := strict.Check(claims, claimMembers); err != nil { // claims that are there twice: RFC 7519, section 4
		return header{}, fmt.Errorf("%w: claims: %w", ErrMalformed, err)
	}
	if err := checkTimes(claims); err != nil {
		return header{}, fmt.Errorf("%w: claims: %w", ErrMalformed, err)
	}
	return h, nil
}

// claimMembers are the claims that mean something here: where an issuer lets users choose further claims, encoding/json
// would take "Sub" for "sub".
var claimMembers = strict.Names("iss", "sub", "aud", "exp", "nbf", "iat", "jti", "key", "mercure")

// checkTimes refuses moments that are strings: golang-jwt reads them, and others would read a token without an end.
// They are numbers (RFC 7519, section 2, NumericDate).
func checkTimes(claims []byte) error {
	var times struct {
		Expires json.RawMessage `json:"exp"`
		Begins  json.RawMessage `json:"nbf"`
		Issued  json.RawMessage `json:"iat"`
	}
	if err := json.Unmarshal(claims, &times); err != nil {
		return err
	}
	for _, t := range []json.RawMessage{times.Expires, times.Begins, times.Issued} {
		if len(t) > 0 && t[0] == '"' {
			return fmt.Errorf("time %s: is a string: must be a number", t)
		}
	}
	return nil
}

// A Signer issues tokens by HS256.
type Signer struct {
	Key      Key // of HS256
	Issuer   string
	Audience string
	Lifetime time.Duration
}

// Sign returns a token for a subject, and when it expires. Times in tokens are whole
// seconds.
func (s Signer) Sign(subject, key string) (token string, expires time.Time, err error) {
	now := time.Now().Truncate(time.Second)
	expires = now.Add(s.Lifetime)
	t := golangjwt.NewWithClaims(golangjwt.SigningMethodHS256, Claims{
		RegisteredClaims: golangjwt.RegisteredClaims{
			Issuer: s.Issuer, Subject: subject, Audience: golangjwt.ClaimStrings{s.Audience},
			IssuedAt: golangjwt.NewNumericDate(now), ExpiresAt: golangjwt.NewNumericDate(expires),
		},
		Key: key,
	})
	if s.Key.ID != "" {
		t.Header["kid"] = s.Key.ID
	}
	token, err = t.SignedString(s.Key.Material)
	return token, expires, err
}
