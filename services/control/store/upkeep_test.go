package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestWhatIsOld: revisions become old by number and by later changes. They are compacted by halves of what is kept.
func TestWhatIsOld(t *testing.T) {
	for name, c := range map[string]struct {
		keep  compaction
		marks []mark
		want  []int64 // what is compacted, in order
	}{
		"few changes": {
			compaction{keepRevisions: 100, keepChanges: 1_000_000},
			[]mark{{50, 50}, {100, 100}, {149, 149}, {150, 150}, {160, 160}, {199, 199}, {200, 200}, {1000, 1000}},
			[]int64{50, 100, 900},
		},
		"many in each": {
			compaction{keepRevisions: 1_000_000, keepChanges: 1000},
			[]mark{{10, 600}, {20, 1200}, {30, 1800}, {40, 2400}, {50, 3000}, {50, 3000}, {51, 9000}},
			[]int64{10, 20, 30, 50},
		},
		"a few, then many": {
			compaction{keepRevisions: 100, keepChanges: 1000},
			[]mark{{100, 100}, {200, 200}, {210, 1300}, {220, 2400}},
			[]int64{100, 200, 210},
		},
		"others' changes": {
			compaction{keepRevisions: 100, keepChanges: 1000},
			[]mark{{1000, 0}, {2000, 0}, {2000, 0}},
			[]int64{900, 1900},
		},
		"nothing is kept": {
			compaction{},
			[]mark{{5, 5}, {5, 5}, {6, 6}},
			[]int64{5, 6},
		},
		"gone back": {
			compaction{keepRevisions: 100, keepChanges: 1000},
			[]mark{{1000, 0}, {2000, 0}, {300, 0}, {500, 0}},
			[]int64{900, 1900, 200, 400},
		},
		"nothing yet": {compaction{keepRevisions: 100, keepChanges: 1000}, []mark{{1, 0}, {20, 20}, {20, 20}}, nil},
	} {
		var got []int64
		for _, m := range c.marks {
			if to, worth := c.keep.next(m); worth {
				got = append(got, to.revision)
				c.keep.done = to
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: compacted to %v, want %v", name, got, c.want)
		}
	}
}

// TestWarning: etcd compares the size of the file with the quota, whatever of it is in use.
func TestWarning(t *testing.T) {
	for name, c := range map[string]struct {
		st   Status
		want string
	}{
		"empty":       {Status{Members: []Member{{Bytes: 10, BytesUsed: 10, Quota: 100}}}, ""},
		"in use":      {Status{Members: []Member{{Bytes: 10, Quota: 100}, {Bytes: 85, BytesUsed: 84, Quota: 100}}}, "keep less of the audit"},
		"not in use":  {Status{Members: []Member{{Bytes: 85, BytesUsed: 20, Quota: 100}}}, "reclaim space"},
		"reached":     {Status{Alarms: []string{"NOSPACE"}}, "refuses all writes"},
		"not known":   {Status{Members: []Member{{Error: "away"}}}, ""},
		"quota unset": {Status{Members: []Member{{Bytes: 85, BytesUsed: 85}}}, ""},
	} {
		if got := warning(c.st); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestDatabaseMetrics: what upkeep found is told without asking etcd.
func TestDatabaseMetrics(t *testing.T) {
	s := &Store{stats: newStats(), started: time.Now()}
	registry := prometheus.NewRegistry()
	registry.MustRegister(s)
	values := func() map[string]float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if labels := m.GetLabel(); len(labels) == 1 {
					values[strings.TrimPrefix(f.GetName(), "control_store_")+" "+labels[0].GetValue()] = m.GetGauge().GetValue()
				}
			}
		}
		return values
	}
	if got := values(); !maps.Equal(got, map[string]float64{"alarms DISKFULL": 0}) { // which is no word of etcd's
		t.Errorf("before etcd was asked: %v", got)
	}
	s.status.Store(&Status{Alarms: []string{"NOSPACE", "NOSPACE"}, Members: []Member{{Endpoint: "a", Bytes: 3, BytesUsed: 2, Quota: 4}, {Endpoint: "b", Error: "away"}}})
	want := map[string]float64{"alarms CORRUPT": 0, "alarms DISKFULL": 0, "alarms NOSPACE": 2, "database_bytes a": 3, "database_used_bytes a": 2, "quota_bytes a": 4}
	if got := values(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// The disk is as it is now, and not as it was when etcd was asked.
	s.status.Load().Alarms = []string{"NOSPACE", "NOSPACE", alarmDisk}
	for _, full := range []*disk{nil, {least: 1}} {
		s.full.Store(full)
		if want["alarms DISKFULL"] = 0; full != nil {
			want["alarms DISKFULL"] = 1
		}
		if got := values(); !maps.Equal(got, want) {
			t.Errorf("a disk %v: %v, want %v", full, got, want)
		}
	}
}

// TestMarksAreBounded: no more is remembered than is kept, however long it goes on.
func TestMarksAreBounded(t *testing.T) {
	c := compaction{keepRevisions: 100, keepChanges: 1000}
	for revision := range int64(10_000) {
		if to, worth := c.next(mark{revision, 2 * revision}); worth {
			c.done = to
		}
		if len(c.marks) > 102 {
			t.Fatalf("%d marks at revision %d", len(c.marks), revision)
		}
	}
}

// A noTrim is an etcd that does not let the journal be shortened: it removes nothing, or does not
// say what there is.
type noTrim struct {
	clientv3.KV
	hides            bool
	asked, compacted int
	quiet            int // listings of groups without notes
}

func (n *noTrim) Delete(context.Context, string, ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	n.asked++
	return nil, errors.New("nothing is removed")
}

func (n *noTrim) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if n.hides && strings.Contains(key, journalKey) {
		n.asked++
		return nil, errors.New("nothing is listed")
	}
	if strings.Contains(key, quietKey) {
		n.quiet++
	}
	return n.KV.Get(ctx, key, opts...)
}

