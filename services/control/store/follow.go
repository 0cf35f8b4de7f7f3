package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// An Event is one change of one key.
type Event struct {
	KV      // without a value for a removal
	Removed bool
}

// A Batch has changes for followers, in the order of their revisions. After it they know the state at Revision.
type Batch struct {
	Events   []Event
	Revision int64
	// Listed says that this is from a listing: the first one, or the differences after etcd had compacted the
	// changes. States in between are missing, and a removed key has the listing's revision.
	Listed bool
	// Epoch is that of a listing. A new epoch means that the store was restored to an earlier state. Revisions of
	// different epochs are not comparable, Revision may be lower, and every key is sent.
	Epoch string
}

// Keys are listed in pages. The first has firstPage keys; later ones have about pageBytes, by the sizes so far, and
// at most listPage keys. Etcd counts the remaining keys for each page, so small pages of many keys would take long.
const (
	firstPage = 150
	listPage  = 1000
	pageBytes = 16 << 20
)

// Follow passes to take all keys that begin with prefix, and then every change of them. It ends with ctx or the
// store, and returns which. It waits for etcd without a limit. take is called from one goroutine, and delays later
// batches.
func (s *Store) Follow(ctx context.Context, prefix string, take func(Batch)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(ErrClosed) })()

	f := follower{store: s, prefix: prefix, take: take}
	pause := minPause
	for {
		progress, err := f.watchOnce(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if progress {
			pause = minPause
		}
		s.log.Debug("following the store is interrupted", "error", err, "revision", f.revision)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
			pause = min(2*pause, maxPause)
		}
	}
}

// A follower records the keys that it has passed on, with their revisions.
type follower struct {
	store    *Store
	prefix   string
	take     func(Batch)
	known    map[string]int64 // nil before the first listing
	revision int64
	epoch    string // epoch of the last listing
	mark     int64  // the revision at the last look whether the store has gone back
}

// backPeriod is the pause between a follower's checks that the store has not gone back. After etcd was away, the
// watch continues by itself, and is silent until etcd has passed its revision.
const backPeriod = time.Second

// watchOnce lists if necessary, and watches until the watch ends. It always returns an error. progress reports
// whether it has learnt anything.
func (f *follower) watchOnce(ctx context.Context) (progress bool, err error) {
	if f.known == nil {
		if err := f.list(ctx); err != nil {
			return false, err
		}
		progress = true
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the watch
	watch := f.store.client.Watch(clientv3.WithRequireLeader(ctx), f.store.cfg.Prefix+f.prefix,
		clientv3.WithPrefix(), clientv3.WithRev(f.revision+1), clientv3.WithCreatedNotify(), clientv3.WithProgressNotify(),
		clientv3.WithFragment()) // many large missed changes do not fit into one message
	ticker := time.NewTicker(backPeriod)
	defer ticker.Stop()
	for {
		var answer clientv3.WatchResponse
		select {
		case <-ticker.C:
			if back, err := f.wentBack(ctx); err != nil {
				return progress, err
			} else if back {
				return true, f.list(ctx)
			}
			continue
		case got, ok := <-watch:
			if !ok {
				return progress, errors.New("the watch ended")
			}
			answer = got
		}
		switch err := answer.Err(); {
		case errors.Is(err, rpctypes.ErrCompacted):
			return true, f.list(ctx)
		case err != nil:
			return progress, err
		}
		if batch, ok := f.learn(answer.Events, answer.Header.Revision, answer.IsProgressNotify()); ok {
			progress = true
			f.take(batch)
		}
	}
}

// wentBack reports whether the store was restored to an earlier state, so that the passed state is no longer true. It
// queries etcd, which delays the watch, only if there was no other query since the last time.
func (f *follower) wentBack(ctx context.Context) (bool, error) {
	if f.epoch != f.store.Epoch() {
		return true, nil
	}
	mark := f.mark
	f.mark = f.revision
	if f.store.answered.Load() >= mark {
		return false, nil
	}
	newest, err := f.store.newest(ctx)
	if err != nil || newest >= f.revision {
		return false, nil //nolint:nilerr // what is wrong with the store, the watch tells
	}
	f.store.log.Warn("the store has gone back: was etcd restored?", "revision", newest, "before", f.revision)
	return true, f.store.RenewEpoch(ctx)
}

// learn makes a batch of a watch's message; ok is false if it has no news.
func (f *follower) learn(events []*clientv3.Event, revision int64, all bool) (b Batch, ok bool) {
	for _, e := range events {
		one := Event{KV: kv(f.store.cfg.Prefix, e.Kv), Removed: e.Type == mvccpb.DELETE}
		if one.Revision <= f.revision {
			continue // passed on before
		}
		if one.Removed {
			one.Value = nil
			delete(f.known, one.Key)
		} else {
			f.known[one.Key] = one.Revision
		}
		b.Events = append(b.Events, one)
	}
	switch {
	case len(b.Events) > 0:
		f.revision = b.Events[len(b.Events)-1].Revision
	case all && revision > f.revision:
		f.revision = revision
	default:
		return b, false
	}
	b.Revision = f.revision
	return b, true
}

// list passes on the differences from the known state, or everything in a new epoch.
func (f *follower) list(ctx context.Context) error {
	epoch := f.store.Epoch() // before the listing, whose epoch is then this or a later one
	kvs, revision, err := f.store.list(ctx, f.prefix)
	if err != nil {
		return err
	}
	if f.known != nil {
		f.store.stats.resyncs.Add(1)
	}
	if epoch != f.epoch {
		// In the new epoch, a key may have another value at its known revision.
		for key := range f.known {
			f.known[key] = 0
		}
	}
	var events []Event
	events, f.known = difference(f.known, kvs, revision)
	f.revision, f.epoch = revision, epoch
	f.take(Batch{Events: events, Revision: revision, Listed: true, Epoch: epoch})
	return nil
}

// difference returns the events that lead from the known keys and revisions to a listing, and the new known keys.
func difference(known map[string]int64, listing []KV, revision int64) (events []Event, now map[string]int64) {
	now = make(map[string]int64, len(listing))
	for _, kv := range listing {
		now[kv.Key] = kv.Revision
		if known[kv.Key] != kv.Revision {
			events = append(events, Event{KV: kv})
		}
	}
	for key := range known {
		if now[key] == 0 {
			events = append(events, Event{KV: KV{Key: key, Revision: revision}, Removed: true})
		}
	}
	slices.SortFunc(events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Key, b.Key))
	})
	return events, now
}

