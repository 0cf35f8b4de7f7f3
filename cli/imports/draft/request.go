package draft

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"dyno/lab/plan"
	"dyno/load/pace"
	"dyno/load/scenario"
	"dyno/load/scenario/template"
	"dyno/load/wire/http1"
)

// A Request is what a reader has found. Its texts may have marks.
type Request struct {
	Line    int
	Name    string // of the step; empty: made of the method and the path
	Method  string
	URL     string // of http or https; or a path, where the server is known
	Headers []scenario.Header
	Body    []byte
	Exact   bool // the client sends the path as it stands
}

// AddHeader adds a header field.
func (r *Request) AddHeader(name, value string) {
	r.Headers = append(r.Headers, scenario.Header{Name: name, Value: value})
}

// HasHeader tells whether the request has a header field.
func (r *Request) HasHeader(name string) bool { return HasHeader(r.Headers, name) }

// DefaultHeader adds a header field unless the request has it.
func (r *Request) DefaultHeader(name, value string) {
	if !r.HasHeader(name) {
		r.AddHeader(name, value)
	}
}

// SetHeader adds a header field in place of those of its name.
func (r *Request) SetHeader(name, value string) {
	r.Headers = withoutHeader(r.Headers, name)
	r.AddHeader(name, value)
}

// AddRequest adds the step of a request. It returns nil if the request cannot be sent, which is then listed.
func (d *Draft) AddRequest(r Request) *scenario.Step {
	path, err := d.place(r.URL)
	switch {
	case err != nil:
	case r.Exact:
		path = ExactPath(path)
	default:
		path = CleanPath(path)
	}
	if err == nil && !scenario.IsToken(cmp.Or(r.Method, "GET")) {
		err = errors.New("the method is no word; such as GET")
	}
	if err == nil && len(d.Steps()) == scenario.MaxSteps {
		err = fmt.Errorf("there are more than %d requests; import a part of the file", scenario.MaxSteps)
	}
	if err != nil {
		d.LeaveFault(r.Line, cmp.Or(r.Method, "GET")+" "+ReplaceMarks(r.URL, "…"), err, "")
		return nil
	}
	step := d.AddStep(r.Line, cmp.Or(r.Name, requestName(r.Method, path)))
	step.Path = d.inURL(path)
	if natural := (&plan.Request{Body: string(r.Body)}).ActualMethod(); r.Method != "" && r.Method != natural {
		step.Method = r.Method
	}
	for _, h := range r.Headers {
		d.header(step, r.Line, h.Name, h.Value)
	}
	d.setBody(step, r.Line, r.Body)
	return step
}

// AddMessage adds a step that sends a message, or several for a stream of gRPC.
func (d *Draft) AddMessage(line int, name, message string) *scenario.Step {
	step := d.AddStep(line, name)
	step.Message = d.inBody(message)
	return step
}

// requestName names a request as figures of quick loads do, which is without the query.
func requestName(method, path string) string {
	path, _, _ = strings.Cut(ReplaceMarks(path, "x"), "?")
	return cmp.Or(method, "GET") + path
}

// Steps returns the steps of the flow, or of another part.
func (d *Draft) Steps() []scenario.Step { return *d.list() }

// list is where steps go.
func (d *Draft) list() *[]scenario.Step {
	switch {
	case d.Part == scenario.OfSetup:
		return &d.Scenario.Setup
	case d.Part == scenario.OfTeardown:
		return &d.Scenario.Teardown
	case d.Flow > 0:
		return &d.Scenario.Flows[d.Flow-1].Steps
	}
	return &d.Scenario.Steps
}

// AddFlow adds a flow, to which steps go from now on.
func (d *Draft) AddFlow(name string, weight float64) {
	d.Scenario.Flows = append(d.Scenario.Flows, scenario.Flow{Name: Name(name), Weight: int(max(1, min(weight, MaxWeight)))})
	d.Flow = len(d.Scenario.Flows)
}

// DropFlow removes the last flow. Steps go to the one before it.
func (d *Draft) DropFlow() {
	d.Scenario.Flows = d.Scenario.Flows[:d.Flow-1]
	d.Flow = len(d.Scenario.Flows)
}

