package cli

import (
	"errors"
	"testing"
	"time"

	"dyno/lab/plan"
	"dyno/lab/trial"
	"dyno/load/engine/record"
	"dyno/load/hist"
)

func TestAborter(t *testing.T) {
	second := func(n int, ok, failed uint64, times int64) record.Interval {
		i := record.Interval{Start: time.Duration(n) * time.Second, Length: time.Second, Measured: record.Outcomes{OK: ok, Errors: failed}}
		i.Latency[record.Response] = hist.New()
		i.Latency[record.Response].RecordN(int64(time.Second), times)
		return i
	}
	for name, c := range map[string]struct {
		threshold plan.Threshold
		purpose   string
		intervals []record.Interval
		want      time.Duration // of the window; 0: the run goes on
	}{
		"broken":             {plan.Threshold{Holds: "errors.ratio < 5%"}, "", []record.Interval{second(1, 99, 1, 0), second(2, 50, 50, 0)}, 2 * time.Second},
		"kept":               {plan.Threshold{Holds: "errors.ratio < 60%"}, "", []record.Interval{second(1, 99, 1, 0), second(2, 50, 50, 0)}, 0},
		"delayed":            {plan.Threshold{Holds: "errors.total < 1", After: 3 * time.Second}, "", []record.Interval{second(1, 1, 1, 0), second(2, 1, 1, 0), second(3, 1, 0, 0), second(4, 1, 1, 0)}, 3 * time.Second},
		"warm-up":            {plan.Threshold{Holds: "throughput < 10/s"}, "", []record.Interval{{Length: time.Second, Warmup: record.Outcomes{OK: 90}}, second(1, 9, 0, 0)}, 0},
		"a process ahead":    {plan.Threshold{Holds: "errors.total < 1"}, "", []record.Interval{second(0, 0, 1, 0), second(1, 9, 0, 0)}, time.Second},
		"its times":          {plan.Threshold{Holds: "response.p99 < 10ms"}, "", []record.Interval{second(0, 900, 0, 900), second(1, 100, 0, 100)}, time.Second},
		"both times":         {plan.Threshold{Holds: "service.p99 < 10ms && response.p99 < 10ms"}, "", []record.Interval{second(1, 1000, 0, 1000)}, time.Second},
		"another trial":      {plan.Threshold{Holds: "errors.total < 1"}, "pilot", []record.Interval{second(1, 0, 9, 0)}, 0},
		"throughput":         {plan.Threshold{Holds: "throughput > 5/s"}, "", []record.Interval{second(1, 9, 0, 0), second(2, 0, 0, 0)}, 2 * time.Second},
		"no request":         {plan.Threshold{Holds: "errors.ratio < 5%"}, "", []record.Interval{second(1, 0, 0, 0)}, 0},
		"times":              {plan.Threshold{Holds: "response.p99 < 10ms"}, "", []record.Interval{second(1, 900, 0, 900), second(2, 100, 0, 100)}, 2 * time.Second},
		"mean":               {plan.Threshold{Holds: "response.mean < 10ms"}, "", []record.Interval{second(1, 1, 0, 1)}, time.Second},
		"parts of a second":  {plan.Threshold{Holds: "errors.total < 1"}, "", []record.Interval{{Start: time.Second, Length: time.Second / 2, Measured: record.Outcomes{Errors: 1}}, {Start: 3 * time.Second / 2, Length: time.Second / 2}}, time.Second},
		"one that ends none": {plan.Threshold{}, "", []record.Interval{second(1, 0, 9, 0)}, 0},
	} {
		e := &plan.Experiment{Variants: []plan.Variant{{Name: "v"}}, Thresholds: []plan.Threshold{{Holds: "errors.total < 1"}}}
		if c.threshold.Holds != "" {
			c.threshold.Abort = true
			e.Thresholds = append(e.Thresholds, c.threshold)
		}
		var got *abortedError
		a := newAborter(e, func(err error) {
			if got == nil {
				errors.As(err, &got)
			}
		})
		if (a == nil) != (c.threshold.Holds == "") {
			t.Errorf("%s: aborter %v", name, a)
		}
		if a == nil {
			continue
		}
		a.Begin(trial.Planned{Variant: "v", Purpose: c.purpose, Warmup: time.Second})
		for _, i := range c.intervals {
			a.Interval(i)
		}
		a.End(nil, nil)
		switch {
		case got == nil && c.want > 0, got != nil && got.after != c.want:
			t.Errorf("%s: aborted by %v, want it after %v", name, got, c.want)
		case got != nil && got.threshold != c.threshold.Holds:
			t.Errorf("%s: aborted by %v", name, got)
		}
	}
}