// list returns all keys that begin with prefix, as of one revision.
func (s *Store) list(ctx context.Context, prefix string) (kvs []KV, revision int64, err error) {
	for {
		kvs, revision, err = s.listOnce(ctx, prefix)
		if !errors.Is(err, rpctypes.ErrCompacted) {
			return kvs, revision, err
		}
		// The revision was compacted during the reading. The next attempt reads a newer one.
	}
}

func (s *Store) listOnce(ctx context.Context, prefix string) (kvs []KV, revision int64, err error) {
	from, end := s.cfg.Prefix+prefix, clientv3.GetPrefixRangeEnd(s.cfg.Prefix+prefix)
	revision, _, err = s.pages(ctx, from, end, 0, 0, func(e *mvccpb.KeyValue) error {
		kvs = append(kvs, kv(s.cfg.Prefix, e))
		return nil
	})
	return kvs, revision, err
}

// pages passes to take up to limit keys of a range, in order, at one revision, page by page. The limit 0 is none, and
// the revision 0 the newest. It returns the revision, and whether there are more keys. Meanwhile this store compacts
// nothing past the revision.
func (s *Store) pages(ctx context.Context, from, end string, limit int, revision int64, take func(*mvccpb.KeyValue) error) (at int64, more bool, err error) {
	hold := s.holds.take()
	defer hold.release()
	for size, left := firstPage, limit; ; {
		asked := size
		if limit > 0 {
			asked = min(size, left)
		}
		page, err := s.page(ctx, from, end, asked, revision)
		if errors.Is(err, errTooLarge) && asked > 1 {
			size = asked / 2
			continue
		}
		if err != nil {
			return 0, false, err
		}
		if revision == 0 {
			revision = page.Header.Revision
		}
		hold.at(revision)
		bytes := 0
		for _, e := range page.Kvs {
			bytes += len(e.Key) + len(e.Value)
			if err := take(e); err != nil {
				return 0, false, err
			}
		}
		left -= len(page.Kvs)
		if !page.More || limit > 0 && left <= 0 {
			return revision, page.More, nil
		}
		size = min(max(1, pageBytes*len(page.Kvs)/bytes), listPage)
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

// errTooLarge says that a page exceeds the size of a message.
var errTooLarge = errors.New("the page is larger than an answer may be")

// page reads keys of a range, in order, at a revision; 0 is the newest.
func (s *Store) page(ctx context.Context, from, end string, limit int, revision int64) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	got, err := s.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(int64(limit)), clientv3.WithRev(revision))
	switch {
	case err == nil:
		s.contact()
		return got, nil
	case errors.Is(err, rpctypes.ErrCompacted):
		return nil, err
	case status.Code(err) == codes.ResourceExhausted && !errors.As(err, new(rpctypes.EtcdError)):
		// It is gRPC that refuses, not etcd.
		return nil, fmt.Errorf("%w: %w", errTooLarge, unavailable(ctx, err))
	}
	return nil, unavailable(ctx, err)
}

