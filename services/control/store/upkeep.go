package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A Member is one etcd, as Status finds it.
type Member struct {
	Endpoint  string `json:"endpoint,omitempty"` // none if embedded
	Error     string `json:"error,omitempty"`    // why nothing else is known
	Version   string `json:"version,omitempty"`
	Leader    bool   `json:"leader"`
	Bytes     int64  `json:"bytes"`        // of the database's file
	BytesUsed int64  `json:"bytes_in_use"` // of these; the rest is used again, or given back by Reclaim
	Quota     int64  `json:"quota_bytes"`  // 0 is not known

	id uint64 // etcd's; 0 is not known
}

// A Status is how the store is.
type Status struct {
	Epoch    string   `json:"epoch"`
	Embedded bool     `json:"embedded"`
	Silence  float64  `json:"silence_seconds"` // since etcd last answered
	Members  []Member `json:"members"`
	// Alarms are etcd's, NOSPACE, which refuses writes until Reclaim, and CORRUPT, which refuses
	// everything, and DISKFULL: the embedded etcd's disk has too little room for writes.
	Alarms []string `json:"alarms"`
	// Warning says what will happen, before it does.
	Warning string `json:"warning,omitempty"`
}

// warnShare is how full the quota is when it is said.
const warnShare = 0.8

// Status asks every member how it is.
func (s *Store) Status(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	st := Status{Epoch: s.Epoch(), Embedded: s.cfg.Embedded(), Members: []Member{}, Alarms: []string{}}
	for _, endpoint := range s.endpoints() {
		m := Member{Endpoint: endpoint}
		got, err := s.client.Status(ctx, endpoint)
		if err != nil {
			m.Error = err.Error()
		} else {
			m.id = got.Header.MemberId
			m.Version, m.Leader, m.Bytes, m.BytesUsed, m.Quota = got.Version, got.Leader == got.Header.MemberId, got.DbSize, got.DbSizeInUse, got.DbSizeQuota
			s.contact()
		}
		st.Members = append(st.Members, m)
	}
	alarms, err := s.client.AlarmList(ctx)
	if err != nil {
		return st, unavailable(ctx, err)
	}
	for _, a := range alarms.Alarms {
		st.Alarms = append(st.Alarms, a.Alarm.String())
	}
	st.Silence = s.Silence().Seconds()
	st.Warning = warning(st)
	if d := s.full.Load(); d != nil {
		st.Alarms = append(st.Alarms, alarmDisk)
		st.Warning = d.String()
	}
	return st, nil
}

// warning says what is about to happen to the database, or has.
func warning(st Status) string {
	for _, a := range st.Alarms {
		if a == pb.AlarmType_NOSPACE.String() {
			return "the database has reached its quota: etcd refuses all writes, and answers reads, until space is reclaimed"
		}
	}
	for _, m := range st.Members {
		if !m.full() {
			continue
		}
		remedy := "remove resources, keep less of the audit, or raise the quota"
		if float64(m.BytesUsed) < warnShare*float64(m.Bytes) {
			remedy = "reclaim space, which gives back what is not in use"
		}
		return fmt.Sprintf("the database's file has %d of the quota's %d bytes, of which %d are in use: at 100 %% etcd refuses all writes; %s", m.Bytes, m.Quota, m.BytesUsed, remedy)
	}
	return ""
}

// full tells whether the quota is nearly reached. What etcd compares with it is the file, which
// does not shrink when keys are removed.
func (m Member) full() bool { return m.Quota > 0 && float64(m.Bytes) >= warnShare*float64(m.Quota) }

// endpoints are those to ask one by one; the embedded etcd's is "".
func (s *Store) endpoints() []string {
	if s.cfg.Embedded() {
		return []string{""}
	}
	return s.client.Endpoints()
}

// upkeepPeriod is how often the journal is shortened where nothing is compacted.
const upkeepPeriod = 10 * time.Second

// upkeep compacts, shortens the journal, and warns before the quota is reached, until the store
// is closed.
func (s *Store) upkeep() {
	period := s.cfg.CompactPeriod
	if period == 0 {
		period = upkeepPeriod
	}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	u := s.newUpkeep()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
		}
		u.turn()
	}
}

// An upkeep is what one turn of it has to know of those before.
type upkeep struct {
	*Store
	old     compaction
	journal []span // nil before it was read
	known   revisions
	warned  string
}

