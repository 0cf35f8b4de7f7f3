package observe

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// readSystem asks the kernel for what no file tells.
func (e *Environment) readSystem() {
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		e.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	var set unix.CPUSet
	if unix.SchedGetaffinity(os.Getpid(), &set) == nil {
		for c := range len(set) * strconv.IntSize {
			if set.IsSet(c) {
				e.AllowedCPUs = append(e.AllowedCPUs, c)
			}
		}
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		e.MemoryBytes = info.Totalram * uint64(info.Unit)
	}
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil {
		e.Limits.Descriptors, e.Limits.DescriptorsHard = files.Cur, files.Max
	}
}
