package plane

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"sort"
	"time"

	"dyno/services/control/resource"
)

// A presence is one replica's knowledge of live instances and replicas. An instance has one holder, the replica that
// collects its heartbeats and removes it. Any replica accepts heartbeats and reports them to the holder. The holder
// reports to all which of its instances are overdue. So all replicas show the same. A replica that takes instances
// over, or restarts, knows which were overdue.
//
// It has no lock and no clock: Plane.mu guards it, and times are the Plane's. Replicas report to each other through
// the store, by report.go.
type presence struct {
	self     string
	grace    time.Duration      // after an outage, no replica is taken for gone
	liveness *resource.Liveness // of the instances watched here: this replica's, and those whose holders are gone
	watched  map[mark]string    // their paths

	began    bool                     // the state at the start is known
	awake    time.Duration            // the end of the last outage
	replicas map[string]time.Duration // the last sign of life of each other replica
	gone     map[string]bool          // replicas without signs of life, whose instances are watched here
	held     map[string]map[string]holding
	silent   map[string]*markSet      // overdue instances by replica, with this one, as the store has them
	departed map[string]time.Duration // overdue instances that were removed, and when

	late  markSet         // this replica's overdue instances, by the last look
	heard map[string]beat // heartbeats of other replicas' instances, not yet reported to their holders
}

// A holding is an instance of another replica.
type holding struct {
	mark  mark
	lease time.Duration
}

// A beat is a heartbeat. It must be reported by its due time, so that the holder knows it before the lease ends.
type beat struct{ at, due time.Duration }

func newPresence(self string, cfg resource.LivenessConfig) presence {
	return presence{
		self: self, grace: cfg.RecoveryGrace, liveness: resource.NewLiveness(cfg), watched: map[mark]string{},
		replicas: map[string]time.Duration{}, gone: map[string]bool{}, held: map[string]map[string]holding{},
		silent: map[string]*markSet{}, departed: map[string]time.Duration{}, heard: map[string]beat{},
	}
}

// begin notes that the state at the start is known. All instances have time to be heard.
func (p *presence) begin(now time.Duration) {
	p.began, p.awake = true, now
	p.liveness.Return(now)
	p.late = marksOf(p.liveness.Late()) // the store's state, with changes since
}

// leave notes that this replica's store was a follower's until now. What was overdue at the primary stays overdue.
func (p *presence) leave() {
	for holder := range p.held {
		for part, marks := range p.silent[followed] {
			p.setSilent(holder, part, marks)
		}
	}
	delete(p.silent, followed)
}

// pause notes an outage that lasts until now: of this process, of the store, or of changes to it. Reports of others,
// signs of life as well, may still be on their way.
func (p *presence) pause(now time.Duration) {
	p.awake = now
	p.liveness.Keep(now)
}

// learn applies a change of an instance. before or after is nil if it does not exist.
func (p *presence) learn(path string, before, after *resource.Instance, now time.Duration) {
	from := p.self
	if before != nil {
		from = before.Holder
	}
	overdue := p.isOverdue(path)
	if before != nil && (after == nil || after.Holder != before.Holder) {
		delete(p.held[from], path)
		if len(p.held[from]) == 0 {
			delete(p.held, from)
			delete(p.gone, from)
		}
	}
	switch {
	case after == nil:
		if overdue {
			p.departed[path] = now
		}
		p.forget(path)
		delete(p.heard, path)
	case after.Holder != p.self:
		if before != nil && after.Holder != before.Holder {
			p.forget(path)
		}
		if p.held[after.Holder] == nil {
			p.held[after.Holder] = map[string]holding{}
		}
		p.held[after.Holder][path] = holding{markAt(after.Holder, path), after.Lease()}
	case before != nil && before.Holder == p.self && after.Version > before.Version:
		if after.Judged(before) {
			break
		}
		p.liveness.Beat(path, after.Lease(), now) // its client has registered again
	case !p.liveness.Knows(path):
		p.watch(path, after.Lease(), from, now)
	}
	if after != nil {
		delete(p.departed, path)
	}
}

// watch begins to watch an instance, which was another replica's or, at the start, this one's.
func (p *presence) watch(path string, lease time.Duration, from string, now time.Duration) {
	m := markOf(path)
	p.watched[m] = path
	heard, ok := p.heard[path]
	delete(p.heard, path)
	switch {
	case ok:
		p.liveness.Beat(path, lease, heard.at)
	case (from != p.self || !p.began) && (p.silent[from].has(m) || p.silent[followed].has(m)):
		p.liveness.Doubt(path, lease, now)
	default:
		p.liveness.Beat(path, lease, now)
	}
}

func (p *presence) forget(path string) {
	if p.liveness.Knows(path) {
		p.liveness.Forget(path)
		delete(p.watched, markOf(path))
	}
}

// hear notes a heartbeat that came here. This replica may not know yet that it holds the instance.
func (p *presence) hear(path string, i *resource.Instance, now time.Duration) {
	if p.liveness.Knows(path) {
		p.liveness.Beat(path, i.Lease(), now)
		return
	}
	due := now + min(reportLatest, i.Lease()/reportShare)
	if before, ok := p.heard[path]; ok {
		due = min(due, before.due)
	}
	p.heard[path] = beat{now, due}
}

// sign notes that another replica lives.
func (p *presence) sign(name string, now time.Duration) {
	p.replicas[name] = now
	if p.gone[name] {
		delete(p.gone, name)
		for path := range p.held[name] {
			p.forget(path)
		}
	}
}