func (s *Store) newUpkeep() *upkeep {
	return &upkeep{Store: s, old: compaction{keepRevisions: s.cfg.KeepRevisions, keepChanges: s.cfg.KeepChanges}}
}

// turn does everything once. What fails keeps nothing else from being done: without compaction and
// alarms, a journal that cannot be shortened would fill the database, and nobody would know.
func (u *upkeep) turn() {
	_ = u.readEpoch(u.ctx) // Silence tells
	newest, err := u.newest(u.ctx)
	if err != nil {
		return // the same
	}
	if u.full.Load() == nil { // both write
		if err := u.trim(newest); err != nil && u.ctx.Err() == nil {
			u.log.Warn("the journal could not be shortened", "error", err)
		}
		if u.cfg.CompactPeriod > 0 {
			u.compactOld(&u.old)
		}
	}
	st, err := u.Status(u.ctx)
	if err != nil {
		return // the same
	}
	u.status.Store(&st)
	if now := warning(st); (now == "") != (u.warned == "") {
		u.warned = now
		if u.warned == "" {
			u.log.Info("the database is within its quota again")
		} else {
			u.log.Warn(u.warned)
		}
	}
}

// trim removes what is old or too much of the journal.
func (u *upkeep) trim(newest int64) (err error) {
	settled := u.known.settled(newest, time.Since(u.started), u.resolveTimeout())
	if u.journal == nil {
		if u.journal, err = u.readSpans(u.ctx); err != nil {
			return err
		}
	}
	cutoff := time.Now().Add(-u.cfg.JournalAge)
	u.journal = append(u.journal, span{time.Now(), u.noted.Swap(0)})
	u.journal, cutoff = shortenSpans(u.journal, u.cfg.JournalBytes, cutoff)
	return u.shorten(u.ctx, cutoff, settled, maxSlices)
}

// resolveTimeout is for how long any store tries to resolve the fate of a group: until then,
// it must be recognized by its entry.
func (s *Store) resolveTimeout() time.Duration { return max(time.Minute, 2*s.cfg.Timeout) }

// revisions are those that were the newest at some times, oldest first.
type revisions []struct {
	at       time.Duration // by a clock that does not jump
	revision int64
}

// settled notes which revision is the newest now, and returns one that was so long ago, or
// longer; 0 if that is not known.
func (r *revisions) settled(newest int64, now, age time.Duration) int64 {
	if n := len(*r); n > 0 && newest < (*r)[n-1].revision {
		*r = nil // the store was restored to an earlier state
	}
	*r = append(*r, struct {
		at       time.Duration
		revision int64
	}{now, newest})
	for len(*r) > 1 && now-(*r)[1].at >= age {
		*r = (*r)[1:]
	}
	if now-(*r)[0].at < age {
		return 0
	}
	return (*r)[0].revision
}

// compactOld compacts what is more than is to be kept, if that is worth a call.
func (s *Store) compactOld(c *compaction) {
	newest, err := s.newest(s.ctx)
	if err != nil {
		return // Silence tells
	}
	to, worth := c.next(mark{newest, s.changes.Load()})
	if !worth || to.revision > s.holds.least() {
		return // what is held back is compacted later
	}
	if err := s.compact(s.ctx, to.revision); err != nil {
		s.log.Warn("compaction failed", "revision", to.revision, "error", err)
		return
	}
	c.done = to
}

// A mark is about how many changes this store had made when a revision was the newest.
type mark struct{ revision, changes int64 }

// A compaction decides what is old: what has enough revisions behind it, or enough changes, as
// one revision may be hundreds of them.
type compaction struct {
	keepRevisions, keepChanges int64

	marks []mark // those that are not old, and the last one that is; no two of one revision
	done  mark   // up to where it was compacted
}

