// Package k6 imports scripts of k6. A script runs in a process of its own, without a network (child.go, run.go); what
// it does becomes steps (k6.go, check.go), and its options become the load (load.go).
package k6

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grafana/sobek"

	"dyno/cli/foreign"
	"dyno/cli/imports/draft"
	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
	"dyno/load/pace"
	"dyno/load/scenario"
)

// Format is the format of scripts.
func Format() draft.Format {
	return draft.Format{Name: "k6", About: "a script of k6, whose default function runs once, without a network", Most: draft.MaxText, Form: form, Read: read}
}

var form = lazyregexp.New(`from\s*['"]k6(?:/[\w/]+)?['"]`)

// An event is a request or a pause of an iteration, as k6.js records it.
type event struct {
	Kind    string  `json:"kind"`
	Line    int     `json:"line"`
	Column  int     `json:"column"` // in the line
	ID      int     `json:"id"`
	Group   string  `json:"group"`
	Tags    tags    `json:"tags"`
	Seconds float64 `json:"seconds"` // of a pause
	Once    bool    `json:"once"`    // only in the user's first iteration

	Method    string        `json:"method"`
	URL       string        `json:"url"`
	Name      string        `json:"name"`
	Headers   []draft.Field `json:"headers"`
	Body      string        `json:"body"`
	Base64    string        `json:"base64"`
	Form      []draft.Field `json:"form"`
	Parts     []part        `json:"parts"`
	Redirects *float64      `json:"redirects"`
	Call      string        `json:"call"` // of gRPC: the method
	Messages  []string      `json:"messages"`
	Socket    string        `json:"socket"` // of WebSocket: what is done on the connection
	Protocols []string      `json:"protocols"`
	Compress  bool          `json:"compress"`
	Awaited   bool          `json:"awaited"` // the answer to the message
	Code      int           `json:"code"`
	Deadline  *duration     `json:"deadline"`
	Statuses  string        `json:"statuses"` // that are expected
	Checks    []struct {
		Name   string `json:"name"`
		Line   int    `json:"line"`
		Source string `json:"source"`
		Text   string `json:"text"` // of what the function gets
	} `json:"checks"`
	Extract []struct {
		Variable string `json:"variable"`
		JSON     string `json:"json"`
		Header   string `json:"header"`
		Metadata string `json:"metadata"`
		Trailer  string `json:"trailer"`
		Pattern  string `json:"pattern"`
		Group    int    `json:"group"`
		Decode   string `json:"decode"`
		As       string `json:"as"`
	} `json:"extract"`
}

// A part is a part of a form with files.
type part struct {
	Name   string `json:"name"`
	IsFile bool   `json:"isFile"`
	Value  string `json:"value"`
	File   string `json:"file"`
	Type   string `json:"type"`
	Base64 string `json:"base64"`
}

// A table is a SharedArray.
type table struct {
	Name    string          `json:"name"`
	Line    int             `json:"line"`
	Columns []string        `json:"columns"`
	Rows    json.RawMessage `json:"rows"`
	IsTable bool            `json:"isTable"`
	Used    bool            `json:"used"`
	Drawn   bool            `json:"drawn"` // at random
}

// A recording is what an iteration does.
type recording struct {
	Events     []event
	Tables     []table
	Missing    []missingVariable
	Metrics    []metric
	Once       int    // events that only a user's first iteration has, at its beginning
	Failed     string // what ended it early
	FailedLine int
}

// A missingVariable is a variable of the environment that a script uses, and that has no value.
type missingVariable struct {
	Name string `json:"name"`
	Line int    `json:"line"`
}

