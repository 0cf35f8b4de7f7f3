package observe

import (
	"fmt"
	"math"

	"dyno/internal/texts"
)

// A CPUUser knows how much CPU time it has used, in seconds, by its last reading; NaN
// when it does not know.
type CPUUser interface{ CPUSeconds() float64 }

// A Machine observes all CPUs together.
//
// The kernel accounts for them in steps of 10 ms, and by sampling on most machines:
// single ticks are coarse, seconds are right.
type Machine struct {
	users    []CPUUser
	stat     procFile
	pressure []pressureFile // of those that the kernel has
	missing  []error        // why there are no more
	base     float64        // busy − what users account for, at the first reading
	started  bool
	last     cpuTimes
	buf      [512]byte // the first line of /proc/stat is all that counts
}

// NewMachine observes the machine. CPU time that the processes of users do not account
// for is foreign. Those must be read before the machine. A Recorder reads its observers
// in the order in which it was given them.
func NewMachine(users ...CPUUser) (*Machine, error) {
	m := &Machine{users: users}
	unavailable := func(err error) error {
		return unreadable(m.Name(), err, "help.proc")
	}
	var err error
	if m.stat, err = openProc("/proc/stat"); err != nil {
		return nil, unavailable(err)
	}
	b, err := m.stat.read(m.buf[:])
	if err == nil {
		_, err = parseCPUTimes(b)
	}
	if err != nil {
		m.stat.close()
		return nil, unavailable(err)
	}
	for _, p := range pressures() {
		// A kernel started with psi=0 has the files and fails to read them.
		if p.file, err = openProc("/proc/pressure/" + p.resource); err == nil {
			if b, err = p.file.read(m.buf[:]); err == nil {
				_, err = parsePressure(b, p.line)
			}
		}
		if err == nil {
			m.pressure = append(m.pressure, p)
			continue
		}
		p.file.close()
		m.missing = append(m.missing, &Unavailable{Observer: m.Name(), Reason: texts.New("unavailable.pressure", "resource", p.resource, "error", err.Error()),
			Remedy: texts.New("help.psi"), Err: err})
	}
	return m, nil
}

// Missing says which columns are not available here, and why.
func (m *Machine) Missing() []error { return m.missing }

// A pressureFile is a file of the kernel's pressure stall information
// (Documentation/accounting/psi.rst): the total time in which tasks were held up.
type pressureFile struct {
	resource string
	line     string // some: at least one task; full: all that were not idle, at once
	column   Column
	file     procFile
}

func pressures() []pressureFile {
	return []pressureFile{
		{resource: "cpu", line: "some", column: Column{"cpu_pressure_seconds", Counter, "time in which some task waited for a CPU"}},
		{resource: "memory", line: "full", column: Column{"memory_stall_seconds", Counter, "time in which all tasks that were not idle waited for memory"}},
		{resource: "io", line: "full", column: Column{"io_stall_seconds", Counter, "time in which all tasks that were not idle waited for input or output"}},
	}
}

// Name returns "machine".
func (m *Machine) Name() string { return "machine" }

const machineColumns = 9

// Columns returns the columns: three more where the kernel measures pressure.
func (m *Machine) Columns() []Column {
	cols := []Column{
		{"cpu_seconds", Counter, "all CPU time that passed, on all CPUs"},
		{"cpu_user_seconds", Counter, "in user mode, niced and guests included"},
		{"cpu_system_seconds", Counter, "in the kernel, on behalf of processes"},
		{"cpu_interrupt_seconds", Counter, "in hard and soft interrupts"},
		{"cpu_idle_seconds", Counter, "idle, waiting for disks included"},
		{"cpu_steal_seconds", Counter, "taken by the hypervisor while there was work"},
		{"cpu_busy_seconds", Counter, "user, system and interrupts"},
		{"steal_ratio", Gauge, "stolen share of the CPU time since the previous reading"},
		{"cpu_foreign_seconds", Counter, "busy with neither the target nor the generator, since the first reading"},
	}
	for _, p := range m.pressure {
		cols = append(cols, p.column)
	}
	return cols
}

// Observe reads the machine.
func (m *Machine) Observe(row []float64) error {
	for i := range row {
		row[i] = math.NaN()
	}
	b, err := m.stat.read(m.buf[:])
	if err != nil {
		return err
	}
	c, err := parseCPUTimes(b)
	if err != nil {
		return err
	}
	busy := ticks(c.busy())
	row[0] = ticks(c.total())
	row[1] = ticks(c.user + c.nice)
	row[2] = ticks(c.system)
	row[3] = ticks(c.irq + c.softirq)
	row[4] = ticks(c.idle + c.iowait)
	row[5] = ticks(c.steal)
	row[6] = busy
	if m.started {
		row[7] = share(c.steal, m.last.steal, c.total(), m.last.total())
	}
	foreign := busy
	for _, k := range m.users {
		foreign -= k.CPUSeconds()
	}
	if math.IsNaN(m.base) || !m.started {
		m.base = foreign
	}
	row[8] = foreign - m.base
	m.last, m.started = c, true

	for i, p := range m.pressure {
		b, err := p.file.read(m.buf[:])
		if err != nil {
			return fmt.Errorf("pressure of %s: %w", p.resource, err)
		}
		us, err := parsePressure(b, p.line)
		if err != nil {
			return fmt.Errorf("pressure of %s: %w", p.resource, err)
		}
		row[machineColumns+i] = float64(us) / 1e6
	}
	return nil
}

func (c cpuTimes) busy() uint64 { return c.user + c.nice + c.system + c.irq + c.softirq }

func (c cpuTimes) total() uint64 { return c.busy() + c.idle + c.iowait + c.steal }

// share returns the growth of part as a share of the growth of whole. iowait can go backwards
// (proc(5)). A reading directly after another finds no growth: NaN.
func share(part, lastPart, whole, lastWhole uint64) float64 {
	if whole <= lastWhole || part < lastPart {
		return math.NaN()
	}
	return float64(part-lastPart) / float64(whole-lastWhole)
}

// Close closes the machine's files.
func (m *Machine) Close() error {
	m.stat.close()
	m.stat.fd = -1
	for _, p := range m.pressure {
		p.file.close()
	}
	m.pressure = nil
	return nil
}
