package conditions

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
)

// A Text describes a Link, as name=value,name=value: the names are those of the link in YAML.
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
	var b strings.Builder
	for pair := range strings.SplitSeq(string(t), ",") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("%q: want name=value", pair)
		}
		text := fmt.Sprintf("%s: %s\n", strings.TrimSpace(name), strings.TrimSpace(value))
		var unknown *yaml.UnknownFieldError
		switch err := yaml.UnmarshalWithOptions([]byte(text), &Link{}, yaml.Strict()); {
		case errors.As(err, &unknown):
			return fmt.Errorf("%q: there is no such condition; one of delay, jitter, distribution, bandwidth, burst, stall_every, stall_for, stall_chance, reset_after, reset_chance, read_rate, segment, buffer", name)
		case err != nil:
			return fmt.Errorf("%q: it cannot have the value %q; want a time such as 20ms, a size such as 64KiB, bytes a second such as 1MiB/s, or a share such as 0.01", name, value)
		}
		b.WriteString(text)
	}
	return yaml.UnmarshalWithOptions([]byte(b.String()), to, yaml.Strict())
}
