package stack

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// maxMappings bounds the mappings that are remembered of a process. Code beyond has no
// names.
const maxMappings = 16 << 10

// A Mapping is memory that a process may execute, from a file or not.
type Mapping struct {
	Start, End uint64 // addresses, [Start, End)
	Offset     uint64 // of Start, in the file
	Path       string // as the process sees it; "" or in brackets or "//anon" if it is no file
	Inode      uint64 // 0 if it is no file
}

// ParseMaps returns the executable mappings in the text of /proc/PID/maps
// (proc_pid_maps(5)). Lines that cannot be read are skipped.
func ParseMaps(r io.Reader) []Mapping {
	var found []Mapping
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<10)
	for lines.Scan() && len(found) < maxMappings {
		if m, executable, ok := parseMapping(lines.Bytes()); ok && executable {
			found = append(found, m)
		}
	}
	return found
}

// parseMapping reads "start-end perms offset device inode   path".
func parseMapping(line []byte) (m Mapping, executable, ok bool) {
	var fields [5][]byte
	rest := line
	for i := range fields {
		fields[i], rest, _ = bytes.Cut(rest, []byte(" "))
		if len(fields[i]) == 0 {
			return m, false, false
		}
	}
	from, to, _ := strings.Cut(string(fields[0]), "-")
	var err [4]error
	m.Start, err[0] = strconv.ParseUint(from, 16, 64)
	m.End, err[1] = strconv.ParseUint(to, 16, 64)
	m.Offset, err[2] = strconv.ParseUint(string(fields[2]), 16, 64)
	m.Inode, err[3] = strconv.ParseUint(string(fields[4]), 10, 64)
	for _, e := range err {
		if e != nil {
			return m, false, false
		}
	}
	m.Path = string(bytes.TrimLeft(rest, " "))
	return m, len(fields[1]) >= 3 && fields[1][2] == 'x', m.Start < m.End
}

// A Process is the executable memory of a process at one time. Mappings are shared
// with the processes it was forked from, and never change.
type Process struct {
	pid      int
	mappings []*mapped // by Start, without overlap
}

// NewProcess returns a process without known mappings.
func NewProcess(pid int) *Process { return &Process{pid: pid} }

// ReadProcess reads the present mappings of a process.
func ReadProcess(pid int) (*Process, error) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/maps")
	if err != nil {
		return nil, fmt.Errorf("mappings of process %d: %w", pid, err)
	}
	defer func() { _ = f.Close() }() // only read
	p := NewProcess(pid)
	for _, m := range ParseMaps(f) {
		p.Map(m)
	}
	return p, nil
}

// Fork returns the same memory for another process.
func (p *Process) Fork(pid int) *Process {
	return &Process{pid: pid, mappings: slices.Clone(p.mappings)}
}

// Map adds a mapping and replaces what was there.
func (p *Process) Map(m Mapping) {
	if m.Start >= m.End {
		return
	}
	var kept []*mapped
	for _, old := range p.mappings {
		if old.End <= m.Start || m.End <= old.Start {
			kept = append(kept, old)
			continue
		}
		if old.Start < m.Start {
			kept = append(kept, old.part(old.Start, m.Start))
		}
		if m.End < old.End {
			kept = append(kept, old.part(m.End, old.End))
		}
	}
	if len(kept) >= maxMappings {
		kept = kept[1:]
	}
	kept = append(kept, &mapped{Mapping: m, pid: p.pid})
	slices.SortFunc(kept, func(a, b *mapped) int { return cmp.Compare(a.Start, b.Start) })
	p.mappings = kept
}

// find returns the mapping that holds an address, or nil.
func (p *Process) find(address uint64) *mapped {
	i, found := slices.BinarySearchFunc(p.mappings, address, func(m *mapped, a uint64) int { return cmp.Compare(m.Start, a) })
	if !found {
		i--
	}
	if i < 0 || address >= p.mappings[i].End {
		return nil
	}
	return p.mappings[i]
}

// A mapped is a mapping of a process, with the data that a Collector adds to it.
type mapped struct {
	Mapping
	pid int // of a process that has it

	first  *mapped // the first one of the same part of the same file, maybe itself; nil: not asked for
	opened *opened // of the first
	id     uint32  // of the first; 0 is none
}

// part returns a piece of a mapping, of the same file.
func (m *mapped) part(start, end uint64) *mapped {
	return &mapped{Mapping: Mapping{start, end, m.Offset + start - m.Start, m.Path, m.Inode}, pid: m.pid}
}
