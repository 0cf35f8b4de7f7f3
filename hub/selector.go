package hub

import (
	"container/list"
	"fmt"
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

	// Guarded by the mutex of the selectors that made it.
	users int
	kept  *list.Element // in the list of that name; nil if it is not there
}

// verdict is the result for a topic. One is kept: an event is matched for all subscribers
// in a row, and matching a template takes far longer than a comparison.
type verdict struct {
	topic string
	match bool
}

// One goroutine matches an event for all subscribers. The time grows with the template's variables, the topic's
// length, and the number of templates. Within these bounds, a template takes up to 25 µs for 50 bytes, and 1 ms
// for the longest topic.
const (
	maxTemplate  = 1 << 10 // length of a template in bytes
	maxVariables = 8       // of a template
	maxTemplates = 10      // of a subscription
	maxTopic     = 2 << 10 // length of an update's topic in bytes
)

// newSelector never fails: a text that is not a template, or one beyond the bounds, matches the
// topic of that text.
func newSelector(text string) *selector {
	s := &selector{text: text}
	if isTemplate(text) && checkTemplate(text) == nil {
		s.template = compile(text)
	}
	return s
}

func isTemplate(text string) bool { return strings.Contains(text, "{") }

func checkTemplate(text string) error {
	if len(text) > maxTemplate {
		return fmt.Errorf("a template has %d bytes: must have %d at most", len(text), maxTemplate)
	}
	if n := strings.Count(text, "{") + strings.Count(text, ","); n > maxVariables {
		return fmt.Errorf("the template %.100q has %d variables: must have %d at most", text, n, maxVariables)
	}
	return nil
}

// checkTemplates returns why a client cannot subscribe to the topics.
func checkTemplates(topics []string) error {
	n := 0
	for _, text := range topics {
		if !isTemplate(text) {
			continue
		}
		if err := checkTemplate(text); err != nil {
			return err
		}
		n++
	}
	if n > maxTemplates {
		return fmt.Errorf("%d templates: must be %d at most", n, maxTemplates)
	}
	return nil
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

// selectors shares one object among all subscribers with an equal selector. So a template is compiled and matched
// once. It holds selectors that subscribers use, and the latest ones of publishers.
type selectors struct {
	mu   sync.Mutex // guards the following fields
	used map[string]*selector
	kept *list.List // of publishers' *selector, the latest first
}

// maxKept bounds the selectors of publishers. They come with verified tokens, so clients
// without one cannot push them out.
const maxKept = 256

func newSelectors() selectors { return selectors{used: map[string]*selector{}, kept: list.New()} }

// acquire returns selectors for a subscriber, which releases them.
func (s *selectors) acquire(texts []string) []*selector {
	s.mu.Lock()
	defer s.mu.Unlock()
	some := make([]*selector, len(texts))
	for i, text := range texts {
		some[i] = s.use(text)
	}
	return some
}

// keep returns selectors for a publisher. They stay for its next requests, which would
// otherwise compile them each time.
func (s *selectors) keep(texts []string) []*selector {
	s.mu.Lock()
	defer s.mu.Unlock()
	some := make([]*selector, len(texts))
	for i, text := range texts {
		one := s.use(text)
		some[i] = one
		if one.kept == nil {
			one.kept = s.kept.PushFront(one)
			continue
		}
		s.drop(one) // the list has used it already
		s.kept.MoveToFront(one.kept)
	}
	for s.kept.Len() > maxKept {
		one := s.kept.Remove(s.kept.Back()).(*selector)
		one.kept = nil
		s.drop(one)
	}
	return some
}

func (s *selectors) release(some []*selector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range some {
		s.drop(one)
	}
}

// use adds a user to a selector. The caller holds mu.
func (s *selectors) use(text string) *selector {
	one := s.used[text]
	if one == nil {
		one = newSelector(text)
		s.used[text] = one
	}
	one.users++
	return one
}

// drop is the opposite of use. The caller holds mu.
func (s *selectors) drop(one *selector) {
	if one.users--; one.users == 0 {
		delete(s.used, one.text)
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