// AddStep adds a step with its name and line. Names of steps differ.
func (d *Draft) AddStep(line int, name string) *scenario.Step {
	const longest = 90
	for _, s := range d.given {
		name = strings.ReplaceAll(name, s.value, "x") // as other values in paths
	}
	name = Name(name)
	if len(name) > longest {
		name = name[:longest]
	}
	name = cmp.Or(name, "request")
	for plain := name; d.names[name] > 0; {
		d.names[plain]++
		name = fmt.Sprintf("%s-%d", plain, d.names[plain])
	}
	d.names[name]++
	d.lines[name] = line
	steps := d.list()
	*steps = append(*steps, scenario.Step{Name: name})
	return &(*steps)[len(*steps)-1]
}

// place returns the path and the query of a URL. All requests go to one server: the first one's.
func (d *Draft) place(raw string) (path string, err error) {
	raw = d.KnownHost(strings.TrimSpace(raw))
	if strings.HasPrefix(raw, "/") {
		if d.Base == "" {
			return "", errors.New("the URL has no host; name the server by --url")
		}
		return withoutFragment(d.prefix() + raw), nil
	}
	origin, path := splitURL(raw)
	if Varies(origin) {
		if d.Origin == "" && d.Base == "" {
			return "", errors.New("the host is not known; name the server by --url")
		}
		return withoutFragment(d.prefix() + path), nil
	}
	if _, err := http1.ParseURL(origin); err != nil {
		return "", err
	}
	if d.otherHost(raw) != "" {
		return "", fmt.Errorf("the request goes to another host than %s; a run loads one server: import it by itself, or name one server for all hosts by --url", d.Origin)
	}
	return withoutFragment(d.prefix() + path), nil
}

// splitURL returns the scheme and the host of a URL, and its path with the query.
func splitURL(raw string) (origin, path string) {
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
	return strings.ToLower(scheme + "://" + host[strings.LastIndexByte(host, '@')+1:]), path
}

// otherHost returns scheme and host of a URL if its requests are left out: the first request, whose server the run loads,
// goes elsewhere. Else it is empty.
func (d *Draft) otherHost(raw string) string {
	origin, _ := splitURL(d.KnownHost(strings.TrimSpace(raw)))
	if _, err := http1.ParseURL(origin); err != nil || strings.HasPrefix(raw, "/") || Varies(origin) {
		return ""
	}
	if d.Origin == "" {
		d.Origin, d.Base = origin, cmp.Or(d.Base, origin)
	}
	if origin == d.Origin || d.Source.URL != "" {
		return ""
	}
	return origin
}

// KnownHost puts values in the place of the marks that stand before a URL's path.
func (d *Draft) KnownHost(raw string) string {
	start := 0
	if at := strings.Index(raw, "://"); at >= 0 {
		start = at + len("://")
	}
	end := len(raw)
	if at := strings.IndexAny(raw[start:], "/?#"); at >= 0 {
		end = start + at
	}
	return OneMark().ReplaceAllStringFunc(raw[:end], func(m string) string {
		expression, _ := d.Expression(m)
		return cmp.Or(strings.TrimSuffix(d.variables[expression].known, "/"), m)
	}) + raw[end:]
}

// prefix is what a URL that the user gave has before the path of each request.
func (d *Draft) prefix() string {
	_, rest, _ := strings.Cut(d.Base, "://")
	if at := strings.IndexByte(rest, '/'); at >= 0 && d.Source.URL != "" {
		return rest[at:]
	}
	return ""
}

// header gives a step a header field. Fields of one name become one, as RFC 9110 allows.
func (d *Draft) header(step *scenario.Step, line int, name, value string) {
	value = strings.TrimSpace(value)
	switch lower := strings.ToLower(name); {
	case lower == "content-length", lower == "transfer-encoding", lower == "connection", strings.HasPrefix(name, ":"):
		return // dyno sets what is needed of these
	case lower == "host" && strings.EqualFold(value, strings.TrimPrefix(strings.TrimPrefix(d.Origin, "http://"), "https://")):
		return
	case !scenario.IsToken(name), strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		d.Leave(line, name, "this is no header field that can be sent", "")
		return
	}
	separator := ", "
	if strings.EqualFold(name, "Cookie") {
		separator = "; "
	}
	for i := range step.Headers {
		if h := &step.Headers[i]; strings.EqualFold(h.Name, name) {
			d.Leave(line, name+" of "+step.Name, "the field stands there several times: it is sent once with all values", "")
			h.Value += separator + d.Template(value)
			return
		}
	}
	step.Headers = append(step.Headers, scenario.Header{Name: name, Value: d.Template(value)})
}

