package rpc

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"dyno/internal/nearest"
	"dyno/load/rpc/diag"
	"dyno/load/rpc/message"
)

// A Schema is the services of a source, and the messages of their methods.
type Schema struct {
	source   string
	files    *protoregistry.Files
	types    *message.Types
	services []Service         // by name
	byName   map[string]int    // in services
	methods  map[string]Method // by Path
}

// A Service is a service of a schema.
type Service struct {
	Name    string   // with its package, such as dyno.echo.v1.Echo
	Comment string   // the comment above it, or ""
	Methods []Method // by name
	// Err is nil, or why nothing is known of a service that a server lists. There are
	// no Methods then.
	Err error
}

// A Method is a method of a service. The zero Method cannot be used.
type Method struct {
	Path            string // as it is called: /pkg.Service/Method
	Service         string // pkg.Service
	Name            string
	Comment         string // the comment above it, or ""
	Input, Output   string // names of the messages: pkg.Message
	ClientStreaming bool   // the client sends any number of messages, else one
	ServerStreaming bool   // the server sends any number of messages, else one
	Deprecated      bool

	*message.Codec // of its messages
}

// Kind says who sends more than one message: unary, client streaming, server streaming or
// bidirectional streaming.
func (m Method) Kind() string {
	switch {
	case m.ClientStreaming && m.ServerStreaming:
		return "bidirectional streaming"
	case m.ClientStreaming:
		return "client streaming"
	case m.ServerStreaming:
		return "server streaming"
	}
	return "unary"
}

// newSchema makes a schema of linked files. It has the services that are listed, or all
// if the list is nil. A listed service may have an error.
func newSchema(source string, files *protoregistry.Files, listed map[string]error) *Schema {
	s := &Schema{
		source:  source,
		files:   files,
		types:   message.NewTypes(files),
		byName:  map[string]int{},
		methods: map[string]Method{},
	}
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			if err, ok := listed[string(service.FullName())]; ok && err == nil || listed == nil {
				s.services = append(s.services, s.service(service))
			}
		}
		return true
	})
	for name, err := range listed {
		if err != nil {
			s.services = append(s.services, Service{Name: name, Err: err})
		}
	}
	slices.SortFunc(s.services, func(a, b Service) int { return strings.Compare(a.Name, b.Name) })
	for i, service := range s.services {
		s.byName[service.Name] = i
	}
	return s
}

func (s *Schema) service(d protoreflect.ServiceDescriptor) Service {
	service := Service{Name: string(d.FullName()), Comment: comment(d)}
	for i := range d.Methods().Len() {
		md := d.Methods().Get(i)
		m := Method{
			Path:            "/" + service.Name + "/" + string(md.Name()),
			Service:         service.Name,
			Name:            string(md.Name()),
			Comment:         comment(md),
			Input:           string(md.Input().FullName()),
			Output:          string(md.Output().FullName()),
			ClientStreaming: md.IsStreamingClient(),
			ServerStreaming: md.IsStreamingServer(),
			Deprecated:      deprecated(md),
			Codec:           message.New(md.Input(), md.Output(), s.types),
		}
		s.methods[m.Path] = m
		service.Methods = append(service.Methods, m)
	}
	slices.SortFunc(service.Methods, func(a, b Method) int { return strings.Compare(a.Name, b.Name) })
	return service
}

// Services returns the services by name, each with its methods by name. The slices are
// the schema's: they must not be changed.
func (s *Schema) Services() []Service { return s.services }

// Service returns the service of that name. An error says what was probably meant.
func (s *Schema) Service(name string) (Service, error) {
	if i, ok := s.byName[name]; ok {
		return s.services[i], s.services[i].Err
	}
	names := make([]string, len(s.services))
	for i, service := range s.services {
		names[i] = service.Name
	}
	fault := &diag.Fault{Source: s.source, Problem: "there is no service " + diag.Quote(name), Hint: diag.Suggest(name, names)}
	if len(names) == 0 {
		fault.Hint = "there are no services at all"
	}
	return Service{}, fault
}

// Method returns the method of that name, which is pkg.Service/Method,
// /pkg.Service/Method or pkg.Service.Method. An error says what was probably meant.
func (s *Schema) Method(name string) (Method, error) {
	path := strings.TrimPrefix(name, "/")
	serviceName, methodName, ok := strings.Cut(path, "/")
	if !ok {
		if _, isService := s.byName[path]; isService {
			return Method{}, s.noMethod(path, "")
		}
		i := strings.LastIndexByte(path, '.')
		if i < 0 {
			return Method{}, &diag.Fault{Source: s.source, Problem: diag.Quote(name) + " is not the name of a method", Hint: s.suggestMethod(path)}
		}
		serviceName, methodName = path[:i], path[i+1:]
	}
	if m, ok := s.methods["/"+serviceName+"/"+methodName]; ok {
		return m, nil
	}
	if _, err := s.Service(serviceName); err != nil {
		return Method{}, err
	}
	return Method{}, s.noMethod(serviceName, methodName)
}

// noMethod says that a service has no method of that name.
func (s *Schema) noMethod(serviceName, name string) error {
	service, err := s.Service(serviceName)
	if err != nil {
		return err
	}
	names := make([]string, len(service.Methods))
	for i, m := range service.Methods {
		names[i] = m.Name
	}
	fault := &diag.Fault{Source: s.source, Problem: "service " + serviceName + " has no method " + diag.Quote(name), Hint: diag.Suggest(name, names)}
	if name == "" {
		fault.Problem = diag.Quote(serviceName) + " is a service, and a method must be named"
	}
	if len(names) == 0 {
		fault.Hint = "it has no methods at all"
	}
	return fault
}

// suggestMethod helps a user who wrote one word.
func (s *Schema) suggestMethod(word string) string {
	var names []string
	for _, service := range s.services {
		for _, m := range service.Methods {
			if strings.EqualFold(m.Name, word) {
				return "did you mean " + diag.Quote(m.Path[1:]) + "?"
			}
			names = append(names, m.Path[1:])
		}
	}
	return nearest.Hint(word, names)
}

// deprecated tells whether a method is marked so.
func deprecated(d protoreflect.MethodDescriptor) bool {
	o, ok := d.Options().(interface{ GetDeprecated() bool })
	return ok && o.GetDeprecated()
}
