package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"dyno/internal/nearest"
)

// NeedsPprof lists the kinds that only the target itself can take, at target.pprof.
func (p *Profile) NeedsPprof() []string {
	return slices.DeleteFunc(slices.Clone(p.Kinds), func(kind string) bool {
		return kind == ProfileOffCPU || kind == ProfileCPU && p.By == BySampling
	})
}

func (i *inspector) profile(e *Experiment) {
	p := e.Profile
	if p == nil {
		return
	}
	for at, kind := range p.Kinds {
		if slices.Index(p.Kinds, kind) < at {
			i.fault("profile.kinds", kind+" is listed twice", "keep one")
		}
	}
	if e.Capacity != nil {
		i.fault("profile", "a search for capacity has no trials that could be repeated under a profiler", "remove it, or measure at a rate")
	}
}

// profiled judges whether a variant can be profiled.
func (i *inspector) profiled(p *Profile, v *Variant) {
	if p == nil {
		return
	}
	needs := p.NeedsPprof()
	switch {
	case v.Target.Protocol == Program:
		i.fault("profile", "a program has no requests that a profile could be of", "remove it")
	case v.Target.Pprof == "" && len(needs) > 0:
		i.fault("profile.kinds", strings.Join(needs, " and ")+": only the target itself can say, and there is no target.pprof",
			"target.pprof: http://127.0.0.1:{{admin}}/debug/pprof")
	case len(v.Target.Start) == 0 && len(needs) < len(p.Kinds):
		i.fault("profile", "dyno samples only what it has started, and there is no target.start", "add it, or by: pprof")
	case v.Target.Agent != "" && len(needs) < len(p.Kinds):
		i.fault("profile", "dyno samples only what runs on its own machine, and target.agent names another one", "by: pprof, without off_cpu, or remove target.agent")
	}
}

// observed judges where a variant's figures come from.
func (i *inspector) observed(v *Variant) {
	o := &v.Observe
	address := func(path, u string) {
		if !strings.HasPrefix(u, "http://") {
			i.fault(path, fmt.Sprintf("%q is not possible", nearest.Clip(u)), "http://host:port/path")
		}
	}
	if o.PID != 0 && o.Cgroup != "" {
		i.fault("observe.cgroup", "observe.pid names the target's processes already", "keep one of them")
	}
	if o.Pods != nil {
		for _, other := range []struct {
			field string
			set   bool
		}{
			{"target.start", len(v.Target.Start) > 0},
			{"target.agent", v.Target.Agent != ""},
			{"observe.pid", o.PID != 0},
			{"observe.cgroup", o.Cgroup != ""},
			{"observe.sockets", o.Sockets},
		} {
			if other.set {
				i.fault("observe.pods", "pods run already, each with a network of its own on its node, and there is "+other.field, "keep one of them")
			}
		}
	}
	if o.Runtime != "" {
		address("observe.runtime", o.Runtime)
	}
	for _, e := range o.Endpoints {
		address("observe.endpoints."+e.Name+".url", e.URL)
		for n, m := range e.Metrics {
			if _, err := regexp.Compile(m); err != nil {
				i.fault(fmt.Sprintf("observe.endpoints.%s.metrics[%d]", e.Name, n), err.Error(), "a name, or a regular expression (RE2)")
			}
		}
	}
	endpoints := map[string]bool{}
	for _, e := range o.Endpoints {
		endpoints[e.Name] = true
		i.observer("observe.endpoints."+e.Name, e.Name, false)
	}
	for _, c := range o.Commands {
		i.observer("observe.commands."+c.Name, c.Name, endpoints[c.Name])
		if len(c.Run) == 0 || c.Run[0] == "" {
			i.fault("observe.commands."+c.Name+".run", "is empty", "the command and its arguments")
		}
	}
}

// dynos are the names of dyno's own observers: columns of the recording begin with them.
var dynos = regexp.MustCompile(`^(target|target_agent|target_machine|generator|machine|kernel|tcp|network|cgroup|pod|pod_.*|wakeup|target_wakeup|target_cpus|generator_cpus|upstreams|service_.*|neighbour[0-9].*|recorder|time)$`)

// observer judges the name of an endpoint or a command: no two observers may have one.
func (i *inspector) observer(path, name string, twice bool) {
	switch {
	case dynos.MatchString(name):
		i.fault(path, name+" is what dyno calls its own figures", "another name, such as app_"+name)
	case twice:
		i.fault(path, name+" is the name of an endpoint, too", "another name, as observed."+name+"_… would have two meanings")
	}
}
