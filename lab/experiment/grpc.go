package experiment

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/load/rpc"
	"dyno/load/wire"
	"dyno/load/wire/grpc"
	"dyno/load/wire/http1"
)

// GRPC is the protocol of calls by gRPC, and by gRPC-Web.
const GRPC = "grpc"

// A GRPCLoad is what a load has for gRPC.
type GRPCLoad struct {
	Call      *Call      `yaml:"call" default:"{}" doc:"the call that is repeated; with a scenario, what its calls have in common"`
	Keepalive *Keepalive `yaml:"keepalive" doc:"pings on connections on which nothing comes"`
}

// A Keepalive says when connections are pinged on which nothing comes, as clients of gRPC do.
// Servers may refuse clients that ping too often (GOAWAY, too_many_pings).
type Keepalive struct {
	Time         time.Duration `yaml:"time,required" range:"1ms..24h" flag:"keepalive" doc:"gRPC: how long nothing may come on a connection before it is pinged"`
	Timeout      time.Duration `yaml:"timeout" range:"1ms..1h" default:"20s" flag:"keepalive-timeout" doc:"gRPC: how long nothing may come after a ping before the connection is given up; its calls fail with kind keepalive"`
	WithoutCalls bool          `yaml:"without_calls" flag:"keepalive-without-calls" doc:"gRPC: connections on which no call is under way are pinged, too"`
}

// A Call is the one call repeated. What its messages are made of, .proto files say, a descriptor
// set, or else the server by reflection.
type Call struct {
	Method      string   `yaml:"method" otherwise:"required, unless there is a scenario" doc:"what is called: pkg.Service/Method"`
	Protos      []string `yaml:"proto" kind:"path" flag:"proto" otherwise:"the server is asked, by reflection" doc:"the .proto file of the service, relative to this one, or several"`
	ImportPaths []string `yaml:"import_paths" kind:"path" flag:"import-paths" otherwise:"the working folder and those of the files" doc:"a folder, or several, in which imports of .proto files are looked for"`
	Protoset    string   `yaml:"protoset" kind:"path" flag:"protoset" doc:"a file with the descriptors of the service, as protoc --descriptor_set_out and buf build write it, in place of proto"`

	Message     string `yaml:"message,orfile,scripted" kind:"word" flag:"data,d" otherwise:"an empty message" doc:"the message of the request in JSON, or several, in an array or one after another: a stream of the client's sends them in turn, and so do calls that send one each; a template as in a scenario, in quick loads only where there are rows; {{ '{{' }} in a template stands for the braces themselves"`
	MessageFile string `yaml:"message_file" kind:"path" flag:"data-file,D" doc:"the file with the message or messages, relative to this one, in place of message; variables of the experiment are not replaced in it"`
	Data        []Data `yaml:"data,again" names:"variable" most:"16" doc:"files of rows; the message is a template then, as in a scenario, and is encoded once for each row, before the load"`
	BinaryFile  string `yaml:"binary_file" kind:"path" flag:"binary-file,B" doc:"a file that holds the message as it is sent, in place of message"`
	Subtype     string `yaml:"subtype" like:"subtype" otherwise:"none, which says Protocol Buffers" doc:"what the content-type says of messages from binary_file in another format (application/grpc+SUBTYPE), such as flatbuffers"`
	Kind        string `yaml:"kind" oneof:"auto unary client_stream server_stream bidi" default:"auto" flag:"kind" doc:"how many messages there are in each direction; auto: as the service is described; others: it need not be described, for messages from binary_file"`

	Metadata    []Header      `yaml:"metadata" names:"token" flag:"header,H" doc:"metadata of each call, in this order; the value of a name that ends in -bin is base64"`
	Authority   string        `yaml:"authority" otherwise:"that of the URL" flag:"authority" doc:"what the server is called in calls (:authority)"`
	Deadline    time.Duration `yaml:"deadline" range:"1ms..1h" otherwise:"none" flag:"deadline" doc:"the time limit that the server gets for a call (grpc-timeout); dyno gives the call up then, too"`
	Compression string        `yaml:"compression" oneof:"identity gzip" default:"identity" flag:"compression" doc:"of the messages of requests, once for all calls; identity: none"`
	Accept      string        `yaml:"accept" oneof:"gzip identity" default:"gzip" doc:"the compression that is offered to the server for its messages; identity: none"`
	MaxMessage  int           `yaml:"max_message" kind:"size" range:"1..1GiB" default:"4MiB" flag:"max-message" doc:"the largest message of a response; a larger one fails the call"`
	Check       bool          `yaml:"check" flag:"check" doc:"whether each message of a response is what the method answers with is checked; else they are counted"`

	Messages int           `yaml:"messages" range:"1..1000000000" otherwise:"each message is sent once" flag:"messages" doc:"messages that the client sends in a stream, taken in turn"`
	Interval time.Duration `yaml:"interval" range:"1us..1h" otherwise:"none" flag:"stream-interval" doc:"the time from one message of a stream of the client's to the next, whatever the server answers"`
	Answered bool          `yaml:"answered" default:"true" flag:"answered" doc:"streams in both directions: the server answers each message by one, which is timed; without an interval, the next one is sent when the one before is answered"`

	Web string `yaml:"web" oneof:"binary text" otherwise:"gRPC" flag:"web" doc:"gRPC-Web instead of gRPC; text: in base64"`
}

