package bot

import (
	"context"
	"errors"
	"sync"
	"time"

	"dyno/services/bot/ration"
)

// errCrowded says that there is no place, nor will there be one soon.
var errCrowded = errors.New("too many requests are under way")

// admission bounds what is under way, such as answers. Who finds no place waits in line. Both are shared out by key: the
// requests of one key wait for one another before they wait for those of others.
type admission struct {
	places  chan struct{}
	each    int // places of one key
	line    *ration.Ration
	patient time.Duration
	inside  sync.WaitGroup
}

// A visitor is a key at an admission.
type visitor struct {
	places chan struct{}
	line   ration.Holder
}

// newAdmission returns one for so many keys, of which each may have half of the places, and of the line, if there are
// others.
func newAdmission(places, waiting int, patient time.Duration, keys int) *admission {
	each := places
	if keys > 1 {
		each = (places + 1) / 2
	}
	return &admission{places: make(chan struct{}, places), each: each, line: ration.New(int64(waiting), keys), patient: patient}
}

func (a *admission) visitor() *visitor { return &visitor{places: make(chan struct{}, a.each)} }

// enter returns when there is a place, and how long that took. Who has entered must
// leave.
func (a *admission) enter(ctx context.Context, v *visitor) (time.Duration, error) {
	stages := [...]chan struct{}{v.places, a.places}
	got := 0
	for got < len(stages) {
		select {
		case stages[got] <- struct{}{}:
			got++
			continue
		default:
		}
		break
	}
	if got == len(stages) {
		a.inside.Add(1)
		return 0, nil
	}
	back := func() {
		if got > 0 {
			<-v.places
		}
	}
	line := a.line.Share(&v.line)
	if !line.Hold(1) {
		back()
		return 0, errCrowded
	}
	defer line.Keep(0)
	began := time.Now()
	t := time.NewTimer(a.patient)
	defer t.Stop()
	for ; got < len(stages); got++ {
		select {
		case stages[got] <- struct{}{}:
		case <-t.C:
			back()
			return time.Since(began), errCrowded
		case <-ctx.Done():
			back()
			return time.Since(began), ctx.Err()
		}
	}
	a.inside.Add(1)
	return time.Since(began), nil
}

func (a *admission) leave(v *visitor) {
	<-a.places
	<-v.places
	a.inside.Done()
}

// taken is how many places are.
func (a *admission) taken() int { return len(a.places) }

// waiting is how many wait in line.
func (a *admission) waiting() int64 { return a.line.Held() }

// wait returns when nobody is inside.
func (a *admission) wait() { a.inside.Wait() }
