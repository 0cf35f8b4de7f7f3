// Package mask replaces secrets in text by their kind: "sk-…" becomes "[api-key]". A stream is masked as it passes.
// Wherever it is cut, the result equals that of its whole text. It holds back only text that may be the beginning of
// a secret.
//
// A secret is a fixed prefix and a run of characters of one class, or matches a regular expression whose matches have
// a greatest length. So the held part is small. Addresses, cards, phones and bank accounts are such expressions, and
// their check digits must be right: pattern.go.
//
// Images, recordings and files in base64 stay unchanged. base64.go says how they are found.
package mask

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Rule describes a kind of secret: a kind that the package knows, or a name with either a pattern or a prefix.
type Rule struct {
	Kind    string `yaml:"kind" oneof:"secrets email card phone iban" doc:"a kind that the gateway knows, which needs no other field; secrets are the default rules"`
	Name    string `yaml:"name" otherwise:"the kind" doc:"the replacement of the secret, in square brackets"`
	Pattern string `yaml:"pattern" doc:"a regular expression of the secret in ASCII, such as TCK-[0-9]{6}; a match has a greatest length, up to 256"`
	// Prefix begins the secret: ASCII, case-sensitive. No letter, digit or underscore may precede it.
	Prefix string `yaml:"prefix" doc:"the prefix of the secret: ASCII, with this case of letters; class and min go with it"`
	// Class are the characters that follow, as in a regular expression's brackets:
	// "A-Za-z0-9_-". A hyphen that is meant stands last.
	Class string `yaml:"class" doc:"the characters that follow, as in a regular expression's brackets, such as A-Za-z0-9_-"`
	// Min is the least number of following characters. All that follow belong to the secret.
	Min int `yaml:"min" range:"0..1000000" doc:"how many must follow"`
}

// Defaults returns rules for secrets that are often pasted by mistake.
func Defaults() []Rule {
	const word = "A-Za-z0-9_-"
	return []Rule{
		{Name: "api-key", Prefix: "sk-", Class: word, Min: 20},
		{Name: "github-token", Prefix: "ghp_", Class: "A-Za-z0-9", Min: 36},
		{Name: "github-token", Prefix: "github_pat_", Class: "A-Za-z0-9_", Min: 40},
		{Name: "gitlab-token", Prefix: "glpat-", Class: word, Min: 20},
		{Name: "aws-key", Prefix: "AKIA", Class: "A-Z0-9", Min: 16},
		{Name: "google-key", Prefix: "AIza", Class: word, Min: 35},
		{Name: "slack-token", Prefix: "xoxb-", Class: "A-Za-z0-9-", Min: 20},
		{Name: "jwt", Prefix: "eyJ", Class: "A-Za-z0-9_.-", Min: 30},
	}
}

// Bounds of rules.
const (
	maxRules  = 256
	maxPrefix = 64
	maxMin    = 1024
)

type rule struct {
	prefix, replacement string
	begin               []byte // the prefix
	class               [256]bool
	min                 int
	pattern             *pattern // in place of a prefix; nil without one
}

// A Masker has compiled rules. Its methods may be called from any goroutine. A nil
// Masker changes nothing.
type Masker struct {
	rules []rule
	first [256][]*rule // by the byte that a secret begins with
}

