package stack

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"dyno/observe/profile/symbol"

	"golang.org/x/sys/unix"
)

// An opened is the file of a mapping. It is opened when the first stack needs it, since the process may
// have ended when names are needed. It is read at the end.
type opened struct {
	file *os.File
	part filePart
	jit  bool // no file: code made at run time, or nothing that is known
}

// A filePart identifies the mapped part of a file.
type filePart struct{ device, inode, offset uint64 }

// open opens the file of m as the process sees it: it may be in a container, or have been replaced
// since.
func open(m *mapped) *opened {
	if m.Inode == 0 || strings.HasPrefix(m.Path, "/memfd:") || strings.HasPrefix(m.Path, "/dev/zero") || !strings.HasPrefix(m.Path, "/") {
		return &opened{jit: true}
	}
	proc := "/proc/" + strconv.Itoa(m.pid)
	for _, path := range []string{
		fmt.Sprintf("%s/map_files/%x-%x", proc, m.Start, m.End), // needs rights; exact, also if deleted
		proc + "/root" + m.Path,
		proc + "/exe", // no folder's rights are in the way
		m.Path,        // the process is gone
	} {
		// Opening must not wait, whatever the name leads to.
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		info, err := f.Stat()
		if err == nil && info.Mode().IsRegular() {
			if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Ino == m.Inode {
				return &opened{file: f, part: filePart{st.Dev, st.Ino, m.Offset}}
			}
		}
		_ = f.Close() // only read
	}
	return &opened{}
}

// openJIT reads the functions that a program has compiled by itself; nil if it does not
// publish them.
func openJIT(pid int) *symbol.JIT {
	proc := "/proc/" + strconv.Itoa(pid)
	inner := strconv.Itoa(pid)
	if status, err := os.ReadFile(proc + "/status"); err == nil {
		inner = innerPID(status, inner)
	}
	for _, path := range []string{proc + "/root/tmp/perf-" + inner + ".map", "/tmp/perf-" + strconv.Itoa(pid) + ".map"} {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		var jit *symbol.JIT
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			jit, _ = symbol.ParseJIT(f) // one that cannot be read gives no names
		}
		_ = f.Close() // only read
		if jit != nil {
			return jit
		}
	}
	return nil
}

// innerPID returns the number by which a process knows itself: the last of NSpid
// (proc_pid_status(5)).
func innerPID(status []byte, otherwise string) string {
	_, rest, found := bytes.Cut(status, []byte("\nNSpid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	if f := bytes.Fields(line); found && len(f) > 0 {
		return string(f[len(f)-1])
	}
	return otherwise
}
