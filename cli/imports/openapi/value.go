package openapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/big"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"dyno/cli/imports/draft"
	"dyno/internal/lazyregexp"
)

// An object is what JSON calls so, with its members in their order.
type object []member

type member struct {
	name  string
	value any
}

// set gives a member a value. A name stands once.
func (o object) set(name string, value any) object {
	for i := range o {
		if o[i].name == name {
			o[i].value = value
			return o
		}
	}
	return append(o, member{name, value})
}

// A number is one as a document has it: no digit is lost.
type number string

// inJSON writes a value in JSON, with members in their order.
func inJSON(value any) []byte {
	var b []byte
	switch v := value.(type) {
	case nil:
		return []byte("null")
	case number:
		return []byte(v)
	case object:
		b = append(b, '{')
		for i, m := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(append(b, inJSON(m.name)...), ':'), inJSON(m.value)...)
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, inJSON(item)...)
		}
		return append(b, ']')
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if e.Encode(value) != nil { // which it does not, of strings and booleans
		return []byte("null")
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// The forms of scalars that YAML 1.2 has for other things than texts (section 10.3.2).
var (
	yamlInteger = lazyregexp.New(`^([-+]?)0*(\d+)$`)
	yamlFloat   = lazyregexp.New(`^([-+]?)0*(\d*)(?:\.(\d*))?([eE][-+]?\d+)?$`)
	yamlOther   = lazyregexp.New(`^0(?:o[0-7]+|x[0-9a-fA-F]+)$`)
)

// scalar returns what a scalar says by YAML 1.2, in which yes and 1_000 are texts.
func scalar(n *yaml.Node) any {
	text := n.Value
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 || n.Style&yaml.TaggedStyle != 0 && n.ShortTag() == "!!str" {
		return text
	}
	switch text {
	case "", "~", "null", "Null", "NULL":
		return nil
	case "true", "True", "TRUE":
		return true
	case "false", "False", "FALSE":
		return false
	}
	switch m := yamlFloat().FindStringSubmatch(text); {
	case json.Valid([]byte(text)) && strings.ContainsAny(text[:1], "-0123456789"):
		return number(text)
	case yamlInteger().MatchString(text):
		m := yamlInteger().FindStringSubmatch(text)
		return number(strings.TrimPrefix(m[1], "+") + m[2])
	case m != nil && m[2]+m[3] != "":
		whole, fraction := m[2], m[3]
		if whole == "" {
			whole = "0"
		}
		if fraction != "" {
			fraction = "." + fraction
		}
		return number(strings.TrimPrefix(m[1], "+") + whole + fraction + m[4])
	case yamlOther().MatchString(text):
		if i, is := new(big.Int).SetString(text, 0); is {
			return number(i.String())
		}
	}
	return text
}

// maxValues bounds the values of an example: aliases within aliases make many of few.
const maxValues = 100_000

// plain returns what a node says, as JSON has it.
func plain(n *yaml.Node) any {
	left := maxValues
	return plainWithin(n, 0, &left)
}

func plainWithin(n *yaml.Node, depth int, left *int) any {
	if *left--; n == nil || depth > draft.MaxDepth || *left < 0 {
		return nil
	}
	switch n.Kind {
	case yaml.AliasNode:
		return plainWithin(n.Alias, depth+1, left)
	case yaml.MappingNode:
		out, at := object{}, map[string]int{}
		for _, e := range entriesOf(n) {
			value := plainWithin(e.value, depth+1, left)
			if i, is := at[e.name]; is { // which JSON may have twice, and the last one counts
				out[i].value = value
				continue
			}
			at[e.name] = len(out)
			out = append(out, member{e.name, value})
		}
		return out
	case yaml.SequenceNode:
		out := []any{}
		for _, item := range n.Content {
			out = append(out, plainWithin(item, depth+1, left))
		}
		return out
	}
	return scalar(n)
}

// A schema is a list of those that all hold of a value: the parts of allOf, too. Earlier ones take
// precedence.
type schema []*yaml.Node

// schema returns those that hold of a value by a node.
func (o *document) schema(n *yaml.Node) schema { return o.parts(n, map[*yaml.Node]bool{}) }

func (o *document) parts(n *yaml.Node, seen map[*yaml.Node]bool) (all schema) {
	target := o.resolve(n)
	if target == nil || seen[target] {
		return nil
	}
	seen[target] = true
	if n != target && n.Kind == yaml.MappingNode && len(n.Content) > len([]string{"$ref", "its value"}) && !strings.HasPrefix(o.version, "3.0") && !strings.HasPrefix(o.version, "2") {
		all = append(all, n) // what stands next to a reference
	}
	all = append(all, target)
	parts := o.get(target, "allOf")
	if parts != nil && parts.Kind == yaml.SequenceNode {
		for _, part := range slices.Backward(parts.Content) {
			all = append(all, o.parts(part, seen)...)
		}
	}
	return all
}

// first returns the first value of a key, or nil.
func (o *document) first(s schema, key string) *yaml.Node {
	for _, n := range s {
		if v := own(n, key); v != nil {
			return o.resolve(v)
		}
	}
	return nil
}

// is tells whether a schema says true of a key.
func (o *document) is(s schema, key string) bool {
	return slices.ContainsFunc(s, func(n *yaml.Node) bool {
		v := own(n, key)
		return v != nil && v.Kind == yaml.ScalarNode && scalar(v) == true
	})
}

// kind returns the type of a schema's values: as it says, or as its other words suggest.
func (o *document) kind(s schema) string {
	if v := o.first(s, "type"); v != nil {
		if v.Kind == yaml.ScalarNode {
			return v.Value
		}
		for _, one := range v.Content {
			if one.Value != "null" {
				return one.Value
			}
		}
		return "null"
	}
	for _, by := range []struct{ key, kind string }{
		{"properties", "object"}, {"additionalProperties", "object"}, {"required", "object"}, {"items", "array"}, {"prefixItems", "array"}, {"pattern", "string"},
		{"minLength", "string"}, {"maxLength", "string"}, {"format", "string"}, {"minimum", "number"}, {"maximum", "number"}, {"multipleOf", "number"},
	} {
		if v := o.first(s, by.key); v != nil && (by.key != "required" || v.Kind == yaml.SequenceNode) {
			return by.kind
		}
	}
	return ""
}

// sample returns the value of a parameter or of a content: its example, or one that its schema has or allows.
func (o *document) sample(n *yaml.Node) any {
	if e := own(n, "example"); e != nil {
		return plain(o.resolve(e))
	}
	for _, e := range o.entries(o.get(n, "examples")) {
		one := o.resolve(e.value)
		if v := own(one, "value"); v != nil {
			return plain(v)
		}
		if v := own(one, "dataValue"); v != nil {
			return plain(v)
		}
		o.leave(e.line, e.name, "the example has no value in the description", "")
	}
	return o.example(o.schema(own(n, "schema")), 0)
}

// example makes a value of a schema: what it has for one, or the simplest that it allows.
func (o *document) example(s schema, depth int) any {
	if o.budget--; len(s) == 0 || depth > draft.MaxDepth || o.budget < 0 {
		return nil
	}
	if o.made[s[0]] {
		return nil // a schema within itself
	}
	o.made[s[0]] = true
	defer delete(o.made, s[0])
	for _, key := range []string{"const", "example", "examples", "default"} {
		e := o.first(s, key)
		switch {
		case e == nil:
		case key != "examples":
			return plain(e)
		case e.Kind == yaml.SequenceNode && len(e.Content) > 0:
			return plain(e.Content[0])
		}
	}
	if choices := o.choices(s); len(choices) > 0 {
		return choices[0]
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		if options := o.first(s, key); options != nil && options.Kind == yaml.SequenceNode {
			if option := o.option(options); option != nil {
				return o.alternative(s, option, depth)
			}
		}
	}
	if not := o.first(s, "not"); not != nil {
		o.leave(o.line(not), "not", "what a schema excludes is not looked at", "")
	}
	return o.simplest(s, depth)
}

// choices returns the values of all enumerations of a schema, without null if there is another.
func (o *document) choices(s schema) (all []any) {
	first := true
	for _, n := range s {
		e := o.resolve(own(n, "enum"))
		if e == nil || e.Kind != yaml.SequenceNode {
			continue
		}
		var these []any
		for _, v := range e.Content {
			these = append(these, plain(v))
		}
		if first {
			all, first = these, false
			continue
		}
		all = slices.DeleteFunc(all, func(v any) bool {
			return !slices.ContainsFunc(these, func(other any) bool { return bytes.Equal(inJSON(v), inJSON(other)) })
		})
	}
	if some := slices.DeleteFunc(slices.Clone(all), func(v any) bool { return v == nil }); len(some) > 0 {
		return some
	}
	return all
}

// option returns the first alternative that is not null and leads to no schema within itself.
func (o *document) option(options *yaml.Node) *yaml.Node {
	for _, n := range options.Content {
		s := o.schema(n)
		if len(s) > 0 && o.kind(s) != "null" && !slices.ContainsFunc(s, func(n *yaml.Node) bool { return o.made[n] }) {
			return n
		}
	}
	return nil
}

// alternative makes a value of a schema with one of several alternatives.
func (o *document) alternative(s schema, option *yaml.Node, depth int) any {
	rest := schema{}
	for _, n := range s { // without the alternatives
		kept := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line}
		for _, e := range o.entries(n) {
			if e.name != "oneOf" && e.name != "anyOf" && e.name != "allOf" {
				kept.Content = append(kept.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: e.name, Line: e.line}, e.value)
			}
		}
		rest = append(rest, kept)
	}
	value := o.example(append(rest, o.schema(option)...), depth+1)
	if out, is := value.(object); is {
		if property, name := o.discriminated(s, option); property != "" {
			return out.set(property, name)
		}
	}
	return value
}

