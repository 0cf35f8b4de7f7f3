package llm

import (
	"encoding/json"
	"slices"
	"strconv"
)

// An answer is the answer to a request, in pieces. Its methods only append to a buffer. In an answer that calls a
// tool, a piece is one of the call's arguments.
type answer struct {
	request
	tokens  int    // that each choice has
	cut     bool   // because the request wants no more
	created int64  // Unix time in seconds
	name    string // the model's, as JSON
	pieces  []string
	next    int // sequence number of the next event, of /v1/responses
	usages  bool
}

// newAnswer decides how long the answer is: usual tokens, or as few as were asked for.
func newAnswer(q request, usual int, created int64, usage bool) *answer {
	name, err := json.Marshal(q.model)
	if err != nil {
		name = []byte(`""`) // a string always is JSON
	}
	a := &answer{request: q, tokens: usual, created: created, name: string(name), usages: usage}
	if q.limit > 0 && q.limit < usual {
		a.tokens, a.cut = q.limit, true
	}
	if q.tool != "" {
		const piece = 8 // characters: about one token of JSON
		for text := range slices.Chunk([]rune(q.arguments), piece) {
			a.pieces = append(a.pieces, string(text))
		}
		a.tokens, a.cut = len(a.pieces), false
	}
	return a
}

// piece adds the i-th token's text as the inside of a JSON string.
func (a *answer) piece(b []byte, i int) []byte {
	if a.tool == "" {
		return appendToken(b, a.hash, i)
	}
	quoted := quote(a.pieces[i])
	return append(b, quoted[1:len(quoted)-1]...)
}

// text adds all of it as the inside of a JSON string.
func (a *answer) text(b []byte) []byte {
	for i := range a.tokens {
		b = a.piece(b, i)
	}
	return b
}

func (a *answer) reason() string {
	switch {
	case a.tool != "":
		return "tool_calls"
	case a.cut:
		return "length"
	}
	return "stop"
}

// allTokens is how many tokens all choices have.
func (a *answer) allTokens() int { return a.tokens * a.choices() }

// begin appends the part of a stream before the first token.
func (a *answer) begin(b []byte) []byte {
	switch a.endpoint {
	case responses:
		return a.beginResponse(b)
	case completions:
		return b // it begins with a token
	}
	if a.tool == "" {
		return a.endChunk(append(a.chunk(b), `{"role":"assistant","content":""}`...), "")
	}
	b = append(a.chunk(b), `{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"`...)
	b = appendID(b, "call_", a.hash)
	b = append(append(append(b, `","type":"function","function":{"name":`...), quote(a.tool)...), `,"arguments":""}}]}`...)
	return a.endChunk(b, "")
}

// token adds the event of the i-th token.
func (a *answer) token(b []byte, i int) []byte {
	switch a.endpoint {
	case responses:
		return a.responseToken(b, i)
	case completions:
		return a.completionToken(b, i)
	}
	b = a.chunk(b)
	if a.tool == "" {
		b = append(a.piece(append(b, `{"content":"`...), i), `"}`...)
	} else {
		b = append(a.piece(append(b, `{"tool_calls":[{"index":0,"function":{"arguments":"`...), i), `"}}]}`...)
	}
	return a.endChunk(b, "")
}

// malformed adds an event whose data is no JSON.
func (a *answer) malformed(b []byte) []byte {
	return append(b, "data: {\"id\":\"chatcmpl-\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\n\n"...)
}

// end appends the part of a stream after the last token.
func (a *answer) end(b []byte) []byte {
	switch a.endpoint {
	case responses:
		return a.endResponse(b)
	case completions:
		b = a.endCompletion(b)
	default:
		b = a.endChunk(append(a.chunk(b), "{}"...), a.reason())
	}
	if a.usage && a.usages {
		b = append(a.head(append(b, "data: "...), "chat.completion.chunk"), `,"choices":[],`...)
		b = append(a.used(b), "}\n\n"...)
	}
	return append(b, "data: [DONE]\n\n"...)
}

