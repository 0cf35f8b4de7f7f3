package grpc

import (
	"encoding/base64"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"dyno/load/wire"
)

// describe returns what a status holds in addition to its code: its message, and the kinds
// of details.
func describe(number int, s callStatus) string {
	text := wire.OneLine(unescape(s.message))
	if number >= int(Codes) {
		text = "code " + strconv.Itoa(number) + suffix(": ", text)
	}
	if kinds := detailKinds(s.details); len(kinds) > 0 {
		text += suffix(" ", "("+strings.Join(kinds, ", ")+")")
	}
	return strings.TrimSpace(text)
}

func suffix(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

// unescape decodes the percent-encoding of grpc-message (HTTP2, "Responses"). Malformed escapes stay as
// they are: the document has recipients never discard it.
func unescape(s []byte) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if high, low := unhex(s[i+1]), unhex(s[i+2]); high < 16 && low < 16 {
				b.WriteByte(high<<4 | low)
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func unhex(b byte) byte {
	switch {
	case b-'0' < 10:
		return b - '0'
	case b|0x20-'a' < 6:
		return b | 0x20 - 'a' + 10
	}
	return 16
}

// maxKinds is how many kinds of details are named.
const maxKinds = 8

// detailKinds returns the names of the kinds of messages in grpc-status-details-bin: it is a
// google.rpc.Status in base64, with or without padding, whose third field holds messages of type
// google.protobuf.Any. Unreadable details name nothing.
func detailKinds(field []byte) (kinds []string) {
	text := strings.TrimRight(string(field), "=")
	status, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	for len(kinds) < maxKinds {
		number, detail, rest, ok := nextField(status)
		if !ok {
			return kinds
		}
		if status = rest; number != 3 {
			continue
		}
		for {
			number, url, rest, ok := nextField(detail)
			if !ok {
				break
			}
			if detail = rest; number == 1 {
				name := string(url)
				kinds = append(kinds, wire.OneLine(name[strings.LastIndexByte(name, '/')+1:]))
				break
			}
		}
	}
	return kinds
}

// nextField returns the number and the bytes of a message's next field, and what is after it;
// of a field without a length, no bytes.
func nextField(b []byte) (number protowire.Number, value, rest []byte, ok bool) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 {
		return 0, nil, nil, false
	}
	size := protowire.ConsumeFieldValue(number, kind, b[n:])
	if size < 0 {
		return 0, nil, nil, false
	}
	if kind == protowire.BytesType {
		value, _ = protowire.ConsumeBytes(b[n:])
	}
	return number, value, b[n+size:], true
}