// discriminated returns the property that says which schema holds, and what it says for an alternative.
func (o *document) discriminated(s schema, option *yaml.Node) (property, value string) {
	d := o.first(s, "discriminator")
	target := o.resolve(option)
	ref := o.names[target]
	if d == nil || ref == "" {
		return "", ""
	}
	if d.Kind == yaml.ScalarNode { // of Swagger 2
		return d.Value, ref[strings.LastIndexByte(ref, '/')+1:]
	}
	name := ref[strings.LastIndexByte(ref, '/')+1:]
	for _, m := range o.entries(o.get(d, "mapping")) {
		if to := m.value.Value; to == ref || to == name {
			return o.text(d, "propertyName"), m.name
		}
	}
	return o.text(d, "propertyName"), name
}

// simplest makes a value of a schema by its type.
func (o *document) simplest(s schema, depth int) any {
	switch o.kind(s) {
	case "array":
		return o.array(s, depth)
	case "integer":
		return o.number(s, true)
	case "number":
		return o.number(s, false)
	case "boolean":
		return true
	case "object":
		return o.object(s, depth)
	case "string":
		return o.string(s)
	}
	return nil
}

// object makes an object of a schema, with all properties that requests may have.
func (o *document) object(s schema, depth int) object {
	out := object{}
	of := map[string]schema{}
	var order []string
	for _, n := range slices.Backward(s) { // bases first
		for _, p := range o.entries(o.resolve(own(n, "properties"))) {
			if of[p.name] == nil {
				order = append(order, p.name)
			}
			of[p.name] = append(o.schema(p.value), of[p.name]...)
		}
	}
	required := map[string]bool{}
	for _, n := range s {
		for _, name := range o.items(n, "required") {
			required[name.Value] = true
		}
	}
	for _, name := range order {
		if p := of[name]; !o.is(p, "readOnly") && o.budget > 0 {
			value := o.example(p, depth+1)
			if value != nil || o.first(p, "example") != nil || o.first(p, "default") != nil {
				out = out.set(name, value)
			} else if required[name] && o.kind(p) == "" {
				out = out.set(name, "string")
			}
		}
	}
	more := o.schema(o.first(s, "additionalProperties"))
	extra := func() any {
		if value := o.example(more, depth+1); value != nil {
			return value
		}
		return "string"
	}
	for _, name := range slices.Sorted(maps.Keys(required)) {
		if of[name] == nil && o.budget > 0 {
			out = out.set(name, extra())
		}
	}
	for n := len(out); n < o.count(s, "minProperties"); n++ {
		out = out.set("property"+strconv.Itoa(n+1), extra())
	}
	if property, name := o.discriminated(s, s[0]); property != "" && of[property] != nil && o.first(of[property], "default") == nil && o.first(of[property], "example") == nil && len(o.choices(of[property])) == 0 {
		out = out.set(property, name)
	}
	return out
}

