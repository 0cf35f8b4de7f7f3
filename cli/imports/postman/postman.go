// Package postman imports collections of Postman.
package postman

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"mime"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"dyno/cli/foreign"
	"dyno/cli/imports/correlate"
	"dyno/cli/imports/draft"
	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
	"dyno/load/scenario"
	"dyno/load/scenario/template"
)

// Format is the format of collections.
func Format() draft.Format {
	return draft.Format{Name: "postman", About: "a collection of Postman (v2.0 and v2.1)", Most: draft.MaxRecord, Recording: true, Form: form, Read: read}
}

var form = lazyregexp.New(`"schema"\s*:\s*"https://schema\.(?:get)?postman\.com/`)

// A collection is a Postman collection's requests.
type collection struct {
	Info struct {
		Name string `json:"name"`
	} `json:"info"`
	folder
	Variables []keyValue `json:"variable"`
}

// A folder has requests, or folders.
type folder struct {
	Name     string                    `json:"name"`
	Items    []draft.Located[folder]   `json:"item"`
	Request  jsontext.Value            `json:"request"` // a URL, or an object
	Auth     *authorization            `json:"auth"`
	Events   []event                   `json:"event"`
	Saved    jsontext.Value            `json:"response"` // examples of how it is answered
	Behavior map[string]jsontext.Value `json:"protocolProfileBehavior"`
}

type event struct {
	Listen string `json:"listen"`
	Script struct {
		Exec jsontext.Value `json:"exec"` // a text, or lines
	} `json:"script"`
}

type keyValue struct {
	Key         jsontext.Value `json:"key"` // a text, or null
	ID          string         `json:"id"`  // of a variable without a key
	Value       jsontext.Value `json:"value"`
	Type        string         `json:"type"`
	Src         jsontext.Value `json:"src"` // a file, or several
	FileName    *string        `json:"fileName"`
	ContentType string         `json:"contentType"`
	Disabled    bool           `json:"disabled"`
}

// name returns the key as text.
func (k *keyValue) name() string { return textOf(k.Key) }

// text returns the value as text.
func (k *keyValue) text() string { return textOf(k.Value) }

// textOf returns a text in JSON, and of anything else what stands there.
func textOf(v jsontext.Value) string {
	if v.Kind() == '"' {
		text, _ := jsontext.AppendUnquote(nil, v)
		return string(text)
	}
	if v.Kind() == 'n' {
		return ""
	}
	return string(v)
}

type requestSpec struct {
	Method  string         `json:"method"`
	URL     jsontext.Value `json:"url"`    // a text, or an object
	Headers jsontext.Value `json:"header"` // a list, or lines of text
	Auth    *authorization `json:"auth"`
	Body    *struct {
		Mode       string     `json:"mode"`
		Raw        string     `json:"raw"`
		URLEncoded []keyValue `json:"urlencoded"`
		FormData   []keyValue `json:"formdata"`
		File       struct {
			Src     string         `json:"src"`
			Content jsontext.Value `json:"content"`
		} `json:"file"`
		GraphQL struct {
			Query         string         `json:"query"`
			OperationName string         `json:"operationName"`
			Variables     jsontext.Value `json:"variables"` // an object, as such or as text
		} `json:"graphql"`
		Options struct {
			Raw struct {
				Language string `json:"language"`
			} `json:"raw"`
		} `json:"options"`
		Disabled bool `json:"disabled"`
	} `json:"body"`
}

// authorization is how requests are authorized. Its parameters are a list in v2.1, and an object in v2.0.
type authorization struct {
	Type   string         `json:"type"`
	Basic  jsontext.Value `json:"basic"`
	Bearer jsontext.Value `json:"bearer"`
	APIKey jsontext.Value `json:"apikey"`
}

// parameter returns one of an authorization's.
func parameter(of jsontext.Value, key string) string {
	var list []keyValue
	if draft.ParseJSON(of, &list, "") == nil {
		for _, p := range list {
			if p.name() == key {
				return p.text()
			}
		}
		return ""
	}
	var object map[string]jsontext.Value
	_ = draft.ParseJSON(of, &object, "") // then nothing is known about it
	return textOf(object[key])
}

