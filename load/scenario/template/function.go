package template

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"dyno/internal/nearest"
)

// maxRandomString bounds the argument of random_string.
const maxRandomString = 64 << 10

// maxLater bounds the second argument of timestamp, in nanoseconds: the sum with the time of this century has 64 bits.
const maxLater = int64(100 * 365 * 24 * time.Hour)

const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// A Template is compiled text: what its parts say, one after the other.
type Template struct {
	parts      []part
	fresh, raw bool
}

// Fresh tells whether the template may say something else each time although no variable
// has changed.
func (t *Template) Fresh() bool { return t.fresh }

// Raw tells whether variables or choices stand in the template as they are, so that it may
// hold any bytes.
func (t *Template) Raw() bool { return t.raw }

// A Piece is text that stands in a template, or a place which varies.
type Piece struct {
	Text   string
	Varies bool
}

// Pieces returns the pieces of the template in their order. No two texts follow each other.
func (t *Template) Pieces() (pieces []Piece) {
	for i := range t.parts {
		pieces = append(pieces, Piece{t.parts[i].text, t.parts[i].op != literal})
	}
	return pieces
}

// Constant returns what the template says if that is the same each time; else "" and true.
func (t *Template) Constant() (text string, varies bool) {
	switch {
	case len(t.parts) == 0:
		return "", false
	case len(t.parts) == 1 && t.parts[0].op == literal:
		return t.parts[0].text, false
	}
	return "", true
}

// A part is one piece of a template.
type part struct {
	op     op
	text   string     // of a literal
	index  int        // of a variable's value, of a counter, or how many
	low    int64      // of random_int
	width  uint64     // how many numbers random_int has; 0: 2⁶⁴
	from   []string   // the characters of random_string
	unit   timeUnit   // of timestamp
	later  int64      // of timestamp, in nanoseconds
	choice []Template // of random_choice; for encoding, one after the other; of jwt, the key and the claims
	ofAll  bool       // of iteration: among those of all users
}

type op uint8

const (
	literal op = iota
	variable
	counter
	user
	iteration
	uuid4
	uuid7
	randomInt
	randomString
	randomChoice
	timestamp
	base64Std
	base64URL
	token
	urlEncode
	formEncode
	jsonEscape
)

type timeUnit uint8

const (
	seconds timeUnit = iota
	milliseconds
	microseconds
	nanoseconds
	rfc3339
)

var timeUnits = []string{"s", "ms", "us", "ns", "rfc3339"}

// nanosecondsPer is how many nanoseconds the other units have.
var nanosecondsPer = [...]int64{int64(time.Second), int64(time.Millisecond), int64(time.Microsecond), 1}

// A Function is what the expressions of templates can call.
type Function struct {
	Name      string
	Arguments string // between the parentheses; optional ones in brackets
	Meaning   string
	Example   string // one call, or two where an argument is optional

	least, most int // arguments
	make        func(b *binder, call *node) part
}

