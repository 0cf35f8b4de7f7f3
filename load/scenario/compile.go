package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"dyno/load/feed"
	"dyno/load/jsonpath"
	"dyno/load/pace"
	"dyno/load/scenario/cookie"
	"dyno/load/scenario/template"
	"dyno/load/wire"
)

// A Scenario is a compiled Spec. It is immutable and may be shared.
type Scenario struct {
	steps    []step
	flows    []flow
	users    choice // of a flow, by weight
	feeds    []source
	kept     uint32 // bit i: a user keeps the row of feed i for good
	counters int
	initial  []string // of the variables that change, by the number of their value
	misses   []Miss   // what extractions may find nothing of; all with Count 0
	names    []string // of the header fields of responses that are looked at, in lower case
	trailers []string // the same of trailing metadata
	once     bool     // a user carries out the steps once, and ends with the first that fails
	bodyOnly bool
	calls    *Calls
	inValue  *[256]bool // which bytes a header field's value may have

	cookies   bool
	setCookie int // its number among names
	coding    int // the number of Content-Encoding among them, or -1
	site      cookie.Site
}

// A step is a compiled Step.
type step struct {
	info    Info
	outline Outline // without cookies
	path    template.Template
	header  []field // that vary
	cookie  field   // where cookies are kept: the step's own, which are sent before those
	body    template.Template
	looks   bool    // into the response's body
	encoder Encoder // of a body that varies; nil: it is sent as it is
	think   pace.Think

	condition *template.Condition // nil: the step is never skipped
	asks      uint32              // bit i: the condition needs a row of feed i
	feeds     uint32              // bit i: it needs a row of feed i

	badPath *wire.Error // the path that its template says cannot be sent
	badBody *wire.Error // the body cannot be encoded

	status      []StatusRange
	statusError *wire.Error
	assertions  []assertion
	extractions []extraction

	// Of a request's body.
	tooLarge      *wire.Error
	notDecoded    *wire.Error // it is not what its Content-Encoding says
	unknownCoding *wire.Error

	ends bool // if it fails, the iteration ends
}

// A field is a header field of a request that varies.
type field struct {
	value template.Template
	bad   *wire.Error // the value that the template says cannot be sent
}

// A flow is a compiled Flow: numbers of steps.
type flow struct {
	once, loop []int
	mix        *choice // by weight; nil: not drawn
	inTurn     bool    // an iteration is the step whose turn it is; with neither, all in their order
}

// A source is rows that are dealt to users.
type source struct {
	table   *feed.Table
	order   feed.Order
	end     feed.End // with feed.Stop, a user without a further row ends
	columns []column // that are used
}

// A column's text goes into a variable.
type column struct{ number, value int }

// Info is what an engine needs to know of a step.
type Info struct {
	Name   string
	Path   string // of the step in the Spec
	Once   bool
	Method string

	// WantsBody says that Response looks at the first MaxBody bytes of the body.
	WantsBody bool
	MaxBody   int

	Timeout time.Duration // how long the response may take; 0: as long as any
}

// An Outline is the constant part of a request, so that a codec can encode it once. Varying parts are
// given with each request: the path first, then the header fields that vary in the order of Header,
// then the body.
type Outline struct {
	Step   int    // that sends it
	Method string // "" of protocols that have none; of calls as the Step has it
	Path   string // with the query; "" if it varies
	Header []OutlineField
	Body   string // "" if it varies

	VariesPath, VariesBody bool
}

// An OutlineField is a header field of an Outline.
type OutlineField struct {
	Name   string
	Value  string // "" if it varies
	Varies bool
}

// Outlines returns what users send. An outline's place in the list is its number in a
// Request. With cookies each step has two: without a Cookie field, and with one.
func (s *Scenario) Outlines() (outlines []Outline) {
	for i := range s.steps {
		o := s.steps[i].outline
		outlines = append(outlines, o)
		if s.cookies {
			o.Header = append(slices.Clip(o.Header), OutlineField{Name: "Cookie", Varies: true})
			outlines = append(outlines, o)
		}
	}
	return outlines
}

// HeaderNames returns the names, in lower case, of the header fields of responses that any
// step looks at. A name's place in the list is its number in a Response.
func (s *Scenario) HeaderNames() []string { return slices.Clone(s.names) }

