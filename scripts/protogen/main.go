// Command protogen writes the Go code of .proto files. It compiles them itself: neither protoc nor buf is
// needed. It runs the plugins in the versions that its command line names:
//
//	protogen FILE.proto PLUGIN[@VERSION][,OPTION…] …
//
// A plugin is the path of a Go package, which "go run" builds: with a version it comes
// from the module proxy, without one it is of this module's own dependencies.
//
// With protogen's own option "stubs=IMPORTPATH", a plugin sees the services without the messages, as a file of
// that Go package. Its code then imports the messages' package, and programs that use only the messages do not
// link the plugin's library.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// module is the path of the module that the code is of.
const module = "dyno"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("want a .proto file and at least one plugin")
	}
	file, err := compile(args[0])
	if err != nil {
		return err
	}
	mod, err := exec.Command("go", "env", "GOMOD").Output() // in the module's root
	if err != nil {
		return err
	}
	for _, plugin := range args[1:] {
		if err := generate(file, plugin, filepath.Dir(string(mod))); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return nil
}

// compile reads a .proto file without imports, with its comments.
func compile(name string) (*descriptorpb.FileDescriptorProto, error) {
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{filepath.Dir(name)}},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), filepath.Base(name))
	if err != nil {
		return nil, err
	}
	if n := files[0].Imports().Len(); n > 0 {
		return nil, fmt.Errorf("%s: imports %d files, and only files without imports are supported", name, n)
	}
	return protoutil.ProtoFromFileDescriptor(files[0]), nil
}

// request returns what a plugin is asked: for the whole file, or for its services alone
// as a file of the package stubs.
func request(file *descriptorpb.FileDescriptorProto, options []string) *pluginpb.CodeGeneratorRequest {
	var stubs string
	var passed []string
	for _, o := range options {
		if s, ok := strings.CutPrefix(o, "stubs="); ok {
			stubs = s
			continue
		}
		passed = append(passed, o)
	}
	r := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{file.GetName()},
		Parameter:      proto.String(strings.Join(passed, ",")),
		ProtoFile:      []*descriptorpb.FileDescriptorProto{file},
	}
	if stubs == "" {
		return r
	}
	messages, services := proto.CloneOf(file), proto.CloneOf(file)
	messages.Name = proto.String(strings.TrimSuffix(file.GetName(), ".proto") + "_messages.proto")
	messages.Service, messages.SourceCodeInfo = nil, nil
	services.MessageType, services.EnumType = nil, nil
	services.Dependency = []string{messages.GetName()}
	services.Options.GoPackage = proto.String(stubs)
	r.ProtoFile = []*descriptorpb.FileDescriptorProto{messages, services}
	return r
}

// generate runs one plugin and writes the files that it returns.
func generate(file *descriptorpb.FileDescriptorProto, plugin, out string) error {
	words := strings.Split(plugin, ",")
	asked := request(file, append(words[1:], "module="+module))
	for _, f := range asked.GetProtoFile() {
		// A plugin stops without a word at a descriptor that is not one.
		if len(f.GetDependency()) == 0 {
			if _, err := protodesc.NewFile(f, nil); err != nil {
				return err
			}
		}
	}
	raw, err := proto.Marshal(asked)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "run", words[0])
	cmd.Stdin, cmd.Stderr = bytes.NewReader(raw), os.Stderr
	answer, err := cmd.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(answer, &response); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if response.Error != nil {
		return errors.New(response.GetError())
	}
	for _, f := range response.GetFile() {
		target := filepath.Join(out, filepath.FromSlash(path.Clean("/"+f.GetName())))
		if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(target, []byte(f.GetContent()), 0o666); err != nil {
			return err
		}
	}
	return nil
}
