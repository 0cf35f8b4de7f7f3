package rpc

import (
	"errors"
	"fmt"
	"io"
	"os"

	"google.golang.org/protobuf/encoding/protowire"

	"dyno/load/rpc/diag"
)

// maxProtoset bounds the size of a file.
const maxProtoset = maxSource

// FromProtoset reads a file with a FileDescriptorSet, as protoc --descriptor_set_out and buf build
// write it, of up to 64 MiB. It must have all imported files (protoc: --include_imports), except the
// files of google/protobuf, which dyno has.
func FromProtoset(path string) (*Schema, error) {
	b, err := readFile(path, maxProtoset)
	if err != nil {
		return nil, err
	}
	return parseProtoset(path, b)
}

// parseProtoset makes a schema of a FileDescriptorSet, which is a repeated field 1.
func parseProtoset(source string, b []byte) (*Schema, error) {
	l := newLinker(source)
	invalid := func(problem string) error {
		return &diag.Fault{Source: source, Problem: "this is no descriptor set: " + problem, Hint: "protoc --include_imports --descriptor_set_out=FILE and buf build -o FILE write one"}
	}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, invalid(diag.Cause(protowire.ParseError(n)))
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return nil, invalid(diag.Cause(protowire.ParseError(n)))
		}
		if number == 1 && kind == protowire.BytesType {
			file, _ := protowire.ConsumeBytes(b) // it is valid: see above
			if err := l.addBytes(file); err != nil {
				return nil, err
			}
		}
		b = b[n:]
	}
	if len(l.protos) == 0 {
		return nil, invalid("there are no files in it")
	}
	if err := l.linkAll(); err != nil {
		return nil, err
	}
	return newSchema(source, l.files, nil), nil
}

// readFile reads a file of bounded size.
func readFile(path string, most int64) (b []byte, err error) {
	f, err := openFile(path, most)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err = io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = tooLarge(path, most)
	}
	return b, err
}

// openFile opens a regular file of bounded size.
func openFile(path string, most int64) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = fmt.Errorf("%s: this is a folder", path)
	case info.Size() > most:
		err = tooLarge(path, most)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(f, most+1), f}, nil
}

func tooLarge(path string, most int64) error {
	return &diag.Fault{Source: path, Problem: fmt.Sprintf("the file has more than %d MiB", most>>20)}
}
