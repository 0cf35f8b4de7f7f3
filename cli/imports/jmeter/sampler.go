package jmeter

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"dyno/cli/imports/draft"
	"dyno/internal/lazyregexp"
	"dyno/load/scenario"
)

// An argument is an argument of a sampler.
type argument struct {
	name, value string // as they stand in the plan
	equals      string // between them in a query
	encode      bool   // JMeter encodes them; else they are encoded in the plan
	kind        string // of the part that it is in a multipart body
}

// An upload is a file that a sampler sends.
type upload struct{ path, parameter, kind string }

// A sampler is an HTTP request, with what elements around it say.
type sampler struct {
	j     *reader
	e     *element
	scope scope

	args    []argument
	files   []upload
	charset string // charset of the request
	r       draft.Request
}

// prop returns a property of the sampler, or else of the defaults closest to it.
func (s *sampler) prop(name string) string {
	for _, of := range append([]*element{s.e}, s.scope.defaults...) {
		if p := of.find(name); p != nil && p.text != "" {
			return p.text
		}
	}
	return ""
}

// leave lists the sampler's settings that are not carried over.
func (s *sampler) leave(why, hint string) { s.j.d.Leave(s.e.line, s.e.title(), why, hint) }

// text returns a text of the sampler, with marks for what varies.
func (s *sampler) text(text string) string {
	if charsetOf(s.charset) != nil { // to which no function of templates translates
		return s.j.textWhere(s.e.line, text, always)
	}
	return s.j.text(s.e.line, text)
}

// sampler adds a request.
func (j *reader) sampler(e *element, sc scope) {
	j.sampled = e.title()
	s := &sampler{j: j, e: e, scope: sc}
	s.charset = strings.TrimSpace(j.d.KnownHost(s.text(s.prop("HTTPSampler.contentEncoding"))))
	if s.charset == "" {
		s.charset = "UTF-8"
	}
	for _, of := range append([]*element{e}, sc.defaults...) {
		s.collect(of)
	}
	s.r = draft.Request{Line: e.line, Name: e.title(), Method: cmp.Or(s.text(s.prop("HTTPSampler.method")), "GET")}
	s.headers()
	s.url()
	s.cookies()
	s.body()
	s.others()
	r := j.recorded[e]
	if r == nil {
		r = &recorded{Recorded: draft.Recorded{Request: s.r}, label: e.title(), group: j.groups}
		if j.looks {
			j.recorded[e], j.samplers = r, append(j.samplers, r)
		}
	}
	if j.looks {
		return
	}
	if j.d.Source.NoStatic && r.IsStatic() {
		s.leave("static files are left out", "")
		return
	}
	step := j.d.AddRequest(r.Request)
	if step == nil {
		return
	}
	step.Once = sc.once
	for _, a := range sc.after {
		j.after(a, step)
	}
	j.d.Replay(step, &r.Recorded)
	r.Began = time.Time{} // a loop may repeat it
}

// collect notes the arguments and the files that an element has.
func (s *sampler) collect(of *element) {
	if list := of.find("HTTPsampler.Arguments"); list != nil && list.find("Arguments.arguments") != nil {
		for _, a := range list.find("Arguments.arguments").children {
			arg := argument{a.raw("Argument.name"), a.raw("Argument.value"), a.raw("Argument.metadata"), a.prop("HTTPArgument.always_encode") == "true", a.prop("HTTPArgument.content_type")}
			s.args = append(s.args, arg)
		}
	}
	if list := of.find("HTTPsampler.Files"); list != nil && list.find("HTTPFileArgs.files") != nil {
		for _, f := range list.find("HTTPFileArgs.files").children {
			if path := s.j.d.KnownHost(s.text(f.prop("File.path"))); path != "" {
				s.files = append(s.files, upload{path, s.text(f.prop("File.paramname")), s.text(f.prop("File.mimetype"))})
			}
		}
	}
}

