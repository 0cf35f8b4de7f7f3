package plane

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dyno/services/control/resource"
)

// A cluster is some replicas and their store, without I/O: a log of what is told, which each replica reads in order,
// some of them late.
type cluster struct {
	now       time.Duration
	full      bool // the store refuses changes
	log       []entry
	instances map[string]resource.Instance
	silent    map[string]*markSet
	replicas  []*member
}

// An entry is a change of the store: of an instance, a sign, a part of a markSet, or heartbeats.
type entry struct {
	path          string
	before, after *resource.Instance
	replica       string // it is of
	part          int    // -1: none
	marks         string
	beats         []reportedBeat
}

// A member is a replica that runs or does not.
type member struct {
	presence
	runs   bool
	read   int // of the log
	looked time.Duration
	found  found
}

func livenessOf() resource.LivenessConfig {
	c := resource.DefaultLiveness()
	c.Threshold = 1
	return c
}

func newCluster(names ...string) *cluster {
	c := &cluster{instances: map[string]resource.Instance{}, silent: map[string]*markSet{}}
	for _, name := range names {
		m := &member{presence: newPresence(name, livenessOf())}
		c.replicas = append(c.replicas, m)
		c.start(m)
	}
	return c
}

// start begins a replica: it reads all that there is, as it is.
func (c *cluster) start(m *member) {
	*m = member{presence: newPresence(m.self, livenessOf()), runs: true, read: len(c.log), looked: c.now}
	for name, set := range c.silent {
		for part, marks := range set {
			m.setSilent(name, part, marks)
		}
	}
	for path, i := range c.instances {
		m.learn(path, nil, &i, c.now)
	}
	m.begin(c.now)
	c.report(m)
}

// catchUp has a replica read the log.
func (c *cluster) catchUp(m *member) {
	for ; m.read < len(c.log); m.read++ {
		switch e := c.log[m.read]; {
		case e.path != "":
			m.learn(e.path, e.before, e.after, c.now)
		case e.beats != nil && e.replica != m.self:
			m.reported(e.beats, c.now)
		case e.beats == nil && e.part >= 0:
			m.setSilent(e.replica, e.part, e.marks)
		case e.beats == nil && e.replica != m.self:
			m.sign(e.replica, c.now)
		}
	}
}

// put changes an instance, if the store takes changes.
func (c *cluster) put(path string, i *resource.Instance) bool {
	if c.full {
		return false
	}
	e := entry{path: path, after: i}
	if before, ok := c.instances[path]; ok {
		e.before = &before
		if i != nil {
			i.Version = before.Version + 1
		}
	}
	if delete(c.instances, path); i != nil {
		c.instances[path] = *i
	}
	c.log = append(c.log, e)
	return true
}

// report makes a replica send the due reports.
func (c *cluster) report(m *member) bool {
	if c.full {
		return false
	}
	for part, marks := range m.late {
		if set := m.silent[m.self]; set == nil && marks != "" || set != nil && set[part] != marks {
			if c.silent[m.self] == nil {
				c.silent[m.self] = &markSet{}
			}
			c.silent[m.self][part] = marks
			m.setSilent(m.self, part, marks)
			c.log = append(c.log, entry{replica: m.self, part: part, marks: marks})
		}
	}
	if beats := m.due(c.now); beats != nil {
		c.log = append(c.log, entry{replica: m.self, part: -1, beats: decodeBeats(encodeBeats(beats, c.now))})
	}
	return true
}

// settle removes and takes over what was found, of an earlier look perhaps. Removing succeeds for as many as are given.
func (c *cluster) settle(m *member, removed int) {
	for _, path := range m.found.gone {
		if i, ok := c.instances[path]; ok && i.Holder == m.self && m.liveness.Gone(path) && removed > 0 {
			c.put(path, nil)
			removed--
		}
	}
	if len(m.found.orphans) == 0 || !c.report(m) {
		return
	}
	for path, from := range m.found.orphans {
		if i, ok := c.instances[path]; ok && i.Holder == from {
			i.Holder = m.self
			c.put(path, &i)
		}
	}
}

// second lets a second pass at all replicas.
func (c *cluster) second(settle func(*member)) {
	c.now += time.Second
	for _, m := range c.replicas {
		if !m.runs {
			continue
		}
		if !c.full && c.now%reportLatest == 0 {
			c.log = append(c.log, entry{replica: m.self, part: -1})
		}
		c.catchUp(m)
		if c.full || c.now-m.looked > livenessOf().StallThreshold {
			m.pause(c.now)
		}
		m.looked = c.now
		m.found = found{m.look(c.now), m.orphans()}
		c.report(m)
		settle(m)
	}
	for _, m := range c.replicas {
		if m.runs {
			c.catchUp(m)
		}
	}
}

