package plan

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/internal/fields"
	"dyno/internal/nearest"
	"dyno/load/options"
	"dyno/load/scenario"
	"dyno/load/wire/grpc"
)

// GRPC is the protocol of calls by gRPC, and by gRPC-Web.
const GRPC = "grpc"

var grpcProtocol = protocol{
	name: GRPC, title: "gRPC", validator: GRPCLoad{},
	groups: []string{Loaded, withURL, exchanges, scripted, messages, statuses, asScheme},
	over:   "gRPC over ", statuses: readCodes,
}

// A GRPCLoad is what a load has for gRPC.
type GRPCLoad struct {
	Call      *Call              `yaml:"call" default:"{}" doc:"the call that is repeated; with a scenario, what its calls have in common"`
	Keepalive *options.Keepalive `yaml:"keepalive" doc:"pings on connections on which nothing comes"`
}

// A Call is the one call repeated. .proto files, a descriptor set, or else the server's reflection
// describe its messages.
type Call struct {
	Method      string   `yaml:"method" otherwise:"required, unless there is a scenario" doc:"what is called: pkg.Service/Method"`
	Protos      []string `yaml:"proto" kind:"path" flag:"proto" otherwise:"the server is asked, by reflection" doc:"the .proto file of the service, relative to this one, or several"`
	ImportPaths []string `yaml:"import_paths" kind:"path" flag:"import-paths" otherwise:"the working folder and those of the files" doc:"a folder, or several, in which imports of .proto files are looked for"`
	Protoset    string   `yaml:"protoset" kind:"path" flag:"protoset" doc:"a file with the descriptors of the service, as protoc --descriptor_set_out and buf build write it, in place of proto"`

	Message     string          `yaml:"message,orfile,scripted" kind:"word" flag:"data,d" otherwise:"an empty message" doc:"the message of the request in JSON, or several, in an array or one after another: a stream of the client's sends them in turn, and so do calls that send one each; a template as in a scenario, in quick loads only where there are rows; {{ '{{' }} in a template stands for the braces themselves"`
	MessageFile string          `yaml:"message_file" kind:"path" flag:"data-file,D" doc:"the file with the message or messages, relative to this one, in place of message; variables of the experiment are not replaced in it"`
	Data        []scenario.Data `yaml:"data,again" names:"variable" most:"16" doc:"files of rows; the message is a template then, as in a scenario, and is encoded once for each row, before the load"`
	BinaryFile  string          `yaml:"binary_file" kind:"path" flag:"binary-file,B" doc:"a file that holds the message as it is sent, in place of message"`
	Subtype     string          `yaml:"subtype" like:"subtype" otherwise:"none, which says Protocol Buffers" doc:"what the content-type says of messages from binary_file in another format (application/grpc+SUBTYPE), such as flatbuffers"`
	Kind        string          `yaml:"kind" oneof:"auto unary client_stream server_stream bidi" default:"auto" flag:"kind" doc:"how many messages there are in each direction; auto: as the service is described; others: it need not be described, for messages from binary_file"`

	Metadata    []scenario.Header `yaml:"metadata" names:"token" flag:"header,H" doc:"metadata of each call, in this order; the value of a name that ends in -bin is base64"`
	Authority   string            `yaml:"authority" otherwise:"that of the URL" flag:"authority" doc:"what the server is called in calls (:authority)"`
	Deadline    time.Duration     `yaml:"deadline" range:"1ms..1h" otherwise:"none" flag:"deadline" doc:"the time limit that the server gets for a call (grpc-timeout); dyno gives the call up then, too"`
	Compression string            `yaml:"compression" oneof:"identity gzip" default:"identity" flag:"compression" doc:"of the messages of requests, once for all calls; identity: none"`
	Accept      string            `yaml:"accept" oneof:"gzip identity" default:"gzip" doc:"the compression that is offered to the server for its messages; identity: none"`
	MaxMessage  int               `yaml:"max_message" kind:"size" range:"1..1GiB" default:"4MiB" flag:"max-message" doc:"the largest message of a response; a larger one fails the call"`
	Check       bool              `yaml:"check" flag:"check" doc:"whether each message of a response is what the method answers with is checked; else they are counted"`

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

// validate judges the one call of a load, as far as it can be without descriptors.
func (GRPCLoad) validate(i *inspector, _ *Experiment, v *Variant) {
	i.tls(&v.Target)
	i.grpcVersion(v)
	i.traces(&v.Load)
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
		i.fault(path+".method", fmt.Sprintf("%q is no method", nearest.Clip(c.Method)), "write it as pkg.Service/Method")
	}
	i.described(path, c)
	i.ofKind(path, c)
	i.metadata(path, c, started)
	if !started {
		i.ownPorts(path+".message", c.Message)
	}
}

