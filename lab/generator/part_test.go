package generator

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dyno/lab/exchange"
	"dyno/lab/plan"
	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
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
{"interval":{"Measured":{"OK":1,"Timeouts":2,"ByKind":[0,0,0,0,0,2]},"Status":{"200":1},"Delivered":3,"Connections":4}}
{"interval":{"Measured":{"OK":10},"Status":{"200":10},"Delivered":30,"Connections":5}}
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
	for _, want := range []record.Interval{
		{Measured: record.Outcomes{OK: 111, Timeouts: 2, ByKind: [wire.Kinds]uint64{wire.Timeout: 2}}, Status: map[int]uint64{200: 11}, Delivered: 33, Connections: 7},
		{Measured: record.Outcomes{OK: 100}, Connections: 7}, // added once
	} {
		got := record.Interval{Measured: record.Outcomes{OK: 100}, Connections: 2}
		if p.addTo(&got); !cmp.Equal(got, want, cmpopts.IgnoreFields(got, "Latency")) {
			t.Errorf("%+v, want %+v", got, want)
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
