package resource

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// The tags of a document's fields say what they may hold. The server's checks and the API's description are made of
// them:
//
//	required  it must be given
//	range     the bounds of a number: "1..10"; "0<..10" is without the lower one
//	oneof     the values of a text, of a number other than 0, or of a list's entries
//	is        the form of a text, of a list's entries or of a map's names: name, host, path, scope, identity, text or token
//	variant   the field that says which fields marked with "of" there may be: a rule's action
//	of        the values of that field with which this field may be given
//
// Lists and maps have 100 entries at most, and those of texts have labels' bounds.

// maxList bounds the entries of a list or of a map.
const maxList = 100

// A form is a form of text.
type form struct {
	rule    string // what it must be
	pattern string // the same as a regular expression; lengths apart
	most    int    // bytes
	holds   func(string) bool
}

// namePart matches a name without slashes, or a part of one between them: a text other than . and .. of printable
// characters.
const namePart = `([^\x00-\x1f\x7f-\x9f/.]|[^\x00-\x1f\x7f-\x9f/.][^\x00-\x1f\x7f-\x9f/]|\.[^\x00-\x1f\x7f-\x9f/.]|[^\x00-\x1f\x7f-\x9f/]{3,})`

var forms = map[string]form{
	"name":     {nameRule, "^" + namePart + "$", maxName, isName},
	"host":     {"must be a host, without a port", `^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`, maxName, isHost},
	"path":     {"must begin with a slash and have 2048 printable bytes at most", `^/[^\x00-\x1f\x7f]*$`, 2048, func(s string) bool { return strings.HasPrefix(s, "/") && plain(s) }},
	"scope":    {"must be a namespace or *", `^(\*|[a-z0-9]([a-z0-9-]*[a-z0-9])?)$`, maxNamespace, func(s string) bool { return s == Everywhere || isLabel(s) }},
	"identity": {"must be NAMESPACE/SERVICE or NAMESPACE/*", `^[a-z0-9]([a-z0-9-]*[a-z0-9])?/(\*|[A-Za-z0-9][A-Za-z0-9._:-]*)$`, maxNamespace + 1 + maxName, isIdentity},
	"token":    {"must be the name of a header field", "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", maxLabelName, isToken},
	"text":     {"must have 1024 printable bytes at most", `^[^\x00-\x1f\x7f]*$`, maxLabelValue, plain},
}

func isWordRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

func isIdentity(text string) bool {
	namespace, service, ok := strings.Cut(text, "/")
	return ok && isLabel(namespace) && (service == "*" || IsPlain(service))
}

func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !isWordRune(r) && !strings.ContainsRune("!#$%&'*+.^`|~", r)
	})
}

// A declared field has its tags, parsed.
type declared struct {
	index    int
	name     string // in JSON
	required bool
	low      float64
	above    bool // low is excluded
	high     float64
	ranged   bool
	oneof    []string
	is       form
	formed   bool
	variant  bool
	of       []string
}

var plans sync.Map // []declared, by reflect.Type

// fieldsOf parses the tags of a struct's fields, once.
func fieldsOf(t reflect.Type) []declared {
	if known, ok := plans.Load(t); ok {
		return known.([]declared)
	}
	var list []declared
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		d := declared{index: i, name: name, required: field.Tag.Get("required") != "", variant: field.Tag.Get("variant") != "", of: strings.Fields(field.Tag.Get("of"))}
		d.is, d.formed = forms[field.Tag.Get("is")]
		if words := field.Tag.Get("oneof"); words != "" {
			d.oneof = strings.Fields(words)
		}
		if text, ok := field.Tag.Lookup("range"); ok {
			low, high, _ := strings.Cut(text, "..")
			low, d.above = strings.CutSuffix(low, "<")
			d.ranged, d.low, d.high = true, number(low), number(high)
		}
		list = append(list, d)
	}
	plans.Store(t, list)
	return list
}

func number(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic("resource: a range of " + text) // tags are constants
	}
	return n
}

// checkTags finds the faults of a struct's fields by their tags. Without faults it makes no text: each write of a
// policy passes here.
func checkTags(f *faults, at string, doc any) {
	checkStruct(f, at, reflect.ValueOf(doc).Elem())
}

func checkStruct(f *faults, at string, v reflect.Value) {
	var by, variant string
	for _, d := range fieldsOf(v.Type()) {
		field := v.Field(d.index)
		if d.variant {
			by, variant = d.name, field.String() // it comes before the fields that depend on it
		}
		if len(d.of) > 0 {
			given := !field.IsZero()
			switch {
			case !contains(d.of, variant):
				if given {
					f.check(false, at+"/"+d.name, "is for %s %s only", by, alternatives(d.of))
				}
				continue
			case d.required && !given:
				f.check(false, at+"/"+d.name, "must be given for %s %s", by, variant)
				continue
			}
		}
		d.check(f, at, field)
	}
}