// read reads a collection: its requests in their order, as a run of the collection sends them.
func read(d *draft.Draft, src []byte) error {
	var c collection
	if err := draft.ParseJSON(src, &c, "a collection of Postman"); err != nil {
		return err
	}
	if len(c.Items) == 0 {
		return errors.New("this is not a collection of Postman, or an empty one: there is nothing in item")
	}
	p := &reader{d: d, values: map[string]string{}, set: map[string]bool{}}
	for i := range c.Variables {
		v := &c.Variables[i]
		name := v.name()
		if name == "" {
			name = v.ID
		}
		if !v.Disabled {
			p.values[name] = variableText(v.Value)
		}
	}
	p.findSet(c.Events)
	p.findAllSet(c.Items, 0)
	d.Pass = true
	d.Scenario.Cookies = true // as Postman keeps them
	p.scripts(1, c.Info.Name, c.Events)
	p.items(c.Items, c.Auth, c.Behavior, 0)
	d.AddRecorded(p.requests, func(i int, step *scenario.Step) {
		for _, e := range p.events[i] {
			if e.Listen == "test" {
				p.tests(step, p.requests[i].Line, e.lines())
			} else {
				p.scripts(p.requests[i].Line, p.requests[i].Name, []event{e})
			}
		}
	})
	d.Leave(0, "header fields", "Postman adds User-Agent, Accept, Accept-Encoding, Cache-Control and Postman-Token of its own accord, which are not sent", "headers of the scenario are sent with each step")
	d.Leave(0, "redirects", "Postman follows them, and users of a scenario do not", "request the last address")
	return nil
}

// variableText returns the value of a variable as Postman inserts it.
func variableText(v jsontext.Value) string {
	switch v.Kind() {
	case 'n':
		return "null"
	case '0':
		if number, err := strconv.ParseFloat(string(v), 64); err == nil && math.Abs(number) < 1e21 {
			return strconv.FormatFloat(number, 'f', -1, 64)
		}
	}
	return textOf(v)
}

type reader struct {
	d      *draft.Draft
	values map[string]string // of the collection's variables
	set    map[string]bool   // variables that scripts set

	requests []draft.Recorded
	events   [][]event // of each request
}

// findAllSet finds the variables that scripts of folders and requests set.
func (p *reader) findAllSet(items []draft.Located[folder], depth int) {
	for i := range items {
		if p.findSet(items[i].Value.Events); depth < draft.MaxDepth {
			p.findAllSet(items[i].Value.Items, depth+1)
		}
	}
}

func (p *reader) findSet(events []event) {
	for _, e := range events {
		for _, m := range anySet().FindAllStringSubmatch(strings.Join(e.lines(), "\n"), -1) {
			p.set[m[1]] = true
		}
	}
}

func (p *reader) items(items []draft.Located[folder], auth *authorization, behavior map[string]jsontext.Value, depth int) {
	for i := range items {
		f, line := &items[i].Value, items[i].Line(p.d)
		own := auth
		if f.Auth != nil {
			own = f.Auth
		}
		merged := maps.Clone(behavior)
		if merged == nil {
			merged = map[string]jsontext.Value{}
		}
		maps.Copy(merged, f.Behavior)
		switch {
		case depth > draft.MaxDepth:
			p.d.Leave(line, f.Name, "the folders are nested too deep", "")
		case len(f.Request) > 0:
			p.request(f, own, merged, line)
		default:
			p.scripts(line, f.Name, f.Events)
			p.items(f.Items, own, merged, depth+1)
		}
	}
}

