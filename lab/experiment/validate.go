package experiment

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxSocketPath is how long the path of a Unix socket may be on Linux.
const maxSocketPath = 107

// Validate reports every fault of the experiment at once, as *Faults. Parse
// and ReadFile have done so already; it is for experiments built in code. It
// changes nothing.
func (e *Experiment) Validate() error {
	c := newCollector()
	c.settle()
	inspect(e, c)
	return c.err(e.File, func(string) (int, int) { return 0, 0 })
}

// An inspector judges a plan, however it came about. Where reading the file
// found a value wrong already, it stays silent.
type inspector struct {
	c       *collector
	table   *spec
	variant string // that is inspected; empty for the plan as a whole
}

func inspect(e *Experiment, c *collector) {
	i := &inspector{c: c, table: table()}
	i.plan(e)
	c.variants = 0
	for n := range e.Variants {
		if e.Variants[n].AliasOf == "" { // an alias has its original's faults
			c.variants++
		}
	}
	for n := range e.Variants {
		v := &e.Variants[n]
		if i.variant = v.Name; v.AliasOf != "" {
			continue
		}
		i.profiled(e.Profile, v)
		i.observed(&v.Observe)
		if v.Target.Protocol == Program {
			i.program(e, v)
			i.services(v)
			continue
		}
		i.target(&v.Target)
		i.services(v)
		i.load(v, e.Capacity != nil)
	}
}

func (i *inspector) fault(path, problem, hint string) {
	if i.c.reliable(path) {
		i.c.add(finding{path: path, problem: problem, hint: hint}, i.variant)
	}
}

// form holds a value against the table.
func (i *inspector) form(path, value string) {
	if problem, hint := i.table.at(path).scalarFault(value); problem != "" {
		i.fault(path, problem, hint)
	}
}

func (i *inspector) bound(path string, value float64) {
	if problem, hint := i.table.at(path).boundFault(value); problem != "" {
		i.fault(path, problem, hint)
	}
}

func (i *inspector) duration(path string, d time.Duration) { i.bound(path, d.Seconds()) }

func (i *inspector) plan(e *Experiment) {
	i.form("name", e.Name)
	i.design(e)
	if e.Capacity != nil {
		i.capacity(e)
	}
	if e.Soak {
		i.soak(e)
	}
	i.profile(e)
	if e.Ladder != nil && e.known() {
		i.ladder(e)
	}
	trials := e.Design.Rounds * len(e.Variants)
	if e.Design.Duet { // each but the base has the base beside it
		trials = 2 * (e.Design.Rounds + 1) * (len(e.Variants) - 1) // with those beside an idle variant
	}
	if p := e.Profile; p != nil {
		trials += min(p.Rounds, e.Design.Rounds) * len(e.Variants)
	}
	switch {
	case len(e.Variants) == 0:
		i.fault("", "there is no variant", "")
	case len(e.Variants) > maxVariants:
		i.fault("", fmt.Sprintf("%d variants are too many", len(e.Variants)), fmt.Sprintf("at most %d", maxVariants))
	case trials > maxTrials:
		i.fault("design.rounds", fmt.Sprintf("%d trials are too many", trials), fmt.Sprintf("at most %d rounds of %d variants", maxTrials/len(e.Variants), len(e.Variants)))
	}
	isName := matcher(namePattern)
	names := map[string]bool{}
	for _, v := range e.Variants {
		switch {
		case v.Name == "": // not known
		case !isName(v.Name):
			i.fault("variants", fmt.Sprintf("%q cannot be a variant's name", clip(v.Name)), patternHint(namePattern))
		case names[v.Name]:
			i.fault("variants", fmt.Sprintf("two variants are named %q", v.Name), "")
		}
		names[v.Name] = true
	}
	if e.Base != "" && !names[e.Base] && !names[""] {
		i.fault("compare.base", fmt.Sprintf("there is no variant %q", clip(e.Base)), "")
	}
	for n, t := range e.Thresholds {
		i.form(fmt.Sprintf("thresholds[%d]", n), t)
	}
	isSetting := matcher(sysctlPattern)
	for _, name := range slices.Sorted(maps.Keys(e.Sysctl)) {
		path := join("sysctl", name)
		if !isSetting(name) {
			i.fault(path, fmt.Sprintf("%q cannot be a name here", clip(name)), patternHint(sysctlPattern))
		} else if problem, hint := i.table.at("sysctl").item.scalarFault(e.Sysctl[name]); problem != "" {
			i.fault(path, problem, hint)
		}
	}
	ids := map[string]bool{}
	for n, c := range e.Claims {
		path := fmt.Sprintf("claims[%d]", n)
		i.form(path+".id", c.ID)
		i.form(path+".says", c.Says)
		switch {
		case ids[c.ID]:
			i.fault(path+".id", fmt.Sprintf("%q is there twice", clip(c.ID)), "give each claim its own")
		case c.Holds == "" && c.NotTestable == "":
			i.fault(path+".holds", "is missing", "an expression, or testable with the reason why it cannot be tested here")
		case c.Direction != "" && c.Holds == "":
			i.fault(path+".direction", "there is no holds that it would weaken", "add holds")
		}
		ids[c.ID] = true
	}
}

