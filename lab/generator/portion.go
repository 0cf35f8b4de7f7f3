package generator

import (
	"errors"
	"fmt"
	"slices"

	"dyno/load/engine/config"
	"dyno/load/engine/subscribe"
	"dyno/load/pace"
	"dyno/load/wire"
)

// The bounds of portions.
const (
	maxParts = 64
	// descriptorReserve is how many descriptors a process needs in addition to
	// connections: for files, pollers, observers, and what dyno has open for the target.
	descriptorReserve = 256
)

// A Portion is what one process carries of a load: Count subscribers, from number First on,
// or a shard of the requests.
type Portion struct {
	First, Count int
	Shard        pace.Shard
}

var errOneProcess = errors.New("load: it takes several processes of this machine, which needs Linux: use fewer connections, or agents")

// Split returns what each process carries. There is one entry if this process has
// descriptors for all, unless more are wanted. Errors say what the plan asks too much of.
func Split(c config.Config, wanted int) (portions []Portion, err error) {
	limit, err := DescriptorLimit()
	if err != nil {
		return nil, err
	}
	room := Room(int(min(limit, subscribe.Max))) //nolint:gosec // bounded
	if c.Subscribers == nil {
		n := processesFor(c, wanted, room)
		if n > 1 && !severalProcesses {
			return nil, errOneProcess
		}
		if n > maxParts {
			return nil, fmt.Errorf("load: %d connections take more than %d processes of %d descriptors: raise the limit (ulimit -n)",
				c.Connections, maxParts, limit)
		}
		for i := range n {
			portions = append(portions, Portion{Shard: pace.Shard{Index: i, Count: n}})
		}
		return portions, nil
	}
	counts := shares(c.Subscribers.Count, c.Connections, room)
	if len(counts) > 1 && !severalProcesses {
		return nil, errOneProcess
	}
	if counts == nil {
		return nil, fmt.Errorf("load.subscribers.connections: %d subscribers take more than %d processes of %d descriptors: raise the limit (ulimit -n)",
			c.Subscribers.Count, maxParts, limit)
	}
	return inOrder(counts), nil
}

// Divide returns what each carrier carries, with one process each. Descriptors are how many the
// processes of each may have. Errors say what the plan asks too much of.
func Divide(c config.Config, by []Carrier, descriptors []int) (portions []Portion, err error) {
	n := len(by)
	if s := c.Subscribers; s != nil {
		if s.Count < n {
			return nil, fmt.Errorf("load.subscribers.connections: %d are too few for %d agents", s.Count, n)
		}
		var counts []int
		for i := range n {
			counts = append(counts, pace.Shard{Index: i, Count: n}.Share(s.Count))
		}
		portions = inOrder(counts)
	} else {
		if processesFor(c, n, max(c.Connections, 1)) < n {
			return nil, fmt.Errorf("load: each of %d agents needs a connection, and a user or a request where their number is given", n)
		}
		for i := range n {
			portions = append(portions, Portion{Shard: pace.Shard{Index: i, Count: n}})
		}
	}
	for i, of := range portions {
		part := partOf(c, of)
		if needed := part.Connections + of.Count + descriptorReserve; needed > descriptors[i] {
			return nil, fmt.Errorf("load: %v has %d descriptors, and its share of the connections takes %d: raise its limit (ulimit -n), or add agents", by[i], descriptors[i], needed)
		}
	}
	return portions, nil
}

// Room is how many connections a process with a number of descriptors can have.
func Room(descriptors int) int { return descriptors - descriptorReserve }

// share is a portion as a part of the whole load.
func (p Portion) share(whole *config.Config) float64 {
	if s := whole.Subscribers; s != nil {
		return float64(p.Count) / float64(s.Count)
	}
	return 1 / float64(p.Shard.Count)
}

// inOrder makes portions of n subscribers each.
func inOrder(counts []int) (portions []Portion) {
	first := 0
	for _, n := range counts {
		portions = append(portions, Portion{First: first, Count: n})
		first += n
	}
	return portions
}

