package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"dyno/cli/output"
	"dyno/load/rpc"
)

// A grpcService is a service in JSON.
type grpcService struct {
	Name    string       `json:"name"`
	Comment string       `json:"comment,omitempty"`
	Methods []grpcMethod `json:"methods"`
	Error   string       `json:"error,omitempty"` // why nothing is known of it
}

// A grpcMethod is a method in JSON.
type grpcMethod struct {
	Name            string          `json:"name"`
	Path            string          `json:"path"`
	Kind            string          `json:"kind"`
	ClientStreaming bool            `json:"client_streaming"`
	ServerStreaming bool            `json:"server_streaming"`
	Request         string          `json:"request"`
	Response        string          `json:"response"`
	Comment         string          `json:"comment,omitempty"`
	Deprecated      bool            `json:"deprecated,omitempty"`
	Example         json.RawMessage `json:"example,omitempty"` // a request with zero values
}

// describeGRPC writes what a schema has: all services with their methods, or what the
// name means, which may be a service, a method or a message.
func describeGRPC(w io.Writer, s *rpc.Schema, name string, asJSON bool) error {
	switch {
	case name == "" && asJSON:
		return listGRPCAsJSON(w, s)
	case name == "":
		return listGRPC(w, s)
	case asJSON:
		return describeGRPCAsJSON(w, s, name)
	}
	text, err := s.Describe(name)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	if m, err := s.Method(name); err == nil {
		fmt.Fprintf(w, "\n// A request in JSON, to be filled in:\n%s\n", m.Example())
	}
	return nil
}

// listGRPC writes services and methods, by the names that dyno grpc takes.
func listGRPC(w io.Writer, s *rpc.Schema) error {
	services := s.Services()
	if len(services) == 0 {
		_, err := fmt.Fprintln(w, "There are no services.")
		return err
	}
	for i, service := range services {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, service.Name)
		if service.Err != nil {
			fmt.Fprintf(w, "  nothing is known of it: %v\n", service.Err)
		}
		var rows [][]string
		for _, m := range service.Methods {
			kind := m.Kind()
			if m.Deprecated {
				kind += ", deprecated"
			}
			rows = append(rows, []string{"", strings.TrimPrefix(m.Path, "/"), kind, m.Input + " → " + m.Output})
		}
		if err := output.Table(w, rows); err != nil {
			return err
		}
	}
	return nil
}

func listGRPCAsJSON(w io.Writer, s *rpc.Schema) error {
	list := struct {
		Services []grpcService `json:"services"`
	}{[]grpcService{}}
	for _, service := range s.Services() {
		list.Services = append(list.Services, serviceAsJSON(service, false))
	}
	return output.JSON(w, list)
}

// describeGRPCAsJSON writes the text that people get for a name. For a service or a method,
// it adds examples of requests.
func describeGRPCAsJSON(w io.Writer, s *rpc.Schema, name string) error {
	text, err := s.Describe(name)
	if err != nil {
		return err
	}
	described := struct {
		Service *grpcService `json:"service,omitempty"`
		Method  *grpcMethod  `json:"method,omitempty"`
		Proto   string       `json:"proto"`
	}{Proto: text}
	if service, err := s.Service(name); err == nil {
		inJSON := serviceAsJSON(service, true)
		described.Service = &inJSON
	} else if m, err := s.Method(name); err == nil {
		inJSON := methodAsJSON(m, true)
		described.Method = &inJSON
	}
	return output.JSON(w, described)
}

func serviceAsJSON(service rpc.Service, examples bool) grpcService {
	inJSON := grpcService{Name: service.Name, Comment: service.Comment, Methods: []grpcMethod{}}
	if service.Err != nil {
		inJSON.Error = service.Err.Error()
	}
	for _, m := range service.Methods {
		inJSON.Methods = append(inJSON.Methods, methodAsJSON(m, examples))
	}
	return inJSON
}

func methodAsJSON(m rpc.Method, example bool) grpcMethod {
	inJSON := grpcMethod{
		Name:            m.Name,
		Path:            m.Path,
		Kind:            m.Kind(),
		ClientStreaming: m.ClientStreaming,
		ServerStreaming: m.ServerStreaming,
		Request:         m.Input,
		Response:        m.Output,
		Comment:         m.Comment,
		Deprecated:      m.Deprecated,
	}
	if example {
		inJSON.Example = m.Example()
	}
	return inJSON
}
