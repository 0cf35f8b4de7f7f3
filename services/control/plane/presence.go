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

// A presence is what one replica knows of who lives: instances, and other replicas. An instance has one holder, the
// replica that collects its heartbeats and removes it. Any replica takes heartbeats and tells the holder; the holder
// tells all which of its instances are overdue. So all replicas show the same, and a replica that takes instances
// over, or begins again, knows which were overdue.
//
// It has no lock and no clock: Plane.mu guards it, and times are the Plane's. What replicas tell each other goes
// through the store, by tell.go.
type presence struct {
	self     string
	grace    time.Duration      // after an outage, no replica is taken for gone
	liveness *resource.Liveness // of instances that are watched here: this replica's, and those whose holders are gone
	watched  map[mark]string    // their paths

	began    bool                     // all that there was at the start is known
	awake    time.Duration            // since when there was no outage
	replicas map[string]time.Duration // others: when each last gave a sign of life
	gone     map[string]bool          // those that give none, whose instances are watched here
	held     map[string]map[string]holding
	silent   map[string]*markSet      // by replica, this one's too: what the store has of its instances that are overdue
	departed map[string]time.Duration // instances that were overdue, and when they were removed

	late  markSet         // this replica's instances that are overdue, by the last look
	heard map[string]beat // heartbeats of other replicas' instances, which their holders have yet to be told of
}

// A holding is an instance of another replica.
type holding struct {
	mark  mark
	lease time.Duration
}

// A beat is a heartbeat. It must be told by a time, so that the holder knows it before the lease ends.
type beat struct{ at, due time.Duration }

func newPresence(self string, cfg resource.LivenessConfig) presence {
	return presence{
		self: self, grace: cfg.RecoveryGrace, liveness: resource.NewLiveness(cfg), watched: map[mark]string{},
		replicas: map[string]time.Duration{}, gone: map[string]bool{}, held: map[string]map[string]holding{},
		silent: map[string]*markSet{}, departed: map[string]time.Duration{}, heard: map[string]beat{},
	}
}

// begin notes that all that there was at the start is known. Everybody has time to be heard.
func (p *presence) begin(now time.Duration) {
	p.began, p.awake = true, now
	p.liveness.Return(now)
	p.late = marksOf(p.liveness.Late()) // as the store has it, with what has changed since
}

// pause notes an outage that lasts until now: of this process, of the store, or of changes to it. What others had to tell,
// signs of life as well, may have yet to arrive.
func (p *presence) pause(now time.Duration) {
	p.awake = now
	p.liveness.Keep(now)
}

// learn follows what instances there are. Either of the two is nil where there is none.
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
		p.held[after.Holder][path] = holding{markOf(path), after.Lease()}
	case before != nil && before.Holder == p.self && after.Version > before.Version:
		p.liveness.Beat(path, after.Lease(), now) // its client has registered it again
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
	case (from != p.self || !p.began) && p.silent[from].has(m):
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

// hear notes a heartbeat that came here. This replica may have yet to learn that the instance is its own.
func (p *presence) hear(path string, i *resource.Instance, now time.Duration) {
	if p.liveness.Knows(path) {
		p.liveness.Beat(path, i.Lease(), now)
		return
	}
	due := now + min(signPeriod, i.Lease()/tellShare)
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

// look returns which instances are to be removed, and finds out who is overdue.
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
		if now-p.awake < p.grace || now-max(p.replicas[holder], p.awake) < replicaTTL {
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

// departedTime is for how long an instance that was removed is overdue to whoever read it before.
const departedTime = 5 * time.Second

// orphans returns the paths of instances whose holders are gone, with their holders.
func (p *presence) orphans() map[string]string {
	orphans := map[string]string{}
	for holder := range p.gone {
		for path := range p.held[holder] {
			orphans[path] = holder
		}
	}
	return orphans
}

// isOverdue tells whether an instance is overdue. One that its reader read before it was removed still is. One that is not
// known is new: its reader is ahead.
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

// overdue returns the paths of all that are, whoever holds them, in no order.
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

// setSilent notes a part of which instances of a replica are overdue, as the store has it.
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

// told notes what another replica heard of instances that are watched here, as of a time.
func (p *presence) told(beats []toldBeat, at time.Duration) {
	for _, b := range beats {
		if path, ok := p.watched[b.mark]; ok {
			p.liveness.Heard(path, at-b.age)
		}
	}
}

// due returns the heartbeats that are to be told now: all, if one is due. They are told once: whoever cannot gives them
// back with keep.
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

// A mark stands for the path of an instance, where replicas tell each other of many. Whoever names instances cannot
// choose one that another instance has.
type mark uint64

func markOf(path string) mark {
	sum := sha256.Sum256([]byte(path))
	return mark(binary.BigEndian.Uint64(sum[:]))
}

const markBytes = 8

// shards are the parts of a markSet, each a key of the store.
const shards = 16

// A markSet has marks, in order, each of markBytes bytes: part n those that begin with n. nil has none.
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

// A toldBeat is a heartbeat that another replica heard, so long before it told it.
type toldBeat struct {
	mark mark
	age  time.Duration
}

// A toldBeat has its mark and its age, in milliseconds, in beatBytes bytes.
const (
	beatBytes = markBytes + 4
	beatUnit  = time.Millisecond
)

// encodeBeats is how heartbeats are told, by their age at a time.
func encodeBeats(beats map[string]beat, now time.Duration) []byte {
	text := make([]byte, 0, beatBytes*len(beats))
	for path, b := range beats {
		text = binary.BigEndian.AppendUint64(text, uint64(markOf(path)))
		text = binary.BigEndian.AppendUint32(text, uint32(min((now-b.at+beatUnit-1)/beatUnit, 1<<32-1))) //nolint:gosec // bounded
	}
	return text
}

// decodeBeats reads what encodeBeats wrote. It leaves out a part of one at the end.
func decodeBeats(text []byte) (beats []toldBeat) {
	for ; len(text) >= beatBytes; text = text[beatBytes:] {
		beats = append(beats, toldBeat{mark(binary.BigEndian.Uint64(text)), time.Duration(binary.BigEndian.Uint32(text[markBytes:])) * beatUnit})
	}
	return beats
}