// New compiles rules; the first match at a place wins. The error lists every fault.
func New(rules []Rule) (*Masker, error) {
	m := &Masker{}
	var errs []error
	if len(rules) > maxRules {
		errs = append(errs, fmt.Errorf("%d rules: must be %d at most", len(rules), maxRules))
	}
	for i, r := range rules {
		fault := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("rule %d, %q: "+format, append([]any{i + 1, cmp.Or(r.Name, r.Kind)}, args...)...))
		}
		if r.Kind == "secrets" {
			secrets, _ := New(Defaults())
			m.rules = append(m.rules, secrets.rules...)
			continue
		}
		if strings.ContainsAny(r.Name, "\"\\") || r.Name == "" && r.Kind == "" {
			fault("name: must not be empty, or have quotes or backslashes")
		}
		c := rule{prefix: r.Prefix, begin: []byte(r.Prefix), replacement: "[" + cmp.Or(r.Name, r.Kind) + "]", min: r.Min}
		own, known := kinds[r.Kind]
		switch {
		case known || r.Pattern != "":
			own.expression = cmp.Or(own.expression, r.Pattern)
			if err := own.compile(); err != nil {
				fault("pattern %q: %w", r.Pattern, err)
			}
			if r.Prefix+r.Class != "" || r.Min != 0 || known && r.Pattern != "" {
				fault("only one of kind, pattern and prefix")
			}
			c.pattern = &own
		default:
			if r.Prefix == "" || len(r.Prefix) > maxPrefix || strings.ContainsFunc(r.Prefix, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '"' || c == '\\' }) {
				fault("prefix %q: must have 1 to %d characters of ASCII, without spaces, quotes and backslashes", r.Prefix, maxPrefix)
			}
			if r.Min < 1 || r.Min > maxMin {
				fault("min %d: must be from 1 to %d", r.Min, maxMin)
			}
			if err := parseClass(r.Class, &c.class); err != nil {
				fault("class %q: %w", r.Class, err)
			}
		}
		m.rules = append(m.rules, c)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	for i := range m.rules {
		for c := range m.first {
			if r := &m.rules[i]; r.pattern == nil && byte(c) == r.prefix[0] || r.pattern != nil && c < 0x80 && r.pattern.next[begin][c] != 0 {
				m.first[c] = append(m.first[c], r)
			}
		}
	}
	return m, nil
}

func parseClass(text string, set *[256]bool) error {
	if text == "" {
		return errors.New("must not be empty")
	}
	for i := 0; i < len(text); i++ {
		low, high := text[i], text[i]
		if i+2 < len(text) && text[i+1] == '-' {
			high = text[i+2]
			i += 2
		}
		if low > high {
			return fmt.Errorf("%c-%c is the wrong way round", low, high)
		}
		for c := int(low); c <= int(high); c++ {
			if c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
				return errors.New("must be ASCII without spaces, quotes and backslashes")
			}
			set[c] = true
		}
	}
	return nil
}

// Text returns text with its secrets replaced, and their number.
func (m *Masker) Text(text string) (string, int) {
	if m == nil || !m.suspicious([]byte(text)) {
		return text, 0
	}
	return m.text(text, text64)
}

// text is Text for a suspicious text of a given form.
func (m *Masker) text(text string, form form) (string, int) {
	s := m.Stream()
	s.base64.form = form
	masked := s.Close(s.Write(make([]byte, 0, len(text)), text))
	return string(masked), s.found
}

// escaped are the beginnings of escapes of ASCII characters.
var escaped = []string{`\u00`, `\/`}

// suspicious reports whether text has a prefix, or may have one that is escaped, or a match.
func (m *Masker) suspicious(text []byte) bool {
	for i := range m.rules {
		if r := &m.rules[i]; r.pattern == nil && bytes.Contains(text, r.begin) || r.pattern != nil && bytes.ContainsAny(text, r.pattern.needs) {
			return true
		}
	}
	return slices.ContainsFunc(escaped, func(e string) bool { return bytes.Contains(text, []byte(e)) })
}

// JSON returns JSON with the secrets in its strings replaced, and their number. All other bytes are unchanged.
func (m *Masker) JSON(text []byte) ([]byte, int) { return m.Field("", text) }

// Field is JSON for the value of a field, whose name tells which parts are base64.
func (m *Masker) Field(name string, text []byte) ([]byte, int) {
	if m == nil || !m.suspicious(text) {
		return text, 0
	}
	var out []byte
	found, copied := 0, 0
	at := path{key: name}
	for i := 0; i < len(text); i++ {
		if text[i] != '"' {
			at.step(text[i])
			continue
		}
		end := i + 1
		for end < len(text) && text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(text) {
			break // invalid JSON: others report it
		}
		value := text[i+1 : end]
		form := text64
		if isName(text[end+1:]) {
			at.key = string(value)
		} else {
			form = at.form(value)
		}
		// Escapes are decoded for matching only: text other than secrets stays as written.
		if form != all64 && m.suspicious(value) {
			if masked, n := m.text(string(value), form); n > 0 {
				out = append(append(out, text[copied:i+1]...), masked...)
				copied, found = end, found+n
			}
		}
		i = end
	}
	if found == 0 {
		return text, 0
	}
	return append(out, text[copied:]...), found
}

