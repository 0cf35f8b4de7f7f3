// Package oidc verifies the tokens of people by their OpenID Connect issuer. The issuer's keys are read when the first
// token comes, and again as package jwt does, and not for each request.
package oidc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"dyno/internal/fields"
	"dyno/internal/jwt"
)

// Config says which issuer is trusted, and for what.
type Config struct {
	Issuer   string `yaml:"oidc_issuer" otherwise:"none" doc:"the URL of an OpenID Connect issuer, whose tokens people may show"`
	ClientID string `yaml:"oidc_client_id" doc:"for whom its tokens must be: their audience"`
	Claim    string `yaml:"oidc_claim" default:"groups" doc:"the claim with a person's groups, which roles name"`
	Name     string `yaml:"oidc_name" oneof:"sub email" default:"sub" doc:"the claim with a person's name; an email must be verified"`

	Client *http.Client // that asks the issuer; nil is the default
	Logger *slog.Logger // nil discards
}

// Bounds of tokens, and of what the issuer says of itself.
const (
	maxLifetime = 24 * time.Hour
	leeway      = 30 * time.Second
	remembered  = 10_000
	keysTimeout = 5 * time.Second
	maxDocument = 1 << 20 // bytes
)

// Check reports faults that the tags of fields cannot express.
func (c Config) Check(r *fields.Report) {
	r.Check((c.Issuer == "") == (c.ClientID == ""), "oidc_client_id", "an issuer and a client ID go together", "give both --oidc-issuer and --oidc-client-id")
	if c.Issuer != "" {
		_, err := parseURL(c.Issuer)
		r.Error("oidc_issuer", err)
	}
}

// parseURL parses the URL of an issuer or of its keys. Others on the way must not be able to change the keys.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err == nil && u.Host != "" {
		ip, notIP := netip.ParseAddr(u.Hostname())
		local := u.Hostname() == "localhost" || notIP == nil && ip.IsLoopback()
		if u.Scheme == "https" || u.Scheme == "http" && local {
			return u, nil
		}
	}
	return nil, fmt.Errorf("%q is not an issuer's URL; https://HOST, or http:// on this machine", text)
}

// A Verifier verifies tokens. Its methods may be called from any goroutine.
type Verifier struct {
	cfg    Config
	keys   *jwt.Remote
	tokens *jwt.Verifier
}

// New returns a Verifier that has not asked the issuer yet.
func New(c Config) *Verifier {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Client == nil {
		c.Client = &http.Client{}
	}
	algorithms := []jwt.Algorithm{jwt.RS256, jwt.ES256, jwt.EdDSA}
	web := &http.Client{Transport: discovery{c}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	keys := jwt.NewRemote(jwt.RemoteConfig{URL: strings.TrimSuffix(c.Issuer, "/") + "/.well-known/openid-configuration", Algorithms: algorithms, Client: web, Logger: c.Logger})
	issuer := jwt.Issuer{Name: c.Issuer, Audience: c.ClientID, Algorithms: algorithms, Lifetime: maxLifetime, Keys: keys, Leeway: leeway}
	return &Verifier{c, keys, jwt.New(jwt.Config{Issuers: []jwt.Issuer{issuer}, Remember: remembered})}
}

// discovery asks an issuer for its description, and then for the keys that this names: as one request, so that both are
// tried again together.
type discovery struct{ Config }

// RoundTrip implements http.RoundTripper.
func (d discovery) RoundTrip(r *http.Request) (*http.Response, error) {
	base := d.Client.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	answer, err := base.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		return answer, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	var says struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxDocument)).Decode(&says); err != nil {
		return nil, fmt.Errorf("the issuer's description: %w", err)
	}
	if says.Issuer != d.Issuer { // OpenID Connect Discovery 1.0, section 4.3
		return nil, fmt.Errorf("the issuer's description is of %.200q", says.Issuer)
	}
	keys, err := parseURL(says.Keys)
	if err != nil {
		return nil, fmt.Errorf("jwks_uri: %w", err)
	}
	next := r.Clone(r.Context())
	next.URL, next.Host = keys, ""
	return base.RoundTrip(next)
}

// ErrUnavailable says that the issuer has not been reached so far, so that no token of it can be verified.
var ErrUnavailable = errors.New("the keys of the OpenID Connect issuer could not be read yet")

// A Person is whom a token names.
type Person struct {
	Name    string
	Groups  []string // not nil
	Expires time.Time
}

// Verify returns whom a token names. The errors are ErrUnavailable and why the token is refused.
func (v *Verifier) Verify(token string) (Person, error) {
	ctx, cancel := context.WithTimeout(context.Background(), keysTimeout)
	defer cancel()
	claims, err := v.tokens.Verify(ctx, token)
	if errors.Is(err, jwt.ErrKey) && v.keys.Generation() == 0 {
		return Person{}, ErrUnavailable
	}
	if err != nil {
		return Person{}, err
	}
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return Person{}, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return Person{}, err
	}
	p := Person{Name: claims.Subject, Groups: []string{}, Expires: claims.ExpiresAt.Time}
	if v.cfg.Name == "email" {
		if string(all["email_verified"]) != "true" || json.Unmarshal(all["email"], &p.Name) != nil {
			return Person{}, errors.New("token: has no verified email")
		}
	}
	groups := all[v.cfg.Claim]
	if one := ""; json.Unmarshal(groups, &one) == nil {
		p.Groups = append(p.Groups, one)
	} else if len(groups) > 0 && json.Unmarshal(groups, &p.Groups) != nil {
		return Person{}, fmt.Errorf("token: %s: must be a text or a list of texts", v.cfg.Claim)
	}
	return p, nil
}

// Close waits until the issuer is not being asked.
func (v *Verifier) Close() { v.keys.Wait() }