// TestPresenceKeepsItsWord: replicas and the store fail at random. An instance shown as overdue stays so at that
// replica until a heartbeat or its removal. An instance with heartbeats is never removed; one without is removed in
// the end.
func TestPresenceKeepsItsWord(t *testing.T) {
	const lease = 10 * time.Second
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster("a", "b", "c")
		beats := map[string]bool{} // instances that send some
		heard := map[string]time.Duration{}
		filled := time.Duration(0) // when the store was last
		overdue := map[*member]map[string]bool{}
		for _, m := range c.replicas {
			overdue[m] = map[string]bool{}
		}
		running := func() []*member {
			return slices.DeleteFunc(slices.Clone(c.replicas), func(m *member) bool { return !m.runs })
		}
		some := func() *member {
			all := running()
			return all[rapid.IntRange(0, len(all)-1).Draw(t, "replica")]
		}
		hear := func(path string) {
			m := some()
			i, ok := c.instances[path]
			if !ok {
				return
			}
			if c.full && c.now-filled > reportLatest { // others refuse it
				for _, m = range c.replicas {
					if m.self == i.Holder {
						break
					}
				}
			}
			m.hear(path, &i, c.now)
			heard[path] = c.now
		}
		register := func(path string) {
			m := some()
			i := &resource.Instance{Holder: m.self, TTL: lease.Seconds(), Change: resource.Change{Version: 1}}
			if c.put(path, i) {
				for _, m := range running() {
					c.catchUp(m)
				}
				hear(path)
				beats[path] = true
			}
		}
		check := func() {
			for _, m := range running() {
				for path, i := range c.instances {
					now := m.isOverdue(path)
					// A replica may learn late that one was heard, and that it no longer is.
					if overdue[m][path] && !now && c.now-heard[path] > lease+2*time.Second {
						t.Fatalf("at %v, %s shows %s of %s as healthy again, which was heard at %v", c.now, m.self, path, i.Holder, heard[path])
					}
					overdue[m][path] = now
				}
			}
		}
		down := 0 // how many replicas do not run
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0, 1:
				path := fmt.Sprint("instance/", rapid.IntRange(1, 4).Draw(t, "path"))
				if _, ok := c.instances[path]; !ok {
					register(path)
				}
			case 2:
				path := fmt.Sprint("instance/", rapid.IntRange(1, 4).Draw(t, "path"))
				beats[path] = false // it dies
			case 3:
				if full := rapid.Bool().Draw(t, "full") && down == 0; full != c.full {
					c.full, filled = full, c.now
				}
			case 4:
				if m := some(); down == 0 && !c.full {
					m.runs = false
					down++
				}
			case 5:
				for _, m := range c.replicas {
					// What a replica knows, and has told nobody, is lost with it. While the store is full that is much.
					if !m.runs && !c.full {
						down--
						c.start(m)
						clear(overdue[m])
						for path, i := range c.instances {
							overdue[m][path] = c.silent[i.Holder].has(markOf(path))
						}
					}
				}
			default:
				for range rapid.IntRange(1, 15).Draw(t, "seconds") {
					for _, path := range slices.Sorted(maps.Keys(c.instances)) {
						if beats[path] && c.now%(lease/3).Truncate(time.Second) == 0 {
							hear(path)
						}
					}
					c.second(func(m *member) { c.settle(m, rapid.IntRange(0, 2).Draw(t, "removed")) })
					check()
				}
			}
			check()
		}
		c.full = false
		for path := range beats {
			if _, ok := c.instances[path]; beats[path] && !ok {
				t.Fatalf("%s was removed, and sends heartbeats", path)
			}
		}
		for range 200 {
			c.second(func(m *member) { c.settle(m, 10) })
			check()
		}
		if len(c.instances) > 0 {
			t.Fatalf("%v are never removed", c.instances)
		}
	})
}

// TestBalanced: heartbeats alternate between replicas, or come only to those that are not the holder. The instance is
// overdue at none, even with the shortest lease.
func TestBalanced(t *testing.T) {
	const path, lease, part = "instance/1", time.Second, 12
	for name, b := range map[string]struct {
		every int // parts of the lease
		to    func(n int) int
	}{
		"two in turn":   {4, func(n int) int { return n % 2 }},
		"three in turn": {4, func(n int) int { return n % 3 }},
		"another":       {4, func(int) int { return 1 }},
		"another often": {1, func(int) int { return 1 }},
	} {
		c := newCluster("a", "b", "c")
		i := resource.Instance{Holder: "a", TTL: lease.Seconds(), Change: resource.Change{Version: 1}}
		c.put(path, &i)
		for n := range 100 * part {
			c.now += lease / part
			for _, m := range c.replicas {
				c.catchUp(m)
				if n%(part/4) == 0 { // about reportPeriod
					c.report(m)
				}
			}
			if n%b.every == 0 {
				c.replicas[b.to(n/b.every)].hear(path, &i, c.now)
			}
			for _, m := range c.replicas {
				if n%part == 0 {
					m.found = found{gone: m.look(c.now)}
					c.settle(m, 1)
					c.log = append(c.log, entry{replica: m.self, part: -1})
				}
				if n > part && m.isOverdue(path) {
					t.Fatalf("%s: overdue at %v", name, m.self)
				}
			}
		}
		if got, ok := c.instances[path]; !ok || got.Holder != "a" || got.Version != 1 {
			t.Errorf("%s: %+v, want it as it was registered", name, got)
		}
	}
}

