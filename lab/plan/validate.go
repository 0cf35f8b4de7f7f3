package plan

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/internal/fields"
	"dyno/internal/nearest"
	"dyno/load/pace"
)

// Bounds in addition to the tags'.
const (
	MaxVariants = 1000
	maxTrials   = 100_000
	MaxUsers    = 1_000_000 // of a closed load
)

// maxSocketPath is how long the path of a Unix socket may be on Linux.
const maxSocketPath = 107

// Validate reports every fault of the experiment at once, as *fields.Faults. Parse
// and ReadFile have done so already; it is for experiments built in code. It
// changes nothing.
func (e *Experiment) Validate() error {
	c := fields.NewCollector()
	c.Settle()
	Inspect(e, c)
	return c.Err(e.File, func(string) (int, int) { return 0, 0 })
}

// An inspector judges a plan, however it came about. Where reading the file
// found a value wrong already, it stays silent.
type inspector struct {
	c        *fields.Collector
	variant  string // that is inspected; empty for the plan as a whole
	protocol string // of its target
	plain    bool   // braces in its load are text
}

// Inspect is Validate for who collects the faults of a plan. Faults that reading a file found before
// Settle are not found again.
func Inspect(e *Experiment, c *fields.Collector) {
	i := &inspector{c: c}
	_, parts := Declared()
	i.bounds().Fields("", parts[0], reflect.ValueOf(e).Elem())
	i.plan(e)
	c.Variants = 0
	for n := range e.Variants {
		if e.Variants[n].AliasOf == "" { // an alias has its original's faults
			c.Variants++
		}
	}
	for n := range e.Variants {
		v := &e.Variants[n]
		if v.AliasOf != "" {
			continue
		}
		p := protocolNamed(v.Target.Protocol)
		i.variant, i.protocol, i.plain = v.Name, p.name, v.Plain
		i.bounds().Fields("", parts[1], reflect.ValueOf(v).Elem())
		i.profiled(e.Profile, v)
		i.observed(v)
		i.process("target", &v.Target.Process)
		i.services(v)
		i.placed(e, v)
		if p.is(Loaded) {
			i.target(&v.Target)
			i.load(v, e.Capacity != nil)
		}
		if p.validator != nil {
			p.validate(i, e, v)
		}
	}
}

func (i *inspector) fault(path, problem, hint string) {
	if i.c.Reliable(path) {
		i.c.Add(fields.Finding{Path: path, Problem: problem, Hint: hint}, i.variant)
	}
}

// bounds hold values against the tags of their fields.
func (i *inspector) bounds() *fields.Bounds {
	return &fields.Bounds{Protocol: i.protocol, Fault: i.fault, Misplaced: i.misplaced}
}

// misplaced reports a field that targets of this protocol do not have, and what to do
// instead.
func (i *inspector) misplaced(path string, of, s *fields.Spec) {
	if !protocolNamed(i.protocol).is(Loaded) {
		i.fault(path, OnlyLoaded, "remove it")
		return
	}
	var titles, names []string
	for _, p := range s.Protocols {
		titles, names = append(titles, protocolNamed(p).title), append(names, p)
	}
	var own []string // next to it, those of this protocol that the fewest others have
	fewest := len(protocols)
	for _, f := range of.Fields {
		n := len(f.Spec.Only)
		if !slices.Contains(f.Spec.Only, i.protocol) || n > fewest {
			continue
		}
		if n < fewest {
			own, fewest = nil, n
		}
		own = append(own, fields.Join(fields.Parent(path), f.Name))
	}
	instead := cmp.Or(s.Instead, "use "+strings.Join(own, " and "))
	if s.Instead == "" && len(own) == 0 {
		instead = "remove it"
	}
	i.fault(path, "is only for "+strings.Join(titles, " and ")+" targets", "say protocol: "+strings.Join(names, " or ")+", or "+instead)
}

// bound checks a number that the file does not have in this form against the field's bounds.
func (i *inspector) bound(path string, value float64) {
	if problem, hint := DeclaredAt(path).BoundFault(value); problem != "" {
		i.fault(path, problem, hint)
	}
}

func (i *inspector) duration(path string, d time.Duration) { i.bound(path, d.Seconds()) }

