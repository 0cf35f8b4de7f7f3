package kernel

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf/asm"
)

// Bounds of the set of threads that are observed at one time.
const (
	mostIDs     = 1 << 22 // PID_MAX_LIMIT of the kernel's include/linux/threads.h
	mostThreads = 16384   // whose waits are followed
)

// Names of the maps, and of the place where every program ends.
const (
	setMap     = "dyno_set"     // one byte for each thread id: 1 if it is in the set
	threadsMap = "dyno_threads" // thread id → waited
	countsMap  = "dyno_counts"  // 0 → counters, on each CPU its own
	out        = "out"
)

// counters are the counts of one CPU.
type counters struct {
	Calls                                     [slots]uint64 // system calls begun, by number
	Accepts, Established, Closed, Retransmits uint64
	Waits, WaitNanoseconds                    uint64
	Buckets                                   [buckets]uint64 // of waits
	Crowded                                   uint64          // threads whose waits there was no place for
}

// waited is the state of the scheduler's account of a thread when it last left a CPU.
type waited struct {
	Delay, Runs uint64
	Known       uint64 // 0: not yet looked at
}

const (
	delayIn = int16(unsafe.Offsetof(waited{}.Delay))
	runsIn  = int16(unsafe.Offsetof(waited{}.Runs))
	knownIn = int16(unsafe.Offsetof(waited{}.Known))
)

// Offsets on the stack of values that are passed by address.
const (
	idAt    = -4                                      // a thread's id
	zeroAt  = -8                                      // the key of the counters
	entryAt = zeroAt - int16(unsafe.Sizeof(waited{})) // a value of the set
	halfAt  = entryAt - 8                             // two bytes
)

// The names are those of the kernel's headers.
const (
	tcpEstablished, tcpSynRecv, tcpFinWait1, tcpFinWait2 = 1, 3, 4, 5
	tcpClose, tcpCloseWait, tcpLastAck, tcpClosing       = 7, 8, 9, 11
	protocolTCP                                          = 6
	updateAny                                            = 0
)

// A probe is a program and the tracepoint that it is attached to.
type probe struct {
	name   string // at most 15 bytes
	group  string // of the tracepoint in tracefs; "" to attach to the kernel's own, which is cheaper
	target string
	code   asm.Instructions
}

// tracking are the probes that maintain the set. A process or thread below root is in it
// from before its first instruction until it exits. The set is an array rather than a
// hash table because all threads of the machine pay for the look into it.
func tracking(l layout, root int, waits bool) []probe {
	return []probe{
		{"dyno_fork", "", "sched_process_fork", onFork(l, root, waits)},
		{"dyno_exec", "", "sched_process_exec", onExec(l, waits)},
		{"dyno_exit", "", "sched_process_exit", onExit(l, waits)},
	}
}

// The programs below read the kernel's structures by plain loads, which the
// verifier checks against the kernel's types. Registers 6 to 9 outlive calls.

func onFork(l layout, root int, waits bool) asm.Instructions {
	const parent, child = asm.R6, asm.R7
	code := join(
		asm.Instructions{
			asm.LoadMem(parent, asm.R1, 0, asm.DWord),
			asm.LoadMem(child, asm.R1, 8, asm.DWord),
			// A process that the root starts is new below it. A thread of the root itself
			// is not.
			asm.LoadMem(asm.R1, parent, l.tgid, asm.Word),
			asm.JNE.Imm(asm.R1, int32(root), "not by root"),
			asm.LoadMem(asm.R1, child, l.tgid, asm.Word),
			asm.JNE.Imm(asm.R1, int32(root), "add"),
			asm.Ja.Label(out),
			asm.LoadMem(asm.R1, parent, l.pid, asm.Word).WithSymbol("not by root"),
		},
		onlyInSet(asm.R1),
		asm.Instructions{asm.LoadMem(asm.R8, child, l.pid, asm.Word).WithSymbol("add")},
		setTo(1, asm.R8),
	)
	if waits {
		code = append(code,
			asm.StoreMem(asm.RFP, idAt, asm.R8, asm.Word),
			// The scheduler's account of a new thread begins with nothing.
			asm.Mov.Imm(asm.R1, 0),
			asm.StoreMem(asm.RFP, entryAt+delayIn, asm.R1, asm.DWord),
			asm.StoreMem(asm.RFP, entryAt+runsIn, asm.R1, asm.DWord),
			asm.Mov.Imm(asm.R1, 1),
			asm.StoreMem(asm.RFP, entryAt+knownIn, asm.R1, asm.DWord))
		code = append(code, insert()...)
	}
	return append(code, end()...)
}

