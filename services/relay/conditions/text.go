package conditions

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"dyno/internal/fields"
)

// A Text describes a Link, as name=value,name=value: the names are those of its tags.
type Text string

// SetText takes a description that can be applied.
func (t *Text) SetText(text, _ string) error {
	*t = Text(text)
	return t.apply(&Link{})
}

// Of returns the profile of a network with conditions in both directions, and further ones in each.
func Of(both, toServer, toClient Text, seed uint64) (*Profile, error) {
	p := &Profile{Seed: seed}
	return p, errors.Join(both.apply(&p.ToServer), both.apply(&p.ToClient), toServer.apply(&p.ToServer), toClient.apply(&p.ToClient), p.Validate())
}

// apply gives a link what the text says.
func (t Text) apply(to *Link) error {
	if t == "" {
		return nil
	}
	known := fields.Of(reflect.TypeFor[Link]())
	for pair := range strings.SplitSeq(string(t), ",") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("%q: want name=value", pair)
		}
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		s := known.Field(name)
		if s == nil {
			return fmt.Errorf("%q: there is no such condition; %s", name, fields.ChoiceHint(name, known.FieldNames()))
		}
		if problem, hint := s.ScalarFault(value); problem != "" {
			return fmt.Errorf("%s: %s; %s", name, problem, hint)
		}
		into := reflect.ValueOf(to).Elem().FieldByIndex(s.At)
		if rate, ok := into.Addr().Interface().(*Rate); !ok {
			s.Put(into, value)
		} else if err := rate.SetText(value, ""); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
