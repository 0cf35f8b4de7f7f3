package openapi

import (
	"bytes"
	"fmt"
	"mime"
	"mime/multipart"
	"net/textproto"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"dyno/cli/imports/draft"
)

// A style is how a parameter, or a property of a form, is written (OpenAPI 3.1, 4.8.12).
type style struct {
	name      string // such as form
	explode   bool
	reserved  bool   // characters that URLs have a use for stay
	delimiter string // between items that do not stand alone
	form      bool   // it is in a form: a blank is +
	line      int
}

// A pair is a name with a value of a query, a form or a cookie. Texts between encoded parts are as they are sent.
type pair struct {
	name  string
	style style
	parts []string // with delimiters between them
}

// style returns how a parameter is written.
func (o *document) style(p *yaml.Node, in string) style {
	s := style{name: o.text(p, "style"), reserved: o.text(p, "allowReserved") == "true", line: o.line(p), form: in == "formData"}
	if s.name == "" {
		s.name = map[string]string{"query": "form", "cookie": "form", "formData": "form"}[in]
	}
	if s.name == "" {
		s.name = "simple"
	}
	if s.explode = s.name == "form"; o.get(p, "explode") != nil {
		s.explode = o.text(p, "explode") == "true"
	}
	s.delimiter = ","
	if strings.HasPrefix(o.version, "2") {
		s.explode = false
		switch o.text(p, "collectionFormat") {
		case "multi":
			s.explode = true
		case "ssv":
			s.name = "spaceDelimited"
		case "pipes":
			s.name = "pipeDelimited"
		case "tsv":
			s.delimiter = "\t"
		}
	}
	switch s.name {
	case "spaceDelimited":
		s.delimiter = " "
	case "pipeDelimited":
		s.delimiter = "|"
	}
	return s
}

// encode writes a text as it stands in a query or a form.
func (s style) encode(text string) string {
	switch {
	case s.form:
		return draft.FormEncode(text)
	case s.reserved:
		return percentEncode(text, ":/?@!$'()*,;=")
	}
	return percentEncode(text, "")
}

// percentEncode encodes a text but for letters, digits, - . _ ~, and characters that stay. Encoded
// characters of stay remain encoded.
func percentEncode(text, stay string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~", c) >= 0, strings.IndexByte(stay, c) >= 0,
			stay != "" && c == '%' && draft.IsHex(text, i+1):
			b.WriteByte(c)
		default:
			b.WriteString(string([]byte{'%', digits[c>>4], digits[c&15]}))
		}
	}
	return b.String()
}

// text returns a pair as it stands in a query or a form.
func (p pair) text() string {
	s := p.style
	name := percentEncode(p.name, "[]")
	if s.form {
		name = s.encode(p.name)
	}
	var parts []string
	for _, part := range p.parts {
		parts = append(parts, s.encode(part))
	}
	delimiter := s.delimiter
	if delimiter != "," {
		delimiter = s.encode(delimiter)
	}
	return name + "=" + strings.Join(parts, delimiter)
}

// scalarText returns a value that is neither an array nor an object as text. The specification does not
// define them within others.
func (o *document) scalarText(s style, value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case number:
		return string(v)
	case []any, object:
		o.leave(s.line, string(inJSON(v)), "the specification does not say how what is nested is written: it is in JSON", "")
	}
	return string(inJSON(value))
}

// flat returns the items of an array, or the names and values of an object.
func (o *document) flat(s style, value any) (all []string) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			all = append(all, o.scalarText(s, item))
		}
	case object:
		for _, m := range v {
			all = append(all, m.name, o.scalarText(s, m.value))
		}
	default:
		return []string{o.scalarText(s, value)}
	}
	return all
}

