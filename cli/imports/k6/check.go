package k6

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"dyno/cli/imports/draft"
	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
	"dyno/load/scenario"
)

// The functions that check responses, as they are usually written: one condition, or several joined by &&.
var (
	arrow    = lazyregexp.New(`(?s)^\(?\s*(\w+)\s*\)?\s*=>\s*(.*)$`)
	returned = lazyregexp.New(`(?s)^(?:function\s*\w*\s*\(\s*(\w+)\s*\)|\(?\s*(\w+)\s*\)?\s*=>)\s*\{\s*return\s+(.*?);?\s*\}$`)

	checkStatus  = lazyregexp.New(`^R\.status\s*===?\s*(\d{3})$`)
	checkBelow   = lazyregexp.New(`^R\.status\s*(<=?)\s*(\d{3})$`)
	checkFrom    = lazyregexp.New(`^R\.status\s*>=\s*(\d{3})$`)
	checkIn      = lazyregexp.New(`^\[([\d,\s]+)\]\.includes\(R\.status\)$`)
	checkBody    = lazyregexp.New(`^R\.body\.(?:includes|indexOf)\((?:"([^"\\]*)"|'([^'\\]*)')\)(?:\s*(?:!==?\s*-1|>\s*-1|>=\s*0))?$`)
	checkEquals  = lazyregexp.New(`^R\.body\s*===?\s*(?:"([^"\\]*)"|'([^'\\]*)')$`)
	checkLength  = lazyregexp.New(`^R\.body(?:\.length\s*>\s*0|\s*!==?\s*(?:''|""|null))?$`)
	checkJSON    = lazyregexp.New(`^(?:R\.json\((?:"([\w.]+)"|'([\w.]+)')\)|(?:R\.json\(\)|JSON\.parse\(R\.body\))((?:\.\w+|\[\d+\])+))\s*(?:(===?|!==?)\s*(?:"([^"\\]*)"|'([^'\\]*)'|(-?\d+(?:\.\d+)?|true|false|null|undefined)))?$`)
	checkHeader  = lazyregexp.New(`^R\.headers(?:\[(?:"([\w-]+)"|'([\w-]+)')\]|\.(\w+))\s*(?:===?\s*(?:"([^"\\]*)"|'([^'\\]*)')|\.includes\((?:"([^"\\]*)"|'([^'\\]*)')\))?(?:\s*!==?\s*(?:undefined|null|''))?$`)
	checkCode    = lazyregexp.New(`^R\.status\s*===?\s*(?:\w+\.Status(\w+)|0)$`)
	capitals     = lazyregexp.New(`([a-z])([A-Z])`)
	checkTime    = lazyregexp.New(`^R\.timings\.`)
	splitChecks  = lazyregexp.New(`\s*&&\s*`)
	indexInPath  = lazyregexp.New(`\.(\d+)(\.|$)`)
	outerParens  = lazyregexp.New(`^\((.*)\)$`)
	optionalDots = strings.NewReplacer("?.[", "[", "?.", ".", ".message.", ".json().", ".message[", ".json()[") // a call's message is in JSON
)

// addCheck makes expectations of a step of a function that checks a response, or the value in it that a text names.
func addCheck(d *draft.Draft, step *scenario.Step, line int, name, source, text string) {
	parameter, body := "", ""
	if m := returned().FindStringSubmatch(source); m != nil {
		parameter, body = m[1]+m[2], m[3]
	} else if m := arrow().FindStringSubmatch(source); m != nil {
		parameter, body = m[1], m[2]
	}
	left := func(why, hint string) { d.Leave(line, "check "+name+": "+source, why, hint) }
	if parameter == "" {
		left("dyno does not understand the function", "assert and status of a step say what is expected")
		return
	}
	body = regexp.MustCompile(`\b`+parameter+`\b`).ReplaceAllString(optionalDots.Replace(strings.TrimSpace(body)), text)
	for _, condition := range splitChecks().Split(body, -1) {
		if m := outerParens().FindStringSubmatch(condition); m != nil {
			condition = m[1]
		}
		if strings.Contains(condition, "||") || !expect(step, strings.TrimSpace(condition)) {
			if checkTime().MatchString(condition) {
				left("a time is no matter of one response", "a threshold is, such as 'response.p95{step="+step.Name+"} < 500ms'")
			} else {
				left("dyno does not understand the function", "assert and status of a step say what is expected")
			}
		}
	}
}

// expect gives a step an expectation, if it understands the condition.
func expect(step *scenario.Step, condition string) bool {
	find := func(r func() *regexp.Regexp) []string { return r().FindStringSubmatch(condition) }
	add := func(a scenario.Assertion) bool {
		step.Assert = append(step.Assert, a)
		return true
	}
	if m := find(checkStatus); m != nil {
		step.Status = m[1]
		return true
	}
	if m := find(checkCode); m != nil {
		step.Status = strings.ToUpper(capitals().ReplaceAllString(cmp.Or(m[1], "OK"), "${1}_$2"))
		return true
	}
	if condition == "R" { // there is a response
		return true
	}
	if m := find(checkIn); m != nil {
		step.Status = strings.Join(strings.FieldsFunc(m[1], func(r rune) bool { return r < '0' || r > '9' }), ", ")
		return true
	}
	if m := find(checkBelow); m != nil {
		bound, _ := strconv.Atoi(m[2])
		if m[1] == "<" {
			bound--
		}
		return narrow(step, 100, bound)
	}
	if m := find(checkFrom); m != nil {
		from, _ := strconv.Atoi(m[1])
		return narrow(step, from, 599)
	}
	if m := find(checkBody); m != nil {
		return m[1]+m[2] != "" && add(scenario.Assertion{Contains: plan.Quote(m[1] + m[2])})
	}
	if m := find(checkEquals); m != nil {
		text := plan.Quote(m[1] + m[2])
		return add(scenario.Assertion{Equals: &text})
	}
	if find(checkLength) != nil {
		return add(scenario.Assertion{Matches: "."})
	}
	if m := find(checkJSON); m != nil {
		path := "$" + m[3]
		if m[1]+m[2] != "" {
			path = "$." + indexInPath().ReplaceAllString(m[1]+m[2], "[$1]$2")
		}
		text := m[5] + m[6] + m[7]
		switch isNone := m[7] == "null" || m[7] == "undefined" || text == ""; {
		case m[4] == "" || strings.HasPrefix(m[4], "!") && isNone:
			return add(scenario.Assertion{JSON: path, Exists: true})
		case strings.HasPrefix(m[4], "!") || isNone:
			return false
		}
		text = plan.Quote(text)
		return add(scenario.Assertion{JSON: path, Equals: &text})
	}
	if m := find(checkHeader); m != nil {
		name := m[1] + m[2] + m[3]
		switch equal, contains := m[4]+m[5], m[6]+m[7]; {
		case equal != "":
			text := plan.Quote(equal)
			return add(scenario.Assertion{Header: name, Equals: &text})
		case contains != "":
			return add(scenario.Assertion{Header: name, Contains: plan.Quote(contains)})
		}
		return add(scenario.Assertion{Header: name, Exists: true})
	}
	return false
}

// narrow bounds the statuses that a step expects.
func narrow(step *scenario.Step, from, to int) bool {
	if before, after, found := strings.Cut(step.Status, "-"); found {
		low, _ := strconv.Atoi(before)
		high, _ := strconv.Atoi(after)
		from, to = max(from, low), min(to, high)
	}
	if from > to {
		return false
	}
	step.Status = fmt.Sprintf("%d-%d", from, to)
	return true
}
