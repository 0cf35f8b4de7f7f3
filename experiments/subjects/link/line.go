package main

import (
	"math/rand/v2"
	"time"

	"dyno/services/relay/conditions"
)

// Conditions are those of a link, the same in each direction.
type Conditions struct {
	Delay   time.Duration   `yaml:"delay" range:"0..10s" default:"10ms" doc:"how long a packet travels, each way"`
	Rate    conditions.Rate `yaml:"rate" doc:"how fast packets leave the queue, such as 100Mbit/s; without it, at once"`
	LowRate conditions.Rate `yaml:"low_rate" doc:"the rate in every second period"`
	Period  time.Duration   `yaml:"period" range:"1ms..1h" default:"1s" doc:"how long each of the two rates lasts"`
	Loss    float64         `yaml:"loss" kind:"share" range:"0..1" doc:"the share of packets that get lost, at random"`
	Queue   int             `yaml:"queue" kind:"size" range:"1600..64MiB" default:"256KiB" doc:"bytes that may wait for the rate; a packet that finds no room is lost"`
	Seed    uint64          `yaml:"seed" doc:"what the random losses follow from"`
}

// maxTravelling bounds the packets of a direction, where no rate does.
const maxTravelling = 1 << 16

// A packet is on its way. Times count from the start of the link.
type packet struct {
	data            []byte
	leaves, arrives time.Duration // the end of the queue, and of the way
}

// A line is one direction of a link. It has no clock: callers say what time it is, never an earlier one.
type line struct {
	Conditions
	random  *rand.Rand
	packets []packet // in order, which the constant delay keeps
	left    int      // how many of them have left the queue
	waiting int      // bytes of the others
	free    time.Duration
	lost    int
}

func newLine(c Conditions, direction uint64) *line {
	return &line{Conditions: c, random: rand.New(rand.NewPCG(c.Seed, direction))} //nolint:gosec // losses are no secrets
}

// rateAt returns the bytes per second at a time.
func (l *line) rateAt(t time.Duration) conditions.Rate {
	if l.LowRate > 0 && t/l.Period%2 == 1 {
		return l.LowRate
	}
	return l.Rate
}

// send accepts a packet, or loses it. The line keeps data until it arrives.
func (l *line) send(now time.Duration, data []byte) bool {
	for ; l.left < len(l.packets) && l.packets[l.left].leaves <= now; l.left++ {
		l.waiting -= len(l.packets[l.left].data)
	}
	if l.random.Float64() < l.Loss || l.waiting+len(data) > l.Queue || len(l.packets) == maxTravelling {
		l.lost++
		return false
	}
	leaves := max(now, l.free)
	if r := l.rateAt(leaves); r > 0 {
		leaves += time.Duration(float64(len(data)) / float64(r) * float64(time.Second))
	}
	l.free = leaves
	l.waiting += len(data)
	l.packets = append(l.packets, packet{data, leaves, leaves + l.Delay})
	return true
}

// receive returns the next packet that has arrived, or nil.
func (l *line) receive(now time.Duration) []byte {
	if len(l.packets) == 0 || l.packets[0].arrives > now {
		return nil
	}
	p := l.packets[0]
	l.packets = l.packets[1:]
	if l.left > 0 {
		l.left--
	} else {
		l.waiting -= len(p.data) // it left the queue since the last packet was sent
	}
	return p.data
}

// next returns when the next packet arrives; ok is false if none is on its way.
func (l *line) next() (at time.Duration, ok bool) {
	if len(l.packets) == 0 {
		return 0, false
	}
	return l.packets[0].arrives, true
}
