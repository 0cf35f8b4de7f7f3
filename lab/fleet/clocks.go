package fleet

import (
	"context"
	"time"

	"dyno/lab/fleet/agent"
	"dyno/lab/generator"
)

// A sample is one comparison of two clocks, as NTP makes it. All are Unix times in nanoseconds: sent and
// arrived by this machine's clock, received and answered by the other's.
type sample struct{ sent, received, answered, arrived int64 }

// compareClocks asks the agent for the time.
func (c *connection) compareClocks(ctx context.Context) (generator.Clock, error) {
	var samples []sample
	for range clockSamples {
		var t agent.Times
		begin := time.Now()
		if err := c.ask(ctx, "/v1/clock", &t); err != nil {
			return generator.Clock{}, err
		}
		sent := begin.UnixNano()
		samples = append(samples, sample{sent, t.Received, t.Answered, sent + time.Since(begin).Nanoseconds()})
	}
	return estimate(samples), nil
}

// estimate returns the offset of the sample with the shortest round trip. It is wrong by half of the round trip if all
// of that was on one way, and by no more.
func estimate(samples []sample) (c generator.Clock) {
	for i, s := range samples {
		trip := time.Duration(s.arrived - s.sent - (s.answered - s.received))
		if half := max(0, trip+1) / 2; i == 0 || half < c.Error {
			c = generator.Clock{Offset: time.Duration((s.received - s.sent + s.answered - s.arrived) / 2), Error: half}
		}
	}
	return c
}
