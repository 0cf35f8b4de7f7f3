package intent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func read(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func rules(t testing.TB) *Parser {
	t.Helper()
	p, err := Parse(read(t, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestQuality holds the rules to the labelled set. The bounds are a little below what
// they reach: a change that makes them worse fails.
func TestQuality(t *testing.T) {
	examples, err := ParseExamples(string(read(t, "examples.tsv")))
	if err != nil {
		t.Fatal(err)
	}
	m := Measure(rules(t), examples)
	t.Logf("accuracy %.3f of %d", m.Accuracy, m.Examples)
	for _, q := range m.Intents {
		t.Logf("%-10s precision %.3f recall %.3f f1 %.3f", q.Intent, q.Precision, q.Recall, q.F1)
		if !(q.F1 >= 0.85) {
			t.Errorf("%s: F1 %.3f", q.Intent, q.F1)
		}
	}
	for _, mistake := range m.Mistakes {
		t.Log(mistake)
	}
	if m.Examples < 60 || len(m.Intents) != 5 || m.Accuracy < 0.92 {
		t.Errorf("%d examples of %d intents, accuracy %.3f", m.Examples, len(m.Intents), m.Accuracy)
	}
}

func TestFind(t *testing.T) {
	p, err := New(Rules{Fallback: "other", Threshold: 2, Intents: []Intent{
		{"one", []Term{{Word: "cat"}, {Text: "ABC", Weight: 2}, {Pattern: "^x+$", Weight: 3}, {Text: "never", Weight: -5}}},
		{"two", []Term{{Word: "cat", Weight: 2}, {Text: "abc", Weight: 2}, {Word: "天气", Weight: 4}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]Match{
		"":                                   {"other", 0, 0},
		"cat":                                {"two", 2, 0},
		"a cat.":                             {"two", 2, 0},
		"concatenate cats":                   {"other", 0, 0},
		"concat cat":                         {"two", 2, 0},
		"abc":                                {"one", 2, 2},
		"ABC":                                {"one", 2, 2},
		"abc cat":                            {"two", 4, 3},
		"XXXX":                               {"one", 3, 0},
		"abc never":                          {"two", 2, 0},
		"今天天气好":                              {"two", 4, 0},
		"\xff\xfe broken abc":                {"one", 2, 2},
		strings.Repeat("天", maxText) + "abc": {"other", 0, 0},
	} {
		if got := p.Find(text); got != want {
			t.Errorf("%.20q: %+v, want %+v", text, got, want)
		}
	}
	if got := Default().Find("weather"); got.Intent != "chat" {
		t.Errorf("without rules: %+v", got)
	}
}

func TestParseFaults(t *testing.T) {
	for text, want := range map[string][]string{
		"fallback: x\nintent: []": {"intent"}, // an unknown field
		"intents: [{name: a}, {name: a, terms: [{text: x, word: y}, {pattern: '('}, {text: x, weight: 2000}]}]": {"fallback", `intent "a": has no terms`, `intent 2: name "a"`, "term 1: must have one", "term 2: error parsing", "term 3: weight 2000"},
		"fallback: x\nthreshold: -1": {"threshold: -1"},
		"fallback: x\nintents: [{name: a, terms: [{text: " + strings.Repeat("x", 513) + "}]}]": {"513 bytes"},
		strings.Repeat("#", maxFile+1): {"1048577 bytes"},
		"fallback: \xff":               {"not UTF-8"},
	} {
		_, err := Parse([]byte(text))
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%.60q: not reported: %s in %v", text, w, err)
			}
		}
	}
}

// TestFile: a changed file is read again, and one with a fault changes nothing.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	at := time.Now()
	write := func(text string) {
		t.Helper()
		at = at.Add(time.Second) // two changes in one tick of the file system's clock would be one
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write("fallback: one")
	synctest.Test(t, func(t *testing.T) {
		f, err := Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f.Watch(ctx, time.Second)
		}()
		pass := func() {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		for _, c := range []struct {
			text, want   string
			good, faulty uint64
		}{
			{"", "one", 1, 0}, {"fallback: two", "two", 2, 0}, {"fallback: [", "two", 2, 1}, {"fallback: three", "three", 3, 1},
		} {
			if c.text != "" {
				write(c.text)
			}
			pass()
			if got := f.Find("x").Intent; got != c.want {
				t.Errorf("after %q: %s, want %s", c.text, got, c.want)
			}
			if good, faulty := f.Loads(); good != c.good || faulty != c.faulty {
				t.Errorf("after %q: read %d times, %d with a fault", c.text, good, faulty)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		pass()
		if got := f.Find("x").Intent; got != "three" {
			t.Errorf("without the file: %s", got)
		}
		stop()
		<-ended
	})
	if _, err := Open(path, nil); err == nil {
		t.Error("opened what is not there")
	}
}

// TestFileIsTriedAgain: an unreadable file is read as soon as it is readable, although it has not changed.
func TestFileIsTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte("fallback: one"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	// A folder, which cannot be read by anybody, looks the same as the file that is there afterwards.
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	for i := range 10 { // where a folder has as many bytes as its entries need
		if err := os.Mkdir(filepath.Join(path, fmt.Sprint("entry", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.load(); err == nil {
		t.Fatal("a folder was read")
	}
	const text = "fallback: two\n"
	if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte(text+strings.Repeat("#", max(int(info.Size())-len(text), 0))), 0o600), os.Chtimes(path, time.Time{}, info.ModTime())); err != nil {
		t.Fatal(err)
	}
	if err := f.load(); err != nil || f.Find("x").Intent != "two" {
		t.Errorf("%v, %s", err, f.Find("x").Intent)
	}
}

// TestPatternCase: letters of a pattern are of either case, as texts are compared in lower case; what is wrong
// with one is shown as it was written.
func TestPatternCase(t *testing.T) {
	p, err := Parse([]byte("fallback: x\nintents: [{name: a, terms: [{pattern: '^Wetter|REGEN\\b'}]}]"))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"Wetter heute": "a", "wetter": "a", "viel Regen": "a", "viel regen!": "a", "regens": "x", "das Wetter": "x"} {
		if got := p.Find(text).Intent; got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if _, err := Parse([]byte("fallback: x\nintents: [{name: a, terms: [{pattern: 'A('}]}]")); err == nil || strings.Contains(err.Error(), "(?i)") || !strings.Contains(err.Error(), "`A(`") {
		t.Errorf("%v", err)
	}
}

func FuzzFind(f *testing.F) {
	p := rules(f)
	f.Add("今天北京天气怎么样?")
	f.Add("\xff weather")
	f.Fuzz(func(t *testing.T, text string) {
		m := p.Find(text)
		if m.Score < m.Next || m.Score != 0 && m.Score < 1 {
			t.Errorf("%q: %+v", text, m)
		}
	})
}
