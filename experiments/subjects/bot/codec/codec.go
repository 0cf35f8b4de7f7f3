// Package codec encodes and decodes JSON by one of several libraries, which report R2 compares. All accept and
// write the same. Field names match in any case, and the last of two equal names counts. Invalid UTF-8 becomes
// U+FFFD, keys of maps are sorted, and the characters of HTML are escaped.
package codec

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bytedance/sonic"
	"github.com/bytedance/sonic/encoder"
	jsoniter "github.com/json-iterator/go"

	"dyno/services/bot/openai"
)

// A Library is what encodes and decodes.
type Library string

// The libraries.
const (
	// Standard is encoding/json: with Ahead, as the gateway has it.
	Standard Library = "std"
	// V2 is encoding/json/v2: in programs that are built with GOEXPERIMENT=jsonv2 only.
	V2 Library = "v2"
	// Sonic is github.com/bytedance/sonic, which compiles machine code as it runs, on amd64 and
	// arm64. Elsewhere it is encoding/json.
	Sonic Library = "sonic"
	// Jsoniter is github.com/json-iterator/go.
	Jsoniter Library = "jsoniter"
)

// Libraries returns those that this program has.
func Libraries() []Library {
	list := []Library{Standard, Sonic, Jsoniter}
	if newV2() != nil {
		list = append(list, V2)
	}
	return list
}

// A Codec encodes and decodes. Its methods may be called from any goroutine.
type Codec struct {
	library   Library
	marshal   func(v any) ([]byte, error)
	unmarshal func(data []byte, v any) error
	// add encodes and appends to a buffer.
	add func(b []byte, v any) ([]byte, error)
	// Ahead encodes into the caller's buffer, instead of into one of its own that is
	// copied.
	Ahead bool
}

// New returns the codec of a library.
func New(l Library) (*Codec, error) {
	switch l {
	case Standard:
		return &Codec{library: l, marshal: json.Marshal, unmarshal: json.Unmarshal, add: openai.Standard().JSON.Append}, nil
	case Sonic:
		// Strings are copied: what was decoded may outlive the buffer that it was in.
		return &Codec{library: l, marshal: sonic.ConfigStd.Marshal, unmarshal: sonic.ConfigStd.Unmarshal, add: addSonic}, nil
	case Jsoniter:
		api := jsoniter.ConfigCompatibleWithStandardLibrary
		return &Codec{library: l, marshal: api.Marshal, unmarshal: func(data []byte, v any) error { return api.Unmarshal(valid(data), v) }, add: func(b []byte, v any) ([]byte, error) {
			s := api.BorrowStream(nil)
			defer api.ReturnStream(s)
			s.WriteVal(v)
			return append(b, s.Buffer()...), s.Error
		}}, nil
	case V2:
		if c := newV2(); c != nil {
			return c, nil
		}
		return nil, fmt.Errorf("JSON library %q: this program was built without GOEXPERIMENT=jsonv2", l)
	}
	names := make([]string, 0, len(Libraries()))
	for _, l := range Libraries() {
		names = append(names, string(l))
	}
	slices.Sort(names)
	return nil, fmt.Errorf("JSON library %q: must be one of %s", l, strings.Join(names, ", "))
}

// valid returns text with U+FFFD in place of each byte that belongs to no character, as
// encoding/json has it. Text that is UTF-8 is returned as it is.
func valid(data []byte) []byte {
	if utf8.Valid(data) {
		return data
	}
	return []byte(string([]rune(string(data))))
}

// Library is which one it is.
func (c *Codec) Library() Library { return c.library }

// Unmarshal decodes.
func (c *Codec) Unmarshal(data []byte, v any) error { return c.unmarshal(data, v) }

// Append encodes v and appends it to b.
func (c *Codec) Append(b []byte, v any) ([]byte, error) {
	if c.Ahead {
		return c.add(b, v)
	}
	text, err := c.marshal(v)
	if err != nil {
		return b, err
	}
	if b == nil {
		return text, nil
	}
	return append(b, text...), nil
}

// sonicOptions are those of sonic.ConfigStd.
const sonicOptions = encoder.SortMapKeys | encoder.EscapeHTML | encoder.CompactMarshaler | encoder.ValidateString

func addSonic(b []byte, v any) ([]byte, error) {
	was := len(b)
	if err := encoder.EncodeInto(&b, v, sonicOptions); err != nil {
		return b[:was], err
	}
	return b, nil
}

var _ openai.JSON = (*Codec)(nil)