// next returns up to where all is old now, and whether that is worth a call: half of what is
// kept at a time, since compaction costs per call, too.
func (c *compaction) next(now mark) (to mark, worth bool) {
	if n := len(c.marks); n > 0 && now.revision < c.marks[n-1].revision {
		c.marks, c.done = nil, mark{} // the store was restored to an earlier state
	}
	if n := len(c.marks); n == 0 || c.marks[n-1].revision < now.revision {
		c.marks = append(c.marks, now)
	}
	old := func(m mark) bool {
		return now.revision-m.revision >= c.keepRevisions || now.changes-m.changes >= c.keepChanges
	}
	for len(c.marks) > 1 && old(c.marks[1]) {
		c.marks = c.marks[1:]
	}
	if to = c.marks[0]; !old(to) {
		to = mark{}
	}
	to.revision = max(to.revision, now.revision-c.keepRevisions) // between two marks
	return to, to.revision-c.done.revision >= max(c.keepRevisions/2, 1) || to.revision > c.done.revision && to.changes-c.done.changes >= max(c.keepChanges/2, 1)
}

// A span is how much the journal grew by until a time since the span before.
type span struct {
	until time.Time
	bytes int64
}

// shortenSpans leaves out the oldest spans that are too much or older than cutoff, and
// returns what is left, and from before when entries are to be removed.
func shortenSpans(spans []span, most int64, cutoff time.Time) ([]span, time.Time) {
	total := int64(0)
	for i := len(spans) - 1; i >= 0; i-- {
		total += spans[i].bytes
		if total > most || spans[i].until.Before(cutoff) {
			if spans[i].until.After(cutoff) {
				cutoff = spans[i].until
			}
			return spans[i+1:], cutoff
		}
	}
	return spans, cutoff
}

// spanTime is how much one span of a journal that is read has.
const spanTime = time.Minute

// readSpans reads how large the journal is; it is never nil.
func (s *Store) readSpans(ctx context.Context) ([]span, error) {
	spans := []span{}
	after := ""
	for {
		kvs, more, err := s.List(ctx, journalKey, after, sliceKeys)
		if err != nil {
			return nil, err
		}
		for _, kv := range kvs {
			after = kv.Key
			at, err := strconv.ParseInt(kv.Key[len(journalKey):min(len(kv.Key), len(journalKey)+16)], 16, 64)
			if err != nil {
				continue // none of ours
			}
			until := time.Unix(0, at)
			if n := len(spans); n == 0 || until.After(spans[n-1].until) {
				spans = append(spans, span{until: until.Add(spanTime)})
			}
			spans[len(spans)-1].bytes += int64(overhead + len(kv.Key) + len(kv.Value))
		}
		if !more {
			return spans, nil
		}
	}
}

// compact removes what keys were before a revision. Followers that are further behind
// than that list again.
func (s *Store) compact(ctx context.Context, to int64) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if _, err := s.client.Compact(ctx, to); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return unavailable(ctx, err)
	}
	return nil
}

// Old journal entries are removed slice by slice: one transaction of them all would hold
// up every other.
const (
	sliceKeys = 250
	maxSlices = 200
)

// shorten removes journal entries from before a time, and those of groups without notes
// older than quietAge, at most the given number of slices of each. Times in names are by the clocks of who
// made them, which may be days apart, so nothing is removed that is newer than a settled
// revision: a group that is still pursued would not be recognized, and be carried out twice.
func (s *Store) shorten(ctx context.Context, cutoff time.Time, settled int64, slices int) error {
	return errors.Join(
		s.remove(ctx, journalKey, before(journalKey, cutoff), settled, slices),
		s.remove(ctx, quietKey, before(quietKey, time.Now().Add(-quietAge)), settled, slices),
	)
}

// quietAge is for how long a group without notes can be recognized: far longer than its
// fate is pursued.
const quietAge = time.Hour

