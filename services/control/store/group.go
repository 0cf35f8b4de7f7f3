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

// Every key begins with one of these. Followers follow the state; the log is what is
// only looked up: earlier versions, the journal, what has been answered.
const (
	State = "s/"
	Log   = "l/"
)

// The store's own keys.
const (
	headKey    = State + "head"    // written by every group: its revision is the state's newest
	journalKey = Log + "journal/"  // + group name: the group's notes; + "/" + index: a request that was refused
	quietKey   = Log + "group/"    // the same of a group without notes
	epochKey   = Log + "epoch"     // names what the store has been since it was made or restored
	restoreKey = Log + "restoring" // there while a restore is under way
)

// An Op sets a key, or removes it.
type Op struct {
	Key    string
	Value  []byte
	Delete bool
	// Expires has etcd remove the key after an hour to a day.
	Expires bool
}

// A Condition holds when the key's newest change was at this revision. 0 is that there
// is no such key.
type Condition struct {
	Key      string
	Revision int64
}

// A Request changes keys if all its conditions hold. A key may be in one Op only, and
// none of them the store's own.
type Request struct {
	If   []Condition
	Then []Op
	// Note goes into the journal if the request is carried out; it is never told to
	// followers.
	Note []byte
}

// A KV is a key as it is. Revision is when it was last changed; 0 says there is none.
type KV struct {
	Key      string
	Value    []byte
	Revision int64
}

// An Outcome says what became of a request.
type Outcome struct {
	// Done tells whether it was carried out, at Revision. Otherwise a condition did not
	// hold, and nothing was changed.
	Done     bool
	Revision int64
	// Found are the keys of the conditions, in their order, as they were when one did
	// not hold. It is nil where that is not known any more.
	Found []KV
}

// Limits of a request.
const (
	MaxKeyBytes   = 1024
	MaxRequestOps = 16
)

// check returns what is wrong with a request.
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
		return fmt.Errorf("%w: key %q: must begin with %q or %q, be none of the store's own and have %d bytes at most", ErrRequest, key, State, Log, MaxKeyBytes)
	}
	return nil
}

// overhead is about what an operation takes in addition to its key and value.
const overhead = 32

// size is about the bytes of the request in a transaction. Conditions are asked for
// twice: to hold, and what the keys are if they do not.
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

// A capacity is what one group may have.
type capacity struct {
	requests, bytes int
	operations      int // or conditions, the entry's and the head's included: what etcd takes
}

// capacity is that of a group. Where a condition does not hold, each request is a transaction
// within, which etcd gives as many operations as are left, so requests are half of them at most.
func (c Config) capacity() capacity {
	return capacity{min(c.GroupRequests, c.maxOps()/2), c.GroupBytes, c.maxOps()}
}

// A load is what some requests come to.
type load struct{ requests, bytes, conditions, operations int }

func (l load) with(p *pending) load {
	return load{l.requests + 1, l.bytes + p.size, l.conditions + len(p.request.If), l.operations + len(p.request.Then)}
}

// exceeds tells whether it is more than a group may have; fills, whether nothing more fits.
func (l load) exceeds(c capacity) bool {
	return l.requests > c.requests || l.bytes > c.bytes || max(l.conditions+1, l.operations+2) > c.operations
}

func (l load) fills(c capacity) bool {
	return l.requests >= c.requests || l.bytes >= c.bytes || max(l.conditions+1, l.operations+2) >= c.operations
}

