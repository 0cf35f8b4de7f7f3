package openapi

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dyno/cli/imports/draft"
)

// Structures that double with each level end all the same: aliases, merges, allOf, alternatives, and
// references between schemas.
func TestDescriptionsThatGrow(t *testing.T) {
	const levels = 60
	double := map[string]string{
		"aliases":    "&a%[1]d [*a%[2]d, *a%[2]d]",
		"merges":     "&a%[1]d {<<: [*a%[2]d, *a%[2]d]}",
		"allOf":      "{allOf: [{$ref: '#/x/%[2]d'}, {$ref: '#/x/%[2]d'}, {allOf: [{$ref: '#/x/%[2]d'}]}]}",
		"oneOf":      "{oneOf: [{oneOf: [{$ref: '#/x/%[2]d'}]}, {$ref: '#/x/%[2]d'}]}",
		"properties": "{properties: {a: {$ref: '#/x/%[2]d'}, b: {$ref: '#/x/%[2]d'}}}",
		"items":      "{type: array, minItems: 1000, items: {$ref: '#/x/%[2]d'}}",
	}
	for name, text := range double {
		var b strings.Builder
		b.WriteString("openapi: 3.0.3\nservers: [{url: 'http://127.0.0.1'}]\nx:\n  \"0\": &a0 {b: 1}\n")
		for n := 1; n < levels; n++ {
			fmt.Fprintf(&b, "  \"%d\": "+text+"\n", n, n-1)
		}
		use := fmt.Sprintf("schema: {$ref: '#/x/%d'}", levels-1)
		if strings.Contains(text, "*") {
			use = fmt.Sprintf("example: *a%d", levels-1)
		}
		fmt.Fprintf(&b, "paths: {/: {post: {requestBody: {content: {application/json: {%s}}}, responses: {}}}}\n", use)
		file := filepath.Join(t.TempDir(), "api.yaml")
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := draft.Read([]draft.Format{Format()}, draft.Source{Format: "openapi", File: file}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
