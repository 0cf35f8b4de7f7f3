package target

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"dyno/internal/units"
)

const (
	// autogroupWait bounds how long an ordinary user waits until a session's priority can
	// be set: the kernel takes one change in 100 ms from all such users together.
	autogroupWait = 2 * time.Second
)

// place gives the calling thread what the target is to inherit: CPUs, memory node and
// priority.
func (l *launch) place() error {
	if len(l.CPUs) > 0 {
		if err := setThreadAffinity(0, l.CPUs); err != nil {
			return err
		}
	}
	if l.NUMA != nil {
		if err := bindMemory(*l.NUMA); err != nil {
			return fmt.Errorf("numa: %w", err)
		}
	}
	if l.Nice != nil {
		if err := setNice(*l.Nice); err != nil {
			return fmt.Errorf("nice %d: %w", *l.Nice, err)
		}
	}
	return nil
}

// setNice sets the priority of the calling thread and of its session. Where the kernel
// shares CPUs among sessions first (sched_autogroup, see sched(7)), a thread's own
// priority counts only within its session.
func setNice(nice int) error {
	const remedy = "run as root, or raise the limit: ulimit -e"
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, nice); err != nil {
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			return fmt.Errorf("%w (%s)", err, remedy)
		}
		return err
	}
	end := time.Now().Add(autogroupWait)
	for {
		err := os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(nice)), 0)
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist): // this kernel has no autogroups
			return nil
		case errors.Is(err, unix.EAGAIN) && time.Now().Before(end):
			time.Sleep(firstRetry)
		default:
			return fmt.Errorf("%w (%s)", err, remedy)
		}
	}
}

// bindMemory binds the memory of the calling thread, and of the program it executes, to one NUMA node
// (set_mempolicy(2), MPOL_BIND).
func bindMemory(node int) error {
	nodes := memoryNodes()
	if !slices.Contains(nodes, node) {
		return fmt.Errorf("there is no node %d with memory here; there is %s", node, units.FormatCPUs(nodes))
	}
	const bits = 8 * unsafe.Sizeof(uintptr(0))
	var mask [(maxNode + 1) / bits]uintptr
	mask[uintptr(node)/bits] |= 1 << (uintptr(node) % bits)
	// The kernel uses one bit less than the number that it is given.
	_, _, errno := unix.RawSyscall(unix.SYS_SET_MEMPOLICY, unix.MPOL_BIND, uintptr(unsafe.Pointer(&mask)), maxNode+2)
	// If a kernel or container does not have the call, its only node already has all
	// memory.
	if errno != 0 && len(nodes) > 1 {
		return os.NewSyscallError("set_mempolicy", errno)
	}
	return nil
}

// memoryNodes returns the numbers of the nodes that have memory. There is at least one,
// unless the kernel's list cannot be read.
func memoryNodes() []int {
	b, err := os.ReadFile("/sys/devices/system/node/has_memory")
	if err != nil {
		return []int{0} // a kernel without NUMA nodes
	}
	nodes, err := units.ParseList(strings.TrimSpace(string(b)), maxNode)
	if err != nil {
		return nil
	}
	return nodes
}
