package planfile

import (
	"encoding/json"

	"dyno/lab/plan"
)

// Schema returns the JSON Schema of the experiment file (draft 2020-12), as
// published in schema.json: made from the tags that the reader uses. The
// reader refuses whatever the schema refuses, and more.
func Schema() []byte {
	file, _ := plan.Declared()
	out := file.Schema(false)
	out["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	out["title"] = "dyno experiment"
	text, _ := json.MarshalIndent(out, "", "  ") // of words and numbers it always can be made
	return append(text, '\n')
}