// count returns a number of a schema that counts something; 0 if there is none, or it is too large.
func (o *document) count(s schema, key string) int {
	const most = 1000
	if v := o.first(s, key); v != nil {
		if n, err := strconv.Atoi(v.Value); err == nil && n > 0 && n <= most {
			return n
		}
	}
	return 0
}

// array makes an array of a schema.
func (o *document) array(s schema, depth int) []any {
	out := []any{}
	for _, item := range o.items(firstWith(s, "prefixItems"), "prefixItems") {
		out = append(out, o.example(o.schema(item), depth+1))
	}
	items := o.schema(o.first(s, "items"))
	if most := o.first(s, "maxItems"); most != nil && most.Value == "0" || items == nil {
		return out
	}
	choices := o.choices(items)
	for n := len(out); n < max(1, o.count(s, "minItems")) && o.budget > 0; n++ {
		item := o.example(items, depth+1)
		if item == nil {
			break
		}
		if n > 0 && o.is(s, "uniqueItems") {
			switch v := item.(type) {
			case number:
				if i, is := new(big.Int).SetString(string(v), 10); is {
					item = number(i.Add(i, big.NewInt(int64(n))).String())
				}
			case string:
				if item = v + strconv.Itoa(n+1); len(choices) > n {
					item = choices[n]
				}
			}
		}
		out = append(out, item)
	}
	return out
}

