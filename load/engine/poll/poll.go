// Package poll waits for sockets, and reads and writes them. A worker of the engine makes these system
// calls without the scheduler of Go.
//
// On Linux it waits by epoll, elsewhere by poll(2) or WSAPoll, which is made for quick loads: its cost
// grows with the number of connections. Windows before version 10 2004 does not report a refused
// connection, which then takes until the connection times out. The build tag portable chooses poll(2)
// on Linux.
//
// On Linux all calls go to the kernel directly (RawSyscall): the calls on non-blocking descriptors
// because they never block, and the wait for events although it does. By Syscall, the runtime's monitor
// thread would take the worker's processor away in every wait that it sees. It looks again every 20 µs
// as long as it finds one to take: 4,000 wake-ups a second on the worker's own CPU, which then waits
// for it in a tenth of the time. So a worker keeps its processor while it sleeps. A program
// of n workers sets GOMAXPROCS to more than n. The signal with which the runtime preempts, to collect
// garbage for instance, ends a wait with EINTR.
package poll

import "syscall"

// WakeToken marks the events of the wake-up descriptor.
const WakeToken = -1

// WriteAll writes as much as the socket takes, and returns the rest.
func WriteAll(fd int32, p []byte) (rest []byte, errno syscall.Errno) {
	for len(p) > 0 {
		n, errno := Write(fd, p)
		switch errno {
		case 0:
			p = p[n:]
		case syscall.EINTR:
		case syscall.EAGAIN:
			return p, 0
		default:
			return p, errno
		}
	}
	return p, 0
}
