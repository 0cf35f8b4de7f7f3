package plane

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"dyno/services/control/access"
	"dyno/services/control/catalog"
	"dyno/services/control/resource"
	"dyno/services/internal/wait"
)

// timeNow is the time of day.
func timeNow() time.Time { return time.Now() }

// changedAt returns when a resource was changed.
func changedAt(i *catalog.Item) (time.Time, bool) {
	if d, ok := i.Resource.(resource.Document); ok {
		return d.Changed().At, true
	}
	var c resource.Change
	if err := json.Unmarshal(i.Body, &c); err != nil {
		return time.Time{}, false
	}
	return c.At, true
}

// lookPeriod is the pause between two looks for silent instances. signPeriod is the pause between a replica's signs
// of life, and replicaTTL how long one counts.
const (
	lookPeriod = time.Second
	signPeriod = time.Second
	replicaTTL = 20 * time.Second
)

// Register makes an instance known. Registering a known instance again is a heartbeat, and costs no write: after an
// outage, all instances may do it at once.
func (p *Plane) Register(ctx context.Context, by Caller, i *resource.Instance, o Options) (Result, error) {
	if err := cmp.Or(by.may(access.Register, i.Namespace), p.readOnly(), p.isCopied(i.Ref())); err != nil {
		return Result{}, err
	}
	i.Default()
	i.Keep(nil)
	i.Holder = p.cfg.Replica
	if err := i.Check(p.Limits()); err != nil {
		return Result{}, err
	}
	r := i.Ref()
	// The instance may just have been removed, here or at another replica. If that cannot be found out, the write
	// below has a condition.
	if o == (Options{}) && p.catchUp(ctx) == nil {
		if old := p.catalog.Get(r); old != nil && same(old.Resource.(*resource.Instance), i) {
			if known, err := p.beat(r); known && err == nil {
				return Result{Item: old}, nil
			}
		}
	}
	plain := *i
	plain.Holder = "" // a request to another replica has the same hash
	asked, err := json.Marshal(plain)
	if err != nil {
		return Result{}, err
	}
	result, err := p.apply(ctx, by, change{
		ref: r, act: resource.Registered, asked: asked,
		next: func(old *catalog.Item) (resource.Document, error) {
			next := *i
			next.Keep(instanceOf(old))
			return &next, nil
		},
	}, o)
	if err == nil && !o.DryRun && !result.Repeated {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hear(r.Path(), i, p.now()) // this replica may not have learnt of it yet
		p.metrics.beats.Inc()
	}
	return result, err
}

// same reports whether two instances are equal, as far as their clients say what they are.
func same(a, b *resource.Instance) bool {
	return a.Address == b.Address && a.Port == b.Port && a.Zone == b.Zone && a.Weight == b.Weight && a.Status == b.Status &&
		a.TTL == b.TTL && maps.Equal(a.Metadata, b.Metadata) && a.DeregisterAfter == b.DeregisterAfter && reflect.DeepEqual(a.Checks, b.Checks)
}

// beat notes a heartbeat of an instance that this replica knows. The error says why it cannot be reported to the
// holder.
func (p *Plane) beat(r resource.Ref) (known bool, err error) {
	// Under the lock, so that a change of the holder is learnt after this heartbeat, and forgets it.
	p.mu.Lock()
	defer p.mu.Unlock()
	item := p.catalog.Get(r)
	if item == nil {
		return false, nil
	}
	now, i := p.now(), item.Resource.(*resource.Instance)
	if i.Checked() {
		return true, nil // its checks say whether it lives
	}
	if i.Holder != p.cfg.Replica && !p.liveness.Knows(item.Path) {
		if err := p.sendFailure.why(now); err != nil {
			return true, fmt.Errorf("cannot report this heartbeat to replica %s, which holds the instance: %w", i.Holder, err)
		}
	}
	p.hear(item.Path, i, now)
	p.metrics.beats.Inc()
	return true, nil
}

