//go:build ignore

// The programs that add up waits. They run at the scheduler's tracepoints.
// scripts/ebpf.sh compiles them.

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

// The kernel demands this of a program before it may read stacks.
char _license[] SEC("license") = "Dual MIT/GPL";

// Bounds of the tables. Waits that do not fit are counted in lost.
#define MOST_PROCESSES (1 << 14)
#define MOST_BLOCKED (1 << 15) // threads at once
#define MOST_TOTALS (1 << 14)  // pairs of stacks
#define MOST_STACKS (1 << 13)
#define DEPTH 127 // kernel.perf_event_max_stack, unless it was changed

// TASK_INTERRUPTIBLE, UNINTERRUPTIBLE, STOPPED and TRACED. Zero is a thread that was preempted, and
// others are ending.
#define BLOCKED_STATES 0x0f

// What the tracepoints pass on, as far as it is read here. When a program is loaded, its reads are
// moved to where the running kernel has these members.
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct trace_event_raw_sched_switch {
	long prev_state;
	int next_pid;
};

struct trace_event_raw_sched_process_fork {
	int child_pid;
};

struct trace_event_raw_sched_process_template {
	int pid;
};
#pragma clang attribute pop

// The processes: what to do with each. Children of both kinds are watched.
enum { FOLLOWED, WATCHED };

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MOST_PROCESSES);
	__type(key, __u32);
	__type(value, __u32);
} processes SEC(".maps");

// A place is where threads of a process wait: by the numbers of two stacks, which are error codes
// where there is none.
struct place {
	__u32 process;
	__s32 kernel, user;
};

// A wait is one that has not ended, by thread.
struct wait {
	__u64 since; // nanoseconds
	struct place place;
	__u32 padding;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MOST_BLOCKED);
	__type(key, __u32);
	__type(value, struct wait);
} blocked SEC(".maps");

// A total sums up all ended waits at a place.
struct total {
	__u64 nanoseconds, waits;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MOST_TOTALS);
	__type(key, struct place);
	__type(value, struct total);
} totals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, MOST_STACKS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, DEPTH * sizeof(__u64));
} stacks SEC(".maps");

__u64 lost; // waits

// For a thread the entry is of its own number, which no process has; dyno_free takes it away.
SEC("tracepoint/sched/sched_process_fork")
int dyno_fork(struct trace_event_raw_sched_process_fork *event)
{
	__u32 parent = bpf_get_current_pid_tgid() >> 32, child = event->child_pid, watched = WATCHED;
	if (bpf_map_lookup_elem(&processes, &parent))
		bpf_map_update_elem(&processes, &child, &watched, BPF_ANY);
	return 0;
}

// Forgets a process or thread. The first thread of a process is freed last.
SEC("tracepoint/sched/sched_process_free")
int dyno_free(struct trace_event_raw_sched_process_template *event)
{
	__u32 id = event->pid;
	bpf_map_delete_elem(&processes, &id);
	bpf_map_delete_elem(&blocked, &id);
	return 0;
}

// Stores when and where the current thread begins to wait.
static __always_inline void begin_wait(void *event, __u64 now)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 process = id >> 32, thread = id;
	__u32 *how = bpf_map_lookup_elem(&processes, &process);
	if (!how || *how == FOLLOWED)
		return;
	struct wait w = {.since = now};
	w.place.process = process;
	w.place.kernel = bpf_get_stackid(event, &stacks, 0);
	w.place.user = bpf_get_stackid(event, &stacks, BPF_F_USER_STACK);
	if (bpf_map_update_elem(&blocked, &thread, &w, BPF_ANY) != 0)
		__sync_fetch_and_add(&lost, 1);
}

// Adds the wait of a thread to the total of the place where it waited.
static __always_inline void end_wait(__u32 thread, __u64 now)
{
	struct wait *found = bpf_map_lookup_elem(&blocked, &thread);
	if (!found)
		return;
	struct wait w = *found;
	bpf_map_delete_elem(&blocked, &thread);
	struct total *t = bpf_map_lookup_elem(&totals, &w.place);
	if (!t) {
		struct total none = {};
		bpf_map_update_elem(&totals, &w.place, &none, BPF_NOEXIST); // another CPU may be first
		t = bpf_map_lookup_elem(&totals, &w.place);
	}
	if (!t) {
		__sync_fetch_and_add(&lost, 1);
		return;
	}
	__sync_fetch_and_add(&t->nanoseconds, now - w.since);
	__sync_fetch_and_add(&t->waits, 1);
}

// Runs as the thread that leaves its CPU. If that thread has to wait, its wait begins. That of the
// thread that comes next has ended.
SEC("tracepoint/sched/sched_switch")
int dyno_switch(struct trace_event_raw_sched_switch *event)
{
	__u64 now = bpf_ktime_get_ns();
	if (event->prev_state & BLOCKED_STATES)
		begin_wait(event, now);
	end_wait(event->next_pid, now);
	return 0;
}
