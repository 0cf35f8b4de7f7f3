package planfile

import (
	"encoding/json"

	"dyno/lab/plan"
)

// jsonSchema returns the JSON Schema of the experiment file (draft 2020-12), as
// published in schema.json: made from the tags that the reader uses. The
// reader refuses whatever the schema refuses, and more.
func jsonSchema() ([]byte, error) {
	file, _ := plan.Declared()
	out := file.Schema(false)
	out["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	out["title"] = "dyno experiment"
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}
