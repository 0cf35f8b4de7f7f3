package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"dyno/services/control/resource"
	"dyno/services/internal/wait"
)

// A cached file is what a watch knew, in JSON, behind a line with its checksum. A change
// of its fields takes a new cacheVersion.
type cached struct {
	Version int       `json:"version"`
	Query   string    `json:"query"`
	Token   string    `json:"token"`
	At      time.Time `json:"at"`
	Items   []Item    `json:"items"`
}

// cacheVersion is the form of the file, and maxCache what one may have, in bytes.
const (
	cacheVersion = 2
	maxCache     = 256 << 20
)

// cacheFile is where a query has its file. Gray releases give programs of different names
// and labels different contents.
func cacheFile(folder string, c Config, q Query) string {
	who, err := json.Marshal([]any{q, c.Name, c.Labels})
	if err != nil {
		who = []byte(q.key()) // texts only: it cannot be
	}
	sum := sha256.Sum256(who)
	return filepath.Join(folder, "control-"+hex.EncodeToString(sum[:8])+".json")
}

// load reads the cache, if there is one.
func (w *Watch) load() error {
	info, err := os.Stat(w.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Size() > maxCache {
		return fmt.Errorf("%d bytes: must be %d at most", info.Size(), maxCache)
	}
	text, err := os.ReadFile(w.file)
	if err != nil {
		return err
	}
	if text, err = intact(text); err != nil {
		return err
	}
	c, err := parseCache(text)
	if err != nil {
		return err
	}
	if c.Query != w.query.key() {
		return errors.New("it is of another query")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range c.Items {
		w.items[i.Path()] = i
	}
	w.token, w.at = c.Token, c.At
	w.move()
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is the line before what it is of. A document with a flipped bit would mostly be one
// still, and stay what a program begins with.
func checksum(text []byte) string {
	return fmt.Sprintf("crc32c %08x\n", crc32.Checksum(text, castagnoli))
}

// intact returns the bytes after a file's checksum, if they are as written.
func intact(file []byte) ([]byte, error) {
	at := bytes.IndexByte(file, '\n') + 1
	if text := file[at:]; string(file[:at]) == checksum(text) {
		return text, nil
	}
	return nil, errors.New("its checksum is not right: it is damaged, or of an earlier release")
}

// parseCache reads a cache file, and checks everything in it.
func parseCache(text []byte) (cached, error) {
	var c cached
	if err := json.Unmarshal(text, &c); err != nil {
		return c, err
	}
	if c.Version != cacheVersion {
		return c, fmt.Errorf("version %d: must be %d", c.Version, cacheVersion)
	}
	if strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return c, errors.New("the token is none")
	}
	for n := range c.Items {
		i := &c.Items[n]
		if err := i.Check(); err != nil {
			return c, fmt.Errorf("item %d: %w", n, err)
		}
		var err error
		if i.Resource, err = resource.Parse(i.Kind, i.Body); err != nil {
			return c, fmt.Errorf("%s: %w", i.Ref, err)
		}
	}
	return c, nil
}

// keep writes the cache until ctx ends, and then once more.
func (w *Watch) keep(ctx context.Context) {
	if w.file == "" {
		return
	}
	for {
		more := wait.For(ctx, w.client.cfg.SavePeriod)
		if err := w.save(); err != nil {
			w.client.log.Warn("the cache is not written", "file", w.file, "error", err)
		}
		if !more {
			return
		}
	}
}

// save writes the cache if it is not what is known. What a reader finds is always one
// whole file.
func (w *Watch) save() error {
	w.mu.Lock()
	if !w.dirty || w.filling != nil {
		w.mu.Unlock()
		return nil
	}
	s := w.snapshot()
	c := cached{Version: cacheVersion, Query: w.query.key(), Token: w.token, At: s.At, Items: s.Items[:0]}
	w.dirty = false
	w.mu.Unlock()
	for _, i := range s.Items {
		if one, ok := i.Resource.(*resource.Config); ok && one.Secret {
			c.Token = "" // a secret is not written: everything is asked for again
			continue
		}
		c.Items = append(c.Items, i)
	}
	err := write(w.file, c)
	if err != nil {
		w.mu.Lock()
		w.dirty = true
		w.mu.Unlock()
	}
	return err
}

// write replaces a file.
func write(file string, c cached) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // for its owner only
	if err != nil {
		return err
	}
	_, err = temporary.WriteString(checksum(text))
	if err == nil {
		_, err = temporary.Write(text)
	}
	if err == nil {
		err = temporary.Sync()
	}
	err = errors.Join(err, temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}
