package program

import (
	"fmt"
	"runtime/debug"

	"dyno/internal/fields"
	"dyno/internal/garbage"
)

// A collector has the settings of Go's garbage collector. The zero value takes them from the environment; without
// any, it lets a small heap grow more.
type collector struct {
	Percent int   `yaml:"gc_percent" range:"-1..10000" doc:"how much the heap may grow before it is collected, in percent of the live heap (GOGC); 0: as the environment says, without that 100, but a small heap may grow by 128 MiB; -1: only at memory_limit"`
	Limit   int64 `yaml:"memory_limit" kind:"size" range:"0..1024GiB" doc:"bytes from which on it is collected more often (GOMEMLIMIT); 0: as the environment says"`
}

// minLimit is the least limit: near the program's need, it would do nothing but collect.
const minLimit = 64 << 20

// check reports faults that the tags of fields cannot express.
func (c collector) check(r *fields.Report) {
	r.Check(c.Percent != -1 || c.Limit != 0, "gc_percent", "-1 needs a memory limit, or memory would never be given back", "give --memory-limit")
	r.Check(c.Limit == 0 || c.Limit >= minLimit, "memory_limit", fmt.Sprintf("%d is too little", c.Limit), "0 for none, or at least 64MiB")
}

// set applies the settings to this process.
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

// room is the default for how many bytes a heap grows at least before it is collected. The control plane has a small
// heap and allocates much. At tens of megabytes, Go's default of 100 % would collect many times a second.
const room = 128 << 20