// head appends the beginning of a completion or a chunk of one. For text completions, both have one name.
func (a *answer) head(b []byte, object string) []byte {
	prefix := "chatcmpl-"
	if a.endpoint == completions {
		prefix, object = "cmpl-", "text_completion"
	}
	b = appendID(append(b, `{"id":"`...), prefix, a.hash)
	b = append(append(append(b, `","object":"`...), object...), `","created":`...)
	b = strconv.AppendInt(b, a.created, 10)
	b = append(append(b, `,"model":`...), a.name...)
	return append(b, `,"system_fingerprint":"dyno"`...)
}

// chunk adds a chunk up to its delta.
func (a *answer) chunk(b []byte) []byte {
	return append(a.head(append(b, "data: "...), "chat.completion.chunk"), `,"choices":[{"index":0,"delta":`...)
}

// endChunk appends the part after the delta, or the text. A stream that ends with the usage has null before.
func (a *answer) endChunk(b []byte, reason string) []byte {
	b = append(b, `,"logprobs":null,"finish_reason":`...)
	if reason == "" {
		b = append(b, "null}]"...)
	} else {
		b = append(append(append(b, '"'), reason...), `"}]`...)
	}
	if a.usage && a.usages {
		b = append(b, `,"usage":null`...)
	}
	return append(b, "}\n\n"...)
}

func (a *answer) used(b []byte) []byte {
	b = strconv.AppendInt(append(b, `"usage":{"prompt_tokens":`...), int64(a.promptTokens), 10)
	b = strconv.AppendInt(append(b, `,"completion_tokens":`...), int64(a.allTokens()), 10)
	b = strconv.AppendInt(append(b, `,"total_tokens":`...), int64(a.promptTokens+a.allTokens()), 10)
	return append(b, '}')
}

// whole adds the answer of a request that wants no stream.
func (a *answer) whole(b []byte) []byte {
	switch a.endpoint {
	case responses:
		return a.response(b, a.ended(), true)
	case completions:
		return a.completion(b)
	}
	b = append(a.head(b, "chat.completion"), `,"choices":[{"index":0,"message":{"role":"assistant","refusal":null,"content":`...)
	if a.tool == "" {
		b = append(a.text(append(b, '"')), '"')
	} else {
		b = appendID(append(b, `null,"tool_calls":[{"id":"`...), "call_", a.hash)
		b = append(append(b, `","type":"function","function":{"name":`...), quote(a.tool)...)
		b = append(a.text(append(b, `,"arguments":"`...)), `"}}]`...)
	}
	b = append(append(append(b, `},"logprobs":null,"finish_reason":"`...), a.reason()...), `"}]`...)
	if a.usages {
		b = a.used(append(b, ','))
	}
	return append(b, '}')
}

func quote(text string) []byte {
	b, err := json.Marshal(text)
	if err != nil {
		return []byte(`""`) // a string always is JSON
	}
	return b
}

// The rest is for /v1/responses: each event has a type, twice, and a number.

// ended is the status of the answer, and of what it holds, at its end.
func (a *answer) ended() string {
	if a.cut {
		return "incomplete"
	}
	return "completed"
}

func (a *answer) event(b []byte, kind string) []byte {
	b = append(append(append(b, "event: "...), kind...), "\ndata: {\"type\":\""...)
	b = append(append(b, kind...), `","sequence_number":`...)
	b = strconv.AppendInt(b, int64(a.next), 10)
	a.next++
	return b
}

// item adds the one item of the output, with its text or without.
func (a *answer) item(b []byte, status string, full bool) []byte {
	if a.tool != "" {
		b = appendID(append(b, `{"type":"function_call","id":"`...), "fc_", a.hash)
		b = appendID(append(b, `","call_id":"`...), "call_", a.hash)
		b = append(append(append(b, `","name":`...), quote(a.tool)...), `,"arguments":"`...)
		if full {
			b = a.text(b)
		}
		return append(append(append(b, `","status":"`...), status...), `"}`...)
	}
	b = appendID(append(b, `{"type":"message","id":"`...), "msg_", a.hash)
	b = append(append(append(b, `","status":"`...), status...), `","role":"assistant","content":[`...)
	if full {
		b = a.part(b, true)
	}
	return append(b, "]}"...)
}

