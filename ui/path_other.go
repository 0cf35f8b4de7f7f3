//go:build !linux

package ui

import (
	"os"
	"path/filepath"
)

func pathTo(root *os.Root, id string, _ *os.File) string { return filepath.Join(root.Name(), id) }
