//go:build !linux

package generator

import "time"

// severalProcesses tells that no processes share a load: [Monotonic] is another clock in each.
const severalProcesses = false

var origin = time.Now()

// Monotonic reads a clock that never goes back, in nanoseconds.
func Monotonic() int64 { return int64(time.Since(origin)) }
