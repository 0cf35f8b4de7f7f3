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

// A ration bounds the bytes of requests' bodies that are held: of all, and of each key, so that one alone does not
// keep the others out.
type ration struct {
	most, each int64
	all        atomic.Int64
}

// newRation returns a ration of so many bytes for so many keys. Each may have half of it.
func newRation(most int64, keys int) *ration {
	each := most
	if keys > 1 {
		each /= 2
	}
	return &ration{most: most, each: each}
}

// take takes so many bytes for whoever has taken of so far, if there are as many.
func (r *ration) take(of *atomic.Int64, n int64) bool {
	if of.Add(n) > r.each {
		of.Add(-n)
		return false
	}
	if r.all.Add(n) > r.most {
		r.giveBack(of, n)
		return false
	}
	return true
}

func (r *ration) giveBack(of *atomic.Int64, n int64) {
	of.Add(-n)
	r.all.Add(-n)
}
