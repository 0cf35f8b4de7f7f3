package bot

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"dyno/services/bot/store"
	"dyno/services/bot/store/storetest"
)

// A talker has a conversation.
type talker struct {
	key, history string
	kept         map[int64]string // what was said in the turns that were acknowledged
	answered     int64            // turns, kept or not
	unkept       int64            // of these, said to be not kept, or not surely
	refused      int64            // turns
}

// talks are conversations under way, through all gateways in turn.
type talks struct {
	t        *testing.T
	gateways []*bed
	changed  chan struct{} // holds one

	mu      sync.Mutex // guards what talkers count
	talkers []*talker
}

// talk goes on until ctx ends. It says something every few milliseconds, as long as
// answers keep up.
func (s *talks) talk(ctx context.Context, v *talker) {
	pace := time.NewTicker(5 * ms)
	defer pace.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		query := fmt.Sprint(v.history, " says ", n)
		r, status, text := s.gateways[n%len(s.gateways)].say(secretOf(v.key), v.history, query)
		s.mu.Lock()
		switch {
		case status == http.StatusOK && r.Turn != nil && r.Turn.State == historyKept:
			v.answered++
			if other, ok := v.kept[r.Turn.Turn]; ok {
				s.t.Errorf("turn %d of %s is acknowledged twice: %q and %q", r.Turn.Turn, v.history, other, query)
			}
			v.kept[r.Turn.Turn] = query
		case status == http.StatusOK && r.Turn != nil:
			v.answered++
			v.unkept++
		case status == http.StatusServiceUnavailable, status == http.StatusConflict:
			v.refused++
		default:
			s.t.Errorf("%d %s", status, text)
		}
		s.mu.Unlock()
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
}

// until waits for what talkers have counted. It guards against a hang, and expects no
// speed.
func (s *talks) until(what string, is func() bool) {
	s.t.Helper()
	guard := time.NewTimer(time.Minute)
	defer guard.Stop()
	for {
		s.mu.Lock()
		done := is()
		s.mu.Unlock()
		if done {
			return
		}
		select {
		case <-s.changed:
		case <-guard.C:
			s.t.Fatal("in vain: ", what)
		}
	}
}

// sum adds up what talkers have counted, those of one API key or of all ("").
func (s *talks) sum(key string) (kept, answered, unkept, refused int64) {
	for _, v := range s.talkers {
		if key == "" || key == v.key {
			kept, answered, unkept, refused = kept+int64(len(v.kept)), answered+v.answered, unkept+v.unkept, refused+v.refused
		}
	}
	return kept, answered, unkept, refused
}

// awaitTurns waits until every conversation has two more turns that are kept.
func (s *talks) awaitTurns() {
	s.t.Helper()
	s.mu.Lock()
	var before []int
	for _, v := range s.talkers {
		before = append(before, len(v.kept))
	}
	s.mu.Unlock()
	s.until("turns are kept", func() bool {
		for i, v := range s.talkers {
			if len(v.kept) < before[i]+2 {
				return false
			}
		}
		return true
	})
}

// suffer waits until the outage of both stores is told: limits that cannot be checked,
// and turns that are not kept.
func (s *talks) suffer() {
	s.t.Helper()
	s.mu.Lock()
	_, _, _, refused := s.sum("limited")
	_, _, unkept, _ := s.sum("free")
	s.mu.Unlock()
	s.until("outages are told", func() bool {
		_, _, _, nowRefused := s.sum("limited")
		_, _, nowUnkept, _ := s.sum("free")
		return nowRefused > refused && nowUnkept > unkept
	})
}

