package plane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"dyno/services/control/access"
	"dyno/services/control/catalog"
	"dyno/services/control/resource"
	"dyno/services/control/store"
)

// timeNow is the time of day.
func timeNow() time.Time { return time.Now() }

// changedAt is when a resource was changed.
func changedAt(i *catalog.Item) (time.Time, bool) {
	switch r := i.Resource.(type) {
	case *resource.Config:
		return r.At, true
	case *resource.Instance:
		return r.At, true
	}
	var c resource.Change
	if err := json.Unmarshal(i.Body, &c); err != nil {
		return time.Time{}, false
	}
	return c.At, true
}

// reapPeriod is how often expired instances are removed, signPeriod how often a replica gives a
// sign of life, and replicaTTL how long one is believed.
const (
	reapPeriod = time.Second
	signPeriod = 5 * time.Second
	replicaTTL = 20 * time.Second
)

// Register makes an instance known. Registering a known instance again
// is a heartbeat and costs no write: after an outage, all may do it at once.
func (p *Plane) Register(ctx context.Context, by Caller, i *resource.Instance, o Options) (Result, error) {
	if err := by.may(access.Register, i.Namespace); err != nil {
		return Result{}, err
	}
	i.Default()
	i.Holder = p.cfg.Replica
	if err := i.Check(p.cfg.Limits); err != nil {
		return Result{}, err
	}
	r := i.Ref()
	// What was removed a moment ago, here or at another replica, is not known still. Who
	// cannot find out registers by a write, which has a condition.
	if o == (Options{}) && p.catchUp(ctx) == nil {
		if old := p.catalog.Get(r); old != nil && same(old.Resource.(*resource.Instance), i) && p.beat(r) {
			return Result{Item: old}, nil
		}
	}
	plain := *i
	plain.Holder = "" // the same is asked for at another replica
	asked, err := json.Marshal(plain)
	if err != nil {
		return Result{}, err
	}
	return p.apply(ctx, by, change{
		ref: r, act: resource.Registered, asked: asked, noHistory: true,
		bounds: []bound{
			p.bound(resource.Instances, "instances", p.cfg.Limits.Instances),
			{"instances of this service", p.cfg.Limits.PerService, func() int { return p.catalog.CountService(r.Namespace, r.Name) }},
		},
		next: func(*catalog.Item) (any, error) {
			next := *i
			return &next, nil
		},
	}, o)
}

// same tells whether two instances differ in nothing but who changed them.
func same(a, b *resource.Instance) bool {
	return a.Address == b.Address && a.Port == b.Port && a.Zone == b.Zone && a.Weight == b.Weight && a.Status == b.Status &&
		a.TTL == b.TTL && a.Holder == b.Holder && maps.Equal(a.Metadata, b.Metadata)
}

// beat notes a heartbeat of an instance, if this replica holds it.
func (p *Plane) beat(r resource.Ref) bool {
	// Under the lock, so that learn forgets it afterwards if it is another's by then.
	p.mu.Lock()
	defer p.mu.Unlock()
	item := p.catalog.Get(r)
	if item == nil {
		return false
	}
	i := item.Resource.(*resource.Instance)
	if i.Holder != p.cfg.Replica {
		return false
	}
	p.liveness.Beat(item.Path, i.Lease(), p.now())
	p.metrics.beats.Inc()
	return true
}

// Heartbeat notes that an instance is alive. NotFound tells its client to register
// again. It writes nothing, unless the instance's heartbeats came to another replica
// before.
func (p *Plane) Heartbeat(ctx context.Context, by Caller, r resource.Ref) error {
	if err := by.may(access.Register, r.Namespace); err != nil {
		return err
	}
	return p.heartbeat(ctx, by, r)
}

func (p *Plane) heartbeat(ctx context.Context, by Caller, r resource.Ref) error {
	if p.beat(r) {
		return nil
	}
	if p.catalog.Get(r) == nil {
		// Perhaps it was registered a moment ago, elsewhere.
		if err := r.Check(); err != nil {
			return err
		}
		if err := p.catchUp(ctx); err != nil {
			return err
		}
		if p.catalog.Get(r) == nil {
			return &NotFound{r}
		}
		if p.beat(r) {
			return nil
		}
	}
	return p.adopt(ctx, by, r, "")
}

// adopt takes an instance over from another replica, or from whichever has it.
func (p *Plane) adopt(ctx context.Context, by Caller, r resource.Ref, from string) error {
	_, err := p.apply(ctx, by, change{
		ref: r, act: resource.Updated, noHistory: true,
		next: func(old *catalog.Item) (any, error) {
			if old == nil {
				return nil, &NotFound{r}
			}
			next := *old.Resource.(*resource.Instance)
			if from != "" && next.Holder != from {
				return nil, fmt.Errorf("%w: %s has it", ErrPrecondition, next.Holder)
			}
			next.Holder = p.cfg.Replica
			return &next, nil
		},
	}, Options{})
	if err == nil {
		p.metrics.adopted.Inc()
	}
	return err
}