// onExec follows a thread that executes a program while its process has other threads.
// Those exit, and it takes on the id of the process.
func onExec(l layout, waits bool) asm.Instructions {
	const old = asm.R7
	code := join(
		asm.Instructions{
			asm.LoadMem(asm.R6, asm.R1, 0, asm.DWord),
			asm.LoadMem(old, asm.R1, 8, asm.DWord),
			asm.LoadMem(asm.R8, asm.R6, l.pid, asm.Word),
			asm.JEq.Reg32(old, asm.R8, out),
		},
		onlyInSet(old),
		setTo(0, old),
		setTo(1, asm.R8),
	)
	if !waits {
		return append(code, end()...)
	}
	code = append(code, lookup(old)...)
	code = append(code, asm.JEq.Imm(asm.R0, 0, out))
	for at := range int16(unsafe.Sizeof(waited{})) / 8 {
		code = append(code,
			asm.LoadMem(asm.R1, asm.R0, 8*at, asm.DWord),
			asm.StoreMem(asm.RFP, entryAt+8*at, asm.R1, asm.DWord))
	}
	return join(code, remove(),
		asm.Instructions{asm.StoreMem(asm.RFP, idAt, asm.R8, asm.Word)},
		insert(), end())
}

// onExit takes a thread out of the set, after its last wait.
func onExit(l layout, waits bool) asm.Instructions {
	code := join(
		asm.Instructions{
			asm.LoadMem(asm.R6, asm.R1, 0, asm.DWord),
			asm.LoadMem(asm.R7, asm.R6, l.pid, asm.Word),
		},
		onlyInSet(asm.R7),
		setTo(0, asm.R7),
	)
	if !waits {
		return append(code, end()...)
	}
	gone := remove()
	gone[0] = gone[0].WithSymbol("remove")
	return join(code, lookup(asm.R7),
		asm.Instructions{asm.JEq.Imm(asm.R0, 0, out)},
		wait(l, "remove"), gone, end())
}

// onSystemCall counts a call of a thread in the set.
func onSystemCall() asm.Instructions {
	const number = asm.R6
	return join(
		asm.Instructions{
			asm.LoadMem(number, asm.R1, 8, asm.DWord),
			asm.FnGetCurrentPidTgid.Call(), // the thread's id is the lower half
		},
		onlyInSet(asm.R0),
		counts(out),
		asm.Instructions{
			asm.JLE.Imm(number, lastSlot, "in range"), // unsigned: −1 is not
			asm.Mov.Imm(number, lastSlot),
			asm.LSh.Imm(number, 3).WithSymbol("in range"),
			asm.Add.Reg(asm.R0, number),
		},
		increment(unsafe.Offsetof(counters{}.Calls)),
		end(),
	)
}

// onAccept counts an accept of a thread in the set that returned a descriptor.
func onAccept() asm.Instructions {
	return join(
		asm.Instructions{
			asm.LoadMem(asm.R6, asm.R1, 16, asm.DWord), // ret, says the tracepoint's format
			asm.JSLT.Imm(asm.R6, 0, out),
			asm.FnGetCurrentPidTgid.Call(),
		},
		onlyInSet(asm.R0),
		counts(out),
		increment(unsafe.Offsetof(counters{}.Accepts)),
		// With 0 the kernel would keep the event from perf events on this tracepoint,
		// which may be others'.
		asm.Instructions{asm.Mov.Imm(asm.R0, 1).WithSymbol(out), asm.Return()},
	)
}

// onSwitch counts the wait before the time on a CPU that a thread now ends.
func onSwitch(l layout) asm.Instructions {
	return join(
		asm.Instructions{
			asm.LoadMem(asm.R6, asm.R1, 8*l.switchedOut, asm.DWord),
			asm.LoadMem(asm.R7, asm.R6, l.pid, asm.Word),
		},
		onlyInSet(asm.R7),
		lookup(asm.R7),
		asm.Instructions{asm.JEq.Imm(asm.R0, 0, out)},
		wait(l, out),
		end(),
	)
}

// onState counts connections of the ports that are established by the other end, and all
// that end. However a connection ends, its socket goes to CLOSE once. That includes a
// connection that leaves a TIME_WAIT, which is no longer a socket.
func onState(l layout, ports []uint16) asm.Instructions {
	const sock, before, after = asm.R6, asm.R7, asm.R8
	code := asm.Instructions{
		asm.LoadMem(sock, asm.R1, 0, asm.DWord),
		asm.LoadMem(before, asm.R1, 8, asm.DWord),
		asm.LoadMem(after, asm.R1, 16, asm.DWord),
		asm.LoadMem(asm.R1, sock, l.protocol, asm.Half),
		asm.JNE.Imm(asm.R1, protocolTCP, out),
	}
	// The port that belongs to the socket's lookup is gone at the end; this one stays.
	code = append(code, half(sock, l.sourcePort)...)
	code = append(code, oneOf(asm.R1, networkOrder(ports), "ours")...)
	code = append(code,
		asm.Ja.Label(out),
		asm.JEq.Imm(after, tcpClose, "closed").WithSymbol("ours"),
		asm.JNE.Imm(after, tcpEstablished, out),
		asm.JNE.Imm(before, tcpSynRecv, out),
	)
	code = append(code, counts(out)...)
	code = append(code, increment(unsafe.Offsetof(counters{}.Established))...)
	code = append(code,
		asm.Ja.Label(out),
		asm.Mov.Reg(asm.R1, before).WithSymbol("closed"),
	)
	connected := []uint16{tcpEstablished, tcpFinWait1, tcpFinWait2, tcpCloseWait, tcpLastAck, tcpClosing}
	code = append(code, oneOf(asm.R1, connected, "count")...)
	code = append(code, asm.Ja.Label(out))
	last := counts(out)
	last[0] = last[0].WithSymbol("count")
	return join(code, last, increment(unsafe.Offsetof(counters{}.Closed)), end())
}