// headers merges the header fields of managers. A manager that is closer to the sampler takes precedence.
func (s *sampler) headers() {
	var all []scenario.Header
	for i, manager := range s.scope.headers {
		list := manager.find("HeaderManager.headers")
		if list == nil {
			continue
		}
		for _, h := range list.children {
			name, value := s.j.textWhere(s.e.line, h.raw("Header.name"), always), s.text(h.raw("Header.value"))
			switch lower := strings.ToLower(name); {
			case i > 0 && draft.HasHeader(all, name), lower == "content-length":
			case lower == "connection":
				s.leave("dyno decides on its connections itself: the header field Connection is not sent", "load.requests_per_connection closes connections")
			default:
				if strings.ContainsFunc(draft.ReplaceMarks(value, ""), func(r rune) bool { return r >= utf8.RuneSelf }) {
					s.leave("JMeter sends "+name+" in ISO-8859-1, and dyno in UTF-8", "")
				}
				if draft.HasHeader(all, name) {
					s.leave("the header fields "+name+" become one, with a comma between their values", "")
				}
				all = append(all, scenario.Header{Name: name, Value: value})
			}
		}
	}
	s.r.Headers = all
}

// cookies sends the cookies that the closest manager has for the URL, in place of those that header fields have.
func (s *sampler) cookies() {
	if len(s.scope.cookies) == 0 {
		return
	}
	list := s.scope.cookies[0].find("CookieManager.cookies")
	if list == nil {
		return
	}
	target, err := url.Parse(s.j.d.KnownHost(s.r.URL))
	if err != nil {
		s.leave("cookies that the plan has are not sent", "give the step the header field Cookie")
		return
	}
	type cookie struct{ path, text string }
	var sent []cookie
	for _, c := range list.children {
		domain, path := s.text(c.prop("Cookie.domain")), s.text(c.prop("Cookie.path"))
		value := s.text(c.raw("Cookie.value"))
		switch bare := strings.TrimPrefix(domain, "."); {
		case bare == "", target.Hostname() != bare && !strings.HasSuffix(target.Hostname(), "."+bare):
		case c.prop("Cookie.secure") == "true" && target.Scheme != "https", !strings.HasPrefix(cmp.Or(target.Path, "/"), path):
		case strings.ContainsAny(value, " ,;\""):
			s.leave("JMeter puts the cookie "+c.attrs["name"]+" in quotes, and it is not sent", "give the step the header field Cookie")
		default:
			sent = append(sent, cookie{path, c.attrs["name"] + "=" + value})
		}
	}
	if len(sent) == 0 {
		return
	}
	slices.SortStableFunc(sent, func(a, b cookie) int { return len(b.path) - len(a.path) })
	var all []string
	for _, c := range sent {
		all = append(all, c.text)
	}
	s.r.SetHeader("Cookie", strings.Join(all, "; "))
}

