// Package report prints a judged run: as text for a terminal, as Markdown for a document,
// as JSON for programs, as JUnit's XML for a build server, in the Go benchmark format for
// benchstat, and as .hgrm for HdrHistogram's plotter. It needs only what a run folder
// holds, so it works on a folder that somebody sent.
//
// Text says first whether the figures may be trusted, then what the A/A control found,
// then the verdict, and then its figures. A figure has its interval, or a
// footnote says why it has none. Markdown has the same parts in another order: the
// verdict first.
//
// Text in a run that other people wrote (names, questions, messages) is printed without
// its control characters, so that no report can drive a terminal. It is escaped as each
// format demands.
//
// To read the source, begin with text.go and markdown.go, which put the parts in order.
// Each part is in a file of its own, and is made once for both formats: see layout.go.
package report
