package resource

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const second = time.Second

// watched is a Liveness that is looked at every second.
type watched struct {
	*Liveness
	now time.Duration
}

func watch(n int, ttl time.Duration, change func(*LivenessConfig)) *watched {
	cfg := DefaultLiveness()
	if change != nil {
		change(&cfg)
	}
	w := &watched{Liveness: NewLiveness(cfg)}
	for i := range n {
		w.Beat(fmt.Sprint(i), ttl, 0)
	}
	return w
}

// run lets time pass, with heartbeats every three seconds of those who have some.
func (w *watched) run(d time.Duration, beats func(id string) bool) (gone []string) {
	for end := w.now + d; w.now < end; {
		w.now += second
		if w.now%(3*second) == 0 {
			for _, id := range slices.Sorted(maps.Keys(w.members)) {
				if beats(id) {
					w.Beat(id, w.members[id].ttl, w.now)
				}
			}
		}
		for _, id := range w.Look(w.now) {
			gone = append(gone, id)
			w.Forget(id) // it is removed
		}
	}
	return gone
}

func all(string) bool  { return true }
func none(string) bool { return false }

func TestSilentInstanceGoes(t *testing.T) {
	w := watch(100, 10*second, nil)
	if gone := w.run(time.Minute, all); gone != nil {
		t.Errorf("gone with heartbeats: %v", gone)
	}
	last := w.now
	var when time.Duration
	for when == 0 && w.now < last+time.Minute {
		if gone := w.run(second, func(id string) bool { return id != "7" }); gone != nil {
			if when = w.now - last; !slices.Equal(gone, []string{"7"}) {
				t.Errorf("gone: %v", gone)
			}
		}
	}
	if when < 15*second || when > 16*second { // ttl and grace
		t.Errorf("gone after %v of silence", when)
	}
	if w.Knows("7") || w.Pulse() != (Pulse{Known: 99}) {
		t.Errorf("%+v", w.Pulse())
	}
}

// TestManySilent: when a large share is silent at once, nobody is taken for gone, until
// it has lasted for ProtectFor.
func TestManySilent(t *testing.T) {
	w := watch(100, 10*second, nil)
	w.run(30*second, all)
	few := func(id string) bool { return len(id) > 1 } // 0 to 9 are silent
	if gone := w.run(time.Minute, few); len(gone) != 10 {
		t.Errorf("10 of 100 are silent, and %d gone", len(gone))
	}
	w.run(2*time.Minute, all)
	many := func(id string) bool { return id[0] != '1' && id[0] != '2' } // 20 of 90 are silent
	if gone := w.run(5*time.Minute, many); gone != nil || !w.Pulse().Protected || w.Pulse().Overdue != 20 {
		t.Errorf("%d gone, %+v", len(gone), w.Pulse())
	}
	if !w.Overdue("11") || w.Overdue("31") {
		t.Error("who is overdue is not known")
	}
	if gone := w.run(5*second, all); gone != nil || w.Pulse() != (Pulse{Known: 90}) {
		t.Errorf("all are heard again: %d gone, %+v", len(gone), w.Pulse())
	}
	if gone := w.run(11*time.Minute, many); len(gone) != 20 {
		t.Errorf("%d gone after 11 minutes", len(gone))
	}
}

// TestTrickle: many that go one after the other are many, too.
func TestTrickle(t *testing.T) {
	w := watch(100, 10*second, nil)
	silent := map[string]bool{}
	gone := 0
	for i := range 60 { // one more every two seconds
		silent[fmt.Sprint(i)] = true
		gone += len(w.run(2*second, func(id string) bool { return !silent[id] }))
	}
	if gone > 16 || !w.Pulse().Protected {
		t.Errorf("%d gone one by one, %+v", gone, w.Pulse())
	}
}

func TestFewInstances(t *testing.T) {
	w := watch(2, 10*second, nil)
	if gone := w.run(time.Minute, none); len(gone) != 2 {
		t.Errorf("%d of 2 are gone", len(gone))
	}
}