// url sets the URL. It has the arguments as its query if the method sends no form.
func (s *sampler) url() {
	d := s.j.d
	path := s.j.textWhere(s.e.line, s.prop("HTTPSampler.path"), notInURL)
	if strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://") {
		s.r.URL = path
		s.check(path)
		return
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	path = strings.ReplaceAll(path, " ", "%20")
	before, query, asks := strings.Cut(path, "?")
	if strings.Contains(before, "//") {
		if before = slashes().ReplaceAllLiteralString(before, "/"); strings.ContainsFunc(before, func(r rune) bool { return r == '%' || r >= utf8.RuneSelf }) {
			s.leave("JMeter decodes a path with //, and encodes it again in its own way", "take the second slash out")
		}
		if path = before; asks {
			path += "?" + query
		}
	}
	if slices.Contains([]string{"GET", "DELETE", "OPTIONS"}, s.r.Method) {
		var pairs []string
		for _, a := range s.args {
			if a.name == "" {
				continue
			}
			name, value := s.j.textWhere(s.e.line, a.name, notInURL), s.j.textWhere(s.e.line, a.value, notInURL)
			if a.encode {
				name, value = draft.FormEncode(s.text(a.name)), s.form(s.text(a.value)) // names are in UTF-8 always
			}
			pairs = append(pairs, name+a.equals+value)
		}
		path = draft.WithQuery(path, strings.Join(pairs, "&"))
	}
	s.check(path)
	domain, port := s.text(strings.TrimSpace(s.prop("HTTPSampler.domain"))), s.text(strings.TrimSpace(s.prop("HTTPSampler.port")))
	scheme := strings.ToLower(cmp.Or(d.KnownHost(s.text(strings.TrimSpace(s.prop("HTTPSampler.protocol")))), "http"))
	if s.r.URL = path; domain == "" {
		return
	}
	s.r.URL = scheme + "://" + domain
	if standard := map[string]string{"http": "80", "https": "443"}[scheme]; port != "" && port != "0" && port != standard {
		s.r.URL += ":" + port
		for i := range s.r.Headers {
			if h := &s.r.Headers[i]; strings.EqualFold(h.Name, "Host") && !strings.Contains(h.Value, ":") {
				h.Value += ":" + port // as JMeter does
			}
		}
	}
	s.r.URL += path
}

// form encodes a text as forms do, in the charset of the sampler.
func (s *sampler) form(text string) string {
	var b strings.Builder
	for _, piece := range pieces(text) {
		if !strings.HasPrefix(piece, draft.MarkBegin) {
			piece = string(s.bytes(piece))
		}
		b.WriteString(draft.FormEncode(piece))
	}
	return b.String()
}

// slashes matches empty segments of a path.
var slashes = lazyregexp.New(`//+`)

// pieces divides a text into marks and what is between them.
func pieces(text string) (all []string) {
	for text != "" {
		at := draft.OneMark().FindStringIndex(text)
		if at == nil {
			return append(all, text)
		}
		if at[0] > 0 {
			all = append(all, text[:at[0]])
		}
		all = append(all, text[at[0]:at[1]])
		text = text[at[1]:]
	}
	return all
}

// bytes returns a text in the charset of the sampler. Marks stay.
func (s *sampler) bytes(text string) []byte {
	c := charsetOf(s.charset)
	if c == nil {
		if name := strings.ToUpper(s.charset); name != "UTF-8" && name != "UTF8" && name != "US-ASCII" {
			s.leave("dyno does not know the charset "+s.charset+": texts are sent in UTF-8", "")
		}
		return []byte(text)
	}
	var out []byte
	for _, piece := range pieces(text) {
		if strings.HasPrefix(piece, draft.MarkBegin) {
			out = append(out, piece...)
			s.leave("what varies is sent in UTF-8, and not in "+s.charset, "")
			continue
		}
		for _, r := range piece {
			b, is := c.EncodeRune(r)
			if !is {
				b = '?'
			}
			out = append(out, b)
		}
	}
	return out
}

// charsetOf returns a charset of one byte a character, or nil.
func charsetOf(name string) *charmap.Charmap {
	plain := func(name string) string {
		return strings.NewReplacer("-", "", "_", "", " ", "", "cp1", "windows1", "latin1", "iso88591").Replace(strings.ToLower(name))
	}
	for _, c := range charmap.All {
		if c, is := c.(*charmap.Charmap); is && plain(c.String()) == plain(name) {
			return c
		}
	}
	return nil
}

// notInURL tells whether a text has characters that JMeter or dyno encodes in a URL.
func notInURL(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"<>\\^`{|}#", r) })
}