// onRetransmit counts segments that are sent again, by either end of a connection of
// the ports.
func onRetransmit(l layout, ports []uint16) asm.Instructions {
	const sock, buffer = asm.R6, asm.R7
	code := asm.Instructions{
		asm.LoadMem(sock, asm.R1, 0, asm.DWord),
		asm.LoadMem(buffer, asm.R1, 8, asm.DWord),
	}
	if l.retransmitError {
		code = append(code,
			asm.LoadMem(asm.R1, asm.R1, 16, asm.DWord),
			asm.JNE.Imm32(asm.R1, 0, out))
	}
	code = append(code, asm.LoadMem(asm.R1, sock, l.localPort, asm.Half))
	code = append(code, oneOf(asm.R1, ports, "ours")...)
	code = append(code, asm.LoadMem(asm.R1, sock, l.remotePort, asm.Half))
	code = append(code, oneOf(asm.R1, networkOrder(ports), "ours")...)
	code = append(code,
		asm.Ja.Label(out),
	)
	segments := half(buffer, l.segments) // the verifier takes cb for an array of bytes
	segments[0] = segments[0].WithSymbol("ours")
	return join(code, segments,
		asm.Instructions{asm.Mov.Reg(asm.R8, asm.R1)},
		counts(out),
		asm.Instructions{add(unsafe.Offsetof(counters{}.Retransmits), asm.R8)},
		end())
}

// wait counts the wait that precedes the present time of thread R6 on a CPU. R0 points to
// the stored account of the thread. It goes to done when there is nothing to count.
//
// The scheduler itself adds up a thread's waits (struct sched_info) when it gives it a
// CPU, so the difference since the thread last left a CPU is one wait.
func wait(l layout, done string) asm.Instructions {
	const entry, runs, delay = asm.R7, asm.R8, asm.R9
	return join(
		asm.Instructions{
			asm.Mov.Reg(entry, asm.R0),
			asm.LoadMem(runs, asm.R6, l.runs, asm.DWord),
			asm.LoadMem(delay, asm.R6, l.runDelay, asm.DWord),
			asm.LoadMem(asm.R1, entry, knownIn, asm.DWord),
			asm.LoadMem(asm.R2, entry, runsIn, asm.DWord),
			asm.LoadMem(asm.R3, entry, delayIn, asm.DWord),
			asm.StoreMem(entry, runsIn, runs, asm.DWord),
			asm.StoreMem(entry, delayIn, delay, asm.DWord),
			asm.Mov.Imm(asm.R4, 1),
			asm.StoreMem(entry, knownIn, asm.R4, asm.DWord),
			asm.JEq.Imm(asm.R1, 0, done),
			asm.JEq.Reg(asm.R2, runs, done),
			asm.Sub.Reg(delay, asm.R3),
		},
		counts(done),
		increment(unsafe.Offsetof(counters{}.Waits)),
		asm.Instructions{add(unsafe.Offsetof(counters{}.WaitNanoseconds), delay)},
		bucketOf(delay, done),
		asm.Instructions{
			asm.LSh.Imm(delay, 3),
			asm.Add.Reg(asm.R0, delay),
		},
		increment(unsafe.Offsetof(counters{}.Buckets)),
	)
}

