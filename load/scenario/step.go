package scenario

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"dyno/internal/contentcoding"
	"dyno/internal/nearest"
	"dyno/load/scenario/template"
	"dyno/load/wire"
)

// A StatusRange is the statuses First to Last.
type StatusRange struct{ First, Last int }

// ParseStatus reads a list of statuses and ranges of them, such as 200, 204, 300-304, 5xx.
func ParseStatus(s string) (ranges []StatusRange, err error) {
	for _, text := range strings.Split(s, ",") {
		text = strings.TrimSpace(text)
		first, last, isRange := strings.Cut(text, "-")
		if class, found := strings.CutSuffix(text, "xx"); found && len(class) == 1 {
			first, last, isRange = class+"00", class+"99", true
		}
		if !isRange {
			last = first
		}
		var r StatusRange
		var e1, e2 error
		r.First, e1 = strconv.Atoi(strings.TrimSpace(first))
		r.Last, e2 = strconv.Atoi(strings.TrimSpace(last))
		if e1 != nil || e2 != nil || !r.valid() {
			return nil, fmt.Errorf("status %q: want statuses from 100 to 999, such as 200, 204, 300-304 or 5xx", text)
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

func (r StatusRange) valid() bool { return r.First >= 100 && r.Last <= 999 && r.First <= r.Last }

// String writes the range as ParseStatus reads it.
func (r StatusRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// An assertion is a compiled Assertion.
type assertion struct {
	Assertion
	value   template.Template // for Equals and Contains
	pattern *regexp.Regexp    // for Matches
	finder
	failure *wire.Error
}

// An extraction is a compiled Extraction.
type extraction struct {
	Extraction
	value   int            // the number of the variable's value
	pattern *regexp.Regexp // nil: the whole part is taken
	group   int            // of the pattern that is taken; 0: the whole match
	finder
	nothing *wire.Error // it found nothing
	large   *wire.Error // it found more than MaxValue bytes
	misses  int         // its number among all
}

// step compiles a step.
func (c *compiler) step(path string, st *Step, uses *[]use) (out step) {
	out.info = Info{Name: st.Name, Once: st.Once, Method: st.Method, MaxBody: st.MaxBody, Timeout: st.Timeout}
	out.condition = c.condition(path+".if", st.If, uses)
	for i := range *uses {
		(*uses)[i].asked = true
	}
	if !c.spec.BodyOnly {
		c.head(path, st, &out, uses)
	}
	out.outline.Step = len(c.s.steps)
	out.body = c.template(path+".body", st.Body, uses)
	out.outline.Body, out.outline.VariesBody = out.body.Constant()
	if st.Encode != nil {
		c.encode(path+".body", st, &out)
	}
	out.think = st.Think
	if st.MaxBody == 0 {
		out.info.MaxBody = DefaultMaxBody
	}
	out.tooLarge = expectation(st, "%s is longer than the %d bytes that max_body has kept", c.subject(Body, ""), out.info.MaxBody)
	out.notDecoded = expectation(st, "%s is not what its Content-Encoding says, or is cut off", c.subject(Body, ""))
	out.unknownCoding = expectation(st, "%s has a Content-Encoding that is none of gzip, deflate, br and zstd", c.subject(Body, ""))
	c.status(st, &out)
	for i := range st.Assert {
		c.assertion(fmt.Sprintf("%s.assert[%d]", path, i), st, &out, &st.Assert[i], uses)
	}
	for i := range st.Extract {
		c.extraction(fmt.Sprintf("%s.extract[%d]", path, i), st, &out, &st.Extract[i])
	}
	if out.info.WantsBody && !c.spec.BodyOnly && c.spec.Calls == nil {
		c.checkEncoding(path, &out)
	}
	if out.condition != nil {
		for i := range *uses {
			u := &(*uses)[i]
			u.Optional = u.Optional || out.condition.Ensures(u.Variable)
		}
	}
	return out
}

// encode makes what encodes a body, and encodes one that does not vary.
func (c *compiler) encode(path string, st *Step, out *step) {
	pieces := [][]byte{nil}
	for _, p := range out.body.Pieces() {
		if last := len(pieces) - 1; p.Varies {
			pieces = append(pieces, nil)
		} else {
			pieces[last] = append(pieces[last], p.Text...)
		}
	}
	encoder, err := st.Encode(pieces...)
	if err == nil && !out.outline.VariesBody {
		var body []byte
		body, err = encoder.Append(nil, nil)
		out.outline.Body = string(body)
	}
	if err != nil {
		c.add(path, -1, err.Error(), "")
		return
	}
	out.encoder = encoder
	out.badBody = failure(wire.Generator, st, "its message cannot be made with what its template says: look at the data, and put json_escape() around texts in JSON")
}

// failure makes an error of a step's.
func failure(kind wire.Kind, st *Step, format string, args ...any) *wire.Error {
	return &wire.Error{Kind: kind, Text: fmt.Sprintf("step %q: ", nearest.Clip(st.Name)) + fmt.Sprintf(format, args...)}
}

// expectation makes the error of a response that is not what the step expects.
func expectation(st *Step, format string, args ...any) *wire.Error {
	return failure(wire.Assertion, st, format, args...)
}

// head compiles method, path and header.
func (c *compiler) head(path string, st *Step, out *step, uses *[]use) {
	if c.spec.Calls != nil {
		out.outline.Method, out.outline.Path = st.Method, st.Path
	} else {
		c.target(path, st, out, uses)
	}
	c.header(path, st, out, uses)
}

// target compiles method and path.
func (c *compiler) target(path string, st *Step, out *step, uses *[]use) {
	method := st.Method
	if method == "" {
		if method = http.MethodGet; st.Body != "" {
			method = http.MethodPost
		}
	}
	out.info.Method, out.outline.Method = method, method
	if !IsToken(method) {
		c.add(path+".method", -1, fmt.Sprintf("%q", nearest.Clip(st.Method)), "want a token such as GET")
	}
	found := len(c.faults.list)
	if out.path = c.template(path+".path", st.Path, uses); len(c.faults.list) == found {
		c.literalPath(path+".path", &out.path)
	}
	out.outline.Path, out.outline.VariesPath = out.path.Constant()
	out.badPath = failure(wire.Generator, st, "the path does not begin with /, or holds a character that must be percent-encoded: put urlencode() around its variables")
}

// header compiles the fields of the header, or of metadata.
func (c *compiler) header(path string, st *Step, out *step, uses *[]use) {
	for i, f := range st.Header {
		at := fmt.Sprintf("%s.header[%d]", path, i)
		if c.spec.Cookies && strings.EqualFold(f.Name, "cookie") {
			c.add(at+".name", -1, "Cookie is given, and cookies are kept by themselves", "leave one of the two out")
		}
		found := len(c.faults.list)
		value := c.template(at+".value", f.Value, uses)
		if len(c.faults.list) == found {
			c.literalValue(at+".value", &value)
		}
		text, varies := value.Constant()
		out.outline.Header = append(out.outline.Header, OutlineField{f.Name, text, varies})
		if varies {
			what, holds := "header field", "a line end or another control character"
			if c.spec.Calls != nil {
				what, holds = "metadata", "what is no visible ASCII"
			}
			bad := failure(wire.Generator, st, "the %s %s begins or ends with a blank, or holds %s", what, nearest.Clip(f.Name), holds)
			out.header = append(out.header, field{value, bad})
		}
	}
}

// literalValue checks what is known of a header field's value before any user is.
func (c *compiler) literalValue(path string, t *template.Template) {
	pieces := t.Pieces()
	for i, p := range pieces {
		first, last := i == 0, i == len(pieces)-1
		switch {
		case p.Varies:
		case !consistsOf([]byte(p.Text), c.s.inValue) && c.spec.Calls != nil:
			c.add(path, -1, "a character that is no visible ASCII", "want visible ASCII and spaces in metadata, or a name that ends in -bin and base64")
			return
		case !consistsOf([]byte(p.Text), c.s.inValue):
			c.add(path, -1, "a line end or another control character", "want none in a header field")
			return
		case first && isBlank(p.Text[0]) || last && isBlank(p.Text[len(p.Text)-1]):
			c.add(path, -1, fmt.Sprintf("%q begins or ends with a blank", nearest.Clip(p.Text)), "leave it out, as it is no part of a header field's value")
		}
	}
}

// literalPath checks what is known of a path before any user is.
func (c *compiler) literalPath(path string, t *template.Template) {
	pieces := t.Pieces()
	for i, p := range pieces {
		if !p.Varies && !checkPath([]byte("/"+p.Text)) {
			c.add(path, -1, fmt.Sprintf("%q holds a character that must be percent-encoded", nearest.Clip(p.Text)), "want no blanks, control characters, # or letters that are not ASCII: write %20 for a blank")
		}
		if i == 0 && (!p.Varies && p.Text[0] != '/' || p.Varies && !t.Raw()) {
			c.add(path, -1, "it does not begin with /", "want / at the beginning")
		}
	}
	if len(pieces) == 0 {
		c.add(path, -1, "it is empty", "want one that begins with /")
	}
}

// checkEncoding refuses to ask for bodies that nobody here can decode.
func (c *compiler) checkEncoding(path string, out *step) {
	for i, f := range out.outline.Header {
		if f.Varies || !strings.EqualFold(f.Name, "accept-encoding") {
			continue
		}
		for offer := range strings.SplitSeq(f.Value, ",") {
			coding, _, _ := strings.Cut(offer, ";")
			coding = strings.TrimSpace(coding)
			if _, err := contentcoding.Parse(coding); err != nil && coding != "*" {
				c.add(fmt.Sprintf("%s.header[%d]", path, i), -1, fmt.Sprintf("Accept-Encoding offers %q, and the step looks into the body", nearest.Clip(coding)), "want gzip, deflate, br, zstd or identity, which can be decoded")
			}
		}
	}
}

func (c *compiler) status(st *Step, out *step) {
	var texts []string
	for _, r := range st.Status {
		if c.spec.Calls != nil {
			texts = append(texts, c.spec.Calls.Statuses[r.First:r.Last+1]...)
		} else {
			texts = append(texts, r.String())
		}
	}
	out.status = slices.Clone(st.Status)
	out.statusError = expectation(st, "its status is not among %s", nearest.Clip(strings.Join(texts, ", ")))
}

// wants notes which part of the response is looked at, and compiles its name.
func (c *compiler) wants(path, text string, of Part, st *Step, out *step) (f finder) {
	f.header = -1
	switch of {
	case Trailer:
		f.header, f.trailing = wanted(&c.s.trailers, strings.ToLower(text)), true
	case Header:
		f.header = c.wantHeader(strings.ToLower(text))
	case JSON:
		out.info.WantsBody = true
		f.path = c.jsonPath(path, text)
		f.malformed = expectation(st, "%s is not JSON, in which the value at %s is looked for", c.subject(Body, ""), nearest.Clip(text))
	default:
		out.info.WantsBody = true
	}
	return f
}

// wantHeader returns the number of a header field of responses by its name in lower case.
func (c *compiler) wantHeader(name string) int { return wanted(&c.s.names, name) }

// wanted returns the number of a name in a list, to which it is added.
func wanted(names *[]string, name string) int {
	n := slices.Index(*names, name)
	if n < 0 {
		n = len(*names)
		*names = append(*names, name)
	}
	return n
}

func (c *compiler) assertion(path string, st *Step, out *step, a *Assertion, uses *[]use) {
	compiled := assertion{Assertion: *a, finder: c.wants(path+".name", a.Name, a.Of, st, out)}
	subject := c.subject(a.Of, a.Name)
	switch a.Is {
	case Equals, Contains:
		verb := "does not equal"
		if a.Is == Contains {
			verb = "does not contain"
		}
		if compiled.value = c.template(path+".value", a.Value, uses); compiled.value.Fresh() {
			c.add(path+".value", -1, "a function that says something else each time", "want variables only")
		}
		compiled.failure = expectation(st, "%s %s %q", subject, verb, nearest.Clip(a.Value))
	case Matches:
		compiled.pattern = c.pattern(path+".value", a.Value)
		compiled.failure = expectation(st, "%s does not match %q", subject, nearest.Clip(a.Value))
	case Exists:
		if a.Of == Body {
			c.add(path+".is", -1, "a body exists always", "want Equals, Contains or Matches")
		}
		compiled.failure = expectation(st, "%s is missing", subject)
	}
	out.assertions = append(out.assertions, compiled)
}

// subject says which part of a response is meant.
func (c *compiler) subject(of Part, name string) string {
	switch {
	case of == Header && c.spec.Calls != nil:
		return fmt.Sprintf("its metadata %s", nearest.Clip(name))
	case of == Header:
		return fmt.Sprintf("its header field %s", nearest.Clip(name))
	case of == Trailer:
		return fmt.Sprintf("its trailing metadata %s", nearest.Clip(name))
	case of == JSON:
		return fmt.Sprintf("its value at %s", nearest.Clip(name))
	case c.spec.Calls != nil:
		return "its message"
	}
	return "its body"
}

func (c *compiler) extraction(path string, st *Step, out *step, e *Extraction) {
	compiled := extraction{Extraction: *e, finder: c.wants(path+".of", e.Of, e.From, st, out), misses: len(c.s.misses)}
	c.s.misses = append(c.s.misses, Miss{Step: len(c.s.steps), Name: e.Name})
	switch {
	case e.Pattern != "":
		if compiled.pattern = c.pattern(path+".pattern", e.Pattern); compiled.pattern == nil {
			break
		}
		groups := compiled.pattern.NumSubexp()
		if compiled.group = e.Group; e.Group == 0 {
			compiled.group = min(1, groups)
		}
		if e.Group > groups {
			c.add(path+".group", -1, fmt.Sprintf("%d, and the expression has %d", e.Group, groups), "want one of its groups, from 1")
		}
	case e.Group > 0:
		c.add(path+".group", -1, fmt.Sprintf("%d", e.Group), "want it with a pattern only")
	}
	if v := c.names[e.Name]; v != nil {
		compiled.value = v.use()
	}
	var lacks string
	switch {
	case e.Pattern == "":
		lacks = "is missing"
	case e.From == Body:
		lacks = fmt.Sprintf("does not match %q", nearest.Clip(e.Pattern))
	default:
		lacks = fmt.Sprintf("is missing or does not match %q", nearest.Clip(e.Pattern))
	}
	compiled.nothing = expectation(st, "nothing for %q: %s %s", nearest.Clip(e.Name), c.subject(e.From, e.Of), lacks)
	compiled.large = expectation(st, "more than %d bytes for %q", MaxValue, nearest.Clip(e.Name))
	out.extractions = append(out.extractions, compiled)
}

// pattern compiles a regular expression. It returns nil if it has reported a fault.
func (c *compiler) pattern(path, text string) *regexp.Regexp {
	switch {
	case len(text) > MaxExpression:
		c.add(path, -1, fmt.Sprintf("an expression of %d bytes", len(text)), fmt.Sprintf("want at most %d", MaxExpression))
		return nil
	case text == "":
		c.add(path, -1, "no expression", "want a regular expression (RE2)")
		return nil
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	var fault *syntax.Error
	if errors.As(err, &fault) {
		c.add(path, max(0, strings.Index(text, fault.Expr)), fmt.Sprintf("%s: %q", fault.Code, nearest.Clip(fault.Expr)), "want a regular expression (RE2), without look-around and references back")
		return nil
	}
	if program, err := syntax.Compile(parsed.Simplify()); err != nil || len(program.Inst) > maxProgram {
		c.add(path, -1, "an expression that is too large", fmt.Sprintf("want one of at most %d instructions, with smaller numbers of repetitions", maxProgram))
		return nil
	}
	return regexp.MustCompile(text)
}

// IsToken reports whether a text is a token of RFC 9110, section 5.6.2, as the names of header
// fields are.
func IsToken(s string) bool {
	for i := range len(s) {
		if b := s[i]; b-'0' >= 10 && b|0x20-'a' >= 26 && strings.IndexByte("!#$%&'*+-.^_`|~", b) < 0 {
			return false
		}
	}
	return s != ""
}