// Functions returns the functions of templates, by name. It is no variable, since they refer to it.
func Functions() []Function {
	return []Function{
		{"base64", "text, …", "the texts together in base64 with padding (RFC 4648)", `base64(user, ":", password)`, 1, MaxArguments, encoder(base64Std)},
		{"base64url", "text, …", "the texts together in base64 for URLs, without padding (RFC 4648)", "base64url(name)", 1, MaxArguments, encoder(base64URL)},
		{"column", `"name"`, "a variable whose name is no word", `column("any name")`, 1, 1, (*binder).column},
		{"counter", `["name"]`, "0, 1, 2 …, each number once among all users; a name begins another sequence", `counter() or counter("orders")`, 0, 1, (*binder).counter},
		{"formencode", "text, …", "the texts together as forms encode them: a blank is +, and all but letters, digits, * - . and _ is percent-encoded (URL Standard)", "formencode(name)", 1, MaxArguments, encoder(formEncode)},
		{"iteration", `["all"]`, "the number of the iteration, from 0: among those of the user, or of all users, where each number is there once", `iteration() or iteration("all")`, 0, 1, (*binder).iteration},
		{"json_escape", "text, …", "the texts together as they stand between the quotes of a JSON string", "json_escape(name)", 1, MaxArguments, encoder(jsonEscape)},
		{"jwt", `"algorithm", key, text, …`, "a token (JWT) whose claims are the texts together, a JSON object, signed with the key by HS256, HS384 or HS512 (RFC 7518)", `jwt("HS256", secret, '{"sub":"u1","exp":', timestamp("s", 600), "}")`, 3, MaxArguments, (*binder).jwt},
		{"random_choice", "text, …", "one of the texts", `random_choice("a", "b")`, 1, MaxArguments, (*binder).randomChoice},
		{"random_int", "low, high", "a whole number from low to high, both included", "random_int(1, 100)", 2, 2, (*binder).randomInt},
		{"random_string", `n, ["characters"]`, "n random letters and digits, or n of the characters", `random_string(8) or random_string(8, "abc")`, 1, 2, (*binder).randomString},
		{"timestamp", `["unit"], [later]`, "the Unix time in s (default), ms, us or ns, or the date and time in rfc3339 (UTC, milliseconds); later adds a number of the unit, or of seconds to a date", `timestamp("ms") or timestamp("s", 600)`, 0, 2, (*binder).timestamp},
		{"urlencode", "text, …", "the texts together, percent-encoded but for letters, digits, - . _ and ~ (RFC 3986)", "urlencode(name)", 1, MaxArguments, encoder(urlEncode)},
		{"user", "", "the number of the user, from 1, that no other user has, in no process and on no agent", "user()", 0, 0, func(*binder, *node) part { return part{op: user} }},
		{"uuid", "", "a random UUID (RFC 9562, version 4)", "uuid()", 0, 0, fresh(uuid4)},
		{"uuid7", "", "a UUID that begins with the time (RFC 9562, version 7)", "uuid7()", 0, 0, fresh(uuid7)},
	}
}

func findFunction(name string) (Function, bool) {
	all := Functions()
	i := slices.IndexFunc(all, func(f Function) bool { return f.Name == name })
	if i < 0 {
		return Function{}, false
	}
	return all[i], true
}

func functionNames() (names []string) {
	for _, f := range Functions() {
		names = append(names, f.Name)
	}
	return names
}

// A Scope knows what the names in a text mean.
type Scope interface {
	// Variable finds a variable by its name, which a text uses.
	Variable(name string) (v Variable, found bool)
	// Names lists the variables that a misspelled name could mean.
	Names() []string
	// Counter returns the number of the counter of a name.
	Counter(name string) int
}

// A Variable is what a Scope knows of a name.
type Variable struct {
	Number int      // in the Scope
	Varies bool     // users have values of their own
	Value  int      // the number of the value in a State, if it varies
	Text   string   // the value, if it does not vary
	Rivals []string // the names to choose from, if the name could mean several variables
}

// A Use is a variable in a text.
type Use struct {
	Variable int
	Offset   int
	Optional bool // the variable need not have a value
}

// Compile makes a template of a text, in which the scope tells what names mean. It returns
// the variables that vary in it, and what is wrong with the text.
func Compile(text string, scope Scope) (Template, []Use, []Fault) {
	nodes, fault := parse(text)
	if fault != nil {
		return Template{}, nil, []Fault{*fault}
	}
	b := binder{scope: scope}
	return b.bind(nodes), b.uses, b.faults
}

// A binder turns the nodes of one text into parts.
type binder struct {
	scope  Scope
	uses   []Use
	faults []Fault
	t      *Template
	bare   bool // there are no braces around expressions
}