// pairs returns a parameter as it stands in a query, a form or a cookie.
func (o *document) pairs(s style, name string, value any) (all []pair) {
	items, isArray := value.([]any)
	members, isObject := value.(object)
	switch {
	case isArray && len(items) == 0, isObject && len(members) == 0:
		o.leave(s.line, name, "it is empty, and is not sent", "")
	case s.name == "deepObject" && isObject:
		for _, m := range members {
			all = append(all, o.deep(s, name+"["+m.name+"]", m.value)...)
		}
	case isArray && s.explode:
		for _, item := range items {
			all = append(all, pair{name, s, []string{o.scalarText(s, item)}})
		}
	case isObject && s.explode:
		for _, m := range members {
			all = append(all, pair{m.name, s, []string{o.scalarText(s, m.value)}})
		}
	default:
		all = append(all, pair{name, s, o.flat(s, value)})
	}
	return all
}

// deep returns a member of an object in the style deepObject.
func (o *document) deep(s style, name string, value any) (all []pair) {
	items, isArray := value.([]any)
	members, isObject := value.(object)
	if isArray || isObject {
		o.leave(s.line, name, "the specification does not say how deepObject writes what is nested: its items are name=item, and its members name[member]=value", "")
	}
	for _, item := range items {
		all = append(all, o.deep(s, name, item)...)
	}
	for _, m := range members {
		all = append(all, o.deep(s, name+"["+m.name+"]", m.value)...)
	}
	if !isArray && !isObject {
		all = append(all, pair{name, s, []string{o.scalarText(s, value)}})
	}
	return all
}

// list returns a value as the style simple writes it, with each part encoded.
func (o *document) list(s style, value any, encode func(string) string) string {
	var parts []string
	if members, is := value.(object); is && s.explode {
		for _, m := range members {
			parts = append(parts, encode(m.name)+"="+encode(o.scalarText(s, m.value)))
		}
	} else {
		for _, part := range o.flat(s, value) {
			parts = append(parts, encode(part))
		}
	}
	return strings.Join(parts, s.delimiter)
}

// segment returns a parameter as it stands in a path.
func (o *document) segment(s style, name string, value any) string {
	encode := func(text string) string { return percentEncode(text, "") }
	s.delimiter = percentEncode(s.delimiter, ",")
	_, isArray := value.([]any)
	members, isObject := value.(object)
	switch s.name {
	case "label":
		if s.explode {
			s.delimiter = "."
		}
		return "." + o.list(s, value, encode)
	case "matrix":
		var b strings.Builder
		switch {
		case isArray && s.explode:
			for _, item := range o.flat(s, value) {
				b.WriteString(";" + encode(name) + assigned(encode(item)))
			}
			return b.String()
		case isObject && s.explode:
			for _, m := range members {
				b.WriteString(";" + encode(m.name) + assigned(encode(o.scalarText(s, m.value))))
			}
			return b.String()
		}
		return ";" + encode(name) + assigned(o.list(s, value, encode))
	}
	text := o.list(s, value, encode)
	if text == "" {
		o.leave(s.line, name, "the parameter is empty, and a path needs it", "")
	}
	return text
}

// assigned returns a value with what stands before it; an empty one has nothing (RFC 6570, 3.2.7).
func assigned(text string) string {
	if text == "" {
		return ""
	}
	return "=" + text
}

// cookies adds the header field Cookie.
func (o *document) cookies(r *draft.Request, pairs []pair) {
	var all []string
	for _, p := range pairs {
		value := strings.Join(p.parts, ",")
		text := strings.Map(func(c rune) rune {
			if c <= ' ' || c >= 0x7f || strings.ContainsRune("\";,\\", c) && (c != ',' || len(p.parts) < 2) {
				return -1
			}
			return c
		}, value)
		if text != value {
			o.leave(0, "cookie "+p.name, "a cookie cannot have all characters of its value: they are percent-encoded", "")
			value = percentEncode(value, "!#$&'()*+/:<=>?@[]^`{|}")
		}
		all = append(all, p.name+"="+value)
	}
	if len(all) > 0 {
		r.AddHeader("Cookie", strings.Join(all, "; "))
	}
}

// isJSON tells whether content of a media type is JSON.
func isJSON(kind string) bool { return strings.Contains(kind, "json") }

