package imports

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/lab/plan"
)

// Bounds of a test plan.
const (
	maxElements = 100_000
	maxRepeated = 50 // how often a loop within a plan is written out
)

// An element is one of XML.
type element struct {
	name     string
	attrs    map[string]string
	text     string
	children []*element
	line     int
}

// parseXML reads a file in XML.
func parseXML(src []byte) (*element, error) {
	decoder := xml.NewDecoder(bytes.NewReader(src))
	decoder.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	root := &element{}
	stack := []*element{root}
	for count := 0; ; {
		token, err := decoder.Token()
		line, _ := decoder.InputPos()
		switch {
		case errors.Is(err, io.EOF):
			return root, nil
		case err != nil:
			return nil, fmt.Errorf("line %d: this is no XML: %w", line, err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			e := &element{name: t.Name.Local, attrs: map[string]string{}, line: line}
			for _, a := range t.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			if count++; count > maxElements || len(stack) > 10*maxDepth {
				return nil, fmt.Errorf("line %d: the file has too many elements", line)
			}
			top := stack[len(stack)-1]
			top.children = append(top.children, e)
			stack = append(stack, e)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			stack[len(stack)-1].text += string(t)
		}
	}
}

// prop returns a property's text.
func (e *element) prop(name string) string {
	if p := e.find(name); p != nil {
		return strings.TrimSpace(p.text)
	}
	return ""
}

// find returns the property of a name, or nil.
func (e *element) find(name string) *element {
	for _, c := range e.children {
		if c.attrs["name"] == name {
			return c
		}
	}
	return nil
}

// title is what the element is called in JMeter.
func (e *element) title() string { return cmp.Or(e.attrs["testname"], e.name) }

// A jmeter reads a test plan.
type jmeter struct {
	d        *draft
	threads  int
	requests float64 // of all groups; 0: they end by time
	window   time.Duration
	redirect bool
	columns  map[string]string // of rows, as expressions
}

// A scope is what elements around a sampler say of it.
type scope struct {
	defaults *element
	headers  []*element
	after    []*element // assertions, extractors and timers
	once     bool
}

// readJMeter reads a test plan.
func readJMeter(d *draft, src []byte) error {
	root, err := parseXML(src)
	if err != nil {
		return err
	}
	if len(root.children) == 0 || root.children[0].name != "jmeterTestPlan" {
		return errors.New("this is no test plan of JMeter")
	}
	j := &jmeter{d: d, columns: map[string]string{}}
	groups := 0
	count(root, func(e *element) {
		if isGroup(e) {
			groups++
		}
	})
	j.declare(root)
	for _, tree := range root.children[0].children {
		j.tree(tree, scope{}, groups > 1, 0)
	}
	l := d.load()
	l.Closed = &plan.Closed{Connections: max(1, j.threads)}
	switch {
	case j.window > 0:
		d.k6Window(j.window)
	case j.requests > 0:
		l.Requests, l.Window = uint64(j.requests), 0
	}
	if j.redirect {
		d.leave(0, "follow_redirects", "JMeter follows redirects, and users of a scenario do not", "request the last address")
	}
	return nil
}

// count shows all elements that are not switched off.
func count(e *element, show func(e *element)) {
	for _, c := range e.children {
		if c.attrs["enabled"] != "false" {
			show(c)
			count(c, show)
		}
	}
}

// isGroup tells whether an element is a group of threads.
func isGroup(e *element) bool { return e.name == "ThreadGroup" }

// declare notes the variables that the plan gives values.
func (j *jmeter) declare(root *element) {
	count(root, func(e *element) {
		switch {
		case e.name == "Arguments", e.attrs["elementType"] == "Arguments" && strings.HasSuffix(e.attrs["name"], "user_defined_variables"):
			for _, pair := range jmeterArguments(e) {
				j.d.variable(e.line, pair.Name, pair.Value, pair.Value)
			}
		case e.name == "CSVDataSet":
			j.rows(e)
		}
	})
}

// jmeterArguments returns names and values of a list of arguments.
func jmeterArguments(e *element) (all []field) {
	list := e.find("Arguments.arguments")
	if list == nil {
		return nil
	}
	for _, a := range list.children {
		value := a.find("Argument.value")
		text := ""
		if value != nil {
			text = value.text
		}
		all = append(all, field{a.prop("Argument.name"), text})
	}
	return all
}

// rows gives the scenario the rows of a file.
func (j *jmeter) rows(e *element) {
	file, names := e.prop("filename"), strings.TrimSpace(e.prop("variableNames"))
	text, err := j.d.read(file)
	if err != nil || strings.Contains(file, "${") {
		j.d.leave(e.line, e.title(), cmp.Or(file, "the file")+" cannot be read: its columns are variables without values", "run dyno import in the folder that has the file")
		return
	}
	data := plan.DefaultData(variableName(strings.TrimSuffix(file[strings.LastIndexByte(file, '/')+1:], ".csv")), j.d.relative(e.line, file))
	delimiter := cmp.Or(e.prop("delimiter"), ",")
	if delimiter != "," {
		data.Delimiter = delimiter
	}
	header, _, _ := strings.Cut(text, "\n")
	header = strings.TrimSpace(header)
	if delimiter == `\t` {
		delimiter = "\t"
	}
	columns := strings.Split(cmp.Or(names, header), delimiter)
	if names != "" && names != header {
		if columns = strings.Split(names, ","); e.prop("ignoreFirstLine") == "true" {
			j.d.leave(e.line, e.title(), "the first line of "+file+" has other names than the plan, and becomes a row", "name the columns there as in the plan, and remove columns from the experiment")
		}
		data.Columns = columns
	}
	if e.prop("recycle") == "false" {
		data.End = "stop"
	}
	for _, c := range columns {
		c = strings.Trim(strings.TrimSpace(c), `"`)
		expression := c
		if !isWord.MatchString(c) {
			expression = fmt.Sprintf("column(%q)", c)
		}
		j.columns[c] = expression
	}
	j.d.scenario.Data = append(j.d.scenario.Data, data)
}

// tree reads a hashTree: elements, each followed by the tree of what is below it.
func (j *jmeter) tree(tree *element, s scope, grouped bool, depth int) {
	if tree.name != "hashTree" || depth > maxDepth {
		return
	}
	s.headers, s.after = slices.Clone(s.headers), slices.Clone(s.after)
	for _, e := range tree.children {
		if e.attrs["enabled"] != "false" {
			j.configure(e, &s)
		}
	}
	for i, e := range tree.children {
		below := &element{name: "hashTree"}
		if i+1 < len(tree.children) && tree.children[i+1].name == "hashTree" {
			below = tree.children[i+1]
		}
		if e.name != "hashTree" && e.attrs["enabled"] != "false" {
			j.element(e, below, s, grouped, depth)
		}
	}
}

// configure takes what holds for all samplers of a tree.
func (j *jmeter) configure(e *element, s *scope) {
	switch e.name {
	case "ConfigTestElement":
		if e.attrs["guiclass"] == "HttpDefaultsGui" {
			s.defaults = e
		}
	case "HeaderManager":
		s.headers = append(s.headers, e)
	case "CookieManager":
		j.d.scenario.Cookies = true
	case "ResponseAssertion", "JSONPathAssertion", "RegexExtractor", "JSONPostProcessor", "BoundaryExtractor", "ConstantTimer", "UniformRandomTimer":
		s.after = append(s.after, e)
	}
}

// element carries an element over, with what is below it.
func (j *jmeter) element(e, below *element, s scope, grouped bool, depth int) {
	d := j.d
	switch e.name {
	case "TestPlan":
		j.tree(below, s, grouped, depth+1)
	case "ThreadGroup":
		j.group(e, below, s, grouped, depth)
	case "HTTPSamplerProxy", "HTTPSampler", "HTTPSampler2":
		own := scope{defaults: s.defaults, headers: slices.Clone(s.headers), after: slices.Clone(s.after), once: s.once}
		for _, c := range below.children {
			if c.attrs["enabled"] != "false" {
				j.configure(c, &own)
				if !slices.Contains(strings.Fields(jmeterConfig+" hashTree"), c.name) {
					j.element(c, &element{}, own, grouped, depth+1)
				}
			}
		}
		j.sampler(e, own)
	case "GenericController", "TransactionController":
		j.tree(below, s, grouped, depth+1)
	case "OnceOnlyController":
		s.once = true
		j.tree(below, s, grouped, depth+1)
	case "LoopController":
		times, err := strconv.Atoi(e.prop("LoopController.loops"))
		if err != nil || times < 0 || times > maxRepeated {
			d.leave(e.line, e.title(), fmt.Sprintf("a loop is written out, up to %d times: this one once", maxRepeated), "give the experiment more steps, or a flow of its own")
			times = 1
		}
		for range times {
			j.tree(below, s, grouped, depth+1)
		}
	case "RandomController", "RandomOrderController", "InterleaveControl", "SwitchController", "ThroughputController", "IfController", "WhileController", "ForeachController", "CriticalSectionController", "RunTime":
		d.leave(e.line, e.title()+" ("+e.name+")", "what is below it is carried over as it stands there", "steps can have weights and conditions (weight, if)")
		j.tree(below, s, grouped, depth+1)
	case "ResultCollector", "BackendListener", "Summariser", "DebugSampler", "ResultAction": // they send nothing
	case "DurationAssertion":
		d.leave(e.line, e.title(), "a time is no matter of one response", "a threshold is, such as 'response.p95 < 500ms'")
	case "ConstantThroughputTimer", "PreciseThroughputTimer":
		d.leave(e.line, e.title(), "users are not slowed down to a rate", "load.open.rate is a rate of iterations")
	default:
		if !slices.Contains(strings.Fields(jmeterConfig), e.name) {
			d.leave(e.line, e.title()+" ("+e.name+")", "dyno has no such element", "")
		}
	}
}

// jmeterConfig are the elements that configure and declare take.
const jmeterConfig = `ConfigTestElement HeaderManager CookieManager CacheManager Arguments CSVDataSet ResponseAssertion JSONPathAssertion
	RegexExtractor JSONPostProcessor BoundaryExtractor ConstantTimer UniformRandomTimer`

// group carries a group of threads over: a flow, if there are several.
func (j *jmeter) group(e, below *element, s scope, grouped bool, depth int) {
	d := j.d
	number := func(name string, otherwise float64) float64 {
		text := d.knownHost(j.text(e.line, e.prop(name)))
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			return n
		}
		if text != "" {
			d.leave(e.line, e.title()+": "+name, fmt.Sprintf("%q is no number: it is taken to be %g", e.prop(name), otherwise), "")
		}
		return otherwise
	}
	threads := min(max(number("ThreadGroup.num_threads", 1), 1), 1_000_000)
	if grouped {
		name := strings.Trim(notInName.ReplaceAllString(e.title(), "-"), "-.")
		taken := func(f plan.Flow) bool { return f.Name == name }
		for slices.ContainsFunc(d.scenario.Flows, taken) || name == "" {
			name += "2"
		}
		d.scenario.Flows = append(d.scenario.Flows, plan.Flow{Name: name, Weight: int(threads)})
		d.flow = len(d.scenario.Flows)
	}
	before := d.count()
	j.tree(below, s, grouped, depth+1)
	if grouped && len(d.steps()) == 0 {
		d.scenario.Flows = d.scenario.Flows[:d.flow-1]
		d.flow = len(d.scenario.Flows)
		return
	}
	j.threads += int(threads)
	if ramp := number("ThreadGroup.ramp_time", 0); ramp > 0 && threads > 1 {
		d.leave(e.line, e.title(), fmt.Sprintf("the number of users does not change in a run: all %g are there from the beginning, and not after %g s", threads, ramp), "load.warmup is load that is not measured")
	}
	if delay := number("ThreadGroup.delay", 0); delay > 0 {
		d.leave(e.line, e.title(), "the load begins at once", "")
	}
	loops := number("ThreadGroup.loops", 1)
	if main := e.find("ThreadGroup.main_controller"); main != nil {
		if n, err := strconv.ParseFloat(main.prop("LoopController.loops"), 64); err == nil {
			loops = n
		}
		if main.prop("LoopController.continue_forever") == "true" && loops < 0 {
			loops = -1
		}
	}
	switch duration := number("ThreadGroup.duration", 0); {
	case e.prop("ThreadGroup.scheduler") == "true" && duration > 0:
		j.window = max(j.window, inSeconds(duration))
	case loops > 0:
		j.requests += threads * loops * float64(d.count()-before)
	default:
		d.leave(e.line, e.title(), "it goes on until somebody stops it: here for 10 s", "load.window says how long")
	}
}