// The kinds of calls.
const (
	KindAuto         = "auto"          // as the service is described
	KindUnary        = "unary"         // one message in each direction
	KindClientStream = "client_stream" // any number from the client
	KindServerStream = "server_stream" // any number from the server
	KindBidi         = "bidi"          // any number from both
)

// The compressions.
const (
	CompressionNone = "identity"
	CompressionGzip = "gzip"
)

// The forms of gRPC-Web.
const (
	WebNone   = ""
	WebBinary = "binary"
	WebText   = "text"
)

var webForms = map[string]grpc.Web{WebBinary: grpc.Binary, WebText: grpc.Text}

// judge judges the one call of a load, as far as it can be without descriptors.
func (GRPCLoad) validate(i *inspector, _ *Experiment, v *Variant) {
	i.tls(&v.Target)
	i.grpcVersion(v)
	if h, c := v.Load.HTTP2, v.Load.Call; v.Load.Keepalive != nil && c != nil && c.Web != WebNone && h != nil && h.Use != HTTP2Always && !v.Target.overTLS() {
		i.fault("load.keepalive", "HTTP/1.1 has no pings", "ask for HTTP/2 (use: always, --http2), or leave it out")
	}
	const path = "load.call"
	c, started := v.Load.Call, len(v.Target.Start) > 0
	if c == nil {
		i.fault(path, "is missing", "such as call: {method: pkg.Service/Method}")
		return
	}
	if v.Load.Scenario != nil {
		i.callsOfScenario(v)
	} else if c.Method == "" {
		i.fault(path+".method", "is missing", "such as method: pkg.Service/Method")
	}
	if c.Method != "" && !isMethod(i.sent(c.Method)) {
		i.fault(path+".method", fmt.Sprintf("%q is no method", clip(c.Method)), "write it as pkg.Service/Method")
	}
	exclude := func(hint string, fields ...[2]string) {
		given := slices.DeleteFunc(fields, func(f [2]string) bool { return f[1] == "" })
		if len(given) > 1 {
			i.fault(path+"."+given[1][0], given[0][0]+" and "+given[1][0]+" exclude each other", hint)
		}
	}
	exclude("keep one of them", [2]string{"message", c.Message}, [2]string{"message_file", c.MessageFile}, [2]string{"binary_file", c.BinaryFile})
	exclude("keep one of them", [2]string{"proto", strings.Join(c.Protos, " ")}, [2]string{"protoset", c.Protoset})
	if len(c.Data) > 0 && c.Message == "" && c.MessageFile == "" {
		i.fault(path+".data", "no message has rows in it", "write one, such as message: '{\"id\": {{ id }}}'")
	}
	if len(c.ImportPaths) > 0 && len(c.Protos) == 0 {
		i.fault(path+".import_paths", "there are no .proto files that import anything", "give them as proto, or remove it")
	}
	if c.Subtype != "" && c.Kind == KindAuto {
		i.fault(path+".subtype", "a description is one of Protocol Buffers", "say kind: unary, or another, with the message as binary_file")
	}
	if c.Kind != KindAuto {
		if c.Message != "" || c.MessageFile != "" {
			i.fault(path+".kind", "a message in JSON takes a description of the service", "say auto, or give the message as binary_file")
		}
		if c.Check {
			i.fault(path+".kind", "a check takes a description of the service", "say auto, or leave check out")
		}
		if c.Web != WebNone && (c.Kind == KindClientStream || c.Kind == KindBidi) {
			i.fault(path+".web", "gRPC-Web has no streams of the client's", "speak gRPC, or call another method")
		}
	}
	for _, m := range c.Metadata {
		at := join(path+".metadata", m.Name)
		if strings.HasSuffix(strings.ToLower(m.Name), "-bin") {
			if _, err := metadataBytes(m.Value); err != nil {
				i.fault(at, "the value is not base64", "values of names that end in -bin are bytes, written in base64")
			}
		}
		if !started {
			i.ownPorts(at, m.Value)
		}
	}
	if !started {
		i.ownPorts(path+".message", c.Message)
	}
}

// grpcVersion judges which HTTP is spoken.
func (i *inspector) grpcVersion(v *Variant) {
	h, c := v.Load.HTTP2, v.Load.Call
	if h == nil || c == nil {
		return
	}
	const path = "load.http2"
	web := c.Web != WebNone
	switch {
	case h.Use == HTTP2Never && !web:
		i.fault(path+".use", "gRPC takes HTTP/2", "say auto, or speak gRPC-Web")
	case h.Streams > 1 && web && (h.Use == HTTP2Never || h.Use == HTTP2Auto && !v.Target.overTLS()):
		i.fault(path+".streams", fmt.Sprintf("%d calls at once take HTTP/2", h.Streams), "ask for HTTP/2 (use: always, --http2), or leave it out")
	}
}

