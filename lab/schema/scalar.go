package schema

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
	Text:     {name: "text"},
	Word:     {name: "text", tag: "word"},
	Boolean:  {name: "true or false"},
	Choice:   {name: "text"},
	Integer:  {"a ", "whole number", "", "such as 100", "integer", ""},
	Number:   {"a ", "number", "", "such as 0.5", "number", ""},
	Duration: {"a ", "duration", "", units.DurationExample, "number", units.DurationPattern},
	Rate:     {"a ", "rate", "rate", units.RateExample, "number", units.RatePattern},
	Size:     {"a ", "size", "size", units.SizeExample, "number", units.SizePattern},
	Share:    {"a ", "share", "share", units.ShareExample, "number", units.SharePattern},
	Amount:   {"an ", "amount of CPUs", "amount", "such as 0.5 or 50%", "number", units.SharePattern},
	CPUs:     {"a ", "CPU list", "", units.CPUsExample, "integer", units.CPUsPattern},
	List:     {article: "a ", name: "list"},
	Mapping:  {article: "a ", name: "mapping"},
}

func (k Kind) String() string { return forms[k].article + forms[k].name }

// Name is what values of the kind are called, without an article.
func (k Kind) Name() string { return forms[k].name }

// Example says in a hint how a value is written.
func (k Kind) Example() string { return forms[k].example }

// JSON is the type of a number in a JSON Schema.
func (k Kind) JSON() string { return forms[k].json }

// Pattern is the expression of text that stands for a number.
func (k Kind) Pattern() string { return forms[k].pattern }

// A Pattern is what a text has to look like.
type Pattern struct {
	Expression string
	Hint       string // in words
	Matches    func(string) bool
}

// patterns are those that tags name.
var patterns = map[string]*Pattern{
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

func newPattern(expression, hint string) *Pattern {
	return &Pattern{expression, hint, regexp.MustCompile(expression).MatchString}
}

// PatternNamed returns the pattern that a tag names.
func PatternNamed(name string) *Pattern {
	p, ok := patterns[name]
	if !ok {
		panic("schema: there is no pattern " + name)
	}
	return p
}

// NameFault says that something of this pattern cannot be named so; nothing when it can.
func (p *Pattern) NameFault(name string) (problem, hint string) {
	if p.Matches(name) {
		return "", ""
	}
	return fmt.Sprintf("%q cannot be a name here", Clip(name)), p.Hint
}

func parseInteger(s string) (float64, bool) {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil
}

// ParseBool reads true or false as YAML 1.2 writes them.
func ParseBool(s string) (value, ok bool) {
	switch s {
	case "true", "True", "TRUE":
		return true, true
	case "false", "False", "FALSE":
		return false, true
	}
	return false, false
}

// ParseNumber reads a number, without an exponent.
func ParseNumber(s string) (float64, bool) {
	if strings.Trim(s, "0123456789.-") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil
}

// Auto is what a word that stands for a duration is read as.
const Auto = time.Duration(-1)

// Parse returns the value that text stands for: a string, bool, float64, int64 (of bytes),
// time.Duration or []int. What has the right form may yet be out of bounds. The error is
// what is wrong and, after a semicolon, what would be right.
func (s *Spec) Parse(t string) (value any, err error) {
	ok := true
	switch s.Kind {
	case Boolean:
		value, ok = ParseBool(t)
	case Integer:
		value, ok = parseInteger(t)
	case Number:
		value, ok = ParseNumber(t)
	case Duration:
		if slices.Contains(s.Choices, t) {
			return Auto, nil
		}
		value, err = units.ParseDuration(t)
	case Rate:
		value, err = units.ParseRate(t)
	case Share:
		value, err = units.ParseShare(t)
	case Amount:
		value, err = units.ParseShare(t)
		ok = err == nil
	case Size:
		value, err = units.ParseSize(t)
	case CPUs:
		value, err = units.ParseCPUs(t)
	default:
		return t, nil
	}
	if !ok {
		err = fmt.Errorf("%q is not %s; %s", Clip(t), s.Kind, s.Kind.Example())
	}
	return value, err
}

// ScalarFault returns what is wrong with a scalar's text, and what would be
// right; nothing when it is good.
func (s *Spec) ScalarFault(t string) (problem, hint string) {
	value, err := s.Parse(t)
	switch {
	case s.Kind == Text && t == "":
		return "is empty", ""
	case s.Pattern != nil && !s.Pattern.Matches(t):
		return fmt.Sprintf("%q does not fit", Clip(t)), s.Pattern.Hint
	case s.Kind == Choice && !slices.Contains(s.Choices, t):
		return fmt.Sprintf("%q is not possible", Clip(t)), ChoiceHint(t, s.Choices)
	case err != nil:
		return s.FormFault(err)
	case s.Kind >= Integer && s.Kind <= Amount && !slices.Contains(s.Choices, t):
		return s.BoundFault(Numeric(reflect.ValueOf(value)))
	}
	return "", ""
}

// FormFault takes what is wrong with text that cannot be read apart from what would be right.
func (s *Spec) FormFault(err error) (problem, hint string) {
	problem, hint, _ = strings.Cut(err.Error(), "; ")
	if len(s.Choices) > 0 {
		hint += "; or " + strings.Join(s.Choices, ", ")
	}
	return problem, hint
}

// BoundFault checks a number against the spec's bounds.
func (s *Spec) BoundFault(v float64) (problem, hint string) {
	switch {
	case v < s.Min:
		problem = s.Format(v) + " is too little"
	case v > s.Max:
		problem = s.Format(v) + " is too much"
	default:
		return "", ""
	}
	return problem, "from " + s.Bounds()
}

// Bounds writes the least and the most that a number may be.
func (s *Spec) Bounds() string { return s.Format(s.Min) + " to " + s.Format(s.Max) }

// Format writes a number in the unit of its kind.
func (s *Spec) Format(v float64) string {
	plain := strconv.FormatFloat(v, 'f', -1, 64)
	switch s.Kind {
	case Duration:
		return units.FormatSeconds(v)
	case Rate:
		return plain + "/s"
	case Share:
		return strconv.FormatFloat(math.Round(v*1e8)/1e6, 'f', -1, 64) + "%"
	case Size:
		return units.FormatSize(int64(v))
	case Amount:
		return plain + " CPUs"
	}
	return plain
}

// ChoiceHint lists the choices, after the one that was probably meant.
func ChoiceHint(t string, choices []string) string {
	all := "one of " + strings.Join(choices, ", ")
	if meant, found := nearest.Find(t, choices); found {
		return fmt.Sprintf("did you mean %q? (%s)", meant, all)
	}
	return all
}

// ValueFault returns what is wrong with a value of a plan; nothing when it is good.
func (s *Spec) ValueFault(v reflect.Value) (problem, hint string) {
	switch {
	case s.Kind == CPUs:
		return cpuFault(v.Interface().([]int))
	case v.Kind() == reflect.String:
		return s.ScalarFault(v.String())
	case v.Kind() == reflect.Bool:
		return "", ""
	}
	return s.BoundFault(Numeric(v))
}

func cpuFault(list []int) (problem, hint string) {
	for n, cpu := range list {
		if cpu < 0 || cpu > units.MaxCPU {
			return fmt.Sprintf("there is no CPU %d", cpu), fmt.Sprintf("from 0 to %d", units.MaxCPU)
		}
		if slices.Contains(list[:n], cpu) {
			return fmt.Sprintf("CPU %d is listed twice", cpu), ""
		}
	}
	return "", ""
}