// check lists a URL that JMeter refuses.
func (s *sampler) check(target string) {
	target, _, _ = strings.Cut(target, "#")
	path, _, _ := strings.Cut(target, "?")
	bad := strings.IndexAny(target, " \"<>\\^`{|}")
	if bad < 0 {
		bad = strings.IndexAny(path, "[]")
	}
	for i := 0; bad < 0 && i < len(target); i++ {
		if target[i] == '%' && !draft.IsHex(target, i+1) {
			bad = i
		}
	}
	if bad >= 0 {
		s.leave(fmt.Sprintf("JMeter does not send this request, because its URL has %q", target[bad]), "encode it in the plan")
	}
	for _, name := range s.j.columnsOf(target) {
		if slices.ContainsFunc(s.j.rowsOf[name], notInURL) {
			s.leave("the column "+name+" has characters that cannot stand in a URL: such requests fail", "encode it in the path of the step, by urlencode("+name+")")
		}
	}
}

// body sets the content, and the header field that says its type.
func (s *sampler) body() {
	raw := s.prop("HTTPSampler.postBodyRaw") == "true" || len(s.args) > 0 && !slices.ContainsFunc(s.args, func(a argument) bool { return a.name != "" })
	file := len(s.files) == 1 && s.files[0].parameter == ""
	fileOnly := file && len(s.args) == 0
	switch s.r.Method {
	case http.MethodHead, http.MethodOptions, http.MethodTrace:
		return
	case http.MethodGet:
		if !raw && !fileOnly {
			return
		}
	}
	switch {
	case s.r.Method != http.MethodGet && (s.prop("HTTPSampler.DO_MULTIPART_POST") == "true" || len(s.files) > 0 && !file):
		s.multipart()
	case fileOnly:
		if content, is := s.file(s.files[0].path); is {
			s.r.Body = content
		}
		s.contentType(s.files[0].kind)
	case raw:
		var b bytes.Buffer
		for _, a := range s.args {
			if a.encode {
				b.WriteString(s.form(s.text(a.value)))
			} else {
				b.Write(s.bytes(s.text(a.value)))
			}
		}
		s.r.Body = b.Bytes()
		s.contentType("text/plain; charset=" + s.charset)
	default:
		s.pairs()
	}
}

// contentType says the type of the content, unless a header field of the plan does.
func (s *sampler) contentType(kind string) {
	if kind != "" {
		s.r.DefaultHeader("Content-Type", kind)
	}
}

// pairs sets a form. JMeter decodes what it does not encode, and encodes it then all the same.
func (s *sampler) pairs() {
	decoded := func(text string) string {
		var b strings.Builder
		for _, piece := range pieces(s.j.textWhere(s.e.line, text, isEncoded)) {
			if strings.HasPrefix(piece, draft.MarkBegin) {
				b.WriteString(piece)
				s.decodes(piece)
				continue
			}
			plain, err := url.QueryUnescape(piece)
			if err != nil {
				s.leave("JMeter does not send this request, because it cannot decode "+piece, "tick its box to encode it")
				plain = piece
			}
			b.WriteString(plain)
		}
		return b.String()
	}
	var all []string
	for _, a := range s.args {
		name, value := s.text(a.name), s.text(a.value)
		if strings.TrimSpace(name) == "" {
			continue
		}
		if !a.encode {
			name, value = decoded(a.name), decoded(a.value)
		}
		all = append(all, s.form(name)+"="+s.form(value))
	}
	s.r.Body = []byte(strings.Join(all, "&"))
	s.contentType("application/x-www-form-urlencoded; charset=" + s.charset)
}

// isEncoded tells whether decoding changes a text.
func isEncoded(text string) bool { return strings.ContainsAny(text, "%+") }

// decodes lists what JMeter may decode when the load runs, and dyno cannot.
func (s *sampler) decodes(mark string) {
	for _, expression := range s.j.expressions(mark) {
		values, is := s.j.rowsOf[expression]
		if is && !slices.ContainsFunc(values, isEncoded) || !is && !s.j.isChanged(expression) {
			continue
		}
		s.leave("JMeter decodes %XX and + in the values of "+expression+" before it encodes them, and dyno does not", "tick the box to encode the argument in the plan")
	}
}

