package draft

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"dyno/load/scenario/template"
)

// Find returns the path of a file that the imported file names. It is relative to the working folder or
// to the imported file's folder. The file must be below the latter, after symbolic links are followed,
// unless the user allows others: the author of an imported file must not choose what is read on this
// machine.
func (d *Draft) Find(name string) (path string, err error) {
	err = fmt.Errorf("%s cannot be read", name)
	for _, path := range []string{name, filepath.Join(filepath.Dir(d.Source.File), name)} {
		if info, missing := os.Stat(path); missing != nil || !info.Mode().IsRegular() {
			continue
		}
		if d.Source.AllowFiles || isBelow(filepath.Dir(d.Source.File), path) {
			return path, nil
		}
		err = &OutsideError{name, d.Source.File}
	}
	return "", err
}

// An OutsideError says that a file may not be read.
type OutsideError struct{ name, file string }

func (e *OutsideError) Error() string {
	return fmt.Sprintf("%s is not below the folder of %s; --allow-files reads such files", e.name, filepath.Base(e.file))
}

// isBelow tells whether a path is below a folder. A missing file is where its folder is.
func isBelow(folder, path string) bool {
	real := func(path string) (string, error) {
		path, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		resolved, err := filepath.EvalSymlinks(path)
		if errors.Is(err, os.ErrNotExist) {
			if resolved, err = filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
				resolved = filepath.Join(resolved, filepath.Base(path))
			}
		}
		return resolved, err
	}
	within, err := real(folder)
	if err != nil {
		return false
	}
	found, err := real(path)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(within, found)
	return err == nil && filepath.IsLocal(rel)
}

// ReadFile returns what a file holds that the imported one names.
func (d *Draft) ReadFile(name string) (string, error) {
	path, err := d.Find(name)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Size() > template.MaxText {
		return "", fmt.Errorf("%s has more than %d bytes", name, template.MaxText)
	}
	content, err := os.ReadFile(path)
	return string(content), err
}

// AddFile adds a file that the experiment needs, and returns its path as a plan has it; "" if none can be written, which is
// then listed.
func (d *Draft) AddFile(line int, name string, content []byte) string {
	if d.Source.Out == "" {
		d.Leave(line, name, "it needs a file next to the experiment", "write the experiment to a file by --out")
		return ""
	}
	name = d.fileName(name)
	d.files = append(d.files, File{Name: name, Content: content})
	return filepath.Join(filepath.Dir(d.Source.Out), name)
}

// fileName is what a file is called next to the experiment.
func (d *Draft) fileName(name string) string {
	stem := strings.TrimSuffix(filepath.Base(d.Source.Out), filepath.Ext(d.Source.Out))
	return stem + "-" + notInName().ReplaceAllString(name, "-")
}

// Relative returns the path, as a plan has it, of a file that the imported one names. It is empty if the file may not be
// read, which is then listed.
func (d *Draft) Relative(line int, name string) string {
	path, err := d.Find(name)
	if err != nil {
		if path = name; !filepath.IsAbs(name) {
			path = filepath.Join(filepath.Dir(d.Source.File), name)
		}
	}
	if !d.Source.AllowFiles && !isBelow(filepath.Dir(d.Source.File), path) {
		d.LeaveFault(line, name, &OutsideError{name, d.Source.File}, "")
		return ""
	}
	if filepath.IsAbs(path) {
		return path
	}
	if folder, err := filepath.Abs(filepath.Dir(d.Source.Out)); err == nil && d.Source.Out != "" {
		if whole, err := filepath.Abs(path); err == nil {
			if rel, err := filepath.Rel(folder, whole); err == nil {
				return filepath.Join(filepath.Dir(d.Source.Out), rel)
			}
		}
	}
	return path
}