// TestReaders: readers ahead of the replica and behind it see an overdue instance as overdue, and a new one not.
func TestReaders(t *testing.T) {
	p := newPresence("a", livenessOf())
	p.began = true
	i := resource.Instance{Holder: "a", TTL: 10, Change: resource.Change{Version: 1}}
	p.learn("silent", nil, &i, 0)
	p.learn("alive", nil, &i, time.Minute)
	other := i
	other.Holder = "b"
	p.learn("elsewhere", nil, &other, 0)
	set := marksOf([]string{"elsewhere"})
	for part, marks := range set {
		p.setSilent("b", part, marks)
	}
	p.look(time.Minute)
	for _, path := range []string{"silent", "alive", "elsewhere"} {
		one := &i
		if path == "elsewhere" {
			one = &other
		}
		p.learn(path, one, nil, time.Minute)
		if got, want := p.isOverdue(path), path != "alive"; got != want {
			t.Errorf("%s was removed, and is overdue: %v", path, got)
		}
	}
	p.learn("silent", nil, &i, time.Minute)
	if p.isOverdue("silent") || p.isOverdue("new") {
		t.Error("who is new, or here again, is overdue")
	}
	if p.look(time.Minute + 2*departedTime); len(p.departed) > 0 {
		t.Errorf("%v are kept", p.departed)
	}
}

// TestMarks: a set has what was put into it, and of beats what was told comes back.
func TestMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		paths := rapid.SliceOfNDistinct(rapid.String(), 0, 100, rapid.ID[string]).Draw(t, "paths")
		set := marksOf(paths)
		for _, path := range paths {
			if !set.has(markOf(path)) || set.has(markOf(path+"x")) != slices.Contains(paths, path+"x") {
				t.Fatalf("%q", path)
			}
		}
		if (*markSet)(nil).has(0) {
			t.Fatal("none has something")
		}
		const now = time.Hour
		beats := map[string]beat{}
		for _, path := range paths {
			beats[path] = beat{at: now - time.Duration(rapid.IntRange(0, int(time.Hour)).Draw(t, "age"))}
		}
		text := encodeBeats(beats, now)
		reported := map[mark]time.Duration{}
		for _, b := range decodeBeats(append(text, 1)) {
			reported[b.mark] = b.age
		}
		for path, b := range beats {
			if age := reported[markOf(path)]; len(reported) != len(beats) || age < now-b.at || age >= now-b.at+beatUnit {
				t.Fatalf("%q was %v ago, and is told to be %v ago", path, now-b.at, age)
			}
		}
	})
}

// TestPresenceLeavesPrimary: what was overdue at the primary stays overdue after a follower was promoted, until it is heard.
// It does not matter whether the primary's replicas had the name of this one.
func TestPresenceLeavesPrimary(t *testing.T) {
	const own, other, alive = "instance/n/s/own", "instance/n/s/other", "instance/n/s/alive"
	p := newPresence("control", livenessOf())
	for part, marks := range marksOf([]string{own, other}) {
		p.setSilent(followed, part, marks)
	}
	for path, holder := range map[string]string{own: "control", other: "a", alive: "a"} {
		p.learn(path, nil, &resource.Instance{Holder: holder, TTL: 3600, Change: resource.Change{Version: 1}}, 0)
	}
	p.begin(0)
	p.leave()
	overdue := func(want ...string) {
		t.Helper()
		for _, path := range []string{own, other, alive} {
			if p.isOverdue(path) != slices.Contains(want, path) {
				t.Errorf("%s: overdue: %t", path, p.isOverdue(path))
			}
		}
	}
	overdue(own, other)
	now := time.Second
	for ; !p.gone["a"]; now += time.Second { // until its instances are taken over
		p.look(now)
		overdue(own, other)
	}
	for _, path := range []string{own, other} {
		p.hear(path, &resource.Instance{TTL: 3600}, now)
	}
	p.look(now + time.Second)
	overdue()
}
