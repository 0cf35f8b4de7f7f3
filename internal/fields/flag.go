package fields

import "strings"

// NameAndValue is the form in which a flag gives an entry of a mapping of names.
const NameAndValue = "'Name: value'"

// FlagType is what help calls a flag's value.
func (s *Spec) FlagType() string {
	switch s.Kind {
	case Mapping:
		if s.Names != nil {
			return NameAndValue
		}
		return s.Short.FlagType()
	case CPUs:
		return "cpus"
	case Boolean:
		return "bool"
	case Choice:
		return strings.Join(s.Choices, "|")
	case Integer:
		if s.unsigned {
			return "uint"
		}
		return "int"
	}
	switch {
	case s.path:
		return "file"
	case s.Kind != List:
		return s.Kind.Name()
	case s.Item.Kind == Choice:
		return "words"
	}
	return s.Item.FlagType()
}