// body takes over the content of a request: in JSON if it may be, or in a form.
func (o *document) body(r *draft.Request, body *yaml.Node) {
	all := o.entries(o.get(body, "content"))
	if len(all) == 0 {
		return
	}
	chosen := all[0]
	rank := func(kind string) int {
		return slices.IndexFunc([]string{"json", "x-www-form-urlencoded", "multipart/form-data", "text/plain"}, func(part string) bool { return strings.Contains(kind, part) })
	}
	for _, e := range all[1:] {
		if n := rank(e.name); n >= 0 && (rank(chosen.name) < 0 || n < rank(chosen.name)) {
			chosen = e
		}
	}
	media := o.resolve(chosen.value)
	o.content(r, chosen.name, media, o.get(media, "encoding"))
}

// content makes a content of a media type.
func (o *document) content(r *draft.Request, kind string, media, encoding *yaml.Node) {
	base, _, err := mime.ParseMediaType(kind)
	if err != nil {
		base = strings.ToLower(strings.TrimSpace(kind))
	}
	if strings.Contains(base, "*") {
		o.leave(o.line(media), kind, "the content has any type of these: it is JSON here", "")
		base, kind = "application/json", "application/json"
	}
	value := o.sample(media)
	switch text, isText := value.(string); {
	case isJSON(base):
		switch s := o.schema(own(media, "schema")); {
		case isText && len(s) > 0 && slices.Contains([]string{"object", "array"}, o.kind(s)):
			o.leave(o.line(media), kind, "the example is a text, and no value of its schema: it is sent as it stands", "")
			r.Body = []byte(text)
		case strings.Contains(base, "ndjson") || strings.Contains(base, "jsonl") || strings.Contains(base, "json-seq"):
			if r.Body = []byte(text); !isText {
				o.leave(o.line(media), kind, "the content is one line", "give the step its body")
				r.Body = append(inJSON(value), '\n')
			}
		default:
			r.Body = inJSON(value)
		}
	case base == "application/x-www-form-urlencoded" && !isText:
		o.form(r, kind, o.properties(value, media, encoding))
		return
	case strings.HasPrefix(base, "multipart/") && !isText:
		o.multipart(r, base, value, o.partSchemas(media), encoding)
		return
	case isText:
		r.Body = []byte(text)
	case base == "text/plain" && value != nil:
		r.Body = []byte(o.scalarText(style{line: o.line(media)}, value))
	case base == "application/octet-stream" && value == nil:
		r.Body = []byte("string")
	default:
		o.d.Leave(o.line(media), o.title+": "+kind, "dyno makes no such content: the request has none", "give the step its body")
		return
	}
	r.AddHeader("Content-Type", kind)
}

// form sets a form as the content.
func (o *document) form(r *draft.Request, kind string, pairs []pair) {
	var all []string
	for _, p := range pairs {
		all = append(all, p.text())
	}
	r.Body = []byte(strings.Join(all, "&"))
	r.AddHeader("Content-Type", kind)
}

// A formField is a parameter of Swagger 2 that is in a form.
type formField struct {
	name   string
	value  any
	style  style
	schema schema
}

// oldForm sets a form of Swagger 2.
func (o *document) oldForm(r *draft.Request, kind string, fields []formField) {
	var members object
	var pairs []pair
	properties := map[string]schema{}
	for _, f := range fields {
		if o.kind(f.schema) == "file" {
			kind, f.value = "multipart/form-data", "string" // which files need
		}
		pairs = append(pairs, o.pairs(f.style, f.name, f.value)...)
		if f.style.form = false; !f.style.explode {
			f.value = o.list(f.style, f.value, func(text string) string { return text })
		}
		members, properties[f.name] = members.set(f.name, f.value), f.schema
	}
	if strings.HasPrefix(kind, "multipart/") {
		o.multipart(r, kind, members, properties, nil)
		return
	}
	o.form(r, kind, pairs)
}

