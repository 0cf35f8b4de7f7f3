package trial

import (
	"fmt"
	"strconv"
	"strings"

	"dyno/lab/experiment"
	"dyno/load/engine"
	"dyno/load/hist"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/sse"
	"dyno/results/rundir"
)

// subscribers translates a plan's subscribers for the engine.
func subscribers(v *experiment.Variant) (*engine.Subscribers, error) {
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		return nil, err
	}
	l := &v.Load
	s := l.Subscribers
	// of returns what is asked of a topic, by its number.
	of := func(topic int) sse.StreamConfig {
		request := http1.Request{Target: sse.ExpandTopic(end.Target, strconv.Itoa(topic)), Host: end.Host}
		addHeaders(&request, s.Headers)
		return sse.StreamConfig{Request: request, Topics: []int{topic}, Forgets: !s.Resume, GapType: s.GapEvent}
	}
	if _, err := sse.NewStreamTemplate(of(0)); err != nil {
		return nil, fmt.Errorf("load.subscribers: %w", err)
	}
	streams := &engine.Subscribers{
		Count:         s.Connections,
		Ramp:          s.Ramp,
		MinBackoff:    l.Reconnect.MinBackoff,
		MaxBackoff:    l.Reconnect.MaxBackoff,
		ReceiveBuffer: s.ReceiveBuffer,
		NewStreams: func(int) func(subscriber int) wire.Stream {
			templates := map[int]*sse.StreamTemplate{}
			return func(subscriber int) wire.Stream {
				topic := subscriber % s.Topics
				if templates[topic] == nil {
					t, err := sse.NewStreamTemplate(of(topic))
					if err != nil {
						panic(err) // the first one, which differs in a number, was right
					}
					templates[topic] = t
				}
				return templates[topic].Stream()
			}
		},
	}
	if s.Slow != nil {
		streams.Slow, streams.SlowRate = s.Slow.Connections, s.Slow.Rate
	}
	return streams, nil
}

// publishers returns the maker of each worker's publishers. All of them publish to all
// topics, each with sequences of its own.
func publishers(v *experiment.Variant, workers int) (func(worker int) func() wire.Client, error) {
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		return nil, err
	}
	p := v.Load.Publish
	c := sse.PublisherConfig{Request: http1.Request{Target: p.Path, Host: end.Host}, Size: p.Size, Step: uint32(workers)} //nolint:gosec // bounded by the engine
	addHeaders(&c.Request, p.Headers)
	for topic := range v.Load.Subscribers.Topics {
		c.Topics = append(c.Topics, strconv.Itoa(topic))
	}
	if p.Form == experiment.FormMercure {
		c.Form = true
		c.Request.Body = []byte("topic={topic}&data={data}")
		for i, number := range c.Topics {
			c.Topics[i] = strings.ReplaceAll(p.Topic, topicMark, number)
		}
	}
	if _, err := sse.NewPublisherTemplate(c); err != nil {
		return nil, fmt.Errorf("load.publish: %w", err)
	}
	return func(worker int) func() wire.Client {
		mine := c
		mine.First = uint32(worker) //nolint:gosec // bounded by the engine
		t, err := sse.NewPublisherTemplate(mine)
		if err != nil {
			panic(err) // the same configuration was right a moment ago
		}
		return func() wire.Client { return t.Publisher() }
	}, nil
}

// topicMark stands for a topic's number in a plan.
const topicMark = "{topic}"

// recordStreams translates what the engine saw of subscribers for the run folder.
func recordStreams(t *rundir.Trial, r *engine.Result) {
	s := &r.Streams
	t.Streams = &rundir.Streams{
		Requested:      int64(s.Requested),
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
	for tag, into := range map[engine.Tag]*rundir.Quantiles{
		engine.Opening:    &t.Streams.Opening,
		engine.FirstEvent: &t.Streams.FirstEvent,
		engine.EventGap:   &t.Streams.EventGap,
		engine.Delivery:   &t.Streams.Delivery,
	} {
		*into = rundir.QuantilesOf(orEmpty(r.Latency[tag]))
	}
	if slow := s.Slow; slow != (engine.SlowStreams{}) {
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

func orEmpty(h *hist.Histogram) *hist.Histogram {
	if h == nil {
		return hist.New()
	}
	return h
}
