package generator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"dyno/lab/plan"
	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/engine/subscribe"
	"dyno/load/pace"
	"dyno/selftest/oracle"
)

// fast is a carrier whose processes seem to have a clock that is ahead.
type fast struct{ by time.Duration }

func (f fast) Start(ctx context.Context) (Process, error) {
	p, err := Local{}.Start(ctx)
	return fastProcess{p, f.by}, err
}

type fastProcess struct {
	Process
	by time.Duration
}

func (p fastProcess) At(ours int64) (theirs, within int64) {
	return ours + p.by.Nanoseconds(), time.Millisecond.Nanoseconds()
}

func (p fastProcess) Drift(_ context.Context, ours, theirs int64) (int64, error) {
	if theirs-ours != p.by.Nanoseconds() {
		return 0, errors.New("At never said that")
	}
	return 2 * time.Millisecond.Nanoseconds(), nil
}

// A load that this process coordinates is one load: it begins for all at one time, by whatever clock
// each lives, and its phases and intervals are reported here.
func TestCoordinate(t *testing.T) {
	server := startStream(t, oracle.StreamConfig{Rate: 50})
	v := sseVariant(server, 50)
	c, _, err := Config(t.Context(), v, 1)
	if err != nil {
		t.Fatal(err)
	}
	var phases []config.Phase
	var begin time.Time
	var delivered uint64
	c.OnStart = func(s config.Start) { begin = s.Time }
	c.OnPhase = func(p config.Phase) { phases = append(phases, p) }
	c.OnInterval = func(i record.Interval) { delivered += i.Delivered }
	by := []Carrier{Local{}, fast{20 * time.Millisecond}}
	portions, err := Divide(c, by, []int{1000, 1000})
	if err != nil {
		t.Fatal(err)
	}
	result, accounts, err := Coordinate(t.Context(), v, 1, c, portions, by)
	if err != nil {
		t.Fatal(err)
	}
	if s := result.Streams; s.Requested != 50 || s.Opened != 50 || s.Peak != 50 || s.Failed != 0 || s.AllDelivered == 0 || s.AllDelivered != delivered {
		t.Errorf("%+v, %d events in the intervals", s, delivered)
	}
	if !result.Start.Equal(begin) || !slices.Equal(phases, []config.Phase{config.WarmingUp, config.Measuring, config.Draining}) {
		t.Errorf("began at %v or %v, phases %v", result.Start, begin, phases)
	}
	for _, a := range accounts {
		if a.Late < 0 || a.Late > time.Hour || a.Cost.Streams.Requested != 25 || a.Cost.Streams.Delivered == 0 {
			t.Errorf("%+v", a)
		}
		// A part's watcher is called for each phase, and knows its threads, not others'.
		if o := a.Observed; o == nil || o.Generator.Workers != 1 || *o.CPUSeconds != 3 {
			t.Errorf("observed %+v", o)
		}
	}
	for i, want := range []Clock{{}, {Offset: 20 * time.Millisecond, Error: time.Millisecond, Drifted: 2 * time.Millisecond}} {
		a := accounts[i]
		if off := (a.Clock.Offset - want.Offset).Abs(); a.Share != 0.5 || off > time.Millisecond || a.Clock.Error != want.Error || a.Clock.Drifted != want.Drifted || a.Workers != 1 || a.Cost.Window == 0 {
			t.Errorf("%+v", a)
		}
	}
}

// A part that learns of the start when it is over begins late, and how late is known.
func TestCoordinateLate(t *testing.T) {
	server := startStream(t, oracle.StreamConfig{Rate: 50})
	v := sseVariant(server, 4)
	c, _, err := Config(t.Context(), v, 1)
	if err != nil {
		t.Fatal(err)
	}
	by := []Carrier{Local{}, fast{-time.Second}}
	_, accounts, err := Coordinate(t.Context(), v, 1, c, inOrder([]int{2, 2}), by)
	if err != nil {
		t.Fatal(err)
	}
	if late := accounts[1].Late; late < time.Second-2*StartLead {
		t.Errorf("it learned of the start a second after it, and began %v late", late)
	}
}

// An interruption ends all parts, and their results are kept.
func TestCoordinateInterrupted(t *testing.T) {
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
	result, _, err := Coordinate(ctx, v, 1, c, inOrder([]int{10, 10}), []Carrier{Local{}, Local{}})
	if err != nil || !result.Interrupted || result.Streams.Opened != 20 {
		t.Errorf("%+v, %v", result, err)
	}
}

// If no subscription succeeds, the reason is reported as for a load that is carried here.
func TestCoordinateFails(t *testing.T) {
	server := startStream(t, oracle.StreamConfig{Status: 503})
	v := sseVariant(server, 20)
	c, _, err := Config(t.Context(), v, 1)
	if err != nil {
		t.Fatal(err)
	}
	result, _, err := Coordinate(t.Context(), v, 1, c, inOrder([]int{10, 10}), []Carrier{Local{}, Local{}})
	var unreachable *engine.Unreachable
	if !errors.As(err, &unreachable) || result != nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("%v, %v", result, err)
	}
}

// A part that is due to send nothing has nothing wrong with it.
func TestCoordinateIdle(t *testing.T) {
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
	v.Load.Open.Rate, v.Load.Open.MaxConnections = 2, 2
	v.Load.Warmup, v.Load.Window = 0, 500*time.Millisecond
	c, _, err := Config(t.Context(), &v, 1)
	if err != nil {
		t.Fatal(err)
	}
	by := []Carrier{Local{}, Local{}}
	portions, err := Divide(c, by, []int{1000, 1000})
	if err != nil {
		t.Fatal(err)
	}
	result, _, err := Coordinate(t.Context(), &v, 1, c, portions, by)
	if err != nil || result.AllCounts.Scheduled != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

// Each agent has a part of the load, and room for it.
func TestDivide(t *testing.T) {
	three := []Carrier{Local{}, Local{}, Local{}}
	for _, c := range []struct {
		config config.Config
		room   int
		want   string // an error, or none
	}{
		{config.Config{Connections: 3}, 1000, ""},
		{config.Config{Connections: 2}, 1000, "each of 3 agents needs a connection"},
		{config.Config{Connections: 2100, Requests: 2}, 1000, "each of 3 agents needs a connection"},
		{config.Config{Connections: 2232}, 1000, ""},
		{config.Config{Connections: 2233}, 1000, "has 1000 descriptors, and its share of the connections takes 1001"},
		{config.Config{Subscribers: &subscribe.Config{Count: 7}}, 1000, ""},
		{config.Config{Subscribers: &subscribe.Config{Count: 2}}, 1000, "2 are too few for 3 agents"},
		{config.Config{Subscribers: &subscribe.Config{Count: 2233}}, 1000, "takes 1001"},
		{config.Config{Subscribers: &subscribe.Config{Count: 7}, Connections: 1}, 1000, ""},
	} {
		portions, err := Divide(c.config, three, []int{c.room, c.room, c.room})
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v, want %s", c.config, err, c.want)
			}
			continue
		}
		want := []Portion{{Shard: pace.Shard{Index: 0, Count: 3}}, {Shard: pace.Shard{Index: 1, Count: 3}}, {Shard: pace.Shard{Index: 2, Count: 3}}}
		if c.config.Subscribers != nil {
			want = inOrder([]int{3, 2, 2})
		}
		if err != nil || !slices.Equal(portions, want) {
			t.Errorf("%+v: %+v, %v", c.config, portions, err)
		}
	}
}
