// Package secretfile reads files that have a secret, if not every user of the machine may.
package secretfile

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"dyno/internal/textfile"
)

// maxBytes bounds a file.
const maxBytes = 1 << 20

// othersMode are the mode bits by which users other than the file's owner and group may read or write
// it. Windows has no such bits. The group may: on Kubernetes, a service reads secrets as a member of
// the group that the volume has (fsGroup).
const othersMode = 0o006

// A LooseError says that others may read or write a file that has a secret.
type LooseError struct {
	Path string
	Mode os.FileMode
}

func (e *LooseError) Error() string {
	return fmt.Sprintf("%s: its mode is %04o: every user of this machine could read or replace the secret: chmod 600 %[1]s", e.Path, e.Mode.Perm())
}

// open opens a file. A LooseError says that others may read it. For a symbolic link, its target counts.
func open(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode()&othersMode != 0 && runtime.GOOS != "windows" {
		err = &LooseError{path, info.Mode()}
	}
	if err != nil {
		_ = f.Close() // it was read only
		return nil, err
	}
	return f, nil
}

// Check returns nil if a file can be opened, and others may not read it. It is for files that a
// library reads.
func Check(path string) error {
	f, err := open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// A Text is a secret that a configuration keeps in a file of its own.
type Text string

// SetText reads the secret from a file, whose path is relative to a folder.
func (t *Text) SetText(path, folder string) error {
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	secret, err := Read(path)
	*t = Text(secret)
	return err
}

// Read reads a file that has a secret and nothing else, but for the ends of lines after it. An empty
// one is a fault: it would be as if no secret had been asked for. A file that others may read is a
// fault too.
func Read(path string) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was read only
	text, err := textfile.ReadAll(path, f, maxBytes)
	if err != nil {
		return nil, err
	}
	if text, err = textfile.TrimMark(path, text); err != nil {
		return nil, err
	}
	if text = bytes.TrimRight(text, "\r\n"); len(text) == 0 {
		return nil, fmt.Errorf("%s: is empty: write the secret into it, or do not name it", path)
	}
	return text, nil
}

// LoadKeyPair reads a certificate and its key, which others may not read.
func LoadKeyPair(certificate, key string) (tls.Certificate, error) {
	if err := Check(key); err != nil {
		return tls.Certificate{}, err
	}
	return tls.LoadX509KeyPair(certificate, key)
}

// Authorities reads certificates in PEM.
func Authorities(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: has no certificate in PEM", path)
	}
	return pool, nil
}

// ClientTLS returns the configuration of a client that trusts the authorities of a file, and shows a certificate; without
// a file, it trusts the system's, and without a certificate, it shows none. Errors name the fields ca and cert after a
// prefix.
func ClientTLS(prefix, ca, certificate, key string) (*tls.Config, error) {
	if (certificate == "") != (key == "") {
		return nil, fmt.Errorf("%scert and %[1]skey go together", prefix)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		var err error
		if c.RootCAs, err = Authorities(ca); err != nil {
			return nil, fmt.Errorf("%sca: %w", prefix, err)
		}
	}
	if certificate != "" {
		pair, err := LoadKeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("%scert: %w", prefix, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
