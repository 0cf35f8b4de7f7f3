// Package differential compares what dyno import makes of a file with what the file's own tool sends. It has tests
// only.
//
// The tool and a run of the experiment load the same recording server. Each request is compared: method, target,
// header fields and body. A difference is a fault, unless a line of the import's list names it.
//
// The inputs are in testdata/FORMAT/. A file NAME has up to two companions:
//
//   - NAME.sent is what the tool sent. go test -record writes it, where the tool is in PATH. Tools that are always
//     there, such as curl, have none: they run in each test.
//   - NAME.differs is what the experiment sends in another way. It begins with lines "# TEXT", which the import lists,
//     and ends with the differences (-update rewrites those): "-" is the tool's, "+" the experiment's.
//
// Files whose names begin with "part-" are read by others. The server's address in all files is
// 127.0.0.1:18080; the tool gets copies of the files with the address of the real server.
// generated.sent has the tool's requests for the fifty generated inputs. They come from a fixed seed.
//
// Recordings and logs contain the requests themselves: for those, tests generate requests, and the file
// from them.
//
// To add a format, write a file like vegeta_test.go: a tool, a test that calls compareFiles, and a test that calls
// compareGenerated with a function that makes inputs. -short takes a dozen inputs, and checks no recording against a tool in PATH;
// scripts/nightly.sh imports installs the tools and checks them.
package differential
