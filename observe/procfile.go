package observe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"syscall"
)

// A procFile is an open file or directory of /proc that is read again and again. It stays
// bound to its process. Once that process has ended, reading fails, even if another
// process has its number.
type procFile struct{ fd int }

func (f procFile) ok() bool { return f.fd >= 0 }

// A direntReader lists the entries of /proc directories that are numbers.
type direntReader struct{ buf []byte }

// eachDirent walks struct linux_dirent64 (getdents64(2)): inode and offset of 8
// bytes each, record length of 2, type of 1, then the name and a zero.
func eachDirent(b []byte, yield func(int)) {
	const head = 19
	for len(b) > head {
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size <= head || size > len(b) {
			return
		}
		if n, rest, ok := number(b[head:size]); ok && len(rest) > 0 && rest[0] == 0 && n < 1<<31 {
			yield(int(n))
		}
		b = b[size:]
	}
}

// vanished tells that a process or thread no longer exists.
func vanished(err error) bool {
	return errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENOENT)
}

// procPath returns /proc/PID/name.
func procPath(pid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + name
}

func taskPath(pid, tid int, name string) string {
	return fmt.Sprintf("/proc/%d/task/%d/%s", pid, tid, name)
}

// CPU-time clocks of other processes and threads: clock ids as glibc's
// clock_getcpuclockid(3) makes them. The clocks count what the scheduler has
// measured, in nanoseconds, exited threads included.
func processClock(pid int) int32 { return int32(^pid)<<3 | 2 }
func threadClock(tid int) int32  { return int32(^tid)<<3 | 6 }

// ticksPerSecond is the unit of times in /proc: USER_HZ is 100 on every Linux that
// Go runs on.
const ticksPerSecond = 100

func ticks(n uint64) float64 { return float64(n) / ticksPerSecond }
