package rpc

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"dyno/internal/nearest"
)

// Bounds on what a server may send by reflection.
const (
	maxAnswer   = 16 << 20  // bytes of one answer; grpc-go's clients take 4 MiB
	maxReceived = 256 << 20 // bytes of all answers: the same file may be in many
	maxServices = 10_000    // services that it lists
	maxMetadata = 64 << 10  // bytes of header fields
	batch       = 32        // services that are asked for at once

	// A part becomes up to 1.8 kB. Those of a server's own services are fewer than those of a
	// collection of files, which somebody has chosen to read.
	maxServedElements  = 80_000
	maxServedNameBytes = 32 << 20
)

// defaultTimeout is how long reflection takes at most unless a Target says otherwise.
const defaultTimeout = 10 * time.Second

// ErrNoReflection is what FromReflection's error wraps when the server knows neither version
// of the reflection service.
var ErrNoReflection = errors.New("the server has no reflection: give --proto or --protoset")

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
	// Services are all that is asked for, by their full names. If there are none, it is
	// all services that the server lists.
	Services []string
}

// FromReflection asks a server for its services by gRPC Server Reflection, version v1, or
// v1alpha if the server does not implement that. A service that the server lists and does
// not describe, or not so that it makes sense, is in the Schema with its error. Any other
// fault is an error of the whole.
func FromReflection(ctx context.Context, t Target) (*Schema, error) {
	timeout := t.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no complete answer within %v", timeout))
	defer cancel()
	c, err := newClient(t)
	if err != nil {
		return nil, err
	}
	defer c.close()
	listed, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	wanted := listed
	if len(t.Services) > 0 {
		wanted = t.Services
	}
	d := &discovery{
		client:   c,
		linker:   newLinker(t.Address),
		seen:     map[[sha256.Size]byte]bool{},
		declares: map[string]string{},
		services: map[string]error{},
		asked:    map[string]bool{},
	}
	d.linker.mostElements, d.linker.mostNames = maxServedElements, maxServedNameBytes
	if err := d.describe(ctx, wanted); err != nil {
		return nil, err
	}
	if err := d.imports(ctx); err != nil {
		return nil, err
	}
	d.link(listed)
	return newSchema(t.Address, d.linker.files, d.services), nil
}

// list returns the names of the server's services. It finds out which version of
// reflection the server has.
func (c *client) list(ctx context.Context) (names []string, err error) {
	for _, version := range []string{"v1", "v1alpha"} {
		c.path = "/grpc.reflection." + version + ".ServerReflection/ServerReflectionInfo"
		err = c.ask(ctx, [][]byte{listServices()}, func(_ int, a answer) error {
			if a.kind != answerList {
				return c.fault("", "asked for its services, the server answers with %s", a)
			}
			names = a.names
			return nil
		})
		var status *status
		if !errors.As(err, &status) || status.code != codeUnimplemented {
			break
		}
		err = fmt.Errorf("%s: %w", c.address, ErrNoReflection)
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range names {
		if len(name) > maxName || !protoreflect.FullName(name).IsValid() {
			return nil, c.fault("", "the server lists a service that cannot have its name: %s", quote(name))
		}
	}
	return names, nil
}

// A discovery collects what a server says of its services.
type discovery struct {
	*client
	linker   *linker
	seen     map[[sha256.Size]byte]bool // files, by their bytes: servers repeat them
	declares map[string]string          // a service → the file that declares it
	services map[string]error           // asked for → nil, or why it is not described
	asked    map[string]bool            // files, by name
}

// add adds the files of an answer.
func (d *discovery) add(a answer) error {
	for _, b := range a.files {
		sum := sha256.Sum256(b)
		if d.seen[sum] {
			continue
		}
		d.seen[sum] = true
		path, err := d.linker.addBytes(b)
		if err != nil {
			return err
		}
		fd := d.linker.protos[path]
		for _, s := range fd.GetService() {
			d.declares[fullName(fd, s.GetName())] = path
		}
	}
	return nil
}

func fullName(fd *descriptorpb.FileDescriptorProto, name string) string {
	if fd.GetPackage() == "" {
		return name
	}
	return fd.GetPackage() + "." + name
}

// describe asks for the files that declare services.
func (d *discovery) describe(ctx context.Context, names []string) error {
	for len(names) > 0 {
		// What has been described along with others is not asked for.
		var questions [][]byte
		var about []string
		for len(names) > 0 && len(questions) < batch {
			name := names[0]
			names = names[1:]
			if _, asked := d.services[name]; asked {
				continue
			}
			d.services[name] = nil
			if d.declares[name] == "" {
				questions = append(questions, fileContainingSymbol(name))
				about = append(about, name)
			}
		}
		err := d.ask(ctx, questions, func(i int, a answer) error {
			switch a.kind {
			case answerFiles:
				return d.add(a)
			case answerError:
				d.services[about[i]] = d.fault(about[i], "the server does not describe this service: %s", a.status())
				return nil
			}
			return d.fault(about[i], "asked for this service, the server answers with %s", a)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// imports asks for files that others import, until there is nothing more to ask for.
func (d *discovery) imports(ctx context.Context) error {
	for round := 0; ; round++ {
		var questions [][]byte
		var about []string
		for _, path := range d.linker.missing() {
			if !d.asked[path] && len(path) <= maxName {
				d.asked[path] = true
				questions = append(questions, fileByName(path))
				about = append(about, path)
			}
		}
		switch {
		case len(questions) == 0:
			return nil
		case round == maxImports:
			return d.fault(about[0], "files import each other in a chain of more than %d", maxImports)
		case len(d.asked) > maxFiles:
			return d.fault("", "there are more than %d files", maxFiles)
		}
		err := d.ask(ctx, questions, func(i int, a answer) error {
			switch a.kind {
			case answerFiles:
				return d.add(a)
			case answerError:
				return nil // linking says who misses the file
			}
			return d.fault(about[i], "asked for this file, the server answers with %s", a)
		})
		if err != nil {
			return err
		}
	}
}

// link links the files of all services.
func (d *discovery) link(listed []string) {
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
			fault := d.fault(name, "what the server sends for this service does not declare it")
			if meant, found := nearest.Find(name, declared); found {
				fault.Hint = fmt.Sprintf("it declares %q", meant)
			}
			d.services[name] = fault
		default:
			_, err := d.linker.link(path)
			d.services[name] = err
		}
		if err != nil && !slices.Contains(listed, name) {
			var f *Fault
			if errors.As(err, &f) {
				f.Hint = suggest(name, listed)
			}
		}
	}
}

// fault is one of what the server says; about may be empty.
func (c *client) fault(about, format string, args ...any) *Fault {
	return &Fault{Source: c.address, Path: plain(about), Problem: fmt.Sprintf(format, args...)}
}

// authorityOf returns what a server is called by its address.
func authorityOf(address string) string {
	if strings.HasPrefix(address, "unix:") {
		return "localhost"
	}
	return address
}
