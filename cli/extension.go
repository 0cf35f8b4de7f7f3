package cli

import (
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/spf13/cobra"

	"dyno/cli/live"
	"dyno/lab/protocols"
	"dyno/measure"
	"dyno/results/push"
)

// ExtensionAPI is the version of what extensions rely on: Main and the types in this file, package load/wire, and Sample
// and Receiver of results/push. It grows by one with a change that breaks extensions.
const ExtensionAPI = 1

// An Extension is what a program adds to dyno: a Form, an Output or a Protocol. See Main.
type Extension interface {
	addTo(x *extended) error
}

// extended is what extensions have added.
type extended struct {
	forms    []Form
	outputs  live.Outputs
	commands []quickCommand
}

// A Form is a form of output, which --format NAME asks for. It takes the place of dyno's own of that name.
type Form struct {
	Name  string
	Write func(io.Writer, *measure.Result) error
}

func (f Form) addTo(x *extended) error {
	x.forms = append(x.forms, f)
	return nil
}

// An Output takes the figures of each second while a run is under way: --push NAME=TARGET opens it. It takes the place
// of dyno's own of that name. It never holds up what is measured: a slow one loses samples, which are counted.
type Output struct {
	Name string
	Open func(target string) (push.Receiver, error)
}

func (o Output) addTo(x *extended) error {
	x.outputs[o.Name] = o.Open
	return nil
}

// A Protocol is one that dyno does not have. T is a struct with the fields of its load, which stand in load.NAME of a
// file. Their tags declare them, as package fields explains: those with the tag flag are flags of the command dyno NAME,
// too. All Go fields of T are exported, can be encoded as JSON, and are only read. If *T has a method Check() error, it
// refuses what tags cannot: "problem; remedy".
type Protocol[T any] struct {
	Name  string // of target.protocol, of the command, and the scheme of URLs
	Title string // in texts

	// Codecs makes what a load is spoken with: Clients, or Muxes and Exchanges, and TLS if there is some. Each worker
	// gets its clients from a call of its own, and nobody else uses them. What is random depends on the seed.
	Codecs func(fields *T, seed uint64, workers int) (Codecs, error)

	// Message judges a message of a scenario's step. With it, Clients are wire.Messengers, and users can carry out
	// scenarios.
	Message func(message []byte) error

	// Of the command: help, and what dyno init writes below load, with two blanks before each line.
	Short, Long, Example, Init string
}

// Codecs are what a load is spoken with.
type Codecs = protocols.Codecs

func (p Protocol[T]) addTo(x *extended) error {
	if slices.ContainsFunc(Root().Commands(), func(c *cobra.Command) bool { return c.Name() == p.Name }) {
		return fmt.Errorf("protocol %q: there is a command of this name", p.Name)
	}
	x.commands = append(x.commands, quickCommand{
		protocol: p.Name, use: p.Name + " HOST:PORT", where: "an address, or --unix", short: p.Short, long: p.Long, example: p.Example, sent: p.Init,
	})
	return protocols.Register(p.Name, p.Title, reflect.TypeFor[T](), func(fields any, seed uint64, workers int) (Codecs, error) {
		return p.Codecs(fields.(*T), seed, workers)
	}, p.Message)
}
