// Package jmeter imports test plans of JMeter: the tree of the plan (plan.go), its users (users.go), its HTTP requests (sampler.go),
// the variables and functions in texts (text.go), and the responses that were recorded (recorded.go).
package jmeter

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"dyno/cli/imports/draft"
	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
	"dyno/load/pace"
	"dyno/load/scenario"
)

// Format is the format of test plans.
func Format() draft.Format {
	return draft.Format{Name: "jmeter", About: "a test plan of JMeter (.jmx)", Most: draft.MaxRecord, Recording: true, Form: form, Read: read}
}

var form = lazyregexp.New(`<jmeterTestPlan\b`)

// Bounds of a test plan.
const (
	maxElements = 100_000
	maxRepeated = 50 // how often a loop within a plan is written out
)

// An element is an XML element.
type element struct {
	name     string
	attrs    map[string]string
	text     string
	children []*element
	line     int
}

// notInXML matches references to characters that XML does not have. JMeter writes them.
var notInXML = lazyregexp.New(`(?i)&#(?:x0*(?:[0-8bcef]|1[0-9a-f]|fff[ef])|0*(?:[0-8]|1[1245-9]|2\d|3[01]|6553[45]));`)

// parseXML reads a file in XML.
func parseXML(src []byte) (*element, error) {
	decoder := xml.NewDecoder(bytes.NewReader(notInXML().ReplaceAllLiteral(src, []byte("&#xfffd;"))))
	decoder.CharsetReader = decodeXML
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
			if count++; count > maxElements || len(stack) > 10*draft.MaxDepth {
				return nil, fmt.Errorf("line %d: the file has too many elements", line)
			}
			top := stack[len(stack)-1]
			top.children = append(top.children, e)
			stack = append(stack, e)
		case xml.EndElement:
			if e := stack[len(stack)-1]; e.prop("TestPlan.comments") == redirected {
				e.attrs["enabled"] = "true"
			}
			stack = stack[:len(stack)-1]
		case xml.CharData:
			stack[len(stack)-1].text += string(t)
		}
	}
}

// prop returns a property's text, without blanks around it.
func (e *element) prop(name string) string { return strings.TrimSpace(e.raw(name)) }

