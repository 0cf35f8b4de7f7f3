package rpc

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// The messages of reflection are few, and the same in both versions:
// https://github.com/grpc/grpc/blob/master/src/proto/grpc/reflection/v1/reflection.proto
const (
	fieldFileByName           = 3 // of ServerReflectionRequest
	fieldFileContainingSymbol = 4
	fieldListServices         = 7

	fieldFiles    = 4 // of ServerReflectionResponse
	fieldServices = 6
	fieldError    = 7
)

func fileByName(name string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, fieldFileByName, protowire.BytesType), name)
}

func fileContainingSymbol(name string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, fieldFileContainingSymbol, protowire.BytesType), name)
}

func listServices() []byte {
	return protowire.AppendString(protowire.AppendTag(nil, fieldListServices, protowire.BytesType), "*")
}

// An answerKind is what an answer has in it.
type answerKind int

const (
	answerOther answerKind = iota
	answerFiles
	answerList
	answerError
)

// An answer is a ServerReflectionResponse.
type answer struct {
	kind    answerKind
	files   [][]byte // FileDescriptorProtos, in the memory of the message
	names   []string // of services
	code    uint64   // of a status
	message string
}

// String says what it is.
func (a answer) String() string {
	switch a.kind {
	case answerFiles:
		return "files"
	case answerList:
		return "a list of services"
	case answerError:
		return a.status()
	}
	return "something else"
}

// status returns an answer's status for people.
func (a answer) status() string {
	return (&status{code: a.code, message: a.message}).Error()
}

// errTooMany ends the reading of an answer.
var errTooMany = errors.New("it has too many parts")

// readAnswer reads a ServerReflectionResponse. The last member of its oneof counts.
func readAnswer(b []byte) (a answer, err error) {
	err = fields(b, func(number protowire.Number, value []byte, _ uint64) error {
		switch number {
		case fieldFiles:
			a = answer{kind: answerFiles}
			return fields(value, func(number protowire.Number, value []byte, _ uint64) error {
				if number == 1 {
					a.files = append(a.files, value)
				}
				if len(a.files) > maxFiles {
					return errTooMany
				}
				return nil
			})
		case fieldServices:
			a = answer{kind: answerList}
			return fields(value, func(number protowire.Number, value []byte, _ uint64) error {
				if number != 1 {
					return nil
				}
				if len(a.names) == maxServices {
					return errTooMany
				}
				a.names = append(a.names, "")
				return fields(value, func(number protowire.Number, value []byte, _ uint64) error {
					if number == 1 {
						a.names[len(a.names)-1] = string(value)
					}
					return nil
				})
			})
		case fieldError:
			a = answer{kind: answerError}
			return fields(value, func(number protowire.Number, value []byte, code uint64) error {
				switch number {
				case 1:
					a.code = code
				case 2:
					a.message = string(value)
				}
				return nil
			})
		case 5: // numbers of extensions, which were not asked for
			a = answer{}
		}
		return nil
	})
	return a, err
}

// fields calls each with the fields of a message that are length-delimited, or varints.
func fields(b []byte, each func(number protowire.Number, value []byte, varint uint64) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return protowire.ParseError(n)
		}
		var err error
		switch kind {
		case protowire.BytesType:
			value, _ := protowire.ConsumeBytes(b)
			err = each(number, value, 0)
		case protowire.VarintType:
			value, _ := protowire.ConsumeVarint(b)
			err = each(number, nil, value)
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// A status is what a call ended with, other than OK.
type status struct {
	code    uint64
	message string
}

// The codes that something depends on.
const (
	codeOK            = 0
	codeUnimplemented = 12
)

// codeNames are the names of gRPC's status codes, by number.
var codeNames = []string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

func (s *status) Error() string {
	text := fmt.Sprintf("status %d", s.code)
	if s.code < uint64(len(codeNames)) {
		text = codeNames[s.code]
	}
	if s.message != "" {
		text += ": " + plain(s.message)
	}
	return text
}
