// Package fields reads files in YAML whose fields the tags of Go structs declare. The tags say
// all there is to say of a field, once: the reader, the bounds, the JSON Schema, the reference
// and the flags are made from them. A field without a tag is not in the file.
//
//	yaml       the name in the file, and words on it:
//	             required   it must be there
//	             nonempty   of a mapping of names: it must not be empty
//	             template   templates may stand in it
//	             scripted   a scenario's templates may stand in its texts, too
//	             set        Options.Set knows it, by this name or by that in set=NAME
//	             inverted   the Go field holds the opposite
//	             started    only a process that dyno starts has it
//	             zero       the Go field may hold zero, whatever the default and the range
//	             orfile     as a flag, @FILE stands for what a file holds
//	             short      a scalar of this form may stand for the whole mapping
//	             single     in a list of such mappings, one alone may stand for the list
//	             key        the name of a mapping's entry, when a list of these stands as one
//	             rest       the entries of a mapping that are no fields
//	             inline     the fields of the struct, or of the list's items, stand in its place
//	             outer      it stands next to the mapping that it belongs to, one level up
//	             again      the reference has shown what is below it, and does not do so again
//	             added      structs of protocols stand in its place, each under the protocol's name
//	kind       of a scalar, where the Go type does not tell: word, rate, size, share, amount, path or
//	           protocol
//	range      the least and the most, as a file has them, or the path of a field that has the
//	           same; of a list, of its items
//	oneof      the words that it may be; or: words that may stand for a number
//	like       the pattern of a text, by name; names: those of a mapping's names, outermost first
//	most       how many entries there may be
//	for        the protocols that have it, or groups of them (see Grammar); of an embedded
//	           struct, for all of its fields
//	instead    what there is instead with the others
//	default    the value without it. Those of some plans follow, each after a semicolon and
//	           with what it holds for; the last that does counts
//	otherwise  what happens without it, where no value says so
//	form       the name of the type that has the tags, where the file has another form
//	require    of an embedded struct: which of its fields is required
//	flag       the flag, and its shorthand
//	live       "true": a service takes a change of it without a restart
//	doc        what it is, in words that the help of a flag can use, too
//
// A value whose Go type is a Setter reads its text itself.
package fields
