// Package expr evaluates the conditions and fills the texts of workflow definitions.
//
// A condition is CEL (cel.dev) with the standard functions and macros, and lowerAscii, upperAscii, trim, substring, charAt, split, format,
// join and replace of texts. Its variables are what came into the node: the members of an object by name, and
//
//	input  all that came in
//	row    one row of it, or all of it where it has no rows
//	steps  what the nodes before gave out, by node id: steps.fetch.total
//	run    run_id, workflow_tag, …
//
// A name that is not one of these four may be any other; whether it is there shows when a run gets to the node. JSON has one kind of
// number, so price * 2 < 900.5 and total / 3 work for whole numbers and others alike.
//
// What came in has rows when it is a list, or an object with the list "rows". Then a condition over names of members or over row is
// evaluated for each row: it holds when any row satisfies it, and those rows go on along "true"; when none does, all go on along "false". A
// condition over input, steps and run alone is evaluated once, and all goes on along its answer.
//
// What compares a member that a row does not have, or has as null, is not true of it, and not false either: so a row without a price
// satisfies neither price < 500 nor !(price < 500), but price < 500 || seats > 3 when it has the seats.
//
// A text has expressions in {{ }}. With rows, names are members of the first one. What is missing is left out; in a URL it is an error.
package expr
