package observe

import (
	"fmt"
	"math"
	"slices"
)

// CPUs observes some of the machine's CPUs separately, such as the target's. A Machine sums all CPUs
// up, which hides whose time was taken.
type CPUs struct {
	name string
	cpus []int
	stat procFile
	buf  []byte
}

// NewCPUs observes the CPUs given. The name begins its columns.
func NewCPUs(name string, cpus ...int) (*CPUs, error) {
	c := &CPUs{name: name, cpus: slices.Clone(cpus)}
	unavailable := func(err error) error {
		return unreadable(name, err, "help.proc")
	}
	var err error
	if c.stat, err = openProc("/proc/stat"); err != nil {
		return nil, unavailable(err)
	}
	// A line has ten numbers of at most twenty digits, and there is one for each CPU
	// that is online.
	c.buf = make([]byte, 256*(slices.Max(cpus)+2))
	if err := c.Observe(make([]float64, len(c.Columns()))); err != nil {
		c.stat.close()
		return nil, unavailable(err)
	}
	return c, nil
}

// Name returns the name that the observer was given.
func (c *CPUs) Name() string { return c.name }

// Columns returns the columns.
func (c *CPUs) Columns() []Column {
	return []Column{
		{"cpu_seconds", Counter, "all CPU time that passed, on these CPUs"},
		{"cpu_busy_seconds", Counter, "user, system and interrupts, on these CPUs"},
		{"cpu_steal_seconds", Counter, "taken from these CPUs by the hypervisor while there was work"},
	}
}

// Observe reads the CPUs.
func (c *CPUs) Observe(row []float64) error {
	for i := range row {
		row[i] = math.NaN()
	}
	b, err := c.stat.read(c.buf)
	if err != nil {
		return err
	}
	var total, busy, steal uint64
	for _, cpu := range c.cpus {
		t, err := parseOneCPU(b, cpu)
		if err != nil {
			return fmt.Errorf("CPU %d in /proc/stat: %w", cpu, err)
		}
		total, busy, steal = total+t.total(), busy+t.busy(), steal+t.steal
	}
	row[0], row[1], row[2] = ticks(total), ticks(busy), ticks(steal)
	return nil
}

// Close closes the file.
func (c *CPUs) Close() error {
	c.stat.close()
	c.stat.fd = -1
	return nil
}