// TrailerNames returns the same of trailing metadata. Their numbers follow those of HeaderNames: fields
// of both are in a Response's Header.
func (s *Scenario) TrailerNames() []string { return slices.Clone(s.trailers) }

// Steps describes all steps. A step's place in the list is its number in requests and
// results.
func (s *Scenario) Steps() []Info {
	infos := make([]Info, len(s.steps))
	for i := range s.steps {
		infos[i] = s.steps[i].info
	}
	return infos
}

// Compile makes a scenario from an experiment's declaration and a protocol's additions. Or it returns
// up to a hundred faults of the Spec, each with type *Fault.
func Compile(spec *Spec, by Protocol) (*Scenario, error) {
	c := compiler{
		Protocol: by, spec: spec, names: map[string]*variableInfo{}, counters: map[string]int{},
		s: &Scenario{once: spec.Part != OfUsers, bodyOnly: by.BodyOnly, calls: by.Calls, cookies: spec.Cookies, coding: -1, inValue: &valueByte},
	}
	if c.Request == nil {
		c.Request = plainRequest
	}
	if c.Calls != nil {
		c.s.inValue = &metadataByte
	}
	c.site()
	if spec.Cookies {
		c.s.setCookie = c.wantHeader("set-cookie")
	}
	c.variables()
	c.feeds()
	flows := c.flows()
	c.extracted(flows)
	for i := range flows {
		c.flow(&flows[i])
	}
	c.mixUsers(flows)
	c.timeouts(flows)
	if !by.BodyOnly && by.Calls == nil && slices.ContainsFunc(c.s.steps, func(st step) bool { return st.info.WantsBody }) {
		c.s.coding = c.wantHeader("content-encoding")
	}
	c.numberTrailers()
	if err := c.err(); err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	c.s.counters = len(c.counters)
	for i := range c.s.feeds {
		if per := spec.Data[i].Per; per == "user" || per != "iteration" && c.onceFeeds>>i&1 == 1 {
			c.s.kept |= 1 << i
		}
	}
	return c.s, nil
}

// A compiler holds the state of a Spec's compilation.
type compiler struct {
	faults
	Protocol
	spec      *Spec
	s         *Scenario
	names     map[string]*variableInfo // also by FEED.COLUMN
	list      []*variableInfo
	counters  map[string]int
	onceFeeds uint32 // that steps marked Once need
}

// A variableInfo describes a variable.
type variableInfo struct {
	c     *compiler
	name  string
	index int    // in the compiler's list
	value string // from the start
	given bool   // there is one
	later bool   // setup gives it its value, which is not known yet

	feed, column int // the feed, or -1, and its column
	rivals       []string
	setters      []setter
	slot         int // the number of its value in a user, or -1 as long as nothing uses it
}

// A setter is a step that extracts a variable.
type setter struct {
	flow, step int // step within the flow
	name       string
	keeps      bool // the earlier value when it finds nothing
	skippable  bool // the step has a condition
}

// changes tells whether the variable's value is not that from the start, always.
func (v *variableInfo) changes() bool { return v.feed >= 0 || v.later || len(v.setters) > 0 }

// use returns the number of the variable's value, which it is given when it is first used.
func (v *variableInfo) use() int {
	if v.slot < 0 {
		v.slot = len(v.c.s.initial)
		v.c.s.initial = append(v.c.s.initial, v.value)
		if v.feed >= 0 {
			f := &v.c.s.feeds[v.feed]
			f.columns = append(f.columns, column{v.column, v.slot})
		}
	}
	return v.slot
}

func (c *compiler) variable(name string) *variableInfo {
	v := &variableInfo{c: c, name: name, index: len(c.list), feed: -1, slot: -1}
	c.list = append(c.list, v)
	c.names[name] = v
	return v
}

// Variable implements template.Scope. A variable that varies is given its value.
func (c *compiler) Variable(name string) (template.Variable, bool) {
	v := c.names[name]
	switch {
	case v == nil:
		return template.Variable{}, false
	case len(v.rivals) > 0:
		return template.Variable{Rivals: v.rivals}, true
	case !v.changes():
		return template.Variable{Text: v.value}, true
	}
	return template.Variable{Number: v.index, Varies: true, Value: v.use()}, true
}

