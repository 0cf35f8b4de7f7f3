//go:build ignore

// The programs of the tracer. The kernel runs them at its tracepoints, and they count what the
// processes below one do. scripts/ebpf.sh compiles them.

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

// The kernel demands this of a program before it may read its structures.
char _license[] SEC("license") = "Dual MIT/GPL";

// Bounds of the set of threads that are observed at one time.
#define MOST_IDS (1 << 22)   // PID_MAX_LIMIT of the kernel's include/linux/threads.h
#define MOST_THREADS 16384   // whose waits are followed

#define SLOTS 512 // of system calls

// Waits are counted in buckets: waits.go says which.
#define SUB_BITS 4
#define SUB_BUCKETS (1 << SUB_BITS)
#define BUCKETS ((64 - SUB_BITS + 1) * SUB_BUCKETS)

// The names are those of the kernel's headers.
#define IPPROTO_TCP 6
enum {
	TCP_ESTABLISHED = 1, TCP_SYN_RECV = 3, TCP_FIN_WAIT1, TCP_FIN_WAIT2,
	TCP_CLOSE = 7, TCP_CLOSE_WAIT, TCP_LAST_ACK, TCP_CLOSING = 11,
};

// The parts of the kernel's structures that are read here. When a program is loaded, its reads are
// moved to where the running kernel has these members.
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sched_info {
	unsigned long pcount;         // how often the thread was given a CPU
	unsigned long long run_delay; // nanoseconds that it waited for one
};

struct task_struct {
	int pid, tgid;
	struct sched_info sched_info;
};

struct sock_common {
	__be16 skc_dport;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
};

struct inet_sock {
	__be16 inet_sport;
};

struct sk_buff {
	char cb[48];
};

struct tcp_skb_cb {
	__u16 tcp_gso_segs;
};
#pragma clang attribute pop

// This tracepoint of newer kernels also tells whether the segment could be sent.
typedef void (*btf_trace_tcp_retransmit_skb)(void *, const struct sock *, const struct sk_buff *, int);

// Set before the programs are loaded.
const volatile int root;   // the process whose descendants are observed
const volatile bool waits; // whether to count their waits for a CPU
bool ports[1 << 16];       // whose connections are observed, by port in network order

// The set has 1 at the id of each thread that is observed. It is an array rather than a hash table
// because all threads of the machine pay for the look into it.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, bool[MOST_IDS]);
} dyno_set SEC(".maps");

// The state of the scheduler's account of a thread when it last left a CPU.
struct waited {
	__u64 delay, runs;
	__u64 known; // 0: not yet looked at
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MOST_THREADS);
	__type(key, __u32);
	__type(value, struct waited);
} dyno_threads SEC(".maps");

struct counters {
	__u64 calls[SLOTS]; // system calls begun, by number
	__u64 accepts, established, closed, retransmits;
	__u64 waits, wait_nanoseconds;
	__u64 buckets[BUCKETS]; // of waits
	__u64 crowded;          // threads whose waits there was no place for
};

// Each CPU has counters of its own.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} dyno_counts SEC(".maps");

// This CPU's counters always exist, and so does the set, which the verifier does not know.
static __always_inline struct counters *counters(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&dyno_counts, &zero);
}

// A program may be interrupted by another that adds to the same counter.
static __always_inline void add(__u64 *counter, __u64 n)
{
	__sync_fetch_and_add(counter, n);
}

static __always_inline bool in_set(__u32 id)
{
	__u32 zero = 0;
	bool *set = bpf_map_lookup_elem(&dyno_set, &zero);
	return set && set[id & (MOST_IDS - 1)];
}

static __always_inline void set_to(__u32 id, bool in)
{
	__u32 zero = 0;
	bool *set = bpf_map_lookup_elem(&dyno_set, &zero);
	if (set)
		set[id & (MOST_IDS - 1)] = in;
}

static __always_inline void follow(__u32 id, struct waited *w)
{
	if (bpf_map_update_elem(&dyno_threads, &id, w, BPF_ANY) == 0)
		return;
	struct counters *c = counters();
	if (c)
		add(&c->crowded, 1);
}

// A process that the root starts is new below it. A thread of the root itself is not.
SEC("tp_btf/sched_process_fork")
int BPF_PROG(dyno_fork, struct task_struct *parent, struct task_struct *child)
{
	if (parent->tgid == root ? child->tgid == root : !in_set(parent->pid))
		return 0;
	set_to(child->pid, true);
	if (waits) {
		// The scheduler's account of a new thread begins with nothing.
		struct waited w = {.known = 1};
		follow(child->pid, &w);
	}
	return 0;
}

// A thread may execute a program while its process has other threads. Those exit, and it takes on
// the id of the process.
SEC("tp_btf/sched_process_exec")
int BPF_PROG(dyno_exec, struct task_struct *task, int old)
{
	if (old == task->pid || !in_set(old))
		return 0;
	set_to(old, false);
	set_to(task->pid, true);
	struct waited *w = waits ? bpf_map_lookup_elem(&dyno_threads, &old) : NULL;
	if (w) {
		struct waited moved = *w;
		bpf_map_delete_elem(&dyno_threads, &old);
		follow(task->pid, &moved);
	}
	return 0;
}

