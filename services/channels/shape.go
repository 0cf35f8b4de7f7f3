package channels

import (
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/goccy/go-yaml/ast"

	"dyno/internal/nearest"
)

// Example is a file of channels, as help and the manual show it.
const Example = `drain_timeout: 10s                 # at the end, for records under way
channels:
  - name: app-log                  # a log file that grows and is rotated, to another machine
    source: {kind: file, path: /var/log/app.log, state: /var/lib/dyno/app-log.json}
    buffer: {records: 4096, bytes: 16777216, when_full: block}
    sink: {kind: tcp, address: "192.0.2.7:7001", format: framed}
  - name: sensors                  # lines from TCP connections, to a file
    source: {kind: tcp, address: "127.0.0.1:7002", framing: lines}
    sink: {kind: file, path: /var/lib/dyno/sensors.log, sync: interval, sync_every: 1s}
`

// A shape looks whether a file has the form of a configuration: whether there is each field, and
// whether its value is of its kind. What values mean, Validate checks.
type shape struct {
	name   string // of the file
	faults []error
}

func (s *shape) fault(at ast.Node, field, format string, args ...any) {
	if field != "" {
		field += ": "
	}
	p := at.GetToken().Position
	s.faults = append(s.faults, fmt.Errorf("%s:%d:%d: %s%s", s.name, p.Line, p.Column, field, fmt.Sprintf(format, args...)))
}

// check checks the value of a field, which is decoded into a type.
func (s *shape) check(field string, node ast.Node, t reflect.Type) {
	switch node := node.(type) {
	case nil, *ast.NullNode, *ast.AliasNode: // the default, or what was checked elsewhere
		return
	case *ast.AnchorNode:
		s.check(field, node.Value, t)
		return
	case *ast.MappingValueNode:
		s.mapping(field, node, []*ast.MappingValueNode{node}, t)
		return
	case *ast.MappingNode:
		s.mapping(field, node, node.Values, t)
		return
	case *ast.SequenceNode:
		if t.Kind() != reflect.Slice {
			s.fault(node, field, "a list: want %s", wanted(t))
			return
		}
		for i, item := range node.Values {
			s.check(fmt.Sprintf("%s[%d]", field, i), item, t.Elem())
		}
		return
	}
	if text := node.GetToken().Value; !fits(text, t) {
		s.fault(node, field, "%.60q: want %s", text, wanted(t))
	}
}

func (s *shape) mapping(field string, node ast.Node, values []*ast.MappingValueNode, t reflect.Type) {
	if t.Kind() != reflect.Struct {
		s.fault(node, field, "a mapping: want %s", wanted(t))
		return
	}
	var known []string
	types := map[string]reflect.Type{}
	for i := range t.NumField() {
		name := t.Field(i).Tag.Get("yaml")
		known, types[name] = append(known, name), t.Field(i).Type
	}
	for _, value := range values {
		name := value.Key.GetToken().Value
		path := name
		if field != "" {
			path = field + "." + name
		}
		switch of, ok := types[name]; {
		case ok:
			s.check(path, value.Value, of)
		case name != "<<": // which merges a mapping
			s.fault(value.Key, path, "unknown field; %s", nearest.Hint(name, known))
		}
	}
}

// fits tells whether a scalar can be decoded into a type.
func fits(text string, t reflect.Type) (ok bool) {
	var err error
	switch {
	case t == reflect.TypeFor[time.Duration]():
		_, err = time.ParseDuration(text)
	case t.Kind() == reflect.Int:
		_, err = strconv.ParseInt(text, 0, strconv.IntSize)
	case t.Kind() == reflect.Uint64:
		_, err = strconv.ParseUint(text, 0, 64)
	case t.Kind() == reflect.Bool:
		_, err = strconv.ParseBool(text)
	default:
		return t.Kind() == reflect.String
	}
	return err == nil
}

// wanted says what a value of a type looks like.
func wanted(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration, such as 5s or 250ms"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Uint64:
		return "a whole number"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Struct:
		return "a mapping"
	}
	return "text"
}
