package program

import (
	"fmt"
	"runtime/debug"

	"dyno/internal/fields"
	"dyno/internal/garbage"
)

// A collector is how Go's garbage collector is set. The zero value leaves it as the
// environment says, and where that does not say, gives a small heap room.
type collector struct {
	Percent int   `yaml:"gc_percent" range:"-1..10000" doc:"how much the heap may grow, in percent of what is live, before it is collected (GOGC); 0: as the environment says, without that 100, but a small heap may grow by 128 MiB; -1: only at memory_limit"`
	Limit   int64 `yaml:"memory_limit" kind:"size" range:"0..1024GiB" doc:"bytes from which on it is collected more often (GOMEMLIMIT); 0: as the environment says"`
}

// minLimit bounds the limit: one that the program needs all the time would have it do nothing but
// collect.
const minLimit = 64 << 20

// check reports what is wrong beyond what the tags of fields say.
func (c collector) check(r *fields.Report) {
	r.Check(c.Percent != -1 || c.Limit != 0, "gc_percent", "-1 needs a memory limit, or memory would never be given back", "give --memory-limit")
	r.Check(c.Limit == 0 || c.Limit >= minLimit, "memory_limit", fmt.Sprintf("%d is too little", c.Limit), "0 for none, or at least 64MiB")
}

// set has the settings hold for this process.
func (c collector) set() {
	if c.Limit != 0 {
		debug.SetMemoryLimit(c.Limit)
	}
	if c.Percent == 0 {
		garbage.Pace(garbage.Room(room))
		return
	}
	debug.SetGCPercent(c.Percent)
}

// room is by how many bytes a heap grows at least before it is collected, unless somebody
// says something else. The control plane keeps little and makes much: with a heap of some
// tens of megabytes, Go's own 100 % would have it collect many times a second.
const room = 128 << 20
