package experiment

import (
	"encoding/json"
	"math"
)

// JSONSchema returns the JSON Schema of the experiment file (draft 2020-12), as
// published in schema.json: made from the table that the reader uses. The
// reader refuses whatever the schema refuses, and more.
func JSONSchema() ([]byte, error) {
	schema := table().schema(false)
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
	if s.doc != "" {
		out["description"] = s.doc
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
	bounded := func(numeric string) map[string]any {
		out := map[string]any{"type": numeric}
		if !math.IsInf(s.min, 0) {
			out["minimum"] = s.min
		}
		if !math.IsInf(s.max, 0) {
			out["maximum"] = s.max
		}
		return out
	}
	written := func(pattern string) map[string]any {
		return map[string]any{"type": "string", "pattern": pattern}
	}
	switch s.kind {
	case text:
		if s.pattern != "" {
			return either(written(s.pattern))
		}
		return map[string]any{"type": "string", "minLength": 1}
	case word:
		out := map[string]any{"type": []any{"string", "number", "boolean"}}
		if s.pattern != "" {
			out["pattern"] = s.pattern // of a string; JSON Schema applies it to nothing else
		}
		return out
	case boolean:
		return either(map[string]any{"type": "boolean"})
	case choice:
		return either(map[string]any{"enum": s.choices})
	case integer:
		return either(bounded("integer"))
	case number:
		return either(bounded("number"))
	case duration:
		forms := []any{bounded("number"), written(durationPattern)}
		if len(s.choices) > 0 {
			forms = append(forms, map[string]any{"enum": s.choices})
		}
		return either(forms...)
	case rate:
		return either(bounded("number"), written(ratePattern))
	case share, amount:
		return either(bounded("number"), written(sharePattern))
	case size:
		return either(bounded("integer"), written(sizePattern))
	case cpus:
		return either(map[string]any{"type": "integer", "minimum": 0, "maximum": maxCPU}, written(cpusPattern))
	case list:
		return map[string]any{"type": "array", "items": s.item.schema(templates), "minItems": s.min, "maxItems": s.max}
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
		out["propertyNames"] = map[string]any{"pattern": s.names}
	}
	if s.few {
		out["minProperties"] = 1
	}
	return out
}
