package generator

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/load/engine/record"
	"dyno/load/hist"
)

// Every interval has a line for each tag that something was recorded under.
func TestWriteLog(t *testing.T) {
	histogram := func(values ...int64) *hist.Histogram {
		h := hist.New()
		for _, v := range values {
			h.Record(v)
		}
		return h
	}
	r := &record.Result{Start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Intervals: []record.Interval{
		{Start: time.Second, Length: time.Second},
		{Start: 2 * time.Second, Length: time.Second},
	}}
	r.Intervals[0].Latency[record.Response] = histogram(1e6, 2e6)
	r.Intervals[0].Latency[record.ConnectTime] = histogram(5e6)
	r.Intervals[1].Latency[record.Response] = histogram(3e6)
	var b bytes.Buffer
	if err := WriteLog(&b, r); err != nil {
		t.Fatal(err)
	}
	start, intervals, err := hist.ReadLog(&b)
	if err != nil || !start.Equal(r.Start) {
		t.Fatalf("start %v, %v", start, err)
	}
	type row struct {
		Tag           string
		Start, Length time.Duration
		Count         int64
	}
	var got []row
	for _, i := range intervals {
		got = append(got, row{i.Tag, i.Start, i.Length, i.Hist.Count()})
	}
	want := []row{
		{"response", time.Second, time.Second, 2},
		{"connect", time.Second, time.Second, 1},
		{"response", 2 * time.Second, time.Second, 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
