package ollama_test

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"dyno/services/bot/dialect"
	"dyno/services/bot/dialect/dialecttest"
	"dyno/services/bot/dialect/messages"
)

func TestGolden(t *testing.T) { dialecttest.Golden(t, "", messages.Client{}, server) }

// seeds returns the first sections of golden files.
func seeds(f *testing.F, section string) (list []string) {
	names, err := filepath.Glob("testdata/" + section + "_*.txtar")
	if err != nil || len(names) == 0 {
		f.Fatal(names, err)
	}
	for _, name := range names {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		list = append(list, string(archive.Files[0].Data))
	}
	return list
}

func FuzzReadAnswer(f *testing.F) {
	dialecttest.FuzzReadAnswer(f, messages.Client{}, server, seeds(f, "answer")...)
}

func FuzzReader(f *testing.F) {
	dialecttest.FuzzReader(f, messages.Client{}, server, seeds(f, "stream")...)
}

func TestFeatures(t *testing.T) {
	noTools := &dialect.Request{Tools: []dialect.Tool{{Name: "weather"}}, Choice: dialect.Choice{Mode: dialect.NoTool}}
	if body, err := server.AppendRequest(nil, noTools, "m"); err != nil || strings.Contains(string(body), "weather") {
		t.Error(string(body), err)
	}
	dialecttest.Features(t, server, map[dialect.Feature]string{
		dialect.SystemMessage:   `{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]}`,
		dialect.LateSystem:      `{"messages":[{"role":"user","content":"hi"},{"role":"system","content":"be brief"}]}`,
		dialect.ImageData:       `{"role":"user","content":"hi","images":["iVBORw0KGgo="]}`,
		dialect.Functions:       `{"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}]}`,
		dialect.JSONObject:      `{"format":"json"}`,
		dialect.JSONSchema:      `{"format":{"type":"object"}}`,
		dialect.MaxTokens:       `{"options":{"num_predict":77}}`,
		dialect.SetTemperature:  `{"options":{"temperature":0.25}}`,
		dialect.SetTopP:         `{"options":{"top_p":0.75}}`,
		dialect.SetTopK:         `{"options":{"top_k":40}}`,
		dialect.StopSequences:   `{"options":{"stop":["END"]}}`,
		dialect.SetSeed:         `{"options":{"seed":7}}`,
		dialect.FrequencyWeight: `{"options":{"frequency_penalty":0.5}}`,
		dialect.PresenceWeight:  `{"options":{"presence_penalty":0.5}}`,
		dialect.ReasoningEffort: `{"think":"low"}`,
		dialect.ReasoningText:   `{"think":true}`,
		dialect.ChooseNone:      `{}`, // by leaving out the tools
		dialect.ThinkingBack:    `{"role":"assistant","content":"a","thinking":"hm"}`,
	})
}
