package bot

import (
	"net"
	"net/http"
	"time"

	"dyno/internal/rate"
	"dyno/services/bot/reply"
)

// A loginLimiter bounds how often logins with a wrong API key are answered, by the client's address and by the user's name. A right
// key is always answered: many users come by one proxy, and anybody can give a user's name. Keys are too long to be
// guessed at any rate.
type loginLimiter struct {
	began            time.Time
	addresses, users *rate.Limiter
}

// How often a login with a wrong key is answered, a second and at once, and how many addresses or users are remembered.
const (
	addressRate, addressBurst = 10, 100
	userRate, userBurst       = 1, 10
	rememberedLogins          = 10_000
)

// newLoginLimiter returns a limiter that has seen nobody.
func newLoginLimiter() *loginLimiter {
	return &loginLimiter{time.Now(), rate.NewLimiter(addressRate, addressBurst, rememberedLogins), rate.NewLimiter(userRate, userBurst, rememberedLogins)}
}

// refused is how a login that was refused is answered: as it was, or with 429.
func (l *loginLimiter) refused(address, user string, as *reply.Refusal) *reply.Refusal {
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host // all clients of a Unix socket are one
	}
	now := time.Since(l.began)
	byAddress, wait := l.addresses.Allow(address, 0, 0, now)
	byUser, waitUser := l.users.Allow(user, 0, 0, now)
	if byAddress && byUser {
		return as
	}
	return &reply.Refusal{Status: http.StatusTooManyRequests, Code: "too_many_logins", Text: "too many logins with a wrong API key: " + as.Text, After: max(wait, waitUser)}
}
