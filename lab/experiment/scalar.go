package experiment

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/internal/nearest"
	"dyno/internal/units"
)

// forms says how each kind is called in messages, and by tags where the Go type does not
// tell, how a value is written, and what it is in a JSON Schema: a number, or text.
var forms = [...]struct{ article, name, tag, example, json, pattern string }{
	text:     {name: "text"},
	word:     {name: "text", tag: "word"},
	boolean:  {name: "true or false"},
	choice:   {name: "text"},
	integer:  {"a ", "whole number", "", "such as 100", "integer", ""},
	number:   {"a ", "number", "", "such as 0.5", "number", ""},
	duration: {"a ", "duration", "", units.DurationExample, "number", units.DurationPattern},
	rate:     {"a ", "rate", "rate", units.RateExample, "number", units.RatePattern},
	size:     {"a ", "size", "size", units.SizeExample, "number", units.SizePattern},
	share:    {"a ", "share", "share", units.ShareExample, "number", units.SharePattern},
	amount:   {"an ", "amount of CPUs", "amount", "such as 0.5 or 50%", "number", units.SharePattern},
	cpus:     {"a ", "CPU list", "", units.CPUsExample, "integer", units.CPUsPattern},
	list:     {article: "a ", name: "list"},
	mapping:  {article: "a ", name: "mapping"},
}

func (k kind) String() string  { return forms[k].article + forms[k].name }
func (k kind) example() string { return forms[k].example }

// A pattern is what a text has to look like.
type pattern struct {
	expression string
	hint       string // in words
	matches    func(string) bool
}

// patterns are those that tags name.
var patterns = map[string]*pattern{
	"name":     newPattern(`^[A-Za-z0-9._+-]{1,100}$`, "1 to 100 letters, digits and . _ + -"),
	"claim":    newPattern(`^[A-Za-z0-9._+/-]{1,100}$`, "1 to 100 letters, digits and . _ + - /"), // R1.1/pool is a part of R1.1
	"variable": newPattern(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`, "a letter or _, then letters, digits and _"),
	"service":  newPattern(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`, "a letter or _, then letters, digits, _ and -"),
	"env":      newPattern(`^[A-Za-z_][A-Za-z0-9_]*$`, "letters, digits and _, as in PATH"),
	"token":    newPattern("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", "letters, digits and - (RFC 9110 calls it a token)"), // section 5.6.2
	"subtype":  newPattern(`^[a-z0-9][a-z0-9._-]{0,63}$`, "small letters, digits and . _ -"),
	"sysctl":   newPattern(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+$`, "words with dots between, such as net.core.somaxconn"),
	"setting":  newPattern(`^[!-~]([ -~]{0,1000}[!-~])?$`, "printable ASCII, such as 65535 or 4096 131072 6291456"), // no blank at the ends
	"observer": newPattern(`^[a-z][a-z0-9_]{0,31}$`, "a small letter, then small letters, digits and _"),            // the beginning of a column's name
	"metric":   newPattern(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*(\{step=[A-Za-z0-9._+-]{1,100}\})?$`, "such as throughput, response.p99 or response.p99{step=login}"),
}

func newPattern(expression, hint string) *pattern {
	return &pattern{expression, hint, matcher(expression)}
}

// patternNamed returns the pattern that a tag names.
func patternNamed(name string) *pattern {
	p, ok := patterns[name]
	if !ok {
		panic("experiment: there is no pattern " + name)
	}
	return p
}

// nameFault says that something of this pattern cannot be named so; nothing when it can.
func (p *pattern) nameFault(name string) (problem, hint string) {
	if p.matches(name) {
		return "", ""
	}
	return fmt.Sprintf("%q cannot be a name here", clip(name)), p.hint
}

// matcher compiles an expression of this package, which is known to be good.
func matcher(expression string) func(string) bool {
	return regexp.MustCompile(expression).MatchString
}

func parseInteger(s string) (float64, bool) {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil
}

