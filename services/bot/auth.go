package bot

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"dyno/internal/jwt"
	"dyno/internal/strict"
	"dyno/services/bot/openai"
	"dyno/services/bot/outward"
	"dyno/services/bot/reply"
	"dyno/services/internal/trace"
)

// expectedReply is enough for most replies, in bytes.
const expectedReply = 2 << 10

func (g *Gateway) writeJSON(w http.ResponseWriter, status int, v any) {
	b := g.parts.Buffers.Get(expectedReply)
	defer g.parts.Buffers.Put(b)
	body, err := g.parts.Codec.JSON.Append(b.B, v)
	if err != nil {
		reply.Refuse(http.StatusInternalServerError, "", "%v", err).Answer(w, openai.Chat, g.cfg.WriteTimeout)
		return
	}
	b.B = body
	reply.Body(w, g.cfg.WriteTimeout, status, body)
}

// An identity is the paying key of a request, and its user.
type identity struct {
	key  *apiKey // that pays
	user string  // "" if only the API key is known
}

// A trusted issuer is another issuer of tokens.
type trusted struct {
	payer   string // the id of an API key
	anyUser bool   // its tokens are a service's, which asks for users
}

// asUser returns the user of a request, which may name one. A token has a user of its own.
func (i identity) asUser(named string) (string, *reply.Refusal) {
	if i.user == "" {
		return named, nil
	}
	if named != "" && named != i.user {
		return "", &reply.Refusal{Status: http.StatusForbidden, Param: "user_id", Code: "other_user", Text: "user_id: the token is another user's"}
	}
	return i.user, nil
}

// identify authenticates a request by a token or by an API key.
func (g *Gateway) identify(r *http.Request) (identity, *reply.Refusal) {
	_, span := trace.Start(r.Context(), "authenticate")
	who, refused := g.credentials(r)
	if refused != nil {
		span.Fail(refused.Code)
	}
	span.End()
	return who, refused
}

// credentials verifies the credentials of a request.
func (g *Gateway) credentials(r *http.Request) (identity, *reply.Refusal) {
	h := r.Header
	text := cmp.Or(h.Get("X-Api-Key"), h.Get("Api-Key"), h.Get("X-Goog-Api-Key")) // as libraries for Anthropic, Azure and Google send it
	if text == "" && reply.FormOf(r.URL.Path) == openai.Contents {
		text = r.URL.Query().Get("key") // as Google's API takes it
	}
	if field := h.Get("Authorization"); field != "" {
		scheme, rest, _ := strings.Cut(field, " ")
		if text = rest; !strings.EqualFold(scheme, "Bearer") || text == "" {
			return identity{}, reply.Refuse(http.StatusUnauthorized, "bad_credentials", "authorization: want Bearer and a token or an API key")
		}
	}
	if text == "" {
		if everybody := g.live.Load().keyless; everybody != nil {
			return identity{key: everybody}, nil
		}
		return identity{}, reply.Refuse(http.StatusUnauthorized, "no_credentials", "authorization: want Bearer and a token or an API key")
	}
	if strings.Count(text, ".") == 2 && strings.HasPrefix(text, "eyJ") {
		return g.identifyToken(r, text)
	}
	return g.identifyKey(text)
}

func (g *Gateway) identifyKey(secret string) (identity, *reply.Refusal) {
	// By its hash: the time of the search reveals nothing about the secret.
	if key := g.live.Load().bySecret(sha256.Sum256([]byte(secret))); key != nil {
		return identity{key: key}, key.revoked()
	}
	if everybody := g.live.Load().keyless; everybody != nil {
		return identity{key: everybody}, nil
	}
	return identity{}, reply.Refuse(http.StatusUnauthorized, "invalid_api_key", "the API key is not known here")
}

func (g *Gateway) identifyToken(r *http.Request, token string) (identity, *reply.Refusal) {
	c, err := g.verifier.Verify(r.Context(), token)
	if err != nil {
		return identity{}, reply.Refuse(http.StatusUnauthorized, "invalid_token", "%v", err)
	}
	of, known := trusted{payer: c.Key}, true
	if c.Issuer != g.cfg.Token.Issuer {
		of, known = g.issuers[c.Issuer] // an issuer's own statements about keys do not count
	}
	if !known { // an issuer without a name has tokens without one
		return identity{}, reply.Refuse(http.StatusUnauthorized, "invalid_token", "token: %v", jwt.ErrIssuer)
	}
	key := g.live.Load().payer(of.payer)
	if key == nil {
		return identity{}, reply.Refuse(http.StatusUnauthorized, "invalid_token", "token: its API key is not known here any more")
	}
	if refused := key.revoked(); refused != nil {
		return identity{}, refused
	}
	if !validName(c.Subject) {
		return identity{}, reply.Refuse(http.StatusUnauthorized, "invalid_token", "token: has no subject of 1 to %d bytes", maxNameBytes)
	}
	if of.anyUser {
		return identity{key: key}, nil
	}
	return identity{key, c.Subject}, nil
}

