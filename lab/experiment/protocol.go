package experiment

import (
	"fmt"
	"net"
	"strings"
)

// A protocol is what a target may speak. Which fields it has, the tags of the fields say
// (for); what its fields must hold together, it judges itself.
type protocol struct {
	title  string // of its targets, in messages
	loaded bool   // it is loaded, rather than run
	judge  func(i *inspector, e *Experiment, v *Variant)
}

// protocols returns all there are.
func protocols() map[string]protocol {
	return map[string]protocol{
		HTTP:    {title: "HTTP", loaded: true, judge: (*inspector).request},
		TCP:     {title: "TCP", loaded: true},
		SSE:     {title: "SSE", loaded: true, judge: (*inspector).streams},
		Program: {title: "program", judge: (*inspector).program},
	}
}

const onlyLoaded = "is only for a target that is loaded, not for a program"

// overHTTP tells whether the target has a URL.
func (t *Target) overHTTP() bool { return specAt("target.url").of(t.Protocol) }

// Complete fills in, but for a program, the address from the URL or the command, and the URL from
// the address, where one is missing.
func (t *Target) Complete() {
	if t.Address == "" && t.overHTTP() {
		if authority, ok := strings.CutPrefix(t.URL, "http://"); ok {
			if end := strings.IndexAny(authority, "/?#"); end >= 0 {
				authority = authority[:end]
			}
			t.Address = authority
			if _, _, err := net.SplitHostPort(placeholders(authority)); err != nil && authority != "" {
				t.Address += ":80"
			}
		}
	}
	if t.Address == "" && t.Protocol != Program && len(t.Start) > 0 {
		t.Address = "127.0.0.1:{{port}}"
	}
	if !t.overHTTP() || t.URL != "" || t.Address == "" {
		return
	}
	t.URL = "http://" + t.Address + "/"
	if strings.HasPrefix(t.Address, "unix:") {
		t.URL = "http://localhost/"
	}
}

// request judges the one request of an HTTP load.
func (i *inspector) request(_ *Experiment, v *Variant) {
	const path = "load.request"
	r, started := v.Load.Request, len(v.Target.Start) > 0
	if r == nil {
		i.fault(path, "is missing", "")
		return
	}
	if r.Path != "" && (r.Path[0] != '/' && r.Path != "*" || strings.ContainsFunc(placeholders(r.Path), notInTarget)) {
		i.fault(path+".path", fmt.Sprintf("%q cannot be sent", clip(r.Path)), "begin with /, and write blanks and non-ASCII letters as %20 and the like")
	}
	if r.Body != "" && r.BodyFile != "" {
		i.fault(path+".body_file", "body and body_file exclude each other", "keep one of them")
	}
	i.headers(path, r.Headers, started)
	if !started {
		i.ownPorts(path+".path", r.Path)
		i.ownPorts(path+".body", r.Body)
	}
}

// headers judges the fields of a request that dyno completes.
func (i *inspector) headers(path string, headers []Header, started bool) {
	for _, h := range headers {
		at := join(path+".headers", h.Name)
		switch name := strings.ToLower(h.Name); {
		case name == "content-length" || name == "transfer-encoding":
			i.fault(at, "dyno sets it itself, from the body", "remove it")
		case strings.ContainsAny(h.Value, "\r\n\x00"):
			i.fault(at, "the value holds a line break", "remove it")
		}
		if !started {
			i.ownPorts(at, h.Value)
		}
	}
}

// notInTarget tells which characters a request target cannot hold.
func notInTarget(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }

// streams judges subscribers and what is published to them.
func (i *inspector) streams(_ *Experiment, v *Variant) {
	l, started := &v.Load, len(v.Target.Start) > 0
	if s := l.Subscribers; s == nil || s.Connections == 0 {
		i.fault("load.subscribers", "is missing", "such as subscribers: {connections: 1000}")
	} else {
		i.subscribers(s, started)
	}
	if l.Reconnect.MinBackoff > l.Reconnect.MaxBackoff {
		i.fault("load.reconnect.min_backoff", fmt.Sprintf("%v is more than the longest, %v", l.Reconnect.MinBackoff, l.Reconnect.MaxBackoff), "lower it, or raise max_backoff")
	}
	if l.Publish != nil {
		i.publish(l.Publish, started)
		return
	}
	if l.Closed != nil || l.Open != nil {
		i.fault("load.publish", "is missing", "what closed or open repeat, such as publish: {path: /publish}; without it, leave them out")
	}
	if l.Requests != 0 {
		i.fault("load.requests", "there are no requests without publish", "remove it, and give a window")
	}
}

func (i *inspector) subscribers(s *Subscribers, started bool) {
	const path = "load.subscribers"
	i.headers(path, s.Headers, started)
	if s.Slow != nil && s.Slow.Connections > s.Connections {
		i.fault(path+".slow.connections", fmt.Sprintf("%d of %d subscribers", s.Slow.Connections, s.Connections), "at most all of them")
	}
}

func (i *inspector) publish(p *Publish, started bool) {
	const path = "load.publish"
	if p.Path != "" && p.Path[0] != '/' || strings.ContainsFunc(placeholders(p.Path), notInTarget) {
		i.fault(path+".path", fmt.Sprintf("%q cannot be sent", clip(p.Path)), "begin with /, and write blanks and non-ASCII letters as %20 and the like")
	}
	if !started {
		i.ownPorts(path+".path", p.Path)
	}
	i.headers(path, p.Headers, started)
	switch {
	case p.Form == FormMercure && p.Topic == "":
		i.fault(path+".topic", "is missing", "such as http://example.com/{topic}")
	case p.Form == FormMercure && strings.Contains(p.Path, "{topic}"):
		i.fault(path+".path", "{topic} is not replaced in it", "the form mercure names the topic in the content: see topic")
	case p.Form != FormMercure && p.Topic != "":
		i.fault(path+".topic", "is only for the form mercure", "a raw publication names its topic in the path")
	}
}

// program reports what a program, which is run and not loaded, cannot have.
func (v *view) program(target, short *node) {
	const hint = "remove it"
	for _, name := range []string{"ready", "ready_timeout"} {
		if n := target.get(name); n != nil {
			v.reportField(n, onlyLoaded, hint)
		}
	}
	if n := v.root.get("load"); n != nil {
		v.reportField(n, onlyLoaded, hint)
	}
	for _, name := range []string{"warmup", "window"} {
		if n := v.root.get("short").get(name); n != nil {
			v.reportField(n, "a program has none", hint)
		}
		if n := v.settings.find("load." + name); n != nil {
			v.reportField(n, "a program has none", hint)
		}
	}
}

// program judges a target that is a program and what goes with it.
func (i *inspector) program(e *Experiment, v *Variant) {
	if len(v.Target.Start) == 0 {
		i.fault("target.start", "is missing for a program", "the command and its arguments")
	}
	if v.Target.Ready.Kind != ReadyNone {
		i.fault("target.ready", onlyLoaded, "remove it")
	}
	const loaded = "needs a load, and there is none on a program"
	if e.Capacity != nil {
		i.fault("capacity", loaded, "remove it")
	}
	if e.Soak {
		i.fault("soak", loaded, "remove it")
	}
	if e.Design.Pilot != 0 {
		i.fault("design.pilot", "a program has no warm-up", "remove it")
	}
}
