package foreign

import (
	"slices"
	"testing"

	"dyno/load/scenario"
)

func TestMetadataObject(t *testing.T) {
	got, err := ReadMetadata(`{"b": "1", "a": ["2", "3"]}`)
	if want := []scenario.Header{{Name: "b", Value: "1"}, {Name: "a", Value: "2"}, {Name: "a", Value: "3"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"", "x", "[]", `{"a": 1}`, `{"a"`, `{"a": "b"} {}`, `{"a": [1]}`} {
		if got, err := ReadMetadata(bad); err == nil {
			t.Errorf("%s: got %v", bad, got)
		}
	}
}
