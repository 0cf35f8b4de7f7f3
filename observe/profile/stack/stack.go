// Package stack collects call stacks of processes, as addresses, and makes a profile of
// them in pprof's format.
//
// Collecting is cheap: an address is only stored with its mapping. Files are read, and
// addresses named, when the profile is made.
package stack

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"dyno/observe/profile"
	"dyno/observe/profile/symbol"

	pprof "github.com/google/pprof/profile"
)

// Names for addresses without one. They are the same in every build.
const (
	Unknown    = profile.Unknown // a function that no symbol tells
	KernelFile = profile.Kernel  // the mapping of all kernel code, and a function of a kernel whose symbols are hidden
)

// Bounds of a Collector.
const (
	maxStacks = 1 << 18 // different ones; beyond they are counted in Dropped
	maxFiles  = 256     // open at once; the code of others has no names
	maxDepth  = 512     // of each half; callers beyond are left out
)

// A Collector collects stacks. It is used by one goroutine at a time.
type Collector struct {
	Dropped uint64 // values that belong to stacks beyond the bound

	values  int // how many a stack has
	symbols *symbol.Cache
	kernel  *mapped
	count   uint32 // of mappings that stand for others, by which they are numbered
	files   map[filePart]*mapped
	stacks  map[string]*gathered
	key     []byte
}

type gathered struct {
	frames []frame // leaf first
	values []int64
}

// A frame is an address. One of the kernel is in Collector.kernel; one outside all
// mappings has none.
type frame struct {
	mapped  *mapped
	address uint64
}

// New returns a collector of stacks with a number of values each.
func New(values int, symbols *symbol.Cache) *Collector {
	if symbols == nil {
		symbols = new(symbol.Cache)
	}
	kernel := &mapped{Mapping: Mapping{Path: KernelFile, End: 1<<64 - 1}, id: 1}
	return &Collector{
		values: values, symbols: symbols, kernel: kernel,
		count: 1, files: map[filePart]*mapped{}, stacks: map[string]*gathered{},
	}
}

// Add adds values to a stack: addresses of the kernel and of the process, the leaf
// first, return addresses after it.
func (c *Collector) Add(p *Process, kernel, user []uint64, values ...int64) {
	if len(values) != c.values {
		panic(fmt.Sprintf("stack: %d values where %d are gathered", len(values), c.values))
	}
	kernel, user = kernel[:min(len(kernel), maxDepth)], user[:min(len(user), maxDepth)]
	frames := make([]frame, 0, len(kernel)+len(user))
	for i, a := range kernel {
		frames = append(frames, frame{c.kernel, called(a, i)})
	}
	for i, a := range user {
		// The first frame below the kernel's frames is not a return address either.
		a = called(a, i)
		f := frame{nil, a}
		if m := p.find(a); m != nil {
			f.mapped = c.firstOf(m)
			f.address = a - m.Start + m.Offset - f.mapped.Offset + f.mapped.Start
		}
		frames = append(frames, f)
	}
	c.key = c.key[:0]
	for _, f := range frames {
		id := uint32(0)
		if f.mapped != nil {
			id = f.mapped.id
		}
		c.key = binary.NativeEndian.AppendUint32(c.key, id)
		c.key = binary.NativeEndian.AppendUint64(c.key, f.address)
	}
	g := c.stacks[string(c.key)]
	if g == nil {
		if len(c.stacks) >= maxStacks {
			c.Dropped++
			return
		}
		g = &gathered{frames, make([]int64, c.values)}
		c.stacks[string(c.key)] = g
	}
	for i, v := range values {
		g.values[i] += v
	}
}

// called turns the address to return to into one of the call.
func called(a uint64, depth int) uint64 {
	if depth > 0 && a > 0 {
		return a - 1
	}
	return a
}

// firstOf returns the mapping that represents all of the same part of the same file:
// processes of one program have it at different addresses. The file is opened while the
// process exists.
func (c *Collector) firstOf(m *mapped) *mapped {
	if m.first != nil {
		return m.first
	}
	o := open(m)
	if o.file != nil {
		if first := c.files[o.part]; first != nil || len(c.files) >= maxFiles {
			_ = o.file.Close() // only read
			if first != nil {
				m.first = first
				return first
			}
			o = &opened{}
		} else {
			c.files[o.part] = m
		}
	}
	c.count++
	m.first, m.opened, m.id = m, o, c.count
	return m
}

// Close closes the open files. The collector is then empty.
func (c *Collector) Close() error {
	var errs []error
	for _, m := range c.files {
		errs = append(errs, m.opened.file.Close())
	}
	c.files, c.stacks = map[filePart]*mapped{}, map[string]*gathered{}
	return errors.Join(errs...)
}

// Profile makes a profile of all stacks, with names, and says which addresses had none. types describe
// the values.
func (c *Collector) Profile(types []*pprof.ValueType, period int64, start time.Time, duration time.Duration) (*pprof.Profile, error) {
	if len(types) != c.values {
		return nil, fmt.Errorf("stack: %d types for %d values", len(types), c.values)
	}
	kernel, _ := c.symbols.Kernel() // without names if it cannot be read
	b := builder{
		collector: c, kernel: kernel,
		p: &pprof.Profile{
			SampleType: types, PeriodType: types[len(types)-1], Period: period,
			TimeNanos: start.UnixNano(), DurationNanos: duration.Nanoseconds(),
		},
		functions: map[function]*pprof.Function{}, locations: map[frame]*pprof.Location{},
		mappings: map[*mapped]*pprof.Mapping{}, files: map[*mapped]*symbol.File{}, jits: map[int]*symbol.JIT{},
		weight: map[*pprof.Mapping]int64{},
	}
	keys := make([]string, 0, len(c.stacks))
	for k := range c.stacks {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		b.add(c.stacks[k])
	}
	b.order()
	if err := b.p.CheckValid(); err != nil {
		return nil, fmt.Errorf("stack: %w", err)
	}
	return b.p, nil
}

