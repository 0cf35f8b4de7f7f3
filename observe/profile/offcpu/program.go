package offcpu

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// maps are the tables that the eBPF programs write and dyno reads.
type maps struct {
	processes *ebpf.Map // number → followed or watched
	blocked   *ebpf.Map // thread → wait
	totals    *ebpf.Map // place → total
	stacks    *ebpf.Map // number → addresses
	lost      *ebpf.Map // 0 → count
}

// What to do with a process on the list. Its children are watched.
const (
	followed = iota
	watched
)

// A place is where threads of a process wait: by the numbers of two stacks, which
// are error codes where there is none.
type place struct {
	Process      uint32
	Kernel, User int32
}

// A wait is one that has not ended.
type wait struct {
	Since uint64 // nanoseconds
	Place place
	_     uint32
}

// A total sums up all ended waits at a place.
type total struct{ Nanoseconds, Waits uint64 }

// Sizes and offsets of the above, as the programs use them.
const (
	placeSize     = 12
	placeProcess  = 0
	placeKernel   = 4
	placeUser     = 8
	waitSize      = 24
	waitPlace     = 8
	totalSize     = 16
	totalWaits    = 8
	addressesSize = maxDepth * 8
)

func (m *maps) open() error {
	for _, o := range []struct {
		to   **ebpf.Map
		spec ebpf.MapSpec
	}{
		{&m.processes, ebpf.MapSpec{Name: "processes", Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: maxProcesses}},
		{&m.blocked, ebpf.MapSpec{Name: "blocked", Type: ebpf.Hash, KeySize: 4, ValueSize: waitSize, MaxEntries: maxBlocked}},
		{&m.totals, ebpf.MapSpec{Name: "totals", Type: ebpf.Hash, KeySize: placeSize, ValueSize: totalSize, MaxEntries: maxTotals}},
		{&m.stacks, ebpf.MapSpec{Name: "stacks", Type: ebpf.StackTrace, KeySize: 4, ValueSize: addressesSize, MaxEntries: maxStacks}},
		{&m.lost, ebpf.MapSpec{Name: "lost", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}},
	} {
		created, err := ebpf.NewMap(&o.spec)
		if err != nil {
			return fmt.Errorf("map %s: %w", o.spec.Name, err)
		}
		*o.to = created
	}
	return nil
}

func (m *maps) close() (err error) {
	for _, c := range []**ebpf.Map{&m.processes, &m.blocked, &m.totals, &m.stacks, &m.lost} {
		if *c != nil {
			err = errors.Join(err, (*c).Close())
			*c = nil
		}
	}
	return err
}

// stack returns the addresses of a stack, none if there is none.
func (m *maps) stack(id int32) []uint64 {
	if id < 0 {
		return nil
	}
	b, err := m.stacks.LookupBytes(uint32(id))
	if err != nil {
		return nil
	}
	return addresses(b)
}

// Registers by what they hold. R6 to R9 survive calls.
const (
	context = asm.R6
	thread  = asm.R7 // process << 32 | thread
	now     = asm.R8
	saved   = asm.R9
)

func program(name string, ins asm.Instructions) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{Name: name, Type: ebpf.TracePoint, License: "GPL", Instructions: ins}
}

// at puts the address of a slot of the stack into a register.
func at(to asm.Register, slot int16) asm.Instructions {
	return asm.Instructions{asm.Mov.Reg(to, asm.RFP), asm.Add.Imm(to, int32(slot))}
}

// lookup leaves the address of the value for the key in a slot in R0, or zero.
func lookup(m *ebpf.Map, key int16) asm.Instructions {
	return join(asm.Instructions{asm.LoadMapPtr(asm.R1, m.FD())}, at(asm.R2, key), asm.Instructions{asm.FnMapLookupElem.Call()})
}

// update leaves zero in R0 if the value in a slot could be put in place.
func update(m *ebpf.Map, key, value int16, flags int64) asm.Instructions {
	return join(asm.Instructions{asm.LoadMapPtr(asm.R1, m.FD())}, at(asm.R2, key), at(asm.R3, value),
		asm.Instructions{asm.LoadImm(asm.R4, flags, asm.DWord), asm.FnMapUpdateElem.Call()})
}