var (
	jmeterVariable = regexp.MustCompile(`\$\{([^${}]+)\}`)
	jmeterFunction = regexp.MustCompile(`^(__\w+)(?:\((.*)\))?$`)
)

// text puts marks in the place of variables and functions.
func (j *jmeter) text(line int, text string) string {
	return jmeterVariable.ReplaceAllStringFunc(text, func(m string) string {
		name := m[2 : len(m)-1]
		if expression, is := j.columns[name]; is {
			return j.d.mark(expression)
		}
		f := jmeterFunction.FindStringSubmatch(name)
		if f == nil {
			return j.d.variable(line, name, "", "")
		}
		args := strings.Split(f[2], ",")
		for i := range args {
			args[i] = strings.TrimSpace(args[i])
		}
		integers := len(args) >= 2
		for _, a := range args[:min(2, len(args))] {
			if _, err := strconv.ParseInt(a, 10, 64); err != nil {
				integers = false
			}
		}
		switch {
		case f[1] == "__UUID":
			return j.d.mark("uuid()")
		case f[1] == "__Random" && integers:
			return j.d.mark("random_int(" + args[0] + ", " + args[1] + ")")
		case f[1] == "__time" && f[2] == "":
			return j.d.mark(`timestamp("ms")`)
		case f[1] == "__counter":
			return j.d.mark("counter()")
		case (f[1] == "__P" || f[1] == "__property") && len(args) > 1:
			return args[len(args)-1]
		case f[1] == "__P" || f[1] == "__property":
			return j.d.variable(line, args[0], "", "")
		case f[1] == "__RandomString" && len(args) > 0:
			if _, err := strconv.Atoi(args[0]); err == nil {
				if len(args) > 1 && args[1] != "" {
					return j.d.mark("random_string(" + args[0] + ", " + strconv.Quote(args[1]) + ")")
				}
				return j.d.mark("random_string(" + args[0] + ")")
			}
		}
		j.d.leave(line, m, "dyno has no such function: it is sent as it stands there", "dyno help templates lists what there is")
		return m
	})
}

