// Package proto imports services of gRPC from .proto files.
package proto

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"dyno/cli/imports/draft"
	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
	"dyno/load/rpc"
	"dyno/load/scenario"
)

// Format is the format of .proto files.
func Format() draft.Format {
	return draft.Format{Name: "proto", About: "services of gRPC, in a .proto file", Most: draft.MaxText, Form: form, Read: read}
}

var form = lazyregexp.New(`(?m)^\s*(?:syntax|edition)\s*=\s*"`)

// read makes a call of each method of a .proto file, with a message to be filled in.
func read(d *draft.Draft, src []byte) error {
	schema, err := rpc.FromProtos(context.Background(), []string{d.Source.File}, nil)
	if err != nil {
		return compilerError(d, err)
	}
	d.UseGRPC()
	d.Load().Call.Protos = []string{d.Relative(0, filepath.Base(d.Source.File))}
	for _, s := range schema.Services() {
		if len(d.Items) == draft.MaxItems {
			break
		}
		service := d.LineOfKey("service "+s.Name[strings.LastIndexByte(s.Name, '.')+1:], 0)
		for _, m := range s.Methods {
			if len(d.Scenario.Steps) == scenario.MaxSteps {
				d.Leave(service, s.Name+"/"+m.Name, fmt.Sprintf("there are more than %d methods", scenario.MaxSteps), "import a part of the file")
				continue
			}
			line := cmp.Or(d.LineOfKey("rpc "+m.Name, service), d.LineOfKey(m.Name, service))
			if m.ClientStreaming {
				d.Leave(line, m.Name, "the example sends one message", "an array of messages is a stream of them")
			}
			var message bytes.Buffer
			if err := json.Compact(&message, m.Example()); err != nil {
				return err
			}
			step := d.AddStep(line, m.Name)
			step.Method, step.Message = s.Name+"/"+m.Name, plan.Quote(message.String())
		}
	}
	if len(d.Scenario.Steps) == 0 {
		return nil
	}
	d.Pass = true
	d.Leave(0, "messages", "a .proto file has no values: fields have their defaults", "give the steps their messages")
	return nil
}

// compilerError shortens what the compiler says of a file that it does not understand.
func compilerError(d *draft.Draft, err error) error {
	const most = 5
	faults := strings.Split(strings.ReplaceAll(err.Error(), d.Source.File+":", ""), "\n")
	if len(faults) > most {
		faults = append(faults[:most], fmt.Sprintf("and %d more faults", len(faults)-most))
	}
	return errors.New(strings.Join(faults, "\n"))
}