// parseBool reads true or false as YAML 1.2 writes them.
func parseBool(s string) (value, ok bool) {
	switch s {
	case "true", "True", "TRUE":
		return true, true
	case "false", "False", "FALSE":
		return false, true
	}
	return false, false
}

func parseNumber(s string) (float64, bool) {
	if strings.Trim(s, "0123456789.-") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil
}

// auto is what a word that stands for a duration is read as.
const auto = time.Duration(-1)

// read returns the value that text stands for: a string, bool, float64, int64 (of bytes),
// time.Duration or []int. What has the right form may yet be out of bounds. The error is
// what is wrong and, after a semicolon, what would be right.
func (s *spec) read(t string) (value any, err error) {
	ok := true
	switch s.kind {
	case boolean:
		value, ok = parseBool(t)
	case integer:
		value, ok = parseInteger(t)
	case number:
		value, ok = parseNumber(t)
	case duration:
		if slices.Contains(s.choices, t) {
			return auto, nil
		}
		value, err = units.ParseDuration(t)
	case rate:
		value, err = units.ParseRate(t)
	case share:
		value, err = units.ParseShare(t)
	case amount:
		value, err = units.ParseShare(t)
		ok = err == nil
	case size:
		value, err = units.ParseSize(t)
	case cpus:
		value, err = units.ParseCPUs(t)
	default:
		return t, nil
	}
	if !ok {
		err = fmt.Errorf("%q is not %s; %s", clip(t), s.kind, s.kind.example())
	}
	return value, err
}

// scalarFault returns what is wrong with a scalar's text, and what would be
// right; nothing when it is good.
func (s *spec) scalarFault(t string) (problem, hint string) {
	value, err := s.read(t)
	switch {
	case s.kind == text && t == "":
		return "is empty", ""
	case s.pattern != nil && !s.pattern.matches(t):
		return fmt.Sprintf("%q does not fit", clip(t)), s.pattern.hint
	case s.kind == choice && !slices.Contains(s.choices, t):
		return fmt.Sprintf("%q is not possible", clip(t)), choiceHint(t, s.choices)
	case err != nil:
		return s.formFault(err)
	case s.kind >= integer && s.kind <= amount && !slices.Contains(s.choices, t):
		return s.boundFault(numeric(reflect.ValueOf(value)))
	}
	return "", ""
}

// formFault takes what is wrong with text that cannot be read apart from what would be right.
func (s *spec) formFault(err error) (problem, hint string) {
	problem, hint, _ = strings.Cut(err.Error(), "; ")
	if len(s.choices) > 0 {
		hint += "; or " + strings.Join(s.choices, ", ")
	}
	return problem, hint
}

// boundFault checks a number against the spec's bounds.
func (s *spec) boundFault(v float64) (problem, hint string) {
	switch {
	case v < s.min:
		problem = s.format(v) + " is too little"
	case v > s.max:
		problem = s.format(v) + " is too much"
	default:
		return "", ""
	}
	return problem, "from " + s.bounds()
}

func (s *spec) bounds() string { return s.format(s.min) + " to " + s.format(s.max) }

// format writes a number in the unit of its kind.
func (s *spec) format(v float64) string {
	plain := strconv.FormatFloat(v, 'f', -1, 64)
	switch s.kind {
	case duration:
		return units.FormatSeconds(v)
	case rate:
		return plain + "/s"
	case share:
		return strconv.FormatFloat(math.Round(v*1e8)/1e6, 'f', -1, 64) + "%"
	case size:
		return units.FormatSize(int64(v))
	case amount:
		return plain + " CPUs"
	}
	return plain
}

// choiceHint lists the choices, after the one that was probably meant.
func choiceHint(t string, choices []string) string {
	all := "one of " + strings.Join(choices, ", ")
	if meant, found := nearest.Find(t, choices); found {
		return fmt.Sprintf("did you mean %q? (%s)", meant, all)
	}
	return all
}
