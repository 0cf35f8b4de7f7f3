package experiment

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	defaultEvery = time.Second
	// profileSetting is the option whose value is a list of kinds, with commas.
	profileSetting = "profile"
)

// DefaultObserve returns what is recorded unless a file says otherwise.
func DefaultObserve() Observe { return Observe{Kernel: KernelAfter} }

// observe reads what is recorded beside a variant's load.
func (v *view) observe(n *node, o *Observe) {
	if n == nil {
		return
	}
	v.text(n.get("kernel"), &o.Kernel)
	v.boolean(n.get("sockets"), &o.Sockets)
	v.text(n.get("runtime"), &o.Runtime)
	if endpoints := n.get("endpoints"); endpoints != nil {
		for _, k := range endpoints.keys {
			e := Endpoint{Name: k.name, Format: FormatPrometheus, Every: defaultEvery}
			v.text(k.value.get("url"), &e.URL)
			v.text(k.value.get("format"), &e.Format)
			v.duration(k.value.get("every"), &e.Every)
			e.Metrics = v.texts(k.value.get("metrics"))
			o.Endpoints = append(o.Endpoints, e)
		}
	}
	if commands := n.get("commands"); commands != nil {
		for _, k := range commands.keys {
			c := Command{Name: k.name, Every: defaultEvery}
			v.duration(k.value.get("every"), &c.Every)
			c.Run = v.texts(k.value.get("run"))
			o.Commands = append(o.Commands, c)
		}
	}
}

func (v *view) texts(list *node) []string {
	if list == nil {
		return nil
	}
	texts := make([]string, len(list.items))
	for i, n := range list.items {
		v.text(n, &texts[i])
	}
	return texts
}

// profile reads what is profiled. Its rounds are 0 where the file does not say.
func (r *reader) profile(v *view) *Profile {
	n := r.root.get("profile")
	kinds, set := r.options.Set[profileSetting]
	set = set && !slices.Contains(r.variableNames(), profileSetting)
	if n == nil && !set {
		return nil
	}
	p := DefaultProfile()
	v.text(n.get("by"), &p.By)
	v.integer(n.get("rounds"), &p.Rounds)
	v.duration(n.get("window"), &p.Window)
	if kinds := v.texts(n.get("kinds")); len(kinds) > 0 {
		p.Kinds = kinds
	}
	if set {
		p.Kinds = strings.Split(kinds, ",")
	}
	return p
}

// DefaultProfile returns CPU time after each round, by sampling; how many rounds
// that is, is left to say.
func DefaultProfile() *Profile { return &Profile{Kinds: []string{ProfileCPU}, By: BySampling} }

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
		switch {
		case !slices.Contains(ProfileKinds(), kind):
			i.fault("profile.kinds", fmt.Sprintf("there is no kind of profile %q", clip(kind)), "one of "+strings.Join(ProfileKinds(), ", "))
		case slices.Index(p.Kinds, kind) < at:
			i.fault("profile.kinds", kind+" is listed twice", "keep one")
		}
	}
	i.bound("profile.rounds", float64(p.Rounds))
	if p.Window != 0 {
		i.bound("profile.window", p.Window.Seconds())
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
	}
}

// observed judges where a variant's figures come from.
func (i *inspector) observed(o *Observe) {
	address := func(path, u string) {
		if !strings.HasPrefix(u, "http://") {
			i.fault(path, fmt.Sprintf("%q is not possible", clip(u)), "http://host:port/path")
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
	for _, c := range o.Commands {
		if len(c.Run) == 0 || c.Run[0] == "" {
			i.fault("observe.commands."+c.Name+".run", "is empty", "the command and its arguments")
		}
	}
}
