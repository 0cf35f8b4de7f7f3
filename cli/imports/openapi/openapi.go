// Package openapi imports descriptions of APIs (OpenAPI 3, Swagger 2): a request of each operation (openapi.go), with
// values of its schemas (value.go) in the style of each parameter (style.go).
package openapi

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	paths "path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"go.yaml.in/yaml/v3"

	"dyno/cli/imports/draft"
	"dyno/internal/lazyregexp"
)

// Format is the format of descriptions.
func Format() draft.Format {
	return draft.Format{Name: "openapi", About: "a description of an API (OpenAPI 3, Swagger 2)", Most: maxDescription, Form: form, Read: read}
}

var form = lazyregexp.New(`(?:\A|[\s{,])["']?(?:openapi|swagger)["']?\s*:\s*["']?[23]\.`)

// maxDescription bounds a description in bytes: its tree needs some hundred times as much.
const maxDescription = 16 << 20

// A document is a description of an API, in YAML or JSON, with the lines of its parts.
type document struct {
	d       *draft.Draft
	root    *yaml.Node
	version string
	files   map[string]*part      // those that references lead to, by path; nil: it cannot be read
	of      map[*yaml.Node]*part  // nodes of other files than the first
	made    map[*yaml.Node]bool   // schemas whose example is being made
	names   map[*yaml.Node]string // the references that led to schemas
	budget  int                   // values that may still be made for a request
	at      int                   // the line of the operation
	title   string                // of the operation
}

// A part is another file of a description.
type part struct {
	path string
	root *yaml.Node
	line int // of the first reference to it, in the first file
}

// maxParts bounds the files of a description.
const maxParts = 200

// read makes a request of each operation of a description (OpenAPI 3, Swagger 2), with the examples that it has.
func read(d *draft.Draft, src []byte) error {
	var file yaml.Node
	if err := yaml.Unmarshal(inYAML(src), &file); err != nil {
		return fmt.Errorf("this is neither YAML nor JSON: %w", err)
	}
	if len(file.Content) == 0 {
		return errors.New("the file is empty")
	}
	o := &document{
		d: d, root: file.Content[0], files: map[string]*part{}, of: map[*yaml.Node]*part{},
		made: map[*yaml.Node]bool{}, names: map[*yaml.Node]string{},
	}
	o.version = cmp.Or(o.text(o.root, "openapi"), o.text(o.root, "swagger"))
	all := o.get(o.root, "paths")
	if all == nil || all.Kind != yaml.MappingNode {
		return errors.New("this is no description of an API: it has no paths")
	}
	d.Pass = true
	for _, path := range o.entries(all) {
		if !strings.HasPrefix(path.name, "/") {
			continue // an extension
		}
		item := o.resolve(path.value)
		for _, part := range o.entries(item) {
			switch part.name {
			case "get", "put", "post", "delete", "options", "head", "patch", "trace", "query":
				o.operation(path.name, part, item, o.resolve(part.value))
			case "additionalOperations":
				d.Leave(part.line, path.name, "methods of its own are not carried over", "")
			}
		}
	}
	return nil
}

// escapes are JSON's that the parser of YAML does not know: surrogate pairs, and the escaped slash. An escaped
// backslash begins none.
var escapes = lazyregexp.New(`\\(?:\\|/|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})`)

