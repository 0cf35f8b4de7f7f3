package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
)

// An Operator is a client of the admin listener.
type Operator struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
}

// A Role says what an operator may do; "" is nothing.
type Role string

// The roles.
const (
	Reader Role = "reader" // may see everything
	Editor Role = "editor" // may also change it
)

// ErrUnavailable says that who an operator is cannot be found out now.
var ErrUnavailable = errors.New("operators cannot be identified at the moment")

type operatorKey struct{}

// OperatorOf returns who sent a request to the admin listener. Who has that listener's token, or needs none, is an editor
// of the name that the request says.
func OperatorOf(r *http.Request) Operator {
	if who, ok := r.Context().Value(operatorKey{}).(Operator); ok {
		return who
	}
	name, _, _ := r.BasicAuth()
	return Operator{cmp.Or(name, "admin"), Editor}
}

// guard makes pages require the listener's token or that of an operator: as a bearer token (RFC 6750), for programs, or
// as any user's password (RFC 7617), which browsers ask for.
func (h *Host) guard(pages http.Handler) http.Handler {
	want := sha256.Sum256(h.token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, shown, basic := r.BasicAuth()
		if scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " "); !basic && strings.EqualFold(scheme, "Bearer") {
			shown = strings.TrimSpace(rest)
		}
		// Hashes have one length, and a common prefix reveals nothing about the token.
		if got := sha256.Sum256([]byte(shown)); h.token != nil && subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			pages.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		if h.cfg.Operators == nil || strings.Count(shown, ".") != 2 {
			refuse(w, "the admin listener's token is needed, as a bearer token or as a password")
			return
		}
		switch who, err := h.cfg.Operators(shown); {
		case errors.Is(err, ErrUnavailable):
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case err != nil:
			refuse(w, err.Error())
		case who.Role == "":
			http.Error(w, who.Name+" has no role here", http.StatusForbidden)
		case who.Role != Editor && r.Method != http.MethodGet && r.Method != http.MethodHead:
			http.Error(w, who.Name+" may only read: changes need the role "+string(Editor), http.StatusForbidden)
		default:
			w.Header().Del("Cache-Control") // pages have their own
			pages.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), operatorKey{}, who)))
		}
	})
}

// refuse asks for other credentials.
func refuse(w http.ResponseWriter, why string) {
	w.Header().Set("WWW-Authenticate", `Basic realm="admin", charset="UTF-8"`)
	http.Error(w, why, http.StatusUnauthorized)
}