// raw returns a property's text.
func (e *element) raw(name string) string {
	if p := e.find(name); p != nil {
		return p.text
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

// A reader reads a test plan.
type reader struct {
	d        *draft.Draft
	threads  int
	requests float64 // of all groups; 0: they end by time
	window   time.Duration
	segments []segment // of all groups
	ramps    []rampUp
	redirect bool

	columns   map[string]string   // of rows, as expressions
	rowsOf    map[string][]string // the values of a column, by its expression
	values    map[string]string   // of variables that the plan declares
	changes   map[string]bool     // variables that responses set
	variables map[string]string   // dyno's names of JMeter's variables
	taken     map[string]bool     // dyno's names
	declaring bool                // only values that are known so far are used
	sampled   string              // the name of the sampler that is being read

	closing, keeping int // samplers that close their connection, or keep it
	visited          int // elements, each as often as loops have it

	looks    bool // samplers are only collected, and no steps are made
	samplers []*recorded
	recorded map[*element]*recorded // the same
	groups   int                    // of threads, up to here
}

// A scope is what elements around a sampler say of it. Those closest to the sampler come first.
type scope struct {
	defaults []*element
	headers  []*element
	after    []*element // assertions, extractors and timers
	cookies  []*element
	once     bool
}

// read reads a test plan.
func read(d *draft.Draft, src []byte) error {
	root, err := parseXML(src)
	if err != nil {
		return err
	}
	if len(root.children) == 0 || root.children[0].name != "jmeterTestPlan" {
		return errors.New("this is no test plan of JMeter")
	}
	d.Form, d.Verbatim = "formencode", true
	j := &reader{
		d: d, columns: map[string]string{}, rowsOf: map[string][]string{}, values: map[string]string{},
		changes: map[string]bool{}, recorded: map[*element]*recorded{}, variables: map[string]string{}, taken: map[string]bool{},
	}
	groups := 0
	walk(root, func(e *element) {
		if isGroup(e) {
			groups++
		}
	})
	j.declare(root)
	if err := j.correlate(root, groups > 1); err != nil {
		return err
	}
	for _, tree := range root.children[0].children {
		j.tree(tree, scope{}, groups > 1, 0)
	}
	l := d.Load()
	l.Closed = &plan.Closed{Connections: max(1, j.threads)}
	ramped := j.ramped()
	switch {
	case ramped != nil:
		l.Closed.Connections = 0
		l.SetStages(ramped)
	case j.window > 0:
		d.SetWindow(j.window)
	case j.requests > 0:
		l.Requests, l.Window = uint64(j.requests), 0
	}
	if j.window > 0 && j.requests > 0 {
		d.Leave(0, "loops", "some groups end after a time, and some after a number of iterations: here all go on until the last time is over", "import each as a plan of its own")
	}
	if j.redirect {
		d.Leave(0, "follow_redirects", "JMeter follows redirects, and users of a scenario do not", "request the last address")
	}
	if j.closing > 0 {
		if l.RequestsPerConnection = 1; j.keeping > 0 {
			d.Leave(0, "use_keepalive", "some samplers close their connection: here each request does", "load.requests_per_connection is of all steps")
		}
	}
	return nil
}

// walk shows all elements that are not switched off, and are not below one that is.
func walk(e *element, show func(e *element)) {
	off := false
	for _, c := range e.children {
		if c.name == "hashTree" && off {
			off = false
			continue
		}
		if off = c.attrs["enabled"] == "false"; !off {
			show(c)
			walk(c, show)
		}
	}
}

// isGroup tells whether an element is a group of threads whose samplers are the load.
func isGroup(e *element) bool {
	return strings.HasSuffix(e.name, "ThreadGroup") && e.name != "SetupThreadGroup" && e.name != "PostThreadGroup"
}

// declare notes the variables that the plan gives values: in the order in which JMeter does, so that values of earlier
// lists stand in later ones.
func (j *reader) declare(root *element) {
	walk(root, func(e *element) {
		switch e.name {
		case "RegexExtractor", "JSONPostProcessor", "BoundaryExtractor":
			for name := range strings.SplitSeq(e.prop("RegexExtractor.refname")+";"+e.prop("JSONPostProcessor.referenceNames")+";"+e.prop("BoundaryExtractor.refname"), ";") {
				name = strings.TrimSpace(name)
				j.changes[name] = true
				j.d.Mark(j.name(name)) // which no other variable is called
			}
		case "CSVDataSet":
			j.rows(e)
		}
	})
	j.declaring = true
	defer func() { j.declaring = false }()
	walk(root, func(e *element) {
		if e.name != "Arguments" && (e.attrs["elementType"] != "Arguments" || !strings.HasSuffix(e.attrs["name"], "user_defined_variables")) {
			return
		}
		list := e.find("Arguments.arguments")
		if list == nil {
			return
		}
		made := map[string]string{}
		for _, a := range list.children {
			name, value := a.prop("Argument.name"), a.raw("Argument.value")
			if made[name] = j.text(a.line, value); len(made[name]) > draft.MaxInline && made[name] != value { // which may grow without end
				j.d.Leave(a.line, name, fmt.Sprintf("variables within variables make its value longer than %d bytes: they stay as they stand there", draft.MaxInline), "")
				made[name] = value
			}
			if draft.Varies(made[name]) {
				j.d.Leave(a.line, name, "JMeter gives this variable one value for the whole run: "+value, "")
			}
		}
		maps.Copy(j.values, made)
	})
}

// rows gives the scenario the rows of a file.
func (j *reader) rows(e *element) {
	d := j.d
	leave := func(why, hint string) { d.Leave(e.line, e.title(), why, hint) }
	file := d.KnownHost(j.text(e.line, e.prop("filename")))
	text, err := d.ReadFile(file)
	if err != nil || draft.Varies(file) {
		why, hint := cmp.Or(e.prop("filename"), "the file")+" cannot be read", "run dyno import in the folder that has the file"
		if outside := (*draft.OutsideError)(nil); errors.As(err, &outside) {
			why, hint, _ = strings.Cut(err.Error(), "; ")
		}
		leave(why+": its columns are variables without values", hint)
		return
	}
	delimiter := cmp.Or(e.prop("delimiter"), ",")
	if delimiter == `\t` {
		delimiter = "\t"
	}
	if len(delimiter) > 1 {
		leave("a delimiter is one character", "give the scenario the rows, by data")
		return
	}
	path, text := j.utf8File(e, file, text)
	if path == "" {
		return
	}
	name := draft.VariableName(strings.TrimSuffix(filepath.Base(file), ".csv"))
	for n, stem := 2, name; slices.ContainsFunc(d.Scenario.Data, func(o scenario.Data) bool { return o.Name == name }); n++ {
		name = fmt.Sprintf("%s_%d", stem, n)
	}
	data := plan.DefaultData(name, path)
	if extension := filepath.Ext(file); extension == ".jsonl" || extension == ".ndjson" {
		data.Format = "csv"
	}
	if delimiter != "," {
		data.Delimiter = strings.ReplaceAll(delimiter, "\t", `\t`)
	}
	if e.prop("quotedData") != "true" && strings.Contains(text, `"`) {
		leave("JMeter takes the quotes in the file for a part of the values, and dyno does not", "tick the box for quoted data in the plan")
	}
	columns := j.nameColumns(e, &data, text, delimiter)
	switch {
	case e.prop("recycle") != "false":
	case e.prop("stopThread") == "true":
		data.End = "stop"
	default:
		data.End = "stop"
		leave("JMeter goes on after the last row, with <EOF> for each value, and dyno ends", "data can begin again, by end: wrap")
	}
	if mode := e.prop("shareMode"); mode != "" && mode != "shareMode.all" {
		leave("all users share the rows", "")
	}
	reader := csv.NewReader(strings.NewReader(text))
	reader.Comma, reader.LazyQuotes, reader.FieldsPerRecord = rune(delimiter[0]), true, -1
	rows, err := reader.ReadAll()
	if err != nil || len(d.Scenario.Data) == maxFeeds {
		leave("its rows are not carried over: there are too many files, or it is no CSV", "give the scenario the rows, by data")
		return
	}
	j.bind(e, columns, rows)
	d.Scenario.Data = append(d.Scenario.Data, data)
}

// utf8File returns the path of a file of rows, and its text, both in UTF-8. Without a path it cannot be decoded.
func (j *reader) utf8File(e *element, file, text string) (path, decoded string) {
	path = j.d.Relative(e.line, file)
	c := charsetOf(e.prop("fileEncoding"))
	if c == nil || !strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return path, text
	}
	decoded, err := c.NewDecoder().String(text)
	if err == nil {
		path = j.d.AddFile(e.line, filepath.Base(file), []byte(decoded))
	}
	if err != nil || path == "" {
		j.d.Leave(e.line, e.title(), "the file is in "+e.prop("fileEncoding"), "write it in UTF-8")
		return "", ""
	}
	return path, decoded
}

// nameColumns returns the names of a file's columns, which are in the plan or in the file's first line.
func (j *reader) nameColumns(e *element, data *scenario.Data, text, delimiter string) []string {
	first, rest, _ := strings.Cut(text, "\n")
	inFile := strings.Split(strings.TrimRight(first, "\r"), delimiter)
	names := j.text(e.line, e.prop("variableNames"))
	if names == "" {
		return inFile
	}
	columns := strings.Split(names, ",")
	if e.prop("ignoreFirstLine") == "true" {
		if slices.Equal(columns, inFile) {
			return columns
		}
		if file := data.File; j.d.Source.Out != "" {
			data.File = j.d.AddFile(e.line, filepath.Base(file), []byte(rest))
		} else {
			j.d.Leave(e.line, e.title(), "the first line of "+file+" has other names than the plan, and becomes a row", "write the experiment to a file by --out, or name the columns there as in the plan")
		}
	}
	data.Columns = columns
	return columns
}

// bind has expressions read the columns of a file, and keeps their values.
func (j *reader) bind(e *element, columns []string, rows [][]string) {
	for i, c := range columns {
		c = strings.Trim(strings.TrimSpace(c), `"`)
		expression := c
		if !draft.IsWord().MatchString(c) {
			expression = fmt.Sprintf("column(%q)", c)
		}
		if j.columns[c] != "" {
			j.d.Leave(e.line, e.title(), "another file has the column "+c+", too: the values are of that one", "")
			continue
		}
		j.columns[c] = expression
		j.d.Mark(expression)
		for _, row := range rows {
			if i < len(row) {
				j.rowsOf[expression] = append(j.rowsOf[expression], row[i])
			}
		}
	}
}

// maxFeeds bounds the files of rows of a scenario.
const maxFeeds = 16

// expressions returns those for which the marks in a text stand.
func (j *reader) expressions(text string) (all []string) {
	for _, m := range draft.OneMark().FindAllString(text, -1) {
		if expression, is := j.d.Expression(m); is {
			all = append(all, expression)
		}
	}
	return all
}

// columnsOf returns the columns in a text, as expressions.
func (j *reader) columnsOf(text string) []string {
	return slices.DeleteFunc(j.expressions(text), func(e string) bool { return j.rowsOf[e] == nil })
}

// isChanged tells whether responses set the variable that is an expression.
func (j *reader) isChanged(expression string) bool {
	for name := range j.changes {
		if j.variables[name] == expression {
			return true
		}
	}
	return false
}

// tree reads a hashTree: elements, each followed by the tree below it.
func (j *reader) tree(tree *element, s scope, grouped bool, depth int) {
	if tree.name != "hashTree" || depth > draft.MaxDepth {
		return
	}
	s = j.within(tree, s)
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

// within returns the scope in a tree: the one around it with the tree's own settings.
func (j *reader) within(tree *element, around scope) scope {
	own := scope{once: around.once}
	for _, e := range tree.children {
		if e.attrs["enabled"] == "false" {
			continue
		}
		switch e.name {
		case "ConfigTestElement":
			if e.attrs["guiclass"] == "HttpDefaultsGui" {
				own.defaults = append(own.defaults, e)
			}
		case "HeaderManager":
			own.headers = append(own.headers, e)
		case "CookieManager":
			j.cookies(e)
			own.cookies = append(own.cookies, e)
		case "ResponseAssertion", "JSONPathAssertion", "RegexExtractor", "JSONPostProcessor", "BoundaryExtractor", "ConstantTimer", "UniformRandomTimer":
			own.after = append(own.after, e)
		}
	}
	own.defaults = append(own.defaults, around.defaults...)
	own.headers = append(own.headers, around.headers...)
	own.cookies = append(own.cookies, around.cookies...)
	own.after = append(slices.Clone(around.after), own.after...)
	return own
}

// cookies has users keep cookies, as a manager says.
func (j *reader) cookies(e *element) {
	if e.prop("CookieManager.policy") == "ignoreCookies" {
		j.d.Leave(e.line, e.title(), "it ignores cookies that the server sets", "")
		return
	}
	if j.d.Scenario.Cookies = true; e.prop("CookieManager.clearEachIteration") == "true" {
		j.d.Leave(e.line, e.title(), "cookies stay until the user ends, and not until the iteration does", "")
	}
}

// element carries an element over, with everything below it.
func (j *reader) element(e, below *element, s scope, grouped bool, depth int) {
	d := j.d
	if j.visited++; j.visited > maxElements {
		d.Leave(0, "loops", fmt.Sprintf("the plan has more than %d elements when they are written out", maxElements), "import a part of the plan")
		return
	}
	switch e.name {
	case "TestPlan":
		j.tree(below, s, grouped, depth+1)
	case "SetupThreadGroup", "PostThreadGroup":
		j.groups++
		if d.Part = scenario.OfSetup; e.name == "PostThreadGroup" {
			d.Part = scenario.OfTeardown
		}
		if threads := j.number(e, "ThreadGroup.num_threads", e.prop("ThreadGroup.num_threads"), 1); threads > 1 {
			d.Leave(e.line, e.title()+" ("+e.name+")", "its requests are sent once, and not by several threads", "")
		}
		j.tree(below, s, false, depth+1)
		d.Part = scenario.OfUsers
	case "HTTPSamplerProxy", "HTTPSampler", "HTTPSampler2":
		own := j.within(below, s)
		for _, c := range below.children {
			if c.attrs["enabled"] != "false" && !slices.Contains(strings.Fields(settings+" hashTree"), c.name) {
				j.element(c, &element{}, own, grouped, depth+1)
			}
		}
		j.sampler(e, own)
	case "GenericController", "TransactionController", "RecordingController":
		j.tree(below, s, grouped, depth+1)
	case "OnceOnlyController":
		if s.once = true; len(d.Steps()) > 0 && !d.Steps()[len(d.Steps())-1].Once {
			d.Leave(e.line, e.title(), "steps that are carried out once come before all others", "")
		}
		j.tree(below, s, grouped, depth+1)
	case "LoopController":
		times, err := strconv.Atoi(d.KnownHost(j.text(e.line, e.prop("LoopController.loops"))))
		if err != nil || times < 0 || times > maxRepeated {
			d.Leave(e.line, e.title(), fmt.Sprintf("a loop is written out, up to %d times: this one once", maxRepeated), "give the experiment more steps, or a flow of its own")
			times = 1
		}
		for range times {
			if j.visited > maxElements {
				break
			}
			j.tree(below, s, grouped, depth+1)
		}
	case "RandomController", "RandomOrderController", "InterleaveControl", "SwitchController", "ThroughputController", "IfController", "WhileController", "ForeachController", "CriticalSectionController", "RunTime":
		d.Leave(e.line, e.title()+" ("+e.name+")", "what is below it is carried over as it stands there", "steps can have weights and conditions (weight, if)")
		j.tree(below, s, grouped, depth+1)
	case "ResultCollector", "BackendListener", "Summariser", "DebugSampler", "ResultAction", "ProxyControl": // they send nothing
	case "DurationAssertion":
		d.Leave(e.line, e.title(), "a time is no matter of one response", "a threshold is, such as 'response.p95 < 500ms'")
	case "ConstantThroughputTimer", "PreciseThroughputTimer":
		d.Leave(e.line, e.title(), "users are not slowed down to a rate", "load.open.rate is a rate of iterations")
	case "CacheManager":
		d.Leave(e.line, e.title(), "dyno keeps no responses: each one is requested again", "")
	default:
		switch {
		case isGroup(e):
			j.group(e, below, s, grouped, depth)
		case !slices.Contains(strings.Fields(settings), e.name):
			d.Leave(e.line, e.title()+" ("+e.name+")", "dyno has no such element", "")
			j.tree(below, s, grouped, depth+1)
		}
	}
}

// settings are the elements that within and declare take.
const settings = `ConfigTestElement HeaderManager CookieManager Arguments CSVDataSet ResponseAssertion JSONPathAssertion
	RegexExtractor JSONPostProcessor BoundaryExtractor ConstantTimer UniformRandomTimer`

// group carries a group of threads over: a flow, if there are several.
func (j *reader) group(e, below *element, s scope, grouped bool, depth int) {
	d := j.d
	number := func(name string, otherwise float64) float64 { return j.number(e, name, e.prop(name), otherwise) }
	j.groups++
	segments := j.segmentsOf(e)
	if e.name != "ThreadGroup" && len(segments) == 0 {
		d.Leave(e.line, e.title()+" ("+e.name+")", "dyno does not know the load of such a group: one user sends its requests", "load.closed.connections has more users, and load.stages changes a rate")
	}
	threads := number("ThreadGroup.num_threads", 1)
	if len(segments) > 0 {
		threads = float64(most(segments))
	}
	threads = min(max(threads, 1), plan.MaxUsers)
	if grouped {
		name := draft.Name(e.title())
		taken := func(f scenario.Flow) bool { return f.Name == name }
		for slices.ContainsFunc(d.Scenario.Flows, taken) || name == "" {
			name += "2"
		}
		d.AddFlow(name, threads)
	}
	before, all := d.CountRepeated(), len(d.Steps())
	j.tree(below, s, grouped, depth+1)
	if grouped && len(d.Steps()) == 0 {
		d.DropFlow()
		return
	}
	j.threads += int(threads)
	if delay := number("ThreadGroup.delay", 0); delay > 0 {
		d.Leave(e.line, e.title(), "the load begins at once", "")
	}
	if action := e.prop("ThreadGroup.on_sample_error"); action != "" && action != "continue" {
		d.Leave(e.line, e.title(), "a user goes on after a failed request, and the plan says "+action, "")
	}
	if len(segments) > 0 {
		j.segments, j.window = append(j.segments, segments...), max(j.window, lastOf(segments))
		return
	}
	ramp, end := time.Duration(0), forGood
	if threads > 1 {
		ramp = draft.InSeconds(number("ThreadGroup.ramp_time", 0))
	}
	if ramp > 0 {
		j.ramps = append(j.ramps, rampUp{e.line, e.title(), threads, ramp})
	}
	loops := number("ThreadGroup.loops", 1)
	if main := e.find("ThreadGroup.main_controller"); main != nil {
		if n, err := strconv.ParseFloat(d.KnownHost(j.text(e.line, main.prop("LoopController.loops"))), 64); err == nil {
			loops = n
		}
		if main.prop("LoopController.continue_forever") == "true" && loops < 0 {
			loops = -1
		}
	}
	switch duration := number("ThreadGroup.duration", 0); {
	case e.prop("ThreadGroup.scheduler") == "true" && duration > 0:
		end = draft.InSeconds(duration)
		j.window = max(j.window, end)
	case loops > 0:
		repeated := d.CountRepeated() - before
		j.requests += threads * (loops*float64(repeated) + float64(len(d.Steps())-all-repeated))
	default:
		d.Leave(e.line, e.title(), "it goes on until somebody stops it: here for 10 s", "load.window says how long")
	}
	whole := segment{0, ramp, 0, threads}
	j.segments = append(j.segments, segment{0, min(ramp, end), 0, whole.at(min(ramp, end))}, segment{ramp, max(ramp, end), threads, threads})
}

// after carries over what is looked at in a response, or the pause of a sampler.
func (j *reader) after(e *element, step *scenario.Step) {
	d := j.d
	milliseconds := func(name string) time.Duration {
		n, err := strconv.ParseFloat(d.KnownHost(j.text(e.line, e.prop(name))), 64)
		if err != nil || n < 0 || n > draft.MaxThink.Seconds()*1000 {
			d.Leave(e.line, e.title(), fmt.Sprintf("%q is no time in milliseconds, up to an hour", e.prop(name)), "give the step think")
			return 0
		}
		return draft.InSeconds(n / 1000)
	}
	switch e.name {
	case "ConstantTimer":
		d.AddPause(pace.Think{Constant: milliseconds("ConstantTimer.delay")})
	case "UniformRandomTimer":
		from := milliseconds("ConstantTimer.delay")
		d.AddPause(pace.Think{Uniform: &pace.Span{From: from, To: from + milliseconds("RandomTimer.range")}})
	case "ResponseAssertion":
		j.assertion(e, step)
	case "JSONPathAssertion":
		a := scenario.Assertion{JSON: e.prop("JSON_PATH"), Exists: true}
		if e.prop("JSONVALIDATION") == "true" {
			text := d.Template(j.text(e.line, e.prop("EXPECTED_VALUE")))
			if a.Exists = false; e.prop("ISREGEX") == "true" {
				a.Matches = e.prop("EXPECTED_VALUE")
			} else {
				a.Equals = &text
			}
		}
		if e.prop("INVERT") == "true" || !singular().MatchString(a.JSON) {
			d.Leave(e.line, e.title(), "an assertion is about one value that is there", "assert of a step has paths such as $.items[0].id")
			return
		}
		step.Assert = append(step.Assert, a)
	case "RegexExtractor":
		x := scenario.Extraction{Pattern: e.prop("RegexExtractor.regex")}
		switch template := e.prop("RegexExtractor.template"); {
		case template == "$0$": // all that matches
			x.Pattern, x.Group = "("+x.Pattern+")", 1
		case oneGroup().MatchString(template):
			if x.Group, _ = strconv.Atoi(strings.Trim(template, "$")); x.Group == 1 { // which has digits alone
				x.Group = 0
			}
		default:
			d.Leave(e.line, e.title(), "a variable has the text of one group, and not "+template, "extract of a step has group")
			return
		}
		_, err := regexp.Compile(x.Pattern)
		if err != nil || e.prop("RegexExtractor.useHeaders") != "false" && e.prop("RegexExtractor.useHeaders") != "" {
			d.Leave(e.line, e.title(), "the expression is not RE2, or not about the content", "extract of a step has pattern and header")
			return
		}
		j.extract(e, step, e.prop("RegexExtractor.refname"), e.prop("RegexExtractor.default"), e.prop("RegexExtractor.match_number"), x)
	case "BoundaryExtractor":
		if where := e.prop("BoundaryExtractor.useHeaders"); where != "false" && where != "" {
			d.Leave(e.line, e.title(), "it is not about the content", "extract of a step has pattern and header")
			return
		}
		j.extract(e, step, e.prop("BoundaryExtractor.refname"), e.prop("BoundaryExtractor.default"), e.prop("BoundaryExtractor.match_number"), scenario.Extraction{
			Pattern: "(?s)" + regexp.QuoteMeta(e.raw("BoundaryExtractor.lboundary")) + "(.*?)" + regexp.QuoteMeta(e.raw("BoundaryExtractor.rboundary")),
		})
	case "JSONPostProcessor":
		names, paths := strings.Split(e.prop("JSONPostProcessor.referenceNames"), ";"), strings.Split(e.prop("JSONPostProcessor.jsonPathExprs"), ";")
		defaults, matches := strings.Split(e.prop("JSONPostProcessor.defaultValues"), ";"), strings.Split(e.prop("JSONPostProcessor.match_numbers"), ";")
		at := func(of []string, i int) string {
			if i < len(of) {
				return of[i]
			}
			return ""
		}
		for i, name := range names {
			if i >= len(paths) || !singular().MatchString(strings.TrimSpace(paths[i])) {
				d.Leave(e.line, e.title()+": "+name, "the path may select several values", "extract of a step has paths such as $.items[0].id")
				continue
			}
			match := cmp.Or(strings.TrimSpace(at(matches, i)), "1")
			if match == "0" { // any of one value
				match = "1"
			}
			j.extract(e, step, strings.TrimSpace(name), at(defaults, i), match, scenario.Extraction{JSON: strings.TrimSpace(paths[i])})
		}
	}
}

// oneGroup matches the templates of one group.
var oneGroup = lazyregexp.New(`^\$\d{1,3}\$$`)

// extract gives a variable of JMeter a value of a response: the first match.
func (j *reader) extract(e *element, step *scenario.Step, name, otherwise, match string, x scenario.Extraction) {
	if j.columns[name] != "" {
		j.d.Leave(e.line, e.title(), name+" is a column of a file: it keeps its value", "give the variable another name")
		return
	}
	if match != "1" {
		j.d.Leave(e.line, e.title(), "the first match is taken, and not the one of number "+cmp.Or(match, "0"), "")
	}
	x.Variable = j.name(name)
	if otherwise != "" {
		x.Default = &otherwise
	} else if value, known := j.values[name]; known {
		x.Keep = true
		j.d.Template(j.d.Variable(e.line, x.Variable, value, value)) // it has this value until a response has another
	}
	j.d.Extract(step, x)
}

// singular matches paths that select one value.
var singular = lazyregexp.New(`^\$(?:\.\w+|\[\d+\]|\['[^'\\]+'\])+$`)

// oneStatus matches a status, or those that begin with a digit.
var oneStatus = lazyregexp.New(`^[1-5](?:\d\d|xx)$`)

// The bits of a ResponseAssertion's type.
const (
	testMatch  = 1
	testNot    = 4
	testEquals = 8
	testText   = 16
	testOr     = 32
)

// assertion makes expectations of a ResponseAssertion.
func (j *reader) assertion(e *element, step *scenario.Step) {
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
	if scope := e.prop("Assertion.scope"); scope != "" && scope != "all" && scope != "parent" {
		d.Leave(e.line, e.title(), "an assertion is about the response itself", "")
		return
	}
	if e.prop("Assertion.assume_success") == "true" && step.Status == "" {
		step.Status = "100-599" // JMeter takes no status for an error then
	}
	where := e.prop("Assertion.test_field")
	if kind&testNot != 0 || where != "Assertion.response_code" && (kind&testOr != 0 && len(texts) > 1 || where != "Assertion.response_data") {
		d.Leave(e.line, e.title(), "an assertion is about what the status is, or what the content is or contains", "assert of a step has more than that")
		return
	}
	if where == "Assertion.response_code" {
		for i, text := range texts {
			text = d.KnownHost(j.text(e.line, text))
			if kind&(testEquals|testText) == 0 {
				text = strings.NewReplacer(`\d`, "x", "[0-9]", "x", ".", "x").Replace(strings.TrimSuffix(strings.TrimPrefix(text, "^"), "$"))
			}
			texts[i] = text
		}
		if slices.ContainsFunc(texts, func(text string) bool { return !oneStatus().MatchString(text) }) || len(texts) == 0 || len(texts) > 1 && kind&testOr == 0 {
			d.Leave(e.line, e.title(), "a status is not a number", "status of a step names the expected ones, such as 2xx")
			return
		}
		step.Status = strings.Join(texts, ", ")
		return
	}
	for _, text := range texts {
		quoted := d.Template(j.text(e.line, text))
		switch {
		case kind&testEquals != 0:
			step.Assert = append(step.Assert, scenario.Assertion{Equals: &quoted})
		case kind&testText != 0:
			step.Assert = append(step.Assert, scenario.Assertion{Contains: quoted})
		default:
			if kind&testMatch != 0 {
				text = `^(?s:` + text + `)$`
			}
			if _, err := regexp.Compile(text); err != nil || strings.Contains(text, "${") {
				d.Leave(e.line, e.title(), "the expression is not RE2", "assert of a step has matches")
				continue
			}
			step.Assert = append(step.Assert, scenario.Assertion{Matches: text})
		}
	}
}
