package websocket

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
)

// IDMark stands in a message for a text of its own that the answer repeats.
const IDMark = "{id}"

const (
	prefixSize = 16             // of a connection's ids
	idSize     = prefixSize + 8 // and the message's number in hexadecimal
)

// prefixes makes what the ids of connections begin with.
type prefixes struct {
	own         [8]byte // random
	connections uint32  // so far
}

func newPrefixes(random *rand.ChaCha8) (p prefixes) {
	encodeHex(p.own[:], uint32(random.Uint64())) //nolint:gosec // its lower half
	return p
}

// next returns the prefix of another connection.
func (p *prefixes) next() (prefix [prefixSize]byte) {
	p.connections++
	copy(prefix[:], p.own[:])
	encodeHex(prefix[len(p.own):], p.connections)
	return prefix
}

// appendID appends an id.
func appendID(dst []byte, prefix [prefixSize]byte, number uint32) []byte {
	dst = append(append(dst, prefix[:]...), "00000000"...)
	encodeHex(dst[len(dst)-8:], number)
	return dst
}

// appendWithID appends a text with an id in the marks' places.
func appendWithID(dst, text []byte, prefix [prefixSize]byte, number uint32) []byte {
	for {
		before, after, found := bytes.Cut(text, []byte(IDMark))
		if dst = append(dst, before...); !found {
			return dst
		}
		dst = appendID(dst, prefix, number)
		text = after
	}
}

// encodeHex writes a number as eight digits.
func encodeHex(dst []byte, n uint32) {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	hex.Encode(dst, b[:])
}
