package bot

import (
	"net"
	"net/http"
	"time"

	"dyno/internal/rate"
	"dyno/services/bot/reply"
)

// A loginLimiter limits logins with a wrong API key, by the client's address and by the user's name. Valid keys are
// not limited: many users come through one proxy, and anybody can send a user's name. Keys are too long to be guessed
// at any rate.
type loginLimiter struct {
	began            time.Time
	addresses, users *rate.Limiter
}

// The limits on logins with a wrong key: per second, at once, and the number of remembered addresses or users.
const (
	addressRate, addressBurst = 10, 100
	userRate, userBurst       = 1, 10
	rememberedLogins          = 10_000
)

// newLoginLimiter returns a limiter without a history.
func newLoginLimiter() *loginLimiter {
	return &loginLimiter{time.Now(), rate.NewLimiter(addressRate, addressBurst, rememberedLogins), rate.NewLimiter(userRate, userBurst, rememberedLogins)}
}

// refused returns the answer to a refused login: as given, or 429.
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
