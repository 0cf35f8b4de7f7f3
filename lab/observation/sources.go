package observation

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"dyno/internal/texts"
	"dyno/lab/plan"
	"dyno/observe"
	"dyno/observe/goruntime"
	"dyno/observe/kernel"
	"dyno/observe/scrape"
	"dyno/results/rundir"
)

// The prefixes of columns.
const (
	kernelColumns  = "kernel"
	socketColumns  = "tcp"
	networkColumns = "network"
	runtimeColumns = "target"
	cgroupColumns  = "cgroup"
)

// A paid observer reads on threads of its own, which cost CPU time.
type paid interface{ CPUSeconds() float64 }

// Open makes the observers of a target that is up, before the load begins: some take time
// to attach, or make a first request to the target.
func (w *Watch) Open(ctx context.Context) {
	v := w.config.Variant
	o := &v.Observe
	profiled := w.config.Purpose == rundir.PurposeProfile // without hooks at system calls: they would be in the profile
	root := 0
	if w.config.Target != nil {
		root = w.config.Target.Supervisor()
	}
	if (o.Kernel == plan.KernelAfter || o.Kernel == plan.KernelWindow) && root != 0 && !profiled {
		c := kernel.DefaultConfig(kernelColumns, root, ports(v.Target.Address)...)
		if o.Kernel == plan.KernelAfter { // costly hooks come after the window
			c.SystemCalls, c.Accepts, c.RunQueue = false, false, false
		}
		if k, err := kernel.New(c); w.available(err) {
			w.add(k)
			w.kernel = k
			for _, missing := range k.Missing() {
				w.available(missing)
			}
		}
	}
	switch {
	case w.config.Pods != nil:
		w.openPods(ctx)
	case w.config.Agent != nil:
		w.openThere(ctx)
	default:
		var around Observed
		w.subject.around(ctx, &around)
		w.take(&around)
	}
	// Answering costs the target a moment each time.
	if o.Runtime != "" || v.Target.Pprof != "" && (profiled || w.config.Soak) {
		if r, err := goruntime.New(ctx, runtimeAt(v)); w.available(err) {
			w.add(r)
		}
	}
	for _, e := range o.Endpoints {
		c := scrape.Config{Name: e.Name, URL: e.URL, Metrics: e.Metrics, Every: e.Every, Remote: w.config.Target == nil}
		if e.Format == plan.FormatExpvar {
			c.Format = scrape.Expvar
		}
		if s, err := scrape.NewEndpoint(ctx, c); w.available(err) {
			w.add(s)
			w.named = append(w.named, s)
		}
	}
	for _, c := range o.Commands {
		if s, err := scrape.NewCommand(ctx, c.Name, c.Run, c.Every); w.available(err) {
			w.add(s)
			w.named = append(w.named, s)
		}
	}
}

// openThere opens the observers of a target on an agent's machine.
func (w *Watch) openThere(ctx context.Context) {
	if v := w.config.Variant; len(v.Target.Start) > 0 && v.Observe.Kernel != plan.KernelNone {
		w.available(texts.NewError("unavailable.remote.kernel"))
	}
	seen, err := w.config.Agent.Observe(ctx, w.subject.Subject)
	if !w.available(err) {
		return
	}
	w.remote, w.subject.server, w.targetCPUs = seen, seen.Server, usable(&w.config.Variant.Target, seen.CPUs)
	w.take(seen)
}

// take adds observers to the recording.
func (w *Watch) take(o *Observed) {
	for _, one := range o.Observers {
		w.add(one)
	}
	for _, err := range o.Missing {
		w.available(err)
	}
}

// add adds an observer to the recording.
func (w *Watch) add(o observe.Observer) {
	w.observers = append(w.observers, o)
	if p, ok := o.(paid); ok {
		w.paid = append(w.paid, p)
	}
}

// runtimeAt says where a target reports its Go runtime. A page that is named replaces the
// one next to the profiles.
func runtimeAt(v *plan.Variant) goruntime.Config {
	c := goruntime.Config{Name: runtimeColumns, Pprof: v.Target.Pprof, Remote: len(v.Target.Start) == 0 || v.Target.Agent != ""}
	if u := v.Observe.Runtime; strings.Contains(u, "/debug/pprof") {
		c.Pprof = u
	} else {
		c.Metrics = u
	}
	return c
}

// ports are those on which a target listens, as far as its address shows.
func ports(address string) []uint16 {
	if a, err := netip.ParseAddrPort(address); err == nil {
		return []uint16{a.Port()}
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return nil
	}
	return []uint16{uint16(n)}
}
