package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Snapshot reads all keys at one revision. It passes the revision to begin, and then the keys, in order, to take.
// Keys that expire (Op.Expires) are left out, and so are the store's own keys but the journal. Writers and readers
// are not delayed. For up to 10 minutes, this store compacts nothing that the snapshot needs; other replicas and
// Reclaim may, and then it fails.
func (s *Store) Snapshot(ctx context.Context, begin func(epoch string, revision int64) error, take func(key string, value []byte) error) error {
	hold := s.holds.take() // before the revision is read, so that no compaction passes it
	defer hold.release()
	revision, err := s.newest(ctx)
	if err != nil {
		return err
	}
	if err := begin(s.Epoch(), revision); err != nil {
		return err
	}
	hold.at(revision)
	from, end := s.cfg.Prefix, clientv3.GetPrefixRangeEnd(s.cfg.Prefix)
	_, _, err = s.pages(ctx, from, end, 0, revision, func(e *mvccpb.KeyValue) error {
		one := kv(s.cfg.Prefix, e)
		if e.Lease != 0 || one.Key == headKey || one.Key == epochKey || one.Key == restoreKey {
			return nil
		}
		return take(one.Key, one.Value)
	})
	if errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("revision %d was compacted while it was read: by another replica, by a reclaim, or after more than %v: "+
			"try again when less is written, or keep more revisions and changes at all replicas", revision, holdTime)
	}
	if err != nil {
		return fmt.Errorf("read as of revision %d: %w", revision, err)
	}
	return nil
}

// Fill fills an empty store, or an empty prefix of a cluster, with the keys of a Snapshot. records passes on all of
// them, and is called twice: nothing is written unless all are valid. The store gets a new epoch. No other process
// may have it open.
func Fill(ctx context.Context, cfg Config, records func(put func(key string, value []byte) error) error) (err error) {
	base, err := nextTokenBase(nil)
	if err != nil {
		return err
	}
	err = records(func(key string, value []byte) (err error) {
		if key == TokenBase {
			base, err = nextTokenBase(value)
			return err
		}
		if key == "" || len(key) > MaxKeyBytes+nameBytes {
			return fmt.Errorf("key: %d bytes", len(key))
		}
		return nil
	})
	if err != nil {
		return err
	}
	cfg.RequestBytes = max(cfg.RequestBytes, 8*maxGroupBytes) // for a document of any size
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
		return fmt.Errorf("the store is not empty: it has %q", there[0].Key)
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
	err = records(func(key string, value []byte) error {
		if key == TokenBase {
			return nil
		}
		if len(ops) == clusterOps/2 || size+len(value) > maxGroupBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		ops = append(ops, clientv3.OpPut(s.cfg.Prefix+key, string(value)))
		size += overhead + len(key) + len(value)
		return nil
	})
	if err != nil {
		return err
	}
	if err := flush(); err != nil {
		return err
	}
	_, err = s.client.Txn(ctx).Then(
		clientv3.OpPut(s.cfg.Prefix+TokenBase, base), clientv3.OpPut(s.cfg.Prefix+epochKey, newEpoch()), clientv3.OpPut(s.cfg.Prefix+headKey, ""), clientv3.OpDelete(s.cfg.Prefix+restoreKey),
	).Commit()
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return nil
}