// Overdue tells whether an instance is silent for longer than it said, and kept: its
// readers should try it last. Only the replica that has its heartbeats knows.
func (p *Plane) Overdue(r resource.Ref) bool {
	path := r.Path()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.liveness.Overdue(path)
}

// Late returns the instances that are, in no order.
func (p *Plane) Late() []resource.Ref {
	p.mu.Lock()
	paths := p.liveness.Late()
	p.mu.Unlock()
	refs := make([]resource.Ref, 0, len(paths))
	for _, path := range paths {
		if r, err := resource.ParsePath(path); err == nil {
			refs = append(refs, r)
		}
	}
	return refs
}

// silence is for how long an instance has not been heard; ok is false where its heartbeats
// come to another replica.
func (p *Plane) silence(i *resource.Instance) (silence time.Duration, ok bool) {
	if i.Holder != p.cfg.Replica {
		return 0, false
	}
	path := i.Ref().Path()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.liveness.Silence(path, p.now())
}

// Pulse says how instances stand.
func (p *Plane) Pulse() resource.Pulse {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.liveness.Pulse()
}

func cutReplica(key string) (name string, ok bool) {
	return strings.CutPrefix(key, store.State+replicaPrefix)
}

// learn has the liveness follow what instances there are whose heartbeats come here. Of
// another replica's, nothing is heard here, so that each would seem silent.
func (p *Plane) learn(deltas []catalog.Delta, signs []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for _, name := range signs {
		if name != p.cfg.Replica {
			p.replicas[name] = now
		}
	}
	for _, d := range deltas {
		if i := instanceOf(d.Old); i != nil && (d.New == nil || instanceOf(d.New).Holder != i.Holder) {
			p.liveness.Forget(d.Old.Path)
			delete(p.others[i.Holder], d.Old.Path)
			if len(p.others[i.Holder]) == 0 {
				delete(p.others, i.Holder)
			}
		}
		i := instanceOf(d.New)
		switch {
		case i == nil:
		case i.Holder == p.cfg.Replica:
			p.liveness.Beat(d.New.Path, i.Lease(), now)
		default:
			if p.others[i.Holder] == nil {
				p.others[i.Holder] = map[string]struct{}{}
			}
			p.others[i.Holder][d.New.Path] = struct{}{}
		}
	}
}

// instanceOf returns the instance that an item is, or nil.
func instanceOf(i *catalog.Item) *resource.Instance {
	if i == nil || i.Kind != resource.Instances {
		return nil
	}
	return i.Resource.(*resource.Instance)
}

// sign gives signs of life to other replicas, whatever else this one is at.
func (p *Plane) sign() {
	giveSigns(p.ctx, func() error {
		value := timeNow().UTC().Format(time.RFC3339) + " " + p.sender
		_, err := p.store.Apply(p.ctx, store.Request{Then: []store.Op{{Key: p.signKey(), Value: []byte(value), Expires: true}}})
		if err != nil {
			p.log.Debug("no sign of life to other replicas", "error", err)
		}
		return err
	})
}

// signKey is where this replica gives signs of life.
func (p *Plane) signKey() string { return store.State + replicaPrefix + p.cfg.Replica }

// busyPause is for how long a sign waits for room in the queue, which it shares with all changes.
const busyPause = 20 * time.Millisecond

// giveSigns gives one each signPeriod until ctx ends, and tries again soon where the queue was
// full: others take over the instances of a replica whose signs are missing.
func giveSigns(ctx context.Context, give func() error) {
	ticker := time.NewTicker(signPeriod)
	defer ticker.Stop()
	for {
		var again <-chan time.Time
		if err := give(); errors.Is(err, store.ErrBusy) {
			again = time.After(busyPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-ticker.C:
		}
	}
}

// A duplicateReplica is another process that gives signs of life under this replica's name. Each of the two
// takes the instances for its own, and hears only some.
type duplicateReplica struct {
	own    string // sender of this process's signs
	begun  bool   // one of them has been seen: what comes after it is of a process that lives
	sender string // of the last sign by somebody else since
	signs  int    // of that sender, without one of another between
	at     time.Duration
}

// duplicateSigns are how many signs show that there is a duplicate. One may be the last of a process that
// this one has replaced.
const duplicateSigns = 2

// see takes a sign under this replica's name, in the order of revisions, and tells whether it
// shows a duplicate that had not been shown.
func (d *duplicateReplica) see(sender string, now time.Duration) bool {
	switch {
	case sender == d.own:
		d.begun = true
		return false
	case !d.begun:
		return false // it was given before this process began
	case sender != d.sender || now-d.at > replicaTTL:
		d.sender, d.signs = sender, 0
	}
	d.at = now
	d.signs++
	return d.signs == duplicateSigns
}

// there tells whether there is a duplicate.
func (d *duplicateReplica) there(now time.Duration) bool {
	return d.signs >= duplicateSigns && now-d.at < replicaTTL
}

// detectDuplicateReplica looks for signs of life under this replica's name that are not its own.
func (p *Plane) detectDuplicateReplica(events []store.Event) {
	key := p.signKey()
	for _, e := range events {
		if e.Key != key || e.Removed {
			continue
		}
		_, sender, _ := strings.Cut(string(e.Value), " ")
		p.mu.Lock()
		shown := p.duplicate.see(sender, p.now())
		p.mu.Unlock()
		if shown {
			p.log.Error("another process is a replica of this name, and instances are lost: each replica must have a name of its own (--replica)", "replica", p.cfg.Replica)
		}
	}
}

// NameTaken tells whether another process gives signs of life under this replica's name.
func (p *Plane) NameTaken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.duplicate.there(p.now())
}