func remove(m *ebpf.Map, key int16) asm.Instructions {
	return join(asm.Instructions{asm.LoadMapPtr(asm.R1, m.FD())}, at(asm.R2, key), asm.Instructions{asm.FnMapDeleteElem.Call()})
}

func join(parts ...asm.Instructions) (all asm.Instructions) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// load reads a field of the tracepoint.
func load(to asm.Register, f field) asm.Instruction {
	size := asm.Word
	if f.size == 8 {
		size = asm.DWord
	}
	return asm.LoadMem(to, context, int16(f.offset), size)
}

// onFork lists the child of a listed process. For a thread the entry is of its own
// number, which no process has; onFree takes it away.
func (m *maps) onFork(f format) *ebpf.ProgramSpec {
	const parent, child, value = -4, -8, -12
	return program("dyno_fork", join(
		asm.Instructions{
			asm.Mov.Reg(context, asm.R1),
			asm.FnGetCurrentPidTgid.Call(),
			asm.RSh.Imm(asm.R0, 32),
			asm.StoreMem(asm.RFP, parent, asm.R0, asm.Word),
		},
		lookup(m.processes, parent),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "exit"),
			load(asm.R1, f["child_pid"]),
			asm.StoreMem(asm.RFP, child, asm.R1, asm.Word),
			asm.StoreImm(asm.RFP, value, watched, asm.Word),
		},
		update(m.processes, child, value, 0),
		asm.Instructions{asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"), asm.Return()},
	))
}

// onFree forgets a process or thread. The first thread of a process is freed last.
func (m *maps) onFree(f format) *ebpf.ProgramSpec {
	const key = -4
	return program("dyno_free", join(
		asm.Instructions{
			asm.Mov.Reg(context, asm.R1),
			load(asm.R1, f["pid"]),
			asm.StoreMem(asm.RFP, key, asm.R1, asm.Word),
		},
		remove(m.processes, key), remove(m.blocked, key),
		asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	))
}

// blockedStates are TASK_INTERRUPTIBLE, UNINTERRUPTIBLE, STOPPED and TRACED. Zero is a
// thread that was preempted, and others are ending.
const blockedStates = 0x0f

// What onSwitch has on its stack, by the distance from the frame.
const (
	processSlot = -4
	tidSlot     = -8
	indexSlot   = -12
	waitSlot    = -40 // 24 bytes, aligned to 8
	placeSlot   = -56 // 12 bytes
	totalSlot   = -72 // 16 bytes
)

// onSwitch runs as the thread that leaves its CPU. If that thread has to wait, its stacks
// and the time are stored. The wait of the thread that comes next has ended.
func (m *maps) onSwitch(f format) *ebpf.ProgramSpec {
	return program("dyno_switch", join(m.storeWait(f), m.endWait(f), asm.Instructions{
		asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"),
		asm.Return(),
	}, addToTotal()))
}

