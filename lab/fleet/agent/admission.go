package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
)

// FenceHeader carries the fencing number of a run with exclusive use of the machine.
const FenceHeader = "Dyno-Fence"

// Terms say which parts an agent accepts.
type Terms struct {
	Cordoned  bool  // none
	Exclusive bool  // only parts with the fence, or a higher one
	Fence     int64 // a part with a lower one belongs to a run that has lost the machine
}

// An admission decides which parts begin. Parts without a fence, and parts with one, never run at the same
// time.
type admission struct {
	mu      sync.Mutex // guards the fields below
	terms   Terms
	running map[*admitted]bool
}

// An admitted part is running.
type admitted struct {
	fence int64 // 0: none
	end   context.CancelFunc
	ended chan struct{}
}

// set sets the terms. It keeps the highest fence so far.
func (a *admission) set(t Terms) {
	a.mu.Lock()
	t.Fence = max(t.Fence, a.terms.Fence)
	a.terms = t
	stale := a.endStale()
	a.mu.Unlock()
	wait(stale)
}

// endStale ends the parts with a lower fence than the highest.
func (a *admission) endStale() (stale []*admitted) {
	for p := range a.running {
		if p.fence > 0 && p.fence < a.terms.Fence {
			p.end()
			stale = append(stale, p)
		}
	}
	return stale
}

func wait(parts []*admitted) {
	for _, p := range parts {
		<-p.ended
	}
}

// enter admits a part with a fence, or returns the reason why not. Parts with a lower fence have ended then. The
// returned context ends when the part must end. Call leave after the part has ended.
func (a *admission) enter(ctx context.Context, fence int64) (_ context.Context, leave func(), err error) {
	p := &admitted{fence: fence, ended: make(chan struct{})}
	ctx, p.end = context.WithCancel(ctx)
	stale, err := a.add(p)
	if err != nil {
		p.end()
		return nil, nil, err
	}
	wait(stale)
	return ctx, func() {
		p.end()
		a.mu.Lock()
		delete(a.running, p)
		a.mu.Unlock()
		close(p.ended)
	}, nil
}

// add adds a running part, and ends those with a lower fence.
func (a *admission) add(p *admitted) (stale []*admitted, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.refuse(p.fence); err != nil {
		return nil, err
	}
	a.terms.Fence = max(a.terms.Fence, p.fence)
	stale = a.endStale()
	if a.running == nil {
		a.running = map[*admitted]bool{}
	}
	a.running[p] = true
	return stale, nil
}

// check returns why a part with a fence would not be admitted now.
func (a *admission) check(fence int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refuse(fence)
}

func (a *admission) refuse(fence int64) error {
	switch {
	case a.terms.Cordoned:
		return errors.New("it is cordoned: dyno fleet uncordon lets it take parts again")
	case fence > 0 && fence < a.terms.Fence:
		return fmt.Errorf("fence %d: another run has got the machine, with fence %d", fence, a.terms.Fence)
	case fence == 0 && a.terms.Exclusive:
		return errors.New("another run has the machine for itself: wait, or choose another agent")
	}
	for p := range a.running {
		if (p.fence == 0) != (fence == 0) {
			return errors.New("it carries parts of another run, and one of the two wants the machine for itself: wait, or choose another agent")
		}
	}
	return nil
}

// fenceOf parses a request's fence; 0 is none.
func fenceOf(r *http.Request) (int64, error) {
	text := r.Header.Get(FenceHeader)
	if text == "" {
		return 0, nil
	}
	fence, err := strconv.ParseInt(text, 10, 64)
	if err != nil || fence < 1 {
		return 0, fmt.Errorf("%s: %.40q is not a positive number", FenceHeader, text)
	}
	return fence, nil
}