// Names implements template.Scope: it lists the variables by the names that most would write.
func (c *compiler) Names() (names []string) {
	for _, v := range c.list {
		if !slices.Contains(names, v.name) {
			names = append(names, v.name)
		}
	}
	slices.Sort(names)
	return names
}

// Counter implements template.Scope.
func (c *compiler) Counter(name string) int {
	n, found := c.counters[name]
	if !found {
		n = len(c.counters)
		c.counters[name] = n
	}
	return n
}

// site reads what cookies need to know.
func (c *compiler) site() {
	host := strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(c.Host, "["), "]"))
	_, err := netip.ParseAddr(host)
	c.s.site = cookie.Site{Host: host, Address: err == nil, Secure: c.Secure}
}

// timeouts bounds how many different ones there are: an engine has a list for each.
func (c *compiler) timeouts(flows []numbered) {
	var all []time.Duration
	for i := range flows {
		for k := range flows[i].Steps {
			switch timeout := c.s.steps[flows[i].first+k].info.Timeout; {
			case timeout == 0 || slices.Contains(all, timeout):
			case len(all) == MaxTimeouts:
				c.add(flows[i].at(k)+".deadline", -1, fmt.Sprintf("more than %d different ones", MaxTimeouts), "want one that other steps have")
			default:
				all = append(all, timeout)
			}
		}
	}
}

// numberTrailers numbers the names of trailing metadata, after those of the header.
func (c *compiler) numberTrailers() {
	for i := range c.s.steps {
		st := &c.s.steps[i]
		for k := range st.assertions {
			st.assertions[k].number(len(c.s.names))
		}
		for k := range st.extractions {
			st.extractions[k].number(len(c.s.names))
		}
	}
}

func (c *compiler) variables() {
	for _, name := range slices.Sorted(maps.Keys(c.spec.Variables)) {
		v := c.variable(name)
		v.value, v.given = c.spec.Variables[name], true
	}
	for _, st := range c.spec.Setup {
		for _, e := range st.Extract {
			v := c.names[e.Variable]
			if v == nil {
				v = c.variable(e.Variable)
			}
			v.later, v.given = true, v.given || st.If == "" && !e.Keep
		}
	}
}

func (c *compiler) feeds() {
	for i, d := range c.spec.Data {
		f := source{table: c.Tables[i]}
		f.order = map[string]feed.Order{"shuffled": feed.Shuffled, "random": feed.Random}[d.Order]
		f.end = map[string]feed.End{"stop": feed.Stop}[d.End]
		c.s.feeds = append(c.s.feeds, f)
		for k, name := range f.table.Columns() {
			c.columnOf(i, k, name)
		}
	}
}

// columnOf makes a column a variable, by its own name and with the feed's before it.
func (c *compiler) columnOf(feed, number int, name string) {
	data := c.spec.Data[feed].Name
	full := data + "." + name
	other := c.names[name]
	switch {
	case other == nil:
		v := c.variable(name)
		v.feed, v.column = feed, number
		if c.names[full] == nil {
			c.names[full] = v
		}
		return
	case other.feed < 0:
		c.add("data."+data, -1, fmt.Sprintf("column %q of %s is also a variable", name, c.Tables[feed].Name()), "want another name for the variable")
		return
	case len(other.rivals) == 0:
		other.rivals = []string{c.spec.Data[other.feed].Name + "." + name}
		first := c.variable(other.rivals[0])
		first.feed, first.column = other.feed, other.column
	}
	other.rivals = append(other.rivals, full)
	v := c.variable(full)
	v.feed, v.column = feed, number
}

// A numbered is a Flow with its path and its place.
type numbered struct {
	Flow
	path  string // of its steps: steps, flows.NAME.steps, setup or teardown
	index int
	first int // the number of its first step
}

// at returns the path of a step.
func (f *numbered) at(step int) string { return fmt.Sprintf("%s[%d]", f.path, step) }

