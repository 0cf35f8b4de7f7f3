package hub

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"dyno/hub/journal"

	"github.com/yosida95/uritemplate/v3"
)

// A selector matches topics as in the Mercure protocol: all topics ("*"), the topic with
// the same text, or those that a URI template (RFC 6570) could expand to.
type selector struct {
	text     string
	template *regexp.Regexp // nil if the text is not a template
	last     atomic.Pointer[verdict]
	users    int // guarded by the mutex of the selectors that made it
}

// verdict is the result for a topic. One is kept: an event is matched for all subscribers
// in a row, and matching a template takes far longer than a comparison.
type verdict struct {
	topic string
	match bool
}

// maxTemplate bounds the length of a template in bytes, and with it the cost of matching.
const maxTemplate = 1 << 10

// newSelector never fails: a text that is not a template matches the topic of that text.
func newSelector(text string) *selector {
	s := &selector{text: text}
	if strings.Contains(text, "{") && len(text) <= maxTemplate {
		s.template = compile(text)
	}
	return s
}

// compile returns nil for a text that is not a template, or whose regular expression
// would be too large: the library panics for these.
func compile(text string) (expression *regexp.Regexp) {
	t, err := uritemplate.New(text)
	if err != nil {
		return nil
	}
	defer func() {
		if recover() != nil {
			expression = nil
		}
	}()
	return t.Regexp()
}

func (s *selector) match(topic string) bool {
	if s.text == "*" || s.text == topic {
		return true
	}
	if s.template == nil {
		return false
	}
	if v := s.last.Load(); v != nil && v.topic == topic {
		return v.match
	}
	v := &verdict{topic, s.template.MatchString(topic)}
	s.last.Store(v)
	return v.match
}

// selectors gives all subscribers with the same selector the same object, so that a
// template is compiled and matched once for all of them. It holds only selectors that
// subscribers use.
type selectors struct {
	mu   sync.Mutex // guards the following fields
	used map[string]*selector
}

func (s *selectors) acquire(texts []string) []*selector {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*selector, len(texts))
	for i, text := range texts {
		one := s.used[text]
		if one == nil {
			one = newSelector(text)
			s.used[text] = one
		}
		one.users++
		list[i] = one
	}
	return list
}

func (s *selectors) release(list []*selector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range list {
		if one.users--; one.users == 0 {
			delete(s.used, one.text)
		}
	}
}

// A filter says which entries are for a subscriber.
type filter struct {
	wanted []*selector // the topics it asks for
	rights []*selector // the topics of which it may have private updates
}

// match reports whether an update is for the subscriber: one of its topics must be wanted
// and, if the update is private, one must be permitted.
func (f *filter) match(e *journal.Entry) bool {
	return matchAny(f.wanted, e.Topics) && (!e.Private || matchAny(f.rights, e.Topics))
}

// texts returns the texts of the filter's selectors.
func texts(list []*selector) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = s.text
	}
	return out
}

func matchAny(list []*selector, topics []string) bool {
	for _, topic := range topics {
		for _, s := range list {
			if s.match(topic) {
				return true
			}
		}
	}
	return false
}

// unique returns the texts without repetitions, in order.
func unique(texts []string) []string {
	texts = slices.Clone(texts)
	slices.Sort(texts)
	return slices.Compact(texts)
}
