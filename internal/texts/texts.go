// Package texts holds the sentences that dyno says in more than one place, in English and
// in Simplified Chinese: a run's answer, why a figure is not as it is printed, and what
// helps. A sentence is data, a kind with values by name, until somebody reads it: the
// terminal, a document, or the page, which reads the same files.
//
// A value {name} stands in a sentence as it is. Values called metric, check, cause, limit,
// gauge, series and profile are names for which the page has words of its own; values called
// error and words are what a program, the kernel or somebody else said, and stay as they are.
package texts

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"sync"
)

//go:embed en.json
var english []byte

//go:embed zh.json
var chinese []byte

//go:embed remedies.json
var remedies []byte

// The languages.
const (
	English = "en"
	Chinese = "zh"
)

// tables are the sentences by language, then kind. The files are part of the program: one
// that is no JSON is a fault in it, which the package's own test finds.
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

// Say returns the sentence of a kind with its values. A kind that the language does not
// have is returned as it is, and so is the {name} of a value that is missing.
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

// byFlag is which sentence says what helps, by kinds of flags.
var byFlag = sync.OnceValue(func() map[string]string {
	table := map[string]string{}
	if err := json.Unmarshal(remedies, &table); err != nil {
		panic(fmt.Sprintf("texts: remedies.json: %v", err))
	}
	return table
})

// Remedy returns the kind of the sentence that says what helps against a flag; empty where
// nobody knows.
func Remedy(flag string) string { return byFlag()[flag] }

// Has tells whether there is a sentence of the kind.
func Has(kind string) bool {
	_, ok := tables()[English][kind]
	return ok
}

var name = regexp.MustCompile(`^[a-z][a-z_]*$`)

// IsName tells whether a value is a name such as a check's, and no text of somebody's.
func IsName(value string) bool { return name.MatchString(value) }
