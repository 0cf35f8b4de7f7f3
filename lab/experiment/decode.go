package experiment

import (
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxWork bounds what all variants of a file may hold together, in bytes and
// values.
const maxWork = 8 << 20

// A view reads values as one variant sees them: with its variables in place.
type view struct {
	*reader
	variant string
	vars    map[string]string // nil when the variables are not known
	runtime map[string]bool
}

// report adds a finding about a value in this variant.
func (v *view) report(n *node, problem, hint string) {
	v.c.add(finding{path: n.path, problem: problem, hint: hint, line: n.line, column: n.column}, v.variant)
}

// reportField adds a finding about there being a field in this variant.
func (v *view) reportField(n *node, problem, hint string) {
	line, column := n.where()
	v.c.add(finding{path: n.path, problem: problem, hint: hint, line: line, column: column}, v.variant)
}

// scalar returns a value's text with its templates replaced; not ok when there
// is none or when it is wrong, which is then reported.
func (v *view) scalar(n *node) (t string, ok bool) {
	if n == nil || n.spec == nil || n.bad || !n.scalar() {
		return "", false
	}
	if v.work++; v.work > maxWork {
		v.c.add(finding{problem: "all variants together hold too much", hint: "fewer or smaller values"}, "")
		return "", false
	}
	if n.kind != isText || v.runtime == nil || !hasTemplate(n.text) {
		return n.text, true
	}
	v.work += len(n.text)
	if v.vars == nil {
		v.c.touched[n.path] = true
		return "", false
	}
	var unknown []string
	t, err := expand(n.text, func(name string) (string, bool) {
		value, ok := v.vars[name]
		switch {
		case ok:
			return value, true
		case v.runtime[name]:
			return "{{" + name + "}}", true
		}
		unknown = append(unknown, name)
		return "", false
	})
	if err != nil {
		v.report(n, err.Error(), "")
		return "", false
	}
	v.work += len(t)
	for _, name := range unknown {
		hint := suggest(name, slices.Concat(slices.Sorted(maps.Keys(v.vars)), slices.Sorted(maps.Keys(v.runtime))))
		if slices.Contains(v.variableNames(), name) {
			hint = "set it in the base, from which the others take it"
		}
		v.report(n, fmt.Sprintf("there is no variable %q", name), hint)
	}
	if len(unknown) > 0 {
		return "", false
	}
	if problem, hint := n.spec.scalarFault(t); problem != "" {
		v.report(n, fmt.Sprintf("%s (from %s)", problem, clip(n.text)), hint)
		return "", false
	}
	return t, true
}

func (v *view) text(n *node, into *string) {
	if t, ok := v.scalar(n); ok {
		*into = t
	}
}

func (v *view) integer(n *node, into *int) {
	if t, ok := v.scalar(n); ok {
		f, _ := parseInteger(t)
		*into = int(f)
	}
}

func (v *view) duration(n *node, into *time.Duration) {
	if t, ok := v.scalar(n); ok {
		*into, _ = parseDuration(t)
	}
}

func (v *view) rate(n *node, into *float64) {
	if t, ok := v.scalar(n); ok {
		*into, _ = parseRate(t)
	}
}

func (v *view) share(n *node, into *float64) {
	if t, ok := v.scalar(n); ok {
		*into, _ = parseShare(t)
	}
}

func (v *view) boolean(n *node, into *bool) {
	if t, ok := v.scalar(n); ok {
		*into, _ = parseBool(t)
	}
}

func (v *view) size(n *node, into *int) {
	if t, ok := v.scalar(n); ok {
		*into, _ = parseSize(t)
	}
}

func (v *view) cpuList(n *node, into *[]int) {
	if t, ok := v.scalar(n); ok {
		*into, _ = parseCPUs(t)
	}
}

// file reads a path that is relative to the experiment's file.
func (v *view) file(n *node, into *string) {
	t, ok := v.scalar(n)
	if ok && !filepath.IsAbs(t) {
		t = filepath.Join(filepath.Dir(v.reader.file), t)
	}
	if ok {
		*into = t
	}
}

// variant resolves everything one variant holds.
func (r *reader) variant(choice variantChoice, short *node) Variant {
	v := &view{reader: r, variant: choice.name, vars: choice.vars, runtime: map[string]bool{}}
	for _, name := range RuntimeNames(r.serviceNames()...) {
		v.runtime[name] = true
	}
	target := r.root.get("target")
	protocol := TCP
	v.text(target.get("protocol"), &protocol)
	out := DefaultVariant(protocol)
	out.Name, out.Vars = choice.name, choice.vars
	if protocol == Program {
		v.program(target, short)
	}
	v.target(target, &out.Target)
	if services := r.root.get("services"); services != nil {
		for _, k := range services.keys {
			s := Service{Name: k.name, Process: defaultProcess()}
			v.process(k.value, &s.Process)
			if s.Ready.Kind == "" {
				s.Ready.Kind = ReadyNone
				if s.mentions("port") {
					s.Ready.Kind = ReadyTCP
				}
			}
			out.Services = append(out.Services, s)
		}
	}
	out.Services = v.startOrder(out.Services)
	v.observe(r.root.get("observe"), &out.Observe)
	switch load := r.root.get("load"); {
	case protocol == Program:
	case load != nil:
		v.load(load, short, &out.Load)
	case r.noLoad:
		r.c.add(finding{path: "load", problem: "is missing", hint: "want a mapping", line: r.root.line, column: r.root.column}, choice.name)
	}
	return out
}

func (v *view) target(n *node, t *Target) {
	v.text(n.get("address"), &t.Address)
	v.text(n.get("url"), &t.URL)
	v.tls(n.get("tls"), &t.TLS)
	v.text(n.get("pprof"), &t.Pprof)
	v.duration(n.get("timeout"), &t.Timeout)
	t.Ready.Kind = ""
	v.process(n, &t.Process)
	switch {
	case t.Protocol == Program:
		t.Ready = Ready{Kind: ReadyNone}
	case t.Ready.Kind == "":
		t.Ready.Kind = ReadyTCP
	}
	t.Complete()
}

func (v *view) tls(n *node, into **TLS) {
	if n == nil {
		return
	}
	t := &TLS{}
	*into = t
	v.boolean(n.get("insecure"), &t.Insecure)
	v.text(n.get("server_name"), &t.ServerName)
	v.file(n.get("ca"), &t.CA)
	v.file(n.get("certificate"), &t.Certificate)
	v.file(n.get("key"), &t.Key)
	v.text(n.get("min_version"), &t.MinVersion)
	v.text(n.get("max_version"), &t.MaxVersion)
	v.boolean(n.get("tickets"), &t.Tickets)
	for name, to := range map[string]*[]string{"cipher_suites": &t.CipherSuites, "groups": &t.Groups} {
		if items := n.get(name); items != nil {
			for _, item := range items.items {
				var text string
				v.text(item, &text)
				*to = append(*to, text)
			}
		}
	}
}

func (v *view) process(n *node, p *Process) {
	if start := n.get("start"); start != nil {
		for _, item := range start.items {
			var argument string
			v.text(item, &argument)
			p.Start = append(p.Start, argument)
		}
	}
	v.ready(n.get("ready"), &p.Ready)
	v.duration(n.get("ready_timeout"), &p.ReadyTimeout)
	v.duration(n.get("stop_timeout"), &p.StopTimeout)
	v.cpuList(n.get("cpus"), &p.CPUs)
	v.file(n.get("dir"), &p.Dir)
	if env := n.get("env"); env != nil {
		p.Env = map[string]string{}
		for _, k := range env.keys {
			var value string
			v.text(k.value, &value)
			p.Env[k.name] = value
		}
	}
	v.placement(n, p)
}

// placement reads where and with what the process runs.
func (v *view) placement(n *node, p *Process) {
	if limits := n.get("cgroup"); limits != nil {
		p.Cgroup = &Cgroup{}
		v.share(limits.get("cpu_max"), &p.Cgroup.CPUMax)
		v.integer(limits.get("cpu_weight"), &p.Cgroup.CPUWeight)
		v.size(limits.get("memory_max"), &p.Cgroup.MemoryMax)
	}
	v.integer(n.get("gomaxprocs"), &p.GOMAXPROCS)
	v.optional(n.get("nice"), &p.Nice)
	v.optional(n.get("numa"), &p.NUMA)
}

// optional reads an integer of which 0 is not the same as none.
func (v *view) optional(n *node, into **int) {
	if n != nil {
		*into = new(int)
		v.integer(n, *into)
	}
}

func (v *view) ready(n *node, into *Ready) {
	if n == nil {
		return
	}
	if n.kind == isMapping {
		v.text(n.get("http"), &into.URL)
		v.text(n.get("line"), &into.Line)
		switch http, line := n.get("http") != nil, n.get("line") != nil; {
		case http && line:
			v.report(n, "http and line exclude each other", "keep one of them")
		case http:
			into.Kind = ReadyHTTP
		case line:
			into.Kind = ReadyLine
		default:
			v.report(n, "the mapping is empty", `such as {http: /healthz} or {line: "listening on"}`)
		}
		return
	}
	t, ok := v.scalar(n)
	switch {
	case !ok:
	case t == ReadyTCP || t == ReadyNone:
		into.Kind = t
	case strings.HasPrefix(t, "/") || strings.Contains(t, "://"):
		into.Kind, into.URL = ReadyHTTP, t
	default:
		v.report(n, fmt.Sprintf("%q is not possible", clip(t)), `tcp, none, a URL, a path such as /healthz, or {line: "listening on"}`)
	}
}

func (v *view) load(n, short *node, l *Load) {
	v.cpuList(n.get("cpus"), &l.CPUs)
	v.integer(n.get("workers"), &l.Workers)
	v.text(n.get("clock"), &l.Clock)
	if request := n.get("request"); request != nil {
		if l.Request == nil {
			l.Request = &Request{Method: "GET"}
		}
		v.request(request, l.Request)
	}
	v.http2(n.get("http2"), l)
	perConnection := 0
	v.integer(n.get("requests_per_connection"), &perConnection)
	l.RequestsPerConnection = uint64(perConnection) //nolint:gosec // the table has no negative ones
	v.size(n.get("payload"), &l.Payload)
	v.text(n.get("framing"), &l.Framing)
	v.streams(n, l)
	if closed := n.get("closed"); closed != nil {
		l.Closed = &Closed{Think: Think{Distribution: ThinkNone}}
		v.integer(closed.get("connections"), &l.Closed.Connections)
		v.think(closed.get("think"), &l.Closed.Think)
	}
	stages := n.get("stages")
	if open := n.get("open"); open != nil || stages != nil {
		l.Open = DefaultOpen()
		v.rate(open.get("rate"), &l.Open.Rate)
		v.text(open.get("arrivals"), &l.Open.Arrivals)
		v.integer(open.get("max_connections"), &l.Open.MaxConnections)
		v.integer(open.get("max_waiting"), &l.Open.MaxWaiting)
	}
	v.duration(n.get("timeout"), &l.Timeout)
	v.duration(n.get("connect_timeout"), &l.ConnectTimeout)
	v.duration(n.get("reconnect").get("min_backoff"), &l.Reconnect.MinBackoff)
	v.duration(n.get("reconnect").get("max_backoff"), &l.Reconnect.MaxBackoff)
	auto := false
	for _, source := range []*node{n.get("warmup"), short.get("warmup"), v.setting("warmup", "load.warmup")} {
		if t, ok := v.scalar(source); ok {
			auto = t == warmupAuto
			l.Warmup, _ = parseDuration(t) // 0 for auto
		}
	}
	if auto {
		v.pilots++
	}
	if v.soak {
		l.Window = defaultSoak
	}
	requests := 0
	v.integer(n.get("requests"), &requests)
	l.Requests = uint64(requests)
	windows := []*node{n.get("window"), v.root.get("short").get("window"), v.setting("window", "load.window")}
	if stages == nil {
		if l.Requests > 0 {
			l.Window = 0
		}
		v.duration(windows[0], &l.Window)
		v.duration(short.get("window"), &l.Window)
		v.duration(windows[2], &l.Window)
		return
	}
	for _, w := range windows {
		if w != nil {
			v.report(w, "the stages give the window its length", "remove it, or the stages")
		}
	}
	v.stages(stages, l)
}

func (v *view) request(n *node, r *Request) {
	v.text(n.get("method"), &r.Method)
	v.text(n.get("path"), &r.Path)
	v.text(n.get("body"), &r.Body)
	v.file(n.get("body_file"), &r.BodyFile)
	r.Headers = v.headers(n.get("headers"), r.Headers)
}

func (v *view) http2(n *node, l *Load) {
	if n == nil {
		return
	}
	if l.HTTP2 == nil {
		l.HTTP2 = DefaultHTTP2()
	}
	h := l.HTTP2
	v.text(n.get("use"), &h.Use)
	v.integer(n.get("streams"), &h.Streams)
	v.size(n.get("stream_window"), &h.StreamWindow)
	v.size(n.get("connection_window"), &h.ConnectionWindow)
}

func (v *view) headers(n *node, into []Header) []Header {
	if n == nil {
		return into
	}
	for _, k := range n.keys {
		h := Header{Name: k.name}
		v.text(k.value, &h.Value)
		into = append(into, h)
	}
	return into
}

// streams reads the subscribers of a load and what is published to them.
func (v *view) streams(n *node, l *Load) {
	if subscribers := n.get("subscribers"); subscribers != nil {
		if l.Subscribers == nil {
			l.Subscribers = DefaultSubscribers()
		}
		s := l.Subscribers
		v.integer(subscribers.get("connections"), &s.Connections)
		v.rate(subscribers.get("ramp"), &s.Ramp)
		v.integer(subscribers.get("topics"), &s.Topics)
		v.boolean(subscribers.get("resume"), &s.Resume)
		v.text(subscribers.get("gap_event"), &s.GapEvent)
		v.size(subscribers.get("receive_buffer"), &s.ReceiveBuffer)
		s.Headers = v.headers(subscribers.get("headers"), s.Headers)
		if slow := subscribers.get("slow"); slow != nil {
			s.Slow = &Slow{}
			v.integer(slow.get("connections"), &s.Slow.Connections)
			v.size(slow.get("rate"), &s.Slow.Rate)
		}
	}
	if publish := n.get("publish"); publish != nil {
		l.Publish = DefaultPublish()
		p := l.Publish
		v.text(publish.get("path"), &p.Path)
		v.size(publish.get("size"), &p.Size)
		v.text(publish.get("form"), &p.Form)
		v.text(publish.get("topic"), &p.Topic)
		p.Headers = v.headers(publish.get("headers"), p.Headers)
	}
}

func (v *view) think(n *node, t *Think) {
	if n == nil {
		return
	}
	if n.kind != isMapping {
		t.Distribution = ThinkConstant
		v.duration(n, &t.Mean)
		return
	}
	if len(n.keys) != 1 {
		v.report(n, fmt.Sprintf("want one distribution, have %d", len(n.keys)), "one of constant, uniform, exponential")
		return
	}
	t.Distribution = n.keys[0].name
	value := n.keys[0].value
	v.duration(value, &t.Mean)
	v.duration(value.get("from"), &t.Low)
	v.duration(value.get("to"), &t.High)
}

// stages reads the parts of the window and makes their sum its length.
func (v *view) stages(list *node, l *Load) {
	l.Window = 0
	rate := 0.0 // where the last stage ended
	for _, n := range list.items {
		s := Stage{From: rate}
		v.duration(n.get("duration"), &s.Duration)
		steady, from, to := n.get("rate"), n.get("from"), n.get("to")
		switch {
		case steady != nil && (from != nil || to != nil):
			v.report(n, "rate excludes from and to", "keep rate for a steady stage, from and to for a ramp")
		case steady != nil:
			v.rate(steady, &s.From)
			s.To = s.From
		case to != nil:
			v.rate(from, &s.From)
			v.rate(to, &s.To)
		case n.kind == isMapping:
			v.report(n, "the stage has no rate", "give it rate, or to")
		}
		rate = s.To
		l.Window += s.Duration
		l.Open.Stages = append(l.Open.Stages, s)
	}
}

// startOrder sorts services by name, but after those whose addresses they use.
func (v *view) startOrder(services []Service) []Service {
	slices.SortFunc(services, func(a, b Service) int { return strings.Compare(a.Name, b.Name) })
	needs := map[string][]string{} // the services whose addresses each one uses
	for _, s := range services {
		for _, name := range s.told() {
			if other, _, ok := strings.Cut(name, "."); ok && other != s.Name {
				needs[s.Name] = append(needs[s.Name], other)
			}
		}
	}
	var out []Service
	started := map[string]bool{}
	waits := func(other string) bool { return !started[other] }
	for len(out) < len(services) {
		before := len(out)
		for _, s := range services {
			if !started[s.Name] && !slices.ContainsFunc(needs[s.Name], waits) {
				started[s.Name] = true
				out = append(out, s)
			}
		}
		if len(out) > before {
			continue
		}
		var circle []string
		for _, s := range services {
			if !started[s.Name] {
				circle = append(circle, s.Name)
			}
		}
		v.report(v.root.get("services").get(circle[0]).get("start"), "none of "+strings.Join(circle, ", ")+" can start first", "each uses the address of another")
		return services
	}
	return out
}

// told returns the run-time names that the process is told.
func (p Process) told() []string {
	var names []string
	for _, s := range p.Start {
		names = append(names, templateNames(s)...)
	}
	for _, s := range p.Env {
		names = append(names, templateNames(s)...)
	}
	return names
}

// mentions tells whether the process is told this run-time name.
func (p Process) mentions(name string) bool { return slices.Contains(p.told(), name) }

// DefaultVariant returns a variant named default in which everything has its
// default that has one. What is left to say: the target's address, URL or
// command, and a closed or an open load; of a program only the command.
func DefaultVariant(protocol string) Variant {
	v := Variant{
		Name:   "default",
		Vars:   map[string]string{},
		Target: Target{Protocol: protocol, Process: defaultProcess()},
		Load: Load{
			Clock:          ClockAuto,
			Timeout:        30 * time.Second,
			ConnectTimeout: 5 * time.Second,
			Warmup:         2 * time.Second,
			Window:         10 * time.Second,
			Reconnect:      Reconnect{MaxBackoff: time.Second},
		},
	}
	v.Observe = DefaultObserve()
	v.Target.Ready.Kind = ReadyTCP
	switch protocol {
	case HTTP:
		v.Load.Request, v.Load.HTTP2 = &Request{Method: "GET"}, DefaultHTTP2()
	case TCP:
		v.Load.Payload, v.Load.Framing = 64, FramingEcho
	case SSE:
		v.Load.Subscribers = DefaultSubscribers()
		v.Load.Reconnect = Reconnect{MinBackoff: time.Second, MaxBackoff: 64 * time.Second}
	case Program:
		v.Target.Ready.Kind, v.Target.Timeout = ReadyNone, 5*time.Minute
		v.Load, v.Observe = Load{}, Observe{}
	}
	return v
}

// DefaultHTTP2 returns what is spoken if nothing is said.
func DefaultHTTP2() *HTTP2 { return &HTTP2{Use: HTTP2Auto, Streams: 1} }

// DefaultOpen returns an open load that lacks only its rate.
func DefaultOpen() *Open {
	return &Open{Arrivals: ArrivalsConstant, MaxConnections: 500, MaxWaiting: 65_536}
}

// DefaultSubscribers returns subscribers that lack only their number.
func DefaultSubscribers() *Subscribers {
	return &Subscribers{Topics: 1, Resume: true, GapEvent: "gap"}
}

// DefaultPublish returns a publication that lacks only its path.
func DefaultPublish() *Publish { return &Publish{Size: 100, Form: FormRaw} }

func defaultProcess() Process {
	return Process{ReadyTimeout: 10 * time.Second, StopTimeout: 5 * time.Second}
}

// overHTTP tells whether the target has a URL.
func (t *Target) overHTTP() bool { return t.Protocol == HTTP || t.Protocol == SSE }

// Complete fills in, but for a program, the address from the URL or the command, and the URL from
// the address, where one is missing.
func (t *Target) Complete() {
	if t.Address == "" && t.overHTTP() {
		authority, plain := strings.CutPrefix(t.URL, "http://")
		port := ":80"
		secure := false
		if !plain {
			authority, secure = strings.CutPrefix(t.URL, "https://")
			port = ":443"
		}
		if plain || secure {
			if end := strings.IndexAny(authority, "/?#"); end >= 0 {
				authority = authority[:end]
			}
			t.Address = authority
			if _, _, err := net.SplitHostPort(placeholders(authority)); err != nil && authority != "" {
				t.Address += port
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