// sampler adds a request.
func (j *jmeter) sampler(e *element, s scope) {
	d := j.d
	prop := func(name string) string {
		text := e.prop("HTTPSampler." + name)
		if text == "" && s.defaults != nil {
			text = s.defaults.prop("HTTPSampler." + name)
		}
		return j.text(e.line, text)
	}
	r := request{line: e.line, name: e.title(), method: cmp.Or(prop("method"), "GET")}
	path, domain, port := prop("path"), prop("domain"), prop("port")
	scheme := strings.ToLower(cmp.Or(prop("protocol"), "http"))
	switch {
	case strings.Contains(path, "://"):
		r.url = path
	case domain == "":
		r.url = "/" + strings.TrimPrefix(path, "/")
	default:
		r.url = scheme + "://" + domain
		if standard := map[string]string{"http": "80", "https": "443"}[scheme]; port != "" && port != standard {
			r.url += ":" + port
		}
		r.url += "/" + strings.TrimPrefix(path, "/")
	}
	for _, manager := range s.headers {
		if list := manager.find("HeaderManager.headers"); list != nil {
			for _, h := range list.children {
				name := h.prop("Header.name")
				r.headers = slices.DeleteFunc(r.headers, func(other plan.Header) bool { return strings.EqualFold(other.Name, name) })
				r.headers = append(r.headers, plan.Header{Name: name, Value: j.text(e.line, h.prop("Header.value"))})
			}
		}
	}
	j.content(e, &r)
	if files := e.find("HTTPsampler.Files"); files != nil && files.find("HTTPFileArgs.files") != nil && len(files.find("HTTPFileArgs.files").children) > 0 {
		d.leave(e.line, e.title(), "files are not sent", "give the step body_file")
	}
	j.redirect = j.redirect || prop("follow_redirects") == "true"
	if prop("use_keepalive") == "false" {
		d.load().RequestsPerConnection = 1
	}
	step := d.add(r)
	if step == nil {
		return
	}
	step.Once = s.once
	for _, a := range s.after {
		j.after(a, step)
	}
}