// read records an iteration of a script, in a process of its own.
func read(d *draft.Draft, _ []byte) error {
	session, err := runScript(d)
	if err != nil {
		return err
	}
	options, err := readOptions(d, session.Options)
	if err != nil {
		return err
	}
	options.listUnknown(d)
	switch session.protocol() {
	case plan.GRPC:
		useGRPC(d, session)
	case plan.WS:
		d.UseProtocol(plan.WS)
	default:
		d.Scenario.Cookies = true // k6 keeps them, too
	}
	scenarios := options.all()
	follows := false
	steps := &stepsOf{byEvent: map[int]string{}, tags: map[string]tags{}}
	d.Part = scenario.OfSetup
	addSteps(d, steps, session.Setup, session.Setup)
	listUndefined(d, session.Setup, session.First[0].Missing)
	d.Part = scenario.OfUsers
	var kept []workload // whose iterations send something
	for i := range scenarios {
		s := &scenarios[i]
		if len(scenarios) > 1 || s.StartTime > 0 {
			d.AddFlow(s.name, 1)
		}
		a, b := &session.First[s.number], &session.Second[s.number]
		if a.Failed != "" {
			d.Leave(a.FailedLine, s.function(), "the iteration ended early: "+a.Failed, "what it had sent until then is carried over")
		}
		addSteps(d, steps, a.Events, b.Events)
		if d.Flow > 0 && len(d.Steps()) == 0 {
			d.Leave(s.line, "scenario "+s.name, "it sends nothing that can be carried over", "")
			d.DropFlow()
			continue
		}
		kept = append(kept, *s)
		addData(d, a.Tables)
		addMetrics(d, steps, a.Metrics)
		listUndefined(d, a.Events, a.Missing)
		follows = follows || slices.ContainsFunc(a.Events, func(e event) bool {
			return e.protocol() == plan.HTTP && (e.Redirects == nil || *e.Redirects > 0)
		})
	}
	setTimeout(d, session)
	d.Part = scenario.OfTeardown
	addSteps(d, steps, session.Teardown, session.Teardown)
	d.Part = scenario.OfUsers
	if len(kept) > 0 { // else finish says why there is no request
		setLoad(d, options, kept)
	}
	addThresholds(d, steps, options.Thresholds, d.LineOfKey("thresholds", 0))
	if !options.KeepsCookies && d.Scenario.Cookies {
		d.Leave(0, "cookies", "k6 forgets them at the end of each iteration, and users keep them", "noCookiesReset has k6 keep them, too")
	}
	if d.Target().Protocol == plan.HTTP && follows && options.MaxRedirects != 0 {
		d.Leave(0, "redirects", "k6 follows them, and users of a scenario do not", "request the last address")
	}
	if session.Exports["handleSummary"] {
		d.Leave(d.LineOfKey("handleSummary", 0), "handleSummary", "a run prints and writes forms of dyno", "--format k6 prints a load as k6 sums it up; --json FILE writes all figures")
	}
	return nil
}

// setTimeout gives the load the time limit that all requests have. That of some requests is their steps'.
func setTimeout(d *draft.Draft, s *session) {
	var requests []*event
	for i := range s.First {
		for n := range s.First[i].Events {
			if e := &s.First[i].Events[n]; e.protocol() == plan.HTTP {
				requests = append(requests, e)
			}
		}
	}
	other := func(e *event) bool { return e.Deadline == nil || *e.Deadline != *requests[0].Deadline }
	if len(requests) == 0 || requests[0].Deadline == nil || slices.ContainsFunc(requests, other) {
		return
	}
	d.Load().Timeout = time.Duration(*requests[0].Deadline)
	d.Scenario.EachUserStep(func(_ string, st *scenario.Step) { st.Deadline = 0 })
}

// addSteps adds recorded requests. Like is what another iteration does.
func addSteps(d *draft.Draft, steps *stepsOf, events, like []event) {
	if len(events) != len(like) {
		d.Leave(0, "default", fmt.Sprintf("iterations differ in length: one has %d requests and pauses, another %d", len(events), len(like)), "the first one is carried over; steps with weights are drawn")
		like = nil
	}
	for i := range events {
		e := &events[i]
		other := e
		if like != nil && like[i].Kind == e.Kind {
			other = &like[i]
		}
		if e.Kind == "pause" {
			addPause(d, e, other)
			continue
		}
		step := addStep(d, steps, e)
		if step == nil {
			continue
		}
		step.Once = e.Once
		if step.Status = e.Statuses; e.Deadline != nil {
			step.Deadline = time.Duration(*e.Deadline)
		}
		steps.add(step.Name, e)
		if varies(e, other) {
			d.Leave(e.Line, step.Name, "it varies from iteration to iteration; each sends what the first one does", "templates make values that vary: see dyno help templates")
		}
		for _, x := range e.Extract {
			if e.Socket == "send" && !e.Awaited {
				continue // what was taken went nowhere
			}
			d.Extract(step, scenario.Extraction{Variable: x.Variable, JSON: x.JSON, Header: x.Header, Metadata: x.Metadata, Trailer: x.Trailer, Pattern: x.Pattern, Group: x.Group, Decode: x.Decode, As: x.As})
		}
		for _, c := range e.Checks {
			addCheck(d, step, c.Line, c.Name, c.Source, c.Text)
		}
	}
}

// addStep adds a recorded request. It returns nil if it cannot be sent, which is then listed.
func addStep(d *draft.Draft, steps *stepsOf, e *event) *scenario.Step {
	switch protocol := e.protocol(); {
	case d.Target().Protocol != protocol:
		d.Leave(e.Line, cmp.Or(e.Call, strings.TrimLeft(e.Method+" "+e.URL, " "), e.Socket), "the other requests are of another protocol, and a run has one", "import the script once for each")
		return nil
	case protocol == plan.GRPC:
		return addCall(d, e)
	case protocol == plan.WS:
		return addExchange(d, steps, e)
	}
	return addRequest(d, e)
}