// bucket returns the bucket of a wait. It finds the highest bit by halves.
static __always_inline __u32 bucket(__u64 ns)
{
	if (ns < SUB_BUCKETS)
		return ns;
	__u32 exponent = 0;
	for (__u32 half = 32; half > 0; half /= 2)
		if (ns >> (exponent + half))
			exponent += half;
	__u32 shift = exponent - SUB_BITS;
	return (shift << SUB_BITS) + (ns >> shift);
}

// count_wait counts the wait that precedes the present time of a thread on a CPU. The scheduler
// itself adds up a thread's waits when it gives it a CPU, so the difference since the thread last
// left a CPU is one wait.
static __always_inline void count_wait(struct task_struct *task)
{
	__u32 id = task->pid;
	struct waited *w = bpf_map_lookup_elem(&dyno_threads, &id);
	if (!w)
		return;
	struct waited before = *w;
	w->delay = task->sched_info.run_delay;
	w->runs = task->sched_info.pcount;
	w->known = 1;
	struct counters *c = counters();
	if (!c || !before.known || before.runs == w->runs)
		return;
	__u64 ns = w->delay - before.delay;
	add(&c->waits, 1);
	add(&c->wait_nanoseconds, ns);
	__u32 b = bucket(ns);
	if (b < BUCKETS) // always, which the verifier does not know
		add(&c->buckets[b], 1);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(dyno_exit, struct task_struct *task)
{
	__u32 id = task->pid;
	if (!in_set(id))
		return 0;
	set_to(id, false);
	if (waits) {
		count_wait(task); // its last
		bpf_map_delete_elem(&dyno_threads, &id);
	}
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(dyno_switch, bool preempted, struct task_struct *leaves)
{
	if (in_set(leaves->pid))
		count_wait(leaves);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(dyno_call, void *registers, __u64 number)
{
	if (!in_set(bpf_get_current_pid_tgid()))
		return 0;
	struct counters *c = counters();
	if (!c)
		return 0;
	if (number >= SLOTS) // −1 too
		number = SLOTS - 1;
	add(&c->calls[number], 1);
	return 0;
}

// What a tracepoint at the end of a system call passes on, as its format in tracefs says.
struct call_end {
	__u64 common;
	__s64 number, returned;
};

static __always_inline int accepted(struct call_end *call)
{
	if (call->returned >= 0 && in_set(bpf_get_current_pid_tgid())) {
		struct counters *c = counters();
		if (c)
			add(&c->accepts, 1);
	}
	// With 0 the kernel would keep the event from perf events on this tracepoint, which may be
	// others'.
	return 1;
}

SEC("tracepoint/syscalls/sys_exit_accept")
int dyno_accept(struct call_end *call)
{
	return accepted(call);
}

SEC("tracepoint/syscalls/sys_exit_accept4")
int dyno_accept4(struct call_end *call)
{
	return accepted(call);
}

static __always_inline bool connected(int state)
{
	switch (state) {
	case TCP_ESTABLISHED:
	case TCP_FIN_WAIT1:
	case TCP_FIN_WAIT2:
	case TCP_CLOSE_WAIT:
	case TCP_LAST_ACK:
	case TCP_CLOSING:
		return true;
	}
	return false;
}

// on_ports tells whether a socket's own port is observed. The port by which a socket is found is
// gone when its connection ends; this one stays.
static __always_inline bool on_ports(struct sock *sk)
{
	__be16 port;
	return bpf_core_read(&port, sizeof(port), &((struct inet_sock *)sk)->inet_sport) == 0 && ports[port];
}

// Connections of the ports are counted that are established by the other end, and all that end.
// However a connection ends, its socket goes to CLOSE once. That includes a connection that leaves a
// TIME_WAIT, which is no longer a socket.
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(dyno_state, struct sock *sk, int before, int after)
{
	if (sk->sk_protocol != IPPROTO_TCP || !on_ports(sk))
		return 0;
	struct counters *c = counters();
	if (!c)
		return 0;
	if (before == TCP_SYN_RECV && after == TCP_ESTABLISHED)
		add(&c->established, 1);
	if (connected(before) && after == TCP_CLOSE)
		add(&c->closed, 1);
	return 0;
}

// Segments are counted that either end of a connection of the ports sends again.
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(dyno_retransmit, struct sock *sk, struct sk_buff *skb)
{
	if (bpf_core_type_exists(btf_trace_tcp_retransmit_skb) && (int)ctx[2] != 0)
		return 0;
	if (!on_ports(sk) && !ports[sk->__sk_common.skc_dport])
		return 0;
	// TCP keeps its own notes on a buffer in cb, which the verifier takes for an array of bytes.
	__u16 segments;
	if (bpf_core_read(&segments, sizeof(segments), &((struct tcp_skb_cb *)skb->cb)->tcp_gso_segs))
		return 0;
	struct counters *c = counters();
	if (c)
		add(&c->retransmits, segments);
	return 0;
}
