package kernel

import (
	"embed"
	"runtime"
	"strconv"
	"strings"
)

// syscallTables have the number and name of every system call, for each architecture.
//
//go:generate bash ../../scripts/syscalls.sh amd64 arm64
//go:embed syscalls_*.txt
var syscallTables embed.FS

// System calls are counted by number, in as many slots. The last slot takes every number beyond:
// Linux's numbers end far below, and x32 begins its own far above.
const (
	slots    = 512
	lastSlot = slots - 1
)

// callNames returns the names of this architecture's system calls by number. "" means that a number had
// none when the table was made.
func callNames() (names [slots]string) {
	table, err := syscallTables.ReadFile("syscalls_" + runtime.GOARCH + ".txt")
	if err != nil {
		return names // of another architecture: calls are counted, without names
	}
	for line := range strings.Lines(string(table)) {
		number, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.Atoi(number); err == nil && n < lastSlot {
			names[n] = name
		}
	}
	return names
}

// callName returns the name of a slot, as Syscalls gives it.
func callName(names *[slots]string, slot int) string {
	switch {
	case slot == lastSlot:
		return "other"
	case names[slot] == "":
		return "syscall_" + strconv.Itoa(slot)
	}
	return names[slot]
}

// A callGroup is one column: system calls with the same meaning for a server.
type callGroup struct {
	column string
	calls  []string
}

// callGroups are the system calls that make up a network server's work.
func callGroups() []callGroup {
	return []callGroup{
		{"read", []string{"read"}},
		{"write", []string{"write"}},
		{"readv", []string{"readv"}},
		{"writev", []string{"writev"}},
		{"recvfrom", []string{"recvfrom"}},
		{"sendto", []string{"sendto"}},
		{"recvmsg", []string{"recvmsg"}},
		{"sendmsg", []string{"sendmsg"}},
		{"recvmmsg", []string{"recvmmsg"}},
		{"sendmmsg", []string{"sendmmsg"}},
		{"epoll_wait", []string{"epoll_wait"}},
		{"epoll_pwait", []string{"epoll_pwait", "epoll_pwait2"}},
		{"epoll_ctl", []string{"epoll_ctl"}},
		{"accept", []string{"accept", "accept4"}},
		{"connect", []string{"connect"}},
		{"close", []string{"close"}},
		{"shutdown", []string{"shutdown"}},
		{"futex", []string{"futex"}},
		{"nanosleep", []string{"nanosleep", "clock_nanosleep"}},
		{"sched_yield", []string{"sched_yield"}},
		{"mmap", []string{"mmap", "munmap", "madvise"}},
		{"splice", []string{"splice"}},
		{"sendfile", []string{"sendfile"}},
		{"io_uring_enter", []string{"io_uring_enter"}},
		{"fsync", []string{"fsync", "fdatasync"}},
	}
}

// numbersOf returns the numbers that names have on this architecture, which may
// lack some: arm64 has no epoll_wait.
func numbersOf(names *[slots]string, wanted []string) (numbers []int) {
	for n, name := range names {
		for _, w := range wanted {
			if name == w {
				numbers = append(numbers, n)
			}
		}
	}
	return numbers
}
