package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"dyno/internal/texts"
	"dyno/observe"
)

// licence is the licence that the kernel demands of a program before it may read its
// structures.
const licence = "Dual MIT/GPL"

// A tracer counts by eBPF programs.
type tracer struct {
	collection *ebpf.Collection
	links      []link.Link
	set        *ebpf.Memory // of setMap
	counted    []counters   // one for each CPU
}

// A counter is the probes of some columns.
type counter struct {
	gives  facility
	probes []probe
}

// kernelTypes are the running kernel's. To read them takes longer than all else that a tracer does
// to begin, so that they are kept for the next one.
var kernelTypes = btf.NewCache()

// newTracer loads the programs, attaches those that follow threads, puts every thread
// below the root into the set, and attaches the others. If one of the rarer hooks is not
// available, it continues; missing says which columns are lost.
func newTracer(cfg Config) (t *tracer, has facility, missing []error, err error) {
	if err := samePIDs(); err != nil {
		return nil, 0, nil, err
	}
	types, err := kernelTypes.Kernel()
	if err != nil {
		return nil, 0, nil, unavailable("unavailable.types", texts.New("help.btf"), err)
	}
	l, err := readLayout(types)
	if err != nil {
		return nil, 0, nil, unavailable("unavailable.ebpf", texts.New(needs), err)
	}
	if l.noWaits == nil {
		l.noWaits = accounting()
	}
	following := counter{probes: tracking(l, cfg.Root, cfg.RunQueue && l.noWaits == nil)}
	counting, missing := plan(cfg, l)

	t = &tracer{}
	defer func() {
		if err != nil {
			_ = t.close() // the first error is the one to tell
			t = nil
		}
	}()
	if t.collection, err = ebpf.NewCollectionWithOptions(specify(append(counting, following)), ebpf.CollectionOptions{Cache: kernelTypes}); err != nil {
		return t, 0, nil, refused(err)
	}
	if t.set, err = t.collection.Maps[setMap].Memory(); err != nil {
		return t, 0, nil, refused(err)
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return t, 0, nil, fmt.Errorf("number of CPUs: %w", err)
	}
	t.counted = make([]counters, cpus)
	if err := t.attach(following.probes); err != nil {
		return t, 0, nil, refused(err)
	}
	if err := eachThread(cfg.Root, t.include); err != nil {
		return t, 0, nil, err
	}
	has = missedEvents
	for _, c := range counting {
		err := t.attach(c.probes)
		switch {
		case err == nil:
			has |= c.gives
		case c.gives&callTotals != 0:
			return t, 0, nil, refused(err)
		default:
			missing = append(missing, fmt.Errorf("%s: %w", c.gives, err))
		}
	}
	return t, has, missing, nil
}

// plan returns what to count, and which parts of it this kernel does not offer.
func plan(cfg Config, l layout) (counting []counter, missing []error) {
	want := func(gives facility, without error, probes func() []probe) {
		if without != nil {
			missing = append(missing, fmt.Errorf("%s: %w", gives, without))
			return
		}
		counting = append(counting, counter{gives, probes()})
	}
	if cfg.SystemCalls {
		want(callTotals|callNumbers, nil, func() []probe {
			return []probe{{"dyno_call", "", "sys_enter", onSystemCall()}}
		})
	}
	if cfg.RunQueue {
		want(waitTimes, l.noWaits, func() []probe {
			return []probe{{"dyno_switch", "", "sched_switch", onSwitch(l)}}
		})
	}
	if cfg.Accepts {
		want(acceptCalls, nil, func() []probe {
			return []probe{
				{"dyno_accept", "syscalls", "sys_exit_accept", onAccept()},
				{"dyno_accept4", "syscalls", "sys_exit_accept4", onAccept()},
			}
		})
	}
	if cfg.Connections {
		if len(cfg.Ports) == 0 {
			l.noConnections = errors.New("the target's ports are not known")
			l.noRetransmits = l.noConnections
		}
		want(connections, l.noConnections, func() []probe {
			return []probe{{"dyno_state", "", "inet_sock_set_state", onState(l, cfg.Ports)}}
		})
		want(retransmits, l.noRetransmits, func() []probe {
			return []probe{{"dyno_retransmit", "", "tcp_retransmit_skb", onRetransmit(l, cfg.Ports)}}
		})
	}
	return counting, missing
}