// bind makes a template of nodes and reports what is wrong with names and arguments.
func (b *binder) bind(nodes []node) (t Template) {
	outer := b.t
	b.t = &t
	for i := range nodes {
		p := b.part(&nodes[i])
		if last := len(t.parts) - 1; p.op == literal && last >= 0 && t.parts[last].op == literal {
			t.parts[last].text += p.text
			continue
		}
		if p.op != literal || p.text != "" {
			t.parts = append(t.parts, p)
		}
	}
	if b.t = outer; outer != nil {
		outer.fresh = outer.fresh || t.fresh
	}
	return t
}

func (b *binder) fault(offset int, problem, hint string) {
	b.faults = append(b.faults, Fault{offset, problem, hint})
}

func (b *binder) part(n *node) part {
	switch n.kind {
	case nameNode:
		return b.variable(n.text, n.offset)
	case callNode:
		return b.call(n)
	default:
		return part{op: literal, text: n.text}
	}
}

// variable makes the part that says a variable's value.
func (b *binder) variable(name string, offset int) part {
	v, found := b.scope.Variable(name)
	switch {
	case !found:
		problem, hint := b.unknown(name)
		b.fault(offset, problem, hint)
		return part{}
	case len(v.Rivals) > 0:
		b.fault(offset, fmt.Sprintf("%q is a column of several feeds", name), "want one of "+strings.Join(v.Rivals, ", "))
		return part{}
	case !v.Varies:
		return part{op: literal, text: v.Text}
	}
	b.t.raw = true
	b.uses = append(b.uses, Use{Variable: v.Number, Offset: offset})
	return part{op: variable, index: v.Value}
}

// unknown says that there is no variable of a name.
func (b *binder) unknown(name string) (problem, hint string) {
	if f, found := findFunction(name); found {
		return fmt.Sprintf("%q is a function", name), "want it as in " + f.Example
	}
	hint = nearest.Hint(name, b.scope.Names())
	if _, found := nearest.Find(name, b.scope.Names()); !found && !b.bare { // perhaps no expression was meant
		hint = strings.TrimPrefix(hint+`; write {{ "{{" }} for the braces themselves`, "; ")
	}
	return fmt.Sprintf("no variable %q", nearest.Clip(name)), hint
}

func (b *binder) call(n *node) part {
	f, found := findFunction(n.text)
	switch {
	case !found:
		b.noFunction(n)
	case len(n.args) < f.least || len(n.args) > f.most:
		b.fault(n.offset, fmt.Sprintf("%s with %d arguments", f.Name, len(n.args)), "want it as in "+f.Example)
	default:
		return f.make(b, n)
	}
	return part{}
}

// noFunction says that there is no function of a name.
func (b *binder) noFunction(call *node) {
	if _, found := b.scope.Variable(call.text); found {
		b.fault(call.offset, fmt.Sprintf("%q is a variable", call.text), fmt.Sprintf("want it without parentheses: {{ %s }}", call.text))
		return
	}
	b.fault(call.offset, fmt.Sprintf("no function %q", nearest.Clip(call.text)), nearest.Hint(call.text, functionNames()))
}

// text returns what an argument says if it is a string.
func (b *binder) text(call *node, i int) (string, bool) {
	if n := call.args[i]; n.kind != literalNode {
		f, _ := findFunction(call.text)
		b.fault(n.offset, fmt.Sprintf("argument %d of %s: want a string in quotes", i+1, call.text), "as in "+f.Example)
		return "", false
	}
	return call.args[i].text, true
}

// whole returns an argument that is a number from low to high.
func (b *binder) whole(call *node, i int, low, high int64) (int64, bool) {
	n := call.args[i]
	f, _ := findFunction(call.text)
	switch {
	case n.kind != numberNode:
		b.fault(n.offset, fmt.Sprintf("argument %d of %s: want a number", i+1, call.text), "as in "+f.Example)
	case n.number < low || n.number > high:
		b.fault(n.offset, fmt.Sprintf("argument %d of %s: %d", i+1, call.text, n.number), fmt.Sprintf("want %d to %d", low, high))
	default:
		return n.number, true
	}
	return 0, false
}

