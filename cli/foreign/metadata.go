package foreign

import (
	"encoding/json"
	"fmt"
	"strings"

	"dyno/load/scenario"
)

// SplitLists takes lists apart that are separated by commas, as ghz has them.
func SplitLists(lists []string) (all []string) {
	for _, list := range lists {
		all = append(all, strings.Split(list, ",")...)
	}
	return all
}

// ReadMetadata reads metadata as ghz has it: an object of texts, or of lists of them.
func ReadMetadata(text string) (all []scenario.Header, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	token := func(want json.Delim) bool {
		t, err := d.Token()
		return err == nil && t == want
	}
	bad := fmt.Errorf(`%.100q is no object of texts in JSON: want '{"name": "value"}', or -H 'name: value'`, text)
	if !token('{') {
		return nil, bad
	}
	for d.More() { // in their order, which a map would not keep
		name, err := d.Token()
		if err != nil {
			return nil, bad
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return nil, bad
		}
		values, isList := value.([]any)
		if !isList {
			values = []any{value}
		}
		for _, v := range values {
			s, ok := v.(string)
			if !ok {
				return nil, bad
			}
			all = append(all, scenario.Header{Name: fmt.Sprint(name), Value: s})
		}
	}
	if !token('}') || d.More() {
		return nil, bad
	}
	return all, nil
}
