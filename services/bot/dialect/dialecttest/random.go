// Package dialecttest tests the forms of package dialect: by random requests and answers that a form can express, by
// golden files, and by the order of a stream's events.
package dialecttest

import (
	"encoding/json"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"dyno/services/bot/dialect"
	"dyno/services/bot/openai"
)

// Requests draws requests that use features that has reports, and notes them. The order of an assistant's blocks is
// thinking, text, refusal, calls; results of tools are messages of their own.
func Requests(has func(dialect.Feature) bool) *rapid.Generator[*dialect.Request] {
	return rapid.Custom(func(t *rapid.T) *dialect.Request {
		g := &requests{t: t, has: has, r: &dialect.Request{}}
		g.draw()
		return g.r
	})
}

type requests struct {
	t   *rapid.T
	has func(dialect.Feature) bool
	r   *dialect.Request
}

// flip draws a boolean.
func (g *requests) flip() bool { return rapid.Bool().Draw(g.t, "flip") }

// may decides to use a feature, and notes it.
func (g *requests) may(f dialect.Feature) bool {
	if !g.has(f) || !g.flip() {
		return false
	}
	g.r.Note(f, "random")
	return true
}

func text(t *rapid.T) string {
	return rapid.OneOf(rapid.StringN(1, 12, -1), rapid.SampledFrom([]string{"one two three", "line\nline", "<é>\"\\😀"})).Draw(t, "text")
}

func word(t *rapid.T) string { return rapid.StringMatching(`[a-z][a-z0-9_]{0,7}`).Draw(t, "word") }

func pick[T any](t *rapid.T, of ...T) T { return rapid.SampledFrom(of).Draw(t, "pick") }

func object(t *rapid.T) json.RawMessage {
	return pick(t, json.RawMessage(`{}`), json.RawMessage(`{"city":"Oslo","days":3}`), json.RawMessage(`{"a":[1,{"b":null}]}`))
}

