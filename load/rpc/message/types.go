package message

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/apipb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/sourcecontextpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/typepb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Types finds the types of messages within google.protobuf.Any, and extensions. Types that a schema
// lacks are found among the well-known types.
type Types struct {
	files     *protoregistry.Files
	own       *dynamicpb.Types // of files
	wellKnown *dynamicpb.Types
}

// NewTypes returns the types of a schema's files.
func NewTypes(files *protoregistry.Files) *Types {
	return &Types{files: files, own: dynamicpb.NewTypes(files), wellKnown: dynamicpb.NewTypes(WellKnown())}
}

// FindMessageByName implements protoregistry.MessageTypeResolver.
func (t *Types) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	found, err := t.own.FindMessageByName(name)
	if errors.Is(err, protoregistry.NotFound) {
		return t.wellKnown.FindMessageByName(name)
	}
	return found, err
}

// FindMessageByURL implements protoregistry.MessageTypeResolver.
func (t *Types) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	return t.FindMessageByName(protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:]))
}

// FindExtensionByName implements protoregistry.ExtensionTypeResolver.
func (t *Types) FindExtensionByName(name protoreflect.FullName) (protoreflect.ExtensionType, error) {
	return t.own.FindExtensionByName(name)
}

// FindExtensionByNumber implements protoregistry.ExtensionTypeResolver.
func (t *Types) FindExtensionByNumber(message protoreflect.FullName, number protoreflect.FieldNumber) (protoreflect.ExtensionType, error) {
	return t.own.FindExtensionByNumber(message, number)
}

// Names returns the names of all messages that an Any can have, but not of well-known
// ones.
func (t *Types) Names() (names []string) {
	var add func(list protoreflect.MessageDescriptors)
	add = func(list protoreflect.MessageDescriptors) {
		for i := range list.Len() {
			if m := list.Get(i); !m.IsMapEntry() {
				names = append(names, string(m.FullName()))
				add(m.Messages())
			}
		}
	}
	t.files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if file.Package() != "google.protobuf" {
			add(file.Messages())
		}
		return true
	})
	slices.Sort(names)
	return names
}

// unmarshal decodes a message. Its module panics at a map entry whose key is followed by a field with
// that number and another type. That is unmarshalMap in google.golang.org/protobuf v1.36.12. Such an
// answer of a server must not end dyno.
func (t *Types) unmarshal(b []byte, into proto.Message) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("cannot be decoded: %v", fault)
		}
	}()
	return proto.UnmarshalOptions{Resolver: t}.Unmarshal(b, into)
}

// lenient is a Types to which every type is known.
type lenient struct{ *Types }

// FindMessageByURL implements protoregistry.MessageTypeResolver. An unknown type has no
// fields.
func (l lenient) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	found, err := l.Types.FindMessageByURL(url)
	if errors.Is(err, protoregistry.NotFound) {
		return l.wellKnown.FindMessageByName("google.protobuf.Empty")
	}
	return found, err
}

// WellKnown has the files that every compiler of .proto files brings along.
var WellKnown = sync.OnceValue(func() *protoregistry.Files {
	files := &protoregistry.Files{}
	for _, file := range []protoreflect.FileDescriptor{
		anypb.File_google_protobuf_any_proto,
		sourcecontextpb.File_google_protobuf_source_context_proto,
		typepb.File_google_protobuf_type_proto,
		apipb.File_google_protobuf_api_proto,
		descriptorpb.File_google_protobuf_descriptor_proto,
		durationpb.File_google_protobuf_duration_proto,
		emptypb.File_google_protobuf_empty_proto,
		fieldmaskpb.File_google_protobuf_field_mask_proto,
		structpb.File_google_protobuf_struct_proto,
		timestamppb.File_google_protobuf_timestamp_proto,
		wrapperspb.File_google_protobuf_wrappers_proto,
	} {
		if err := files.RegisterFile(file); err != nil {
			panic(err) // they are part of this program, and agree with each other
		}
	}
	return files
})