// content takes the arguments of a sampler over: the body, a form, or the query.
func (j *jmeter) content(e *element, r *request) {
	list := e.find("HTTPsampler.Arguments")
	if list == nil {
		return
	}
	var pairs []field
	var raw strings.Builder
	for _, a := range jmeterArguments(list) {
		pairs = append(pairs, field{j.text(e.line, a.Name), j.text(e.line, a.Value)})
		raw.WriteString(j.text(e.line, a.Value))
	}
	switch {
	case len(pairs) == 0:
	case e.prop("HTTPSampler.postBodyRaw") == "true":
		r.body = []byte(raw.String())
	case slices.Contains([]string{"GET", "HEAD", "DELETE", "OPTIONS"}, r.method):
		separator := "?"
		if strings.Contains(r.url, "?") {
			separator = "&"
		}
		r.url += separator + encodeForm(pairs)
	default:
		r.body = []byte(encodeForm(pairs))
		if !hasHeader(r.headers, "Content-Type") {
			r.headers = append(r.headers, plan.Header{Name: "Content-Type", Value: "application/x-www-form-urlencoded"})
		}
	}
}

// after carries over what is looked at in a response, or the pause of a sampler.
func (j *jmeter) after(e *element, step *plan.Step) {
	d := j.d
	milliseconds := func(name string) time.Duration {
		n, err := strconv.ParseFloat(d.knownHost(j.text(e.line, e.prop(name))), 64)
		if err != nil || n < 0 || n > maxThink.Seconds()*1000 {
			d.leave(e.line, e.title(), fmt.Sprintf("%q is no time in milliseconds, up to an hour", e.prop(name)), "give the step think")
			return 0
		}
		return inSeconds(n / 1000)
	}
	switch e.name {
	case "ConstantTimer":
		d.think(plan.Think{Constant: milliseconds("ConstantTimer.delay")})
	case "UniformRandomTimer":
		from := milliseconds("ConstantTimer.delay")
		d.think(plan.Think{Uniform: &plan.Span{From: from, To: from + milliseconds("RandomTimer.range")}})
	case "ResponseAssertion":
		j.assertion(e, step)
	case "JSONPathAssertion":
		a := plan.Assertion{JSON: e.prop("JSON_PATH"), Exists: true}
		if e.prop("JSONVALIDATION") == "true" {
			text := d.template(j.text(e.line, e.prop("EXPECTED_VALUE")))
			if a.Exists = false; e.prop("ISREGEX") == "true" {
				a.Matches = e.prop("EXPECTED_VALUE")
			} else {
				a.Equals = &text
			}
		}
		if e.prop("INVERT") == "true" || !singular.MatchString(a.JSON) {
			d.leave(e.line, e.title(), "an assertion is about one value that is there", "assert of a step has paths such as $.items[0].id")
			return
		}
		step.Assert = append(step.Assert, a)
	case "RegexExtractor":
		x := plan.Extraction{Variable: variableName(e.prop("RegexExtractor.refname")), Pattern: e.prop("RegexExtractor.regex")}
		if group, err := strconv.Atoi(strings.Trim(e.prop("RegexExtractor.template"), "$")); err == nil && group > 1 {
			x.Group = group
		}
		if text := e.prop("RegexExtractor.default"); text != "" {
			x.Default = &text
		}
		_, err := regexp.Compile(x.Pattern)
		if err != nil || e.prop("RegexExtractor.useHeaders") != "false" && e.prop("RegexExtractor.useHeaders") != "" {
			d.leave(e.line, e.title(), "the expression is not RE2, or not about the content", "extract of a step has pattern and header")
			return
		}
		d.extract(step, x)
	case "BoundaryExtractor":
		d.extract(step, plan.Extraction{
			Variable: variableName(e.prop("BoundaryExtractor.refname")),
			Pattern:  regexp.QuoteMeta(e.prop("BoundaryExtractor.lboundary")) + "(.*?)" + regexp.QuoteMeta(e.prop("BoundaryExtractor.rboundary")),
		})
	case "JSONPostProcessor":
		names, paths := strings.Split(e.prop("JSONPostProcessor.referenceNames"), ";"), strings.Split(e.prop("JSONPostProcessor.jsonPathExprs"), ";")
		defaults := strings.Split(e.prop("JSONPostProcessor.defaultValues"), ";")
		for i, name := range names {
			if i >= len(paths) || !singular.MatchString(strings.TrimSpace(paths[i])) {
				d.leave(e.line, e.title()+": "+name, "the path may select several values", "extract of a step has paths such as $.items[0].id")
				continue
			}
			x := plan.Extraction{Variable: variableName(strings.TrimSpace(name)), JSON: strings.TrimSpace(paths[i])}
			if i < len(defaults) && defaults[i] != "" {
				x.Default = &defaults[i]
			}
			d.extract(step, x)
		}
	}
}

