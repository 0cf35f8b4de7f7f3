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

	"dyno/load/pace"
)

// The forms of scalars. The JSON Schema holds the same patterns.
const (
	decimal         = `[0-9]+(\.[0-9]+)?`
	durationPattern = `^(` + decimal + `|(` + decimal + `(ns|us|µs|ms|s|m|h))+)$`
	ratePattern     = `^` + decimal + `(/(s|min|h))?$`
	sharePattern    = `^` + decimal + `%?$`
	sizePattern     = `^[0-9]+ ?(B|KB|KiB|MB|MiB|GB|GiB)?$`
	cpusPattern     = `^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$`
)

// maxCPU is the highest CPU number: the kernel's cpu_set_t holds 1,024.
const maxCPU = 1023

// forms says how each kind is called in messages, and by tags where the Go type does not
// tell, how a value is written, and what it is in a JSON Schema: a number, or text.
var forms = [...]struct{ article, name, tag, example, json, pattern string }{
	text:     {name: "text"},
	word:     {name: "text", tag: "word"},
	boolean:  {name: "true or false"},
	choice:   {name: "text"},
	integer:  {"a ", "whole number", "", "such as 100", "integer", ""},
	number:   {"a ", "number", "", "such as 0.5", "number", ""},
	duration: {"a ", "duration", "", "such as 5s or 250ms; a bare number is seconds", "number", durationPattern},
	rate:     {"a ", "rate", "rate", "such as 5000/s, 300/min or 10/h; a bare number is per second", "number", ratePattern},
	size:     {"a ", "size", "size", "such as 512, 512B, 1KiB or 1MiB", "integer", sizePattern},
	share:    {"a ", "share", "share", "such as 2% or 0.02", "number", sharePattern},
	amount:   {"an ", "amount of CPUs", "amount", "such as 0.5 or 50%", "number", sharePattern},
	cpus:     {"a ", "CPU list", "", "such as 0 or 0-3,5", "integer", cpusPattern},
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
	"sysctl":   newPattern(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+$`, "words with dots between, such as net.core.somaxconn"),
	"setting":  newPattern(`^[!-~]([ -~]{0,1000}[!-~])?$`, "printable ASCII, such as 65535 or 4096 131072 6291456"), // no blank at the ends
	"observer": newPattern(`^[a-z][a-z0-9_]{0,31}$`, "a small letter, then small letters, digits and _"),            // the beginning of a column's name
	"metric":   newPattern(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$`, "such as throughput, response.p99 or target.cpu_per_request"),
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

// The forms as predicates; compiled once and never changed.
var (
	isDuration = matcher(durationPattern)
	isRate     = matcher(ratePattern)
	isShare    = matcher(sharePattern)
	isSize     = matcher(sizePattern)
	isCPUs     = matcher(cpusPattern)
)

// ParseDuration reads a Go duration, or a number of seconds, as the experiment
// file does.
func ParseDuration(s string) (time.Duration, error) {
	d, ok := parseDuration(s)
	return d, notA(duration, s, ok)
}

// ParseShare reads a share, such as 2% or 0.02.
func ParseShare(s string) (float64, error) {
	v, ok := parseShare(s)
	return v, notA(share, s, ok)
}

// ParseCPUs reads a CPU list, such as 0-3,5, and returns it sorted.
func ParseCPUs(s string) ([]int, error) {
	list, problem := parseCPUs(s)
	if problem != "" {
		return nil, fmt.Errorf("%s; %s", problem, cpus.example())
	}
	return list, nil
}

func notA(k kind, s string, ok bool) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%q is not %s; %s", clip(s), k, k.example())
}

// parseDuration returns not ok for what is none.
func parseDuration(s string) (time.Duration, bool) {
	if !isDuration(s) {
		return 0, false
	}
	if seconds, err := strconv.ParseFloat(s, 64); err == nil {
		// Beyond a century every bound of the table is exceeded anyway.
		return time.Duration(math.Round(min(seconds, 3e9) * 1e9)), true
	}
	d, err := time.ParseDuration(s)
	return d, err == nil
}

func parseRate(s string) (float64, bool) {
	if !isRate(s) {
		return 0, false
	}
	figure, _, _ := strings.Cut(s, "/")
	if strings.Trim(figure, "0.") == "" {
		return 0, true // a stage may begin or end at rest; ParseRate refuses 0
	}
	v, err := pace.ParseRate(s)
	return v, err == nil
}

// parseShare reads a percentage, or a number of which 1 is the whole.
func parseShare(s string) (float64, bool) {
	if !isShare(s) {
		return 0, false
	}
	figure, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(figure, 64)
	if percent {
		v /= 100
	}
	return v, err == nil
}

