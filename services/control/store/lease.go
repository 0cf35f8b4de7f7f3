package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Grant begins a lease for Op.Lease. It returns its time in seconds, which may be longer than asked for. The lease is
// never 0.
func (s *Store) Grant(ctx context.Context, seconds int) (lease int64, ttl int, err error) {
	if d := s.full.Load(); d != nil {
		return 0, 0, fmt.Errorf("%w: %v", ErrDiskFull, d)
	}
	err = s.lease(ctx, func(ctx context.Context) error {
		got, err := s.lessor.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: int64(seconds)})
		if err == nil {
			lease, ttl = got.ID, int(got.TTL)
		}
		return err
	})
	return lease, ttl, err
}

// Renew begins the time of a lease again. That is no write.
func (s *Store) Renew(ctx context.Context, lease int64) error {
	return s.lease(ctx, func(ctx context.Context) error {
		stream, err := s.lessor.LeaseKeepAlive(ctx)
		if err != nil {
			return err
		}
		if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: lease}); err != nil {
			return err
		}
		got, err := stream.Recv()
		if err == nil && got.TTL <= 0 {
			err = rpctypes.ErrLeaseNotFound
		}
		return err
	})
}

// Revoke ends a lease. Etcd removes its keys.
func (s *Store) Revoke(ctx context.Context, lease int64) error {
	return s.lease(ctx, func(ctx context.Context) error {
		_, err := s.lessor.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: lease})
		return err
	})
}

// lease calls etcd. The error is ErrLeaseEnded if there is no such lease.
func (s *Store) lease(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout/attempts)
	defer cancel()
	err := clientv3.ContextError(ctx, call(ctx))
	switch refused := refusal(err); {
	case err == nil:
		s.contact()
		return nil
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return ErrLeaseEnded
	case refused != nil:
		return refused
	}
	return unavailable(ctx, err)
}

// nextTokenBase returns the base of tokens after another one; nil is none.
func nextTokenBase(before []byte) (string, error) {
	now := time.Now().UnixMicro()
	if before != nil {
		old, err := strconv.ParseInt(string(before), 10, 64)
		if err != nil {
			return "", fmt.Errorf("%s: %w", TokenBase, err)
		}
		if now <= old {
			return "", fmt.Errorf("this machine's clock says %v, and the store was made at %v: fencing tokens would be repeated; set the clock",
				time.UnixMicro(now).UTC().Format(time.RFC3339), time.UnixMicro(old).UTC().Format(time.RFC3339))
		}
	}
	return strconv.FormatInt(now, 10), nil
}