func fresh(o op) func(b *binder, call *node) part {
	return func(b *binder, _ *node) part {
		b.t.fresh = true
		return part{op: o}
	}
}

func encoder(o op) func(b *binder, call *node) part {
	return func(b *binder, call *node) part {
		p := part{op: o, choice: []Template{b.bind(call.args)}}
		// JSON leaves spaces and letters of any script as they are.
		b.t.raw = b.t.raw || o == jsonEscape
		return p
	}
}

func (b *binder) column(call *node) part {
	if name, ok := b.text(call, 0); ok {
		return b.variable(name, call.args[0].offset)
	}
	return part{}
}

func (b *binder) counter(call *node) part {
	name := ""
	if len(call.args) > 0 {
		var ok bool
		if name, ok = b.text(call, 0); !ok {
			return part{}
		}
	}
	b.t.fresh = true
	return part{op: counter, index: b.scope.Counter(name)}
}

func (b *binder) iteration(call *node) part {
	p := part{op: iteration, ofAll: len(call.args) > 0}
	if p.ofAll {
		if of, ok := b.text(call, 0); ok && of != "all" {
			b.fault(call.args[0].offset, fmt.Sprintf("no iteration of %q", nearest.Clip(of)), `want "all", or nothing for those of the user`)
		}
	}
	return p
}

func (b *binder) randomChoice(call *node) part {
	p := part{op: randomChoice}
	for i := range call.args {
		t := b.bind(call.args[i : i+1])
		p.choice = append(p.choice, t)
	}
	b.t.fresh, b.t.raw = true, true
	return p
}

func (b *binder) randomInt(call *node) part {
	const most = 1<<63 - 1
	low, lowOK := b.whole(call, 0, -most-1, most)
	high, highOK := b.whole(call, 1, -most-1, most)
	if lowOK && highOK && low > high {
		b.fault(call.offset, fmt.Sprintf("random_int from %d to %d", low, high), "want the smaller number first")
	}
	b.t.fresh = true
	return part{op: randomInt, low: low, width: uint64(high) - uint64(low) + 1}
}

func (b *binder) randomString(call *node) part {
	n, _ := b.whole(call, 0, 1, maxRandomString)
	alphabet := alphanumeric
	if len(call.args) > 1 {
		given, ok := b.text(call, 1)
		if ok && given == "" {
			b.fault(call.args[1].offset, "no characters to choose from", "want at least one")
		}
		alphabet = given
		b.t.raw = true
	}
	b.t.fresh = true
	return part{op: randomString, index: int(n), from: strings.Split(alphabet, "")}
}

func (b *binder) jwt(call *node) part {
	p := part{op: token, choice: []Template{b.bind(call.args[1:2]), b.bind(call.args[2:])}}
	name, ok := b.text(call, 0)
	if p.index = slices.Index(algorithmNames, name); ok && p.index < 0 {
		b.fault(call.args[0].offset, fmt.Sprintf("no algorithm %q", nearest.Clip(name)), nearest.Hint(name, algorithmNames))
	}
	return p
}

func (b *binder) timestamp(call *node) part {
	unit := 0
	if len(call.args) > 0 {
		name, ok := b.text(call, 0)
		if unit = slices.Index(timeUnits, name); ok && unit < 0 {
			b.fault(call.args[0].offset, fmt.Sprintf("no unit %q of time", nearest.Clip(name)), nearest.Hint(name, timeUnits))
		}
	}
	p := part{op: timestamp, unit: timeUnit(max(0, unit))}
	if len(call.args) > 1 {
		of := nanosecondsPer[p.unit%rfc3339]
		later, _ := b.whole(call, 1, -maxLater/of, maxLater/of)
		p.later = later * of
	}
	b.t.fresh = true
	return p
}
