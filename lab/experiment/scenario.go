package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/load/feed"
	"dyno/load/pace"
	"dyno/load/scenario"
	"dyno/load/wire/http1"
)

// A Scenario is what users do instead of repeating one request, call or message: step after step,
// with data of their own, with what earlier responses said, with pauses. The package scenario says how
// users go through it, and what templates may stand in its texts.
type Scenario struct {
	Users     int               `yaml:"users" range:"1..1000000" otherwise:"one for each request that the connections carry at once; of an open load 10000" doc:"how many users there are; of an open load, where an arrival is an iteration of a user, the most there may be at once"`
	Restart   bool              `yaml:"restart" doc:"users of a closed load who have ended are replaced by new ones"`
	InTurn    bool              `yaml:"in_turn" doc:"an iteration carries out one of the repeated steps, and all users together go through them in their order; no step has a weight"`
	Cookies   bool              `yaml:"cookies" for:"http" instead:"keep what is needed in variables, with extract" doc:"each user keeps the cookies that it is given (RFC 6265)"`
	Headers   []Header          `yaml:"headers" for:"http llm" names:"token" doc:"header fields of each step that has none of that name; templates may stand in them"`
	Metadata  []Header          `yaml:"metadata" for:"grpc" names:"token" doc:"metadata of each step that has none of that name, in addition to that of load.call; templates may stand in it"`
	Variables map[string]string `yaml:"variables" names:"variable" kind:"word" doc:"variables with their first values, for {{ name }} in templates"`
	Data      []Data            `yaml:"data" names:"variable" most:"16" doc:"files of rows for users; each column is a variable"`
	Steps     []Step            `yaml:"steps" most:"1000" doc:"what every user does; or flows"`
	Flows     []Flow            `yaml:"flows" names:"name" doc:"what different users do"`
}

// Data are the rows of a file, which are dealt to users.
type Data struct {
	Name      string            `yaml:",key"`
	File      string            `yaml:"file,required,short" kind:"path" doc:"the file, relative to this one: CSV (RFC 4180) with the columns' names in its first row, or JSON Lines if its name ends in .jsonl or .ndjson"`
	Format    string            `yaml:"format" oneof:"auto csv jsonl" default:"auto" doc:"how the file holds its rows; auto: as its name says"`
	Delimiter string            `yaml:"delimiter" kind:"word" otherwise:"a comma" doc:"CSV: the character between fields"`
	Columns   []string          `yaml:"columns" kind:"word" otherwise:"those that the first row names, or the members of the first object" doc:"the columns' names, of CSV without them in its first row, or of JSON Lines"`
	Paths     map[string]string `yaml:"paths" names:"variable" most:"1000" doc:"JSON Lines: columns by name, with the JSON path of each one's value, such as $.address.city"`
	Order     string            `yaml:"order" oneof:"sequential shuffled random" default:"sequential" doc:"in which order rows are taken; shuffled: each once, in another order each time; random: each drawn from all"`
	End       string            `yaml:"end" oneof:"wrap stop" default:"wrap" doc:"what follows the last row; wrap: the first; stop: the end of the user and of the flow that needs the row, and of the load when all have ended"`
	Per       string            `yaml:"per" oneof:"auto iteration user" default:"auto" doc:"for how long a user keeps a row; auto: for good if a step that is carried out once uses a column, else for an iteration"`
}

// A Flow is what some of the users do.
type Flow struct {
	Name   string `yaml:",key"`
	Weight int    `yaml:"weight" range:"1..1000000" default:"1" doc:"its share of the users, in relation to the other flows'"`
	Steps  []Step `yaml:"steps,required,again" most:"1000" doc:"what these users do, as in steps above"`
}

