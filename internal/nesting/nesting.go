// Package nesting refuses YAML that would exhaust its parser's stack or memory, before it is
// parsed.
package nesting

import (
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Deepest is how deep a document may nest.
const Deepest = 50

// Parse returns the documents of a text that Check permits. The YAML package is not ours: should it panic on a
// text, the text is at fault, not the program.
func Parse(text []byte, most int, options ...parser.Option) (documents []ast.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			documents, err = nil, fmt.Errorf("not a YAML file: the parser failed: %v", p)
		}
	}()
	tokens := lexer.Tokenize(string(text))
	if err := Check(tokens, most); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0, options...)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Docs {
		if d.Body != nil {
			documents = append(documents, d.Body)
		}
	}
	return documents, nil
}

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
