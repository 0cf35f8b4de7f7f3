// Package kernel observes a program from inside the kernel: its system calls by name, accepted and
// ended connections, segments sent again, and its threads' waits for a CPU.
//
//	o, err := kernel.New(kernel.DefaultConfig("kernel", supervisor, port))
//	…
//	rec, err := observe.NewRecorder(observe.Config{Origin: start}, tree, o)
//	…
//	o.Syscalls() // of all names, since New
//
// The kernel decides what belongs to the program: all processes below the root and everything they
// start, from the first instruction on. This holds when a parent dies, or a thread other than the first
// executes another program. Nothing is polled, and what lives shorter than a tick is counted like all
// else.
//
// # What is counted
//
// System calls are counted when they begin (tracepoint raw_syscalls:sys_enter), by
// number. Calls that never enter the kernel (vdso(7)) are none. The calls of 32-bit
// programs on a 64-bit kernel have numbers of their own, and stand under wrong names.
//
// Accepts are calls of accept and accept4 that returned a descriptor, on whatever socket
// (syscalls:sys_exit_accept and sys_exit_accept4). Connections that io_uring accepts are not counted
// here; it is among the connections.
//
// Connections are counted by local port (sock:inet_sock_set_state), whichever process
// they belong to. One is established when the third segment of its handshake is there,
// which is before it is accepted; it is closed when the kernel has done with its
// socket. A TIME_WAIT that remains is not waited for. Connections that were open
// before are among those that are closed. Other network namespaces of the machine
// with the same ports count too.
//
// Retransmits are segments (tcp:tcp_retransmit_skb), as in a socket's tcpi_total_retrans. Either end of
// a connection to the ports may send them, when both are on this machine. A SYN-ACK that is sent again
// is not among them.
//
// Waits are from when a thread could run until it did: the scheduler's own account of each thread, read
// whenever a thread leaves a CPU (sched:sched_switch). It is run_delay and pcount of struct sched_info,
// also in /proc/PID/schedstat. So a wait is counted when the time on a CPU that followed it is over.
// Percentiles come from buckets a sixteenth of a power of two wide: within 6.25 %, below 32 ns within 1
// ns.
//
// Every event adds to counters of its own CPU, atomically. The kernel does not run a program for an
// event that interrupts the same program; missed_events_total says how often that was. Kernels of some
// virtual machines run no programs for events in, or interrupted by, the agent of the machine's owner.
// On one of them that was about 1 of 100 segments that were sent again. Nothing says how often that
// was.
//
// # What it costs
//
// CPU time that one system call takes more, on two EPYC vCPUs, Linux 6.18. The call, getppid(2), takes
// 270 ns without. (The figures are medians of paired differences; good to about 30 ns, since others
// used the machine too):
//
//	                         in the program   in any other
//	SystemCalls              150 ns           160 ns
//	SystemCalls and Accepts  210 ns           210 ns
//	perf events              270 ns           160 ns
//
// Most of it is the kernel's longer way into and out of a system call that is traced
// at all. All programs of the machine pay it, the generator too: a server that makes
// three calls for a request of 20 µs of CPU time loses 2 to 3 %. Where that is too
// much, observe in trials of their own, as with profiles. RunQueue costs 150 to 270 ns
// for each context switch, of any program. Connections are hooks at events so rare
// that they were not measured. A reading takes about 50 µs, New 70 ms, Close 150 ms.
//
// # Where it works
//
// By eBPF with CAP_BPF and CAP_PERFMON, or root, on Linux 5.8 or newer that says its own types
// (CONFIG_DEBUG_INFO_BTF); accepts need tracefs too. The programs (tracer.c) are part of dyno,
// compiled; their loader adjusts them to the kernel that is found. Elsewhere, perf events on
// tracepoints (CAP_PERFMON and tracefs) count accepts and system calls, by name those with a column. So
// they do in a container with process ids of its own; what the root itself starts later is then not
// seen, and Close takes a second. Method says which it is, and Missing what that costs.
package kernel