// check finds the faults of one field.
func (d *declared) check(f *faults, at string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			checkStruct(f, at+"/"+d.name, v.Elem())
		}
	case reflect.Struct:
		checkStruct(f, at+"/"+d.name, v)
	case reflect.Int:
		n := float64(v.Int())
		d.inRange(f, at, n, v.Int())
		if d.oneof != nil && n != 0 && !contains(d.oneof, strconv.FormatInt(v.Int(), 10)) {
			f.check(false, at+"/"+d.name, "%d: must be %s", v.Int(), alternatives(d.oneof))
		}
	case reflect.Float64:
		d.inRange(f, at, v.Float(), v.Float())
	case reflect.String:
		text := v.String()
		switch {
		case text == "" && d.required:
			what := d.is.rule
			if d.oneof != nil {
				what = "must be " + alternatives(d.oneof)
			}
			f.check(false, at+"/"+d.name, "must be given: it %s", what)
		case text != "" && !d.holds(text):
			f.check(false, at+"/"+d.name, "%.80q: %s", text, d.rule())
		}
	case reflect.Slice:
		d.checkList(f, at, v)
	case reflect.Map:
		if v.Len() > 0 {
			d.checkMap(f, at+"/"+d.name, v.Interface().(map[string]string))
		}
	}
}

func (d *declared) checkMap(f *faults, at string, m map[string]string) {
	checkLabels(f, at, m, maxList)
	for name := range m {
		if d.formed && !d.is.holds(name) {
			f.check(false, at+"/"+escape(name), "%.80q: %s", name, d.is.rule)
		}
	}
}

func (d *declared) checkList(f *faults, at string, v reflect.Value) {
	f.check(v.Len() <= maxList, at+"/"+d.name, "has %d entries: must have %d at most", v.Len(), maxList)
	for i := range v.Len() {
		one := v.Index(i)
		if one.Kind() == reflect.Struct {
			// The pointer is made for each entry only if there is a fault.
			before := len(f.found)
			checkStruct(f, "", one)
			for k := before; k < len(f.found); k++ {
				f.found[k].Pointer = f.within(fmt.Sprintf("%s/%s/%d", at, d.name, i), f.found[k].Pointer)
			}
			continue
		}
		if text := one.String(); !d.holds(text) {
			f.check(false, fmt.Sprintf("%s/%s/%d", at, d.name, i), "%.80q: %s", text, d.rule())
		}
	}
}

// within puts the pointer of an entry of a document's list behind a place in that entry.
func (f *faults) within(at, pointer string) string {
	head := "#"
	if f.list != "" {
		head = fmt.Sprintf("#%s/%d", f.list, f.index)
	}
	return head + at + strings.TrimPrefix(pointer, head)
}

func (d *declared) inRange(f *faults, at string, n float64, shown any) {
	if !d.ranged || n >= d.low && n <= d.high && !(d.above && n == d.low) && !math.IsNaN(n) {
		return
	}
	if d.above {
		f.check(false, at+"/"+d.name, "%v: must be more than %v and %v at most", shown, d.low, d.high)
		return
	}
	f.check(false, at+"/"+d.name, "%v: must be from %v to %v", shown, d.low, d.high)
}

// holds reports whether a text has the field's form.
func (d *declared) holds(text string) bool {
	switch {
	case d.oneof != nil:
		return contains(d.oneof, text)
	case d.formed:
		return len(text) <= d.is.most && d.is.holds(text)
	}
	return len(text) <= maxLabelValue && utf8.ValidString(text)
}

func (d *declared) rule() string {
	if d.oneof != nil {
		return "must be " + alternatives(d.oneof)
	}
	return d.is.rule
}

