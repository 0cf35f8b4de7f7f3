package observe

// MachineSeconds returns the time of all CPUs together since the machine started: in which they were busy, that the
// hypervisor took away, and all that passed.
func MachineSeconds() (busy, stolen, all float64, err error) {
	f, err := openProc("/proc/stat")
	if err != nil {
		return 0, 0, 0, err
	}
	defer f.close()
	var buf [512]byte
	b, err := f.read(buf[:])
	if err != nil {
		return 0, 0, 0, err
	}
	c, err := parseCPUTimes(b)
	return ticks(c.busy()), ticks(c.steal), ticks(c.total()), err
}

// ProcessSeconds returns the CPU time of a process, its ended threads included.
func ProcessSeconds(pid int) (float64, error) { return clockSeconds(processClock(pid)) }
