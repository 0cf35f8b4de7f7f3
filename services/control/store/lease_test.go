package store

import (
	"errors"
	"strconv"
	"testing"
	"time"
)

// TestLease: a key goes with its lease, however that ends.
func TestLease(t *testing.T) {
	s := opened(t, nil)
	lease, ttl, err := s.Grant(t.Context(), 60)
	if err != nil || lease == 0 || ttl < 60 {
		t.Fatalf("%d, %d s, %v", lease, ttl, err)
	}
	done(t, s, Request{Then: []Op{{Key: "s/a", Value: []byte("1"), Lease: lease}}})
	if err := s.Renew(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	var there bool
	if err := s.Snapshot(t.Context(), func(string, int64) error { return nil }, func(key string, _ []byte) error {
		there = there || key == "s/a"
		return nil
	}); err != nil || there {
		t.Errorf("in the snapshot: %v, %v", there, err)
	}
	if err := s.Revoke(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, "s/a"); got.Revision != 0 {
		t.Errorf("it is still there: %+v", got)
	}
	for name, err := range map[string]error{"renewed": s.Renew(t.Context(), lease), "revoked": s.Revoke(t.Context(), lease)} {
		if !errors.Is(err, ErrLeaseEnded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEndedLeaseInGroup: a request whose lease has ended does not fail the others of its group.
func TestEndedLeaseInGroup(t *testing.T) {
	s := opened(t, nil)
	lease, _, err := s.Grant(t.Context(), 60)
	if err == nil {
		err = s.Revoke(t.Context(), lease)
	}
	if err != nil {
		t.Fatal(err)
	}
	var group []*pending
	for _, r := range []Request{
		{Then: []Op{{Key: "s/a", Value: []byte("1")}}, Note: []byte("a")},
		{Then: []Op{{Key: "s/b", Lease: lease}}, Note: []byte("b")},
		{Then: []Op{{Key: "s/c", Expires: true}}},
		{If: []Condition{{Key: "s/none", Revision: 7}}, Then: []Op{{Key: "s/d", Lease: lease}}}, // its condition spares its lease
	} {
		group = append(group, &pending{request: r, done: make(chan result, 1)})
	}
	s.commit(group)
	for i, want := range []struct {
		done bool
		err  error
	}{{true, nil}, {false, ErrLeaseEnded}, {true, nil}, {false, nil}} {
		if got := <-group[i].done; got.outcome.Done != want.done || !errors.Is(got.err, want.err) {
			t.Errorf("request %d: %+v, want %+v", i, got, want)
		}
	}
	if entries, _, err := s.Journal(t.Context(), "", 10); err != nil || len(entries) != 1 || string(entries[0].Notes[0]) != "a" {
		t.Errorf("journal: %+v, %v", entries, err)
	}
}

// TestTokenBase: tokens grow with every restore.
func TestTokenBase(t *testing.T) {
	s := opened(t, nil)
	base := func(s *Store) int64 {
		n, err := strconv.ParseInt(string(get(t, s, TokenBase).Value), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	first := base(s)
	head, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RenewEpoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := base(s)
	for name, kvs := range map[string]map[string]string{"a backup": {TokenBase: strconv.FormatInt(second, 10)}, "an old backup": {"s/a": "1"}} {
		dir := t.TempDir()
		if err := Fill(t.Context(), config(dir), func(put func(string, []byte) error) error {
			for key, value := range kvs {
				if err := put(key, []byte(value)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		restored, err := Open(t.Context(), config(dir))
		if err != nil {
			t.Fatal(err)
		}
		if third := base(restored); first+head >= second || second >= third {
			t.Errorf("%s: %d with revision %d, %d, %d", name, first, head, second, third)
		}
		if err := restored.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// A clock that is behind would repeat tokens.
	late := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
	for _, text := range []string{late, "x"} {
		if err := Fill(t.Context(), config(t.TempDir()), func(put func(string, []byte) error) error { return put(TokenBase, []byte(text)) }); err == nil {
			t.Errorf("filled after %q", text)
		}
	}
}
