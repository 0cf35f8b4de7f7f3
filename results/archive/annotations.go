// Package archive keeps many run folders below a root: it finds them, and holds what people say about each.
package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"dyno/internal/lazyregexp"
	"dyno/results/rundir"
)

// AnnotationsFile holds what people say about a run. It is no evidence, so it is a file of its own.
const AnnotationsFile = "annotations.json"

// The bounds of Annotations.
const (
	MaxTags = 32
	MaxNote = 2000 // bytes
)

// Annotations are what people say about a run.
type Annotations struct {
	Tags     []string  `json:"tags,omitempty"` // in order
	Note     string    `json:"note,omitempty"`
	PinnedAt time.Time `json:"pinned_at,omitzero"` // when it became the baseline; the latest counts
}

var tagForm = lazyregexp.New(`^[\p{L}\p{N}][\p{L}\p{N}._/-]{0,63}$`)

// check returns all faults.
func (a *Annotations) check() error {
	var faults []error
	for _, tag := range a.Tags {
		if !tagForm().MatchString(tag) {
			faults = append(faults, fmt.Errorf("tag %q: want up to 64 letters, digits and . _ / -", tag))
		}
	}
	if len(a.Tags) > MaxTags {
		faults = append(faults, fmt.Errorf("%d tags, want at most %d", len(a.Tags), MaxTags))
	}
	if len(a.Note) > MaxNote || !utf8.ValidString(a.Note) {
		faults = append(faults, fmt.Errorf("a note of %d bytes, want text of at most %d", len(a.Note), MaxNote))
	}
	return errors.Join(faults...)
}

// ReadAnnotations reads the annotations of a run folder. Without a file there are none.
func ReadAnnotations(dir string) (a Annotations, err error) {
	if err = rundir.ReadJSON(dir, AnnotationsFile, &a); errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err == nil {
		err = a.check()
	}
	if err != nil {
		return Annotations{}, fmt.Errorf("run folder: %s: %w", filepath.Join(dir, AnnotationsFile), err)
	}
	return a, nil
}

// Annotate changes the annotations of a run folder. The run may still be measured.
func Annotate(dir string, change func(*Annotations)) error {
	if _, err := rundir.ReadRun(dir); err != nil {
		return err
	}
	a, err := ReadAnnotations(dir)
	if err != nil {
		return err
	}
	change(&a)
	a.Tags, a.Note = slices.Compact(slices.Sorted(slices.Values(a.Tags))), strings.TrimSpace(a.Note)
	if err := a.check(); err != nil {
		return err
	}
	return rundir.WriteJSON(dir, AnnotationsFile, &a)
}
