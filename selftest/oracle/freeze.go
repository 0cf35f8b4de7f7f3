package oracle

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxFreezes bounds the freezes a server records; later ones happen unrecorded.
const maxFreezes = 1 << 16

// A Freezing is one time the server stood still.
type Freezing struct {
	Start   time.Time     // with a monotonic reading
	Length  time.Duration // from Start; never less than was asked for unless the server was closed
	Drain   time.Duration // from the end of the freeze until nothing was left to read
	Backlog int64         // requests served during the drain
	Drained bool          // false while draining, or when the next freeze came first
}

// A Freeze server answers at once but for its freezes, in which it neither
// reads, writes nor accepts. FreezeQuantile says what clients see.
type Freeze struct {
	*Server

	hold, period time.Duration

	// Guarded by Server.mu.
	log      []Freezing
	next     int64 // when the next freeze is due
	ended    int64 // when the last one ended
	received int64 // Traffic.Received then
	draining bool
}

// StartFreeze starts a server that freezes for hold in every period, the first
// time one period after its start. Freezes that fall into another are left out.
func StartFreeze(ctx context.Context, config Config, hold, period time.Duration) (*Freeze, error) {
	err := errors.Join(config.validateHTTP(), validDuration("hold", hold), validDuration("period", period))
	if hold >= period {
		err = errors.Join(err, fmt.Errorf("oracle: hold: %v: must be less than the period, %v", hold, period))
	}
	if err != nil {
		return nil, err
	}
	s, err := listen(config)
	if err != nil {
		return nil, err
	}
	f := &Freeze{Server: s, hold: hold, period: period, next: int64(period)}
	s.policy.request, s.policy.tick, s.policy.idle = s.answerer(), f.freeze, f.drained
	s.after(f.next, nil)
	s.run(ctx)
	return f, nil
}

// freeze stands still.
func (f *Freeze) freeze() {
	started := f.now()
	f.rest(f.hold)
	f.ended = f.now()
	f.received = f.traffic.Received
	f.draining = len(f.log) < maxFreezes
	if f.draining {
		f.log = append(f.log, Freezing{
			Start:  f.start.Add(time.Duration(started)),
			Length: time.Duration(f.ended - started),
		})
	}
	for f.next <= f.ended {
		f.next += int64(f.period)
	}
	f.after(f.next, nil)
}

// drained notes the end of a drain: the loop found nothing to read.
func (f *Freeze) drained() {
	if !f.draining {
		return
	}
	f.draining = false
	last := &f.log[len(f.log)-1]
	last.Drain = time.Duration(f.now() - f.ended)
	last.Backlog = f.traffic.Received - f.received
	last.Drained = true
}

// Log returns the freezes so far, at most the first 65,536.
func (f *Freeze) Log() []Freezing {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Freezing(nil), f.log...)
}
