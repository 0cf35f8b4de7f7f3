package imports

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"mime/multipart"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grafana/sobek"

	"dyno/cli/foreign"
	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
	"dyno/load/pace"
	"dyno/load/scenario"
)

// A k6Event is a request or a pause of an iteration, as k6.js records it.
type k6Event struct {
	Kind    string  `json:"kind"`
	Line    int     `json:"line"`
	Group   string  `json:"group"`
	Seconds float64 `json:"seconds"` // of a pause

	Method    string   `json:"method"`
	URL       string   `json:"url"`
	Name      string   `json:"name"`
	Headers   []field  `json:"headers"`
	Body      string   `json:"body"`
	Base64    string   `json:"base64"`
	Form      []field  `json:"form"`
	Parts     []k6Part `json:"parts"`
	Redirects *float64 `json:"redirects"`
	Checks    []struct {
		Name   string `json:"name"`
		Line   int    `json:"line"`
		Source string `json:"source"`
	} `json:"checks"`
	Extract []struct {
		Variable string `json:"variable"`
		JSON     string `json:"json"`
		Header   string `json:"header"`
		Body     string `json:"body"`
	} `json:"extract"`
}

// A k6Part is a part of a form with files.
type k6Part struct {
	Name   string `json:"name"`
	IsFile bool   `json:"isFile"`
	Value  string `json:"value"`
	File   string `json:"file"`
	Type   string `json:"type"`
	Base64 string `json:"base64"`
}

// A k6Table is a SharedArray.
type k6Table struct {
	Name    string          `json:"name"`
	Line    int             `json:"line"`
	Columns []string        `json:"columns"`
	Rows    json.RawMessage `json:"rows"`
	IsTable bool            `json:"isTable"`
	Used    bool            `json:"used"`
	Drawn   bool            `json:"drawn"` // at random
}

// A k6Recording is what an iteration does.
type k6Recording struct {
	Once       []k6Event // by setup
	Events     []k6Event
	Tables     []k6Table
	Missing    []k6Missing
	Failed     string // what ended it early
	FailedLine int
}

// A k6Missing is a variable of the environment that a script uses, and that has no value.
type k6Missing struct {
	Name string `json:"name"`
	Line int    `json:"line"`
}

// readK6 records an iteration of a script, in a process of its own.
func readK6(d *draft, _ []byte) error {
	session, err := runScript(d)
	if err != nil {
		return err
	}
	options, err := readOptions(d, session.Options)
	if err != nil {
		return err
	}
	options.listUnknown(d)
	d.scenario.Cookies = true // as k6 keeps them
	scenarios := d.k6Scenarios(options)
	follows, steps := false, 0
	for i, s := range scenarios {
		if len(scenarios) > 1 {
			d.scenario.Flows = append(d.scenario.Flows, scenario.Flow{Name: s.name, Weight: max(1, s.weight)})
			d.flow = i + 1
		}
		a, b := &session.First[s.number], &session.Second[s.number]
		if a.Failed != "" {
			d.leave(a.FailedLine, s.function(), "the iteration ended early: "+a.Failed, "what it had sent until then is carried over")
		}
		before := d.count()
		d.k6Steps(a.Once, nil, true)
		d.k6Steps(a.Events, b.Events, false)
		steps = d.count() - before
		d.k6Data(a.Tables)
		d.k6Undefined(slices.Concat(a.Once, a.Events), a.Missing)
		follows = follows || slices.ContainsFunc(a.Events, func(e k6Event) bool { return e.Kind == "request" && (e.Redirects == nil || *e.Redirects > 0) })
	}
	d.k6Load(options, scenarios, steps)
	d.k6Thresholds(options.Thresholds, lineOfKey(d.src, "thresholds", 0))
	if !options.KeepsCookies {
		d.leave(0, "cookies", "k6 forgets them at the end of each iteration, and users keep them", "noCookiesReset has k6 keep them, too")
	}
	if follows && options.MaxRedirects != 0 {
		d.leave(0, "redirects", "k6 follows them, and users of a scenario do not", "request the last address")
	}
	if session.Exports["teardown"] {
		d.leave(lineOfKey(d.src, "teardown", 0), "teardown", "nothing is sent after the load", "")
	}
	if session.Exports["handleSummary"] {
		d.leave(lineOfKey(d.src, "handleSummary", 0), "handleSummary", "dyno report has forms of its own", "")
	}
	return nil
}

// count returns how many steps are repeated.
func (d *draft) count() (n int) {
	d.scenario.EachStep(func(_ string, st *scenario.Step) {
		if !st.Once {
			n++
		}
	})
	return n
}

