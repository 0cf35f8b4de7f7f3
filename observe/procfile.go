package observe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"
)

// A procFile is an open file or directory of /proc that is read again and again. It stays
// bound to its process. Once that process has ended, reading fails, even if another
// process has its number.
type procFile struct{ fd int }

func openProc(path string) (procFile, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return procFile{-1}, &fs.PathError{Op: "open", Path: path, Err: err}
		default:
			return procFile{fd}, nil
		}
	}
}

func (f procFile) ok() bool { return f.fd >= 0 }

// read returns the file's text in buf. The part that does not fit is cut off.
func (f procFile) read(buf []byte) ([]byte, error) {
	n, err := unix.Pread(f.fd, buf, 0)
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}

func (f procFile) close() {
	if f.ok() {
		_ = unix.Close(f.fd) // nothing was written
	}
}

// A direntReader lists the entries of /proc directories that are numbers.
type direntReader struct{ buf []byte }

// numbers calls yield for every numeric entry.
func (d *direntReader) numbers(dir procFile, yield func(int)) error {
	if d.buf == nil {
		d.buf = make([]byte, 16<<10)
	}
	if _, err := unix.Seek(dir.fd, 0, unix.SEEK_SET); err != nil {
		return err
	}
	for {
		n, err := unix.Getdents(dir.fd, d.buf)
		if err != nil || n <= 0 {
			return err
		}
		eachDirent(d.buf[:n], yield)
	}
}

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
	return errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT)
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

// clockSeconds reads a clock.
func clockSeconds(id int32) (float64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0, err
	}
	return float64(ts.Sec) + float64(ts.Nsec)/1e9, nil
}

// ticksPerSecond is the unit of times in /proc: USER_HZ is 100 on every Linux that
// Go runs on.
const ticksPerSecond = 100

func ticks(n uint64) float64 { return float64(n) / ticksPerSecond }
