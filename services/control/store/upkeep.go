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

	"dyno/services/internal/wait"
)

// A Member is the state of one etcd.
type Member struct {
	Endpoint  string `json:"endpoint,omitempty"` // none if embedded
	Error     string `json:"error,omitempty"`    // why the other fields are unknown
	Version   string `json:"version,omitempty"`
	Leader    bool   `json:"leader"`
	Bytes     int64  `json:"bytes"`        // size of the database's file
	BytesUsed int64  `json:"bytes_in_use"` // of these; the rest is reused, or returned by Reclaim
	Quota     int64  `json:"quota_bytes"`  // 0 is unknown

	id uint64 // etcd's; 0 is unknown
}

// A Status is the state of the store.
type Status struct {
	Epoch    string   `json:"epoch"`
	Embedded bool     `json:"embedded"`
	Silence  float64  `json:"silence_seconds"` // since etcd last answered
	Members  []Member `json:"members"`
	// Alarms are etcd's: NOSPACE, which refuses writes until Reclaim, and CORRUPT, which refuses everything. DISKFULL
	// is the store's own: the embedded etcd's disk has too little room for writes.
	Alarms []string `json:"alarms"`
	// Warning announces a problem in advance.
	Warning string `json:"warning,omitempty"`
}

// warnShare is the used share of the quota from which Status warns.
const warnShare = 0.8

// Status queries the state of every member.
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

// warning describes a problem of the database, imminent or present.
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
			remedy = "reclaim space, which returns unused space"
		}
		return fmt.Sprintf("the database's file has %d of the quota's %d bytes, of which %d are in use: at 100 %% etcd refuses all writes; %s", m.Bytes, m.Quota, m.BytesUsed, remedy)
	}
	return ""
}

// full reports whether the quota is nearly reached. etcd compares it with the file, which does not shrink when keys
// are removed.
func (m Member) full() bool { return m.Quota > 0 && float64(m.Bytes) >= warnShare*float64(m.Quota) }

// endpoints returns the members to query one by one; the embedded etcd's is "".
func (s *Store) endpoints() []string {
	if s.cfg.Embedded() {
		return []string{""}
	}
	return s.client.Endpoints()
}

// upkeepPeriod is the pause between two rounds of upkeep without compaction.
const upkeepPeriod = 10 * time.Second

// upkeep compacts, shortens the journal, and warns before the quota is reached, until the store
// is closed.
func (s *Store) upkeep() {
	period := s.cfg.CompactPeriod
	if period == 0 {
		period = upkeepPeriod
	}
	wait.Every(s.ctx, period, s.newUpkeep().run)
}

// An upkeep has the state that rounds of upkeep share.
type upkeep struct {
	*Store
	old     compaction
	journal []span // nil before it is read
	known   revisions
	warned  string
}

func (s *Store) newUpkeep() *upkeep {
	return &upkeep{Store: s, old: compaction{keepRevisions: s.cfg.KeepRevisions, keepChanges: s.cfg.KeepChanges}}
}