// alternatives joins words for people.
func alternatives(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Schemas returns the JSON Schemas of names, and of documents with tags, by name.
func Schemas() map[string]any {
	rule := variantsOf(reflect.TypeFor[Rule](), map[string]any{"match": map[string]any{"$ref": "#/components/schemas/Match"}})
	for _, one := range rule {
		properties := one.(map[string]any)["properties"].(map[string]any)
		if route, ok := properties["route"].(map[string]any); ok {
			route["contains"] = map[string]any{"type": "object", "properties": map[string]any{"weight": map[string]any{"minimum": 1}}, "required": []string{"weight"}}
		}
	}
	return map[string]any{
		"Rule":  map[string]any{"description": "The action, and what belongs to it.", "oneOf": rule},
		"Match": schemaOf(reflect.TypeFor[Match]()),
		"Check": map[string]any{"description": "The type, and what belongs to it.", "oneOf": variantsOf(reflect.TypeFor[Check](), nil)},
		"Name":  nameSchema("^" + namePart + "$"), "NameOrNone": orNone("Name"),
		"ConfigName": nameSchema("^" + namePart + "(/" + namePart + ")*$"), "ConfigNameOrNone": orNone("ConfigName"),
		// What clients say of sessions and locks.
		"SessionInput": schemaOf(reflect.TypeFor[SessionInput]()), "LockInput": schemaOf(reflect.TypeFor[LockInput]()),
		"Grant": schemaOf(reflect.TypeFor[Grant]()),
	}
}

func nameSchema(pattern string) map[string]any {
	return map[string]any{
		"type": "string", "pattern": pattern, "maxLength": maxName,
		"description": "The length is in bytes of UTF-8. It is in Unicode's form NFC, and has no white space at an end. * is none.",
	}
}

func orNone(name string) map[string]any {
	return map[string]any{"anyOf": []any{map[string]any{"$ref": "#/components/schemas/" + name}, map[string]any{"const": ""}}, "description": "An empty one is as if left out."}
}

// variantsOf returns the schemas of a struct, one for each value of its variant. Those of some fields are given.
func variantsOf(t reflect.Type, given map[string]any) (variants []any) {
	list := fieldsOf(t)
	at := slices.IndexFunc(list, func(d declared) bool { return d.variant })
	for _, variant := range list[at].oneof {
		properties := map[string]any{}
		var required []string
		for _, d := range list {
			if len(d.of) > 0 && !contains(d.of, variant) {
				continue
			}
			switch {
			case d.variant:
				properties[d.name] = map[string]any{"enum": []string{variant}}
			case given[d.name] != nil:
				properties[d.name] = given[d.name]
			default:
				properties[d.name] = d.schema(t.Field(d.index).Type)
			}
			if d.required {
				required = append(required, d.name)
			}
		}
		variants = append(variants, object(properties, required))
	}
	return variants
}

func object(properties map[string]any, required []string) map[string]any {
	one := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		one["required"] = required
	}
	return one
}

// schemaOf returns a struct's schema.
func schemaOf(t reflect.Type) map[string]any {
	properties := map[string]any{}
	var required []string
	for _, d := range fieldsOf(t) {
		properties[d.name] = d.schema(t.Field(d.index).Type)
		if d.required {
			required = append(required, d.name)
		}
	}
	return object(properties, required)
}

// schema returns the field's schema.
func (d *declared) schema(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Struct:
		return schemaOf(t)
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Map:
		pattern := `^[^\x00-\x1f\x7f]*$`
		if d.formed {
			pattern = d.is.pattern
		}
		return map[string]any{
			"type": "object", "maxProperties": maxList,
			"propertyNames":        map[string]any{"minLength": 1, "maxLength": maxLabelName, "pattern": pattern},
			"additionalProperties": map[string]any{"type": "string", "maxLength": maxLabelValue},
		}
	case reflect.Slice:
		one := map[string]any{"type": "array", "maxItems": maxList}
		if t.Elem().Kind() == reflect.Struct {
			one["items"] = schemaOf(t.Elem())
		} else {
			one["items"] = d.textSchema(true)
		}
		if d.required {
			one["minItems"] = 1
		}
		return one
	case reflect.String:
		return d.textSchema(d.required)
	}
	return d.numberSchema(t.Kind() == reflect.Int)
}

// textSchema returns the schema of a text; one that need not be given may be empty.
func (d *declared) textSchema(given bool) map[string]any {
	switch {
	case d.oneof != nil:
		return map[string]any{"enum": d.oneof}
	case given:
		return map[string]any{"type": "string", "pattern": d.is.pattern, "maxLength": d.is.most}
	}
	return map[string]any{"type": "string", "pattern": "^$|" + d.is.pattern, "maxLength": d.is.most}
}

func (d *declared) numberSchema(whole bool) map[string]any {
	one := map[string]any{"type": "number"}
	if whole {
		one["type"] = "integer"
	}
	if d.oneof != nil {
		values := []int{0}
		for _, word := range d.oneof {
			values = append(values, int(number(word)))
		}
		return map[string]any{"enum": values}
	}
	low := "minimum"
	if d.above {
		low = "exclusiveMinimum"
	}
	one[low], one["maximum"] = d.low, d.high
	return one
}
