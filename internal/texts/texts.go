// Package texts holds the sentences that dyno uses in more than one place, in English and
// in Simplified Chinese: a run's answer, why a figure is not as it is printed, and what
// helps. A sentence is data, a kind with named values, until it is shown: by the
// terminal, in a document, or on the page, which reads the same files.
//
// A value {name} appears in a sentence unchanged. Values called metric, check, cause, limit, gauge,
// series and profile are names; the page has its own words for them. Values called error and words are
// text from a program, the kernel or a person, and stay as they are.
package texts

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed en.json
var english []byte

//go:embed zh.json
var chinese []byte

// The languages.
const (
	English = "en"
	Chinese = "zh"
)

// tables holds the sentences by language, then by kind. The files are part of the
// program: invalid JSON in them is a fault of dyno, and this package's test finds it.
var tables = sync.OnceValue(func() map[string]map[string]string {
	all := map[string]map[string]string{}
	for language, file := range map[string][]byte{English: english, Chinese: chinese} {
		table := map[string]string{}
		if err := json.Unmarshal(file, &table); err != nil {
			panic(fmt.Sprintf("texts: %s.json: %v", language, err))
		}
		all[language] = table
	}
	return all
})

var slot = regexp.MustCompile(`\{(\w+)\}`)

// Say returns the sentence of a kind with its values filled in. A kind that the language
// does not have is returned unchanged, and so is the {name} of a missing value.
func Say(language, kind string, values map[string]string) string {
	text, ok := tables()[language][kind]
	if !ok {
		return kind
	}
	return slot.ReplaceAllStringFunc(text, func(name string) string {
		if v, ok := values[name[1:len(name)-1]]; ok {
			return v
		}
		return name
	})
}

// Has reports whether there is a sentence of the kind.
func Has(kind string) bool {
	_, ok := tables()[English][kind]
	return ok
}

// Kinds returns the kinds of sentences whose names begin with a word and a dot, by name.
func Kinds(space string) (kinds []string) {
	for kind := range tables()[English] {
		if strings.HasPrefix(kind, space+".") {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

var name = regexp.MustCompile(`^[a-z][a-z_]*$`)

// IsName reports whether a value is a name, such as a check's, and not free text.
func IsName(value string) bool { return name.MatchString(value) }