// run carries out one round. A failure does not stop the other work. Otherwise a journal that cannot be shortened
// would fill the database unnoticed, without compaction and alarms.
func (u *upkeep) run() {
	_ = u.readEpoch(u.ctx) // an error shows in Silence
	newest, err := u.newest(u.ctx)
	if err != nil {
		return // an error shows in Silence
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
		return // an error shows in Silence
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

// trim removes journal entries that are too old or too many.
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

// resolveTimeout bounds for how long any store sends a group again: until then, its entry must stay.
func (s *Store) resolveTimeout() time.Duration { return max(time.Minute, 2*s.cfg.Timeout) }

// revisions records the newest revision at some times, oldest first.
type revisions []struct {
	at       time.Duration // by a monotonic clock
	revision int64
}

// settled notes the newest revision, and returns one that was the newest at least age ago; 0 is unknown.
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

// compactOld compacts revisions beyond those to be kept, if that is worth a call.
func (s *Store) compactOld(c *compaction) {
	newest, err := s.newest(s.ctx)
	if err != nil {
		return // an error shows in Silence
	}
	to, worth := c.next(mark{newest, s.changes.Load()})
	if !worth || to.revision > s.holds.least() {
		return // held revisions are compacted later
	}
	if err := s.compact(s.ctx, to.revision); err != nil {
		s.log.Warn("compaction failed", "revision", to.revision, "error", err)
		return
	}
	c.done = to
}

// A mark has a revision, and about how many changes this store had made when it was the newest.
type mark struct{ revision, changes int64 }

// A compaction decides which revisions are old: those followed by enough revisions, or by enough changes, as one
// revision may be hundreds of changes.
type compaction struct {
	keepRevisions, keepChanges int64

	marks []mark // those that are not old, and the last old one; one per revision
	done  mark   // compacted up to here
}

// next returns the newest old mark, and whether it is worth a call: at half of what is kept, as each compaction has a
// fixed cost.
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

// A span is the growth of the journal from the end of the previous span to a time.
type span struct {
	until time.Time
	bytes int64
}

// shortenSpans drops the oldest spans beyond most bytes or before cutoff. It returns the rest, and the time before
// which entries are to be removed.
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

// spanTime is the length of a span when the journal is read.
const spanTime = time.Minute

// readSpans reads the journal's size over time; it is never nil.
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
				continue // not a journal entry
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

// compact removes values of keys from before a revision. Followers further behind list again.
func (s *Store) compact(ctx context.Context, to int64) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if _, err := s.client.Compact(ctx, to); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return unavailable(ctx, err)
	}
	return nil
}

// Old journal entries are removed slice by slice: one transaction for all would delay all others.
const (
	sliceKeys = 250
	maxSlices = 200
)

// shorten removes journal entries from before a time, and entries without notes that are older than quietAge. It
// removes at most the given number of slices of each. Times in names are by the clocks of their makers, which may be
// days apart. So it removes nothing newer than a settled revision. Otherwise a group that is still sent again would
// not be recognized, and would be carried out twice.
func (s *Store) shorten(ctx context.Context, cutoff time.Time, settled int64, slices int) error {
	return errors.Join(
		s.remove(ctx, journalKey, before(journalKey, cutoff), settled, slices),
		s.remove(ctx, quietKey, before(quietKey, time.Now().Add(-quietAge)), settled, slices),
	)
}

// quietAge is for how long a group without notes can be recognized: far longer than it is sent again.
const quietAge = time.Hour

// remove removes keys of a range that are not newer than a revision, slice by slice.
func (s *Store) remove(ctx context.Context, from, to string, settled int64, slices int) error {
	from, to = s.cfg.Prefix+from, s.cfg.Prefix+to
	for range slices {
		attempt, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
		got, err := s.client.Get(attempt, from, clientv3.WithRange(to), clientv3.WithLimit(sliceKeys), clientv3.WithKeysOnly())
		if err == nil {
			for _, run := range runs(got.Kvs, settled) {
				if _, err = s.client.Delete(attempt, run.first, clientv3.WithRange(run.last+"\x00")); err != nil {
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

// A run is a range of consecutive keys.
type run struct{ first, last string }

// runs returns the runs of keys that are not newer than a revision.
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

// Reclaim returns unused space, for example after the quota was reached. It compacts all revisions but the newest,
// even those being read. It defragments one member after the other, and ends the alarms of members that have room
// again. A member answers no requests during its defragmentation, about a second per gigabyte; followers that were
// behind list again.
//
// Of several embedded members, a store reaches only its own: call Reclaim at each replica. The error wraps ErrNoSpace
// while a member keeps its alarm. Alarms of other kinds stay: space does not repair corrupt data.
//
// It takes at most Config.reclaimTime. etcd then ends by itself what it has begun; alarms stay.
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

// maxReclaimTime is several times the time for the largest quota.
const maxReclaimTime = 10 * time.Minute

// disarm ends the NOSPACE alarms of some members, by their identifiers; the error names other members with that
// alarm.
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

// defragment calls the embedded etcd's database directly: the in-process client cannot (etcd 3.6.16 dereferences a
// nil pointer).
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