// inYAML returns a text that a parser of YAML can read, of one in JSON or YAML.
func inYAML(src []byte) []byte {
	src = detab(src)
	if !strings.HasPrefix(strings.TrimSpace(string(src)), "{") {
		return src
	}
	return escapes().ReplaceAllFunc(src, func(pair []byte) []byte {
		if string(pair) == `\/` {
			return []byte("/")
		}
		high, err := strconv.ParseUint(string(pair[min(2, len(pair)):min(6, len(pair))]), 16, 16)
		if err != nil || len(pair) < 12 {
			return pair
		}
		low, err := strconv.ParseUint(string(pair[8:12]), 16, 16)
		if err != nil {
			return pair
		}
		return []byte(string(utf16.DecodeRune(rune(high), rune(low))))
	})
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

// An entry is a key of a mapping with its value.
type entry struct {
	name  string
	value *yaml.Node
	line  int
}

// entries returns a mapping's entries in their order, including merged ones.
func (o *document) entries(n *yaml.Node) []entry {
	all := entriesOf(n)
	for i := range all {
		if p := o.of[all[i].value]; p != nil {
			all[i].line = p.line
		}
	}
	return all
}

// line returns the line of a node: in another file, of the first reference to it; 0 without a node.
func (o *document) line(n *yaml.Node) int {
	if n == nil {
		return 0
	}
	if p := o.of[n]; p != nil {
		return p.line
	}
	return n.Line
}

// entriesOf returns a mapping's entries.
func entriesOf(n *yaml.Node) []entry { return entriesWithin(n, map[*yaml.Node]bool{}) }

// entriesWithin leaves out mappings that were seen before, since they have nothing more to merge in.
func entriesWithin(n *yaml.Node, seen map[*yaml.Node]bool) (all []entry) {
	for depth := 0; n != nil && n.Kind == yaml.AliasNode && depth < draft.MaxDepth; depth++ {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml.MappingNode || seen[n] {
		return nil
	}
	seen[n] = true
	var merged []entry
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.ShortTag() != "!!merge":
			all = append(all, entry{key.Value, value, key.Line})
		case value.Kind == yaml.SequenceNode:
			for _, from := range value.Content {
				merged = append(merged, entriesWithin(from, seen)...)
			}
		default:
			merged = append(merged, entriesWithin(value, seen)...)
		}
	}
	for _, m := range merged {
		if !slices.ContainsFunc(all, func(e entry) bool { return e.name == m.name }) {
			all = append(all, m)
		}
	}
	return all
}

// own returns the value of a key as it stands in a mapping, or nil.
func own(n *yaml.Node, key string) *yaml.Node {
	for _, e := range entriesOf(n) {
		if e.name == key {
			return e.value
		}
	}
	return nil
}

// get returns the value of a key, with its references followed, or nil.
func (o *document) get(n *yaml.Node, key string) *yaml.Node {
	value := own(n, key)
	if value == nil {
		if n = o.resolve(n); n == nil {
			return nil
		}
		value = own(n, key)
	}
	return o.resolve(value)
}

// text returns a scalar at a key, or "".
func (o *document) text(n *yaml.Node, key string) string {
	if v := o.get(n, key); v != nil && v.Kind == yaml.ScalarNode {
		return v.Value
	}
	return ""
}

// items returns the items of a sequence at a key, following references.
func (o *document) items(n *yaml.Node, key string) (all []*yaml.Node) {
	list := o.get(n, key)
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	for _, item := range list.Content {
		if item = o.resolve(item); item != nil {
			all = append(all, item)
		}
	}
	return all
}

// resolve follows references. It returns nil if one leads nowhere.
func (o *document) resolve(n *yaml.Node) *yaml.Node {
	name := ""
	for depth := 0; n != nil && depth < draft.MaxDepth; depth++ {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
			continue
		}
		ref := own(n, "$ref")
		if ref == nil || ref.Kind != yaml.ScalarNode {
			if name != "" {
				o.names[n] = name
			}
			return n
		}
		if n = o.referred(ref); n == nil {
			return nil
		}
		name = ref.Value
	}
	return nil
}