// look finds overdue instances, and returns the instances to remove.
func (p *presence) look(now time.Duration) []string {
	for name, heard := range p.replicas {
		if now-heard > 100*replicaTTL {
			delete(p.replicas, name)
		}
	}
	for path, at := range p.departed {
		if now-at > departedTime {
			delete(p.departed, path)
		}
	}
	for holder, paths := range p.held {
		if isOfCopies(holder) || now-p.awake < p.grace || now-max(p.replicas[holder], p.awake) < replicaTTL {
			continue
		}
		p.gone[holder] = true
		for path, h := range paths {
			if !p.liveness.Knows(path) {
				p.watch(path, h.lease, holder, now)
			}
		}
	}
	gone := p.liveness.Look(now)
	p.late = marksOf(p.liveness.Late())
	return gone
}

// departedTime is for how long a removed instance still counts as overdue, for clients that read it before.
const departedTime = 5 * time.Second

// orphans returns the instances whose holders are gone: their paths, with the holders.
func (p *presence) orphans() map[string]string {
	orphans := map[string]string{}
	for holder := range p.gone {
		for path := range p.held[holder] {
			orphans[path] = holder
		}
	}
	return orphans
}

// isOverdue reports whether an instance is overdue. A removed one stays overdue for a client that read it before. An
// unknown one is new: its reader is ahead of this replica.
func (p *presence) isOverdue(path string) bool {
	if p.liveness.Knows(path) {
		return p.liveness.Overdue(path)
	}
	if _, removed := p.departed[path]; removed {
		return true
	}
	for holder, instances := range p.held {
		if h, ok := instances[path]; ok {
			return p.silent[holder].has(h.mark)
		}
	}
	return false
}

// overdue returns the paths of all overdue instances, held by this replica or another, in no order.
func (p *presence) overdue() []string {
	paths := p.liveness.Late()
	for holder, instances := range p.held {
		if p.gone[holder] || p.silent[holder] == nil {
			continue
		}
		for path, h := range instances {
			if p.silent[holder].has(h.mark) {
				paths = append(paths, path)
			}
		}
	}
	return slices.AppendSeq(paths, maps.Keys(p.departed))
}

// setSilent notes one part of a replica's set of overdue instances, as the store has it.
func (p *presence) setSilent(replica string, part int, marks string) {
	set := p.silent[replica]
	if set == nil {
		set = &markSet{}
		p.silent[replica] = set
	}
	if set[part] = marks; *set == (markSet{}) {
		delete(p.silent, replica)
	}
}

// reported notes heartbeats of instances watched here, which another replica reported at a time.
func (p *presence) reported(beats []reportedBeat, at time.Duration) {
	for _, b := range beats {
		if path, ok := p.watched[b.mark]; ok {
			p.liveness.Heard(path, at-b.age)
		}
	}
}

// due returns the heartbeats to report now: all, if one is due. The caller gives back with keep those that it could
// not report.
func (p *presence) due(now time.Duration) map[string]beat {
	for _, b := range p.heard {
		if now >= b.due {
			all := p.heard
			p.heard = map[string]beat{}
			return all
		}
	}
	return nil
}

func (p *presence) keep(beats map[string]beat) {
	for path, b := range beats {
		if newer, ok := p.heard[path]; ok {
			b.at = newer.at
		}
		p.heard[path] = b
	}
}

// A mark is a short form of an instance's path, for reports of many instances. Clients that name instances cannot
// choose a path with the mark of another instance.
type mark uint64

func markOf(path string) mark {
	sum := sha256.Sum256([]byte(path))
	return mark(binary.BigEndian.Uint64(sum[:]))
}

const markBytes = 8

// shards are the parts of a markSet, each a key of the store.
const shards = 16

// A markSet has marks in order, each of markBytes bytes; part n has those that begin with n. A nil set has none. nil
// has none.
type markSet [shards]string

func (m mark) shard() int { return int(m >> 60) } //nolint:gosec // 4 bits

func marksOf(paths []string) (set markSet) {
	marks := make([]mark, len(paths))
	for i, path := range paths {
		marks[i] = markOf(path)
	}
	slices.Sort(marks)
	var parts [shards][]byte
	for _, m := range marks {
		parts[m.shard()] = binary.BigEndian.AppendUint64(parts[m.shard()], uint64(m))
	}
	for n, part := range parts {
		set[n] = string(part)
	}
	return set
}

func (s *markSet) has(m mark) bool {
	if s == nil {
		return false
	}
	part := s[m.shard()]
	at := func(n int) mark { return mark(binary.BigEndian.Uint64([]byte(part[n*markBytes : (n+1)*markBytes]))) }
	count := len(part) / markBytes
	n := sort.Search(count, func(n int) bool { return at(n) >= m })
	return n < count && at(n) == m
}

// A reportedBeat is a heartbeat that another replica heard, age before its report.
type reportedBeat struct {
	mark mark
	age  time.Duration
}

// A reportedBeat has its mark and its age, in milliseconds, in beatBytes bytes.
const (
	beatBytes = markBytes + 4
	beatUnit  = time.Millisecond
)

// encodeBeats encodes heartbeats for a report, with their age at a time.
func encodeBeats(beats map[string]beat, now time.Duration) []byte {
	text := make([]byte, 0, beatBytes*len(beats))
	for path, b := range beats {
		text = binary.BigEndian.AppendUint64(text, uint64(markOf(path)))
		text = binary.BigEndian.AppendUint32(text, uint32(min((now-b.at+beatUnit-1)/beatUnit, 1<<32-1))) //nolint:gosec // bounded
	}
	return text
}

// decodeBeats parses the result of encodeBeats. It ignores an incomplete entry at the end.
func decodeBeats(text []byte) (beats []reportedBeat) {
	for ; len(text) >= beatBytes; text = text[beatBytes:] {
		beats = append(beats, reportedBeat{mark(binary.BigEndian.Uint64(text)), time.Duration(binary.BigEndian.Uint32(text[markBytes:])) * beatUnit})
	}
	return beats
}
