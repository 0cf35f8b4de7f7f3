//go:build !linux

package observe

import (
	"errors"
	"time"
)

// The observers read /proc. Elsewhere nothing can be opened, so that none of them is made.

func openProc(string) (procFile, error) { return procFile{-1}, errors.ErrUnsupported }

func (procFile) read([]byte) ([]byte, error) { return nil, errors.ErrUnsupported }

func (procFile) close() {}

func (procFile) size() (float64, error) { return 0, errors.ErrUnsupported }

func (*direntReader) numbers(procFile, func(int)) error { return errors.ErrUnsupported }

func clockSeconds(int32) (float64, error) { return 0, errors.ErrUnsupported }

// ThreadTime fails: it is known on Linux only.
func ThreadTime() (time.Duration, error) { return 0, errors.ErrUnsupported }

// ProcessTime fails: it is known on Linux only.
func ProcessTime() (time.Duration, error) { return 0, errors.ErrUnsupported }

func (w *Wakeup) run(_ []int, _ bool, placed chan<- error) {
	defer close(w.done)
	placed <- errors.ErrUnsupported
}

func (w *Wakeup) interrupt() {}
