package plane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"dyno/services/control/catalog"
	"dyno/services/control/resource"
	"dyno/services/internal/wait"
)

// An instance with checks is checked by its holder. While that gives no signs of life, the other replicas share its
// checks, long before they take the instance over. Two replicas that check an instance for a moment do no harm: a
// change of health is made on condition that the instance has not changed.
//
// The stored instance has its health, so another replica goes on from there.

// dutyTTL is how long a sign of life counts for checks. sharePeriod is the pause between looks for replicas that are
// gone.
const (
	dutyTTL     = 3500 * time.Millisecond
	sharePeriod = 500 * time.Millisecond
)

// duties is which instances this replica checks. Plane.mu guards it.
type duties struct {
	checked map[string]*resource.Instance // all instances with checks, by path
	living  []string                      // the replicas with signs of life, by the last look, in order
}

// assign learns of an instance's present form; nil is none. p.mu is held.
func (p *Plane) assign(path string, i *resource.Instance) {
	if i == nil || !i.Checked() || isOfCopies(i.Holder) { // another control plane makes the checks of copies
		if p.checked[path] != nil {
			delete(p.checked, path)
			p.checker.Remove(path)
		}
		return
	}
	p.checked[path] = i
	p.perform(path, i)
}

// perform begins or ends the checks of an instance here. p.mu is held.
func (p *Plane) perform(path string, i *resource.Instance) {
	if i.Holder == p.self || checkedBy(path, i.Holder, p.living) == p.self {
		p.checker.Set(path, i)
	} else {
		p.checker.Remove(path)
	}
}

// checkedBy returns the replica that checks an instance: its holder, if that lives, or the one with the largest hash
// of both (rendezvous hashing), so that the instances of one that is gone spread evenly.
func checkedBy(path, holder string, living []string) (by string) {
	if slices.Contains(living, holder) {
		return holder
	}
	var most mark
	for _, name := range living {
		if m := markOf(name + "\x00" + path); by == "" || m > most {
			by, most = name, m
		}
	}
	return by
}

// share looks which replicas live, and shares the checks of the others.
func (p *Plane) share() {
	wait.Every(p.ctx, sharePeriod, func() {
		if p.Age() > dutyTTL/2 {
			return // others seem silent because this replica hears nothing
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if living := p.alive(p.now()); !slices.Equal(living, p.living) {
			p.living = living
			for path, i := range p.checked {
				p.perform(path, i)
			}
		}
	})
}

// alive returns the replicas with signs of life, in order.
func (p *presence) alive(now time.Duration) []string {
	living := []string{p.self}
	for name, heard := range p.replicas {
		if now-max(heard, p.awake) < dutyTTL {
			living = append(living, name)
		}
	}
	slices.Sort(living)
	return living
}

// hearChecked renews the leases of the instances that this replica holds, and that are not critical. p.mu is held.
func (p *Plane) hearChecked(now time.Duration) {
	for path, i := range p.checked {
		if i.Holder == p.self && i.DeregisterAfter > 0 && i.Health != resource.Critical {
			p.hear(path, i, now)
		}
	}
}

// check makes checks.
func (p *Plane) check() { p.checker.Run(p.ctx) }

// paths is a set of paths that waits for somebody.
type paths struct {
	mu    sync.Mutex // guards set
	set   map[string]bool
	ready chan struct{} // capacity 1
}

func newPaths() *paths { return &paths{set: map[string]bool{}, ready: make(chan struct{}, 1)} }

func (s *paths) add(path string) {
	s.mu.Lock()
	s.set[path] = true
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// take empties the set.
func (s *paths) take() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.set
	s.set = map[string]bool{}
	return all
}

// judge writes changed results of checks into their instances. While the store refuses, its pauses grow.
func (p *Plane) judge() {
	pause := minJudgePause
	for {
		select {
		case <-p.unjudged.ready:
		case <-p.ctx.Done():
			return
		}
		all := p.unjudged.take()
		var mu sync.Mutex // guards all
		err := atOnce(slices.Values(slices.Collect(maps.Keys(all))), func(path string, r resource.Ref) error {
			err := p.writeHealth(path, r)
			if err == nil || errors.As(err, new(*NotFound)) || errors.Is(err, ErrPrecondition) {
				mu.Lock()
				delete(all, path)
				mu.Unlock()
			}
			return err
		})
		if err == nil {
			pause = minJudgePause
			continue
		}
		p.log.Warn("the results of checks could not all be stored", "error", err, "again_in", pause.String())
		for path := range all {
			p.unjudged.add(path)
		}
		select {
		case <-time.After(pause):
		case <-p.ctx.Done():
			return
		}
		pause = min(2*pause, maxSettlePause)
	}
}

const minJudgePause = 100 * time.Millisecond

// writeHealth stores the results of an instance's checks, if they have changed.
func (p *Plane) writeHealth(path string, r resource.Ref) error {
	var before, after resource.Health
	result, err := p.apply(p.ctx, p.Itself(), change{
		ref: r, act: resource.Updated, noAudit: true,
		next: func(old *catalog.Item) (resource.Document, error) {
			if old == nil {
				return nil, &NotFound{r}
			}
			results, ok := p.checker.Results(path)
			next := *instanceOf(old)
			before, next.Results = next.Health, results
			next.Judge()
			after = next.Health
			if !ok || reflect.DeepEqual(next.Results, instanceOf(old).Results) {
				return nil, fmt.Errorf("%w: its results have not changed, or another replica checks it", ErrPrecondition)
			}
			return &next, nil
		},
	}, Options{})
	if err == nil && before != after {
		p.log.Info("the health of an instance has changed", "instance", r.String(), "from", string(before), "to", string(after), "why", why(result.Resource.(*resource.Instance)))
	}
	return err
}

// why returns the output of the first check that is as bad as its instance.
func why(i *resource.Instance) string {
	for _, r := range i.Results {
		if r.Health == i.Health {
			return r.Output
		}
	}
	return ""
}

// Maintain keeps requests away from an instance, for a reason; "" ends that.
func (p *Plane) Maintain(ctx context.Context, by Caller, r resource.Ref, reason string, o Options) (Result, error) {
	return p.apply(ctx, by, change{
		ref: r, act: resource.Maintained, asked: []byte(reason),
		next: func(old *catalog.Item) (resource.Document, error) {
			if old == nil {
				return nil, &NotFound{r}
			}
			next := *instanceOf(old)
			next.Maintenance = reason
			return &next, next.Check(p.Limits())
		},
	}, o)
}
