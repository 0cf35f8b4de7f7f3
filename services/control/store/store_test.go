package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// config is that of a store in a folder, without fsync: no test cuts the power.
func config(dir string) Config {
	c := Defaults()
	c.Dir = dir
	c.NoSync = true
	return c
}

// opened opens a store in a new folder until the test ends.
func opened(t testing.TB, change func(*Config)) *Store {
	t.Helper()
	c := config(t.TempDir())
	if change != nil {
		change(&c)
	}
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// set changes a key whatever it is.
func set(t testing.TB, s *Store, key, value string) int64 {
	t.Helper()
	return done(t, s, Request{Then: []Op{{Key: key, Value: []byte(value)}}})
}

// done applies a request that must be carried out.
func done(t testing.TB, s *Store, r Request) int64 {
	t.Helper()
	o, err := s.Apply(t.Context(), r)
	if err != nil || !o.Done {
		t.Fatalf("%+v: %v", o, err)
	}
	return o.Revision
}

func get(t testing.TB, s *Store, key string) KV {
	t.Helper()
	got, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestApply(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), config(dir))
	if err != nil {
		t.Fatal(err)
	}
	create := Request{If: []Condition{{Key: "s/a"}}, Then: []Op{{Key: "s/a", Value: []byte("1")}, {Key: "l/a/1", Value: []byte("x")}}}
	first := done(t, s, create)
	again, err := s.Apply(t.Context(), create)
	if err != nil || again.Done || len(again.Found) != 1 || string(again.Found[0].Value) != "1" || again.Found[0].Revision != first {
		t.Errorf("created twice: %+v, %v", again, err)
	}
	second := done(t, s, Request{If: []Condition{{"s/a", first}, {Key: "s/b"}}, Then: []Op{{Key: "s/a", Value: []byte("2")}, {Key: "l/a/1", Delete: true}}})
	if got := get(t, s, "s/a"); string(got.Value) != "2" || got.Revision != second || second <= first {
		t.Errorf("%+v after revision %d", got, second)
	}
	if got := get(t, s, "l/a/1"); got.Revision != 0 {
		t.Errorf("removed, and is there: %+v", got)
	}
	head, err := s.Head(t.Context())
	if err != nil || head < second {
		t.Errorf("head %d, %v: want %d at least", head, err, second)
	}
	if _, err := Open(t.Context(), config(dir)); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("opened twice: %v", err)
	}
	epoch := s.Epoch()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), create); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if s, err = Open(t.Context(), config(dir)); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := get(t, s, "s/a"); string(got.Value) != "2" || s.Epoch() != epoch {
		t.Errorf("opened again: %+v, epoch %q after %q", got, s.Epoch(), epoch)
	}
}

