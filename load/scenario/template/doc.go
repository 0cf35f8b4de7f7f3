// Package template is the language of texts that vary: templates, and conditions of the same
// expressions. It knows neither steps nor requests.
//
// Compile and CompileCondition make a Template or a Condition of a text, once. Neither
// changes afterwards, and users share them. Each user renders them with a State of its own.
// Rendering does not allocate once its buffers have grown, but for tokens.
//
// # Templates
//
// A template is text in which {{ }} holds one expression. An expression is a variable, a string, or a
// function of expressions. A string has single or double quotes, and a backslash escapes quotes and
// backslashes:
//
//	"{{"                        these braces themselves
//	name                        a variable: given from the start, extracted, or a column of data
//	users.name                  the column of one of several feeds that have it
//	random_int(1, 100)          a function: Functions returns all
//
// Nothing is encoded unless a function says so.
//
// # Conditions
//
// A condition compares expressions as texts or as numbers, or asks whether a variable's text is not
// empty. Comparisons are joined by and, or, not and parentheses:
//
//	status == "vip" and not (count > 3 or defined(token))
//
// == and != compare texts, unless one side is a number; the others compare numbers. A text that is no
// number is unequal to each number, and neither smaller nor larger.
package template
