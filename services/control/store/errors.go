package store

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Errors that callers tell apart.
var (
	// ErrRequest and ErrTooLarge: the request is at fault, and nothing was changed.
	ErrRequest  = errors.New("request")
	ErrTooLarge = errors.New("request is too large")
	// ErrBusy: too many requests wait; nothing was changed.
	ErrBusy = errors.New("too many requests wait for the store")
	// ErrNoSpace: the database has reached its quota; nothing was changed.
	ErrNoSpace = errors.New("the database has reached its quota")
	// ErrDiskFull: the disk of the embedded etcd has too little room; nothing was changed.
	ErrDiskFull = errors.New("the disk is full")
	// ErrUncertain: whether the request was carried out is not known.
	ErrUncertain = errors.New("the store does not answer: whether the change was made is not known")
	// ErrUnavailable: the store does not answer; nothing was asked to be changed.
	ErrUnavailable = errors.New("the store does not answer")
	// ErrClosed: the store is closed; nothing was changed.
	ErrClosed = errors.New("the store is closed")
)

// refusal returns what callers are told of an error with which etcd says that it did
// not carry out a transaction, and nil for an error that leaves this open.
func refusal(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return ErrNoSpace
	case errors.Is(err, rpctypes.ErrTooManyRequests):
		return ErrBusy
	}
	for _, e := range []error{
		rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyOps, rpctypes.ErrDuplicateKey, rpctypes.ErrEmptyKey, rpctypes.ErrLeaseNotFound,
		rpctypes.ErrPermissionDenied, rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty, rpctypes.ErrCorrupt,
	} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: etcd: %w", ErrRequest, err)
		}
	}
	return nil
}

// unavailable is the error of a read.
func unavailable(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
