package program

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"dyno/services/internal/command"
)

// A collector is how Go's garbage collector is set. The zero value leaves it as the
// environment says, and where that does not say, gives a small heap room.
type collector struct {
	percent int   // GOGC; -1 is never, but for the limit
	limit   int64 // GOMEMLIMIT, in bytes
}

// Bounds of the settings. A limit that the program needs all the time would have it do
// nothing but collect.
const (
	maxPercent = 10_000
	minLimit   = 64 << 20
)

// check reports every fault.
func (c collector) check() error {
	var errs []error
	if c.percent < -1 || c.percent > maxPercent {
		errs = append(errs, fmt.Errorf("gc percent: %d: must be from -1 to %d", c.percent, maxPercent))
	}
	if c.percent == -1 && c.limit == 0 {
		errs = append(errs, errors.New("gc percent: -1: needs a memory limit, or memory would never be given back"))
	}
	if c.limit != 0 && c.limit < minLimit {
		errs = append(errs, fmt.Errorf("memory limit: %d: must be 0 (none) or %d at least", c.limit, minLimit))
	}
	return errors.Join(errs...)
}

// set has the settings hold for this process.
func (c collector) set() {
	if c.limit != 0 {
		debug.SetMemoryLimit(c.limit)
	}
	switch {
	case c.percent != 0:
		debug.SetGCPercent(c.percent)
	case os.Getenv("GOGC") == "":
		command.PaceGarbage(roomy)
	}
}

// room is by how many bytes a heap grows at least before it is collected, unless somebody
// says something else. The control plane keeps little and makes much: with a heap of some
// tens of megabytes, Go's own 100 % would have it collect many times a second.
const room = 128 << 20

// Go's own settings.
const (
	usualPercent = 100
	minHeap      = 4 << 20 // for each 100 %, before the first collection
)

// roomy is the percentage by which a heap with a number of bytes alive grows by room, or by
// Go's own percentage if that is more.
func roomy(live uint64) int {
	return max(usualPercent, int(room*100/max(live, minHeap))) //nolint:gosec // at most room*100/minHeap
}
