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

// tooSlow is the kind of problem that only streams of gRPC have.
const tooSlow plane.ProblemKind = "slow"

// codeOf is the code of each kind of problem. One that is not here is plane.Internal.
var codeOf = map[plane.ProblemKind]codes.Code{
	tooSlow: codes.ResourceExhausted,

	plane.BadToken: codes.Unauthenticated, plane.BadCertificate: codes.Unauthenticated, plane.RateExceeded: codes.ResourceExhausted, plane.NotPermitted: codes.PermissionDenied,
	plane.NotValid: codes.InvalidArgument, plane.BadParameter: codes.InvalidArgument, plane.TooLarge: codes.InvalidArgument,
	plane.Missing: codes.NotFound, plane.Exists: codes.AlreadyExists, plane.Precondition: codes.FailedPrecondition, plane.KeyReused: codes.InvalidArgument, plane.Contended: codes.Aborted,
	plane.TooMany: codes.ResourceExhausted, plane.TooManyWatchers: codes.ResourceExhausted, plane.NoSpace: codes.ResourceExhausted, plane.DiskFull: codes.ResourceExhausted,
	plane.Uncertain: codes.Unknown, // not UNAVAILABLE, which clients repeat by themselves: without a key it may be done twice
	plane.Busy:      codes.Unavailable, plane.Unavailable: codes.Unavailable, plane.Closed: codes.Unavailable,
	plane.Canceled: codes.Canceled, plane.DeadlineExceeded: codes.DeadlineExceeded, plane.Internal: codes.Internal,
}

// refuse turns an operation's error into one as gRPC has it.
func refuse(err error) error {
	p := plane.ProblemOf(err)
	code, ok := codeOf[p.Kind]
	if !ok {
		p, code = plane.Unexpected, codes.Internal
	}
	return withCode(code, p)
}

// withCode is a problem as gRPC has it, with another code than its kind has.
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
		return s.Err() // the problem itself is not lost
	}
	return full.Err()
}
