package plane

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"dyno/services/control/catalog"
	"dyno/services/control/resource"
	"dyno/services/control/store"
)

// followed stands for the replicas of the primary: it holds all instances of a follower. No replica has this name.
const followed = "-"

// followKey has the state of a follower.
const followKey = store.Log + "followed"

// A Following says how complete a follower's copy of its primary is. The store has it for the time after a restart.
type Following struct {
	Primary  string         `json:"primary"`
	At       time.Time      `json:"at"`          // the copy has everything that the primary had then; zero is never
	Age      float64        `json:"age_seconds"` // since then
	Epoch    string         `json:"epoch"`       // the primary's
	Withheld int            `json:"withheld"`    // secret configurations that are absent: the token may not read them
	Liveness resource.Pulse `json:"liveness"`    // the primary's
	Error    string         `json:"error,omitempty"`
}

// following is the state of a follower.
type following struct {
	copied chan struct{} // closed once the copy was complete
	once   sync.Once     // closes it
	mu     sync.Mutex    // guards the fields below
	state  Following
	saved  time.Time
}

// openFollowing reads the state of a follower, or begins one. A store that was a follower's gets a primary's state if
// the plane follows nobody now.
func (p *Plane) openFollowing(ctx context.Context) error {
	kv, err := p.store.Get(ctx, followKey)
	if err != nil {
		return err
	}
	switch {
	case p.follows() && kv.Revision == 0:
		if some, _ := p.catalog.Page("", "", 1, nil); len(some) > 0 {
			return fmt.Errorf("follow: the store has resources that are no copies, such as %s: give an empty --data", some[0])
		}
		return p.NoteFollowing(ctx, func(s *Following) { s.Error = "nothing was copied yet" })
	case p.follows():
		if err := json.Unmarshal(kv.Value, &p.following.state); err != nil {
			return fmt.Errorf("%s: %w", followKey, err)
		}
		p.following.saved = time.Now()
		return p.NoteFollowing(ctx, func(s *Following) { s.Error = "the primary was not heard since the start" })
	case kv.Revision != 0:
		p.log.Warn("this control plane was a follower, and takes changes from now on")
		p.mu.Lock()
		p.leave()
		p.mu.Unlock()
		for part := range shards {
			if err := p.putKey(ctx, store.Op{Key: overdueKey(followed, part), Delete: true}); err != nil {
				return err
			}
		}
		return p.putKey(ctx, store.Op{Key: followKey, Delete: true})
	}
	return nil
}

// putKey changes one key.
func (p *Plane) putKey(ctx context.Context, op store.Op) error {
	_, err := p.store.Apply(ctx, store.Request{Then: []store.Op{op}})
	return err
}

// readOnly refuses changes at a follower.
func (p *Plane) readOnly() error {
	if !p.follows() {
		return nil
	}
	return &Problem{Kind: Follower, Detail: "this one only follows " + p.cfg.Primary + ", which takes changes and heartbeats", Primary: p.cfg.Primary}
}

// AwaitCopy waits until a follower has had a complete copy, perhaps before its last start.
func (p *Plane) AwaitCopy(ctx context.Context) error {
	select {
	case <-p.following.copied:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("follow: no complete copy of %s: %s", p.cfg.Primary, p.Following().Error)
	}
}

// savePeriod is the pause between two states of a follower that its store gets.
const savePeriod = 5 * time.Second

// NoteFollowing changes the state of a follower.
func (p *Plane) NoteFollowing(ctx context.Context, change func(*Following)) error {
	f := &p.following
	f.mu.Lock()
	before := f.state
	change(&f.state)
	now := f.state
	due := before.At.IsZero() || before.Epoch != now.Epoch || time.Since(f.saved) >= savePeriod
	if due {
		f.saved = time.Now()
	}
	f.mu.Unlock()
	if !now.At.IsZero() {
		f.once.Do(func() { close(f.copied) })
	}
	if !due {
		return nil
	}
	value, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return p.putKey(ctx, store.Op{Key: followKey, Value: value})
}

// follows reports whether this is a follower.
func (p *Plane) follows() bool { return p.cfg.Primary != "" }

// maxBehind is the age of a copy that was never complete.
const maxBehind = 100 * 365 * 24 * time.Hour

// behind returns for how long a follower may have missed changes of its primary; 0 without a primary.
func (p *Plane) behind() time.Duration {
	if !p.follows() {
		return 0
	}
	p.following.mu.Lock()
	defer p.following.mu.Unlock()
	return min(max(0, time.Since(p.following.state.At)), maxBehind)
}

// Following returns the state of a follower; nil without a primary.
func (p *Plane) Following() *Following {
	if !p.follows() {
		return nil
	}
	age := p.behind()
	p.following.mu.Lock()
	defer p.following.mu.Unlock()
	out := p.following.state
	out.Primary, out.Age = p.cfg.Primary, age.Seconds()
	return &out
}

// A Copy is the state of a resource at the primary: its version and document. A nil document says that there is none.
type Copy struct {
	Version int64
	Body    []byte
}

// maxCopies is how many copies are on their way to the store at a time: as many as fit into a group.
const maxCopies = 256

// CopyAll stores resources as the primary has them. It returns once the replica knows them. It has no conditions:
// nobody else changes the resources of a follower.
func (p *Plane) CopyAll(ctx context.Context, copies map[resource.Ref]Copy) error {
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(maxCopies)
	var newest atomic.Int64
	for ref, c := range copies {
		old := p.catalog.Get(ref)
		if old == nil && c.Body == nil || old != nil && c.Body != nil && old.Version == c.Version && bytes.Equal(old.Body, c.Body) {
			continue
		}
		group.Go(func() error {
			op := store.Op{Key: store.State + ref.Path(), Value: resource.EncodeVersioned(c.Version, c.Body), Delete: c.Body == nil}
			outcome, err := p.store.Apply(within, store.Request{Then: []store.Op{op}})
			raise(&newest, outcome.Revision)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return p.await(ctx, newest.Load())
}

// CopyOnly ends a copy of everything: it removes the other resources. A new epoch of the primary means that it was
// restored to an earlier state. Then the store gets a new epoch too, so that clients read everything again.
func (p *Plane) CopyOnly(ctx context.Context, refs map[resource.Ref]bool, epoch string) error {
	gone := map[resource.Ref]Copy{}
	var all catalog.Scope
	for _, k := range copied() {
		all.Prefixes = append(all.Prefixes, string(k)+"/")
	}
	items, _ := p.catalog.Snapshot(all)
	for _, i := range items {
		if !refs[i.Ref] {
			gone[i.Ref] = Copy{}
		}
	}
	if err := p.CopyAll(ctx, gone); err != nil {
		return err
	}
	if before := p.Following().Epoch; before != "" && before != epoch {
		if err := p.store.RenewEpoch(ctx); err != nil {
			return err
		}
	}
	return p.NoteFollowing(ctx, func(f *Following) { f.Epoch = epoch })
}

// CopyOverdue stores which instances are overdue at the primary.
func (p *Plane) CopyOverdue(ctx context.Context, parts Overdue) error {
	return p.copyOverdue(ctx, followed, parts)
}

// copyOverdue stores which copies of a holder are overdue at their control plane.
func (p *Plane) copyOverdue(ctx context.Context, holder string, parts Overdue) error {
	var set markSet
	for n, part := range parts {
		marks, err := base64.StdEncoding.DecodeString(part)
		if err != nil || len(marks)%markBytes != 0 {
			return fmt.Errorf("overdue: part %d has no marks of instances", n)
		}
		set[n] = string(marks)
	}
	return p.putMarks(ctx, holder, set, false)
}
