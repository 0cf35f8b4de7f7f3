// Package dialect has one neutral form of requests to models and of their answers, between the forms of vendors. A
// Client reads requests in the form of one endpoint and writes answers in it; a Server writes requests in the form of
// one kind of server and reads its answers. Both are pure functions. What the server's form cannot express is found
// before anything is sent: each request lists its features, and each server says which it has.
package dialect

import (
	"encoding/json"
	"fmt"
	"slices"

	"dyno/services/bot/openai"
)

// A Request is a request for one answer, in the neutral form.
type Request struct {
	Model    string
	System   []Block // of Text
	Messages []Message

	Tools    []Tool
	Choice   Choice
	Parallel *bool // whether one answer may have several tool calls

	MaxTokens                                            int // of the answer; 0 is no bound
	Temperature, TopP, FrequencyPenalty, PresencePenalty *float64
	TopK                                                 *int
	Seed                                                 *int64
	Stop                                                 []string
	Format                                               *Format
	Reasoning                                            *Reasoning
	User                                                 string
	Metadata                                             map[string]string
	Stream                                               bool
	IncludeUsage                                         bool // at the end of the stream, in forms that ask whether to
	// Extra has top-level fields that several servers know by the same name, such as min_p of vLLM, and others that
	// the neutral form does not know.
	Extra map[string]json.RawMessage

	uses  []Use
	noted map[Feature]bool
}

// A Use is a feature that a request uses, and the client's field that asks for it.
type Use struct {
	Feature Feature
	Field   string // such as messages[2].content[0].image_url
}

// Note adds a use. Only the first one of a feature is kept, but each one of OtherField.
func (r *Request) Note(f Feature, field string, index ...any) {
	if f != OtherField && r.noted[f] {
		return
	}
	if r.noted == nil {
		r.noted = map[Feature]bool{}
	}
	r.noted[f] = true
	r.uses = append(r.uses, Use{f, fmt.Sprintf(field, index...)})
}

// Uses returns the features that the request uses, in the order of the client's fields.
func (r *Request) Uses() []Use { return r.uses }

// Unsaid is the error for a request with a feature that a server's form cannot express.
type Unsaid struct {
	Use

	Server string // the dialect
}

func (e *Unsaid) Error() string {
	return fmt.Sprintf("%s: %s cannot be asked for %s", e.Field, e.Server, e.Feature.Text())
}

// Fit checks that a server can express the request. It returns the request without the features to drop that the
// server does not have; dropped lists their fields. The error is an *Unsaid.
func (r *Request) Fit(s Capable, drop []Feature) (fitting *Request, dropped []string, err error) {
	fitting = r
	for _, u := range r.uses {
		if s.Says(u.Feature) {
			continue
		}
		if !slices.Contains(drop, u.Feature) || !u.Feature.Droppable() {
			return nil, nil, &Unsaid{u, s.Name()}
		}
		if fitting == r {
			c := *r
			fitting = &c
		}
		drops[u.Feature](fitting)
		dropped = append(dropped, u.Field)
	}
	return fitting, dropped, nil
}

// A Role says who speaks.
type Role string

// The roles. Results of tools are blocks of the user's messages. Messages of the system at the beginning are in
// Request.System; those between others are a feature, LateSystem.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	System    Role = "system"
)

// A Message is a part of a conversation.
type Message struct {
	Role   Role
	Name   string // of the speaker; "" is none
	Blocks []Block
}

// A Kind is the kind of a Block.
type Kind int

// The kinds.
const (
	Text Kind = iota
	Image
	Audio
	File
	ToolCall   // by the model
	ToolResult // for the model
	Thinking   // the model's, with its signature
	Redacted   // thinking that only its vendor can read: Signature has it
	Refusal
)

func (k Kind) String() string {
	return [...]string{"text", "image", "audio", "file", "tool call", "tool result", "thinking", "redacted", "refusal"}[k]
}

// A Block is a part of a message.
type Block struct {
	Kind Kind
	// Text is that of Text, Thinking and Refusal.
	Text   string
	Source Source // of Image, Audio and File
	// ID and Name are those of a tool's call; ID also of its result.
	ID, Name string
	// Input has the arguments of a ToolCall: a JSON object, or a JSON string if the model's text is none.
	Input json.RawMessage
	// Custom says that the input of a ToolCall is a text: Input has a JSON string.
	Custom bool
	Result []Block // of a ToolResult: Text, Image and File
	Failed bool    // the tool failed
	// Signature proves that the vendor's model has made a block. It must go back unchanged.
	Signature string
	Cache     string // how long the prompt up to this block is cached: 5m or 1h; "" does not ask for it
}

// A Source is where an image, a recording or a file is: one of Data, URL and ID.
type Source struct {
	Data   string // base64
	Type   string // the media type, such as image/png; "" is unknown
	URL    string
	ID     string // at the upstream
	Name   string // of the file
	Detail string // of an image: low, high or auto
}

