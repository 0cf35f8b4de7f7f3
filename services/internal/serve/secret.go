package serve

import (
	"bytes"
	"fmt"
	"os"
)

// maxSecretFile bounds a file of a secret, in bytes.
const maxSecretFile = 1 << 20

// ReadSecret reads a file that has a secret and nothing else, but for the ends of lines behind it. An empty one
// is a fault: it would be as if no secret had been asked for.
func ReadSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxSecretFile {
		return nil, fmt.Errorf("%s: %d bytes: must be %d at most", path, info.Size(), maxSecretFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if text = bytes.TrimRight(text, "\r\n"); len(text) == 0 {
		return nil, fmt.Errorf("%s: is empty: write the secret into it, or do not name it", path)
	}
	return text, nil
}