// firstWith returns the first node that has a key, or nil.
func firstWith(s schema, key string) *yaml.Node {
	for _, n := range s {
		if own(n, key) != nil {
			return n
		}
	}
	return nil
}

// number makes a number of a schema.
func (o *document) number(s schema, whole bool) any {
	var low, high *big.Rat
	lowOpen, highOpen := false, false
	for _, n := range s {
		for _, key := range []string{"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"} {
			v := o.resolve(own(n, key))
			if v == nil || v.Kind != yaml.ScalarNode {
				continue
			}
			bound := rational(v.Value)
			if bound == nil {
				continue // a boolean, or too large a number
			}
			open := strings.HasPrefix(key, "exclusive") || scalarAt(n, "exclusive"+strings.ToUpper(key[:1])+key[1:]) == true
			if strings.HasSuffix(strings.ToLower(key), "minimum") {
				if low == nil || bound.Cmp(low) > 0 || bound.Cmp(low) == 0 && open {
					low, lowOpen = bound, open
				}
			} else if high == nil || bound.Cmp(high) < 0 || bound.Cmp(high) == 0 && open {
				high, highOpen = bound, open
			}
		}
	}
	allowed := func(x *big.Rat) bool {
		return (low == nil || x.Cmp(low) > 0 || x.Cmp(low) == 0 && !lowOpen) && (high == nil || x.Cmp(high) < 0 || x.Cmp(high) == 0 && !highOpen)
	}
	step := big.NewRat(1, 1)
	multiple := o.first(s, "multipleOf")
	if multiple != nil {
		if m := rational(multiple.Value); m != nil && m.Sign() > 0 {
			step = m
		}
	}
	candidates := []*big.Rat{step}
	for _, bound := range []*big.Rat{low, high} {
		if bound == nil {
			continue
		}
		if !whole && multiple == nil {
			candidates = append(candidates, bound)
		}
		at := floor(new(big.Rat).Quo(bound, step)) // the multiples around the bound
		for i := int64(-1); i <= 1; i++ {
			candidates = append(candidates, new(big.Rat).Mul(new(big.Rat).Add(at, big.NewRat(i, 1)), step))
		}
	}
	if low != nil && high != nil && !whole && multiple == nil {
		candidates = append(candidates, new(big.Rat).Quo(new(big.Rat).Add(low, high), big.NewRat(2, 1)))
	}
	if low != nil { // the least is chosen
		slices.SortStableFunc(candidates, (*big.Rat).Cmp)
	}
	for _, c := range candidates {
		if allowed(c) && (!whole || c.IsInt()) {
			if c.IsInt() {
				return number(c.Num().String())
			}
			digits, _ := c.FloatPrec()
			return number(c.FloatString(min(digits, 40)))
		}
	}
	o.leave(o.line(s[0]), "a number", "no value is found that the schema allows", "")
	return number("1")
}

// scalarAt returns the scalar at a key.
func scalarAt(n *yaml.Node, key string) any {
	if v := own(n, key); v != nil && v.Kind == yaml.ScalarNode {
		return scalar(v)
	}
	return nil
}

