package store

import (
	"encoding/binary"
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
	// Passing has the key removed by itself after an hour to a day, for what is of
	// passing use.
	Passing bool
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

// overhead is about what an operation takes beside its key and value.
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

// pick divides requests in those that form the next group and those that wait for a
// later one, both in order. etcd judges all conditions of a transaction by the state
// before it, so a request that touches a key which an earlier one of the group changes
// must wait, and so must any that touches a key of one that waits.
func pick(waiting []*pending, requests, bytes int) (group, rest []*pending) {
	changed, touched := map[string]bool{}, map[string]bool{} // touched: by a condition, or by whoever waits
	size := 0
	for i, p := range waiting {
		if len(group) == requests || len(group) > 0 && size+p.size > bytes {
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
		size += p.size
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

// noteBytes is about what a group's notes take in the journal.
func noteBytes(group []*pending) (n int64) {
	for _, p := range group {
		n += int64(len(p.request.Note))
	}
	if n > 0 {
		n += int64(len(journalKey) + nameBytes + overhead)
	}
	return n
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

// transaction returns the group as etcd takes it: if the group has no entry in the
// journal yet, each request is a transaction within, and else the entry and the marks
// beside it say what became of it before.
func transaction(prefix string, name groupName, group []*pending, lease clientv3.LeaseID) (If clientv3.Cmp, Then, Else []clientv3.Op) {
	entry := entryKey(prefix, name, group)
	If = clientv3.Compare(clientv3.CreateRevision(entry), "=", 0)
	notes := make([][]byte, len(group))
	Then = make([]clientv3.Op, 0, len(group)+2)
	Then = append(Then, clientv3.Op{}, clientv3.OpPut(prefix+headKey, ""))
	for i, p := range group {
		notes[i] = p.request.Note
		var compare []clientv3.Cmp
		var do, found []clientv3.Op
		for _, c := range p.request.If {
			compare = append(compare, clientv3.Compare(clientv3.ModRevision(prefix+c.Key), "=", c.Revision))
			found = append(found, clientv3.OpGet(prefix+c.Key))
		}
		for _, op := range p.request.Then {
			switch {
			case op.Delete:
				do = append(do, clientv3.OpDelete(prefix+op.Key))
			case op.Passing:
				do = append(do, clientv3.OpPut(prefix+op.Key, string(op.Value), clientv3.WithLease(lease)))
			default:
				do = append(do, clientv3.OpPut(prefix+op.Key, string(op.Value)))
			}
		}
		if len(compare) > 0 {
			found = append(found, clientv3.OpPut(refusedKey(entry, i), ""))
		}
		Then = append(Then, clientv3.OpTxn(compare, do, found))
	}
	Then[0] = clientv3.OpPut(entry, string(appendNotes(nil, notes)))
	Else = []clientv3.Op{clientv3.OpGet(entry, clientv3.WithPrefix())}
	return If, Then, Else
}

func refusedKey(entry string, index int) string { return entry + "/" + strconv.Itoa(index) }

// outcomes reads etcd's answer to a transaction.
func outcomes(prefix string, name groupName, group []*pending, answer *clientv3.TxnResponse) ([]Outcome, error) {
	list := make([]Outcome, len(group))
	if !answer.Succeeded { // it was carried out before
		if len(answer.Responses) != 1 {
			return nil, errAnswer
		}
		entry := entryKey(prefix, name, group)
		refused := map[string]bool{}
		var revision int64
		for _, kv := range answer.Responses[0].GetResponseRange().GetKvs() {
			if key := string(kv.Key); key == entry {
				revision = kv.ModRevision
			} else {
				refused[key] = true
			}
		}
		if revision == 0 {
			return nil, errAnswer
		}
		for i := range list {
			list[i] = Outcome{Done: !refused[refusedKey(entry, i)], Revision: revision}
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

// appendNotes encodes notes: each with its length before it.
func appendNotes(dst []byte, notes [][]byte) []byte {
	for _, n := range notes {
		dst = binary.AppendUvarint(dst, uint64(len(n)))
		dst = append(dst, n...)
	}
	return dst
}

// decodeNotes reads what appendNotes wrote.
func decodeNotes(text []byte) (notes [][]byte, err error) {
	for len(text) > 0 {
		n, w := binary.Uvarint(text)
		if w <= 0 || n > uint64(len(text)-w) {
			return nil, errors.New("journal: entry is cut off")
		}
		notes = append(notes, text[w:w+int(n)]) //nolint:gosec // at most len(text)
		text = text[w+int(n):]                  //nolint:gosec // the same
	}
	return notes, nil
}
