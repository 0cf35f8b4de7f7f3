package trial

import (
	"dyno/load/engine/record"
	"dyno/results/rundir"
)

// recordStreams translates the engine's result on subscribers for the run folder.
func recordStreams(t *rundir.Trial, r *record.Result) {
	s := &r.Streams
	t.Streams = &rundir.Streams{
		Requested:      int64(s.Requested),
		Untried:        int64(s.Untried),
		Opened:         signed(s.Opened),
		Failed:         signed(s.Failed),
		Reconnects:     signed(s.Reconnects),
		Ended:          signed(s.Ended),
		Broken:         signed(s.Broken),
		Closed:         signed(s.Closed),
		Peak:           int64(s.Peak),
		Generator:      signed(s.Generator),
		Served:         int64(s.Served),
		Silent:         int64(s.Silent),
		Quiet:          int64(s.Quiet),
		Away:           int64(s.Away),
		Subscribed:     s.Subscribed.Seconds(),
		Silence:        silence(&s.Silence),
		Delivered:      signed(s.Delivered),
		DeliveredBytes: signed(s.DeliveredBytes),
		AllDelivered:   signed(s.AllDelivered),
		Lost:           signed(s.Lost),
		Announced:      signed(s.Announced),
		Uncertain:      signed(s.Uncertain),
		Pending:        signed(s.Pending),
		Gaps:           signed(s.Gaps),
		Repeated:       signed(s.Repeated),
		Disordered:     signed(s.Disordered),
		Unstamped:      signed(s.Unstamped),
		Untracked:      signed(s.Untracked),
	}
	if slow := s.Slow; slow != (record.SlowStreams{}) {
		t.Streams.Slow = &rundir.SlowStreams{
			Requested: int64(slow.Requested), Opened: signed(slow.Opened), Ended: signed(slow.Ended), Delivered: signed(slow.Delivered),
			Gaps: signed(slow.Gaps), Announced: signed(slow.Announced), Missing: signed(slow.Missing),
		}
	}
	for text, n := range s.Failures {
		if t.Failures == nil {
			t.Failures = map[string]int64{}
		}
		t.Failures["subscriber: "+text] = signed(n)
	}
	if r.Window > 0 {
		throughput := r.Deliveries()
		t.Throughput = &throughput
	}
}