// partBoundary is between parts of bodies.
const partBoundary = "-----dyno-part-of-a-form"

// multipart sets a body of parts.
func (s *sampler) multipart() {
	compatible := s.prop("HTTPSampler.BROWSER_COMPATIBLE_MULTIPART") == "true"
	boundary := partBoundary
	var b bytes.Buffer
	part := func(name, file, kind, encoding string, content []byte) {
		quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
		fmt.Fprintf(&b, "--%s\r\nContent-Disposition: form-data; name=\"%s\"", boundary, s.bytes(quote.Replace(name)))
		if file != "" {
			fmt.Fprintf(&b, "; filename=\"%s\"", quote.Replace(file))
		}
		b.WriteString("\r\n")
		if kind != "" && (file != "" || !compatible) {
			fmt.Fprintf(&b, "Content-Type: %s\r\n", kind)
		}
		if !compatible {
			fmt.Fprintf(&b, "Content-Transfer-Encoding: %s\r\n", encoding)
		}
		fmt.Fprintf(&b, "\r\n%s\r\n", content)
	}
	for _, a := range s.args {
		if name := s.text(a.name); strings.TrimSpace(name) != "" {
			kind := cmp.Or(s.text(a.kind), "text/plain")
			if strings.ContainsAny(kind, ";,\"") {
				s.leave("JMeter does not send this request, because "+kind+" is no media type alone", "")
			}
			part(name, "", kind+"; charset="+s.charset, "8bit", s.bytes(s.text(a.value)))
		}
	}
	for _, f := range s.files {
		content, is := s.file(f.path)
		if !is {
			continue
		}
		if f.kind == "" {
			s.leave("JMeter does not send this request, because its file "+f.path+" has no media type", "")
		}
		part(f.parameter, filepath.Base(f.path), f.kind, "binary", content)
	}
	fmt.Fprintf(&b, "--%s--\r\n", boundary)
	s.r.Body = b.Bytes()
	s.r.SetHeader("Content-Type", "multipart/form-data; boundary="+boundary+"; charset="+s.charset)
}

// file returns what a file that is sent holds.
func (s *sampler) file(path string) (content []byte, is bool) {
	text, err := s.j.d.ReadFile(path)
	if err != nil {
		problem, hint, _ := strings.Cut(err.Error(), "; ")
		s.leave("a file is not sent: "+problem, cmp.Or(hint, "give the step body_file"))
		return nil, false
	}
	return []byte(text), true
}

// others lists what else a sampler says that dyno does not do.
func (s *sampler) others() {
	j := s.j
	j.redirect = j.redirect || s.prop("HTTPSampler.follow_redirects") == "true" || s.prop("HTTPSampler.auto_redirects") == "true"
	if s.prop("TestPlan.comments") == redirected {
		s.leave("the recorder has switched it off, because JMeter follows the redirect to it: here it is a step", "")
	}
	if s.prop("HTTPSampler.image_parser") == "true" {
		s.leave("what a page embeds is not requested", "give the scenario a step for each resource")
	}
	if s.prop("HTTPSampler.connect_timeout") != "" || s.prop("HTTPSampler.response_timeout") != "" {
		s.leave("its time limits are not carried over", "load.timeout is one for all requests")
	}
	if s.prop("HTTPSampler.proxyHost") != "" || s.prop("HTTPSampler.ipSource") != "" {
		s.leave("requests go to the server directly, and from any address", "")
	}
	if s.prop("HTTPSampler.use_keepalive") == "false" {
		j.closing++
	} else {
		j.keeping++
	}
}

// decodeXML returns a reader of a file in another charset than UTF-8.
func decodeXML(name string, in io.Reader) (io.Reader, error) {
	if c := charsetOf(name); c != nil {
		return c.NewDecoder().Reader(in), nil
	}
	if strings.EqualFold(name, "us-ascii") {
		return in, nil
	}
	return nil, errors.New("the charset " + name + " is not known")
}