// A Tool is a function that the model may call.
type Tool struct {
	Name, Description string
	Schema            json.RawMessage // of its arguments; nil is none
	Strict            *bool
	Cache             string
	// Custom says that its input is a text: by Grammar in Syntax, lark or regex, unless that is "".
	Custom          bool
	Syntax, Grammar string
	// Own is a tool of the vendor's, such as a web search, in the client's form; the other fields are empty.
	Own json.RawMessage
}

// A Choice says which tools the model must call.
type Choice struct {
	Mode ChoiceMode
	Name string // of OneTool
}

// A ChoiceMode is the mode of a Choice.
type ChoiceMode int

// The modes.
const (
	AnyChoice ChoiceMode = iota // the model's default
	Auto
	NoTool
	SomeTool
	OneTool
)

func (m ChoiceMode) String() string {
	return [...]string{"default", "auto", "none", "required", "one"}[m]
}

// A Format is the form of the answer's text: a JSON object, of a schema if it has one.
type Format struct {
	Name, Description string
	Schema            json.RawMessage
	Strict            *bool
}

// Reasoning says how much the model reasons.
type Reasoning struct {
	Effort  string // none, minimal, low, medium, high, xhigh or max; "" is the model's default
	Budget  int    // tokens; 0 is none
	Adapt   bool   // the model decides how much
	Summary string // of the reasoning: auto, concise or detailed; "" is none
	// Hide says that the client wants no text of Thinking, only signatures. A server may send it: the client's form
	// leaves it out.
	Hide bool
}

// A Stop is the reason of an answer's end.
type Stop int

// The reasons.
const (
	End Stop = iota
	Length
	Sequence  // of Request.Stop
	ToolCalls // the model waits for results
	Filtered  // by the vendor
	Refused   // by the model
	Paused    // the vendor's own tools need another request
)

func (s Stop) String() string {
	return [...]string{"end", "length", "sequence", "tool calls", "filtered", "refused", "paused"}[s]
}

// An Answer is a whole answer.
type Answer struct {
	ID, Model string
	Created   int64 // Unix seconds; 0 is unknown
	Blocks    []Block
	Stop      Stop
	Sequence  string        // the one that ended it
	Usage     *openai.Usage // nil is unknown
}

// An EventKind is the kind of an Event.
type EventKind int

// The kinds. A stream has Begin, then blocks one after the other: Open, pieces, Close; then Finish. A Fault may come
// at any time, and ends it.
const (
	Begin  EventKind = iota // ID, Model, Created; Usage of the prompt, if known
	Open                    // Block: its kind; ID, Name and Custom of a ToolCall; the whole block if it is Redacted or an Image
	Piece                   // Text of the open block, of arguments for a ToolCall; or Signature
	Close                   // the open block
	Finish                  // Stop, Sequence; Usage
	Fault                   // Fault
)

func (k EventKind) String() string {
	return [...]string{"begin", "open", "piece", "close", "finish", "fault"}[k]
}

// An Event is a step of a stream. It is valid until the function that gets it returns.
type Event struct {
	Kind      EventKind
	Answer    Answer // of Begin and Finish, without Blocks
	Block     Block  // of Open
	Text      string // of Piece
	Signature string
	Fault     openai.Fault
}

// A FieldError is a fault of a client's request.
type FieldError = openai.RequestError

// A Client is the form of an endpoint for clients.
type Client interface {
	// Name is the endpoint's name: chat, responses or messages.
	Name() string
	// ReadRequest reads a request. The error is a *FieldError.
	ReadRequest(body []byte) (*Request, error)
	AppendAnswer(b []byte, r *Request, a *Answer) []byte
	// NewWriter returns a writer for one stream.
	NewWriter(r *Request) Writer
}

// A Writer writes a stream.
type Writer interface {
	// Append appends the events (server-sent events, with their empty lines) for e; none if it has no place.
	Append(b []byte, e *Event) []byte
}

// Capable is what a form can express.
type Capable interface {
	// Name is the dialect's name.
	Name() string
	Says(f Feature) bool
}

// A Server is the form of a kind of server.
type Server interface {
	Capable
	// AppendRequest writes a request that has only features that the server has; model is the server's own name.
	AppendRequest(b []byte, r *Request, model string) ([]byte, error)
	// Path returns the path and the query below the provider's URL.
	Path(model string, stream bool) string
	// ReadAnswer reads a whole answer. The error is that of openai.Codec.ParseReply.
	ReadAnswer(body []byte) (*Answer, error)
	// NewReader returns a reader for one stream.
	NewReader() Reader
}

// A Reader reads a stream.
type Reader interface {
	// Read reads one event of the server's stream (for a server that sends lines of JSON, one line), and calls each
	// for its events. The error says that it has no form that the reader knows.
	Read(f openai.Frame, each func(*Event)) error
	// End is called at the stream's end, with the events that are still missing; the error is openai.ErrCut if the
	// answer is not complete.
	End(each func(*Event)) error
}
