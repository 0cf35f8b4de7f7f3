package observe

import (
	"errors"
	"fmt"
	"math"
	"syscall"

	"dyno/host/cgroup"
	"dyno/internal/texts"
)

// A Cgroup observes a control group: the effects of its limits on the processes in it.
type Cgroup struct {
	name  string
	files []cgroupFile
	buf   [4096]byte
}

// A cgroupFile fills in the cells of one file.
type cgroupFile struct {
	path  string
	file  procFile
	cells func(b []byte, row []float64) error
}

// The cells of a Cgroup's row.
const (
	cgroupCPU = iota
	cgroupPeriods
	cgroupThrottledPeriods
	cgroupThrottled
	cgroupMemory
	cgroupMemoryPeak
	cgroupOOMKills
	cgroupCPUPressure
	cgroupMemoryStall
	cgroupIOStall
	cgroupColumns
)

// NewCgroup observes a control group. Name is the prefix of the columns.
func NewCgroup(name string, folders cgroup.Folders) (*Cgroup, error) {
	if folders == (cgroup.Folders{}) {
		return nil, &Unavailable{Observer: name, Reason: texts.New("unavailable.cgroup"), Remedy: texts.New("help.cgroup")}
	}
	c := &Cgroup{name: name}
	var faults []error
	for _, f := range cgroupFiles(folders) {
		if err := c.open(f); err != nil {
			faults = append(faults, err) // older kernels have fewer files
		}
	}
	if len(c.files) == 0 {
		err := errors.Join(faults...)
		return nil, unreadable(name, err, "help.cgroups")
	}
	return c, nil
}

// open takes a file that can be read. A kernel started with psi=0 has files of pressure,
// but fails to read them.
func (c *Cgroup) open(f cgroupFile) (err error) {
	if f.file, err = openProc(f.path); err != nil {
		return err
	}
	b, err := f.file.read(c.buf[:])
	if err == nil {
		err = f.cells(b, make([]float64, cgroupColumns))
	}
	if err != nil {
		f.file.close()
		return fmt.Errorf("%s: %w", f.path, err)
	}
	c.files = append(c.files, f)
	return nil
}

// cgroupFiles returns the files with figures (Documentation/admin-guide:
// cgroup-v1/memory.rst, cgroup-v2.rst, and scheduler/sched-bwc.rst). If both versions
// have a figure, version 1 counts, because it has the controller.
func cgroupFiles(f cgroup.Folders) (files []cgroupFile) {
	add := func(folder, name string, cells func(b []byte, row []float64) error) {
		if folder != "" {
			files = append(files, cgroupFile{path: folder + "/" + name, cells: cells})
		}
	}
	whole := func(cell int, unit float64) func([]byte, []float64) error {
		return func(b []byte, row []float64) error {
			n, _, ok := number(b)
			if !ok {
				return errFormat
			}
			row[cell] = float64(n) * unit
			return nil
		}
	}
	line := func(b []byte, label string, row []float64, cell int, unit float64) {
		if n, ok := cgroup.Value(b, label); ok {
			row[cell] = float64(n) * unit
		}
	}
	add(f[cgroup.Unified], "cpu.stat", func(b []byte, row []float64) error {
		line(b, "usage_usec", row, cgroupCPU, 1e-6)
		line(b, "nr_periods", row, cgroupPeriods, 1)
		line(b, "nr_throttled", row, cgroupThrottledPeriods, 1)
		line(b, "throttled_usec", row, cgroupThrottled, 1e-6)
		return nil
	})
	add(f[cgroup.Unified], "memory.current", whole(cgroupMemory, 1))
	add(f[cgroup.Unified], "memory.peak", whole(cgroupMemoryPeak, 1))
	add(f[cgroup.Unified], "memory.events", func(b []byte, row []float64) error {
		line(b, "oom_kill", row, cgroupOOMKills, 1)
		return nil
	})
	for _, p := range []struct {
		file, line string
		cell       int
	}{{"cpu.pressure", "some", cgroupCPUPressure}, {"memory.pressure", "full", cgroupMemoryStall}, {"io.pressure", "full", cgroupIOStall}} {
		add(f[cgroup.Unified], p.file, func(b []byte, row []float64) error {
			us, err := parsePressure(b, p.line)
			if err == nil {
				row[p.cell] = float64(us) * 1e-6
			}
			return err
		})
	}
	add(f[cgroup.CPUAcct], "cpuacct.usage", whole(cgroupCPU, 1e-9))
	add(f[cgroup.CPU], "cpu.stat", func(b []byte, row []float64) error {
		line(b, "nr_periods", row, cgroupPeriods, 1)
		line(b, "nr_throttled", row, cgroupThrottledPeriods, 1)
		line(b, "throttled_time", row, cgroupThrottled, 1e-9)
		return nil
	})
	add(f[cgroup.Memory], "memory.usage_in_bytes", whole(cgroupMemory, 1))
	add(f[cgroup.Memory], "memory.max_usage_in_bytes", whole(cgroupMemoryPeak, 1))
	add(f[cgroup.Memory], "memory.oom_control", func(b []byte, row []float64) error {
		line(b, "oom_kill", row, cgroupOOMKills, 1)
		return nil
	})
	return files
}

// Name returns the name given.
func (c *Cgroup) Name() string { return c.name }

// Columns returns the columns. Those that a version or a kernel lacks are NaN: only
// version 2 has pressure.
func (c *Cgroup) Columns() []Column {
	return []Column{
		cgroupCPU:              {"cpu_seconds", Counter, "CPU time of the group, of its dead processes too"},
		cgroupPeriods:          {"cpu_periods_total", Counter, "periods of its CPU limit in which something ran; 0 without a limit"},
		cgroupThrottledPeriods: {"cpu_throttled_periods_total", Counter, "of them, those in which it used up its limit and had to wait"},
		cgroupThrottled:        {"cpu_throttled_seconds", Counter, "time for which it had to wait, summed over CPUs"},
		cgroupMemory:           {"memory_bytes", Gauge, "memory charged to the group, page cache included"},
		cgroupMemoryPeak:       {"memory_peak_bytes", Gauge, "the most since the group was made"},
		cgroupOOMKills:         {"oom_kills_total", Counter, "processes of the group that the kernel has killed because memory ran out"},
		cgroupCPUPressure:      {"cpu_pressure_seconds", Counter, "time in which some task of the group waited for a CPU"},
		cgroupMemoryStall:      {"memory_stall_seconds", Counter, "time in which all tasks of the group that were not idle waited for memory"},
		cgroupIOStall:          {"io_stall_seconds", Counter, "time in which all tasks of the group that were not idle waited for input or output"},
	}
}

// Observe reads the group. A group that was removed, as a target's is when the target has
// ended, is NaN and no error.
func (c *Cgroup) Observe(row []float64) error {
	for i := range row {
		row[i] = math.NaN()
	}
	var fault error
	for _, f := range c.files {
		b, err := f.file.read(c.buf[:])
		if errors.Is(err, syscall.ENODEV) {
			continue
		}
		if err == nil {
			err = f.cells(b, row)
		}
		if err != nil && fault == nil {
			fault = fmt.Errorf("%s: %w", f.path, err)
		}
	}
	return fault
}

// Close closes the files.
func (c *Cgroup) Close() error {
	for _, f := range c.files {
		f.file.close()
	}
	c.files = nil
	return nil
}
