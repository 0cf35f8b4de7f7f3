// Package chat is the form of /v1/chat/completions, for clients and for servers, by OpenAI's API reference and the types
// of its SDK for Python 3.57 of 2026-11. Servers of that form are OpenAI's, Azure's and those that are compatible with vLLM
// (its documentation, 2026-11). What OpenAI's form has no place for is where other gateways have it: signed thinking in
// thinking_blocks, as LiteLLM's documentation of 2026-11 describes, signatures of texts and of tool calls in
// extra_content.google.thought_signature, as Gemini's own endpoint of this form has them, and a model's images in images,
// as OpenRouter's does.
package chat

import (
	"encoding/json"
	"net/url"
	"slices"

	"dyno/services/bot/dialect"
)

// Client is the form of the endpoint.
var Client dialect.Client = client{}

type client struct{}

func (client) Name() string { return "chat" }

// A Variant is a kind of server.
type Variant string

// The variants.
const (
	OpenAI Variant = "openai"
	Azure  Variant = "azure"
	VLLM   Variant = "vllm" // and servers that are compatible with it
)

// Options choose a server.
type Options struct {
	Variant Variant
	// APIVersion is that of Azure's API with deployments, below https://NAME.openai.azure.com/openai; "" is the API
	// below /openai/v1, which has no versions.
	APIVersion string
}

// New returns the form of a kind of server.
func New(o Options) dialect.Server { return server{o} }

type server struct{ Options }

// all are the features of each variant; own and other those of OpenAI and Azure, and of vLLM.
var (
	all = []dialect.Feature{
		dialect.SystemMessage, dialect.LateSystem, dialect.SpeakerName, dialect.ImageData, dialect.ImageURL, dialect.ImageDetail, dialect.AudioData,
		dialect.Functions, dialect.StrictTools, dialect.ChooseNone, dialect.ChooseSome, dialect.ChooseOne, dialect.SingleCall,
		dialect.JSONObject, dialect.JSONSchema, dialect.MaxTokens, dialect.SetTemperature, dialect.SetTopP, dialect.StopSequences,
		dialect.SetSeed, dialect.FrequencyWeight, dialect.PresenceWeight, dialect.ReasoningEffort, dialect.LogitBias, dialect.UserID,
	}
	own   = []dialect.Feature{dialect.FileData, dialect.FileID, dialect.CustomTools, dialect.SetMetadata, dialect.Stored, dialect.ServiceTier}
	other = []dialect.Feature{
		dialect.SetTopK, dialect.ServerSampling, dialect.ThinkingBack, dialect.RedactedBack,
		dialect.ReasoningText, // it is in each answer
	}
)

func (s server) Name() string { return string(s.Variant) }

func (s server) Says(f dialect.Feature) bool {
	if s.Variant == VLLM {
		return slices.Contains(all, f) || slices.Contains(other, f)
	}
	return slices.Contains(all, f) || slices.Contains(own, f)
}

func (s server) Path(model string, _ bool) string {
	if s.Variant == Azure && s.APIVersion != "" {
		return "/deployments/" + url.PathEscape(model) + "/chat/completions?api-version=" + url.QueryEscape(s.APIVersion)
	}
	return "/chat/completions"
}

// A part is a part of a message's content.
type part struct {
	Index    *int    `json:"index,omitempty"` // of an image in a stream
	Type     string  `json:"type"`
	Text     *string `json:"text,omitempty"`
	ImageURL *image  `json:"image_url,omitempty"`
	Audio    *audio  `json:"input_audio,omitempty"`
	File     *file   `json:"file,omitempty"`
}

func imagePart(s *dialect.Source) part {
	return part{Type: "image_url", ImageURL: &image{s.DataURL(), s.Detail}}
}

type image struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

type audio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

type file struct {
	Data string `json:"file_data,omitempty"`
	ID   string `json:"file_id,omitempty"`
	Name string `json:"filename,omitempty"`
}

