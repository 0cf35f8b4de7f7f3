package serve

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// maxSecretFile bounds a file of a secret, in bytes.
const maxSecretFile = 1 << 20

// ReadSecret reads a file that has a secret and nothing else, but for the ends of lines behind it. An empty one
// is a fault: it would be as if no secret had been asked for.
func ReadSecret(path string) ([]byte, error) {
	text, err := ReadFile(path, maxSecretFile)
	if err != nil {
		return nil, err
	}
	if text = bytes.TrimRight(text, "\r\n"); len(text) == 0 {
		return nil, fmt.Errorf("%s: is empty: write the secret into it, or do not name it", path)
	}
	return text, nil
}

// ReadFile reads a file that has so many bytes at most, be it one that does not say how many.
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
