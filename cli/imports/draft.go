package imports

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
	"dyno/load/pace"
	"dyno/load/scenario"
	"dyno/load/scenario/template"
	"dyno/load/wire/http1"
)

// Bounds of a draft.
const (
	maxItems  = 1000     // that are listed; the last one says that there are more
	maxInline = 16 << 10 // bytes of a body that stands in the experiment; a longer one gets a file
	maxMarks  = 10_000
	maxThink  = time.Hour
)

// A draft is an experiment in the making. Texts of requests are what will be sent, with marks for what varies:
// a reader gets a mark for an expression of a template, and puts it into a text.
type draft struct {
	source   Source
	src      []byte // what is in its file
	breaks   []int  // offsets of its line breaks; nil: not known yet
	base     string // the URL of the server; empty: not known yet
	origin   string // scheme and host of the first request, for which base stands
	e        *plan.Experiment
	scenario *scenario.Spec
	flow     int      // the flow that steps go to, from 1; 0: there are none
	marks    []string // expressions

	variables map[string]variable
	used      map[string]bool // expressions that stand in a text
	names     map[string]int  // of steps, with the last number that was added to each
	extracted map[string]bool // variables that a step sets before others use them
	numbers   map[string]bool // expressions that stand for numbers in JSON

	files   []File
	secrets []secret
	given   []secret       // credentials that the file's tool reads from the environment: their values may stand anywhere
	lines   map[string]int // of the file, in which steps stand, by the steps' names
	text    []byte         // of the experiment, once it is whole
	items   []Item
	pass    bool // the file says what is sent once, and not for how long

	form     string // the function of templates with which the tool encodes values; empty: urlencode
	verbatim bool   // the tool puts values into bodies as they are, of JSON too
}

func (d *draft) load() *plan.Load     { return &d.e.Variants[0].Load }
func (d *draft) target() *plan.Target { return &d.e.Variants[0].Target }

// leave notes, once, a part of the file that the experiment lacks.
func (d *draft) leave(line int, what, why, hint string) {
	item := Item{line, clip(what), why, hint}
	switch {
	case len(d.items) == maxItems, slices.Contains(d.items, item):
	case len(d.items) == maxItems-1:
		d.items = append(d.items, Item{line, "what follows", "there is more than is listed", "import a part of the file"})
	default:
		d.items = append(d.items, item)
	}
}

// lineAt returns the line of an offset in the file.
func (d *draft) lineAt(offset int64) int {
	if d.breaks == nil {
		d.breaks = []int{}
		for i, c := range d.src {
			if c == '\n' {
				d.breaks = append(d.breaks, i)
			}
		}
	}
	before, _ := slices.BinarySearch(d.breaks, int(offset))
	return 1 + before
}

// clip shortens a text for a list, and keeps it on one line.
func clip(text string) string {
	const longest = 80
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest-1]) + "…"
	}
	return text
}

// The marks of varying parts of a text. Both are private characters, which no protocol has.
const (
	markBegin = "\ue000"
	markEnd   = "\ue001"
)

// mark returns what stands in texts for an expression of a template.
func (d *draft) mark(expression string) string {
	i := slices.Index(d.marks, expression)
	if i < 0 {
		if len(d.marks) == maxMarks {
			return ""
		}
		i = len(d.marks)
		d.marks = append(d.marks, expression)
	}
	return markBegin + strconv.Itoa(i) + markEnd
}

// variable returns the mark of a variable with its first value. Without one, the user has to give it; known is what
// it is at present, which decides only on hosts.
func (d *draft) variable(line int, name, value, known string) string {
	name = variableName(name)
	if d.variables == nil {
		d.variables = map[string]variable{}
	}
	if old, is := d.variables[name]; !is || old.value == "" && value != "" {
		d.variables[name] = variable{line: line, value: value, known: cmp.Or(value, known)}
	}
	return d.mark(name)
}

// A variable is a variable of the scenario.
type variable struct {
	line         int
	value, known string
	otherwise    string // its value without another one; empty: its name
	environment  bool   // it comes from the user's environment
}

