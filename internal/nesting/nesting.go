// Package nesting refuses YAML that would exhaust its parser's stack or memory, before it is
// parsed.
package nesting

import (
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/token"
)

// Deepest is how deep a document may nest.
const Deepest = 50

// Check returns a *yaml.SyntaxError, with its place, for more tokens than most, and for
// nesting that is too deep: brackets, several entry marks in one line, or indentation.
func Check(tokens token.Tokens, most int) error {
	brackets, marks, line := 0, 0, 0
	for i, t := range tokens {
		if i == most {
			return &yaml.SyntaxError{Message: fmt.Sprintf("more than %d words and marks", most), Token: t}
		}
		if t.Position != nil && t.Position.Line != line {
			marks, line = 0, t.Position.Line
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			brackets++
		case token.MappingEndType, token.SequenceEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType:
			marks++
		}
		if brackets > Deepest || marks > Deepest && brackets == 0 || t.Position != nil && t.Position.IndentNum > 20*Deepest {
			return &yaml.SyntaxError{Message: fmt.Sprintf("nested more than %d deep", Deepest), Token: t}
		}
	}
	return nil
}
