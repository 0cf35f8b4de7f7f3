package llm

import (
	"bytes"
	"math"
	"strconv"
)

// A piece is what matters of one event's data.
type piece struct {
	holds     bool   // something of the answer
	reasons   bool   // it is text of the model's reasoning
	ended     bool   // it says that the answer has ended
	failed    bool   // it says that something went wrong
	tokens    uint32 // of the answer so far, by the server's account; 0 where it says nothing
	reasoning uint32 // of these, the reasoning
	prompt    uint32 // tokens of the prompt, by the same account
}

// A place is where in the data a value stands.
type place uint8

const (
	elsewhere place = iota
	top
	choices       // the list of a completion's choices
	choice        // one of them
	delta         // what a chat's choice adds
	answerText    // something of the answer: a text, or a list of parts
	answerSays    // something of the answer: what the model says to the user
	answerReasons // something of the answer: its reasoning
	deltaOrText   // "delta" at the top: of an event of the API "responses", the text itself
	finish        // why a choice has ended
	usage
	usageDetails // what kinds of tokens there are
	tokenCount
	reasoningCount
	promptCount
	eventType // "type" at the top, of an event of the API "responses"
	response  // its account of the whole answer
	failure   // "error", or anything in it
)

// within returns where the value of an object's member stands.
func within(p place, key []byte) place {
	switch p {
	case top:
		switch string(key) {
		case "choices":
			return choices
		case "usage":
			return usage
		case "error":
			return failure
		case "type":
			return eventType
		case "delta":
			return deltaOrText
		case "response":
			return response
		}
	case response:
		switch string(key) {
		case "usage":
			return usage
		case "error":
			return failure
		}
	case choice:
		switch string(key) {
		case "delta":
			return delta
		case "text":
			return answerSays
		case "finish_reason":
			return finish
		case "error":
			return failure
		}
	case delta:
		switch string(key) {
		case "content":
			return answerSays
		case "reasoning_content", "reasoning":
			return answerReasons
		case "refusal", "tool_calls", "function_call":
			return answerText
		}
	case usage:
		switch string(key) {
		case "completion_tokens", "output_tokens":
			return tokenCount
		case "prompt_tokens", "input_tokens":
			return promptCount
		case "completion_tokens_details", "output_tokens_details":
			return usageDetails
		}
	case usageDetails:
		if string(key) == "reasoning_tokens" {
			return reasoningCount
		}
	case failure:
		return failure
	}
	return elsewhere
}

// maxDepth bounds how deep values may be nested.
const maxDepth = 64

// A scanner goes once through a JSON value. It checks only the form of values; it leaves escapes and
// the digits of numbers unchecked.
type scanner struct {
	b     []byte
	at    int
	depth int

	found     piece
	says      []byte // what the model says to the user, as it stands between the quotes
	delta     []byte // at the top, "delta" is this text
	deltaType bool   // "type" at the top is the piece's
	outputs   bool   // "type" at the top is that of the model's words to the user
	reasons   bool   // "type" at the top is that of its reasoning
}

// scan reads an event's data, which is to be one JSON object. It also returns the model's words to the
// user, as they stand between the quotes of a JSON string.
func scan(data []byte) (found piece, says []byte, ok bool) {
	s := scanner{b: data}
	s.blanks()
	if s.at == len(data) || data[s.at] != '{' || !s.value(top) {
		return piece{}, nil, false
	}
	s.blanks()
	if s.at < len(data) {
		return piece{}, nil, false
	}
	if len(s.delta) > 0 && s.deltaType {
		s.found.holds, s.found.reasons = true, s.reasons
		if s.outputs {
			s.says = s.delta
		}
	}
	return s.found, s.says, true
}