// environment returns the mark of a variable of the environment; known is what it is at present.
func (d *draft) environment(line int, name, known string) string {
	mark := d.variable(line, name, "", known)
	if v := d.variables[variableName(name)]; v.value == "" {
		v.environment = true
		d.variables[variableName(name)] = v
	}
	return mark
}

// variableName makes a name of any text that a variable can have.
func variableName(text string) string {
	const longest = 64
	name := notInWord().ReplaceAllString(text, "_")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name[:min(len(name), longest)]
}

var (
	notInWord = lazyregexp.New(`[^0-9A-Za-z_]`)
	notInName = lazyregexp.New(`[^0-9A-Za-z._+-]+`)
	oneMark   = lazyregexp.New(markBegin + `(\d+)` + markEnd)
	// encodedMark is a mark that was percent-encoded, and quotedMark a string in JSON, which may have one.
	encodedMark = lazyregexp.New(`%EE%80%80(\d+)%EE%80%81`)
	quotedMark  = lazyregexp.New(`"([^"\\\n]*)"`)
)

// template returns the template that says a text with marks.
func (d *draft) template(text string) string { return d.expand(plan.Quote(text), "") }

// expand puts expressions in the place of marks, each in a function if one is named.
func (d *draft) expand(text, function string) string {
	return oneMark().ReplaceAllStringFunc(text, func(m string) string {
		i, err := strconv.Atoi(m[len(markBegin) : len(m)-len(markEnd)])
		if err != nil || i >= len(d.marks) {
			return m
		}
		if d.used == nil {
			d.used = map[string]bool{}
		}
		d.used[d.marks[i]] = true
		if function != "" {
			return "{{ " + function + "(" + d.marks[i] + ") }}"
		}
		return "{{ " + d.marks[i] + " }}"
	})
}

// encoded puts expressions in the place of marks that were percent-encoded.
func (d *draft) encoded(text string) string {
	return encodedMark().ReplaceAllStringFunc(text, func(m string) string {
		return d.expand(markBegin+encodedMark().FindStringSubmatch(m)[1]+markEnd, cmp.Or(d.form, "urlencode"))
	})
}

// inURL returns the template of a path and a query.
func (d *draft) inURL(text string) string { return d.expand(d.encoded(plan.Quote(text)), "") }

// inBody returns the template of a body. In JSON, what varies within a string is escaped.
func (d *draft) inBody(text string) string {
	text = d.encoded(plan.Quote(text))
	if body := strings.TrimSpace(text); !d.verbatim && (strings.HasPrefix(body, "{") || strings.HasPrefix(body, "[")) {
		text = quotedMark().ReplaceAllStringFunc(text, func(s string) string { return d.expand(s, "json_escape") })
	}
	return d.expand(text, "")
}

