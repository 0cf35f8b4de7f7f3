package kernel

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// A layout holds the facts about this kernel's own structures that the programs need, and
// that differ from kernel to kernel: offsets in bytes, and positions of arguments.
type layout struct {
	pid, tgid int16 // of struct task_struct, 4 bytes each

	// Where in task_struct the scheduler accounts for waits, 8 bytes each.
	runDelay, runs int16
	switchedOut    int16 // argument of sched_switch that is the thread switched out
	noWaits        error // why this cannot be had

	protocol      int16 // of struct sock, 2 bytes
	sourcePort    int32 // of struct inet_sock, 2 bytes in network order
	noConnections error

	localPort, remotePort int16 // of struct sock, 2 bytes each; the remote in network order
	segments              int32 // of struct sk_buff, 2 bytes
	retransmitError       bool  // tcp_retransmit_skb tells whether it failed
	noRetransmits         error
}

// readLayout finds the layout in the kernel's types.
func readLayout(types *btf.Spec) (l layout, err error) {
	f := finder{types: types}
	l.pid = f.offset(4, "task_struct", "pid")
	l.tgid = f.offset(4, "task_struct", "tgid")
	err = f.fault()

	l.runDelay = f.offset(8, "task_struct", "sched_info", "run_delay")
	l.runs = f.offset(8, "task_struct", "sched_info", "pcount")
	l.switchedOut = f.firstTask("sched_switch")
	l.noWaits = f.fault()

	l.protocol = f.offset(2, "sock", "sk_protocol")
	l.sourcePort = int32(f.offset(2, "inet_sock", "inet_sport"))
	f.tracepoint("inet_sock_set_state")
	l.noConnections = f.fault()

	l.localPort = f.offset(2, "sock", "__sk_common", "skc_num")
	l.remotePort = f.offset(2, "sock", "__sk_common", "skc_dport")
	// TCP keeps its own notes on a buffer in cb (the kernel's TCP_SKB_CB).
	l.segments = int32(f.offset(48, "sk_buff", "cb")) + int32(f.offset(2, "tcp_skb_cb", "tcp_gso_segs"))
	l.retransmitError = len(f.tracepoint("tcp_retransmit_skb")) > 2
	l.noRetransmits = f.fault()
	return l, err
}

// A finder looks into the kernel's types and collects what it does not find.
type finder struct {
	types *btf.Spec
	errs  []error
}

// fault returns what was not found since the last call of fault.
func (f *finder) fault() error {
	err := errors.Join(f.errs...)
	f.errs = nil
	return err
}

func (f *finder) offset(size int, path ...string) int16 {
	at, err := offset(f.types, size, path...)
	f.note(err)
	return at
}

func (f *finder) tracepoint(name string) []btf.Type {
	arguments, err := tracepoint(f.types, name)
	f.note(err)
	return arguments
}

// firstTask returns which argument of a tracepoint is its first thread.
func (f *finder) firstTask(name string) int16 {
	arguments, err := tracepoint(f.types, name)
	if err != nil {
		f.note(err)
		return 0
	}
	for i, a := range arguments {
		if p, ok := btf.As[*btf.Pointer](a); ok {
			if s, ok := btf.As[*btf.Struct](p.Target); ok && s.Name == "task_struct" {
				return int16(i)
			}
		}
	}
	f.note(fmt.Errorf("tracepoint %s: no argument is a thread", name))
	return 0
}

func (f *finder) note(err error) {
	if err != nil {
		f.errs = append(f.errs, err)
	}
}

// offset returns where a member of a structure is, given by its path, and checks its
// size.
func offset(types *btf.Spec, size int, path ...string) (int16, error) {
	name := "struct " + strings.Join(path, ".")
	var outer *btf.Struct
	if err := types.TypeByName(path[0], &outer); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	var t btf.Type = outer
	at := uint32(0)
	for _, step := range path[1:] {
		m, more, ok := member(t, step)
		if !ok {
			return 0, fmt.Errorf("%s: this kernel has no such member", name)
		}
		if m.BitfieldSize != 0 {
			return 0, fmt.Errorf("%s: a bit field in this kernel", name)
		}
		at, t = at+more, m.Type
	}
	found, err := btf.Sizeof(t)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	if found != size || at >= 1<<15 {
		return 0, fmt.Errorf("%s: %d bytes at %d in this kernel; want %d below %d", name, found, at, size, 1<<15)
	}
	return int16(at), nil
}

// member finds a member of a structure or union, also within those of its members
// that have no name.
func member(t btf.Type, name string) (m btf.Member, at uint32, ok bool) {
	var members []btf.Member
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		members = t.Members
	case *btf.Union:
		members = t.Members
	}
	for _, m := range members {
		if m.Name == name {
			return m, m.Offset.Bytes(), true
		}
		if m.Name == "" {
			if inner, more, ok := member(m.Type, name); ok {
				return inner, m.Offset.Bytes() + more, true
			}
		}
	}
	return m, 0, false
}

// tracepoint returns the types of the arguments that a tracepoint passes on.
func tracepoint(types *btf.Spec, name string) ([]btf.Type, error) {
	var def *btf.Typedef
	if err := types.TypeByName("btf_trace_"+name, &def); err != nil {
		return nil, fmt.Errorf("tracepoint %s: %w", name, err)
	}
	pointer, ok := btf.As[*btf.Pointer](def.Type)
	if !ok {
		return nil, fmt.Errorf("tracepoint %s: no pointer", name)
	}
	proto, ok := btf.As[*btf.FuncProto](pointer.Target)
	if !ok || len(proto.Params) < 1 {
		return nil, fmt.Errorf("tracepoint %s: no function", name)
	}
	var arguments []btf.Type
	for _, p := range proto.Params[1:] { // the first is the hook's own
		arguments = append(arguments, p.Type)
	}
	return arguments, nil
}
