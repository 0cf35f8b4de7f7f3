package differential

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"dyno/cli/imports/draft"
)

// A .proto file has no values: what counts is that each of its methods is called by its name.
var proto = tool{
	format: "proto", url: "http://" + written, noBody: true, own: []omission{{`content-type: application/grpc`, "all calls have it"}},
	general: func(i draft.Item) bool { return strings.HasPrefix(i.Why, "the example sends one message") },
}

func TestProtoGenerated(t *testing.T) {
	proto.compareKnown(t, "services.proto", func(r *rand.Rand) (content string, known []request) {
		var b strings.Builder
		syntax := choose(r, `syntax = "proto3";`, `syntax = "proto2";`, `edition = "2023";`)
		label := ""
		if strings.Contains(syntax, "proto2") {
			label = choose(r, "optional ", "required ")
		}
		path := choose(r, "", "a", "a.b.v1")
		fmt.Fprintln(&b, syntax)
		if path != "" {
			fmt.Fprintf(&b, "package %s;\n", path)
			path += "."
		}
		fmt.Fprint(&b, "import \"google/protobuf/timestamp.proto\";\nimport \"google/protobuf/any.proto\";\nimport \"google/protobuf/empty.proto\";\n")
		fmt.Fprintf(&b, "message In {\n  %sstring text = 1;\n  repeated int64 many = 2;\n  map<string, Inner> by = 3;\n  oneof one { bytes raw = 4; Inner inner = 5; }\n", label)
		fmt.Fprintf(&b, "  %sgoogle.protobuf.Timestamp at = 6;\n  message Inner { %sIn again = 1; }\n  enum Kind { NONE = 0; SOME = 1; }\n  %sKind kind = 7;\n}\n", label, strings.Replace(label, "required", "optional", 1), label)
		for s := range 1 + r.IntN(3) {
			fmt.Fprintf(&b, "service S%d {\n", s)
			for m := range 1 + r.IntN(4) {
				in := choose(r, "In", "In.Inner", "google.protobuf.Empty", "google.protobuf.Timestamp")
				fmt.Fprintf(&b, "  rpc M%d(%s%s) returns (%sgoogle.protobuf.Empty);\n", m, choose(r, "", "", "stream "), in, choose(r, "", "stream "))
				known = append(known, request{method: "POST", target: fmt.Sprintf("/%sS%d/M%d", path, s, m)})
			}
			fmt.Fprintln(&b, "}")
		}
		return b.String(), known
	})
}
