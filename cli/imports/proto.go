package imports

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"dyno/lab/plan"
	"dyno/load/rpc"
	"dyno/load/scenario"
)

// readProto makes a call of each method of a .proto file, with a message to be filled in.
func readProto(d *draft, src []byte) error {
	schema, err := rpc.FromProtos(context.Background(), []string{d.source.File}, nil)
	if err != nil {
		return d.protoError(err)
	}
	d.useGRPC()
	d.load().Call.Protos = []string{d.relative(0, filepath.Base(d.source.File))}
	for _, s := range schema.Services() {
		if len(d.items) == maxItems {
			break
		}
		service := lineOfKey(src, "service "+s.Name[strings.LastIndexByte(s.Name, '.')+1:], 0)
		for _, m := range s.Methods {
			if len(d.scenario.Steps) == scenario.MaxSteps {
				d.leave(service, s.Name+"/"+m.Name, fmt.Sprintf("there are more than %d methods", scenario.MaxSteps), "import a part of the file")
				continue
			}
			line := cmp.Or(lineOfKey(src, "rpc "+m.Name, service), lineOfKey(src, m.Name, service))
			if m.ClientStreaming {
				d.leave(line, m.Name, "the example sends one message", "an array of messages is a stream of them")
			}
			var message bytes.Buffer
			if err := json.Compact(&message, m.Example()); err != nil {
				return err
			}
			step := d.step(line, m.Name)
			step.Method, step.Message = s.Name+"/"+m.Name, plan.Quote(message.String())
		}
	}
	if len(d.scenario.Steps) == 0 {
		return nil
	}
	d.pass = true
	d.leave(0, "messages", "a .proto file has no values: fields have their defaults", "give the steps their messages")
	return nil
}

// protoError shortens what the compiler says of a file that it does not understand.
func (d *draft) protoError(err error) error {
	const most = 5
	faults := strings.Split(strings.ReplaceAll(err.Error(), d.source.File+":", ""), "\n")
	if len(faults) > most {
		faults = append(faults[:most], fmt.Sprintf("and %d more faults", len(faults)-most))
	}
	return errors.New(strings.Join(faults, "\n"))
}

// useGRPC makes the experiment one of calls.
func (d *draft) useGRPC() {
	e := plan.New(d.e.Name, plan.GRPC)
	e.Design.Rounds = 1
	d.e = e
	d.load().Warmup = 0
	url := d.base
	if url == "" {
		url = "http://127.0.0.1:50051"
		d.leave(0, "server", "the file does not name it: it is taken to be "+url, "name it by --url")
	}
	d.target().URL = plan.Quote(url)
}
