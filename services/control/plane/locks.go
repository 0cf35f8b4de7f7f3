package plane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"dyno/services/control/access"
	"dyno/services/control/catalog"
	"dyno/services/control/resource"
	"dyno/services/control/store"
	"dyno/services/internal/wait"
)

// ErrHeld says that another session has the lock.
var ErrHeld = errors.New("another session has the lock")

func heldBy(i *catalog.Item) error {
	l := i.Resource.(*resource.Lock)
	return fmt.Errorf("%w: %s (%q, of %s), since %s", ErrHeld, l.Session, l.Holder, l.By, l.Since.Format(time.RFC3339))
}

// unchanged is the error of a change that is not needed, with the resource.
type unchanged struct{ *catalog.Item }

func (*unchanged) Error() string { return "it is so already" }

// Begin begins a session for the caller. Its ID is the server's.
func (p *Plane) Begin(ctx context.Context, by Caller, s *resource.Session) (Result, error) {
	if err := p.readOnly(); err != nil {
		return Result{}, err
	}
	s.ID = "new"
	c := change{ref: s.Ref(), act: resource.Created, next: func(*catalog.Item) (resource.Document, error) { return s, nil }}
	if err := errors.Join(c.check(by, Options{}), s.Check()); err != nil {
		return Result{}, err
	}
	if f := p.facts(by, c); f.full() != nil {
		return Result{}, f.full()
	}
	var err error
	if c.lease, s.TTL, err = p.store.Grant(ctx, s.TTL); err != nil {
		return Result{}, err
	}
	s.ID = strconv.FormatInt(c.lease, 16)
	c.ref = s.Ref()
	result, err := p.apply(ctx, by, c, Options{})
	if err != nil {
		_ = p.store.Revoke(context.WithoutCancel(ctx), c.lease) // otherwise it ends by itself
	}
	return result, err
}

// own returns a session that the caller may use.
func own(by Caller, r resource.Ref, i *catalog.Item) (*resource.Session, error) {
	if i == nil {
		return nil, &NotFound{r}
	}
	s := i.Resource.(*resource.Session)
	if s.By != by.Name {
		return nil, &Problem{Kind: NotPermitted, Detail: fmt.Sprintf("%s is of %s", r, s.By)}
	}
	return s, nil
}

// startedKey is there from a session's begin until the audit has its end. It does not end with the lease.
func startedKey(path string) string { return startedFolder + path }

const (
	startedFolder = store.Log + "started/"
	endsPeriod    = 500 * time.Millisecond // between two looks for sessions that have ended
	endsPage      = 1000
)

// noteEnds notes in the audit which sessions have ended by themselves, while this replica leads. First, and after an error, it finds
// those that ended before.
func (p *Plane) noteEnds() {
	p.Lead(p.ctx, func(ctx context.Context) {
		found := false
		wait.Every(ctx, endsPeriod, func() {
			paths, err := slices.Collect(maps.Keys(p.ended.take())), error(nil)
			for more, after := !found, ""; more && err == nil; {
				var kvs []store.KV
				kvs, more, err = p.store.List(ctx, startedFolder, after, endsPage)
				for _, kv := range kvs {
					after = kv.Key
					paths = append(paths, strings.TrimPrefix(kv.Key, startedFolder))
				}
			}
			found = errors.Join(err, atOnce(slices.Values(paths), p.noteEnd)) == nil
		})
	})
}

// noteEnd notes the end of a session, unless that was a change that the audit has, or another replica has noted it.
func (p *Plane) noteEnd(path string, r resource.Ref) error {
	if p.catalog.Get(r) != nil {
		return nil
	}
	kvs, err := p.store.GetAll(p.ctx, startedKey(path), store.State+path)
	if err != nil || kvs[0].Revision == 0 || kvs[1].Revision != 0 {
		return err
	}
	note := resource.Audit{At: time.Now().UTC(), Who: p.cfg.Replica, From: "itself", Act: resource.Expired, Ref: r, Old: 1}
	_, err = p.store.Apply(p.ctx, store.Request{
		If: []store.Condition{{Key: kvs[0].Key, Revision: kvs[0].Revision}}, Then: []store.Op{{Key: kvs[0].Key, Delete: true}}, Note: note.AppendJSON(nil),
	})
	return err
}

