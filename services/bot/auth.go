package bot

import (
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"dyno/services/bot/openai"
	"dyno/services/bot/strict"
	"dyno/services/bot/trace"
	"dyno/services/internal/rate"
)

// A refusal is an answer without what was asked for.
type refusal struct {
	status            int
	code, param, text string
	kind              string        // the error's type; "" is that of the status
	after             time.Duration // Retry-After; 0 says nothing
	body              []byte        // to be passed on as it is; nil makes one of the text
}

// noContent is the answer that has none: there is nothing to say.
var noContent = &refusal{status: http.StatusNoContent}

func (r *refusal) Error() string { return r.text }

func refuse(status int, code, format string, args ...any) *refusal {
	return &refusal{status: status, code: code, text: fmt.Sprintf(format, args...)}
}

// answer tells a client why it is not served, within timeout as writeBody does.
func (r *refusal) answer(w http.ResponseWriter, timeout time.Duration) {
	h := w.Header()
	if r.status == http.StatusNoContent {
		w.WriteHeader(r.status)
		return
	}
	if r.after > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((r.after+time.Second-1)/time.Second), 10))
	}
	if r.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	body := r.body
	if body == nil {
		body = openai.AppendFault(nil, r.status, r.param, r.fault())
	}
	writeBody(w, timeout, r.status, body)
}

// writePiece is how much of an answer is written at once, in bytes: a client that is slow, but reads, has
// a timeout for each.
const writePiece = 64 << 10

// writeBody writes an answer that is no stream, each piece within timeout: a client that stops reading
// would hold its handler for ever.
func writeBody(w http.ResponseWriter, timeout time.Duration, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	out := sink{w: w, control: http.NewResponseController(w), timeout: timeout, begun: true}
	for more := true; more; {
		piece := body[:min(len(body), writePiece)]
		body = body[len(piece):]
		more = len(body) > 0
		out.write(piece, more)
	}
	out.end()
}

// expectedReply is what most replies fit into, in bytes.
const expectedReply = 2 << 10

func (g *Gateway) writeJSON(w http.ResponseWriter, status int, v any) {
	b := g.parts.Buffers.Get(expectedReply)
	defer g.parts.Buffers.Put(b)
	body, err := g.parts.Codec.JSON.Append(b.B, v)
	if err != nil {
		refuse(http.StatusInternalServerError, "", "%v", err).answer(w, g.cfg.WriteTimeout)
		return
	}
	b.B = body
	writeBody(w, g.cfg.WriteTimeout, status, body)
}

// An identity is who asks.
type identity struct {
	key  *apiKey // that pays
	user string  // "" if only the API key is known
}

// asUser is the user whom a request is of that names one, or none: a token has its own.
func (i identity) asUser(named string) (string, *refusal) {
	if i.user == "" {
		return named, nil
	}
	if named != "" && named != i.user {
		return "", &refusal{status: http.StatusForbidden, param: "user_id", code: "other_user", text: "user_id: the token is another user's"}
	}
	return i.user, nil
}

// identify finds out who asks: by a token, or by an API key.
func (g *Gateway) identify(r *http.Request) (identity, *refusal) {
	_, span := trace.Start(r.Context(), "authenticate")
	who, refused := g.credentials(r)
	if refused != nil {
		span.Fail(refused.code)
	}
	span.End()
	return who, refused
}

// credentials reads those of a request.
func (g *Gateway) credentials(r *http.Request) (identity, *refusal) {
	field := r.Header.Get("Authorization")
	if field == "" {
		if g.open != nil {
			return identity{key: g.open}, nil
		}
		return identity{}, refuse(http.StatusUnauthorized, "no_credentials", "authorization: want Bearer and a token or an API key")
	}
	scheme, text, _ := strings.Cut(field, " ")
	if !strings.EqualFold(scheme, "Bearer") || text == "" {
		return identity{}, refuse(http.StatusUnauthorized, "bad_credentials", "authorization: want Bearer and a token or an API key")
	}
	if strings.Count(text, ".") == 2 && strings.HasPrefix(text, "eyJ") {
		return g.identifyToken(r, text)
	}
	return g.identifyKey(text)
}