// HasHeader tells whether a step has a header field.
func HasHeader(headers []scenario.Header, name string) bool {
	return slices.ContainsFunc(headers, func(h scenario.Header) bool { return strings.EqualFold(h.Name, name) })
}

// setBody gives a step its body: in the experiment, or in a file next to it.
func (d *Draft) setBody(step *scenario.Step, line int, body []byte) {
	switch text := d.inBody(string(body)); {
	case len(body) == 0:
	case len(text) > template.MaxText:
		d.Leave(line, "body of "+step.Name, fmt.Sprintf("it has more than %d bytes", template.MaxText), "send a shorter one, by body_file of the step")
	case len(text) <= MaxInline && utf8.ValidString(text) && !strings.ContainsRune(text, 0):
		step.Body = text
	default:
		step.BodyFile = d.AddFile(line, step.Name+".body", []byte(text))
	}
}

// TLS returns how connections are secured.
func (d *Draft) TLS() *plan.TLS {
	t := d.Target()
	if t.TLS == nil {
		t.TLS = &plan.TLS{}
	}
	return t.TLS
}

// AddPause adds a pause after the last step.
func (d *Draft) AddPause(pause pace.Think) {
	steps := d.Steps()
	if len(steps) == 0 {
		return
	}
	t := &steps[len(steps)-1].Think
	switch {
	case t.Uniform == nil && pause.Uniform == nil:
		t.Constant = min(t.Constant+pause.Constant, MaxThink)
	case *t == pace.Think{}:
		*t = pause
	default:
		from, to := span(*t)
		moreFrom, moreTo := span(pause)
		*t = pace.Think{Uniform: &pace.Span{From: min(from+moreFrom, MaxThink), To: min(to+moreTo, MaxThink)}}
	}
}

// span returns the shortest and the longest of pauses that are constant or uniform.
func span(t pace.Think) (from, to time.Duration) {
	if t.Uniform != nil {
		return t.Uniform.From, t.Uniform.To
	}
	return t.Constant, t.Constant
}

// CountRepeated returns how many steps are repeated.
func (d *Draft) CountRepeated() (n int) {
	d.Scenario.EachUserStep(func(_ string, st *scenario.Step) {
		if !st.Once {
			n++
		}
	})
	return n
}

// InSeconds returns a time to the microsecond.
func InSeconds(s float64) time.Duration {
	return time.Duration(math.Round(s*1e6)) * time.Microsecond
}

// SetWindow sets how long the load is measured.
func (d *Draft) SetWindow(window time.Duration) {
	const least, most = 100 * time.Millisecond, 24 * time.Hour
	if window < least || window > most {
		d.Leave(0, "duration", "it is not one from 100 ms to 24 h", "load.window has such times")
		return
	}
	d.Load().Window = window
}

// UseProtocol makes the experiment one of another protocol.
func (d *Draft) UseProtocol(name string) {
	d.Experiment = plan.New(d.Experiment.Name, name)
	d.Experiment.Design.Rounds = 1
	d.Load().Warmup = 0
}

// UseGRPC makes the experiment one of calls.
func (d *Draft) UseGRPC() {
	d.UseProtocol(plan.GRPC)
	url := d.Base
	if url == "" {
		url = "http://127.0.0.1:50051"
		d.Leave(0, "server", "the file does not name it: it is taken to be "+url, "name it by --url")
	}
	d.Target().URL = plan.Quote(url)
}

// withoutHeader returns header fields without those of a name.
func withoutHeader(all []scenario.Header, name string) []scenario.Header {
	return slices.DeleteFunc(all, func(h scenario.Header) bool { return strings.EqualFold(h.Name, name) })
}