// arguments returns a text with marks as arguments of a function of templates.
func arguments(d *draft, text string) (all []string) {
	literal := func(text string) {
		if text != "" {
			all = append(all, `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text)+`"`)
		}
	}
	for {
		at := oneMark().FindStringIndex(text)
		if at == nil {
			literal(text)
			return all
		}
		literal(text[:at[0]])
		expression := d.expand(text[at[0]:at[1]], "")
		all = append(all, strings.TrimSuffix(strings.TrimPrefix(expression, "{{ "), " }}"))
		text = text[at[1]:]
	}
}

// extract gives a variable the value that a response has at a JSON path, or in a header field.
func (d *draft) extract(step *scenario.Step, e scenario.Extraction) {
	if slices.ContainsFunc(step.Extract, func(other scenario.Extraction) bool { return other.Variable == e.Variable }) {
		return
	}
	step.Extract = append(step.Extract, e)
	if !d.used[e.Variable] { // else it is used before it has a value
		if d.extracted == nil {
			d.extracted = map[string]bool{}
		}
		d.extracted[e.Variable] = true
	}
}

// A field is a name with a value, as in a form.
type field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// encodeForm returns fields as a form is sent, in their order.
func encodeForm(fields []field) string {
	var pairs []string
	for _, f := range fields {
		pairs = append(pairs, url.QueryEscape(f.Name)+"="+url.QueryEscape(f.Value))
	}
	return strings.Join(pairs, "&")
}

// A request is what a reader has found. Its texts may have marks.
type request struct {
	line    int
	name    string // of the step; empty: made of the method and the path
	method  string
	url     string // of http or https; or a path, where the server is known
	headers []scenario.Header
	body    []byte
	exact   bool // the client sends the path as it stands
}

// add adds the step of a request. It returns nil if the request cannot be sent, which is then listed.
func (d *draft) add(r request) *scenario.Step {
	path, err := d.place(r.url)
	switch {
	case err != nil:
	case r.exact:
		path = exactPath(path)
	default:
		path = cleanPath(path)
	}
	if err == nil && !scenario.IsToken(cmp.Or(r.method, "GET")) {
		err = errors.New("the method is no word; such as GET")
	}
	if err == nil && len(d.steps()) == scenario.MaxSteps {
		err = fmt.Errorf("there are more than %d requests; import a part of the file", scenario.MaxSteps)
	}
	if err != nil {
		problem, hint, _ := strings.Cut(err.Error(), "; ")
		d.leave(r.line, cmp.Or(r.method, "GET")+" "+encodedMark().ReplaceAllString(oneMark().ReplaceAllString(r.url, "…"), "…"), problem, hint)
		return nil
	}
	step := d.step(r.line, cmp.Or(r.name, d.nameOf(r.method, path)))
	step.Path = d.inURL(path)
	if natural := (&plan.Request{Body: string(r.body)}).ActualMethod(); r.method != "" && r.method != natural {
		step.Method = r.method
	}
	for _, h := range r.headers {
		d.header(step, r.line, h.Name, h.Value)
	}
	d.setBody(step, r.line, r.body)
	return step
}

// nameOf names a request as figures of quick loads do, which is without the query.
func (d *draft) nameOf(method, path string) string {
	path, _, _ = strings.Cut(encodedMark().ReplaceAllString(oneMark().ReplaceAllString(path, "x"), "x"), "?")
	return cmp.Or(method, "GET") + path
}

// steps returns the flow's steps.
func (d *draft) steps() []scenario.Step {
	if d.flow == 0 {
		return d.scenario.Steps
	}
	return d.scenario.Flows[d.flow-1].Steps
}

// step adds a step with its name and line. Names of steps differ.
func (d *draft) step(line int, name string) *scenario.Step {
	const longest = 90
	for _, s := range d.given {
		name = strings.ReplaceAll(name, s.value, "x") // as other values in paths
	}
	name = strings.Trim(notInName().ReplaceAllString(name, "-"), "-.")
	if len(name) > longest {
		name = name[:longest]
	}
	name = cmp.Or(name, "request")
	if d.names == nil {
		d.names = map[string]int{}
	}
	for plain := name; d.names[name] > 0; {
		d.names[plain]++
		name = fmt.Sprintf("%s-%d", plain, d.names[plain])
	}
	d.names[name]++
	if d.lines == nil {
		d.lines = map[string]int{}
	}
	d.lines[name] = line
	steps := &d.scenario.Steps
	if d.flow > 0 {
		steps = &d.scenario.Flows[d.flow-1].Steps
	}
	*steps = append(*steps, scenario.Step{Name: name})
	return &(*steps)[len(*steps)-1]
}

// place returns the path and the query of a URL. All requests go to one server: the first one's.
func (d *draft) place(raw string) (path string, err error) {
	raw = d.knownHost(strings.TrimSpace(raw))
	if strings.HasPrefix(raw, "/") {
		if d.base == "" {
			return "", errors.New("the URL has no host; name the server by --url")
		}
		return withoutFragment(d.prefix() + raw), nil
	}
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		scheme, rest = "http", raw
	}
	at := strings.IndexAny(rest, "/?#")
	if at < 0 {
		at = len(rest)
	}
	host := rest[:at]
	if path = rest[at:]; path == "" || path[0] != '/' {
		path = "/" + path
	}
	if strings.Contains(host, markBegin) {
		if d.origin == "" && d.base == "" {
			return "", errors.New("the host is not known; name the server by --url")
		}
		return withoutFragment(d.prefix() + path), nil
	}
	host = host[strings.LastIndexByte(host, '@')+1:]
	origin := strings.ToLower(scheme + "://" + host)
	if _, err := http1.ParseURL(origin); err != nil {
		return "", err
	}
	switch d.origin {
	case "":
		if d.origin = origin; d.base == "" {
			d.base = origin
		}
	case origin:
	default:
		if d.source.URL != "" {
			break
		}
		return "", fmt.Errorf("the request goes to another host than %s; a run loads one server: import it by itself, or name one server for all hosts by --url", d.origin)
	}
	return withoutFragment(d.prefix() + path), nil
}

