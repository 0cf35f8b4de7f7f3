package micro

import (
	"context"
	"strings"
	"time"

	"dyno/experiments/subjects/bot/codec"
	"dyno/experiments/subjects/measurement"
)

// What a JSON program does.
const (
	Decode = "decode"
	Encode = "encode"
	Both   = "both"
)

// JSON measures how fast a library decodes and encodes a model's answer.
//
// Figures: bytes_per_second, of JSON that was read or written; allocations and
// allocated_bytes, of one answer.
type JSON struct {
	Library codec.Library `yaml:"library" oneof:"std v2 sonic jsoniter" default:"std" doc:"what decodes and encodes; v2 takes GOEXPERIMENT=jsonv2"`
	// The buffer is the same each time. It changes nothing for decoding.
	Prealloc  bool          `yaml:"prealloc" doc:"encode into a buffer that has room"`
	Operation string        `yaml:"operation" oneof:"decode encode both" default:"both" doc:"what is measured"`
	Bytes     int           `yaml:"bytes" range:"0..1073741824" default:"2048" doc:"of the answer's text"`
	Duration  time.Duration `yaml:"duration" range:"1us..10m" default:"1s" doc:"how long to measure"`
}

// answer is as /v1/chat/completions has it.
type answer struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Index   int `json:"index"`
		Message struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"message"`
		Finish string `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	} `json:"usage"`
}

// Run decodes and encodes for some time.
func (j JSON) Run(ctx context.Context) (measurement.Result, error) {
	c, err := codec.New(j.Library)
	if err != nil {
		return nil, err
	}
	c.Ahead = j.Prealloc
	const words = "Mostly words, 有时是中文, and \"quotes\"\n"
	var first answer
	first.ID, first.Object, first.Created, first.Model = "chatcmpl-0123456789", "chat.completion", 1_700_000_000, "dyno-1"
	first.Choices = append(first.Choices, struct {
		Index   int `json:"index"`
		Message struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"message"`
		Finish string `json:"finish_reason"`
	}{Finish: "stop"})
	first.Choices[0].Message.Role = "assistant"
	first.Choices[0].Message.Content = strings.ToValidUTF8(strings.Repeat(words, j.Bytes/len(words)+1)[:j.Bytes], "")
	first.Usage.Prompt, first.Usage.Completion, first.Usage.Total = 123, 456, 579
	text, err := c.Append(nil, first)
	if err != nil {
		return nil, err
	}
	var room []byte
	if j.Prealloc {
		room = make([]byte, 0, 2*len(text))
	}
	handled := 0
	s, err := repeat(ctx, j.Duration, 16, func() error {
		v := &first
		if j.Operation != Encode {
			v = &answer{}
			if err := c.Unmarshal(text, v); err != nil {
				return err
			}
			if len(v.Choices) != 1 || len(v.Choices[0].Message.Content) != len(first.Choices[0].Message.Content) {
				return errWrong
			}
			handled += len(text)
		}
		if j.Operation != Decode {
			b, err := c.Append(room, v)
			if err != nil {
				return err
			}
			if len(b) != len(text) {
				return errWrong
			}
			handled += len(text)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	share := float64(s.ops) / float64(s.ops+1) // the first was not timed
	return s.memory(measurement.Result{"bytes_per_second": float64(handled) * share / s.elapsed.Seconds()}), nil
}