// Heartbeat notes that an instance is alive, whichever replica holds it. It writes nothing. After NotFound, its
// client has to register again.
func (p *Plane) Heartbeat(ctx context.Context, by Caller, r resource.Ref) error {
	return p.heartbeats(ctx, by, []resource.Ref{r})[0]
}

// adopt takes an instance over from a replica that is gone.
func (p *Plane) adopt(r resource.Ref, from string) error {
	_, err := p.apply(p.ctx, p.Itself(), change{
		ref: r, act: resource.Updated,
		next: func(old *catalog.Item) (resource.Document, error) {
			if old == nil {
				return nil, &NotFound{r}
			}
			next := *old.Resource.(*resource.Instance)
			if next.Holder != from {
				return nil, fmt.Errorf("%w: %s has it", ErrPrecondition, next.Holder)
			}
			next.Holder = p.cfg.Replica
			return &next, nil
		},
	}, Options{})
	return err
}

// Overdue reports which instances are silent for longer than their TTL, or were removed since they were read. Clients
// should try such instances last.
func (p *Plane) Overdue(items []*catalog.Item) []bool {
	overdue := make([]bool, len(items))
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, item := range items {
		overdue[n] = p.isOverdue(item.Path)
	}
	return overdue
}

// Late returns the overdue instances of all replicas, in no order. Some may have been removed.
func (p *Plane) Late() []resource.Ref {
	p.mu.Lock()
	paths := p.overdue()
	p.mu.Unlock()
	refs := make([]resource.Ref, 0, len(paths))
	for _, path := range paths {
		if r, err := resource.ParsePath(path); err == nil {
			refs = append(refs, r)
		}
	}
	return refs
}

// silence returns for how long an instance has not been heard; ok is false if another replica watches it.
func (p *Plane) silence(i *resource.Instance) (silence time.Duration, ok bool) {
	path := i.Ref().Path()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.liveness.Silence(path, p.now())
}

