package k6

import (
	"path/filepath"
	"strings"

	"dyno/cli/imports/draft"
	"dyno/load/scenario"
)

// A schema is what a client of gRPC loads.
type schema struct {
	Line     int      `json:"line"`
	Folders  []string `json:"folders"` // of imports
	Files    []string `json:"files"`
	Protoset string   `json:"protoset"`
}

// useGRPC makes the experiment one of calls.
func useGRPC(d *draft.Draft, s *session) {
	for i := range s.First {
		for _, e := range s.First[i].Events {
			if d.Base == "" && e.Call != "" && !draft.Varies(e.URL) {
				d.Base = strings.TrimSuffix(e.URL, "/")
			}
		}
	}
	d.UseGRPC()
	call := d.Load().Call
	for _, schema := range s.Schemas {
		if schema.Protoset != "" {
			call.Protoset = d.Relative(schema.Line, schema.Protoset)
		}
		for _, folder := range schema.Folders {
			call.ImportPaths = append(call.ImportPaths, d.Relative(schema.Line, folder))
		}
		for _, file := range schema.Files {
			if len(schema.Folders) > 0 {
				file = filepath.Join(schema.Folders[0], file)
			}
			call.Protos = append(call.Protos, d.Relative(schema.Line, file))
		}
	}
}

// addCall adds the step of a call.
func addCall(d *draft.Draft, e *event) *scenario.Step {
	if address := strings.TrimSuffix(e.URL, "/"); address != d.Base && !draft.Varies(address) {
		d.Leave(e.Line, e.Call, "another server is called, "+address+", and a run has one", "import the script once for each")
		return nil
	}
	name := e.Name
	if name == "" {
		name = strings.Trim(e.Group+"-"+e.Call, "-")
	}
	step := d.AddMessage(e.Line, name, unquoteNumbers(d, strings.Join(e.Messages, "\n")))
	step.Method = e.Call
	for _, h := range e.Headers {
		step.Metadata = append(step.Metadata, scenario.Header{Name: h.Name, Value: d.Template(h.Value)})
	}
	return step
}
