package rpc

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"dyno/services/control/plane"
)

// domain is that of reasons in google.rpc.ErrorInfo.
const domain = "dyno.control"

// tooSlow is the kind of problem that only gRPC streams have.
const tooSlow plane.ProblemKind = "slow"

// codeOf has the code of each kind of problem. A kind that is not here counts as plane.Internal.
var codeOf = map[plane.ProblemKind]codes.Code{
	tooSlow: codes.ResourceExhausted,

	plane.BadToken: codes.Unauthenticated, plane.BadCertificate: codes.Unauthenticated, plane.RateExceeded: codes.ResourceExhausted, plane.NotPermitted: codes.PermissionDenied,
	plane.NotValid: codes.InvalidArgument, plane.BadParameter: codes.InvalidArgument, plane.TooLarge: codes.InvalidArgument,
	plane.Missing: codes.NotFound, plane.Exists: codes.AlreadyExists, plane.Precondition: codes.FailedPrecondition, plane.KeyReused: codes.InvalidArgument, plane.Contended: codes.Aborted,
	plane.Held: codes.FailedPrecondition, plane.Follower: codes.FailedPrecondition, plane.InUse: codes.FailedPrecondition, plane.Peers: codes.FailedPrecondition,
	plane.TooMany: codes.ResourceExhausted, plane.TooManyWatchers: codes.ResourceExhausted, plane.NoSpace: codes.ResourceExhausted, plane.DiskFull: codes.ResourceExhausted,
	plane.Uncertain: codes.Unknown, // not UNAVAILABLE, on which clients retry: a change without a key might be made twice
	plane.Busy:      codes.Unavailable, plane.Unavailable: codes.Unavailable, plane.Closed: codes.Unavailable,
	plane.Canceled: codes.Canceled, plane.DeadlineExceeded: codes.DeadlineExceeded, plane.Internal: codes.Internal,
}

// refuse converts an operation's error to a gRPC status.
func refuse(err error) error {
	p := plane.ProblemOf(err)
	code, ok := codeOf[p.Kind]
	if !ok {
		p, code = plane.Unexpected, codes.Internal
	}
	return withCode(code, p)
}

// withCode converts a problem to a gRPC status with the given code.
func withCode(code codes.Code, p *plane.Problem) error {
	s := status.New(code, p.Detail)
	details := []protoadapt.MessageV1{protoadapt.MessageV1Of(&errdetails.ErrorInfo{Reason: string(p.Kind), Domain: domain})}
	if len(p.Faults) > 0 {
		bad := &errdetails.BadRequest{}
		for _, f := range p.Faults {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: f.Pointer, Description: f.Detail})
		}
		details = append(details, protoadapt.MessageV1Of(bad))
	}
	if p.After > 0 {
		details = append(details, protoadapt.MessageV1Of(&errdetails.RetryInfo{RetryDelay: durationpb.New(p.After)}))
	}
	full, err := s.WithDetails(details...)
	if err != nil {
		return s.Err() // without the details, the problem itself is still sent
	}
	return full.Err()
}