func (a *answer) part(b []byte, full bool) []byte {
	b = append(b, `{"type":"output_text","text":"`...)
	if full {
		b = a.text(b)
	}
	return append(b, `","annotations":[],"logprobs":[]}`...)
}

// response adds the whole object, with its output or without.
func (a *answer) response(b []byte, status string, full bool) []byte {
	b = appendID(append(b, `{"id":"`...), "resp_", a.hash)
	b = strconv.AppendInt(append(b, `","object":"response","created_at":`...), a.created, 10)
	b = append(append(append(b, `,"status":"`...), status...), `","error":null,"incomplete_details":`...)
	if full && a.cut {
		b = append(b, `{"reason":"max_output_tokens"}`...)
	} else {
		b = append(b, "null"...)
	}
	b = append(append(append(b, `,"instructions":null,"metadata":{},"model":`...), a.name...), `,"parallel_tool_calls":true,"temperature":1,"tool_choice":"auto","tools":[],"top_p":1,"output":[`...)
	if full {
		b = a.item(b, a.ended(), true)
	}
	b = append(b, ']')
	if full && a.usages {
		b = strconv.AppendInt(append(b, `,"usage":{"input_tokens":`...), int64(a.promptTokens), 10)
		b = strconv.AppendInt(append(b, `,"input_tokens_details":{"cached_tokens":0},"output_tokens":`...), int64(a.tokens), 10)
		b = strconv.AppendInt(append(b, `,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":`...), int64(a.promptTokens+a.tokens), 10)
		b = append(b, '}')
	}
	return append(b, '}')
}

// place adds where in the output an event belongs.
func (a *answer) place(b []byte) []byte {
	b = append(b, `,"item_id":"`...)
	if a.tool != "" {
		return append(appendID(b, "fc_", a.hash), `","output_index":0`...)
	}
	return append(appendID(b, "msg_", a.hash), `","output_index":0,"content_index":0`...)
}

func (a *answer) beginResponse(b []byte) []byte {
	for _, kind := range []string{"response.created", "response.in_progress"} {
		b = append(a.response(append(a.event(b, kind), `,"response":`...), "in_progress", false), "}\n\n"...)
	}
	b = append(a.item(append(a.event(b, "response.output_item.added"), `,"output_index":0,"item":`...), "in_progress", false), "}\n\n"...)
	if a.tool == "" {
		b = append(a.part(append(a.place(a.event(b, "response.content_part.added")), `,"part":`...), false), "}\n\n"...)
	}
	return b
}

func (a *answer) responseToken(b []byte, i int) []byte {
	if a.tool != "" {
		b = append(a.place(a.event(b, "response.function_call_arguments.delta")), `,"delta":"`...)
		return append(a.piece(b, i), "\"}\n\n"...)
	}
	b = append(a.place(a.event(b, "response.output_text.delta")), `,"delta":"`...)
	return append(a.piece(b, i), "\",\"logprobs\":[]}\n\n"...)
}

func (a *answer) endResponse(b []byte) []byte {
	if a.tool != "" {
		b = append(a.text(append(a.place(a.event(b, "response.function_call_arguments.done")), `,"arguments":"`...)), "\"}\n\n"...)
	} else {
		b = append(a.text(append(a.place(a.event(b, "response.output_text.done")), `,"text":"`...)), "\",\"logprobs\":[]}\n\n"...)
		b = append(a.part(append(a.place(a.event(b, "response.content_part.done")), `,"part":`...), true), "}\n\n"...)
	}
	b = append(a.item(append(a.event(b, "response.output_item.done"), `,"output_index":0,"item":`...), a.ended(), true), "}\n\n"...)
	return append(a.response(append(a.event(b, "response."+a.ended()), `,"response":`...), a.ended(), true), "}\n\n"...)
}
