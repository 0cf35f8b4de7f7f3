package correlate

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"dyno/internal/lazyregexp"
	"dyno/load/jsonpath"
)

// An atom is the smallest part of a request that has a meaning of its own.
type atom struct {
	exchange      int
	text          *string // in which it stands
	start, end    int     // where it does
	value         string  // decoded
	where, name   string  // what is called so in the request; in a path, what stands before it
	before, after string  // of the expression, around the variable
}

// inPath is where the atoms of paths are.
const inPath = "path"

// A reader collects the atoms of an exchange's request.
type reader struct {
	exchange int
	text     *string // that is read
	all      []atom
}

// plain matches values that no encoding changes: numbers, hexadecimal ones, and UUIDs.
var plain = lazyregexp.New(`^[0-9A-Fa-f-]+$`)

// add adds a part of the text, which is the value, encoded by a function of templates if one is named.
func (r *reader) add(start int, raw, value, where, name, function string) {
	add := func(value, before, after string) {
		if strengthOf(value) != common {
			r.all = append(r.all, atom{r.exchange, r.text, start, start + len(raw), value, where, name, before, after})
		}
	}
	before, after := "", ""
	if isEncoded := raw != value || url.QueryEscape(raw) == raw; function != "" && isEncoded && !plain().MatchString(raw) {
		before, after = function+"(", ")"
	}
	add(value, before, after)
	if text, err := base64.StdEncoding.DecodeString(value); err == nil && len(value) >= 8 {
		before, after = before+"base64(", after+")"
		add(string(text), before, after)
		user, password, _ := strings.Cut(string(text), ":") // as in Basic authentication
		add(password, before+strconv.Quote(user+":")+", ", after)
	}
}

// unrelated matches the names of fields that say nothing of a session.
var unrelated = lazyregexp.New(`^(?i:host|user-agent|accept.*|content-.*|connection|origin|referer|sec-.*|dnt|te|priority|cache-control|pragma|upgrade.*|if-(?:un)?modified-since|range|:.*)$`)

// request adds the parts of a request. The whole comes before what it consists of.
func (r *reader) request(e *Exchange) {
	r.text = &e.URL
	r.url(e.URL)
	isForm := false
	for i := range e.Header {
		h := &e.Header[i]
		r.text = &h.Value
		switch {
		case strings.EqualFold(h.Name, "Cookie"):
			r.pairs(h.Value, 0, "; ", "cookie", "")
		case strings.EqualFold(h.Name, "Content-Type"):
			isForm = strings.HasPrefix(h.Value, "application/x-www-form-urlencoded")
		case !unrelated().MatchString(h.Name):
			r.add(0, h.Value, h.Value, "header field "+h.Name, h.Name, "")
			r.words(h.Value, "header field "+h.Name, h.Name)
		}
	}
	if r.text = &e.Body; len(e.Body) <= maxSent {
		r.body(e.Body, isForm)
	}
}

// formPart matches a part of a form (multipart/form-data) that is text.
var formPart = lazyregexp.New(`(?s); name="([^"\r\n]*)"\r\n(?:[^\r\n]+\r\n)*\r\n(.*?)\r\n--`)

// body adds what the content consists of.
func (r *reader) body(text string, isForm bool) {
	trimmed := strings.TrimLeft(text, " \t\r\n")
	switch {
	case isForm:
		r.pairs(text, 0, "&", "form field", "formencode")
	case strings.HasPrefix(trimmed, "--"):
		for _, at := range formPart().FindAllStringSubmatchIndex(text, -1) {
			name, raw := text[at[2]:at[3]], text[at[4]:at[5]]
			r.add(at[4], raw, raw, "form field "+name, name, "")
		}
	case strings.HasPrefix(trimmed, "{"), strings.HasPrefix(trimmed, "["):
		eachLeaf(text, func(l leaf) { r.add(l.start, text[l.start:l.end], l.value, "content at "+l.path, l.name, "") }) // drafts add escapes
	default:
		r.words(text, "content", "")
	}
}

