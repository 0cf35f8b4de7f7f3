package bot

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// errCrowded says that there is no place, nor will there be one soon.
var errCrowded = errors.New("too many requests are under way")

// admission bounds the answers under way. Who finds no place waits in line.
type admission struct {
	places  chan struct{}
	most    int64
	patient time.Duration
	waiting atomic.Int64
	inside  sync.WaitGroup
}

func newAdmission(places, waiting int, patient time.Duration) *admission {
	return &admission{places: make(chan struct{}, places), most: int64(waiting), patient: patient}
}

// enter returns when there is a place, and how long that took. Who has entered must
// leave.
func (a *admission) enter(ctx context.Context) (time.Duration, error) {
	select {
	case a.places <- struct{}{}:
		a.inside.Add(1)
		return 0, nil
	default:
	}
	defer a.waiting.Add(-1)
	if a.waiting.Add(1) > a.most {
		return 0, errCrowded
	}
	began := time.Now()
	t := time.NewTimer(a.patient)
	defer t.Stop()
	select {
	case a.places <- struct{}{}:
		a.inside.Add(1)
		return time.Since(began), nil
	case <-t.C:
		return time.Since(began), errCrowded
	case <-ctx.Done():
		return time.Since(began), ctx.Err()
	}
}

func (a *admission) leave() {
	<-a.places
	a.inside.Done()
}

// taken is how many places are.
func (a *admission) taken() int { return len(a.places) }

// wait returns when nobody is inside.
func (a *admission) wait() { a.inside.Wait() }
