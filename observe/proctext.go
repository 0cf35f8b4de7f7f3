package observe

import (
	"bytes"
	"errors"
	"math"
)

// The readers of /proc's texts. They do not allocate, accept any bytes, and never panic. proc(5) has
// the formats.

var errFormat = errors.New("unexpected format")

// number reads a decimal number after blanks and returns what follows it. A sign
// is accepted, and a negative number is zero: the kernel prints a few counters
// as signed.
func number(b []byte) (n uint64, rest []byte, ok bool) {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	digits := 0
	for ; len(b) > 0 && b[0] >= '0' && b[0] <= '9'; b = b[1:] {
		d := uint64(b[0] - '0')
		if n > (math.MaxUint64-d)/10 {
			return 0, b, false
		}
		n = n*10 + d
		digits++
	}
	if negative {
		n = 0
	}
	return n, b, digits > 0
}

// numbers reads len(to) numbers.
func numbers(b []byte, to []uint64) (rest []byte, ok bool) {
	for i := range to {
		if to[i], b, ok = number(b); !ok {
			return b, false
		}
	}
	return b, true
}

// A procStat holds the fields of /proc/PID/stat that are used. Times are in clock ticks.
type procStat struct {
	parent                 int
	zombie                 bool
	user, system           uint64
	childUser, childSystem uint64 // of children that were waited for, and theirs
	minor, major           uint64 // page faults, those that needed no input and those that did
	childMinor, childMajor uint64
	threads                uint64
}

// parseStat reads /proc/PID/stat. The name may hold anything: the last closing
// parenthesis ends it.
func parseStat(b []byte) (s procStat, err error) {
	end := bytes.LastIndexByte(b, ')')
	if end < 0 || len(b) < end+4 {
		return s, errFormat
	}
	state := b[end+2]
	var f [17]uint64 // fields 4 (ppid) to 20 (num_threads)
	if _, ok := numbers(b[end+3:], f[:]); !ok || f[0] > math.MaxInt32 {
		return s, errFormat
	}
	return procStat{
		parent: int(f[0]),
		zombie: state == 'Z' || state == 'X',
		user:   f[10], system: f[11], childUser: f[12], childSystem: f[13],
		minor: f[6], childMinor: f[7], major: f[8], childMajor: f[9],
		threads: f[16],
	}, nil
}

// parseStatm returns the resident pages of /proc/PID/statm.
func parseStatm(b []byte) (resident uint64, err error) {
	var f [2]uint64
	if _, ok := numbers(b, f[:]); !ok {
		return 0, errFormat
	}
	return f[1], nil
}

// parseSchedstat reads /proc/PID/task/TID/schedstat: nanoseconds on a CPU,
// nanoseconds runnable but waiting for one, and how often it was given one.
func parseSchedstat(b []byte) (run, wait, slices uint64, err error) {
	var f [3]uint64
	if _, ok := numbers(b, f[:]); !ok {
		return 0, 0, 0, errFormat
	}
	return f[0], f[1], f[2], nil
}

// parseSwitches reads the context switches of a thread's status file.
func parseSwitches(b []byte) (voluntary, involuntary uint64, err error) {
	voluntary, ok := field(b, "\nvoluntary_ctxt_switches:")
	involuntary, ok2 := field(b, "\nnonvoluntary_ctxt_switches:")
	if !ok || !ok2 {
		return 0, 0, errFormat
	}
	return voluntary, involuntary, nil
}

// field returns the number after the last occurrence of a label.
func field(b []byte, label string) (uint64, bool) {
	// bytes.LastIndex with a converted label would allocate for long ones.
	for i := len(b) - len(label); i >= 0; i-- {
		if b[i] == label[0] && string(b[i:i+len(label)]) == label {
			n, _, ok := number(b[i+len(label):])
			return n, ok
		}
	}
	return 0, false
}

// parseLastPID returns the process or thread id given out last, from
// /proc/loadavg.
func parseLastPID(b []byte) (pid uint64, err error) {
	b = bytes.TrimRight(b, "\n")
	pid, rest, ok := number(b[bytes.LastIndexByte(b, ' ')+1:])
	if !ok || len(rest) > 0 {
		return 0, errFormat
	}
	return pid, nil
}

// cpuTimes are the columns of the first line of /proc/stat, in clock ticks.
type cpuTimes struct {
	user, nice, system, idle, iowait, irq, softirq, steal uint64
}

// parseCPUTimes reads /proc/stat. Guest time is already part of user time.
func parseCPUTimes(b []byte) (cpuTimes, error) {
	rest, found := bytes.CutPrefix(b, []byte("cpu "))
	if !found {
		return cpuTimes{}, errFormat
	}
	return parseTimes(rest)
}

var newline = []byte{'\n'}

// parseOneCPU reads the line of one CPU in /proc/stat.
func parseOneCPU(b []byte, cpu int) (cpuTimes, error) {
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, newline)
		if rest, found := bytes.CutPrefix(line, []byte("cpu")); found {
			if n, rest, ok := number(rest); ok && n == uint64(cpu) && line[3] != ' ' { //nolint:gosec // a CPU's number is not negative
				return parseTimes(rest)
			}
		}
	}
	return cpuTimes{}, errFormat
}

func parseTimes(b []byte) (cpuTimes, error) {
	var f [8]uint64
	if _, ok := numbers(b, f[:]); !ok {
		return cpuTimes{}, errFormat
	}
	return cpuTimes{f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]}, nil
}

// parsePressure returns the microseconds in which tasks were held up, from
// /proc/pressure/*. The line is some or full; old kernels have no full for CPUs.
func parsePressure(b []byte, which string) (uint64, error) {
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, newline)
		if len(line) <= len(which) || string(line[:len(which)]) != which || line[len(which)] != ' ' {
			continue
		}
		if total, ok := field(line, " total="); ok {
			return total, nil
		}
	}
	return 0, errFormat
}
