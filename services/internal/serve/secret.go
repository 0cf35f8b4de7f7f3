package serve

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"os"
)

// maxSecretFile bounds a file of a secret, in bytes.
const maxSecretFile = 1 << 20

// othersMode are the bits of a file's mode that let users who are neither its owner nor in its group read or write it.
// The group may: on Kubernetes, a service reads secrets as a member of the group that the volume has (fsGroup).
const othersMode = 0o006

// A LooseError says that others may read or write a file that has a secret.
type LooseError struct {
	Path string
	Mode os.FileMode
}

func (e *LooseError) Error() string {
	return fmt.Sprintf("%s: its mode is %04o: every user of this machine could read or replace the secret: chmod 600 %[1]s", e.Path, e.Mode.Perm())
}

// openSecret opens a file that has a secret. A LooseError says that others may read it. Of a symbolic link, the file that it
// leads to counts.
func openSecret(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode()&othersMode != 0 {
		err = &LooseError{path, info.Mode()}
	}
	if err != nil {
		_ = f.Close() // it was read only
		return nil, err
	}
	return f, nil
}

// CheckSecret returns nil if a file can be opened that has a secret, and others may not read it. It is for files that a
// library reads.
func CheckSecret(path string) error {
	f, err := openSecret(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// ReadSecret reads a file that has a secret and nothing else, but for the ends of lines behind it. An empty one
// is a fault: it would be as if no secret had been asked for. So is one that others may read.
func ReadSecret(path string) ([]byte, error) {
	f, err := openSecret(path)
	if err != nil {
		return nil, err
	}
	text, err := readAll(f, maxSecretFile)
	if err != nil {
		return nil, err
	}
	if text = bytes.TrimRight(text, "\r\n"); len(text) == 0 {
		return nil, fmt.Errorf("%s: is empty: write the secret into it, or do not name it", path)
	}
	return text, nil
}

// LoadKeyPair reads a certificate and its key, which others may not read.
func LoadKeyPair(certificate, key string) (tls.Certificate, error) {
	if err := CheckSecret(key); err != nil {
		return tls.Certificate{}, err
	}
	return tls.LoadX509KeyPair(certificate, key)
}

// ReadFile reads a file that has so many bytes at most, be it one that does not say how many.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return readAll(f, most)
}

// readAll reads a file and closes it.
func readAll(f *os.File, most int64) ([]byte, error) {
	defer func() { _ = f.Close() }() // it was read only
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(content)) > most {
		return nil, fmt.Errorf("%s: is too large: must have %d bytes at most", f.Name(), most)
	}
	return content, err
}