// referred returns what a reference is to.
func (o *document) referred(ref *yaml.Node) *yaml.Node {
	file, path, _ := strings.Cut(ref.Value, "#")
	next := o.root
	if p := o.of[ref]; p != nil {
		next = p.root
	}
	if file != "" {
		p, err := o.file(ref, file)
		if err != nil {
			o.d.LeaveFault(o.line(ref), ref.Value, err, "")
			return nil
		}
		next = p.root
	}
	for step := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if path == "" {
			break
		}
		if decoded, err := url.PathUnescape(step); err == nil {
			step = decoded
		}
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		if next = child(next, step); next == nil {
			o.d.Leave(o.line(ref), ref.Value, "nothing has this name", "")
			return nil
		}
	}
	return next
}

// file returns another file of the description, which a reference names.
func (o *document) file(ref *yaml.Node, name string) (*part, error) {
	if strings.Contains(name, "://") {
		return nil, errors.New("nothing is requested while a file is imported; bundle the description to one file")
	}
	folder := filepath.Dir(o.d.Source.File)
	if p := o.of[ref]; p != nil {
		folder = filepath.Dir(p.path)
	}
	if decoded, err := url.PathUnescape(name); err == nil {
		name = decoded
	}
	path := filepath.FromSlash(name)
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	if p, is := o.files[path]; is {
		if p == nil {
			return nil, errors.New(name + " cannot be read")
		}
		return p, nil
	}
	if len(o.files) == maxParts {
		return nil, fmt.Errorf("there are more than %d files; bundle the description to one file", maxParts)
	}
	o.files[path] = nil
	text, err := o.d.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file yaml.Node
	if err := yaml.Unmarshal(inYAML([]byte(strings.TrimPrefix(text, "\ufeff"))), &file); err != nil || len(file.Content) == 0 {
		return nil, errors.New(name + " is neither YAML nor JSON")
	}
	p := &part{path, file.Content[0], o.line(ref)}
	o.files[path] = p
	o.own(p, p.root)
	return p, nil
}

// own notes the nodes of another file.
func (o *document) own(p *part, n *yaml.Node) {
	o.of[n] = p
	for _, child := range n.Content {
		o.own(p, child)
	}
}

// child returns the value of a key or of an index as it stands, or nil.
func child(n *yaml.Node, step string) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n != nil && n.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
		return nil
	}
	return own(n, step)
}

// leave lists an operation's parts that are not carried over.
func (o *document) leave(line int, what, why, hint string) {
	o.d.Leave(cmp.Or(line, o.at), o.title+": "+what, why, hint)
}

// server returns the URL that the paths of an operation are relative to: of its own servers, else of its path's, else of
// the description's.
func (o *document) server(item, operation *yaml.Node) string {
	raw, at := "", 0
	for _, of := range []*yaml.Node{operation, item, o.root} {
		servers := o.get(of, "servers")
		if servers == nil || len(servers.Content) == 0 {
			continue
		}
		first := o.resolve(servers.Content[0])
		raw = o.text(first, "url")
		for _, v := range o.entries(o.get(first, "variables")) {
			value := o.text(v.value, "default")
			if choices := o.items(v.value, "enum"); value == "" && len(choices) > 0 {
				value = choices[0].Value
			}
			raw = strings.ReplaceAll(raw, "{"+v.name+"}", value)
		}
		if at = o.line(servers); len(servers.Content) > 1 {
			o.d.Leave(o.line(servers), "servers", fmt.Sprintf("there are %d: the first one is loaded", len(servers.Content)), "name another one by --url")
		}
		break
	}
	if host := o.text(o.root, "host"); raw == "" && host != "" { // of Swagger 2
		scheme := "http"
		if schemes := o.items(o.root, "schemes"); len(schemes) > 0 {
			scheme = schemes[0].Value
		}
		raw = scheme + "://" + host
	}
	raw += o.text(o.root, "basePath")
	if strings.HasPrefix(raw, "//") {
		raw = "http:" + raw
	}
	switch {
	case o.d.Source.URL != "": // which has the path, too
		return ""
	case !strings.Contains(raw, "://"):
		o.d.Base = cmp.Or(o.d.Base, "http://127.0.0.1:8080")
		o.d.Origin = cmp.Or(o.d.Origin, o.d.Base) // so that a server of an operation is another one
		o.d.Leave(at, "servers", "the description does not name the server: it is taken to be "+o.d.Base, "name it by --url")
		if raw != "" {
			raw = paths.Join("/", raw)
		}
	}
	return strings.TrimSuffix(raw, "/")
}