func (i *inspector) target(t *Target) {
	i.form("target.protocol", t.Protocol)
	i.process("target", &t.Process)
	started := len(t.Start) > 0
	switch {
	case t.Address == "" && t.URL == "":
		i.fault("target", "there is nothing to load", "give address or url for a target that runs, start for one to be started")
	case t.Address == "":
		// The URL is to blame, see below.
	default:
		i.address(t, started)
	}
	switch {
	case t.Protocol == TCP && t.URL != "":
		i.fault("target.url", "a TCP target has no URL", "use address")
	case t.overHTTP() && (t.URL != "" || t.Address != ""):
		i.url(t)
	}
	i.tls(t)
	if t.Timeout != 0 {
		i.fault("target.timeout", "is only for programs", "remove it; for responses there is load.timeout")
	}
	if t.Pprof != "" {
		if u, err := url.Parse(placeholders(t.Pprof)); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			i.fault("target.pprof", fmt.Sprintf("%q is not a URL", clip(t.Pprof)), "such as http://127.0.0.1:{{admin}}/debug/pprof")
		}
	}
	if started {
		return
	}
	for _, f := range []struct {
		name  string
		given bool
	}{{"cpus", len(t.CPUs) > 0}, {"env", len(t.Env) > 0}, {"dir", t.Dir != ""}, {"cgroup", t.Cgroup != nil},
		{"gomaxprocs", t.GOMAXPROCS != 0}, {"nice", t.Nice != nil}, {"numa", t.NUMA != nil}} {
		if f.given {
			i.fault("target."+f.name, "is only for a target that dyno starts", "add start, or remove it")
		}
	}
	if t.Ready.Kind == ReadyLine {
		i.fault("target.ready", "dyno sees the output only of a target that it starts", "add start, or use tcp")
	}
	for path, s := range map[string]string{"target.address": t.Address, "target.url": t.URL, "target.pprof": t.Pprof, "target.ready": t.Ready.URL} {
		i.ownPorts(path, s)
	}
}

// ownPorts reports the ports of a target that dyno does not start.
func (i *inspector) ownPorts(path, s string) {
	for _, name := range RuntimeNames() {
		if uses(s, name) {
			i.fault(path, fmt.Sprintf("{{%s}} is known only for a target that dyno starts", name), "add start, or write the number")
			return
		}
	}
}

func (i *inspector) address(t *Target, started bool) {
	if path, unix := strings.CutPrefix(t.Address, "unix:"); unix {
		if path == "" || len(path) > maxSocketPath {
			i.fault("target.address", fmt.Sprintf("a path of %d bytes", len(path)), fmt.Sprintf("from 1 to %d", maxSocketPath))
		}
		return
	}
	const hint = "host:port, [ipv6]:port or unix:/path"
	host, port, err := net.SplitHostPort(placeholders(t.Address))
	if err != nil || host == "" {
		i.fault("target.address", fmt.Sprintf("%q is not an address", clip(t.Address)), hint)
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		i.fault("target.address", fmt.Sprintf("%q is not a port", clip(port)), "from 1 to 65535")
	}
	if started && uses(t.Address, "port") && !t.mentions("port") {
		i.fault("target.start", "the command is not told its port", "use {{port}} in start or env, or give the address it listens on")
	}
}

// overTLS tells whether the target's URL is one of https.
func (t *Target) overTLS() bool { return strings.HasPrefix(t.URL, "https://") }

// tls judges how connections are secured. What is in the files, the trial sees.
func (i *inspector) tls(t *Target) {
	s := t.TLS
	if s == nil {
		return
	}
	const path = "target.tls"
	if !t.overTLS() {
		i.fault(path, "is only for https", "write https:// in target.url, or remove it")
	}
	for name, version := range map[string]string{"min_version": s.MinVersion, "max_version": s.MaxVersion} {
		if version != "" {
			i.form(path+"."+name, version)
		}
	}
	switch {
	case s.Certificate == "" && s.Key != "":
		i.fault(path+".certificate", "is missing", "the key needs its certificate")
	case s.Certificate != "" && s.Key == "":
		i.fault(path+".key", "is missing", "the certificate needs its key")
	}
}

// http2 judges when HTTP/2 is spoken, and how.
func (i *inspector) http2(t *Target, h *HTTP2) {
	const path = "load.http2"
	if h == nil {
		i.fault(path, "is missing", "")
		return
	}
	i.form(path+".use", h.Use)
	i.bound(path+".streams", float64(h.Streams))
	if h.StreamWindow != 0 {
		i.bound(path+".stream_window", float64(h.StreamWindow))
	}
	if h.ConnectionWindow != 0 {
		i.bound(path+".connection_window", float64(h.ConnectionWindow))
	}
	switch {
	case h.Use == HTTP2Upgrade && t.overTLS():
		i.fault(path+".use", "is only for http", "with https the server chooses by itself: say auto or always")
	case h.Streams > 1 && (h.Use == HTTP2Never || h.Use == HTTP2Auto && !t.overTLS()):
		i.fault(path+".streams", fmt.Sprintf("%d requests at once take HTTP/2", h.Streams), "say use: always, or leave it out")
	}
}

func (i *inspector) url(t *Target) {
	raw := t.URL
	u, err := url.Parse(placeholders(raw))
	const hint = "such as http://127.0.0.1:{{port}}/path"
	switch {
	case raw == "":
		i.fault("target.url", "is missing", hint)
	case err != nil:
		i.fault("target.url", fmt.Sprintf("%q is not a URL", clip(raw)), hint)
	case u.Scheme == "https" && t.Protocol == SSE:
		i.fault("target.url", "https is not supported for subscribers in this version", hint)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Opaque != "":
		i.fault("target.url", fmt.Sprintf("%q is not an http or https URL", clip(raw)), hint)
	case u.User != nil:
		i.fault("target.url", "a user in the URL is not supported", "use load.request.headers.Authorization")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		i.fault("target.url", "a fragment is never sent", "remove what follows #")
	}
}

func (i *inspector) process(path string, p *Process) {
	if len(p.Start) > 0 && p.Start[0] == "" {
		i.fault(path+".start", "the command is empty", "")
	}
	i.duration(path+".ready_timeout", p.ReadyTimeout)
	i.duration(path+".stop_timeout", p.StopTimeout)
	i.cpus(path+".cpus", p.CPUs)
	isName := matcher(envPattern)
	for name := range p.Env {
		if !isName(name) {
			i.fault(path+".env", fmt.Sprintf("%q cannot be a name here", clip(name)), patternHint(envPattern))
		}
	}
	i.placement(path, p)
	at := path + ".ready"
	switch p.Ready.Kind {
	case ReadyNone, ReadyTCP:
	case ReadyHTTP:
		u, err := url.Parse(placeholders(p.Ready.URL))
		if local := strings.HasPrefix(p.Ready.URL, "/"); err != nil || !local && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			i.fault(at, fmt.Sprintf("%q is neither a URL nor a path", clip(p.Ready.URL)), "such as /healthz")
		}
	case ReadyLine:
		if _, err := regexp.Compile(p.Ready.Line); err != nil || p.Ready.Line == "" {
			i.fault(at, fmt.Sprintf("%q is not a regular expression", clip(p.Ready.Line)), "RE2 syntax, such as listening on .*")
		}
	default:
		i.fault(at, fmt.Sprintf("%q is not possible", clip(p.Ready.Kind)), "tcp, none, http or line")
	}
}

func (i *inspector) placement(path string, p *Process) {
	if c := p.Cgroup; c != nil {
		at := path + ".cgroup"
		if *c == (Cgroup{}) {
			i.fault(at, "it limits nothing", "such as {cpu_max: 0.5, memory_max: 512MiB}")
		}
		if c.CPUMax != 0 {
			i.bound(at+".cpu_max", c.CPUMax)
		}
		if c.CPUWeight != 0 {
			i.bound(at+".cpu_weight", float64(c.CPUWeight))
		}
		if c.MemoryMax != 0 {
			i.bound(at+".memory_max", float64(c.MemoryMax))
		}
	}
	if p.GOMAXPROCS != 0 {
		i.bound(path+".gomaxprocs", float64(p.GOMAXPROCS))
		if _, twice := p.Env["GOMAXPROCS"]; twice {
			i.fault(path+".gomaxprocs", "env sets GOMAXPROCS too", "keep one of them")
		}
	}
	if p.Nice != nil {
		i.bound(path+".nice", float64(*p.Nice))
	}
	if p.NUMA != nil {
		i.bound(path+".numa", float64(*p.NUMA))
	}
}

func (i *inspector) cpus(path string, list []int) {
	for n, cpu := range list {
		if cpu < 0 || cpu > maxCPU {
			i.fault(path, fmt.Sprintf("there is no CPU %d", cpu), fmt.Sprintf("from 0 to %d", maxCPU))
		}
		if slices.Contains(list[:n], cpu) {
			i.fault(path, fmt.Sprintf("CPU %d is listed twice", cpu), "")
		}
	}
}

func (i *inspector) services(v *Variant) {
	isName := matcher(servicePattern)
	names := map[string]bool{}
	for n := range v.Services {
		s := &v.Services[n]
		path := join("services", s.Name)
		switch {
		case !isName(s.Name):
			i.fault(path, fmt.Sprintf("%q cannot be a name here", clip(s.Name)), patternHint(servicePattern))
			continue
		case names[s.Name]:
			i.fault(path, "two services have this name", "")
		case len(s.Start) == 0:
			i.fault(path+".start", "is missing", "the command and its arguments")
		}
		names[s.Name] = true
		i.process(path, &s.Process)
		if local := s.Ready.Kind == ReadyTCP || s.Ready.Kind == ReadyHTTP && strings.HasPrefix(s.Ready.URL, "/"); local && !s.mentions("port") {
			i.fault(path+".ready", "the command is not told the port that is probed", "use {{port}} in start or env, or another ready")
		}
	}
}

func (i *inspector) load(v *Variant, search bool) {
	l := &v.Load
	i.cpus("load.cpus", l.CPUs)
	if l.Workers != 0 {
		i.bound("load.workers", float64(l.Workers))
	}
	i.form("load.clock", l.Clock)
	if v.Target.Protocol == SSE {
		i.streams(l, len(v.Target.Start) > 0)
	} else {
		for path, given := range map[string]bool{"load.subscribers": l.Subscribers != nil, "load.publish": l.Publish != nil} {
			if given {
				i.fault(path, "is only for SSE targets", "say protocol: sse, or remove it")
			}
		}
	}
	switch v.Target.Protocol {
	case HTTP:
		i.request(l.Request, len(v.Target.Start) > 0)
		i.http2(&v.Target, l.HTTP2)
		if l.Payload != 0 {
			i.fault("load.payload", "is only for TCP targets", "use request.body")
		}
		if l.Framing != "" {
			i.fault("load.framing", "is only for TCP targets", "remove it")
		}
	case TCP:
		i.bound("load.payload", float64(l.Payload))
		i.form("load.framing", l.Framing)
		if l.Request != nil {
			i.fault("load.request", "is only for HTTP targets", "use payload and framing")
		}
	}
	connections := 0
	if l.Subscribers != nil {
		connections = l.Subscribers.Connections
	}
	switch {
	case l.Subscribers != nil && l.Publish == nil:
		// Nothing is sent that a loop could repeat: streams has looked.
	case l.Closed != nil && l.Open != nil:
		i.fault("load.open", "closed and open exclude each other", "keep one of them; stages are for an open load")
	case l.Closed == nil && l.Open == nil:
		i.fault("load", "says neither closed nor open", "such as closed: {connections: 100} or open: {rate: 5000/s}")
	case l.Closed != nil:
		connections += l.Closed.Connections
		i.bound("load.closed.connections", float64(l.Closed.Connections))
		i.think(l.Closed.Think)
	default:
		connections += l.Open.MaxConnections
		i.open(l.Open, search)
	}
	if l.HTTP2 != nil && v.Target.Protocol != HTTP {
		i.fault("load.http2", "is only for HTTP targets", "remove it")
	}
	if l.RequestsPerConnection != 0 {
		i.bound("load.requests_per_connection", float64(l.RequestsPerConnection))
		if v.Target.Protocol == SSE {
			i.fault("load.requests_per_connection", "is only for HTTP and TCP targets", "remove it")
		}
	}
	if search {
		i.searched(l)
	}
	if connections > 0 && l.Workers > connections {
		i.fault("load.workers", fmt.Sprintf("%d workers for %d connections", l.Workers, connections), "at most one per connection")
	}
	i.duration("load.timeout", l.Timeout)
	i.duration("load.connect_timeout", l.ConnectTimeout)
	i.duration("load.warmup", l.Warmup)
	if l.Requests != 0 {
		i.bound("load.requests", float64(l.Requests))
	}
	if l.Window != 0 || l.Requests == 0 {
		i.duration("load.window", l.Window)
	}
	i.duration("load.reconnect.max_backoff", l.Reconnect.MaxBackoff)
}

