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
	maxNode = 1023 // NUMA nodes, the kernel's MAX_NUMNODES at its largest
	// autogroupWait bounds how long an ordinary user is made to wait for a
	// session's priority: the kernel takes one change in 100 ms from all of them.
	autogroupWait = 2 * time.Second
)

// place gives the calling thread what the target is to inherit: CPUs, memory node
// and priority.
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

// setNice sets the priority of the calling thread, and of its session: where the
// kernel shares CPUs among sessions first (sched_autogroup, see sched(7)), a thread's
// own counts only within its session.
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
		err := write("/proc/self/autogroup", strconv.Itoa(nice))
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist): // a kernel without
			return nil
		case errors.Is(err, unix.EAGAIN) && time.Now().Before(end):
			time.Sleep(firstRetry)
		default:
			return fmt.Errorf("%w (%s)", err, remedy)
		}
	}
}

// bindMemory has the calling thread's memory, and that of what it executes, come
// from one NUMA node only (set_mempolicy(2), MPOL_BIND).
func bindMemory(node int) error {
	nodes := memoryNodes()
	if !slices.Contains(nodes, node) {
		return fmt.Errorf("there is no node %d with memory here; there is %s", node, units.FormatCPUs(nodes))
	}
	const bits = 8 * unsafe.Sizeof(uintptr(0))
	var mask [(maxNode + 1) / bits]uintptr
	mask[uintptr(node)/bits] |= 1 << (uintptr(node) % bits)
	// The kernel takes one bit less than it is told.
	_, _, errno := unix.RawSyscall(unix.SYS_SET_MEMPOLICY, unix.MPOL_BIND, uintptr(unsafe.Pointer(&mask)), maxNode+2)
	// A kernel or a container without the call: the only node is all memory's
	// anyway.
	if errno != 0 && len(nodes) > 1 {
		return os.NewSyscallError("set_mempolicy", errno)
	}
	return nil
}

// memoryNodes returns the numbers of the nodes with memory: at least one, unless the kernel
// says what cannot be read.
func memoryNodes() []int {
	b, err := os.ReadFile("/sys/devices/system/node/has_memory")
	if err != nil {
		return []int{0} // a kernel that knows no nodes
	}
	nodes, err := units.ParseList(strings.TrimSpace(string(b)), maxNode)
	if err != nil {
		return nil
	}
	return nodes
}