// remove removes keys from one to before another that are not newer than a revision, slice
// by slice.
func (s *Store) remove(ctx context.Context, from, to string, settled int64, slices int) error {
	from, to = s.cfg.Prefix+from, s.cfg.Prefix+to
	for range slices {
		turn, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
		got, err := s.client.Get(turn, from, clientv3.WithRange(to), clientv3.WithLimit(sliceKeys), clientv3.WithKeysOnly())
		if err == nil {
			for _, run := range runs(got.Kvs, settled) {
				if _, err = s.client.Delete(turn, run.first, clientv3.WithRange(run.last+"\x00")); err != nil {
					break
				}
			}
		}
		cancel()
		if err != nil {
			return unavailable(ctx, err)
		}
		if !got.More {
			break
		}
		from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
	return nil
}

// A run is keys that follow on each other.
type run struct{ first, last string }

// runs are those of the keys that are not newer than a revision.
func runs(kvs []*mvccpb.KeyValue, settled int64) (list []run) {
	within := false
	for _, kv := range kvs {
		key := string(kv.Key)
		switch {
		case kv.ModRevision > settled:
			within = false
		case within:
			list[len(list)-1].last = key
		default:
			list = append(list, run{key, key})
			within = true
		}
	}
	return list
}

// Reclaim gives space back after the quota was reached, or before: it compacts all but
// the newest revision, whoever reads an older one, defragments one member after the other, and
// ends the alarms of those that have room again. A member answers nobody while it is
// defragmented, for about a second per gigabyte; followers that were behind list again.
//
// An embedded etcd that is one of several members is the only one that its store reaches:
// Reclaim goes to each replica then. The error wraps ErrNoSpace while a member keeps its alarm.
// Alarms of another kind stay: that data is corrupt does not end by making room.
//
// It takes Config.reclaimTime at most. What etcd has begun by then, it ends by itself; alarms stay.
func (s *Store) Reclaim(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.reclaimTime, fmt.Errorf("not done in %v: etcd goes on by itself; ask again later", s.cfg.reclaimTime))
	defer cancel()
	if d := s.full.Load(); d != nil {
		return fmt.Errorf("%w: %v: defragmenting writes the database a second time", ErrDiskFull, d)
	}
	before, err := s.Status(ctx)
	if err != nil {
		return err
	}
	newest, err := s.newest(ctx)
	if err != nil {
		return err
	}
	if err := s.compactWhole(ctx, newest); err != nil {
		return err
	}
	for _, endpoint := range s.endpoints() {
		if err := s.defragment(ctx, endpoint); err != nil {
			return fmt.Errorf("defragment %q: %w", endpoint, err)
		}
	}
	st, err := s.Status(ctx)
	if err != nil {
		return err
	}
	roomy := map[uint64]bool{}
	for i, m := range st.Members {
		if m.full() {
			return fmt.Errorf("%w: %d of %d bytes are in use after all that could be reclaimed was: remove resources or raise the quota", ErrNoSpace, m.Bytes, m.Quota)
		}
		if m.Error == "" {
			roomy[m.id] = true
			s.log.Info("space reclaimed", "member", fmt.Sprintf("%x", m.id), "bytes", m.Bytes, "before", before.Members[i].Bytes)
		}
	}
	return s.disarm(ctx, roomy)
}

// maxReclaimTime is enough for the largest quota that there may be, several times over.
const maxReclaimTime = 10 * time.Minute

// disarm ends the alarms for want of space of some members, by their identifiers; the error
// names the others that have one.
func (s *Store) disarm(ctx context.Context, members map[uint64]bool) error {
	alarms, err := s.client.AlarmList(ctx)
	if err != nil {
		return fmt.Errorf("list the alarms: %w", unavailable(ctx, err))
	}
	var others []string
	for _, a := range alarms.Alarms {
		member := fmt.Sprintf("%x", a.MemberID)
		switch {
		case a.Alarm != pb.AlarmType_NOSPACE:
		case !members[a.MemberID]:
			others = append(others, member)
		default:
			if _, err := s.client.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: a.MemberID, Alarm: a.Alarm}); err != nil {
				return fmt.Errorf("end the alarm of member %s: %w", member, err)
			}
			s.log.Info("alarm ended", "member", member)
		}
	}
	if len(others) > 0 {
		return fmt.Errorf("%w: space was reclaimed here, but the alarm of other members stands (%s), and writes are refused until it ends: reclaim at their replicas, too", ErrNoSpace, strings.Join(others, ", "))
	}
	return nil
}

// defragment goes to the embedded etcd's database itself: its client in the process
// cannot (etcd 3.6.16 dereferences a nil pointer in that case).
func (s *Store) defragment(ctx context.Context, endpoint string) error {
	if s.server != nil {
		ended := make(chan error, 1)
		s.background.Go(func() { ended <- s.server.Server.Backend().Defrag() })
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		}
	}
	_, err := s.client.Defragment(ctx, endpoint)
	return err
}

// compactWhole compacts and waits until it is done on the disk, too.
func (s *Store) compactWhole(ctx context.Context, to int64) error {
	if _, err := s.client.Compact(ctx, to, clientv3.WithCompactPhysical()); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return unavailable(ctx, err)
	}
	return nil
}
