package store

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
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A backup is lines of JSON: a header, a record for each key, and a trailer with the
// SHA-256 of all lines before it. It is of one revision, and of keys as callers know
// them, so that it can be restored under another prefix and to another etcd.
const backupFormat = "dyno control backup 1"

type backupHeader struct {
	Format   string    `json:"format"`
	Epoch    string    `json:"epoch"`
	Revision int64     `json:"revision"`
	At       time.Time `json:"at"`
}

type backupRecord struct {
	Key   string `json:"k"`
	Value []byte `json:"v"`
}

type backupTrailer struct {
	Keys   int64  `json:"keys"`
	SHA256 string `json:"sha256"`
}

// ErrBackup says that what should be restored is no whole backup, or that none could be made.
var ErrBackup = errors.New("backup")

// Backup writes everything as of one revision. What is of passing use (Op.Passing) is
// left out. Writers and readers are not held up. For up to 10 minutes, this store compacts
// nothing that the backup needs; other replicas and Reclaim may, and then it fails.
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	hold := s.holds.take() // before the revision is read, so that nothing passes it meanwhile
	defer hold.release()
	revision, err := s.newest(ctx)
	if err != nil {
		return err
	}
	sum := sha256.New()
	buffer := bufio.NewWriter(w)
	out := json.NewEncoder(io.MultiWriter(buffer, sum))
	if err := out.Encode(backupHeader{backupFormat, s.Epoch(), revision, time.Now().UTC()}); err != nil {
		return err
	}
	hold.at(revision)
	var n int64
	from, end := s.cfg.Prefix, clientv3.GetPrefixRangeEnd(s.cfg.Prefix)
	_, _, err = s.pages(ctx, from, end, 0, revision, func(e *mvccpb.KeyValue) error {
		one := kv(s.cfg.Prefix, e)
		if e.Lease != 0 || one.Key == headKey || one.Key == epochKey || one.Key == restoreKey {
			return nil
		}
		n++
		return out.Encode(backupRecord{one.Key, one.Value})
	})
	if errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("%w: revision %d was compacted before all of it was read, by another replica, by a reclaim, or as it took longer than %v: "+
			"try again when less is written, or keep more revisions and changes at all replicas", ErrBackup, revision, holdTime)
	}
	if err != nil {
		return fmt.Errorf("back up as of revision %d: %w", revision, err)
	}
	if err := json.NewEncoder(buffer).Encode(backupTrailer{n, hex.EncodeToString(sum.Sum(nil))}); err != nil {
		return err
	}
	return buffer.Flush()
}

// maxLine bounds a line of a backup: a value is at most what etcd takes, as base64.
const maxLine = 4 << 20

// readBackup hands out the records of a backup, and returns nil only after its end was
// found to be right.
func readBackup(r io.Reader, take func(backupRecord) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	fault := func(n int64, format string, args ...any) error {
		return fmt.Errorf("%w: line %d: %s", ErrBackup, n, fmt.Sprintf(format, args...))
	}
	var (
		sum    = sha256.New()
		n      int64
		whole  bool
		header backupHeader
	)
	for lines.Scan() {
		n++
		line := lines.Bytes()
		switch {
		case whole:
			return fault(n, "there is more after the end")
		case n == 1:
			if err := strict(line, &header); err != nil || header.Format != backupFormat {
				return fault(n, "want %q: is it a backup?", backupFormat)
			}
		case bytes.HasPrefix(line, []byte(`{"keys":`)):
			var t backupTrailer
			if err := strict(line, &t); err != nil {
				return fault(n, "%v", err)
			}
			if t.Keys != n-2 || t.SHA256 != hex.EncodeToString(sum.Sum(nil)) {
				return fault(n, "what is before it is not what was written")
			}
			whole = true
		default:
			var record backupRecord
			if err := strict(line, &record); err != nil {
				return fault(n, "%v", err)
			}
			if record.Key == "" || len(record.Key) > MaxKeyBytes+nameBytes {
				return fault(n, "key: %d bytes", len(record.Key))
			}
			if err := take(record); err != nil {
				return err
			}
		}
		sum.Write(line)
		sum.Write([]byte{'\n'})
	}
	if err := lines.Err(); err != nil {
		return fault(n+1, "%v", err)
	}
	if !whole {
		return fault(n+1, "it ends here, and has no end: it is cut off")
	}
	return nil
}

func strict(line []byte, into any) error {
	return jsonv2.Unmarshal(line, into, jsonv2.RejectUnknownMembers(true))
}

// Restore fills an empty store, or an empty prefix of a cluster, from a backup. The
// backup is read twice, and nothing is written unless all of it is right. The store has
// another epoch then. It is for a store that nobody has open.
func Restore(ctx context.Context, cfg Config, backup io.ReadSeeker) (err error) {
	if err := readBackup(backup, func(backupRecord) error { return nil }); err != nil {
		return err
	}
	if _, err := backup.Seek(0, io.SeekStart); err != nil {
		return err
	}
	s, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	there, _, err := s.List(ctx, "", "", 1)
	if err != nil {
		return err
	}
	if len(there) > 0 {
		return fmt.Errorf("%w: the store is not empty: it has %q", ErrBackup, there[0].Key)
	}
	if _, err := s.client.Put(ctx, s.cfg.Prefix+restoreKey, time.Now().UTC().Format(time.RFC3339)); err != nil {
		return unavailable(ctx, err)
	}
	var ops []clientv3.Op
	size := 0
	flush := func() error {
		if len(ops) == 0 {
			return nil
		}
		if _, err := s.client.Txn(ctx).Then(ops...).Commit(); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
		ops, size = ops[:0], 0
		return nil
	}
	err = readBackup(backup, func(r backupRecord) error {
		if len(ops) == clusterOps/2 || size+len(r.Value) > maxGroupBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		ops = append(ops, clientv3.OpPut(s.cfg.Prefix+r.Key, string(r.Value)))
		size += overhead + len(r.Key) + len(r.Value)
		return nil
	})
	if err != nil {
		return err
	}
	if err := flush(); err != nil {
		return err
	}
	_, err = s.client.Txn(ctx).Then(
		clientv3.OpPut(s.cfg.Prefix+epochKey, newEpoch()), clientv3.OpPut(s.cfg.Prefix+headKey, ""), clientv3.OpDelete(s.cfg.Prefix+restoreKey),
	).Commit()
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return nil
}
