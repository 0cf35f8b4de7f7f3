package rpc

import (
	"testing"

	"dyno/services/control/rpc/controlpb"
)

// TestLocks: sessions, locks and counters over gRPC.
func TestLocks(t *testing.T) {
	b := newBed(t, nil)
	begin := func() string {
		got, err := b.calls.BeginSession(b.ctx, &controlpb.BeginSessionRequest{Session: &controlpb.Session{Name: "x"}})
		if err != nil || got.GetResource().GetSession().GetTtlSeconds() != 15 {
			t.Fatalf("%v, %v", got, err)
		}
		return got.GetResource().GetRef().GetName()
	}
	x, y := begin(), begin()
	lock := &controlpb.Ref{Name: "l"}
	acquire := func(session string) (*controlpb.Lock, error) {
		got, err := b.calls.Acquire(b.ctx, &controlpb.AcquireRequest{Ref: lock, Session: session, Value: "v"})
		return got.GetResource().GetLock(), err
	}
	first, err := acquire(x)
	if err != nil || first.GetToken() == 0 || first.GetHolder() != "x" || first.GetValue() != "v" || first.GetSession() != x || first.GetSinceUnixNano() == 0 {
		t.Fatalf("%v, %v", first, err)
	}
	if _, err := acquire(y); reason(t, err) != "FailedPrecondition held" {
		t.Errorf("%v", err)
	}
	if _, err := b.calls.RenewSession(b.ctx, &controlpb.RenewSessionRequest{Ref: &controlpb.Ref{Name: x}}); err != nil {
		t.Error(err)
	}
	if _, err := b.calls.RenewSession(b.ctx, &controlpb.RenewSessionRequest{Ref: &controlpb.Ref{Name: "abc"}}); reason(t, err) != "NotFound missing" {
		t.Errorf("%v", err)
	}
	list, err := b.calls.List(b.ctx, &controlpb.ListRequest{Kind: controlpb.Kind_KIND_LOCK})
	if err != nil || len(list.GetResources()) != 1 || list.GetResources()[0].GetLock().GetToken() != first.GetToken() {
		t.Errorf("%v, %v", list, err)
	}
	lock = &controlpb.Ref{Kind: controlpb.Kind_KIND_LOCK, Name: "l"}
	if _, err := b.calls.Remove(b.ctx, &controlpb.RemoveRequest{Ref: lock, Session: x}); err != nil {
		t.Fatal(err)
	}
	if second, err := acquire(y); err != nil || second.GetToken() <= first.GetToken() {
		t.Errorf("%v, then %v, %v", first, second, err)
	}

	counter := &controlpb.Ref{Kind: controlpb.Kind_KIND_COUNTER, Name: "c"}
	for _, want := range []int64{5, 10} {
		got, err := b.calls.Add(b.ctx, &controlpb.AddRequest{Ref: counter, Add: 5})
		if err != nil || got.GetResource().GetCounter().GetValue() != want {
			t.Errorf("%v, %v, want %d", got, err, want)
		}
	}
	if got, err := b.calls.Put(b.ctx, &controlpb.PutRequest{Ref: counter, Document: &controlpb.PutRequest_Counter{Counter: &controlpb.Counter{Value: -1}}}); err != nil || got.GetResource().GetCounter().GetValue() != -1 {
		t.Errorf("%v, %v", got, err)
	}
	for name, err := range map[string]error{
		"a lock is put":            errorOf(b.calls.Put(b.ctx, &controlpb.PutRequest{Ref: lock, Document: &controlpb.PutRequest_Counter{}})),
		"a counter is acquired":    errorOf(b.calls.Acquire(b.ctx, &controlpb.AcquireRequest{Ref: counter, Session: x})),
		"the rollout of a counter": errorOf(b.calls.Rollout(b.ctx, &controlpb.RolloutRequest{Ref: counter})),
	} {
		if reason(t, err) != "InvalidArgument parameter" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }
