// Package responses is the form of /v1/responses, for clients and for OpenAI's and compatible servers, by OpenAI's API
// reference and the types of its SDK for Python 3.57 of 2026-11. Nothing is kept between requests: a client that sends the
// items of earlier answers back, with the encrypted content of reasoning, keeps the model's thinking. Signatures of
// other vendors, for which this form has no place, are encrypted content with a prefix.
package responses

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"dyno/services/bot/dialect"
	"dyno/services/bot/openai"
)

// Client is the form of the endpoint.
var Client dialect.Client = client{}

// Server is the form of servers.
var Server dialect.Server = server{}

type (
	client struct{}
	server struct{}
)

func (client) Name() string { return "responses" }

func (server) Name() string { return "openai-responses" }

var features = []dialect.Feature{
	dialect.SystemMessage, dialect.LateSystem, dialect.ImageData, dialect.ImageURL, dialect.ImageDetail, dialect.FileData, dialect.FileURL, dialect.FileID,
	dialect.Functions, dialect.StrictTools, dialect.CustomTools, dialect.ChooseNone, dialect.ChooseSome, dialect.ChooseOne, dialect.SingleCall,
	dialect.ResultImages, dialect.JSONObject, dialect.JSONSchema, dialect.MaxTokens, dialect.SetTemperature, dialect.SetTopP,
	dialect.ReasoningEffort, dialect.ReasoningText, dialect.ThinkingBack, dialect.UserID, dialect.SetMetadata, dialect.Stored, dialect.ServiceTier,
}

func (server) Says(f dialect.Feature) bool { return slices.Contains(features, f) }

func (server) Path(string, bool) string { return "/responses" }

// Prefixes of encrypted content that no model of OpenAI has made.
const (
	redactedPrefix = "redacted:" // of a Redacted block
	signedPrefix   = "signs:"    // a signature of the block before, in an item of its own
)

// imageCall is the type of an item that has an image of the model.
const imageCall = "image_generation_call"

// A part is a part of an item's content, summary or output.
type part struct {
	Type        string  `json:"type"`
	Text        *string `json:"text,omitempty"`
	Annotations *list   `json:"annotations,omitempty"`
	Logprobs    *list   `json:"logprobs,omitempty"`
	Refusal     *string `json:"refusal,omitempty"`
	ImageURL    string  `json:"image_url,omitempty"`
	Detail      string  `json:"detail,omitempty"`
	FileID      string  `json:"file_id,omitempty"`
	FileURL     string  `json:"file_url,omitempty"`
	FileData    string  `json:"file_data,omitempty"`
	FileName    string  `json:"filename,omitempty"`
}

// An item is an item of the input or of the output.
type item struct {
	ID        string  `json:"id,omitempty"`
	Type      string  `json:"type"`
	Status    string  `json:"status,omitempty"`
	Role      string  `json:"role,omitempty"`
	Content   *[]part `json:"content,omitempty"`
	Summary   *[]part `json:"summary,omitempty"`
	Encrypted string  `json:"encrypted_content,omitempty"`
	CallID    string  `json:"call_id,omitempty"`
	Name      string  `json:"name,omitempty"`
	Arguments *string `json:"arguments,omitempty"`
	Input     *string `json:"input,omitempty"`
	Output    any     `json:"output,omitempty"`
	Result    *string `json:"result,omitempty"` // an image
	Format    string  `json:"output_format,omitempty"`
}

// A list is one that is always empty here: what it lists belongs to tools of the vendor, or is not asked for.
type list []json.RawMessage

// UnmarshalJSON implements json.Unmarshaler. Items of other types, which tools of the vendor have, have other fields of
// these names.
func (i *item) UnmarshalJSON(value []byte) error {
	type plain item
	var own plain
	var kind struct{ Type string }
	switch err := json.Unmarshal(value, &kind); {
	case err != nil:
		return err
	case slices.Contains([]string{"message", "reasoning", "function_call", "custom_tool_call", imageCall}, kind.Type):
		err = json.Unmarshal(value, &own)
		*i = item(own)
		return err
	}
	i.Type = kind.Type
	return nil
}

// outputPart returns the part of a text or a refusal.
func outputPart(kind dialect.Kind, text string) part {
	if kind == dialect.Refusal {
		return part{Type: "refusal", Refusal: &text}
	}
	return part{Type: "output_text", Text: &text, Annotations: &list{}, Logprobs: &list{}}
}