// processesFor is how many processes carry a load of requests, each with room for a number
// of connections: as many as are wanted, if that is enough, but none without a connection,
// a user or a request.
func processesFor(c config.Config, wanted, room int) int {
	n := max(1, wanted, (c.Connections+max(room, 1)-1)/max(room, 1))
	n = min(n, max(c.Connections, 1))
	if c.Users != nil && c.Users.Count > 0 {
		n = min(n, c.Users.Count)
	}
	most := 0 // that a process can have users of any pace
	for _, p := range c.Paces {
		most = max(most, p.Users)
	}
	if most > 0 {
		n = min(n, most)
	}
	if c.Requests > 0 {
		n = int(min(uint64(n), c.Requests)) //nolint:gosec // bounded by the connections
	}
	return n
}

// shares divides subscribers among processes, each with room for the given number of
// connections. The first process also has the publishers. It returns nil if that takes
// too many processes.
func shares(subscribers, publishers, room int) []int {
	if subscribers+publishers <= room {
		return []int{subscribers}
	}
	own := room - publishers
	if own < 1 {
		return nil
	}
	counts := []int{own}
	for left := subscribers - own; left > 0; left -= room {
		counts = append(counts, min(left, room))
	}
	if len(counts) > maxParts {
		return nil
	}
	return counts
}

// partOf is a portion of a load. If there are subscribers, only the first portion publishes.
func partOf(c config.Config, of Portion) config.Config {
	if c.Subscribers == nil {
		return shardOf(c, of.Shard)
	}
	first, count := of.First, of.Count
	whole := *c.Subscribers
	s := whole
	s.Count = count
	s.Ramp = whole.Ramp * float64(count) / float64(whole.Count)
	s.Slow = max(0, min(count, whole.Slow-first))
	s.NewStreams = func(worker int) func(int) wire.Stream {
		of := whole.NewStreams(worker)
		return func(subscriber int) wire.Stream { return of(first + subscriber) }
	}
	c.Subscribers = &s
	if first > 0 {
		c.Connections, c.Schedule, c.NewClients, c.NewMuxes = 0, nil, nil, nil
		c.Think = config.Config{}.Think
	}
	c.Workers = min(c.Workers, max(c.Connections, count))
	return c
}

// shardOf is a shard of a load of requests. The threads of all shards are as many as the
// plan's, and have its CPUs in turn; but no shard is without.
func shardOf(c config.Config, s pace.Shard) config.Config {
	c.Shard = s
	if len(c.Paces) > 0 {
		return shardOfPaces(c, s)
	}
	before := 0 // threads of the shards before this one
	for i := range s.Index {
		before += max(1, pace.Shard{Index: i, Count: s.Count}.Share(c.Workers))
	}
	c.Workers = max(1, s.Share(c.Workers))
	c.Connections = s.Share(c.Connections)
	c.MaxWaiting = max(1, s.Share(c.MaxWaiting))
	c.Requests = uint64(s.Share(int(c.Requests))) //nolint:gosec // fits: see load.requests
	if c.Users != nil {
		u := *c.Users
		if u.Count > 0 {
			u.Count = s.Share(u.Count)
			c.Workers = min(c.Workers, u.Count)
		}
		u.Iterations = uint64(s.Share(int(u.Iterations))) //nolint:gosec // fits: see load.iterations
		c.Users = &u
	}
	c.Workers = min(c.Workers, c.Connections)
	if n := len(c.CPUs); n > 0 {
		c.CPUs = slices.Concat(c.CPUs[before%n:], c.CPUs[:before%n])
	}
	return c
}

// shardOfPaces is a shard of a load whose flows have paces of their own: of each, unless there are too few users.
func shardOfPaces(c config.Config, s pace.Shard) config.Config {
	all := c.Paces
	users := *c.Users
	c.Paces, c.Workers, c.Connections, users.Count = nil, 0, 0, 0
	for _, p := range all {
		p.Users, p.Connections = s.Share(p.Users), s.Share(p.Connections)
		isBounded := p.Iterations > 0
		p.Iterations = uint64(s.Share(int(p.Iterations))) //nolint:gosec // fits: see load.paces
		if p.Users == 0 || isBounded && p.Iterations == 0 {
			continue
		}
		p.Workers = min(max(1, s.Share(p.Workers)), p.Users)
		c.Paces = append(c.Paces, p)
		c.Workers += p.Workers
		c.Connections += p.Connections
		users.Count += p.Users
	}
	c.Users = &users
	return c
}
