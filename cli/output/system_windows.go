package output

import (
	"io"
	"os"

	"dyno/internal/terminal"

	"golang.org/x/sys/windows"
)

// writable returns why a file cannot be written to; nil if it can.
func writable(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// onlyReads cannot be asked here: the first write tells it.
func onlyReads(uintptr) (bool, error) { return false, nil }

// showsColour reports whether a terminal shows colours. A console does so only once it is asked to.
func showsColour(w io.Writer) bool {
	f, ok := terminal.Raw(w).(*os.File)
	if !ok {
		return false
	}
	var mode uint32
	console := windows.Handle(f.Fd())
	return windows.GetConsoleMode(console, &mode) == nil && windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
