package gemini_test

import (
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"

	"dyno/services/bot/dialect"
	"dyno/services/bot/dialect/chat"
	"dyno/services/bot/dialect/dialecttest"
	"dyno/services/bot/dialect/gemini"
	"dyno/services/bot/dialect/messages"
)

func TestGolden(t *testing.T) { dialecttest.Golden(t, "", messages.Client{}, server) }

// TestClientGolden: the form towards clients, with servers of two others behind it. A request has what its path says, too.
func TestClientGolden(t *testing.T) {
	for folder, s := range map[string]dialect.Server{"openai": chat.New(chat.Options{Variant: chat.OpenAI}), "anthropic": messages.Server{MaxTokens: 4096}} {
		t.Run(folder, func(t *testing.T) { dialecttest.Golden(t, folder, gemini.Client{}, s) })
	}
}

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
	dialecttest.Features(t, server, map[dialect.Feature]string{
		dialect.SystemMessage:   `{"systemInstruction":{"parts":[{"text":"be brief"}]}}`,
		dialect.ImageData:       `{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}`,
		dialect.ImageURL:        `{"fileData":{"fileUri":"https://example.com/a.png"}}`,
		dialect.AudioData:       `{"inlineData":{"mimeType":"audio/wav","data":"UklGRg=="}}`,
		dialect.FileData:        `{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0="}}`,
		dialect.FileURL:         `{"fileData":{"fileUri":"https://example.com/a.pdf"}}`,
		dialect.FileID:          `{"fileData":{"fileUri":"file-1"}}`,
		dialect.Functions:       `{"tools":[{"functionDeclarations":[{"name":"weather","parametersJsonSchema":{"type":"object"}}]}]}`,
		dialect.ChooseNone:      `{"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}}`,
		dialect.ChooseSome:      `{"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}}`,
		dialect.ChooseOne:       `{"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["weather"]}}}`,
		dialect.ResultImages:    `{"functionResponse":{"id":"call_1","name":"weather","parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]}}`,
		dialect.ResultFailed:    `{"response":{"error":"no"}}`,
		dialect.JSONObject:      `{"responseMimeType":"application/json"}`,
		dialect.JSONSchema:      `{"responseMimeType":"application/json","responseJsonSchema":{"type":"object"}}`,
		dialect.MaxTokens:       `{"generationConfig":{"maxOutputTokens":77}}`,
		dialect.SetTemperature:  `{"generationConfig":{"temperature":0.25}}`,
		dialect.SetTopP:         `{"generationConfig":{"topP":0.75}}`,
		dialect.SetTopK:         `{"generationConfig":{"topK":40}}`,
		dialect.StopSequences:   `{"generationConfig":{"stopSequences":["END"]}}`,
		dialect.SetSeed:         `{"generationConfig":{"seed":7}}`,
		dialect.FrequencyWeight: `{"generationConfig":{"frequencyPenalty":0.5}}`,
		dialect.PresenceWeight:  `{"generationConfig":{"presencePenalty":0.5}}`,
		dialect.ReasoningEffort: `{"thinkingConfig":{"thinkingLevel":"LOW"}}`,
		dialect.ReasoningBudget: `{"thinkingConfig":{"thinkingBudget":2048}}`,
		dialect.ReasoningText:   `{"thinkingConfig":{"includeThoughts":true}}`,
		dialect.ThinkingBack:    `{"text":"hm","thought":true,"thoughtSignature":"c2ln"}`,
	})
}