// leaseOf returns a session's lease; what is no session has none that can be there.
func leaseOf(r resource.Ref) int64 {
	lease, _ := strconv.ParseInt(r.Name, 16, 64) // 0 of another text
	return lease
}

// Renew begins a session's time again, on any replica. It writes nothing. After NotFound, the session and its locks are
// lost.
func (p *Plane) Renew(ctx context.Context, by Caller, r resource.Ref) (err error) {
	if err := p.readOnly(); err != nil {
		return err
	}
	if err := (change{ref: r}).check(by, Options{}); err != nil {
		return err
	}
	item := p.catalog.Get(r)
	if item == nil {
		if item, err = p.latest(ctx, r); err != nil {
			return err
		}
	}
	if _, err := own(by, r, item); err != nil {
		return err
	}
	if err = p.store.Renew(ctx, leaseOf(r)); errors.Is(err, store.ErrLeaseEnded) {
		return &NotFound{r}
	}
	return err
}

// mayRemove returns why the caller may not remove a resource.
func mayRemove(by Caller, i *catalog.Item, o Options) error {
	switch d := i.Resource.(type) {
	case *resource.Lock:
		switch {
		case o.Session == "":
			return BadParameterf("session: must be given: a lock is released by the session that has it")
		case o.Session != d.Session || by.Name != d.By:
			return heldBy(i)
		}
	case *resource.Session:
		if by.Name != d.By {
			return by.may(access.Write, i.Namespace)
		}
	}
	return nil
}

// Acquire gives a session a lock that is free. It waits up to ask.Wait seconds for the release of one that is not.
// Requests that wait in this replica try in the order of their arrival, and once more at the end of their time. The
// error is ErrHeld if another session has the lock. A repeated call has the same result.
func (p *Plane) Acquire(ctx context.Context, by Caller, r resource.Ref, ask resource.LockInput) (Result, error) {
	if err := p.readOnly(); err != nil {
		return Result{}, err
	}
	if err := errors.Join((change{ref: r}).check(by, Options{}), ask.Check()); err != nil {
		return Result{}, err
	}
	if ask.Wait == 0 {
		return p.acquire(ctx, by, r, ask)
	}
	switch has, err := p.latest(ctx, r); {
	case err != nil:
		return Result{}, err
	case has != nil && has.Resource.(*resource.Lock).Session == ask.Session: // a repeated call waits for nobody
		return p.acquire(ctx, by, r, ask)
	}
	turn, err := p.locks.enter(r.Path())
	if err != nil {
		return Result{}, err
	}
	defer p.locks.leave(r.Path(), turn)
	timer := time.NewTimer(time.Duration(ask.Wait * float64(time.Second)))
	defer timer.Stop()
	for {
		select {
		case <-turn:
			if result, err := p.acquire(ctx, by, r, ask); !errors.Is(err, ErrHeld) {
				return result, err
			}
		case <-timer.C:
			return p.acquire(ctx, by, r, ask) // the session may have it since, by another request
		case <-ctx.Done():
			return Result{}, fmt.Errorf("%w: the wait is cut off", store.ErrClosed)
		case <-p.ctx.Done():
			return Result{}, store.ErrClosed
		}
	}
}

