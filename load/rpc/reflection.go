package rpc

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"dyno/internal/nearest"
	"dyno/load/rpc/diag"
)

// Bounds on what a server may send by reflection.
const (
	maxAnswer   = 16 << 20  // bytes of one answer; grpc-go's clients take 4 MiB
	maxReceived = 256 << 20 // bytes of all answers: the same file may be in many
	maxMetadata = 64 << 10  // bytes of header fields

	// A part becomes up to 1.8 kB. A server's own services are fewer than a chosen collection of files.
	maxServedElements  = 80_000
	maxServedNameBytes = 32 << 20
)

// defaultTimeout is how long reflection takes at most unless a Target says otherwise.
const defaultTimeout = 10 * time.Second

// A Target is a server that describes itself by reflection.
type Target struct {
	Address string // host:port, [ipv6]:port or unix:/path
	// TLS is how to speak TLS, with ALPN of HTTP/2 added. With nil, HTTP/2 is spoken from the
	// first byte, without TLS.
	TLS *tls.Config
	// Authority is what the server is called in requests (:authority). If it is empty, it
	// is the address, or localhost for a Unix socket.
	Authority string
	// Metadata is sent with each call, as it is: values of names that end in -bin are
	// base64 already.
	Metadata http.Header
	// Timeout bounds the whole of it, from the connection on. 0 means 10 s.
	Timeout time.Duration
}

// FromReflection asks a server for its services by gRPC Server Reflection v1. If the server does not
// implement that, it uses v1alpha. A service that the server lists without a usable description is in
// the Schema with its error. Any other fault is an error of the whole.
func FromReflection(ctx context.Context, t Target) (*Schema, error) {
	transport, err := newTransport(t)
	if err != nil {
		return nil, err
	}
	defer transport.CloseIdleConnections()
	// The server does not learn the deadline, so that it cannot be the first to say so.
	ctx, cancel := context.WithCancelCause(ctx)
	timeout := cmp.Or(t.Timeout, defaultTimeout)
	timer := time.AfterFunc(timeout, func() { cancel(fmt.Errorf("no complete answer within %v", timeout)) })
	defer timer.Stop()
	d := &discovery{
		target:   t,
		linker:   newLinker(t.Address),
		declares: map[string]string{},
		services: map[string]error{},
		asked:    map[string]bool{},
	}
	d.linker.mostElements, d.linker.mostNames = maxServedElements, maxServedNameBytes
	d.stream = newClient(t, transport, d.linker).NewStream(ctx, grpcreflect.WithRequestHeaders(t.header()))
	defer func() {
		cancel(nil)
		_, _ = d.stream.Close() // the server need not have ended it
	}()
	return d.schema(ctx)
}

// A discovery collects what a server says of its services.
type discovery struct {
	target   Target
	stream   *grpcreflect.ClientStream
	linker   *linker
	declares map[string]string // a service → the file that declares it
	services map[string]error  // listed → nil, or why it is not described
	asked    map[string]bool   // files, by name
}

// schema asks for everything.
func (d *discovery) schema(ctx context.Context) (*Schema, error) {
	listed, err := d.list(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range listed {
		if err := d.describe(ctx, name); err != nil {
			return nil, err
		}
	}
	if err := d.imports(ctx); err != nil {
		return nil, err
	}
	d.link()
	return newSchema(d.target.Address, d.linker.files, d.services), nil
}

// list returns the names of the server's services.
func (d *discovery) list(ctx context.Context) (names []string, err error) {
	services, err := d.stream.ListServices()
	switch {
	case connect.CodeOf(err) == connect.CodeUnimplemented:
		return nil, fmt.Errorf("%s: the server has no reflection: give --proto or --protoset", d.target.Address)
	case err != nil:
		return nil, d.target.failed(ctx, err)
	}
	for _, name := range services {
		if len(name) > maxName || !name.IsValid() {
			return nil, d.linker.fault("", "the server lists a service that cannot have its name: %s", diag.Quote(string(name)))
		}
		names = append(names, string(name))
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// describe asks for the file that declares a service, unless it has come with others.
func (d *discovery) describe(ctx context.Context, name string) error {
	d.services[name] = nil
	if d.declares[name] != "" {
		return nil
	}
	files, err := d.stream.FileContainingSymbol(protoreflect.FullName(name))
	if isAnswer(err) {
		d.services[name] = d.linker.fault(name, "the server does not describe this service: %s", statusText(err))
		return nil
	}
	return d.add(ctx, files, err)
}

// imports asks for files that others import, until there is nothing more to ask for.
func (d *discovery) imports(ctx context.Context) error {
	for round := 0; ; round++ {
		missing := slices.DeleteFunc(d.linker.missing(), func(path string) bool { return d.asked[path] || len(path) > maxName })
		switch {
		case len(missing) == 0:
			return nil
		case round == maxImports:
			return d.linker.fault(missing[0], "files import each other in a chain of more than %d", maxImports)
		case len(d.asked)+len(missing) > maxFiles:
			return d.linker.fault("", "there are more than %d files", maxFiles)
		}
		for _, path := range missing {
			d.asked[path] = true
			files, err := d.stream.FileByFilename(path)
			if isAnswer(err) {
				continue // linking says who misses the file
			}
			if err := d.add(ctx, files, err); err != nil {
				return err
			}
		}
	}
}

// isAnswer tells whether an error is the server's answer to one question.
func isAnswer(err error) bool {
	return connect.IsWireError(err) && !grpcreflect.IsReflectionStreamBroken(err)
}

// add adds the files of an answer.
func (d *discovery) add(ctx context.Context, files []*descriptorpb.FileDescriptorProto, err error) error {
	if err != nil {
		return d.target.failed(ctx, err)
	}
	for _, fd := range files {
		if err := d.linker.add(fd); err != nil {
			return err
		}
		for _, s := range fd.GetService() {
			name := string(protoreflect.FullName(fd.GetPackage()).Append(protoreflect.Name(s.GetName())))
			d.declares[name] = fd.GetName()
		}
	}
	return nil
}

// link links the files of all services.
func (d *discovery) link() {
	declared := make([]string, 0, len(d.declares))
	for name := range d.declares {
		declared = append(declared, name)
	}
	slices.Sort(declared)
	for name, err := range d.services {
		path := d.declares[name]
		switch {
		case err != nil:
		case path == "":
			fault := d.linker.fault(name, "what the server sends for this service does not declare it")
			if meant, found := nearest.Find(name, declared); found {
				fault.Hint = fmt.Sprintf("it declares %q", meant)
			}
			d.services[name] = fault
		default:
			_, err := d.linker.link(path)
			d.services[name] = err
		}
	}
}
