// Package report prints a judged run: as text for a terminal, as Markdown for a
// document, as JSON for programs, as JUnit's XML for a build server, in the Go
// benchmark format for benchstat, and as .hgrm for HdrHistogram's plotter. It needs
// nothing but what a run folder holds, so it works on a folder that somebody sent.
//
// Text says first whether the figures may be trusted, then what the A/A control
// found, then the verdict, and then the figures behind it. A figure stands with its
// interval, or a footnote says why it has none. Markdown says the same in another
// order: the verdict first.
//
// Whatever a run holds of other people's text (names, questions, messages) is
// printed without its control characters, so that no report can drive a
// terminal, and escaped as the form demands.
//
// To read the source, begin with text.go and markdown.go, which say what comes in
// which order; each part is in a file of its own. A part is made once for both:
// see layout.go.
package report