// inPath are the parameters that stand in a path.
var inPath = lazyregexp.New(`\{([^{}]+)\}`)

// operation adds the request of an operation.
func (o *document) operation(path string, key entry, item, operation *yaml.Node) {
	if operation == nil {
		return
	}
	o.at, o.budget = key.line, 1000
	r := draft.Request{Line: key.line, Method: strings.ToUpper(key.name), Name: o.text(operation, "operationId")}
	o.title = cmp.Or(r.Name, r.Method+" "+path)
	var query []string
	var form []formField
	var cookies []pair
	var content *yaml.Node
	values := map[string]string{}
	for _, p := range o.parameters(item, operation) {
		name, in := o.text(p, "name"), o.text(p, "in")
		if in == "body" {
			content = p
			continue
		}
		if in == "header" && o.ignored(name) {
			o.leave(o.line(p), name, "the specification ignores a parameter of this name", "the content and security say the field")
			continue
		}
		if in != "path" && o.text(p, "required") != "true" && !o.hasExample(p) {
			continue
		}
		s := o.style(p, in)
		value := o.parameter(p, in)
		switch {
		case in == "formData":
			form = append(form, formField{name, value, s, o.schema(p)})
		case value == nil:
			o.leave(o.line(p), name, "the parameter has no value that can be sent", "")
		case in == "path":
			values[name] = o.segment(s, name, value)
		case in == "query":
			for _, pair := range o.pairs(s, name, value) {
				query = append(query, pair.text())
			}
		case in == "querystring":
			query = append(query, o.leftQuery(p))
		case in == "header":
			r.AddHeader(name, o.list(s, value, func(text string) string { return text }))
		case in == "cookie":
			cookies = append(cookies, o.pairs(s, name, value)...)
		}
	}
	path = inPath().ReplaceAllStringFunc(path, func(m string) string {
		name := m[1 : len(m)-1]
		if value, is := values[name]; is {
			return value
		}
		return o.d.Variable(o.at, name, "", "")
	})
	o.cookies(&r, cookies)
	switch body := o.get(operation, "requestBody"); {
	case content != nil:
		kind := o.consumed(operation, "application/json")
		o.budget = 1000
		o.content(&r, kind, content, nil)
	case form != nil:
		o.oldForm(&r, o.consumed(operation, "application/x-www-form-urlencoded"), form)
	case body != nil:
		o.body(&r, body)
	}
	query = append(query, o.security(&r, operation)...)
	r.URL = draft.WithQuery(o.server(item, operation)+path, strings.Join(query, "&"))
	step := o.d.AddRequest(r)
	if step == nil {
		return
	}
	var codes []string
	for _, response := range o.entries(o.get(operation, "responses")) {
		if code := strings.ToLower(response.name); len(code) == 3 && code[0] == '2' {
			codes = append(codes, code)
		}
	}
	step.Status = strings.Join(codes, ", ")
}

// leftQuery lists a parameter that is a query as a whole.
func (o *document) leftQuery(p *yaml.Node) string {
	o.leave(o.line(p), o.text(p, "name"), "a query as a whole is not made", "give it to the path of the step")
	return ""
}

// ignored tells whether the specification has a header field said elsewhere.
func (o *document) ignored(name string) bool {
	lower := strings.ToLower(name)
	return strings.HasPrefix(o.version, "3") && (lower == "accept" || lower == "content-type" || lower == "authorization")
}

