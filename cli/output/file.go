// Package output writes results to files, pipes and terminals, as JSON or text. It replaces files as a whole. The
// reader of a pipe may go away.
package output

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Replace writes a file atomically: a concurrent reader gets the old file, and so does a reader
// after a failed write. A link stays. Replace writes into a file that is not regular, such as a
// pipe or /dev/null. It also writes into a file that cannot be replaced: its folder is not
// writable, or it is a mount of its own.
func Replace(name string, write func(io.Writer) error) (err error) {
	info, err := os.Stat(name)
	exists := err == nil
	if exists && !info.Mode().IsRegular() {
		return overwrite(name, 0, write)
	}
	if file, err := filepath.EvalSymlinks(name); err == nil {
		name = file
	}
	temp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		if exists && errors.Is(err, fs.ErrPermission) {
			return overwrite(name, os.O_TRUNC, write)
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	if err := errors.Join(write(temp), temp.Chmod(0o644), temp.Close()); err != nil {
		return err
	}
	err = os.Rename(temp.Name(), name)
	if errors.Is(err, syscall.EBUSY) {
		return errors.Join(overwrite(name, os.O_TRUNC, write), os.Remove(temp.Name()))
	}
	return err
}

// overwrite writes to a file that is there.
func overwrite(name string, flag int, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|flag, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// replaceable tells in time why replace could not write a file. Of what is there it changes nothing.
func replaceable(name string) error {
	info, err := os.Stat(name)
	exists := err == nil
	switch {
	case exists && info.IsDir():
		return &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	case !exists && !errors.Is(err, fs.ErrNotExist):
		return err
	case !exists || info.Mode().IsRegular():
		temp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
		if err == nil {
			return errors.Join(temp.Close(), os.Remove(temp.Name()))
		}
		if !exists || !errors.Is(err, fs.ErrPermission) {
			var failed *fs.PathError
			if errors.As(err, &failed) {
				failed.Path = name
			}
			return err
		}
	}
	if err := writable(name); err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return nil
}
