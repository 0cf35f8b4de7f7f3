// Package plan is what an experiment asks for: its types and rules. It reads no files and starts
// nothing.
//
// Each field is declared once, by the tags of the Go field that holds it (see package fields).
// Package planfile reads a plan from a file, and Validate checks it against the tags; the JSON Schema,
// docs/reference/experiment.md and the flags of quick loads are made from them. To add a field is to add a Go
// field with its tags, and to use it.
//
// Rules across fields, such as which exclude each other, are in Validate. types.go is the plan. A
// protocol is one file, such as tcp.go, and an entry of protocols; package protocols makes its load.
package plan
