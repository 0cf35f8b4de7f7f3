package jmeter

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"dyno/cli/imports/draft"
	"dyno/load/scenario/template"
)

// A textPart is a part of a text: as it stands, or a variable or function that JMeter replaces.
type textPart struct {
	text  string // literal, or what is replaced as it stands there
	name  string // of the variable or function; "": text is literal
	args  []string
	calls bool // it is a function
}

// textParts divides a text as JMeter's parser does. Backslashes escape in arguments of functions, and in other texts only
// if something is replaced in them.
func textParts(text string, argument bool) []textPart {
	var parts []textPart
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
			part, length := replacedPart(text[i:])
			if length == 0 {
				literal.WriteByte(text[i])
				continue
			}
			if literal.Len() > 0 {
				parts = append(parts, textPart{text: literal.String()})
				literal.Reset()
			}
			parts, replaced = append(parts, part), true
			i += length - 1
		default:
			literal.WriteByte(text[i])
		}
	}
	if !replaced && !argument {
		return []textPart{{text: text}}
	}
	return append(parts, textPart{text: literal.String()})
}

// replacedPart reads what begins a text with ${. The length is 0 if JMeter takes it for text.
func replacedPart(text string) (part textPart, length int) {
	for i := len("${"); i < len(text); i++ {
		switch text[i] {
		case '(':
			name := text[len("${"):i]
			if !functions[name] {
				continue
			}
			args, end := callArguments(text[i+1:])
			if end += i + 1; end < len(text) && text[end] == '}' {
				return textPart{text[:end+1], name, args, true}, end + 1
			}
			return part, 0
		case '}':
			name := text[len("${"):i]
			return textPart{text[:i+1], name, nil, functions[name]}, i + 1
		}
	}
	return part, 0
}

// callArguments reads arguments up to the closing parenthesis, and returns the offset after it.
func callArguments(text string) (args []string, end int) {
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

// functions are the functions that come with JMeter. Other names in braces are variables.
var functions = names(`__BeanShell __changeCase __char __counter __CSVRead __dateTimeConvert __digest __doubleSum __escapeHtml
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
func (j *reader) text(line int, text string) string { return j.textWhere(line, text, nil) }

// textWhere puts marks in the place of variables and functions. Where a variable never changes, and inline is true of its
// value, the value itself stands in the text.
func (j *reader) textWhere(line int, text string, inline func(value string) bool) string {
	return j.join(line, textParts(text, false), inline)
}

// always has all values that never change stand in a text.
func always(string) bool { return true }

// join returns the text that has the parts.
func (j *reader) join(line int, parts []textPart, inline func(value string) bool) string {
	var b strings.Builder
	for _, p := range parts {
		if b.Len() > template.MaxText { // variables within variables make long texts of short ones
			j.d.Leave(line, "a text", fmt.Sprintf("it has more than %d bytes, and is cut off", template.MaxText), "")
			break
		}
		switch {
		case p.name == "":
			b.WriteString(p.text)
		case p.calls:
			for i, arg := range p.args {
				p.args[i] = j.join(line, textParts(arg, true), always)
			}
			b.WriteString(j.call(line, p))
		default:
			b.WriteString(j.variable(line, p.name, inline))
		}
	}
	return b.String()
}

// variable returns what stands in a text for a variable of JMeter.
func (j *reader) variable(line int, name string, inline func(value string) bool) string {
	value, known := j.values[name]
	if j.declaring {
		if known {
			return value
		}
		return "${" + name + "}"
	}
	if expression, is := j.columns[name]; is {
		return j.d.Mark(expression)
	}
	switch {
	case j.changes[name] && (known || j.d.Extracted[j.name(name)]):
		return j.d.Variable(line, j.name(name), value, value)
	case !known:
		return j.d.UnknownVariable(line, j.name(name), "${"+name+"}") // which is what JMeter sends
	case value == "", draft.Varies(value), inline != nil && inline(value):
		return value
	}
	return j.d.Variable(line, j.name(name), value, value)
}

// name returns the variable that stands for one of JMeter, whose names have any characters.
func (j *reader) name(name string) string {
	if known, is := j.variables[name]; is {
		return known
	}
	made := draft.VariableName(name)
	for n := 2; j.taken[made] || j.d.Extracted[made]; n++ {
		made = draft.VariableName(fmt.Sprintf("%s_%d", name, n))
	}
	j.variables[name], j.taken[made] = made, true
	return made
}

// call returns what stands in a text for a call of a function.
func (j *reader) call(line int, p textPart) string {
	d, args := j.d, p.args
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	keep := func(i int) { // the result in a variable
		if arg(i) != "" {
			d.Leave(line, p.text, "the variable "+arg(i)+" does not keep what the function says", "")
		}
	}
	switch p.name {
	case "__UUID":
		return d.Mark("uuid()")
	case "__Random":
		low, err := strconv.ParseInt(strings.TrimSpace(arg(0)), 10, 64)
		high, err2 := strconv.ParseInt(strings.TrimSpace(arg(1)), 10, 64)
		if err == nil && err2 == nil && low <= high {
			keep(2)
			return d.Mark(fmt.Sprintf("random_int(%d, %d)", low, high))
		}
	case "__time":
		switch arg(0) {
		case "":
			keep(1)
			return d.Mark(`timestamp("ms")`)
		case "/1000":
			keep(1)
			return d.Mark("timestamp()")
		}
	case "__counter":
		d.Leave(line, p.text, "dyno counts from 0 among all users, and JMeter from 1", "counter() of a template counts")
		return d.Mark("counter()")
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
		if n, err := strconv.Atoi(arg(0)); err == nil && n > 0 && !draft.Varies(arg(1)) {
			keep(2)
			if arg(1) != "" {
				return d.Mark(fmt.Sprintf("random_string(%d, %s)", n, d.Arguments(arg(1))[0]))
			}
			if n <= draft.MaxInline {
				d.Leave(line, p.text, "it is of letters and digits here, and of any characters in JMeter", `random_string(8, "abc") has characters`)
				return d.Mark(fmt.Sprintf("random_string(%d)", n))
			}
		}
	case "__intSum", "__longSum":
		if sum, is := sumOf(args); is {
			return sum
		}
	case "__V":
		if _, known := j.values[arg(0)]; !known && !j.changes[arg(0)] && j.columns[arg(0)] == "" && !draft.Varies(arg(0)) {
			if len(args) > 1 {
				return arg(1)
			}
			return arg(0)
		} else if !draft.Varies(arg(0)) {
			return j.variable(line, arg(0), nil)
		}
	case "__eval":
		return arg(0)
	case "__samplerName":
		return j.sampled
	case "__urlencode":
		if all := d.Arguments(arg(0)); draft.Varies(arg(0)) {
			return d.Mark("formencode(" + strings.Join(all, ", ") + ")")
		}
		return draft.FormEncode(arg(0))
	case "__urldecode":
		if decoded, err := url.QueryUnescape(arg(0)); err == nil && !draft.Varies(arg(0)) {
			return decoded
		}
	}
	d.Leave(line, p.text, "dyno has no such function: it is sent as it stands there", "dyno help templates lists what there is")
	return p.text
}

// sumOf returns the sum of arguments, if all are whole numbers.
func sumOf(args []string) (sum string, is bool) {
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
