package openai

import (
	"bytes"
	"iter"
	"slices"
	"strconv"
)

// usageOf parses a usage, in the forms of OpenAI's endpoints and of several servers. It returns nil for an empty or
// impossible one: an answer must not fail for it.
func usageOf(value []byte) *Usage {
	s := scanner{b: value}
	if s.sees() != '{' {
		return nil
	}
	var u Usage
	var prompt, completion, input, output count
	ok := s.fields(func(name []byte) bool {
		switch string(name) {
		case "prompt_tokens":
			return s.count(&prompt)
		case "completion_tokens":
			return s.count(&completion)
		case "input_tokens":
			return s.count(&input)
		case "output_tokens":
			return s.count(&output)
		case "prompt_tokens_details", "input_tokens_details":
			return s.kinds(func(name string) *int { return u.promptKind(name) })
		case "completion_tokens_details", "output_tokens_details":
			return s.kinds(func(name string) *int { return u.completionKind(name) })
		case "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens":
			return s.kind(&u.Cached)
		case "cache_creation_input_tokens", "cache_write_tokens":
			return s.kind(&u.CacheWrite)
		}
		return s.skip()
	})
	if !ok || !s.end() {
		return nil
	}
	if !prompt.there {
		prompt, completion = input, output
	}
	if !prompt.ok || !completion.ok {
		return nil
	}
	u.Prompt, u.Completion = prompt.n, completion.n
	return &u
}

func (u *Usage) promptKind(name string) *int {
	switch name {
	case "cached_tokens":
		return &u.Cached
	case "cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens":
		return &u.CacheWrite
	case "audio_tokens":
		return &u.PromptAudio
	case "image_tokens":
		return &u.PromptImage
	}
	return nil
}

func (u *Usage) completionKind(name string) *int {
	switch name {
	case "reasoning_tokens", "thinking_tokens":
		return &u.Reasoning
	case "audio_tokens":
		return &u.CompletionAudio
	case "image_tokens":
		return &u.CompletionImage
	}
	return nil
}

// A count is a number of tokens that may be missing, or invalid.
type count struct {
	n         int
	there, ok bool
}

// count reads any value as a number of tokens.
func (s *scanner) count(to *count) bool {
	value, ok := s.value()
	if !ok {
		return false
	}
	to.there = string(value) != "null"
	to.n, to.ok = whole(value)
	return true
}

// kind reads any value, and notes it if it is a number of tokens. Some servers send one number under two names.
func (s *scanner) kind(to *int) bool {
	var n count
	if !s.count(&n) {
		return false
	}
	*to = max(*to, n.n)
	return true
}

// kinds reads an object of numbers, or any other value.
func (s *scanner) kinds(of func(name string) *int) bool {
	if s.sees() != '{' {
		return s.skip()
	}
	return s.fields(func(name []byte) bool {
		if to := of(string(name)); to != nil {
			return s.kind(to)
		}
		return s.skip()
	})
}

// LastUsage finds an answer's usage in its last bytes, which may be all that is left of it; nil if there is none.
func LastUsage(e Endpoint, end []byte) *Usage {
	parse, field := usageOf, "usage"
	switch e {
	case Messages:
		parse = messageUsage
	case Contents:
		parse, field = contentUsage, "usageMetadata"
	}
	for _, value := range valuesOf(end, field) {
		if u := parse(value); u != nil {
			return u
		}
	}
	return nil
}

// Words returns the short texts that an answer's members of some names have, in their order. The answer may be cut anywhere.
func Words(part []byte, names ...string) (list []string) {
	const most = 128 // bytes of one
	for _, name := range names {
		for _, value := range valuesOf(part, name) {
			if text := textValue(value); text != "" && len(text) <= most {
				list = append(list, text)
			}
		}
	}
	slices.Reverse(list)
	return list
}

// valuesOf yields the values of members of one name, and where they begin, the last one first. The JSON may be cut anywhere.
func valuesOf(part []byte, name string) iter.Seq2[int, []byte] {
	quoted := []byte(strconv.Quote(name))
	return func(yield func(int, []byte) bool) {
		for end := part; ; {
			at := bytes.LastIndex(end, quoted)
			if at < 0 {
				return
			}
			w := scanner{b: part, at: at + len(quoted)}
			if w.next(':') {
				w.blanks()
				if begin := w.at; w.skip() && !yield(begin, part[begin:w.at]) {
					return
				}
			}
			end = end[:at]
		}
	}
}
