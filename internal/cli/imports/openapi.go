package imports

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"dyno/lab/plan"
)

// maxDescription bounds a description in bytes: its tree needs some hundred times as much.
const maxDescription = 16 << 20

// A document is a description of an API, in YAML or JSON, with the lines of its parts.
type document struct {
	d      *draft
	root   *yaml.Node
	within map[*yaml.Node]bool // schemas of which an example is being made
}

// readOpenAPI makes a request of each operation of a description (OpenAPI 3, Swagger 2), with the examples that it has.
func readOpenAPI(d *draft, src []byte) error {
	var file yaml.Node
	if err := yaml.Unmarshal(detab(src), &file); err != nil {
		return fmt.Errorf("this is neither YAML nor JSON: %w", err)
	}
	if len(file.Content) == 0 {
		return errors.New("the file is empty")
	}
	o := &document{d, file.Content[0], map[*yaml.Node]bool{}}
	paths := o.get(o.root, "paths")
	if paths == nil || paths.Kind != yaml.MappingNode {
		return errors.New("this is no description of an API: it has no paths")
	}
	d.pass = true
	server := o.server()
	for i := 0; i+1 < len(paths.Content); i += 2 {
		item := o.resolve(paths.Content[i+1], 0)
		for k := 0; item != nil && item.Kind == yaml.MappingNode && k+1 < len(item.Content); k += 2 {
			if method := item.Content[k].Value; slices.Contains([]string{"get", "put", "post", "delete", "options", "head", "patch"}, method) {
				o.operation(server, paths.Content[i].Value, method, item.Content[k], item, o.resolve(item.Content[k+1], 0))
			}
		}
	}
	return nil
}

// detab puts blanks in the place of tabs before the first character of lines: JSON may have them, YAML not.
func detab(src []byte) []byte {
	out := slices.Clone(src)
	first := true
	for i, c := range out {
		switch {
		case c == '\n':
			first = true
		case first && c == '\t':
			out[i] = ' '
		case c != ' ':
			first = false
		}
	}
	return out
}

// get returns the value of a key, with its references followed, or nil.
func (o *document) get(n *yaml.Node, key string) *yaml.Node {
	if n = o.resolve(n, 0); n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return o.resolve(n.Content[i+1], 0)
		}
	}
	return nil
}

// text returns a scalar at a key, or "".
func (o *document) text(n *yaml.Node, key string) string {
	if v := o.get(n, key); v != nil && v.Kind == yaml.ScalarNode {
		return v.Value
	}
	return ""
}

// resolve follows references within the document. It returns nil if one leads elsewhere.
func (o *document) resolve(n *yaml.Node, depth int) *yaml.Node {
	for ; n != nil && depth < maxDepth; depth++ {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
			continue
		}
		if n.Kind != yaml.MappingNode {
			return n
		}
		at := -1
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == "$ref" && n.Content[i+1].Kind == yaml.ScalarNode {
				at = i + 1
			}
		}
		if at < 0 {
			return n
		}
		path, local := strings.CutPrefix(n.Content[at].Value, "#/")
		if !local {
			o.d.leave(n.Content[at].Line, n.Content[at].Value, "other files are not read", "bundle the description to one file")
			return nil
		}
		next := o.root
		for step := range strings.SplitSeq(path, "/") {
			step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
			if decoded, err := url.PathUnescape(step); err == nil {
				step = decoded
			}
			next = child(next, step)
		}
		n = next
	}
	return nil
}

// child returns the value of a key or of an index as it stands, or nil.
func child(n *yaml.Node, step string) *yaml.Node {
	if n == nil {
		return nil
	}
	if n.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
		return nil
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == step {
			return n.Content[i+1]
		}
	}
	return nil
}

