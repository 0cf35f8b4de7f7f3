package serve

import (
	"fmt"
	"io"
	"os"
)

// ReadFile reads a file that has at most the given bytes, even if it does not say how many.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was read only
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(content)) > most {
		return nil, fmt.Errorf("%s: is too large: must have %d bytes at most", path, most)
	}
	return content, err
}
