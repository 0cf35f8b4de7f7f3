package protocols

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"dyno/lab/plan"
	"dyno/load/rpc"
	"dyno/load/wire"
	"dyno/load/wire/grpc"
	"dyno/load/wire/http1"
)

var webForms = map[string]grpc.Web{plan.WebBinary: grpc.Binary, plan.WebText: grpc.Text}

// grpcCodecs makes what repeats the call.
func grpcCodecs(ctx context.Context, v *plan.Variant, seed uint64, workers int) (c Codecs, err error) {
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		return c, err
	}
	l := v.Load.Call
	var config grpc.Config
	if v.Load.Scenario != nil {
		config, err = playCalls(ctx, v, &c, end)
	} else {
		config, err = repeatCall(ctx, v, &c, end, seed)
	}
	if err != nil {
		return c, err
	}
	if v.Load.Traceparent {
		for i := range config.Calls {
			call := &config.Calls[i]
			call.Metadata = slices.Insert(slices.Clone(call.Metadata), 0, grpc.Metadata{Name: traceparent, Varies: true})
		}
		c.Traces = make([]int, len(config.Calls)) // the first of the parts
	}
	config.Web, config.MaxMessage, config.Plain, config.Step = webForms[l.Web], l.MaxMessage, l.Accept != plan.CompressionGzip, workers
	two := http2Config(&v.Load)
	config.Streams, config.Optimistic, config.Settings, config.MaxHeader = two.Streams, two.Optimistic, two.Settings, two.MaxHeader
	c.TimedOut = &wire.Error{Kind: wire.Timeout, Text: grpc.Prefix + grpc.DeadlineExceeded.String() + ": no complete response in time"}
	return c, speakGRPC(v, &c, end, config)
}

// codeName writes the status of a call.
func codeName(status int) string {
	return grpc.Code(min(max(status, 0), int(grpc.Codes))).String() //nolint:gosec // bounded
}

// repeatCall says what repeats the one call.
func repeatCall(ctx context.Context, v *plan.Variant, c *Codecs, end http1.Endpoint, seed uint64) (config grpc.Config, err error) {
	l := call{v.Load.Call}
	p, err := l.prepare(ctx, v, end, seed)
	if err != nil {
		return config, err
	}
	config.Calls, config.Check = []grpc.Call{p.call}, p.check
	c.Timeout = l.Deadline
	if p.call.ClientStream || p.call.ServerStream {
		c.Messages = &Messages{Answered: p.call.ClientStream && p.call.ServerStream && l.Answered, Interval: l.Interval}
	}
	return config, nil
}

// speakGRPC makes the codecs for the versions of HTTP that may be spoken.
func speakGRPC(v *plan.Variant, c *Codecs, end http1.Endpoint, config grpc.Config) (err error) {
	h := v.Load.HTTP2
	one := config.Web != grpc.Native && h.Use != plan.HTTP2Always
	two := !one || h.Use == plan.HTTP2Auto && end.Secure
	of := func(worker int) grpc.Config {
		mine := config
		mine.First = worker
		return mine
	}
	var alpn []string
	if two {
		alpn = append(alpn, "h2")
		c.Exchanges = h.Streams
		c.Muxes, err = perWorker(of, grpc.NewTemplate, func(t *grpc.Template) wire.Mux { return t.Client() })
	}
	if one && err == nil {
		alpn = append(alpn, "http/1.1")
		c.Clients, err = perWorker(of, grpc.NewWebTemplate, func(t *grpc.Template) wire.Client { return t.WebClient() })
	}
	if err != nil {
		return fmt.Errorf("load.call: %w", err)
	}
	if end.Secure {
		c.TLS, err = tlsConfig(v.Target.TLS, end, alpn)
	}
	return err
}

// A call is the prepared form of the plan's call.
type call struct{ *plan.Call }

// A preparedCall is the call as it is sent, and what checks its responses.
type preparedCall struct {
	call  grpc.Call
	check func(call int, message []byte) error
}

