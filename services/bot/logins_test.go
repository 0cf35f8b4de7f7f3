package bot

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"dyno/services/bot/reply"
)

// TestLoginLimiter: an address has a number of tries at once, and more after a while; others have theirs.
func TestLoginLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoginLimiter()
		wrong := reply.Refuse(http.StatusUnauthorized, "", "wrong")
		answered := func(address, user string) bool { return l.refused(address, user, wrong) == wrong }
		for i := range addressBurst {
			if !answered(fmt.Sprint("192.0.2.1:", i), fmt.Sprint(i)) {
				t.Fatalf("only %d at once from one address", i)
			}
		}
		if answered("192.0.2.1:1", "other") || !answered("192.0.2.2:1", "next") {
			t.Error("an address has its own, and no more")
		}
		wait := l.refused("192.0.2.1:1", "third", wrong).After
		if time.Sleep(wait + time.Nanosecond); !answered("192.0.2.1:1", "fourth") {
			t.Errorf("not answered after %v", wait)
		}
	})
}
