package hub

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dyno/hub/journal"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// awaitReady reads the beginning of a stream: the hub has subscribed it then.
func (s *stream) awaitReady() *stream {
	s.t.Helper()
	if e, ok := s.next(); !ok || e.Retry == "" {
		s.t.Fatalf("the stream begins with %+v", e)
	}
	return s
}

// ends reads to the end of the stream.
func (s *stream) ends() {
	for {
		if _, ok := s.next(); !ok {
			return
		}
	}
}

// TestStopsReading: a subscriber that stops reading is ended when its queue is full,
// and costs the others nothing.
func TestStopsReading(t *testing.T) {
	for _, mode := range pipeModes {
		t.Run(mode.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := piped(t, func(c *Config) {
					mode.set(c)
					c.QueueEvents, c.Heartbeat, c.WriteTimeout = 5, 0, time.Hour
				})
				stuck, good := b.subscribe("topic=t").awaitReady(), b.subscribe("topic=t").awaitReady()
				start := time.Now()
				for i := range 5 {
					b.say("t", fmt.Sprint(i))
					good.want(event{Data: fmt.Sprint(i)})
				}
				if d := time.Since(start); d != 0 {
					t.Errorf("the others waited %v", d)
				}
				time.Sleep(time.Minute)
				if n := b.Stats().Ends["queue_full"]; n != 0 {
					t.Fatalf("%d ended although the queue has room", n)
				}
				b.say("other", "for nobody") // does not count
				for i := range 3 * 5 {
					b.say("other", fmt.Sprint(i))
				}
				time.Sleep(time.Minute)
				if n := b.Stats().Ends["queue_full"]; n != 0 {
					t.Fatalf("%d ended for events that are not for it", n)
				}
				list, all := b.Clients(10)
				if all != 2 || len(list) != 2 || list[0].LagEvents != 21 || !list[0].Writing || list[1].LagEvents != 0 || list[0].LagBytes == 0 {
					t.Errorf("slow clients: %+v", list)
				}
				start = time.Now()
				b.say("t", "5")
				good.want(event{Data: "5"})
				b.until(func(s Stats) bool { return s.Ends["queue_full"] == 1 })
				if d := time.Since(start); d > watchPeriod {
					t.Errorf("ended after %v", d)
				}
				stuck.ends()
				b.end()
			})
		})
	}
}

// TestQueueBytes: the other bound.
func TestQueueBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := piped(t, func(c *Config) { c.QueueBytes, c.Heartbeat, c.WriteTimeout = 1000, 0, time.Hour })
		b.subscribe("topic=t").awaitReady()
		b.say("t", strings.Repeat("x", 900))
		time.Sleep(time.Second)
		if n := b.Stats().Subscribers; n != 1 {
			t.Fatal("ended although the queue has room")
		}
		b.say("t", strings.Repeat("x", 100))
		b.until(func(s Stats) bool { return s.Ends["queue_full"] == 1 })
		b.end()
	})
}

// TestHistoryIsNoQueue: a subscriber that asks for more history than its queue holds gets
// it, however slowly it reads.
func TestHistoryIsNoQueue(t *testing.T) {
	for _, outcome := range []Outcome{Disconnect, DropOldest, Coalesce} {
		synctest.Test(t, func(t *testing.T) {
			b := piped(t, func(c *Config) { c.QueueEvents, c.Outcome, c.Heartbeat, c.WriteTimeout = 2, outcome, 0, time.Hour })
			for i := range 20 {
				b.say("t", fmt.Sprint(i))
			}
			s := b.subscribe("topic=t&lastEventID=earliest").awaitReady()
			b.say("t", "20")
			b.say("t", "21") // and its queue is full, but not too full
			b.say("other", "")
			for i := range 22 {
				time.Sleep(time.Second)
				s.want(event{Data: fmt.Sprint(i)})
			}
			b.end()
		})
	}
}