var (
	anyVariable    = lazyregexp.New(`\{\{([^{}]*)\}\}`)
	nestedVariable = lazyregexp.New(`\{\{[^{}]*\{\{`)
	anySet         = lazyregexp.New(`\.set\(\s*["'\x60]([^"'\x60]+)["'\x60]`)
	// statusTest and bodyTest are the usual tests of a response.
	statusTest   = lazyregexp.New(`^pm\.response\.to\.have\.status\((\d{3})\);?$|^pm\.expect\(pm\.response\.code\)\.to\.(?:eql|equal|eq|be\.equal)\((\d{3})\);?$|^pm\.response\.to\.be\.ok;?$`)
	bodyTest     = lazyregexp.New(`^pm\.expect\(pm\.response\.text\(\)\)\.to\.(?:include|contain)\((?:"([^"\\]*)"|'([^'\\]*)')\);?$`)
	testBegin    = lazyregexp.New(`^pm\.test\(.*(?:function\s*\(\)|\(\)\s*=>)\s*\{$`)
	setVariable  = lazyregexp.New(`^pm\.(?:environment|collectionVariables|globals|variables)\.set\((?:"([^"\\]+)"|'([^'\\]+)'),\s*(?:pm\.response\.json\(\)|(\w+))((?:\.\w+|\[\d+\])*)\);?$`)
	jsonVariable = lazyregexp.New(`^(?:var|let|const)\s+(\w+)\s*=\s*(?:pm\.response\.json\(\)|JSON\.parse\(responseBody\));?$`)
)

// dynamicVariables are Postman's own, as functions of templates.
var dynamicVariables = map[string]string{
	"$guid": "uuid()", "$randomUUID": "uuid()", "$timestamp": "timestamp()", "$isoTimestamp": `timestamp("rfc3339")`,
	"$randomInt": "random_int(0, 1000)", "$randomAlphaNumeric": `random_string(1, "abcdefghijklmnopqrstuvwxyz0123456789")`,
	"$randomBoolean": `random_choice("true", "false")`,
}

// The contexts in which variables stand. In a URL and in JSON, values are inserted before encoding or
// reading; a template would encode them otherwise: such values stand there as they are.
var (
	literalInURL    = lazyregexp.New("[^!-~]|[\"#'<>?\\\\`]")
	literalInJSON   = lazyregexp.New(`["\\\x00-\x1f]`)
	notASCII        = lazyregexp.New(`[^\x00-\x7f]`)
	literalInHeader = lazyregexp.New(`[\r\n]|[^\x00-\x7f]`)
)

// text puts marks in the place of variables, as Postman replaces them: again and again, the innermost first. Literal
// matches values that are put in as they are.
func (p *reader) text(line int, text string, literal func() *regexp.Regexp) string {
	const passes = 20
	whole, room := text, template.MaxText // bytes by which the text may grow
	for range passes {
		before, isNested := text, nestedVariable().MatchString(text)
		text = anyVariable().ReplaceAllStringFunc(text, func(m string) string {
			name := m[2 : len(m)-2]
			value, known := p.values[name]
			expression, dynamic := dynamicVariables[name]
			switch {
			case p.set[name], known && !isNested && !strings.Contains(value, "{{") && !literal().MatchString(value):
				return p.d.Variable(line, name, value, value)
			case known && room >= len(value):
				room -= len(value)
				return value
			case dynamic:
				return p.d.Mark(expression)
			}
			return m
		})
		if room < draft.MaxInline {
			p.d.Leave(line, whole, "its variables stand for too much text: it is sent as it stands", "")
			return whole
		}
		if text == before {
			break
		}
	}
	return anyVariable().ReplaceAllStringFunc(text, func(m string) string {
		name := m[2 : len(m)-2]
		_, known := p.values[name]
		switch {
		case known:
			p.d.Leave(line, m, "the variable stands for itself: it is sent as text", "give it a value in the collection")
		case strings.HasPrefix(name, "$"):
			p.d.Leave(line, m, "dyno has no such made-up value: it is sent as text", "dyno help templates lists what there is")
		case strings.TrimSpace(name) != name || draft.Varies(name) || name == "":
			p.d.Leave(line, m, "Postman knows no such variable: it is sent as text, as Postman does", "")
		default:
			return p.d.Variable(line, name, "", "")
		}
		return m
	})
}

