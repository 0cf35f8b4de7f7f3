package ollama_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dyno/services/bot/dialect"
	"dyno/services/bot/dialect/dialecttest"
)

// The types of this file are the API's, apart from those of the package.

type apiRequest struct {
	Model    string       `json:"model"`
	Messages []apiMessage `json:"messages"`
	Tools    []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	Format  json.RawMessage `json:"format"`
	Think   any             `json:"think"`
	Stream  *bool           `json:"stream"`
	Options struct {
		NumPredict       int      `json:"num_predict"`
		Temperature      *float64 `json:"temperature"`
		TopP             *float64 `json:"top_p"`
		TopK             *int     `json:"top_k"`
		Stop             []string `json:"stop"`
		Seed             *int64   `json:"seed"`
		PresencePenalty  *float64 `json:"presence_penalty"`
		FrequencyPenalty *float64 `json:"frequency_penalty"`
	} `json:"options"`
}

type apiMessage struct {
	Role       string    `json:"role"`
	Content    string    `json:"content"`
	Thinking   string    `json:"thinking,omitempty"`
	Images     [][]byte  `json:"images,omitempty"`
	ToolCalls  []apiCall `json:"tool_calls,omitempty"`
	ToolName   string    `json:"tool_name,omitempty"`
	ToolCallID string    `json:"tool_call_id,omitempty"`
}

