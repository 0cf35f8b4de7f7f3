// Package intent finds what a user wants, by rules from a file. Each intent has terms with weights that indicate it.
// The intent with the most weight wins, among equals the first in the file. Without enough weight it is the fallback.
// Each rule takes time in proportion to the text.
package intent

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"golang.org/x/text/unicode/norm"
)

// A Term indicates an intent. One of Text, Word and Pattern is set. All are compared in lower case and in Unicode's
// compatibility form (NFKC): full-width characters are the same as others.
type Term struct {
	Text    string `yaml:"text"`    // anywhere
	Word    string `yaml:"word"`    // without a letter or digit before or after it
	Pattern string `yaml:"pattern"` // a regular expression (RE2), whose own letters may be of either case
	// Weight is the strength of the indication; 0 means 1. A negative one counts against the intent.
	Weight float64 `yaml:"weight"`
}

// An Intent is something that users want.
type Intent struct {
	Name  string `yaml:"name"`
	Terms []Term `yaml:"terms"`
}

// Rules are what a file has.
type Rules struct {
	// Fallback is the intent of texts that no rule matches.
	Fallback string `yaml:"fallback"`
	// Threshold is the weight that an intent needs; 0 is 1.
	Threshold float64  `yaml:"threshold"`
	Intents   []Intent `yaml:"intents"`
}

// Bounds of rules and of text.
const (
	maxFile    = 1 << 20 // bytes
	maxIntents = 256
	maxTerms   = 4096 // of all intents
	maxTerm    = 512  // bytes
	maxName    = 64   // bytes
	maxText    = 8 << 10
)

// A Parser has compiled rules. Its methods may be called from any goroutine.
type Parser struct {
	fallback  string
	threshold float64
	intents   []compiled
}

type compiled struct {
	name  string
	terms []matcher
}

type matcher struct {
	text    string
	word    bool
	pattern *regexp.Regexp // nil for text
	weight  float64
}

// A Match is the intent of a text.
type Match struct {
	Intent string
	// Score is the intent's weight, 0 for the fallback. Next is that of the next intent: a small difference means a
	// doubtful match.
	Score, Next float64
}

// Parse reads rules in YAML and compiles them.
func Parse(text []byte) (*Parser, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("rules: %d bytes: must be %d at most", len(text), maxFile)
	}
	if !utf8.Valid(text) { // the bytes would be replaced, and the rule would match other text
		return nil, errors.New("rules: not UTF-8")
	}
	var r Rules
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(&r); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	return New(r)
}

// New compiles rules. The error lists every fault.
func New(r Rules) (*Parser, error) {
	p := &Parser{fallback: r.Fallback, threshold: r.Threshold}
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("rules: "+format, args...)) }
	if p.threshold == 0 {
		p.threshold = 1
	}
	if p.threshold < 0 {
		fault("threshold: %v: must not be negative", r.Threshold)
	}
	if r.Fallback == "" || len(r.Fallback) > maxName {
		fault("fallback: %q: must have 1 to %d bytes", r.Fallback, maxName)
	}
	if len(r.Intents) > maxIntents {
		fault("%d intents: must be %d at most", len(r.Intents), maxIntents)
	}
	seen, terms := map[string]bool{}, 0
	for i, in := range r.Intents {
		if in.Name == "" || len(in.Name) > maxName || seen[in.Name] {
			fault("intent %d: name %q: must have 1 to %d bytes, and be there once", i+1, in.Name, maxName)
		}
		seen[in.Name] = true
		if len(in.Terms) == 0 {
			fault("intent %q: has no terms", in.Name)
		}
		terms += len(in.Terms)
		c := compiled{name: in.Name}
		for j, t := range in.Terms {
			m, err := t.compile()
			if err != nil {
				fault("intent %q: term %d: %w", in.Name, j+1, err)
			}
			c.terms = append(c.terms, m)
		}
		p.intents = append(p.intents, c)
	}
	if terms > maxTerms {
		fault("%d terms: must be %d at most", terms, maxTerms)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return p, nil
}

func (t Term) compile() (matcher, error) {
	m := matcher{weight: t.Weight}
	if m.weight == 0 {
		m.weight = 1
	}
	set := 0
	for _, text := range []string{t.Text, t.Word, t.Pattern} {
		if text != "" {
			set++
		}
		if len(text) > maxTerm {
			return m, fmt.Errorf("%d bytes: must be %d at most", len(text), maxTerm)
		}
	}
	switch {
	case set != 1:
		return m, errors.New("must have one of text, word and pattern")
	case m.weight != m.weight || m.weight > 1000 || m.weight < -1000:
		return m, fmt.Errorf("weight %v: must be from -1000 to 1000", m.weight)
	case t.Pattern != "":
		if _, err := regexp.Compile(t.Pattern); err != nil {
			return m, err // which shows the pattern as it was written
		}
		var err error
		m.pattern, err = regexp.Compile("(?i)" + t.Pattern)
		return m, err
	case t.Word != "":
		m.text, m.word = normalize(t.Word), true
	default:
		m.text = normalize(t.Text)
	}
	return m, nil
}

func normalize(text string) string { return strings.ToLower(norm.NFKC.String(text)) }

// Intents returns the names of all intents, with the fallback.
func (p *Parser) Intents() []string {
	names := []string{p.fallback}
	for _, in := range p.intents {
		names = append(names, in.name)
	}
	return names
}

// Find returns the intent of a text. It reads the first 8 KiB.
func (p *Parser) Find(text string) Match {
	if len(text) > maxText {
		end := maxText
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	text = normalize(text)
	best := Match{Intent: p.fallback}
	for i := range p.intents {
		score := 0.0
		for _, t := range p.intents[i].terms {
			if t.in(text) {
				score += t.weight
			}
		}
		switch {
		case score < p.threshold:
		case score > best.Score:
			best = Match{p.intents[i].name, score, best.Score}
		case score > best.Next:
			best.Next = score
		}
	}
	return best
}

func (m *matcher) in(text string) bool {
	if m.pattern != nil {
		return m.pattern.MatchString(text)
	}
	if !m.word {
		return strings.Contains(text, m.text)
	}
	for from := 0; ; {
		at := strings.Index(text[from:], m.text)
		if at < 0 {
			return false
		}
		at += from
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[at+len(m.text):])
		if !joins(before) && !joins(after) {
			return true
		}
		_, size := utf8.DecodeRuneInString(text[at:])
		from = at + size
	}
}

// joins reports whether a character belongs to an adjacent word. Han and other scripts without spaces do not.
func joins(r rune) bool {
	return (unicode.IsLetter(r) || unicode.IsDigit(r)) && !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai)
}

// Default returns a parser that finds nothing but its fallback, "chat".
func Default() *Parser { return &Parser{fallback: "chat", threshold: 1} }
