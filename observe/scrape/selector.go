package scrape

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
)

// A selector picks samples. It is a name, or a regular expression that matches whole names. Conditions
// on labels may follow:
//
//	http_requests_total
//	http_requests_total{code="200",method=~"GET|HEAD"}
//	go_gc_.*
//	memstats.HeapAlloc
type selector struct {
	text    string
	name    *regexp.Regexp
	labels  []labelCondition
	buckets bool // of histograms are meant as well
}

type labelCondition struct {
	name  string
	not   bool
	value *regexp.Regexp
}

// parseSelector reads a selector.
func parseSelector(text string) (selector, error) {
	pattern := text
	s := selector{text: text}
	// Braces are also a regular expression's: {2} repeats.
	for from := 0; strings.HasSuffix(text, "}"); {
		at := strings.IndexByte(text[from:], '{')
		if at < 0 {
			break
		}
		at += from
		if labels, err := parseLabels(text[at+1 : len(text)-1]); err == nil {
			pattern, s.labels = text[:at], labels
			break
		}
		from = at + 1
	}
	if pattern == "" {
		return selector{}, fmt.Errorf("%q: want a name, such as http_requests_total{code=\"200\"}", text)
	}
	var err error
	if s.name, err = whole(pattern); err != nil {
		return selector{}, fmt.Errorf("%q: %w", text, err)
	}
	s.buckets = strings.Contains(pattern, bucketSuffix)
	return s, nil
}

// bucketSuffix is how Prometheus ends the name of a histogram's bucket. They are numerous,
// so they are only recorded when they are named.
const bucketSuffix = "_bucket"

// whole compiles an expression that matches whole texts.
func whole(pattern string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(pattern); err != nil { // alone, so that it cannot close our group
		return nil, err
	}
	return regexp.Compile(`^(?:` + pattern + `)$`)
}

// parseLabels reads conditions with commas between them: name="value", and with
// the operators !=, =~ and !~.
func parseLabels(text string) (conditions []labelCondition, err error) {
	for rest := strings.TrimSpace(text); rest != ""; {
		end := strings.IndexAny(rest, "=!")
		if end < 1 {
			return nil, fmt.Errorf("%q: want name=\"value\"", rest)
		}
		c := labelCondition{name: strings.TrimSpace(rest[:end])}
		if !model.LegacyValidation.IsValidLabelName(c.name) {
			return nil, fmt.Errorf("%q: want the name of a label", c.name)
		}
		operator, isRegexp := rest[end:min(end+2, len(rest))], false
		switch {
		case operator == "!=" || operator == "!~":
			c.not, isRegexp = true, operator == "!~"
		case operator == "=~":
			isRegexp = true
		case operator[0] == '=':
			operator = "="
		default:
			return nil, fmt.Errorf("%q: want =, !=, =~ or !~", operator)
		}
		rest = strings.TrimSpace(rest[end+len(operator):])
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil, fmt.Errorf("%s: want a value in quotation marks", c.name)
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, err
		}
		if !isRegexp {
			value = regexp.QuoteMeta(value)
		}
		if c.value, err = whole(value); err != nil {
			return nil, err
		}
		conditions = append(conditions, c)
		rest = strings.TrimSpace(rest[len(quoted):])
		if rest != "" {
			if rest[0] != ',' {
				return nil, fmt.Errorf("%q: want a comma", rest)
			}
			rest = strings.TrimSpace(rest[1:])
		}
	}
	return conditions, nil
}

// matches tells whether the selector selects a sample, by its own name or its metric's. A label that is
// not there is empty.
func (s selector) matches(m Sample) bool {
	if strings.HasSuffix(m.Name, bucketSuffix) && !s.buckets {
		return false
	}
	return (s.name.MatchString(m.Name) || s.name.MatchString(m.Family)) && s.fits(m.Labels)
}

func (s selector) fits(labels []Label) bool {
	for _, c := range s.labels {
		value := ""
		for _, l := range labels {
			if l.Name == c.name {
				value = l.Value
			}
		}
		if c.value.MatchString(value) == c.not {
			return false
		}
	}
	return true
}