// A Stream masks text that comes in pieces. It is used by one goroutine at a time.
//
// The text may be JSON, like tools' arguments, or have JSON in its strings. An escape of JSON, even a nested one,
// counts as its character.
type Stream struct {
	m         *Masker
	held      []byte
	before    byte  // the character before held; 0 at the beginning of the text, a bracket after a secret
	swallowed *rule // the rule of a passing secret; nil if none
	base64    base64
	found     int
}

// Stream returns a stream at its beginning.
func (m *Masker) Stream() *Stream { return &Stream{m: m} }

// maxHeld bounds the memory that a stream keeps beyond its held text.
const maxHeld = 4 << 10

// Found returns how many secrets have been replaced.
func (s *Stream) Found() int { return s.found }

// Held reports whether text is held back.
func (s *Stream) Held() bool { return len(s.held) > 0 }

// Write appends to b the decided part of the text so far.
func (s *Stream) Write(b []byte, text string) []byte {
	s.held = append(s.held, text...)
	return s.advance(b, false)
}

// Close appends the held text to b: nothing follows. Later writes are a new text.
func (s *Stream) Close(b []byte) []byte {
	b = s.advance(b, true)
	s.before, s.swallowed, s.base64 = 0, nil, base64{}
	return b
}

func word(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

func (s *Stream) advance(b []byte, final bool) []byte {
	i := 0
loop:
	for i < len(s.held) {
		c, n, ok := read(s.held[i:], final)
		if !ok {
			break
		}
		if s.swallowed != nil {
			if s.swallowed.class[c] {
				i += n
				continue
			}
			s.swallowed = nil
		}
		if rules := s.m.first[c]; rules != nil && !word(s.before) && !s.base64.has(s.before) {
			for _, rule := range rules {
				switch d, length := rule.match(s.held[i:], s.before, final); d {
				case matches:
					b = append(b, rule.replacement...)
					s.found++
					s.before, s.base64 = ']', base64{}
					if rule.pattern == nil {
						s.swallowed = rule
					}
					i += length
					continue loop
				case undecided:
					if !final {
						break loop
					}
				}
			}
		}
		b = append(b, s.held[i:i+n]...)
		s.base64.pass(c)
		s.before = c
		i += n
	}
	if left := s.held[i:]; cap(s.held) > maxHeld {
		s.held = bytes.Clone(left) // a large piece is not held on to
	} else {
		s.held = append(s.held[:0], left...)
	}
	return b
}

// maxSlashes bounds the backslashes of an escape: those of JSON within JSON, four deep.
const maxSlashes = 15

// other stands for all characters that are not ASCII.
const other = 0x80

// character returns the first character of a text, a byte or an escape of JSON, and its length; 0 is an incomplete
// escape.
func character(text []byte) (c byte, n int) {
	if text[0] != '\\' {
		return text[0], 1
	}
	for n < len(text) && n < maxSlashes && text[n] == '\\' {
		n++
	}
	if n == len(text) {
		return 0, 0
	}
	switch text[n] {
	case '/':
		return '/', n + 1
	case 'n', 'r', 't', 'b', 'f':
		return ' ', n + 1
	case 'u':
		digits := text[n+1 : min(n+5, len(text))]
		code := 0
		for _, d := range digits {
			v := strings.IndexByte("0123456789abcdefABCDEF", d)
			if v < 0 {
				return '\\', 1
			}
			if v >= 16 {
				v -= 6
			}
			code = code<<4 | v
		}
		if len(digits) < 4 {
			return 0, 0
		}
		return byte(min(code, other)), n + 5 //nolint:gosec // bounded
	}
	return '\\', 1
}

type decision int

const (
	differs decision = iota
	undecided
	matches
)

// match reports whether text begins with a secret, and the length of its prefix, or of a match of its pattern.
func (r *rule) match(text []byte, before byte, final bool) (d decision, prefix int) {
	if r.pattern != nil {
		return r.pattern.match(text, before, final)
	}
	i := 0
	for at := range len(r.prefix) + r.min {
		c, n, ok := read(text[i:], false)
		switch {
		case !ok:
			return undecided, 0
		case at < len(r.prefix) && c != r.prefix[at], at >= len(r.prefix) && !r.class[c]:
			return differs, 0
		}
		if i += n; at == len(r.prefix)-1 {
			prefix = i
		}
	}
	return matches, prefix
}