func (p *reader) request(f *folder, auth *authorization, behavior map[string]jsontext.Value, line int) {
	var r requestSpec
	if f.Request.Kind() == '"' {
		r.URL = f.Request
	} else if err := draft.ParseJSON(f.Request, &r, "a request"); err != nil {
		p.d.Leave(line, f.Name, err.Error(), "")
		return
	}
	out := draft.Request{Line: line, Name: f.Name, Method: strings.ToUpper(cmp.Or(r.Method, "GET"))}
	out.URL = p.encodedURL(&out, p.text(line, p.url(line, f.Name, r.URL), literalInURL))
	for _, h := range headersOf(r.Headers) {
		out.AddHeader(p.text(line, h.Name, literalInHeader), p.text(line, h.Value, literalInHeader))
	}
	if r.Auth != nil {
		auth = r.Auth
	}
	p.authorize(&out, auth)
	for _, h := range out.Headers {
		if notASCII().MatchString(draft.ReplaceMarks(h.Value, "")) {
			p.d.Leave(line, f.Name+": "+h.Name, "Postman sends the field in Latin-1, and dyno in UTF-8", "")
		}
	}
	isPruned := slices.Contains([]string{"GET", "COPY", "HEAD", "PURGE", "UNLOCK"}, out.Method)
	for _, name := range slices.Sorted(maps.Keys(behavior)) {
		switch value := string(behavior[name]); {
		case name == "disableBodyPruning":
			isPruned = isPruned && value != "true"
		case value == "true" && (name == "followRedirects" || name == "strictSSL"), value == "false":
		default:
			p.d.Leave(line, f.Name+": "+name, "the experiment has no such setting", "")
		}
	}
	if !isPruned && !p.body(&out, &r) {
		return
	}
	recorded := draft.Recorded{Request: out}
	var examples []struct {
		Code    int            `json:"code"`
		Headers jsontext.Value `json:"header"`
		Body    string         `json:"body"` // or null
	}
	_ = draft.ParseJSON(f.Saved, &examples, "") // without them, nothing is taken from responses
	for _, e := range examples {
		if e.Code < 400 {
			recorded.Response = correlate.Response{Header: headersOf(e.Headers), Body: e.Body}
			break
		}
	}
	p.requests, p.events = append(p.requests, recorded), append(p.events, f.Events)
}

