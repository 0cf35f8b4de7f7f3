package calibrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dyno/experiments/disturb"
	"dyno/load/engine/record"
	"dyno/selftest/oracle"
)

// The generator's CPU is taken away at real-time priority for this long and this often.
const (
	stallLength = 5 * time.Millisecond
	stallRate   = 20
	// stallWindow is long enough for 30,000 requests, 30 of which are beyond p99.9.
	stallWindow = 15 * time.Second
)

// stalls compares service times with the kernel's while the generator's CPU is taken away
// now and then. A response that the generator reads late has not taken longer.
func (k *calibrator) stalls(ctx context.Context) (err error) {
	s, err := k.readings("stalls.csv", &k.result.Oracles)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return k.withServers(func() error {
		for _, o := range []struct {
			name  string
			delay oracle.Distribution
		}{
			{"fixed delay 1 ms", oracle.Fixed(time.Millisecond)},
			{"log-normal delay, median 2 ms, σ 0.5", oracle.LogNormal{Median: 2 * time.Millisecond, Sigma: 0.5}},
		} {
			k.step("stalls: %s", o.name)
			readings, err := k.stalled(ctx, o.name, o.delay)
			if err := s.add(readings, err); err != nil {
				return err
			}
		}
		return nil
	})
}

// stalled loads one server from a generator that is stalled.
func (k *calibrator) stalled(ctx context.Context, name string, delay oracle.Distribution) ([]Reading, error) {
	d, err := disturb.Start(disturb.Config{
		CPUs: k.load, Shortest: stallLength, Longest: stallLength, PerSecond: stallRate, RealTime: true, Seed: 1,
	})
	if err != nil {
		k.once("no stalls of the generator: %v", err)
		return nil, nil
	}
	r, kernel, injected, err := k.delay(ctx, name, delay, max(k.Window, stallWindow))
	taken, failed := d.Stop()
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	title := fmt.Sprintf("stalls of %v of the generator, %d/s; %s, Poisson, 2,000/s", stallLength, stallRate, name)
	readings := agree(title, r, kernel, injected, agreement())
	shown := func(quantity string, tag record.Tag, q float64, note string) {
		readings = append(readings, Reading{
			Oracle: title, Quantity: quantity, Unit: Seconds, Measured: seconds(r.Latency[tag].Quantile(q)), Note: note,
		})
	}
	e := &r.Ends
	shown("service p99.9 until the read", record.ServiceRead, 0.999, "not judged: what it would be without stamps")
	shown("read delay p50", record.ReadDelay, 0.5, fmt.Sprintf("%d of %d by arrival; refused: %d late, %d early, %d stale; the clocks' offset is known to ±%v",
		e.ByArrival, e.ByArrival+e.ByRead, e.Late, e.Early, e.Stale, e.Uncertainty))
	shown("read delay p99", record.ReadDelay, 0.99, "")
	shown("send lag p99", record.SendLag, 0.99, fmt.Sprintf("not judged: %d stalls took %v", taken.Stalls, taken.Time.Round(time.Millisecond)))
	return readings, nil
}