// TestPause: after our own pause, everybody has time to be heard.
func TestPause(t *testing.T) {
	w := watch(100, 10*second, nil)
	w.run(30*second, all)
	w.now += time.Hour // stopped, or without the store
	if gone := w.run(29*second, none); gone != nil || w.Pulse().Overdue != 0 {
		t.Errorf("%d gone, %+v", len(gone), w.Pulse())
	}
	// Two are not heard even then.
	if gone := w.run(30*second, func(id string) bool { return id != "3" && id != "4" }); len(gone) != 2 {
		t.Errorf("gone: %v", gone)
	}
}

func TestReturnOfOverdue(t *testing.T) {
	w := watch(10, 10*second, func(c *LivenessConfig) { c.Threshold = 1 })
	w.run(13*second, none)
	if w.Pulse().Overdue != 10 {
		t.Fatalf("%+v", w.Pulse())
	}
	w.Return(w.now)
	if gone := w.run(29*second, none); gone != nil || w.Pulse().Overdue != 10 {
		t.Errorf("gone: %v, %+v; want them overdue and kept", gone, w.Pulse())
	}
	if gone := w.run(second, none); len(gone) != 10 {
		t.Errorf("gone: %v", gone)
	}
}

// TestRemovalFails: who is gone stays overdue, and is to be removed each time, until that succeeds or it is heard.
func TestRemovalFails(t *testing.T) {
	w := watch(10, 10*second, func(c *LivenessConfig) { c.Threshold = 1 })
	w.run(14*second, func(id string) bool { return id != "7" && id != "8" })
	for range 100 {
		w.now += second
		for id := range w.members {
			if id != "7" && id != "8" {
				w.Beat(id, 10*second, w.now)
			}
		}
		if gone := w.Look(w.now); len(gone) != 2 || !w.Overdue("7") || !w.Gone("7") {
			t.Fatalf("after %v: gone %v, %+v", w.now, gone, w.Pulse())
		}
	}
	w.Beat("7", 10*second, w.now-11*second) // told too late
	if !w.Overdue("7") || w.Gone("7") {
		t.Error("a heartbeat of long ago makes it healthy, or is none")
	}
	w.Beat("7", 10*second, w.now)
	if w.Overdue("7") || w.Gone("7") {
		t.Error("it is heard, and overdue")
	}
	w.Beat("7", 10*second, w.now-5*second)
	if silence, _ := w.Silence("7", w.now); silence != 0 {
		t.Errorf("silent for %v since an earlier heartbeat than the last became known", silence)
	}
	w.Forget("8")
	if pulse := w.Pulse(); pulse != (Pulse{Known: 9}) {
		t.Errorf("%+v", pulse)
	}
}

// TestDoubt: who was overdue elsewhere is so here until it is heard.
func TestDoubt(t *testing.T) {
	w := watch(0, 0, nil)
	w.Doubt("a", 10*second, 0)
	w.Doubt("b", 10*second, 0)
	w.Return(0)
	if !w.Overdue("a") {
		t.Error("it is not doubted")
	}
	w.Heard("a", second)
	w.Heard("c", second)
	w.Doubt("a", 10*second, second)
	if w.Overdue("a") || w.Knows("c") {
		t.Error("a was heard, and of c nothing is known")
	}
	if gone := w.run(31*second, func(id string) bool { return id == "a" }); !slices.Equal(gone, []string{"b"}) {
		t.Errorf("gone: %v", gone)
	}
}

// TestKeep: who may have been heard elsewhere is overdue in time, and gone later.
func TestKeep(t *testing.T) {
	w := watch(1, 10*second, nil)
	w.Keep(5 * second)
	if gone := w.run(34*second, none); gone != nil || !w.Overdue("0") {
		t.Errorf("gone: %v, %+v", gone, w.Pulse())
	}
	if gone := w.run(second, none); len(gone) != 1 {
		t.Errorf("gone: %v", gone)
	}
}

func TestShorterTTL(t *testing.T) {
	w := watch(1, time.Hour, nil)
	w.Beat("0", 2*second, 0)
	if gone := w.run(8*second, none); len(gone) != 1 {
		t.Error("holds to the longer one")
	}
}

