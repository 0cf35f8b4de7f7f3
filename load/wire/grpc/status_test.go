package grpc

import (
	"encoding/base64"
	"slices"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"dyno/load/wire"
)

// TestCodes compares the codes with gRPC's own library.
func TestCodes(t *testing.T) {
	for c := range Codes {
		var theirs codes.Code
		if err := theirs.UnmarshalJSON([]byte(`"` + c.String() + `"`)); err != nil || theirs != codes.Code(c) {
			t.Errorf("%d is %s, and that is %d: %v", c, c, theirs, err)
		}
		if back, ok := CodeNamed(c.String()); !ok || back != c {
			t.Errorf("%s is not found by its name", c)
		}
	}
	if _, ok := CodeNamed("NONE"); ok || Codes.String() != "unknown code" {
		t.Error("a code is found that there is not")
	}
}

func TestDetails(t *testing.T) {
	s, err := status.New(codes.InvalidArgument, "no").WithDetails(&errdetails.BadRequest{}, &errdetails.ErrorInfo{Reason: "x", Domain: "y"})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := proto.Marshal(s.Proto())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"google.rpc.BadRequest", "google.rpc.ErrorInfo"}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding} {
		if got := detailKinds([]byte(encoding.EncodeToString(raw))); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := describe(3, callStatus{message: []byte("no"), details: []byte(base64.StdEncoding.EncodeToString(raw))}); got != "no (google.rpc.BadRequest, google.rpc.ErrorInfo)" {
		t.Errorf("got %q", got)
	}
	for cut := range raw {
		detailKinds([]byte(base64.RawStdEncoding.EncodeToString(raw[:cut]))) // must end, and not panic
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a b": "a b", "%41%4a%4A": "AJJ", "100%": "100%", "%4": "%4", "%zz%41": "%zzA", "%E4%BD%A0": "你",
	} {
		if got := unescape([]byte(in)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func FuzzDescribe(f *testing.F) {
	f.Add("a%20b", "CAMSAm5v")
	f.Fuzz(func(t *testing.T, message, details string) {
		if got := describe(20, callStatus{message: []byte(message), details: []byte(details)}); len(got) > 20*len(details)+wire.MaxText+100 {
			t.Errorf("%d bytes of text", len(got))
		}
	})
}

// Sizes beyond the limit are counted apart up to a number of them.
func TestManySizes(t *testing.T) {
	template := &Template{maxMessage: 1 << 20}
	texts := map[string]bool{}
	for size := range int64(50) {
		texts[template.tooLarge(2<<20+size).Text] = true
	}
	if len(texts) != maxInterned+1 {
		t.Errorf("%d texts", len(texts))
	}
}
