package fields

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/internal/lazyregexp"
	"dyno/internal/nearest"
	"dyno/internal/units"
)

// forms describes each kind: its name in messages, and its tag where the Go type does not tell. It also
// has its written form, and its type in a JSON Schema: a number, or text.
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

// String returns what a value of the kind is, with its article.
func (k Kind) String() string { return forms[k].article + forms[k].name }

// Name returns what a value of the kind is.
func (k Kind) Name() string { return forms[k].name }

// Example returns a value of the kind, as a hint has it; "" when it needs none.
func (k Kind) Example() string { return forms[k].example }

// A Pattern is what a text has to look like.
type Pattern struct {
	expression string
	Hint       string // in words
	Matches    func(string) bool
}

// NewPattern makes a pattern of an expression, which is known to be good. The hint says it in words.
func NewPattern(expression, hint string) *Pattern {
	compiled := lazyregexp.New(expression)
	return &Pattern{expression, hint, func(text string) bool { return compiled().MatchString(text) }}
}

// patternNamed returns the pattern that a tag names.
func (g *Grammar) patternNamed(name string) *Pattern {
	p, ok := g.Patterns[name]
	if !ok {
		panic("fields: there is no pattern " + name)
	}
	return p
}

// nameFault says that something of this pattern cannot be named so; nothing when it can.
func (p *Pattern) nameFault(name string) (problem, hint string) {
	if p.Matches(name) {
		return "", ""
	}
	return fmt.Sprintf("%q cannot be a name here", nearest.Clip(name)), p.Hint
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

func parseNumber(s string) (float64, bool) {
	if strings.Trim(s, "0123456789.-") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil
}

// Auto is what a word that stands for a duration is read as.
const Auto = time.Duration(-1)

// Read returns the value that text stands for: a string, bool, float64, int64 (of bytes), time.Duration
// or []int. A value of the right form may be out of bounds. The error names the fault and, after a
// semicolon, the remedy.
func (s *Spec) Read(t string) (value any, err error) {
	ok := true
	switch s.Kind {
	case Boolean:
		value, ok = ParseBool(t)
	case Integer:
		value, ok = parseInteger(t)
	case Number:
		value, ok = parseNumber(t)
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
		err = fmt.Errorf("%q is not %s; %s", nearest.Clip(t), s.Kind, s.Kind.Example())
	}
	return value, err
}

// ScalarFault returns the fault of a scalar's text, and the remedy; nothing when it is good.
func (s *Spec) ScalarFault(t string) (problem, hint string) {
	value, err := s.Read(t)
	switch {
	case s.Kind == Text && t == "":
		return "is empty", ""
	case s.pattern != nil && !s.pattern.Matches(t):
		return fmt.Sprintf("%q does not fit", nearest.Clip(t)), s.pattern.Hint
	case s.Kind == Choice && !slices.Contains(s.Choices, t):
		return fmt.Sprintf("%q is not possible", nearest.Clip(t)), ChoiceHint(t, s.Choices)
	case err != nil:
		return s.FormFault(err)
	case s.Kind >= Integer && s.Kind <= Amount && !slices.Contains(s.Choices, t):
		return s.BoundFault(Numeric(reflect.ValueOf(value)))
	}
	return "", ""
}

// FormFault splits the error of an unreadable text into fault and remedy.
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
	return problem, "from " + s.bounds()
}

func (s *Spec) bounds() string { return s.Format(s.Min) + " to " + s.Format(s.Max) }

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

// HasTemplate tells whether a text holds something to be replaced.
func HasTemplate(s string) bool { return strings.Contains(s, "{{") }