// server returns the URL that paths are relative to.
func (o *document) server() string {
	raw, at := "", 0
	if servers := o.get(o.root, "servers"); servers != nil && len(servers.Content) > 0 {
		first := o.resolve(servers.Content[0], 0)
		raw = o.text(first, "url")
		if variables := o.get(first, "variables"); variables != nil && variables.Kind == yaml.MappingNode {
			for i := 0; i+1 < len(variables.Content); i += 2 {
				raw = strings.ReplaceAll(raw, "{"+variables.Content[i].Value+"}", o.text(variables.Content[i+1], "default"))
			}
		}
		if at = servers.Line; len(servers.Content) > 1 {
			o.d.leave(servers.Line, "servers", fmt.Sprintf("there are %d: the first one is loaded", len(servers.Content)), "name another one by --url")
		}
	} else if host := o.text(o.root, "host"); host != "" { // of Swagger 2
		scheme := "http"
		if schemes := o.get(o.root, "schemes"); schemes != nil && len(schemes.Content) > 0 {
			scheme = schemes.Content[0].Value
		}
		raw = scheme + "://" + host + o.text(o.root, "basePath")
	}
	switch {
	case o.d.source.URL != "": // which has the path, too
		return ""
	case !strings.Contains(raw, "://"):
		o.d.base = "http://127.0.0.1:8080"
		o.d.leave(at, "servers", "the description does not name the server: it is taken to be "+o.d.base, "name it by --url")
	}
	return strings.TrimSuffix(raw, "/")
}

// operation adds the request of an operation.
func (o *document) operation(server, path, method string, key, item, operation *yaml.Node) {
	if operation == nil {
		return
	}
	r := request{line: key.Line, method: strings.ToUpper(method), name: o.text(operation, "operationId")}
	var query []string
	form := []field{}
	required := func(p *yaml.Node) bool { return o.text(p, "required") == "true" }
	for _, p := range o.parameters(item, operation) {
		name, value := o.text(p, "name"), o.value(p)
		switch o.text(p, "in") {
		case "path":
			path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
		case "query":
			if required(p) || o.hasExample(p) {
				query = append(query, url.QueryEscape(name)+"="+url.QueryEscape(value))
			}
		case "header":
			if required(p) || o.hasExample(p) {
				r.headers = append(r.headers, plan.Header{Name: name, Value: value})
			}
		case "cookie":
			if required(p) {
				r.headers = append(r.headers, plan.Header{Name: "Cookie", Value: name + "=" + value})
			}
		case "body":
			r.body = o.json(o.get(p, "schema"))
			r.headers = append(r.headers, plan.Header{Name: "Content-Type", Value: "application/json"})
		case "formData":
			form = append(form, field{name, value})
		}
	}
	if len(form) > 0 {
		r.body = []byte(encodeForm(form))
		r.headers = append(r.headers, plan.Header{Name: "Content-Type", Value: "application/x-www-form-urlencoded"})
	}
	o.body(&r, o.get(operation, "requestBody"))
	o.security(&r, operation)
	if r.url = server + path; len(query) > 0 {
		r.url += "?" + strings.Join(query, "&")
	}
	step := o.d.add(r)
	if step == nil {
		return
	}
	var codes []string
	if responses := o.get(operation, "responses"); responses != nil && responses.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(responses.Content); i += 2 {
			if code := strings.ToLower(responses.Content[i].Value); len(code) == 3 && code[0] == '2' {
				codes = append(codes, code)
			}
		}
	}
	step.Status = strings.Join(codes, ", ")
}

// parameters returns those of an operation, with those of its path that it does not replace.
func (o *document) parameters(item, operation *yaml.Node) (all []*yaml.Node) {
	seen := map[string]bool{}
	for _, of := range []*yaml.Node{operation, item} {
		list := o.get(of, "parameters")
		if list == nil {
			continue
		}
		for _, p := range list.Content {
			p = o.resolve(p, 0)
			key := o.text(p, "in") + " " + o.text(p, "name")
			if p != nil && !seen[key] {
				seen[key] = true
				all = append(all, p)
			}
		}
	}
	return all
}

// hasExample tells whether the description has a value for a parameter.
func (o *document) hasExample(p *yaml.Node) bool {
	schema := o.get(p, "schema")
	for _, of := range []*yaml.Node{p, schema} {
		for _, key := range []string{"example", "examples", "default"} {
			if o.get(of, key) != nil {
				return true
			}
		}
	}
	return false
}

