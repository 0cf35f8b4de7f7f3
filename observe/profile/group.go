package profile

import (
	"slices"
	"strings"
)

// A Group is a kind of work that functions do for the target.
type Group string

// The groups. A function that belongs to none of them is the target's own, see
// Own.
const (
	SystemCalls   Group = "system calls"
	Network       Group = "network"
	GC            Group = "gc"
	Scheduler     Group = "scheduler"
	Memory        Group = "memory allocation"
	Crypto        Group = "tls and crypto"
	Serialization Group = "serialization"
	HTTP          Group = "http"
	RuntimeOther  Group = "runtime other"
	KernelOther   Group = "kernel other"
	StandardLib   Group = "standard library" // without a caller's group above
)

const (
	ownPrefix = "target: "
	program   = "program"
)

// Own is the group of a package's functions: a Go import path, a C++ namespace or Rust crate, a .NET
// assembly, or a shared library. C functions of the program itself have "program".
func Own(pack string) Group { return Group(ownPrefix + pack) }

// Classify returns the group of a stack, the leaf first. It looks at each function in turn, from the
// leaf towards its callers. The first that belongs to a group decides. memmove belongs to none, so its
// time is its caller's. Kernel time before any deciding kernel function never becomes the time of the
// user code that the kernel interrupted.
func Classify(stack []Function) Group {
	for i, f := range stack {
		if g, _ := GroupOf(f.Name, f.Mapping); g != "" {
			return g
		}
		if f.Mapping == Kernel && (i+1 == len(stack) || stack[i+1].Mapping != Kernel) {
			return KernelOther
		}
	}
	if len(stack) == 0 {
		return ""
	}
	switch leaf := stack[0]; {
	case goPackage(leaf.Name) == "runtime":
		return RuntimeOther
	case goPackage(leaf.Name) != "":
		return StandardLib
	case leaf.Mapping == "":
		return Own(program)
	default:
		return Own(leaf.Mapping)
	}
}

// GroupOf returns the group of one function, and why. A function that works for any
// caller has none: the result is "" with the reason.
func GroupOf(function, mapping string) (Group, string) {
	pack := goPackage(function)
	for i := range rules {
		if r := &rules[i]; r.matches(function, mapping, pack) {
			return r.group, r.reason
		}
	}
	switch {
	case assembly(function) != "":
		return Own(assembly(function)), "no rule puts it in another group, so it is the target's own"
	case mapping == Kernel:
		return "", "a function of the kernel belongs to the group of its caller"
	case pack != "":
		return Own(pack), "no rule puts it in another group, so it is the target's own"
	case strings.Contains(function, "::"):
		name := strings.TrimLeft(function, "<&")
		if i := strings.IndexByte(name, '('); i >= 0 && i < strings.Index(name, "::") { // a free C++ function
			return Own(program), "no rule puts it in another group, so it is the target's own"
		}
		return Own(name[:strings.Index(name, "::")]), "no rule puts it in another group, so it is the target's own"
	case mapping != "":
		return Own(mapping), "no rule puts it in another group, so it is the target's own"
	}
	return Own(program), "no rule puts it in another group, so it is the target's own"
}

// goPackage returns the import path of a Go function, "" of others. Only Go has
// names with a dot and neither "::" nor the "!" of .NET's.
func goPackage(function string) string {
	if i := strings.IndexByte(function, '['); i >= 0 { // an instantiation names other packages
		function = function[:i]
	}
	slash := strings.LastIndexByte(function, '/') + 1
	dot := strings.IndexByte(function[slash:], '.')
	if dot <= 0 || strings.Contains(function, "::") || assembly(function) != "" || strings.HasPrefix(function, "operator") {
		return ""
	}
	// The linker writes dots in the last element of a path as %2e.
	return strings.ReplaceAll(function[:slash+dot], "%2e", ".")
}

// assembly returns the assembly of a .NET method, whose name is assembly!Type.Method, "" of other
// functions. C++ has operators with an exclamation mark.
func assembly(function string) string {
	name, method, found := strings.Cut(function, "!")
	if !found || name == "operator" || strings.ContainsAny(name, ":( /") || !strings.Contains(method, ".") {
		return ""
	}
	return name
}

// A rule gives functions to a group.
type rule struct {
	group  Group
	reason string
	in     place
	// Any of these must match. A star stands for anything, at the start or the end.
	names     []string
	packages  []string // of Go
	libraries []string // shared libraries, whole
}

// A place says where a rule holds.
type place uint8

const (
	anywhere place = iota // outside of the kernel
	inKernel
	inLibc
)

func (r *rule) matches(function, mapping, pack string) bool {
	switch r.in {
	case inKernel:
		if mapping != Kernel {
			return false
		}
	case inLibc:
		if !libc(mapping) {
			return false
		}
	case anywhere:
		if mapping == Kernel {
			return false
		}
	}
	return anyMatch(r.names, function) || pack != "" && anyMatch(r.packages, pack) || anyMatch(r.libraries, mapping)
}

func libc(mapping string) bool {
	return slices.ContainsFunc([]string{"libc.so", "libc-", "libc.musl", "ld-musl", "ld-linux", "libpthread", "libm.so"},
		func(p string) bool { return strings.HasPrefix(mapping, p) })
}

func anyMatch(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, s) })
}

func match(pattern, s string) bool {
	if start, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(s, start)
	}
	if end, ok := strings.CutPrefix(pattern, "*"); ok {
		return strings.HasSuffix(s, end)
	}
	return s == pattern
}

// idles tells that a function does nothing: the kernel's idle task, which polls where
// CPUs are kept awake for a measurement.
func idles(f Function) bool { return f.Mapping == Kernel && anyMatch(idleFunctions, f.Name) }
