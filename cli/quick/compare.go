package quick

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mattn/go-shellwords"
	"github.com/spf13/pflag"

	"dyno/lab/plan"
	"dyno/lab/planfile"
)

// A Comparison is a comparison of two commands, made from flags.
type Comparison struct {
	Load

	commands [2]string // the base's and the other's
	control  bool
}

// Flags registers the flags of a comparison.
func (c *Comparison) Flags(f *pflag.FlagSet, stdin io.Reader) {
	f.StringVar(&c.commands[0], "a", "", "the `command` that starts the base")
	f.StringVar(&c.commands[1], "b", "", "the `command` that starts what is compared with it")
	f.BoolVar(&c.control, "control", true, "measure the base twice, to check that no difference is found where there is none")
	// --data-file is for rows here, as in dyno http; a message is in a file as -d @FILE.
	but := func(field string) bool {
		return field != "load.call.message_file" && !strings.HasPrefix(field, "capacity.")
	}
	protocols := plan.OfURLs()
	c.fields.Register(f, but, map[string]string{"duration": "3s", "warmup": "1s"}, protocols...)
	c.ownFlags(f, stdin, protocols...)
}

// Settings returns the options of a file, with the values of flags that were given for its fields.
func (c *Comparison) Settings(o planfile.Options) planfile.Options { return c.fields.Settings(o) }

// Experiment makes the plan for two commands.
func (c *Comparison) Experiment(url string) (*plan.Experiment, error) {
	protocol, where, misplaced := c.Spoken(url)
	c.ports = plan.RuntimeNames()
	e, faults := c.unjudged(protocol, where)
	faults = append(faults, misplaced...)
	e.Name, e.Base = "compare", "a"
	variant := e.Variants[0]
	e.Variants = nil
	for i, name := range []string{"a", "b"} {
		words, err := split(c.commands[i])
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", name, err))
		}
		for w := range words {
			words[w] = plan.Quote(words[w], c.ports...)
		}
		variant.Name, variant.Target.Start = name, words
		variant.Vars = map[string]string{"command": c.commands[i]}
		e.Variants = append(e.Variants, variant)
	}
	if c.control {
		if err := e.AddControl("a"); err != nil {
			faults = append(faults, fmt.Errorf("--control: %w", err))
		}
	}
	return c.judgedPlan(e, faults)
}

// Spoken tells the protocol of a URL, and what of it is the target's URL or address. It reports the
// flags that do not go together with it.
func (q *Load) Spoken(url string) (protocol, where string, faults []error) {
	protocol, where = plan.OfURL(url)
	if protocol == plan.HTTP && q.calls.method != "" {
		protocol = plan.GRPC
	}
	faults = q.misplaced(protocol)
	if protocol == plan.GRPC && q.calls.method == "" && q.scenario == "" {
		faults = append(faults, errors.New("--call: is missing; name the method, as pkg.Service/Method"))
	}
	return protocol, where, faults
}

// misplaced reports the flags that were given and that targets with a protocol do not have.
// Those that are fields of the file say so themselves.
func (q *Load) misplaced(protocol string) (faults []error) {
	for _, o := range []struct {
		flag    string
		field   string // of the targets with the flag
		instead string
	}{
		{"http1", "load.http2", "leave it out"},
		{"http2", "load.http2", "leave it out"},
		{"basic-auth", ofRequests, "use --header (-H)"},
		{"form", ofRequests, "leave it out"},
		{"targets", ofRequests, "use --scenario"},
		{"resolve", ofRequests, "write the address into the URL"},
		{"connect-to", ofRequests, "write the address into the URL"},
		{"call", ofCalls, "leave it out"},
		{"metadata", ofCalls, "use --header (-H)"},
		{"metadata-file", ofCalls, "use --header (-H)"},
		{"rows", ofCalls, "use --data-file"},
		{"tls", ofCalls, "write https:// before the address"},
	} {
		if q.Given(o.flag) && !plan.Has(protocol, o.field) {
			faults = append(faults, fmt.Errorf("--%s: is not for %s; %s", o.flag, protocol, o.instead))
		}
	}
	if q.Given("data-file") && plan.Has(protocol, ofCalls) {
		faults = append(faults, fmt.Errorf("--data-file: is not for %s; in gRPC, rows are --rows FILE, and a message in a file is -d @FILE", protocol))
	}
	return faults
}

// split splits a command as a shell would, and refuses what only a shell could do.
func split(command string) ([]string, error) {
	p := shellwords.NewParser()
	words, err := p.Parse(command)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q: %w", command, err)
	case p.Position >= 0:
		return nil, fmt.Errorf("%q: column %d: no shell is involved; give sh -c '…'", command, p.Position+1)
	case len(words) == 0:
		return nil, errors.New("is missing; want a command")
	}
	return words, nil
}
