// Package awake keeps CPUs from halting while something is measured.
//
// A CPU without work halts until an interrupt wakes it. In a virtual machine, halting hands the CPU
// back to the host, whose scheduler decides when it returns. A client and a server that wait for each
// other then measure the host. The time it takes shows up as stolen time. The kernel can poll for work
// in its own idle loop instead, as with idle=poll on its command line. It polls for as long as a
// process holds /dev/cpu_dma_latency open and has requested a latency of zero there: see "PM Quality Of
// Service Interface" in the kernel's documentation. All CPUs poll then. They halt again when the file
// is closed, by Stop or by the end of the process.
//
// The host's CPUs are busy all that time, too. Do not use this on machines that are
// billed, or throttled, by the CPU time they use.
//
// No thread of any priority does this as well. Linux shares CPUs among groups first (sched_autogroup,
// cgroups), and kernel threads are outside of these groups. To kernel threads, a group that has only
// one thread of SCHED_IDLE to run is a group like any other. dyno once used such threads to keep the
// CPUs awake. The kernel's rcu_preempt and ksoftirqd then waited half a second and more for a thread of
// the lowest priority. Everything that waited for RCU hung: for example a server that opened its 257th,
// 513th or 1,025th connection. The kernel enlarges a shared descriptor table only when RCU lets it. The
// idle loop is in no group, and gives way to everything.
package awake

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// requests is the file that takes latency requests. idle is the folder in which the kernel names each
// CPU's idle states, the shallowest first. Both exist since Linux 2.6.38.
const (
	requests = "/dev/cpu_dma_latency"
	idle     = "/sys/devices/system/cpu/cpu%d/cpuidle/state0/name"
)

// polling is the name of the state in which a CPU looks for work.
const polling = "POLL"

// A Lock keeps CPUs awake until Stop is called, or the process that holds it ends.
// Its methods are for one goroutine.
type Lock struct{ file *os.File }

// Start keeps all CPUs of the machine awake. It returns an error, and changes nothing, if a CPU cannot
// poll or this process may not request it.
func Start(cpus ...int) (*Lock, error) {
	for _, c := range cpus {
		if err := polls(c); err != nil {
			return nil, fmt.Errorf("awake: CPU %d: %w", c, err)
		}
	}
	file, err := os.OpenFile(requests, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("awake: %w: only root may keep CPUs from halting, unless the file's mode allows more", err)
	}
	if err != nil {
		return nil, fmt.Errorf("awake: %w", err)
	}
	none := binary.NativeEndian.AppendUint32(nil, 0) // microseconds
	if _, err := file.Write(none); err != nil {
		return nil, errors.Join(fmt.Errorf("awake: %w", err), file.Close())
	}
	return &Lock{file}, nil
}

// Stop lets the CPUs halt again.
func (l *Lock) Stop() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("awake: %w", err)
	}
	return nil
}

// polls returns nil if a CPU has an idle state in which it polls.
func polls(cpu int) error {
	name, err := os.ReadFile(fmt.Sprintf(idle, cpu))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if strings.TrimSpace(string(name)) != polling {
		return errors.New("the kernel's only idle state is halting: load a cpuidle driver that polls " +
			"(in a KVM guest: modprobe cpuidle-haltpoll force=1)")
	}
	return nil
}
