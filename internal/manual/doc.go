// Package manual runs the commands that the pages in docs show, and compares what they print with the
// page. It has tests only.
//
// A fenced block of the language console holds lines that begin with "$ ", each with its output below.
// All commands of a page run in one shell, in order. The shell has a folder of the page's own, and dyno
// on PATH. These are the rules:
//
//   - A number matches any number, with its unit and its marks. A run of spaces matches any run of spaces.
//   - A line … matches any number of lines, and … in a line any text. All else is equal.
//   - Output that a page does not show is not compared.
//   - The last line [exit code N] says how a command ends. Without it, the exit code is 0.
//   - A command whose line ends in \ goes on in the next line.
//   - A command that ends in & runs until the end of the page. The next command waits for the output that the
//     page shows of it, and without such output for the first line that it prints.
//   - A fenced block with a title is a file of that name, which later commands find in the folder.
//   - A block with notest="REASON" is not run.
//   - If dyno prints that the machine disturbed a load, the rest of the page is run, and its output not compared.
//
// A translation (NAME.zh.md) with the same commands and output as the page (NAME.md) is not run again.
package manual
