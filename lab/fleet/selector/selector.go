// Package selector chooses by labels, as Kubernetes does:
//
//	zone=a,disk!=slow,gpu,!old,class in (fast, large),region notin (north)
//
// All requirements must hold. disk!=slow and region notin (north) also hold without that label, and zone= asks for an
// empty value. The package supports the grammar of Kubernetes without < and >. k8s.io/apimachinery/pkg/labels has it
// whole, and is what the tests compare with. It is not used because it links klog, and its errors do not locate the
// fault in the text.
package selector

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"dyno/internal/nearest"
)

// MaxText bounds a selector's bytes.
const MaxText = 4096

// The forms of names, values and domains of names, by Kubernetes.
const (
	maxName   = 63
	maxDomain = 253
)

var (
	isName   = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	isDomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// A Selector is a list of requirements. The zero Selector matches all labels. It does not change, so any
// goroutine may use it.
type Selector struct{ all []requirement }

// A requirement is a condition on one label.
type requirement struct {
	name   string
	values []string // nil accepts any value
	not    bool     // the label must not be there with any of these values
}

// Match reports whether labels meet all requirements.
func (s Selector) Match(labels map[string]string) bool {
	for _, r := range s.all {
		value, has := labels[r.name]
		if (has && (r.values == nil || slices.Contains(r.values, value))) == r.not {
			return false
		}
	}
	return true
}

// An Error is a fault in a selector's text.
type Error struct {
	Column        int // of the fault in the text, in characters from 1
	Message, Hint string
}

func (e *Error) Error() string { return fmt.Sprintf("column %d: %s", e.Column, e.Message) }

const example = "write requirements with commas between them, as in zone=a,disk!=slow,gpu,!old,class in (fast,large)"

var nameHint = fmt.Sprintf("names and values have at most %d letters, digits, -, _ and ., and begin and end with a letter or a digit", maxName)

// Parse reads a selector. An error is an *Error. Empty text is the zero Selector.
func Parse(text string) (Selector, error) {
	if len(text) > MaxText {
		return Selector{}, &Error{1, fmt.Sprintf("%d bytes, want at most %d", len(text), MaxText), "select by a label that the machines have in common"}
	}
	p := &parser{text: text}
	p.next()
	if p.token == "" {
		return Selector{}, nil
	}
	var s Selector
	for {
		r, err := p.requirement()
		if err != nil {
			return Selector{}, err
		}
		s.all = append(s.all, r)
		if p.token == "" {
			return s, nil
		}
		if err := p.expect(","); err != nil {
			return Selector{}, err
		}
	}
}

// A parser reads one token ahead.
type parser struct {
	text  string
	at    int    // where the token begins
	end   int    // where it ends
	token string // "" at the end of the text
}

const (
	space   = " \t\r\n"
	symbols = "=!(),<>"
)

// next reads a token: a comparison, another symbol, or a word.
func (p *parser) next() {
	rest := strings.TrimLeft(p.text[p.end:], space)
	p.at = len(p.text) - len(rest)
	switch {
	case strings.HasPrefix(rest, "==") || strings.HasPrefix(rest, "!="):
		p.end = p.at + 2
	case rest != "" && strings.ContainsRune(symbols, rune(rest[0])):
		p.end = p.at + 1
	default:
		p.end = len(p.text)
		if n := strings.IndexAny(rest, space+symbols); n >= 0 {
			p.end = p.at + n
		}
	}
	p.token = p.text[p.at:p.end]
}

// fault makes an error at the token.
func (p *parser) fault(hint, format string, args ...any) error {
	return &Error{utf8.RuneCountInString(p.text[:p.at]) + 1, fmt.Sprintf(format, args...), hint}
}

// expect reads a symbol.
func (p *parser) expect(symbol string) error {
	if p.token != symbol {
		return p.unexpected(fmt.Sprintf("%q", symbol))
	}
	p.next()
	return nil
}

func (p *parser) unexpected(want string) error {
	hint := example
	switch p.token {
	case "":
		return p.fault(hint, "it ends, want %s", want)
	case "<", ">":
		hint = "labels are not ordered; list the values, as in size in (1,2)"
	}
	return p.fault(hint, "%q, want %s", nearest.Clip(p.token), want)
}

// isWord reports whether the token is a word, and not a symbol.
func (p *parser) isWord() bool { return p.token != "" && !strings.ContainsAny(p.token, symbols) }

func (p *parser) requirement() (r requirement, err error) {
	if r.not = p.token == "!"; r.not {
		p.next()
	}
	if r.name, err = p.name(); err != nil {
		return r, err
	}
	if p.token == "" || p.token == "," {
		return r, nil
	}
	if r.not {
		return r, p.unexpected(`","`)
	}
	operator := p.token
	switch operator {
	case "=", "==", "!=":
		p.next()
		value, err := p.value()
		r.values = []string{value}
		r.not = operator == "!="
		return r, err
	case "in", "notin":
		p.next()
		r.values, err = p.list()
		r.not = operator == "notin"
		return r, err
	}
	return r, p.unexpected(`"=", "!=", "in", "notin" or ","`)
}

// list reads values in parentheses.
func (p *parser) list() (values []string, err error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	for {
		value, err := p.value()
		if err != nil {
			return nil, err
		}
		values = append(values, value)
		if p.token == ")" {
			p.next()
			return values, nil
		}
		if p.token != "," {
			return nil, p.unexpected(`"," or ")"`)
		}
		p.next()
	}
}

// name reads a label's name, which may begin with a domain, as in example.org/zone.
func (p *parser) name() (string, error) {
	if !p.isWord() {
		return "", p.unexpected("the name of a label")
	}
	domain, name, found := strings.Cut(p.token, "/")
	if !found {
		domain, name = "", p.token
	}
	if found && (len(domain) > maxDomain || !isDomain.MatchString(domain)) {
		return "", p.fault("before / stands a domain in lower case, as in example.org/zone", "%q is no name of a label", nearest.Clip(p.token))
	}
	if len(name) > maxName || !isName.MatchString(name) {
		return "", p.fault(nameHint, "%q is no name of a label", nearest.Clip(p.token))
	}
	name = p.token
	p.next()
	return name, nil
}

// value reads a label's value, which may be empty.
func (p *parser) value() (string, error) {
	value := p.token
	if value == "" || value == "," || value == ")" {
		return "", nil
	}
	if !p.isWord() {
		return "", p.unexpected("a value")
	}
	if len(value) > maxName || !isName.MatchString(value) {
		return "", p.fault(nameHint, "%q is no value of a label", nearest.Clip(value))
	}
	p.next()
	return value, nil
}