type function struct{ name, file string }

// A builder makes a profile.
type builder struct {
	collector *Collector
	kernel    *symbol.Kernel
	vdso      *symbol.File
	p         *pprof.Profile
	functions map[function]*pprof.Function
	locations map[frame]*pprof.Location
	mappings  map[*mapped]*pprof.Mapping
	files     map[*mapped]*symbol.File // nil: cannot be read
	jits      map[int]*symbol.JIT
	weight    map[*pprof.Mapping]int64 // first value of the samples that it is the leaf of
}

func (b *builder) add(g *gathered) {
	s := &pprof.Sample{Value: g.values}
	for _, f := range g.frames {
		s.Location = append(s.Location, b.location(f))
	}
	if len(s.Location) == 0 {
		s.Location = append(s.Location, b.location(frame{}))
	}
	for _, l := range s.Location {
		if l.Mapping != nil {
			b.weight[l.Mapping] += g.values[0]
			break
		}
	}
	b.p.Sample = append(b.p.Sample, s)
}

func (b *builder) location(f frame) *pprof.Location {
	if l := b.locations[f]; l != nil {
		return l
	}
	l := &pprof.Location{ID: uint64(len(b.p.Location) + 1), Address: f.address, Mapping: b.mapping(f.mapped)}
	file := ""
	if l.Mapping != nil {
		file = l.Mapping.File
	}
	names := b.names(f)
	if len(names) == 0 {
		names = []string{Unknown}
	}
	for _, name := range names {
		key := function{name, file}
		fn := b.functions[key]
		if fn == nil {
			fn = &pprof.Function{ID: uint64(len(b.p.Function) + 1), Name: name, SystemName: name}
			b.functions[key] = fn
			b.p.Function = append(b.p.Function, fn)
		}
		l.Line = append(l.Line, pprof.Line{Function: fn})
	}
	b.locations[f] = l
	b.p.Location = append(b.p.Location, l)
	return l
}

// names returns the functions at an address, the innermost inlined first.
func (b *builder) names(f frame) []string {
	m := f.mapped
	switch {
	case m == nil:
		return nil
	case m == b.collector.kernel:
		if name := b.kernel.Lookup(f.address); name != "" {
			return []string{name}
		}
		return []string{KernelFile}
	case m.Path == "[vdso]":
		if file := b.vDSO(); file != nil {
			return file.Lookup(f.address - m.Start + m.Offset)
		}
		return nil
	case m.opened != nil && m.opened.jit:
		if j := b.jit(m.pid); j != nil {
			if name := j.Lookup(f.address); name != "" {
				return []string{name}
			}
		}
		return nil
	}
	if file := b.file(m); file != nil {
		return file.Lookup(f.address - m.Start + m.Offset)
	}
	return nil
}

func (b *builder) vDSO() *symbol.File {
	if b.vdso == nil {
		var err error
		if b.vdso, err = symbol.OpenVDSO(); err != nil {
			b.vdso = &symbol.File{} // without names
		}
	}
	return b.vdso
}

func (b *builder) jit(pid int) *symbol.JIT {
	j, ok := b.jits[pid]
	if !ok {
		j = openJIT(pid)
		b.jits[pid] = j
	}
	return j
}

func (b *builder) file(m *mapped) *symbol.File {
	f, ok := b.files[m]
	if !ok {
		if m.opened != nil && m.opened.file != nil {
			f, _ = b.collector.symbols.File(m.opened.file) // one that is no ELF file gives no names
		}
		b.files[m] = f
	}
	return f
}

func (b *builder) mapping(m *mapped) *pprof.Mapping {
	if m == nil {
		return nil
	}
	if known := b.mappings[m]; known != nil {
		return known
	}
	pm := &pprof.Mapping{Start: m.Start, Limit: m.End, Offset: m.Offset, File: m.Path, HasFunctions: true}
	if f := b.file(m); f != nil {
		pm.BuildID = f.BuildID
	}
	if pm.File == "" || pm.File == "//anon" {
		pm.File = "[anon]"
	}
	b.mappings[m] = pm
	b.p.Mapping = append(b.p.Mapping, pm)
	return pm
}

// order puts the mapping of the program first, because pprof takes the first for it.
func (b *builder) order() {
	slices.SortStableFunc(b.p.Mapping, func(x, y *pprof.Mapping) int {
		return cmp.Or(cmp.Compare(kind(x), kind(y)), cmp.Compare(b.weight[y], b.weight[x]), cmp.Compare(x.Start, y.Start))
	})
	for i, m := range b.p.Mapping {
		m.ID = uint64(i + 1)
	}
}

// kind tells programs, libraries and the rest apart.
func kind(m *pprof.Mapping) int {
	switch {
	case m.File[0] == '[':
		return 2
	case profile.Library(m.File):
		return 1
	}
	return 0
}
