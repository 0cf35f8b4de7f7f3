package mask

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func prefixed(name, prefix, class string, least int) Rule {
	return Rule{Name: name, Prefix: prefix, Class: class, Min: least}
}

func defaults(t testing.TB) *Masker {
	t.Helper()
	m, err := New(Defaults())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const key = "sk-abcdefghijklmnopqrst"

func TestText(t *testing.T) {
	m := defaults(t)
	for text, want := range map[string]string{
		"":                                "",
		"nothing to see":                  "nothing to see",
		key:                               "[api-key]",
		"use " + key + ", please":         "use [api-key], please",
		"中" + key + "文":                   "中[api-key]文",
		key + "ABC-_9":                    "[api-key]",
		key + " " + key:                   "[api-key] [api-key]",
		"sk-short":                        "sk-short",
		"task-abcdefghijklmnopqrstuvwxyz": "task-abcdefghijklmnopqrstuvwxyz",
		"_" + key:                         "_" + key,
		"sk-sk-" + key[3:]:                "[api-key]",
		"sk-!" + key:                      "sk-![api-key]",
		"AKIAABCDEFGHIJKLMNOP.":           "[aws-key].",
		"AKIAabcdefghijklmnop":            "AKIAabcdefghijklmnop",
		"Bearer eyJhbGciOiJIUzI1NiJ9.e30.abcdefgh_": "Bearer [jwt]",
		"ghp_" + strings.Repeat("a", 36):            "[github-token]",
		"sk-":                                       "sk-",
		`{"a":"keys:\n` + key + `"}`:                `{"a":"keys:\n[api-key]"}`, // JSON within a text
		`\t` + key + `\\r` + key:                    `\t[api-key]\\r[api-key]`,
		`\u003c` + key + `\u00e9` + key:             `\u003c[api-key]\u00e9[api-key]`,
		`\u003` + key:                               `\u003` + key,
		`\x` + key:                                  `\x` + key,
		key + `\n` + key:                            `[api-key]\n[api-key]`,
		`\u0073k-` + key[3:]:                        `[api-key]`, // escaped, as JSON may have it
		key[:9] + `\u0041\u002D` + key[9:]:          `[api-key]`,
		key + `\u0041\u005A!`:                       `[api-key]!`,
		`x\u0061` + key:                             `x\u0061` + key, // a word that ends like a prefix
		`\u00` + key:                                `\u00` + key,
		`{"arguments":"{\"a\":\"` + key + `\"}"}`:   `{"arguments":"{\"a\":\"[api-key]\"}"}`,
		`{"arguments":"{\"a\":\"\\u0073k-` + key[3:] + `\"}"}`:               `{"arguments":"{\"a\":\"[api-key]\"}"}`,
		`"\"{\\\"a\\\":\\\"x\\\\n\\\\u0073k\\\\u002d` + key[3:] + `\\\"}\""`: `"\"{\\\"a\\\":\\\"x\\\\n[api-key]\\\"}\""`, // three deep
		strings.Repeat(`\`, 40) + key:                                        strings.Repeat(`\`, 40) + `[api-key]`,
	} {
		got, n := m.Text(text)
		if got != want || n != strings.Count(want, "[") {
			t.Errorf("%q: %q (%d), want %q", text, got, n, want)
		}
	}
	var none *Masker
	if got, n := none.Text(key); got != key || n != 0 {
		t.Errorf("without rules: %q, %d", got, n)
	}
}

func TestJSON(t *testing.T) {
	m := defaults(t)
	for text, want := range map[string]string{
		`{"a": "x", "b":[9007199254740993, 1.0]}`:                             `{"a": "x", "b":[9007199254740993, 1.0]}`,
		`{"a": "` + key + `", "n":1.50}`:                                      `{"a": "[api-key]", "n":1.50}`,
		`{"a":"line\n` + key + `"}`:                                           `{"a":"line\n[api-key]"}`,
		`{"a":"\u4e2d` + key + `"}`:                                           `{"a":"\u4e2d[api-key]"}`,
		`{"a":"\u0073k-` + key[3:] + `"}`:                                     `{"a":"[api-key]"}`,
		`{"a":"say \"` + key + `\""}`:                                         `{"a":"say \"[api-key]\""}`,
		`["` + key + `","` + key + `"]`:                                       `["[api-key]","[api-key]"]`,
		`{"arguments":"{\"a\":\"\\u0073k-` + key[3:] + `\"}","n":"\u00e9\/"}`: `{"arguments":"{\"a\":\"[api-key]\"}","n":"\u00e9\/"}`,
		`{"a":"\u0073\u006b-` + key[3:] + `\u0041", "b":"\n"}`:                `{"a":"[api-key]", "b":"\n"}`,
		`{"a":"` + key:         `{"a":"` + key,
		`"\ud800 ` + key + `"`: `"\ud800 [api-key]"`,
	} {
		if got, _ := m.JSON([]byte(text)); string(got) != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestStreamIsWhole: however a text is cut, the result equals that of the whole text. Only the beginning of a
// possible secret is held back.
func TestStreamIsWhole(t *testing.T) {
	m, err := New([]Rule{prefixed("a", "ab", "a-c", 3), prefixed("b", "abc", "a-z", 2), prefixed("c", "-", "-a", 2), prefixed("d", "x-", "x-", 4)})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "x", "-", " ", "z", `\`, "u", `\u006`, "1", `\u0061`, `\\u0062`, `\n`, `\"`, ";base64,", "+ab", "/", `data":"`, strings.Repeat("q", 100)}), 0, 60).Draw(t, "text"), "")
		whole := m.Stream()
		want := string(whole.Close(whole.Write(nil, text)))
		if masked, n := m.Text(text); masked != want || n != whole.Found() {
			t.Fatalf("%q: Text says %q (%d), a stream %q (%d)", text, masked, n, want, whole.Found())
		}
		s := m.Stream()
		var got []byte
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			got = s.Write(got, rest[:n])
			rest = rest[n:]
			if len(s.held) >= (2+4)*(maxSlashes+5) {
				t.Fatalf("%q: holds back %q", text, s.held)
			}
		}
		if got = s.Close(got); string(got) != want || s.Found() != whole.Found() {
			t.Fatalf("%q: %q (%d) in pieces, %q (%d) at once", text, got, s.Found(), want, whole.Found())
		}
	})
}

// TestLargePieces: a piece that is large is not held on to, when what it begins at its end is.
func TestLargePieces(t *testing.T) {
	s := defaults(t).Stream()
	s.Write(nil, strings.Repeat("word ", 100_000)+"s")
	if !s.Held() || cap(s.held) > maxHeld {
		t.Errorf("%d bytes", cap(s.held))
	}
	if got := string(s.Close(s.Write(nil, key[1:]))); got != "[api-key]" {
		t.Errorf("%q", got)
	}
}

// TestNothingIsHeld of text without the beginning of a secret.
func TestNothingIsHeld(t *testing.T) {
	s := defaults(t).Stream()
	for _, piece := range []string{"Good", " day", ", ", "task", "-", "s", "t"} {
		before := s.Held()
		out := string(s.Write(nil, piece))
		if !before && !s.Held() && out != piece {
			t.Errorf("%q became %q", piece, out)
		}
		if piece != "s" && s.Held() {
			t.Errorf("held back after %q", piece)
		}
	}
}

func TestNew(t *testing.T) {
	_, err := New([]Rule{{}, prefixed(`a"`, "sk ", "z-a", 2000), prefixed("c", "x", "a\"", 1)})
	for _, want := range []string{`rule 1, "": name`, `prefix ""`, "min 0", `class ""`, `rule 2, "a\"": name`, `prefix "sk "`, "z-a is the wrong way", "min 2000", `rule 3, "c": class`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s in %v", want, err)
		}
	}
	if _, err := New(make([]Rule, maxRules+1)); err == nil || !strings.Contains(err.Error(), "257 rules") {
		t.Errorf("as many as one likes: %v", err)
	}
}

