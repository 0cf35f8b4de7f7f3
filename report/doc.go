// Package report prints all of a judged run, for a terminal and as a document in Markdown. It
// needs only what a run folder holds, so it works on a folder from another machine.
//
// Text says first whether the figures may be trusted. The findings of the A/A control, the
// verdict and its figures follow. A figure has its interval, or a footnote says why it has
// none. Markdown begins with the verdict. Explanations say why variants differ, function by
// function.
//
// Other people wrote the names, questions and messages in a run. They are printed without
// control characters, so that no report can drive a terminal. They are escaped as each
// format demands.
//
// To read the source, begin with text.go and markdown.go, which put the parts in order.
// Each part is in a file of its own, and is made once for both formats: see package layout.
// Packages judged and figure know what is printed of a run, and how figures are written.
// Other forms of a report are in packages answer, short, export, changes and html; the tests
// of this package hold all of them to whole outputs.
package report
