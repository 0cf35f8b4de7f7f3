package resource

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
)

// EncodeVersioned returns the stored form of a resource: its version, a newline, and its document. So a reader that
// needs only the version, or passes the document on, decodes nothing.
func EncodeVersioned(version int64, body []byte) []byte {
	out := make([]byte, 0, len(body)+21)
	out = strconv.AppendInt(out, version, 10)
	out = append(out, '\n')
	return append(out, body...)
}

// DecodeVersioned parses the result of EncodeVersioned.
func DecodeVersioned(text []byte) (version int64, body []byte, err error) {
	head, body, ok := bytes.Cut(text, []byte{'\n'})
	if !ok || len(head) > 19 {
		return 0, nil, errors.New("is no resource: it has no version")
	}
	version, err = strconv.ParseInt(string(head), 10, 64)
	if err != nil || version < 1 {
		return 0, nil, fmt.Errorf("is no resource: version %q", head)
	}
	return version, body, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Tag returns a resource's strong entity tag (RFC 9110, section 8.8.3). It covers the version and the document,
// because a restored store may use a version a second time.
func Tag(version int64, body []byte) string {
	const digits = "0123456789abcdef"
	b := make([]byte, 0, 32)
	b = append(b, '"')
	b = strconv.AppendInt(b, version, 10)
	b = append(b, '-')
	sum := crc32.Checksum(body, castagnoli)
	for shift := 28; shift >= 0; shift -= 4 {
		b = append(b, digits[sum>>shift&0xf])
	}
	return string(append(b, '"'))
}

// Parse parses a stored document.
func Parse(kind Kind, body []byte) (Document, error) {
	into := kind.New()
	if into == nil {
		return nil, fmt.Errorf("%q is no kind of resource", kind)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return nil, err
	}
	return into, nil
}
