package store

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Every key begins with one of these. Followers follow the state. Keys of the log are only looked up: earlier
// versions, the journal, and records of changes with keys.
const (
	State = "s/"
	Log   = "l/"
)

// TokenBase is the key of a number. With the revision added, it is larger than all such sums before, also of earlier
// epochs: it is the time in µs at which the store was made or restored, and there are fewer revisions than µs.
const TokenBase = Log + "token-base"

// The store's own keys.
const (
	headKey    = State + "head"    // written by every group: its revision is the newest of the state
	journalKey = Log + "journal/"  // + group name: the group's notes; + "/" + index: a request that was refused
	quietKey   = Log + "group/"    // + group name, for a group without notes
	epochKey   = Log + "epoch"     // a name that changes when the store is restored
	restoreKey = Log + "restoring" // present during a restore
)

// An Op sets a key, or removes it.
type Op struct {
	Key    string
	Value  []byte
	Delete bool
	// Expires makes etcd remove the key after an hour to a day.
	Expires bool
	// Lease makes etcd remove the key when that lease ends (Grant). 0 is none.
	Lease int64
}

// A Condition holds if the key's newest change was at this revision. 0 means that the key does not exist.
type Condition struct {
	Key      string
	Revision int64
}

// A Request changes keys if all its conditions hold. A key may be in one Op only. The store's own keys are refused.
type Request struct {
	If   []Condition
	Then []Op
	// Note goes into the journal if the request is carried out; followers never see it.
	Note []byte
}

// A KV is a key with its value. Revision is that of its last change; 0 if it does not exist.
type KV struct {
	Key      string
	Value    []byte
	Revision int64
}

// An Outcome is the outcome of a request.
type Outcome struct {
	// Done reports whether it was carried out, at Revision. Otherwise a condition did not hold, and nothing was
	// changed.
	Done     bool
	Revision int64
	// Found has the keys of the conditions, in their order, at the time when one did not hold. It is nil if that is
	// no longer known.
	Found []KV
}

// Limits of a request.
const (
	MaxKeyBytes   = 2048
	MaxRequestOps = 16
)

// check validates a request.
func (r *Request) check(maxBytes int) error {
	if len(r.Then) == 0 || len(r.Then) > MaxRequestOps || len(r.If) > MaxRequestOps {
		return fmt.Errorf("%w: %d operations, %d conditions: want 1 to %d, and at most as many", ErrRequest, len(r.Then), len(r.If), MaxRequestOps)
	}
	for i, op := range r.Then {
		if err := checkKey(op.Key); err != nil {
			return err
		}
		for _, other := range r.Then[:i] {
			if other.Key == op.Key {
				return fmt.Errorf("%w: key %q: twice", ErrRequest, op.Key)
			}
		}
	}
	for _, c := range r.If {
		if err := checkKey(c.Key); err != nil {
			return err
		}
	}
	if n := r.size(); n > maxBytes {
		return fmt.Errorf("%w: %d bytes: must be %d at most", ErrTooLarge, n, maxBytes)
	}
	return nil
}

func checkKey(key string) error {
	own := key == headKey || key == epochKey || key == restoreKey || strings.HasPrefix(key, journalKey) || strings.HasPrefix(key, quietKey)
	if len(key) > MaxKeyBytes || own || !strings.HasPrefix(key, State) && !strings.HasPrefix(key, Log) {
		return fmt.Errorf("%w: key %q: must begin with %q or %q, not be one of the store's own, and have %d bytes at most", ErrRequest, key, State, Log, MaxKeyBytes)
	}
	return nil
}

// overhead is an estimate of an operation's bytes without its key and value.
const overhead = 32

// size estimates the bytes of the request in a transaction. Conditions count twice: as comparisons, and as reads of
// the keys in case they do not hold.
func (r *Request) size() int {
	n := overhead + len(r.Note)
	for _, op := range r.Then {
		n += overhead + len(op.Key) + len(op.Value)
	}
	for _, c := range r.If {
		n += 2 * (overhead + len(c.Key))
	}
	return n
}

// A capacity bounds one group.
type capacity struct {
	requests, bytes int
	operations      int // or conditions, with those of the entry and the head: etcd's bound
}

// capacity returns a group's capacity. If a condition does not hold, each request is a nested transaction. etcd gives
// these the operations that are left, so requests are at most half of them.
func (c Config) capacity() capacity {
	return capacity{min(c.GroupRequests, c.maxOps()/2), c.GroupBytes, c.maxOps()}
}

// A load sums the cost of a group of requests.
type load struct{ requests, bytes, conditions, operations int }

func (l load) with(p *pending) load {
	return load{l.requests + 1, l.bytes + p.size, l.conditions + len(p.request.If), l.operations + len(p.request.Then)}
}

// exceeds reports whether the load exceeds a group's capacity; fills, whether nothing more fits.
func (l load) exceeds(c capacity) bool {
	return l.requests > c.requests || l.bytes > c.bytes || max(l.conditions+1, l.operations+2) > c.operations
}

func (l load) fills(c capacity) bool {
	return l.requests >= c.requests || l.bytes >= c.bytes || max(l.conditions+1, l.operations+2) >= c.operations
}

// pick divides requests into the next group and the rest, both in order. etcd checks all conditions of a transaction
// against the state before it. So a request must wait if it touches a key that an earlier one of the group changes.
// It must also wait if it touches a key of a waiting request.
func pick(waiting []*pending, most capacity) (group, rest []*pending) {
	if len(waiting) == 1 {
		return waiting, nil
	}
	changed := make(map[string]bool, 2*len(waiting))
	touched := make(map[string]bool, 2*len(waiting)) // by a condition, or by a waiting request
	var has load
	for i, p := range waiting {
		if len(group) > 0 && has.with(p).exceeds(most) {
			return group, append(rest, waiting[i:]...)
		}
		conflict := false
		for _, op := range p.request.Then {
			conflict = conflict || changed[op.Key] || touched[op.Key]
		}
		for _, c := range p.request.If {
			conflict = conflict || changed[c.Key]
		}
		for _, op := range p.request.Then {
			changed[op.Key] = true
		}
		for _, c := range p.request.If {
			touched[c.Key] = true
		}
		if conflict {
			rest = append(rest, p)
			continue
		}
		group = append(group, p)
		has = has.with(p)
	}
	return group, rest
}

// A groupName is unique. It begins with the time by its maker's clock, so names sort by time.
type groupName string

const nameBytes = 32 // in hexadecimal: 8 of nanoseconds, 4 of the store, 4 of a counter

func makeGroupName(at time.Time, store, counter uint32) groupName {
	return groupName(fmt.Sprintf("%016x%08x%08x", uint64(at.UnixNano()), store, counter)) //nolint:gosec // after 1970
}

// before returns a key: all entries from before a time sort before it.
func before(folder string, at time.Time) string {
	return fmt.Sprintf("%s%016x", folder, uint64(at.UnixNano())) //nolint:gosec // after 1970
}

// JournalBefore returns the argument after with which Journal begins at a time.
func JournalBefore(at time.Time) string {
	return fmt.Sprintf("%016x%s", uint64(max(0, at.UnixNano()-1)), strings.Repeat("f", nameBytes-16)) //nolint:gosec // 0 at least
}

// entryKey returns the key by which a group is recognized.
func entryKey(prefix string, name groupName, group []*pending) string {
	for _, p := range group {
		if len(p.request.Note) > 0 {
			return prefix + journalKey + string(name)
		}
	}
	return prefix + quietKey + string(name)
}

// loadOf sums the cost of requests.
func loadOf(group []*pending) (l load) {
	for _, p := range group {
		l = l.with(p)
	}
	return l
}

// together returns the group as one transaction, which is the least work for etcd. It is carried out if the journal
// has no entry of the group yet, and all conditions hold. Otherwise the entry tells whether the group was carried out
// before; without an entry, a condition did not hold, and nothing was done.
func together(prefix string, name groupName, group []*pending, notes []byte, lease clientv3.LeaseID) *pb.TxnRequest {
	entry := entryKey(prefix, name, group)
	has := loadOf(group)
	r := &pb.TxnRequest{
		Compare: append(make([]*pb.Compare, 0, has.conditions+1), absent(entry)),
		Success: append(make([]*pb.RequestOp, 0, has.operations+2), put(entry, notes, clientv3.NoLease), put(prefix+headKey, nil, clientv3.NoLease)),
		Failure: []*pb.RequestOp{under(entry)},
	}
	for _, p := range group {
		for _, c := range p.request.If {
			r.Compare = append(r.Compare, c.of(prefix))
		}
		for i := range p.request.Then {
			r.Success = append(r.Success, p.request.Then[i].of(prefix, lease))
		}
	}
	return r
}

