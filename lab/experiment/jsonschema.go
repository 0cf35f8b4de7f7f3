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
	written := func(pattern string) map[string]any { return map[string]any{"type": "string", "pattern": pattern} }
	var ways []any // in which it may be given
	switch {
	case s.kind == mapping:
		return s.mappingSchema(templates)
	case s.kind == list:
		return map[string]any{"type": "array", "items": s.item.schema(templates), "minItems": s.min, "maxItems": s.max}
	case s.kind == word:
		out := map[string]any{"type": []any{"string", "number", "boolean"}}
		if s.pattern != nil {
			out["pattern"] = s.pattern.expression // of a string; JSON Schema applies it to nothing else
		}
		return out
	case s.kind == text && s.pattern == nil:
		return map[string]any{"type": "string", "minLength": 1}
	case s.kind == text:
		ways = append(ways, written(s.pattern.expression))
	case s.kind == boolean:
		ways = append(ways, map[string]any{"type": "boolean"})
	case s.kind == choice:
		ways = append(ways, map[string]any{"enum": s.choices})
	default: // a number, or text that stands for one
		bounds := map[string]any{"type": forms[s.kind].json}
		if !math.IsInf(s.max, 0) {
			bounds["minimum"], bounds["maximum"] = s.min, s.max
		}
		if ways = append(ways, bounds); forms[s.kind].pattern != "" {
			ways = append(ways, written(forms[s.kind].pattern))
		}
		if len(s.choices) > 0 {
			ways = append(ways, map[string]any{"enum": s.choices})
		}
	}
	if templates {
		ways = append(ways, written(templatePattern))
	}
	if len(ways) == 1 {
		return ways[0].(map[string]any)
	}
	return map[string]any{"anyOf": ways}
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
