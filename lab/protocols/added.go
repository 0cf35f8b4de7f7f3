package protocols

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"dyno/lab/plan"
	"dyno/load/scenario"
	"dyno/load/wire"
)

// Register adds a protocol of a program to dyno's own; see plan.Register. Codecs makes what a load is spoken with: Clients,
// or Muxes and Exchanges. The fields are a pointer to a struct of the declared type. Message judges a message of a
// scenario, whose clients are wire.Messengers; nil: there are no scenarios.
func Register(name, title string, fields reflect.Type, codecs func(fields any, seed uint64, workers int) (Codecs, error), message func([]byte) error) error {
	scripted := func(context.Context, *plan.Variant, bool) (script, error) { return messageScript(message), nil }
	p := protocol{codecs: func(ctx context.Context, v *plan.Variant, seed uint64, workers int) (Codecs, error) {
		c, err := codecs(v.Load.Added, seed, workers)
		switch {
		case err != nil:
			return c, fmt.Errorf("load.%s: %w", name, err)
		case v.Load.Scenario == nil:
			return c, nil
		}
		if err = ready(ctx, v, &c, scripted); err == nil {
			c.Clients, err = messengers(c.Clients, c.Scenario.Outlines())
		}
		return c, err
	}}
	if message != nil {
		p.script = scripted
	}
	err := plan.Register(name, title, fields, message != nil)
	if err == nil {
		protocols[name] = p
	}
	return err
}

// messengers makes clients send the messages of a scenario.
func messengers(clients func(worker int) func() wire.Client, sent []scenario.Outline) (func(worker int) func() wire.Client, error) {
	if clients == nil {
		return nil, errNoMessenger
	} else if _, ok := clients(0)().(wire.Messenger); !ok {
		return nil, errNoMessenger
	}
	texts := make([][]byte, len(sent)) // nil: it varies
	for i, o := range sent {
		if !o.VariesBody {
			texts[i] = append([]byte{}, o.Body...)
		}
	}
	return func(worker int) func() wire.Client {
		next := clients(worker)
		return func() wire.Client { return &messenger{next().(wire.Messenger), texts} }
	}, nil
}

var errNoMessenger = errors.New("load.scenario: the protocol has a function Message, and its clients are no wire.Messengers")

// A messenger sends the messages of a scenario by a Messenger.
type messenger struct {
	wire.Messenger
	texts [][]byte
}

var _ wire.Collector = (*messenger)(nil)

// Compose implements wire.Composer.
func (m *messenger) Compose(request int, parts [][]byte) []byte {
	if text := m.texts[request]; text != nil {
		return m.Send(text)
	}
	return m.Send(parts[0])
}

// Content implements wire.Composer: there is none until the response is complete.
func (m *messenger) Content(p []byte) (n, size int, done bool, err error) {
	n, done, err = m.Response(p)
	return n, 0, done, err
}

func (m *messenger) Take(int)                {}
func (m *messenger) Fields() []wire.MuxField { return nil }

// Collected implements wire.Collector.
func (m *messenger) Collected() ([]byte, int64) {
	answer := m.Answer()
	return answer, int64(len(answer))
}
