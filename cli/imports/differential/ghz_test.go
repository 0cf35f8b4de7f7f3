package differential

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

var ghz = tool{
	format:  "ghz",
	program: "ghz",
	command: func(file string) []string { return []string{"ghz", "--config", file, "-O", "json"} },
	own:     []omission{{`grpc-encoding: identity`, "it means the same as no such field"}},
}

func TestGHZ(t *testing.T) { ghz.compareFiles(t) }

func TestGHZGenerated(t *testing.T) {
	proto, err := os.ReadFile("testdata/ghz/part-greet.proto")
	if err != nil {
		t.Fatal(err)
	}
	ghz.compareGenerated(t, "settings.json", func(r *rand.Rand) map[string]string {
		files := map[string]string{"greet.proto": string(proto)}
		message := func() map[string]any {
			all := map[string]any{
				"name": choose(r, word(r), "@file", "ü", "{{.RequestNumber}}", "", "a\"b\\c"), "count": choose(r, "9007199254740993", "-1", "0"), "inner": map[string]any{"text": word(r)},
				"tags": []string{word(r), "", "@x"}, "points": map[string]int{word(r): r.IntN(10)}, "at": "2026-03-29T03:00:00.5Z", "note": choose(r, "", "x"),
				"raw": choose(r, "AAH/", ""), "share": []any{0.1, 1e300, -0.5, "NaN"}[r.IntN(4)], "mood": []any{"GOOD", 1, 0}[r.IntN(3)], "ok": r.IntN(2) == 0, "more": map[string]any{"a": []any{1, nil, "b"}},
			}
			all[choose(r, "left", "right")] = choose(r, "1", "18446744073709551615")
			for _, name := range slices.Sorted(maps.Keys(all)) {
				if r.IntN(2) == 0 {
					delete(all, name)
				}
			}
			return all
		}
		settings := map[string]any{
			"proto": "greet.proto", "host": written, "insecure": true, "total": 1, "concurrency": 1,
			"call": choose(r, "greet.v1.Greeter.Hello", "greet.v1.Greeter/Hello", "greet.v1.Greeter/Collect", "greet.v1.Greeter/Chat"),
		}
		var data any = message()
		if call := settings["call"].(string); r.IntN(2) == 0 && (call == "greet.v1.Greeter/Collect" || call == "greet.v1.Greeter/Chat") {
			data = []any{message(), message()}
		}
		text, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		switch r.IntN(2) {
		case 0:
			settings["data"] = data
		case 1:
			settings["data-file"] = "message.json"
			files["message.json"] = string(text)
		}
		if r.IntN(2) == 0 {
			settings["metadata"] = map[string]string{"x-" + word(r): choose(r, word(r), "@file", "a b", "<x>"), choose(r, "authorization", "x-b"): choose(r, "Bearer t0", "{{.RequestNumber}}"), "trace-bin": "AAH/"}
		}
		if r.IntN(4) == 0 {
			settings["enable-compression"] = true
		}
		config, err := json.Marshal(settings)
		if err != nil {
			t.Fatal(err)
		}
		files["settings.json"] = string(config)
		return files
	})
}
