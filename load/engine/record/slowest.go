package record

import (
	"cmp"
	"slices"
	"time"
)

// MostSlow is how many of the slowest requests are kept.
const MostSlow = 10

// A Slow is a request that carried a trace id and is among the window's slowest.
type Slow struct {
	Trace    [16]byte      // its trace id (W3C Trace Context)
	Written  int64         // on the engine's clock; in a Result on the time line
	Response time.Duration // from when it was due
	Service  time.Duration // from when it was written
	Status   int16         // wire.NoStatus where there is none
}

// Slowest are the slowest requests so far, the slowest first.
type Slowest []Slow

// add keeps a request that is among the slowest. Once there are MostSlow, it allocates nothing.
func (s *Slowest) add(x Slow) {
	list := *s
	if len(list) == MostSlow && x.Response <= list[MostSlow-1].Response {
		return
	}
	at, _ := slices.BinarySearchFunc(list, x, func(a, b Slow) int {
		return cmp.Or(cmp.Compare(b.Response, a.Response), -1) // after those that took as long
	})
	if len(list) < MostSlow {
		list = append(list, Slow{})
	}
	copy(list[at+1:], list[at:])
	list[at] = x
	*s = list
}
