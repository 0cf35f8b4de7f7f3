// Package backup writes and reads backup files of a control plane. A file is lines of JSON: a header, a record for
// each key, and a trailer with the SHA-256 of all lines before it. It holds the keys at one revision, without the
// store's prefix in etcd. So it can be restored under another prefix and to another etcd.
package backup

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
)

const format = "dyno control backup 1"

type header struct {
	Format   string    `json:"format"`
	Epoch    string    `json:"epoch"`
	Revision int64     `json:"revision"`
	At       time.Time `json:"at"`
}

type record struct {
	Key   string `json:"k"`
	Value []byte `json:"v"`
}

type trailer struct {
	Keys   int64  `json:"keys"`
	SHA256 string `json:"sha256"`
}

// ErrInvalid says that a file is not a complete backup.
var ErrInvalid = errors.New("backup")

// A Source reads all keys at one revision.
type Source interface {
	// Snapshot passes its revision to begin, and then every key, in order, to take.
	Snapshot(ctx context.Context, begin func(epoch string, revision int64) error, take func(key string, value []byte) error) error
}

// Write writes all keys at one revision. It returns nil only after the backup is whole.
func Write(ctx context.Context, w io.Writer, from Source) error {
	sum := sha256.New()
	buffer := bufio.NewWriter(w)
	out := json.NewEncoder(io.MultiWriter(buffer, sum))
	var n int64
	err := from.Snapshot(ctx, func(epoch string, revision int64) error {
		return out.Encode(header{format, epoch, revision, time.Now().UTC()})
	}, func(key string, value []byte) error {
		n++
		return out.Encode(record{key, value})
	})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(buffer).Encode(trailer{n, hex.EncodeToString(sum.Sum(nil))}); err != nil {
		return err
	}
	return buffer.Flush()
}

// maxLine bounds a line of a backup: a value is at most what etcd takes, as base64.
const maxLine = 16 << 20

// Read passes the keys of a backup to take, and returns their number. It returns nil only if the trailer is right.
func Read(r io.Reader, take func(key string, value []byte) error) (keys int64, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	fault := func(n int64, err error) (int64, error) {
		return 0, fmt.Errorf("%w: line %d: %w", ErrInvalid, n, err)
	}
	var (
		sum   = sha256.New()
		n     int64
		whole bool
		head  header
	)
	for lines.Scan() {
		n++
		line := lines.Bytes()
		switch {
		case whole:
			return fault(n, errors.New("there is more after the end"))
		case n == 1:
			if err := strict(line, &head); err != nil || head.Format != format {
				return fault(n, fmt.Errorf("want %q: is it a backup?", format))
			}
		case bytes.HasPrefix(line, []byte(`{"keys":`)):
			var t trailer
			if err := strict(line, &t); err != nil {
				return fault(n, err)
			}
			if t.Keys != n-2 || t.SHA256 != hex.EncodeToString(sum.Sum(nil)) {
				return fault(n, errors.New("the lines before it have changed"))
			}
			keys, whole = t.Keys, true
		default:
			var one record
			if err := strict(line, &one); err != nil {
				return fault(n, err)
			}
			if err := take(one.Key, one.Value); err != nil {
				return fault(n, err)
			}
		}
		sum.Write(line)
		sum.Write([]byte{'\n'})
	}
	if err := lines.Err(); err != nil {
		return fault(n+1, err)
	}
	if !whole {
		return fault(n+1, errors.New("it ends here, and has no end: it is cut off"))
	}
	return keys, nil
}

func strict(line []byte, into any) error {
	return jsonv2.Unmarshal(line, into, jsonv2.RejectUnknownMembers(true))
}