func (g *Gateway) identifyKey(secret string) (identity, *refusal) {
	// By its hash: how long the search takes says nothing about the secret.
	if key := g.keys[sha256.Sum256([]byte(secret))]; key != nil {
		return identity{key: key}, nil
	}
	if g.open != nil {
		return identity{key: g.open}, nil
	}
	return identity{}, refuse(http.StatusUnauthorized, "invalid_api_key", "the API key is not known here")
}

func (g *Gateway) identifyToken(r *http.Request, token string) (identity, *refusal) {
	c, err := g.verifier.Verify(r.Context(), token)
	if err != nil {
		return identity{}, refuse(http.StatusUnauthorized, "invalid_token", "%v", err)
	}
	id := c.Key
	if c.Issuer != g.cfg.Token.Issuer {
		id = g.issuers[c.Issuer] // what others say about keys means nothing here
	}
	key := g.payers[id]
	if key == nil {
		return identity{}, refuse(http.StatusUnauthorized, "invalid_token", "token: its API key is not known here any more")
	}
	if !validName(c.Subject) {
		return identity{}, refuse(http.StatusUnauthorized, "invalid_token", "token: has no subject of 1 to %d bytes", maxNameBytes)
	}
	return identity{key, c.Subject}, nil
}

// logins bound how often logins with a wrong API key are answered, by the client's address and by the user's name. A right
// key is always answered: many users come by one proxy, and a user's name is everybody's to give. Keys are too long to be
// guessed at any rate.
type logins struct {
	began            time.Time
	addresses, users *rate.Limiter
}

// How often a login with a wrong key is answered, a second and at once, and how many addresses or users are remembered.
const (
	addressLogins, addressLoginsAtOnce = 10, 100
	userLogins, userLoginsAtOnce       = 1, 10
	loginsRemembered                   = 10_000
)

func newLogins() *logins {
	return &logins{time.Now(), rate.NewLimiter(addressLogins, addressLoginsAtOnce, loginsRemembered), rate.NewLimiter(userLogins, userLoginsAtOnce, loginsRemembered)}
}

// refused is how a login that was refused is answered: as it was, or with 429.
func (l *logins) refused(address, user string, as *refusal) *refusal {
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host // all clients of a Unix socket are one
	}
	now := time.Since(l.began)
	byAddress, wait := l.addresses.Allow(address, 0, 0, now)
	byUser, waitUser := l.users.Allow(user, 0, 0, now)
	if byAddress && byUser {
		return as
	}
	return &refusal{status: http.StatusTooManyRequests, code: "too_many_logins", text: "too many logins with a wrong API key: " + as.text, after: max(wait, waitUser)}
}

// maxLoginBytes bounds the body of a login: a key and a name.
const maxLoginBytes = 8 << 10

// loginMembers are those of a login.
var loginMembers = strict.Names("api_key", "user_id")

// login gives a user a token. The API key is in the body or in the Authorization field.
func (g *Gateway) login(w http.ResponseWriter, r *http.Request) *refusal {
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginBytes) // nobody is known yet
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
		return badName("user_id")
	}
	secret := q.APIKey
	if secret == "" {
		_, secret, _ = strings.Cut(r.Header.Get("Authorization"), " ")
	}
	who, refused := g.identifyKey(secret) // a token gives no token: it would never end
	if refused != nil {
		return g.logins.refused(r.RemoteAddr, q.User, refused)
	}
	token, expires, err := g.signer.Sign(q.User, who.key.id)
	if err != nil {
		return refuse(http.StatusInternalServerError, "", "%v", err)
	}
	g.writeJSON(w, http.StatusOK, map[string]any{
		"access_token": token, "token_type": "Bearer", "user_id": q.User,
		"expires_in": int64(g.cfg.Token.Lifetime / time.Second), "expires_at": expires.Unix(),
	})
	return nil
}