// TestLivenessKeepsItsWord: an instance heard within its TTL and grace never goes. A healthy one was heard within its
// TTL or RecoveryGrace. An overdue one stays so until it is heard or removed. Removing may fail, for as long as it
// likes.
func TestLivenessKeepsItsWord(t *testing.T) {
	const grace, recovery = second, 8 * second
	rapid.Check(t, func(t *rapid.T) {
		l := NewLiveness(LivenessConfig{
			Grace: grace, Threshold: rapid.Float64Range(0, 1).Draw(t, "threshold"), MinSilent: 2, Window: 10 * second,
			ProtectFor: 20 * second, StallThreshold: 5 * second, RecoveryGrace: recovery,
		})
		type known struct {
			heard, ttl time.Duration
			overdue    bool
		}
		members := map[string]*known{}
		now, looked, paused := time.Duration(0), time.Duration(0), -time.Hour
		look := func() []string {
			if now-looked > 5*second && looked > 0 {
				paused = now
			}
			looked = now
			return l.Look(now)
		}
		id := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0, 1:
				who := id.Draw(t, "id")
				members[who] = &known{heard: now, ttl: time.Duration(rapid.IntRange(1, 9).Draw(t, "ttl")) * second}
				l.Beat(who, members[who].ttl, now)
			case 2:
				who := id.Draw(t, "id")
				l.Forget(who)
				delete(members, who)
			case 3:
				now += time.Duration(rapid.IntRange(0, 12).Draw(t, "passes")) * second
			case 4:
				l.Return(now)
				paused = now
			case 5: // a heartbeat becomes known late
				who := id.Draw(t, "id")
				at := now - time.Duration(rapid.IntRange(0, 20).Draw(t, "age"))*second
				if m := members[who]; m != nil && at >= m.heard {
					m.heard = at
					if at+m.ttl > looked {
						m.overdue = false
					}
				}
				l.Heard(who, at)
			default:
				now += second
				for _, who := range look() {
					m := members[who]
					kept := m.heard <= paused && now < paused+recovery
					if kept || now < m.heard+m.ttl+grace {
						t.Fatalf("%s is gone at %v and was heard at %v with %v", who, now, m.heard, m.ttl)
					}
					if !l.Overdue(who) || !l.Gone(who) {
						t.Fatalf("%s is gone and not overdue", who)
					}
					if rapid.Bool().Draw(t, "removed") {
						l.Forget(who)
						delete(members, who)
					}
				}
				for who, m := range members {
					overdue := l.Overdue(who)
					if m.overdue && !overdue {
						t.Fatalf("%s is healthy again at %v and was heard at %v with %v", who, now, m.heard, m.ttl)
					}
					if !overdue && now >= max(m.heard+m.ttl, paused+recovery) {
						t.Fatalf("%s is healthy at %v and was heard at %v with %v", who, now, m.heard, m.ttl)
					}
					if overdue && now < m.heard+m.ttl {
						t.Fatalf("%s is overdue at %v and was heard at %v with %v", who, now, m.heard, m.ttl)
					}
					m.overdue = overdue
				}
			}
			if l.Pulse().Known != len(members) {
				t.Fatalf("knows %d of %d", l.Pulse().Known, len(members))
			}
			if len(l.due)+len(l.overdue) != len(l.members) {
				t.Fatalf("%d due, %d overdue of %d", len(l.due), len(l.overdue), len(l.members))
			}
		}
		// In the end, all go that are not heard.
		for range 200 {
			now += second
			for _, who := range look() {
				l.Forget(who)
			}
		}
		if l.Pulse().Known != 0 {
			t.Fatalf("%d are never removed", l.Pulse().Known)
		}
	})
}

func TestSilence(t *testing.T) {
	l := NewLiveness(DefaultLiveness())
	if _, ok := l.Silence("a", time.Second); ok {
		t.Error("who is not known is")
	}
	l.Beat("a", 10*time.Second, time.Second)
	l.Return(5 * time.Second) // gives time, and hears nobody
	if silence, ok := l.Silence("a", 8*time.Second); !ok || silence != 7*time.Second {
		t.Errorf("silent for %v, %v", silence, ok)
	}
	l.Beat("a", 10*time.Second, 9*time.Second)
	if silence, _ := l.Silence("a", 9*time.Second); silence != 0 {
		t.Errorf("silent for %v", silence)
	}
}
