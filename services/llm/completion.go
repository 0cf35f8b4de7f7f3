package llm

import "strconv"

// This file is for /v1/completions: a choice has a text and no role, and an answer has one choice for each prompt.
// All choices grow at the same time, as those of a batch do.

// completion adds the answer of a request that wants no stream.
func (a *answer) completion(b []byte) []byte {
	b = append(a.head(b, ""), `,"choices":[`...)
	for choice, seed := range a.seeds {
		if choice > 0 {
			b = append(b, ',')
		}
		b = append(appendChoice(b, choice), '"')
		for i := range a.tokens {
			b = appendToken(b, seed, i)
		}
		b = append(append(append(b, `","logprobs":null,"finish_reason":"`...), a.reason()...), `"}`...)
	}
	b = append(b, ']')
	if a.usages {
		b = a.used(append(b, ','))
	}
	return append(b, '}')
}

// completionToken adds the i-th token of every choice, each in a chunk of its own.
func (a *answer) completionToken(b []byte, i int) []byte {
	for choice, seed := range a.seeds {
		b = appendToken(append(a.textChunk(b, choice), '"'), seed, i)
		b = a.endChunk(append(b, '"'), "")
	}
	return b
}

// endCompletion adds why every choice has ended.
func (a *answer) endCompletion(b []byte) []byte {
	for choice := range a.seeds {
		b = a.endChunk(append(a.textChunk(b, choice), `""`...), a.reason())
	}
	return b
}

// textChunk adds a chunk up to its text.
func (a *answer) textChunk(b []byte, choice int) []byte {
	return appendChoice(append(a.head(append(b, "data: "...), ""), `,"choices":[`...), choice)
}

// appendChoice adds a choice up to its text.
func appendChoice(b []byte, choice int) []byte {
	b = strconv.AppendInt(append(b, `{"index":`...), int64(choice), 10)
	return append(b, `,"text":`...)
}
