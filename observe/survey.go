//go:build linux

package observe

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Survey is what can be measured on this machine, and how well.
type Survey struct {
	Environment Environment    `json:"environment"`
	Clocks      []Clock        `json:"clocks"`
	Facilities  []Availability `json:"facilities"`
}

// A Clock is a way to read the time, and what it costs.
type Clock struct {
	Name              string  `json:"name"`
	ResolutionSeconds float64 `json:"resolution_seconds"`
	ReadSeconds       float64 `json:"read_seconds"` // of one reading: the fastest of several batches
}

// An Availability says whether something can be used here, or else why not.
type Availability struct {
	Name      string `json:"name"`
	Available bool   `json:"available"`
	Detail    string `json:"detail,omitempty"` // which kind of it
	Reason    string `json:"reason,omitempty"` // why not
	Remedy    string `json:"remedy,omitempty"` // what would help
}

// Look surveys this machine. It takes some milliseconds, opens what it asks about
// and closes it again, and changes nothing.
func Look() Survey {
	return Survey{
		Environment: ReadEnvironment(),
		Clocks:      clocks(),
		Facilities: []Availability{
			observer("process", func() (Observer, error) { return NewTree("process", os.Getpid()) }),
			observer("generator", func() (Observer, error) { return NewGenerator(os.Getpid()) }),
			observer("machine", func() (Observer, error) { return NewMachine() }),
			observer("wakeup", func() (Observer, error) { return NewWakeup("wakeup") }),
			pressure(),
			cgroup1(),
			cgroup2(),
			ebpf(),
			perfEvents("perf software events", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_CLOCK),
			perfEvents("perf hardware counters", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES),
			tracefs(),
			tcpInfo(),
			kernelTimestamps(),
		},
	}
}

// available turns an error into an Availability.
func available(name, detail string, err error, remedy string) Availability {
	if err != nil {
		return Availability{Name: name, Reason: err.Error(), Remedy: remedy}
	}
	return Availability{Name: name, Available: true, Detail: detail}
}

// observer tries an observer for one reading.
func observer(name string, open func() (Observer, error)) Availability {
	o, err := open()
	if err != nil {
		var u *Unavailable
		if errors.As(err, &u) {
			return Availability{Name: name, Reason: u.Reason.String(), Remedy: u.Remedy.String()}
		}
		return available(name, "", err, "")
	}
	err = errors.Join(o.Observe(make([]float64, len(o.Columns()))), o.Close())
	return available(name, "", err, "")
}

func pressure() Availability {
	b, err := os.ReadFile("/proc/pressure/cpu")
	if err == nil {
		_, err = parsePressure(b, "some")
	}
	return available("cpu pressure", "/proc/pressure/cpu", err, "boot with psi=1, on a kernel with CONFIG_PSI")
}

// mounts returns the mount points of a file system type, and of each its options,
// from the text of /proc/self/mountinfo: the type stands after a lone dash.
func mounts(mountinfo, fsType string) (points, options []string) {
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		b, a := strings.Fields(before), strings.Fields(after)
		if ok && len(b) >= 5 && len(a) >= 3 && a[0] == fsType {
			points = append(points, b[4])
			options = append(options, a[2])
		}
	}
	return points, options
}

func cgroup1() Availability {
	_, options := mounts(readLine("/proc/self/mountinfo"), "cgroup")
	found := ""
	for _, o := range options {
		for c := range strings.SplitSeq(o, ",") {
			if (c == "cpu" || c == "cpuacct" || c == "memory") && !strings.Contains(found, c+" ") {
				found += c + " "
			}
		}
	}
	var err error
	if found == "" {
		err = errors.New("no controller of cpu, cpuacct, memory is mounted")
	}
	return available("cgroup v1", strings.TrimSpace(found), err, "not needed where cgroup v2 works")
}

func cgroup2() Availability {
	const remedy = "boot with systemd.unified_cgroup_hierarchy=1"
	points, _ := mounts(readLine("/proc/self/mountinfo"), "cgroup2")
	if len(points) == 0 {
		return available("cgroup v2", "", errors.New("not mounted"), remedy)
	}
	controllers := readLine(points[0] + "/cgroup.controllers")
	if !strings.Contains(" "+controllers+" ", " cpu ") {
		return available("cgroup v2", "", fmt.Errorf("%s has no cpu controller (it has: %s)", points[0], controllers), remedy)
	}
	return available("cgroup v2", points[0]+": "+controllers, nil, "")
}