// addRequest adds a request of HTTP.
func addRequest(d *draft.Draft, e *event) *scenario.Step {
	r, err := e.request(d)
	if err != nil {
		d.Leave(e.Line, e.Method+" "+draft.ReplaceMarks(e.URL, "…"), "the request is not sent: k6 cannot read the URL: "+err.Error(), "")
		return nil
	}
	return d.AddRequest(r)
}

// listUndefined lists undefined values in requests, and their possible sources.
func listUndefined(d *draft.Draft, events []event, missing []missingVariable) {
	count, found := 0, ""
	var first *event
	for i := range events {
		e := &events[i]
		all := e.URL + " " + e.Body
		for _, f := range slices.Concat(e.Headers, e.Form) {
			all += " " + f.Value
		}
		if m := noValue().FindString(all); m != "" {
			if count++; count == 1 {
				first, found = e, m
			}
		}
	}
	if count == 0 {
		return
	}
	d.Leave(first.Line, first.Method+" "+draft.ReplaceMarks(first.URL, "…"), fmt.Sprintf("%s is sent in place of a value that the script does not have here; requests that do so: %d", found, count), "")
	for _, m := range missing {
		d.Leave(m.Line, "__ENV."+m.Name, "the environment has no such variable", "run dyno import with the variables that k6 run -e has")
	}
}

// noValue matches what JavaScript writes for a value that is none, or has no text.
var noValue = lazyregexp.New(`\bundefined\b|\[object Object\]|\bNaN\b`)

// varies tells whether two requests send something else.
func varies(a, b *event) bool {
	equal := func(a, b *string) bool { return *a == *b }
	return !slices.EqualFunc(a.texts(), b.texts(), equal) || a.Call != b.Call || a.Method != b.Method || a.Base64 != b.Base64 || !slices.Equal(a.Parts, b.Parts) || !slices.Equal(a.Headers, b.Headers) || !slices.Equal(a.Form, b.Form)
}

// addPause adds a pause: a random one if it differs between iterations.
func addPause(d *draft.Draft, e, other *event) {
	from, to := min(e.Seconds, other.Seconds), max(e.Seconds, other.Seconds)
	switch {
	case len(d.Steps()) == 0:
		d.Leave(e.Line, "sleep", "nothing was sent before it; a pause follows a request", "give the last step think")
	case !(from >= 0) || to > draft.MaxThink.Seconds():
		d.Leave(e.Line, "sleep", "the pause is not one from 0 s to an hour", "give the step think")
	case from == to:
		d.AddPause(pace.Think{Constant: draft.InSeconds(from)})
	default:
		d.AddPause(pace.Think{Uniform: &pace.Span{From: draft.InSeconds(from), To: draft.InSeconds(to)}})
	}
}

// request returns what an event sends.
func (e *event) request(d *draft.Draft) (draft.Request, error) {
	r := draft.Request{Line: e.Line, Method: e.Method, Body: []byte(unquoteNumbers(d, e.Body))}
	address, err := goURL(d, &r, e.URL)
	if err != nil {
		return r, err
	}
	r.URL = address
	if r.Name = e.Name; r.Name == "" && e.Group != "" {
		path, _, _ := strings.Cut(e.URL, "?")
		_, path, _ = strings.Cut(path, "://")
		if at := strings.IndexByte(path, '/'); at >= 0 {
			r.Name = e.Group + "-" + e.Method + draft.ReplaceMarks(path[at:], "x")
		}
	}
	for _, h := range e.Headers {
		r.AddHeader(h.Name, h.Value)
	}
	if e.Base64 != "" {
		r.Body, _ = base64.StdEncoding.DecodeString(e.Base64) // which run.go has made
	}
	if len(e.Form) > 0 {
		r.Body = []byte(d.InForm(draft.EncodeForm(e.Form)))
	}
	if len(e.Parts) > 0 {
		var kind string
		r.Body, kind = encodeParts(e.Parts)
		if r.HasHeader("Content-Type") {
			d.Leave(e.Line, e.Method+" "+e.URL, "its field Content-Type does not name the boundary of its parts, which k6 draws at random", "")
		} else {
			r.AddHeader("Content-Type", kind)
		}
	}
	return r, nil
}

