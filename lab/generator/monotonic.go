package generator

import (
	"math"
	"time"
)

// readings is how often both clocks are read, to find two readings close to each other.
const readings = 8

// now returns the time, and the same instant of CLOCK_MONOTONIC. Where this thread must wait between the
// readings, it reads again.
func now() (t time.Time, monotonic int64) {
	least := int64(math.MaxInt64)
	for range readings {
		before, at, after := Monotonic(), time.Now(), Monotonic()
		if apart := after - before; apart < least {
			t, monotonic, least = at, before+apart/2, apart
		}
	}
	return t, monotonic
}

// monotonicAt returns the value of CLOCK_MONOTONIC at a time.
func monotonicAt(t time.Time) int64 {
	at, monotonic := now()
	return monotonic + int64(t.Sub(at))
}

// timeOf returns when CLOCK_MONOTONIC has a value.
func timeOf(monotonic int64) time.Time {
	t, at := now()
	return t.Add(time.Duration(monotonic - at))
}