// ebpf creates the smallest map there is, which needs the same right as loading a
// program.
func ebpf() Availability {
	const mapCreate, arrayMap = 0, 2
	attr := struct{ mapType, keySize, valueSize, maxEntries, flags uint32 }{arrayMap, 4, 4, 1, 0}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, mapCreate, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return available("ebpf", "", os.NewSyscallError("bpf", errno), "run as root, or with CAP_BPF and CAP_PERFMON")
	}
	err := unix.Close(int(fd))
	if err == nil {
		_, err = os.Stat("/sys/kernel/btf/vmlinux")
	}
	return available("ebpf", "with the kernel's types", err, "needs a kernel with CONFIG_DEBUG_INFO_BTF")
}

func perfEvents(name string, kind uint32, config uint64) Availability {
	attr := unix.PerfEventAttr{Type: kind, Config: config, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Bits: unix.PerfBitDisabled}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err == nil {
		err = unix.Close(fd)
	}
	remedy := "run as root, or set kernel.perf_event_paranoid to 1"
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		remedy = "this CPU, or the hypervisor, offers none"
	}
	return available(name, "", os.NewSyscallError("perf_event_open", err), remedy)
}

func tracefs() Availability {
	const remedy = "run as root, and mount -t tracefs tracefs /sys/kernel/tracing"
	for _, dir := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		if _, err := os.ReadDir(dir + "/events/sched"); err == nil {
			return available("tracepoints", dir, nil, "")
		}
	}
	_, err := os.ReadDir("/sys/kernel/tracing/events/sched")
	return available("tracepoints", "", err, remedy)
}

// withSocket tries something on a TCP socket that goes nowhere.
func withSocket(try func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	return errors.Join(try(fd), unix.Close(fd))
}

func tcpInfo() Availability {
	err := withSocket(func(fd int) error {
		_, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		return os.NewSyscallError("getsockopt TCP_INFO", err)
	})
	return available("tcp info", "", err, "")
}

func kernelTimestamps() Availability {
	const flags = unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_TX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE
	err := withSocket(func(fd int) error {
		return os.NewSyscallError("setsockopt SO_TIMESTAMPING", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, flags))
	})
	return available("kernel timestamps", "software, received and sent", err, "")
}

// clocks lists the clocks that count, and what reading them costs.
func clocks() []Clock {
	system := func(id int32) func() {
		return func() {
			var ts unix.Timespec
			_ = unix.ClockGettime(id, &ts) // resolution has shown whether it works
		}
	}
	var all []Clock
	for _, c := range []struct {
		name string
		id   int32
		read func()
	}{
		{"monotonic, through time.Now", unix.CLOCK_MONOTONIC, func() { _ = time.Now() }},
		{"monotonic, by system call", unix.CLOCK_MONOTONIC, system(unix.CLOCK_MONOTONIC)},
		{"cpu time of the thread", unix.CLOCK_THREAD_CPUTIME_ID, system(unix.CLOCK_THREAD_CPUTIME_ID)},
	} {
		resolution, err := resolution(c.id)
		if err != nil {
			continue
		}
		all = append(all, Clock{Name: c.name, ResolutionSeconds: resolution, ReadSeconds: readCost(c.read)})
	}
	return all
}

func resolution(id int32) (float64, error) {
	var ts unix.Timespec
	if _, _, errno := unix.Syscall(unix.SYS_CLOCK_GETRES, uintptr(id), uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0, os.NewSyscallError("clock_getres", errno)
	}
	return time.Duration(ts.Nano()).Seconds(), nil
}

// readCost returns the seconds of one call: of the fastest batch, because
// whatever interrupts a batch only makes it slower.
func readCost(read func()) float64 {
	const batches, calls = 20, 500
	best := math.Inf(1)
	for range batches {
		start := time.Now()
		for range calls {
			read()
		}
		best = min(best, time.Since(start).Seconds()/calls)
	}
	return best
}