func (i *inspector) plan(e *Experiment) {
	i.design(e)
	if e.Capacity != nil {
		i.capacity(e)
	}
	for n, t := range e.Thresholds {
		if t.After > 0 && !t.Abort {
			i.fault(fmt.Sprintf("thresholds[%d].after", n), "is only for a threshold that ends the run", "abort: true, or leave it out")
		}
	}
	if e.Soak {
		i.soak(e)
	}
	i.profile(e)
	if e.Ladder != nil && e.hasVariants() {
		i.ladder(e)
	}
	trials := e.Design.Rounds * len(e.Variants)
	if e.Design.Duet { // each but the base runs at the same time as the base
		trials = 2 * (e.Design.Rounds + 1) * (len(e.Variants) - 1) // with those next to an idle variant
	}
	if p := e.Profile; p != nil {
		trials += min(p.Rounds, e.Design.Rounds) * len(e.Variants)
	}
	switch {
	case len(e.Variants) == 0:
		i.fault("", "there is no variant", "")
	case len(e.Variants) > MaxVariants:
		i.fault("", fmt.Sprintf("%d variants are too many", len(e.Variants)), fmt.Sprintf("at most %d", MaxVariants))
	case trials > maxTrials:
		i.fault("design.rounds", fmt.Sprintf("%d trials are too many", trials), fmt.Sprintf("at most %d rounds of %d variants", maxTrials/len(e.Variants), len(e.Variants)))
	}
	names := map[string]bool{}
	for _, v := range e.Variants {
		switch {
		case v.Name == "": // not known
		case !patterns["name"].Matches(v.Name):
			i.fault("variants", fmt.Sprintf("%q cannot be a variant's name", nearest.Clip(v.Name)), patterns["name"].Hint)
		case names[v.Name]:
			i.fault("variants", fmt.Sprintf("two variants are named %q", v.Name), "")
		}
		names[v.Name] = true
	}
	if e.Base != "" && !names[e.Base] && !names[""] {
		i.fault("compare.base", fmt.Sprintf("there is no variant %q", nearest.Clip(e.Base)), "")
	}
	ids := map[string]bool{}
	for n, c := range e.Claims {
		path := fmt.Sprintf("claims[%d]", n)
		switch {
		case ids[c.ID]:
			i.fault(path+".id", fmt.Sprintf("%q is there twice", nearest.Clip(c.ID)), "give each claim its own")
		case c.Holds != "" && c.Published+c.Measured != "":
			i.fault(path+".holds", "is for a claim without a size", "leave out holds, or published and measured")
		case c.Published == "" && c.Measured != "":
			i.fault(path+".published", "is missing", "the size that measured is held against; a bound is written with holds")
		case c.Published != "" && c.Measured == "" && c.NotTestable == "":
			i.fault(path+".measured", "is missing", "the expression of what is held against the published size")
		case c.Holds+c.Measured == "" && c.NotTestable == "":
			i.fault(path+".holds", "is missing", "a condition, or published and measured, or testable with the reason why it cannot be tested here")
		}
		ids[c.ID] = true
	}
}

// target judges a target that is loaded.
func (i *inspector) target(t *Target) {
	started := len(t.Start) > 0
	switch {
	case t.Address == "" && t.URL == "":
		i.fault("target", "there is nothing to load", "give address or url for a target that runs, start for one to be started")
	case t.Address != "": // else the URL is to blame, see below
		i.address(t, started)
	}
	if HasURL(t.Protocol) && (t.URL != "" || t.Address != "") {
		i.url(t)
	}
	if t.Pprof != "" {
		if u, err := url.Parse(placeholders(t.Pprof)); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			i.fault("target.pprof", fmt.Sprintf("%q is not a URL", nearest.Clip(t.Pprof)), "such as http://127.0.0.1:{{admin}}/debug/pprof")
		}
	}
	if started {
		return
	}
	for _, f := range DeclaredAt("target").Fields {
		if f.Spec.Started && !reflect.ValueOf(t).Elem().FieldByIndex(f.Spec.At).IsZero() {
			i.fault("target."+f.Name, "is only for a target that dyno starts", "add start, or remove it")
		}
	}
	if t.Ready.Kind == ReadyLine {
		i.fault("target.ready", "dyno sees the output only of a target that it starts", "add start, or use tcp")
	}
	for path, s := range map[string]string{"target.address": t.Address, "target.url": t.URL, "target.proxy": t.Proxy, "target.pprof": t.Pprof, "target.ready": t.Ready.URL} {
		i.ownPorts(path, s)
	}
}

// ownPorts reports the ports of a target that dyno does not start.
func (i *inspector) ownPorts(path, s string) {
	if i.plain && strings.HasPrefix(path, "load.") {
		return
	}
	for _, name := range RuntimeNames() {
		if uses(s, name) {
			i.fault(path, fmt.Sprintf("{{%s}} is known only for a target that dyno starts", name), "add start, or write the number")
			return
		}
	}
}

