// Package offcpu tells what a program waits for: the time its threads are blocked, by the
// stack of functions that they are blocked in, as a pprof profile. An on-CPU profile
// cannot show this: locks, disks, other services.
//
// eBPF programs at the scheduler's tracepoints add it up in the kernel. A wait counts
// from when a thread leaves its CPU because it has to wait, until it runs again. So the
// wait for a free CPU after the wake-up is part of it. A thread that is preempted is not
// blocked. Waits that began before the profiler did are not seen. Waits that last to its
// end count with the time so far.
//
// Threads that idle are blocked too: a pool of idle workers shows as much time in futex
// or epoll_wait, which belongs to no request.
//
// On two EPYC vCPUs, Linux 6.18, a switch from a thread that has to wait costs 2.3 µs. A switch between
// other processes costs 0.4 µs. The figures are the kernel's own account of eBPF programs. A server
// that waits 50,000 times a second loses a tenth of a CPU: take the profile in a trial of its own.
package offcpu

import pprof "github.com/google/pprof/profile"

// A Result holds the profile and its losses.
type Result struct {
	Profile *pprof.Profile // waits/count and off_cpu/nanoseconds
	Lost    uint64         // waits that found no room
	Unknown uint64         // waits whose stack found no room: they count, without functions
}
