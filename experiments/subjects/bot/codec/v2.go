//go:build goexperiment.jsonv2

package codec

import (
	"bytes"
	v1 "encoding/json"
	"encoding/json/jsontext"
	"encoding/json/v2"
)

// newV2 makes the codec of encoding/json/v2.
func newV2() *Codec {
	// As the others are: see the package's comment.
	options := json.JoinOptions(
		json.Deterministic(true), json.MatchCaseInsensitiveNames(true), json.FormatNilMapAsNull(true), json.FormatNilSliceAsNull(true),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.EscapeForHTML(true), jsontext.EscapeForJS(true),
		v1.OmitEmptyWithLegacySemantics(true), v1.MergeWithLegacySemantics(true),
	)
	return &Codec{
		library:   V2,
		marshal:   func(v any) ([]byte, error) { return json.Marshal(v, options) },
		unmarshal: func(data []byte, v any) error { return json.Unmarshal(data, v, options) },
		add: func(b []byte, v any) ([]byte, error) {
			w := bytes.NewBuffer(b)
			if err := json.MarshalWrite(w, v, options); err != nil {
				return b, err
			}
			return w.Bytes(), nil
		},
	}
}