// A call is a tool's call, or a piece of one with an index.
type call struct {
	Index    *int      `json:"index,omitempty"`
	ID       string    `json:"id,omitempty"`
	Type     string    `json:"type,omitempty"`
	Function *function `json:"function,omitempty"`
	Custom   *custom   `json:"custom,omitempty"`
	Extra    *extra    `json:"extra_content,omitempty"`
}

type function struct {
	Name      string `json:"name,omitempty"`
	Arguments text   `json:"arguments"`
}

type custom struct {
	Name  string `json:"name,omitempty"`
	Input text   `json:"input"`
}

// An extra has what only Google's models know.
type extra struct {
	Google struct {
		Signature string `json:"thought_signature,omitempty"`
	} `json:"google"`
}

// signed returns the extra of a signature; nil without one.
func signed(signature string) *extra {
	if signature == "" {
		return nil
	}
	e := &extra{}
	e.Google.Signature = signature
	return e
}

func (e *extra) signature() string {
	if e == nil {
		return ""
	}
	return e.Google.Signature
}

// sign adds a message's signature: it is that of its text, which may be empty.
func sign(blocks []dialect.Block, signature string) []dialect.Block {
	if n := len(blocks); signature != "" && (n == 0 || blocks[n-1].Kind != dialect.Text) {
		return append(blocks, dialect.Block{Signature: signature})
	} else if signature != "" {
		blocks[n-1].Signature = signature
	}
	return blocks
}

// readSignature takes the signature out of a message or a call.
func readSignature(r *dialect.Request, o *dialect.Object) (signature string) {
	if e := o.Object("extra_content"); e != nil {
		if google := e.Object("google"); google != nil {
			signature = google.Text("thought_signature")
			google.NoteLeft(r)
		}
		e.NoteLeft(r)
	}
	return signature
}

// callOf writes the block of a tool's call, with that text as its input.
func callOf(b *dialect.Block, input string) call {
	if b.Custom {
		return call{ID: b.ID, Type: "custom", Custom: &custom{b.Name, text(input)}, Extra: signed(b.Signature)}
	}
	return call{ID: b.ID, Type: "function", Function: &function{b.Name, text(input)}, Extra: signed(b.Signature)}
}

// A thought is an element of thinking_blocks. OpenAI's SDKs put pieces of a stream together by their index.
type thought struct {
	Index     *int   `json:"index,omitempty"`
	Type      string `json:"type"`
	Thinking  string `json:"thinking,omitempty"`
	Signature string `json:"signature,omitempty"`
	Data      string `json:"data,omitempty"` // of redacted_thinking
}

const redacted = "redacted_thinking"

func thoughtOf(b *dialect.Block) thought {
	if b.Kind == dialect.Redacted {
		return thought{Type: redacted, Data: b.Signature}
	}
	return thought{Type: "thinking", Thinking: b.Text, Signature: b.Signature}
}

// thoughtsOf returns the thinking of an answer: its text, and its blocks if one has a signature.
func thoughtsOf(blocks []dialect.Block) (text string, list []thought) {
	proven := false
	for _, b := range blocks {
		if b.Kind == dialect.Thinking || b.Kind == dialect.Redacted {
			text += b.Text
			list = append(list, thoughtOf(&b))
			proven = proven || b.Signature != ""
		}
	}
	if !proven {
		return text, nil
	}
	return text, list
}

// A text is a JSON string; of another value, which some servers send, it is the JSON. The texts of a list of parts are
// one.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(value []byte) error {
	switch value[0] {
	case '"':
		return json.Unmarshal(value, (*string)(t))
	case '[':
		var parts []struct {
			Text string `json:"text"`
		}
		if json.Unmarshal(value, &parts) == nil {
			for _, p := range parts {
				*t += text(p.Text)
			}
			return nil
		}
	case 'n':
		return nil
	}
	*t = text(value)
	return nil
}
