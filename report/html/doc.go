// Package html writes a judged run as one HTML file that can be mailed: it holds its
// own script, style and data, and makes no request to anywhere.
//
// Write is the whole of it. Make condenses a run folder to a Document, which is what
// the page shows: scripts/types writes them down for it, in web/src/document.ts. The page does the rest,
// because its reader chooses the language. Without scripts the page is the report as
// text.
//
// Whatever a run holds of other people's text (names, URLs, messages, functions) is
// data to the page: it reaches a reader's browser compressed, and is only ever shown as
// text.
package html