// List returns up to limit keys that begin with prefix and come after the key after, in order. more reports whether
// there are others. It is a linearizable read.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) (kvs []KV, more bool, err error) {
	from := s.cfg.Prefix + prefix
	if after != "" {
		from = max(from, s.cfg.Prefix+after+"\x00")
	}
	end := clientv3.GetPrefixRangeEnd(s.cfg.Prefix + prefix)
	if from >= end {
		return nil, false, nil
	}
	for {
		_, more, err = s.pages(ctx, from, end, limit, 0, func(e *mvccpb.KeyValue) error {
			kvs = append(kvs, kv(s.cfg.Prefix, e))
			return nil
		})
		if !errors.Is(err, rpctypes.ErrCompacted) {
			break
		}
		kvs = nil // the next attempt reads a newer revision
	}
	if err != nil {
		return nil, false, err
	}
	return kvs, more, nil
}

// Get returns a key; its Revision is 0 if there is none (a linearizable read).
func (s *Store) Get(ctx context.Context, key string) (KV, error) {
	kvs, err := s.GetAll(ctx, key)
	if err != nil {
		return KV{}, err
	}
	return kvs[0], nil
}

// GetAll returns keys in their order, all at one revision; the Revision of a missing one is 0 (a linearizable read).
func (s *Store) GetAll(ctx context.Context, keys ...string) ([]KV, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	ops := make([]clientv3.Op, len(keys))
	for i, key := range keys {
		ops[i] = clientv3.OpGet(s.cfg.Prefix + key)
	}
	got, err := s.client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	if len(got.Responses) != len(keys) {
		return nil, errAnswer
	}
	s.contact()
	kvs := make([]KV, len(keys))
	for i, key := range keys {
		kvs[i] = found(key, got.Responses[i])
	}
	return kvs, nil
}

// newest returns etcd's revision, which other users of the cluster advance too (a
// linearizable read).
func (s *Store) newest(ctx context.Context) (int64, error) {
	got, err := s.page(ctx, s.cfg.Prefix+headKey, s.cfg.Prefix+headKey+"\x00", 1, 0)
	if err != nil {
		return 0, err
	}
	s.answered.Store(got.Header.Revision)
	return got.Header.Revision, nil
}

// An Entry is one group's entry in the journal.
type Entry struct {
	Name     string // sorts by time
	Revision int64
	Notes    [][]byte // notes of the requests that were carried out
}

// Journal returns up to limit entries after the one named after, oldest first, and
// whether there are more. Entries are in the order of their makers' clocks; Revision is
// the true order.
func (s *Store) Journal(ctx context.Context, after string, limit int) (entries []Entry, more bool, err error) {
	if after != "" {
		after = journalKey + after + "0" // after the marks of refused requests, which begin with a slash
	}
	kvs, more, err := s.List(ctx, journalKey, after, limit)
	if err != nil {
		return nil, false, err
	}
	if more {
		// The last entry's marks may be on the next page.
		last := kvs[len(kvs)-1].Key
		marks, _, err := s.List(ctx, last[:min(len(last), len(journalKey)+nameBytes)]+"/", "", maxGroupRequests)
		if err != nil {
			return nil, false, err
		}
		kvs = append(kvs, marks...)
	}
	entries, err = readJournal(kvs)
	return entries, more, err
}

// readJournal joins entries with their marks.
func readJournal(kvs []KV) (entries []Entry, err error) {
	var indexes []int
	for _, kv := range kvs {
		name := kv.Key[len(journalKey):]
		if len(name) > nameBytes && len(entries) > 0 && name[:nameBytes] == entries[len(entries)-1].Name {
			var index int
			if _, err := fmt.Sscanf(name[nameBytes:], "/%d", &index); err == nil {
				indexes = append(indexes, index)
			}
			continue
		}
		if len(name) != nameBytes {
			continue // a mark whose entry was removed
		}
		drop(entries, indexes)
		indexes = nil
		notes, err := unpackNotes(kv.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		entries = append(entries, Entry{Name: name, Revision: kv.Revision, Notes: notes})
	}
	drop(entries, indexes)
	for i := range entries {
		entries[i].Notes = slices.DeleteFunc(entries[i].Notes, func(n []byte) bool { return len(n) == 0 })
	}
	return entries, nil
}

// drop removes the notes of refused requests from the last entry.
func drop(entries []Entry, indexes []int) {
	for _, i := range indexes {
		if notes := entries[len(entries)-1].Notes; i < len(notes) {
			notes[i] = nil
		}
	}
}