// consumed returns the media type that an operation of Swagger 2 consumes: JSON if it may be.
func (o *document) consumed(operation *yaml.Node, otherwise string) string {
	all := o.items(operation, "consumes")
	if all == nil {
		all = o.items(o.root, "consumes")
	}
	var kinds []string
	for _, kind := range all {
		kinds = append(kinds, kind.Value)
	}
	if slices.Contains(kinds, otherwise) || len(kinds) == 0 {
		return otherwise
	}
	return kinds[0]
}

// parameters returns an operation's parameters, and those of its path that it does not replace.
func (o *document) parameters(item, operation *yaml.Node) (all []*yaml.Node) {
	seen := map[string]bool{}
	for _, of := range []*yaml.Node{operation, item} {
		for _, p := range o.items(of, "parameters") {
			if key := o.text(p, "in") + " " + o.text(p, "name"); !seen[key] {
				seen[key] = true
				all = append(all, p)
			}
		}
	}
	return all
}

// hasExample tells whether the description has a value for a parameter.
func (o *document) hasExample(p *yaml.Node) bool {
	of := []*yaml.Node{p}
	of = append(of, o.schema(own(p, "schema"))...)
	if content := o.entries(o.get(p, "content")); len(content) > 0 {
		of = append(of, content[0].value)
	}
	return slices.ContainsFunc(of, func(n *yaml.Node) bool {
		return o.get(n, "example") != nil || o.get(n, "examples") != nil || o.get(n, "default") != nil
	})
}

// parameter returns the value of a parameter.
func (o *document) parameter(p *yaml.Node, in string) any {
	if content := o.entries(o.get(p, "content")); len(content) > 0 {
		value := o.sample(o.resolve(content[0].value))
		if text, is := value.(string); is && !isJSON(content[0].name) {
			return text
		}
		if !isJSON(content[0].name) {
			o.leave(content[0].line, o.text(p, "name"), "dyno makes no "+content[0].name+": the parameter is in JSON", "")
		}
		return string(inJSON(value))
	}
	if own(p, "schema") == nil && o.get(p, "example") == nil && o.get(p, "examples") == nil || in == "formData" { // of Swagger 2
		return o.example(o.schema(p), 0)
	}
	return o.sample(p)
}

// security gives the request the credentials that it needs, as variables. It returns the credentials in
// the query.
func (o *document) security(r *draft.Request, operation *yaml.Node) (query []string) {
	needs := o.get(operation, "security")
	if needs == nil {
		needs = o.get(o.root, "security")
	}
	if needs == nil || len(needs.Content) == 0 {
		return nil
	}
	schemes := o.get(o.get(o.root, "components"), "securitySchemes")
	if schemes == nil {
		schemes = o.get(o.root, "securityDefinitions")
	}
	for _, need := range o.entries(o.resolve(needs.Content[0])) {
		s := o.get(schemes, need.name)
		given := func() string { return o.d.Variable(need.line, need.name, "", "") }
		switch kind := o.text(s, "type") + " " + strings.ToLower(o.text(s, "scheme")); {
		case strings.HasPrefix(kind, "apiKey") && o.text(s, "in") == "header":
			r.AddHeader(o.text(s, "name"), given())
		case strings.HasPrefix(kind, "apiKey") && o.text(s, "in") == "query":
			query = append(query, percentEncode(o.text(s, "name"), "")+"="+url.QueryEscape(given()))
		case strings.HasPrefix(kind, "apiKey") && o.text(s, "in") == "cookie":
			r.AddHeader("Cookie", o.text(s, "name")+"="+given())
		case kind == "http bearer", strings.HasPrefix(kind, "oauth2"), strings.HasPrefix(kind, "openIdConnect"):
			r.AddHeader("Authorization", "Bearer "+given())
		case kind == "http basic", strings.HasPrefix(kind, "basic"):
			r.AddHeader("Authorization", "Basic "+given())
		default:
			o.d.Leave(need.line, "security "+need.name, "dyno does not authorize requests in this way", "give the step the header field that it needs")
		}
	}
	return query
}
