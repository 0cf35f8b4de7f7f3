package imports

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"dyno/load/scenario/template"
)

// A jmeterPart is a part of a text: as it stands, or a variable or function that JMeter replaces.
type jmeterPart struct {
	text  string // literal, or what is replaced as it stands there
	name  string // of the variable or function; "": text is literal
	args  []string
	calls bool // it is a function
}

// jmeterParts divides a text as JMeter's parser does. Backslashes escape in arguments of functions, and in other texts only
// if something is replaced in them.
func jmeterParts(text string, argument bool) []jmeterPart {
	var parts []jmeterPart
	var literal strings.Builder
	replaced := false
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			if i++; !strings.ContainsRune(`$,\`, rune(text[i])) {
				literal.WriteByte('\\')
			}
			literal.WriteByte(text[i])
		case strings.HasPrefix(text[i:], "${"):
			part, length := jmeterReplaced(text[i:])
			if length == 0 {
				literal.WriteByte(text[i])
				continue
			}
			if literal.Len() > 0 {
				parts = append(parts, jmeterPart{text: literal.String()})
				literal.Reset()
			}
			parts, replaced = append(parts, part), true
			i += length - 1
		default:
			literal.WriteByte(text[i])
		}
	}
	if !replaced && !argument {
		return []jmeterPart{{text: text}}
	}
	return append(parts, jmeterPart{text: literal.String()})
}

// jmeterReplaced reads what begins a text with ${. The length is 0 if JMeter takes it for text.
func jmeterReplaced(text string) (part jmeterPart, length int) {
	for i := len("${"); i < len(text); i++ {
		switch text[i] {
		case '(':
			name := text[len("${"):i]
			if !jmeterFunctions[name] {
				continue
			}
			args, end := jmeterArgs(text[i+1:])
			if end += i + 1; end < len(text) && text[end] == '}' {
				return jmeterPart{text[:end+1], name, args, true}, end + 1
			}
			return part, 0
		case '}':
			name := text[len("${"):i]
			return jmeterPart{text[:i+1], name, nil, jmeterFunctions[name]}, i + 1
		}
	}
	return part, 0
}

// jmeterArgs reads arguments up to the closing parenthesis, and returns the offset after it.
func jmeterArgs(text string) (args []string, end int) {
	var arg strings.Builder
	braces, parens := 0, 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text):
			arg.WriteByte(c)
			i++
		case c == ',' && braces == 0:
			args = append(args, arg.String())
			arg.Reset()
			continue
		case c == ')' && braces == 0 && parens == 0:
			if arg.Len() > 0 || len(args) > 0 {
				args = append(args, arg.String())
			}
			return args, i + 1
		case c == '{' && i > 0 && text[i-1] == '$':
			braces++
		case c == '}' && braces > 0:
			braces--
		case c == ')' && braces == 0:
			parens--
		case c == '(' && braces == 0:
			parens++
		}
		arg.WriteByte(text[i])
	}
	return nil, len(text)
}

// jmeterFunctions are the functions that come with JMeter. Other names in braces are variables.
var jmeterFunctions = names(`__BeanShell __changeCase __char __counter __CSVRead __dateTimeConvert __digest __doubleSum __escapeHtml
	__escapeOroRegexpChars __escapeXml __eval __evalVar __FileToString __groovy __intSum __isPropDefined __isVarDefined __javaScript
	__jexl2 __jexl3 __log __logn __longSum __machineIP __machineName __P __property __Random __RandomDate __RandomFromMultipleVars
	__RandomString __regexFunction __samplerName __setProperty __split __StringFromFile __StringToFile __TestPlanName __threadGroupName
	__threadNum __time __timeShift __unescape __unescapeHtml __urldecode __urlencode __UUID __V __XPath`)

func names(text string) map[string]bool {
	all := map[string]bool{}
	for name := range strings.FieldsSeq(text) {
		all[name] = true
	}
	return all
}

// text puts marks in the place of variables and functions.
func (j *jmeter) text(line int, text string) string { return j.textWhere(line, text, nil) }

// textWhere puts marks in the place of variables and functions. Where a variable never changes, and inline is true of its
// value, the value itself stands in the text.
func (j *jmeter) textWhere(line int, text string, inline func(value string) bool) string {
	return j.join(line, jmeterParts(text, false), inline)
}

// always has all values that never change stand in a text.
func always(string) bool { return true }

// join returns the text that has the parts.
func (j *jmeter) join(line int, parts []jmeterPart, inline func(value string) bool) string {
	var b strings.Builder
	for _, p := range parts {
		if b.Len() > template.MaxText { // variables within variables make long texts of short ones
			j.d.leave(line, "a text", fmt.Sprintf("it has more than %d bytes, and is cut off", template.MaxText), "")
			break
		}
		switch {
		case p.name == "":
			b.WriteString(p.text)
		case p.calls:
			for i, arg := range p.args {
				p.args[i] = j.join(line, jmeterParts(arg, true), always)
			}
			b.WriteString(j.call(line, p))
		default:
			b.WriteString(j.variable(line, p.name, inline))
		}
	}
	return b.String()
}

// variable returns what stands in a text for a variable of JMeter.
func (j *jmeter) variable(line int, name string, inline func(value string) bool) string {
	value, known := j.values[name]
	if j.declaring {
		if known {
			return value
		}
		return "${" + name + "}"
	}
	if expression, is := j.columns[name]; is {
		return j.d.mark(expression)
	}
	switch {
	case j.changes[name] && (known || j.d.extracted[j.name(name)]):
		return j.d.variable(line, j.name(name), value, value)
	case !known:
		mark, own := j.d.variable(line, j.name(name), "", ""), j.d.variables[j.name(name)]
		own.otherwise = "${" + name + "}" // which is what JMeter sends
		j.d.variables[j.name(name)] = own
		return mark
	case value == "", strings.Contains(value, markBegin), inline != nil && inline(value):
		return value
	}
	return j.d.variable(line, j.name(name), value, value)
}

// name returns the variable that stands for one of JMeter, whose names have any characters.
func (j *jmeter) name(name string) string {
	if known, is := j.variables[name]; is {
		return known
	}
	made := variableName(name)
	for n := 2; j.taken[made]; n++ {
		made = variableName(fmt.Sprintf("%s_%d", name, n))
	}
	j.variables[name], j.taken[made] = made, true
	return made
}

// call returns what stands in a text for a call of a function.
func (j *jmeter) call(line int, p jmeterPart) string {
	d, args := j.d, p.args
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	keep := func(i int) { // the result in a variable
		if arg(i) != "" {
			d.leave(line, p.text, "the variable "+arg(i)+" does not keep what the function says", "")
		}
	}
	switch p.name {
	case "__UUID":
		return d.mark("uuid()")
	case "__Random":
		low, err := strconv.ParseInt(strings.TrimSpace(arg(0)), 10, 64)
		high, err2 := strconv.ParseInt(strings.TrimSpace(arg(1)), 10, 64)
		if err == nil && err2 == nil && low <= high {
			keep(2)
			return d.mark(fmt.Sprintf("random_int(%d, %d)", low, high))
		}
	case "__time":
		switch arg(0) {
		case "":
			keep(1)
			return d.mark(`timestamp("ms")`)
		case "/1000":
			keep(1)
			return d.mark("timestamp()")
		}
	case "__counter":
		d.leave(line, p.text, "dyno counts from 0 among all users, and JMeter from 1", "counter() of a template counts")
		return d.mark("counter()")
	case "__P", "__property":
		otherwise, name := arg(1), arg(0)
		if p.name == "__property" {
			keep(1)
			if otherwise = arg(2); len(args) < 3 {
				otherwise = name
			}
		} else if len(args) < 2 {
			otherwise = "1"
		}
		return otherwise
	case "__RandomString":
		if n, err := strconv.Atoi(arg(0)); err == nil && n > 0 && !strings.Contains(arg(1), markBegin) {
			keep(2)
			if arg(1) != "" {
				return d.mark(fmt.Sprintf("random_string(%d, %s)", n, arguments(d, arg(1))[0]))
			}
			if n <= maxInline {
				d.leave(line, p.text, "it is of letters and digits here, and of any characters in JMeter", `random_string(8, "abc") has characters`)
				return d.mark(fmt.Sprintf("random_string(%d)", n))
			}
		}
	case "__intSum", "__longSum":
		if sum, is := jmeterSum(args); is {
			return sum
		}
	case "__V":
		if _, known := j.values[arg(0)]; !known && !j.changes[arg(0)] && j.columns[arg(0)] == "" && !strings.Contains(arg(0), markBegin) {
			if len(args) > 1 {
				return arg(1)
			}
			return arg(0)
		} else if !strings.Contains(arg(0), markBegin) {
			return j.variable(line, arg(0), nil)
		}
	case "__eval":
		return arg(0)
	case "__samplerName":
		return j.sampled
	case "__urlencode":
		if all := arguments(d, arg(0)); strings.Contains(arg(0), markBegin) {
			return d.mark("formencode(" + strings.Join(all, ", ") + ")")
		}
		return formEncode(arg(0))
	case "__urldecode":
		if decoded, err := url.QueryUnescape(arg(0)); err == nil && !strings.Contains(arg(0), markBegin) {
			return decoded
		}
	}
	d.leave(line, p.text, "dyno has no such function: it is sent as it stands there", "dyno help templates lists what there is")
	return p.text
}

// jmeterSum returns the sum of arguments, if all are whole numbers.
func jmeterSum(args []string) (sum string, is bool) {
	total := int64(0)
	for _, text := range args {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
		if err != nil {
			return "", false
		}
		total += n
	}
	return strconv.FormatInt(total, 10), len(args) > 1
}

// formEncode encodes a text as forms do (URL Standard, 5.2). Marks stay, as encoded ones.
func formEncode(text string) string {
	return strings.NewReplacer("%2A", "*", "~", "%7E").Replace(url.QueryEscape(text))
}