// flows returns the flows; Steps make one.
func (c *compiler) flows() (flows []numbered) {
	switch {
	case len(c.spec.Steps) > 0:
		flows = []numbered{{Flow: Flow{Steps: c.spec.Steps}, path: cmp.Or(string(c.spec.Part), "steps")}}
	case len(c.spec.Flows) == 0:
		c.add("steps", -1, "none given", "want at least one")
	}
	total := len(c.spec.Steps)
	for _, f := range c.spec.Flows {
		total += len(f.Steps)
	}
	if total > MaxSteps {
		c.add("steps", -1, fmt.Sprintf("%d in all, in %d flows", total, len(c.spec.Flows)), fmt.Sprintf("want at most %d", MaxSteps))
		return nil
	}
	for i, f := range c.spec.Flows {
		flows = append(flows, numbered{Flow: f, path: "flows." + f.Name + ".steps", index: i})
	}
	names, first := map[string]bool{}, 0
	for i := range flows {
		flows[i].first = first
		first += len(flows[i].Steps)
		for k, st := range flows[i].Steps {
			if names[st.Name] {
				c.add(flows[i].at(k)+".name", -1, fmt.Sprintf("%q is taken", st.Name), "want a name that no other step has")
			}
			names[st.Name] = true
		}
	}
	return flows
}

// extracted makes what steps extract variables, before templates are read.
func (c *compiler) extracted(flows []numbered) {
	for i := range flows {
		for k, st := range flows[i].Steps {
			for _, e := range st.Extract {
				v := c.names[e.Variable]
				switch {
				case v != nil && v.feed >= 0:
					c.add(flows[i].at(k)+".extract."+e.Variable, -1, fmt.Sprintf("%q is a column of %s", e.Variable, c.Tables[v.feed].Name()), "want another name for what is extracted")
					continue
				case v == nil:
					v = c.variable(e.Variable)
				}
				v.setters = append(v.setters, setter{flow: i, step: k, name: st.Name, keeps: e.Keep, skippable: st.If != ""})
			}
		}
	}
}

// mixUsers prepares which flow each user takes.
func (c *compiler) mixUsers(flows []numbered) {
	weights := make([]int, len(flows))
	for i, f := range flows {
		weights[i] = max(1, f.Weight)
	}
	c.s.users = newChoice(weights)
}

// flow compiles a flow's steps and follows which variables have a value in each.
func (c *compiler) flow(f *numbered) {
	out := flow{inTurn: c.spec.InTurn}
	uses := make([][]use, len(f.Steps))
	var weights []int
	weighted := !c.spec.InTurn && slices.ContainsFunc(f.Steps, func(s Step) bool { return s.Weight != 0 })
	for k := range f.Steps {
		st := &f.Steps[k]
		path := f.at(k)
		c.s.steps = append(c.s.steps, c.step(path, st, &uses[k]))
		if st.Weight != 0 && (st.Once || c.spec.InTurn) {
			c.add(path+".weight", -1, "given to a step that is carried out once or in turn", "leave it out")
		}
		if st.Once {
			out.once = append(out.once, f.first+k)
			continue
		}
		out.loop = append(out.loop, f.first+k)
		if weights = append(weights, max(1, st.Weight)); weighted && st.Weight == 0 {
			c.add(path+".weight", -1, "none, but others have one", "want one for each step that is not carried out once")
		}
	}
	if weighted && len(out.loop) > 0 {
		mix := newChoice(weights)
		out.mix = &mix
	}
	c.s.flows = append(c.s.flows, out)
	c.follow(f, uses, weighted || c.spec.InTurn)
}

// follow checks that every variable has a value wherever it is used.
func (c *compiler) follow(f *numbered, uses [][]use, mixed bool) {
	has := make([]bool, len(c.list))
	for i, v := range c.list {
		has[i] = v.given || v.feed >= 0
	}
	sets := func(k int) {
		if f.Steps[k].If != "" { // it may be skipped
			return
		}
		for _, e := range f.Steps[k].Extract {
			if v := c.names[e.Variable]; v != nil && !e.Keep {
				has[v.index] = true
			}
		}
	}
	check := func(k int) {
		st := &c.s.steps[f.first+k]
		for _, u := range uses[k] {
			v := c.list[u.Variable]
			if v.feed >= 0 {
				st.feeds |= 1 << v.feed
				if u.asked {
					st.asks |= 1 << v.feed
				}
				if st.info.Once {
					c.onceFeeds |= 1 << v.feed
					if c.spec.Data[v.feed].Per == "iteration" {
						c.add(u.path, u.Offset, fmt.Sprintf("%q is of a feed with a row per iteration, and the step is carried out once", v.name), "want a row per user")
					}
				}
			}
			if !has[u.Variable] && !u.Optional {
				c.add(u.path, u.Offset, c.missing(f, k, v, mixed), fmt.Sprintf("set it in an earlier step, or give it a first value: variables: {%s: ...}; or ask for it: if: defined(%s)", v.name, v.name))
			}
		}
	}
	for k, st := range f.Steps {
		if st.Once {
			check(k)
			sets(k)
		}
	}
	for k, st := range f.Steps {
		switch {
		case st.Once:
		case mixed:
			check(k)
		default:
			check(k)
			c.s.steps[f.first+k].ends = c.needed(f, k, uses, has)
			sets(k)
		}
	}
}