// TestFaultsUnderLoad: while conversations go on through two gateways, Redis and
// PostgreSQL are killed, stopped in the middle (SIGSTOP), and shut down. What is not kept
// is told; what was acknowledged is there, once and in order; every answer is in the
// ledger; the gateways go on by themselves.
func TestFaultsUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: kills Redis and PostgreSQL again and again")
	}
	database, url := storetest.Own(t, storetest.Postgres)
	redis, address := storetest.Own(t, storetest.Redis)
	m := newLLM(t, nil)
	set := func(c *Config) {
		c.Archive, c.Postgres, c.Redis, c.StoreTimeout = ArchivePostgres, url, address, 200*ms
		c.Batch.Pause = ms        // between tries
		c.SessionLease = 300 * ms // of turns whose session could not be given back
		c.Keys = []Key{keyOf("limited", Limit{store.Requests, 1 << 40, 0}), keyOf("free")}
	}
	s := &talks{t: t, gateways: []*bed{serving(t, m, set), serving(t, m, set)}, changed: make(chan struct{}, 1)}
	for i, key := range []string{"limited", "free", "limited", "free"} {
		s.talkers = append(s.talkers, &talker{key: key, history: fmt.Sprint("h", i), kept: map[int64]string{}})
	}
	ctx, stop := context.WithCancel(t.Context())
	var talking sync.WaitGroup
	defer talking.Wait()
	defer stop()
	for _, v := range s.talkers {
		talking.Go(func() { s.talk(ctx, v) })
	}
	s.awaitTurns()
	servers := []*storetest.Server{database, redis}
	each := func(do func(*storetest.Server) error) func() {
		return func() {
			t.Helper()
			for _, server := range servers {
				if err := do(server); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, fault := range []struct {
		name       string
		begin, end func()
	}{
		{"killed", each(func(s *storetest.Server) error { s.Kill(); return nil }), each((*storetest.Server).Start)},
		{"stopped", each((*storetest.Server).Pause), each((*storetest.Server).Resume)},
		{"shut down", each(func(s *storetest.Server) error { s.Stop(); return nil }), each((*storetest.Server).Start)},
	} {
		fault.begin()
		s.suffer()
		fault.end()
		began := time.Now()
		s.awaitTurns()
		s.mu.Lock()
		kept, answered, unkept, refused := s.sum("")
		s.mu.Unlock()
		t.Logf("%-9s so far %d answered, %d kept, %d not surely kept, %d refused; all conversations go on %v after the servers", fault.name, answered, kept, unkept, refused, time.Since(began).Round(ms))
	}
	stop()
	talking.Wait()
	for _, b := range s.gateways {
		if err := b.batch.Flush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	archive := s.gateways[0].archive
	for _, v := range s.talkers {
		turns, count, err := archive.Turns(t.Context(), v.key+"/b/u1/"+v.history, 1<<20)
		if err != nil || int64(len(turns)) != count {
			t.Fatalf("%s: %d turns of %d, %v", v.history, len(turns), count, err)
		}
		said := map[string]bool{}
		for i, turn := range turns {
			if turn.Number != int64(i+1) || said[turn.User] {
				t.Errorf("%s: place %d has turn %d, %q", v.history, i+1, turn.Number, turn.User)
			}
			said[turn.User] = true
		}
		for number, query := range v.kept {
			if number > count || turns[number-1].User != query {
				t.Errorf("%s: turn %d, %q, was acknowledged and is lost", v.history, number, query)
			}
		}
	}
	for _, key := range []string{"limited", "free"} {
		_, answered, _, refused := s.sum(key)
		entries, err := archive.Entries(t.Context(), key, 1<<20)
		if err != nil || int64(len(entries)) != answered {
			t.Errorf("%s: %d entries in the ledger of %d answers, %v", key, len(entries), answered, err)
		}
		if key == "limited" {
			used, err := s.gateways[0].claims.Coordinator.Used(t.Context(), key, s.gateways[0].live.Load().payers[key].limits, time.Now())
			if err != nil || slices.Min(used) < answered || slices.Max(used) > answered+refused {
				t.Errorf("used %v of the limit for %d answers and %d refusals, %v", used, answered, refused, err)
			}
		}
	}
}
