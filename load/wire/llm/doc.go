// Package llm is the client's side of answers that a language model streams: OpenAI's API (chat
// completions, completions, responses) as server-sent events over HTTP/1.1, without I/O.
//
// A client counts the pieces of an answer that hold something of it: text, reasoning, a refusal, or
// arguments of a tool. It takes the number of tokens from the server's account of usage, if there is
// one: a piece may hold several. It keeps no text, unless a request asks for the beginning of it
// (Expect.Keep).
//
// An answer is good if it is complete: it ended as its API has it, and the server did not
// say that something went wrong.
package llm