// Pulse returns the state of the instances that this replica watches. A follower returns its primary's.
func (p *Plane) Pulse() resource.Pulse {
	if f := p.Following(); f != nil {
		return f.Liveness
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.liveness.Pulse()
}

// learnOfInstances updates the presence with changes of instances. p.mu is held.
func (p *Plane) learnOfInstances(deltas []catalog.Delta) {
	now := p.now()
	for _, d := range deltas {
		one := d.New
		if one == nil {
			one = d.Old
		}
		if one.Kind == resource.Instances {
			after := p.heldInstance(d.New)
			p.learn(one.Path, p.heldInstance(d.Old), after, now)
			p.assign(one.Path, after)
		}
	}
}

// heldInstance returns an item's instance with the holder that this replica takes it for: at a follower, the primary.
func (p *Plane) heldInstance(i *catalog.Item) *resource.Instance {
	one := instanceOf(i)
	if one == nil || !p.follows() {
		return one
	}
	held := *one
	held.Holder = followed
	return &held
}

// instanceOf returns an item's instance, or nil.
func instanceOf(i *catalog.Item) *resource.Instance {
	if i == nil {
		return nil
	}
	return i.Resource.(*resource.Instance)
}

// lookForSilent regularly finds silent instances. It hands them to settle, if that is not busy; the next look finds
// them again. Settle is separate, so that the removal of many instances does not look like a pause of this process.
func (p *Plane) lookForSilent() {
	wait.Every(p.ctx, lookPeriod, func() {
		p.ledger.Sweep(timeNow())
		if p.Age() > p.cfg.Liveness.StallThreshold {
			return // the silence may be due to this process: the next look detects the pause
		}
		now := p.now()
		p.mu.Lock()
		if now-p.looked > p.cfg.Liveness.StallThreshold {
			p.pause(now)
		}
		p.looked = now
		p.hearChecked(now)
		f := found{p.look(now), p.orphans()}
		p.mu.Unlock()
		if len(f.gone)+len(f.orphans) == 0 {
			return
		}
		select {
		case p.settling <- f:
		default:
		}
	})
}

// found is the result of a look: the paths of instances to remove, and of those to take over, with their holders.
type found struct {
	gone    []string
	orphans map[string]string
}

// settle removes and takes over the instances found. While the store refuses, its pauses grow.
func (p *Plane) settle() {
	pause := lookPeriod
	for {
		var f found
		select {
		case f = <-p.settling:
		case <-p.ctx.Done():
			return
		}
		err := errors.Join(p.removeGone(f.gone), p.takeOver(f.orphans))
		switch {
		case p.ctx.Err() != nil:
			return
		case err == nil:
			pause = lookPeriod
			continue
		}
		p.log.Warn("silent instances stay overdue: they could not all be removed or taken over", "error", err, "again_in", pause.String())
		select {
		case <-time.After(pause):
		case <-p.ctx.Done():
			return
		}
		pause = min(2*pause, maxSettlePause)
	}
}

// workers is how many instances are removed or taken over at a time. The store groups these changes; there are fewer
// of them than fit into one group.
const workers = 64

// maxSettlePause bounds the delay of removals after the store accepts changes again.
const maxSettlePause = 15 * time.Second

// atOnce calls do for each path, from a number of workers. A worker ends at its first error, so a store that refuses
// everything gets at most that many requests. It returns the first error.
func atOnce(paths iter.Seq[string], do func(path string, r resource.Ref) error) error {
	var first error
	var once sync.Once
	next, stop := iter.Pull(paths)
	defer stop()
	var mu sync.Mutex // guards next
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				mu.Lock()
				path, ok := next()
				mu.Unlock()
				if !ok {
					return
				}
				r, err := resource.ParsePath(path)
				if err == nil {
					err = do(path, r)
				}
				if err != nil && !errors.As(err, new(*NotFound)) && !errors.Is(err, ErrPrecondition) {
					once.Do(func() { first = fmt.Errorf("%s: %w", path, err) })
					return
				}
			}
		})
	}
	all.Wait()
	return first
}

// takeOver takes over the instances of replicas without signs of life. First it reports what this replica knows of
// them, so that other replicas never show them as healthy.
func (p *Plane) takeOver(orphans map[string]string) error {
	if len(orphans) == 0 {
		return nil
	}
	if err := p.reportDue(); err != nil {
		return err
	}
	return atOnce(maps.Keys(orphans), func(path string, r resource.Ref) error {
		err := p.adopt(r, orphans[path])
		if err == nil {
			p.metrics.adopted.Inc()
			p.log.Info("instance taken over", "instance", r.String(), "from", orphans[path])
		}
		return err
	})
}

// removeGone removes expired instances.
func (p *Plane) removeGone(paths []string) error {
	return atOnce(slices.Values(paths), p.removeOne)
}

// removeOne removes an expired instance, unless it was heard or registered again meanwhile, or another replica has
// it.
func (p *Plane) removeOne(path string, r resource.Ref) error {
	item := p.catalog.Get(r)
	if item == nil {
		return nil
	}
	instance := item.Resource.(*resource.Instance)
	if instance.Holder != p.cfg.Replica {
		return nil
	}
	_, err := p.apply(p.ctx, p.Itself(), change{
		ref: r, act: resource.Expired,
		next: func(old *catalog.Item) (resource.Document, error) {
			if old == nil {
				return nil, &NotFound{r}
			}
			if old.Version != item.Version {
				return nil, fmt.Errorf("%w: it was registered again", ErrPrecondition)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if !p.liveness.Gone(path) {
				return nil, fmt.Errorf("%w: it was heard again", ErrPrecondition)
			}
			return nil, nil
		},
	}, Options{})
	if err == nil {
		p.metrics.expired.Inc()
		p.log.Info("instance removed: it was silent", "instance", r.String(), "ttl", instance.Lease())
	}
	return err
}
