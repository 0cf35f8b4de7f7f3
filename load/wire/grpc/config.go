package grpc

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/load/wire/http1"
	"dyno/load/wire/http2"
)

// A Web says which form of gRPC is spoken.
type Web uint8

// The forms.
const (
	Native Web = iota // gRPC
	Binary            // gRPC-Web
	Text              // gRPC-Web in base64
)

// A Metadata is one entry of a call's metadata.
type Metadata struct {
	Name string // in lower case; of a name that ends in -bin, the value is binary, and encoded here

	// Value is what is sent: visible ASCII and spaces, or any bytes. None if it varies.
	Value string

	// Varies makes the value a part that is given with each call. The caller encodes
	// the value of a name that ends in -bin.
	Varies bool
}

// A Call is what is sent.
type Call struct {
	Scheme    string // "http" or "https"
	Authority string // name or address, with the port unless it is the scheme's
	Path      string // "/pkg.Service/Method", with what a proxy has before it
	Metadata  []Metadata
	Timeout   time.Duration // the deadline that the server receives; 0: none
	UserAgent string        // default DefaultUserAgent

	// Subtype is what content-type says of the messages after a plus sign (HTTP2, "Content-Type"), such
	// as "flatbuffers". The default means Protocol Buffers.
	Subtype string

	// ClientStream and ServerStream say how many messages there are in each direction: one,
	// or any number.
	ClientStream, ServerStream bool

	// Messages are sent in turn. With ClientStream a call sends Count of them, by default each
	// once; without, it sends the next one, see Config.First. They must not change afterwards.
	Messages [][]byte
	Count    int

	// Varies makes the one message a part that is given with each call, the last of its parts.
	// It is then framed, and compressed, each time.
	Varies bool

	// Lockstep delays each message after the first until one more message of the response
	// has come. Paced delays it until Client.Next is called. Both are for ClientStream.
	Lockstep, Paced bool

	// Gzip compresses the messages, each of them once.
	Gzip bool

	// Translate makes the delivered form of each message of a response, such as JSON, and appends it to
	// dst. With ServerStream it must be JSON: the messages are delivered as the elements of one array.
	// An error makes the call a failure of kind Assertion. Nil has messages delivered as Config.Content
	// says.
	Translate func(dst, message []byte) ([]byte, error)

	// Keep is the number of bytes made by Translate that a WebClient keeps and delivers after the end.
	// Default DefaultKeep.
	Keep int
}

// Config is what all clients of one template have in common.
type Config struct {
	Calls []Call // to prepare; Begin takes them by their place here
	Web   Web

	// Streams, Optimistic and Settings are as http2.Config has them.
	Streams    int
	Optimistic bool
	Settings   http2.Settings

	// First is the index of the message that a call without ClientStream sends first; Step leads to the
	// next. So templates can share the Messages. Default 0 and 1.
	First, Step int

	// MaxMessage bounds each message of a response, decompressed too, in bytes. Default 4 MiB,
	// as gRPC's libraries have it.
	MaxMessage int

	// MaxHeader bounds the header of a response, and its trailers, in bytes. Default
	// wire.DefaultMaxHeader.
	MaxHeader int64

	// Plain offers no compression to servers. Else gzip is offered.
	Plain bool

	// Check is called with each message of a response, and the number of its call. An error
	// makes the call a failure of kind Assertion. It must not keep the message. Nil checks
	// nothing.
	Check func(call int, message []byte) error

	// Content has the messages of responses delivered, one with each event MuxMessage. Without,
	// there is this event for calls with ServerStream only, and it has no message.
	Content bool

	// Fields are names of fields of the response header, in lower case. Trailers are names of fields of
	// trailing metadata. Both are delivered. Numbers of Trailers follow those of Fields. A response
	// without messages may have all its metadata in one section, which is both then.
	Fields, Trailers []string

	// Judged makes calls succeed whatever their status: the caller judges it.
	Judged bool
}

const (
	// DefaultMaxMessage is the largest message of a response by default, in bytes.
	DefaultMaxMessage = 4 << 20

	// DefaultKeep is the default of Keep, in bytes.
	DefaultKeep = 1 << 20

	maxMaxMessage = 1 << 30

	// DefaultUserAgent is sent unless a call has another.
	DefaultUserAgent = "grpc-dyno"
)

// The fields of gRPC.
const (
	nameStatus   = "grpc-status"
	nameMessage  = "grpc-message"
	nameDetails  = "grpc-status-details-bin"
	nameEncoding = "grpc-encoding"
	nameType     = "content-type"
)

func (c Config) withDefaults() Config {
	if c.MaxMessage == 0 {
		c.MaxMessage = DefaultMaxMessage
	}
	if c.Streams == 0 {
		c.Streams = 1
	}
	if c.Step == 0 {
		c.Step = 1
	}
	return c
}

// Validate reports everything that is wrong with the configuration, but for what http1 and
// http2 check.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(c.Calls) == 0 {
		fault("no call: want at least one")
	}
	for i, call := range c.Calls {
		if err := call.Validate(c.Web); err != nil {
			fault("call %d: %w", i+1, err)
		}
	}
	return errors.Join(faults...)
}