// k6Steps adds recorded requests. Like is what another iteration does.
func (d *draft) k6Steps(events, like []k6Event, once bool) {
	if !once && len(events) != len(like) {
		d.leave(0, "default", fmt.Sprintf("iterations differ in length: one has %d requests and pauses, another %d", len(events), len(like)), "the first one is carried over; steps with weights are drawn")
		like = nil
	}
	if once && len(events) > 0 {
		d.leave(events[0].Line, "setup", "k6 sends it once, and here each user does", "")
	}
	for i := range events {
		e := &events[i]
		other := e
		if like != nil && like[i].Kind == e.Kind {
			other = &like[i]
		}
		if e.Kind == "pause" {
			d.k6Pause(e, other)
			continue
		}
		r, err := e.request(d)
		if err != nil {
			d.leave(e.Line, e.Method+" "+oneMark().ReplaceAllString(e.URL, "…"), "the request is not sent: k6 cannot read the URL: "+err.Error(), "")
			continue
		}
		step := d.add(r)
		if step == nil {
			continue
		}
		step.Once = once
		if varies(e, other) {
			d.leave(e.Line, step.Name, "it varies from iteration to iteration; each sends what the first one does", "templates make values that vary: see dyno help templates")
		}
		for _, x := range e.Extract {
			d.extract(step, scenario.Extraction{Variable: x.Variable, JSON: x.JSON, Header: x.Header})
		}
		for _, c := range e.Checks {
			d.k6Check(step, c.Line, c.Name, c.Source)
		}
	}
}

// k6Undefined lists undefined values in requests, and their possible sources.
func (d *draft) k6Undefined(events []k6Event, missing []k6Missing) {
	count, found := 0, ""
	var first *k6Event
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
	d.leave(first.Line, first.Method+" "+oneMark().ReplaceAllString(first.URL, "…"), fmt.Sprintf("%s is sent in place of a value that the script does not have here; requests that do so: %d", found, count), "")
	for _, m := range missing {
		d.leave(m.Line, "__ENV."+m.Name, "the environment has no such variable", "run dyno import with the variables that k6 run -e has")
	}
}

// noValue matches what JavaScript writes for a value that is none, or has no text.
var noValue = lazyregexp.New(`\bundefined\b|\[object Object\]|\bNaN\b`)

// varies tells whether two requests send something else.
func varies(a, b *k6Event) bool {
	return a.URL != b.URL || a.Method != b.Method || a.Body != b.Body || a.Base64 != b.Base64 || !slices.Equal(a.Parts, b.Parts) || !slices.Equal(a.Headers, b.Headers) || !slices.Equal(a.Form, b.Form)
}

// k6Pause adds a pause: a random one if it differs between iterations.
func (d *draft) k6Pause(e, other *k6Event) {
	from, to := min(e.Seconds, other.Seconds), max(e.Seconds, other.Seconds)
	switch {
	case len(d.steps()) == 0:
		d.leave(e.Line, "sleep", "nothing was sent before it; a pause follows a request", "give the last step think")
	case !(from >= 0) || to > maxThink.Seconds():
		d.leave(e.Line, "sleep", "the pause is not one from 0 s to an hour", "give the step think")
	case from == to:
		d.think(pace.Think{Constant: inSeconds(from)})
	default:
		d.think(pace.Think{Uniform: &pace.Span{From: inSeconds(from), To: inSeconds(to)}})
	}
}

// inSeconds returns a time to the microsecond.
func inSeconds(s float64) time.Duration {
	return time.Duration(math.Round(s*1e6)) * time.Microsecond
}

// request returns what an event sends.
func (e *k6Event) request(d *draft) (request, error) {
	r := request{line: e.Line, method: e.Method, body: []byte(d.unquoteNumbers(e.Body))}
	address, err := d.goURL(&r, e.URL)
	if err != nil {
		return r, err
	}
	r.url = address
	if r.name = e.Name; r.name == "" && e.Group != "" {
		path, _, _ := strings.Cut(e.URL, "?")
		_, path, _ = strings.Cut(path, "://")
		if at := strings.IndexByte(path, '/'); at >= 0 {
			r.name = e.Group + "-" + e.Method + oneMark().ReplaceAllString(path[at:], "x")
		}
	}
	for _, h := range e.Headers {
		r.headers = append(r.headers, scenario.Header{Name: h.Name, Value: h.Value})
	}
	if e.Base64 != "" {
		r.body, _ = base64.StdEncoding.DecodeString(e.Base64) // which k6run.go has made
	}
	if len(e.Form) > 0 {
		r.body = []byte(d.inForm(encodeForm(e.Form)))
	}
	if len(e.Parts) > 0 {
		var kind string
		r.body, kind = encodeParts(e.Parts)
		if hasHeader(r.headers, "Content-Type") {
			d.leave(e.Line, e.Method+" "+e.URL, "its field Content-Type does not name the boundary of its parts, which k6 draws at random", "")
		} else {
			r.headers = append(r.headers, scenario.Header{Name: "Content-Type", Value: kind})
		}
	}
	return r, nil
}

