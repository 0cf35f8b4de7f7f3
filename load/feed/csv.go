package feed

import "bytes"

// A field is where a field's text stands in its row.
type field struct {
	begin, end int32 // without the quotes around it
	doubled    bool  // quotes in it are doubled
}

// A flaw is what keeps a row of CSV from being read.
type flaw uint8

const (
	sound     flaw = iota
	unended        // the bytes at hand end within the row
	unclosed       // the same, within quotes
	bareQuote      // a quote in a field that does not begin with one
	trailing       // something between a closing quote and the delimiter
	bareCR         // CR without LF
)

// split finds the fields of the row that p begins with, and appends them to fields. It
// returns how many bytes the row has, its line end included; or else a flaw and where
// it is: with unclosed, the place of the opening quote. With final, the end of p is the
// end of the file and may end a row. A newline of CR ends rows where the file has no LF.
func split(p []byte, delimiter, newline byte, final bool, fields []field) (_ []field, n int, f flaw) {
	for i := 0; ; {
		begin := i
		if i < len(p) && p[i] == '"' {
			doubled := false
			for i++; ; i++ {
				k := bytes.IndexByte(p[i:], '"')
				if k < 0 {
					return fields, begin, unclosed
				}
				i += k + 1
				if i == len(p) && !final {
					return fields, begin, unclosed // the next byte may be a second quote
				}
				if i == len(p) || p[i] != '"' {
					break
				}
				doubled = true
			}
			fields = append(fields, field{int32(begin + 1), int32(i - 1), doubled})
		} else {
			for i < len(p) && p[i] != delimiter && p[i] != '\n' && p[i] != '\r' {
				if p[i] == '"' {
					return fields, i, bareQuote
				}
				i++
			}
			fields = append(fields, field{int32(begin), int32(i), false})
		}
		switch {
		case i == len(p) && final:
			return fields, i, sound
		case i == len(p):
			return fields, i, unended
		case p[i] == delimiter:
			i++
		case p[i] == newline:
			return fields, i + 1, sound
		case p[i] != '\r':
			return fields, i, trailing
		case i+1 < len(p) && p[i+1] == '\n':
			return fields, i + 2, sound
		case i+1 == len(p) && !final:
			return fields, i, unended
		default:
			return fields, i, bareCR
		}
	}
}

// appendField appends a field's text.
func appendField(dst, row []byte, f field) []byte {
	text := row[f.begin:f.end]
	if !f.doubled {
		return append(dst, text...)
	}
	for {
		i := bytes.IndexByte(text, '"')
		if i < 0 {
			return append(dst, text...)
		}
		dst = append(dst, text[:i+1]...)
		text = text[i+2:]
	}
}