// singular matches paths that select one value.
var singular = regexp.MustCompile(`^\$(?:\.\w+|\[\d+\]|\['[^'\\]+'\])+$`)

// The bits of a ResponseAssertion's type.
const (
	jmeterMatch  = 1
	jmeterNot    = 4
	jmeterEquals = 8
	jmeterText   = 16
	jmeterOr     = 32
)

// assertion makes expectations of a ResponseAssertion.
func (j *jmeter) assertion(e *element, step *plan.Step) {
	d := j.d
	var texts []string
	for _, name := range []string{"Asserion.test_strings", "Assertion.test_strings"} { // JMeter spells it so
		if list := e.find(name); list != nil {
			for _, c := range list.children {
				texts = append(texts, strings.TrimSpace(c.text))
			}
		}
	}
	kind, _ := strconv.Atoi(e.prop("Assertion.test_type"))
	where := e.prop("Assertion.test_field")
	if kind&jmeterNot != 0 || where != "Assertion.response_code" && (kind&jmeterOr != 0 && len(texts) > 1 || where != "Assertion.response_data") {
		d.leave(e.line, e.title(), "an assertion is about what the status is, or what the content is or contains", "assert of a step has more than that")
		return
	}
	if where == "Assertion.response_code" {
		status := strings.Join(texts, ", ")
		if strings.Trim(status, "0123456789, ") != "" || status == "" {
			d.leave(e.line, e.title(), "a status is not a number", "status of a step names the expected ones, such as 2xx")
			return
		}
		step.Status = status
		return
	}
	for _, text := range texts {
		quoted := d.template(j.text(e.line, text))
		switch {
		case kind&jmeterEquals != 0:
			step.Assert = append(step.Assert, plan.Assertion{Equals: &quoted})
		case kind&jmeterText != 0:
			step.Assert = append(step.Assert, plan.Assertion{Contains: quoted})
		default:
			if kind&jmeterMatch != 0 {
				text = `^(?s:` + text + `)$`
			}
			if _, err := regexp.Compile(text); err != nil || strings.Contains(text, "${") {
				d.leave(e.line, e.title(), "the expression is not RE2", "assert of a step has matches")
				continue
			}
			step.Assert = append(step.Assert, plan.Assertion{Matches: text})
		}
	}
}