// parseSize reads bytes with a decimal (KB) or binary (KiB) unit.
func parseSize(s string) (int, bool) {
	if !isSize(s) {
		return 0, false
	}
	digits := strings.TrimRight(s, " BKMGi")
	factor := 1
	switch strings.TrimLeft(s[len(digits):], " ") {
	case "KB":
		factor = 1e3
	case "KiB":
		factor = 1 << 10
	case "MB":
		factor = 1e6
	case "MiB":
		factor = 1 << 20
	case "GB":
		factor = 1e9
	case "GiB":
		factor = 1 << 30
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n > math.MaxInt/factor {
		return math.MaxInt, true // beyond every bound of the table
	}
	return n * factor, true
}

// parseCPUs reads a list in the kernel's form and returns it sorted.
func parseCPUs(s string) (list []int, problem string) {
	if !isCPUs(s) {
		return nil, fmt.Sprintf("%q is not a CPU list", clip(s))
	}
	seen := make([]bool, maxCPU+1)
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if isRange && err == nil {
			last, err = strconv.Atoi(to)
		}
		switch {
		case err != nil || first > maxCPU || last > maxCPU:
			return nil, fmt.Sprintf("CPU %s is beyond %d, the highest there can be", part, maxCPU)
		case first > last:
			return nil, fmt.Sprintf("the range %s runs backwards", part)
		}
		for cpu := first; cpu <= last; cpu++ {
			if seen[cpu] {
				return nil, fmt.Sprintf("CPU %d is listed twice", cpu)
			}
			seen[cpu] = true
			list = append(list, cpu)
		}
	}
	slices.Sort(list)
	return list, ""
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

// read returns the value that text stands for: a string, bool, float64, int (of bytes),
// time.Duration or []int. What has the right form may yet be out of bounds.
func (s *spec) read(t string) (value any, ok bool) {
	switch s.kind {
	case boolean:
		return parseBool(t)
	case integer:
		return parseInteger(t)
	case number:
		return parseNumber(t)
	case duration:
		if slices.Contains(s.choices, t) {
			return auto, true
		}
		return parseDuration(t)
	case rate:
		return parseRate(t)
	case share, amount:
		return parseShare(t)
	case size:
		return parseSize(t)
	case cpus:
		list, problem := parseCPUs(t)
		return list, problem == ""
	}
	return t, true
}

// scalarFault returns what is wrong with a scalar's text, and what would be
// right; nothing when it is good.
func (s *spec) scalarFault(t string) (problem, hint string) {
	value, ok := s.read(t)
	switch {
	case s.kind == text && t == "":
		return "is empty", ""
	case s.pattern != nil && !s.pattern.matches(t):
		return fmt.Sprintf("%q does not fit", clip(t)), s.pattern.hint
	case s.kind == choice && !slices.Contains(s.choices, t):
		return fmt.Sprintf("%q is not possible", clip(t)), choiceHint(t, s.choices)
	case !ok:
		return s.formFault(t)
	case s.kind >= integer && s.kind <= amount && !slices.Contains(s.choices, t):
		return s.boundFault(numeric(reflect.ValueOf(value)))
	}
	return "", ""
}

// formFault says what is wrong with text that cannot be read.
func (s *spec) formFault(t string) (problem, hint string) {
	hint = s.kind.example()
	if s.kind == cpus {
		_, problem = parseCPUs(t)
		return problem, hint
	}
	if len(s.choices) > 0 {
		hint += "; or " + strings.Join(s.choices, ", ")
	}
	return fmt.Sprintf("%q is not %s", clip(t), s.kind), hint
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
	switch {
	case s.kind == duration && math.Abs(v) < 9e9:
		d := time.Duration(math.Round(v * 1e9)).String()
		return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d)
	case s.kind == rate:
		return plain + "/s"
	case s.kind == share:
		return strconv.FormatFloat(math.Round(v*1e8)/1e6, 'f', -1, 64) + "%"
	case s.kind == size:
		return formatSize(v)
	case s.kind == amount:
		return plain + " CPUs"
	}
	return plain
}

// formatSize writes bytes in the largest binary unit of which they are a multiple.
func formatSize(v float64) string {
	if v == 1 {
		return "1 byte"
	}
	unit := " bytes"
	for _, larger := range []string{"KiB", "MiB", "GiB"} {
		if v == 0 || math.Mod(v, 1024) != 0 {
			break
		}
		v, unit = v/1024, larger
	}
	return strconv.FormatFloat(v, 'f', -1, 64) + unit
}

// choiceHint lists the choices, after the one that was probably meant.
func choiceHint(t string, choices []string) string {
	all := "one of " + strings.Join(choices, ", ")
	if h := suggest(t, choices); strings.HasPrefix(h, "did") {
		return h + " (" + all + ")"
	}
	return all
}
