package clock

import (
	"math/bits"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	kernel        = windows.NewLazySystemDLL("kernel32.dll")
	procCounter   = kernel.NewProc("QueryPerformanceCounter")
	procFrequency = kernel.NewProc("QueryPerformanceFrequency")
)

// Now returns the time in nanoseconds, by the performance counter: the clock of Go advances in ticks
// of 0.5 to 15.6 ms on Windows.
func (c *Clock) Now() int64 {
	a := anchored()
	return int64(a.time.Sub(c.base)) + a.nanoseconds(query(procCounter)-a.count)
}

// An anchor is a time of Go's clock, and the performance counter then.
type anchor struct {
	time      time.Time
	count     uint64
	frequency uint64 // counts a second
}

// anchored reads both clocks just after Go's has advanced.
var anchored = sync.OnceValue(func() anchor {
	a := anchor{frequency: query(procFrequency)}
	for first := time.Now(); !a.time.After(first); {
		a.time, a.count = time.Now(), query(procCounter)
	}
	return a
})

func (a *anchor) nanoseconds(counts uint64) int64 {
	high, low := bits.Mul64(counts, uint64(time.Second))
	ns, _ := bits.Div64(high, low, a.frequency)
	return int64(ns) //nolint:gosec // less than the age of the system
}

func query(proc *windows.LazyProc) (n uint64) {
	_, _, _ = syscall.SyscallN(proc.Addr(), uintptr(unsafe.Pointer(&n))) // it cannot fail
	return n
}