// TestGapAfterTrim: events that the history has dropped before a slow subscriber got them
// are announced.
func TestGapAfterTrim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := piped(t, func(c *Config) {
			c.HistoryEvents, c.QueueEvents, c.Outcome, c.Heartbeat, c.WriteTimeout = 3, 3, DropOldest, 0, time.Hour
		})
		s := b.subscribe("topic=t").awaitReady()
		for i := 1; i <= 10; i++ {
			b.say("t", fmt.Sprint(i))
			synctest.Wait()
		}
		s.want(event{Data: "1"})
		s.want(event{Type: "gap", Data: `{"from":2,"to":7,"missed":null}`})
		for i := 8; i <= 10; i++ {
			s.want(event{Data: fmt.Sprint(i)})
		}
		last := b.say("t", "11")
		s.want(event{Data: "11"})
		// A subscriber that comes back for dropped events learns exactly which they are.
		id := strings.TrimSuffix(last, "11") + "5"
		s = b.subscribe("topic=t&lastEventID=" + id).awaitReady()
		s.want(event{Type: "gap", Data: `{"from":6,"to":8,"missed":null}`})
		s.want(event{Data: "9"})
		b.end()
	})
}

// TestWriteTimeout: a connection that takes nothing ends in time, whatever the outcome.
func TestWriteTimeout(t *testing.T) {
	for _, mode := range pipeModes {
		t.Run(mode.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := piped(t, func(c *Config) {
					mode.set(c)
					c.Outcome, c.Heartbeat, c.WriteTimeout = DropOldest, 0, 7*time.Second
				})
				s := b.subscribe("topic=t").awaitReady()
				// Deadlines move: a subscriber that reads in time stays.
				for i := range 10 {
					b.say("t", fmt.Sprint(i))
					time.Sleep(6 * time.Second)
					s.want(event{Data: fmt.Sprint(i)})
				}
				start := time.Now()
				b.say("t", "nobody reads this")
				b.until(func(s Stats) bool { return s.Ends["write_timeout"] == 1 })
				if d := time.Since(start); d != 7*time.Second {
					t.Errorf("ended after %v", d)
				}
				b.end()
			})
		})
	}
}

// TestHeartbeat: a comment comes after a period without events, however that is
// configured.
func TestHeartbeat(t *testing.T) {
	for _, mode := range pipeModes {
		for period, rule := range map[time.Duration]func(*Config){
			10 * time.Second:         func(c *Config) { c.Heartbeat = 10 * time.Second },
			51200 * time.Millisecond: func(c *Config) { c.Heartbeat, c.ClientBackoff = 0, 64*time.Second },
		} {
			t.Run(fmt.Sprint(mode.name, " ", period), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := piped(t, func(c *Config) { mode.set(c); rule(c) })
					s := b.subscribe("topic=t").awaitReady()
					start := time.Now()
					for range 3 {
						s.want(event{Comment: "heartbeat"})
					}
					if d := time.Since(start); d != 3*period {
						t.Errorf("three heartbeats after %v", d)
					}
					time.Sleep(period / 2)
					b.say("t", "x")
					s.want(event{Data: "x"})
					start = time.Now()
					s.want(event{Comment: "heartbeat"})
					if d := time.Since(start); d != period {
						t.Errorf("%v after an event", d)
					}
					if n := b.Stats().Heartbeats; n != 4 {
						t.Errorf("%d heartbeats counted", n)
					}
					b.end()
				})
			})
		}
	}
}

func TestLimits(t *testing.T) {
	inModes(t, func(t *testing.T, set func(*Config)) {
		for status, limit := range map[int]func(*Config){
			http.StatusServiceUnavailable: func(c *Config) { c.MaxSubscribers = 2 },
			http.StatusTooManyRequests:    func(c *Config) { c.MaxPerAddress = 2 },
		} {
			b := serving(t, func(c *Config) { set(c); limit(c); c.Retry = 1500 * time.Millisecond })
			first := b.subscribe("topic=t").awaitReady()
			b.subscribe("topic=t").awaitReady()
			for range 3 { // refusals take no place
				s := b.subscribe("topic=t")
				if s.resp.StatusCode != status || s.resp.Header.Get("Retry-After") != "2" {
					t.Fatalf("%s, Retry-After %q; want %d, 2", s.resp.Status, s.resp.Header.Get("Retry-After"), status)
				}
			}
			first.conn.Close()
			b.until(func(s Stats) bool { return s.Subscribers == 1 })
			if s := b.subscribe("topic=t"); s.resp.StatusCode != http.StatusOK {
				t.Errorf("a place became free: %s", s.resp.Status)
			}
			if n := b.Stats().Refused[status]; n != 3 {
				t.Errorf("%d refusals counted", n)
			}
		}
	})
}