// inForm puts expressions that are encoded for a form in the place of marks that were encoded.
func (d *draft) inForm(text string) string {
	return encodedMark().ReplaceAllStringFunc(text, func(m string) string {
		i, err := strconv.Atoi(encodedMark().FindStringSubmatch(m)[1])
		if err != nil || i >= len(d.marks) {
			return m
		}
		if d.used == nil {
			d.used = map[string]bool{}
		}
		d.used[d.marks[i]] = true
		return d.mark("formencode(" + d.marks[i] + ")")
	})
}

// goURL returns a URL as a client in Go sends it. A user in it becomes a header field.
func (d *draft) goURL(r *request, raw string) (string, error) {
	marks := []string{}
	const place = "dynoMark"
	plain := oneMark().ReplaceAllStringFunc(raw, func(m string) string {
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
		r.headers = append(r.headers, foreign.BasicAuth(u.User.Username()+":"+password))
		u.User = nil
	}
	target := u.RequestURI()
	if cleanPath(back(target)) != back(target) {
		d.leave(r.line, r.method+" "+back(raw), "k6 sends the query as it stands; here what no URL may have is percent-encoded", "")
	}
	if u.Host == "" {
		return back(target), nil
	}
	return back(strings.ToLower(u.Scheme) + "://" + u.Host + target), nil
}

// encodeParts returns a form with files, and its content type.
func encodeParts(parts []k6Part) (body []byte, kind string) {
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
			content, _ = base64.StdEncoding.DecodeString(p.Base64) // which k6run.go has made
		}
		if part, err := w.CreatePart(h); err == nil {
			_, _ = part.Write(content) // to memory
		}
	}
	_ = w.Close() // which writes to memory
	return b.Bytes(), w.FormDataContentType()
}

// k6Data gives the scenario the rows of a SharedArray.
func (d *draft) k6Data(tables []k6Table) {
	for _, t := range tables {
		name := variableName(t.Name)
		taken := slices.ContainsFunc(d.scenario.Data, func(other scenario.Data) bool { return other.Name == name })
		switch {
		case !t.Used || taken:
		case !t.IsTable:
			d.leave(t.Line, "SharedArray "+t.Name, "its items are not objects of texts and numbers; each iteration uses the same item", "data of a scenario are rows of a file")
		case d.source.Out == "":
			d.leave(t.Line, "SharedArray "+t.Name, "rows need a file next to the experiment; each iteration uses the same row", "write the experiment to a file by --out")
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
			data := plan.DefaultData(name, d.file(t.Line, name+".jsonl", lines.Bytes()))
			if t.Drawn {
				data.Order = "random"
			}
			d.scenario.Data = append(d.scenario.Data, data)
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
			if name := f.SrcName(); name != "k6.js" && name != "<native>" && name != "" && k6Modules[name] == "" {
				return f.Position().Line
			}
		}
	}
	return 0
}

// lineOf returns the first line in which a text stands, or 0.
func lineOf(src []byte, text string) int {
	at := bytes.Index(src, []byte(text))
	if at < 0 {
		return 0
	}
	return lineAt(src, int64(at))
}

// lineOfKey returns the first line, from one on, in which a word stands: as a key, or else at all; 0 if it does not.
func lineOfKey(src []byte, word string, from int) int {
	start, found := 0, -1
	for range from - 1 {
		start += 1 + bytes.IndexByte(src[start:], '\n')
	}
	inWord := func(c byte) bool {
		return c == '_' || c >= 0x80 || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
	}
	for at := start; ; at++ {
		next := bytes.Index(src[at:], []byte(word))
		if next < 0 || word == "" {
			break
		}
		at += next
		after := src[at+len(word):]
		if at > 0 && inWord(src[at-1]) || len(after) > 0 && inWord(after[0]) {
			continue
		}
		if after = bytes.TrimLeft(after, " '\""); len(after) > 0 && (after[0] == ':' || after[0] == '=') {
			return lineAt(src, int64(at))
		}
		if found < 0 {
			found = at
		}
	}
	if found < 0 {
		return 0
	}
	return lineAt(src, int64(found))
}

// isWord matches names that are words.
var isWord = lazyregexp.New(`^[A-Za-z_]\w*$`)

// number notes that an expression stands for a number.
func (d *draft) number(expression string) {
	if d.numbers == nil {
		d.numbers = map[string]bool{}
	}
	d.numbers[expression] = true
}

var wholeMark = lazyregexp.New(`"` + markBegin + `(\d+)` + markEnd + `"`)

// unquoteNumbers takes the quotes off marks that stand for numbers in JSON.
func (d *draft) unquoteNumbers(text string) string {
	return wholeMark().ReplaceAllStringFunc(text, func(m string) string {
		i, err := strconv.Atoi(wholeMark().FindStringSubmatch(m)[1])
		if err != nil || i >= len(d.marks) || !d.numbers[d.marks[i]] {
			return m
		}
		return m[1 : len(m)-1]
	})
}

// sortedNames returns the names of a map in their order.
func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
