package profile

import "testing"

func TestWaiter(t *testing.T) {
	kernel := func(names ...string) (stack []Function) {
		for _, n := range names {
			stack = append(stack, Function{n, Kernel})
		}
		return stack
	}
	epoll := kernel("__schedule", "schedule", "ep_poll", "do_epoll_wait", "__x64_sys_epoll_wait", "do_syscall_64")
	for name, c := range map[string]struct {
		stack []Function
		who   Function
		in    Group
	}{
		"go": {
			append(epoll, Function{Name: "internal/runtime/syscall/linux.Syscall6"}, Function{Name: "main.(*loop).wait"}, Function{Name: "main.main"}),
			Function{Name: "main.(*loop).wait"}, "waiting in epoll_wait",
		},
		"c": {
			append(kernel("__schedule", "futex_wait", "__arm64_sys_futex"), Function{"__lll_lock_wait", "libc.so.6"}, Function{Name: "take"}),
			Function{Name: "take"}, "waiting in futex",
		},
		"only libc":    {append(kernel("schedule", "__x64_sys_read"), Function{"read", "libc.so.6"}), Function{"read", "libc.so.6"}, "waiting in read"},
		"a page fault": {kernel("schedule", "io_schedule", "filemap_fault"), Function{"schedule", Kernel}, "waiting otherwise"},
	} {
		if got := waiter(c.stack); got != c.who {
			t.Errorf("%s: %v, want %v", name, got, c.who)
		}
		if got := waitedIn(c.stack); got != c.in {
			t.Errorf("%s: %v, want %v", name, got, c.in)
		}
	}
}
