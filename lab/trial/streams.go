package trial

import (
	"dyno/internal/sums"
	"dyno/load/engine/record"
	"dyno/results/rundir"
)

// recordStreams translates the engine's result on subscribers for the run folder.
func recordStreams(t *rundir.Trial, r *record.Result) {
	s := &r.Streams
	t.Streams = &rundir.Streams{}
	sums.Copy(t.Streams, s)
	t.Streams.Silence = silence(&s.Silence)
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
