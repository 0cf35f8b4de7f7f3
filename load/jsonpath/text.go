package jsonpath

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendText appends the text of a value that Find returned: what a string says,
// without quotes and escapes, and anything else as it stands in the document. Half of a
// surrogate pair becomes U+FFFD.
func AppendText(dst, value []byte) []byte {
	if len(value) < 2 || value[0] != '"' {
		return append(dst, value...)
	}
	return appendUnescaped(dst, value[1:len(value)-1])
}

// appendUnescaped appends what stands between the quotes of a string.
func appendUnescaped(dst, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		s = s[i:]
		r, n := unescape(s)
		dst = utf8.AppendRune(dst, r)
		s = s[n:]
	}
}

// equal tells whether what stands between the quotes of a string says name.
func equal(s []byte, name string) bool {
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return string(s) == name
		}
		if len(name) < i || string(s[:i]) != name[:i] {
			return false
		}
		s, name = s[i:], name[i:]
		var b [utf8.UTFMax]byte
		r, n := unescape(s)
		k := utf8.EncodeRune(b[:], r)
		if len(name) < k || string(b[:k]) != name[:k] {
			return false
		}
		s, name = s[n:], name[k:]
	}
}

// short are the escapes of one character, and shortMeans their meanings.
const (
	short      = `"\/bfnrt`
	shortMeans = "\"\\/\b\f\n\r\t"
)

// escape returns how long the escape is that s, after its backslash, begins with: 0 if
// it is none.
func escape(s []byte) int {
	const long = len(`\u0000`)
	switch {
	case len(s) < 2:
		return 0
	case s[1] != 'u':
		if bytes.IndexByte([]byte(short), s[1]) < 0 {
			return 0
		}
		return 2
	case len(s) < long:
		return 0
	}
	for _, c := range s[2:long] {
		if !isDigit(c) && c|0x20-'a' >= 6 {
			return 0
		}
	}
	return long
}

// unescape returns the character of the escape at the start of s, and the escape's length. It joins
// both halves of a surrogate pair. An invalid escape means U+FFFD and is one byte long.
func unescape(s []byte) (r rune, n int) {
	switch n = escape(s); n {
	case 0:
		return utf8.RuneError, 1
	case 2:
		return rune(shortMeans[bytes.IndexByte([]byte(short), s[1])]), n
	}
	r = hex(s[2:n])
	if !utf16.IsSurrogate(r) {
		return r, n
	}
	if rest := s[n:]; len(rest) > 1 && rest[0] == '\\' && rest[1] == 'u' && escape(rest) > 0 {
		if pair := utf16.DecodeRune(r, hex(rest[2:6])); pair != utf8.RuneError {
			return pair, 2 * n
		}
	}
	return utf8.RuneError, n
}

// hex reads four hexadecimal digits.
func hex(s []byte) (r rune) {
	for _, c := range s[:4] {
		if isDigit(c) {
			r = r<<4 | rune(c-'0')
		} else {
			r = r<<4 | rune(c|0x20-'a'+10)
		}
	}
	return r
}
