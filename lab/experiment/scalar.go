package experiment

import (
	"fmt"
	"math"
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

// What a scalar of each kind is called in messages, and how it is written.
func (k kind) String() string {
	switch k {
	case integer:
		return "a whole number"
	case number:
		return "a number"
	case duration:
		return "a duration"
	case rate:
		return "a rate"
	case share:
		return "a share"
	case amount:
		return "an amount of CPUs"
	case boolean:
		return "true or false"
	case size:
		return "a size"
	case cpus:
		return "a CPU list"
	case list:
		return "a list"
	case mapping:
		return "a mapping"
	}
	return "text"
}

func (k kind) example() string {
	switch k {
	case integer:
		return "such as 100"
	case number:
		return "such as 0.5"
	case duration:
		return "such as 5s or 250ms; a bare number is seconds"
	case rate:
		return "such as 5000/s, 300/min or 10/h; a bare number is per second"
	case share:
		return "such as 2% or 0.02"
	case amount:
		return "such as 0.5 or 50%"
	case size:
		return "such as 512, 512B, 1KiB or 1MiB"
	case cpus:
		return "such as 0 or 0-3,5"
	}
	return ""
}

// matcher compiles a pattern of this package, which is known to be good.
func matcher(pattern string) func(string) bool { return regexp.MustCompile(pattern).MatchString }

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

// ParseSize reads a number of bytes, with a unit or without, such as 512 or 1KiB.
func ParseSize(s string) (int, error) {
	n, ok := parseSize(s)
	return n, notA(size, s, ok)
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

// scalarFault returns what is wrong with a scalar's text, and what would be
// right; nothing when it is good.
func (s *spec) scalarFault(t string) (problem, hint string) {
	var v float64
	ok := true
	switch s.kind {
	case text:
		if t == "" {
			return "is empty", ""
		}
		if s.pattern != "" && !matcher(s.pattern)(t) {
			return fmt.Sprintf("%q does not fit", clip(t)), patternHint(s.pattern)
		}
		return "", ""
	case word:
		if s.pattern != "" && !matcher(s.pattern)(t) {
			return fmt.Sprintf("%q does not fit", clip(t)), patternHint(s.pattern)
		}
		return "", ""
	case boolean:
		if _, ok := parseBool(t); !ok {
			return fmt.Sprintf("%q is not %s", clip(t), s.kind), ""
		}
		return "", ""
	case choice:
		if !slices.Contains(s.choices, t) {
			return fmt.Sprintf("%q is not possible", clip(t)), choiceHint(t, s.choices)
		}
		return "", ""
	case cpus:
		if _, problem := parseCPUs(t); problem != "" {
			return problem, s.kind.example()
		}
		return "", ""
	case integer:
		v, ok = parseInteger(t)
	case number:
		v, ok = parseNumber(t)
	case duration:
		if slices.Contains(s.choices, t) {
			return "", ""
		}
		var d time.Duration
		d, ok = parseDuration(t)
		v = d.Seconds()
	case rate:
		v, ok = parseRate(t)
	case share, amount:
		v, ok = parseShare(t)
	case size:
		var n int
		n, ok = parseSize(t)
		v = float64(n)
	}
	if !ok {
		hint = s.kind.example()
		if s.kind == duration && len(s.choices) > 0 {
			hint += "; or " + strings.Join(s.choices, ", ")
		}
		return fmt.Sprintf("%q is not %s", clip(t), s.kind), hint
	}
	return s.boundFault(v)
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
	return problem, fmt.Sprintf("from %s to %s", s.format(s.min), s.format(s.max))
}

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
		return plain + " bytes"
	case s.kind == amount:
		return plain + " CPUs"
	}
	return plain
}

// choiceHint lists the choices, after the one that was probably meant.
func choiceHint(t string, choices []string) string {
	all := "one of " + strings.Join(choices, ", ")
	if h := suggest(t, choices); strings.HasPrefix(h, "did") {
		return h + " (" + all + ")"
	}
	return all
}

// patternHint says in words what a pattern of the table asks for.
func patternHint(pattern string) string {
	switch pattern {
	case namePattern:
		return "1 to 100 letters, digits and . _ + -"
	case claimPattern:
		return "1 to 100 letters, digits and . _ + - /"
	case variablePattern:
		return "a letter or _, then letters, digits and _"
	case servicePattern:
		return "a letter or _, then letters, digits, _ and -"
	case envPattern:
		return "letters, digits and _, as in PATH"
	case sysctlPattern:
		return "words with dots between, such as net.core.somaxconn"
	case settingPattern:
		return "printable ASCII, such as 65535 or 4096 131072 6291456"
	case metricPattern:
		return "such as throughput, response.p99 or target.cpu_per_request"
	case tokenPattern:
		return "letters, digits and - (RFC 9110 calls it a token)"
	}
	return "matching " + pattern
}