// properties returns the fields of a form.
func (o *document) properties(value any, media, encoding *yaml.Node) (all []pair) {
	members, is := value.(object)
	if !is && value != nil {
		o.leave(o.line(media), "form", "the example is no object", "give the step its body")
	}
	for _, m := range members {
		e := o.get(encoding, m.name)
		s := o.style(orNode(e, media), "query")
		if e == nil {
			s = style{name: "form", explode: true, delimiter: ",", line: o.line(media)}
		}
		s.form = !s.reserved
		_, isObject := m.value.(object)
		if kind := o.text(e, "contentType"); isJSON(kind) && o.get(e, "style") == nil {
			all = append(all, pair{m.name, s, []string{string(inJSON(m.value))}})
			continue
		}
		if isObject && e == nil {
			o.leave(o.line(media), m.name, "versions of the specification differ on objects in forms: its members are fields, as in the style form", "name its style by encoding")
		}
		all = append(all, o.pairs(s, m.name, m.value)...)
	}
	return all
}

// orNode returns the first node, or the second one if there is none.
func orNode(n, otherwise *yaml.Node) *yaml.Node {
	if n != nil {
		return n
	}
	return otherwise
}

// boundary is between parts of bodies.
const boundary = "dyno-form"

// multipart sets a body of parts: one for each property, and for each item of an array.
func (o *document) multipart(r *draft.Request, kind string, value any, properties map[string]schema, encoding *yaml.Node) {
	members, is := value.(object)
	if !is {
		o.leave(0, kind, "dyno makes no such content: the request has none", "give the step its body")
		return
	}
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.SetBoundary(boundary) // which is one
	for _, m := range members {
		items, isArray := m.value.([]any)
		if !isArray {
			items = []any{m.value}
		}
		for _, item := range items {
			s, e := properties[m.name], o.get(encoding, m.name)
			if isArray {
				s = o.schema(o.first(s, "items"))
			}
			header, content := o.part(m.name, item, s, e)
			part, err := w.CreatePart(header)
			if err == nil {
				_, err = part.Write(content)
			}
			if err != nil { // which buffers have none of
				o.leave(0, m.name, err.Error(), "")
			}
		}
	}
	_ = w.Close() // of a buffer
	r.Body = b.Bytes()
	r.AddHeader("Content-Type", kind+"; boundary="+boundary)
}

// partSchemas returns the schemas of the properties of a content.
func (o *document) partSchemas(media *yaml.Node) map[string]schema {
	all := map[string]schema{}
	for _, n := range o.schema(own(media, "schema")) {
		for _, p := range o.entries(o.get(n, "properties")) {
			all[p.name] = append(all[p.name], o.schema(p.value)...)
		}
	}
	return all
}

// part returns the header and the content of a part.
func (o *document) part(name string, value any, s schema, encoding *yaml.Node) (header textproto.MIMEHeader, content []byte) {
	text, isText := value.(string)
	format := ""
	if f := o.first(s, "format"); f != nil {
		format = f.Value
	}
	kind, _, _ := strings.Cut(o.text(encoding, "contentType"), ",")
	kind = strings.TrimSpace(kind)
	binary := format == "binary" || o.kind(s) == "file" || o.first(s, "contentEncoding") != nil || o.first(s, "contentMediaType") != nil
	_, isObject := value.(object)
	_, isArray := value.([]any)
	switch {
	case kind != "" && !strings.Contains(kind, "*"):
	case binary:
		if kind = "application/octet-stream"; o.first(s, "contentMediaType") != nil {
			kind = o.first(s, "contentMediaType").Value
		}
	case isObject || isArray:
		kind = "application/json"
	default:
		kind = ""
	}
	quote := strings.NewReplacer(`\`, `\\`, `"`, `%22`, "\r", "%0D", "\n", "%0A")
	disposition := fmt.Sprintf(`form-data; name="%s"`, quote.Replace(name))
	if binary {
		disposition += `; filename="file"`
	}
	header = textproto.MIMEHeader{"Content-Disposition": {disposition}}
	if kind != "" {
		header.Set("Content-Type", kind)
	}
	for _, h := range o.entries(o.get(encoding, "headers")) {
		if !strings.EqualFold(h.name, "Content-Type") {
			h.value = o.resolve(h.value)
			header.Set(h.name, o.list(o.style(h.value, "header"), o.parameter(h.value, "header"), func(text string) string { return text }))
		}
	}
	if isText && !isJSON(kind) {
		return header, []byte(text)
	}
	if isJSON(kind) {
		return header, inJSON(value)
	}
	return header, []byte(o.scalarText(style{}, value))
}