// sent returns a text of the load as it will be sent, with something in the place of the ports.
func (i *inspector) sent(s string) string {
	if i.plain {
		return s
	}
	return placeholders(s)
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
		i.fault("target.address", fmt.Sprintf("%q is not an address", nearest.Clip(t.Address)), hint)
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		i.fault("target.address", fmt.Sprintf("%q is not a port", nearest.Clip(port)), "from 1 to 65535")
	}
	if started && uses(t.Address, "port") && !t.Mentions("port") {
		i.fault("target.start", "the command does not get its port", "use {{port}} in start or env, or give the address it listens on")
	}
}

func (i *inspector) url(t *Target) {
	without, _, user := CutUser(t.URL)                       // a message shows no password
	raw := strings.ReplaceAll(without, QuotedBraces, braces) // as it was typed
	u, err := url.Parse(placeholders(without))
	const hint = "such as http://127.0.0.1:{{port}}/path"
	switch {
	case raw == "":
		i.fault("target.url", "is missing", hint)
	case err != nil:
		i.fault("target.url", fmt.Sprintf("%q is not a URL", nearest.Clip(raw)), hint)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Opaque != "":
		i.fault("target.url", fmt.Sprintf("%q is not an http or https URL", nearest.Clip(raw)), hint)
	case user:
		i.fault("target.url", "a user in the URL is not supported", "use load.request.headers.Authorization")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		i.fault("target.url", "a fragment is never sent", "remove what follows #")
	}
}

func (i *inspector) process(path string, p *Process) {
	if len(p.Start) > 0 && p.Start[0] == "" {
		i.fault(path+".start", "the command is empty", "")
	}
	if len(p.Build) > 0 && p.Build[0] == "" {
		i.fault(path+".build", "the command is empty", "")
	}
	for _, s := range p.Build {
		for _, name := range TemplateNames(s) {
			i.fault(path+".build", fmt.Sprintf("{{%s}} is known only when a process is started", name), "leave it out; start has it")
		}
	}
	if p.Cgroup != nil && *p.Cgroup == (Cgroup{}) {
		i.fault(path+".cgroup", "it limits nothing", "such as {cpu_max: 0.5, memory_max: 512MiB}")
	}
	if _, twice := p.Env["GOMAXPROCS"]; twice && p.GOMAXPROCS != 0 {
		i.fault(path+".gomaxprocs", "env sets GOMAXPROCS too", "keep one of them")
	}
	at := path + ".ready"
	switch p.Ready.Kind {
	case ReadyNone, ReadyTCP:
	case ReadyHTTP:
		u, err := url.Parse(placeholders(p.Ready.URL))
		if local := strings.HasPrefix(p.Ready.URL, "/"); err != nil || !local && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			i.fault(at, fmt.Sprintf("%q is neither a URL nor a path", nearest.Clip(p.Ready.URL)), "such as /healthz")
		}
	case ReadyLine:
		if _, err := regexp.Compile(p.Ready.Line); err != nil || p.Ready.Line == "" {
			i.fault(at, fmt.Sprintf("%q is not a regular expression", nearest.Clip(p.Ready.Line)), "RE2 syntax, such as listening on .*")
		}
	default:
		i.fault(at, fmt.Sprintf("%q is not possible", nearest.Clip(p.Ready.Kind)), "tcp, none, http or line")
	}
}

// Placements returns the selectors of the agents for the variant's processes. Each comes with the path
// of a field that has it.
func (v *Variant) Placements() map[string]string {
	all := map[string]string{}
	for n := range v.Services {
		if s := &v.Services[n]; s.Agent != "" {
			all[s.Agent] = fields.Join("services", s.Name) + ".agent"
		}
	}
	if v.Target.Agent != "" {
		all[v.Target.Agent] = "target.agent"
	}
	return all
}

// placed judges what is on agents' machines.
func (i *inspector) placed(e *Experiment, v *Variant) {
	all := map[string]*Process{"target": &v.Target.Process}
	for n := range v.Services {
		all[fields.Join("services", v.Services[n].Name)] = &v.Services[n].Process
	}
	for path, p := range all {
		at := path + ".agent"
		switch {
		case p.Agent == "":
		case len(p.Build) > 0:
			i.fault(at, "what is built on this machine does not run on another one", "remove build, or agent")
		case v.Target.Protocol == Program:
			i.fault(at, "a program runs on dyno's machine, with its services", "remove it")
		case e.Design.Duet:
			i.fault(at, "the targets of a duet share dyno's machine, whose noise hits both", "remove it, or design.duet: false")
		}
	}
}