// A Step is one request, call or message of a user, what is expected of the response, and the pause after it.
type Step struct {
	Name     string   `yaml:"name,required" like:"name" doc:"its name in results, which no other step has"`
	Once     bool     `yaml:"once" doc:"each user carries it out once, before the steps that are repeated; if it fails, a user of a closed load waits 100 ms, doubling up to 5 s, and begins again with the first such step"`
	If       string   `yaml:"if" kind:"word" otherwise:"the step is never skipped" doc:"the step is skipped where this condition of variables does not hold, such as status == 'vip', count > 3 or defined(token); and, or, not and parentheses join conditions"`
	Weight   int      `yaml:"weight" range:"1..1000000" otherwise:"steps follow one another in their order" doc:"each time, one of the repeated steps is drawn by weight; each of them then has a weight"`
	Method   string   `yaml:"method" for:"http grpc llm" instead:"use message" otherwise:"of http GET, or POST with a body" doc:"of http and llm: the request method; of grpc: what is called, pkg.Service/Method"`
	Path     string   `yaml:"path" for:"http llm" instead:"of grpc use method, of tcp message" kind:"word" otherwise:"of http those of target.url" doc:"path and query; a template; of llm: of a request that no model answers, such as a log-in"`
	Headers  []Header `yaml:"headers" for:"http llm" instead:"of grpc use metadata" names:"token" doc:"header fields in this order; templates may stand in them"`
	Body     string   `yaml:"body" for:"http llm" instead:"use message" kind:"word" doc:"the request's content; a template"`
	BodyFile string   `yaml:"body_file" for:"http llm" instead:"use message_file" kind:"path" doc:"the file with the content, relative to this one, in place of body; a template, too, of up to 1 MiB"`

	Message     string        `yaml:"message" for:"grpc tcp" instead:"use body" kind:"word" otherwise:"an empty message" doc:"what is sent, a template; of grpc: the message in JSON, or for a stream of the client's several, in which nothing varies; of tcp: without what the framing adds"`
	MessageFile string        `yaml:"message_file" for:"grpc tcp" instead:"use body_file" kind:"path" doc:"the file with the message, relative to this one, in place of message; a template, too, of up to 1 MiB"`
	Encoding    string        `yaml:"encoding" for:"tcp" oneof:"text base64 hex" otherwise:"text" doc:"how the message is written; base64 and hex: what they stand for is sent"`
	Metadata    []Header      `yaml:"metadata" for:"grpc" instead:"of http use headers" names:"token" doc:"metadata in this order; templates may stand in it; the value of a name that ends in -bin is base64"`
	Deadline    time.Duration `yaml:"deadline" for:"grpc" range:"1ms..1h" otherwise:"that of load.call" doc:"the time limit that the server gets for the call (grpc-timeout); dyno gives it up then, too"`

	Prompt    string      `yaml:"prompt" for:"llm" kind:"word" doc:"what the user asks the model; a template, whose texts are escaped as JSON needs it"`
	Messages  []ModelTurn `yaml:"messages" for:"llm" most:"1000" doc:"the conversation so far, and what the user asks now, in place of prompt"`
	MaxTokens int         `yaml:"max_tokens" for:"llm" range:"1..10000000" otherwise:"those of load.ask" doc:"the most tokens that the answer may have"`

	Think   Think        `yaml:"think" otherwise:"none" doc:"the pause after the response"`
	Status  string       `yaml:"status" for:"http grpc llm" instead:"use assert" kind:"word" otherwise:"below 400; of grpc OK" doc:"the statuses that are expected, such as 200, 201, 300-304 or 5xx, of grpc such as OK, NOT_FOUND; another is an error of kind assertion"`
	Assert  []Assertion  `yaml:"assert" most:"1000" doc:"what must be true of the response; else the request has failed, with kind assertion"`
	Extract []Extraction `yaml:"extract" names:"variable" doc:"variables that take their values from the response"`
	MaxBody int          `yaml:"max_body" kind:"size" range:"1..64MiB" otherwise:"1MiB" doc:"how much of the content is looked at by assert and extract, of grpc in JSON; more fails them"`
}

// A ModelTurn is a part of a conversation with a language model.
type ModelTurn struct {
	Role    string `yaml:"role,required" oneof:"system developer user assistant" doc:"who says it"`
	Content string `yaml:"content,required" kind:"word" doc:"what is said; a template, whose texts are escaped as JSON needs it"`
}

