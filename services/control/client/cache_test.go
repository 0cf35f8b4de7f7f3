package client

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"dyno/services/control/resource"
)

// item makes one of a document.
func item(t *testing.T, doc any) Item {
	t.Helper()
	body, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	i := Item{Version: 1, Body: body, Resource: doc}
	switch d := doc.(type) {
	case *resource.Config:
		i.Ref = d.Ref()
	case *resource.Instance:
		i.Ref = d.Ref()
	default:
		t.Fatalf("%T", doc)
	}
	return i
}

// cachedWatch is a watch that nothing fills.
func cachedWatch(t *testing.T, folder string) *Watch {
	t.Helper()
	c, err := New(Config{Servers: []string{"http://127.0.0.1:1"}, Cache: folder})
	if err != nil {
		t.Fatal(err)
	}
	q := Query{Namespace: "n", Kinds: []resource.Kind{resource.Configs}}
	return &Watch{client: c, query: q, file: cacheFile(folder, c.cfg, q), items: map[string]Item{}, moved: make(chan struct{})}
}

func TestCache(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "folder")
	w := cachedWatch(t, folder)
	open := item(t, &resource.Config{Namespace: "n", Name: "open", Content: "a"})
	w.items[open.Path()], w.token, w.at, w.dirty = open, "epoch-7", time.Now().Round(0).UTC(), true
	if err := w.save(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(w.file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	other := cachedWatch(t, folder)
	if err := other.load(); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(other.items, w.items) || other.token != "epoch-7" || !other.at.Equal(w.at) || other.generation != 1 || other.current {
		t.Errorf("loaded %+v, token %q, at %v, generation %d", other.items, other.token, other.at, other.generation)
	}

	// A secret is not on the disk, and so everything is asked for again.
	secret := item(t, &resource.Config{Namespace: "n", Name: "secret", Content: "password", Secret: true})
	w.items[secret.Path()], w.dirty = secret, true
	if err := w.save(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(w.file)
	if err != nil || strings.Contains(string(text), "password") {
		t.Errorf("%s, %v", text, err)
	}
	other = cachedWatch(t, folder)
	if err := other.load(); err != nil || other.token != "" || len(other.items) != 1 {
		t.Errorf("token %q, %d items, %v", other.token, len(other.items), err)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("left in the folder: %v, %v", entries, err)
	}
}

// What is no cache is not believed, and does not hinder.
func TestCacheFaults(t *testing.T) {
	for name, text := range map[string]string{
		"empty":         "",
		"cut off":       `{"version":1,"items":[`,
		"version":       `{"version":2}`,
		"another query": `{"version":1,"query":"x"}`,
		"token":         `{"version":1,"token":"a\r\nb"}`,
		"reference":     `{"version":1,"items":[{"kind":"config","namespace":"../n","name":"a","resource":{}}]}`,
		"kind":          `{"version":1,"items":[{"kind":"x","namespace":"n","name":"a","resource":{}}]}`,
		"document":      `{"version":1,"items":[{"kind":"config","namespace":"n","name":"a","resource":[]}]}`,
	} {
		w := cachedWatch(t, t.TempDir())
		if err := os.WriteFile(w.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := w.load(); err == nil || len(w.items) > 0 || w.generation > 0 {
			t.Errorf("%s: %v, %v", name, err, w.items)
		}
	}
}

func FuzzParseCache(f *testing.F) {
	f.Add([]byte(`{"version":1,"query":"q","token":"e-1","items":[{"kind":"config","namespace":"n","name":"a","version":1,"resource":{"content":"x"}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parseCache(text)
		if err != nil {
			return
		}
		for _, i := range c.Items {
			if i.Resource == nil || i.Check() != nil {
				t.Errorf("%q: %+v", text, i)
			}
		}
	})
}