// value returns the value of a parameter as text.
func (o *document) value(p *yaml.Node) string {
	of := p
	if schema := o.get(p, "schema"); schema != nil && o.get(p, "example") == nil && o.get(p, "examples") == nil {
		of = schema
	}
	text := o.json(of)
	var s string
	if json.Unmarshal(text, &s) == nil {
		return s
	}
	var list []any
	if json.Unmarshal(text, &list) == nil && len(list) > 0 {
		return fmt.Sprint(list[0])
	}
	return string(text)
}

// body takes over the content of a request: in JSON if it may be.
func (o *document) body(r *request, body *yaml.Node) {
	content := o.get(body, "content")
	if content == nil || content.Kind != yaml.MappingNode || len(content.Content) < 2 {
		return
	}
	kind, media := content.Content[0].Value, o.resolve(content.Content[1], 0)
	for i := 0; i+1 < len(content.Content); i += 2 {
		if strings.Contains(content.Content[i].Value, "json") {
			kind, media = content.Content[i].Value, o.resolve(content.Content[i+1], 0)
			break
		}
	}
	of := media
	if schema := o.get(media, "schema"); schema != nil && o.get(media, "example") == nil && o.get(media, "examples") == nil {
		of = schema
	}
	text := o.json(of)
	switch {
	case strings.Contains(kind, "json"):
		r.body = text
	case kind == "application/x-www-form-urlencoded":
		var object map[string]any
		_ = json.Unmarshal(text, &object) // of which nothing is known then
		var form []field
		for _, name := range sortedNames(object) {
			form = append(form, field{name, fmt.Sprint(object[name])})
		}
		r.body = []byte(encodeForm(form))
	default:
		var s string
		if json.Unmarshal(text, &s) != nil {
			o.d.leave(content.Line, r.name+": "+kind, "dyno makes no such content: the request has none", "give the step its body")
			return
		}
		r.body = []byte(s)
	}
	r.headers = append(r.headers, plan.Header{Name: "Content-Type", Value: kind})
}

// security gives the request the credentials that it needs, as variables.
func (o *document) security(r *request, operation *yaml.Node) {
	needs := o.get(operation, "security")
	if needs == nil {
		needs = o.get(o.root, "security")
	}
	if needs == nil || len(needs.Content) == 0 {
		return
	}
	first := o.resolve(needs.Content[0], 0)
	if first == nil || first.Kind != yaml.MappingNode {
		return
	}
	schemes := o.get(o.get(o.root, "components"), "securitySchemes")
	if schemes == nil {
		schemes = o.get(o.root, "securityDefinitions")
	}
	for i := 0; i+1 < len(first.Content); i += 2 {
		name := first.Content[i].Value
		s := o.get(schemes, name)
		switch kind := o.text(s, "type") + " " + strings.ToLower(o.text(s, "scheme")); {
		case strings.HasPrefix(kind, "apiKey") && o.text(s, "in") == "header":
			r.headers = append(r.headers, plan.Header{Name: o.text(s, "name"), Value: o.d.variable(first.Line, name, "", "")})
		case kind == "http bearer", strings.HasPrefix(kind, "oauth2"), strings.HasPrefix(kind, "openIdConnect"):
			r.headers = append(r.headers, plan.Header{Name: "Authorization", Value: "Bearer " + o.d.variable(first.Line, name, "", "")})
		case kind == "http basic", strings.HasPrefix(kind, "basic"):
			r.headers = append(r.headers, plan.Header{Name: "Authorization", Value: "Basic " + o.d.variable(first.Line, name, "", "")})
		default:
			o.d.leave(first.Content[i].Line, "security "+name, "dyno does not authorize requests in this way", "give the step the header field that it needs")
		}
	}
}

// json returns an example of a schema, or what a parameter or a content has for one.
func (o *document) json(n *yaml.Node) []byte {
	budget := 1000
	text, err := json.Marshal(o.example(n, 0, &budget))
	if err != nil {
		return []byte("null")
	}
	return text
}

// An object is what JSON calls so, with its members in their order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON keeps the order.
func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, name...), ':'), value...)
	}
	return append(b, '}'), nil
}