// headersOf returns the header fields that are not disabled.
func headersOf(v jsontext.Value) (all []scenario.Header) {
	var list []keyValue
	if draft.ParseJSON(v, &list, "") != nil {
		for line := range strings.SplitSeq(textOf(v), "\n") {
			if name, value, found := strings.Cut(line, ":"); found {
				all = append(all, scenario.Header{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
			}
		}
		return all
	}
	for i := range list {
		if h := &list[i]; !h.Disabled {
			all = append(all, scenario.Header{Name: h.name(), Value: h.text()})
		}
	}
	return all
}

// url returns the URL as text. Its parts come before the text that Postman shows.
func (p *reader) url(line int, name string, v jsontext.Value) string {
	var u struct {
		Raw       string         `json:"raw"`
		Protocol  string         `json:"protocol"`
		Host      jsontext.Value `json:"host"` // a text, or its parts
		Port      jsontext.Value `json:"port"`
		Path      jsontext.Value `json:"path"`
		Query     []keyValue     `json:"query"`
		Variables []keyValue     `json:"variable"`
		Auth      struct {
			User     string `json:"user"`
			Password string `json:"password"`
		} `json:"auth"`
	}
	if v.Kind() != '{' {
		return textOf(v)
	}
	if err := draft.ParseJSON(v, &u, "a URL"); err != nil {
		p.d.Leave(line, name+": url", err.Error(), "")
	}
	raw := u.Raw
	if host := joined(u.Host, "."); host != "" {
		scheme := strings.TrimSuffix(cmp.Or(u.Protocol, "http"), "://") + "://"
		if u.Protocol == "" && (strings.HasPrefix(host, "{{") || strings.Contains(host, "://")) {
			scheme = "" // which the variable may have
		}
		if u.Auth.User != "" {
			scheme += u.Auth.User + ":" + u.Auth.Password + "@"
		}
		if port := textOf(u.Port); port != "" {
			host += ":" + port
		}
		raw = scheme + host
		if path := joined(u.Path, "/"); path != "" {
			raw += "/" + strings.TrimPrefix(path, "/")
		}
		var query []string
		for i := range u.Query {
			q := &u.Query[i]
			if q.Disabled {
				continue
			}
			pair := strings.NewReplacer("&", "%26", "#", "%23", "=", "%3D").Replace(q.name())
			if q.Value.Kind() != 'n' && q.Value != nil {
				pair += "=" + strings.NewReplacer("&", "%26", "#", "%23").Replace(q.text())
			}
			query = append(query, pair)
		}
		if len(query) > 0 {
			raw += "?" + strings.Join(query, "&")
		}
	}
	path, query, hasQuery := strings.Cut(raw, "?")
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		for j := range u.Variables {
			if v := &u.Variables[j]; i > 2 && segment == ":"+cmp.Or(v.name(), v.ID) && !v.Disabled {
				segments[i] = v.text()
			}
		}
	}
	if raw = strings.Join(segments, "/"); hasQuery {
		raw += "?" + query
	}
	return raw
}

// joined returns a text, or the parts of one with a separator between them.
func joined(v jsontext.Value, separator string) string {
	var parts []jsontext.Value
	if draft.ParseJSON(v, &parts, "") != nil {
		return textOf(v)
	}
	var texts []string
	for _, part := range parts {
		var object struct {
			Value string `json:"value"`
		}
		if part.Kind() == '{' && draft.ParseJSON(part, &object, "") == nil {
			texts = append(texts, object.Value)
			continue
		}
		texts = append(texts, textOf(part))
	}
	return strings.Join(texts, separator)
}

// encodedURL encodes a URL as Postman does. A user in it becomes a header field.
func (p *reader) encodedURL(out *draft.Request, raw string) string {
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		scheme, rest = "", raw
	} else {
		scheme += "://"
	}
	rest, _, _ = strings.Cut(rest, "#")
	rest, query, hasQuery := strings.Cut(rest, "?")
	host, path, hasPath := strings.Cut(strings.ReplaceAll(rest, `\`, "/"), "/")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		user, err := url.PathUnescape(host[:at])
		if err != nil {
			user = host[:at]
		}
		host = host[at+1:]
		out.AddHeader("Authorization", foreign.BasicAuth(user))
	}
	if raw = scheme + host; hasPath {
		raw += "/" + encodeWith(path, "\"<>`#?{}")
	}
	if hasQuery {
		raw += "?" + encodeWith(query, "\"#'<>")
	}
	return raw
}

// encodeWith encodes what cannot stand in a URL, and some characters in addition.
func encodeWith(text, more string) string {
	return draft.EncodePath(text, "%%%02X", func(c byte) bool { return c <= ' ' || c >= 0x7f || strings.IndexByte(more, c) >= 0 })
}

// formOf returns fields as Postman sends a form: fields of one name together, encoded by RFC
// 3986.
func formOf(fields []draft.Field) string {
	place := map[string]int{}
	for _, f := range fields {
		if _, known := place[f.Name]; !known {
			place[f.Name] = len(place)
			if number, err := strconv.ParseUint(f.Name, 10, 31); err == nil && strconv.FormatUint(number, 10) == f.Name {
				place[f.Name] = int(number) - 1<<31 // objects of JavaScript have such names first
			}
		}
	}
	slices.SortStableFunc(fields, func(a, b draft.Field) int { return place[a.Name] - place[b.Name] })
	encode := func(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
	var pairs []string
	for _, f := range fields {
		pairs = append(pairs, encode(f.Name)+"="+encode(f.Value))
	}
	return strings.Join(pairs, "&")
}

// lines returns what a script consists of.
func (e *event) lines() []string {
	var lines []string
	if draft.ParseJSON(e.Script.Exec, &lines, "") != nil {
		lines = strings.Split(textOf(e.Script.Exec), "\n")
	}
	return lines
}

// scripts lists scripts that are not carried over.
func (p *reader) scripts(line int, name string, events []event) {
	for _, e := range events {
		if strings.TrimSpace(strings.Join(e.lines(), "")) != "" {
			p.d.Leave(line, name+": script ("+e.Listen+")", "scripts are not run", "templates and extract of a step make values: see dyno help templates")
		}
	}
}

// tests carries over the usual lines of a script that tests a response.
func (p *reader) tests(step *scenario.Step, line int, lines []string) {
	parsed := map[string]bool{} // variables that hold the response's JSON
	for _, text := range lines {
		text = strings.TrimSpace(text)
		if m := statusTest().FindStringSubmatch(text); m != nil {
			step.Status = cmp.Or(m[1], m[2], "200-299")
			continue
		}
		if m := bodyTest().FindStringSubmatch(text); m != nil {
			step.Assert = append(step.Assert, scenario.Assertion{Contains: plan.Quote(m[1] + m[2])})
			continue
		}
		if m := jsonVariable().FindStringSubmatch(text); m != nil {
			parsed[m[1]] = true
			continue
		}
		if m := setVariable().FindStringSubmatch(text); m != nil && m[4] != "" && (m[3] == "" || parsed[m[3]]) {
			p.d.Extract(step, scenario.Extraction{Variable: draft.VariableName(m[1] + m[2]), JSON: "$" + m[4]})
			continue
		}
		if text == "" || strings.HasPrefix(text, "//") || strings.Trim(text, "});") == "" || testBegin().MatchString(text) {
			continue
		}
		p.d.Leave(line, step.Name+": "+text, "this line of a script is not carried over", "assert and extract of a step look at responses")
	}
}

func (p *reader) authorize(r *draft.Request, auth *authorization) {
	if auth == nil {
		return
	}
	text := func(of jsontext.Value, key string) string { return p.text(r.Line, parameter(of, key), literalInHeader) }
	switch auth.Type {
	case "", "noauth":
	case "basic":
		user, password := text(auth.Basic, "username"), text(auth.Basic, "password")
		if !draft.Varies(user + password) {
			r.SetHeader("Authorization", foreign.BasicAuth(user+":"+password))
			return
		}
		credentials := "base64(" + strings.Join(p.d.Arguments(user+":"+password), ", ") + ")"
		r.SetHeader("Authorization", "Basic "+p.d.Mark(credentials))
	case "bearer":
		if token := text(auth.Bearer, "token"); token != "" {
			r.SetHeader("Authorization", "Bearer "+token)
		}
	case "apikey":
		if parameter(auth.APIKey, "in") == "query" {
			encode := func(key, more string) string {
				return encodeWith(p.text(r.Line, parameter(auth.APIKey, key), literalInURL), "\"#'<>&"+more)
			}
			r.URL = draft.WithQuery(r.URL, encode("key", "=")+"="+encode("value", ""))
			return
		}
		r.SetHeader(text(auth.APIKey, "key"), text(auth.APIKey, "value"))
	default:
		p.d.Leave(r.Line, r.Name+": auth "+auth.Type, "dyno does not authorize requests in this way", "give the step the header field that it needs")
	}
}

// body takes the body over; it is not ok if it cannot be had.
func (p *reader) body(out *draft.Request, r *requestSpec) (ok bool) {
	b := r.Body
	if b == nil || b.Disabled {
		return true
	}
	kind := func(kind string) { out.DefaultHeader("Content-Type", kind) }
	text := func(text string) string { return p.text(out.Line, text, literalInJSON) }
	switch b.Mode {
	case "", "none":
	case "raw":
		if out.Body = []byte(text(b.Raw)); len(out.Body) > 0 {
			kind(cmp.Or(rawKinds[b.Options.Raw.Language], "text/plain"))
		}
	case "urlencoded":
		var pairs []draft.Field
		for i := range b.URLEncoded {
			if f := &b.URLEncoded[i]; !f.Disabled {
				pairs = append(pairs, draft.Field{Name: text(f.name()), Value: text(f.text())})
			}
		}
		if out.Body = []byte(formOf(pairs)); len(out.Body) > 0 {
			out.SetHeader("Content-Type", "application/x-www-form-urlencoded") // in place of any other
		}
	case "formdata":
		p.form(out, b.FormData)
	case "file":
		if b.File.Src == "" {
			p.d.Leave(out.Line, out.Name+": body", "no file is named: the request has no content", "give the step its body")
			break
		}
		body, err := p.d.ReadFile(b.File.Src)
		if err != nil {
			p.d.Leave(out.Line, out.Name+": body", err.Error()+": the request has no content", "run dyno import in the folder that has the file")
			break
		}
		out.Body = []byte(body)
		kind(kindOfFile(b.File.Src))
	case "graphql":
		query, _ := jsontext.AppendQuote(nil, p.text(out.Line, b.GraphQL.Query, literalInHeader))
		whole := `{"query":` + string(query)
		if b.GraphQL.OperationName != "" {
			name, _ := jsontext.AppendQuote(nil, text(b.GraphQL.OperationName))
			whole += `,"operationName":` + string(name)
		}
		if b.GraphQL.Variables.Kind() == '{' {
			_ = b.GraphQL.Variables.Compact() // it was parsed
		}
		if variables := text(textOf(b.GraphQL.Variables)); variables != "" {
			whole += `,"variables":` + variables
		}
		out.Body = []byte(whole + "}")
		kind("application/json")
	default:
		p.d.Leave(out.Line, out.Name+": body "+b.Mode, "dyno does not know this kind of body", "give the step its body")
		return false
	}
	return true
}

// rawKinds are the content types of languages.
var rawKinds = map[string]string{"json": "application/json", "xml": "application/xml", "html": "text/html", "javascript": "application/javascript"}

// kindOfFile returns the content type of a file by its name.
func kindOfFile(name string) string {
	kind, _, _ := strings.Cut(mime.TypeByExtension(filepath.Ext(name)), ";")
	return cmp.Or(kind, "application/octet-stream")
}

// form takes over a form with files. Text is sent as it stands: only fields of type file read files.
func (p *reader) form(out *draft.Request, fields []keyValue) {
	var b strings.Builder
	part := func(f *keyValue, file *string, content string) {
		kind := f.ContentType
		fmt.Fprintf(&b, "--%s\r\nContent-Disposition: form-data; name=\"%s\"", boundary, p.text(out.Line, f.name(), literalInHeader))
		if file != nil {
			fmt.Fprintf(&b, "; filename=\"%s\"", *file)
			if kind == "" && *file != "" {
				kind = kindOfFile(*file)
			}
		}
		if b.WriteString("\r\n"); kind != "" {
			b.WriteString("Content-Type: " + kind + "\r\n")
		}
		b.WriteString("\r\n" + content + "\r\n")
	}
	for i := range fields {
		f := &fields[i]
		switch {
		case f.Disabled:
		case f.Type != "file":
			part(f, nil, p.text(out.Line, f.text(), literalInHeader))
		default:
			files := filesOf(f.Src)
			if len(files) == 0 {
				part(f, new(string), "")
			}
			for _, name := range files {
				content, err := p.d.ReadFile(name)
				if err != nil {
					p.d.Leave(out.Line, out.Name+": "+f.name(), err.Error()+": the field is left out", "run dyno import in the folder that has the file")
					continue
				}
				base := filepath.Base(name)
				if f.FileName != nil {
					base = *f.FileName
				}
				part(f, &base, content)
			}
		}
	}
	if b.Len() == 0 {
		return
	}
	b.WriteString("--" + boundary + "--\r\n")
	out.Body = []byte(b.String())
	kind := "multipart/form-data; boundary=" + boundary
	out.Headers = slices.DeleteFunc(out.Headers, func(h scenario.Header) bool {
		if !strings.EqualFold(h.Name, "Content-Type") {
			return false
		}
		if strings.HasPrefix(h.Value, "multipart/") { // of another kind, or with a boundary of its own
			kind = h.Value
			if _, own, has := strings.Cut(h.Value, "boundary="); has {
				out.Body = []byte(strings.ReplaceAll(b.String(), "--"+boundary, "--"+strings.Trim(own, `"`)))
			} else {
				kind += "; boundary=" + boundary
			}
		}
		return true
	})
	out.AddHeader("Content-Type", kind)
}

// boundary stands between the parts of forms.
const boundary = "dyno-form"

// filesOf returns the files of a field: one, or several.
func filesOf(src jsontext.Value) (names []string) {
	var list []jsontext.Value
	if draft.ParseJSON(src, &list, "") != nil {
		list = []jsontext.Value{src}
	}
	for _, v := range list {
		if name := textOf(v); name != "" {
			names = append(names, name)
		}
	}
	return names
}