// storeWait stores when and where the thread waits that leaves, if it has to wait. It goes on at next.
func (m *maps) storeWait(f format) asm.Instructions {
	const userStack = 1 << 8 // BPF_F_USER_STACK
	stackID := func(flags int64, to int16) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Reg(asm.R1, context),
			asm.LoadMapPtr(asm.R2, m.stacks.FD()),
			asm.LoadImm(asm.R3, flags, asm.DWord),
			asm.FnGetStackid.Call(),
			asm.StoreMem(asm.RFP, to, asm.R0, asm.Word),
		}
	}
	return join(
		asm.Instructions{
			asm.Mov.Reg(context, asm.R1),
			asm.FnKtimeGetNs.Call(),
			asm.Mov.Reg(now, asm.R0),
			// Which thread leaves, and does it have to wait?
			load(asm.R1, f["prev_state"]),
			asm.And.Imm(asm.R1, blockedStates),
			asm.JEq.Imm(asm.R1, 0, "next"),
			asm.FnGetCurrentPidTgid.Call(),
			asm.Mov.Reg(thread, asm.R0),
			asm.RSh.Imm(asm.R0, 32),
			asm.StoreMem(asm.RFP, processSlot, asm.R0, asm.Word),
		},
		lookup(m.processes, processSlot),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "next"),
			asm.LoadMem(asm.R1, asm.R0, 0, asm.Word),
			asm.JEq.Imm(asm.R1, followed, "next"),
			asm.StoreMem(asm.RFP, waitSlot, now, asm.DWord),
			asm.LoadMem(asm.R1, asm.RFP, processSlot, asm.Word),
			asm.StoreMem(asm.RFP, waitSlot+waitPlace+placeProcess, asm.R1, asm.Word),
			asm.StoreImm(asm.RFP, waitSlot+waitPlace+placeSize, 0, asm.Word),
		},
		stackID(0, waitSlot+waitPlace+placeKernel),
		stackID(userStack, waitSlot+waitPlace+placeUser),
		asm.Instructions{asm.StoreMem(asm.RFP, tidSlot, thread, asm.Word)},
		update(m.blocked, tidSlot, waitSlot, 0),
		asm.Instructions{asm.JEq.Imm(asm.R0, 0, "next")},
		m.countLost("next"),
	)
}

// endWait begins at next. It adds the wait of the thread that comes to the total of the place where it
// waited: a new one here, another one at add. It goes on at exit.
func (m *maps) endWait(f format) asm.Instructions {
	const notThere = int64(ebpf.UpdateNoExist)
	return join(
		// Which thread comes, and was it waiting?
		asm.Instructions{
			load(asm.R1, f["next_pid"]).WithSymbol("next"),
			asm.StoreMem(asm.RFP, tidSlot, asm.R1, asm.Word),
		},
		lookup(m.blocked, tidSlot),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "exit"),
			asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
			asm.Mov.Reg(saved, now),
			asm.Sub.Reg(saved, asm.R1),
			asm.LoadMem(asm.R1, asm.R0, waitPlace+placeProcess, asm.Word),
			asm.StoreMem(asm.RFP, placeSlot+placeProcess, asm.R1, asm.Word),
			asm.LoadMem(asm.R1, asm.R0, waitPlace+placeKernel, asm.Word),
			asm.StoreMem(asm.RFP, placeSlot+placeKernel, asm.R1, asm.Word),
			asm.LoadMem(asm.R1, asm.R0, waitPlace+placeUser, asm.Word),
			asm.StoreMem(asm.RFP, placeSlot+placeUser, asm.R1, asm.Word),
		},
		remove(m.blocked, tidSlot),
		lookup(m.totals, placeSlot),
		asm.Instructions{asm.JNE.Imm(asm.R0, 0, "add")},
		asm.Instructions{
			asm.StoreMem(asm.RFP, totalSlot, saved, asm.DWord),
			asm.Mov.Imm(asm.R1, 1),
			asm.StoreMem(asm.RFP, totalSlot+totalWaits, asm.R1, asm.DWord),
		},
		update(m.totals, placeSlot, totalSlot, notThere),
		asm.Instructions{asm.JEq.Imm(asm.R0, 0, "exit")},
		// There is no room, or another CPU was first.
		lookup(m.totals, placeSlot),
		asm.Instructions{asm.JNE.Imm(asm.R0, 0, "add")},
		m.countLost("exit"),
	)
}

// countLost counts a wait for which there was no room. It goes on at next if there is no counter.
func (m *maps) countLost(next string) asm.Instructions {
	return join(
		asm.Instructions{asm.StoreImm(asm.RFP, indexSlot, 0, asm.Word)},
		lookup(m.lost, indexSlot),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, next),
			asm.Mov.Imm(asm.R1, 1),
			asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		},
	)
}

// addToTotal begins at add, with a total in R0. It adds the wait to it and ends.
func addToTotal() asm.Instructions {
	return asm.Instructions{
		asm.StoreXAdd(asm.R0, saved, asm.DWord).WithSymbol("add"),
		asm.Mov.Imm(asm.R1, 1),
		asm.Add.Imm(asm.R0, totalWaits),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
	}
}
