package websocket

import "unicode/utf8"

// A textCheck checks that a text which comes in pieces is UTF-8.
type textCheck struct {
	tail [utf8.UTFMax]byte // the beginning of a character whose end has not arrived
	n    uint8
}

// add tells whether the text may still be UTF-8.
func (c *textCheck) add(p []byte) bool {
	for c.n > 0 && len(p) > 0 {
		c.tail[c.n] = p[0]
		c.n++
		p = p[1:]
		if utf8.FullRune(c.tail[:c.n]) {
			if r, size := utf8.DecodeRune(c.tail[:c.n]); r == utf8.RuneError && size == 1 {
				return false
			}
			c.n = 0
		}
	}
	whole := len(p)
	for back := 1; back < utf8.UTFMax && back <= len(p); back++ {
		if b := p[len(p)-back]; utf8.RuneStart(b) {
			if !utf8.FullRune(p[len(p)-back:]) {
				whole -= back
			}
			break
		}
	}
	if whole < len(p) {
		c.n = uint8(copy(c.tail[:], p[whole:])) //nolint:gosec // three at most
	}
	return utf8.Valid(p[:whole])
}

// end tells whether the text ends with a character, and begins another text.
func (c *textCheck) end() bool {
	whole := c.n == 0
	c.n = 0
	return whole
}
