package message

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"dyno/load/rpc/diag"
)

// Bounds on what is encoded.
const (
	maxMessage  = 64 << 20  // bytes of a message in JSON
	maxMessages = 1_000_000 // of one call of EncodeAll
)

// AppendEncode appends a request, made of its JSON, to a buffer. The JSON is one object, or
// what else the well-known message is written as that the method takes. It may have up to
// 64 MiB. A Fault says where the JSON is wrong, and what was probably meant. The buffer is
// then as it was.
func (c *Codec) AppendEncode(dst, message []byte) ([]byte, error) {
	return c.encode(dst, message, 0, len(message))
}

// encode encodes the text between two offsets.
func (c *Codec) encode(dst, text []byte, from, to int) ([]byte, error) {
	if to-from > maxMessage {
		return dst, &diag.Fault{Problem: fmt.Sprintf("a message of %d bytes is too large: it may have %d MiB", to-from, maxMessage>>20)}
	}
	in := c.in.New().Interface()
	if err := (protojson.UnmarshalOptions{Resolver: c.types}).Unmarshal(text[from:to], in); err != nil {
		return dst, c.locate(text, from, to, err)
	}
	// Maps in a fixed order: a message has the same bytes each time.
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, in)
	if err != nil {
		return dst, &diag.Fault{Path: string(c.in.Descriptor().FullName()), Problem: diag.Cause(err)}
	}
	return b, nil
}

// EncodeAll makes requests of JSON: of objects one after another, or of one array of
// objects. It makes up to 1,000,000 of them, in one buffer.
func (c *Codec) EncodeAll(messages []byte) ([][]byte, error) {
	return c.encodeAll(messages, maxMessages)
}

func (c *Codec) encodeAll(messages []byte, most int) ([][]byte, error) {
	var ends []int
	var all []byte
	each := func(from, to int) (err error) {
		if len(ends) == most {
			return locatedAt(messages, from, "", fmt.Sprintf("there are more than %d messages", most), "")
		}
		all, err = c.encode(all, messages, from, to)
		ends = append(ends, len(all))
		return err
	}
	if err := split(messages, !c.isList(), each); err != nil {
		return nil, err
	}
	encoded, from := make([][]byte, len(ends)), 0
	for i, to := range ends {
		encoded[i] = all[from:to:to]
		from = to
	}
	return encoded, nil
}

// isList tells whether the method takes a message that is written as an array, or can be.
func (c *Codec) isList() bool {
	switch c.in.Descriptor().FullName() {
	case "google.protobuf.ListValue", "google.protobuf.Value":
		return true
	}
	return false
}

// split calls each with the bounds of a text's values. They follow one another or, if arrays are
// opened, are in one array.
func split(text []byte, open bool, each func(from, to int) error) error {
	d := json.NewDecoder(bytes.NewReader(text))
	trimmed := bytes.TrimLeft(text, " \t\r\n")
	open = open && len(trimmed) > 0 && trimmed[0] == '['
	invalid := func(err error) error {
		return locatedAt(text, errorOffset(err, text, int(d.InputOffset())), "", diag.Plain(err.Error()), "")
	}
	if open {
		if _, err := d.Token(); err != nil {
			return invalid(err)
		}
	}
	var value json.RawMessage
	for !open || d.More() {
		err := d.Decode(&value)
		if !open && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return invalid(err)
		}
		end := int(d.InputOffset())
		if err := each(end-len(value), end); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return invalid(err)
	}
	if rest := bytes.TrimLeft(text[d.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return locatedAt(text, len(text)-len(rest), "", "something follows the array", "put all messages into it")
	}
	return nil
}

// errorOffset returns where in a text encoding/json has found a fault; it says so of
// errors in syntax.
func errorOffset(err error, text []byte, otherwise int) int {
	var syntax *json.SyntaxError
	switch {
	case strings.HasPrefix(err.Error(), "unexpected end"):
		return len(text)
	case errors.As(err, &syntax):
		return min(max(0, int(syntax.Offset)-1), len(text))
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return len(text)
	}
	return otherwise
}

// Decode makes JSON of a response, on one line. Fields that are not set are not there. A
// message in a google.protobuf.Any of unknown type appears with its @type alone.
func (c *Codec) Decode(response []byte) ([]byte, error) {
	out, err := c.unmarshal(response)
	if err != nil {
		return nil, err
	}
	text, err := protojson.MarshalOptions{Resolver: lenient{c.types}}.Marshal(out)
	if err != nil {
		return nil, &diag.Fault{Path: string(c.out.Descriptor().FullName()), Problem: diag.Cause(err)}
	}
	// The module puts blanks into its JSON that differ between builds.
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return nil, &diag.Fault{Path: string(c.out.Descriptor().FullName()), Problem: diag.Plain(err.Error())}
	}
	return b.Bytes(), nil
}

// unmarshal makes a message of a response.
func (c *Codec) unmarshal(response []byte) (proto.Message, error) {
	out := c.out.New().Interface()
	if err := c.types.unmarshal(response, out); err != nil {
		return nil, &diag.Fault{Path: string(c.out.Descriptor().FullName()), Problem: diag.Cause(err)}
	}
	return out, nil
}
