package client

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
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

// Invalid caches are ignored, and cause no failure.
func TestCacheFaults(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":         {"", "JSON"},
		"cut off":       {`{"version":2,"items":[`, "JSON"},
		"version":       {`{"version":1}`, "version 1"},
		"another query": {`{"version":2,"query":"x"}`, "another query"},
		"token":         {`{"version":2,"token":"a\r\nb"}`, "token"},
		"reference":     {`{"version":2,"items":[{"kind":"config","namespace":"../n","name":"a","resource":{}}]}`, "item 0"},
		"kind":          {`{"version":2,"items":[{"kind":"x","namespace":"n","name":"a","resource":{}}]}`, "item 0"},
		"document":      {`{"version":2,"items":[{"kind":"config","namespace":"n","name":"a","resource":[]}]}`, "config"},
	} {
		w := cachedWatch(t, t.TempDir())
		if err := os.WriteFile(w.file, []byte(checksum([]byte(c.text))+c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := w.load(); err == nil || !strings.Contains(err.Error(), c.want) || len(w.items) > 0 || w.generation > 0 {
			t.Errorf("%s: %v, %v; want %q", name, err, w.items, c.want)
		}
	}
}

// TestCacheDamage: a file with a flipped bit, or cut off, is ignored, and the log says so.
func TestCacheDamage(t *testing.T) {
	w := cachedWatch(t, t.TempDir())
	one := item(t, &resource.Config{Namespace: "n", Name: "a", Content: "x"})
	w.items[one.Path()], w.token, w.at, w.dirty = one, "epoch-7", time.Now(), true
	if err := w.save(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(w.file)
	if err != nil {
		t.Fatal(err)
	}
	load := func(file []byte) error {
		t.Helper()
		if err := os.WriteFile(w.file, file, 0o600); err != nil {
			t.Fatal(err)
		}
		other := cachedWatch(t, filepath.Dir(w.file))
		err := other.load()
		if (err == nil) != (len(other.items) == 1) {
			t.Errorf("%v, and %d items", err, len(other.items))
		}
		return err
	}
	if err := load(good); err != nil {
		t.Fatal(err)
	}
	for n := range good {
		for bit := range 8 {
			file := bytes.Clone(good)
			file[n] ^= 1 << bit
			if err := load(file); err == nil {
				t.Fatalf("bit %d of byte %d has flipped: %s", bit, n, file)
			}
		}
		if err := load(good[:n]); err == nil {
			t.Fatalf("cut off after %d bytes", n)
		}
	}
	var log bytes.Buffer
	c := w.client.cfg
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c.transport = &fake{answer: func(int, *http.Request) *http.Response { return nil }}
	client, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	watch, err := client.Watch(w.query) // of a file that is cut off
	if err != nil {
		t.Fatal(err)
	}
	watch.Close()
	if !strings.Contains(log.String(), "the cache is not used") || !strings.Contains(log.String(), "checksum") {
		t.Errorf("the log has %s", log.String())
	}
}
