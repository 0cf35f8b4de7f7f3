package profile

import (
	"fmt"
	"path"
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"
)

// Names for functions without one, the same in every build.
const (
	Unknown = "[unknown]" // a function that no symbol tells
	Kernel  = "[kernel]"  // the file of all kernel code, and a function of a kernel that hides its symbols
)

// A Function is the unit that costs are assigned to.
type Function struct {
	Name string
	// Mapping tells functions of the same name apart: "[kernel]", a shared library's name such as
	// libc.so.6, or "" for the program itself. Every build's file may have another name.
	Mapping string
}

func (f Function) String() string {
	if f.Mapping == "" {
		return f.Name
	}
	return f.Name + " (" + strings.Trim(f.Mapping, "[]") + ")"
}

// Library tells whether a file is a shared library, or an assembly of .NET, by its name.
// Assemblies hold code that was compiled beforehand.
func Library(file string) bool {
	base := path.Base(file)
	return strings.HasSuffix(base, ".so") || strings.Contains(base, ".so.") || strings.HasSuffix(base, ".dll")
}

// functionOf returns the function of a line.
func functionOf(l *pprof.Location, line pprof.Line) Function {
	f := Function{Name: Unknown}
	if line.Function != nil && line.Function.Name != "" {
		f.Name = line.Function.Name
	}
	if l.Mapping != nil {
		switch file := strings.TrimSuffix(l.Mapping.File, " (deleted)"); {
		case strings.HasPrefix(file, "["):
			f.Mapping = file
		case Library(file):
			f.Mapping = path.Base(file)
		}
	}
	return f
}

// frames returns the functions of a sample, the leaf first, inlined ones as their own.
func frames(s *pprof.Sample) []Function {
	var all []Function
	for _, l := range s.Location {
		if len(l.Line) == 0 {
			all = append(all, functionOf(l, pprof.Line{}))
		}
		for _, line := range l.Line {
			all = append(all, functionOf(l, line))
		}
	}
	return all
}

// Costs are the costs of functions.
type Costs struct {
	Value      string // such as cpu
	Unit       string // such as nanoseconds
	Total      float64
	Flat       map[Function]float64 // in the function itself
	Cumulative map[Function]float64 // in it and in what it called
	Groups     map[Group]float64    // by group; they add up to Total
}

// Table adds up one value of a profile, such as cpu, samples, alloc_space or delay. Idle
// functions are left out.
func Table(p *pprof.Profile, value string) (*Costs, error) { return sum(p, value, leaf, Classify) }

func leaf(stack []Function) Function { return stack[0] }

// sum adds up a value, each stack's for one of its functions and in one group.
func sum(p *pprof.Profile, value string, of func(stack []Function) Function, in func(stack []Function) Group) (*Costs, error) {
	c := &Costs{Flat: map[Function]float64{}, Cumulative: map[Function]float64{}, Groups: map[Group]float64{}}
	var err error
	if c.Value, c.Unit, err = eachStack(p, value, func(stack []Function, v float64) {
		c.Total += v
		c.Flat[of(stack)] += v
		for i, f := range stack {
			if !slices.Contains(stack[:i], f) { // recursion counts once
				c.Cumulative[f] += v
			}
		}
		c.Groups[in(stack)] += v
	}); err != nil {
		return nil, err
	}
	return c, nil
}

// eachStack calls yield with every stack, the leaf first, and its value.
func eachStack(p *pprof.Profile, value string, yield func(stack []Function, v float64)) (name, unit string, err error) {
	i := slices.IndexFunc(p.SampleType, func(t *pprof.ValueType) bool { return t.Type == value })
	if i < 0 {
		var have []string
		for _, t := range p.SampleType {
			have = append(have, t.Type)
		}
		return "", "", fmt.Errorf("profile: no value %q: want one of %s", value, strings.Join(have, ", "))
	}
	for _, s := range p.Sample {
		if i >= len(s.Value) || s.Value[i] == 0 {
			continue
		}
		if stack := frames(s); len(stack) > 0 && !slices.ContainsFunc(stack, idles) {
			yield(stack, float64(s.Value[i]))
		}
	}
	return value, p.SampleType[i].Unit, nil
}