var (
	inText    = lazyregexp.New(`[^\s,;:"'<>]+`)           // as after Bearer
	inSegment = lazyregexp.New(`\p{Co}\d+\p{Co}|[\w~-]+`) // a mark of the caller; or as in 17.json, or ;jsessionid=1
	origin    = lazyregexp.New(`^\w+://[^/?]*`)
)

// url adds the segments of a path and the parameters of a query.
func (r *reader) url(text string) {
	path, query, _ := strings.Cut(text, "?")
	at, name := len(origin().FindString(path)), ""
	for _, segment := range strings.SplitAfter(path[at:], "/") {
		raw := strings.TrimSuffix(segment, "/")
		if value, err := url.PathUnescape(raw); err == nil {
			r.add(at, raw, value, inPath, name, "urlencode")
		}
		for _, part := range inSegment().FindAllStringIndex(raw, -1) {
			r.add(at+part[0], raw[part[0]:part[1]], raw[part[0]:part[1]], inPath, name, "")
		}
		if at += len(segment); raw != "" {
			name = raw
		}
	}
	r.pairs(query, len(path)+1, "&", "parameter", "urlencode")
}

// pairs adds the values of names, which a function of templates encodes.
func (r *reader) pairs(text string, at int, separator, kind, function string) {
	for _, pair := range strings.SplitAfter(text, separator) {
		name, raw, _ := strings.Cut(strings.TrimSuffix(pair, separator), "=")
		value, err := raw, error(nil)
		if function != "" {
			value, err = url.QueryUnescape(raw)
		}
		if err == nil {
			r.add(at+len(name)+1, raw, value, kind+" "+name, name, function)
		}
		at += len(pair)
	}
}

// words adds the words of a text that are hardly common ones.
func (r *reader) words(text, where, name string) {
	for _, at := range inText().FindAllStringIndex(text, -1) {
		if word := text[at[0]:at[1]]; strengthOf(word) == token {
			r.add(at[0], word, word, where, name, "")
		}
	}
}

// A leaf is a text or a number in JSON.
type leaf struct {
	value      string
	start, end int // of what stands there: of a text without its quotes
	path, name string
}

// eachLeaf shows the leaves of JSON, up to what is no JSON, and tells whether all of the text is.
func eachLeaf(text string, show func(l leaf)) (isJSON bool) {
	d := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return eachBelow(d, "$", "", show) && strings.TrimSpace(text[d.InputOffset():]) == ""
}

var memberName = lazyregexp.New(`^[A-Za-z_]\w*$`)

// eachBelow shows the leaves of the next value.
func eachBelow(d *jsontext.Decoder, path, name string, show func(l leaf)) (ok bool) {
	kind := d.PeekKind()
	if kind != '{' && kind != '[' || d.StackDepth() == jsonpath.MaxSteps {
		raw, err := d.ReadValue()
		l := leaf{string(raw), int(d.InputOffset()) - len(raw), int(d.InputOffset()), path, name}
		if kind == '"' && err == nil {
			plain, _ := jsontext.AppendUnquote(nil, raw) // its escapes are good, since it was read
			l.value, l.start, l.end = string(plain), l.start+1, l.end-1
		}
		if kind == '"' || kind == '0' {
			show(l)
		}
		return err == nil
	}
	_, err := d.ReadToken()
	for n := 0; err == nil && d.PeekKind() != kind+2; n++ { // ] comes two after [ in ASCII, and } after {
		below := fmt.Sprintf("%s[%d]", path, n)
		if kind == '{' {
			var member jsontext.Token
			if member, err = d.ReadToken(); err != nil {
				return false
			}
			if name, below = member.String(), path+"."+member.String(); !memberName().MatchString(name) {
				below = path + "['" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(name) + "']"
			}
		}
		if !eachBelow(d, below, name, show) {
			return false
		}
	}
	_, end := d.ReadToken()
	return err == nil && end == nil
}