// Validate reports everything that keeps the call from being sent as it is, in a form of gRPC.
func (c Call) Validate(web Web) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if strings.Count(c.Path, "/") < 2 || !strings.HasPrefix(c.Path, "/") || strings.HasSuffix(c.Path, "/") {
		fault("path %q: want /pkg.Service/Method", c.Path)
	}
	for _, m := range c.Metadata {
		if err := m.validate(); err != nil {
			fault("metadata %q: %w", m.Name, err)
		}
	}
	if strings.Trim(c.Subtype, "0123456789abcdefghijklmnopqrstuvwxyz_-.") != "" {
		fault("content subtype %q: want lower-case letters, digits, and any of _, - and .; nothing else", c.Subtype)
	}
	for i, m := range c.Messages {
		if len(m) > maxMaxMessage {
			fault("message %d of %d bytes: want at most %d", i+1, len(m), maxMaxMessage)
		}
	}
	if len(c.Messages) == 0 && !c.Varies && (!c.ClientStream || c.Count > 0) {
		fault("no message: want one")
	}
	if c.ClientStream && web != Native {
		fault("stream of the client's: want none, as gRPC-Web has none")
	}
	return errors.Join(faults...)
}

// validate tells what is wrong with an entry of metadata (HTTP2, "Custom-Metadata").
func (m Metadata) validate() error {
	if m.Name == "" || strings.Trim(m.Name, "0123456789abcdefghijklmnopqrstuvwxyz_-.") != "" {
		return errors.New("want a name of lower-case letters, digits, and any of _, - and .; nothing else")
	}
	if strings.HasPrefix(m.Name, "grpc-") || slices.Contains([]string{"te", nameType, "user-agent", "host", "content-length"}, m.Name) {
		return errors.New("want another name: the protocol sets this one itself")
	}
	if m.Varies && m.Value != "" {
		return errors.New("want no value, as it varies")
	}
	if strings.HasSuffix(m.Name, binarySuffix) {
		return nil
	}
	for _, b := range []byte(m.Value) {
		if b < ' ' || b > '~' {
			return fmt.Errorf("value %q: want visible ASCII and spaces, or a name that ends in -bin", m.Value)
		}
	}
	if strings.Trim(m.Value, " ") != m.Value {
		return fmt.Errorf("value %q: want no space around it", m.Value)
	}
	return nil
}

const binarySuffix = "-bin"

// sent returns the value as it is on the wire. Binary values are encoded without padding, as
// recipients must accept and senders should send (HTTP2, "Custom-Metadata").
func (m Metadata) sent() string {
	if strings.HasSuffix(m.Name, binarySuffix) && !m.Varies {
		return base64.RawStdEncoding.EncodeToString([]byte(m.Value))
	}
	return m.Value
}

// Parts returns how many parts vary: metadata in their order, then the message.
func (c Call) Parts() (n int) {
	for _, m := range c.Metadata {
		if m.Varies {
			n++
		}
	}
	if c.Varies {
		n++
	}
	return n
}

// Deadline says a duration as grpc-timeout has it (HTTP2, "Timeout"): at most eight digits and
// a unit, rounded up so that no deadline is earlier than was asked for.
func Deadline(d time.Duration) string {
	const most = 99_999_999
	for _, unit := range []struct {
		name string
		size time.Duration
	}{
		{"n", time.Nanosecond},
		{"u", time.Microsecond},
		{"m", time.Millisecond},
		{"S", time.Second},
		{"M", time.Minute},
	} {
		if n := (d-1)/unit.size + 1; n <= most {
			return strconv.FormatInt(int64(n), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64((d-1)/time.Hour+1), 10) + "H"
}

// header returns the fields of a call's header, in the order in which HTTP2 and Web have them.
func (c Call) header(config *Config) (fields []http1.Field) {
	add := func(name, value string) { fields = append(fields, http1.Field{Name: name, Value: value}) }
	if config.Web == Native {
		add("te", "trailers")
	}
	if c.Timeout > 0 {
		add("grpc-timeout", Deadline(c.Timeout))
	}
	kind := contentTypes[config.Web]
	if c.Subtype != "" {
		kind, _, _ = strings.Cut(kind, "+")
		kind += "+" + c.Subtype
	}
	add(nameType, kind)
	if config.Web == Text {
		add("accept", kind)
	}
	if c.Gzip {
		add(nameEncoding, "gzip")
	}
	if !config.Plain {
		add("grpc-accept-encoding", "gzip")
	}
	agent := c.UserAgent
	if agent == "" {
		agent = DefaultUserAgent
	}
	add("user-agent", agent)
	if config.Web != Native {
		add("x-grpc-web", "1")
		add("x-user-agent", agent)
	}
	for _, m := range c.Metadata {
		fields = append(fields, http1.Field{Name: m.Name, Value: m.sent(), Varies: m.Varies})
	}
	return fields
}

// contentTypes are by form, of calls without a Subtype. They mean Protocol Buffers; servers take the
// type without a suffix to mean that.
var contentTypes = [...]string{
	Native: "application/grpc",
	Binary: "application/grpc-web+proto",
	Text:   "application/grpc-web-text+proto",
}

// inTurn tells whether calls send one message each, in turn.
func (c *Call) inTurn() bool { return !c.ClientStream && len(c.Messages) > 1 }

// framed returns a message as it is sent in the content.
func (c *Call) framed(message []byte, web Web) []byte {
	if c.Gzip {
		message = compress(message)
	}
	b := AppendMessage(nil, message, c.Gzip)
	if web == Text {
		b = base64.StdEncoding.AppendEncode(nil, b)
	}
	return b
}

// request says the call in HTTP.
func (c Call) request(config *Config) http1.Request {
	r := http1.Request{
		Method: "POST", Target: c.Path, Host: c.Authority, Header: c.header(config), VariesBody: c.Varies || c.inTurn(),
	}
	if !c.ClientStream && !r.VariesBody && len(c.Messages) > 0 {
		r.Body = c.framed(c.Messages[0], config.Web)
	}
	return r
}