func (i *inspector) services(v *Variant) {
	names := map[string]bool{}
	for n := range v.Services {
		s := &v.Services[n]
		path := fields.Join("services", s.Name)
		switch {
		case names[s.Name]:
			i.fault(path, "two services have this name", "")
		case len(s.Start) == 0:
			i.fault(path+".start", "is missing", "the command and its arguments")
		}
		names[s.Name] = true
		i.process(path, &s.Process)
		if local := s.Ready.Kind == ReadyTCP || s.Ready.Kind == ReadyHTTP && strings.HasPrefix(s.Ready.URL, "/"); local && !s.Mentions("port") {
			i.fault(path+".ready", "the command does not get the port that is probed", "use {{port}} in start or env, or another ready")
		}
	}
}

// load judges how the parts of any load go together.
func (i *inspector) load(v *Variant, search bool) {
	l := &v.Load
	connections := 0
	if l.Subscribers != nil {
		connections = l.Subscribers.Connections
	}
	switch {
	case l.Subscribers != nil && l.Publish == nil:
		// Nothing is sent that a loop could repeat: streams looks.
	case l.Closed != nil && l.Open != nil:
		i.fault("load.open", "closed and open exclude each other", "keep one of them")
	case l.Closed == nil && l.Open == nil:
		i.fault("load", "says neither closed nor open", "such as closed: {connections: 100} or open: {rate: 5000/s}")
	case l.Closed != nil:
		connections += l.Closed.Connections
		i.think("load.closed.think", l.Closed.Think)
		if l.Paces == nil {
			i.closed(l)
		}
	default:
		connections += l.Open.Connections()
		if l.Paces == nil {
			i.open(l, search)
		}
		if l.Iterations.Counted() {
			i.fault("load.iterations", "are of users of a closed loop", "load.window")
		}
	}
	if l.Paces != nil {
		i.paces(l)
	} else if l.Scenario == nil && (l.Iterations.Counted() || l.Finish > 0) {
		i.fault("load.iterations", "iterations and finish are of users of a scenario", "load.requests, or give load.scenario")
	}
	if search {
		i.searched(l)
	}
	if connections > 0 && l.Workers > connections {
		i.fault("load.workers", fmt.Sprintf("%d workers for %d connections", l.Workers, connections), "at most one per connection")
	}
	if l.Window == 0 && !l.Counted() {
		i.duration("load.window", 0)
	}
}

func (i *inspector) think(path string, t pace.Think) {
	u := t.Uniform
	switch {
	case t.Several():
		i.fault(path, "more than one distribution", "one of constant, uniform, exponential")
	case u != nil && u.From > u.To:
		i.fault(path+".uniform.to", fmt.Sprintf("%v is less than from, %v", u.To, u.From), "swap them")
	}
}

func (i *inspector) open(l *Load, search bool) {
	o := l.Open
	if len(l.Stages) == 0 {
		if o.Rate == 0 && !search {
			i.fault("load.open.rate", "is missing", "such as 5000/s, or give load.stages")
		}
		return
	}
	if o.Rate != 0 {
		i.fault("load.open.rate", "rate and stages exclude each other", "keep one of them")
	}
	if o.Ramp != 0 {
		i.fault("load.open.ramp", "ramp and stages exclude each other", "make the ramp the first stage")
	}
	idle := true
	for n, s := range l.Stages {
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

// closed judges the number of users of a closed load.
func (i *inspector) closed(l *Load) {
	if len(l.Stages) == 0 {
		if l.Closed.Connections == 0 {
			i.fault("load.closed.connections", "is missing", "such as 100, or give load.stages")
		}
		return
	}
	for n, s := range l.Stages {
		path := fmt.Sprintf("load.stages[%d]", n)
		i.duration(path+".duration", s.Duration)
		for _, end := range []struct {
			field string
			users float64
		}{{"from", s.From}, {"to", s.To}} {
			if end.users != math.Trunc(end.users) || end.users < 0 || end.users > MaxUsers {
				i.fault(path+"."+end.field, fmt.Sprintf("%v is no number of users", end.users), fmt.Sprintf("a whole number from 0 to %d", MaxUsers))
			}
		}
	}
	switch {
	case l.MostUsers() == 0:
		i.fault("load.stages", "there are no users throughout", "give a stage users, such as to: 100")
	case l.Scenario != nil && l.Scenario.Users != 0:
		i.fault("load.scenario.users", "users and stages exclude each other", "the stages say how many users there are")
	case l.Scenario == nil && l.Closed.Connections != l.connectionsOfUsers():
		i.fault("load.closed.connections", "connections and stages exclude each other", "the stages say how many users there are, each with a connection or a stream")
	}
	if l.Requests > 0 {
		i.fault("load.requests", "requests and stages of users exclude each other", "keep one of them")
	}
}
