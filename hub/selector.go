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

// A selector says which topics are meant, as the Mercure protocol has it: all
// ("*"), the one of the same text, or those that a URI template (RFC 6570) could
// expand to.
type selector struct {
	text     string
	template *regexp.Regexp // nil when text is no template
	last     atomic.Pointer[verdict]
	users    int // guarded by the selectors that made it
}

// verdict is what a selector said of a topic. One is kept: an event is matched for
// all subscribers in a row, and a template takes far longer than a comparison.
type verdict struct {
	topic string
	match bool
}

// maxTemplate bounds a template in bytes, and with it what matching takes.
const maxTemplate = 1 << 10

// newSelector never fails: what is no template means the topic of that text.
func newSelector(text string) *selector {
	s := &selector{text: text}
	if strings.Contains(text, "{") && len(text) <= maxTemplate {
		s.template = compile(text)
	}
	return s
}

// compile returns nil for what is no template, or makes too large an expression:
// the library panics at that.
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

// selectors gives subscribers with the same selector the same one, so that a
// template is compiled and matched once for all of them. It holds what subscribers
// hold, no more.
type selectors struct {
	mu   sync.Mutex // guards what follows
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

// filter says which entries are for a subscriber.
type filter struct {
	wanted []*selector // topics it asks for
	rights []*selector // topics of which it may have private updates
}

// match: one topic of the update must be wanted and, if it is private, one must be
// permitted.
func (f *filter) match(e *journal.Entry) bool {
	return matchAny(f.wanted, e.Topics) && (!e.Private || matchAny(f.rights, e.Topics))
}

// texts returns what the filter's selectors say.
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
