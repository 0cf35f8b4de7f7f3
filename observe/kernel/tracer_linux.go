package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"dyno/internal/texts"
	"dyno/observe"
)

//go:generate bash ../../scripts/ebpf.sh tracer tracer.c

// A tracer counts by eBPF programs.
type tracer struct {
	spec        *ebpf.CollectionSpec
	collections []*ebpf.Collection // the first one's maps serve all
	links       []link.Link
	set         *ebpf.Memory     // of the map of that name
	counted     []tracerCounters // one for each CPU
}

// kernelTypes are the running kernel's. Reading them takes longer than the rest of a tracer's start. So
// they are kept for the next one.
var kernelTypes = btf.NewCache()

// counting are the programs that count, by what they give.
var counting = []struct {
	gives    facility
	programs []string
}{
	{callTotals | callNumbers, []string{tracerProgDynoCall}},
	{waitTimes, []string{tracerProgDynoSwitch}},
	{acceptCalls, []string{tracerProgDynoAccept, tracerProgDynoAccept4}},
	{connections, []string{tracerProgDynoState}},
	{retransmits, []string{tracerProgDynoRetransmit}},
}

// New observes by eBPF or, where that cannot work, by perf events, which count system
// calls and accepts only. It returns an *observe.Unavailable if neither works.
func New(cfg Config) (*Observer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	spec, err := loadTracer()
	if err != nil {
		return nil, err
	}
	t, has, missing, err := newTracer(cfg, spec)
	if err == nil {
		return newObserver(cfg, "ebpf", t, has, missing), nil
	}
	o, errEvents := newCounts(cfg, err)
	if errEvents == nil {
		return o, nil
	}
	u := located(cfg.Name, err)
	u.Reason = texts.Together(u.Reason, located(cfg.Name, errEvents).Reason)
	u.Err = errors.Join(err, errEvents)
	return nil, u
}

// newCounts observes by perf events. missing says why there is no better way here. It
// returns an *observe.Unavailable if perf events do not work either.
func newCounts(cfg Config, missing ...error) (*Observer, error) {
	e, has, err := newEvents(cfg)
	if err != nil {
		return nil, located(cfg.Name, err)
	}
	return newObserver(cfg, "perf", e, has, missing), nil
}

// newTracer attaches the programs that follow threads, and puts every thread below the root into the
// set. Then it attaches the programs that count. If one of the rarer hooks is not available, it
// continues; missing says which columns are lost.
func newTracer(cfg Config, spec *ebpf.CollectionSpec) (t *tracer, has facility, missing []error, err error) {
	if err := samePIDs(); err != nil {
		return nil, 0, nil, err
	}
	if _, err := kernelTypes.Kernel(); err != nil {
		return nil, 0, nil, unavailable("unavailable.types", texts.New("help.btf"), err)
	}
	unsupported := map[facility]error{waitTimes: accounting()}
	if len(cfg.Ports) == 0 {
		unsupported[connections] = errors.New("the target's ports are not known")
		unsupported[retransmits] = unsupported[connections]
	}
	if err := configure(spec, cfg, cfg.RunQueue && unsupported[waitTimes] == nil); err != nil {
		return nil, 0, nil, err
	}
	t = &tracer{spec: spec}
	defer func() {
		if err != nil {
			_ = t.close() // the first error is the one to tell
			t = nil
		}
	}()
	if err := t.attach(tracerProgDynoFork, tracerProgDynoExec, tracerProgDynoExit); err != nil {
		return t, 0, nil, refused(err)
	}
	if t.set, err = t.collections[0].Maps[tracerMapDynoSet].Memory(); err != nil {
		return t, 0, nil, refused(err)
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return t, 0, nil, fmt.Errorf("number of CPUs: %w", err)
	}
	t.counted = make([]tracerCounters, cpus)
	if err := eachThread(cfg.Root, t.include); err != nil {
		return t, 0, nil, err
	}
	has = missedEvents
	for _, c := range counting {
		if cfg.asks()&c.gives == 0 {
			continue
		}
		err := unsupported[c.gives]
		if err == nil {
			err = t.attach(c.programs...)
		}
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

// configure sets the variables of the programs.
func configure(spec *ebpf.CollectionSpec, cfg Config, waits bool) error {
	ports := make([]byte, 1<<16)
	for _, p := range cfg.Ports {
		ports[bits.ReverseBytes16(p)] = 1
	}
	return errors.Join(
		spec.Variables[tracerVarRoot].Set(int32(cfg.Root)),
		spec.Variables[tracerVarWaits].Set(waits),
		spec.Variables[tracerVarPorts].Set(ports),
	)
}

// attach loads programs, which all use the same maps, and attaches each to its tracepoint.
func (t *tracer) attach(names ...string) error {
	part := *t.spec
	part.Programs = make(map[string]*ebpf.ProgramSpec)
	for _, name := range names {
		part.Programs[name] = t.spec.Programs[name]
	}
	options := ebpf.CollectionOptions{Cache: kernelTypes}
	if len(t.collections) > 0 {
		options.MapReplacements = t.collections[0].Maps
	}
	c, err := ebpf.NewCollectionWithOptions(&part, options)
	if err != nil {
		return err
	}
	t.collections = append(t.collections, c)
	for _, name := range names {
		var l link.Link
		if target := part.Programs[name].AttachTo; part.Programs[name].Type == ebpf.Tracing {
			l, err = link.AttachTracing(link.TracingOptions{Program: c.Programs[name]})
		} else {
			group, event, _ := strings.Cut(target, "/")
			l, err = link.Tracepoint(group, event, c.Programs[name], nil)
		}
		if err != nil {
			return fmt.Errorf("attach %s: %w", name, err)
		}
		t.links = append(t.links, l)
	}
	return nil
}

// include puts a thread into the set, unless fork tracking has done it already.
func (t *tracer) include(pid, tid int) error {
	threads := t.collections[0].Maps[tracerMapDynoThreads]
	id := uint32(tid)
	err := threads.Update(id, tracerWaited{}, ebpf.UpdateNoExist)
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

func (t *tracer) read(r *reading) error {
	if err := t.collections[0].Maps[tracerMapDynoCounts].Lookup(uint32(0), t.counted); err != nil {
		return fmt.Errorf("read the counters: %w", err)
	}
	*r = reading{}
	for i := range t.counted {
		r.sum(&t.counted[i])
	}
	for _, c := range t.collections {
		for name, p := range c.Programs {
			stats, err := p.Stats()
			if err != nil {
				return fmt.Errorf("program %s: %w", name, err)
			}
			r.missed += stats.RecursionMisses
		}
	}
	return nil
}

func (t *tracer) close() error {
	var errs []error
	for _, l := range t.links {
		errs = append(errs, l.Close())
	}
	t.set = nil
	for _, c := range t.collections {
		c.Close()
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
