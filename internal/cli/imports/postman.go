package imports

import (
	"cmp"
	"errors"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"dyno/internal/cli/foreign"
	"dyno/lab/plan"
)

// A collection is one of Postman's, as far as requests go.
type collection struct {
	Info struct {
		Name string `json:"name"`
	} `json:"info"`
	folder
	Variables []keyValue `json:"variable"`
}

// A folder has requests, or folders.
type folder struct {
	Name    string            `json:"name"`
	Items   []located[folder] `json:"item"`
	Request jsontext.Value    `json:"request"` // a URL, or an object
	Auth    *postmanAuth      `json:"auth"`
	Events  []postmanEvent    `json:"event"`
}

type postmanEvent struct {
	Listen string `json:"listen"`
	Script struct {
		Exec jsontext.Value `json:"exec"` // a text, or lines
	} `json:"script"`
}

type keyValue struct {
	Key      string         `json:"key"`
	Value    jsontext.Value `json:"value"`
	Type     string         `json:"type"`
	Src      jsontext.Value `json:"src"`
	Disabled bool           `json:"disabled"`
}

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

type postmanRequest struct {
	Method  string         `json:"method"`
	URL     jsontext.Value `json:"url"` // a text, or an object with raw
	Headers []keyValue     `json:"header"`
	Auth    *postmanAuth   `json:"auth"`
	Body    *struct {
		Mode       string     `json:"mode"`
		Raw        string     `json:"raw"`
		URLEncoded []keyValue `json:"urlencoded"`
		FormData   []keyValue `json:"formdata"`
		File       struct {
			Src string `json:"src"`
		} `json:"file"`
		GraphQL struct {
			Query     string `json:"query"`
			Variables string `json:"variables"`
		} `json:"graphql"`
		Options struct {
			Raw struct {
				Language string `json:"language"`
			} `json:"raw"`
		} `json:"options"`
		Disabled bool `json:"disabled"`
	} `json:"body"`
}

// postmanAuth is how requests are authorized. Its parameters are a list in v2.1, and an object in v2.0.
type postmanAuth struct {
	Type   string         `json:"type"`
	Basic  jsontext.Value `json:"basic"`
	Bearer jsontext.Value `json:"bearer"`
	APIKey jsontext.Value `json:"apikey"`
}

// parameter returns one of an authorization's.
func parameter(of jsontext.Value, key string) string {
	var list []keyValue
	if parseJSON(of, &list, "") == nil {
		for _, p := range list {
			if p.Key == key {
				return p.text()
			}
		}
		return ""
	}
	var object map[string]jsontext.Value
	_ = parseJSON(of, &object, "") // of which then nothing is known
	return textOf(object[key])
}

// maxDepth bounds folders within folders, and other nested parts of files.
const maxDepth = 32

// readPostman reads a collection: its requests in their order, as a run of the collection sends them.
func readPostman(d *draft, src []byte) error {
	var c collection
	if err := parseJSON(src, &c, "a collection of Postman"); err != nil {
		return err
	}
	if len(c.Items) == 0 {
		return errors.New("this is not a collection of Postman, or an empty one: there is nothing in item")
	}
	p := &postman{d: d, values: map[string]string{}}
	for i := range c.Variables {
		if v := &c.Variables[i]; !v.Disabled {
			p.values[v.Key] = v.text()
		}
	}
	for range 5 { // variables within variables
		for name, value := range p.values {
			value = postmanVariable.ReplaceAllStringFunc(value, func(m string) string {
				if inner, known := p.values[postmanVariable.FindStringSubmatch(m)[1]]; known {
					return inner
				}
				return m
			})
			if len(value) <= maxInline {
				p.values[name] = value
			}
		}
	}
	d.pass = true
	d.scenario.Cookies = true // as Postman keeps them
	p.scripts(1, c.Info.Name, c.Events)
	p.items(c.Items, c.Auth, 0)
	d.leave(0, "redirects", "Postman follows them, and users of a scenario do not", "request the last address")
	return nil
}

type postman struct {
	d      *draft
	values map[string]string // of the collection's variables
}

func (p *postman) items(items []located[folder], auth *postmanAuth, depth int) {
	for i := range items {
		f, line := &items[i].value, items[i].line(p.d)
		own := auth
		if f.Auth != nil {
			own = f.Auth
		}
		switch {
		case depth > maxDepth:
			p.d.leave(line, f.Name, "the folders are nested too deep", "")
		case len(f.Request) > 0:
			p.request(f, own, line)
		default:
			p.scripts(line, f.Name, f.Events)
			p.items(f.Items, own, depth+1)
		}
	}
}