// goURL returns a URL as a client in Go sends it. A user in it becomes a header field.
func goURL(d *draft.Draft, r *draft.Request, raw string) (string, error) {
	marks := []string{}
	const place = "dynoMark"
	plain := draft.OneMark().ReplaceAllStringFunc(raw, func(m string) string {
		marks = append(marks, m)
		return fmt.Sprintf("%s%dx", place, len(marks)-1)
	})
	if strings.HasPrefix(plain, place) { // the host is not known
		return raw, nil
	}
	u, err := url.Parse(plain)
	if err != nil {
		if parse := (*url.Error)(nil); errors.As(err, &parse) {
			err = parse.Err
		}
		return "", err
	}
	back := func(text string) string {
		for i := len(marks) - 1; i >= 0; i-- {
			text = strings.ReplaceAll(text, fmt.Sprintf("%s%dx", place, i), marks[i])
		}
		return text
	}
	if u.User != nil {
		password, _ := u.User.Password()
		r.AddHeader("Authorization", foreign.BasicAuth(u.User.Username()+":"+password))
		u.User = nil
	}
	target := u.RequestURI()
	if draft.CleanPath(back(target)) != back(target) {
		d.Leave(r.Line, r.Method+" "+back(raw), "k6 sends the query as it stands; here what no URL may have is percent-encoded", "")
	}
	if u.Host == "" {
		return back(target), nil
	}
	return back(strings.ToLower(u.Scheme) + "://" + u.Host + target), nil
}

// encodeParts returns a form with files, and its content type.
func encodeParts(parts []part) (body []byte, kind string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.SetBoundary("dyno-form") // which is one
	for _, p := range parts {
		h := textproto.MIMEHeader{"Content-Disposition": {strings.TrimSuffix(multipart.FileContentDisposition(p.Name, ""), `; filename=""`)}}
		content := []byte(p.Value)
		if p.IsFile {
			h = textproto.MIMEHeader{"Content-Disposition": {multipart.FileContentDisposition(p.Name, p.File)}, "Content-Type": {p.Type}}
		}
		if p.Base64 != "" {
			content, _ = base64.StdEncoding.DecodeString(p.Base64) // which run.go has made
		}
		if part, err := w.CreatePart(h); err == nil {
			_, _ = part.Write(content) // to memory
		}
	}
	_ = w.Close() // which writes to memory
	return b.Bytes(), w.FormDataContentType()
}

// addData gives the scenario the rows of a SharedArray.
func addData(d *draft.Draft, tables []table) {
	for _, t := range tables {
		name := draft.VariableName(t.Name)
		taken := slices.ContainsFunc(d.Scenario.Data, func(other scenario.Data) bool { return other.Name == name })
		switch {
		case !t.Used || taken:
		case !t.IsTable:
			d.Leave(t.Line, "SharedArray "+t.Name, "its items are not objects of texts and numbers; each iteration uses the same item", "data of a scenario are rows of a file")
		case d.Source.Out == "":
			d.Leave(t.Line, "SharedArray "+t.Name, "rows need a file next to the experiment; each iteration uses the same row", "write the experiment to a file by --out")
		default:
			var rows []json.RawMessage
			var lines bytes.Buffer
			if json.Unmarshal(t.Rows, &rows) != nil {
				continue
			}
			for _, r := range rows {
				lines.Write(r)
				lines.WriteByte('\n')
			}
			data := plan.DefaultData(name, d.AddFile(t.Line, name+".jsonl", lines.Bytes()))
			if t.Drawn {
				data.Order = "random"
			}
			d.Scenario.Data = append(d.Scenario.Data, data)
		}
	}
}

// scriptError says where a script is at fault.
func scriptError(file string, err error) error {
	if line := lineOfError(err); line > 0 {
		return fmt.Errorf("line %d: %s", line, thrown(file, err))
	}
	return errors.New(thrown(file, err))
}

// thrown is what a script threw, or what is wrong with its syntax.
func thrown(file string, err error) string {
	text := err.Error()
	if e := (*sobek.Exception)(nil); errors.As(err, &e) {
		text = e.Value().String()
	}
	if e := (*sobek.StackOverflowError)(nil); errors.As(err, &e) {
		text = "its calls are nested too deep"
	}
	return strings.ReplaceAll(text, file+": ", "")
}

// lineOfError returns the line of the script's own in which it failed, or 0.
func lineOfError(err error) int {
	if thrown := (*sobek.Exception)(nil); errors.As(err, &thrown) {
		for _, f := range thrown.Stack() {
			if name := f.SrcName(); name != libraryName && name != "<native>" && name != "" && builtin[name] == "" {
				return f.Position().Line
			}
		}
	}
	return 0
}

var wholeMark = lazyregexp.New(`"` + draft.MarkBegin + `(\d+)` + draft.MarkEnd + `"`)

// unquoteNumbers takes the quotes off marks that stand for numbers in JSON.
func unquoteNumbers(d *draft.Draft, text string) string {
	return wholeMark().ReplaceAllStringFunc(text, func(m string) string {
		if expression, _ := d.Expression(m[1 : len(m)-1]); !d.Numbers[expression] {
			return m
		}
		return m[1 : len(m)-1]
	})
}