// knownHost puts values in the place of the marks that stand before a URL's path.
func (d *draft) knownHost(raw string) string {
	start := 0
	if at := strings.Index(raw, "://"); at >= 0 {
		start = at + len("://")
	}
	end := len(raw)
	if at := strings.IndexAny(raw[start:], "/?#"); at >= 0 {
		end = start + at
	}
	return oneMark().ReplaceAllStringFunc(raw[:end], func(m string) string {
		i, err := strconv.Atoi(m[len(markBegin) : len(m)-len(markEnd)])
		if err != nil || i >= len(d.marks) || d.variables[d.marks[i]].known == "" {
			return m
		}
		return strings.TrimSuffix(d.variables[d.marks[i]].known, "/")
	}) + raw[end:]
}

// prefix is what a URL that the user gave has before the path of each request.
func (d *draft) prefix() string {
	_, rest, _ := strings.Cut(d.base, "://")
	if at := strings.IndexByte(rest, '/'); at >= 0 && d.source.URL != "" {
		return rest[at:]
	}
	return ""
}

func withoutFragment(path string) string {
	path, _, _ = strings.Cut(path, "#")
	return path
}

// cleanPath encodes what cannot stand in a path and a query, as clients do. Marks stay.
func cleanPath(path string) string {
	return encodePath(path, "%%%02X", func(c byte) bool { return c <= ' ' || c >= 0x7f || c == '"' || c == '<' || c == '>' })
}

// exactPath is cleanPath for curl, which sends a path as it stands, but for letters that are not ASCII.
func exactPath(path string) string {
	return encodePath(path, "%%%02x", func(c byte) bool { return c <= ' ' || c >= 0x7f })
}

func encodePath(path, form string, isEncoded func(c byte) bool) string {
	var b strings.Builder
	for i := 0; i < len(path); {
		if strings.HasPrefix(path[i:], markBegin) { // only there, since long paths would take long otherwise
			if m := oneMark().FindStringIndex(path[i:]); m != nil && m[0] == 0 {
				b.WriteString(path[i : i+m[1]])
				i += m[1]
				continue
			}
		}
		if isEncoded(path[i]) {
			fmt.Fprintf(&b, form, path[i])
		} else {
			b.WriteByte(path[i])
		}
		i++
	}
	return b.String()
}

// header gives a step a header field. Fields of one name become one, as RFC 9110 allows.
func (d *draft) header(step *scenario.Step, line int, name, value string) {
	value = strings.TrimSpace(value)
	switch lower := strings.ToLower(name); {
	case lower == "content-length", lower == "transfer-encoding", lower == "connection", strings.HasPrefix(name, ":"):
		return // dyno sets what is needed of these
	case lower == "host" && strings.EqualFold(value, strings.TrimPrefix(strings.TrimPrefix(d.origin, "http://"), "https://")):
		return
	case !scenario.IsToken(name), strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		d.leave(line, name, "this is no header field that can be sent", "")
		return
	}
	separator := ", "
	if strings.EqualFold(name, "Cookie") {
		separator = "; "
	}
	for i := range step.Headers {
		if h := &step.Headers[i]; strings.EqualFold(h.Name, name) {
			d.leave(line, name+" of "+step.Name, "the field stands there several times: it is sent once with all values", "")
			h.Value += separator + d.template(value)
			return
		}
	}
	step.Headers = append(step.Headers, scenario.Header{Name: name, Value: d.template(value)})
}

// hasHeader tells whether a step has a header field.
func hasHeader(headers []scenario.Header, name string) bool {
	return slices.ContainsFunc(headers, func(h scenario.Header) bool { return strings.EqualFold(h.Name, name) })
}

