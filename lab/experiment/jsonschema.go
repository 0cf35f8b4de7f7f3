package experiment

import (
	"encoding/json"
	"math"
)

// JSONSchema returns the JSON Schema of the experiment file (draft 2020-12), as
// published in schema.json: made from the tags that the reader uses. The
// reader refuses whatever the schema refuses, and more.
func JSONSchema() ([]byte, error) {
	file, _ := theFile()
	schema := file.schema(false)
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "dyno experiment"
	out, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(out, '\n'), nil
}

// templatePattern is any text that holds a template: it is checked only when
// its variables are known.
const templatePattern = `\{\{`

// schema returns what the spec says in the words of JSON Schema. With
// templates, text that holds one may stand for any scalar.
func (s *spec) schema(templates bool) map[string]any {
	templates = templates || s.template
	out := s.plainSchema(templates)
	if s.short != nil {
		out = map[string]any{"anyOf": []any{s.short.schema(templates), out}}
	}
	if doc := s.description(); doc != "" {
		out["description"] = doc
	}
	return out
}

func (s *spec) plainSchema(templates bool) map[string]any {
	template := map[string]any{"type": "string", "pattern": templatePattern}
	either := func(forms ...any) map[string]any {
		if templates {
			forms = append(forms, template)
		}
		if len(forms) == 1 {
			return forms[0].(map[string]any)
		}
		return map[string]any{"anyOf": forms}
	}
	written := func(pattern string) map[string]any {
		return map[string]any{"type": "string", "pattern": pattern}
	}
	of := forms[s.kind]
	switch {
	case s.kind == text && s.pattern != nil:
		return either(written(s.pattern.expression))
	case s.kind == text:
		return map[string]any{"type": "string", "minLength": 1}
	case s.kind == word && s.pattern != nil: // of a string; JSON Schema applies it to nothing else
		return map[string]any{"type": []any{"string", "number", "boolean"}, "pattern": s.pattern.expression}
	case s.kind == word:
		return map[string]any{"type": []any{"string", "number", "boolean"}}
	case s.kind == boolean:
		return either(map[string]any{"type": "boolean"})
	case s.kind == choice:
		return either(map[string]any{"enum": s.choices})
	case s.kind == list:
		return map[string]any{"type": "array", "items": s.item.schema(templates), "minItems": s.min, "maxItems": s.max}
	case s.kind != mapping: // a number, or text that stands for one
		bounds := map[string]any{"type": of.json}
		if !math.IsInf(s.max, 0) {
			bounds["minimum"], bounds["maximum"] = s.min, s.max
		}
		ways := []any{bounds}
		if of.pattern != "" {
			ways = append(ways, written(of.pattern))
		}
		if len(s.choices) > 0 {
			ways = append(ways, map[string]any{"enum": s.choices})
		}
		return either(ways...)
	}
	return s.mappingSchema(templates)
}

func (s *spec) mappingSchema(templates bool) map[string]any {
	out := map[string]any{"type": "object", "additionalProperties": false}
	properties, required := map[string]any{}, []string{}
	for _, f := range s.fields {
		properties[f.name] = f.spec.schema(templates)
		if f.required {
			required = append(required, f.name)
		}
	}
	if len(properties) > 0 {
		out["properties"] = properties
	}
	if len(required) > 0 {
		out["required"] = required
	}
	if s.item != nil {
		out["additionalProperties"] = s.item.schema(templates)
		out["maxProperties"] = s.most()
		out["propertyNames"] = map[string]any{"pattern": s.names.expression}
	}
	if s.few {
		out["minProperties"] = 1
	}
	return out
}
