package observe

import (
	"errors"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

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

// size returns the number of entries of a folder whose size is that.
func (f procFile) size() (float64, error) {
	var st unix.Stat_t
	err := unix.Fstat(f.fd, &st)
	return float64(st.Size), err
}

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

// clockSeconds reads a clock.
func clockSeconds(id int32) (float64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0, err
	}
	return float64(ts.Sec) + float64(ts.Nsec)/1e9, nil
}

// ThreadTime returns the CPU time of the calling thread.
func ThreadTime() (time.Duration, error) { return readClock(unix.CLOCK_THREAD_CPUTIME_ID) }

// ProcessTime returns the CPU time of this process.
func ProcessTime() (time.Duration, error) { return readClock(unix.CLOCK_PROCESS_CPUTIME_ID) }

func readClock(id int32) (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0, err
	}
	return time.Duration(ts.Nano()), nil
}