var (
	postmanVariable = regexp.MustCompile(`\{\{\s*([^{}]+?)\s*\}\}`)
	// statusTest and bodyTest are the usual tests of a response.
	statusTest   = regexp.MustCompile(`^pm\.response\.to\.have\.status\((\d{3})\);?$|^pm\.expect\(pm\.response\.code\)\.to\.(?:eql|equal|eq|be\.equal)\((\d{3})\);?$|^pm\.response\.to\.be\.ok;?$`)
	bodyTest     = regexp.MustCompile(`^pm\.expect\(pm\.response\.text\(\)\)\.to\.(?:include|contain)\((?:"([^"\\]*)"|'([^'\\]*)')\);?$`)
	testBegin    = regexp.MustCompile(`^pm\.test\(.*(?:function\s*\(\)|\(\)\s*=>)\s*\{$`)
	setVariable  = regexp.MustCompile(`^pm\.(?:environment|collectionVariables|globals|variables)\.set\((?:"([^"\\]+)"|'([^'\\]+)'),\s*(?:pm\.response\.json\(\)|(\w+))((?:\.\w+|\[\d+\])*)\);?$`)
	jsonVariable = regexp.MustCompile(`^(?:var|let|const)\s+(\w+)\s*=\s*(?:pm\.response\.json\(\)|JSON\.parse\(responseBody\));?$`)
)

// dynamicVariables are Postman's own, as functions of templates.
var dynamicVariables = map[string]string{
	"$guid": "uuid()", "$randomUUID": "uuid()", "$timestamp": "timestamp()", "$isoTimestamp": `timestamp("rfc3339")`,
	"$randomInt": "random_int(0, 1000)", "$randomAlphaNumeric": "random_string(1)",
}

// text puts marks in the place of variables.
func (p *postman) text(line int, text string) string {
	return postmanVariable.ReplaceAllStringFunc(text, func(m string) string {
		name := postmanVariable.FindStringSubmatch(m)[1]
		if expression, known := dynamicVariables[name]; known {
			return p.d.mark(expression)
		}
		if strings.HasPrefix(name, "$") {
			p.d.leave(line, m, "dyno has no such made-up value", "dyno help templates lists what there is")
		}
		value := p.values[name]
		return p.d.variable(line, name, value, value)
	})
}

func (p *postman) request(f *folder, auth *postmanAuth, line int) {
	var r postmanRequest
	if f.Request.Kind() == '"' {
		r.URL = f.Request
	} else if err := parseJSON(f.Request, &r, "a request"); err != nil {
		p.d.leave(line, f.Name, err.Error(), "")
		return
	}
	raw := textOf(r.URL)
	if r.URL.Kind() == '{' {
		var u struct {
			Raw       string     `json:"raw"`
			Variables []keyValue `json:"variable"`
		}
		_ = parseJSON(r.URL, &u, "") // of which then nothing is known
		raw = u.Raw
		for i := range u.Variables {
			raw = regexp.MustCompile(`/:`+regexp.QuoteMeta(u.Variables[i].Key)+`(/|\?|$)`).ReplaceAllString(raw, "/"+strings.ReplaceAll(u.Variables[i].text(), "$", "$$")+"${1}")
		}
	}
	out := request{line: line, name: f.Name, method: r.Method, url: p.text(line, raw)}
	for i := range r.Headers {
		if h := &r.Headers[i]; !h.Disabled {
			out.headers = append(out.headers, plan.Header{Name: h.Key, Value: p.text(line, h.text())})
		}
	}
	if r.Auth != nil {
		auth = r.Auth
	}
	p.authorize(&out, auth)
	if !p.body(&out, &r) {
		return
	}
	step := p.d.add(out)
	if step == nil {
		return
	}
	for _, e := range f.Events {
		if e.Listen == "test" {
			p.tests(step, line, e.lines())
		} else {
			p.scripts(line, f.Name, []postmanEvent{e})
		}
	}
}

// lines returns what a script consists of.
func (e *postmanEvent) lines() []string {
	var lines []string
	if parseJSON(e.Script.Exec, &lines, "") != nil {
		lines = strings.Split(textOf(e.Script.Exec), "\n")
	}
	return lines
}

// scripts lists scripts that are not carried over.
func (p *postman) scripts(line int, name string, events []postmanEvent) {
	for _, e := range events {
		if strings.TrimSpace(strings.Join(e.lines(), "")) != "" {
			p.d.leave(line, name+": script ("+e.Listen+")", "scripts are not run", "templates and extract of a step make values: see dyno help templates")
		}
	}
}