// specify describes the programs and their maps to the loader.
func specify(all []counter) *ebpf.CollectionSpec {
	spec := &ebpf.CollectionSpec{
		Maps: map[string]*ebpf.MapSpec{
			setMap:     {Name: setMap, Type: ebpf.Array, KeySize: 4, ValueSize: mostIDs, MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE},
			threadsMap: {Name: threadsMap, Type: ebpf.Hash, KeySize: 4, ValueSize: uint32(unsafe.Sizeof(waited{})), MaxEntries: mostThreads},
			countsMap:  {Name: countsMap, Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: uint32(unsafe.Sizeof(counters{})), MaxEntries: 1},
		},
		Programs: make(map[string]*ebpf.ProgramSpec),
	}
	for _, c := range all {
		for _, p := range c.probes {
			s := &ebpf.ProgramSpec{Name: p.name, Type: ebpf.TracePoint, License: licence, Instructions: p.code}
			if p.group == "" {
				s.Type, s.AttachType, s.AttachTo = ebpf.Tracing, ebpf.AttachTraceRawTp, p.target
			}
			spec.Programs[p.name] = s
		}
	}
	return spec
}

func (t *tracer) attach(probes []probe) error {
	for _, p := range probes {
		var l link.Link
		var err error
		if program := t.collection.Programs[p.name]; p.group == "" {
			l, err = link.AttachTracing(link.TracingOptions{Program: program, AttachType: ebpf.AttachTraceRawTp})
		} else {
			l, err = link.Tracepoint(p.group, p.target, program, nil)
		}
		if err != nil {
			return fmt.Errorf("attach to %s: %w", p.target, err)
		}
		t.links = append(t.links, l)
	}
	return nil
}

// include puts a thread into the set, unless fork tracking has done it already.
func (t *tracer) include(pid, tid int) error {
	threads := t.collection.Maps[threadsMap]
	id := uint32(tid)
	err := threads.Update(id, waited{}, ebpf.UpdateNoExist)
	switch {
	case errors.Is(err, ebpf.ErrKeyExist):
	case errors.Is(err, unix.E2BIG):
		return errCrowded
	case err != nil:
		return fmt.Errorf("thread %d: %w", tid, err)
	}
	if _, err := t.set.WriteAt([]byte{1}, int64(tid)); err != nil {
		return fmt.Errorf("thread %d: %w", tid, err)
	}
	if alive(pid, tid) {
		return nil // what has not begun to exit yet will pass the tracepoint
	}
	if _, err := t.set.WriteAt([]byte{0}, int64(tid)); err != nil {
		return fmt.Errorf("thread %d: %w", tid, err)
	}
	if err := threads.Delete(id); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("thread %d: %w", tid, err)
	}
	return nil
}

var errCrowded = fmt.Errorf("run-queue waits: more than %d threads at a time", mostThreads)

func (t *tracer) read(r *reading) error {
	if err := t.collection.Maps[countsMap].Lookup(uint32(0), t.counted); err != nil {
		return fmt.Errorf("read the counters: %w", err)
	}
	*r = reading{}
	for i := range t.counted {
		r.sum(&t.counted[i])
	}
	for name, p := range t.collection.Programs {
		stats, err := p.Stats()
		if err != nil {
			return fmt.Errorf("program %s: %w", name, err)
		}
		r.missed += stats.RecursionMisses
	}
	return nil
}

func (t *tracer) close() error {
	var errs []error
	for _, l := range t.links {
		errs = append(errs, l.Close())
	}
	t.set = nil
	if t.collection != nil {
		t.collection.Close()
	}
	return errors.Join(errs...)
}

// initialPIDs is the kernel's first set of process ids, by the number that
// include/linux/proc_ns.h gives it. Programs see ids of this set only.
const initialPIDs = "pid:[4026531836]"

// samePIDs tells whether ids mean the same here and in the kernel.
func samePIDs() error {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err == nil && name != initialPIDs {
		err = texts.NewError("unavailable.pids")
	}
	if err != nil {
		return unavailable("unavailable.ebpf", texts.New("help.host"), err)
	}
	return nil
}

// accounting tells whether this kernel accounts for waits.
func accounting() error {
	var cpu, wait, runs uint64
	b, err := os.ReadFile("/proc/self/schedstat")
	if err == nil {
		_, err = fmt.Sscan(string(b), &cpu, &wait, &runs)
	}
	if err == nil && runs == 0 {
		err = texts.NewError("unavailable.waits")
	}
	return err
}

const needs = "help.ebpf"

// refused explains why programs were not let into the kernel.
func refused(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return unavailable("unavailable.ebpf", texts.New("help.bpf"), err)
	}
	return unavailable("unavailable.ebpf", texts.New(needs), err)
}

// unavailable says why one way of counting cannot work, by a kind of sentence. New adds
// the observer's name.
func unavailable(kind string, remedy texts.Message, err error) *observe.Unavailable {
	why := texts.New(kind, "error", err.Error())
	if own, ok := texts.Of(err); ok {
		why = why.With("error", own)
	}
	return &observe.Unavailable{Reason: why, Remedy: remedy, Err: err}
}
