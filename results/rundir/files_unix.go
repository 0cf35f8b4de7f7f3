//go:build unix

package rundir

import (
	"errors"
	"os"
	"syscall"
)

// readOnly opens a file without waiting, as opening a pipe would for its writer.
const readOnly = os.O_RDONLY | syscall.O_NONBLOCK

// syncDir makes a rename in a folder durable.
func (w *Writer) syncDir(dir string) error {
	d, err := w.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(w.sync(d), d.Close())
}