func FuzzJSON(f *testing.F) {
	m, kinds := defaults(f), all(f)
	f.Add([]byte(`{"a":"4111\u0031111 1111 1111","b":"ada@example.com\\"}`))
	f.Add([]byte(`{"a":"\u4e2d` + key + `","b":[1,"\\"]}`))
	f.Add([]byte(`"\`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, n := m.JSON(text)
		if json.Valid(text) && !json.Valid(got) {
			t.Errorf("%q became %q", text, got)
		}
		if wide, _ := kinds.JSON(text); json.Valid(text) && !json.Valid(wide) {
			t.Errorf("%q became %q", text, wide)
		}
		if n == 0 && string(got) != string(text) {
			t.Errorf("nothing found, and %q became %q", text, got)
		}
		if again, n := m.JSON(got); n != 0 && json.Valid(text) {
			t.Errorf("%q has still %d in it: %q", got, n, again)
		}
	})
}

// chance is base64 in which a secret seems to be.
const chance = "AAA+eyJAAAABBBBCCCCDDDDEEEEFFFFGGGGHHHH/AKIAABCDEFGHIJKLMNOP+AAAA"

// Base64 at its known places stays unchanged, in requests, answers, tools' results, and JSON within texts.
func TestBase64IsNoText(t *testing.T) {
	m := defaults(t)
	lines := chance + `\r\n` + strings.ReplaceAll(chance, "/", `\/`)
	quoted, err := json.Marshal(`{"type":"image","data":"` + chance + `","mimeType":"image/png"}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`{"type":"image_url","image_url":{"url":"data:image/png;base64,` + chance + `"}}`,
		`{"type":"input_image","image_url":"data:image/png;base64,` + chance + `"}`,
		`{"type":"image_url","image_url":{"url":"data:image\/png;charset=x;BASE64,` + strings.ReplaceAll(chance, "/", `\/`) + `"}}`,
		`{"url":"data:application/json;base64,eyJhbGciOiJIUzI1NiJ9AAAABBBBCCCCDDDDEEEE"}`,
		`{"url":"data:x;base64,` + strings.NewReplacer("+", "-", "/", "_").Replace(chance) + `"}`,
		`{"input_audio":{"data":"` + chance + `","format":"wav"}}`,
		`{"input_audio":{"format":"wav", "data" : "` + lines + `"}}`,
		`{"file":{"filename":"a.pdf","file_data":"` + chance + `"}}`,
		`{"file":{"file_data":"data:application/pdf;base64,` + chance + `"}}`,
		`{"data":[{"b64_json":"` + chance + `"}]}`,
		`{"message":{"audio":{"id":"a","data":"` + chance + `","transcript":"hi"}}}`,
		`{"output":[{"type":"image_generation_call","result":"` + chance + `"}]}`,
		`{"output":[{"type":"image_generation_call","result":"eyJ` + strings.Repeat("a", 300) + `"}]}`,
		`{"type":"reasoning","encrypted_content":"gAAA-eyJhbGciOiJIUzI1NiJ9AAAABBBBCCCCDDDDEEEE"}`,
		`{"source":{"type":"base64","media_type":"image/png","data":"` + chance + `"}}`,
		`{"content":[{"type":"image","data":"` + chance + `","mimeType":"image/png"}]}`,
		`{"role":"tool","content":` + string(quoted) + `}`,
		`{"role":"tool","content":"seen: ![x](data:image/png;base64,` + chance + `)"}`,
		`{"output":"` + strings.Repeat("a", longRun) + "/" + chance + `"}`,
		`{"partial_image_b64":"` + chance + `","partial_image_index":0}`,
	} {
		if got, n := m.JSON([]byte(text)); n != 0 || string(got) != text {
			t.Errorf("%s became %s", text, got)
		}
	}
	if got, n := m.Field("partial_image_b64", []byte(`"`+chance+`"`)); n != 0 {
		t.Errorf("%s", got)
	}
	// What stands for itself is a secret, wherever it is, and so is what follows base64.
	for text, want := range map[string]string{
		`{"data":"AKIAABCDEFGHIJKLMNOP"}`:                         `{"data":"[aws-key]"}`,
		`{"result":"AKIAABCDEFGHIJKLMNOP"}`:                       `{"result":"[aws-key]"}`,
		`{"result":"` + key + `"}`:                                `{"result":"[api-key]"}`,
		`{"input_audio":{"data":"` + key + `"}}`:                  `{"input_audio":{"data":"[api-key]"}}`,
		`{"image_url":{"url":"https://example.com/` + key + `"}}`: `{"image_url":{"url":"https://example.com/[api-key]"}}`,
		`{"image_url":{"url":"data:text/plain,` + key + `"}}`:     `{"image_url":{"url":"data:text/plain,[api-key]"}}`,
		`{"content":"data:image/png;base64,AAAA ` + key + `"}`:    `{"content":"data:image/png;base64,AAAA [api-key]"}`,
		`{"content":"see /home/me/AKIAABCDEFGHIJKLMNOP"}`:         `{"content":"see /home/me/[aws-key]"}`,
		`{"content":"{\"data\": \"` + key + `\"}"}`:               `{"content":"{\"data\": \"[api-key]\"}"}`,
		`{"audio":{"data":"AAAA"},"data":"AKIAABCDEFGHIJKLMNOP"}`: `{"audio":{"data":"AAAA"},"data":"[aws-key]"}`,
		`{"encrypted_content":"x y ` + key + `"}`:                 `{"encrypted_content":"x y [api-key]"}`,
		`{"file_data":"AAAA","` + key + `":["` + key + `"]}`:      `{"file_data":"AAAA","[api-key]":["[api-key]"]}`,
	} {
		if got, _ := m.JSON([]byte(text)); string(got) != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// Any bytes in base64 come through, however a text with them is cut.
func TestAnyBase64(t *testing.T) {
	m := defaults(t)
	rapid.Check(t, func(t *rapid.T) {
		image := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"A", "z9", "+", "/", "+eyJ", "/sk", "+AKIA", "/AIza", strings.Repeat("B", 40), strings.Repeat("Q", 16)}), 1, 50).Draw(t, "image"), "")
		text := "look: data:image/png;base64," + image + "== and " + key
		want := strings.TrimSuffix(text, key) + "[api-key]"
		if got, _ := m.Text(text); got != want {
			t.Fatalf("%q became %q", text, got)
		}
		s := m.Stream()
		var got []byte
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			got = s.Write(got, rest[:n])
			rest = rest[n:]
		}
		if got = s.Close(got); string(got) != want {
			t.Fatalf("%q became %q in pieces", text, got)
		}
	})
}