// An Assertion is something that must be true of a response: of a value in its body, of a
// header field or metadata, or of the body. The body of a call's response is its message in JSON,
// or an array of the messages that the server streams.
type Assertion struct {
	JSON     string  `yaml:"json" doc:"of the value at this JSON path in the content, such as $.items[0].id; of grpc the message in JSON, of a stream of the server's an array of all; of a model's answer $.text and $.tokens"`
	Header   string  `yaml:"header" for:"http llm" instead:"of grpc use metadata or trailer" like:"token" doc:"of the first header field of this name; without json and header, of the content"`
	Metadata string  `yaml:"metadata" for:"grpc" instead:"of http use header" like:"token" doc:"of the first metadata of this name before the messages; without it, json and trailer, of the messages in JSON"`
	Trailer  string  `yaml:"trailer" for:"grpc" like:"token" doc:"of the first metadata of this name after the messages"`
	Equals   *string `yaml:"equals" kind:"word" doc:"it is this text; variables may stand in it"`
	Contains string  `yaml:"contains" kind:"word" doc:"it contains this text; variables may stand in it"`
	Matches  string  `yaml:"matches" kind:"word" doc:"it matches this regular expression (RE2)"`
	Exists   bool    `yaml:"exists" doc:"it is there, whatever it says"`
}

// An Extraction takes the value of a variable from a response: from where an Assertion looks.
type Extraction struct {
	Variable string  `yaml:",key"`
	JSON     string  `yaml:"json,short" doc:"the value at this JSON path in the content, such as $.data.token; of grpc the message in JSON, of a stream of the server's an array of all; of a model's answer $.text and $.tokens"`
	Header   string  `yaml:"header" for:"http llm" instead:"of grpc use metadata or trailer" like:"token" doc:"the first header field of this name; without json and header, the content"`
	Metadata string  `yaml:"metadata" for:"grpc" instead:"of http use header" like:"token" doc:"the first metadata of this name before the messages; without it, json and trailer, the messages in JSON"`
	Trailer  string  `yaml:"trailer" for:"grpc" like:"token" doc:"the first metadata of this name after the messages"`
	Pattern  string  `yaml:"pattern" kind:"word" doc:"what this regular expression (RE2) finds in it"`
	Group    int     `yaml:"group" range:"1..1000" otherwise:"the first, or all that was found if there is none" doc:"the group of the pattern that is taken"`
	Default  *string `yaml:"default" kind:"word" otherwise:"the request has failed, with kind assertion" doc:"the value when nothing is found"`
	Keep     bool    `yaml:"keep" doc:"the variable keeps its value when nothing is found"`
}

// DefaultStep returns a step in which everything has its default that has one.
func DefaultStep(name string) Step { return Step{Name: name} }

// DefaultData returns the rows of a file, taken as they are by default.
func DefaultData(name, file string) Data {
	var d Data
	preset(reflect.ValueOf(&d).Elem(), specAt("load.scenario.data.x"), "", nil)
	d.Name, d.File = name, file
	return d
}

// ReadScenario reads a scenario from a file of its own, which holds what load.scenario holds
// in an experiment. Faults are *Faults; other errors are about reading the file.
func ReadScenario(path string) (*Scenario, error) {
	src, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	r := newReader(path, Options{})
	s := specAt("load.scenario")
	var out Scenario
	if r.root = parseTree(src, r.c); r.root != nil {
		r.index(r.root)
		checker{r.c, s}.check(r.root, s, false)
		v := &view{reader: r}
		v.value(r.root, s, reflect.ValueOf(&out).Elem())
	}
	if err := r.c.err(path, r.place); err != nil {
		return nil, err
	}
	return &out, nil
}

