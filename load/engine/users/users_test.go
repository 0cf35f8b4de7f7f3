package users

import (
	"testing"
	"time"

	"dyno/load/engine/clock"
	"dyno/load/engine/queue"
	"dyno/load/engine/record"
	"dyno/load/pace"
	"dyno/load/scenario"
	"dyno/load/wire"
)

const think = time.Second

// newPool returns the pool of a worker whose users carry out two steps. They think after the first,
// and the second one's body must be hello.
func newPool(t *testing.T, open bool, count int) *Pool {
	t.Helper()
	s, err := scenario.Compile(scenario.Spec{Steps: []scenario.Step{
		{Name: "a", Path: "/", Think: pace.Think{Mean: think}},
		{Name: "b", Path: "/", Assert: []scenario.Assertion{{Of: scenario.Body, Is: scenario.Equals, Value: "hello"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	now := clock.New(time.Now())
	rec := record.NewRecorder(record.NewCollector(1, time.Second, nil), 0, time.Second)
	rec.Begin(0, 0, int64(time.Hour))
	return New(&Share{Scenario: s, Shard: pace.Whole(), Count: count, Open: open, Clock: &now, Recorder: rec})
}

// next makes a user prepare its next request, which must be of a step.
func next(t *testing.T, p *Pool, n int32, step int) {
	t.Helper()
	if send, err := p.Next(n, 1, false); !send || err != nil || p.Step(n) != step {
		t.Fatalf("sends %v, step %d, %v; want step %d", send, p.Step(n), err, step)
	}
	p.PrepareResponse(n)
}

// A user of a closed loop pauses after its responses, and is told what its request got.
func TestClosedLoop(t *testing.T) {
	p := newPool(t, false, 1)
	p.Start(5)
	if n, until := p.EndPause(); n != 0 || until != 5 || !p.Active() {
		t.Fatalf("user %d starts at %d", n, until)
	}
	next(t, p, 0, 0)
	if err := p.Judge(0, 200, nil, 1); err != nil {
		t.Fatal(err)
	}
	if pause, goesOn := p.Ended(0, 1, true); !goesOn || pause != int64(think) {
		t.Errorf("pauses for %d: %v", pause, goesOn)
	}
	next(t, p, 0, 1)
	p.Fail(0)
	if _, goesOn := p.Ended(0, 1, false); !goesOn || p.Failures(0) != 1 {
		t.Errorf("goes on: %v, after %d failures", goesOn, p.Failures(0))
	}
	if p.Pause(0, 9); p.NextPause() != 9 {
		t.Errorf("pauses until %d, want 9", p.NextPause())
	}
}

// In an open loop an arrival takes a user until its iteration is over. One for whom there is none is
// turned away.
func TestArrivals(t *testing.T) {
	p := newPool(t, true, 1)
	n := p.Arrive(1)
	if again := p.Arrive(1); n != 0 || again != queue.None {
		t.Fatalf("users %d and %d, want one", n, again)
	}
	for step := range 2 {
		next(t, p, n, step)
		p.TakeMuxEvent(n, headless{}, &wire.MuxEvent{Kind: wire.MuxEnded, Data: []byte("hello")})
		if err := p.Judge(n, 200, p.Fields(n), 1); err != nil {
			t.Fatal(err)
		}
		if _, goesOn := p.Ended(n, 1, true); goesOn != (step == 0) {
			t.Errorf("after step %d the user goes on: %v", step, goesOn)
		}
	}
	if p.Active() || p.Arrive(2) != n {
		t.Error("the user does not wait for an arrival")
	}
	if r := p.Result(); r.Arrivals != 3 || r.TurnedAway != 1 || r.Iterations != 1 || r.Started != 1 {
		t.Errorf("%+v", r)
	}
}

// headless is a mux whose responses have no fields.
type headless struct{ wire.Mux }

func (headless) Fields() []wire.MuxField { return nil }

// A body that comes in pieces is put together, even though their memory is used again.
func TestBodyInPieces(t *testing.T) {
	p := newPool(t, false, 1)
	next(t, p, 0, 0)
	if err := p.Judge(0, 200, nil, 1); err != nil {
		t.Fatal(err)
	}
	p.Ended(0, 1, true)
	next(t, p, 0, 1)
	read := make([]byte, 3)
	for _, piece := range []string{"hel", "lo"} {
		copy(read, piece)
		p.TakeMuxEvent(0, headless{}, &wire.MuxEvent{Kind: wire.MuxData, Data: read[:len(piece)]})
		clear(read)
	}
	p.TakeMuxEvent(0, headless{}, &wire.MuxEvent{Kind: wire.MuxEnded})
	if err := p.Judge(0, 200, p.Fields(0), 1); err != nil {
		t.Error(err)
	}
}