// oneByOne returns the group with a nested transaction for each request, for conditions that may not hold. It is
// carried out if the group has no entry in the journal yet. Otherwise the entry and its marks give the earlier
// outcome.
func oneByOne(prefix string, name groupName, group []*pending, notes []byte, lease clientv3.LeaseID) *pb.TxnRequest {
	entry := entryKey(prefix, name, group)
	r := &pb.TxnRequest{
		Compare: []*pb.Compare{absent(entry)},
		Success: append(make([]*pb.RequestOp, 0, len(group)+2), put(entry, notes, clientv3.NoLease), put(prefix+headKey, nil, clientv3.NoLease)),
		Failure: []*pb.RequestOp{under(entry)},
	}
	for i, p := range group {
		one := &pb.TxnRequest{}
		for _, c := range p.request.If {
			one.Compare = append(one.Compare, c.of(prefix))
			one.Failure = append(one.Failure, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte(prefix + c.Key)}}})
		}
		for k := range p.request.Then {
			one.Success = append(one.Success, p.request.Then[k].of(prefix, lease))
		}
		if len(one.Compare) > 0 {
			one.Failure = append(one.Failure, put(refusedKey(entry, i), nil, clientv3.NoLease))
		}
		r.Success = append(r.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: one}})
	}
	return r
}

// of converts the operation for etcd.
func (op *Op) of(prefix string, lease clientv3.LeaseID) *pb.RequestOp {
	switch {
	case op.Delete:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(prefix + op.Key)}}}
	case op.Expires:
		return put(prefix+op.Key, op.Value, lease)
	}
	return put(prefix+op.Key, op.Value, clientv3.LeaseID(op.Lease))
}

// of converts the condition for etcd.
func (c *Condition) of(prefix string) *pb.Compare {
	return &pb.Compare{Key: []byte(prefix + c.Key), Target: pb.Compare_MOD, Result: pb.Compare_EQUAL, TargetUnion: &pb.Compare_ModRevision{ModRevision: c.Revision}}
}

// absent is the condition that a key does not exist.
func absent(key string) *pb.Compare {
	return &pb.Compare{Key: []byte(key), Target: pb.Compare_CREATE, Result: pb.Compare_EQUAL, TargetUnion: &pb.Compare_CreateRevision{}}
}

func put(key string, value []byte, lease clientv3.LeaseID) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), Value: value, Lease: int64(lease)}}}
}

// under reads all keys that begin with key.
func under(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte(key), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(key))}}}
}

func refusedKey(entry string, index int) string { return entry + "/" + strconv.Itoa(index) }

// outcomes reads etcd's response to a group, whole or with nested transactions. nil without an error means that
// nothing was done, because a condition of a whole group did not hold.
func outcomes(prefix string, name groupName, group []*pending, whole bool, answer *pb.TxnResponse) ([]Outcome, error) {
	list := make([]Outcome, len(group))
	if !answer.Succeeded { // it was carried out before, or a condition did not hold
		if len(answer.Responses) != 1 {
			return nil, errAnswer
		}
		kvs := answer.Responses[0].GetResponseRange().GetKvs()
		list := recorded(entryKey(prefix, name, group), group, kvs)
		if list == nil && (!whole || len(kvs) > 0) {
			return nil, errAnswer
		}
		return list, nil
	}
	if whole {
		for i := range list {
			list[i] = Outcome{Done: true, Revision: answer.Header.Revision}
		}
		return list, nil
	}
	if len(answer.Responses) != len(group)+2 {
		return nil, errAnswer
	}
	for i, p := range group {
		one := answer.Responses[i+2].GetResponseTxn()
		if one == nil {
			return nil, errAnswer
		}
		list[i] = Outcome{Done: one.Succeeded, Revision: answer.Header.Revision}
		if one.Succeeded {
			continue
		}
		if len(one.Responses) != len(p.request.If)+1 {
			return nil, errAnswer
		}
		for k, c := range p.request.If {
			list[i].Found = append(list[i].Found, found(c.Key, one.Responses[k]))
		}
	}
	return list, nil
}

// recorded reads a group's outcome from its entry and marks. nil means that there is no entry: it was not carried
// out.
func recorded(entry string, group []*pending, kvs []*mvccpb.KeyValue) []Outcome {
	refused := map[string]bool{}
	var revision int64
	for _, kv := range kvs {
		if key := string(kv.Key); key == entry {
			revision = kv.ModRevision
		} else {
			refused[key] = true
		}
	}
	if revision == 0 {
		return nil
	}
	list := make([]Outcome, len(group))
	for i := range list {
		list[i] = Outcome{Done: !refused[refusedKey(entry, i)], Revision: revision}
	}
	return list
}

var errAnswer = errors.New("unexpected response from etcd")

func found(key string, r *pb.ResponseOp) KV {
	if kvs := r.GetResponseRange().GetKvs(); len(kvs) > 0 {
		return KV{Key: key, Value: kvs[0].Value, Revision: kvs[0].ModRevision}
	}
	return KV{Key: key}
}

// kv converts an entry of etcd, with the key in the form for callers.
func kv(prefix string, e *mvccpb.KeyValue) KV {
	return KV{Key: string(e.Key[len(prefix):]), Value: e.Value, Revision: e.ModRevision}
}