// TestForgotten: nothing is left of subscribers that have gone.
func TestForgotten(t *testing.T) {
	inModes(t, func(t *testing.T, set func(*Config)) {
		b := serving(t, func(c *Config) { set(c); c.SubscriberKey = hs256() })
		for range 3 {
			b.subscribe("topic=a&topic=/{x}", "Authorization: Bearer "+grant(t, "subscribe", "b")).awaitReady()
		}
		b.subscribe("") // refused
		b.end()
		st := b.Stats()
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.places != 0 || len(b.addresses) != 0 || len(b.active) != 0 || len(b.selectors.used) != 0 {
			t.Errorf("left: %d places, %v, %v, %v", b.places, b.addresses, b.active, b.selectors.used)
		}
		if st.Entered != 3 || endings(st) != 3 {
			t.Errorf("%+v", st)
		}
	})
}

// endings is how many subscribers have ended, for whatever reason.
func endings(s Stats) (n uint64) {
	for _, k := range s.Ends {
		n += k
	}
	return n
}

// TestTalkative: a subscriber that keeps sending is ended.
func TestTalkative(t *testing.T) {
	for _, mode := range modes[1:] { // net/http has bounds of its own
		t.Run(mode.name, func(t *testing.T) {
			b := serving(t, mode.set)
			s := b.subscribe("topic=t").awaitReady()
			_, _ = s.conn.Write(make([]byte, 2*inputBytes)) // it may be cut before all is sent
			s.ends()
			b.until(func(s Stats) bool { return s.Ends["client"] == 1 })
		})
	}
}

// TestRetryJitter: each client gets another time, within bounds, repeatably.
func TestRetryJitter(t *testing.T) {
	var runs [2][]string
	for i := range runs {
		b := serving(t, func(c *Config) { c.Retry, c.Seed = 2*time.Second, 7 })
		different := map[string]bool{}
		for range 20 {
			e, ok := b.subscribe("topic=t").next()
			if !ok || len(e.Retry) != 4 || e.Retry < "2000" || e.Retry > "4000" {
				t.Fatalf("%+v", e)
			}
			different[e.Retry] = true
			runs[i] = append(runs[i], e.Retry)
		}
		if len(different) < 15 {
			t.Errorf("20 clients got %v", different)
		}
	}
	if diff := cmp.Diff(runs[0], runs[1]); diff != "" {
		t.Error(diff)
	}
}

// TestShorten checks the parts of leaving out against their meaning.
func TestShorten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j, err := journal.New(journal.Defaults())
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 20).Draw(t, "events") {
			u := Update{Topics: []string{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "topic")}}
			if _, err := j.Append(u); err != nil {
				t.Fatal(err)
			}
		}
		queue, _ := j.Since(0, nil, 100)
		kept := latest(queue)
		last := map[string]uint64{}
		for _, e := range queue {
			last[e.Topics[0]] = e.Seq
		}
		for i, e := range kept {
			if last[e.Topics[0]] != e.Seq || i > 0 && kept[i-1].Seq >= e.Seq {
				t.Fatalf("kept %d of topic %s", e.Seq, e.Topics[0])
			}
		}
		if len(kept) != len(last) {
			t.Fatalf("kept %d of %d topics", len(kept), len(last))
		}
		bound := rapid.IntRange(0, 5).Draw(t, "bound")
		kept = newest(kept, bound, 1<<20)
		if len(kept) != min(bound, len(last)) {
			t.Fatalf("kept %d of %d within %d", len(kept), len(last), bound)
		}
		left := map[uint64]bool{}
		for _, e := range queue {
			left[e.Seq] = true
		}
		for _, e := range kept {
			delete(left, e.Seq)
		}
		var first, end uint64
		for seq := range left {
			if first == 0 || seq < first {
				first = seq
			}
			end = max(end, seq)
		}
		if firstLeftOut(queue, kept) != first || lastLeftOut(queue, kept) != end {
			t.Fatalf("left out %d to %d, want %d to %d", firstLeftOut(queue, kept), lastLeftOut(queue, kept), first, end)
		}
	})
}
