package hub

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"dyno/internal/jwt"
)

// A Key verifies JSON Web Tokens (RFC 7519) by one method only. It refuses tokens with another method, so that a
// public key can never serve as a shared secret.
type Key struct {
	// Method is HS256, RS256 or ES256 (RFC 7518, section 3.1), or EdDSA (RFC 8037).
	Method string
	// Material is a public key in PEM, or the shared secret of HS256: at least 32 bytes (RFC 7518, section 3.2).
	Material []byte
}

func (k *Key) parse() (jwt.Key, error) { return jwt.ParseKey(jwt.Algorithm(k.Method), k.Material) }

// newVerifier returns nil if there is no key. Validate has checked the key.
func newVerifier(k *Key, issuer, audience string) (*jwt.Verifier, error) {
	if k == nil {
		return nil, nil
	}
	key, err := k.parse()
	if err != nil {
		return nil, err
	}
	return jwt.New(jwt.Config{Issuers: []jwt.Issuer{{Name: issuer, Audience: audience, Algorithms: []jwt.Algorithm{key.Algorithm}, Keys: jwt.Keys{key}}}}), nil
}

// cookieName is the name that the protocol gives the cookie.
const cookieName = "mercureAuthorization"

// token returns a request's token: from the Authorization field, or else from the
// "authorization" parameter, or else from the cookie. A browser sends the cookie
// whichever page made the request.
func token(r *http.Request, parameter string) (text string, cookie bool, err error) {
	if field := r.Header.Get("Authorization"); field != "" {
		scheme, text, _ := strings.Cut(field, " ")
		if !strings.EqualFold(scheme, "Bearer") || text == "" {
			return "", false, errors.New("authorization: want Bearer and a token")
		}
		return text, false, nil
	}
	if parameter != "" {
		return parameter, false, nil
	}
	if c, err := r.Cookie(cookieName); err == nil && c.Value != "" {
		return c.Value, true, nil
	}
	return "", false, nil
}

// A refusal is the answer to a request that is not served.
type refusal struct {
	status int
	text   string
	after  time.Duration // Retry-After; 0 sends none
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

// anyTopic is what may be published about without a token, where that is allowed.
var anyTopic = []*selector{newSelector("*")}

// mayPublish returns selectors of the topics of permitted updates: those of the token's mercure.publish claim.
func (h *Hub) mayPublish(r *http.Request) (granted []*selector, _ *refusal) {
	text, cookie, err := token(r, r.URL.Query().Get("authorization"))
	if err != nil {
		return nil, refuse(http.StatusUnauthorized, "%v", err)
	}
	if cookie && r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" {
		return nil, refuse(http.StatusForbidden, "origin: must be given to publish by cookie")
	}
	// An unverified token proves nothing: any page can make one up. A browser sends a cookie for any page.
	anonymous := text == "" || h.publishers == nil
	if cookie || anonymous {
		if refused := h.crossSite(r); refused != nil {
			return nil, refused
		}
	}
	if anonymous {
		if h.cfg.AnonymousPublish {
			return anyTopic, h.foreign(r)
		}
		if text == "" {
			return nil, refuse(http.StatusUnauthorized, "publishing needs a token")
		}
		return nil, refuse(http.StatusUnauthorized, "no publisher's token is accepted here")
	}
	c, err := h.publishers.Verify(r.Context(), text)
	if err != nil {
		return nil, refuse(http.StatusUnauthorized, "%v", err)
	}
	if c.Mercure.Publish == nil {
		return nil, refuse(http.StatusForbidden, "token: has no mercure.publish claim")
	}
	return h.selectors.keep(*c.Mercure.Publish), nil
}

// crossSite refuses a browser's requests for pages of other sites, except pages that may publish. Old browsers name
// the page in Referer only.
func (h *Hub) crossSite(r *http.Request) *refusal {
	page := r.Header.Get("Origin")
	if referer := r.Header.Get("Referer"); page == "" && referer != "" && r.Header.Get("Sec-Fetch-Site") == "" {
		page = "null" // a page without a name is another site's
		if u, err := url.Parse(referer); err == nil && u.Host != "" {
			page = u.Scheme + "://" + u.Host
		}
		r = r.Clone(r.Context())
		r.Header.Set("Origin", page)
	}
	if err := h.crossOrigin.Check(r); err != nil {
		return refuse(http.StatusForbidden, "origin: pages of %q may not publish here without a token that this hub verifies: allow them with --publish-origin", page)
	}
	return nil
}

// foreign refuses a request without a verified token if it is another site's.
func (h *Hub) foreign(r *http.Request) *refusal {
	if h.cfg.Foreign == nil {
		return nil
	}
	if err := h.cfg.Foreign(r); err != nil {
		return refuse(http.StatusForbidden, "%v", err)
	}
	return nil
}

// covers returns why an update may not have these topics. All of them must be granted, also
// for public updates.
func covers(granted []*selector, topics []string) *refusal {
	for _, topic := range topics {
		if !matchAny(granted, []string{topic}) {
			return refuse(http.StatusForbidden, "token: its mercure.publish claim does not cover topic %q", topic)
		}
	}
	return nil
}

// maySubscribe returns the topics of which the subscriber may have private updates, and
// when this permission ends (zero: never).
func (h *Hub) maySubscribe(r *http.Request) (rights []string, until time.Time, _ *refusal) {
	text, _, err := token(r, r.URL.Query().Get("authorization"))
	if err != nil {
		return nil, time.Time{}, refuse(http.StatusUnauthorized, "%v", err)
	}
	if text == "" || h.subscribers == nil {
		if !h.cfg.AnonymousSubscribe {
			return nil, time.Time{}, refuse(http.StatusUnauthorized, "subscribing needs a token")
		}
		return nil, time.Time{}, h.foreign(r)
	}
	c, err := h.subscribers.Verify(r.Context(), text)
	if err != nil {
		return nil, time.Time{}, refuse(http.StatusUnauthorized, "%v", err)
	}
	if c.ExpiresAt != nil {
		until = c.ExpiresAt.Time
	}
	return c.Mercure.Subscribe, until, nil
}