func (n *noTrim) Compact(ctx context.Context, rev int64, opts ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	n.compacted++
	return n.KV.Compact(ctx, rev, opts...)
}

// upkeepRun has a store with another's database do one turn of upkeep, when everything up to a
// revision is settled.
func upkeepRun(s *Store, kv clientv3.KV, newest int64, full *disk) *Store {
	one := &Store{cfg: s.cfg, log: s.log, server: s.server, started: s.started, ctx: s.ctx, stats: newStats(), client: clientv3.NewCtxClient(s.ctx)}
	one.client.KV, one.client.Maintenance = kv, s.client.Maintenance
	one.cfg.JournalAge, one.cfg.JournalBytes = 0, 1
	one.full.Store(full)
	u := one.newUpkeep()
	u.known = revisions{{-time.Hour, newest}}
	u.run()
	return one
}

// TestTrimFails: if the journal cannot be shortened, compaction and alarms still work.
func TestTrimFails(t *testing.T) {
	s := opened(t, func(c *Config) { c.CompactPeriod, c.KeepRevisions, c.KeepChanges = time.Hour, 1, 1 })
	for range 5 {
		done(t, s, Request{Then: []Op{{Key: "s/k", Value: []byte("v")}}, Note: []byte("note")})
	}
	newest, err := s.newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range []*noTrim{{KV: s.client.KV}, {KV: s.client.KV, hides: true}} {
		one := upkeepRun(s, broken, newest, nil)
		if broken.asked == 0 || broken.compacted != 1 || one.status.Load() == nil {
			t.Errorf("hides %v: asked %d times, compacted %d times, status %+v", broken.hides, broken.asked, broken.compacted, one.status.Load())
		}
		if !broken.hides && broken.quiet != 1 { // of a list that is not this one
			t.Errorf("groups without notes were listed %d times", broken.quiet)
		}
	}
}

// TestUpkeepOfAFullDisk: nothing is written to it, and the alarm is noticed.
func TestUpkeepOfAFullDisk(t *testing.T) {
	s := opened(t, func(c *Config) { c.CompactPeriod, c.KeepRevisions, c.KeepChanges = time.Hour, 1, 1 })
	for range 5 {
		done(t, s, Request{Then: []Op{{Key: "s/k", Value: []byte("v")}}, Note: []byte("note")})
	}
	newest, err := s.newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	watched := &noTrim{KV: s.client.KV}
	one := upkeepRun(s, watched, newest, &disk{least: 1})
	if watched.asked != 0 || watched.compacted != 0 {
		t.Errorf("removed %d times, compacted %d times", watched.asked, watched.compacted)
	}
	if st := one.status.Load(); st == nil || !slices.Contains(st.Alarms, alarmDisk) {
		t.Errorf("status %+v", st)
	}
}