// acquire tries once.
func (p *Plane) acquire(ctx context.Context, by Caller, r resource.Ref, ask resource.LockInput) (Result, error) {
	at := resource.Ref{Kind: resource.Sessions, Namespace: r.Namespace, Name: ask.Session}
	kvs, err := p.store.GetAll(ctx, store.State+at.Path(), store.TokenBase)
	if err != nil {
		return Result{}, err
	}
	var item *catalog.Item
	if kvs[0].Revision != 0 {
		if item, err = catalog.Parse(at.Path(), kvs[0].Value, kvs[0].Revision); err != nil {
			return Result{}, err
		}
	}
	session, err := own(by, at, item)
	if err != nil {
		return Result{}, err
	}
	base, err := strconv.ParseInt(string(kvs[1].Value), 10, 64)
	if err != nil {
		return Result{}, fmt.Errorf("%w: %s is gone: another client has removed it", store.ErrUnavailable, store.TokenBase)
	}
	c := change{
		ref: r, act: resource.Acquired, lease: leaseOf(at),
		while: []requirement{
			{store.Condition{Key: kvs[0].Key, Revision: kvs[0].Revision}, &NotFound{at}},
			{store.Condition{Key: kvs[1].Key, Revision: kvs[1].Revision}, fmt.Errorf("%w: it was restored meanwhile: ask again", store.ErrUnavailable)},
		},
		next: func(old *catalog.Item) (resource.Document, error) {
			next := &resource.Lock{Namespace: r.Namespace, Name: r.Name, Session: ask.Session, Holder: session.Name, Value: ask.Value, Token: base, Since: time.Now().UTC()}
			if old != nil {
				has := old.Resource.(*resource.Lock)
				switch {
				case has.Session != ask.Session:
					return nil, heldBy(old)
				case has.Value == ask.Value:
					return nil, &unchanged{old}
				}
				next.Token, next.Since = has.Token, has.Since
			}
			return next, nil
		},
	}
	result, err := p.apply(ctx, by, c, Options{})
	if same := (*unchanged)(nil); errors.As(err, &same) {
		return Result{Item: same.Item}, nil
	}
	if err == nil { // the revision completes the token
		result.Item, err = catalog.Parse(result.Path, resource.EncodeVersioned(result.Version, result.Body), result.Revision)
	}
	return result, err
}

// Add adds to a counter, which begins with 0.
func (p *Plane) Add(ctx context.Context, by Caller, r resource.Ref, n int64, o Options) (Result, error) {
	return p.apply(ctx, by, change{
		ref: r, act: resource.Added, asked: strconv.AppendInt(nil, n, 10),
		next: func(old *catalog.Item) (resource.Document, error) {
			next := &resource.Counter{Namespace: r.Namespace, Name: r.Name}
			if old != nil {
				next.Value = old.Resource.(*resource.Counter).Value
			}
			if n > 0 && next.Value > math.MaxInt64-n || n < 0 && next.Value < math.MinInt64-n {
				return nil, resource.Invalid{{Pointer: "#/add", Detail: fmt.Sprintf("the counter is %d: the sum has no place in 64 bits", next.Value)}}
			}
			next.Value += n
			return next, nil
		},
	}, o)
}

// maxWaiting bounds those who wait for locks in a replica.
const maxWaiting = 10_000

var errTooManyWait = fmt.Errorf("%d requests wait for locks already: try later, or without wait_seconds", maxWaiting)

// lockQueues has a queue of requests for each lock, by the lock's path. Only the first request of a queue tries to
// acquire the lock: once when it becomes the first, and again each time the lock is removed.
type lockQueues struct {
	mu      sync.Mutex // guards what follows
	waiting map[string][]chan struct{}
	count   int // of requests in all queues
}

// enter joins a queue. The channel, of capacity 1, says when to try.
func (q *lockQueues) enter(path string) (turn chan struct{}, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count == maxWaiting {
		return nil, errTooManyWait
	}
	if q.waiting == nil {
		q.waiting = map[string][]chan struct{}{}
	}
	turn = make(chan struct{}, 1)
	q.count++
	q.waiting[path] = append(q.waiting[path], turn)
	if len(q.waiting[path]) == 1 {
		turn <- struct{}{}
	}
	return turn, nil
}

// leave leaves a queue.
func (q *lockQueues) leave(path string, turn chan struct{}) {
	q.mu.Lock()
	list := q.waiting[path]
	first := list[0] == turn
	i := slices.Index(list, turn)
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(q.waiting, path)
	} else {
		q.waiting[path] = list
	}
	q.count--
	q.mu.Unlock()
	if first {
		q.wake(path)
	}
}

// wake lets the first of a queue try.
func (q *lockQueues) wake(path string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if list := q.waiting[path]; len(list) > 0 {
		select {
		case list[0] <- struct{}{}:
		default: // it has not tried yet
		}
	}
}