func TestRequestsAtFault(t *testing.T) {
	s := opened(t, func(c *Config) { c.GroupBytes, c.RequestBytes = 4096, 8192 }) // a request may exceed a group
	op := []Op{{Key: "s/a"}}
	for name, c := range map[string]struct {
		r    Request
		want error
	}{
		"nothing":      {Request{}, ErrRequest},
		"same key":     {Request{Then: []Op{{Key: "s/a"}, {Key: "s/a"}}}, ErrRequest},
		"elsewhere":    {Request{Then: []Op{{Key: "a"}}}, ErrRequest},
		"the head":     {Request{Then: []Op{{Key: headKey}}}, ErrRequest},
		"the journal":  {Request{Then: []Op{{Key: journalKey + "x"}}}, ErrRequest},
		"condition":    {Request{Then: op, If: []Condition{{Key: "x"}}}, ErrRequest},
		"long key":     {Request{Then: []Op{{Key: "s/" + strings.Repeat("a", MaxKeyBytes)}}}, ErrRequest},
		"many":         {Request{Then: op, If: make([]Condition, MaxRequestOps+1)}, ErrRequest},
		"large":        {Request{Then: []Op{{Key: "s/a", Value: make([]byte, 8192)}}}, ErrTooLarge},
		"large note":   {Request{Then: op, Note: make([]byte, 8192)}, ErrTooLarge},
		"just as long": {Request{Then: []Op{{Key: "s/a", Value: make([]byte, 8000)}}}, nil},
	} {
		if _, err := s.Apply(t.Context(), c.r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// flaky may carry transactions out without an answer.
type flaky struct {
	txns
	fate func() (carryOut bool, err error)
}

func (f flaky) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	carryOut, err := f.fate()
	if err != nil && !carryOut {
		return nil, err
	}
	r, carryErr := f.txns.Txn(ctx, in, opts...)
	if carryErr != nil {
		return nil, carryErr
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// TestAnswersLost: a group that was carried out without an answer takes effect once,
// and its requests learn what became of them.
func TestAnswersLost(t *testing.T) {
	for _, carryOut := range []bool{true, false} {
		t.Run(fmt.Sprint(carryOut), func(t *testing.T) {
			s := opened(t, nil)
			before := set(t, s, "s/taken", "before")
			failures := 2
			s.txns = flaky{s.txns, func() (bool, error) {
				if failures == 0 {
					return true, nil
				}
				failures--
				return carryOut, rpctypes.ErrTimeoutDueToLeaderFail
			}}
			group := []*pending{
				{request: Request{If: []Condition{{Key: "s/free"}}, Then: []Op{{Key: "s/free", Value: []byte("1")}}, Note: []byte("free")}},
				{request: Request{If: []Condition{{Key: "s/taken"}}, Then: []Op{{Key: "s/taken", Value: []byte("1")}}, Note: []byte("taken")}},
				{request: Request{If: []Condition{{"s/taken", before}}, Then: []Op{{Key: "s/other", Value: []byte("1")}}, Note: []byte("other")}},
			}
			got, err := s.commitUntilResolved(group)
			if err != nil {
				t.Fatal(err)
			}
			if !got[0].Done || got[1].Done || !got[2].Done {
				t.Errorf("outcomes %+v", got)
			}
			if free := get(t, s, "s/free"); free.Revision != got[0].Revision {
				t.Errorf("told revision %d, is %+v", got[0].Revision, free)
			}
			raw, err := s.client.Get(t.Context(), s.cfg.Prefix+"s/free")
			if err != nil || raw.Kvs[0].Version != 1 {
				t.Errorf("carried out more than once: %+v, %v", raw, err)
			}
			if taken := get(t, s, "s/taken"); string(taken.Value) != "before" {
				t.Errorf("a refused request took effect: %+v", taken)
			}
			entries, _, err := s.Journal(t.Context(), "", 10)
			if err != nil {
				t.Fatal(err)
			}
			if last := entries[len(entries)-1]; len(last.Notes) != 2 || string(last.Notes[0]) != "free" || string(last.Notes[1]) != "other" {
				t.Errorf("journal %q", last.Notes)
			}
		})
	}
}

// TestNoAnswer: who was not answered in time is told what is known.
func TestNoAnswer(t *testing.T) {
	t.Parallel()                                                    // it waits for the time of each change
	s := opened(t, func(c *Config) { c.Timeout = 2 * time.Second }) // opening has as much
	real := s.txns
	var fate error
	s.txns = flaky{real, func() (bool, error) { return false, fate }}
	for want, err := range map[error]error{
		ErrUncertain: rpctypes.ErrTimeout, ErrNoSpace: rpctypes.ErrNoSpace, ErrBusy: rpctypes.ErrTooManyRequests, ErrRequest: rpctypes.ErrPermissionDenied,
	} {
		fate = err
		if _, got := s.Apply(t.Context(), Request{Then: []Op{{Key: "s/a"}}}); !errors.Is(got, want) {
			t.Errorf("%v: told %v, want %v", err, got, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fate = rpctypes.ErrTimeout
	if _, err := s.Apply(ctx, Request{Then: []Op{{Key: "s/a"}}}); !errors.Is(err, ErrUncertain) {
		t.Errorf("whose context has ended: %v", err)
	}
}

func TestQueueIsBounded(t *testing.T) {
	s := opened(t, func(c *Config) { c.MaxInflightTxns, c.Queue, c.GroupRequests = 1, 1, 1 })
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.txns = flaky{s.txns, func() (bool, error) {
		once.Do(func() { close(entered); <-release })
		return true, nil
	}}
	var wg sync.WaitGroup
	wg.Go(func() { set(t, s, "s/a", "1") })
	<-entered // the lane is occupied
	wg.Go(func() { set(t, s, "s/b", "1") })
	queued(t, s, 1)
	if _, err := s.Apply(t.Context(), Request{Then: []Op{{Key: "s/c"}}}); !errors.Is(err, ErrBusy) {
		t.Errorf("third: %v", err)
	}
	close(release)
	wg.Wait()
}

func TestPassing(t *testing.T) {
	s := opened(t, nil)
	done(t, s, Request{Then: []Op{{Key: "l/a", Expires: true}}})
	done(t, s, Request{Then: []Op{{Key: "l/b", Expires: true}}})
	leases, err := s.client.Leases(t.Context())
	if err != nil || len(leases.Leases) != 1 {
		t.Fatalf("%+v, %v: want one lease for both", leases, err)
	}
	if _, err := s.client.Revoke(t.Context(), leases.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, "l/a"); got.Revision != 0 {
		t.Errorf("outlived its lease: %+v", got)
	}
	done(t, s, Request{Then: []Op{{Key: "l/c", Expires: true}}}) // finds out that the lease is gone
}

func TestSnapshotAndFill(t *testing.T) {
	s := opened(t, nil)
	want := map[string]string{}
	for i := range listPage + 7 {
		key := fmt.Sprintf("s/k/%05d", i)
		want[key] = strings.Repeat("v", i%100)
	}
	var wg sync.WaitGroup
	for key, value := range want {
		wg.Go(func() { set(t, s, key, value) })
	}
	wg.Wait()
	done(t, s, Request{Then: []Op{{Key: "l/history/a", Value: []byte("h")}, {Key: "l/passing", Expires: true}}, Note: []byte("who")})
	want["l/history/a"] = "h"
	all, err := snapshot(t, s, func() {})
	if err != nil {
		t.Fatal(err)
	}
	records := func(put func(key string, value []byte) error) error {
		for _, kv := range all {
			if err := put(kv.Key, kv.Value); err != nil {
				return err
			}
		}
		return nil
	}
	dir := t.TempDir()
	for key, want := range map[string]string{"": "key: 0 bytes", strings.Repeat("k", 2*MaxKeyBytes): "key: 4096 bytes"} {
		err := Fill(t.Context(), config(dir), func(put func(key string, value []byte) error) error { return errors.Join(records(put), put(key, nil)) })
		if err == nil || err.Error() != want {
			t.Errorf("filled: %v, want %s", err, want)
		}
	}
	if err := Fill(t.Context(), config(dir), records); err != nil {
		t.Fatal(err)
	}
	if err := Fill(t.Context(), config(dir), records); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("filled what is not empty: %v", err)
	}
	large := func(put func(key string, value []byte) error) error { return put("s/large", make([]byte, 7<<20)) }
	if err := Fill(t.Context(), config(t.TempDir()), large); err != nil {
		t.Errorf("of a large document: %v", err)
	}
	restored, err := Open(t.Context(), config(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	if restored.Epoch() == s.Epoch() {
		t.Error("the epoch is the same")
	}
	kvs, _, err := restored.list(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, kv := range kvs {
		if kv.Key != epochKey && kv.Key != headKey && kv.Key != TokenBase && !strings.HasPrefix(kv.Key, journalKey) && !strings.HasPrefix(kv.Key, quietKey) {
			got[kv.Key] = string(kv.Value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d keys, want %d", len(got), len(want))
	}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s: %q, want %q", key, got[key], value)
		}
	}
	entries, _, err := restored.Journal(t.Context(), "", 2*listPage)
	if err != nil || len(entries) == 0 || string(entries[len(entries)-1].Notes[0]) != "who" {
		t.Errorf("journal %+v, %v", entries, err)
	}
}

func TestInterruptedRestore(t *testing.T) {
	dir := t.TempDir()
	s, err := open(t.Context(), config(dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.Put(t.Context(), s.cfg.Prefix+restoreKey, "now"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), config(dir)); err == nil || !strings.Contains(err.Error(), "restore") {
		t.Errorf("opened: %v", err)
	}
}

// TestQuota: writes are refused when the quota is reached, and taken again when space
// was reclaimed.
func TestQuota(t *testing.T) {
	s := opened(t, func(c *Config) { c.Quota = 16 << 20; c.CompactPeriod = 0 })
	value := make([]byte, 512<<10)
	var err error
	for i := 0; err == nil; i++ {
		// etcd looks at the size as of its database's last commit, which may be 100 ms ago.
		if i > (16<<20)/len(value)*50 {
			t.Fatal("the quota does not hold")
		}
		_, err = s.Apply(t.Context(), Request{Then: []Op{{Key: "s/a", Value: value}}})
	}
	if !errors.Is(err, ErrNoSpace) {
		t.Fatalf("refused with %v", err)
	}
	st, err := s.Status(t.Context())
	if err != nil || len(st.Alarms) != 1 || !strings.Contains(st.Warning, "quota") || st.Members[0].Quota != 16<<20 {
		t.Errorf("status %+v, %v", st, err)
	}
	if got := get(t, s, "s/a"); len(got.Value) != len(value) {
		t.Errorf("reads are refused, too: %+v", got)
	}
	if err := s.Reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	set(t, s, "s/a", "small")
	if st, err := s.Status(t.Context()); err != nil || len(st.Alarms) != 0 || st.Warning != "" {
		t.Errorf("status %+v, %v", st, err)
	}
}

// TestRefusedYetMade: etcd reports no space for a group that it carried out. Its requests get their real outcomes,
// and only others are refused.
func TestRefusedYetMade(t *testing.T) {
	for name, c := range map[string]struct {
		nested  int64
		carried bool
	}{"together": {0, true}, "one by one": {2, true}, "not at all": {0, false}, "not at all, one by one": {2, false}} {
		t.Run(name, func(t *testing.T) {
			s := opened(t, func(c *Config) { c.CompactPeriod = 0 })
			before := set(t, s, "s/taken", "before")
			s.forceNestedTxns.Store(c.nested)
			s.txns = flaky{s.txns, func() (bool, error) { return c.carried, rpctypes.ErrNoSpace }}
			group := []*pending{
				{request: Request{If: []Condition{{Key: "s/free"}}, Then: []Op{{Key: "s/free", Value: []byte("1")}}}},
				{request: Request{Then: []Op{{Key: "s/any", Value: []byte("1")}}, Note: []byte("any")}},
			}
			if c.nested > 0 { // a whole group fails with this request in it
				group = append(group, &pending{request: Request{If: []Condition{{"s/taken", before + 1}}, Then: []Op{{Key: "s/taken", Value: []byte("1")}}}})
			}
			got, err := s.commitUntilResolved(group)
			free := get(t, s, "s/free")
			if !c.carried {
				if !errors.Is(err, ErrNoSpace) || free.Revision != 0 {
					t.Errorf("%+v, %v, and is %+v", got, err, free)
				}
				return
			}
			if err != nil || len(got) != len(group) || !got[0].Done || !got[1].Done || free.Revision != got[0].Revision {
				t.Fatalf("%+v, %v, and is %+v", got, err, free)
			}
			if len(got) == 3 && got[2].Done {
				t.Errorf("a request whose condition did not hold is said to be done: %+v", got[2])
			}
		})
	}
}

// TestReclaimInTime: a caller of Reclaim has an answer in time, and the store goes on.
func TestReclaimInTime(t *testing.T) {
	s := opened(t, func(c *Config) { c.reclaimTime = time.Nanosecond })
	if err := s.Reclaim(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	set(t, s, State+"a", "1")
}

// TestReclaimOne: a member that was not reclaimed keeps its alarm, so the store still refuses writes, and says so.
func TestReclaimOne(t *testing.T) {
	s := opened(t, func(c *Config) { c.CompactPeriod = 0 })
	own := uint64(s.server.Server.MemberID())
	const other = 42
	for _, member := range []uint64{own, other} {
		if _, err := s.server.Server.Alarm(t.Context(), &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: member, Alarm: pb.AlarmType_NOSPACE}); err != nil {
			t.Fatal(err)
		}
	}
	err := s.Reclaim(t.Context())
	if !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(), "2a") || strings.Contains(err.Error(), fmt.Sprintf("%x", own)) {
		t.Errorf("reclaimed: %v", err)
	}
	alarms, err := s.client.AlarmList(t.Context())
	if err != nil || len(alarms.Alarms) != 1 || alarms.Alarms[0].MemberID != other {
		t.Errorf("alarms %+v, %v", alarms, err)
	}
}

func TestJournal(t *testing.T) {
	s := opened(t, func(c *Config) { c.MaxInflightTxns = 1 })
	for i := range 25 {
		if _, err := s.Apply(t.Context(), Request{If: []Condition{{Key: "s/a"}}, Then: []Op{{Key: "s/a"}}, Note: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
		done(t, s, Request{Then: []Op{{Key: "s/b"}}, Note: fmt.Append(nil, "b", i)})
	}
	var notes []string
	after := ""
	for more := true; more; {
		var entries []Entry
		var err error
		if entries, more, err = s.Journal(t.Context(), after, 7); err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			after = e.Name
			for _, n := range e.Notes {
				notes = append(notes, string(n))
			}
		}
	}
	if len(notes) != 26 || notes[0] != "0" || notes[1] != "b0" || notes[25] != "b24" {
		t.Errorf("%d notes: %q", len(notes), notes)
	}
	spans, err := s.readSpans(t.Context())
	if err != nil || len(spans) != 1 || spans[0].bytes < 26*nameBytes || time.Until(spans[0].until).Abs() > 2*spanTime {
		t.Errorf("%+v, %v", spans, err)
	}
	newest, err := s.newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.shorten(t.Context(), time.Now().Add(time.Minute), newest, maxSlices); err != nil { // all of it is old
		t.Fatal(err)
	}
	if entries, more, err := s.Journal(t.Context(), "", 7); err != nil || more || len(entries) != 0 {
		t.Errorf("shortened: %v, %v, %v", entries, more, err)
	}
}

// TestShortenedByAnotherClock: a group carried out without a response takes effect once. That holds although a store
// with a fast clock shortens the journal meanwhile.
func TestShortenedByAnotherClock(t *testing.T) {
	s := opened(t, func(c *Config) { c.CompactPeriod = time.Hour }) // nobody else shortens it
	old := done(t, s, Request{Then: []Op{{Key: "s/old"}}, Note: []byte("old")})
	lost := false
	s.txns = flaky{s.txns, func() (bool, error) {
		if lost {
			if err := s.shorten(t.Context(), time.Now().Add(30*24*time.Hour), old, maxSlices); err != nil {
				t.Error(err)
			}
			return true, nil
		}
		lost = true
		return true, rpctypes.ErrTimeoutDueToConnectionLost
	}}
	got, err := s.Apply(t.Context(), Request{If: []Condition{{Key: "s/a"}}, Then: []Op{{Key: "s/a", Value: []byte("1")}}, Note: []byte("new")})
	if err != nil || !got.Done {
		t.Errorf("%+v, %v: it was carried out", got, err)
	}
	// What is settled is removed.
	if entries, _, err := s.Journal(t.Context(), "", 7); err != nil || len(entries) != 1 || string(entries[0].Notes[0]) != "new" {
		t.Errorf("the journal has %+v, %v", entries, err)
	}
}

func TestSettled(t *testing.T) {
	var r revisions
	for i, c := range []struct {
		now             time.Duration
		newest, settled int64
	}{{0, 10, 0}, {5, 15, 0}, {9, 19, 0}, {10, 20, 10}, {14, 24, 10}, {15, 25, 15}, {21, 31, 20}, {60, 70, 31}, {61, 71, 31}, {70, 80, 70}} {
		if got := r.settled(c.newest, c.now*time.Second, 10*time.Second); got != c.settled {
			t.Errorf("%d: at %v, %d is settled, want %d", i, c.now, got, c.settled)
		}
	}
	if len(r) > 3 {
		t.Errorf("%d are remembered", len(r))
	}
	if got := r.settled(50, 100*time.Second, 10*time.Second); got != 0 {
		t.Errorf("%d is settled in a store that was restored to 50", got)
	}
}

func TestShortenSpans(t *testing.T) {
	at := func(minutes int) time.Time { return time.Unix(0, 0).Add(time.Duration(minutes) * time.Minute) }
	spans := []span{{at(1), 10}, {at(2), 10}, {at(3), 10}}
	for _, c := range []struct {
		most   int64
		cutoff int // minutes
		left   int
		want   int
	}{{30, 0, 3, 0}, {29, 0, 2, 1}, {10, 0, 1, 2}, {9, 0, 0, 3}, {30, 2, 2, 2}, {10, 1, 1, 2}, {30, 9, 0, 9}} {
		left, cutoff := shortenSpans(spans, c.most, at(c.cutoff))
		if len(left) != c.left || !cutoff.Equal(at(c.want)) {
			t.Errorf("%d bytes, from minute %d: %d spans are left from %v, want %d from %v", c.most, c.cutoff, len(left), cutoff, c.left, at(c.want))
		}
	}
}