// itemOf returns the item of an assistant's block.
func itemOf(b *dialect.Block) item {
	switch b.Kind {
	case dialect.Thinking:
		summary := []part{}
		if b.Text != "" {
			summary = append(summary, part{Type: "summary_text", Text: &b.Text})
		}
		return item{Type: "reasoning", Summary: &summary, Encrypted: b.Signature}
	case dialect.Image:
		return item{Type: imageCall, Result: &b.Source.Data, Format: strings.TrimPrefix(b.Source.Type, "image/")}
	case dialect.Redacted:
		return item{Type: "reasoning", Summary: &[]part{}, Encrypted: redactedPrefix + b.Signature}
	case dialect.ToolCall:
		input := dialect.ArgumentText(b.Input)
		if b.Custom {
			return item{Type: "custom_tool_call", CallID: b.ID, Name: b.Name, Input: &input}
		}
		return item{Type: "function_call", CallID: b.ID, Name: b.Name, Arguments: &input}
	}
	return item{Type: "message", Role: "assistant", Content: &[]part{outputPart(b.Kind, b.Text)}}
}

// itemsOf returns the item of a block, and another one if the block has a signature for which its own has no place.
func itemsOf(b *dialect.Block) []item {
	list := []item{itemOf(b)}
	if b.Signature != "" && b.Kind != dialect.Thinking && b.Kind != dialect.Redacted {
		list = append(list, item{Type: "reasoning", Summary: &[]part{}, Encrypted: signedPrefix + b.Signature})
	}
	return list
}

// identify gives an item of an answer its ID and its status.
func (i *item) identify(answer string, n int, status string) {
	prefix := map[string]string{"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc", imageCall: "ig"}[i.Type]
	i.ID = fmt.Sprintf("%s_%s_%d", prefix, strings.TrimPrefix(answer, "resp_"), n)
	if i.Type != "custom_tool_call" {
		i.Status = status
	}
}

// signs returns the signature that an item has for the block before it.
func (i *item) signs() (signature string, ok bool) {
	return strings.CutPrefix(i.Encrypted, signedPrefix)
}

// appendBlocks appends the blocks of an item of an answer. Other items are of tools of the vendor, which no request had.
func (i *item) appendBlocks(blocks []dialect.Block) []dialect.Block {
	switch i.Type {
	case "reasoning":
		if signature, ok := i.signs(); ok && len(blocks) > 0 {
			blocks[len(blocks)-1].Signature = signature
			return blocks
		}
		if data, ok := strings.CutPrefix(i.Encrypted, redactedPrefix); ok {
			return append(blocks, dialect.Block{Kind: dialect.Redacted, Signature: data})
		}
		text := textOf(i.Content)
		if text == "" {
			text = textOf(i.Summary)
		}
		if text == "" && i.Encrypted == "" {
			return blocks
		}
		return append(blocks, dialect.Block{Kind: dialect.Thinking, Text: text, Signature: i.Encrypted})
	case "message":
		if i.Content == nil {
			return blocks
		}
		for _, p := range *i.Content {
			if p.Refusal != nil {
				blocks = append(blocks, dialect.Block{Kind: dialect.Refusal, Text: *p.Refusal})
			} else if p.Text != nil && *p.Text != "" {
				blocks = append(blocks, dialect.Block{Text: *p.Text})
			}
		}
	case imageCall:
		if i.Result != nil {
			source := dialect.Source{Data: *i.Result, Type: "image/" + cmp.Or(i.Format, "png")}
			return append(blocks, dialect.Block{Kind: dialect.Image, Source: source})
		}
	case "function_call", "custom_tool_call":
		b := dialect.Block{Kind: dialect.ToolCall, ID: i.CallID, Name: i.Name, Custom: i.Type == "custom_tool_call", Input: dialect.Arguments("")}
		if b.Custom && i.Input != nil {
			b.Input = dialect.Append(nil, *i.Input)
		} else if i.Arguments != nil {
			b.Input = dialect.Arguments(*i.Arguments)
		}
		return append(blocks, b)
	}
	return blocks
}

// textOf joins parts: a summary has paragraphs.
func textOf(parts *[]part) string {
	if parts == nil {
		return ""
	}
	var texts []string
	for _, p := range *parts {
		if p.Text != nil {
			texts = append(texts, *p.Text)
		}
	}
	return strings.Join(texts, paragraph)
}

const paragraph = "\n\n"

// usage is openai.Usage as this form has it.
type usage struct {
	Input        int `json:"input_tokens"`
	InputDetails struct {
		Cached     int `json:"cached_tokens"`
		CacheWrite int `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	Output        int `json:"output_tokens"`
	OutputDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int `json:"total_tokens"`
}

func usageOf(u *openai.Usage) *usage {
	if u == nil {
		return nil
	}
	w := &usage{Input: u.Prompt, Output: u.Completion, Total: u.Total()}
	w.InputDetails.Cached, w.InputDetails.CacheWrite, w.OutputDetails.Reasoning = u.Cached, u.CacheWrite, u.Reasoning
	return w
}