// rational returns the number in a text. It returns nil for other texts, and for more than a thousand
// digits.
func rational(text string) *big.Rat {
	const most = 100
	if _, exponent, is := strings.Cut(strings.ToLower(text), "e"); len(text) > most || is && len(strings.TrimLeft(exponent, "+-0")) > len("999") {
		return nil
	}
	r, is := new(big.Rat).SetString(text)
	if !is || strings.ContainsAny(text, "/_xXpP") {
		return nil
	}
	return r
}

// floor returns the largest whole number that is not above another.
func floor(r *big.Rat) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Div(r.Num(), r.Denom())) // by Euclid, and denominators are positive
}

// formats are texts that have the formats of schemas.
var formats = map[string]string{
	"date-time": "2025-01-01T00:00:00Z", "date": "2025-01-01", "time": "00:00:00Z", "duration": "P1D",
	"uuid": "00000000-0000-4000-8000-000000000000", "email": "user@example.com", "idn-email": "user@example.com",
	"uri": "https://example.com/", "url": "https://example.com/", "iri": "https://example.com/", "uri-reference": "/", "iri-reference": "/",
	"hostname": "example.com", "idn-hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
	"byte": "c3RyaW5n", "json-pointer": "/a", "regex": ".*",
}

// string makes a text of a schema.
func (o *document) string(s schema) string {
	least, most := o.count(s, "minLength"), draft.MaxInline
	if v := o.first(s, "maxLength"); v != nil {
		if n, err := strconv.Atoi(v.Value); err == nil && n >= 0 {
			most = n
		}
	}
	fits := func(text string) bool { n := utf8.RuneCountInString(text); return n >= least && n <= most }
	if pattern := o.first(s, "pattern"); pattern != nil {
		if text, is := matching(pattern.Value, fits); is {
			return text
		}
		o.leave(o.line(pattern), "pattern "+pattern.Value, "no text is made that it matches", "give the schema an example")
	}
	if format := o.first(s, "format"); format != nil {
		if text, is := formats[format.Value]; is && fits(text) {
			return text
		}
	}
	text := "string"
	if least > len(text) {
		text = strings.Repeat("x", least)
	}
	return text[:min(len(text), max(most, 0))]
}

// matching returns a text that a regular expression matches.
func matching(pattern string, fits func(text string) bool) (text string, is bool) {
	const most = 200
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	whole, err2 := regexp.Compile(pattern)
	if err != nil || err2 != nil || len(pattern) > 1000 {
		return "", false
	}
	for more := range most { // of each part that may be repeated
		var b strings.Builder
		write(&b, parsed, more)
		if b.Len() > draft.MaxInline {
			return "", false
		}
		if text = b.String(); whole.MatchString(text) && fits(text) {
			return text, true
		}
	}
	return "", false
}

// write writes a text that a part of a regular expression matches, with a number of additional repetitions.
func write(b *strings.Builder, r *syntax.Regexp, more int) {
	if b.Len() > draft.MaxInline {
		return
	}
	repeat := func(low, high int) {
		times := low + more
		if high >= 0 {
			times = min(times, high)
		}
		for range times {
			write(b, r.Sub[0], 0)
		}
	}
	switch r.Op {
	case syntax.OpLiteral:
		for _, c := range r.Rune {
			b.WriteRune(c)
		}
	case syntax.OpCharClass:
		for _, wanted := range "aA0-_. " {
			for i := 0; i+1 < len(r.Rune); i += 2 {
				if r.Rune[i] <= wanted && wanted <= r.Rune[i+1] {
					b.WriteRune(wanted)
					return
				}
			}
		}
		for i := 0; i+1 < len(r.Rune); i += 2 {
			if c := max(r.Rune[i], min('!', r.Rune[i+1])); unicode.IsPrint(c) {
				b.WriteRune(c)
				return
			}
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('a')
	case syntax.OpStar:
		repeat(0, -1)
	case syntax.OpPlus:
		repeat(1, -1)
	case syntax.OpQuest:
		repeat(0, 1)
	case syntax.OpRepeat:
		repeat(r.Min, r.Max)
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range r.Sub {
			write(b, sub, more)
		}
	case syntax.OpAlternate:
		write(b, r.Sub[0], more)
	}
}
