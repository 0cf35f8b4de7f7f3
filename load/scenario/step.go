package scenario

import (
	"cmp"
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
func ParseStatus(s string) ([]StatusRange, error) { return ParseCodes(s, 999) }

// ParseCodes is ParseStatus for a protocol that has further codes, up to most.
func ParseCodes(s string, most int) (ranges []StatusRange, err error) {
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
		if e1 != nil || e2 != nil || r.First < 100 || r.Last > most || r.First > r.Last {
			return nil, fmt.Errorf("status %q: want statuses from 100 to %d, such as 200, 204, 300-304 or 5xx", text, most)
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

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
	pattern *regexp.Regexp    // for Matches; nil for others
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
	out.info = Info{Name: st.Name, Path: path, Once: st.Once, Method: st.Method, MaxBody: st.MaxBody}
	out.outline.Step = len(c.s.steps)
	out.condition = c.condition(path+".if", st.If, uses)
	for i := range *uses {
		(*uses)[i].asked = true
	}
	for i := range st.Assert {
		c.assertion(fmt.Sprintf("%s.assert[%d]", path, i), st, &out, &st.Assert[i], uses)
	}
	for i := range st.Extract {
		c.extraction(path+".extract."+st.Extract[i].Variable, st, &out, &st.Extract[i])
	}
	if sent, err := c.Request(st); err != nil {
		c.located(path, err)
	} else {
		c.request(path, st, &sent, &out, uses)
	}
	out.think = st.Think
	out.looks = out.info.WantsBody
	out.info.WantsBody = out.looks || c.s.once // what the server says of a failure is shown
	if st.MaxBody == 0 {
		out.info.MaxBody = DefaultMaxBody
	}
	out.tooLarge = expectation(st, "%s is longer than the %d bytes that max_body has kept", c.subject(Place{}), out.info.MaxBody)
	out.notDecoded = expectation(st, "%s is not what its Content-Encoding says, or is cut off", c.subject(Place{}))
	out.unknownCoding = expectation(st, "%s has a Content-Encoding that is none of gzip, deflate, br and zstd", c.subject(Place{}))
	if out.condition != nil {
		for i := range *uses {
			u := &(*uses)[i]
			u.Optional = u.Optional || out.condition.Ensures(u.Variable)
		}
	}
	return out
}

// plainRequest sends what a step says.
func plainRequest(st *Step) (sent StepRequest, err error) {
	sent = StepRequest{Method: st.Method, Path: st.Path, Body: cmp.Or(st.Body, st.Message), Timeout: st.Deadline}
	if st.Status != "" {
		sent.Status, err = ParseStatus(st.Status)
	}
	return sent, err
}

// located adds a fault of a step that its protocol has found.
func (c *compiler) located(path string, err error) {
	f := &Fault{Problem: err.Error()}
	if errors.As(err, &f) && f.Path != "" {
		path += "." + f.Path
	}
	c.add(path, -1, f.Problem, f.Hint)
}

// request compiles what a step sends.
func (c *compiler) request(path string, st *Step, sent *StepRequest, out *step, uses *[]use) {
	if out.info.Timeout = sent.Timeout; !c.BodyOnly {
		c.head(path, st, sent, out, uses)
	}
	field, _ := st.Content()
	out.body = c.template(path+"."+field, sent.Body, uses)
	out.outline.Body, out.outline.VariesBody = out.body.Constant()
	if sent.Encode != nil {
		c.encode(path+"."+field, st, sent, out)
	}
	var accepted []string
	for _, r := range sent.Status {
		if c.Calls != nil {
			accepted = append(accepted, c.Calls.Statuses[r.First:r.Last+1]...)
		} else {
			accepted = append(accepted, r.String())
		}
	}
	out.status = sent.Status
	out.statusError = expectation(st, "its status is not among %s", nearest.Clip(strings.Join(accepted, ", ")))
}

// encode makes what encodes a body, and encodes one that does not vary.
func (c *compiler) encode(path string, st *Step, sent *StepRequest, out *step) {
	pieces := [][]byte{nil}
	for _, p := range out.body.Pieces() {
		if last := len(pieces) - 1; p.Varies {
			pieces = append(pieces, nil)
		} else {
			pieces[last] = append(pieces[last], p.Text...)
		}
	}
	encoder, err := sent.Encode(pieces...)
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
func (c *compiler) head(path string, st *Step, sent *StepRequest, out *step, uses *[]use) {
	if c.Calls != nil {
		out.outline.Method, out.outline.Path = sent.Method, sent.Path
	} else {
		c.target(path, st, sent, out, uses)
	}
	c.header(path, st, sent, out, uses)
}

// target compiles method and path.
func (c *compiler) target(path string, st *Step, sent *StepRequest, out *step, uses *[]use) {
	method := sent.Method
	if method == "" {
		if method = http.MethodGet; sent.Body != "" {
			method = http.MethodPost
		}
	}
	out.info.Method, out.outline.Method = method, method
	if !IsToken(method) {
		c.add(path+".method", -1, fmt.Sprintf("%q", nearest.Clip(st.Method)), "want a token such as GET")
	}
	found := len(c.faults.list)
	if out.path = c.template(path+".path", sent.Path, uses); len(c.faults.list) == found {
		c.literalPath(path+".path", &out.path)
	}
	out.outline.Path, out.outline.VariesPath = out.path.Constant()
	out.badPath = failure(wire.Generator, st, "the path does not begin with /, or holds a character that must be percent-encoded: put urlencode() around its variables")
}

// header compiles the fields of the header, or of metadata.
func (c *compiler) header(path string, st *Step, sent *StepRequest, out *step, uses *[]use) {
	for _, f := range c.fieldsOf(path, st, sent) {
		at := f.path
		found := len(c.faults.list)
		value := c.template(at, f.Value, uses)
		if len(c.faults.list) == found {
			c.literalValue(at, &value)
		}
		if c.spec.Cookies && strings.EqualFold(f.Name, "cookie") {
			out.cookie = field{value, failure(wire.Generator, st, "its cookies begin or end with a blank, or hold a line end or another control character")}
			continue
		}
		text, varies := value.Constant()
		out.outline.Header = append(out.outline.Header, OutlineField{f.Name, text, varies})
		switch {
		case !varies && out.info.WantsBody && c.Calls == nil && strings.EqualFold(f.Name, "accept-encoding"):
			c.checkEncoding(at, text)
		case varies:
			what, holds := "header field", "a line end or another control character"
			if c.Calls != nil {
				what, holds = "metadata", "what is no visible ASCII"
			}
			bad := failure(wire.Generator, st, "the %s %s begins or ends with a blank, or holds %s", what, nearest.Clip(f.Name), holds)
			out.header = append(out.header, field{value, bad})
		}
	}
}

// A locatedHeader is a header field, or metadata, with its path.
type locatedHeader struct {
	Header
	path string
}

// fieldsOf returns the header fields of a step, or its metadata: those of all steps for which it has no
// other value, its own, and those that its protocol adds.
func (c *compiler) fieldsOf(path string, st *Step, sent *StepRequest) (all []locatedHeader) {
	own := slices.Concat(st.Headers, st.Metadata)
	field := "headers"
	if len(c.spec.Metadata)+len(st.Metadata) > 0 {
		field = "metadata"
	}
	for _, h := range slices.Concat(c.spec.Headers, c.spec.Metadata) {
		if c.spec.Part == OfSetup && c.extracts(h.Value) {
			continue
		}
		if !slices.ContainsFunc(own, func(o Header) bool { return strings.EqualFold(o.Name, h.Name) }) {
			all = append(all, locatedHeader{h, field + "." + h.Name})
		}
	}
	for _, h := range own {
		all = append(all, locatedHeader{h, path + "." + field + "." + h.Name})
	}
	for _, h := range sent.Header {
		if !slices.ContainsFunc(all, func(o locatedHeader) bool { return strings.EqualFold(o.Name, h.Name) }) {
			all = append(all, locatedHeader{h, path})
		}
	}
	return all
}

// extracts tells whether a template uses a variable that a step sets.
func (c *compiler) extracts(text string) bool {
	_, used, _ := template.Compile(text, c) // its faults are reported elsewhere
	return slices.ContainsFunc(used, func(u template.Use) bool { return len(c.list[u.Variable].setters) > 0 })
}

// literalValue checks the constant part of a header field's value before there are users.
func (c *compiler) literalValue(path string, t *template.Template) {
	pieces := t.Pieces()
	for i, p := range pieces {
		first, last := i == 0, i == len(pieces)-1
		switch {
		case p.Varies:
		case !consistsOf([]byte(p.Text), c.s.inValue) && c.Calls != nil:
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

// literalPath checks the constant part of a path before there are users.
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

// checkEncoding refuses to ask for bodies that no decoder knows.
func (c *compiler) checkEncoding(path, offers string) {
	for offer := range strings.SplitSeq(offers, ",") {
		coding, _, _ := strings.Cut(offer, ";")
		coding = strings.TrimSpace(coding)
		if _, err := contentcoding.Parse(coding); err != nil && coding != "*" {
			c.add(path, -1, fmt.Sprintf("Accept-Encoding offers %q, and the step looks into the body", nearest.Clip(coding)), "want gzip, deflate, br, zstd or identity, which can be decoded")
		}
	}
}

// wants notes which part of the response is looked at: the field of the first place, or the body.
func (c *compiler) wants(path string, places []Place, st *Step, out *step) (of Place, f finder) {
	if f.header = -1; len(places) > 0 {
		of = places[0]
	}
	switch of.part {
	case trailerOf:
		f.header, f.trailing = wanted(&c.s.trailers, strings.ToLower(of.name)), true
	case headerField:
		f.header = c.wantHeader(strings.ToLower(of.name))
	case jsonValue:
		out.info.WantsBody = true
		f.path = c.jsonPath(path+"."+of.Field, of.name)
		f.malformed = expectation(st, "%s is not JSON, in which the value at %s is looked for", c.subject(Place{}), nearest.Clip(of.name))
	default:
		out.info.WantsBody = true
	}
	return of, f
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
	compiled := assertion{Assertion: *a}
	var of Place
	of, compiled.finder = c.wants(path, a.Places(), st, out)
	switch subject := c.subject(of); {
	case a.Exists:
		if of.part == wholeBody {
			c.add(path, -1, "a body exists always", "want equals, contains or matches")
		}
		compiled.failure = expectation(st, "%s is missing", subject)
	case a.Matches != "":
		compiled.pattern = c.pattern(path+".matches", a.Matches)
		compiled.failure = expectation(st, "%s does not match %q", subject, nearest.Clip(a.Matches))
	default:
		field, text, verb := "contains", a.Contains, "does not contain"
		if a.Equals != nil {
			field, text, verb = "equals", *a.Equals, "does not equal"
		}
		if compiled.value = c.template(path+"."+field, text, uses); compiled.value.Fresh() {
			c.add(path+"."+field, -1, "a function that says something else each time", "want variables only")
		}
		compiled.failure = expectation(st, "%s %s %q", subject, verb, nearest.Clip(text))
	}
	out.assertions = append(out.assertions, compiled)
}

// subject says which part of a response is meant.
func (c *compiler) subject(of Place) string {
	name := nearest.Clip(of.name)
	switch {
	case of.part == headerField && c.Calls != nil:
		return "its metadata " + name
	case of.part == headerField:
		return "its header field " + name
	case of.part == trailerOf:
		return "its trailing metadata " + name
	case of.part == jsonValue:
		return "its value at " + name
	case c.Calls != nil:
		return "its message"
	}
	return "its body"
}

func (c *compiler) extraction(path string, st *Step, out *step, e *Extraction) {
	compiled := extraction{Extraction: *e, misses: len(c.s.misses)}
	var of Place
	of, compiled.finder = c.wants(path, e.Places(), st, out)
	c.s.misses = append(c.s.misses, Miss{Step: len(c.s.steps), Name: e.Variable})
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
	case e.As == "json" && e.JSON == "":
		c.add(path+".as", -1, "json, of what is not a value of JSON", "want it with json")
	case e.Group > 0:
		c.add(path+".group", -1, fmt.Sprintf("%d", e.Group), "want it with a pattern only")
	}
	if v := c.names[e.Variable]; v != nil {
		compiled.value = v.use()
	}
	problem := "is missing"
	if e.Pattern != "" {
		if problem = fmt.Sprintf("does not match %q", nearest.Clip(e.Pattern)); of.part != wholeBody {
			problem = "is missing or " + problem
		}
	}
	compiled.nothing = expectation(st, "nothing for %q: %s %s", nearest.Clip(e.Variable), c.subject(of), problem)
	compiled.large = expectation(st, "more than %d bytes for %q", MaxValue, nearest.Clip(e.Variable))
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