// prepare finds out about the method, and encodes its messages.
func (l call) prepare(ctx context.Context, v *plan.Variant, end http1.Endpoint, seed uint64) (p preparedCall, err error) {
	p.call = l.common(end)
	p.call.Timeout, p.call.Count = l.Deadline, l.Messages
	if p.call.Metadata, err = l.metadata(nil); err != nil {
		return p, err
	}
	path := "/" + strings.TrimPrefix(l.Method, "/")
	if l.Kind == plan.KindAuto {
		method, err := l.describe(ctx, v, end)
		if err != nil {
			return p, err
		}
		path = method.Path
		p.call.ClientStream, p.call.ServerStream = method.ClientStreaming, method.ServerStreaming
		if l.Check {
			p.check = func(_ int, message []byte) error { return method.Check(message) }
		}
		if p.call.Messages, err = l.encode(method, v.Plain, seed); err != nil {
			return p, err
		}
	} else {
		p.call.ClientStream = l.Kind == plan.KindClientStream || l.Kind == plan.KindBidi
		p.call.ServerStream = l.Kind == plan.KindServerStream || l.Kind == plan.KindBidi
	}
	p.call.Path = strings.TrimSuffix(end.Target, "/") + path
	if l.BinaryFile != "" {
		message, err := os.ReadFile(l.BinaryFile)
		if err != nil {
			return p, fmt.Errorf("load.call.binary_file: %w", err)
		}
		p.call.Messages = [][]byte{message}
	}
	if l.Kind != plan.KindAuto && len(p.call.Messages) == 0 {
		p.call.Messages = [][]byte{nil}
	}
	return p, l.stream(&p.call)
}

// common returns what all calls have in common.
func (l call) common(end http1.Endpoint) grpc.Call {
	call := grpc.Call{Scheme: "http", Authority: cmp.Or(l.Authority, end.Host), Gzip: l.Compression == plan.CompressionGzip, Subtype: l.Subtype}
	if end.Secure {
		call.Scheme = "https"
	}
	return call
}

// stream says how the messages of a stream are sent.
func (l call) stream(c *grpc.Call) error {
	if !c.ClientStream {
		switch {
		case l.Messages > 1:
			return fmt.Errorf("load.call.messages: %d messages: the method takes one", l.Messages)
		case l.Interval > 0:
			return errors.New("load.call.interval: there is none between messages, as the method takes one")
		}
		c.Count = 0
		return nil
	}
	c.Paced = l.Interval > 0
	c.Lockstep = !c.Paced && c.ServerStream && l.Answered
	return nil
}

// describe finds the method, in .proto files, in a descriptor set, or by asking the server.
func (l call) describe(ctx context.Context, v *plan.Variant, end http1.Endpoint) (rpc.Method, error) {
	s, err := readSchema(ctx, v, end)
	if err != nil {
		return rpc.Method{}, fmt.Errorf("load.call: %w", err)
	}
	method, err := s.Method(l.Method)
	if err != nil {
		return method, fmt.Errorf("load.call.method: %w", err)
	}
	return method, nil
}

// askTime bounds how long a server is asked for a description of its services. One of a hundred
// thousand messages takes seconds where the CPU has other things to do.
const askTime = 30 * time.Second

// Schema reads, or asks for, the description of the services of a target that speaks gRPC. The
// run-time variables are filled in.
func Schema(ctx context.Context, v *plan.Variant) (*rpc.Schema, error) {
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		return nil, err
	}
	return readSchema(ctx, v, end)
}

func readSchema(ctx context.Context, v *plan.Variant, end http1.Endpoint) (*rpc.Schema, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	l := v.Load.Call
	switch {
	case len(l.Protos) > 0:
		return rpc.FromProtos(ctx, l.Protos, l.ImportPaths)
	case l.Protoset != "":
		return rpc.FromProtoset(l.Protoset)
	}
	t := rpc.Target{Address: v.Target.Address, Authority: cmp.Or(l.Authority, end.Host), Metadata: http.Header{}, Timeout: askTime}
	for _, m := range l.Metadata {
		t.Metadata.Add(m.Name, m.Value)
	}
	if end.Secure {
		standard, err := standardTLS(v.Target.TLS, end, []string{"h2"})
		if err != nil {
			return nil, err
		}
		t.TLS = standard
	}
	return rpc.FromReflection(ctx, t)
}
