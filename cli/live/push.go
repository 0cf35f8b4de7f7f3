package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"dyno/lab/trial"
	"dyno/load/engine/record"
	"dyno/load/scenario"
	"dyno/results/push"
	"dyno/results/rundir"
)

// closePush bounds how long a run waits at its end for receivers to take the last
// samples.
const closePush = 5 * time.Second

// Outputs are receivers of live figures that a program adds, by name. Each is opened for what the user names.
type Outputs map[string]func(target string) (push.Receiver, error)

// PushFlags say where live figures go.
type PushFlags struct {
	receivers []string
	headers   []string
	own       Outputs
}

// Flags registers them. Own outputs take figures, too.
func (p *PushFlags) Flags(f *pflag.FlagSet, own Outputs) {
	p.own = own
	usage := "send live figures every second to `PROTOCOL=URL`: prometheus (remote write), otlp or influx"
	for _, name := range slices.Sorted(maps.Keys(own)) {
		usage += "; or to " + name + "=TARGET"
	}
	f.StringArrayVar(&p.receivers, "push", nil, usage+"; may be repeated")
	f.StringArrayVar(&p.headers, "push-header", nil, "header line of those requests, its value from the environment: `'Name: $VARIABLE'`, or 'PROTOCOL=Name: $VARIABLE' with several receivers")
}

// Configs reads the flags and, with lookup, the environment. Its errors never contain the
// value of a variable.
func (p *PushFlags) Configs(lookup func(string) (string, bool)) (configs []push.Config, err error) {
	var faults []error
	for _, r := range p.receivers {
		protocol, url, ok := strings.Cut(r, "=")
		c := push.Config{Protocol: push.Protocol(protocol), URL: url, Header: http.Header{}, Open: p.own[protocol]}
		if !ok {
			faults = append(faults, fmt.Errorf("--push: want PROTOCOL=URL with one of %q", push.Protocols()))
			continue
		}
		if err := c.Validate(); err != nil {
			faults = append(faults, fmt.Errorf("--push %s: %w", protocol, err))
		}
		configs = append(configs, c)
	}
	for _, h := range p.headers {
		if err := addPushHeader(configs, h, lookup); err != nil {
			faults = append(faults, fmt.Errorf("--push-header: %w", err))
		}
	}
	return configs, errors.Join(faults...)
}

// addPushHeader adds the header to the receivers that it is for. It takes values only
// from the environment, because the command line is recorded in the run folder.
func addPushHeader(configs []push.Config, h string, lookup func(string) (string, bool)) error {
	name, value, ok := strings.Cut(h, ":")
	protocol, rest, chosen := strings.Cut(name, "=")
	if chosen {
		name = rest
	}
	if !ok || !scenario.IsToken(name) {
		return errors.New("want 'Name: $VARIABLE', or 'PROTOCOL=Name: $VARIABLE'")
	}
	var missing []string
	used := false
	value = os.Expand(strings.TrimSpace(value), func(variable string) string {
		v, found := lookup(variable)
		if used = true; !found {
			missing = append(missing, variable)
		}
		return v
	})
	of := func(c push.Config) bool { return c.Open == nil && (!chosen || string(c.Protocol) == protocol) }
	switch {
	case !used:
		return fmt.Errorf("%s: want its value from the environment, as in '%s: $VARIABLE' in single quotes: the command line is kept in the run folder", name, name)
	case len(missing) > 0:
		return fmt.Errorf("%s: the environment has no %s", name, strings.Join(missing, ", "))
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return fmt.Errorf("%s: the value holds a control character", name)
	case !chosen && len(configs) > 1:
		return fmt.Errorf("%s: which receiver is it for? Want 'PROTOCOL=%s: $VARIABLE'", name, name)
	case !slices.ContainsFunc(configs, of):
		return fmt.Errorf("%s: there is no receiver that it is for; give one with --push", name)
	}
	for _, c := range configs {
		if of(c) {
			c.Header.Add(name, value)
		}
	}
	return nil
}

// A Pusher sends live figures of a run to receivers. It implements trial.ReadingWatcher.
type Pusher struct {
	meter   *push.Meter
	senders []*push.Sender
	names   []string // of the receivers
}

var _ trial.ReadingWatcher = (*Pusher)(nil)

// NewPusher starts a sender for each receiver.
func NewPusher(run push.Run, configs []push.Config) (*Pusher, error) {
	p := &Pusher{}
	for _, c := range configs {
		s, err := push.Start(c)
		if err != nil {
			p.Close(io.Discard)
			return nil, err
		}
		p.senders, p.names = append(p.senders, s), append(p.names, c.Receiver())
	}
	p.meter = push.NewMeter(run, p.put)
	return p, nil
}

func (p *Pusher) put(s push.Sample) {
	for _, to := range p.senders {
		to.Put(s)
	}
}

// Begin implements trial.Watcher.
func (p *Pusher) Begin(next trial.Planned) {
	p.meter.Begin(push.Trial{Variant: next.Variant, Number: next.Number, Round: next.Round})
}

// Interval implements trial.Watcher.
func (p *Pusher) Interval(i record.Interval) { p.meter.Interval(i, trial.CountsOf(&i.Measured)) }

// Reading implements trial.ReadingWatcher.
func (p *Pusher) Reading(r trial.Reading) { p.meter.Reading(r.CPUSeconds, r.RSSBytes) }

// End implements trial.Watcher.
func (p *Pusher) End(t *rundir.Trial, flags []rundir.Flag) {
	found := make([]push.Flag, len(flags))
	for i, f := range flags {
		found[i] = push.Flag{Kind: f.Kind, Disturbs: f.Disturbs}
	}
	p.meter.End(t.Counts, found)
}

// Close sends the rest, to all receivers at the same time, and warns about losses. These
// never fail a run.
func (p *Pusher) Close(stderr io.Writer) {
	if p.meter != nil {
		p.meter.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closePush)
	defer cancel()
	outcomes := make([]chan push.Outcome, len(p.senders))
	for i, s := range p.senders {
		outcomes[i] = make(chan push.Outcome, 1)
		go func() { outcomes[i] <- s.Close(ctx) }()
	}
	for i := range p.senders {
		o := <-outcomes[i]
		if o.Lost() == 0 && o.Err == nil {
			continue
		}
		text := fmt.Sprintf("warning: push to %s: %d of %d samples lost", p.names[i], o.Lost(), o.Sent+o.Lost())
		for _, of := range []struct {
			n    uint64
			what string
		}{{o.Dropped, "dropped from a full queue"}, {o.Refused, "refused"}, {o.GivenUp, "given up"}} {
			if of.n > 0 {
				text += fmt.Sprintf(", %d %s", of.n, of.what)
			}
		}
		if o.Err != nil {
			text += ": " + o.Err.Error()
		}
		fmt.Fprintln(stderr, text)
	}
}