// maxLoginBytes bounds the body of a login: a key and a name.
const maxLoginBytes = 8 << 10

// loginMembers are the members of a login.
var loginMembers = strict.Names("api_key", "user_id")

// login gives a user a token. The API key is in the body or in the Authorization field.
func (g *Gateway) login(w http.ResponseWriter, r *http.Request) *reply.Refusal {
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginBytes) // the client is not authenticated yet
	r.ContentLength = min(r.ContentLength, maxLoginBytes)
	body, refused := g.readBody(r, nil)
	if refused != nil {
		return refused
	}
	var q struct {
		APIKey string `json:"api_key"`
		User   string `json:"user_id"`
	}
	refused = g.decode(body.B, loginMembers, &q)
	body.free()
	if refused != nil {
		return refused
	}
	if !validName(q.User) {
		return refuseName("user_id")
	}
	secret := q.APIKey
	if secret == "" {
		_, secret, _ = strings.Cut(r.Header.Get("Authorization"), " ")
	}
	who, refused := g.identifyKey(secret) // a token must not renew itself: it would never expire
	if refused != nil {
		return g.logins.refused(r.RemoteAddr, q.User, refused)
	}
	token, expires, err := g.signer.Sign(q.User, who.key.id)
	if err != nil {
		return reply.Refuse(http.StatusInternalServerError, "", "%v", err)
	}
	g.writeJSON(w, http.StatusOK, map[string]any{
		"access_token": token, "token_type": "Bearer", "user_id": q.User,
		"expires_in": int64(g.cfg.Token.Lifetime / time.Second), "expires_at": expires.Unix(),
	})
	return nil
}

// ownLeeway is the permitted difference between clocks of gateways that share a secret.
const ownLeeway = 2 * time.Second

// authentication makes the verifiers of tokens.
func (g *Gateway) authentication(policy outward.Policy) error {
	t := g.cfg.Token
	if len(t.Secret) == 0 {
		t.Secret = []byte(rand.Text() + rand.Text())
		g.log.Warn("tokens are signed by a secret of this process: they end with it, and other gateways do not know them")
	}
	own := jwt.Keys{{ID: keyID(t.Secret), Algorithm: jwt.HS256, Material: t.Secret}}
	g.signer = jwt.Signer{Key: own[0], Issuer: t.Issuer, Audience: t.Audience, Lifetime: t.Lifetime}
	if len(t.Previous) > 0 && keyID(t.Previous) != own[0].ID {
		own = append(own, jwt.Key{ID: keyID(t.Previous), Algorithm: jwt.HS256, Material: t.Previous})
	}
	c := jwt.Config{Remember: t.Remember, Issuers: []jwt.Issuer{{
		Name: t.Issuer, Audience: t.Audience, Algorithms: []jwt.Algorithm{jwt.HS256}, Lifetime: t.Lifetime, Keys: own, Leeway: ownLeeway,
	}}}
	for _, s := range g.cfg.Issuers {
		of := trusted{s.Key, s.AnyUser}
		if g.cfg.tenants() == 0 {
			of.payer = keylessID
		}
		g.issuers[s.Name] = of
		if s.Secret != "" {
			keys := jwt.Keys{{Algorithm: jwt.HS256, Material: []byte(s.Secret)}}
			c.Issuers = append(c.Issuers, jwt.Issuer{Name: s.Name, Audience: s.Audience, Algorithms: []jwt.Algorithm{jwt.HS256}, Lifetime: s.Lifetime, Keys: keys, Leeway: s.leeway(), Undated: true})
			continue
		}
		transport := outward.NewTransport(outward.Config{Policy: policy.RequireTLSOrAllowlist(s.KeySet), MaxIdle: 1, IdleTimeout: time.Minute})
		r := jwt.NewRemote(jwt.RemoteConfig{URL: s.KeySet, Algorithms: s.Algorithms, Client: outward.NewClient(transport), Logger: g.log})
		g.waitAtClose(func() { r.Wait(); transport.CloseIdleConnections() })
		c.Issuers = append(c.Issuers, jwt.Issuer{Name: s.Name, Audience: s.Audience, Algorithms: s.Algorithms, Lifetime: s.Lifetime, Keys: r, Leeway: s.leeway()})
	}
	g.verifier = jwt.New(c)
	return nil
}

// keyID names a secret without helping to guess it: by eight bytes of its hash.
func keyID(secret []byte) string {
	sum := sha256.Sum256(append([]byte("key id\x00"), secret...))
	return hex.EncodeToString(sum[:8])
}