type apiCall struct {
	ID       string `json:"id,omitempty"`
	Function struct {
		Index     int             `json:"index"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

type apiLine struct {
	Model           string     `json:"model"`
	CreatedAt       time.Time  `json:"created_at"`
	Message         apiMessage `json:"message"`
	Done            bool       `json:"done"`
	DoneReason      string     `json:"done_reason,omitempty"`
	PromptEvalCount int        `json:"prompt_eval_count,omitempty"`
	EvalCount       int        `json:"eval_count,omitempty"`
}

// readRequest reads a request by the API's types.
func readRequest(t *rapid.T, body []byte) *dialect.Request {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	var w apiRequest
	if err := d.Decode(&w); err != nil || w.Stream == nil {
		t.Fatalf("%s: %v", body, err)
	}
	o := w.Options
	r := &dialect.Request{
		Model: w.Model, MaxTokens: o.NumPredict, Temperature: o.Temperature, TopP: o.TopP, TopK: o.TopK,
		Stop: o.Stop, Seed: o.Seed, PresencePenalty: o.PresencePenalty, FrequencyPenalty: o.FrequencyPenalty, Stream: *w.Stream,
	}
	for _, m := range w.Messages {
		blocks := readMessage(&m)
		if role := dialect.Role(m.Role); role == "tool" {
			r.Messages = append(r.Messages, dialect.Message{Role: dialect.User, Blocks: []dialect.Block{{Kind: dialect.ToolResult, ID: m.ToolCallID, Name: m.ToolName, Result: blocks}}})
		} else if role == dialect.System && len(r.Messages) == 0 {
			r.System = append(r.System, blocks...)
		} else {
			r.Messages = append(r.Messages, dialect.Message{Role: role, Blocks: blocks})
		}
	}
	for _, f := range w.Tools {
		r.Tools = append(r.Tools, dialect.Tool{Name: f.Function.Name, Description: f.Function.Description, Schema: f.Function.Parameters})
	}
	switch string(w.Format) {
	case "":
	case `"json"`:
		r.Format = &dialect.Format{}
	default:
		r.Format = &dialect.Format{Schema: w.Format}
	}
	switch think := w.Think.(type) {
	case bool:
		r.Reasoning = &dialect.Reasoning{Summary: "auto"}
	case string:
		r.Reasoning = &dialect.Reasoning{Effort: think}
	}
	return r
}

func readMessage(m *apiMessage) (blocks []dialect.Block) {
	for kind, text := range []string{dialect.Text: m.Content, dialect.Thinking: m.Thinking} {
		if text != "" {
			blocks = append(blocks, dialect.Block{Kind: dialect.Kind(kind), Text: text})
		}
	}
	for _, image := range m.Images {
		var data string
		_ = json.Unmarshal(dialect.Append(nil, image), &data)
		blocks = append(blocks, dialect.Block{Kind: dialect.Image, Source: dialect.Source{Data: data}})
	}
	for _, c := range m.ToolCalls {
		blocks = append(blocks, dialect.Block{Kind: dialect.ToolCall, ID: c.ID, Name: c.Function.Name, Input: c.Function.Arguments})
	}
	return blocks
}

// normalized returns what is left of a request in the API's form: texts are joined, and stand before thinking.
func normalized(r *dialect.Request) *dialect.Request {
	r.Messages, r.IncludeUsage = r.NamedResults(), false
	if r.Format != nil {
		r.Format.Name = ""
	}
	if r.Reasoning != nil && r.Reasoning.Effort != "" {
		r.Reasoning.Summary = ""
	}
	if r.Choice = (dialect.Choice{Mode: r.Choice.Mode}); r.Choice.Mode == dialect.NoTool {
		r.Tools = nil
	}
	r.Choice = dialect.Choice{}
	r.System = joined(r.System)
	var messages []dialect.Message
	for _, m := range r.Messages {
		if m.Blocks[0].Kind == dialect.ToolResult { // each has a message of its own
			for _, b := range m.Blocks {
				messages = append(messages, dialect.Message{Role: m.Role, Blocks: []dialect.Block{b}})
			}
			continue
		}
		messages = append(messages, dialect.Message{Role: m.Role, Blocks: joined(m.Blocks)})
	}
	r.Messages = messages
	return r
}

func joined(list []dialect.Block) []dialect.Block {
	var texts, thoughts, others []dialect.Block
	for _, b := range list {
		switch b.Signature, b.Source.Type = "", ""; {
		case b.Kind == dialect.Text && texts != nil:
			texts[0].Text += "\n\n" + b.Text
		case b.Kind == dialect.Text:
			texts = append(texts, b)
		case b.Kind == dialect.Thinking:
			thoughts = append(thoughts, b)
		default:
			others = append(others, b)
		}
	}
	return append(append(texts, thoughts...), others...)
}

// TestRequests: all of a request is in the API's form, in fields that the API has.
func TestRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := dialecttest.Requests(server.Says).Draw(t, "request")
		body, err := server.AppendRequest([]byte("x"), r, r.Model)
		if err != nil || body[0] != 'x' {
			t.Fatal(err)
		}
		if got, want := dialecttest.Dump(readRequest(t, body[1:])), dialecttest.Dump(normalized(r)); got != want {
			t.Fatalf("%s\n%s\nwant\n%s", body, got, want)
		}
	})
}

// A writer writes answers in the API's form: each event is a line of a stream.
type writer struct {
	kind dialect.Kind
	call apiCall
}

func (w *writer) line(e *dialect.Event, l *apiLine) bool {
	switch e.Kind {
	case dialect.Open:
		w.kind, w.call = e.Block.Kind, apiCall{ID: e.Block.ID}
		w.call.Function.Name = e.Block.Name
		return false
	case dialect.Piece:
		switch w.kind {
		case dialect.ToolCall: // whole, at its end
			w.call.Function.Arguments = append(w.call.Function.Arguments, e.Text...)
			return false
		case dialect.Thinking:
			l.Message.Thinking += e.Text
		default:
			l.Message.Content += e.Text
		}
		return true
	case dialect.Close:
		if w.kind == dialect.ToolCall {
			l.Message.ToolCalls = append(l.Message.ToolCalls, w.call)
		}
		return w.kind == dialect.ToolCall
	case dialect.Finish:
		l.Done, l.DoneReason = true, "stop"
		if e.Answer.Stop == dialect.Length {
			l.DoneReason = "length"
		}
		if u := e.Answer.Usage; u != nil {
			l.PromptEvalCount, l.EvalCount = u.Prompt, u.Completion
		}
		return true
	}
	return false
}

// TestAnswers: whole answers and streams, cut anywhere, are read as they were written.
func TestAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := dialecttest.Answers(dialecttest.Form{
			Kinds: []dialect.Kind{dialect.Thinking, dialect.Text, dialect.ToolCall}, Stops: []dialect.Stop{dialect.End, dialect.Length},
		}).Draw(t, "answer")
		if a.ID = strconv.FormatInt(time.Unix(a.Created, 0).UnixNano(), 36); a.Usage != nil { // the time is the only ID
			a.Usage.Cached, a.Usage.Reasoning = 0, 0
		}
		head := apiLine{Model: a.Model, CreatedAt: time.Unix(a.Created, 0)}
		head.Message.Role = "assistant"
		var stream []string
		w, whole := &writer{}, head
		dialecttest.Split(t, a, func(e *dialect.Event) {
			if l := head; w.line(e, &l) {
				stream = append(stream, string(dialect.Append(nil, l)))
			}
		})
		a.Events(func(e *dialect.Event) { w.line(e, &whole) })

		got, err := server.ReadAnswer(dialect.Append(nil, whole))
		if err != nil || dialecttest.Dump(got) != dialecttest.Dump(a) {
			t.Fatalf("%+v\n%s, %v\nwant\n%s", whole, dialecttest.Dump(got), err, dialecttest.Dump(a))
		}
		fold, err := read(stream...)
		if err != nil || dialecttest.Dump(fold.Answer) != dialecttest.Dump(a) {
			t.Fatalf("%s\n%s, %v\nwant\n%s", stream, dialecttest.Dump(fold.Answer), err, dialecttest.Dump(a))
		}
		if _, err := read(stream[:len(stream)-1]...); err == nil {
			t.Fatal("a stream without its end is complete")
		}
	})
}

// read reads lines.
func read(lines ...string) (dialect.Fold, error) {
	return dialecttest.Read(server.NewReader(), []byte("data: "+strings.Join(lines, "\n\ndata: ")+"\n\n"))
}
