package profile

import (
	"strings"

	pprof "github.com/google/pprof/profile"
)

// Waits adds up an off-CPU profile. Every thread that waits is in the scheduler. So each wait counts
// for the function of the program that made the system call. The group names that system call.
func Waits(p *pprof.Profile, value string) (*Costs, error) { return sum(p, value, waiter, waitedIn) }

// waitedIn names the system call that a stack waits in. The kernel's functions for system
// calls have the architecture before the name. Without one the wait is for a page or an
// interrupt.
func waitedIn(stack []Function) Group {
	for _, f := range stack {
		if f.Mapping != Kernel {
			break
		}
		for _, prefix := range []string{"__x64_sys_", "__arm64_sys_", "__se_sys_", "__do_sys_"} {
			if name, ok := strings.CutPrefix(f.Name, prefix); ok {
				return Group("waiting in " + name)
			}
		}
	}
	return "waiting otherwise"
}

// waiter is the first function outside of the kernel that is more than a stub for system
// calls. If there is none, it is the first outside of the kernel, or the leaf.
func waiter(stack []Function) Function {
	var first Function
	for _, f := range stack {
		if f.Mapping == Kernel {
			continue
		}
		if first == (Function{}) {
			first = f
		}
		if g, _ := GroupOf(f.Name, f.Mapping); g != SystemCalls && g != "" && !libc(f.Mapping) {
			return f
		}
	}
	if first == (Function{}) {
		return stack[0]
	}
	return first
}