// plain returns what a node says, as JSON has it.
func plain(n *yaml.Node, depth int) any {
	if n == nil || depth > maxDepth {
		return nil
	}
	switch n.Kind {
	case yaml.AliasNode:
		return plain(n.Alias, depth+1)
	case yaml.MappingNode:
		out := object{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			out = append(out, member{n.Content[i].Value, plain(n.Content[i+1], depth+1)})
		}
		return out
	case yaml.SequenceNode:
		out := []any{}
		for _, item := range n.Content {
			out = append(out, plain(item, depth+1))
		}
		return out
	}
	switch n.Tag {
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.RawMessage(n.Value)
		}
	case "!!bool":
		return n.Value == "true"
	case "!!null":
		return nil
	}
	return n.Value
}

// example makes a value of a schema: what it has for one, or the simplest that it allows.
func (o *document) example(n *yaml.Node, depth int, budget *int) any {
	if *budget--; n == nil || depth > maxDepth || *budget < 0 {
		return nil
	}
	if n = o.resolve(n, 0); n == nil || o.within[n] {
		return nil // a schema within itself
	}
	o.within[n] = true
	defer delete(o.within, n)
	for _, key := range []string{"example", "default", "const"} {
		if e := o.get(n, key); e != nil {
			return plain(e, 0)
		}
	}
	if e := o.get(n, "examples"); e != nil && len(e.Content) > 0 {
		if e.Kind == yaml.SequenceNode {
			return plain(e.Content[0], 0)
		}
		return plain(o.get(e.Content[1], "value"), 0)
	}
	if e := o.get(n, "enum"); e != nil && len(e.Content) > 0 {
		return plain(e.Content[0], 0)
	}
	if all := o.get(n, "allOf"); all != nil {
		var out object
		for _, part := range all.Content {
			if more, is := o.example(part, depth+1, budget).(object); is {
				out = append(out, more...)
			}
		}
		more, _ := o.properties(n, depth, budget)
		return append(out, more...)
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		if any := o.get(n, key); any != nil && len(any.Content) > 0 {
			return o.example(any.Content[0], depth+1, budget)
		}
	}
	if out, is := o.properties(n, depth, budget); is {
		return out
	}
	return o.simplest(n, depth, budget)
}

// properties makes an object of a schema that has some.
func (o *document) properties(n *yaml.Node, depth int, budget *int) (out object, is bool) {
	properties := o.get(n, "properties")
	if properties == nil || properties.Kind != yaml.MappingNode {
		return nil, false
	}
	out = object{}
	for i := 0; i+1 < len(properties.Content); i += 2 {
		p := o.resolve(properties.Content[i+1], 0)
		if o.text(p, "readOnly") == "true" || *budget <= 0 {
			continue
		}
		if value := o.example(p, depth+1, budget); value != nil {
			out = append(out, member{properties.Content[i].Value, value})
		}
	}
	return out, true
}

// simplest makes a value of a schema by its type.
func (o *document) simplest(n *yaml.Node, depth int, budget *int) any {
	kind := o.text(n, "type")
	if list := o.get(n, "type"); list != nil && list.Kind == yaml.SequenceNode && len(list.Content) > 0 {
		kind = list.Content[0].Value
	}
	switch kind {
	case "array":
		item := o.example(o.get(n, "items"), depth+1, budget)
		if item == nil {
			return []any{}
		}
		return []any{item}
	case "integer", "number":
		if least := o.text(n, "minimum"); least != "" && json.Valid([]byte(least)) {
			return json.RawMessage(least)
		}
		return 1
	case "boolean":
		return true
	case "object":
		return object{}
	case "string":
		switch o.text(n, "format") {
		case "date-time":
			return "2025-01-01T00:00:00Z"
		case "date":
			return "2025-01-01"
		case "uuid":
			return "00000000-0000-4000-8000-000000000000"
		case "email":
			return "user@example.com"
		case "uri", "url":
			return "https://example.com/"
		}
		least, err := strconv.Atoi(o.text(n, "minLength"))
		if err != nil || least < len("string") || least > maxInline {
			return "string"
		}
		return strings.Repeat("x", least)
	}
	return nil
}