func schema(t *rapid.T) json.RawMessage {
	return pick(t, json.RawMessage(`{"type":"object"}`), json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`))
}

func (g *requests) draw() {
	t, r := g.t, g.r
	r.Model = word(t)
	if g.may(dialect.SystemMessage) {
		for range pick(t, 1, 2) {
			r.System = append(r.System, g.marked(dialect.Block{Text: text(t)}))
		}
	}
	if g.may(dialect.Functions) {
		g.tools()
	}
	g.messages()
	if g.may(dialect.MaxTokens) {
		r.MaxTokens = pick(t, 1, 4096)
	}
	for _, number := range []struct {
		dialect.Feature

		to **float64
	}{
		{dialect.SetTemperature, &r.Temperature},
		{dialect.SetTopP, &r.TopP},
		{dialect.FrequencyWeight, &r.FrequencyPenalty},
		{dialect.PresenceWeight, &r.PresencePenalty},
	} {
		if g.may(number.Feature) {
			*number.to = pick(t, new(0.25), new(0.5), new(1.0))
		}
	}
	if g.may(dialect.SetTopK) {
		r.TopK = new(40)
	}
	if g.may(dialect.SetSeed) {
		r.Seed = new(int64(1 << 40))
	}
	if g.may(dialect.StopSequences) {
		r.Stop = pick(t, []string{"\n"}, []string{"END", "<|x|>"})
	}
	if g.may(dialect.JSONSchema) {
		r.Format = &dialect.Format{Name: word(t), Schema: schema(t)}
	} else if g.may(dialect.JSONObject) {
		r.Format = &dialect.Format{}
	}
	g.reasoning()
	if g.may(dialect.UserID) {
		r.User = word(t)
	}
	if g.may(dialect.SetMetadata) {
		r.Metadata = map[string]string{word(t): text(t)}
	}
	if r.Stream = g.flip(); r.Stream {
		r.IncludeUsage = g.flip()
	}
	for _, extra := range []struct{ field, value string }{{"service_tier", `"flex"`}, {"min_p", `0.25`}, {"stop_token_ids", `[1,2]`}} {
		if g.may(dialect.FeatureOf(extra.field)) {
			if r.Extra == nil {
				r.Extra = map[string]json.RawMessage{}
			}
			r.Extra[extra.field] = json.RawMessage(extra.value)
		}
	}
}

func (g *requests) reasoning() {
	var reasoning dialect.Reasoning
	if g.may(dialect.ReasoningEffort) {
		reasoning.Effort = pick(g.t, "low", "medium", "high")
	}
	if g.may(dialect.ReasoningBudget) {
		reasoning.Budget = pick(g.t, 1024, 2048)
	}
	if g.may(dialect.ReasoningText) {
		reasoning.Summary = "auto"
	}
	if reasoning != (dialect.Reasoning{}) {
		g.r.Reasoning = &reasoning
	}
}

func (g *requests) tools() {
	for i := range pick(g.t, 1, 2) {
		tool := dialect.Tool{Name: fmt.Sprint(word(g.t), i), Schema: schema(g.t)}
		if g.flip() {
			tool.Description = text(g.t)
		}
		if g.may(dialect.StrictTools) {
			tool.Strict = new(true)
		}
		if g.may(dialect.CacheMarks) {
			tool.Cache = "5m"
		}
		g.r.Tools = append(g.r.Tools, tool)
	}
	if g.may(dialect.CustomTools) {
		tool := dialect.Tool{Name: "patch", Description: text(g.t), Custom: true}
		if g.flip() {
			tool.Syntax, tool.Grammar = "lark", "start: \"a\"+"
		}
		g.r.Tools = append(g.r.Tools, tool)
	}
	switch {
	case g.may(dialect.ChooseNone):
		g.r.Choice.Mode = dialect.NoTool
	case g.may(dialect.ChooseSome):
		g.r.Choice.Mode = dialect.SomeTool
	case g.may(dialect.ChooseOne):
		g.r.Choice = dialect.Choice{Mode: dialect.OneTool, Name: g.r.Tools[0].Name}
	case g.flip():
		g.r.Choice.Mode = dialect.Auto
	}
	if g.r.Choice.Mode != dialect.NoTool && g.may(dialect.SingleCall) {
		g.r.Parallel = new(false)
	}
}

// messages draws turns: the user's, and mostly an answer, with results if it calls tools. The last is the user's.
func (g *requests) messages() {
	for i := range pick(g.t, 1, 2, 3) {
		if i > 0 && g.may(dialect.LateSystem) {
			g.add(dialect.System, dialect.Block{Text: text(g.t)})
		}
		g.add(dialect.User, g.content()...)
		if g.may(dialect.SpeakerName) {
			g.r.Messages[len(g.r.Messages)-1].Name = word(g.t)
		}
		if !g.flip() {
			continue
		}
		blocks := g.answer()
		g.add(dialect.Assistant, blocks...)
		var results []dialect.Block
		for _, b := range blocks {
			if b.Kind == dialect.ToolCall {
				results = append(results, g.result(b))
			}
		}
		if len(results) > 0 {
			g.add(dialect.User, results...)
		}
	}
	if last := g.r.Messages[len(g.r.Messages)-1]; last.Role == dialect.Assistant {
		g.add(dialect.User, g.content()...)
	}
}

func (g *requests) add(role dialect.Role, blocks ...dialect.Block) {
	g.r.Messages = append(g.r.Messages, dialect.Message{Role: role, Blocks: blocks})
}

// marked sometimes marks a block for the cache.
func (g *requests) marked(b dialect.Block) dialect.Block {
	if g.may(dialect.CacheMarks) {
		b.Cache = pick(g.t, "5m", "1h")
	}
	return b
}

// content draws a user's blocks. The first is a text.
func (g *requests) content() []dialect.Block {
	blocks := []dialect.Block{g.marked(dialect.Block{Text: text(g.t)})}
	for _, f := range []dialect.Feature{dialect.ImageData, dialect.ImageURL, dialect.AudioData, dialect.FileData, dialect.FileURL, dialect.FileID} {
		if !g.has(f) || pick(g.t, 0, 1, 2) > 0 {
			continue
		}
		g.r.Note(f, "random")
		b := dialect.Block{Kind: dialect.File}
		switch f {
		case dialect.ImageData:
			b.Kind, b.Source = dialect.Image, dialect.Source{Data: "iVBORw0KGgo=", Type: pick(g.t, "image/png", "image/jpeg")}
		case dialect.ImageURL:
			b.Kind, b.Source.URL = dialect.Image, "https://example.com/a.png?b=1&c=2"
		case dialect.AudioData:
			b.Kind, b.Source = dialect.Audio, dialect.Source{Data: "UklGRg==", Type: pick(g.t, "audio/wav", "audio/mp3")}
		case dialect.FileData:
			b.Source = dialect.Source{Data: "JVBERi0=", Type: "application/pdf", Name: "a.pdf"}
		case dialect.FileURL:
			b.Source.URL = "https://example.com/a.pdf"
		case dialect.FileID:
			b.Source.ID = "file-" + word(g.t)
		}
		if b.Kind == dialect.Image && g.may(dialect.ImageDetail) {
			b.Source.Detail = pick(g.t, "low", "high")
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// answer draws an assistant's blocks of an earlier turn.
func (g *requests) answer() (blocks []dialect.Block) {
	if g.may(dialect.ThinkingBack) {
		blocks = append(blocks, dialect.Block{Kind: dialect.Thinking, Text: text(g.t), Signature: word(g.t)})
	}
	if g.may(dialect.RedactedBack) {
		blocks = append(blocks, dialect.Block{Kind: dialect.Redacted, Signature: word(g.t)})
	}
	blocks = append(blocks, g.marked(dialect.Block{Text: text(g.t)}))
	for _, tool := range g.r.Tools {
		b := dialect.Block{Kind: dialect.ToolCall, ID: fmt.Sprint("call_", len(g.r.Messages), tool.Name), Name: tool.Name, Input: object(g.t)}
		if tool.Custom {
			b.Custom, b.Input = true, dialect.Append(nil, text(g.t))
		}
		if g.flip() {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

func (g *requests) result(call dialect.Block) dialect.Block {
	b := dialect.Block{Kind: dialect.ToolResult, ID: call.ID, Result: []dialect.Block{{Text: text(g.t)}}}
	if g.may(dialect.ResultFailed) {
		b.Failed = true
	}
	if g.has(dialect.ImageData) && g.may(dialect.ResultImages) {
		g.r.Note(dialect.ImageData, "random")
		b.Result = append(b.Result, dialect.Block{Kind: dialect.Image, Source: dialect.Source{Data: "iVBORw0KGgo=", Type: "image/png"}})
	}
	return b
}

// A Form is what a form of answers can express.
type Form struct {
	Kinds  []dialect.Kind // of blocks, in the order in which answers have them
	Stops  []dialect.Stop // other than ToolCalls, with which answers end that call tools
	Signed []dialect.Kind // these have signatures
	Custom bool           // a call may have a text as input
	Repeat bool           // there may be several texts
	// Silent are features of the server that need no field in a request.
	Silent []dialect.Feature
	// Untimed says that answers have no time.
	Untimed bool
}

// Answers draws answers that a form can express.
func Answers(f Form) *rapid.Generator[*dialect.Answer] {
	return rapid.Custom(func(t *rapid.T) *dialect.Answer {
		a := &dialect.Answer{ID: word(t), Model: word(t), Created: 1790000000, Stop: pick(t, f.Stops...)}
		if f.Untimed {
			a.Created = 0
		}
		for _, kind := range f.Kinds {
			n := pick(t, 0, 1, 1)
			if n > 0 && (kind == dialect.ToolCall || f.Repeat && kind == dialect.Text) {
				n = pick(t, 1, 2)
			}
			for i := range n {
				a.Blocks = append(a.Blocks, f.block(t, kind, i))
			}
		}
		if a.Stop == dialect.Sequence {
			a.Sequence = "END"
		}
		if slices.ContainsFunc(a.Blocks, func(b dialect.Block) bool { return b.Kind == dialect.ToolCall }) {
			a.Stop, a.Sequence = dialect.ToolCalls, ""
		}
		if rapid.Bool().Draw(t, "usage") {
			a.Usage = &openai.Usage{Prompt: 20, Completion: 9, Cached: pick(t, 0, 8), Reasoning: pick(t, 0, 5)}
		}
		return a
	})
}

func (f Form) block(t *rapid.T, kind dialect.Kind, i int) dialect.Block {
	b := dialect.Block{Kind: kind}
	switch kind {
	case dialect.ToolCall:
		b.ID, b.Name, b.Input = fmt.Sprint("call_", i), word(t), object(t)
		if f.Custom && rapid.Bool().Draw(t, "custom") {
			b.Custom, b.Input = true, dialect.Append(nil, text(t))
		}
	case dialect.Redacted:
		b.Signature = word(t)
	case dialect.Image:
		b.Source = dialect.Source{Data: "iVBORw0KGgo=", Type: pick(t, "image/png", "image/jpeg")}
	default:
		b.Text = text(t)
	}
	if slices.Contains(f.Signed, kind) {
		b.Signature = word(t)
	}
	return b
}

// Split calls each for the events of an answer, with its texts in random pieces.
func Split(t *rapid.T, a *dialect.Answer, each func(*dialect.Event)) {
	a.Events(func(e *dialect.Event) {
		for e.Kind == dialect.Piece && len(e.Text) > 1 && rapid.Bool().Draw(t, "cut") {
			runes := []rune(e.Text)
			at := rapid.IntRange(0, len(runes)).Draw(t, "at")
			each(&dialect.Event{Kind: dialect.Piece, Text: string(runes[:at])})
			e.Text = string(runes[at:])
		}
		each(e)
	})
}
