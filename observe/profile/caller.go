package profile

import (
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"
)

// A Call is a function that had a cost, and the nearest of its callers that is the program's own:
// in Go a function of package main or of its module, otherwise one in the program's own file.
// Caller is empty if there is none, or if the function is the program's own itself.
type Call struct{ Function, Caller Function }

// Calls divides the costs that Table has of functions by caller. Module is the path of a Go program's
// main module; without one, package main alone is its own.
func Calls(p *pprof.Profile, value, module string) (map[Call]float64, error) {
	return calls(p, value, module, leaf)
}

// WaitCalls divides those that Waits has.
func WaitCalls(p *pprof.Profile, value, module string) (map[Call]float64, error) {
	return calls(p, value, module, waiter)
}

func calls(p *pprof.Profile, value, module string, of func(stack []Function) Function) (map[Call]float64, error) {
	costs := map[Call]float64{}
	_, _, err := eachStack(p, value, func(stack []Function, v float64) {
		f := of(stack)
		costs[Call{f, caller(stack[slices.Index(stack, f):], module)}] += v
	})
	if err != nil {
		return nil, err
	}
	return costs, nil
}

// caller returns the nearest function of the program's own above the leaf of a stack. Kernel work in an
// interrupt has none: the code that it hit did not call it.
func caller(stack []Function, module string) Function {
	if user := slices.IndexFunc(stack, func(f Function) bool { return f.Mapping != Kernel }); user > 0 {
		entry := stack[user-1].Name
		if g, _ := GroupOf(entry, Kernel); g == KernelOther && entry != "asm_exc_page_fault" {
			return Function{}
		}
	}
	inGo := slices.ContainsFunc(stack, func(f Function) bool { return f.Mapping == "" && goPackage(f.Name) != "" })
	own := func(f Function) bool {
		if f.Mapping != "" || f.Name == Unknown {
			return false
		}
		pack := goPackage(f.Name)
		return !inGo || pack == "main" || module != "" && (pack == module || strings.HasPrefix(pack, module+"/"))
	}
	if i := slices.IndexFunc(stack, own); i > 0 {
		return stack[i]
	}
	return Function{}
}
