package rpc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/reflect/protoreflect"

	"dyno/load/rpc/diag"
)

// maxProto bounds the size of a .proto file.
const maxProto = 16 << 20

// FromProtos compiles .proto files: proto2, proto3 and edition 2023. Imports are searched
// for in importPaths, in their order; without any, in the working folder and in the folders of the files.
// A file may be given by its path or by its name in one of importPaths. The imports of
// google/protobuf need not be there. A fault has the file's line and column.
func FromProtos(ctx context.Context, files, importPaths []string) (*Schema, error) {
	if len(files) == 0 {
		return nil, &diag.Fault{Problem: "no .proto file is given"}
	}
	names, paths := protoNames(files, importPaths)
	// The compiler calls its reporter from one goroutine at a time. It may still do so after it has
	// returned: in a cycle, each file reports.
	var (
		mu    sync.Mutex
		found []*diag.Fault
	)
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			ImportPaths: paths,
			Accessor:    func(path string) (io.ReadCloser, error) { return openFile(path, maxProto) },
		}),
		SourceInfoMode: protocompile.SourceInfoStandard,
		Reporter: reporter.NewReporter(func(err reporter.ErrorWithPos) error {
			mu.Lock()
			defer mu.Unlock()
			found = append(found, compileFault(err))
			return nil
		}, nil),
	}
	compiled, err := compiler.Compile(ctx, names...)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	mu.Lock()
	reported := slices.Clone(found)
	mu.Unlock()
	if len(reported) > 0 {
		slices.SortFunc(reported, func(a, b *diag.Fault) int {
			return cmp.Or(strings.Compare(a.Source, b.Source), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		var faults []error
		for _, fault := range reported {
			faults = append(faults, fault)
		}
		return nil, joinFaults(faults)
	}
	if err != nil {
		var at reporter.ErrorWithPos
		if errors.As(err, &at) {
			return nil, compileFault(at)
		}
		return nil, &diag.Fault{Source: strings.Join(files, ", "), Problem: diag.Plain(err.Error())}
	}
	source := strings.Join(files, ", ")
	l := newLinker(source)
	for _, file := range compiled {
		if err := l.addCompiled(file); err != nil {
			return nil, err
		}
	}
	if err := l.linkAll(); err != nil {
		return nil, err
	}
	return newSchema(source, l.files, nil), nil
}

// addCompiled adds a compiled file and all that it imports.
func (l *linker) addCompiled(file protoreflect.FileDescriptor) error {
	if l.protos[file.Path()] != nil {
		return nil
	}
	if err := l.add(protoutil.ProtoFromFileDescriptor(file)); err != nil {
		return err
	}
	for i := range file.Imports().Len() {
		if err := l.addCompiled(file.Imports().Get(i).FileDescriptor); err != nil {
			return err
		}
	}
	return nil
}

// compileFault is a fault that the compiler has found.
func compileFault(err reporter.ErrorWithPos) *diag.Fault {
	at := err.GetPosition()
	f := &diag.Fault{Source: at.Filename, Line: at.Line, Column: at.Col, Problem: diag.Plain(err.Unwrap().Error())}
	switch {
	case errors.Is(err, os.ErrNotExist):
		f.Hint = "give the folder that the imports are relative to (--import-paths)"
	case strings.Contains(f.Problem, "already defined at"):
		f.Hint = "if this is one file by two names, give the folder that the imports are relative to (--import-paths)"
	}
	return f
}

// protoNames returns the files' names relative to the folders in which imports are
// searched for, and these folders.
func protoNames(files, importPaths []string) (names, paths []string) {
	paths = slices.Clone(importPaths)
	if len(paths) == 0 {
		paths = []string{"."}
		for _, file := range files {
			if dir := filepath.Dir(file); !slices.Contains(paths, dir) {
				paths = append(paths, dir)
			}
		}
	}
	for _, file := range files {
		name, ok := protoName(file, paths)
		if !ok {
			if dir := filepath.Dir(file); isFile(file) && !slices.Contains(paths, dir) {
				paths = append(paths, dir)
				name = filepath.Base(file)
			} else {
				name = filepath.ToSlash(file)
			}
		}
		names = append(names, name)
	}
	return names, paths
}

// protoName returns the name by which imports name a file.
func protoName(file string, paths []string) (name string, ok bool) {
	if isFile(file) {
		for _, dir := range paths {
			absDir, err := filepath.Abs(dir)
			if err != nil {
				continue
			}
			absFile, err := filepath.Abs(file)
			if err != nil {
				continue
			}
			if rel, err := filepath.Rel(absDir, absFile); err == nil && filepath.IsLocal(rel) {
				return filepath.ToSlash(rel), true
			}
		}
	}
	for _, dir := range paths {
		if isFile(filepath.Join(dir, file)) {
			return filepath.ToSlash(filepath.Clean(file)), true
		}
	}
	return "", false
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}
