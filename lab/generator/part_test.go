package generator

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"dyno/lab/exchange"
	"dyno/lab/plan"
	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/hist"
	"dyno/load/wire"
	"dyno/selftest/oracle"
)

func sseVariant(server *oracle.Stream, subscribers int) *plan.Variant {
	v := plan.DefaultVariant(plan.SSE)
	v.Target.URL = server.URL() + "/"
	v.Target.Complete()
	v.Load.Subscribers.Connections = subscribers
	v.Load.Warmup, v.Load.Window = 100*time.Millisecond, 500*time.Millisecond
	return &v
}

func startStream(t *testing.T, c oracle.StreamConfig) *oracle.Stream {
	t.Helper()
	server, err := oracle.StartStream(t.Context(), oracle.Config{}, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// A load in several processes is one load: every subscriber exists once, and the results
// of all processes are added up.
func TestParts(t *testing.T) {
	server := startStream(t, oracle.StreamConfig{Rate: 50, Drop: 7})
	v := sseVariant(server, 60)
	c, _, err := Config(t.Context(), v, 1)
	if err != nil {
		t.Fatal(err)
	}
	result, err := Run(t.Context(), v, 1, c, inOrder([]int{20, 25, 15}))
	if err != nil {
		t.Fatal(err)
	}
	s := result.Streams
	if s.Requested != 60 || s.Opened != 60 || s.Peak != 60 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
	if s.Lost == 0 || s.Lost%60 != 0 && s.Lost < 60 {
		t.Errorf("of each subscriber every seventh event is lost: %d in all", s.Lost)
	}
	var events, gaps uint64
	var connected int64
	for _, i := range result.Intervals {
		events += i.Delivered
		if h := i.Latency[record.Opening]; h != nil {
			connected += h.Count()
		}
		if h := i.Latency[record.EventGap]; h != nil {
			gaps += uint64(h.Count())
		}
	}
	if events != s.AllDelivered || connected != 60 || result.Latency[record.Opening].Count() != 60 {
		t.Errorf("intervals have %d of %d events and %d subscribers", events, s.AllDelivered, connected)
	}
	if n := uint64(result.Latency[record.EventGap].Count()); n == 0 || n != gaps {
		t.Errorf("%d gaps between events in all, %d in intervals", n, gaps)
	}
	// The rate is 50 events a second without every seventh, if the machine has time: an earlier stall
	// may delay events into the window, and a present stall may delay events beyond it.
	if s.Delivered == 0 || s.Delivered > s.AllDelivered {
		t.Errorf("%d of %d events were delivered in the window", s.Delivered, s.AllDelivered)
	}
}

// Live rows include all processes: the intervals of a part are added to dyno's own.
func TestPartsAreSeenLive(t *testing.T) {
	p := &part{reports: make(chan partReport, maxReports), line: exchange.New(strings.NewReader(`{"party":{}}
{"interval":{"Measured":{"OK":1,"Timeouts":2,"ByKind":[0,0,0,0,0,2]},"Status":{"200":1},"Delivered":3,"Connections":4,"Latency":[null,"0.000001,AQI="]}}
{"interval":{"Measured":{"OK":10},"Status":{"200":10},"Delivered":30,"Connections":5,"Latency":["0.000001,AQI=","0.000002,AwI="]}}
{"published":{}}
`), nil, maxPartLine)}
	p.listen()
	if r, err := p.hear(); err != nil || r.Party == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err := p.hear(); err != nil || r.Published == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := p.hear(); !errors.Is(err, io.EOF) {
		t.Errorf("%v after the last report", err)
	}
	at := func(values ...int64) *hist.Histogram {
		h := hist.New()
		for _, v := range values {
			h.Record(v)
		}
		return h.Clone()
	}
	own := at(3)
	for _, want := range []record.Interval{
		{Measured: record.Outcomes{OK: 111, Timeouts: 2, ByKind: [wire.Kinds]uint64{wire.Timeout: 2}}, Status: map[int]uint64{200: 11}, Delivered: 33, Connections: 7, Latency: [record.Tags]*hist.Histogram{at(1), at(1, 2, 3)}},
		{Measured: record.Outcomes{OK: 100}, Connections: 7, Latency: [record.Tags]*hist.Histogram{nil, own}}, // added once
	} {
		got := record.Interval{Measured: record.Outcomes{OK: 100}, Connections: 2, Latency: [record.Tags]*hist.Histogram{nil, own}}
		if p.addTo(&got); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if own.Count() != 1 {
		t.Errorf("%d times in a histogram that is another's", own.Count())
	}
}

// Times that are asked for of all processes come with the intervals, and are those of the result: to a process that
// carries a part itself, and to one that only coordinates.
func TestTimesOfParts(t *testing.T) {
	server, err := oracle.StartNull(t.Context(), oracle.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	v := plan.DefaultVariant(plan.HTTP)
	v.Target.URL = server.URL() + "/"
	v.Target.Complete()
	v.Load.Closed, v.Load.Open = nil, plan.DefaultOpen()
	v.Load.Open.Rate, v.Load.Open.MaxConnections = 500, 4
	v.Load.Warmup, v.Load.Window = 100*time.Millisecond, 400*time.Millisecond
	two := []Carrier{Local{}, Local{}}
	for name, run := range map[string]func(config.Config, []Portion) (*record.Result, error){
		"own": func(c config.Config, portions []Portion) (*record.Result, error) {
			return Run(t.Context(), &v, 1, c, portions)
		},
		"coordinated": func(c config.Config, portions []Portion) (*record.Result, error) {
			result, _, err := Coordinate(t.Context(), &v, 1, c, portions, two)
			return result, err
		},
	} {
		c, codecs, err := Config(t.Context(), &v, 1)
		if err != nil {
			t.Fatal(err)
		}
		var sum record.Interval
		c.Times[record.Service] = true
		c.OnInterval = func(i record.Interval) { sum.AddTimes(&i) }
		portions, err := Divide(c, two, []int{1000, 1000})
		if err != nil {
			t.Fatal(err)
		}
		result, err := run(c, portions)
		if err != nil {
			t.Fatal(err)
		}
		text := func(h *hist.Histogram) string {
			text, err := h.MarshalText()
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		all := result.Latency[record.Service]
		if got := sum.Latency[record.Service]; all.Count() == 0 || got == nil || text(got) != text(all) || got.Min() != all.Min() {
			t.Errorf("%s: %+v in the intervals, %d times in all", name, got, all.Count())
		}
		if of := sum.Latency[record.Response]; of != nil && of.Count() >= result.Latency[record.Response].Count() {
			t.Errorf("%s: %d response times of parts, which nobody asked for", name, of.Count())
		}
		if err := codecs.Close(); err != nil {
			t.Error(err)
		}
	}
}

// An interruption ends all parts, and their results are kept.
func TestPartsAreInterrupted(t *testing.T) {
	server := startStream(t, oracle.StreamConfig{})
	v := sseVariant(server, 20)
	v.Load.Window = time.Hour
	c, _, err := Config(t.Context(), v, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.OnPhase = func(p config.Phase) {
		if p == config.Measuring {
			cancel()
		}
	}
	result, err := Run(ctx, v, 1, c, inOrder([]int{10, 10}))
	if err != nil {
		t.Fatal(err)
	}
	if !result.Interrupted || result.Streams.Requested != 20 || result.Streams.Opened != 20 {
		t.Errorf("interrupted %v, %+v", result.Interrupted, result.Streams)
	}
}

// If no subscription succeeds, the reason is reported, and no process is left.
func TestPartsFail(t *testing.T) {
	server := startStream(t, oracle.StreamConfig{Status: 503})
	v := sseVariant(server, 20)
	c, _, err := Config(t.Context(), v, 1)
	if err != nil {
		t.Fatal(err)
	}
	result, err := Run(t.Context(), v, 1, c, inOrder([]int{10, 10}))
	var unreachable *engine.Unreachable
	if !errors.As(err, &unreachable) || result != nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("%v, %v", result, err)
	}
}
