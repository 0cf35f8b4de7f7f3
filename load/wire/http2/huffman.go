package http2

import (
	"encoding/binary"

	"dyno/load/wire"
)

// huffmanLengths holds the length of each byte's code, in bits (RFC 7541, appendix B). The codes follow
// from the lengths: shorter ones come first, and codes of one length count up in the order of their
// bytes.
var huffmanLengths = [256]uint8{
	13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
	28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
	6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
	5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
	13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
	15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
	6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
	20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
	24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
	22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
	21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
	26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
	19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
	20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
	26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
}

const (
	minCode  = 5  // bits of the shortest code
	maxCode  = 30 // bits of the longest, EOS among them
	fastBits = 9  // bits that are looked up at once; nearly all text has no longer codes
)

// A huffmanCode is one byte's code, in its lowest bits.
type huffmanCode struct {
	code uint32
	bits uint8
}

// huffman is the code both ways.
type huffman struct {
	codes [256]huffmanCode

	// fast holds, for the next bits that came, the byte they start with and its code's
	// length: byte<<4 | length. It is 0 where the code is longer.
	fast [1 << fastBits]uint16

	// For the longer codes: ends[n] is the first code beyond those of at most n bits, as the first bits
	// of a 32-bit word; bytes holds all bytes in the order of their codes. firsts[n] is where codes of
	// n bits begin, less their first code.
	ends   [maxCode + 1]uint32
	firsts [maxCode + 1]int32
	bytes  [256]uint8
}

// code is the code of RFC 7541. It never changes.
var code = newHuffman()

func newHuffman() *huffman {
	h := &huffman{}
	next, seen := uint32(0), int32(0)
	for n := uint8(minCode); n <= maxCode; n++ {
		h.firsts[n] = seen - int32(next)
		for b, bits := range huffmanLengths {
			if bits != n {
				continue
			}
			h.codes[b] = huffmanCode{next, n}
			h.bytes[seen] = uint8(b)
			seen++
			if n <= fastBits {
				for i := range uint32(1) << (fastBits - n) {
					h.fast[next<<(fastBits-n)|i] = uint16(b)<<4 | uint16(n)
				}
			}
			next++
		}
		h.ends[n] = next << (32 - n)
		next <<= 1
	}
	return h
}

// huffmanLen returns how many bytes s takes when it is encoded.
func huffmanLen[T string | []byte](s T) int {
	bits := 0
	for i := range len(s) {
		bits += int(huffmanLengths[s[i]])
	}
	return (bits + 7) / 8
}

// appendHuffman appends s encoded. The rest of the last byte is ones, the start of EOS (RFC 7541,
// section 5.2).
func appendHuffman[T string | []byte](b []byte, s T) []byte {
	var word uint64 // the lowest bits of it are to be appended
	bits := 0       // how many; below 32 between bytes of s
	for i := range len(s) {
		c := &code.codes[s[i]]
		word = word<<c.bits | uint64(c.code)
		if bits += int(c.bits); bits >= 32 {
			bits -= 32
			b = binary.BigEndian.AppendUint32(b, uint32(word>>bits))
		}
	}
	for ; bits >= 8; bits -= 8 {
		b = append(b, byte(word>>(bits-8)))
	}
	if bits > 0 {
		b = append(b, byte(word<<(8-bits))|0xff>>bits)
	}
	return b
}

// appendUnhuffman appends s decoded.
func appendUnhuffman(b, s []byte) ([]byte, *wire.Error) {
	at := len(b)
	if most := at + len(s)*8/minCode; most > cap(b) {
		b = append(make([]byte, 0, 2*most), b...)
	}
	var (
		h    = code
		to   = b[:cap(b)]
		word uint64 // its highest bits are those that came and are not decoded
		bits int    // how many
		i    int    // the next byte of s
	)
	for {
		if i+8 <= len(s) {
			// Take in as many whole bytes as fit. The bits after them are those that
			// will be taken in again with the next ones, and change nothing.
			word |= binary.BigEndian.Uint64(s[i:]) >> bits
			i += (63 - bits) >> 3
			bits |= 56
		} else {
			for ; bits <= 56 && i < len(s); i++ {
				word |= uint64(s[i]) << (56 - bits)
				bits += 8
			}
		}
		for bits >= fastBits {
			f := h.fast[word>>(64-fastBits)]
			n := int(f & 15)
			if n == 0 {
				break
			}
			to[at] = byte(f >> 4)
			at++
			word <<= n & 63
			bits -= n
		}
		switch {
		case bits >= maxCode || i == len(s) && bits >= 8:
			top := uint32(word >> 32)
			n := minCode
			for n <= maxCode && top >= h.ends[n] {
				n++
			}
			switch {
			case n > maxCode:
				return b, ErrHuffmanEOS
			case n > bits:
				return b, ErrHuffmanPadding // more than 7 bits that are no code
			}
			to[at] = h.bytes[int32(top>>(32-n))+h.firsts[n]]
			at++
			word <<= n
			bits -= n
		case i < len(s):
		case word>>(64-bits) == 1<<bits-1: // the start of EOS, or nothing
			return to[:at], nil
		default: // at most 7 bits
			f := h.fast[word>>(64-fastBits)]
			n := int(f & 15)
			if n == 0 || n > bits {
				return b, ErrHuffmanPadding
			}
			to[at] = byte(f >> 4)
			at++
			word <<= n
			bits -= n
		}
	}
}