// tests carries over the usual lines of a script that tests a response.
func (p *postman) tests(step *plan.Step, line int, lines []string) {
	parsed := map[string]bool{} // variables that hold the response's JSON
	for _, text := range lines {
		text = strings.TrimSpace(text)
		if m := statusTest.FindStringSubmatch(text); m != nil {
			step.Status = cmp.Or(m[1], m[2], "200-299")
			continue
		}
		if m := bodyTest.FindStringSubmatch(text); m != nil {
			step.Assert = append(step.Assert, plan.Assertion{Contains: plan.Quote(m[1] + m[2])})
			continue
		}
		if m := jsonVariable.FindStringSubmatch(text); m != nil {
			parsed[m[1]] = true
			continue
		}
		if m := setVariable.FindStringSubmatch(text); m != nil && m[4] != "" && (m[3] == "" || parsed[m[3]]) {
			p.d.extract(step, plan.Extraction{Variable: variableName(m[1] + m[2]), JSON: "$" + m[4]})
			continue
		}
		if text == "" || strings.HasPrefix(text, "//") || strings.Trim(text, "});") == "" || testBegin.MatchString(text) {
			continue
		}
		p.d.leave(line, step.Name+": "+text, "this line of a script is not carried over", "assert and extract of a step look at responses")
	}
}

func (p *postman) authorize(r *request, auth *postmanAuth) {
	if auth == nil || hasHeader(r.headers, "Authorization") {
		return
	}
	text := func(of jsontext.Value, key string) string { return p.text(r.line, parameter(of, key)) }
	switch auth.Type {
	case "", "noauth":
	case "basic":
		user, password := text(auth.Basic, "username"), text(auth.Basic, "password")
		if !strings.Contains(user+password, markBegin) {
			r.headers = append(r.headers, foreign.BasicAuth(user+":"+password))
			return
		}
		credentials := "base64(" + strings.Join(arguments(p.d, user+":"+password), ", ") + ")"
		r.headers = append(r.headers, plan.Header{Name: "Authorization", Value: "Basic " + p.d.mark(credentials)})
	case "bearer":
		r.headers = append(r.headers, plan.Header{Name: "Authorization", Value: "Bearer " + text(auth.Bearer, "token")})
	case "apikey":
		key, value := text(auth.APIKey, "key"), text(auth.APIKey, "value")
		if parameter(auth.APIKey, "in") == "query" {
			separator := "?"
			if strings.Contains(r.url, "?") {
				separator = "&"
			}
			r.url += separator + url.QueryEscape(key) + "=" + value
			return
		}
		r.headers = append(r.headers, plan.Header{Name: key, Value: value})
	default:
		p.d.leave(r.line, r.name+": auth "+auth.Type, "dyno does not authorize requests in this way", "give the step the header field that it needs")
	}
}

// body takes the body over; it is not ok if it cannot be had.
func (p *postman) body(out *request, r *postmanRequest) (ok bool) {
	b := r.Body
	if b == nil || b.Disabled {
		return true
	}
	kind := func(kind string) {
		if !hasHeader(out.headers, "Content-Type") {
			out.headers = append(out.headers, plan.Header{Name: "Content-Type", Value: kind})
		}
	}
	switch b.Mode {
	case "", "none":
	case "raw":
		if out.body = []byte(p.text(out.line, b.Raw)); b.Options.Raw.Language == "json" {
			kind("application/json")
		}
	case "urlencoded":
		var pairs []field
		for i := range b.URLEncoded {
			if f := &b.URLEncoded[i]; !f.Disabled {
				pairs = append(pairs, field{p.text(out.line, f.Key), p.text(out.line, f.text())})
			}
		}
		out.body = []byte(encodeForm(pairs))
		kind("application/x-www-form-urlencoded")
	case "formdata":
		var fields []foreign.FormField
		for i := range b.FormData {
			f := &b.FormData[i]
			switch {
			case f.Disabled:
			case f.Type == "file":
				fields = append(fields, foreign.FormField{Text: f.Key + "=@" + textOf(f.Src)})
			default:
				fields = append(fields, foreign.FormField{Text: p.text(out.line, f.Key) + "=" + p.text(out.line, f.text()), Literal: true})
			}
		}
		body, formKind, _, err := foreign.EncodeForm(fields, "dyno-form", p.d.read)
		if err != nil {
			p.d.leave(out.line, out.name, err.Error(), "run dyno import in the folder that has the file")
			return false
		}
		out.body = []byte(body)
		kind(formKind)
	case "file":
		body, err := p.d.read(b.File.Src)
		if err != nil {
			p.d.leave(out.line, out.name, err.Error(), "run dyno import in the folder that has the file")
			return false
		}
		out.body = []byte(body)
	case "graphql":
		variables := cmp.Or(p.text(out.line, b.GraphQL.Variables), "{}")
		query, _ := jsontext.AppendQuote(nil, p.text(out.line, b.GraphQL.Query))
		out.body = []byte(`{"query":` + string(query) + `,"variables":` + variables + `}`)
		kind("application/json")
	default:
		p.d.leave(out.line, out.name+": body "+b.Mode, "dyno does not know this kind of body", "give the step its body")
		return false
	}
	return true
}