// streams judges subscribers and what is published to them.
func (i *inspector) streams(l *Load, started bool) {
	for path, given := range map[string]bool{"load.request": l.Request != nil, "load.payload": l.Payload != 0, "load.framing": l.Framing != ""} {
		if given {
			i.fault(path, "SSE targets have no such thing", "there are load.subscribers and load.publish")
		}
	}
	if s := l.Subscribers; s == nil || s.Connections == 0 {
		i.fault("load.subscribers", "is missing", "such as subscribers: {connections: 1000}")
	} else {
		i.subscribers(s, started)
	}
	i.duration("load.reconnect.min_backoff", l.Reconnect.MinBackoff)
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
	i.bound(path+".connections", float64(s.Connections))
	i.bound(path+".topics", float64(s.Topics))
	i.form(path+".gap_event", s.GapEvent)
	if s.Ramp != 0 {
		i.bound(path+".ramp", s.Ramp)
	}
	if s.ReceiveBuffer != 0 {
		i.bound(path+".receive_buffer", float64(s.ReceiveBuffer))
	}
	i.headers(path, s.Headers, started)
	if s.Slow != nil {
		i.bound(path+".slow.connections", float64(s.Slow.Connections))
		i.bound(path+".slow.rate", float64(s.Slow.Rate))
		if s.Slow.Connections > s.Connections {
			i.fault(path+".slow.connections", fmt.Sprintf("%d of %d subscribers", s.Slow.Connections, s.Connections), "at most all of them")
		}
	}
}

func (i *inspector) publish(p *Publish, started bool) {
	const path = "load.publish"
	if p.Path == "" || p.Path[0] != '/' || strings.ContainsFunc(placeholders(p.Path), notInTarget) {
		i.fault(path+".path", fmt.Sprintf("%q cannot be sent", clip(p.Path)), "begin with /, and write blanks and non-ASCII letters as %20 and the like")
	}
	if !started {
		i.ownPorts(path+".path", p.Path)
	}
	i.bound(path+".size", float64(p.Size))
	i.form(path+".form", p.Form)
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

func (i *inspector) think(t Think) {
	const path = "load.closed.think"
	switch t.Distribution {
	case ThinkNone:
	case ThinkConstant, ThinkExponential:
		i.duration(path+"."+t.Distribution, t.Mean)
	case ThinkUniform:
		i.duration(path+".uniform.from", t.Low)
		i.duration(path+".uniform.to", t.High)
		if t.Low > t.High {
			i.fault(path+".uniform.to", fmt.Sprintf("%v is less than from, %v", t.High, t.Low), "swap them")
		}
	default:
		i.fault(path, fmt.Sprintf("%q is not possible", clip(t.Distribution)), "one of constant, uniform, exponential")
	}
}

func (i *inspector) open(o *Open, search bool) {
	i.form("load.open.arrivals", o.Arrivals)
	i.bound("load.open.max_connections", float64(o.MaxConnections))
	i.bound("load.open.max_waiting", float64(o.MaxWaiting))
	if len(o.Stages) == 0 {
		switch {
		case o.Rate != 0:
			i.bound("load.open.rate", o.Rate)
		case !search:
			i.fault("load.open.rate", "is missing", "such as 5000/s, or give load.stages")
		}
		return
	}
	if o.Rate != 0 {
		i.fault("load.open.rate", "rate and stages exclude each other", "keep one of them")
	}
	idle := true
	for n, s := range o.Stages {
		path := fmt.Sprintf("load.stages[%d]", n)
		i.duration(path+".duration", s.Duration)
		i.bound(path+".from", s.From)
		i.bound(path+".to", s.To)
		idle = idle && s.From == 0 && s.To == 0
	}
	if idle {
		i.fault("load.stages", "the rate is 0 throughout", "give a stage a rate")
	}
}

func (i *inspector) request(r *Request, started bool) {
	const path = "load.request"
	if r == nil {
		i.fault(path, "is missing", "")
		return
	}
	i.form(path+".method", r.Method)
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
	isToken := matcher(tokenPattern)
	for _, h := range headers {
		at := join(path+".headers", h.Name)
		switch name := strings.ToLower(h.Name); {
		case !isToken(h.Name):
			i.fault(at, fmt.Sprintf("%q cannot be a name here", clip(h.Name)), patternHint(tokenPattern))
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
