package thread

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"dyno/load/engine/record"
)

var (
	kernel           = windows.NewLazySystemDLL("kernel32.dll")
	procThreadTimes  = kernel.NewProc("GetThreadTimes")
	procProcessTimes = kernel.NewProc("GetProcessTimes")
)

// ID returns the number of the calling thread.
func ID() int { return int(windows.GetCurrentThreadId()) }

// CPU returns the processor time the calling thread has used. Windows counts it in ticks of 15.6 ms.
func CPU() record.CPUTime { return spent(procThreadTimes, windows.CurrentThread()) }

// ProcessCPU returns the processor time this process has used.
func ProcessCPU() record.CPUTime { return spent(procProcessTimes, windows.CurrentProcess()) }

func spent(times *windows.LazyProc, of windows.Handle) record.CPUTime {
	var begun, ended, system, user windows.Filetime
	// It cannot fail for the calling thread and its process.
	_, _, _ = syscall.SyscallN(times.Addr(), uintptr(of), uintptr(unsafe.Pointer(&begun)), uintptr(unsafe.Pointer(&ended)),
		uintptr(unsafe.Pointer(&system)), uintptr(unsafe.Pointer(&user)))
	return record.CPUTime{User: duration(user), System: duration(system)}
}

// duration converts a span in units of 100 ns.
func duration(t windows.Filetime) time.Duration {
	return time.Duration(int64(t.HighDateTime)<<32|int64(t.LowDateTime)) * 100
}

// Place asks for timers with ticks of a millisecond: by the default of 15.6 ms, waits would end up in
// the send lag. It returns an error if cpu is not negative.
func Place(cpu int) error {
	if cpu >= 0 {
		return errNoPlacing
	}
	return windows.TimeBeginPeriod(1)
}
