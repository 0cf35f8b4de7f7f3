package store

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Errors that callers distinguish.
var (
	// ErrRequest and ErrTooLarge: the request is at fault, and nothing was changed.
	ErrRequest  = errors.New("request")
	ErrTooLarge = errors.New("request is too large")
	// ErrLeaseEnded: the lease of an Op, or to renew, has ended; nothing was changed.
	ErrLeaseEnded = errors.New("the lease has ended")
	// ErrBusy: too many requests wait; nothing was changed.
	ErrBusy = errors.New("too many requests wait for the store")
	// ErrNoSpace: the database has reached its quota; nothing was changed.
	ErrNoSpace = errors.New("the database has reached its quota")
	// ErrDiskFull: the disk of the embedded etcd has too little room; nothing was changed.
	ErrDiskFull = errors.New("the disk is full")
	// ErrUncertain: the request may have been carried out.
	ErrUncertain = errors.New("the store does not answer: whether the change was made is not known")
	// ErrUnavailable: the store does not answer; nothing was changed.
	ErrUnavailable = errors.New("the store does not answer")
	// ErrPeers: the peers are not such that this change could be made; nothing was changed.
	ErrPeers = errors.New("peers")
	// ErrClosed: the store is closed; nothing was changed.
	ErrClosed = errors.New("the store is closed")
)

// refusal returns the error for callers if etcd did not carry out a transaction. It returns nil if err leaves that
// open.
func refusal(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return ErrNoSpace
	case errors.Is(err, rpctypes.ErrTooManyRequests):
		return ErrBusy
	}
	if errors.Is(err, rpctypes.ErrRequestTooLarge) || status.Code(err) == codes.ResourceExhausted { // the latter is gRPC's
		return fmt.Errorf("%w: %w: etcd must be started with a larger --max-request-bytes: %w", ErrRequest, ErrTooLarge, err)
	}
	for _, e := range []error{
		rpctypes.ErrTooManyOps, rpctypes.ErrDuplicateKey, rpctypes.ErrEmptyKey, rpctypes.ErrLeaseNotFound,
		rpctypes.ErrPermissionDenied, rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty, rpctypes.ErrCorrupt,
	} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: etcd: %w", ErrRequest, err)
		}
	}
	return nil
}

// unavailable returns the error of a read.
func unavailable(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
