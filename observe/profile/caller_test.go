package profile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestCalls(t *testing.T) {
	const module = "example.org/app"
	for _, c := range []struct{ name, stack, function, caller string }{
		{"Go: the handler, not its library", "crypto/sha256.block crypto/sha256.Sum256 main.extra main.serve net/http.(*conn).serve", "crypto/sha256.block", "main.extra"},
		{"Go: another package of the module", "runtime.mallocgc golang.org/x/text.f example.org/app/store.(*Cache[...]).Get main.main", "runtime.mallocgc", "example.org/app/store.(*Cache[...]).Get"},
		{"Go: a module of a similar name is another", "runtime.mallocgc example.org/app2.f main.main", "runtime.mallocgc", "main.main"},
		{"Go: the module's own root package", "runtime.mallocgc example.org/app.Run", "runtime.mallocgc", "example.org/app.Run"},
		{"Go: assembly without a package is not its own", "memeqbody internal/bytealg.Equal main.f", "memeqbody", "main.f"},
		{"Go: the kernel below a closure", "k:tcp_sendmsg k:do_syscall_64 syscall.write main.main.func1", "tcp_sendmsg (kernel)", "main.main.func1"},
		{"Go: an interrupt", "k:irqentry_exit_to_user_mode k:asm_sysvec_apic_timer_interrupt main.f", "irqentry_exit_to_user_mode (kernel)", ""},
		{"Go: the network, in an interrupt", "k:tcp_ack k:asm_common_interrupt main.f", "tcp_ack (kernel)", ""},
		{"Go: a page fault", "k:clear_page_rep k:asm_exc_page_fault runtime.memclr main.f", "clear_page_rep (kernel)", "main.f"},
		{"Go: a kernel that hides its symbols", "k:[kernel] syscall.write main.f", "[kernel] (kernel)", "main.f"},
		{"Go: its own function", "main.f main.main", "main.f", ""},
		{"Go: nobody", "runtime.gcDrain runtime.gcBgMarkWorker", "runtime.gcDrain", ""},
		{"C: below a library", "libc.so.6:memcpy libssl.so.3:read [unknown] handle main", "memcpy (libc.so.6)", "handle"},
		{"C: its own function", "handle main", "handle", ""},
		{"C: only a library", "libc.so.6:memcpy libssl.so.3:read", "memcpy (libc.so.6)", ""},
	} {
		calls, err := Calls(made("cpu", map[string]int64{c.stack: 5}), "cpu", module)
		if err != nil || len(calls) != 1 {
			t.Fatalf("%s: %v, %v", c.name, calls, err)
		}
		for call, v := range calls {
			if call.Function.String() != c.function || call.Caller.String() != c.caller || v != 5 {
				t.Errorf("%s: %v of %s by %q, want %s by %q", c.name, v, call.Function, call.Caller, c.function, c.caller)
			}
		}
	}
	p := made("cpu", map[string]int64{"runtime.mallocgc example.org/app/store.Get main.main": 5})
	calls, err := Calls(p, "cpu", "")
	if want := (map[Call]float64{{Function{"runtime.mallocgc", ""}, Function{"main.main", ""}}: 5}); err != nil || !cmp.Equal(want, calls) {
		t.Errorf("without a module: %v, %v", calls, err)
	}
	if _, err := Calls(p, "wall", ""); err == nil {
		t.Error("a value that is not there: no error")
	}
	waits, err := WaitCalls(made("off_cpu", map[string]int64{"k:schedule k:__x64_sys_read libc.so.6:read libz.so.1:gzread load main": 3}), "off_cpu", "")
	if want := (map[Call]float64{{Function{"gzread", "libz.so.1"}, Function{"load", ""}}: 3}); err != nil || !cmp.Equal(want, waits) {
		t.Errorf("of waits: %v, %v", waits, err)
	}
}

// By caller, a function's costs add up to what the table has of it.
func TestCallsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := stacks(t, "p")
		for _, of := range []string{"table", "waits"} {
			table, divide := Table, Calls
			if of == "waits" {
				table, divide = Waits, WaitCalls
			}
			costs, err := table(p, "cpu")
			if err != nil {
				t.Fatal(err)
			}
			calls, err := divide(p, "cpu", "main")
			if err != nil {
				t.Fatal(err)
			}
			sums := map[Function]float64{}
			for c, v := range calls {
				sums[c.Function] += v
			}
			if d := cmp.Diff(costs.Flat, sums); d != "" {
				t.Errorf("%s: %s", of, d)
			}
		}
	})
}
