package claim

import (
	"context"
	"errors"
	"time"

	"dyno/services/bot/store"
)

// An end is the message to a coordinator at the end of a request.
type end struct {
	with        store.Coordinator
	lock        *store.Lock // nil is none
	turns       int64       // of its session
	reservation *store.Reservation
	used        store.Cost
}

// Pauses between attempts to end, and the number of attempts while the gateway closes. A reservation that is never
// settled is released when its lease ends. Then the limit counts too little; the ledger is right.
const (
	endPause     = 200 * time.Millisecond
	lastEndPause = 5 * time.Second
	triesAtClose = 4
)

// end sends it at once, and again later if it is not confirmed. Otherwise a finished turn would block the next one
// until the lease ends.
func (c *Claims) end(e end) {
	if e.lock == nil && e.reservation == nil || c.try(e) {
		return
	}
	until := time.Now().Add(c.Lease)
	if e.lock != nil {
		c.Missed()
	}
	if e.reservation != nil {
		until = e.reservation.At.Add(e.reservation.Lease)
	}
	c.endLater(e, until)
}

// try sends it once, and returns whether it was confirmed.
func (c *Claims) try(e end) bool {
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	err := e.with.End(ctx, e.lock, e.turns, e.reservation, e.used)
	if errors.Is(err, store.ErrGone) {
		c.unsettled(e, err)
	}
	return err == nil || errors.Is(err, store.ErrGone) || errors.Is(err, store.ErrUnlocked)
}

// unsettled notes that usage could not replace its reservation.
func (c *Claims) unsettled(e end, why error) {
	if e.reservation != nil && e.used != (store.Cost{}) {
		c.Logger.Warn("a reservation is not settled", "key", e.reservation.Key, "error", why)
		c.Unsettled()
	}
}

// endLater sends it in the background, until it is confirmed or until a given time.
func (c *Claims) endLater(e end, until time.Time) {
	select {
	case c.settling <- struct{}{}:
	default: // there is room for all running answers: this coordinator has not answered for long
		c.unsettled(e, errors.New("too many wait for the coordinator"))
		return
	}
	c.tasks.Go(func() {
		defer func() { <-c.settling }()
		tries, closing, unlocked := triesAtClose, c.closing.Done(), time.Now().Add(c.Lease)
		for pause := endPause; !c.try(e); {
			if tries == 0 || !time.Now().Before(until) {
				c.unsettled(e, errors.New("the coordinator does not answer"))
				return
			}
			t := time.NewTimer(pause)
			select {
			case <-t.C:
			case <-closing:
				t.Stop()
				closing, pause = nil, endPause
			}
			if closing == nil {
				tries--
			}
			if e.lock == nil || time.Now().After(unlocked) {
				pause = min(2*pause, lastEndPause)
			}
		}
	})
}