// isMethod tells whether a name may be that of a method.
func isMethod(name string) bool {
	name = strings.TrimPrefix(name, "/")
	service, method, found := strings.Cut(name, "/")
	return service != "" && !strings.ContainsFunc(name, notInTarget) && (!found && strings.Contains(name, ".") || method != "" && !strings.Contains(method, "/"))
}

// metadataBytes reads the value of binary metadata, with padding or without.
func metadataBytes(value string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(value, "="))
}

// codecs makes what repeats the call.
func (GRPCLoad) codecs(v *Variant, seed uint64, workers int) (c Codecs, err error) {
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		return c, err
	}
	l := v.Load.Call
	var config grpc.Config
	if v.Load.Scenario != nil {
		config, err = v.playCalls(&c, end)
	} else {
		config, err = v.repeatCall(&c, end, seed)
	}
	if err != nil {
		return c, err
	}
	config.HTTP1, config.HTTP2 = v.Load.http1Limits(), v.Load.http2Limits()
	config.Web, config.MaxMessage, config.Plain, config.Step = webForms[l.Web], l.MaxMessage, l.Accept != CompressionGzip, workers
	two := v.Load.HTTP2.config()
	config.Streams, config.Optimistic, config.Settings = two.Streams, two.Optimistic, two.Settings
	c.TimedOut = &wire.Error{Kind: wire.Timeout, Text: grpc.Prefix + grpc.DeadlineExceeded.String() + ": no complete response in time"}
	return c, v.speakGRPC(&c, end, config)
}

// StatusName writes the status of a protocol's responses: gRPC's codes have names.
func StatusName(protocol string, status int) string {
	if protocol == GRPC {
		return grpc.Code(min(max(status, 0), int(grpc.Codes))).String() //nolint:gosec // bounded
	}
	return strconv.Itoa(status)
}

// repeatCall says what repeats the one call.
func (v *Variant) repeatCall(c *Codecs, end http1.Endpoint, seed uint64) (config grpc.Config, err error) {
	l := v.Load.Call
	p, err := l.prepare(v, end, seed)
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
func (v *Variant) speakGRPC(c *Codecs, end http1.Endpoint, config grpc.Config) (err error) {
	h := v.Load.HTTP2
	one := config.Web != grpc.Native && h.Use != HTTP2Always
	two := !one || h.Use == HTTP2Auto && end.Secure
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
		c.TLS, err = v.Target.TLS.config(end, alpn)
	}
	return err
}

// A preparedCall is the call as it is sent, and what checks its responses.
type preparedCall struct {
	call  grpc.Call
	check func(call int, message []byte) error
}

// prepare finds out about the method, and encodes its messages.
func (l *Call) prepare(v *Variant, end http1.Endpoint, seed uint64) (p preparedCall, err error) {
	p.call = l.call(end)
	p.call.Timeout, p.call.Count = l.Deadline, l.Messages
	if p.call.Metadata, err = l.metadata(nil); err != nil {
		return p, err
	}
	path := "/" + strings.TrimPrefix(l.Method, "/")
	if l.Kind == KindAuto {
		method, err := l.describe(v, end)
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
		p.call.ClientStream = l.Kind == KindClientStream || l.Kind == KindBidi
		p.call.ServerStream = l.Kind == KindServerStream || l.Kind == KindBidi
	}
	p.call.Path = strings.TrimSuffix(end.Target, "/") + path
	if l.BinaryFile != "" {
		message, err := os.ReadFile(l.BinaryFile)
		if err != nil {
			return p, fmt.Errorf("load.call.binary_file: %w", err)
		}
		p.call.Messages = [][]byte{message}
	}
	if l.Kind != KindAuto && len(p.call.Messages) == 0 {
		p.call.Messages = [][]byte{nil}
	}
	return p, l.stream(&p.call)
}

// call returns what all calls have in common.
func (l *Call) call(end http1.Endpoint) grpc.Call {
	call := grpc.Call{Scheme: "http", Authority: cmp.Or(l.Authority, end.Host), Gzip: l.Compression == CompressionGzip, Subtype: l.Subtype}
	if end.Secure {
		call.Scheme = "https"
	}
	return call
}

// stream says how the messages of a stream are sent.
func (l *Call) stream(c *grpc.Call) error {
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
func (l *Call) describe(v *Variant, end http1.Endpoint) (rpc.Method, error) {
	s, err := v.schema(end)
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
func (v *Variant) Schema() (*rpc.Schema, error) {
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		return nil, err
	}
	return v.schema(end)
}

func (v *Variant) schema(end http1.Endpoint) (*rpc.Schema, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
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
		standard, err := v.Target.TLS.standard(end, []string{"h2"})
		if err != nil {
			return nil, err
		}
		t.TLS = standard
	}
	return rpc.FromReflection(ctx, t)
}