// described judges where a call's message and its description come from.
func (i *inspector) described(path string, c *Call) {
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
}

// ofKind judges what only a description allows, if the plan says itself of which kind a call is.
func (i *inspector) ofKind(path string, c *Call) {
	if c.Kind == KindAuto {
		return
	}
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

// metadata judges the metadata of a call.
func (i *inspector) metadata(path string, c *Call, started bool) {
	for _, m := range c.Metadata {
		at := fields.Join(path+".metadata", m.Name)
		if strings.HasSuffix(strings.ToLower(m.Name), "-bin") {
			if _, err := MetadataBytes(m.Value); err != nil {
				i.fault(at, "the value is not base64", "values of names that end in -bin are bytes, written in base64")
			}
		}
		if !started {
			i.ownPorts(at, m.Value)
		}
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

// isMethod tells whether a name may name a method.
func isMethod(name string) bool {
	name = strings.TrimPrefix(name, "/")
	service, method, found := strings.Cut(name, "/")
	return service != "" && !strings.ContainsFunc(name, notInTarget) && (!found && strings.Contains(name, ".") || method != "" && !strings.Contains(method, "/"))
}

// MetadataBytes reads the value of binary metadata, with padding or without.
func MetadataBytes(value string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(value, "="))
}

// callsOfScenario validates a call of a scenario: the call says what all calls have in common, the
// steps say what is sent.
func (i *inspector) callsOfScenario(v *Variant) {
	const path = "load.call"
	c, s := v.Load.Call, v.Load.Scenario
	for _, f := range []struct {
		field string
		given bool
	}{
		{"method", c.Method != ""},
		{"message", c.Message != ""},
		{"message_file", c.MessageFile != ""},
		{"data", len(c.Data) > 0},
		{"binary_file", c.BinaryFile != ""},
		{"messages", c.Messages > 0},
		{"interval", c.Interval > 0},
	} {
		if f.given {
			i.fault(path+"."+f.field, "is said by the steps of a scenario", "move it into a step, or remove it")
		}
	}
	if c.Kind != KindAuto {
		i.fault(path+".kind", "the steps of a scenario take a description of the service", "say auto, or leave it out")
	}
	i.scenario(v)
	s.EachStep(func(at string, st *scenario.Step) {
		at = fields.Join("load.scenario", at)
		switch {
		case st.Method == "":
			i.fault(at+".method", "is missing", "such as method: pkg.Service/Method")
		case !isMethod(placeholders(st.Method)):
			i.fault(at+".method", fmt.Sprintf("%q is no method", nearest.Clip(st.Method)), "write it as pkg.Service/Method, without templates")
		}
	})
}

// readCodes reads a list of statuses of gRPC, by their names or numbers.
func readCodes(text string) (ranges []scenario.StatusRange, err error) {
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		first, last, isRange := strings.Cut(word, "-")
		if !isRange {
			last = first
		}
		var r scenario.StatusRange
		var known [2]bool
		r.First, known[0] = readCode(strings.TrimSpace(first))
		r.Last, known[1] = readCode(strings.TrimSpace(last))
		if !known[0] || !known[1] || r.First > r.Last {
			hint := nearest.Hint(strings.ToUpper(word), grpc.CodeNames())
			return nil, fmt.Errorf("status %q: %s", nearest.Clip(word), cmp.Or(hint, "want names such as OK, NOT_FOUND, or numbers from 0 to 16"))
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

func readCode(word string) (int, bool) {
	if code, known := grpc.CodeNamed(word); known {
		return int(code), true
	}
	n, err := strconv.Atoi(word)
	return n, err == nil && n >= 0 && n < int(grpc.Codes)
}
