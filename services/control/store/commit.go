package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// A pending is a request in progress.
type pending struct {
	request Request
	size    int
	at      time.Duration // its arrival, since the store started
	done    chan result   // capacity 1, so that the sender never waits for a caller that has gone
}

type result struct {
	outcome Outcome
	err     error
}

// Apply carries out a request, in a group with others, and returns the outcome. It waits as long as ctx allows, and a
// bit more than twice Config.Timeout: after other requests, and for etcd. With an error that wraps ErrUncertain, the
// change may have been made, or may still be made. With any other error it was not made.
func (s *Store) Apply(ctx context.Context, r Request) (Outcome, error) {
	if err := r.check(s.cfg.RequestBytes); err != nil {
		return Outcome{}, err
	}
	p := &pending{request: r, size: r.size(), at: time.Since(s.started), done: make(chan result, 1)}
	if err := s.enqueue(p); err != nil {
		return Outcome{}, err
	}
	select {
	case got := <-p.done:
		return got.outcome, got.err
	case <-ctx.Done():
		return Outcome{}, fmt.Errorf("%w: %w", ErrUncertain, context.Cause(ctx))
	}
}

func (s *Store) enqueue(p *pending) error {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.closed {
		return ErrClosed
	}
	if d := s.full.Load(); d != nil {
		return fmt.Errorf("%w: %v", ErrDiskFull, d)
	}
	select {
	case s.queue <- p:
		return nil
	default:
		s.stats.busy.Add(1)
		return ErrBusy
	}
}

// commit carries out a group and answers all its requests.
func (s *Store) commit(group []*pending) {
	start := time.Now()
	list, err := s.commitUntilResolved(group)
	if (errors.Is(err, ErrRequest) || errors.Is(err, ErrLeaseEnded)) && len(group) > 1 {
		// One of them is at fault. Each is tried alone, so that the others do not fail with it.
		for _, p := range group {
			s.commit([]*pending{p})
		}
		return
	}
	s.stats.commit.Observe(time.Since(start).Seconds())
	s.stats.group.Observe(float64(len(group)))
	for i, p := range group {
		if err != nil {
			p.done <- result{err: err}
			continue
		}
		p.done <- result{outcome: list[i]}
	}
}

// nestedTxnGroups is how many groups go to etcd as nested transactions after one whose condition did not hold: that
// is likely to happen again soon.
const nestedTxnGroups = 16

// commitUntilResolved sends a group until its outcome is known or Timeout is over. It first sends the group as one
// transaction, which is less work for etcd. If a condition does not hold, it sends nested transactions. Both have the
// same name, so that only one of them takes effect.
func (s *Store) commitUntilResolved(group []*pending) ([]Outcome, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Timeout)
	defer cancel()
	name := makeGroupName(time.Now(), s.id, s.counter.Add(1))
	pause := minPause
	notes := packNotes(group)
	whole := s.forceNestedTxns.Add(-1) < 0
	sent := false   // whether the outcome of an attempt is unknown
	unread := false // whether the outcome of a refused attempt could not be read
	for {
		lease, err := s.leaseFor(ctx, group)
		if err == nil {
			shape := oneByOne
			if whole {
				shape = together
			}
			var answer *pb.TxnResponse
			// A part of Timeout, so that time is left to ask another member if one hangs.
			attempt, cancel := context.WithTimeout(ctx, s.cfg.Timeout/attempts)
			answer, err = s.txns.Txn(attempt, shape(s.cfg.Prefix, name, group, notes, lease), grpc.MaxCallRecvMsgSize(maxMessage))
			err = clientv3.ContextError(attempt, err) // nil stays nil
			cancel()
			if err == nil {
				s.contact()
				list, err := outcomes(s.cfg.Prefix, name, group, whole, answer)
				if list == nil && err == nil {
					whole = false
					s.forceNestedTxns.Store(nestedTxnGroups)
					continue
				}
				s.account(group, notes)
				return list, err
			}
			switch refused := refusal(err); {
			case errors.Is(err, rpctypes.ErrLeaseNotFound):
				s.forgetLease(lease)
				if !sent && (len(group) > 1 || lease == clientv3.NoLease) {
					return nil, ErrLeaseEnded
				}
			case errors.Is(refused, ErrNoSpace):
				list, readErr := s.lookUp(ctx, name, group)
				switch {
				case list != nil:
					s.account(group, notes)
					return list, nil
				case readErr != nil:
					unread = true
				case !sent:
					return nil, refused
				}
				// An earlier attempt may still be on its way.
			case refused != nil && !sent:
				return nil, refused
			case refused != nil:
				// An earlier attempt may have been carried out.
			default:
				sent = true
				s.stats.retries.Add(1)
			}
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, maxPause)
		case <-ctx.Done():
			switch {
			case sent || unread:
				return nil, fmt.Errorf("%w: %w", ErrUncertain, err)
			case s.ctx.Err() != nil:
				return nil, ErrClosed
			}
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
}

// account counts the contents of a group that was carried out.
func (s *Store) account(group []*pending, notes []byte) {
	l := loadOf(group)
	s.changes.Add(int64(l.operations + l.bytes>>10)) // large changes take more room until they are compacted
	s.noted.Add(noteBytes(notes))
}

// lookUp finds the outcome of a group after etcd's error that there is no space. etcd also returns it for a group
// that it carried out, if the database's file had reached the quota meanwhile. nil without an error means that the
// group was not carried out.
func (s *Store) lookUp(ctx context.Context, name groupName, group []*pending) ([]Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout/attempts)
	defer cancel()
	entry := entryKey(s.cfg.Prefix, name, group)
	got, err := s.client.Get(ctx, entry, clientv3.WithPrefix())
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	s.contact()
	return recorded(entry, group, got.Kvs), nil
}

// attempts is the number of unanswered attempts within Timeout.
const attempts = 3

// The pauses between attempts.
const (
	minPause = 10 * time.Millisecond
	maxPause = time.Second
)

// All keys that expire and are written within leaseWindow share a lease.
const (
	leaseTTL    = 24 * time.Hour
	leaseWindow = 23 * time.Hour
)

// leases hands out the lease of Op.Expires.
type leases struct {
	mu    sync.Mutex // guards what follows
	id    clientv3.LeaseID
	since time.Time
}

// leaseFor returns the lease for a group, or none if it needs none.
func (s *Store) leaseFor(ctx context.Context, group []*pending) (clientv3.LeaseID, error) {
	needed := false
	for _, p := range group {
		for _, op := range p.request.Then {
			needed = needed || op.Expires
		}
	}
	if !needed {
		return clientv3.NoLease, nil
	}
	s.leases.mu.Lock()
	defer s.leases.mu.Unlock()
	if s.leases.id != clientv3.NoLease && time.Since(s.leases.since) < leaseWindow {
		return s.leases.id, nil
	}
	granted, err := s.client.Grant(ctx, int64(leaseTTL/time.Second))
	if err != nil {
		return clientv3.NoLease, fmt.Errorf("lease: %w", err)
	}
	s.leases.id, s.leases.since = granted.ID, time.Now()
	return granted.ID, nil
}

// forgetLease makes the next group request a new lease.
func (s *Store) forgetLease(id clientv3.LeaseID) {
	s.leases.mu.Lock()
	defer s.leases.mu.Unlock()
	if s.leases.id == id {
		s.leases.id = clientv3.NoLease
	}
}
