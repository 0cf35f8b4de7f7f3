//go:build !windows

package clock

import "time"

// Now returns the time in nanoseconds.
func (c *Clock) Now() int64 { return int64(time.Since(c.base)) }