// scenario judges what can be said of a scenario without its data. The protocol reads its
// statuses.
func (i *inspector) scenario(v *Variant, statuses readStatuses) {
	const path = "load.scenario"
	s := v.Load.Scenario
	if c := v.Load.Closed; c != nil && c.Think != (Think{}) {
		i.fault("load.closed.think", "is only for a request that is repeated", "give it to the steps that users think after")
	}
	taken := func(at, name string) {
		if _, ok := v.Vars[name]; ok {
			i.fault(at, fmt.Sprintf("%q is a variable of the experiment, too", name), "use another name")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Variables)) {
		taken(join(path+".variables", name), name)
	}
	for _, d := range s.Data {
		if at := join(path+".data", d.Name); len(d.Delimiter) > 1 && d.Delimiter != `\t` {
			i.fault(at+".delimiter", fmt.Sprintf("%q is not one character", clip(d.Delimiter)), `such as ; or \t`)
		}
	}
	if len(s.Steps) > 0 && len(s.Flows) > 0 {
		i.fault(path+".flows", "steps and flows exclude each other", "put the steps into a flow of their own")
	}
	s.eachStep(func(at string, st *Step) {
		at = join(path, at)
		i.think(at+".think", st.Think)
		if st.Body != "" && st.BodyFile != "" {
			i.fault(at+".body_file", "body and body_file exclude each other", "keep one of them")
		}
		if st.Message != "" && st.MessageFile != "" {
			i.fault(at+".message_file", "message and message_file exclude each other", "keep one of them")
		}
		if _, err := st.statuses(statuses); err != nil {
			problem, hint, _ := strings.Cut(err.Error(), ": ")
			i.fault(at+".status", problem, hint)
		}
		for n := range st.Assert {
			i.assertion(fmt.Sprintf("%s.assert[%d]", at, n), &st.Assert[n])
		}
		for n := range st.Extract {
			e := &st.Extract[n]
			to := join(at+".extract", e.Variable)
			taken(to, e.Variable)
			i.places(to, e.places())
			if e.Keep && e.Default != nil {
				i.fault(to+".default", "keep and default exclude each other", "keep one of them")
			}
		}
	})
}

func (i *inspector) assertion(path string, a *Assertion) {
	i.places(path, a.places())
	n := 0
	for _, given := range []bool{a.Equals != nil, a.Contains != "", a.Matches != "", a.Exists} {
		if given {
			n++
		}
	}
	if n != 1 {
		i.fault(path, fmt.Sprintf("want one comparison, have %d", n), "one of equals, contains, matches, exists")
	}
}

// A place is a field that says where in a response to look, and what it says.
type place struct {
	field string
	of    scenario.Part
	name  string
}

func (a *Assertion) places() []place { return places(a.JSON, a.Header, a.Metadata, a.Trailer) }

func (e *Extraction) places() []place { return places(e.JSON, e.Header, e.Metadata, e.Trailer) }

// places returns those that are given.
func places(json, header, metadata, trailer string) []place {
	all := []place{{"json", scenario.JSON, json}, {"header", scenario.Header, header}, {"metadata", scenario.Header, metadata}, {"trailer", scenario.Trailer, trailer}}
	return slices.DeleteFunc(all, func(p place) bool { return p.name == "" })
}

// part says which part of a response is meant: without a place, the content.
func part(of []place) (scenario.Part, string) {
	if len(of) == 0 {
		return scenario.Body, ""
	}
	return of[0].of, of[0].name
}

// places judges where in a response to look.
func (i *inspector) places(path string, of []place) {
	if len(of) > 1 {
		i.fault(join(path, of[1].field), of[0].field+" and "+of[1].field+" exclude each other", "keep one of them")
	}
}

// eachStep shows all steps, with their paths in the scenario.
func (s *Scenario) eachStep(show func(path string, st *Step)) {
	for k := range s.Steps {
		show(fmt.Sprintf("steps[%d]", k), &s.Steps[k])
	}
	for i := range s.Flows {
		for k := range s.Flows[i].Steps {
			show(fmt.Sprintf("flows.%s.steps[%d]", s.Flows[i].Name, k), &s.Flows[i].Steps[k])
		}
	}
}

