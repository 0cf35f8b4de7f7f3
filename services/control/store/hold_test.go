package store

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestHolds: the lowest revision that somebody reads is kept, for a bounded time.
func TestHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h holds
		want := func(least int64) {
			t.Helper()
			if got := h.least(); got != least {
				t.Errorf("%d is kept, want %d", got, least)
			}
		}
		want(math.MaxInt64)
		first := h.take()
		want(0)
		first.at(10)
		want(10)
		time.Sleep(holdTime / 2)
		second := h.take()
		second.at(20)
		want(10)
		time.Sleep(holdTime / 2)
		want(20) // the first is too old
		first.release()
		second.release()
		want(math.MaxInt64)
	})
}

// many makes more keys than the first page of a listing has, of some size.
func many(t *testing.T, s *Store) {
	t.Helper()
	for i := range 2 * firstPage {
		set(t, s, fmt.Sprintf("s/k/%04d", i), strings.Repeat("v", 100))
	}
}

// passing changes a key and compacts up to then, as upkeep does when much is written.
func passing(t *testing.T, s *Store) {
	t.Helper()
	set(t, s, "s/k/0000", "changed")
	set(t, s, "s/k/0000", "changed again")
	s.compactOld(&compaction{keepRevisions: 1, keepChanges: 1})
}

// snapshot reads everything as of one revision, and calls a function when it has the first key.
func snapshot(t *testing.T, s *Store, meanwhile func()) (kvs []KV, err error) {
	t.Helper()
	err = s.Snapshot(t.Context(), func(string, int64) error { return nil }, func(key string, value []byte) error {
		if len(kvs) == 0 {
			meanwhile()
		}
		kvs = append(kvs, KV{Key: key, Value: value})
		return nil
	})
	return kvs, err
}

// TestCompactionWaits: what is read page by page is not compacted meanwhile by the same store;
// afterwards it is.
func TestCompactionWaits(t *testing.T) {
	s := opened(t, func(c *Config) { c.CompactPeriod = 0 })
	many(t, s)
	if kvs, err := snapshot(t, s, func() { passing(t, s) }); err != nil || len(kvs) < 2*firstPage {
		t.Errorf("%d keys are read, %v", len(kvs), err)
	}
	n := 0
	from := s.cfg.Prefix + State
	at, _, err := s.pages(t.Context(), from, clientv3.GetPrefixRangeEnd(from), 0, 0, func(*mvccpb.KeyValue) error {
		if n++; n == 1 {
			passing(t, s)
		}
		return nil
	})
	if err != nil || n < 2*firstPage {
		t.Errorf("%d keys are listed, %v", n, err)
	}
	passing(t, s)
	if _, err := s.client.Get(t.Context(), from, clientv3.WithRev(at)); err == nil {
		t.Errorf("revision %d is there still, and nobody reads it", at)
	}
}

// TestSnapshotCompacted: a snapshot whose revision somebody else compacts fails, and says so.
func TestSnapshotCompacted(t *testing.T) {
	s := opened(t, func(c *Config) { c.CompactPeriod = 0 })
	many(t, s)
	_, err := snapshot(t, s, func() {
		if err := s.compact(t.Context(), set(t, s, "s/a", "1")); err != nil {
			t.Error(err)
		}
	})
	if err == nil || !strings.Contains(err.Error(), "was compacted") {
		t.Errorf("read: %v", err)
	}
}