// setBody gives a step its body: in the experiment, or in a file next to it.
func (d *draft) setBody(step *scenario.Step, line int, body []byte) {
	switch text := d.inBody(string(body)); {
	case len(body) == 0:
	case len(text) > template.MaxText:
		d.leave(line, "body of "+step.Name, fmt.Sprintf("it has more than %d bytes", template.MaxText), "send a shorter one, by body_file of the step")
	case len(text) <= maxInline && utf8.ValidString(text) && !strings.ContainsRune(text, 0):
		step.Body = text
	default:
		step.BodyFile = d.file(line, step.Name+".body", []byte(text))
	}
}

// tls returns how connections are secured.
func (d *draft) tls() *plan.TLS {
	t := d.target()
	if t.TLS == nil {
		t.TLS = &plan.TLS{}
	}
	return t.TLS
}

// think adds a pause after the last step.
func (d *draft) think(pause pace.Think) {
	steps := d.steps()
	if len(steps) == 0 {
		return
	}
	t := &steps[len(steps)-1].Think
	switch {
	case t.Uniform == nil && pause.Uniform == nil:
		t.Constant = min(t.Constant+pause.Constant, maxThink)
	case *t == pace.Think{}:
		*t = pause
	default:
		from, to := span(*t)
		moreFrom, moreTo := span(pause)
		*t = pace.Think{Uniform: &pace.Span{From: min(from+moreFrom, maxThink), To: min(to+moreTo, maxThink)}}
	}
}

// span returns the shortest and the longest of pauses that are constant or uniform.
func span(t pace.Think) (from, to time.Duration) {
	if t.Uniform != nil {
		return t.Uniform.From, t.Uniform.To
	}
	return t.Constant, t.Constant
}

// finish completes the experiment.
func (d *draft) finish() error {
	l, t := d.load(), d.target()
	d.scenario.EachStep(func(_ string, st *scenario.Step) {
		if d.scenario.Cookies && hasHeader(st.Headers, "Cookie") {
			d.scenario.Cookies = false
			d.leave(0, "cookies", "those that the server sets are not kept, because "+st.Name+" has cookies of its own", "take its header field Cookie out, and add cookies: true to the scenario")
		}
	})
	if t.Protocol == plan.HTTP {
		t.URL = plan.Quote(d.base)
	}
	if d.stepCount() > 0 {
		l.Scenario = d.scenario
	}
	if err := d.anyRequest(); err != nil {
		return err
	}
	if l.Closed == nil && l.Open == nil {
		l.Closed = &plan.Closed{Connections: 1}
	}
	d.giveVariables()
	d.hideCredentials()
	d.keepSecrets()
	if d.pass {
		l.Window = 0
		d.leave(0, "load", "the file says what is sent, but not how often: one user sends it once", "load.closed.connections has more users, and load.window in place of load.requests a time")
	}
	return d.repair()
}

// anyRequest says why there is no request, if there is none.
func (d *draft) anyRequest() error {
	l := d.load()
	switch {
	case d.stepCount() > 0, l.Call != nil && l.Call.Method != "":
		return nil
	case len(d.items) == 0:
		return errors.New("there is no request")
	}
	i := d.items[max(0, slices.IndexFunc(d.items, func(i Item) bool { return i.Line > 0 }))]
	where := ""
	if i.Line > 0 {
		where = fmt.Sprintf("line %d: ", i.Line)
	}
	return fmt.Errorf("there is no request that can be carried over; %s%s", where, strings.TrimSuffix(i.What+": "+i.Why+"; "+i.Hint, "; "))
}

// giveVariables gives the scenario the variables that stand in its texts.
func (d *draft) giveVariables() {
	for _, name := range slices.Sorted(maps.Keys(d.variables)) {
		v := d.variables[name]
		switch {
		case !d.used[name] || d.extracted[name]:
			continue
		case v.environment:
			d.scenario.Env = append(d.scenario.Env, name)
			d.leave(v.line, name, "dyno run takes the value of this variable from the environment", "export "+name+"=VALUE")
			continue
		case d.scenario.Variables == nil:
			d.scenario.Variables = map[string]string{}
		}
		if d.scenario.Variables[name] = cmp.Or(v.value, v.otherwise, name); v.value == "" {
			d.leave(v.line, name, "the file does not say the value of this variable, which has "+cmp.Or(v.otherwise, "its name")+" as its value", "give it one in load.scenario.variables")
		}
	}
}
