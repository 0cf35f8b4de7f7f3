package serve

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"

	"dyno/services/relay/conditions"
)

// networkFlags describe the network that the relay simulates.
type networkFlags struct {
	both, toServer, toClient string
	seed                     uint64
}

func (n *networkFlags) flags(f *pflag.FlagSet) {
	const conditions = "delay, jitter, distribution, bandwidth, burst, stall_every, stall_for, stall_chance, reset_after, reset_chance, read_rate, segment, buffer"
	f.StringVar(&n.both, "network", "", "conditions of both directions, such as delay=20ms,jitter=5ms,bandwidth=1MiB/s (of "+conditions+"); needs the goroutine model")
	f.StringVar(&n.toServer, "to-server", "", "further conditions towards the upstream")
	f.StringVar(&n.toClient, "to-client", "", "further conditions towards the client")
	f.Uint64Var(&n.seed, "network-seed", 1, "of what is random in the conditions")
}

func (n *networkFlags) given(f *pflag.FlagSet) bool {
	return f.Changed("network") || f.Changed("to-server") || f.Changed("to-client")
}

func (n *networkFlags) profile() (*conditions.Profile, error) {
	p := &conditions.Profile{Seed: n.seed}
	for _, l := range []struct {
		flag, text string
		link       *conditions.Link
	}{
		{"network", n.both, &p.ToServer},
		{"network", n.both, &p.ToClient},
		{"to-server", n.toServer, &p.ToServer},
		{"to-client", n.toClient, &p.ToClient},
	} {
		if err := parseLink(l.text, l.link); err != nil {
			return nil, fmt.Errorf("--%s %q: %w", l.flag, l.text, err)
		}
	}
	return p, p.Validate()
}

// parseLink reads name=value pairs, which are the fields of a link in YAML.
func parseLink(text string, to *conditions.Link) error {
	if text == "" {
		return nil
	}
	var b strings.Builder
	for pair := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("%q: want name=value", pair)
		}
		text := fmt.Sprintf("%s: %s\n", strings.TrimSpace(name), strings.TrimSpace(value))
		var unknown *yaml.UnknownFieldError
		switch err := yaml.UnmarshalWithOptions([]byte(text), &conditions.Link{}, yaml.Strict()); {
		case errors.As(err, &unknown):
			return fmt.Errorf("%q: there is no such condition", name)
		case err != nil:
			return fmt.Errorf("%q: it cannot have the value %q; want a time such as 20ms, a size such as 64KiB, bytes a second such as 1MiB/s, or a share such as 0.01", name, value)
		}
		b.WriteString(text)
	}
	return yaml.UnmarshalWithOptions([]byte(b.String()), to, yaml.Strict())
}