// reapExpired removes instances that have gone, and takes over those of replicas that have.
func (p *Plane) reapExpired() {
	ticker := time.NewTicker(reapPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-ticker.C:
		}
		p.ledger.Sweep(timeNow())
		p.forgetReplicas()
		if p.Age() > p.cfg.Liveness.StallThreshold {
			continue // what is missing may be ours: the next look finds that this was a pause
		}
		now := p.now()
		p.mu.Lock()
		if now-p.looked > p.cfg.Liveness.StallThreshold {
			p.awake = now
		}
		p.looked = now
		gone := p.liveness.Look(now)
		p.mu.Unlock()
		for _, path := range gone {
			p.end(path)
		}
		p.takeOver(p.now())
	}
}

// takeOver takes over the instances of replicas that give no signs of life. After a pause
// there may be signs that have yet to arrive, as there may be heartbeats.
func (p *Plane) takeOver(now time.Duration) {
	for path, holder := range p.orphans(now) {
		if p.now()-now > reapPeriod {
			return // the next look goes on
		}
		r, err := resource.ParsePath(path)
		if err != nil {
			continue // it was one when it was put there
		}
		err = p.adopt(p.ctx, p.Itself(), r, holder)
		var missing *NotFound
		switch {
		case err == nil:
			p.log.Info("instance taken over", "instance", r.String(), "from", holder)
		case errors.As(err, &missing) || errors.Is(err, ErrPrecondition):
		default:
			p.log.Warn("instance not taken over", "instance", r.String(), "from", holder, "error", err)
		}
	}
}

// orphans returns the paths of instances whose holders have gone, with their holders.
func (p *Plane) orphans(now time.Duration) map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now-p.awake < p.cfg.Liveness.RecoveryGrace {
		return nil
	}
	var orphans map[string]string
	for holder, paths := range p.others {
		if now-max(p.replicas[holder], p.awake) < replicaTTL {
			continue
		}
		if orphans == nil {
			orphans = make(map[string]string, len(paths))
		}
		for path := range paths {
			orphans[path] = holder
		}
	}
	return orphans
}

// forgetReplicas forgets those that have long gone.
func (p *Plane) forgetReplicas() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, heard := range p.replicas {
		if p.now()-heard > 100*replicaTTL {
			delete(p.replicas, name)
		}
	}
}

// end removes an instance that has gone, unless another replica has it meanwhile.
func (p *Plane) end(path string) {
	r, err := resource.ParsePath(path)
	if err != nil {
		return // it was one when it was put there
	}
	item := p.catalog.Get(r)
	if item == nil {
		return
	}
	instance := item.Resource.(*resource.Instance)
	if instance.Holder != p.cfg.Replica {
		return
	}
	_, err = p.apply(p.ctx, p.Itself(), change{
		ref: r, act: resource.Expired, noHistory: true,
		next: func(old *catalog.Item) (any, error) {
			if old == nil {
				return nil, &NotFound{r}
			}
			if old.Version != item.Version {
				return nil, fmt.Errorf("%w: it was registered again", ErrPrecondition)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.liveness.Knows(path) {
				return nil, fmt.Errorf("%w: it was heard again", ErrPrecondition)
			}
			return nil, nil
		},
	}, Options{})
	var missing *NotFound
	switch {
	case err == nil:
		p.metrics.expired.Inc()
		p.log.Info("instance removed: it was silent", "instance", r.String(), "ttl", instance.Lease())
	case errors.As(err, &missing) || errors.Is(err, ErrPrecondition):
	default:
		// It is still there: as if it had just been heard, unless another replica has it now.
		p.beat(r)
		p.log.Warn("silent instance not removed", "instance", r.String(), "error", err)
	}
}