// missing says why a variable may have no value in step k.
func (c *compiler) missing(f *numbered, k int, v *variableInfo, mixed bool) string {
	if v.later {
		return fmt.Sprintf("variable %q may have no value: setup need not give it one", v.name)
	}
	here := slices.DeleteFunc(slices.Clone(v.setters), func(s setter) bool { return s.flow != f.index })
	if len(here) == 0 {
		return fmt.Sprintf("variable %q is set in another flow only, by step %q", v.name, v.setters[0].name)
	}
	st := f.Steps[k]
	for _, s := range here {
		before := f.Steps[s.step].Once && !st.Once || f.Steps[s.step].Once == st.Once && s.step < k
		switch {
		case s.step == k:
			return fmt.Sprintf("variable %q is set only by the response to this very step", v.name)
		case before && s.skippable:
			return fmt.Sprintf("variable %q may have no value: step %q, which sets it, may be skipped", v.name, s.name)
		case before && s.keeps:
			return fmt.Sprintf("variable %q may have no value: step %q keeps the earlier one when it finds nothing, and there is none", v.name, s.name)
		case before:
			return fmt.Sprintf("variable %q is set by step %q, which need not come before this one, as an iteration is only one of the steps", v.name, s.name)
		}
	}
	if mixed && !f.Steps[here[0].step].Once && !st.Once {
		return fmt.Sprintf("variable %q is set by step %q, which need not come before this one, as an iteration is only one of the steps", v.name, here[0].name)
	}
	return fmt.Sprintf("variable %q is set only by a later step, %q", v.name, here[0].name)
}

// needed tells whether a later step of the iteration uses what step k sets and nothing
// has set before.
func (c *compiler) needed(f *numbered, k int, uses [][]use, has []bool) bool {
	for _, e := range f.Steps[k].Extract {
		v := c.names[e.Variable]
		if v == nil || has[v.index] {
			continue
		}
		for later := k + 1; later < len(f.Steps); later++ {
			if !f.Steps[later].Once && slices.ContainsFunc(uses[later], func(u use) bool { return u.Variable == v.index && !u.Optional }) {
				return true
			}
		}
	}
	return false
}

// A use is a variable in one of a step's texts.
type use struct {
	template.Use
	path  string
	asked bool // by the step's condition
}

// template compiles a template.
func (c *compiler) template(path, text string, uses *[]use) template.Template {
	t, used, faults := template.Compile(text, c)
	c.compiled(path, used, faults, uses)
	return t
}

// condition compiles a step's If. It returns nil if there is none, or a fault.
func (c *compiler) condition(path, text string, uses *[]use) *template.Condition {
	if text == "" {
		return nil
	}
	out, used, faults := template.CompileCondition(text, c)
	c.compiled(path, used, faults, uses)
	return out
}

// compiled notes what a text uses, and what is wrong with it.
func (c *compiler) compiled(path string, used []template.Use, faults []template.Fault, uses *[]use) {
	for _, u := range used {
		*uses = append(*uses, use{Use: u, path: path})
	}
	for _, f := range faults {
		c.add(path, f.Offset, f.Problem, f.Hint)
	}
}

// jsonPath compiles a JSON path.
func (c *compiler) jsonPath(path, text string) *jsonpath.Path {
	p, err := jsonpath.Compile(text)
	if err != nil {
		e := err.(*jsonpath.SyntaxError) //nolint:errorlint // all its errors are
		c.add(path, e.Offset, "JSON path: "+e.Problem, e.Hint)
		return nil
	}
	return p
}
