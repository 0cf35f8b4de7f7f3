package store

import (
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"pgregory.net/rapid"
)

// TestOutcomes compares groups with a model: a request is carried out if its conditions hold before the group, in
// either shape.
func TestOutcomes(t *testing.T) {
	s := opened(t, nil)
	state := map[string]KV{}
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("s/k%d", rapid.IntRange(0, 7).Draw(t, "key")) })
		var waiting []*pending
		for range rapid.IntRange(1, 5).Draw(t, "requests") {
			p := &pending{}
			for _, k := range rapid.SliceOfNDistinct(key, 0, 2, rapid.ID).Draw(t, "conditions") {
				revision := state[k].Revision
				if rapid.IntRange(0, 9).Draw(t, "miss") == 0 {
					revision++
				}
				p.request.If = append(p.request.If, Condition{k, revision})
			}
			for _, k := range rapid.SliceOfNDistinct(key, 1, 3, rapid.ID).Draw(t, "operations") {
				p.request.Then = append(p.request.Then, Op{Key: k, Value: []byte(rapid.StringN(0, 3, -1).Draw(t, "value")), Delete: rapid.IntRange(0, 3).Draw(t, "delete") == 0})
			}
			if rapid.Bool().Draw(t, "noted") {
				p.request.Note = []byte("note")
			}
			waiting = append(waiting, p)
		}
		s.forceNestedTxns.Store(int64(rapid.SampledFrom([]int{0, 1}).Draw(t, "nested")))
		group, _ := pick(waiting, capacity{len(waiting), maxGroupBytes, embeddedOps})
		got, err := s.commitUntilResolved(group)
		if err != nil || len(got) != len(group) {
			t.Fatalf("%+v, %v", got, err)
		}
		before := map[string]int64{}
		for k, kv := range state {
			before[k] = kv.Revision
		}
		for i, p := range group {
			holds := true
			for _, c := range p.request.If {
				holds = holds && before[c.Key] == c.Revision
			}
			if got[i].Done != holds {
				t.Fatalf("request %d: %+v: done %v, want %v", i, p.request, got[i].Done, holds)
			}
			if !holds {
				for n, c := range p.request.If {
					if found := got[i].Found[n]; found.Key != c.Key || found.Revision != before[c.Key] {
						t.Fatalf("request %d found %+v, want revision %d", i, found, before[c.Key])
					}
				}
				continue
			}
			for _, op := range p.request.Then {
				if op.Delete {
					delete(state, op.Key)
				} else {
					state[op.Key] = KV{op.Key, op.Value, got[i].Revision}
				}
			}
		}
		kvs, _, err := s.list(s.ctx, "s/k")
		if err != nil || len(kvs) != len(state) {
			t.Fatalf("%d keys, %v: want %d", len(kvs), err, len(state))
		}
		for _, kv := range kvs {
			if want := state[kv.Key]; string(want.Value) != string(kv.Value) || want.Revision != kv.Revision {
				t.Fatalf("%+v, want %+v", kv, want)
			}
		}
	})
}

// TestShapes: groups go whole; after a condition that did not hold, some go with nested transactions.
func TestShapes(t *testing.T) {
	s := opened(t, nil)
	sent := 0
	s.txns = watched{s.txns, func(*pb.TxnRequest) { sent++ }}
	group := func(held bool) []*pending {
		c := Condition{Key: "s/none"}
		if !held {
			c.Revision = 1 << 40
		}
		return []*pending{{request: Request{If: []Condition{c}, Then: []Op{{Key: "s/a"}}}}, {request: Request{Then: []Op{{Key: "s/b"}}}}}
	}
	for i, step := range []struct {
		held bool
		want int
	}{{true, 1}, {false, 2}, {false, 1}, {true, 1}} {
		sent = 0
		got, err := s.commitUntilResolved(group(step.held))
		if err != nil || got[0].Done != step.held || !got[1].Done || sent != step.want {
			t.Errorf("step %d: %+v, %v, by %d transactions, want %d", i, got, err, sent, step.want)
		}
	}
	for range nestedTxnGroups {
		if _, err := s.commitUntilResolved(group(true)); err != nil {
			t.Fatal(err)
		}
	}
	sent = 0
	if _, err := s.commitUntilResolved(group(false)); err != nil || sent != 2 {
		t.Errorf("after a while: %v, %d transactions, want 2: it does not go as one again", err, sent)
	}
}