func (s *scanner) blanks() {
	for s.at < len(s.b) {
		switch s.b[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// next takes the byte c, after blanks.
func (s *scanner) next(c byte) bool {
	s.blanks()
	if s.at == len(s.b) || s.b[s.at] != c {
		return false
	}
	s.at++
	return true
}

// value takes a value.
func (s *scanner) value(p place) bool {
	s.blanks()
	if s.at == len(s.b) {
		return false
	}
	switch c := s.b[s.at]; c {
	case '"':
		text, ok := s.text()
		if ok {
			s.string(p, text)
		}
		return ok
	case '{', '[':
		return s.compound(p, c == '{')
	case 't':
		s.found.failed = s.found.failed || p == failure
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		return s.number(p)
	}
}

// compound takes an object or an array.
func (s *scanner) compound(p place, object bool) (ok bool) {
	if s.depth == maxDepth {
		return false
	}
	s.depth++
	s.at++
	if object {
		ok = s.object(p)
	} else {
		ok = s.array(p)
	}
	s.depth--
	return ok
}

func (s *scanner) word(w string) bool {
	if !bytes.HasPrefix(s.b[s.at:], []byte(w)) {
		return false
	}
	s.at += len(w)
	return true
}

// text takes a string and returns what stands between its quotes.
func (s *scanner) text() ([]byte, bool) {
	s.at++
	begin := s.at
	for s.at < len(s.b) {
		switch c := s.b[s.at]; {
		case c == '"':
			s.at++
			return s.b[begin : s.at-1], true
		case c == '\\':
			s.at += 2
		case c < ' ':
			return nil, false
		default:
			s.at++
		}
	}
	return nil, false
}

// string says what a string means at a place.
func (s *scanner) string(p place, text []byte) {
	switch p {
	case answerText:
		s.found.holds = s.found.holds || len(text) > 0
	case answerSays:
		s.found.holds = s.found.holds || len(text) > 0
		if len(s.says) == 0 {
			s.says = text
		}
	case answerReasons:
		s.found.holds = s.found.holds || len(text) > 0
		s.found.reasons = s.found.reasons || len(text) > 0
	case deltaOrText:
		s.delta = text
	case finish:
		s.found.ended = s.found.ended || len(text) > 0
		s.found.failed = s.found.failed || string(text) == "error"
	case failure:
		s.found.failed = s.found.failed || len(text) > 0
	case eventType:
		switch {
		case bytes.HasSuffix(text, []byte(".delta")):
			s.deltaType = true
			s.outputs = string(text) == "response.output_text.delta"
			s.reasons = bytes.HasPrefix(text, []byte("response.reasoning"))
		case string(text) == "response.completed" || string(text) == "response.incomplete":
			s.found.ended = true
		case string(text) == "response.failed" || string(text) == "error":
			s.found.failed = true
		}
	default:
	}
}

// wholeNumber reads a number that is whole although it is not written so.
func wholeNumber(text []byte) (uint64, bool) {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || f != math.Trunc(f) || f < 0 || f > math.MaxUint32 {
		return 0, false
	}
	return uint64(f), true
}

// mantissa returns the part of a number that says whether it is 0.
func mantissa(number []byte) []byte {
	if exponent := bytes.IndexAny(number, "eE"); exponent >= 0 {
		return number[:exponent]
	}
	return number
}

// number takes a number.
func (s *scanner) number(p place) bool {
	begin, n, whole := s.at, uint64(0), true
	for ; s.at < len(s.b); s.at++ {
		c := s.b[s.at]
		switch {
		case c-'0' < 10:
			n = min(n*10+uint64(c-'0'), math.MaxUint32)
			continue
		case c == '-' || c == '+' || c == '.' || c|0x20 == 'e':
			whole = false
			continue
		}
		break
	}
	if p == failure {
		s.found.failed = s.found.failed || bytes.ContainsAny(mantissa(s.b[begin:s.at]), "123456789")
	}
	if !whole && (p == tokenCount || p == reasoningCount || p == promptCount) {
		n, whole = wholeNumber(s.b[begin:s.at]) // some servers write 7 as 7.0
	}
	switch {
	case !whole:
	case p == tokenCount:
		s.found.tokens = uint32(n) //nolint:gosec // bounded above
	case p == reasoningCount:
		s.found.reasoning = uint32(n) //nolint:gosec // bounded above
	case p == promptCount:
		s.found.prompt = uint32(n) //nolint:gosec // bounded above
	}
	return s.at > begin
}

// object takes an object after its brace.
func (s *scanner) object(p place) bool {
	if s.next('}') {
		return true
	}
	for {
		s.blanks()
		if s.at == len(s.b) || s.b[s.at] != '"' {
			return false
		}
		key, ok := s.text()
		if !ok || !s.next(':') {
			return false
		}
		inside := within(p, key)
		switch p {
		case answerText, answerSays:
			inside = answerText // of a tool's call, or of a part: any text in it
		case answerReasons:
			inside = answerReasons
		default:
		}
		if !s.value(inside) {
			return false
		}
		if s.next('}') {
			return true
		}
		if !s.next(',') {
			return false
		}
	}
}

// array takes an array after its bracket.
func (s *scanner) array(p place) bool {
	inside := elsewhere
	switch p {
	case choices:
		inside = choice
	case answerText, answerSays:
		inside = answerText
	case answerReasons, failure:
		inside = p
	default:
	}
	if s.next(']') {
		return true
	}
	for {
		if !s.value(inside) {
			return false
		}
		if s.next(']') {
			return true
		}
		if !s.next(',') {
			return false
		}
	}
}
