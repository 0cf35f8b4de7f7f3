package http1

import (
	"encoding/binary"
	"math/bits"

	"dyno/load/wire"
)

// tokenByte holds the bytes of a token (RFC 9110, section 5.6.2).
var tokenByte = [256]bool{
	'!': true, '#': true, '$': true, '%': true, '&': true, '\'': true, '*': true,
	'+': true, '-': true, '.': true, '^': true, '_': true, '`': true, '|': true, '~': true,
	'0': true, '1': true, '2': true, '3': true, '4': true, '5': true, '6': true, '7': true, '8': true, '9': true,
	'A': true, 'B': true, 'C': true, 'D': true, 'E': true, 'F': true, 'G': true, 'H': true, 'I': true,
	'J': true, 'K': true, 'L': true, 'M': true, 'N': true, 'O': true, 'P': true, 'Q': true, 'R': true,
	'S': true, 'T': true, 'U': true, 'V': true, 'W': true, 'X': true, 'Y': true, 'Z': true,
	'a': true, 'b': true, 'c': true, 'd': true, 'e': true, 'f': true, 'g': true, 'h': true, 'i': true,
	'j': true, 'k': true, 'l': true, 'm': true, 'n': true, 'o': true, 'p': true, 'q': true, 'r': true,
	's': true, 't': true, 'u': true, 'v': true, 'w': true, 'x': true, 'y': true, 'z': true,
}

// tokenLen returns how many bytes at the start of s may stand in a token.
func tokenLen(s []byte) int {
	i := 0
	for i < len(s) && tokenByte[s[i]] {
		i++
	}
	return i
}

func isToken(s []byte) bool { return len(s) > 0 && tokenLen(s) == len(s) }

// equalFold compares ASCII without regard to case; the usual spelling is the fast
// one.
func equalFold(s []byte, usual string) bool {
	if string(s) == usual {
		return true
	}
	if len(s) != len(usual) {
		return false
	}
	for i, b := range s {
		if lower(b) != lower(usual[i]) {
			return false
		}
	}
	return true
}

func lower(b byte) byte {
	if b-'A' < 26 {
		b += 'a' - 'A'
	}
	return b
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' }

func trimSpace(s []byte) []byte {
	for len(s) > 0 && isSpace(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

// item cuts the first item off a comma-separated list (RFC 9110, section 5.6.1).
// Items may be empty.
func item(list []byte) (first, rest []byte) {
	for i, b := range list {
		if b == ',' {
			return trimSpace(list[:i]), list[i+1:]
		}
	}
	return trimSpace(list), nil
}

// textLen returns how many bytes at the start of s may stand in a field value or
// a reason: all up to the first control byte other than the tab. It looks at
// eight bytes at a time.
func textLen(s []byte) int {
	i := 0
	for i+8 <= len(s) {
		found := controls(binary.LittleEndian.Uint64(s[i:]))
		if found == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(found) / 8
		if s[i] != '\t' {
			return i
		}
		i++
	}
	for i < len(s) && (s[i] >= ' ' && s[i] != 0x7f || s[i] == '\t') {
		i++
	}
	return i
}

// controls marks the first of eight bytes below 0x20 or equal to 0x7f by its lowest set bit; it is 0 if
// there is none. (In x - n, a byte's top bit turns on where the byte was below n. A borrow can only
// start at such a byte. So the first one found is true, though later ones may be false.)
func controls(eight uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	del := eight ^ ones*0x7f
	return ((eight-ones*0x20)&^eight | (del-ones)&^del) & tops
}

// checkText refuses control bytes other than the tab.
func checkText(s []byte) *wire.Error {
	switch i := textLen(s); {
	case i == len(s):
		return nil
	case s[i] == '\r':
		return ErrBareCR
	default:
		return ErrControl
	}
}
