package fields

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/goccy/go-yaml"
)

// ReadJSON reads a JSON object over a struct, with the fields that a file has. The error is *Faults.
func ReadJSON(text []byte, into any) error {
	var lines bytes.Buffer
	_ = json.Indent(&lines, text, "", " ") // lines have a bound
	v, c := reflect.ValueOf(into).Elem(), NewCollector()
	if n := ParseTree(lines.Bytes(), c); n != nil {
		Check(c, n, Of(v.Type()))
		d := &Decoder{
			Fault:  func(n *Node, problem, hint string) { c.Add(Finding{Path: n.Path, Problem: problem, Hint: hint}, "") },
			Scalar: func(n *Node) (string, bool) { return n.Text, n.Spec != nil && !n.Bad },
		}
		d.Value(n, Of(v.Type()), v)
	}
	return c.Err("", func(string) (line, column int) { return 0, 0 })
}

// JSON returns what a file says of a struct as a JSON object: the fields that are not zero.
func JSON(value any) ([]byte, error) {
	v := reflect.ValueOf(value)
	return yaml.YAMLToJSON((&Encoder{}).Value(Of(v.Type()), v, reflect.Zero(v.Type())).YAML())
}
