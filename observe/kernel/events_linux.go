package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"dyno/internal/texts"
)

// Bounds of counting by perf events.
const (
	mostDescriptors = 8192 // one for each thread and tracepoint
	mostAttempts    = 20   // to find the threads unchanged after opening them all
)

// events counts by perf events (perf_event_open(2)): for every thread a group of
// tracepoints, which what it starts inherits. The kernel adds up.
type events struct {
	points  []tracepointEvent // the first leads the groups
	leaders []int             // descriptors, one a thread
	others  []int
	buf     []byte
}

// A tracepointEvent is a tracepoint with the meaning of its count.
type tracepointEvent struct {
	id     uint64
	slot   int // of system calls; allCalls, acceptedCalls
	filter string
}

// These values are not slots.
const (
	allCalls      = -1
	acceptedCalls = -2
)

// newEvents attaches to every thread below the root. Processes that the root itself
// starts later are not seen.
func newEvents(cfg Config) (e *events, has facility, err error) {
	e = &events{}
	if e.points, has, err = tracepointEvents(cfg); err != nil {
		return nil, 0, unavailable("unavailable.perf", texts.New("help.tracefs"), err)
	}
	for attempt := range mostAttempts {
		settled, err := e.open(cfg.Root)
		if err != nil && (!errors.Is(err, errSwapped) || attempt == mostAttempts-1) {
			_ = e.close() // the first error is the one to tell
			remedy := texts.Message{}
			if errors.Is(err, fs.ErrPermission) {
				remedy = texts.New("help.perf")
			}
			return nil, 0, unavailable("unavailable.perf", remedy, err)
		}
		if settled {
			e.buf = make([]byte, 8*(1+len(e.points)))
			return e, has, nil
		}
		if err := e.close(); err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, unavailable("unavailable.perf", texts.Message{}, texts.NewError("unavailable.threads", "process", strconv.Itoa(cfg.Root), "n", strconv.Itoa(mostAttempts)))
}

// open attaches to all existing threads. It is done when no others have appeared
// afterwards. Then each is counted once, by itself or by inheritance.
func (e *events) open(root int) (settled bool, err error) {
	threads := make(map[int]bool)
	if err := eachThread(root, func(_, tid int) error {
		threads[tid] = true
		return nil
	}); err != nil {
		return false, err
	}
	if len(threads)*len(e.points) > mostDescriptors {
		return false, fmt.Errorf("%d threads: want at most %d", len(threads), mostDescriptors/len(e.points))
	}
	for tid := range threads {
		if err := e.follow(tid); err != nil && !vanished(tid, err) {
			return false, fmt.Errorf("thread %d: %w", tid, err)
		}
	}
	if len(e.leaders) == 0 {
		return false, fmt.Errorf("no process below %d yet", root)
	}
	settled = true
	err = eachThread(root, func(_, tid int) error {
		settled = settled && threads[tid]
		return nil
	})
	return settled, err
}

// vanished tells whether a thread could not be followed because it has exited. After
// that, the kernel takes a group's leader for one of another thread.
func vanished(tid int, err error) bool {
	if errors.Is(err, unix.ESRCH) {
		return true
	}
	_, gone := os.Stat(fmt.Sprintf("/proc/%d", tid))
	return errors.Is(err, errSwapped) && errors.Is(gone, fs.ErrNotExist)
}

// errSwapped is that the kernel takes a group's leader for one of another thread. A thread
// that was started while its starter's group was being opened has inherited what was open
// by then. Switching from the one to the other, the kernel swaps their events: it is cheaper
// than to stop one's and start the other's, and their sum is the same.
var errSwapped = errors.New("a thread was started meanwhile")

// follow opens the group of a thread. If the thread exits meanwhile, the open events
// count nothing more.
func (e *events) follow(tid int) error {
	leader := -1
	for _, p := range e.points {
		attr := unix.PerfEventAttr{
			Type: unix.PERF_TYPE_TRACEPOINT, Config: p.id, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
			Read_format: unix.PERF_FORMAT_GROUP, Bits: unix.PerfBitInherit,
		}
		fd, err := unix.PerfEventOpen(&attr, tid, -1, leader, unix.PERF_FLAG_FD_CLOEXEC)
		if leader >= 0 && errors.Is(err, unix.EINVAL) {
			err = fmt.Errorf("%w: %w", errSwapped, err)
		}
		if err != nil {
			return os.NewSyscallError("perf_event_open", err)
		}
		if leader < 0 {
			leader = fd
			e.leaders = append(e.leaders, fd)
		} else {
			e.others = append(e.others, fd)
		}
		if p.filter != "" {
			if err := unix.IoctlSetString(fd, unix.PERF_EVENT_IOC_SET_FILTER, p.filter); err != nil {
				return os.NewSyscallError("ioctl PERF_EVENT_IOC_SET_FILTER", err)
			}
		}
	}
	return nil
}

func (e *events) read(r *reading) error {
	*r = reading{}
	total, named := uint64(0), uint64(0)
	for _, fd := range e.leaders {
		n, err := unix.Read(fd, e.buf)
		if err != nil {
			return os.NewSyscallError("read perf events", err)
		}
		if n != len(e.buf) {
			continue // it exited while its group was being opened
		}
		for i, p := range e.points {
			count := binary.NativeEndian.Uint64(e.buf[8*(1+i):])
			switch p.slot {
			case allCalls:
				total += count
			case acceptedCalls:
				r.Accepts += count
			default:
				r.Calls[p.slot] += count
				named += count
			}
		}
	}
	// A call may be counted by one event and not yet by the other.
	r.Calls[lastSlot] = max(total, named) - named
	return nil
}

func (e *events) close() error {
	var errs []error
	for _, fds := range [][]int{e.others, e.leaders} {
		for _, fd := range fds {
			errs = append(errs, unix.Close(fd))
		}
	}
	e.others, e.leaders = nil, nil
	return errors.Join(errs...)
}

// tracepointEvents returns the wanted events that this kernel can count.
func tracepointEvents(cfg Config) (points []tracepointEvent, has facility, err error) {
	var dir string
	for _, dir = range []string{"/sys/kernel/tracing/events/", "/sys/kernel/debug/tracing/events/"} {
		if _, err = os.Stat(dir + "raw_syscalls/sys_enter/id"); err == nil {
			break
		}
	}
	if err != nil {
		return nil, 0, err
	}
	add := func(slot int, filter string, names ...string) bool {
		for _, name := range names {
			b, err := os.ReadFile(dir + name + "/id")
			if err != nil {
				continue
			}
			if id, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64); err == nil {
				points = append(points, tracepointEvent{id, slot, filter})
				return true
			}
		}
		return false
	}
	if cfg.SystemCalls && add(allCalls, "", "raw_syscalls/sys_enter") {
		has |= callTotals | callNumbers
		names := callNames()
		for _, g := range callGroups() {
			for _, n := range numbersOf(&names, g.calls) {
				// The kernel's own name of sendfile has two more digits.
				enter := "syscalls/sys_enter_" + names[n]
				if !add(n, "", enter, enter+"64") {
					has &^= callNumbers
				}
			}
		}
	}
	if cfg.Accepts && add(acceptedCalls, "ret >= 0", "syscalls/sys_exit_accept4") &&
		add(acceptedCalls, "ret >= 0", "syscalls/sys_exit_accept") {
		has |= acceptCalls
	}
	if has == 0 {
		return nil, 0, errors.New("no tracepoint for the wanted columns")
	}
	return points, has, nil
}
