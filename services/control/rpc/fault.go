package rpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"dyno/services/control/plane"
	"dyno/services/control/push"
	"dyno/services/control/resource"
	"dyno/services/control/store"
)

// domain is that of reasons in google.rpc.ErrorInfo.
const domain = "dyno.control"

// A refusal is why a call is not answered as asked.
type refusal struct {
	code  codes.Code
	kind  string
	text  string
	after time.Duration // it may be tried again then; 0 is not said
	list  resource.Invalid
}

func (r *refusal) Error() string { return r.text }

func invalid(kind, text string) error {
	return &refusal{codes.InvalidArgument, kind, text, 0, nil}
}

// refuse turns an operation's error into a refusal. Kinds are those of the API over HTTP.
func refuse(err error) *refusal {
	var (
		own     *refusal
		faults  resource.Invalid
		many    *resource.TooMany
		missing *plane.NotFound
	)
	as := func(code codes.Code, kind string, after time.Duration) *refusal {
		return &refusal{code, kind, err.Error(), after, nil}
	}
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &faults):
		return &refusal{codes.InvalidArgument, "invalid", faults.Error(), 0, faults}
	case errors.As(err, &missing):
		return as(codes.NotFound, "missing", 0)
	case errors.As(err, &many):
		return as(codes.ResourceExhausted, "limit", 0)
	case errors.Is(err, store.ErrTooLarge):
		return as(codes.InvalidArgument, "large", 0)
	case errors.Is(err, plane.ErrPrecondition):
		return as(codes.FailedPrecondition, "precondition", 0)
	case errors.Is(err, plane.ErrExists):
		return as(codes.AlreadyExists, "exists", 0)
	case errors.Is(err, plane.ErrKeyReused):
		return as(codes.InvalidArgument, "key", 0)
	case errors.Is(err, plane.ErrContended):
		return as(codes.Aborted, "contended", time.Second)
	case errors.Is(err, store.ErrBusy):
		return as(codes.Unavailable, "busy", time.Second)
	case errors.Is(err, store.ErrNoSpace):
		return as(codes.ResourceExhausted, "space", 0)
	case errors.Is(err, store.ErrDiskFull):
		return as(codes.ResourceExhausted, "disk", 0)
	case errors.Is(err, store.ErrUncertain):
		// Not UNAVAILABLE, which clients repeat by themselves: without a key it may be done
		// twice.
		return as(codes.Unknown, "uncertain", 0)
	case errors.Is(err, store.ErrUnavailable):
		return as(codes.Unavailable, "unavailable", time.Second)
	case errors.Is(err, store.ErrClosed), errors.Is(err, push.ErrClosed):
		return as(codes.Unavailable, "closed", time.Second)
	case errors.Is(err, context.Canceled):
		return as(codes.Canceled, "canceled", 0)
	case errors.Is(err, context.DeadlineExceeded):
		return as(codes.DeadlineExceeded, "deadline", 0)
	}
	return &refusal{codes.Internal, "internal", "the log says more", 0, nil}
}

// err is the refusal as gRPC has it.
func (r *refusal) err() error {
	s := status.New(r.code, r.text)
	details := []protoadapt.MessageV1{protoadapt.MessageV1Of(&errdetails.ErrorInfo{Reason: r.kind, Domain: domain})}
	if len(r.list) > 0 {
		bad := &errdetails.BadRequest{}
		for _, f := range r.list {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: f.Pointer, Description: f.Detail})
		}
		details = append(details, protoadapt.MessageV1Of(bad))
	}
	if r.after > 0 {
		details = append(details, protoadapt.MessageV1Of(&errdetails.RetryInfo{RetryDelay: durationpb.New(r.after)}))
	}
	full, err := s.WithDetails(details...)
	if err != nil {
		return s.Err() // the refusal itself is not lost
	}
	return full.Err()
}