// bucketOf turns ns into the bucket that the function bucket returns. It uses registers 1
// to 3. Its jump to done never happens, but the verifier wants to see it.
func bucketOf(ns asm.Register, done string) asm.Instructions {
	const exponent, high, rest = asm.R1, asm.R2, asm.R3
	code := asm.Instructions{
		asm.JLT.Imm(ns, subBuckets, "bucket"),
		asm.Mov.Reg(rest, ns),
		asm.Mov.Imm(exponent, 0),
	}
	// The exponent is the number of the highest bit, found by halves.
	halves := []string{"of 64", "of 32", "of 16", "of 8", "of 4", "of 2", "found"}
	for i, shift := 0, int32(32); shift > 0; i, shift = i+1, shift/2 {
		code = append(code,
			asm.Mov.Reg(high, rest).WithSymbol(halves[i]),
			asm.RSh.Imm(high, shift),
			asm.JEq.Imm(high, 0, halves[i+1]),
			asm.Mov.Reg(rest, high),
			asm.Add.Imm(exponent, shift),
		)
	}
	return append(code,
		asm.Sub.Imm(exponent, subBits).WithSymbol("found"),
		asm.RSh.Reg(ns, exponent),
		asm.LSh.Imm(exponent, subBits),
		asm.Add.Reg(ns, exponent),
		asm.JGE.Imm(ns, buckets, done).WithSymbol("bucket"),
	)
}

// inSet leaves in R1 where the set has the thread whose id is in the register.
func inSet(id asm.Register) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg32(asm.R2, id), // without the process's id, which may stand in the upper half
		asm.And.Imm(asm.R2, mostIDs-1),
		asm.LoadMapValue(asm.R1, 0, 0).WithReference(setMap),
		asm.Add.Reg(asm.R1, asm.R2),
	}
}

// onlyInSet ends the program when a thread is not in the set.
func onlyInSet(id asm.Register) asm.Instructions {
	return append(inSet(id), asm.LoadMem(asm.R0, asm.R1, 0, asm.Byte), asm.JEq.Imm(asm.R0, 0, out))
}

// setTo puts a thread into the set (1) or takes it out (0).
func setTo(in int64, id asm.Register) asm.Instructions {
	return append(inSet(id), asm.StoreImm(asm.R1, 0, in, asm.Byte))
}

// lookup leaves in R0 the address of the stored value of the thread whose id is in the
// register, or 0.
func lookup(id asm.Register) asm.Instructions {
	return asm.Instructions{
		asm.StoreMem(asm.RFP, idAt, id, asm.Word),
		asm.LoadMapPtr(asm.R1, 0).WithReference(threadsMap),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, idAt),
		asm.FnMapLookupElem.Call(),
	}
}

// insert keeps the entry on the stack for the id on the stack, and counts when
// there is no place.
func insert() asm.Instructions {
	return join(
		asm.Instructions{
			asm.LoadMapPtr(asm.R1, 0).WithReference(threadsMap),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, idAt),
			asm.Mov.Reg(asm.R3, asm.RFP),
			asm.Add.Imm(asm.R3, int32(entryAt)),
			asm.Mov.Imm(asm.R4, updateAny),
			asm.FnMapUpdateElem.Call(),
			asm.JEq.Imm(asm.R0, 0, out),
		},
		counts(out),
		increment(unsafe.Offsetof(counters{}.Crowded)),
	)
}

// remove deletes the stored value of the thread whose id is on the stack.
func remove() asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, 0).WithReference(threadsMap),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, idAt),
		asm.FnMapDeleteElem.Call(),
	}
}

// counts leaves this CPU's counters in R0. They always exist, which the verifier
// does not know.
func counts(done string) asm.Instructions {
	return asm.Instructions{
		asm.StoreImm(asm.RFP, zeroAt, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, 0).WithReference(countsMap),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, zeroAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, done),
	}
}

// add adds a register to one of the counters in R0. It is atomic: a program may be
// interrupted by another that adds to the same.
func add(counter uintptr, value asm.Register) asm.Instruction {
	return asm.AddAtomic.Mem(asm.R0, value, asm.DWord, int16(counter))
}

// increment adds one to one of the counters in R0.
func increment(counter uintptr) asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R1, 1), add(counter, asm.R1)}
}

// half leaves in R1 the two bytes at an offset from a structure, which plain loads
// cannot reach.
func half(from asm.Register, offset int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, int32(halfAt)),
		asm.Mov.Imm(asm.R2, 2),
		asm.Mov.Reg(asm.R3, from),
		asm.Add.Imm(asm.R3, offset),
		asm.FnProbeReadKernel.Call(),
		asm.JNE.Imm(asm.R0, 0, out),
		asm.LoadMem(asm.R1, asm.RFP, halfAt, asm.Half),
	}
}

// oneOf jumps to where when the register is one of the values.
func oneOf(r asm.Register, values []uint16, where string) (code asm.Instructions) {
	for _, v := range values {
		code = append(code, asm.JEq.Imm(r, int32(v), where))
	}
	return code
}

// networkOrder returns ports as two bytes of a packet read as a number.
func networkOrder(ports []uint16) []uint16 {
	ports = slices.Clone(ports)
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		for i, p := range ports {
			ports[i] = bits.ReverseBytes16(p)
		}
	}
	return ports
}

func end() asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, 0).WithSymbol(out), asm.Return()}
}

func join(parts ...asm.Instructions) asm.Instructions { return slices.Concat(parts...) }
