// Package html writes a judged run as one HTML file that can be mailed. The file holds
// its own script, style and data, and makes no requests.
//
// Write does all of it. Make condenses a run folder to a Document, the data that the page
// shows; scripts/types writes its types in TypeScript, to web/src/document.ts. The page
// itself turns this data into text, because its reader chooses the language. Without
// scripts the page is the report as text.
//
// Text in a run that other people wrote (names, URLs, messages, functions) is only data
// to the page: it reaches a reader's browser compressed, and is only ever shown as text.
package html