// pick divides requests in those that form the next group and those that wait for a
// later one, both in order. etcd judges all conditions of a transaction by the state
// before it, so a request that touches a key which an earlier one of the group changes
// must wait, and so must any that touches a key of one that waits.
func pick(waiting []*pending, most capacity) (group, rest []*pending) {
	if len(waiting) == 1 {
		return waiting, nil
	}
	changed := make(map[string]bool, 2*len(waiting))
	touched := make(map[string]bool, 2*len(waiting)) // by a condition, or by whoever waits
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

// A groupName is unique, and names of later groups are later by the clock of who made
// them: they sort by time.
type groupName string

const nameBytes = 32 // in hexadecimal: 8 of nanoseconds, 4 of the store, 4 of a counter

func makeGroupName(at time.Time, store, counter uint32) groupName {
	return groupName(fmt.Sprintf("%016x%08x%08x", uint64(at.UnixNano()), store, counter)) //nolint:gosec // after 1970
}

// before is a key that all entries from before a time sort before.
func before(folder string, at time.Time) string {
	return fmt.Sprintf("%s%016x", folder, uint64(at.UnixNano())) //nolint:gosec // after 1970
}

// JournalBefore is what Journal takes as after to begin with the entries of a time.
func JournalBefore(at time.Time) string {
	return fmt.Sprintf("%016x%s", uint64(max(0, at.UnixNano()-1)), strings.Repeat("f", nameBytes-16)) //nolint:gosec // 0 at least
}

// entryKey is where a group is recognized by.
func entryKey(prefix string, name groupName, group []*pending) string {
	for _, p := range group {
		if len(p.request.Note) > 0 {
			return prefix + journalKey + string(name)
		}
	}
	return prefix + quietKey + string(name)
}

// loadOf is what requests come to.
func loadOf(group []*pending) (l load) {
	for _, p := range group {
		l = l.with(p)
	}
	return l
}

// together returns the group as etcd takes it with the least work: if the group has no
// entry in the journal yet and all conditions of all requests hold, everything is done.
// Otherwise the entry tells whether that was so before; if there is none, a condition did
// not hold, and nothing was done.
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

// oneByOne returns the group as etcd takes it where conditions may not hold: if the group
// has no entry in the journal yet, each request is a transaction within, and else the
// entry and its marks say what became of it before.
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

// of is the operation as etcd takes it.
func (op *Op) of(prefix string, lease clientv3.LeaseID) *pb.RequestOp {
	switch {
	case op.Delete:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(prefix + op.Key)}}}
	case op.Expires:
		return put(prefix+op.Key, op.Value, lease)
	}
	return put(prefix+op.Key, op.Value, clientv3.NoLease)
}

// of is the condition as etcd takes it.
func (c *Condition) of(prefix string) *pb.Compare {
	return &pb.Compare{Key: []byte(prefix + c.Key), Target: pb.Compare_MOD, Result: pb.Compare_EQUAL, TargetUnion: &pb.Compare_ModRevision{ModRevision: c.Revision}}
}

// absent is the condition that there is no such key.
func absent(key string) *pb.Compare {
	return &pb.Compare{Key: []byte(key), Target: pb.Compare_CREATE, Result: pb.Compare_EQUAL, TargetUnion: &pb.Compare_CreateRevision{}}
}

func put(key string, value []byte, lease clientv3.LeaseID) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), Value: value, Lease: int64(lease)}}}
}

// under reads all keys that begin with one.
func under(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte(key), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(key))}}}
}

func refusedKey(entry string, index int) string { return entry + "/" + strconv.Itoa(index) }

// outcomes reads etcd's answer to a group that went together or one by one. nil without an
// error says that nothing was done, because a condition of a group that went together did
// not hold.
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

// recorded reads from a group's entry and its marks what became of the group. nil is
// that there is no entry: it was not carried out.
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

var errAnswer = errors.New("etcd's answer is not one to the question")

func found(key string, r *pb.ResponseOp) KV {
	if kvs := r.GetResponseRange().GetKvs(); len(kvs) > 0 {
		return KV{Key: key, Value: kvs[0].Value, Revision: kvs[0].ModRevision}
	}
	return KV{Key: key}
}

// kv is an entry of etcd with the key as callers know it.
func kv(prefix string, e *mvccpb.KeyValue) KV {
	return KV{Key: string(e.Key[len(prefix):]), Value: e.Value, Revision: e.ModRevision}
}