// Steps returns the names of the steps of all scenarios.
func (e *Experiment) Steps() (names []string) {
	for i := range e.Variants {
		for _, name := range e.Variants[i].Steps() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// Steps returns the names of the scenario's steps; none without one.
func (v *Variant) Steps() (names []string) {
	if v.Load.Scenario != nil {
		v.Load.Scenario.eachStep(func(_ string, st *Step) { names = append(names, st.Name) })
	}
	return names
}

// readStatuses reads a list of statuses of a protocol.
type readStatuses func(text string) ([]scenario.StatusRange, error)

func (st *Step) statuses(read readStatuses) ([]scenario.StatusRange, error) {
	if st.Status == "" || read == nil {
		return nil, nil
	}
	return read(st.Status)
}

// file returns the file with what the step sends, and the field that names it.
func (st *Step) file() (name, field string) {
	if st.MessageFile != "" {
		return st.MessageFile, "message_file"
	}
	return st.BodyFile, "body_file"
}

// open opens the file.
func (d *Data) open() (*feed.Table, error) {
	o := feed.Options{}
	var err error
	if o.Format, err = feed.ParseFormat(d.Format); err != nil {
		return nil, err
	}
	switch {
	case d.Delimiter == `\t`:
		o.Delimiter = '\t'
	case d.Delimiter != "":
		o.Delimiter = d.Delimiter[0]
	}
	for _, name := range d.Columns {
		o.Columns = append(o.Columns, feed.Column{Name: name})
	}
	for _, name := range slices.Sorted(maps.Keys(d.Paths)) {
		o.Columns = append(o.Columns, feed.Column{Name: name, Path: d.Paths[name]})
	}
	o.NoHeader = len(d.Columns) > 0 && !d.isLines()
	return feed.Open(d.File, o)
}

// isLines tells whether the file holds JSON Lines.
func (d *Data) isLines() bool {
	return d.Format == "jsonl" || d.Format == "auto" && (strings.HasSuffix(strings.ToLower(d.File), ".jsonl") || strings.HasSuffix(strings.ToLower(d.File), ".ndjson"))
}

// tables opens all files.
func (s *Scenario) tables() (tables []*feed.Table, err error) { return openAll(s.Data) }

// openAll opens files.
func openAll(data []Data) (tables []*feed.Table, err error) {
	for i := range data {
		t, failed := data[i].open()
		if failed != nil {
			err = errors.Join(err, &located{join("data", data[i].Name) + ".file", failed.Error(), ""})
			continue
		}
		tables = append(tables, t)
	}
	if err != nil {
		return nil, errors.Join(err, closeAll(tables))
	}
	return tables, nil
}

func closeAll(tables []*feed.Table) (err error) {
	for _, t := range tables {
		err = errors.Join(err, t.Close())
	}
	return err
}

// bodies reads what steps send that stands in files of its own, by the files'
// names. The experiment's variables in them are replaced.
func (s *Scenario) bodies(vars map[string]string) (map[string]string, error) {
	all := map[string]string{}
	var faults []error
	s.eachStep(func(at string, st *Step) {
		file, field := st.file()
		if _, known := all[file]; known || file == "" {
			return
		}
		text, err := readBody(file)
		if err != nil {
			faults = append(faults, &located{at + "." + field, err.Error(), "a file with the content, relative to the experiment's"})
			return
		}
		all[file] = expandKnown(text, func(name string) (string, bool) {
			value, known := vars[name]
			return value, known
		})
	})
	return all, errors.Join(faults...)
}

// readBody reads a file with the content of a request.
func readBody(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	text, err := io.ReadAll(io.LimitReader(f, maxText+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot be read: %w", err)
	case len(text) > maxText:
		return "", fmt.Errorf("%s is longer than 1 MiB", strconv.Quote(path))
	}
	return string(text), nil
}

// A player is an implementation whose users can carry out a scenario.
type player interface {
	// script says what a variant's scenario is in the protocol. Offline, nothing is asked of
	// anybody: what only a server knows is left out.
	script(v *Variant, offline bool) (script, error)
}

// A script is what a protocol makes of a scenario.
type script struct {
	// spec has what holds for all steps, and nothing else.
	spec scenario.Spec

	// step says what of a step is the protocol's. Errors of type *located are about what is at a
	// path below the step.
	step func(st *Step, body string, to *scenario.Step) error

	// check judges what shows only when all is compiled. It may be nil.
	check func(*scenario.Scenario) error
}

// compile makes what users carry out, of a script and data that is open. The experiment's
// variables go into files with what steps send. Errors are of type *located, joined.
func (s *Scenario) compile(to script, tables []*feed.Table, vars map[string]string) (*scenario.Scenario, error) {
	bodies, err := s.bodies(vars)
	if err != nil {
		return nil, err
	}
	spec := to.spec
	spec.InTurn = s.InTurn
	for _, name := range slices.Sorted(maps.Keys(s.Variables)) {
		spec.Variables = append(spec.Variables, scenario.Variable{Name: name, Value: s.Variables[name]})
	}
	if spec.Feeds, err = feeds(s.Data, tables); err != nil {
		return nil, err
	}
	var faults []error
	if spec.Steps, err = s.specOf("", s.Steps, to, bodies); err != nil {
		faults = append(faults, flatten(err)...)
	}
	for _, f := range s.Flows {
		flow := scenario.Flow{Name: f.Name, Weight: f.Weight}
		if flow.Steps, err = s.specOf(join("flows", f.Name)+".", f.Steps, to, bodies); err != nil {
			faults = append(faults, flatten(err)...)
		}
		spec.Flows = append(spec.Flows, flow)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	out, err := scenario.Compile(spec)
	switch {
	case err == nil && to.check != nil:
		return out, to.check(out)
	case err == nil:
		return out, nil
	}
	for _, e := range flatten(err) {
		var f *scenario.Fault
		if !errors.As(e, &f) {
			faults = append(faults, e)
			continue
		}
		problem, at := f.Problem, s.place(f.Path)
		if f.Offset >= 0 && !strings.HasSuffix(at, ".prompt") && !strings.HasSuffix(at, ".messages") { // which are a part of the text
			problem = fmt.Sprintf("at offset %d: %s", f.Offset, f.Problem)
		}
		faults = append(faults, &located{at, problem, f.Hint})
	}
	return nil, errors.Join(faults...)
}

// feeds says how the rows of files that are open are dealt.
func feeds(data []Data, tables []*feed.Table) (all []scenario.Feed, err error) {
	for i, d := range data {
		f := scenario.Feed{Name: d.Name, Table: tables[i], Per: map[string]scenario.Per{"iteration": scenario.PerIteration, "user": scenario.PerUser}[d.Per]}
		var e1, e2 error
		f.Order, e1 = feed.ParseOrder(d.Order)
		f.End, e2 = feed.ParseEnd(d.End)
		if err := errors.Join(e1, e2); err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// flatten returns what errors.Join has joined, be it wrapped.
func flatten(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}

// specOf translates steps, which are at a path, into the form of package scenario.
func (s *Scenario) specOf(path string, steps []Step, by script, bodies map[string]string) (out []scenario.Step, err error) {
	var faults []error
	for k := range steps {
		st := &steps[k]
		to := scenario.Step{Name: st.Name, Once: st.Once, If: st.If, Weight: st.Weight, Think: st.Think.Pace(), MaxBody: st.MaxBody}
		body := cmp.Or(st.Body, st.Message)
		if file, _ := st.file(); file != "" {
			body = bodies[file]
		}
		for _, h := range s.headersOf(st) {
			to.Header = append(to.Header, scenario.Field{Name: h.Name, Value: h.Value})
		}
		if err := by.step(st, body, &to); err != nil {
			at := fmt.Sprintf("%ssteps[%d]", path, k)
			var l *located
			if !errors.As(err, &l) {
				l = &located{problem: err.Error()}
			}
			faults = append(faults, &located{join(at, l.path), l.problem, l.hint})
		}
		for _, a := range st.Assert {
			to.Assert = append(to.Assert, a.spec())
		}
		for _, e := range st.Extract {
			to.Extract = append(to.Extract, e.spec())
		}
		out = append(out, to)
	}
	return out, errors.Join(faults...)
}

// headersOf returns a step's header fields, or its metadata, those of all steps first. A protocol
// has either.
func (s *Scenario) headersOf(st *Step) (headers []Header) {
	own := slices.Concat(st.Headers, st.Metadata)
	for _, h := range slices.Concat(s.Headers, s.Metadata) {
		if !named(own, h.Name) {
			headers = append(headers, h)
		}
	}
	return append(headers, own...)
}

// named tells whether there is a header field of a name.
func named(headers []Header, name string) bool {
	return slices.ContainsFunc(headers, func(h Header) bool { return strings.EqualFold(h.Name, name) })
}

// Pace says the pause in the form of package pace.
func (t Think) Pace() pace.Think {
	switch {
	case t.Constant > 0:
		return pace.Think{Kind: pace.Fixed, Mean: t.Constant}
	case t.Exponential > 0:
		return pace.Think{Kind: pace.Exponential, Mean: t.Exponential}
	case t.Uniform != nil:
		return pace.Think{Kind: pace.Uniform, Min: t.Uniform.From, Max: t.Uniform.To}
	}
	return pace.Think{}
}

func (a *Assertion) spec() (out scenario.Assertion) {
	out.Of, out.Name = part(a.places())
	switch {
	case a.Equals != nil:
		out.Is, out.Value = scenario.Equals, *a.Equals
	case a.Contains != "":
		out.Is, out.Value = scenario.Contains, a.Contains
	case a.Matches != "":
		out.Is, out.Value = scenario.Matches, a.Matches
	default:
		out.Is = scenario.Exists
	}
	return out
}

func (e *Extraction) spec() (out scenario.Extraction) {
	out = scenario.Extraction{Name: e.Variable, Pattern: e.Pattern, Group: e.Group}
	out.From, out.Of = part(e.places())
	switch {
	case e.Keep:
		out.Otherwise = scenario.Keep
	case e.Default != nil:
		out.Otherwise, out.Default = scenario.UseDefault, *e.Default
	}
	return out
}

// A located error is about what is at a path below load.scenario.
type located struct{ path, problem, hint string }

func (l *located) Error() string {
	text := join("load.scenario", l.path) + ": " + l.problem
	if l.hint != "" {
		text += "; " + l.hint
	}
	return text
}

// place finds what a path of package scenario's means in the file.
func (s *Scenario) place(path string) string {
	var out string
	var steps []Step
	var at *Step
	for rest := path; rest != ""; {
		var word string
		word, rest, _ = strings.Cut(rest, ".")
		name, n, numbered := numberedWord(word)
		switch {
		case at == nil && !numbered:
			return join(out, name) // host, cookies, or of a feed or a flow
		case at == nil && name == "variables":
			return join("variables", slices.Sorted(maps.Keys(s.Variables))[n])
		case at == nil && name == "feeds":
			out = join("data", s.Data[n].Name)
			if rest == "table" {
				return out + ".file"
			}
		case name == "flows":
			out, steps = join("flows", s.Flows[n].Name), s.Flows[n].Steps
		case at == nil && name == "steps":
			if out == "" {
				steps = s.Steps
			}
			out, at = join(out, word), &steps[n]
		default:
			return s.placeInStep(out, at, name, n, numbered, rest)
		}
	}
	return out
}

func (s *Scenario) placeInStep(path string, st *Step, name string, n int, numbered bool, rest string) string {
	switch {
	case name == "body":
		_, field := st.file()
		switch {
		case st.Prompt != "":
			field = "prompt"
		case len(st.Messages) > 0:
			field = "messages"
		case st.BodyFile == "" && st.MessageFile == "" && st.Message != "":
			field = "message"
		case st.BodyFile == "" && st.MessageFile == "":
			field = "body"
		}
		return join(path, field)
	case name == "timeout":
		return join(path, "deadline")
	case !numbered:
		return join(path, name)
	case name == "header":
		h, field := s.headersOf(st), "headers"
		if len(s.Metadata)+len(st.Metadata) > 0 {
			field = "metadata"
		}
		if own := len(h) - len(st.Headers) - len(st.Metadata); n < own {
			return join(field, h[n].Name)
		}
		return join(path+"."+field, h[n].Name)
	case name == "assert":
		a := &st.Assert[n]
		path = fmt.Sprintf("%s.assert[%d]", path, n)
		switch {
		case rest == "name" && len(a.places()) > 0:
			return join(path, a.places()[0].field)
		case rest == "value" && a.Equals != nil:
			return path + ".equals"
		case rest == "value" && a.Contains != "":
			return path + ".contains"
		case rest == "value" && a.Matches != "":
			return path + ".matches"
		}
		return path
	case name == "extract":
		e := &st.Extract[n]
		path = join(path+".extract", e.Variable)
		switch {
		case rest == "of" && len(e.places()) > 0:
			return join(path, e.places()[0].field)
		case rest == "pattern", rest == "group", rest == "default":
			return path + "." + rest
		}
		return path
	}
	return join(path, name) // status[n]
}

// numberedWord takes a word such as steps[2] apart.
func numberedWord(word string) (name string, n int, numbered bool) {
	name, number, numbered := strings.Cut(strings.TrimSuffix(word, "]"), "[")
	if numbered {
		_, _ = fmt.Sscan(number, &n) // package scenario writes numbers there
	}
	return name, n, numbered
}

// ready opens the data and compiles what users carry out.
func (v *Variant) ready(c *Codecs) error {
	by, err := v.script(false)
	if err != nil {
		return err
	}
	return v.readyFor(c, by)
}

// readyFor is ready with a script that is known.
func (v *Variant) readyFor(c *Codecs, by script) (err error) {
	s := v.Load.Scenario
	if c.data, err = s.tables(); err != nil {
		return err
	}
	c.Scenario, err = s.compile(by, c.data, v.Vars)
	return err
}

// script says what the variant's scenario is in its protocol.
func (v *Variant) script(offline bool) (script, error) {
	p, ok := protocolNamed(v.Target.Protocol).implementation.(player)
	if !ok {
		return script{}, &located{"", "users do nothing in " + v.Target.Protocol, "remove it"}
	}
	return p.script(v, offline)
}

// requests are those that a scenario's users send, in the order of its outlines.
func requests(s *scenario.Scenario, end http1.Endpoint) (all []http1.Request, err error) {
	steps := s.Steps()
	for _, o := range s.Outlines() {
		r := http1.Request{
			Method: o.Method, Target: o.Path, VariesTarget: o.VariesPath, Host: end.Host, Body: []byte(o.Body), VariesBody: o.VariesBody,
		}
		for _, f := range o.Header {
			switch {
			case !strings.EqualFold(f.Name, "Host"):
				r.Header = append(r.Header, http1.Field{Name: f.Name, Value: f.Value, Varies: f.Varies})
			case f.Varies:
				return nil, fmt.Errorf("load.scenario: step %s: Host: it varies; want it the same each time", steps[o.Step].Name)
			default:
				r.Host = f.Value
			}
		}
		if err := r.Validate(); err != nil {
			return nil, fmt.Errorf("load.scenario: step %s: %w", steps[o.Step].Name, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// CheckScenarios opens the data of all scenarios and reports, as *Faults, what is wrong with
// it, and what only it tells: columns that are missing, and all that depends on them.
// ReadFile has done so already; it is for experiments built in code.
func (e *Experiment) CheckScenarios() error {
	c := newCollector()
	e.checkScenarios(c)
	return c.err(e.File, func(string) (int, int) { return 0, 0 })
}

func (e *Experiment) checkScenarios(c *collector) {
	c.variants = 0
	for n := range e.Variants {
		if e.Variants[n].AliasOf == "" {
			c.variants++
		}
	}
	// Variants of one experiment mostly have the same data.
	opened := map[string][]*feed.Table{}
	defer func() {
		for _, tables := range opened {
			_ = closeAll(tables) // they were only looked at
		}
	}()
	for n := range e.Variants {
		v := &e.Variants[n]
		if v.AliasOf != "" || v.Load.Scenario == nil {
			continue
		}
		for _, err := range v.checkScenario(opened) {
			var l *located
			if !errors.As(err, &l) {
				l = &located{problem: err.Error()}
			}
			c.add(finding{path: join("load.scenario", l.path), problem: l.problem, hint: l.hint}, v.Name)
		}
	}
}

// placeholder stands for the value of a run-time name, and for nothing else.
func (v *Variant) placeholder(name string) (string, bool) {
	var services []string
	for _, s := range v.Services {
		services = append(services, s.Name)
	}
	ofTarget := !strings.Contains(name, ".")
	if ofTarget && len(v.Target.Start) == 0 || !slices.Contains(RuntimeNames(services...), name) {
		return "", false
	}
	return placeholder(name)
}

// checkScenario compiles a variant's scenario with something in the place of the run-time
// variables.
func (v *Variant) checkScenario(opened map[string][]*feed.Table) []error {
	s := filled(reflect.ValueOf(v.Load.Scenario), placeholders, func(text string) string { return expandKnown(text, v.placeholder) }).Interface().(*Scenario)
	with := *v
	with.Load.Scenario, with.Target.URL = s, placeholders(v.Target.URL)
	by, err := with.script(true)
	if err != nil {
		return flatten(err)
	}
	key := fmt.Sprintf("%+v", s.Data)
	tables, known := opened[key]
	if !known {
		if tables, err = s.tables(); err != nil {
			return flatten(err)
		}
		opened[key] = tables
	}
	if _, err = s.compile(by, tables, v.Vars); err != nil {
		return flatten(err)
	}
	return nil
}
